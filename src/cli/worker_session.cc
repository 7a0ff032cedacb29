#include "cli/worker_session.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/daemon.h"
#include "cli/worker_files.h"
#include "model/message.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/time.h"
#include "rota/version.h"

namespace rota::cli {

namespace {

Result<std::string> make_temporary_folder() {
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "rota-files-XXXXXX").string();
  if (error || ::mkdtemp(path.data()) == nullptr) {
    return Error{ErrorCode::kIoError,
                 "a temporary folder for files could not be created; give one with --files-cache DIR"};
  }
  return path;
}

// Until the worker has left and this task is cancelled.
void serve_signals(DaemonSignals& signals, Worker& worker, Duration drain) {
  bool stopping = false;
  fiber::Deadline limit;  // When running tasks are stopped.
  for (;;) {
    const Result<DaemonSignal> signal = signals.next(limit);
    if (signal.code() == ErrorCode::kDeadlineExceeded) {
      ROTA_LOG(kWarn, "stopping the tasks that still run; the host gives them to other workers", {"drain", drain});
      worker.stop_tasks();
      limit = {};
      continue;
    }
    if (!signal.ok()) return;
    if (*signal == DaemonSignal::kReload) {
      (void)reopen_log();
      ROTA_LOG(kInfo, "the log was reopened; the settings of a worker are read when it starts");
    } else if (!std::exchange(stopping, true)) {
      ROTA_LOG(kInfo, "leaving: running tasks may end", {"drain", drain}, {"again", "a second signal stops them"});
      notify_service_manager("STOPPING=1\nSTATUS=leaving");
      worker.stop();
      limit = fiber::Deadline(drain);
    } else {
      ROTA_LOG(kInfo, "stopping the tasks that run", {"again", "a third signal exits at once"});
      worker.stop_tasks();
    }
  }
}

}  // namespace

Result<void> run_worker(const WorkerSetup& setup) {
  if (!setup.options.directory.empty()) {
    std::error_code error;
    std::filesystem::create_directories(setup.options.directory, error);
    if (error) {
      return Error{ErrorCode::kIoError, "the folder '" + setup.options.directory + "' could not be created: " +
                                            error.message() + "; choose another one with --dir DIR"};
    }
  }
  ROTA_TRY(start_log(setup.log));
  // One thread, which sleeps when it is idle: the CPUs are for the programs.
  ROTA_TRY_ASSIGN(const std::unique_ptr<fiber::Runtime> runtime,
                  fiber::Runtime::create({.worker_count = 1, .spin_count = 0}));
  ROTA_TRY_ASSIGN(const std::unique_ptr<DaemonSignals> signals, DaemonSignals::install(3));
  Result<void> outcome = runtime->run([&] {
    Result<void> joined;
    std::optional<CurrentIdentity> identity;
    WorkerOptions options = setup.options;
    std::string temporary;  // The cache of files, if no folder was given.
    if (setup.identity) {
      identity.emplace(*setup.identity, setup.identity_file);
      options.secrets.host = [&identity](const SecretRequest& request) { return fetch_secret(*identity, request); };
      if (options.files.directory.empty()) {
        Result<std::shared_ptr<HostStore>> store = HostStore::open(*identity);
        if (!store.ok()) return Result<void>(std::move(store).take_error());
        use_host_store(options.files, *store);
        if (options.files.cache_directory.empty()) {
          const Result<std::string> made = make_temporary_folder();
          if (!made.ok()) return Result<void>(made.error());
          options.files.cache_directory = temporary = *made;
        }
      }
    }
    Worker worker(std::move(options));
    fiber::with_scope([&](fiber::Nursery& nursery) {
      ROTA_LOG(kInfo, "worker started", {"version", library_version_text()}, {"worker", worker.spec().name},
               {"resources", model::to_text(worker.spec().resources)});
      fiber::Task<void> watching = nursery.spawn([&] { serve_signals(*signals, worker, setup.drain); });
      fiber::Task<void> keeping = nursery.spawn([&] {
        if (identity) keep_identity(*identity);
      });
      notify_service_manager("READY=1\nSTATUS=serving");
      JoinOptions join = setup.join;
      if (identity) {
        join.new_redis = [&identity, address = setup.join.redis]() -> Result<std::string> {
          ROTA_TRY(identity->renew(true));
          return identity->get().redis_url(address);
        };
      }
      joined = worker.join(join);
      keeping.cancel();
      watching.cancel();
    });
    if (!temporary.empty()) {
      std::error_code none;
      std::filesystem::remove_all(temporary, none);
    }
    return joined;
  });
  if (outcome.ok()) {
    ROTA_LOG(kInfo, "worker left");
  } else {
    ROTA_LOG(kError, "worker stopped", {"why", outcome.error().message});
  }
  stop_log();
  return outcome;
}

}  // namespace rota::cli

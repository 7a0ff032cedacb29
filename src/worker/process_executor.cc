#include "worker/process_executor.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "worker/cgroup.h"

namespace rota::worker {

namespace {

// How many programs can have their descriptors open at once: three pipes, a socket, an epoll descriptor and a log each,
// and a few more while a program starts.
std::uint64_t programs_at_once(std::uint64_t open_files) {
  constexpr std::uint64_t kPerProgram = 10;
  constexpr std::uint64_t kOthers = 128;  // The ledger, sockets, files of the cache.
  constexpr std::uint64_t kLeast = 4;
  return open_files < kOthers + kLeast * kPerProgram ? kLeast : (open_files - kOthers) / kPerProgram;
}

}  // namespace

Result<std::unique_ptr<ProcessExecutor>> ProcessExecutor::make(const Options& options) {
  std::unique_ptr<ProcessExecutor> executor(new ProcessExecutor());
  ProgramPlace& place = executor->place_;
  std::error_code error;
  if (options.directory.empty()) {
    std::string name = (std::filesystem::temp_directory_path(error) / "rota-worker-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      return Error{ErrorCode::kIoError, "cannot make a temporary directory for the output of programs: " +
                                            std::generic_category().message(errno)};
    }
    place.directory = name;
    executor->own_directory_ = true;
  } else {
    std::filesystem::create_directories(options.directory, error);
    if (!error) place.directory = std::filesystem::absolute(options.directory, error).string();
    if (error) {
      return Error{ErrorCode::kIoError, "cannot make the directory '" + printable(options.directory, 200) +
                                            "' for the output of programs: " + error.message()};
    }
  }
  for (char** entry = environ; *entry != nullptr; ++entry) place.environment.emplace_back(*entry);
  place.grace = options.grace;
  place.stream_output = options.stream_output;
  place.whole_output = options.whole_output;
  place.has_devices = options.has_devices;
  executor->secrets_ = std::make_unique<Secrets>(options.secrets);
  place.secrets = executor->secrets_.get();
  ROTA_TRY_ASSIGN(place.cgroup, usable_cgroup(options.cgroup));
  ROTA_LOG(kInfo, "limits of programs are enforced", {"by", place.cgroup.empty() ? "rlimits" : "cgroup"},
           {"cgroup", place.cgroup});
  place.room_permits = programs_at_once(raise_open_files());
  executor->room_ = std::make_unique<fiber::Semaphore>(place.room_permits);
  place.room = executor->room_.get();
  executor->guards_ = std::make_unique<GuardPool>();
  return executor;
}

ProcessExecutor::~ProcessExecutor() {
  guards_.reset();
  std::error_code ignored;
  if (own_directory_) std::filesystem::remove_all(place_.directory, ignored);
}

std::unique_ptr<ProgramHandle> ProcessExecutor::start(ProgramRequest request, ProgramEvents& events) {
  return std::make_unique<ProgramRun>(*guards_, place_, std::move(request), events);
}

void ProcessExecutor::prepare() {
  // If this fails, the first program fails with the reason.
  (void)guards_->start_one();
}

}  // namespace rota::worker

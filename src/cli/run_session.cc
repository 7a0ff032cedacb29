#include "cli/run_session.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "bus/local.h"
#include "cli/format.h"
#include "cli/run_watch.h"
#include "fleet/state.h"
#include "host/host.h"
#include "ledger/disk_ledger.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/time.h"
#include "rota/worker.h"

namespace rota::cli {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLookEvery{50};  // How often signals are looked at and the view is drawn again.

volatile std::sig_atomic_t signals_seen = 0;

extern "C" void on_signal(int /*number*/) {
  signals_seen = signals_seen + 1;
  // A second signal ends the process at once. The guards of the running programs kill them when this process has ended.
  if (signals_seen > 1) ::_exit(exit_status(ErrorCode::kCancelled));
}

// Counts SIGINT and SIGTERM during its lifetime.
class SignalCount {
 public:
  SignalCount() {
    signals_seen = 0;
    struct sigaction action{};
    action.sa_handler = on_signal;
    ::sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  ~SignalCount() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }
  SignalCount(const SignalCount&) = delete;
  SignalCount& operator=(const SignalCount&) = delete;

 private:
  struct sigaction interrupt_{};
  struct sigaction terminate_{};
};

// What the ledger knows about earlier runs of this file.
struct Past {
  std::vector<model::WorkflowId> others{};  // Unfinished workflows of another version of the file.
  model::WorkflowId latest{};               // The latest workflow of this version of the file.
  fleet::Outcome outcome = fleet::Outcome::kRunning;
  std::size_t tasks = 0;
  std::size_t succeeded = 0;
  std::uint64_t runs = 0;  // How often this version of the file was run.
  bool newest = false;     // No other version was run since.
};

// A workflow's key is the hash of the file's content, '#', and the number of the run.
Past past_of(const fleet::State& state, const std::string& content) {
  Past past;
  state.each_workflow([&](const fleet::Workflow& workflow) {
    if (!workflow.key.starts_with(content + "#")) {
      past.newest = false;
      if (workflow.outcome == fleet::Outcome::kRunning) past.others.push_back(workflow.id);
      return;
    }
    past.latest = workflow.id;
    past.newest = true;
    past.outcome = workflow.outcome;
    past.runs = std::strtoull(workflow.key.c_str() + content.size() + 1, nullptr, 10);
    past.tasks = workflow.tasks.size();
    past.succeeded = 0;
    for (const fleet::Task& task : workflow.tasks) {
      past.succeeded += task.state == graph::TaskState::kSucceeded ? 1U : 0U;
    }
  });
  return past;
}

std::string key_of(const std::string& content, std::uint64_t run) { return content + "#" + std::to_string(run); }

// Whether the user was told how the run with this key ended.
bool is_told(const std::string& told_file, const std::string& key) {
  std::ifstream file(told_file);
  std::string told;
  return std::getline(file, told) && told == key;
}

// Adds what the user can do if the state folder cannot be used.
Error with_way_out(Error error, const std::string& state) {
  switch (error.code) {
    case ErrorCode::kCorrupt:
    case ErrorCode::kDataLoss:
    case ErrorCode::kUnsupported:
    case ErrorCode::kInvalidArgument:
      error.message += "; to start from scratch, move '" + state + "' away or choose another folder with --state DIR";
      break;
    case ErrorCode::kPermissionDenied:
      error.message += "; choose a folder that you may write to with --state DIR";
      break;
    default:
      break;
  }
  return error;
}

std::int64_t wall_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// What the workers cost in this time.
std::int64_t cost_of(const std::vector<model::WorkerSpec>& workers, std::int64_t elapsed_ns) {
  std::int64_t cost = 0;
  for (const model::WorkerSpec& spec : workers) {
    // In milliseconds: the product does not overflow for a year at 1,000 dollars per hour.
    cost += spec.cost_microdollars_per_hour * (elapsed_ns / 1'000'000) / (3600 * 1000LL);
  }
  return cost;
}

class Session {
 public:
  Session(RunSetup& setup, ledger::Ledger& ledger, std::unique_ptr<RunView> view)
      : setup_(setup), ledger_(ledger), watch_(std::move(view)) {}

  Result<RunEnd> run();

 private:
  Result<Past> read_past();
  // Cancels what an older version of the file left, and decides whether an earlier run is resumed.
  Result<void> begin(const Past& past);
  Result<RunReport> read_report();
  // Runs the workflow, or only reports its success if the user was not told of it.
  Result<void> run_workflow(RunEnd& end, fiber::Nursery& nursery);
  // Ends the workers and the host, and returns the host's error if it has one, otherwise `outcome`.
  Result<void> stop_all(Result<void> outcome);
  // Waits until the workflow has ended or the host has failed; cancels the workflow at a signal.
  Result<void> wait_for_end();
  void start_worker(const model::WorkerSpec& spec, fiber::Nursery& nursery);
  // Returns when the submission is durable; with an error if a worker ends or a signal arrives before that.
  Result<void> submit(const std::string& key, fiber::Nursery& nursery);
  // Fails if a worker has ended although it was not stopped.
  Result<void> check_workers();

  RunSetup& setup_;
  ledger::Ledger& ledger_;
  bus::LocalBus bus_;
  RunWatch watch_;
  std::unique_ptr<host::Host> host_;
  std::string logs_;
  std::string told_file_;
  struct RunningWorker {
    std::unique_ptr<bus::WorkerEnd> end;
    std::unique_ptr<Worker> worker;
    fiber::Task<Result<void>> task;
  };
  std::vector<RunningWorker> workers_;
  fiber::Task<Result<void>> hosting_;
  const std::int64_t begin_wall_ns_ = wall_now_ns();
};

Result<Past> Session::read_past() {
  auto past = std::make_shared<Past>();
  // This need not be durable: what is decided by it comes later in the log.
  ROTA_TRY(host_->peek(
      [past, content = setup_.workflow.content](const fleet::State& state) { *past = past_of(state, content); }));
  return std::move(*past);
}

Result<RunReport> Session::read_report() {
  auto report = std::make_shared<RunReport>();
  ROTA_TRY(host_->inspect([report, id = watch_.workflow()](const fleet::State& state) {
    if (state.find(id) != nullptr) *report = report_of(state, id, state.time_ns());
  }));
  return std::move(*report);
}

Result<void> Session::begin(const Past& past) {
  for (const model::WorkflowId other : past.others) {
    watch_.say("cancelling " + other.to_string() + ": an older version of this file left it unfinished");
    ROTA_TRY(host_->execute(fleet::Control{fleet::Action::kCancel, other, {}}));
  }
  const bool known = !past.latest.is_none();
  if (known && setup_.fresh && past.outcome == fleet::Outcome::kRunning) {
    ROTA_TRY(host_->execute(fleet::Control{fleet::Action::kCancel, past.latest, {}}));
  }
  if (!known || setup_.fresh) return {};
  if (past.outcome == fleet::Outcome::kSucceeded) {
    // If another version of the file was run since, the user knows how this one ended.
    if (!past.newest || is_told(told_file_, key_of(setup_.workflow.content, past.runs))) return {};
    watch_.resume(past.latest, past.succeeded);
    watch_.say(past.latest.to_string() +
               " had succeeded, but its process was killed before it could say so; nothing is run again");
    return {};
  }
  watch_.resume(past.latest, past.succeeded);
  watch_.say("resuming " + past.latest.to_string() + ": " + std::to_string(past.succeeded) + " of " +
             counted(past.tasks, "task") + " already done");
  return {};
}

void Session::start_worker(const model::WorkerSpec& spec, fiber::Nursery& nursery) {
  RunningWorker& running = workers_.emplace_back();
  WorkerOptions options;
  options.spec = spec;
  options.detect_resources = false;  // A fleet file may describe other machines.
  options.directory = logs_;
  options.expect_programs = true;
  options.cache_directory = setup_.state + "/cache";
  options.cache_reuse = setup_.cache;
  options.stream_output = setup_.output;
  running.worker = std::make_unique<Worker>(std::move(options));
  running.end = bus_.connect(spec.name).value();  // The names in a fleet file are unique.
  running.task = nursery.spawn([worker = running.worker.get(), end = running.end.get()] { return worker->run(*end); });
}

Result<void> Session::check_workers() {
  for (RunningWorker& running : workers_) {
    if (!running.task.is_completed()) continue;
    ROTA_TRY(running.task.get());
    return Error{ErrorCode::kInternal, "a worker has ended although it was not stopped"};
  }
  return {};
}

Result<void> Session::submit(const std::string& key, fiber::Nursery& nursery) {
  fiber::Task<Result<fleet::Events>> submitting =
      nursery.spawn([this, &key] { return host_->execute(fleet::SubmitWorkflow{key, setup_.workflow.spec}); });
  const auto look = [this]() -> Result<void> {
    if (signals_seen > 0) return ErrorCode::kCancelled;
    return check_workers();
  };
  while (!submitting.wait_for(kLookEvery)) {
    if (Result<void> going = look(); !going.ok()) {
      submitting.cancel();
      submitting.wait();
      return going;
    }
  }
  ROTA_TRY(submitting.get());
  return {};
}

Result<void> Session::wait_for_end() {
  bool cancelled = false;
  while (!watch_.ended().wait_for(kLookEvery)) {
    watch_.refresh();
    if (hosting_.is_completed()) return {};  // stop_all() returns its error.
    ROTA_TRY(check_workers());
    if (signals_seen > 0 && !std::exchange(cancelled, true)) {
      watch_.say("cancelling: running tasks get TERM, then KILL; a second Ctrl-C exits at once");
      if (Result<fleet::Events> done = host_->execute(fleet::Control{fleet::Action::kCancel, watch_.workflow(), {}});
          !done.ok() && done.code() != ErrorCode::kFailedPrecondition) {
        return done.error();
      }
    }
  }
  return {};
}

Result<void> Session::run_workflow(RunEnd& end, fiber::Nursery& nursery) {
  ROTA_TRY_ASSIGN(const Past past, read_past());
  const std::string key = key_of(setup_.workflow.content, past.runs + 1);
  // Nothing was submitted since read_past(), and no worker is connected yet: the watch misses nothing.
  watch_.watch(task_names(setup_.workflow.spec), key);
  ROTA_TRY(begin(past));
  const bool resumed = !watch_.workflow().is_none();
  end.key = resumed ? key_of(setup_.workflow.content, past.runs) : key;
  if (!resumed || past.outcome != fleet::Outcome::kSucceeded) {
    for (const model::WorkerSpec& spec : setup_.workers) start_worker(spec, nursery);
    if (!resumed) {
      ROTA_TRY(submit(key, nursery));
    } else if (past.outcome != fleet::Outcome::kRunning) {
      ROTA_TRY(host_->execute(fleet::Control{fleet::Action::kRetry, past.latest, {}}));
    }
    ROTA_TRY(wait_for_end());
  }
  ROTA_TRY_ASSIGN(end.report, read_report());
  // Of a run that was resumed, the report is about the time since then.
  if (resumed && past.outcome != fleet::Outcome::kSucceeded) {
    end.report.begin_ns = std::max(end.report.begin_ns, begin_wall_ns_);
  }
  return {};
}

Result<void> Session::stop_all(Result<void> outcome) {
  watch_.finish();
  for (RunningWorker& running : workers_) {
    if (outcome.ok()) {
      running.worker->stop();
    } else {
      running.task.cancel();
    }
  }
  for (RunningWorker& running : workers_) running.task.wait();
  host_->stop();
  // The host's own error says more than the error of somebody who found it closed.
  if (Result<void> hosted = hosting_.get(); !hosted.ok()) outcome = std::move(hosted);
  workers_.clear();
  host_.reset();
  return outcome;
}

Result<RunEnd> Session::run() {
  logs_ = setup_.state + "/logs";
  told_file_ = setup_.state + "/told";
  host::HostOptions options;
  options.policy = setup_.policy;
  options.ends_with_host = [](const model::WorkerSpec&) { return true; };
  options.await_workers = setup_.workers.size();
  for (const model::WorkerSpec& spec : setup_.workers) options.registration_order.push_back(spec.name);

  RunEnd end;
  end.logs = logs_;
  end.told_file = told_file_;
  Result<void> outcome;
  fiber::with_scope([&](fiber::Nursery& nursery) {
    host_ = std::make_unique<host::Host>(ledger_, bus_.host(), std::move(options), &watch_);
    hosting_ = nursery.spawn([this] { return host_->run(); });
    outcome = stop_all(run_workflow(end, nursery));
  });
  ROTA_TRY(std::move(outcome));
  if (setup_.workers_have_a_price) end.report.cost_microdollars = cost_of(setup_.workers, end.report.elapsed_ns());
  return end;
}

}  // namespace

void confirm(const RunEnd& end) {
  // If this is lost or cannot be written, the next run reports the same success again and runs nothing.
  std::ofstream(end.told_file) << end.key << "\n";
}

Result<RunEnd> run_session(RunSetup setup, std::unique_ptr<RunView> view) {
  std::error_code error;
  std::filesystem::create_directories(setup.state + "/logs", error);
  if (error) {
    const bool denied = error == std::errc::permission_denied || error == std::errc::read_only_file_system;
    return Error{denied ? ErrorCode::kPermissionDenied : ErrorCode::kIoError,
                 "the state folder '" + setup.state + "' could not be created: " + error.message() +
                     "; choose another one with --state DIR"};
  }
  // One thread, which sleeps when it is idle: the CPUs are for the programs. The runtime is created before any other
  // thread: in a process with several threads, Linux takes milliseconds to register it for memory barriers.
  ROTA_TRY_ASSIGN(const std::unique_ptr<fiber::Runtime> runtime,
                  fiber::Runtime::create({.worker_count = 1, .spin_count = 0}));
  Result<std::unique_ptr<ledger::DiskLedger>> opened =
      ledger::DiskLedger::open({.path = setup.state + "/ledger.db", .durability = setup.durability});
  if (!opened.ok()) return with_way_out(std::move(opened).take_error(), setup.state);
  const std::unique_ptr<ledger::DiskLedger> ledger = std::move(*opened);
  const SignalCount counting;
  Result<RunEnd> end = runtime->run([&] { return Session(setup, *ledger, std::move(view)).run(); });
  ROTA_TRY(ledger->close());
  return end;
}

}  // namespace rota::cli

#include "cli/run_session.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "bus/local.h"
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

constexpr milliseconds kLookEvery{50};  // For signals, and to draw again.

volatile std::sig_atomic_t signals_seen = 0;

extern "C" void on_signal(int /*number*/) {
  signals_seen = signals_seen + 1;
  // Whoever asks twice does not want to wait. The guards of running commands kill them when this process is gone.
  if (signals_seen > 1) ::_exit(exit_status(ErrorCode::kCancelled));
}

// While it lives, SIGINT and SIGTERM are counted.
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

// What the ledger knows of this file.
struct Past {
  std::vector<model::WorkflowId> others{};  // Unfinished, and of another text.
  model::WorkflowId latest{};               // Of this text.
  fleet::Outcome outcome = fleet::Outcome::kRunning;
  std::size_t succeeded = 0;
  std::uint64_t runs = 0;  // The number of the latest.
  bool newest = false;     // Nothing else was run since.
};

// A key is the content's hash, '#', the number of the run.
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
    past.succeeded = 0;
    for (const fleet::Task& task : workflow.tasks)
      past.succeeded += task.state == graph::TaskState::kSucceeded ? 1U : 0U;
  });
  return past;
}

std::string key_of(const std::string& content, std::uint64_t run) { return content + "#" + std::to_string(run); }

// Was the user told how the run of this key ended?
bool is_told(const std::string& told_file, const std::string& key) {
  std::ifstream file(told_file);
  std::string told;
  return std::getline(file, told) && told == key;
}

// What somebody can do whose state cannot be used.
Error with_way_out(Error error, const std::string& state) {
  switch (error.code) {
    case ErrorCode::kCorrupt:
    case ErrorCode::kDataLoss:
    case ErrorCode::kUnsupported:
    case ErrorCode::kInvalidArgument:
      error.message += "; to start anew, move '" + state + "' away or name another place with --state DIR";
      break;
    case ErrorCode::kPermissionDenied:
      error.message += "; name a place that you may write to with --state DIR";
      break;
    default:
      break;
  }
  return error;
}

// Until there is a view, nobody looks.
struct Relay final : host::HostObserver {
  sync::Atomic<RunView*> view{nullptr};

  void on_record(const fleet::Record& record) override {
    if (RunView* to = view.load()) to->on_record(record);
  }
  void on_report(const std::string& worker, const bus::Report& report) override {
    if (RunView* to = view.load()) to->on_report(worker, report);
  }
};

class Session {
 public:
  Session(RunSetup& setup, ledger::Ledger& ledger) : setup_(setup), ledger_(ledger) {}

  Result<RunEnd> run();

 private:
  Result<Past> look_back();
  Result<void> begin(const Past& past);
  Result<RunReport> look();
  // Until the workflow has ended, the host has failed, or somebody does not want it any more.
  Result<void> watch();
  void start_worker(const model::WorkerSpec& spec, fiber::Nursery& nursery);
  // Returns when it is durable; not if a worker ends before that, or somebody does not want it any more.
  Result<void> submit(const std::string& key, fiber::Nursery& nursery);
  // Did a worker end, though nobody told it to?
  Result<void> check_workers();

  RunSetup& setup_;
  ledger::Ledger& ledger_;
  bus::LocalBus bus_;
  Relay relay_;
  std::unique_ptr<host::Host> host_;
  std::unique_ptr<RunView> view_;
  std::string logs_;
  std::string told_file_;
  struct Hand {
    std::unique_ptr<bus::WorkerEnd> end;
    std::unique_ptr<Worker> worker;
    fiber::Task<Result<void>> task;
  };
  std::vector<Hand> hands_;
  fiber::Task<Result<void>> hosting_;
};

Result<Past> Session::look_back() {
  auto past = std::make_shared<Past>();
  // Nobody is told of what this sees; what follows from it comes behind it in the log.
  ROTA_TRY(host_->peek(
      [past, content = setup_.workflow.content](const fleet::State& state) { *past = past_of(state, content); }));
  return std::move(*past);
}

Result<RunReport> Session::look() {
  auto report = std::make_shared<RunReport>();
  ROTA_TRY(host_->inspect([report, id = view_->workflow()](const fleet::State& state) {
    if (state.find(id) != nullptr) *report = report_of(state, id);
  }));
  return std::move(*report);
}

Result<void> Session::begin(const Past& past) {
  for (const model::WorkflowId other : past.others) {
    view_->say("an older text of this file left " + other.to_string() + " unfinished; it is cancelled");
    ROTA_TRY(host_->execute(fleet::Control{fleet::Action::kCancel, other, {}}));
  }
  const bool known = !past.latest.is_none();
  if (known && setup_.fresh && past.outcome == fleet::Outcome::kRunning) {
    ROTA_TRY(host_->execute(fleet::Control{fleet::Action::kCancel, past.latest, {}}));
  }
  if (!known || setup_.fresh) return {};
  if (past.outcome == fleet::Outcome::kSucceeded) {
    // After a run of another text the user knows how this one ended.
    if (!past.newest || is_told(told_file_, key_of(setup_.workflow.content, past.runs))) return {};
    view_->adopt(past.latest, past.succeeded);
    view_->say(past.latest.to_string() + " had succeeded before it was killed, and nobody was told; nothing is run");
    return {};
  }
  view_->adopt(past.latest, past.succeeded);
  view_->say("goes on with " + past.latest.to_string() + ": " + std::to_string(past.succeeded) + " tasks are done");
  return {};
}

void Session::start_worker(const model::WorkerSpec& spec, fiber::Nursery& nursery) {
  Hand& hand = hands_.emplace_back();
  WorkerOptions options;
  options.hardware =
      Hardware{static_cast<std::uint64_t>(spec.cpu_millis), static_cast<std::uint64_t>(spec.memory_bytes),
               static_cast<std::uint32_t>(spec.gpus.size())};
  options.directory = logs_;
  options.expect_commands = true;
  options.cache_directory = setup_.state + "/cache";
  options.cache_reuse = setup_.cache;
  options.stream_output = setup_.output;
  hand.worker = std::make_unique<Worker>(std::move(options));
  hand.end = bus_.connect(spec.name).value();  // The names of a fleet's file are unique.
  hand.task = nursery.spawn([worker = hand.worker.get(), end = hand.end.get()] { return worker->run(*end); });
}

Result<void> Session::check_workers() {
  for (Hand& hand : hands_) {
    if (!hand.task.is_completed()) continue;
    ROTA_TRY(hand.task.get());
    return Error{ErrorCode::kInternal, "a worker has ended by itself"};
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

Result<void> Session::watch() {
  bool cancelled = false;
  while (!view_->ended().wait_for(kLookEvery)) {
    view_->refresh();
    if (hosting_.is_completed()) return {};  // Its error is the end of it.
    ROTA_TRY(check_workers());
    if (signals_seen > 0 && !std::exchange(cancelled, true)) {
      view_->say("cancelling: running tasks get TERM, then KILL; a second time ends at once");
      if (Result<fleet::Events> done = host_->execute(fleet::Control{fleet::Action::kCancel, view_->workflow(), {}});
          !done.ok() && done.code() != ErrorCode::kFailedPrecondition) {
        return done.error();
      }
    }
  }
  return {};
}

Result<RunEnd> Session::run() {
  logs_ = setup_.state + "/logs";
  told_file_ = setup_.state + "/told";
  host::HostOptions options;
  options.policy = setup_.policy;
  options.workers_end_with_host = true;
  options.await_workers = setup_.workers.size();
  options.compact = false;  // `rota explain` and `rota replay` want all of it.
  for (const model::WorkerSpec& spec : setup_.workers) options.workers.emplace(spec.name, spec);

  // The key's number is known only after a look at the ledger; so the view is made when nothing has happened yet.
  const auto names = task_names(setup_.workflow.spec);
  RunEnd end;
  end.logs = logs_;
  end.told_file = told_file_;
  Result<void> outcome;
  fiber::with_scope([&](fiber::Nursery& nursery) {
    host_ = std::make_unique<host::Host>(ledger_, bus_.host(), std::move(options), &relay_);
    hosting_ = nursery.spawn([this] { return host_->run(); });
    outcome = [&]() -> Result<void> {
      ROTA_TRY_ASSIGN(const Past past, look_back());
      const std::string key = key_of(setup_.workflow.content, past.runs + 1);
      view_ = std::make_unique<RunView>(setup_.style, stdout, names, key);
      // The host is at rest: nothing was submitted since the look, and no worker is there.
      relay_.view.store(view_.get());
      ROTA_TRY(begin(past));
      const bool goes_on = !view_->workflow().is_none();
      end.key = goes_on ? key_of(setup_.workflow.content, past.runs) : key;
      if (goes_on && past.outcome == fleet::Outcome::kSucceeded) {
        ROTA_TRY_ASSIGN(end.report, look());
        return {};
      }
      for (const model::WorkerSpec& spec : setup_.workers) start_worker(spec, nursery);
      if (!goes_on) {
        ROTA_TRY(submit(key, nursery));
      } else if (past.outcome != fleet::Outcome::kRunning) {
        ROTA_TRY(host_->execute(fleet::Control{fleet::Action::kRetry, past.latest, {}}));
      }
      ROTA_TRY(watch());
      ROTA_TRY_ASSIGN(end.report, look());
      return {};
    }();
    if (view_ != nullptr) view_->finish();
    if (outcome.ok()) {
      for (Hand& hand : hands_) hand.worker->stop();
    } else {
      for (Hand& hand : hands_) hand.task.cancel();
    }
    for (Hand& hand : hands_) hand.task.wait();
    host_->stop();
    // The host's own error says more than that it is closed.
    if (Result<void> hosted = hosting_.get(); !hosted.ok()) outcome = std::move(hosted);
    hands_.clear();
    host_.reset();
  });
  ROTA_TRY(std::move(outcome));
  view_->correct(end.report);
  if (setup_.workers_have_a_price) {
    end.report.cost_microdollars = 0;
    for (const model::WorkerSpec& spec : setup_.workers) {
      // In microseconds first: the product of a year and a thousand an hour still fits.
      end.report.cost_microdollars +=
          spec.cost_microdollars_per_hour * (end.report.elapsed_ns / 1'000'000) / (3600 * 1000LL);
    }
  }
  return end;
}

}  // namespace

void confirm(const RunEnd& end) {
  // Lost with a power cut, or not written at all: then the success is told twice, and done once.
  std::ofstream(end.told_file) << end.key << "\n";
}

Result<RunEnd> run_session(RunSetup setup) {
  std::error_code error;
  std::filesystem::create_directories(setup.state + "/logs", error);
  if (error) {
    const bool denied = error == std::errc::permission_denied || error == std::errc::read_only_file_system;
    return Error{denied ? ErrorCode::kPermissionDenied : ErrorCode::kIoError,
                 "no directory '" + setup.state + "' for the state of this run: " + error.message() +
                     "; name another one with --state DIR"};
  }
  // One thread, which sleeps when it has nothing to do: the processors are the commands'. Before any other thread,
  // since Linux takes milliseconds to prepare a process that has several for its barriers.
  ROTA_TRY_ASSIGN(const std::unique_ptr<fiber::Runtime> runtime,
                  fiber::Runtime::create({.worker_count = 1, .spin_count = 0}));
  Result<std::unique_ptr<ledger::DiskLedger>> opened =
      ledger::DiskLedger::open({.path = setup.state + "/ledger.db", .durability = setup.durability});
  if (!opened.ok()) return with_way_out(std::move(opened).take_error(), setup.state);
  const std::unique_ptr<ledger::DiskLedger> ledger = std::move(*opened);
  const SignalCount counting;
  Result<RunEnd> end = runtime->run([&] { return Session(setup, *ledger).run(); });
  ROTA_TRY(ledger->close());
  return end;
}

}  // namespace rota::cli

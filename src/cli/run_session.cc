#include "cli/run_session.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "bus/local.h"
#include "cli/format.h"
#include "cli/run_past.h"
#include "cli/run_watch.h"
#include "cli/web_page.h"
#include "cli/whole_output.h"
#include "fleet/state.h"
#include "host/host.h"
#include "ledger/disk_ledger.h"
#include "net/file_store.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/time.h"
#include "rota/worker.h"

namespace rota::cli {

using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLookEvery{50};  // How often signals are looked at and the view is drawn again.

constexpr unsigned kLooksPerCheck = 5;  // How many looks there are per check of the ledger's file.

volatile std::sig_atomic_t signals_seen = 0;

extern "C" void on_signal(int /*number*/) {
  signals_seen = signals_seen + 1;
  // A second signal ends the process at once. The guards of the running programs kill them when this process has ended.
  if (signals_seen > 1) ::_exit(exit_status(ErrorCode::kCancelled));
}

// Counts SIGINT, SIGTERM and SIGHUP during its lifetime.
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
    // The terminal was closed. With nohup, SIGHUP stays ignored.
    ::sigaction(SIGHUP, nullptr, &hangup_);
    if (hangup_.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
  }
  ~SignalCount() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
    ::sigaction(SIGHUP, &hangup_, nullptr);
  }
  SignalCount(const SignalCount&) = delete;
  SignalCount& operator=(const SignalCount&) = delete;

 private:
  struct sigaction interrupt_{};
  struct sigaction terminate_{};
  struct sigaction hangup_{};
};

// The key of the last run whose end the user was told; empty if there is none.
std::string told_in(const std::string& told_file) {
  std::ifstream file(told_file);
  std::string told;
  std::getline(file, told);
  return told;
}

// Whether the outputs of tasks are in the store. Up to kMostVerifiedBytes are read as well, and what is damaged is
// removed, so that its task can store it again. Further damage is found when the files are fetched.
class StoredOutputs {
 public:
  StoredOutputs(std::string directory, bool dry_run)
      : store_(net::FileStore::Options{.directory = std::move(directory)}), dry_run_(dry_run) {}

  bool has(const std::vector<model::StoredFile>& files) {
    return std::all_of(files.begin(), files.end(), [this](const model::StoredFile& file) { return has(file); });
  }

 private:
  static constexpr std::int64_t kMostVerifiedBytes = std::int64_t{1} << 30;

  bool has(const model::StoredFile& file) {
    if (good_.contains(file.sha256)) return true;
    const Result<std::uint64_t> size = store_.find(file.sha256);
    if (!size.ok()) return false;
    const bool readable = file.bytes <= kMostVerifiedBytes - verified_bytes_;
    if (static_cast<std::int64_t>(*size) == file.bytes && readable) {
      verified_bytes_ += file.bytes;
      const auto goes_on = [] { return false; };
      const Result<void> good = dry_run_ ? store_.check(file.sha256, goes_on) : store_.verify(file.sha256, goes_on);
      if (!good.ok()) return false;
    } else if (static_cast<std::int64_t>(*size) != file.bytes) {
      if (!dry_run_) store_.remove(file.sha256);
      return false;
    }
    good_.insert(file.sha256);
    return true;
  }

  net::FileStore store_;
  const bool dry_run_;
  std::int64_t verified_bytes_ = 0;
  std::set<std::string> good_;
};

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
  Result<Past> look_back();
  // Decides whether the latest run is resumed.
  void begin(const Past& past);
  // Tells the view what is done already, and which whole output of it nobody has read.
  Result<void> show_earlier(const Past& past, bool resumed);
  // Cancels what other versions of the file left. If a process was killed while `finally` ran, lets that run to its
  // end; true: something has run, so that what was read about the past is out of date.
  Result<bool> finish_earlier(const Past& past, fiber::Nursery& nursery);
  Result<RunReport> read_report();
  // Runs the workflow, or only reports its success if the user was not told of it.
  Result<void> run_workflow(RunEnd& end, fiber::Nursery& nursery);
  // The same, with the dashboard.
  Result<void> run_with_page(RunEnd& end, fiber::Nursery& nursery);
  // Ends the workers and the host, and returns the host's error if it has one, otherwise `outcome`.
  Result<void> stop_all(Result<void> outcome);
  // Waits until the workflow has ended or the host has failed; cancels the workflow at a signal.
  Result<void> wait_for_end();
  [[nodiscard]] std::string cancelling_text(const Result<fleet::Events>& decided) const;
  // Says once that the brain has stopped the workflow.
  void tell_stopped(bool& told);
  void start_worker(const model::WorkerSpec& spec, fiber::Nursery& nursery);
  // Returns when the submission is durable; with an error if a worker ends or a signal arrives before that.
  Result<void> submit(const std::string& key, fiber::Nursery& nursery);
  // Fails if the ledger's file was deleted or replaced: what is decided from now on would be lost.
  Result<void> check_ledger() const;
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
  PastQuery query_;
  // Results of earlier runs: by task, and by stage and item.
  std::map<std::uint32_t, KeptResult> kept_;
  std::map<std::string, std::map<std::string, std::vector<KeptResult>>> kept_items_;
  std::map<std::uint32_t, KeptResult> given_;  // Of kept_items_, by the task that got it.
  fiber::Task<Result<void>> hosting_;
  const std::int64_t begin_wall_ns_ = wall_now_ns();
  dev_t ledger_device_ = 0;
  ino_t ledger_inode_ = 0;
};

Result<Past> Session::look_back() {
  auto past = std::make_shared<Past>();
  // This need not be durable: what is decided by it comes later in the log.
  ROTA_TRY(host_->peek([this, past](const fleet::State& state) { *past = read_past(state, query_); }));
  ROTA_TRY(check_missing(*past));
  return std::move(*past);
}

Result<RunReport> Session::read_report() {
  auto report = std::make_shared<RunReport>();
  ROTA_TRY(host_->inspect([report, id = watch_.workflow()](const fleet::State& state) {
    if (state.find(id) != nullptr) *report = report_of(state, id, state.time_ns());
  }));
  return std::move(*report);
}

Result<bool> Session::finish_earlier(const Past& past, fiber::Nursery& nursery) {
  std::vector<model::WorkflowId> left;  // Workflows whose `finally` has not ended.
  if (past.finishing && past.same && !setup_.fresh) left.push_back(past.latest);
  for (const model::WorkflowId other : past.unfinished) {
    if (!setup_.fresh) {
      watch_.say("cancelling what is left of " + other.to_string() + ": " +
                 (past.lost ? "files that its tasks stored are gone" : "the workflow has changed since") +
                 "; its log and its results stay");
    }
    struct Found {
      bool stopped = false;
      bool finally = false;
    };
    const auto found = std::make_shared<Found>();
    ROTA_TRY(host_->peek([found, other](const fleet::State& state) {
      *found = {state.at(other).stopped == fleet::StopCause::kCancel, !state.at(other).finally.empty()};
    }));
    if (found->finally) left.push_back(other);
    if (!found->finally || !found->stopped) {  // A second cancellation would cancel `finally`, too.
      ROTA_TRY(host_->execute(fleet::Control{fleet::Action::kCancel, other, {}}));
    }
  }
  if (left.empty()) return false;
  std::string names;
  for (const model::WorkflowId id : left) names += (names.empty() ? "" : ", ") + id.to_string();
  watch_.say("finishing finally of " + names + ", whose process was killed");
  for (const model::WorkerSpec& spec : setup_.workers) start_worker(spec, nursery);
  for (;;) {
    const auto ended = std::make_shared<bool>(true);
    ROTA_TRY(host_->peek([ended, left](const fleet::State& state) {
      for (const model::WorkflowId id : left) *ended = *ended && state.at(id).outcome != fleet::Outcome::kRunning;
    }));
    if (*ended) return true;
    if (signals_seen > 0) {
      return Error{ErrorCode::kCancelled, "interrupted while finally of " + names + " ran; run it again to finish it"};
    }
    ROTA_TRY(check_workers());
    ROTA_TRY(fiber::sleep_for(kLookEvery));
  }
}

void Session::begin(const Past& past) {
  if (setup_.fresh || past.latest.is_none()) return;
  if (past.untold) {
    watch_.resume(past.latest, past.done);
    watch_.say(past.latest.to_string() +
               " had succeeded, but its process was killed before it could say so; nothing is run again. The next "
               "`rota run` starts from the beginning");
  } else if (past.resumes()) {
    watch_.resume(past.latest, past.done);
    watch_.say("resuming " + past.latest.to_string() + ": " + std::to_string(past.succeeded) + " of " +
               counted(past.tasks, "task") + " already done");
  } else if (!past.kept.empty() || !past.kept_items.empty() || !past.changed.empty()) {
    watch_.say("continuing " + past.latest.to_string() +
               (past.lost ? " in a new run: " : " with the workflow as it is now: ") +
               edit_sentence(past, setup_.workflow.spec) + "; --fresh starts over");
  }
}

Result<void> Session::show_earlier(const Past& past, bool resumed) {
  const auto work = std::make_shared<EarlierWork>();
  const EarlierQuery query{.logs = logs_,
                           .spec = &setup_.workflow.spec,
                           .resumed = resumed ? past.latest : model::WorkflowId(),
                           .kept = &kept_,
                           .fresh = setup_.fresh};
  ROTA_TRY(host_->peek([work, query](const fleet::State& state) { *work = earlier_work(state, query); }));
  watch_.show_earlier(*work);
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
  options.whole_output = setup_.whole_output;
  options.kept_result = [this](model::TaskId task, const std::string& stage, const std::string& item) {
    std::optional<KeptResult> result;
    if ((kept_.empty() && kept_items_.empty()) || task.workflow() != watch_.workflow()) return result;
    if (const auto kept = kept_.find(task.index()); kept != kept_.end()) result = kept->second;
    if (const auto given = given_.find(task.index()); given != given_.end()) return std::optional(given->second);
    const auto items = kept_items_.find(stage);
    if (items == kept_items_.end()) return result;
    // Of equal items, each task gets another result.
    if (const auto kept = items->second.find(item); kept != items->second.end() && !kept->second.empty()) {
      result = std::move(kept->second.front());
      kept->second.erase(kept->second.begin());
      given_.emplace(task.index(), *result);
    }
    return result;
  };
  options.secrets = setup_.secrets;
  options.files.directory = setup_.state + "/files";
  options.files.directory_bytes = setup_.files_bytes;
  running.worker = std::make_unique<Worker>(std::move(options));
  running.end = bus_.connect(spec.name).value();  // The names in a fleet file are unique.
  running.task = nursery.spawn([worker = running.worker.get(), end = running.end.get()] { return worker->run(*end); });
}

Result<void> Session::check_ledger() const {
  struct stat now{};
  const std::string path = setup_.state + "/ledger.db";
  if (::stat(path.c_str(), &now) == 0 && now.st_dev == ledger_device_ && now.st_ino == ledger_inode_) return {};
  return Error{ErrorCode::kDataLoss, "the state folder '" + setup_.state +
                                         "' was deleted or replaced while the workflow ran: its results cannot be "
                                         "kept, so the run was stopped. Run it again to start over"};
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

void Session::tell_stopped(bool& told) {
  const fleet::StopCause cause = told ? fleet::StopCause::kNone : watch_.stopped();
  if (cause != fleet::StopCause::kDeadline && cause != fleet::StopCause::kFailFast) return;
  told = true;
  watch_.say(cause == fleet::StopCause::kDeadline ? "cancelling: the deadline of the workflow has passed"
                                                  : "cancelling the other tasks: one has failed (fail_fast)");
}

std::string Session::cancelling_text(const Result<fleet::Events>& decided) const {
  const std::vector<model::Stage>& stages = setup_.workflow.spec.stages;
  const bool more = std::any_of(stages.begin(), stages.end(), [](const model::Stage& stage) { return stage.finally; });
  const auto stops = [](const fleet::Event& event) {
    return std::holds_alternative<fleet::StopRequested>(event) || std::holds_alternative<fleet::TaskCancelled>(event);
  };
  if (more && decided.ok() && std::none_of(decided->begin(), decided->end(), stops)) {
    return "all other stages have ended: finally runs to its end; a second Ctrl-C exits at once";
  }
  return std::string("cancelling: running tasks get TERM, then KILL") + (more ? "; then finally runs" : "") +
         "; a second Ctrl-C exits at once";
}

Result<void> Session::wait_for_end() {
  bool cancelled = false;
  bool told = false;
  unsigned looks = 0;
  while (!watch_.ended().wait_for(kLookEvery)) {
    watch_.refresh();
    if (hosting_.is_completed()) return {};  // stop_all() returns its error.
    ROTA_TRY(check_workers());
    if (++looks % kLooksPerCheck == 0) ROTA_TRY(check_ledger());
    tell_stopped(told);
    if ((signals_seen > 0 || watch_.wants_stop()) && !std::exchange(cancelled, true)) {
      const Result<fleet::Events> done = host_->execute(fleet::Control{fleet::Action::kCancel, watch_.workflow(), {}});
      watch_.say(cancelling_text(done));
      if (!done.ok() && done.code() != ErrorCode::kFailedPrecondition) return done.error();
    }
  }
  tell_stopped(told);
  return check_ledger();
}

Result<void> Session::run_workflow(RunEnd& end, fiber::Nursery& nursery) {
  query_ = past_query(setup_);
  ROTA_TRY_ASSIGN(Past past, look_back());
  ROTA_TRY_ASSIGN(const bool again, finish_earlier(past, nursery));
  if (again) {
    ROTA_TRY_ASSIGN(past, look_back());
  }
  kept_ = past.kept;
  kept_items_ = past.kept_items;
  const std::string key = run_key(query_, past.runs + 1);
  // Nothing was submitted since look_back(), and no worker is connected yet: the watch misses nothing.
  RunShape shape(setup_.workflow.spec);
  shape.logs = logs_;
  shape.slots = 0;
  for (const model::WorkerSpec& spec : setup_.workers) {
    shape.slots += static_cast<std::size_t>(std::max<std::int64_t>(spec.resources.cpu_millis / 1000, 1));
  }
  for (std::size_t s = 0; s < past.expected_ns.size(); ++s) shape.stages[s].expected_ns = past.expected_ns[s];
  if (past.resumes() || past.untold) {
    for (const auto& [stage, items] : past.expanded) shape.expand(stage, items);
  }
  watch_.watch(std::move(shape), key);
  begin(past);
  const bool resumed = !watch_.workflow().is_none();
  if (setup_.whole_output) ROTA_TRY(show_earlier(past, resumed));
  end.key = resumed ? past.key : key;
  if (!resumed || past.outcome != fleet::Outcome::kSucceeded) {
    // Before a worker is there: otherwise it could start what belongs to the end of the earlier process's run.
    if (resumed && past.retries) {
      ROTA_TRY(host_->execute(fleet::Control{fleet::Action::kRetry, past.latest, {}}));
    }
    if (workers_.empty()) {
      for (const model::WorkerSpec& spec : setup_.workers) start_worker(spec, nursery);
    }
    if (!resumed) ROTA_TRY(submit(key, nursery));
    ROTA_TRY(wait_for_end());
  }
  ROTA_TRY_ASSIGN(end.report, read_report());
  end.late = end.report.stopped == fleet::StopCause::kDeadline;
  // Of a run that was resumed, the report is about the time since then.
  if (resumed && past.outcome != fleet::Outcome::kSucceeded) {
    end.report.begin_ns = std::max(end.report.begin_ns, begin_wall_ns_);
  }
  return {};
}

Result<void> Session::run_with_page(RunEnd& end, fiber::Nursery& nursery) {
  ROTA_TRY_ASSIGN(const std::unique_ptr<WebPage> page, WebPage::open(*host_, ledger_, 0));
  fiber::Task<void> serving = nursery.spawn([&page] { page->run(); });
  watch_.say("the dashboard is at " + page->url());
  Result<void> outcome = run_workflow(end, nursery);
  page->close();
  serving.wait();
  return outcome;
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
  struct stat ledger{};
  if (::stat((setup_.state + "/ledger.db").c_str(), &ledger) == 0) {
    ledger_device_ = ledger.st_dev;
    ledger_inode_ = ledger.st_ino;
  }
  host::HostOptions options;
  options.policy = setup_.policy;
  options.ends_with_host = [](const model::WorkerSpec&) { return true; };
  options.await_workers = setup_.workers.size();
  for (const model::WorkerSpec& spec : setup_.workers) options.registration_order.push_back(spec.name);
  if (setup_.web) {
    options.follow = true;
    options.snapshot_every = 0;  // A run keeps its whole log.
  }

  RunEnd end;
  end.logs = logs_;
  end.told_file = told_file_;
  Result<void> outcome;
  fiber::with_scope([&](fiber::Nursery& nursery) {
    host_ = std::make_unique<host::Host>(ledger_, bus_.host(), std::move(options), &watch_);
    hosting_ = nursery.spawn([this] { return host_->run(); });
    outcome = stop_all(setup_.web ? run_with_page(end, nursery) : run_workflow(end, nursery));
  });
  ROTA_TRY(std::move(outcome));
  if (setup_.workers_have_a_price) end.report.cost_microdollars = cost_of(setup_.workers, end.report.elapsed_ns());
  return end;
}

}  // namespace

PastQuery past_query(const RunSetup& setup) {
  const auto stored = std::make_shared<StoredOutputs>(setup.state + "/files", setup.dry_run);
  return {.spec = &setup.workflow.spec,
          .content = setup.workflow.content,
          .fresh = setup.fresh,
          .partial = setup.partial,
          .reuse_success = setup.reuse_success,
          .reuse_all = setup.reuse_all,
          .told = told_in(setup.state + "/told"),
          .now_ns = wall_now_ns(),
          .results = setup.dry_run,
          .is_stored = [stored](const std::vector<model::StoredFile>& files) { return stored->has(files); },
          .choices = setup.choices};
}

void confirm(const RunEnd& end) {
  // If this is lost or cannot be written, a run that follows soon reports the same success again and runs nothing.
  std::ofstream(end.told_file) << end.key << "\n";
}

namespace {

// The folder, its ledger (which has the environment of every task) and its logs are for their owner alone. A folder
// that exists keeps its mode.
Result<void> make_state_folder(const std::string& state) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::path(state).lexically_normal();
  fs::create_directories(folder.has_filename() ? folder.parent_path() : folder.parent_path().parent_path(), error);
  int failed = 0;
  for (const std::string& path : {state, state + "/logs"}) {
    if (!error && failed == 0 && ::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) failed = errno;
  }
  if (failed != 0) error = std::error_code(failed, std::generic_category());
  if (!error && !fs::is_directory(state + "/logs", error) && !error) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (!error) return {};
  const bool denied = error == std::errc::permission_denied || error == std::errc::read_only_file_system;
  return Error{denied ? ErrorCode::kPermissionDenied : ErrorCode::kIoError,
               "the state folder '" + state + "' could not be created: " + error.message() +
                   "; choose another one with --state DIR"};
}

}  // namespace

Result<RunEnd> run_session(RunSetup setup, std::unique_ptr<RunView> view) {
  ROTA_TRY(make_state_folder(setup.state));
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

// Core: what both schedulers are made of. A graph::Roster decides under one lock; this runs what it decides.
//
// Every command and report goes the same way: take the lock, tell the roster, collect() what came of it, release the
// lock, perform() it. Nothing of a user's is ever called under the lock.
//
//   collect()   Reads the roster's changes (times, events, who waits) and stops, then picks tasks while some may start.
//   perform()   Starts the picked, lets the parked go on, tells the stopping, opens the gates of those who wait, and
//               delivers events and warnings.
//
// An Executor says where stages run. It knows nothing of states.
//
// Lifetimes. An Entry is never moved or freed while the core lives. A stage that is told to stop is told outside the
// lock; `stoppers` counts those who do so, and the stage's runner leaves the entry's scope only when it is 0.
//
// Events are queued under the lock and delivered by whoever finds nobody delivering, so that an observer sees them one
// by one and in order. The queue is bounded by what the commands since the last delivery changed.
//
// Thread safety: every public function may be called from any thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/sync.h"
#include "flow/gate.h"
#include "flow/slices.h"
#include "rota/fiber/nursery.h"
#include "rota/flow/scheduler.h"
#include "rota/graph/roster.h"

namespace rota::flow::detail {

using graph::Moment;
using graph::Roster;
using graph::TaskRef;

// One who waits for a pause to come about, and what he is told: nothing, if it did.
struct PauseWaiter {
  Gate gate;
  std::optional<TaskError> outcome;  // Written before the gate is opened.
};

struct Entry {
  TaskRef ref;
  TaskDescriptor descriptor;
  Stage stage;
  // Everything below under the core's lock, unless said otherwise.
  std::shared_ptr<const Values> outputs;
  std::optional<TaskError> error;
  std::vector<std::shared_ptr<Gate>> waiters;  // For the end.
  std::vector<std::shared_ptr<PauseWaiter>> pause_waiters;
  std::shared_ptr<Gate> parked;     // Of a body that stands at a checkpoint.
  fiber::Nursery* scope = nullptr;  // Around the body, in a runtime.
  std::uint32_t stoppers = 0;
  std::shared_ptr<Gate> stopped;            // Opened by the last stopper.
  std::optional<fiber::CancelToken> token;  // Made when asked for.
  bool told_to_stop = false;
  sync::Atomic<bool> attention{false};  // The next checkpoint must take the lock. Any thread reads it.
  double progress = 0;
  std::string note;
  Moment submitted{}, ready{}, started{}, ended{}, ready_since{};
  Moment running_since{};  // While it is Running.
  std::int64_t queue_wait_ns = 0, run_ns = 0;
  std::optional<Moment> slice_from;  // While its body runs, and runs are recorded.
  std::uint32_t worker = 0;
};

class Core;

class Executor {
 public:
  virtual ~Executor();
  [[nodiscard]] virtual Moment now() const = 0;
  // Has core.run(entry) called soon, elsewhere.
  virtual void start(Entry& entry) = 0;
  // Calls `body` in the environment of a stage, and may set `entry.scope` meanwhile (by core.enter() and leave()).
  virtual Result<void> call(Core& core, Entry& entry, const std::function<Result<void>()>& body) = 0;
  // The calling stage is about to wait for a long time: its thread is not to be counted on.
  virtual void will_park() {}
  // Has core.tick(due) called at `due`, or soon after; once for each call of this.
  virtual void wake_at(Moment due) = 0;
  // Whether a runner may go on with another task at once.
  [[nodiscard]] virtual bool may_chain() const { return true; }
  [[nodiscard]] virtual std::uint32_t worker() const = 0;
  // Ends everything it has going; afterwards nothing calls the core. Called when no task is live.
  virtual void shut_down() = 0;
};

class Core {
 public:
  // `logger` is default_logger() if it is null.
  Core(const SchedulerConfig& config, std::uint64_t max_running, std::shared_ptr<ILogger> logger);
  // The executor needs the core: it comes after. Before anything else.
  void set_executor(std::unique_ptr<Executor> executor) { executor_ = std::move(executor); }
  // Cancels and waits for everything, then shuts the executor down.
  void close();

  Result<void> submit_all(std::vector<IScheduler::Submission> tasks);
  Result<void> pause(std::string_view id);
  Result<void> resume(std::string_view id);
  Result<void> cancel(std::string_view id);
  Result<void> retry(std::string_view id);
  Result<void> wait(std::string_view id);
  void wait_all();
  void observe(Observer observer);
  void flush_events();
  [[nodiscard]] Result<TaskInfo> info(std::string_view id) const;
  [[nodiscard]] Result<std::shared_ptr<const Values>> outputs(std::string_view id) const;
  [[nodiscard]] Result<TaskState> state(std::string_view id) const;
  [[nodiscard]] SchedulerStats stats() const;
  void check_invariants() const;
  [[nodiscard]] std::vector<TaskInfo> report() const;
  Result<void> write_trace(std::ostream& out) const;

  // For executors.
  void run(Entry& entry);
  void tick(Moment due);
  void enter(Entry& entry, fiber::Nursery* scope);
  void leave(Entry& entry);
  // For StageContext.
  void progress(Entry& entry, double fraction, std::string_view note);
  void checkpoint(Entry& entry);
  [[nodiscard]] fiber::CancelToken token(Entry& entry);
  [[nodiscard]] bool is_stopping(const Entry& entry) const;

  static constexpr int kChain = 16;  // Tasks that a runner runs before it lets others have its thread.

 private:
  struct Stop {
    Entry* entry;
    fiber::Nursery* scope;
    std::optional<fiber::CancelToken> token;
  };
  struct Effects {
    std::vector<Entry*> starts;
    std::vector<Stop> stops;
    std::vector<std::shared_ptr<Gate>> gates;
    std::vector<std::string> warnings;
    Moment wake = Moment::never();
  };

  [[nodiscard]] Result<TaskRef> find(std::string_view id) const ROTA_REQUIRES(mutex_);
  [[nodiscard]] Entry& entry(TaskRef ref) ROTA_REQUIRES(mutex_) { return entries_[ref.value() - 1]; }
  [[nodiscard]] const Entry& entry(TaskRef ref) const ROTA_REQUIRES(mutex_) { return entries_[ref.value() - 1]; }
  void collect(Moment now, Effects& effects) ROTA_REQUIRES(mutex_);
  void note_changes(Moment now, Effects& effects) ROTA_REQUIRES(mutex_);
  void note_end(Entry& entry, Effects& effects) ROTA_REQUIRES(mutex_);
  [[nodiscard]] TaskError cancel_error(const Entry& entry) const ROTA_REQUIRES(mutex_);
  [[nodiscard]] TaskInfo info_of(const Entry& entry, Moment now) const ROTA_REQUIRES(mutex_);
  void perform(Effects& effects);
  void log(ILogger::Level level, std::string_view message) const ROTA_EXCLUDES(mutex_);
  void deliver();
  void interrupted(Entry& entry);
  void went_on(Entry& entry);
  [[nodiscard]] Slice slice_of(const Entry& entry, TaskState state, Moment end) const ROTA_REQUIRES(mutex_);
  void look_at_clock();
  Entry* run_one(Entry& entry, bool may_go_on);
  Result<void> call_stage(Entry& entry, StageContext& context);

  const SchedulerConfig config_;
  const std::uint64_t max_running_;
  const std::shared_ptr<ILogger> logger_;
  std::unique_ptr<Executor> executor_;
  Observer observer_;  // Set before the first submit.

  mutable sync::Mutex mutex_;
  Roster roster_ ROTA_GUARDED_BY(mutex_);
  std::deque<Entry> entries_ ROTA_GUARDED_BY(mutex_);  // By TaskRef. What it holds stays where it is.
  SliceLog slices_ ROTA_GUARDED_BY(mutex_);
  std::deque<TaskEvent> events_ ROTA_GUARDED_BY(mutex_);
  bool delivering_ ROTA_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<Gate>> flush_waiters_ ROTA_GUARDED_BY(mutex_);
  bool closed_ ROTA_GUARDED_BY(mutex_) = false;
  // When the executor will call tick(). Invariant: the first of it is no later than what the roster waits for.
  std::set<Moment> armed_ ROTA_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Gate>> idle_waiters_ ROTA_GUARDED_BY(mutex_);
};

std::unique_ptr<IScheduler> make_scheduler(std::unique_ptr<Core> core);

}  // namespace rota::flow::detail

// Core: the common part of both schedulers. A graph::Roster decides under one lock; the core carries its decisions out.
//
// Every command and report takes the same path: take the lock, tell the roster, collect() the effects, release the
// lock, perform() them. User code is never called under the lock.
//
//   collect()   Reads the roster's changes (times, events, who waits) and stops, then picks tasks while some may start.
//   perform()   Starts the picked tasks, resumes parked ones, tells bodies to stop, posts the batons of waiters, and
//               delivers events and warnings.
//
// An Executor decides where stages run. It does not know the tasks' states.
//
// Lifetimes: an Entry is never moved, and freed when its task is forgotten; then it has ended, so only what holds a
// shared_ptr still uses it. A stage is told to stop outside the lock; `stoppers` counts the threads that are doing so,
// and the stage's runner leaves the entry's scope only when it is 0.
//
// Forgetting: a forgotten task is unknown at once, but its Entry and its number in the roster stay until at least half
// of all tasks can be removed; then all of those are removed in one pass, which costs as much as there are tasks. So a
// task costs the same however many there are, and the memory is at most about twice that of the tasks that are known
// or needed.
//
// Events are queued under the lock. A thread that finds no other thread delivering delivers them, so an observer sees
// them one at a time and in order. The queue is bounded by the changes that commands made since the last delivery.
//
// Thread safety: every public function may be called from any thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/sync.h"
#include "fiber/baton.h"
#include "flow/slices.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/flow/scheduler.h"
#include "rota/graph/roster.h"

namespace rota::flow::detail {

using graph::Moment;
using graph::Roster;
using graph::TaskRef;

// A caller that waits until a task is paused, and the error that it gets; none if the task was paused.
struct PauseWaiter {
  fiber::Baton baton;
  std::optional<TaskError> outcome;  // Written before the baton is posted.
};

// A caller that waits for the end of a task, and the task's error. The task may be forgotten when the caller runs
// again.
struct EndWaiter {
  fiber::Baton baton;
  std::optional<TaskError> error;  // Written before the baton is posted.
};

struct Entry {
  TaskRef ref;  // Under the core's lock.
  TaskDescriptor descriptor;
  Stage stage;
  // Everything below is under the core's lock, unless noted.
  std::shared_ptr<const Values> outputs;
  std::optional<TaskError> error;
  std::vector<std::shared_ptr<EndWaiter>> waiters;
  std::vector<std::shared_ptr<PauseWaiter>> pause_waiters;
  std::shared_ptr<fiber::Baton> parked;  // Wakes a body that is parked at a checkpoint.
  fiber::Nursery* scope = nullptr;       // Around the body, in a runtime.
  std::uint32_t stoppers = 0;
  std::shared_ptr<fiber::Baton> stopped;    // Posted by the last stopper.
  std::optional<fiber::CancelToken> token;  // Created on demand.
  bool told_to_stop = false;
  sync::Atomic<bool> attention{false};  // The next checkpoint must take the lock. Read by any thread.
  double progress = 0;
  std::string note;
  Moment submitted{}, ready{}, started{}, ended{}, ready_since{};
  Moment running_since{};  // Valid while it is Running.
  std::int64_t queue_wait_ns = 0, run_ns = 0;
  std::optional<Moment> slice_from;  // Set while its body runs, if runs are recorded.
  std::uint32_t worker = 0;
  std::uint64_t end = 0;  // The number of its End; 0 if it has not ended, or is forgotten only by its name.
};

class Core;

class Executor {
 public:
  virtual ~Executor();
  [[nodiscard]] virtual Moment now() const = 0;
  // Arranges that core.run(entry) is called soon, on another stack or thread.
  virtual void start(Entry& entry) = 0;
  // Calls `body` in the environment of a stage; may set `entry.scope` meanwhile (core.enter() and leave()).
  virtual Result<void> call(Core& core, Entry& entry, const std::function<Result<void>()>& body) = 0;
  // The calling stage is about to wait for a long time, so its thread is not available for other stages.
  virtual void will_park() {}
  // Arranges that core.tick(due) is called at `due` or soon after, once per call.
  virtual void wake_at(Moment due) = 0;
  // Whether a runner may run another task at once.
  [[nodiscard]] virtual bool may_chain() const { return true; }
  [[nodiscard]] virtual std::uint32_t worker() const = 0;
  // Ends all activity; the executor does not call the core afterwards. Called when no task is live.
  virtual void shut_down() = 0;
};

class Core {
 public:
  // A null `logger` means default_logger().
  Core(const SchedulerConfig& config, std::uint64_t max_running, std::shared_ptr<ILogger> logger);
  // Must be called first. The executor is set here, because it needs the core.
  void set_executor(std::unique_ptr<Executor> executor) { executor_ = std::move(executor); }
  // Cancels all tasks, waits for them, and shuts the executor down.
  void close();

  Result<void> submit_all(std::vector<IScheduler::Submission> tasks);
  Result<void> pause(std::string_view id);
  Result<void> resume(std::string_view id);
  Result<void> cancel(std::string_view id);
  Result<void> retry(std::string_view id);
  Result<void> forget(std::string_view id);
  std::size_t forget_ended();
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

  static constexpr int kChain = 16;  // How many tasks a runner runs before it yields its thread.

 private:
  struct Stop {
    std::shared_ptr<Entry> entry;
    fiber::Nursery* scope;
    std::optional<fiber::CancelToken> token;
  };
  struct Effects {
    std::vector<Entry*> starts;
    std::vector<Stop> stops;
    std::vector<std::shared_ptr<fiber::Baton>> batons;
    std::vector<std::string> warnings;
    std::vector<std::shared_ptr<const void>> garbage;  // Destroyed without the lock: it contains objects of the user.
    Moment wake = Moment::never();
  };
  // The end of a task that may be forgotten without being named. Valid if it is the number of its task's latest end.
  struct End {
    TaskRef task;
    std::uint64_t number;
  };
  struct QueuedEvent {
    TaskEvent event;
    std::shared_ptr<const Entry> entry;  // Keeps the id that the event refers to.
  };

  [[nodiscard]] Result<TaskRef> find(std::string_view id) const ROTA_REQUIRES(mutex_);
  [[nodiscard]] Entry& entry(TaskRef ref) ROTA_REQUIRES(mutex_) { return *entries_[ref.value() - 1]; }
  [[nodiscard]] const Entry& entry(TaskRef ref) const ROTA_REQUIRES(mutex_) { return *entries_[ref.value() - 1]; }
  void collect(Moment now, Effects& effects) ROTA_REQUIRES(mutex_);
  void note_changes(Moment now, Effects& effects) ROTA_REQUIRES(mutex_);
  void note_end(Entry& entry, Effects& effects) ROTA_REQUIRES(mutex_);
  void forget(Entry& entry, Effects& effects) ROTA_REQUIRES(mutex_);
  void not_ended(Entry& entry) ROTA_REQUIRES(mutex_);
  std::size_t forget_oldest(std::uint64_t most, Effects& effects) ROTA_REQUIRES(mutex_);
  void remove_forgotten(Effects& effects) ROTA_REQUIRES(mutex_);
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
  std::vector<std::shared_ptr<Entry>> entries_ ROTA_GUARDED_BY(mutex_);  // Indexed by TaskRef.
  std::deque<End> ends_ ROTA_GUARDED_BY(mutex_);  // In order; those that are not valid are dropped at the front.
  std::uint64_t next_end_ ROTA_GUARDED_BY(mutex_) = 1;
  std::uint64_t ended_ ROTA_GUARDED_BY(mutex_) = 0;  // Tasks with a valid End.
  std::uint64_t forgotten_ ROTA_GUARDED_BY(mutex_) = 0;
  SchedulerStats removed_ ROTA_GUARDED_BY(mutex_){};  // Counts of the tasks that are not in the roster any more.
  SliceLog slices_ ROTA_GUARDED_BY(mutex_);
  std::deque<QueuedEvent> events_ ROTA_GUARDED_BY(mutex_);
  bool delivering_ ROTA_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<fiber::Baton>> flush_waiters_ ROTA_GUARDED_BY(mutex_);
  bool closed_ ROTA_GUARDED_BY(mutex_) = false;
  // The times at which the executor will call tick(). Invariant: the first is not after the roster's next_due().
  std::set<Moment> armed_ ROTA_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<fiber::Baton>> idle_waiters_ ROTA_GUARDED_BY(mutex_);
};

std::unique_ptr<IScheduler> make_scheduler(std::unique_ptr<Core> core);

// Calls `make`; threads or memory that cannot be obtained are an error of the factory, not an exception.
template <class F>
Result<std::unique_ptr<IScheduler>> made_or_error(F&& make) {
  try {
    return make();
  } catch (const fiber::FiberError& error) {
    return error.error();
  } catch (const std::bad_alloc&) {
    return ErrorCode::kResourceExhausted;
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kResourceExhausted,
                 std::string("the threads of the scheduler could not be created: ") + error.what()};
  }
}

}  // namespace rota::flow::detail

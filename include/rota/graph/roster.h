// Roster: the life cycle of all tasks of a graph, as a state machine without threads, clock or task bodies.
//
// Input: commands (submit, pause, resume, cancel, retry) and reports (a body ended, reached a checkpoint, time passed).
// Output: a list of state changes and a list of bodies that must be told to stop. The owner of the roster runs the
// bodies: it takes tasks with pick() and reports with finish() and checkpoint().
//
//   submit ─► Queued ──last predecessor succeeded──► Ready ──pick()──► Running ──finish()──► Succeeded
//               ▲                                                       │   └──────────────► Failed, or Cancelled
//               └──────────── retry, after its backoff ─────────────────┘
//   and from Queued, Ready and (at a checkpoint) Running to Paused and back.
//
// `unmet` counts what a task waits for: its predecessors that have not succeeded, plus one during a backoff. It is
// decremented in every state of the task, so a paused task resumes to the state that it would have reached by then
// (G-3).
//
// A body that was started ends before its task becomes terminal. Therefore a task that is cancelled while its body
// runs, or is parked at a checkpoint, stays Running until the body has unwound; its descendants are cancelled at once.
// After the cancel the task ends as Cancelled, whatever the body returns.
//
// Invariants (check_invariants()):
//   (1) Queued implies unmet > 0; Ready and Running (never paused) imply unmet == 0
//   (2) exactly the Ready tasks are in the ready order
//   (3) exactly the Running tasks that are not unwinding from a park hold resources
//   (4) a task with a predecessor that is Failed or Cancelled is Cancelled
//   (5) a forgotten task is terminal, and exactly the forgotten tasks that nothing needs are removable
//
// Thread safety: none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/graph/dag.h"
#include "rota/graph/ready_order.h"
#include "rota/graph/resources.h"
#include "rota/graph/task.h"
#include "rota/result.h"

namespace rota::graph {

struct RetryPolicy {
  std::uint32_t max_attempts = 1;         // Number of runs, including the first. > 0.
  std::uint32_t backoff_ms = 0;           // Before the second run; doubles before each further run,
  std::uint32_t backoff_max_ms = 60'000;  // up to this limit.
  friend constexpr auto operator<=>(const RetryPolicy&, const RetryPolicy&) = default;
};

struct PausePolicy {
  std::uint32_t timeout_ms = 30'000;  // A running task that reaches no checkpoint within this time is cancelled.
  friend constexpr auto operator<=>(const PausePolicy&, const PausePolicy&) = default;
};

struct TaskSpec {
  std::string_view name;
  std::span<const std::string_view> needs{};
  std::int32_t priority = 0;
  ResourceDemand demand{};
  RetryPolicy retry{};
};

struct RosterConfig {
  ResourceBudget budget{};
  AgingPolicy aging{};
  PausePolicy pause{};
};

// Why a task is Cancelled, or is being cancelled.
enum class CancelCause : std::uint8_t {
  kNone,
  kRequest,       // cancel() was called.
  kDependency,    // A predecessor failed or was cancelled; root() says which.
  kPauseTimeout,  // It reached no checkpoint in time.
};
std::string_view to_string(CancelCause cause);

struct Change {
  TaskRef task;
  TaskState from, to;
  friend bool operator==(const Change&, const Change&) = default;
};

class Roster {
 public:
  explicit Roster(const RosterConfig& config);
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  // ---- Commands. A refused command changes nothing.
  // Errors: InvalidArgument, AlreadyExists, NotFound (a predecessor), Capacity. A task with a predecessor that failed
  // or was cancelled is Cancelled at once.
  Result<TaskRef> submit(const TaskSpec& task, Moment now);
  // Submits all tasks, given in any order, or none. Returns the first; the others follow it.
  Result<TaskRef> submit_all(std::span<const TaskSpec> tasks, Moment now);

  enum class Pausing : std::uint8_t {
    kDone,     // The task is Paused.
    kPending,  // The task is Running; it will be Paused at its next checkpoint, or cancelled at the timeout.
  };
  // FailedPrecondition if the task is terminal or is being cancelled.
  Result<Pausing> pause(TaskRef task, Moment now);
  // Also withdraws a pending pause. FailedPrecondition if the task is neither paused nor about to be.
  Result<void> resume(TaskRef task, Moment now);
  // Succeeds also if the task is already cancelled. FailedPrecondition if it has succeeded or failed.
  Result<void> cancel(TaskRef task, Moment now);
  // Failed to Queued, without a backoff: one more attempt. Tasks that were cancelled only because of it are queued,
  // too.
  Result<void> retry(TaskRef task, Moment now);
  void set_priority(TaskRef task, std::int32_t priority);
  // The task is not found by its name any more, and no retry revives it. FailedPrecondition if it has not ended. Its
  // record stays as long as a task that has not succeeded may need its outputs, and until compact().
  Result<void> forget(TaskRef task);
  // Tasks that compact() would remove.
  [[nodiscard]] std::uint32_t removable() const { return removable_; }
  // Removes them and numbers the others anew, in the same order. Returns, for each task, whether it was kept; the
  // caller translates its TaskRefs. Costs as much as there are tasks. REQUIRES: the effects are cleared.
  std::vector<bool> compact();

  // ---- Reports
  struct Picked {
    TaskRef task;          // Running now. None: no task may start until one ends, is submitted or is resumed.
    bool resumes = false;  // The body is parked at a checkpoint and continues; otherwise it starts.
    explicit operator bool() const { return !task.is_none(); }
  };
  // Chooses the next task to run.
  Picked pick(Moment now);
  // The task's body has ended. REQUIRES: Running.
  void finish(TaskRef task, bool success, Moment now);
  enum class Checkpoint : std::uint8_t {
    kContinue,
    kPark,  // The task is Paused. The body waits here until pick() returns the task again or it is told to stop.
    kStop,  // The task is being cancelled: unwind, and report with finish().
  };
  // REQUIRES: Running.
  Checkpoint checkpoint(TaskRef task);
  // Ends the backoffs that are over and cancels tasks that did not pause in time. Call again at next_due().
  void advance(Moment now);
  // Nothing is due before this time; never() if nothing is pending.
  [[nodiscard]] Moment next_due() const;

  // ---- Effects, in order. The owner must clear them after each call; otherwise they accumulate.
  [[nodiscard]] std::span<const Change> changes() const { return changes_; }
  // Bodies that run or are parked and must be told to stop. A parked one is Running now, without resources.
  [[nodiscard]] std::span<const TaskRef> stops() const { return stops_; }
  void clear_effects() {
    changes_.clear();
    stops_.clear();
  }

  // ---- Queries
  [[nodiscard]] const Dag& dag() const { return dag_; }
  [[nodiscard]] const ReadyOrder& order() const { return order_; }
  [[nodiscard]] TaskState state(TaskRef task) const { return at(task).state; }
  // The state in which a Paused task was paused; nothing for other tasks.
  [[nodiscard]] std::optional<TaskState> paused_from(TaskRef task) const;
  [[nodiscard]] bool pause_pending(TaskRef task) const { return at(task).pause_pending; }
  // A body was started and has not ended.
  [[nodiscard]] bool has_body(TaskRef task) const { return at(task).started; }
  [[nodiscard]] bool is_stopping(TaskRef task) const { return at(task).stopping; }
  [[nodiscard]] bool is_forgotten(TaskRef task) const { return at(task).forgotten; }
  // No task can need its outputs any more; compact() removes it.
  [[nodiscard]] bool is_removable(TaskRef task) const { return at(task).forgotten && at(task).needed_by == 0; }
  [[nodiscard]] std::uint32_t unmet(TaskRef task) const { return at(task).unmet; }
  [[nodiscard]] std::uint32_t attempts(TaskRef task) const { return at(task).attempts; }
  [[nodiscard]] CancelCause cause(TaskRef task) const { return at(task).cause; }
  // The task whose failure or cancellation caused this one to be Cancelled; the task itself if it was the first.
  [[nodiscard]] TaskRef root(TaskRef task) const { return at(task).root; }
  [[nodiscard]] std::uint32_t count(TaskState state) const { return counts_[static_cast<std::size_t>(state)]; }
  // Tasks that are not terminal.
  [[nodiscard]] std::uint32_t live() const;

  void check_invariants() const;

 private:
  struct Task {
    std::uint32_t unmet = 0;
    std::uint32_t attempts = 0;    // Runs that were started.
    std::uint32_t tries_left = 0;  // Runs that are left before a failure is final.
    std::uint32_t timer = 0;       // Identifies its valid timer.
    std::uint32_t needed_by = 0;   // Edges to successors that have neither succeeded nor been forgotten.
    TaskRef root{};
    TaskState state = TaskState::kQueued;
    CancelCause cause = CancelCause::kNone;
    bool started = false;   // A body was started and has not ended.
    bool stopping = false;  // It will be Cancelled as soon as its body has ended.
    bool pause_pending = false;
    bool holds = false;    // It holds resources.
    bool backoff = false;  // A backoff counts in `unmet`.
    bool forgotten = false;
    RetryPolicy retry{};
  };
  struct Timer {
    Moment due;
    std::uint32_t task;
    std::uint32_t timer;
    // The top of the heap is the timer that is due first.
    friend constexpr bool operator<(const Timer& a, const Timer& b) {
      return a.due != b.due ? a.due > b.due : a.task > b.task;
    }
  };

  [[nodiscard]] const Task& at(TaskRef task) const { return tasks_[task.value() - 1]; }
  [[nodiscard]] Task& at(TaskRef task) { return tasks_[task.value() - 1]; }
  Result<void> validate(const TaskSpec& task) const;
  void accept(TaskRef task, Moment now);
  void move(TaskRef task, TaskState to);
  void make_ready(TaskRef task, Moment now);
  void met(TaskRef task, Moment now);
  void needs_nothing(TaskRef task);
  void stop(TaskRef task, CancelCause cause, TaskRef root, Moment now);
  void cascade(TaskRef root);
  void release(TaskRef task);
  void revive(TaskRef root);
  void arm(TaskRef task, Moment due);
  void settle_timers();
  void settle_roots(const std::vector<bool>& keep);
  [[nodiscard]] static std::int64_t backoff_ns(const Task& task);

  const RosterConfig config_;
  Dag dag_;
  ReadyOrder order_;
  std::vector<Task> tasks_;
  std::vector<Timer> timers_;  // A heap; invalid timers are dropped when they reach the top.
  std::array<std::uint32_t, kTaskStateCount> counts_{};
  std::uint32_t removable_ = 0;
  std::vector<Change> changes_;
  std::vector<TaskRef> stops_;
  std::vector<TaskRef> stack_;  // Used by cascade(); a member so that its memory is reused.
};

}  // namespace rota::graph

// Roster: the whole life of the tasks of a graph, as a state machine without threads, clock or bodies.
//
// Commands come in (submit, pause, resume, cancel, retry), reports come in (a body ended, came to a checkpoint, time
// has passed), and what came of them goes out: a list of changes, and a list of bodies that must be told to stop.
// Whoever owns the roster runs the bodies: takes tasks with pick(), and reports with finish() and checkpoint().
//
//   submit ─► Queued ──last predecessor succeeded──► Ready ──pick()──► Running ──finish()──► Succeeded
//               ▲                                                       │   └──────────────► Failed, or Cancelled
//               └──────────── retry, after its backoff ─────────────────┘
//   and from Queued, Ready and (at a checkpoint) Running to Paused and back.
//
// What a task waits for is one counter, `unmet`: its predecessors that have not succeeded, and one more during a
// backoff. It goes down whatever state the task is in, so that a paused one resumes to where it would be by then (G-3).
//
// A body that was started has ended before its task is terminal. So a task that is cancelled while its body runs, or
// is parked at a checkpoint, is Running until the body has unwound; its descendants are cancelled at once. From the
// cancel on the task ends as Cancelled, whatever the body says.
//
// Invariants (check_invariants()):
//   (1) Queued implies unmet > 0; Ready and Running (never paused) imply unmet == 0
//   (2) exactly the Ready tasks are in the ready order
//   (3) exactly the Running tasks that are not unwinding from a park hold resources
//   (4) a task with a predecessor that is Failed or Cancelled is Cancelled
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
  std::uint32_t max_attempts = 1;         // Runs altogether. > 0.
  std::uint32_t backoff_ms = 0;           // Before the second run; doubles from run to run,
  std::uint32_t backoff_max_ms = 60'000;  // up to this.
  friend constexpr auto operator<=>(const RetryPolicy&, const RetryPolicy&) = default;
};

struct PausePolicy {
  std::uint32_t timeout_ms = 30'000;  // A running task that comes to no checkpoint within this is cancelled.
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

// Why a task is Cancelled, or shall be.
enum class CancelCause : std::uint8_t {
  kNone,
  kRequest,       // Somebody cancelled it.
  kDependency,    // What it waits for failed or was cancelled; root() says which.
  kPauseTimeout,  // It came to no checkpoint in time.
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

  // ---- commands. A refused one changes nothing.
  // InvalidArgument, AlreadyExists, NotFound (a predecessor), Capacity. Behind a task that has failed or was cancelled
  // the new one is Cancelled at once.
  Result<TaskRef> submit(const TaskSpec& task, Moment now);
  // All, in any order among themselves, or none. Returns the first; the others follow it.
  Result<TaskRef> submit_all(std::span<const TaskSpec> tasks, Moment now);

  enum class Pausing : std::uint8_t {
    kDone,     // It is Paused.
    kPending,  // It is Running, and will be Paused at its next checkpoint, or cancelled at the timeout.
  };
  // FailedPrecondition if it is terminal or is to be cancelled.
  Result<Pausing> pause(TaskRef task, Moment now);
  // Also takes back a pause that is pending. FailedPrecondition if there is neither.
  Result<void> resume(TaskRef task, Moment now);
  // Ok also if it is cancelled already. FailedPrecondition if it has succeeded or failed.
  Result<void> cancel(TaskRef task, Moment now);
  // Failed to Queued: one more attempt, at once, and with it those that were cancelled because of it alone.
  Result<void> retry(TaskRef task, Moment now);
  void set_priority(TaskRef task, std::int32_t priority);

  // ---- reports
  struct Picked {
    TaskRef task;          // Running now; none: nothing may start until something ends, comes or is resumed.
    bool goes_on = false;  // Its body is parked at a checkpoint and goes on; otherwise it starts.
    explicit operator bool() const { return !task.is_none(); }
  };
  // The next task to run.
  Picked pick(Moment now);
  // Its body has ended. REQUIRES: Running.
  void finish(TaskRef task, bool success, Moment now);
  enum class Checkpoint : std::uint8_t {
    kGoOn,
    kPark,  // It is Paused now. The body stops here until pick() gives the task again or it is told to stop.
    kStop,  // It is to be cancelled: unwind, and report with finish().
  };
  // REQUIRES: Running.
  Checkpoint checkpoint(TaskRef task);
  // Does what is due by now: ends backoffs, and cancels what did not pause in time. Call again at next_due().
  void advance(Moment now);
  // Nothing is due before this; never() if nothing will be.
  [[nodiscard]] Moment next_due() const;

  // ---- what came of it, in order. Whoever owns the roster clears it after each call, or it grows.
  [[nodiscard]] std::span<const Change> changes() const { return changes_; }
  // Bodies that run, or are parked, and must be told to stop. One that was parked is Running now, without resources.
  [[nodiscard]] std::span<const TaskRef> stops() const { return stops_; }
  void clear_effects() {
    changes_.clear();
    stops_.clear();
  }

  // ---- looking
  [[nodiscard]] const Dag& dag() const { return dag_; }
  [[nodiscard]] const ReadyOrder& order() const { return order_; }
  [[nodiscard]] TaskState state(TaskRef task) const { return at(task).state; }
  // Where a Paused task was; nothing for another.
  [[nodiscard]] std::optional<TaskState> paused_from(TaskRef task) const;
  [[nodiscard]] bool pause_pending(TaskRef task) const { return at(task).pause_pending; }
  // A body was started and has not ended.
  [[nodiscard]] bool has_body(TaskRef task) const { return at(task).started; }
  [[nodiscard]] bool is_stopping(TaskRef task) const { return at(task).stopping; }
  [[nodiscard]] std::uint32_t unmet(TaskRef task) const { return at(task).unmet; }
  [[nodiscard]] std::uint32_t attempts(TaskRef task) const { return at(task).attempts; }
  [[nodiscard]] CancelCause cause(TaskRef task) const { return at(task).cause; }
  // The task that failed or was cancelled first, on whose account this one is Cancelled; itself if it was the first.
  [[nodiscard]] TaskRef root(TaskRef task) const { return at(task).root; }
  [[nodiscard]] std::uint32_t count(TaskState state) const { return counts_[static_cast<std::size_t>(state)]; }
  // Tasks that are not terminal.
  [[nodiscard]] std::uint32_t live() const;

  void check_invariants() const;

 private:
  struct Task {
    std::uint32_t unmet = 0;
    std::uint32_t attempts = 0;    // Runs that were started.
    std::uint32_t tries_left = 0;  // Until a failure is final.
    std::uint32_t timer = 0;       // Which of its timers is valid.
    TaskRef root{};
    TaskState state = TaskState::kQueued;
    CancelCause cause = CancelCause::kNone;
    bool started = false;   // A body was started and has not ended.
    bool stopping = false;  // It is to be cancelled as soon as its body has ended.
    bool pause_pending = false;
    bool holds = false;    // Resources.
    bool backoff = false;  // One of `unmet`.
    RetryPolicy retry{};
  };
  struct Timer {
    Moment due;
    std::uint32_t task;
    std::uint32_t timer;
    friend constexpr bool operator<(const Timer& a, const Timer& b) {  // A heap's top is the latest: the first due.
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
  void stop(TaskRef task, CancelCause cause, TaskRef root, Moment now);
  void cascade(TaskRef root);
  void release(TaskRef task);
  void revive(TaskRef root);
  void arm(TaskRef task, Moment due);
  void settle_timers();
  [[nodiscard]] static std::int64_t backoff_ns(const Task& task);

  const RosterConfig config_;
  Dag dag_;
  ReadyOrder order_;
  std::vector<Task> tasks_;
  std::vector<Timer> timers_;  // A heap; timers that are no longer valid go when they come up.
  std::array<std::uint32_t, kTaskStateCount> counts_{};
  std::vector<Change> changes_;
  std::vector<TaskRef> stops_;
  std::vector<TaskRef> stack_;  // Of cascade(), kept for its memory.
};

}  // namespace rota::graph

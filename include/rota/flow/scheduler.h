// IScheduler: runs tasks with dependencies, priorities and resource demands in this process (G-1 to G-8).
//
//   auto scheduler = create_scheduler();                       // configured by STV_SCHEDULER and other variables
//   scheduler->submit({.task_id = "a"}, [](StageContext& context) { context.output("n", 7); });
//   scheduler->submit({.task_id = "b", .deps = {"a"}}, ...);
//   Result<void> end = scheduler->wait("b");
//
// A submitted task starts when its dependencies have succeeded, the ready order chooses it and its resources are free.
//
// Thread safety: everything may be called from any thread, and from stages. Calls that wait (wait(), and pause() of a
// running task) park the caller if it is a fiber of a runtime, and block its thread otherwise. A stage must not wait
// for its own task; in the simple scheduler, which has only one thread, it must not wait for any task.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/fiber/runtime.h"
#include "rota/flow/config.h"
#include "rota/flow/stage.h"
#include "rota/result.h"

namespace rota::flow {

struct TaskDescriptor {
  std::string task_id;
  std::string trace_id{};  // Passed to the stage; the task's id if empty.
  std::int32_t priority = 0;
  std::vector<std::string> deps{};
  ResourceDemand resource_demand{};
  RetryPolicy retry{};
  // The task counts and is forgotten only by request, not because of SchedulerConfig::max_ended_tasks.
  bool keep = false;
  // Set by describe(), ignored by submit(): the state in which a paused task was paused.
  std::optional<TaskState> paused_from{};
};

// Facts about a task. Times are those of the scheduler's clock; zero if the event has not happened yet.
struct TaskInfo {
  TaskDescriptor descriptor;
  TaskState state = TaskState::kQueued;
  std::uint32_t attempts = 0;
  double progress = 0;
  std::string note;
  // Failed: the stage's error. Cancelled: the reason, with the detail `cause` and, if another task caused it, `root`.
  std::optional<TaskError> error;
  std::chrono::nanoseconds submitted{0}, ready{0}, started{0}, ended{0};  // `started` is of the latest attempt.
  std::chrono::nanoseconds queue_wait{0};                                 // Total time spent Ready.
  std::chrono::nanoseconds run_time{0};                                   // Total time spent Running, up to now.
  std::uint32_t worker = 0;                                               // The thread that ran it last.
};

// A change of a task's state, or a progress report.
struct TaskEvent {
  std::string_view task_id;  // Valid during the call of the observer.
  TaskState from, to;        // Equal for a progress report.
  bool ends = false;         // It is terminal now; false for a failure that is retried.
  double progress = 0;
  std::string note{};
  std::chrono::nanoseconds at{0};
};
using Observer = std::function<void(const TaskEvent&)>;

struct SchedulerStats {
  // Of all tasks, including forgotten ones.
  std::uint64_t tasks = 0, succeeded = 0, failed = 0, cancelled = 0;
  std::uint64_t forgotten = 0;
  // Choices that skipped a task because CPU slots, or memory, were missing.
  std::uint64_t cpu_hits = 0, budget_hits = 0;
  std::uint32_t cpu_slots_held = 0;
  std::uint64_t ram_mb_held = 0, vram_mb_held = 0;
};

class IScheduler {
 public:
  // Cancels the tasks that have not ended and waits for the stages that run.
  virtual ~IScheduler();

  using Submission = std::pair<TaskDescriptor, Stage>;
  // Errors: InvalidArgument (id, stage, cycle, demand), AlreadyExists, NotFound (a dependency), Capacity (more CPU
  // slots than the budget has), Closed. A refused submission leaves no trace.
  virtual Result<void> submit(TaskDescriptor descriptor, Stage stage) = 0;
  // Submits all tasks, given in any order, or none.
  virtual Result<void> submit_all(std::vector<Submission> tasks) = 0;

  // A Queued or Ready task is paused at once. For a Running task, waits for its next checkpoint. Errors: Timeout if it
  // reached none in time (the task is cancelled then); FailedPrecondition if it ended first; Cancelled or Conflict if
  // it was cancelled or resumed meanwhile.
  virtual Result<void> pause(std::string_view task_id) = 0;
  virtual Result<void> resume(std::string_view task_id) = 0;
  // Asks the task to end and cancels its descendants. Idempotent. FailedPrecondition if it has succeeded or failed.
  virtual Result<void> cancel(std::string_view task_id) = 0;
  // Runs a failed task again, and the tasks that were cancelled because of it.
  virtual Result<void> retry(std::string_view task_id) = 0;

  // Forgets a task that has ended (FailedPrecondition otherwise): its stage is destroyed, its id is unknown from now on
  // and may be used again. Its outputs stay available to tasks that were submitted with it as a dependency and have not
  // succeeded; its memory is released with that of others, so that forgetting a task costs the same for any number of
  // tasks. Its runs may be missing in write_trace().
  virtual Result<void> forget(std::string_view task_id) = 0;
  // Forgets every task that has ended, and returns how many there were.
  virtual std::size_t forget_ended() = 0;

  [[nodiscard]] virtual Result<TaskState> state(std::string_view task_id) const = 0;
  [[nodiscard]] virtual Result<TaskInfo> info(std::string_view task_id) const = 0;
  [[nodiscard]] virtual Result<TaskDescriptor> describe(std::string_view task_id) const = 0;
  // The outputs of a task that succeeded.
  [[nodiscard]] virtual Result<std::shared_ptr<const Values>> outputs(std::string_view task_id) const = 0;
  [[nodiscard]] virtual SchedulerStats stats() const = 0;
  // Every task that is not forgotten, in the order of submission.
  [[nodiscard]] virtual std::vector<TaskInfo> report() const = 0;

  // Writes the latest SchedulerConfig::trace_slices runs of tasks for ui.perfetto.dev and chrome://tracing: one track
  // per worker (and further ones where stages that waited overlap), one slice per run with the task's id, the state in
  // which the run ended, and the attempt. rota/flow/picture.h draws the graph. FailedPrecondition if trace_slices is 0;
  // IoError.
  virtual Result<void> write_trace(std::ostream& out) const = 0;

  // Waits until the task is terminal, and returns its error if it has one.
  virtual Result<void> wait(std::string_view task_id) = 0;
  // Waits until every task is terminal.
  virtual void wait_all() = 0;

  // Calls `observer` with each event from now on: one at a time, in order, on the thread that caused the event, and
  // without a lock held, so that it may call the scheduler (but not wait). Only before the first submit().
  virtual void observe(Observer observer) = 0;
  // Returns after every earlier event has been delivered. Must not be called by an observer.
  virtual void flush_events() = 0;
};

// The `logger` (default_logger() if null) receives warnings that no caller gets: an observer that threw, a task that
// was cancelled because it reached no checkpoint, a setting without effect.
//
// Stages run as fibers on `config.workers` threads. InvalidArgument for a bad configuration.
Result<std::unique_ptr<IScheduler>> create_thread_pool_scheduler(const SchedulerConfig& config,
                                                                 std::shared_ptr<ILogger> logger = nullptr);
// The same on an existing runtime, which must outlive the scheduler. In deterministic mode every call must come from a
// task of that runtime.
Result<std::unique_ptr<IScheduler>> create_thread_pool_scheduler(const SchedulerConfig& config,
                                                                 std::shared_ptr<ILogger> logger,
                                                                 fiber::Runtime& runtime);
// Runs one stage at a time on one thread, without the fiber runtime; useful for comparison.
Result<std::unique_ptr<IScheduler>> create_simple_scheduler(const SchedulerConfig& config = {},
                                                            std::shared_ptr<ILogger> logger = nullptr);
// Chooses the scheduler and its configuration by the STV_* variables.
Result<std::unique_ptr<IScheduler>> create_scheduler(const SchedulerConfig& base = {},
                                                     std::shared_ptr<ILogger> logger = nullptr);

}  // namespace rota::flow

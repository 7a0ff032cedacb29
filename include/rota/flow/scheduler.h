// IScheduler: tasks with dependencies, priorities and demands, run in this process (G-1 to G-8).
//
//   auto scheduler = create_scheduler();                       // as STV_SCHEDULER and the other variables say
//   scheduler->submit({.task_id = "a"}, [](StageContext& context) { context.output("n", 7); });
//   scheduler->submit({.task_id = "b", .deps = {"a"}}, ...);
//   Result<void> end = scheduler->wait("b");
//
// A submitted task starts as soon as its dependencies have succeeded, its turn comes and its resources are free.
//
// Thread safety: everything may be called from any thread, and from stages. What waits (wait(), and pause() of a
// running task) parks the caller if it is a fiber of a runtime, and blocks its thread otherwise. A stage must not wait
// for itself, and in the simple scheduler not for another task either: there is only one thread.
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
  std::string trace_id{};  // Handed through to the stage; the task's id if empty.
  std::int32_t priority = 0;
  std::vector<std::string> deps{};
  ResourceDemand resource_demand{};
  RetryPolicy retry{};
  // Set by describe(), ignored by submit(): where a paused task was.
  std::optional<TaskState> paused_from{};
};

// What is known about a task. Times are of the scheduler's clock; those that have not come yet are zero.
struct TaskInfo {
  TaskDescriptor descriptor;
  TaskState state = TaskState::kQueued;
  std::uint32_t attempts = 0;
  double progress = 0;
  std::string note;
  // Failed: what the stage said. Cancelled: why, with details `cause` and, behind another task, `root`.
  std::optional<TaskError> error;
  std::chrono::nanoseconds submitted{0}, ready{0}, started{0}, ended{0};  // `started` is of the latest attempt.
  std::chrono::nanoseconds queue_wait{0};                                 // Ready and not running, altogether.
  std::chrono::nanoseconds run_time{0};                                   // Running, altogether; until now if it is.
  std::uint32_t worker = 0;                                               // Which thread ran it last.
};

// A change of a task's state, or news of its progress.
struct TaskEvent {
  std::string_view task_id;  // Valid as long as the scheduler.
  TaskState from, to;        // Equal for progress.
  bool ends = false;         // It is terminal now: not a failure that is retried by itself.
  double progress = 0;
  std::string note{};
  std::chrono::nanoseconds at{0};
};
using Observer = std::function<void(const TaskEvent&)>;

struct SchedulerStats {
  std::uint64_t tasks = 0, succeeded = 0, failed = 0, cancelled = 0;
  std::uint64_t cpu_hits = 0, budget_hits = 0;  // Choices that passed something over for want of CPU, of memory.
  std::uint32_t cpu_slots_held = 0;
  std::uint64_t ram_mb_held = 0, vram_mb_held = 0;
};

class IScheduler {
 public:
  // Cancels what has not ended and waits for the stages that run.
  virtual ~IScheduler();

  using Submission = std::pair<TaskDescriptor, Stage>;
  // InvalidArgument (id, stage, cycle, demand), AlreadyExists, NotFound (a dependency), Capacity (more CPU slots than
  // there are), Closed. What is refused leaves no trace.
  virtual Result<void> submit(TaskDescriptor descriptor, Stage stage) = 0;
  // All of them, in any order among themselves, or none.
  virtual Result<void> submit_all(std::vector<Submission> tasks) = 0;

  // Queued and Ready: at once. Running: waits for the next checkpoint; Timeout if there was none in time, and the task
  // is cancelled then; FailedPrecondition if it ended first; Cancelled or Conflict if it was cancelled or resumed.
  virtual Result<void> pause(std::string_view task_id) = 0;
  virtual Result<void> resume(std::string_view task_id) = 0;
  // Asks it to end; everything behind it is cancelled. Idempotent. FailedPrecondition if it has succeeded or failed.
  virtual Result<void> cancel(std::string_view task_id) = 0;
  // Runs a failed task again, and with it what was cancelled because of it.
  virtual Result<void> retry(std::string_view task_id) = 0;

  [[nodiscard]] virtual Result<TaskState> state(std::string_view task_id) const = 0;
  [[nodiscard]] virtual Result<TaskInfo> info(std::string_view task_id) const = 0;
  [[nodiscard]] virtual Result<TaskDescriptor> describe(std::string_view task_id) const = 0;
  // What a task that succeeded gave.
  [[nodiscard]] virtual Result<std::shared_ptr<const Values>> outputs(std::string_view task_id) const = 0;
  [[nodiscard]] virtual SchedulerStats stats() const = 0;
  // Every task, in the order of submission.
  [[nodiscard]] virtual std::vector<TaskInfo> report() const = 0;

  // The latest SchedulerConfig::trace_slices runs of tasks, for ui.perfetto.dev and chrome://tracing: a track a worker
  // (and further ones, where stages that waited overlap), a slice a run, with the task's id, what the run ended as, and
  // which attempt it was. rota/flow/picture.h draws the graph. FailedPrecondition if that number is 0; IoError.
  virtual Result<void> write_trace(std::ostream& out) const = 0;

  // Waits until the task is terminal: nothing, or its error.
  virtual Result<void> wait(std::string_view task_id) = 0;
  // Waits until every task is terminal.
  virtual void wait_all() = 0;

  // Calls `observer` with each event from now on: one after the other, in order, on whatever thread made it, and
  // without a lock held, so that it may call the scheduler (but not wait). Only before the first submit().
  virtual void observe(Observer observer) = 0;
  // Returns after every event that came before has been delivered. Not from an observer.
  virtual void flush_events() = 0;
};

// The `logger` (default_logger() if null) hears of what nobody is told otherwise: an observer that threw, a task that
// was cancelled because it came to no checkpoint, a setting that has no effect.
//
// Stages run as fibers on `config.workers` threads. InvalidArgument if the configuration makes no sense.
Result<std::unique_ptr<IScheduler>> create_thread_pool_scheduler(const SchedulerConfig& config,
                                                                 std::shared_ptr<ILogger> logger = nullptr);
// The same on a runtime that is there already and outlives the scheduler. In deterministic mode everything must be
// called from inside that runtime.
Result<std::unique_ptr<IScheduler>> create_thread_pool_scheduler(const SchedulerConfig& config,
                                                                 std::shared_ptr<ILogger> logger,
                                                                 fiber::Runtime& runtime);
// One stage at a time on one thread, without the fiber runtime: for comparison, and when in doubt.
Result<std::unique_ptr<IScheduler>> create_simple_scheduler(const SchedulerConfig& config = {},
                                                            std::shared_ptr<ILogger> logger = nullptr);
// What the STV_* variables say.
Result<std::unique_ptr<IScheduler>> create_scheduler(const SchedulerConfig& base = {},
                                                     std::shared_ptr<ILogger> logger = nullptr);

}  // namespace rota::flow

// Events: everything that the brain decided. The state is the result of applying the events of the log in order.
//
// An event may refer to the command that it came from (a submitted workflow, a result) instead of repeating it: both
// are in one record, and State::apply() gets both. What follows from an event without a choice has no event of its own:
// for example that a success makes successors ready.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fleet/command.h"
#include "rota/model/ids.h"

namespace rota::fleet {

struct PolicyChanged {
  static constexpr std::string_view kName = "PolicyChanged";
  ROTA_FIELDS()
};

struct WorkerRegistered {
  static constexpr std::string_view kName = "WorkerRegistered";
  WorkerId worker{};
  ROTA_FIELDS(worker)
};

// Of older releases, which recorded every heartbeat.
struct WorkersSeen {
  static constexpr std::string_view kName = "WorkersSeen";
  std::vector<WorkerId> workers{};
  ROTA_FIELDS(workers)
};

enum class WorkerChange : std::uint8_t {
  kDraining,     // It takes no more tasks, and leaves when it has none.
  kLeft,         // It left, without tasks.
  kUnreachable,  // Its heartbeats are missing, or it was reported as lost.
  kBack,         // It sent a message after it had been unreachable.
  kDisabledByHand,
  kEnabledByHand,
  kDisabledElastic,
  kEnabledElastic,
  kAutomatic,  // Enabled, and from now on left to the elastic coordinator.
  kRefusing,   // An assignment did not reach it: it gets no tasks for Policy::undeliverable_backoff_ms.
  kAccepting,  // That time is over.
};
ROTA_ENUM_NAMES(WorkerChange, kAccepting, "draining", "left", "unreachable", "back", "disabled_by_hand",
                "enabled_by_hand", "disabled_elastic", "enabled_elastic", "automatic", "refusing", "accepting")
struct WorkerChanged {
  static constexpr std::string_view kName = "WorkerChanged";
  WorkerId worker{};
  WorkerChange change = WorkerChange::kDraining;
  ROTA_FIELDS(worker, change)
};

struct CachesReported {
  static constexpr std::string_view kName = "CachesReported";
  WorkerId worker{};
  ROTA_FIELDS(worker)
};

struct WorkflowAccepted {
  static constexpr std::string_view kName = "WorkflowAccepted";
  WorkflowId workflow{};
  bool throttle = false;  // The client should slow down.
  ROTA_FIELDS(workflow, throttle)
};

// No worker that is registered now could ever run the stage. Its tasks wait for one during the grace period.
struct PlacementWarned {
  static constexpr std::string_view kName = "PlacementWarned";
  WorkflowId workflow{};
  std::uint32_t stage = 0;
  std::string requirement{};  // "memory: 64 GiB needed, 16 GiB available"
  WorkerId nearest{};         // The worker that comes nearest; none if there is no worker.
  ROTA_FIELDS(workflow, stage, requirement, nearest)
};

// The task was examined, or its backoff is over: it may run.
struct TaskReadied {
  static constexpr std::string_view kName = "TaskReadied";
  TaskId task{};
  ROTA_FIELDS(task)
};
struct TaskSkipped {
  static constexpr std::string_view kName = "TaskSkipped";
  TaskId task{};
  ROTA_FIELDS(task)
};

enum class Affinity : std::uint8_t { kNone, kDataLocality, kPreviouslyExecuted, kSameZone };
ROTA_ENUM_NAMES(Affinity, kSameZone, "none", "data_locality", "previously_executed", "same_zone")
enum class Why : std::uint8_t {
  kOnlyWorkerAvailable,
  kLeastLoaded,  // queue_depth
  kResourceFit,  // available, required: cpu
  kAffinity,     // affinity
  kScore,        // score = (lambda * throughput - (1 - lambda) * cost) + jitter
  kSticky,       // The worker has the weights of the task's parent.
  kPinned,       // Bound to the worker by its stage or by the dispatch mode.
  kFirstFit,
  kRoundRobin,
  kRandom,
  kCustom,
  kFinish,  // Order::kCriticalPath: the worker that is expected to finish it first; run_ms.
};
ROTA_ENUM_NAMES(Why, kFinish, "only_worker_available", "least_loaded", "resource_fit", "affinity", "score", "sticky",
                "pinned", "first_fit", "round_robin", "random", "custom", "finish")
// Why a task runs where it does (B-3). `why` decides which numbers the choice used. Lambda, throughput, cost and score
// of the chosen worker are there in any case (H-2), also with a single candidate.
struct Reasoning {
  static constexpr bool kWritesEnumerators = true;
  Why why = Why::kOnlyWorkerAvailable;
  Affinity affinity = Affinity::kNone;
  std::uint32_t candidates = 0;
  std::uint32_t reuse_hits = 0;
  std::uint32_t queue_depth = 0;
  std::int64_t available = 0;
  std::int64_t required = 0;
  std::int64_t lambda = 0;
  std::int64_t throughput = 0;
  std::int64_t cost = 0;
  std::int64_t jitter = 0;
  std::int64_t score = 0;
  std::int64_t path_ms = 0;  // Order::kCriticalPath: the task's path to the end of its workflow.
  std::int64_t run_ms = 0;   // Order::kCriticalPath: how long it is expected to run there.
  ROTA_FIELDS(why, affinity, candidates, reuse_hits, queue_depth, available, required, lambda, throughput, cost, jitter,
              score, path_ms, run_ms)
};

struct TaskAssigned {
  static constexpr std::string_view kName = "TaskAssigned";
  TaskId task{};
  AttemptNumber attempt{};
  WorkerId worker{};
  DeviceSet devices = 0;             // Of the worker's GPUs.
  bool queued = false;               // It waits at the worker until what it needs is free there.
  std::vector<AttemptId> members{};  // The other tasks of a merged execution.
  Reasoning reasoning{};
  ROTA_FIELDS(task, attempt, worker, devices, queued, members, reasoning)
};

// A task that was queued at its worker got its resources.
struct TaskStarted {
  static constexpr std::string_view kName = "TaskStarted";
  TaskId task{};
  DeviceSet devices = 0;
  ROTA_FIELDS(task, devices)
};

struct TaskSucceeded {
  static constexpr std::string_view kName = "TaskSucceeded";
  TaskId task{};
  AttemptNumber attempt{};
  ROTA_FIELDS(task, attempt)
};

struct TaskFailed {
  static constexpr std::string_view kName = "TaskFailed";
  TaskId task{};
  FailureKind kind = FailureKind::kError;
  std::string message{};
  ROTA_FIELDS(task, kind, message)
};

enum class RequeueReason : std::uint8_t {
  kFailed,  // An attempt failed and another is allowed. Spends an attempt, as do the next three.
  kWorkerLost,
  kKilledForMemory,
  kTimedOut,
  kPreempted,  // Spends no attempt, as do the following.
  kUndeliverable,
  kStickyWorkerBusy,  // It was not assigned: it waits for its parent's worker.
  kGang,              // Another task of its gang stopped.
  kRetried,           // By a user.
  kBatchFailed,       // The execution into which it was merged failed as a whole. It runs alone from now on.
  kRecalled,          // Its worker gave it back from its queue, for a task that is ahead of it.
};
ROTA_ENUM_NAMES(RequeueReason, kRecalled, "failed", "worker_lost", "killed_for_memory", "timed_out", "preempted",
                "undeliverable", "sticky_worker_busy", "gang", "retried", "batch_failed", "recalled")
struct TaskRequeued {
  static constexpr std::string_view kName = "TaskRequeued";
  TaskId task{};
  RequeueReason reason = RequeueReason::kFailed;
  std::int64_t not_before_ns = 0;  // Wall time of the next attempt; 0: at once.
  std::int64_t memory_bytes = 0;   // What it requests from now on; 0: as before.
  ROTA_FIELDS(task, reason, not_before_ns, memory_bytes)
};

struct TaskCancelled {
  static constexpr std::string_view kName = "TaskCancelled";
  TaskId task{};
  bool dependency_failure = false;
  TaskId parent_task_id{};  // The task whose failure or cancellation is the root cause; none for the root itself.
  ROTA_FIELDS(task, dependency_failure, parent_task_id)
};

struct TaskPaused {
  static constexpr std::string_view kName = "TaskPaused";
  TaskId task{};
  ROTA_FIELDS(task)
};
struct TaskResumed {
  static constexpr std::string_view kName = "TaskResumed";
  TaskId task{};
  ROTA_FIELDS(task)
};

// A running task is to stop. Its worker reports when it has.
enum class StopReason : std::uint8_t {
  kCancel,
  kPreempt,
  kGang,
  kRecall,  // Only of RecallRequested, in the state of the task.
};
ROTA_ENUM_NAMES(StopReason, kRecall, "cancel", "preempt", "gang", "recall")
struct StopRequested {
  static constexpr std::string_view kName = "StopRequested";
  TaskId task{};
  StopReason reason = StopReason::kCancel;
  TaskId for_task{};  // The task that needs the room, or whose gang stops.
  ROTA_FIELDS(task, reason, for_task)
};

struct CheckpointSaved {
  static constexpr std::string_view kName = "CheckpointSaved";
  TaskId task{};
  ROTA_FIELDS(task)
};

struct PriorityChanged {
  static constexpr std::string_view kName = "PriorityChanged";
  ROTA_FIELDS()
};

struct QuotaChanged {
  static constexpr std::string_view kName = "QuotaChanged";
  ROTA_FIELDS()
};

// A workflow or a type is no longer bound to its worker: that takes no more tasks, or it can never run a task of it
// that another worker can.
struct BindingDropped {
  static constexpr std::string_view kName = "BindingDropped";
  WorkflowId workflow{};
  std::string type{};
  ROTA_FIELDS(workflow, type)
};

// The worker keeps room for the ready task: no other task starts there if this one would then not fit when those that
// were told to stop have stopped. It is decided for a task that stops others (B-22), and for one that others would
// overtake for too long (B-4). None: the room is no longer kept. It also ends when the task is no longer ready and when
// the worker takes no more tasks.
struct RoomReserved {
  static constexpr std::string_view kName = "RoomReserved";
  TaskId task{};
  WorkerId worker{};
  ROTA_FIELDS(task, worker)
};

enum class Outcome : std::uint8_t { kRunning, kSucceeded, kFailed, kCancelled };
ROTA_ENUM_NAMES(Outcome, kCancelled, "running", "succeeded", "failed", "cancelled")
struct WorkflowEnded {
  static constexpr std::string_view kName = "WorkflowEnded";
  WorkflowId workflow{};
  Outcome outcome = Outcome::kSucceeded;
  ROTA_FIELDS(workflow, outcome)
};

struct WorkflowForgotten {
  static constexpr std::string_view kName = "WorkflowForgotten";
  WorkflowId workflow{};
  ROTA_FIELDS(workflow)
};

// The elastic coordinator has acted; it acts again one interval later.
struct ElasticPolled {
  static constexpr std::string_view kName = "ElasticPolled";
  ROTA_FIELDS()
};

// The worker is to give the task back if it is still in its queue there; if it has started, it runs on (B-4).
struct RecallRequested {
  static constexpr std::string_view kName = "RecallRequested";
  TaskId task{};
  TaskId for_task{};  // The ready task that is ahead of it.
  ROTA_FIELDS(task, for_task)
};

// The workflow is to end early: its tasks are cancelled, but for those of `finally` (Y-4, Y-5).
enum class StopCause : std::uint8_t {
  kNone,      // Only in the state of a workflow: it was not stopped.
  kCancel,    // A user cancelled it.
  kDeadline,  // Its deadline has passed.
  kFailFast,  // A task failed. Stages that run after a failure still run.
};
ROTA_ENUM_NAMES(StopCause, kFailFast, "none", "cancel", "deadline", "fail_fast")
struct WorkflowStopped {
  static constexpr std::string_view kName = "WorkflowStopped";
  WorkflowId workflow{};
  StopCause cause = StopCause::kCancel;
  TaskId task{};  // kFailFast: the task that failed.
  ROTA_FIELDS(workflow, cause, task)
};

// The items of a stage whose matrix names results are known (Y-2): it has these tasks from now on.
struct StageExpanded {
  static constexpr std::string_view kName = "StageExpanded";
  WorkflowId workflow{};
  std::uint32_t stage = 0;
  std::vector<std::string> items{};  // JSON objects; at least one.
  ROTA_FIELDS(workflow, stage, items)
};

// What a stage with items of its own (StageExpanded) comes after is retried: the stage is one task again, without
// items, and is expanded again. Its other tasks are withdrawn.
struct StageCollapsed {
  static constexpr std::string_view kName = "StageCollapsed";
  WorkflowId workflow{};
  std::uint32_t stage = 0;
  ROTA_FIELDS(workflow, stage)
};

struct ScheduleSet {
  static constexpr std::string_view kName = "ScheduleSet";
  ROTA_FIELDS()
};
struct ScheduleChanged {
  static constexpr std::string_view kName = "ScheduleChanged";
  ROTA_FIELDS()
};

// A schedule was due: its time is dealt with (H-7).
enum class FiringOutcome : std::uint8_t {
  kStarted,  // Its workflow was accepted.
  kSkipped,  // An earlier one still runs.
  kQueued,   // It fires again, for the same time, when earlier ones have ended.
};
ROTA_ENUM_NAMES(FiringOutcome, kQueued, "started", "skipped", "queued")
struct ScheduleFired {
  static constexpr std::string_view kName = "ScheduleFired";
  FiringOutcome outcome = FiringOutcome::kStarted;
  WorkflowId workflow{};  // kStarted.
  ROTA_FIELDS(outcome, workflow)
};

// The position in this list is the number in the log: append, never reorder.
using Event = std::variant<PolicyChanged, WorkerRegistered, WorkersSeen, WorkerChanged, CachesReported,
                           WorkflowAccepted, PlacementWarned, TaskReadied, TaskSkipped, TaskAssigned, TaskStarted,
                           TaskSucceeded, TaskFailed, TaskRequeued, TaskCancelled, TaskPaused, TaskResumed,
                           StopRequested, CheckpointSaved, PriorityChanged, QuotaChanged, BindingDropped, WorkflowEnded,
                           WorkflowForgotten, ElasticPolled, RoomReserved, RecallRequested, WorkflowStopped,
                           StageExpanded, ScheduleSet, ScheduleChanged, ScheduleFired, StageCollapsed>;
using Events = std::vector<Event>;

}  // namespace rota::fleet

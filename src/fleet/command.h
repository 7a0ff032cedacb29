// Commands: everything that the brain is told.
//
// Wall time is not in the commands but beside them, in the record: a command is decided at a time that is an input.
// Reports come from workers at least once, late, twice or out of order; the attempt number tells which are still meant.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fleet/policy.h"
#include "model/enum_names.h"
#include "model/spec.h"
#include "rota/model/ids.h"

namespace rota::fleet {

struct SetPolicy {
  static constexpr std::string_view kName = "SetPolicy";
  Policy policy{};
  ROTA_FIELDS(policy)
};

// Time passes. Timers (heartbeats, backoffs, graces, the elastic coordinator) act on this command alone.
struct Tick {
  static constexpr std::string_view kName = "Tick";
  ROTA_FIELDS()
};

// A worker is there: for the first time, or again under its old name.
//
// The incarnation is a number of the worker's process life; 0: it has none. Another one than before (or none) means
// that the worker restarted, and what it ran is requeued. The same again means that the message came twice, or that the
// bus was away in between: nothing is lost. One of an earlier life is late, and nothing follows from it.
struct RegisterWorker {
  static constexpr std::string_view kName = "RegisterWorker";
  WorkerSpec worker{};
  std::vector<std::string> caches{};  // "model:llama-3": what it has already.
  std::uint64_t incarnation = 0;
  ROTA_FIELDS(worker, caches, incarnation)
};

struct Heartbeats {
  static constexpr std::string_view kName = "Heartbeats";
  std::vector<std::string> workers{};
  ROTA_FIELDS(workers)
};

// The worker takes no more tasks, ends what it runs, and is gone when that is done.
struct DrainWorker {
  static constexpr std::string_view kName = "DrainWorker";
  std::string worker{};
  ROTA_FIELDS(worker)
};

// Somebody knows that it is dead, without waiting for its heartbeat.
struct WorkerLost {
  static constexpr std::string_view kName = "WorkerLost";
  std::string worker{};
  std::string reason{};
  ROTA_FIELDS(worker, reason)
};

// By hand; holds until undone by hand.
struct SetWorkerEnabled {
  static constexpr std::string_view kName = "SetWorkerEnabled";
  std::string worker{};
  bool enabled = true;
  ROTA_FIELDS(worker, enabled)
};

// What the worker has in its caches now, beside what it is known to have.
struct ReportCaches {
  static constexpr std::string_view kName = "ReportCaches";
  std::string worker{};
  std::vector<std::string> items{};
  ROTA_FIELDS(worker, items)
};

struct SubmitWorkflow {
  static constexpr std::string_view kName = "SubmitWorkflow";
  // Given by the client, and unique if not empty: the same key again is AlreadyExists, so that a retry is safe.
  std::string key{};
  WorkflowSpec workflow{};
  ROTA_FIELDS(key, workflow)
};

// What a person does to a whole workflow (task none) or to one task of it.
enum class Action : std::uint8_t { kPause, kResume, kCancel, kRetry };
ROTA_ENUM_NAMES(Action, kRetry, "pause", "resume", "cancel", "retry")
struct Control {
  static constexpr std::string_view kName = "Control";
  Action action = Action::kPause;
  WorkflowId workflow{};
  TaskId task{};
  ROTA_FIELDS(action, workflow, task)
};

struct SetPriority {
  static constexpr std::string_view kName = "SetPriority";
  WorkflowId workflow{};
  TaskId task{};  // None: the whole workflow.
  std::int64_t priority = 0;
  ROTA_FIELDS(workflow, task, priority)
};

// A user's part of the fleet: a weight for the fair share, and hard limits (0: none).
struct SetQuota {
  static constexpr std::string_view kName = "SetQuota";
  std::string user{};
  std::int64_t weight = 1;
  std::int64_t cpu_millis = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t gpus = 0;
  std::int64_t tasks = 0;
  ROTA_FIELDS(user, weight, cpu_millis, memory_bytes, gpus, tasks)
};

struct ReportSucceeded {
  static constexpr std::string_view kName = "ReportSucceeded";
  TaskId task{};
  std::uint32_t attempt = 0;
  std::string result = "null";  // JSON.
  bool cached = false;          // Nothing was run: it is the result of an earlier success.
  std::string note{};           // Why it was run or not, for people; empty unless its stage has `cache`.
  ROTA_FIELDS(task, attempt, result, cached, note)
};

enum class FailureKind : std::uint8_t {
  kError,        // The task's own: an exit code, an exception.
  kMemory,       // Killed for memory.
  kTimeout,      // Its attempt took longer than it may.
  kWorkerLost,   // Its worker died.
  kReference,    // A `${...}` of it leads nowhere.
  kUnplaceable,  // No live worker could run it, for longer than the grace.
  kDependency,   // One that it needs failed or was cancelled.
  kGang,         // Another of its gang failed.
};
ROTA_ENUM_NAMES(FailureKind, kGang, "error", "memory", "timeout", "worker_lost", "reference", "unplaceable",
                "dependency", "gang")
struct ReportFailed {
  static constexpr std::string_view kName = "ReportFailed";
  TaskId task{};
  std::uint32_t attempt = 0;
  FailureKind kind = FailureKind::kError;
  std::string message{};
  bool final = false;  // The worker knows that another attempt would fail, too.
  std::string note{};  // As above.
  ROTA_FIELDS(task, attempt, kind, message, final, note)
};

// The task stopped as it was told: cancelled, or put aside at a checkpoint.
struct ReportStopped {
  static constexpr std::string_view kName = "ReportStopped";
  TaskId task{};
  std::uint32_t attempt = 0;
  ROTA_FIELDS(task, attempt)
};

// A JSON value from which a later attempt can go on: `${task.checkpoint}`.
struct ReportCheckpoint {
  static constexpr std::string_view kName = "ReportCheckpoint";
  TaskId task{};
  std::uint32_t attempt = 0;
  std::string checkpoint = "null";
  ROTA_FIELDS(task, attempt, checkpoint)
};

// The assignment never reached its worker.
struct ReportUndeliverable {
  static constexpr std::string_view kName = "ReportUndeliverable";
  TaskId task{};
  std::uint32_t attempt = 0;
  ROTA_FIELDS(task, attempt)
};

// Ended workflows are forgotten by themselves after a time; this does it now.
struct ForgetWorkflow {
  static constexpr std::string_view kName = "ForgetWorkflow";
  WorkflowId workflow{};
  ROTA_FIELDS(workflow)
};

// The place in this list is the number in the log: append, never reorder.
using Command = std::variant<SetPolicy, Tick, RegisterWorker, Heartbeats, DrainWorker, WorkerLost, SetWorkerEnabled,
                             ReportCaches, SubmitWorkflow, Control, SetPriority, SetQuota, ReportSucceeded,
                             ReportFailed, ReportStopped, ReportCheckpoint, ReportUndeliverable, ForgetWorkflow>;

}  // namespace rota::fleet

// Commands: every input of the brain.
//
// The wall time of a command is an input as well; it is in the record, beside the command. Reports of workers may
// arrive twice, late or out of order: the attempt number tells which ones are current.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fleet/policy.h"
#include "fleet/schedule.h"
#include "model/enum_names.h"
#include "model/outcome.h"
#include "model/workflow_spec.h"
#include "rota/model/ids.h"
#include "rota/model/resources.h"
#include "rota/model/worker_spec.h"

namespace rota::fleet {

struct SetPolicy {
  static constexpr std::string_view kName = "SetPolicy";
  Policy policy{};
  ROTA_FIELDS(policy)
};

// Time has passed. Timers (backoffs, grace periods, the elastic coordinator) fire on this command alone.
struct Tick {
  static constexpr std::string_view kName = "Tick";
  ROTA_FIELDS()
};

// A worker registers: for the first time, or again under its old name.
//
// Another incarnation than before, or none, means that the worker process restarted: what it ran is requeued. The same
// incarnation means that the message was delivered twice, or that the bus was unavailable in between: the worker keeps
// its tasks. A message of an earlier incarnation is late and is ignored.
struct RegisterWorker {
  static constexpr std::string_view kName = "RegisterWorker";
  WorkerSpec worker{};
  std::vector<CacheItem> caches{};
  Incarnation incarnation{};
  ROTA_FIELDS(worker, caches, incarnation)
};

// These workers were heard from. Nothing follows for a worker that is reachable, so heartbeats leave no trace in the
// log until one of them ends a silence. The brain does not know when it last heard from a worker: the host does, and
// reports a silence of Policy::heartbeat_ttl_ms as WorkerLost.
struct Heartbeats {
  static constexpr std::string_view kName = "Heartbeats";
  std::vector<std::string> workers{};
  ROTA_FIELDS(workers)
};

// The worker takes no more tasks, and leaves when it has none.
struct DrainWorker {
  static constexpr std::string_view kName = "DrainWorker";
  std::string worker{};
  ROTA_FIELDS(worker)
};

// The worker was silent for too long, or is known to be dead.
struct WorkerLost {
  static constexpr std::string_view kName = "WorkerLost";
  std::string worker{};
  std::string reason{};
  ROTA_FIELDS(worker, reason)
};

// An operator enables or disables the worker; this holds until an operator changes it (B-17).
struct SetWorkerEnabled {
  static constexpr std::string_view kName = "SetWorkerEnabled";
  std::string worker{};
  bool enabled = true;
  bool held = true;  // False: it is enabled now, and from now on left to the elastic coordinator.
  ROTA_FIELDS(worker, enabled, held)
};

// Items that the worker has in its caches now, in addition to those that are known.
struct ReportCaches {
  static constexpr std::string_view kName = "ReportCaches";
  std::string worker{};
  std::vector<std::string> items{};
  ROTA_FIELDS(worker, items)
};

struct SubmitWorkflow {
  static constexpr std::string_view kName = "SubmitWorkflow";
  // Given by the client, and unique unless it is empty: a second submission with it is refused with kAlreadyExists, so
  // that a client can safely retry.
  std::string key{};
  WorkflowSpec workflow{};
  // The schedule that fires, and the time for which it does (H-7); empty: a client submits it.
  std::string schedule{};
  std::int64_t nominal_ns = 0;
  ROTA_FIELDS(key, workflow, schedule, nominal_ns)
};

// What a user does to one task, or, if that is none, to a whole workflow.
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

// A user's part of the fleet: a weight for the fair share, and hard limits. The text has the limits beside the user:
// `SetQuota user=ann weight=2 cpu_millis=4000`.
struct SetQuota {
  static constexpr std::string_view kName = "SetQuota";
  std::string user{};
  std::int64_t weight = 1;
  FleetUse limits{};

  template <class Self, class Visit>
  static constexpr void fields(Self& self, Visit&& visit) {
    visit(std::string_view("user"), self.user);
    visit(std::string_view("weight"), self.weight);
    FleetUse::fields(self.limits, visit);
  }
};

// The final report of an attempt. For the ends kCancelled and kPreempted the task stopped as it was told to.
struct ReportEnded {
  static constexpr std::string_view kName = "ReportEnded";
  TaskId task{};
  AttemptNumber attempt{};
  AttemptOutcome outcome{};
  ROTA_FIELDS(task, attempt, outcome)
};

// A JSON value from which a later attempt can continue: `${task.checkpoint}`.
struct ReportCheckpoint {
  static constexpr std::string_view kName = "ReportCheckpoint";
  TaskId task{};
  AttemptNumber attempt{};
  std::string checkpoint = "null";
  ROTA_FIELDS(task, attempt, checkpoint)
};

// The assignment did not reach its worker.
struct ReportUndeliverable {
  static constexpr std::string_view kName = "ReportUndeliverable";
  TaskId task{};
  AttemptNumber attempt{};
  ROTA_FIELDS(task, attempt)
};

// Forgets an ended workflow now, instead of after Policy::retention_ms.
struct ForgetWorkflow {
  static constexpr std::string_view kName = "ForgetWorkflow";
  WorkflowId workflow{};
  ROTA_FIELDS(workflow)
};

// Sets a schedule, or replaces the one with this name: its workflows continue, and times that have passed stay dealt
// with (H-7).
struct SetSchedule {
  static constexpr std::string_view kName = "SetSchedule";
  ScheduleSpec schedule{};
  ROTA_FIELDS(schedule)
};

enum class ScheduleChange : std::uint8_t {
  kPause,
  kResume,  // Times that passed meanwhile do not count as missed.
  kRemove,  // Its workflows continue.
};
ROTA_ENUM_NAMES(ScheduleChange, kRemove, "pause", "resume", "remove")
struct ChangeSchedule {
  static constexpr std::string_view kName = "ChangeSchedule";
  std::string name{};
  ScheduleChange change = ScheduleChange::kPause;
  ROTA_FIELDS(name, change)
};

// The position in this list is the number in the log: append, never reorder.
using Command = std::variant<SetPolicy, Tick, RegisterWorker, Heartbeats, DrainWorker, WorkerLost, SetWorkerEnabled,
                             ReportCaches, SubmitWorkflow, Control, SetPriority, SetQuota, ReportEnded,
                             ReportCheckpoint, ReportUndeliverable, ForgetWorkflow, SetSchedule, ChangeSchedule>;

}  // namespace rota::fleet

// explain: why a task waits, why it ran where it did, or how it ended; in a sentence and as data (B-20).
//
//   "wf-3.0 (train) waits for room: 4 workers could run it: 3 are busy, 1 is disabled; it is 2nd of 7 ready tasks."
//
// An explanation is derived from the state. For a past moment, explain_at() applies the records up to it to an empty
// brain and explains that state. The reasoning of a placement is in the record of the assignment (Task::assigned_in); a
// caller that has the log passes that event.
//
// Pure. An explanation visits all workers and all ready tasks: it is meant for people, not for every decision.
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/event.h"
#include "fleet/record.h"
#include "fleet/state.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::fleet {

enum class ExplainReason : std::uint8_t {
  // It waits.
  kNeeds,           // For stages that have not succeeded.
  kPaused,          // For a user to resume it.
  kBackoff,         // For the time of its next attempt.
  kQuota,           // For its user to hold less.
  kParallel,        // For another task of its stage to end: `parallel` of them are ready or run.
  kFleetResource,   // For others to hold less of a named resource of the whole fleet.
  kUnplaceable,     // For a worker that could ever run it; it fails after the grace period.
  kGangIncomplete,  // For the others of its gang to be ready.
  kGangRoom,        // For room for its whole gang at once.
  kStickyWorker,    // For the worker that has its parent's weights.
  kPinnedWorker,    // For the worker that its stage names.
  kWorkflowWorker,  // For the worker that its workflow is bound to, or for one that no workflow is bound to.
  kTypeWorker,      // For the worker that its type is bound to.
  kNoRoom,          // All workers that could run it are busy, disabled, draining or unreachable.
  kTurn,            // For nothing: the next decision examines or places it.
  kQueuedAtWorker,  // It was sent to its worker, and waits there for tasks before it.
  // It runs.
  kRunning,
  kStopping,  // It was told to stop, and its worker has not reported that it has.
  // It ended.
  kSucceeded,
  kSkipped,
  kFailed,
  kCancelled,
};
std::string_view to_string(ExplainReason reason);

// `value` is a number or `true`/`false` as it is written in JSON, or text.
struct Fact {
  std::string key{};
  std::string value{};
  bool text = false;
  bool operator==(const Fact&) const = default;
};

struct Explanation {
  TaskId task{};
  std::string name{};  // "train[2]"
  std::string workflow{};
  TaskState state = TaskState::kQueued;
  ExplainReason reason = ExplainReason::kNeeds;
  std::int64_t at_ns = 0;
  std::string sentence{};
  std::vector<Fact> facts{};  // The most important first; keys may repeat ("needs").

  // The value of the first fact with this key, or null.
  [[nodiscard]] const std::string* fact(std::string_view key) const;
};

// The names of workers that the state has forgotten, from the log.
using WorkerNames = std::map<WorkerId, std::string>;
// Adds the workers that the record has registered. `state` is the one after the record.
void note_workers(const Record& record, const State& state, WorkerNames& names);

// Explains the task at `now_ns`, or at the state's time if that is later. `assigned` is the event of the record
// Task::assigned_in; without it, the reasoning of a placement is missing. A forgotten worker that is not in `names` is
// named by its id. kNotFound if there is no such task.
[[nodiscard]] Result<Explanation> explain(const State& state, TaskId task, const TaskAssigned* assigned = nullptr,
                                          std::int64_t now_ns = 0, const WorkerNames& names = {});

// "worker 'w2': the best score of 3: 0.4 * throughput 0.75 - 0.6 * cost 0.5 + jitter 0.000412 = 0.000412".
[[nodiscard]] std::string explain_assignment(const TaskAssigned& assigned, const State& state,
                                             const WorkerNames& names = {});

// The assignment of `task` (as lead or as member) in the record, or null.
[[nodiscard]] const TaskAssigned* find_assignment(const Record& record, TaskId task);

// Explains the task at `at_ns`. `records` are those of a log, from its first one on; those after that time are ignored.
// kNotFound also if the task did not exist yet or had been forgotten.
[[nodiscard]] Result<Explanation> explain_at(std::span<const Record> records, TaskId task, std::int64_t at_ns);

// Finds a task by its id ("wf-1.3") or its name: "train[2]", or "train" if the stage has one task. The id or name of
// the workflow may come first ("wf-1/train", "nightly/train[2]"); otherwise the latest workflow with such a task is
// meant. The error kNotFound suggests a similar name, kInvalidArgument says which tasks the stage has.
[[nodiscard]] Result<TaskId> find_task(const State& state, std::string_view name);

// The first ready tasks in the order in which decisions examine them (B-4), at most `most`; only those ahead of the
// task `before`, if that is given. Visits all ready tasks.
[[nodiscard]] std::vector<TaskId> ready_order(const State& state, std::size_t most, TaskId before = TaskId());

// {"task": ..., "reason": ..., "sentence": ..., "facts": {...}} in one line; a key that repeats becomes an array.
[[nodiscard]] std::string to_json(const Explanation& explanation);

}  // namespace rota::fleet

// explain: why a task waits, why it ran where it did, or how it ended; in a sentence and as data (B-20).
//
//   "wf-3.0 (train) waits for room: 4 workers could run it: 3 are busy, 1 is disabled; it is 2nd of 7 ready tasks."
//
// Everything comes from the state, and the state comes from the log: for a past moment, apply the records up to it to a
// Brain (explain_at()) and ask that. Why a task is where it is stands in the record of its assignment
// (Task::assigned_in); whoever has the log hands that record in.
//
// Pure. The cost is that of one look at the workers and the ready tasks: for people, not for every decision.
// Thread safety: functions without state.
#pragma once

#include <cstdint>
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
  kPaused,          // For somebody to resume it.
  kBackoff,         // For the time of its next attempt.
  kQuota,           // For its user to use less.
  kUnplaceable,     // For a worker that could ever run it; it fails when the grace is over.
  kGangIncomplete,  // For the others of its gang to be ready.
  kGangRoom,        // For room for its whole gang at once.
  kStickyWorker,    // For the worker that has its parent's weights.
  kPinnedWorker,    // For the worker that its stage names.
  kWorkflowWorker,  // static_worker: for the worker of its workflow, or for one that belongs to no workflow.
  kTypeWorker,      // fixed_pipeline: for the worker of its type.
  kNoRoom,          // All that could run it are busy, disabled or on their way out.
  kTurn,            // For nothing: it is looked at or placed with the next decision.
  kQueuedAtWorker,  // It was sent, and waits there for what runs before it.
  // It runs.
  kRunning,
  kStopping,  // It was told to stop, and its worker has not said yet that it has.
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
  std::vector<Fact> facts{};  // In the order in which a person would ask; keys may repeat ("needs").

  // The value of the first fact with this key, or null.
  [[nodiscard]] const std::string* fact(std::string_view key) const;
};

// As of `now_ns`, at least the state's own time (0: that). `assigned` is the event of the record Task::assigned_in, if
// it is at hand; without it a task that runs or ran is explained without the reasons of its placement. kNotFound if
// there is no such task.
[[nodiscard]] Result<Explanation> explain(const State& state, TaskId task, const TaskAssigned* assigned = nullptr,
                                          std::int64_t now_ns = 0);

// "worker 'w2': the best score of 3: 0.4 * throughput 0.75 - 0.6 * cost 0.5 + jitter 0.000412 = 0.000412".
[[nodiscard]] std::string explain_assignment(const TaskAssigned& assigned, const State& state);

// The assignment of `task` (as lead or as member) in the record, or null.
[[nodiscard]] const TaskAssigned* find_assignment(const Record& record, TaskId task);

// The same for the moment `at_ns`, from the records of a log from its first on: those up to that time are applied, the
// others not looked at. kNotFound as well if the task was not there yet, or had been forgotten.
[[nodiscard]] Result<Explanation> explain_at(std::span<const Record> records, TaskId task, std::int64_t at_ns);

// A task by its id ("wf-1.3") or its name: "train[2]", "train" (the stage's only task), with its workflow in front by
// id or name ("wf-1/train", "nightly/train[2]"). Of several workflows with such a task the latest is meant. kNotFound
// says what is near, kInvalidArgument which tasks a stage has.
[[nodiscard]] Result<TaskId> find_task(const State& state, std::string_view name);

// One line. {"task": ..., "reason": ..., "sentence": ..., "facts": {...}}; a key that repeats becomes an array.
[[nodiscard]] std::string to_json(const Explanation& explanation);

}  // namespace rota::fleet

// Dispatch modes (B-7): what each mode binds to a worker, what it checks, and which features it uses.
//
// A mode is a row of the table in dispatch_mode.cc; no other code asks which mode is in force. To add a mode, add an
// enumerator with its name to policy.h, and its row. The functions here answer for the row of the policy in force.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>

#include "fleet/policy.h"
#include "model/workflow_spec.h"
#include "rota/model/ids.h"

namespace rota::fleet {

class State;
struct ShapeKey;
struct Worker;
struct Workflow;

// What belongs to one worker as a whole: it is bound to the worker of its first assignment, and goes nowhere else until
// the binding is dropped.
enum class Binding : std::uint8_t { kNone, kWorkflow, kType };

struct DispatchRules {
  DispatchMode mode;
  Binding binding;
  bool checks_requirements;            // False: only the handler decides whether a worker could run a task.
  bool one_task_per_worker;            // A worker gets a task only while it has none.
  bool uses_context;                   // Context reuse, stickiness and merging (B-10 to B-12) apply.
  std::optional<Selection> selection;  // Replaces the policy's.
};

[[nodiscard]] const DispatchRules& dispatch_rules(DispatchMode mode);
[[nodiscard]] const DispatchRules& dispatch_rules(const State& state);

// The requirements of the template that the mode checks.
[[nodiscard]] const Requirements& checked_requirements(const State& state, const TaskTemplate& use);

// Removes from the request the named resources that belong to the whole fleet (Policy::fleet), and returns them.
Amounts take_fleet_names(const Policy& policy, Amounts& request);

// What so many tasks with this key count for in the quota of their user.
[[nodiscard]] FleetUse counted_use(const ShapeKey& key, std::int64_t tasks);

// Adds to the key of a task what its binding depends on.
void add_binding(const State& state, const Workflow& workflow, const TaskTemplate& use, ShapeKey& key);

// The worker to which tasks with this key are bound now; none if they are not.
[[nodiscard]] WorkerId bound_worker(const State& state, const ShapeKey& key);

// True if tasks with this key can go to one worker only: they are pinned, sticky or bound to it.
[[nodiscard]] bool one_worker(const State& state, const ShapeKey& key);
// That worker; none if it is not there.
[[nodiscard]] WorkerId only_worker(const State& state, const ShapeKey& key);

// True if the worker works for another workflow now, and takes no tasks with the key.
[[nodiscard]] bool works_for_another(const State& state, const ShapeKey& key, const Worker& worker);
// True if the mode lets this worker take tasks with the key once it has no other workflow to work for.
[[nodiscard]] bool could_take(const State& state, const ShapeKey& key, const Worker& worker);

// True if an eligible worker could run tasks with this key if they were not bound to another one.
[[nodiscard]] bool could_run_elsewhere(const State& state, const ShapeKey& key);

// True if the worker could run the tasks of the template: it meets what they need, and they are not pinned to another.
[[nodiscard]] bool can_run(const State& state, const WorkerSpec& worker, const TaskTemplate& use);
// True if the worker could run each task of the workflow.
[[nodiscard]] bool could_run_all(const State& state, const WorkerSpec& worker, const WorkflowSpec& workflow);

}  // namespace rota::fleet

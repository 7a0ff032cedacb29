#include "fleet/dispatch_mode.h"

#include <algorithm>
#include <array>
#include <string>

#include "fleet/state.h"

namespace rota::fleet {

namespace {

constexpr std::array kModes = {
    DispatchRules{.mode = DispatchMode::kAdaptive,
                  .binding = Binding::kNone,
                  .checks_requirements = true,
                  .one_task_per_worker = false,
                  .uses_context = true,
                  .selection = {}},
    DispatchRules{.mode = DispatchMode::kStaticWorker,
                  .binding = Binding::kWorkflow,
                  .checks_requirements = true,
                  .one_task_per_worker = false,
                  .uses_context = false,
                  .selection = {}},
    DispatchRules{.mode = DispatchMode::kFixedPipeline,
                  .binding = Binding::kType,
                  .checks_requirements = true,
                  .one_task_per_worker = false,
                  .uses_context = false,
                  .selection = {}},
    // A baseline: idle workers in the order of their registration.
    DispatchRules{.mode = DispatchMode::kStaticRoundRobin,
                  .binding = Binding::kNone,
                  .checks_requirements = false,
                  .one_task_per_worker = true,
                  .uses_context = false,
                  .selection = Selection::kRoundRobin},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kModes.size(); ++i) {
    if (kModes[i].mode != static_cast<DispatchMode>(i)) return false;
  }
  return kModes.size() == enumerator_count<DispatchMode>;
}
static_assert(in_order(), "one row per mode, in the order of the enumerators");

}  // namespace

const DispatchRules& dispatch_rules(DispatchMode mode) { return kModes[static_cast<std::size_t>(mode)]; }
const DispatchRules& dispatch_rules(const State& state) { return dispatch_rules(state.policy().mode); }

const Requirements& checked_requirements(const State& state, const TaskTemplate& use) {
  static const Requirements kNothing = [] {
    Requirements needs;
    needs.cpu_millis = 0;
    return needs;
  }();
  return dispatch_rules(state).checks_requirements ? use.needs : kNothing;
}

Amounts take_fleet_names(const Policy& policy, Amounts& request) {
  Amounts taken;
  if (policy.fleet.empty()) return taken;
  Amounts fleet;
  fleet.named = policy.fleet;
  for (const NamedAmount& entry : request.named) {
    if (fleet.count_of(entry.name) > 0) taken.named.push_back(entry);
  }
  std::erase_if(request.named, [&](const NamedAmount& entry) { return fleet.count_of(entry.name) > 0; });
  return taken;
}

FleetUse counted_use(const ShapeKey& key, std::int64_t tasks) {
  FleetUse use = FleetUse::of(key.needs, tasks);
  use.Amounts::add(key.fleet, tasks);
  use.Amounts::add(key.unchecked, tasks);
  use.gpus += key.unchecked_gpus * tasks;
  return use;
}

bool could_run_elsewhere(const State& state, const ShapeKey& key) {
  const WorkerId bound = bound_worker(state, key);
  const Workflow* workflow = state.find(key.workflow);
  std::int64_t together = 1;
  if (key.gang != 0 && workflow != nullptr) together = workflow->stages[key.gang - 1].count;
  const bool all = dispatch_rules(state).binding == Binding::kWorkflow;
  bool found = false;
  state.each_worker([&](const Worker& worker) {
    if (found || worker.id == bound || !worker.eligible() || !meets(worker.spec, key.needs, key.handler)) return;
    if (!key.pinned.empty() && key.pinned != worker.spec.name) return;
    if (all && (workflow == nullptr || !could_run_all(state, worker.spec, workflow->spec))) return;
    found = worker.spec.resources.count(key.needs) >= together;
  });
  return found;
}

void add_binding(const State& state, const Workflow& workflow, const TaskTemplate& use, ShapeKey& key) {
  switch (dispatch_rules(state).binding) {
    case Binding::kNone:
      return;
    case Binding::kWorkflow:
      key.workflow = workflow.id;
      return;
    case Binding::kType:
      key.type = use.spec.type;
      return;
  }
}

WorkerId bound_worker(const State& state, const ShapeKey& key) {
  switch (dispatch_rules(state).binding) {
    case Binding::kNone:
      break;
    case Binding::kWorkflow: {
      const Workflow* workflow = state.find(key.workflow);
      return workflow == nullptr ? WorkerId() : workflow->bound;
    }
    case Binding::kType: {
      const auto owner = state.globals().type_owner.find(key.type);
      return owner == state.globals().type_owner.end() ? WorkerId() : owner->second;
    }
  }
  return {};
}

bool one_worker(const State& state, const ShapeKey& key) {
  return !key.only.is_none() || !key.pinned.empty() || !bound_worker(state, key).is_none();
}

WorkerId only_worker(const State& state, const ShapeKey& key) {
  if (!key.only.is_none()) return key.only;
  if (!key.pinned.empty()) {
    const Worker* worker = state.find_worker(key.pinned);
    return worker == nullptr ? WorkerId() : worker->id;
  }
  return bound_worker(state, key);
}

bool could_take(const State& state, const ShapeKey& key, const Worker& worker) {
  const Binding binding = dispatch_rules(state).binding;
  if (binding == Binding::kNone) return true;
  const Workflow* workflow = binding == Binding::kWorkflow ? state.find(key.workflow) : nullptr;
  if (binding == Binding::kWorkflow && workflow == nullptr) return false;
  if (const WorkerId bound = bound_worker(state, key); !bound.is_none()) return bound == worker.id;
  // It would get all tasks of the workflow.
  return workflow == nullptr || could_run_all(state, worker.spec, workflow->spec);
}

bool works_for_another(const State& state, const ShapeKey& key, const Worker& worker) {
  return dispatch_rules(state).binding == Binding::kWorkflow && !worker.owner.is_none() && worker.owner != key.workflow;
}

bool can_run(const State& state, const WorkerSpec& worker, const TaskTemplate& use) {
  if (!use.pinned.empty() && use.pinned != worker.name) return false;
  if (state.policy().fleet.empty() || use.needs.named.empty()) {
    return meets(worker, use.needs, needed_handler(use.spec));
  }
  Requirements needs = use.needs;
  take_fleet_names(state.policy(), needs);
  return meets(worker, needs, needed_handler(use.spec));
}

bool could_run_all(const State& state, const WorkerSpec& worker, const WorkflowSpec& workflow) {
  return std::all_of(workflow.templates.begin(), workflow.templates.end(),
                     [&](const TaskTemplate& use) { return can_run(state, worker, use); });
}

}  // namespace rota::fleet

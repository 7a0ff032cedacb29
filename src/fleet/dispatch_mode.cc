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

bool could_take(const State& state, const ShapeKey& key, const Worker& worker) {
  const Binding binding = dispatch_rules(state).binding;
  if (binding == Binding::kNone) return true;
  const Workflow* workflow = binding == Binding::kWorkflow ? state.find(key.workflow) : nullptr;
  if (binding == Binding::kWorkflow && workflow == nullptr) return false;
  if (const WorkerId bound = bound_worker(state, key); !bound.is_none()) return bound == worker.id;
  // It would get all tasks of the workflow.
  return workflow == nullptr || could_run_all(worker.spec, workflow->spec);
}

bool may_take(const State& state, const ShapeKey& key, const Worker& worker) {
  const Binding binding = dispatch_rules(state).binding;
  if (binding == Binding::kNone) return true;
  if (binding == Binding::kWorkflow && !worker.owner.is_none() && worker.owner != key.workflow) return false;
  return could_take(state, key, worker);
}

bool could_run_all(const WorkerSpec& worker, const WorkflowSpec& workflow) {
  return std::all_of(workflow.templates.begin(), workflow.templates.end(),
                     [&](const TaskTemplate& use) { return meets(worker, use.needs, needed_handler(use.spec)); });
}

}  // namespace rota::fleet

#include "host/assignment.h"

#include <string>
#include <utility>

#include "fleet/input_files.h"
#include "fleet/scope.h"

namespace rota::host {

using fleet::Execution;
using fleet::State;
using model::TaskId;

namespace {

model::TaskIdentity identity_of(const State& state, TaskId id) {
  const fleet::Task& task = state.at(id);
  const fleet::Workflow& workflow = state.at(id.workflow());
  const model::Stage& stage = workflow.spec.stages[task.stage];
  const std::uint32_t place = workflow.stages[task.stage].number(id.index());
  model::TaskIdentity identity{.workflow = workflow.spec.name, .stage = stage.name, .name = workflow.name_of(task)};
  if (place < stage.items.size()) identity.item = stage.items[place];
  return identity;
}

}  // namespace

const Execution* execution_of(const State& state, TaskId id) {
  const fleet::Task* task = state.find(id);
  const fleet::Worker* worker = task == nullptr ? nullptr : state.find(task->worker);
  if (worker == nullptr) return nullptr;
  // From the newest on, because the task was most often just assigned.
  for (auto at = worker->executions.rbegin(); at != worker->executions.rend(); ++at) {
    if (at->has(id)) return &*at;
  }
  return nullptr;
}

Result<model::Assign> assignment(const State& state, const Execution& execution, model::Term term) {
  model::Assign assign;
  assign.id = {execution.lead, state.at(execution.lead).attempt};
  assign.term = term;
  assign.identity = identity_of(state, execution.lead);
  ROTA_TRY_ASSIGN(assign.spec, fleet::resolved_spec(state, execution.lead));
  if (assign.spec.files) {
    ROTA_TRY_ASSIGN(assign.files, fleet::input_files(state, execution.lead));
  }
  assign.resources = execution.held;
  assign.assigned_ns = state.at(execution.lead).assigned_ns;
  assign.incarnation = state.at(state.at(execution.lead).worker).incarnation();
  if (execution.members.size() > 1) {
    for (const TaskId member : execution.members) {
      const model::AttemptId id{member, state.at(member).attempt};
      if (member == execution.lead) {
        assign.merged.push_back({id, assign.spec.inputs});
      } else {
        ROTA_TRY_ASSIGN(model::TaskSpec own, fleet::resolved_spec(state, member));
        assign.merged.push_back({id, std::move(own.inputs)});
      }
    }
  }
  return assign;
}

}  // namespace rota::host

#include "host/assignment.h"

#include <string>
#include <string_view>
#include <utility>

#include "fleet/scope.h"
#include "model/json.h"

namespace rota::host {

using fleet::Execution;
using fleet::State;
using model::TaskId;

namespace {

// A workflow's file says what kind it is; for a payload of another origin, a command is what has something to run.
bus::TaskKind kind_of(std::string_view payload) {
  const std::string_view kind = model::json_member(payload, "kind");
  if (kind.data() != nullptr) return kind == "\"handler\"" ? bus::TaskKind::kHandler : bus::TaskKind::kCommand;
  return model::json_member(payload, "run").data() != nullptr ? bus::TaskKind::kCommand : bus::TaskKind::kHandler;
}

// The payload with the checkpoint of an earlier attempt in it.
std::string with_checkpoint(std::string payload, const fleet::Task& task) {
  if (task.extra == nullptr || task.extra->checkpoint.empty()) return payload;
  if (model::json_member(payload, "checkpoint").data() != nullptr) return payload;  // It has put it there by itself.
  const bool empty = model::json_members(payload).empty();
  payload.insert(1, "\"checkpoint\":" + task.extra->checkpoint + (empty ? "" : ","));
  return payload;
}

}  // namespace

const Execution* execution_of(const State& state, TaskId id) {
  const fleet::Task* task = state.find(id);
  const fleet::Worker* worker = task == nullptr ? nullptr : state.find(task->worker);
  if (worker == nullptr) return nullptr;
  // From the newest on: most often it was just assigned.
  for (auto at = worker->executions.rbegin(); at != worker->executions.rend(); ++at) {
    if (at->has(id)) return &*at;
  }
  return nullptr;
}

Result<bus::Assign> assignment(const State& state, const Execution& execution, std::uint64_t term) {
  const fleet::Task& task = state.at(execution.lead);
  ROTA_TRY_ASSIGN(std::string payload, fleet::resolved_payload(state, execution.lead));
  bus::Assign assign;
  assign.task = execution.lead.value();
  assign.attempt = task.attempt;
  assign.term = term;
  assign.kind = kind_of(payload);
  assign.type = state.at(execution.lead.workflow()).template_of(task).type;
  assign.cpu_millis = static_cast<std::uint64_t>(execution.cpu_millis);
  assign.memory_bytes = static_cast<std::uint64_t>(execution.memory_bytes);
  assign.gpu_mask = execution.devices;
  if (execution.members.size() > 1) {
    for (const TaskId member : execution.members) {
      ROTA_TRY_ASSIGN(const std::string own, fleet::resolved_payload(state, member));
      assign.children.push_back(
          {member.value(), state.at(member).attempt, std::string(model::json_member(own, "inputs"))});
    }
  }
  if (model::json_member(payload, "cache").data() != nullptr) {
    const fleet::Workflow& workflow = state.at(execution.lead.workflow());
    const model::Stage& stage = workflow.spec.stages[task.stage];
    assign.workflow = workflow.spec.name;
    assign.stage = stage.name;
    const std::uint32_t place = execution.lead.index() - workflow.stages[task.stage].first;
    if (place < stage.items.size()) assign.item = stage.items[place];
    assign.name = workflow.name_of(task);
  }
  assign.spec = with_checkpoint(std::move(payload), task);
  return assign;
}

}  // namespace rota::host

#include "fleet/scope.h"

#include "base/json_text.h"
#include "model/json.h"

namespace rota::fleet {

Result<std::string_view> TaskScope::value(std::string_view root, std::string_view member) {
  const Workflow& workflow = state_.at(task_.workflow());
  const Task& task = workflow.tasks[task_.index()];
  const Stage& stage = workflow.spec.stages[task.stage];
  const std::uint32_t number = task_.index() - workflow.stages[task.stage].first;
  if (root == "matrix") return stage.items.empty() ? std::string_view("{}") : std::string_view(stage.items[number]);
  text_.clear();
  if (root == "task") {
    if (member == "name") append_json_string(text_, workflow.name_of(task));
    if (member == "attempt") text_ = task.attempt.to_string();
    if (member == "index") text_ = std::to_string(number);
    if (member == "checkpoint")
      text_ = task.extra == nullptr || task.extra->checkpoint.empty() ? "null" : task.extra->checkpoint;
    return std::string_view(text_);
  }
  if (root == "workflow") {
    append_json_string(text_, member == "id" ? workflow.id.to_string() : workflow.spec.name);
    return std::string_view(text_);
  }
  const graph::TaskRef ref = workflow.dag.find(root);
  if (ref.is_none()) return Error{ErrorCode::kNotFound, "there is no stage '" + std::string(root) + "'"};
  const StageState& from = workflow.stages[ref.value() - 1];
  if (from.unfinished > 0) return Error{ErrorCode::kWouldBlock, "stage '" + std::string(root) + "' has not ended"};
  const auto result = [&](std::uint32_t i) -> std::string_view {
    const TaskExtra* extra = workflow.tasks[from.first + i].extra.get();
    return extra == nullptr || extra->result.empty() ? std::string_view("null") : std::string_view(extra->result);
  };
  if (workflow.spec.stages[ref.value() - 1].items.empty()) return result(0);
  text_ = "[";
  for (std::uint32_t i = 0; i < from.count; ++i) {
    if (i > 0) text_.push_back(',');
    text_.append(result(i));
  }
  text_.push_back(']');
  return std::string_view(text_);
}

Result<TaskSpec> resolved_spec(const State& state, TaskId id) {
  TaskScope scope(state, id);
  const Workflow& workflow = state.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  ROTA_TRY_ASSIGN(TaskSpec spec, resolve_references(workflow.template_of(task).spec, scope));
  if (task.extra != nullptr) spec.checkpoint = task.extra->checkpoint;
  return spec;
}

}  // namespace rota::fleet

#include "fleet/scope.h"

#include <algorithm>

#include "base/json_text.h"
#include "model/json.h"

namespace rota::fleet {

std::string_view end_of(const Workflow& workflow, const std::vector<std::uint32_t>& tasks) {
  bool cancelled = false;
  bool skipped = true;
  for (const std::uint32_t t : tasks) {
    const Task& task = workflow.tasks[t];
    if (!graph::is_terminal(task.state)) return "running";
    if (task.state == TaskState::kFailed) return "failed";
    cancelled = cancelled || task.state == TaskState::kCancelled;
    skipped = skipped && task.skipped;
  }
  return cancelled ? "cancelled" : skipped ? "skipped" : "succeeded";
}

std::string error_of(const Workflow& workflow, const std::vector<std::uint32_t>& tasks) {
  const Task* cancelled = nullptr;
  for (const std::uint32_t t : tasks) {
    const Task& task = workflow.tasks[t];
    if (task.state == TaskState::kFailed) return task.extra == nullptr ? std::string() : task.extra->message;
    if (task.state == TaskState::kCancelled && cancelled == nullptr) cancelled = &task;
  }
  if (cancelled == nullptr) return {};
  const TaskId root = cancelled->extra == nullptr ? TaskId() : cancelled->extra->root;
  if (!root.is_none()) return "cancelled because of " + workflow.name_of(workflow.tasks[root.index()]);
  switch (workflow.stopped) {
    case StopCause::kDeadline:
      return "cancelled because the deadline of the workflow had passed";
    case StopCause::kFailFast:
      return "cancelled because another task had failed (fail_fast)";
    case StopCause::kCancel:
      return "cancelled because the workflow was cancelled";
    case StopCause::kNone:
      break;
  }
  return "cancelled by hand";
}

Result<std::string_view> TaskScope::value(std::string_view root, std::string_view member) {
  const Workflow& workflow = state_.at(task_.workflow());
  const Task& task = workflow.tasks[task_.index()];
  const Stage& stage = workflow.spec.stages[task.stage];
  const std::uint32_t number = workflow.stages[task.stage].number(task_.index());
  if (root == "matrix") return stage.items.empty() ? std::string_view("{}") : std::string_view(stage.items[number]);
  text_.clear();
  if (root == "task") {
    if (member == "name") append_json_string(text_, workflow.name_of(task));
    // Those that failed, and this one. The number of assignments, which fences reports, also counts assignments of
    // which nothing came: when a worker restarts, what was queued there is assigned again.
    if (member == "attempt") text_ = std::to_string(task.spent + 1);
    if (member == "index") text_ = std::to_string(number);
    if (member == "checkpoint")
      text_ = task.extra == nullptr || task.extra->checkpoint.empty() ? "null" : task.extra->checkpoint;
    return std::string_view(text_);
  }
  if (root == "workflow") {
    if (member == "state") {
      // Only stages of finally refer to it, and they start when all others have ended.
      append_json_string(text_, to_string(workflow.main.open > 0 ? Outcome::kRunning : workflow.main.outcome()));
      return std::string_view(text_);
    }
    append_json_string(text_, member == "id" ? workflow.id.to_string() : workflow.spec.name);
    return std::string_view(text_);
  }
  const graph::TaskRef ref = workflow.dag.find(root);
  if (ref.is_none()) return Error{ErrorCode::kNotFound, "there is no stage '" + std::string(root) + "'"};
  const std::uint32_t source = ref.value() - 1;
  const StageState& from = workflow.stages[source];
  // Of a stage that is needed by item, the tasks with the same values count.
  const ItemLink* link = workflow.link_of(task.stage, source);
  if (link != nullptr && (!link->resolved || link->child_group[number] == ItemLink::kNoGroup)) {
    return Error{ErrorCode::kWouldBlock, "the tasks of stage '" + std::string(root) + "' are not known"};
  }
  std::vector<std::uint32_t> tasks;
  if (link != nullptr) {
    for (const std::uint32_t i : link->groups[link->child_group[number]].parents) tasks.push_back(from.task(i));
  } else {
    for (std::uint32_t i = 0; i < from.count; ++i) tasks.push_back(from.task(i));
  }
  const auto ended = [&](std::uint32_t t) { return graph::is_terminal(workflow.tasks[t].state); };
  if (!std::all_of(tasks.begin(), tasks.end(), ended)) {
    return Error{ErrorCode::kWouldBlock, "stage '" + std::string(root) + "' has not ended"};
  }
  if (member == "state" || member == "error") {
    append_json_string(text_, member == "state" ? std::string(end_of(workflow, tasks)) : error_of(workflow, tasks));
    return std::string_view(text_);
  }
  const auto result = [&](std::uint32_t t) -> std::string_view {
    const TaskExtra* extra = workflow.tasks[t].extra.get();
    return extra == nullptr || extra->result.empty() ? std::string_view("null") : std::string_view(extra->result);
  };
  const Stage& other = workflow.spec.stages[source];
  if (link != nullptr ? link->single : !other.has_items()) return result(tasks.front());
  if (other.fan_out && other.items.empty()) return std::string_view("[]");
  text_ = "[";
  for (const std::uint32_t t : tasks) {
    if (text_.size() > 1) text_.push_back(',');
    text_.append(result(t));
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

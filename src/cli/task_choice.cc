#include "cli/task_choice.h"

#include <cstdint>
#include <utility>

#include "fleet/explain.h"

namespace rota::cli {

Result<std::vector<model::TaskId>> find_tasks(const fleet::State& state, const std::string& name) {
  Result<model::TaskId> one = fleet::find_task(state, name);
  if (one.ok()) return std::vector{*one};
  if (one.code() != ErrorCode::kInvalidArgument) return std::move(one).take_error();
  // It may be a stage with several tasks.
  const std::size_t slash = name.rfind('/');
  const std::string of = slash == std::string::npos ? "" : name.substr(0, slash);
  const std::string stage_name = slash == std::string::npos ? name : name.substr(slash + 1);
  std::vector<model::TaskId> found;
  state.each_workflow([&](const fleet::Workflow& workflow) {
    if (!of.empty() && workflow.spec.name != of && workflow.id.to_string() != of) return;
    for (std::size_t s = 0; s < workflow.stages.size(); ++s) {
      if (workflow.spec.stages[s].name != stage_name) continue;
      found.clear();
      const fleet::StageState& range = workflow.stages[s];
      for (std::uint32_t t = 0; t < range.count; ++t) found.emplace_back(workflow.id, range.task(t));
    }
  });
  if (found.empty()) return std::move(one).take_error();
  return found;
}

std::vector<model::TaskId> tasks_of(const fleet::State& state, model::WorkflowId id) {
  std::vector<model::TaskId> tasks;
  const fleet::Workflow* workflow = state.find(id);
  if (workflow == nullptr) return tasks;
  for (const fleet::Task& task : workflow->tasks) tasks.push_back(workflow->id_of(task));
  return tasks;
}

}  // namespace rota::cli

#include "fleet/feasibility.h"

#include "fleet/brain.h"

namespace rota::fleet {

std::string infeasible_sentence(std::string_view stage, std::string_view requirement, std::string_view nearest) {
  std::string text = "stage '" + std::string(stage) + "': " + std::string(requirement);
  if (!nearest.empty()) text += " (worker '" + std::string(nearest) + "' comes nearest)";
  return text;
}

Result<std::vector<std::string>> infeasible_on(const WorkflowSpec& workflow, const std::vector<WorkerSpec>& workers,
                                               const Policy& policy) {
  Brain brain;
  Policy accepting = policy;
  accepting.backlog_per_worker = TaskId::kMostTasks;  // Backpressure is no property of the fleet.
  ROTA_TRY(brain.execute(SetPolicy{std::move(accepting)}, 1));
  for (const WorkerSpec& worker : workers) ROTA_TRY(brain.execute(RegisterWorker{worker, {}, {}}, 1));
  ROTA_TRY_ASSIGN(const Record record, brain.execute(SubmitWorkflow{{}, workflow}, 1));
  std::vector<std::string> sentences;
  for (const Event& event : record.events) {
    const auto* warned = std::get_if<PlacementWarned>(&event);
    if (warned == nullptr) continue;
    const Worker* nearest = brain.state().find(warned->nearest);
    sentences.push_back(infeasible_sentence(workflow.stages[warned->stage].name, warned->requirement,
                                            nearest == nullptr ? std::string_view() : nearest->spec.name));
  }
  return sentences;
}

}  // namespace rota::fleet

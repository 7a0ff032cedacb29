#include "sim/stage_plan.h"

#include <algorithm>

#include "model/json.h"

namespace rota::sim {

StagePlan::StagePlan(const model::WorkflowSpec& spec) : repeats(spec.stages.size()) {
  of_stage.resize(spec.stages.size());
  for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
    for (std::size_t i = 0; i < std::max<std::size_t>(spec.stages[s].items.size(), 1); ++i) {
      of_stage[s].push_back(tasks());
      stage_by_task.push_back(s);
    }
  }
  // As often as there are stages: a stage may need one that stands behind it.
  for (std::size_t round = 0; round < spec.stages.size(); ++round) {
    for (std::size_t s = 0; s < spec.stages.size(); ++s) {
      const model::Stage& stage = spec.stages[s];
      repeats[s] = repeats[s] || stage.waits_for_end() ||
                   std::any_of(stage.needs.begin(), stage.needs.end(), [&](std::uint32_t n) { return repeats[n]; });
    }
  }
}

void StagePlan::expand(std::uint32_t stage, std::size_t items) {
  while (of_stage[stage].size() < items) {
    of_stage[stage].push_back(tasks());
    stage_by_task.push_back(stage);
  }
}

std::vector<std::uint32_t> StagePlan::needed(const model::WorkflowSpec& spec, std::uint32_t task,
                                             std::uint32_t need) const {
  const std::uint32_t stage = stage_of(task);
  const model::Stage& own = spec.stages[stage];
  const auto each =
      std::find_if(own.each.begin(), own.each.end(), [&](const model::ItemNeed& item) { return item.stage == need; });
  if (each == own.each.end()) return of_stage[need];
  const auto number = std::find(of_stage[stage].begin(), of_stage[stage].end(), task) - of_stage[stage].begin();
  std::vector<std::uint32_t> tasks;
  for (std::size_t i = 0; i < of_stage[need].size(); ++i) {
    const std::string& mine = own.items[static_cast<std::size_t>(number)];
    const std::string& other = spec.stages[need].items[i];
    const bool same = std::all_of(each->names.begin(), each->names.end(), [&](const std::string& name) {
      return model::json_member(mine, name) == model::json_member(other, name);
    });
    if (same) tasks.push_back(of_stage[need][i]);
  }
  return tasks;
}

}  // namespace rota::sim

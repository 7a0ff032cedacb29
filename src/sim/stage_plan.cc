#include "sim/stage_plan.h"

#include <algorithm>

#include "model/json.h"

namespace rota::sim {

StagePlan::StagePlan(const model::WorkflowSpec& spec) : repeats(spec.stages.size()) {
  first.push_back(0);
  for (const model::Stage& stage : spec.stages) {
    first.push_back(first.back() + static_cast<std::uint32_t>(std::max<std::size_t>(stage.items.size(), 1)));
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

std::uint32_t StagePlan::stage_of(std::uint32_t task) const {
  return static_cast<std::uint32_t>(std::upper_bound(first.begin(), first.end(), task) - first.begin() - 1);
}

std::vector<std::uint32_t> StagePlan::needed(const model::WorkflowSpec& spec, std::uint32_t task,
                                             std::uint32_t need) const {
  const std::uint32_t stage = stage_of(task);
  const model::Stage& own = spec.stages[stage];
  const auto each =
      std::find_if(own.each.begin(), own.each.end(), [&](const model::ItemNeed& item) { return item.stage == need; });
  std::vector<std::uint32_t> tasks;
  for (std::uint32_t t = first[need]; t < first[need + 1]; ++t) {
    bool same = true;
    if (each != own.each.end()) {
      const std::string& mine = own.items[task - first[stage]];
      const std::string& other = spec.stages[need].items[t - first[need]];
      same = std::all_of(each->names.begin(), each->names.end(), [&](const std::string& name) {
        return model::json_member(mine, name) == model::json_member(other, name);
      });
    }
    if (same) tasks.push_back(t);
  }
  return tasks;
}

}  // namespace rota::sim

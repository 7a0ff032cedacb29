// Which tasks belong to which stage of a workflow, and which of them a task waits for, derived from the specification
// alone (Y-3, Y-4). The checkers use this instead of the brain's own plan.
//
// Thread safety: as of any value.
#pragma once

#include <cstdint>
#include <vector>

#include "model/workflow_spec.h"

namespace rota::sim {

struct StagePlan {
  StagePlan() = default;
  explicit StagePlan(const model::WorkflowSpec& spec);

  [[nodiscard]] std::uint32_t tasks() const { return static_cast<std::uint32_t>(stage_by_task.size()); }
  [[nodiscard]] std::uint32_t stage_of(std::uint32_t task) const { return stage_by_task[task]; }
  // A fan-out has got so many items (Y-2): the first task is there already, the others come after all that exist.
  void expand(std::uint32_t stage, std::size_t items);
  // It is one task again. Its other tasks are in no stage's list any more.
  void collapse(std::uint32_t stage) { of_stage[stage].resize(1); }
  // The tasks of stage `need` that `task` waits for: all of them, or those with the same values (`each`).
  // REQUIRES: the stage of `task` needs stage `need`.
  [[nodiscard]] std::vector<std::uint32_t> needed(const model::WorkflowSpec& spec, std::uint32_t task,
                                                  std::uint32_t need) const;

  std::vector<std::uint32_t> stage_by_task{};
  std::vector<std::vector<std::uint32_t>> of_stage{};  // The tasks of each stage, in the order of its items.
  // A retry may run the stage again although it has succeeded: it waits for the end of others, or for such a stage.
  std::vector<bool> repeats{};
};

}  // namespace rota::sim

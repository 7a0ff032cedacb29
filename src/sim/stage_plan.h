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

  [[nodiscard]] std::uint32_t tasks() const { return first.empty() ? 0 : first.back(); }
  [[nodiscard]] std::uint32_t stage_of(std::uint32_t task) const;
  // The tasks of stage `need` that `task` waits for: all of them, or those with the same values (`each`).
  // REQUIRES: the stage of `task` needs stage `need`.
  [[nodiscard]] std::vector<std::uint32_t> needed(const model::WorkflowSpec& spec, std::uint32_t task,
                                                  std::uint32_t need) const;

  std::vector<std::uint32_t> first{};  // The first task of each stage, and the number of all tasks.
  // A retry may run the stage again although it has succeeded: it waits for the end of others, or for such a stage.
  std::vector<bool> repeats{};
};

}  // namespace rota::sim

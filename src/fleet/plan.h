// What follows from the text of a workflow alone: its graph, its tasks, and what its templates refer to.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash.h"
#include "fleet/placement_index.h"
#include "model/reference.h"
#include "model/workflow_spec.h"
#include "rota/graph/dag.h"
#include "rota/result.h"

namespace rota::fleet {

struct StageState {
  std::uint32_t first = 0;  // Its tasks are [first, first + count).
  std::uint32_t count = 0;
  std::uint32_t unfinished = 0;  // Tasks that have not succeeded.
  std::uint32_t waits = 0;       // Stages that it needs and that have not succeeded.
};

// What is derived from a template once, at submission.
struct TemplateInfo {
  static constexpr std::uint32_t kNoStage = ~0U;
  Hash128 merge{};                         // Of all but its data: tasks whose templates have the same one merge.
  bool mergeable = false;                  // Its tasks may be merged: it says so, and what it runs accepts a batch.
  std::vector<ReferenceUse> references{};  // Of its specification.
  // It has a condition, or references that may lead nowhere: its tasks are examined before they become ready.
  bool examine = false;
  std::uint32_t sticky = kNoStage;  // The stage whose checkpoint or adapter it uses.
  ShapeRef shape = kNoShape;        // Of a task that has not been retried and is not sticky.
};

struct WorkflowPlan {
  graph::Dag dag{};  // Of stages; the number of a stage is its TaskRef - 1.
  std::vector<StageState> stages{};
  std::vector<TemplateInfo> templates{};
  std::uint32_t tasks = 0;
};

// kInvalidArgument, kParseError, kNotFound, kTooLarge: what is wrong with it, in a sentence that names the stage.
[[nodiscard]] Result<WorkflowPlan> plan_workflow(const WorkflowSpec& spec);

}  // namespace rota::fleet

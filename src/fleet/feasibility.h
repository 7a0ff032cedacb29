// Which stages of a workflow no worker of a fleet could ever run (B-18), before anything is submitted.
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fleet/policy.h"
#include "model/workflow_spec.h"
#include "rota/model/worker_spec.h"
#include "rota/result.h"

namespace rota::fleet {

// "stage 'train': gpu.count: 1 needed, 0 available (worker 'a' comes nearest)"; without the worker if that is empty.
[[nodiscard]] std::string infeasible_sentence(std::string_view stage, std::string_view requirement,
                                              std::string_view nearest);

// One sentence for each stage that could never run on these workers under the policy: the brain's own answer to the
// submission. An error if the brain refuses the policy, a worker or the workflow.
[[nodiscard]] Result<std::vector<std::string>> infeasible_on(const WorkflowSpec& workflow,
                                                             const std::vector<WorkerSpec>& workers,
                                                             const Policy& policy);

}  // namespace rota::fleet

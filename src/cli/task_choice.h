// The tasks that somebody means by a name.
#pragma once

#include <string>
#include <vector>

#include "fleet/state.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::cli {

// As fleet::find_task(); and a stage's name, of the latest workflow that has it, means all of its tasks.
[[nodiscard]] Result<std::vector<model::TaskId>> find_tasks(const fleet::State& state, const std::string& name);
// All of a workflow.
[[nodiscard]] std::vector<model::TaskId> tasks_of(const fleet::State& state, model::WorkflowId workflow);

}  // namespace rota::cli

// The tasks that somebody means by a name.
#pragma once

#include <string>
#include <vector>

#include "fleet/ids.h"
#include "fleet/state.h"
#include "rota/result.h"

namespace rota::cli {

// As fleet::find_task(); and a stage's name, of the latest workflow that has it, means all of its tasks.
[[nodiscard]] Result<std::vector<fleet::TaskId>> find_tasks(const fleet::State& state, const std::string& name);
// All of a workflow.
[[nodiscard]] std::vector<fleet::TaskId> tasks_of(const fleet::State& state, fleet::WorkflowId workflow);

}  // namespace rota::cli

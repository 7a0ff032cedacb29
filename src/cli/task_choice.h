// Finds the tasks that a user names.
#pragma once

#include <string>
#include <vector>

#include "fleet/state.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::cli {

// As fleet::find_task(); in addition, the name of a stage means all of its tasks in the latest workflow with that
// stage.
[[nodiscard]] Result<std::vector<model::TaskId>> find_tasks(const fleet::State& state, const std::string& name);
// All tasks of a workflow.
[[nodiscard]] std::vector<model::TaskId> tasks_of(const fleet::State& state, model::WorkflowId workflow);

}  // namespace rota::cli

// What the cache of results (worker/result_cache.h) means for a run that is only planned: `rota run --dry-run` (Y-6,
// C-1).
//
// Whether a task with `cache` is run is decided when it starts, by the values of its references and by its files. Here
// the same is asked before. What a stage refers to is known if the results of that stage are kept or are in the cache
// themselves; otherwise the task may be cached, and only the run can tell.
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <vector>

#include "cli/run_past.h"
#include "model/workflow_spec.h"

namespace rota::cli {

// Sets what the plan says about stages with `cache`. Reads files; changes nothing.
void look_into_cache(std::vector<StagePlan>& plans, const Past& past, const model::WorkflowSpec& spec,
                     const std::string& directory);

}  // namespace rota::cli

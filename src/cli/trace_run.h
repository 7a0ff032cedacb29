// Writes a run as a trace file for ui.perfetto.dev: a track for each worker, a slice for each attempt, arrows from a
// task to the tasks that needed it, and counters of ready and running tasks. It needs nothing but the log.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <iosfwd>

#include "cli/timeline.h"
#include "fleet/state.h"
#include "rota/model/ids.h"

namespace rota::cli {

// Writes one workflow, or all if `workflow` is none. Returns the number of slices. Times count from the submission of
// the workflow, or from the first record.
std::size_t write_trace(const RunLog& log, model::WorkflowId workflow, std::ostream& out);

}  // namespace rota::cli

// A run as a file for ui.perfetto.dev: a track for each worker, a slice for each attempt, arrows from a task to those
// that needed it, and how many tasks were ready and ran. From the log alone.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <iosfwd>

#include "cli/timeline.h"
#include "fleet/state.h"
#include "rota/model/ids.h"

namespace rota::cli {

// Of one workflow; of all, if it is none. How many slices there are. Times count from the first record, or from the
// workflow's submission.
std::size_t write_trace(const RunLog& log, model::WorkflowId workflow, std::ostream& out);

}  // namespace rota::cli

// Reads workflow traces in WfFormat 1.5 (WfCommons, https://wfcommons.org/format): a JSON file with the tasks of a
// workflow, their parents, and how long each ran with how many cores and how much memory.
//
// One task of the trace becomes one stage; its type is the name of its program. Its time is the sample of that stage.
//
// The reader is strict about what it uses and ignores what it does not: files, machines, energy. Thread safety:
// functions without state.
#pragma once

#include <string>
#include <string_view>

#include "model/workflow_spec.h"
#include "rota/result.h"
#include "sim/predict.h"

namespace rota::sim {

struct Trace {
  model::WorkflowSpec workflow{};
  Durations durations{};
  std::int64_t makespan_ns = 0;  // Of the run that was recorded; 0: not given.
};

// True if the text looks like WfFormat: JSON with a schemaVersion and a workflow.
[[nodiscard]] bool is_wf_format(std::string_view text);

// ParseError or InvalidArgument: what is wrong, at which task.
[[nodiscard]] Result<Trace> read_wf_format(std::string_view text);

}  // namespace rota::sim

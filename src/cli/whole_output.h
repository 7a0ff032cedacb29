// The whole output of the programs of a run, which its worker keeps by stream until a view has shown it
// (RunSetup::whole_output): <logs>/<task>-<attempt>.out and .err.
//
// A view removes the files of an attempt when it has written them out. So files of an attempt that succeeded are output
// that nobody has read, because the process was killed first: the next run shows it.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/run_view.h"
#include "model/outcome.h"
#include "model/workflow_spec.h"
#include "rota/model/ids.h"
#include "rota/result.h"
#include "rota/worker.h"

namespace rota::fleet {
class State;
}

namespace rota::cli {

struct EarlierQuery {
  std::string logs{};                         // The folder.
  const model::WorkflowSpec* spec = nullptr;  // Of the run that begins. Its stages have different names.
  model::WorkflowId resumed{};                // The run that is resumed; none: a new one begins.
  const std::map<std::uint32_t, KeptResult>* kept = nullptr;  // The results that it keeps.
  bool fresh = false;
};

// Finds what is done and what was never shown. Output of an older run belongs to the task with the same stage and item,
// if that is done or keeps its result. Removes the files of attempts that did not succeed and of tasks that will run
// again; with `fresh`, all files. Output of items that this run does not have stays.
[[nodiscard]] EarlierWork earlier_work(const fleet::State& state, const EarlierQuery& query);

// Writes what the attempt wrote to the descriptors, all of its standard output first, and removes the files. An error
// means that a descriptor cannot be written to, or a file not be read: the files stay.
[[nodiscard]] Result<void> pass_on(const std::string& logs, const model::AttemptId& attempt, int out, int err);

// Removes the output of an attempt, unread.
void discard(const std::string& logs, const model::AttemptId& attempt);

}  // namespace rota::cli

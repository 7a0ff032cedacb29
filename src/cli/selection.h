// A partial run (Y-6): which stages of a workflow are run, and what happens to the others.
//
//   --until STAGE   the stage and what it needs
//   --from STAGE    the stage and everything after it run again; the others keep their results if they are unchanged
//   --only STAGE    only this stage, or one task of it ("train[2]"), with the earlier results of what it needs
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <vector>

#include "cli/run_past.h"
#include "model/workflow_spec.h"
#include "rota/result.h"

namespace rota::cli {

struct Selection {
  std::vector<std::string> only{};
  std::vector<std::string> from{};
  std::vector<std::string> until{};
  [[nodiscard]] bool empty() const { return only.empty() && from.empty() && until.empty(); }
  // "only a,b": part of the identity of the run.
  [[nodiscard]] std::string text() const;
};

// Removes the stages that are not run and need not be there; returns the choice for each task that is left.
// InvalidArgument for a stage or task that does not exist.
[[nodiscard]] Result<std::vector<Choice>> apply(const Selection& selection, model::WorkflowSpec& spec);

}  // namespace rota::cli

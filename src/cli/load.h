// Loads a workflow file.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/subcommand.h"
#include "model/workflow_spec.h"
#include "rota/result.h"
#include "workflow/workflow.h"

namespace rota::cli {

struct Loaded {
  model::WorkflowSpec spec{};
  std::string path{};     // Absolute. The folder is without symbolic links; the file itself may be one.
  std::string content{};  // A hash of the workflow: it tells whether that has changed since an earlier run.
};

// Parameters as the user gives them (Y-1).
struct ParamOptions {
  std::vector<std::string> set{};  // "size=3"
  std::string file{};              // A mapping of names to values.
};
// --set and --params.
[[nodiscard]] std::vector<Option> param_options(ParamOptions* to);

// ParseError with all problems of the file, or the reason why it cannot be read. "-" is the standard input; its path is
// then `stdin` in the current folder.
[[nodiscard]] Result<Loaded> load_workflow(const std::string& path, const ParamOptions& params = {});

[[nodiscard]] std::size_t count_tasks(const model::WorkflowSpec& spec);
// The same of one stage: 1 if its items are not known yet.
[[nodiscard]] std::size_t tasks_of(const model::Stage& stage);
// The names of the tasks, by index: "train", or "train[3]" in a stage of several tasks. They are those of
// fleet::Workflow::name_of(), for a workflow that was not submitted yet.
[[nodiscard]] std::vector<std::string> task_names(const model::WorkflowSpec& spec);

}  // namespace rota::cli

// Loads a workflow file.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/workflow_spec.h"
#include "rota/result.h"

namespace rota::cli {

struct Loaded {
  model::WorkflowSpec spec{};
  std::string path{};     // Absolute, without symbolic links.
  std::string content{};  // A hash of the text: it tells whether the file has changed since an earlier run.
};

// ParseError with all problems of the file, or the reason why it cannot be read.
[[nodiscard]] Result<Loaded> load_workflow(const std::string& path);

[[nodiscard]] std::size_t count_tasks(const model::WorkflowSpec& spec);
// The names of the tasks, by index: "train", or "train[3]" in a stage of several tasks. They are those of
// fleet::Workflow::name_of(), for a workflow that was not submitted yet.
[[nodiscard]] std::vector<std::string> task_names(const model::WorkflowSpec& spec);

}  // namespace rota::cli

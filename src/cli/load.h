// A workflow file as the verbs need it.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/spec.h"
#include "rota/result.h"

namespace rota::cli {

struct Loaded {
  model::WorkflowSpec spec{};
  std::string path{};     // Absolute, without links.
  std::string content{};  // A hash of the text: the same file again is the same workflow.
};

// All problems of the file in one error (ParseError), or why it cannot be read.
[[nodiscard]] Result<Loaded> load_workflow(const std::string& path);

[[nodiscard]] std::size_t count_tasks(const model::WorkflowSpec& spec);
// "train", or "train[3]" in a stage of several: by the task's place in the workflow.
[[nodiscard]] std::vector<std::string> task_names(const model::WorkflowSpec& spec);

}  // namespace rota::cli

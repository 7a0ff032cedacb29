// Reads a workflow file, YAML or JSON, into the specification that is submitted. docs/workflows.md explains every key.
//
// The reader is strict: an unknown key, a wrong type, a cycle or an unknown stage is a problem with its line and
// column, what was found, what is allowed and what was probably meant. All problems are reported, not only the first.
// The input is bounded: see document.h and stage.h. The brain accepts what this reader accepts: `inputs` are canonical
// JSON, and each reference is to a stage that has ended when the task starts.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/workflow_spec.h"
#include "rota/result.h"
#include "workflow/params.h"
#include "workflow/problems.h"

namespace rota::workflow {

inline constexpr std::string_view kApiVersion = "rota/v1";

struct Source {
  std::string path;  // As it is shown in front of a problem.
  std::string text;
  std::string directory{};  // Where its programs run; empty: where the worker runs.
  // Whether `include` and `env_file` may read files, below `directory`. A host does not read files for its clients.
  bool reads_files = false;
  std::vector<GivenParam> params{};  // Values for `params`, from the user.
};

struct WorkflowFile {
  model::WorkflowSpec spec{};       // Complete only if there is no problem. The submitter fills in `user`.
  std::vector<Position> stages{};   // The position of each of spec.stages.
  std::vector<Problem> problems{};  // In the order of the file.
  [[nodiscard]] bool ok() const { return problems.empty(); }
};

[[nodiscard]] WorkflowFile read_workflow(const Source& source);

// A file from the disk, with its absolute directory. NotFound, IoError, TooLarge: with the path.
Result<Source> read_source(const std::string& path);

}  // namespace rota::workflow

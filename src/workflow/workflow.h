// A workflow file, YAML or JSON, becomes what is submitted. docs/workflows.md has every key.
//
// Strict: an unknown key, a wrong type, a cycle, an unknown stage is a problem with its line and column, what was
// found, what is allowed and what was probably meant; all problems are reported, not the first. Bounded: see document.h
// and stage.h. What is accepted here the brain accepts: its payloads are canonical JSON, and each reference in them is
// to a stage that has ended when the task starts.
//
// The payload of a template is an object for the worker (all members but `kind` only where there is something to say):
//   kind        "command" or "handler"; the handler's name is the template's type
//   run         text for a shell, or an array: a program and its arguments
//   env         variables. `${stage.result}` alone becomes the value with its type: a worker takes a string as it is,
//               and of anything else its JSON text. So with the items of `run`.
//   dir         where the command runs
//   inputs      any object
//   timeout_ms, limits {memory_bytes, cpu_time_ms, open_files, processes}
//   cache       {"files": [...], "outputs": [...], "dir": "..."}: it need not run again while command, inputs and these
//               files are the same, and those that it made are still there
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"
#include "rota/result.h"
#include "workflow/problems.h"

namespace rota::workflow {

inline constexpr std::string_view kApiVersion = "rota/v1";

struct Source {
  std::string path;  // As people shall read it in front of a problem.
  std::string text;
  std::string directory{};  // Where its commands run; empty: nothing is said about it.
};

struct WorkflowFile {
  model::WorkflowSpec spec{};       // Whole only if there is no problem. `user` is the submitter's to fill in.
  std::vector<Position> stages{};   // Where each of spec.stages is written.
  std::vector<Problem> problems{};  // In the order of the file.
  [[nodiscard]] bool ok() const { return problems.empty(); }
};

[[nodiscard]] WorkflowFile read_workflow(const Source& source);

// A file from the disk, with its absolute directory. NotFound, IoError, TooLarge: with the path.
Result<Source> read_source(const std::string& path);

}  // namespace rota::workflow

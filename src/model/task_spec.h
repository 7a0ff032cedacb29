// What a worker runs: a program, or a C++ handler of a registered type.
//
// The same value goes from the workflow file through the brain and the bus to the worker. In a workflow's template its
// texts may contain references (`${...}`, reference.h); the brain resolves them before it sends the task to a worker.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rota/model/fields.h"

namespace rota::model {

// An environment variable.
struct Variable {
  std::string name{};
  std::string value{};
  ROTA_FIELDS(name, value)
  friend auto operator<=>(const Variable&, const Variable&) = default;
};

// An environment variable whose value is a secret (U-7). The specification has only the names: the worker that runs the
// task looks the value up when the program starts.
struct SecretVariable {
  std::string name{};     // Of the variable.
  std::string secret{};   // See base/secret_file.h.
  std::string version{};  // Empty: the current one.
  ROTA_FIELDS(name, secret, version)
  friend auto operator<=>(const SecretVariable&, const SecretVariable&) = default;
};

// Limits of one attempt of a program. 0: no limit, or the worker's default.
struct ProgramLimits {
  std::int64_t cpu_time_ms = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t open_files = 0;
  std::int64_t processes = 0;
  std::int64_t output_bytes = 0;  // How much of its output is kept.
  ROTA_FIELDS(cpu_time_ms, memory_bytes, open_files, processes, output_bytes)
  friend auto operator<=>(const ProgramLimits&, const ProgramLimits&) = default;
};

struct ProgramSpec {
  std::string shell{};                   // Text for `/bin/sh -c`; or
  std::vector<std::string> arguments{};  // the program and its arguments. Exactly one of the two is given.
  std::vector<Variable> environment{};   // Names are unique.
  std::string directory{};               // Where it runs; empty: where the worker runs.
  ProgramLimits limits{};
  std::optional<std::int64_t> grace_ms{};  // Between TERM and KILL; none: the worker's default.
  // It accepts the inputs of several tasks as a JSON array and returns an array with one result for each: mergeable
  // tasks with this program may run as one execution (B-12). Its texts contain no references.
  bool batch = false;
  std::vector<SecretVariable> secrets{};  // Names are unique, also among those of `environment`.
  ROTA_FIELDS(shell, arguments, environment, directory, limits, grace_ms, batch, secrets)
  friend auto operator<=>(const ProgramSpec&, const ProgramSpec&) = default;
};

// A task with this does not run again while its specification, its inputs and its files are unchanged (C-1).
struct CacheSpec {
  std::vector<std::string> files{};    // Patterns of the files that it reads, and
  std::vector<std::string> outputs{};  // of those that it makes.
  std::string directory{};             // Where they are; empty: where the program runs.
  ROTA_FIELDS(files, outputs, directory)
  friend auto operator<=>(const CacheSpec&, const CacheSpec&) = default;
};

// The outputs of another stage, which the worker places into the task's directory before the task starts (U-6).
struct FetchSpec {
  std::string stage{};  // Its name.
  std::string to{};     // The folder in the task's directory; empty: the directory itself.
  ROTA_FIELDS(stage, to)
  friend auto operator<=>(const FetchSpec&, const FetchSpec&) = default;
};

// Files that go from task to task, on whatever machine each of them runs (U-6).
struct FilesSpec {
  std::vector<std::string> outputs{};  // Patterns of the files that it makes; they are stored when it succeeds.
  std::vector<FetchSpec> fetch{};
  std::string directory{};  // Where they are; empty: where the program runs.
  ROTA_FIELDS(outputs, fetch, directory)
  friend auto operator<=>(const FilesSpec&, const FilesSpec&) = default;
};

inline constexpr std::size_t kMostOutputFiles = 1'000;    // Of one task.
inline constexpr std::size_t kMostFetchedFiles = 10'000;  // By one task.

// True for a path or a pattern that stays inside of the directory that it is relative to: not empty, not absolute, and
// without an empty name, "." and "..". One '/' at its end is allowed.
[[nodiscard]] bool is_inside(std::string_view path);

struct TaskSpec {
  std::string type{};                    // "shell", "sft", ...: the handler's type; what a fixed pipeline goes by.
  std::optional<ProgramSpec> program{};  // None: the task runs the worker's handler for `type`.
  std::string inputs = "{}";             // A JSON object.
  std::string checkpoint{};              // JSON: the last checkpoint of an earlier attempt; empty: none.
  std::int64_t timeout_ms = 0;           // Of one attempt; 0: none.
  std::optional<CacheSpec> cache{};
  std::optional<FilesSpec> files{};  // None: it has neither `outputs` nor `fetch`.
  ROTA_FIELDS(type, program, inputs, checkpoint, timeout_ms, cache, files)
  friend auto operator<=>(const TaskSpec&, const TaskSpec&) = default;
};

}  // namespace rota::model

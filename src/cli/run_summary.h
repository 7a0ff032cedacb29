// What `rota run` shows at the end of a run: the report, and the last lines that the important tasks wrote.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_report.h"

namespace rota::cli {

// The end of a task's log.
struct LogTail {
  std::string name{};     // Of the task, with the values of its matrix.
  std::string message{};  // Why it failed.
  std::string log{};      // The file.
  std::string text{};     // Its last lines; empty if the task wrote nothing.
};

struct RunSummary {
  RunReport report{};
  std::string logs{};               // The folder of the logs.
  std::vector<LogTail> failures{};  // Of the first tasks that failed.
  std::size_t more_failures = 0;    // How many other tasks failed.
  std::optional<LogTail> result{};  // Of the last stage, if that is one task, it succeeded and it wrote something.
};

// The last lines of a log; empty if there is none.
[[nodiscard]] std::string log_end(const std::string& path, std::size_t lines);

// Reads the logs in the folder `logs`.
[[nodiscard]] RunSummary summarize(RunReport report, std::string logs);

}  // namespace rota::cli

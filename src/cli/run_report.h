// How a run went: what `rota run` shows at its end.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/event.h"
#include "rota/graph/task.h"
#include "rota/model/ids.h"

namespace rota::fleet {
class State;
}

namespace rota::cli {

struct TaskRow {
  model::TaskId id{};
  std::string name{};
  std::uint32_t stage = 0;
  graph::TaskState state = graph::TaskState::kQueued;
  bool skipped = false;
  bool at_worker = false;           // It was sent to its worker, and waits there for room.
  bool because_of_another = false;  // It ended because one that it needs did.
  std::uint32_t attempts = 0;
  std::int64_t wait_ns = 0;   // From ready to running.
  std::int64_t run_ns = 0;    // Of the last attempt.
  std::int64_t begun_ns = 0;  // Wall time of that; 0: not known, or it has not begun.
  std::string worker{};
  std::string message{};  // Of a failure.
  bool cached = false;    // It was not run: an earlier success stands for it.
  std::string note{};     // Why it was run or not, for a stage with `cache`.
};

struct RunReport {
  model::WorkflowId workflow{};
  std::string name{};
  fleet::Outcome outcome = fleet::Outcome::kRunning;
  bool interrupted = false;                         // It has not ended, and nobody runs it.
  std::vector<TaskRow> tasks{};                     // In the order of the file.
  std::vector<std::vector<std::uint32_t>> needs{};  // By stage.
  std::int64_t elapsed_ns = 0;
  std::int64_t cost_microdollars = -1;  // Below 0: nobody has said what the workers cost.
};

// REQUIRES: the workflow exists.
[[nodiscard]] RunReport report_of(const fleet::State& state, model::WorkflowId workflow);

// The chain of tasks, each needing the one before it, whose run times add up to the most. Linear in the graph.
struct CriticalPath {
  std::vector<std::uint32_t> tasks{};
  std::int64_t run_ns = 0;
};
[[nodiscard]] CriticalPath critical_path(const RunReport& report);

// The table, with totals, critical path and cost. Beyond `most_rows` only the tasks that did not succeed are shown.
[[nodiscard]] std::string to_table(const RunReport& report, std::size_t most_rows = 60);
// "running", "interrupted", "succeeded", ...
[[nodiscard]] std::string_view outcome_text(const RunReport& report);
// "running", "at worker", "skipped", ...
[[nodiscard]] std::string state_text(const TaskRow& row);
// An array of all tasks.
[[nodiscard]] std::string tasks_json(const RunReport& report);
// One line.
[[nodiscard]] std::string to_json(const RunReport& report);

// "1.24s", "35ms", "2m05s": short enough for a table.
[[nodiscard]] std::string short_time(std::int64_t ns);

}  // namespace rota::cli

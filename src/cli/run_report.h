// How a run went, as facts: what the final table of `rota run` and `rota status` show (output.h).
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/event.h"
#include "fleet/ids.h"
#include "rota/graph/task.h"

namespace rota::fleet {
class State;
}

namespace rota::cli {

struct TaskRow {
  fleet::TaskId id{};
  std::string name{};  // fleet::Workflow::name_of(): the same in every view.
  std::uint32_t stage = 0;
  graph::TaskState state = graph::TaskState::kQueued;
  bool skipped = false;
  bool at_worker = false;  // Sent to its worker, where it waits for room.
  std::uint32_t attempts = 0;
  std::int64_t wait_ns = 0;   // From ready to running.
  std::int64_t run_ns = 0;    // Of the last attempt.
  std::int64_t begun_ns = 0;  // Wall time at which the last attempt began; 0: unknown, or it has not begun.
  std::string worker{};
  std::string message{};  // Why it failed.
  bool cached = false;    // It was not run: the result of an earlier success was used.
  std::string note{};     // Why it was run or not, for a stage with `cache`.
};

struct RunReport {
  fleet::WorkflowId workflow{};
  std::string name{};
  fleet::Outcome outcome = fleet::Outcome::kRunning;
  bool interrupted = false;                         // It has not ended, and no process runs it.
  std::vector<TaskRow> tasks{};                     // In the order of the file.
  std::vector<std::vector<std::uint32_t>> needs{};  // The stages that each stage needs.
  std::int64_t elapsed_ns = 0;
  std::int64_t cost_microdollars = -1;  // Below 0: the workers have no price.
};

// REQUIRES: the workflow exists.
[[nodiscard]] RunReport report_of(const fleet::State& state, fleet::WorkflowId workflow);

// The chain of tasks, each needing the one before it, whose run times add up to the most. Linear in the graph.
struct CriticalPath {
  std::vector<std::uint32_t> tasks{};
  std::int64_t run_ns = 0;
};
[[nodiscard]] CriticalPath critical_path(const RunReport& report);

// "running", "interrupted", "succeeded", ...
[[nodiscard]] std::string_view outcome_text(const RunReport& report);
// "running", "at worker", "skipped", ...
[[nodiscard]] std::string state_text(const TaskRow& row);
// How many tasks are in which state; states without a task are left out.
[[nodiscard]] std::vector<std::pair<std::string, std::size_t>> counts_of(const RunReport& report);

}  // namespace rota::cli

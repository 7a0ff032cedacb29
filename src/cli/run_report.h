// How a run went, as facts: what the final table of `rota run` and `rota status` show (output.h).
//
// The times of a task that has ended are those of the brain's state, as its worker measured them. The trace shows the
// same times (timeline.h).
//
// Thread safety: functions without state.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/event.h"
#include "rota/graph/task.h"
#include "rota/model/ids.h"

namespace rota::fleet {
class State;
}

namespace rota::cli {

class Timeline;

struct TaskRow {
  model::TaskId id{};
  std::string name{};    // fleet::Workflow::name_of(): the same in every view.
  std::string values{};  // Of its matrix: "lr=0.1 seed=2".
  std::uint32_t stage = 0;
  graph::TaskState state = graph::TaskState::kQueued;
  bool skipped = false;
  bool at_worker = false;               // Sent to its worker, where it waits for room.
  std::uint32_t attempts = 0;           // Attempts that started.
  model::AttemptNumber last_attempt{};  // The last one that was assigned; it may not have started.
  // Of the last attempt, if it started; otherwise all are 0.
  std::int64_t started_ns = 0;  // Wall time.
  std::int64_t ended_ns = 0;    // Wall time; of a task that runs: the time of the report.
  std::int64_t wait_ns = 0;     // From ready to started.
  std::int64_t run_ns = 0;      // From started to ended; at least 1.
  std::string worker{};         // Of the last attempt; empty: it did not start.
  std::string message{};        // Why it failed.
  bool cached = false;          // It was not run: the result of an earlier success was used.
  std::string note{};           // Why it was run or not, for a stage with `cache`.

  // "train[3] lr=0.1 seed=2", in one line.
  [[nodiscard]] std::string label() const;
};

struct RunReport {
  model::WorkflowId workflow{};
  std::string name{};
  fleet::Outcome outcome = fleet::Outcome::kRunning;
  fleet::StopCause stopped = fleet::StopCause::kNone;
  bool interrupted = false;                         // It has not ended, and no process runs it.
  std::vector<TaskRow> tasks{};                     // In the order of the file.
  std::vector<std::vector<std::uint32_t>> needs{};  // The stages that each stage needs.
  // The period that the report is about, as wall times: from the submission, or from the time at which the run was
  // resumed, to the end, or to now.
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t cost_microdollars = -1;  // Below 0: the workers have no price.

  [[nodiscard]] std::int64_t elapsed_ns() const { return std::max<std::int64_t>(end_ns - begin_ns, 0); }
};

// From the submission to the end of the workflow, or to `now_ns` if it has not ended. Of a task that runs, the state
// does not know when it started; `timeline` does. REQUIRES: the workflow exists.
[[nodiscard]] RunReport report_of(const fleet::State& state, model::WorkflowId workflow, std::int64_t now_ns = 0,
                                  const Timeline* timeline = nullptr);

// The chain of dependent tasks whose run times have the longest sum. A task starts after those that it needs have
// ended, so the run times of a chain do not overlap: their sum is at most the elapsed time. Linear in the graph.
struct CriticalPath {
  std::vector<std::uint32_t> tasks{};  // In the order of their start.
  std::int64_t run_ns = 0;             // The sum of the run times within the period of the report.
};
[[nodiscard]] CriticalPath critical_path(const RunReport& report);

// "running", "interrupted", "succeeded", ...
[[nodiscard]] std::string_view outcome_text(const RunReport& report);
// "running", "at worker", "skipped", ...
[[nodiscard]] std::string state_text(const TaskRow& row);
// How many tasks are in which state; states without a task are left out.
[[nodiscard]] std::vector<std::pair<std::string, std::size_t>> counts_of(const RunReport& report);

}  // namespace rota::cli

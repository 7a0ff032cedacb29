// When each attempt of each task ran, where and why: what the state forgets and the log knows.
//
//   Timeline timeline;
//   for each record: brain.apply(record); timeline.see(record, brain.state());
//
// The times are the host's: an attempt begins when it is sent to its worker or, if it waits there for room, when it has
// it; it ends when its end was reported.
//
// Invariant: an attempt is open (ended_ns == 0) while its task is assigned in the state, and at most one of a task is.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/log_source.h"
#include "cli/progress_line.h"
#include "cli/run_report.h"
#include "fleet/brain.h"
#include "fleet/record.h"
#include "fleet/state.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::cli {

struct Attempt {
  model::TaskId task{};
  std::uint32_t attempt = 0;
  model::WorkerId worker{};
  // Whose log has what it wrote: of tasks that were merged, the one that led them.
  model::TaskId log_task{};
  std::uint32_t log_attempt = 0;
  std::int64_t ready_ns = 0;  // Since when it could have run.
  std::int64_t assigned_ns = 0;
  std::int64_t begun_ns = 0;  // 0: it waits at its worker, or never had room there.
  std::int64_t ended_ns = 0;  // 0: it has not ended.
  std::string name{};         // "train[3]"
  std::string end{};          // "succeeded", "failed", "cancelled"; "requeued: worker_lost"
  std::string message{};      // Of a failure.
  std::string why{};          // Why it ran there, in words.
};

class Timeline {
 public:
  // How many tasks were ready and how many ran, from a moment on.
  struct Load {
    std::int64_t at_ns = 0;
    std::int64_t ready = 0;
    std::int64_t running = 0;
  };

  // `state` is the one after the record.
  void see(const fleet::Record& record, const fleet::State& state);

  [[nodiscard]] const std::vector<Attempt>& attempts() const { return attempts_; }  // In the order of assignment.
  [[nodiscard]] const std::vector<Load>& loads() const { return loads_; }
  // Of the first and the last record that was seen; 0: none was.
  [[nodiscard]] std::int64_t first_ns() const { return first_ns_; }
  [[nodiscard]] std::int64_t last_ns() const { return last_ns_; }
  // The latest attempt of the task, or the one of this number; null: none was seen.
  [[nodiscard]] const Attempt* find(model::TaskId task, std::uint32_t attempt = 0) const;

  // Puts the times right that the state cannot know, as of `now_ns` for what still runs.
  void correct(RunReport& report, std::int64_t now_ns) const;

 private:
  void add(const fleet::TaskAssigned& event, model::TaskId task, std::uint32_t attempt, const fleet::Record& record,
           const fleet::State& state);
  void end(model::TaskId task, const fleet::Record& record, std::string how, std::string message = {});

  std::vector<Attempt> attempts_;
  std::map<model::TaskId, std::vector<std::size_t>> by_task_;
  std::vector<Load> loads_;
  std::int64_t running_ = 0;  // Attempts that have begun and not ended.
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
};

// A log as it stands now.
struct RunLog {
  fleet::Brain brain{};
  Timeline timeline{};
};
// To the end of the log.
[[nodiscard]] Result<RunLog> read_log(LogSource& source, ProgressLine& progress);
// What came since.
[[nodiscard]] Result<void> read_more(LogSource& source, RunLog& log);

// The latest one, or none.
[[nodiscard]] model::WorkflowId latest_workflow(const fleet::State& state);

}  // namespace rota::cli

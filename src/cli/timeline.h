// Timeline: when, where and why each attempt of each task ran. The state of the brain keeps only the latest attempt, so
// the timeline is built from the log.
//
//   Timeline timeline;
//   for each record: brain.apply(record); timeline.see(record, brain.state());
//
// The times of an attempt are those that its worker reported, moved like those in the state into the period from the
// assignment to the record. If the worker reported no end (it was lost, or the process was killed), the
// attempt started when it got its resources, and ended with the record that took it back.
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
#include "fleet/brain.h"
#include "fleet/record.h"
#include "fleet/state.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::cli {

struct Attempt {
  model::TaskId task{};
  model::AttemptNumber attempt{};
  model::WorkerId worker{};
  // The attempt whose log has its output: of merged tasks, the leading one.
  model::TaskId log_task{};
  model::AttemptNumber log_attempt{};
  std::int64_t ready_ns = 0;  // When it became ready.
  std::int64_t assigned_ns = 0;
  std::int64_t started_ns = 0;  // 0: it waits at its worker for resources, or ended while it waited.
  std::int64_t ended_ns = 0;    // 0: it has not ended.
  std::string name{};           // "train[3]"
  std::string end{};            // "succeeded", "failed", "cancelled"; "requeued: worker_lost"
  std::string message{};        // Why it failed.
  std::string why{};            // Why it ran there, for people.
};

class Timeline {
 public:
  // How many tasks were ready, from this time on.
  struct Ready {
    std::int64_t at_ns = 0;
    std::int64_t count = 0;
  };

  // `state` is the state after the record.
  void see(const fleet::Record& record, const fleet::State& state);

  [[nodiscard]] const std::vector<Attempt>& attempts() const { return attempts_; }  // In the order of assignment.
  [[nodiscard]] const std::vector<Ready>& ready() const { return ready_; }
  // The name that the worker registered with, also after it has left; its id if the registration was not seen.
  [[nodiscard]] std::string worker_name(model::WorkerId worker) const;
  // The times of the first and the last record; 0: there was none.
  [[nodiscard]] std::int64_t first_ns() const { return first_ns_; }
  [[nodiscard]] std::int64_t last_ns() const { return last_ns_; }
  // The latest attempt of the task, or the one with this number; null: there was none.
  [[nodiscard]] const Attempt* find(model::TaskId task, model::AttemptNumber attempt = {}) const;

 private:
  void add(const fleet::TaskAssigned& event, model::TaskId task, model::AttemptNumber attempt,
           const fleet::Record& record, const fleet::State& state);
  void end(model::TaskId task, const fleet::Record& record, std::string how, std::string message = {});

  std::vector<Attempt> attempts_;
  std::map<model::TaskId, std::vector<std::size_t>> by_task_;
  std::vector<Ready> ready_;
  std::map<model::WorkerId, std::string> worker_names_;
  std::int64_t first_ns_ = 0;
  std::int64_t last_ns_ = 0;
};

// A log that was read, to its present end.
struct RunLog {
  fleet::Brain brain{};
  Timeline timeline{};
};
// Reads the whole log.
[[nodiscard]] Result<RunLog> read_log(LogSource& source, ProgressLine& progress);
// Reads the records that were added since.
[[nodiscard]] Result<void> read_more(LogSource& source, RunLog& log);

// The latest workflow of the log, or none.
[[nodiscard]] model::WorkflowId latest_workflow(const fleet::State& state);

}  // namespace rota::cli

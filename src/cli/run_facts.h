// RunFacts: what is known about the run that `rota run` watches, from the durable records and the workers' reports.
//
// It counts and remembers; it draws nothing and reads no clock. Each record and report becomes news, which a view shows
// (run_view.h). `now_ns` is the time since the start of the run.
//
// Invariant: running() has exactly the tasks whose start was reported and whose end was not.
// Thread safety: none; RunWatch guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/output_lines.h"
#include "fleet/event.h"
#include "fleet/record.h"
#include "model/message.h"
#include "model/workflow_spec.h"
#include "rota/model/ids.h"

namespace rota::cli {

// One thing that has happened to a task, or to the workflow (kUnplaceable).
struct RunNews {
  enum class Kind : std::uint8_t {
    kStarted,      // `attempt`
    kSucceeded,    // `duration_ns`
    kCached,       // `text`: why its earlier result is still valid
    kSkipped,      //
    kFailed,       // `text`: why
    kCancelled,    //
    kRetry,        // `duration_ns`: the next attempt starts after this time; `text`: why the last one failed
    kUnplaceable,  // No worker can run it: `text` is its requirement
    kLog,          // `text`: a message of the task or of its worker
    kNote,         // `text`: a remark about a task that succeeded
    kOutput,       // `text`: one line that the program wrote
    kDropped,      // `bytes` of the program's output were dropped
  };
  Kind kind = Kind::kLog;
  model::TaskId task{};
  std::string name{};
  model::AttemptNumber attempt{};
  std::string worker{};
  std::int64_t duration_ns = 0;
  std::uint64_t bytes = 0;
  bool from_stderr = false;  // kOutput, kDropped.
  std::string text{};
};

// The tasks and stages of the workflow that is watched.
struct RunShape {
  struct Stage {
    std::string name{};
    std::uint32_t first = 0;  // Its first task.
    std::uint32_t tasks = 1;
    std::vector<std::uint32_t> needs{};
    std::int64_t expected_ns = 0;  // How long a task of it took in an earlier run; 0: not known.
  };
  RunShape() = default;
  // One stage per name; for tests.
  explicit RunShape(std::vector<std::string> names);
  // REQUIRES: the specification outlives it.
  explicit RunShape(const model::WorkflowSpec& workflow);

  std::string title{};
  std::vector<std::string> names{};  // Of the tasks, by index.
  std::vector<Stage> stages{};
  const model::WorkflowSpec* spec = nullptr;  // For the values of the matrix; null: not shown.
  std::size_t slots = 1;                      // How many tasks run at once.
  std::string logs{};                         // The folder with what the tasks wrote.

  // The stage has got these items (fleet::StageExpanded); none: it has no items any more (fleet::StageCollapsed).
  void expand(std::uint32_t stage, std::vector<std::string> items);
  // The stage of a task.
  [[nodiscard]] std::uint32_t stage_of(std::uint32_t task) const;
  // "train[3] lr=0.1 seed=2"
  [[nodiscard]] std::string label(std::uint32_t task) const;

 private:
  // What an expansion has added: the tasks from `first` on, without that of the first item.
  struct Added {
    std::uint32_t first = 0;
    std::uint32_t stage = 0;
  };
  std::vector<Added> added_{};                                    // By `first`.
  std::map<std::uint32_t, std::vector<std::string>> expanded_{};  // The items, by stage.
};

class RunFacts {
 public:
  struct Running {
    std::int64_t since_ns = 0;
    std::uint32_t permille = 0;
    bool has_progress = false;
    std::string text{};  // The task's latest progress message.
  };

  RunFacts() = default;
  // `key`: the workflow that is submitted under this key is the one to watch.
  RunFacts(RunShape shape, std::string key);

  // The workflow to watch is in the ledger already; `done`: how many tasks of each stage have ended.
  void resume(model::WorkflowId workflow, const std::vector<std::size_t>& done);

  [[nodiscard]] std::vector<RunNews> see(const fleet::Record& record);
  [[nodiscard]] std::vector<RunNews> see(const std::string& worker, const model::Report& report, std::int64_t now_ns);

  [[nodiscard]] model::WorkflowId workflow() const { return workflow_; }
  [[nodiscard]] bool has(model::TaskId task) const {
    return task.workflow() == workflow_ && task.index() < shape_.names.size();
  }
  // REQUIRES: has(task).
  [[nodiscard]] const std::string& name(model::TaskId task) const { return shape_.names[task.index()]; }

  [[nodiscard]] bool ended() const { return ended_; }
  // Why the workflow ends early, if it does.
  [[nodiscard]] fleet::StopCause stopped() const { return stopped_; }
  [[nodiscard]] const RunShape& shape() const { return shape_; }
  [[nodiscard]] std::size_t total() const { return shape_.names.size(); }
  [[nodiscard]] std::size_t done() const { return done_; }  // Tasks that have ended, in whatever way.
  [[nodiscard]] std::size_t done_here() const {
    return done_ - done_before_;
  }  // Of these, since the start of this run.
  [[nodiscard]] std::size_t failed() const { return failed_; }
  [[nodiscard]] std::size_t cached() const { return cached_; }
  [[nodiscard]] const std::map<std::uint32_t, Running>& running() const { return running_; }  // By index.
  [[nodiscard]] const std::string& name(std::uint32_t index) const { return shape_.names[index]; }

  struct StageCount {
    std::uint32_t done = 0;  // Ended, in whatever way.
    std::uint32_t failed = 0;
    std::uint32_t running = 0;
    std::uint32_t timed = 0;  // Successes that took this long together:
    std::int64_t spent_ns = 0;
  };
  [[nodiscard]] const std::vector<StageCount>& stages() const { return counts_; }
  // How long the rest will take: from the durations of this run, or of an earlier one, the number of tasks that run at
  // once, and the longest chain of stages. Below 0: nothing is known yet.
  [[nodiscard]] std::int64_t time_left_ns(std::int64_t now_ns) const;

 private:
  void on(const fleet::Event& event, const fleet::Record& record, std::vector<RunNews>& news);
  [[nodiscard]] RunNews about(RunNews::Kind kind, model::TaskId task, std::string text = {}) const;
  void output(const model::Output& output, RunNews piece, std::vector<RunNews>& news);
  // Passes on the unfinished lines of a task that has ended.
  void output_ends(RunNews piece, std::vector<RunNews>& news);

  StageCount& count_of(model::TaskId task) { return counts_[shape_.stage_of(task.index())]; }
  void ends(model::TaskId task);
  void stops(std::uint32_t index);

  RunShape shape_;
  std::vector<StageCount> counts_;
  std::vector<std::uint32_t> order_;  // Of the stages: each after those that it needs; empty: too many.
  std::string key_;
  model::WorkflowId workflow_{};
  bool ended_ = false;
  fleet::StopCause stopped_ = fleet::StopCause::kNone;
  std::size_t done_ = 0;
  std::size_t done_before_ = 0;
  std::size_t failed_ = 0;
  std::size_t cached_ = 0;
  std::map<std::uint32_t, Running> running_;
  OutputLines lines_;
};

}  // namespace rota::cli

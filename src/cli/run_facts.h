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

class RunFacts {
 public:
  struct Running {
    std::int64_t since_ns = 0;
    std::uint32_t permille = 0;
    bool has_progress = false;
    std::string text{};  // The task's latest progress message.
  };

  RunFacts() = default;
  // `names`: of the tasks, by index. `key`: the workflow that is submitted under this key is the one to watch.
  RunFacts(std::vector<std::string> names, std::string key);

  // The workflow to watch is in the ledger already, and `done` of its tasks have ended.
  void resume(model::WorkflowId workflow, std::size_t done);

  [[nodiscard]] std::vector<RunNews> see(const fleet::Record& record);
  [[nodiscard]] std::vector<RunNews> see(const std::string& worker, const model::Report& report, std::int64_t now_ns);

  [[nodiscard]] model::WorkflowId workflow() const { return workflow_; }
  [[nodiscard]] bool has(model::TaskId task) const {
    return task.workflow() == workflow_ && task.index() < names_.size();
  }
  // REQUIRES: has(task).
  [[nodiscard]] const std::string& name(model::TaskId task) const { return names_[task.index()]; }

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::size_t total() const { return names_.size(); }
  [[nodiscard]] std::size_t done() const { return done_; }  // Tasks that have ended, in whatever way.
  [[nodiscard]] std::size_t done_here() const {
    return done_ - done_before_;
  }  // Of these, since the start of this run.
  [[nodiscard]] std::size_t failed() const { return failed_; }
  [[nodiscard]] std::size_t cached() const { return cached_; }
  [[nodiscard]] const std::map<std::uint32_t, Running>& running() const { return running_; }  // By index.
  [[nodiscard]] const std::string& name(std::uint32_t index) const { return names_[index]; }

 private:
  void on(const fleet::Event& event, const fleet::Record& record, std::vector<RunNews>& news);
  [[nodiscard]] RunNews about(RunNews::Kind kind, model::TaskId task, std::string text = {}) const;
  void output(const model::Output& output, RunNews piece, std::vector<RunNews>& news);
  // Passes on the unfinished lines of a task that has ended.
  void output_ends(RunNews piece, std::vector<RunNews>& news);

  std::vector<std::string> names_;
  std::string key_;
  model::WorkflowId workflow_{};
  bool ended_ = false;
  std::size_t done_ = 0;
  std::size_t done_before_ = 0;
  std::size_t failed_ = 0;
  std::size_t cached_ = 0;
  std::map<std::uint32_t, Running> running_;
  OutputLines lines_;
};

}  // namespace rota::cli

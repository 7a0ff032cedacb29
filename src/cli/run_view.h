// RunView: what `rota run` shows while it runs. It watches one workflow of a host.
//
//   kPlain  a line for each thing that happens; for pipes and files
//   kLive   on a terminal: what failed, as lines, and below it a block that is drawn again: running tasks and totals
//   kJson   every event of the log, and every report, one line each
//
// What commands write, if the workers stream it, is shown in whole lines, each behind its task's name, and "|" for
// output or "!" for errors. A line that does not end is shown in pieces of kLongestLine.
//
// Invariant, under mutex_: running_ are the tasks that a worker has begun and nobody has heard the end of.
// Thread safety: everything from any task; the host calls on_...() from one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "cli/run_report.h"
#include "host/host.h"
#include "rota/fiber/sync.h"

namespace rota::cli {

// A line that a task wrote, so that a terminal takes it for text and nothing else.
[[nodiscard]] std::string for_a_terminal(std::string_view line);

class RunView final : public host::HostObserver {
 public:
  enum class Style : std::uint8_t { kPlain, kLive, kJson };
  static constexpr std::size_t kLongestLine = 16 * 1024;

  // `names`: of the tasks, by their place. `key`: the workflow that is submitted under this is the one to watch.
  RunView(Style style, std::FILE* out, std::vector<std::string> names, std::string key);

  // It is in the ledger already, with so many tasks done.
  void adopt(model::WorkflowId workflow, std::size_t done) ROTA_EXCLUDES(mutex_);
  void on_record(const fleet::Record& record) override ROTA_EXCLUDES(mutex_);
  void on_report(const std::string& worker, const bus::Report& report) override ROTA_EXCLUDES(mutex_);

  // Draws the block again.
  void refresh() ROTA_EXCLUDES(mutex_);
  // The block goes away.
  void finish() ROTA_EXCLUDES(mutex_);
  // A line for people; none in kJson.
  void say(const std::string& text) ROTA_EXCLUDES(mutex_);

  [[nodiscard]] model::WorkflowId workflow() ROTA_EXCLUDES(mutex_);
  // The workflow has ended.
  [[nodiscard]] fiber::Event& ended() { return ended_; }
  // With the times of what ran here put right: the ledger knows when a task was assigned, not when it began.
  void correct(RunReport& report) ROTA_EXCLUDES(mutex_);

 private:
  struct Running {
    std::int64_t since_ns = 0;
    std::uint32_t permille = 0;
    bool has_progress = false;
    std::string text{};
  };
  struct Times {
    std::int64_t began_ns = 0;
    std::int64_t ended_ns = 0;
  };

  void on(const fleet::Event& event, const fleet::Record& record) ROTA_REQUIRES(mutex_);
  [[nodiscard]] bool is_mine(model::TaskId task) const ROTA_REQUIRES(mutex_) {
    return task.workflow() == workflow_ && task.index() < names_.size();
  }
  void line(std::string_view text) ROTA_REQUIRES(mutex_);
  void output(const std::string& worker, const bus::Report& report) ROTA_REQUIRES(mutex_);
  // What is left of a task's last lines.
  void output_ends(const std::string& worker, const bus::Report& report) ROTA_REQUIRES(mutex_);
  void output_line(const std::string& worker, const bus::Report& report, bool from_stderr, std::string_view text)
      ROTA_REQUIRES(mutex_);
  void json_report(const std::string& worker, const bus::Report& report) ROTA_REQUIRES(mutex_);
  void erase_block() ROTA_REQUIRES(mutex_);
  void draw_block() ROTA_REQUIRES(mutex_);
  [[nodiscard]] std::int64_t elapsed_ns() const;

  const Style style_;
  std::FILE* const out_;
  const bool terminal_;  // What is shown must not be taken for commands of it.
  const std::vector<std::string> names_;
  const std::string key_;
  const std::int64_t begin_ns_;
  fiber::Event ended_;
  sync::Mutex mutex_;
  model::WorkflowId workflow_ ROTA_GUARDED_BY(mutex_){};
  std::size_t done_ ROTA_GUARDED_BY(mutex_) = 0;
  std::size_t done_before_ ROTA_GUARDED_BY(mutex_) = 0;
  std::size_t failed_ ROTA_GUARDED_BY(mutex_) = 0;
  std::size_t cached_ ROTA_GUARDED_BY(mutex_) = 0;
  std::map<std::uint32_t, Running> running_ ROTA_GUARDED_BY(mutex_);
  // By task and stream: the beginning of a line that has not ended.
  std::map<std::pair<std::uint32_t, bool>, std::string> lines_ ROTA_GUARDED_BY(mutex_);
  std::vector<Times> times_ ROTA_GUARDED_BY(mutex_);
  std::size_t block_lines_ ROTA_GUARDED_BY(mutex_) = 0;
};

}  // namespace rota::cli

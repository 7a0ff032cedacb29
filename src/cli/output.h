// Output: where every subcommand hands its facts. A subcommand computes, an Output shows.
//
//   TableOutput  tables and sentences for people           (output_table.cc)
//   JsonOutput   JSON for other software, with --json      (output_json.cc)
//   QuietOutput  only what was asked for, with --quiet     (output_table.cc)
//
// The Output is chosen once, by make_output(). Errors and remarks go to standard error in all of them.
//
// Thread safety: none; a RunView is called by one task at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "cli/load.h"
#include "cli/machine_bench.h"
#include "cli/replay.h"
#include "cli/run_past.h"
#include "cli/run_summary.h"
#include "cli/run_view.h"
#include "cli/simulate.h"
#include "cli/status.h"
#include "fleet/explain.h"
#include "model/workflow_spec.h"
#include "rota/result.h"

namespace rota::cli {

enum class OutputMode : std::uint8_t { kTable, kJson, kQuiet };
enum class GraphFormat : std::uint8_t { kText, kMermaid, kDot, kJson };

// Whose log a line or a remark of `rota logs` belongs to.
struct LogOwner {
  model::TaskId task{};
  std::string name{};
  model::AttemptNumber attempt{};  // None: the task has had no attempt.
};

// `rota submit`.
struct Submission {
  model::WorkflowId workflow{};
  std::uint64_t index = 0;                  // The log reflects it from this record on.
  bool repeated = false;                    // The same key was submitted before.
  bool throttle = false;                    // The host asks its clients to slow down.
  std::vector<std::string> warnings{};      // Stages that no worker can run now.
  std::optional<fleet::Outcome> outcome{};  // If its end was waited for.
};

// `rota run --dry-run`.
struct RunPlan {
  const model::WorkflowSpec& spec;
  const std::vector<model::WorkerSpec>& workers;
  std::vector<StagePlan> stages{};      // One per stage of the workflow.
  std::vector<std::string> warnings{};  // Stages that no worker can run.
};

// `rota workers`.
struct WorkerLine {
  std::string name{};
  std::string status{};
  std::string resources{};
  std::string zone{};
  std::int64_t cost_microdollars_per_hour = 0;
  std::size_t tasks = 0;   // Running there.
  std::size_t queued = 0;  // Waiting there for room.
};

struct ScheduleLine {
  std::string name{};
  std::string cron{};
  std::string zone{};
  std::string missed{};
  std::string overlap{};
  std::string user{};
  bool paused = false;
  std::uint64_t fired = 0;
  std::size_t queued = 0;
  std::vector<std::string> running{};
  std::vector<std::string> next{};  // RFC 3339.
};

// `rota ledger backup` and `restore`.
struct LedgerCopy {
  enum class Action : std::uint8_t { kBackup, kRestore, kCopy };
  Action action = Action::kBackup;
  std::string from{};
  std::string to{};
  std::uint64_t last_index = 0;   // Of the copy.
  std::uint64_t first_index = 1;  // Records before it are part of the snapshot.
};

// `rota token`.
struct TokenLine {
  std::string name{};
  std::string role{};
  std::string user{};
  std::string expires{};  // "2026-11-17 08:00:00"; empty: never.
  bool over = false;      // It has expired.
};

class Output {
 public:
  explicit Output(std::FILE* out) : out_(out) {}
  virtual ~Output() = default;
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // A remark for people, to standard error; an empty one is not shown.
  virtual void note(const std::string& text);
  // Whether "reading 42 %" may be shown on a terminal while a subcommand computes.
  [[nodiscard]] virtual bool shows_progress() const { return false; }
  // Writes out what is buffered: for a reader that follows the output.
  void flush() { std::fflush(out_); }

  virtual void version(std::string_view version) = 0;
  virtual void settings(const Settings& settings) = 0;
  // The file as it was named, and what it contains or what is wrong with it.
  virtual void validation(const std::string& file, const Result<Loaded>& loaded) = 0;
  virtual void graph(const model::WorkflowSpec& spec, GraphFormat format) = 0;
  // `rota run --dry-run`
  virtual void plan(const RunPlan& plan) = 0;
  // `older`: all workflows of a log, not only its latest.
  virtual void status(const std::vector<PlaceStatus>& places, bool older) = 0;
  virtual void explanation(const fleet::Explanation& explanation) = 0;
  virtual void replay(const Replay& replay) = 0;
  // The log does not verify, or cannot be read. The error goes to standard error in any case.
  virtual void replay_failed(const Error& error) { (void)error; }
  virtual void simulated(const Simulated& simulated) = 0;
  virtual void trace_written(const std::string& path, std::size_t slices) = 0;
  virtual void ledger_copied(const LedgerCopy& copy) = 0;
  virtual void submitted(const Submission& submission) = 0;
  // A control of a workflow or task was accepted: "cancel", "wf-3".
  virtual void controlled(const std::string& action, const std::string& what, std::uint64_t index) = 0;
  virtual void workers(const std::vector<WorkerLine>& workers) = 0;
  virtual void schedules(const std::vector<ScheduleLine>& schedules) = 0;
  virtual void benchmarks(const std::vector<BenchFigure>& figures) = 0;
  virtual void tokens(const std::vector<TokenLine>& tokens) = 0;
  // The only time that the secret is shown.
  virtual void token_made(const std::string& name, const std::string& secret) = 0;
  virtual void token_revoked(const std::string& name) = 0;
  // A completion script or a page: printed as it is.
  void document(std::string_view text) { print(text); }

  // `rota logs`. If the log of one task is shown as it is, without its owner in front of every line.
  [[nodiscard]] virtual bool shows_raw_logs() const { return true; }
  void log_bytes(std::string_view bytes) { print(bytes); }
  virtual void log_line(const LogOwner& owner, std::string_view line) = 0;
  virtual void log_path(const LogOwner& owner, const std::string& path) = 0;
  // Why there is no log.
  virtual void log_note(const LogOwner& owner, const std::string& text) = 0;

  // -v: more is shown.
  void set_verbose(bool verbose) { verbose_ = verbose; }
  [[nodiscard]] bool verbose() const { return verbose_; }

  // `rota run`: what is shown while the workflow runs, and at its end.
  [[nodiscard]] virtual std::unique_ptr<RunView> run_view() = 0;
  virtual void run_ended(const RunSummary& summary) = 0;

 protected:
  void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), out_); }
  void print_line(std::string text) { print(text += '\n'); }
  [[nodiscard]] std::FILE* out() const { return out_; }

 private:
  std::FILE* const out_;
  bool verbose_ = false;
};

// REQUIRES: out outlives it.
[[nodiscard]] std::unique_ptr<Output> make_output(OutputMode mode, std::FILE* out);

// "rota: <message>", and one line for each detail, to standard error.
void print_error(const Error& error);

}  // namespace rota::cli

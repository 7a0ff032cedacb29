// TableOutput: tables and sentences for people. QuietOutput: the same without headings, progress and remarks.
#pragma once

#include "cli/output.h"

namespace rota::cli {

class TableOutput : public Output {
 public:
  using Output::Output;

  [[nodiscard]] bool shows_progress() const override { return true; }
  void version(std::string_view version) override;
  void settings(const Settings& settings) override;
  void validation(const std::string& file, const Result<Loaded>& loaded) override;
  void graph(const model::WorkflowSpec& spec, GraphFormat format) override;
  void plan(const RunPlan& plan) override;
  void status(const std::vector<PlaceStatus>& places, bool older) override;
  void explanation(const fleet::Explanation& explanation) override;
  void replay(const Replay& replay) override;
  void simulated(const Simulated& simulated) override { print(simulation_table(simulated)); }
  void trace_written(const std::string& path, std::size_t slices) override;
  void ledger_copied(const LedgerCopy& copy) override;
  void submitted(const Submission& submission) override;
  void controlled(const std::string& action, const std::string& what, std::uint64_t index) override;
  void workers(const std::vector<WorkerLine>& workers) override;
  void schedules(const std::vector<ScheduleLine>& schedules) override;
  void benchmarks(const std::vector<BenchFigure>& figures) override;
  void tokens(const std::vector<TokenLine>& tokens) override;
  void token_made(const std::string& name, const std::string& secret) override;
  void token_revoked(const std::string& name) override;
  void log_line(const LogOwner& owner, std::string_view line) override;
  void log_path(const LogOwner& owner, const std::string& path) override;
  void log_note(const LogOwner& owner, const std::string& text) override;
  [[nodiscard]] std::unique_ptr<RunView> run_view() override;
  void run_ended(const RunSummary& summary) override;

 private:
  void status_table(const std::vector<PlaceStatus>& places, bool older);
  void running_tasks(const RunReport& report);
  void log_tail(const LogTail& tail);
};

// Prints what was asked for: the version, the settings, the graph, the logs; of a run only its id and outcome, of an
// explanation only its sentence. Where the exit status says everything, it prints nothing. Failures go to standard
// error.
class QuietOutput final : public TableOutput {
 public:
  using TableOutput::TableOutput;

  void note(const std::string& /*text*/) override {}
  [[nodiscard]] bool shows_progress() const override { return false; }
  void version(std::string_view version) override { print_line(std::string(version)); }
  void validation(const std::string& file, const Result<Loaded>& loaded) override;
  void plan(const RunPlan& /*plan*/) override {}
  void status(const std::vector<PlaceStatus>& places, bool older) override;
  void explanation(const fleet::Explanation& explanation) override { print_line(explanation.sentence); }
  void replay(const Replay& /*replay*/) override {}
  void trace_written(const std::string& /*path*/, std::size_t /*slices*/) override {}
  void ledger_copied(const LedgerCopy& /*copy*/) override {}
  void submitted(const Submission& submission) override { print_line(submission.workflow.to_string()); }
  void controlled(const std::string& /*action*/, const std::string& /*what*/, std::uint64_t /*index*/) override {}
  void log_note(const LogOwner& /*owner*/, const std::string& /*text*/) override {}
  [[nodiscard]] std::unique_ptr<RunView> run_view() override { return make_quiet_view(); }
  void run_ended(const RunSummary& summary) override;
};

}  // namespace rota::cli

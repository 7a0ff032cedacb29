// JsonOutput: JSON for other software. Every value is one line.
#pragma once

#include "cli/output.h"

namespace rota::cli {

class JsonOutput final : public Output {
 public:
  using Output::Output;

  void version(std::string_view version) override;
  void settings(const Settings& settings) override;
  void validation(const std::string& file, const Result<Loaded>& loaded) override;
  void graph(const model::WorkflowSpec& spec, GraphFormat format) override;
  void plan(const RunPlan& plan) override;
  void status(const std::vector<PlaceStatus>& places, bool older) override;
  void explanation(const fleet::Explanation& explanation) override;
  void replay(const Replay& replay) override;
  void replay_failed(const Error& error) override;
  void simulated(const Simulated& simulated) override { print_line(simulation_json(simulated)); }
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
  [[nodiscard]] bool shows_raw_logs() const override { return false; }
  void log_line(const LogOwner& owner, std::string_view line) override;
  void log_path(const LogOwner& owner, const std::string& path) override;
  void log_note(const LogOwner& owner, const std::string& text) override;
  [[nodiscard]] std::unique_ptr<RunView> run_view() override;
  void run_ended(const RunSummary& summary) override;

 private:
  void log_fact(const LogOwner& owner, std::string_view key, std::string_view value);
};

}  // namespace rota::cli

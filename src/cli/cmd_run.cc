// `rota run FILE`: runs a workflow in this process.
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/run_session.h"
#include "cli/run_summary.h"
#include "cli/subcommands.h"
#include "fleet/feasibility.h"
#include "host/policy_settings.h"
#include "rota/worker.h"
#include "workflow/fleet_file.h"

namespace rota::cli {

namespace {

struct RunOptions {
  std::string file;
  std::string state;
  std::string workers;
  std::int64_t jobs = 0;
  bool dry_run = false;
  bool fresh = false;
  bool no_cache = false;
  bool output = false;
  ledger::Durability durability = ledger::Durability::kFull;
};

Result<workflow::FleetFile> workers_of(const RunOptions& options) {
  if (options.workers.empty()) {
    model::WorkerSpec local;
    local.name = "local";
    local.resources = machine_resources();
    if (options.jobs > 0) local.resources.cpu_millis = options.jobs * 1000;
    return workflow::FleetFile{.workers = {local}};
  }
  ROTA_TRY_ASSIGN(const workflow::Source source, workflow::read_source(options.workers));
  workflow::FleetFile fleet = workflow::read_fleet(source);
  if (!fleet.ok()) return workflow::to_error(source.path, fleet.problems);
  return fleet;
}

// The policy from the settings. Settings that were not set get the values that suit workers in this process.
Result<fleet::Policy> policy_of(const workflow::FleetFile& file) {
  const std::vector<model::WorkerSpec>& workers = file.workers;
  SettingsTable table;
  const host::PolicySettings rows(table);
  const SettingsLoad load = load_settings(table, {.environment = current_environment()});
  ROTA_TRY(load.status());
  ROTA_TRY_ASSIGN(fleet::Policy policy, rows.policy(load.settings));
  const auto chosen = [&](Setting<std::int64_t> setting) {
    return host::PolicySettings::is_set(load.settings, setting);
  };
  // Tasks are sent ahead to a single worker, so that it has work while the ledger syncs a group of records. The number
  // is about what it can finish of short tasks in that time.
  if (!chosen(rows.max_queue_per_worker()) && workers.size() == 1) {
    policy.max_queue_per_worker = 16 * (workers.front().resources.cpu_millis / 1000 + 1);
  }
  // The workers cannot get lost while this process runs, even if it was suspended for an hour.
  if (!chosen(rows.heartbeat_ttl())) policy.heartbeat_ttl_ms = 365LL * 24 * 3600 * 1000;
  // No other worker will join.
  if (!chosen(rows.no_worker_grace())) policy.no_worker_grace_ms = 5000;
  // A run can be resumed whenever its user comes back: nothing of it is forgotten.
  if (policy.retention_ms == fleet::Policy{}.retention_ms) policy.retention_ms = 100LL * 365 * 24 * 3600 * 1000;
  // What the fleet file says about the whole fleet comes before the setting.
  if (!file.named.empty()) policy.fleet = file.named;
  ROTA_TRY(fleet::check_policy(policy));
  return policy;
}

Result<int> run(const RunOptions& options, Output& output) {
  RunSetup setup;
  ROTA_TRY_ASSIGN(setup.workflow, load_workflow(options.file));
  ROTA_TRY_ASSIGN(workflow::FleetFile fleet, workers_of(options));
  ROTA_TRY_ASSIGN(setup.policy, policy_of(fleet));
  setup.workers = std::move(fleet.workers);
  if (options.dry_run) {
    output.plan(setup.workflow.spec, setup.workers);
    ROTA_TRY_ASSIGN(const std::vector<std::string> warnings,
                    fleet::infeasible_on(setup.workflow.spec, setup.workers, setup.policy));
    for (const std::string& warning : warnings) output.note("warning: no worker can run " + warning);
    return 0;
  }
  const char* user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
  setup.workflow.spec.user = user == nullptr || *user == '\0' ? "local" : user;
  setup.workers_have_a_price = !options.workers.empty();
  setup.fresh = options.fresh;
  setup.cache = !options.no_cache;
  setup.output = options.output;
  setup.durability = options.durability;
  setup.state = !options.state.empty() ? std::filesystem::absolute(options.state).lexically_normal().string()
                                       : state_folder_of(setup.workflow.path);
  // With `rota run FILE | head`, the workflow runs to its end although the reader has gone.
  std::signal(SIGPIPE, SIG_IGN);
  ROTA_TRY_ASSIGN(const RunEnd end, run_session(std::move(setup), output.run_view()));
  output.run_ended(summarize(end.report, end.logs));
  output.flush();
  confirm(end);
  switch (end.report.outcome) {
    case fleet::Outcome::kSucceeded:
      return 0;
    case fleet::Outcome::kCancelled:
      return exit_status(ErrorCode::kCancelled);
    default:
      return 1;
  }
}

}  // namespace

Subcommand run_subcommand() {
  using ledger::Durability;
  const std::vector<std::pair<std::string, Durability>> durabilities{{"full", Durability::kFull},
                                                                     {"relaxed", Durability::kRelaxed}};
  auto options = std::make_shared<RunOptions>();
  return {
      .name = "run",
      .meaning = "Run a workflow on this machine to its end; run it again to resume it",
      .positionals = {workflow_file(&options->file)},
      .options = {text("--state", "DIR", &options->state,
                       "the state folder of the run; default: .rota/<name of the file>/ next to the file"),
                  text("--workers", "FILE", &options->workers,
                       "a fleet file: run with workers of these sizes; the programs are real"),
                  excluding(
                      number("--jobs", &options->jobs, 1, 100'000, "CPUs to use; default: all CPUs of this machine"),
                      "--workers"),
                  flag("--dry-run", &options->dry_run, "show what would be run, and run nothing"),
                  flag("--fresh", &options->fresh, "start a new run instead of resuming the last one"),
                  flag("--no-cache", &options->no_cache,
                       "run stages with `cache` even if nothing has changed since an earlier run"),
                  flag("--output", &options->output, "show what the programs write, line by line"),
                  choice("--durability", durabilities, &options->durability,
                         "full: the run survives a power failure; relaxed: a crash of this process")},
      .json = "print one event per line as JSON, and a summary as the last line",
      .footer =
          "Ctrl-C cancels the running tasks; a second Ctrl-C exits immediately. Exit status 1: the workflow failed;\n"
          "7: it was cancelled.",
      .examples = {"rota run nightly.yaml", "rota run nightly.yaml --jobs 4 --state /var/tmp/nightly",
                   "rota run nightly.yaml --json | jq -r .event"},
      .run = [options](Output& output) { return run(*options, output); }};
}

}  // namespace rota::cli

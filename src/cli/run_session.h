// Runs a workflow in this process: ledger, bus, host and workers, from the first to the last task.
//
// <state>/ledger.db is the log (ledger/), <state>/logs/ contains what the tasks wrote, <state>/told the key of the last
// run whose end the user was told.
//
// If the latest run was of the same workflow, it is resumed: tasks that were running when the process died run again,
// without using up an attempt; of a run that failed or was cancelled, all tasks that did not succeed run again. After a
// success a new run starts. If the workflow has changed, a new run starts as well, and unchanged tasks keep the results
// that they have had since the last success (run_past.h); what the older version left unfinished is cancelled. If the
// process was killed after the success was durable but before the user was told, a run that follows soon (kUntoldForNs)
// reports that success and runs nothing, so that repeating `rota run` until it succeeds does the work once.
//
// Thread safety: one session per process at a time; it uses the process's signals.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/load.h"
#include "cli/run_past.h"
#include "cli/run_report.h"
#include "cli/run_view.h"
#include "fleet/policy.h"
#include "ledger/disk_options.h"
#include "model/workflow_spec.h"
#include "rota/result.h"
#include "rota/worker.h"

namespace rota::cli {

struct RunSetup {
  Loaded workflow{};
  std::string state{};  // The state folder.
  fleet::Policy policy{};
  std::vector<model::WorkerSpec> workers{};  // At least one.
  bool workers_have_a_price = false;
  bool fresh = false;             // Start a new run instead of resuming; keep no results.
  bool partial = false;           // Only a part of the file's workflow is run (--only, --from, --until).
  bool reuse_success = false;     // See PastQuery.
  bool reuse_all = false;         // See PastQuery.
  std::vector<Choice> choices{};  // By task, for a partial run; empty: all normal.
  bool dry_run = false;           // The past is only looked at.
  bool cache = true;              // Use the results of earlier runs for stages with `cache`: <state>/cache.
  bool output = false;            // Stream what the programs write to the view.
  bool whole_output = false;      // Keep all that the programs write, for the view; they have no results.
  bool web = false;               // Serve the dashboard while the workflow runs.
  ledger::Durability durability = ledger::Durability::kFull;
  SecretSources secrets{};                               // Where the workers look up the secrets of tasks.
  std::uint64_t files_bytes = std::uint64_t{100} << 30;  // The most that the outputs of stages take: <state>/files.
};

[[nodiscard]] PastQuery past_query(const RunSetup& setup);

struct RunEnd {
  RunReport report{};
  std::string logs{};  // The folder with what the tasks wrote.
  std::string told_file{};
  std::string key{};  // The workflow's key.
  bool late = false;  // It was cancelled because its deadline had passed.
};

// Runs the workflow to its end. SIGINT, SIGTERM and SIGHUP cancel it; a second signal ends the process at once, with
// status 7.
[[nodiscard]] Result<RunEnd> run_session(RunSetup setup, std::unique_ptr<RunView> view);

// Notes that the user was told how the run ended: after a success, running the file again starts a new run.
void confirm(const RunEnd& end);

}  // namespace rota::cli

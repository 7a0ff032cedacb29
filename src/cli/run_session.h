// Runs a workflow in this process: ledger, bus, host and workers, from the first to the last task.
//
// <state>/ledger.db is the log (ledger/), <state>/logs/ contains what the tasks wrote, <state>/told the key of the last
// run whose end the user was told.
//
// If the same file is run again without a change, the run resumes: tasks that were running when the process died run
// again, without using up an attempt; of a run that failed or was cancelled, all tasks that did not succeed run again.
// After a success, and for a file that has changed, a new run starts; a workflow that an older version of the file left
// unfinished is cancelled. If the process was killed after the success was durable but before the user was told, the
// next run reports that success and runs nothing, so that repeating `rota run` until it succeeds does the work once.
//
// Thread safety: one session per process at a time; it uses the process's signals.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/load.h"
#include "cli/run_report.h"
#include "cli/run_view.h"
#include "fleet/policy.h"
#include "ledger/disk_options.h"
#include "model/workflow_spec.h"
#include "rota/result.h"

namespace rota::cli {

struct RunSetup {
  Loaded workflow{};
  std::string state{};  // The state folder.
  fleet::Policy policy{};
  std::vector<model::WorkerSpec> workers{};  // At least one.
  bool workers_have_a_price = false;
  bool fresh = false;   // Start a new run instead of resuming.
  bool cache = true;    // Use the results of earlier runs for stages with `cache`: <state>/cache.
  bool output = false;  // Stream what the programs write to the view.
  ledger::Durability durability = ledger::Durability::kFull;
};

struct RunEnd {
  RunReport report{};
  std::string logs{};  // The folder with what the tasks wrote.
  std::string told_file{};
  std::string key{};  // The workflow's key.
};

// Runs the workflow to its end. SIGINT and SIGTERM cancel it; a second signal ends the process at once, with status 7.
[[nodiscard]] Result<RunEnd> run_session(RunSetup setup, std::unique_ptr<RunView> view);

// Notes that the user was told how the run ended: after a success, running the file again starts a new run.
void confirm(const RunEnd& end);

}  // namespace rota::cli

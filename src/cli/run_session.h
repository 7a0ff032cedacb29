// A run of a workflow in this process: ledger, bus, host and workers, from the first to the last task.
//
// Where it is kept: <state>/ledger.db is the log (ledger/), <state>/logs/ what the tasks wrote. `state` is, unless
// somebody says otherwise, .rota/<the file's name>/ beside the workflow's file.
//
// Run again, a file that has not changed goes on where it stopped: what was running when the process died runs again
// (no attempt is spent on that), and of a run that failed or was cancelled, all that did not succeed. After a success,
// and for a file that has changed, it starts anew; what an older text left unfinished is cancelled. A success that
// nobody was told of, since the process was killed just before, is told instead, and nothing is run: whoever runs it
// until it succeeds has it done once.
//
// Thread safety: one at a time in a process; signals are the process's.
#pragma once

#include <string>
#include <vector>

#include "cli/load.h"
#include "cli/run_view.h"
#include "fleet/policy.h"
#include "ledger/disk_options.h"
#include "model/spec.h"
#include "rota/result.h"

namespace rota::cli {

struct RunSetup {
  Loaded workflow{};
  std::string state{};  // A directory.
  fleet::Policy policy{};
  std::vector<model::WorkerSpec> workers{};  // At least one.
  bool workers_have_a_price = false;
  bool fresh = false;   // Start anew, whatever was before.
  bool cache = true;    // Of stages with `cache`, use results of earlier runs: <state>/cache.
  bool output = false;  // Show what commands write.
  ledger::Durability durability = ledger::Durability::kFull;
  RunView::Style style = RunView::Style::kPlain;
};

struct RunEnd {
  RunReport report{};
  std::string logs{};  // Where what the tasks wrote is.
  std::string told_file{};
  std::string key{};  // Of the run.
};

// Runs it to its end. SIGINT and SIGTERM cancel the workflow; a second one ends the process at once, with status 7.
[[nodiscard]] Result<RunEnd> run_session(RunSetup setup);

// The user was told how it ended: to run it again, after a success, is a new run.
void confirm(const RunEnd& end);

}  // namespace rota::cli

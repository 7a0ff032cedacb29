// `rota run FILE`: runs a workflow in this process.
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/json_text.h"
#include "base/secret_file.h"
#include "base/units.h"
#include "cli/cache_plan.h"
#include "cli/load.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/run_local.h"
#include "cli/run_past.h"
#include "cli/run_session.h"
#include "cli/run_summary.h"
#include "cli/selection.h"
#include "cli/subcommands.h"
#include "cli/timeline.h"
#include "fleet/feasibility.h"

namespace rota::cli {

namespace {

struct RunOptions {
  std::string file;
  ParamOptions params;
  Selection selection;
  std::string state;
  std::string workers;
  std::int64_t jobs = 0;
  bool dry_run = false;
  bool fresh = false;
  bool no_cache = false;
  bool fail_fast = false;
  bool keep_going = false;
  bool output = false;
  bool verbose = false;
  bool web = false;
  ledger::Durability durability = ledger::Durability::kFull;
  SecretSources secrets{};
  std::string files_bytes;
};

// What the ledger in the state folder, if there is one, knows about earlier runs.
Result<Past> past_in(const std::string& state, const PastQuery& query) {
  const std::string path = state + "/ledger.db";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return read_past(fleet::Brain().state(), query);
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> source, LogSource::open(path));
  ProgressLine line(false);
  ROTA_TRY_ASSIGN(const RunLog log, read_log(*source, line));
  return read_past(log.brain.state(), query);
}

Result<int> show_plan(const RunSetup& setup, Output& output) {
  const PastQuery query = past_query(setup);
  ROTA_TRY_ASSIGN(const Past past, past_in(setup.state, query));
  ROTA_TRY(check_missing(past));
  ROTA_TRY_ASSIGN(std::vector<std::string> warnings,
                  fleet::infeasible_on(setup.workflow.spec, setup.workers, setup.policy));
  std::vector<StagePlan> plans = plan_of(past, query);
  if (setup.cache) look_into_cache(plans, past, setup.workflow.spec, setup.state + "/cache");
  output.plan({setup.workflow.spec, setup.workers, std::move(plans), std::move(warnings)});
  return 0;
}

// --only and --from take over earlier results, and --fresh keeps none.
Result<void> check_fresh(const RunOptions& options) {
  const Selection& selection = options.selection;
  if (!options.fresh || (selection.only.empty() && selection.from.empty())) return {};
  if (!selection.only.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "--only runs a stage with the earlier results of what it needs, and --fresh keeps no results; use "
                 "`--fresh --until " +
                     printable(selection.only.front()) + "` to run the stage and what it needs, or leave out --fresh"};
  }
  return Error{ErrorCode::kInvalidArgument,
               "--from keeps the results of the other stages, and --fresh keeps no results; leave out one of them"};
}

Result<int> run(const RunOptions& options, Output& output) {
  ROTA_TRY(check_fresh(options));
  RunSetup setup;
  ROTA_TRY_ASSIGN(setup.workflow, load_workflow(options.file, options.params));
  if (!options.selection.empty()) {
    ROTA_TRY_ASSIGN(setup.choices, apply(options.selection, setup.workflow.spec));
    setup.workflow.content = Hasher().add(setup.workflow.content).add(options.selection.text()).finish128().to_string();
    setup.partial = true;
    setup.reuse_success = !options.selection.only.empty() || !options.selection.from.empty();
  }
  if ((options.fail_fast || options.keep_going) && setup.workflow.spec.fail_fast != options.fail_fast) {
    setup.workflow.spec.fail_fast = options.fail_fast;  // Another workflow, with the results of this one.
    setup.workflow.content = Hasher().add(setup.workflow.content).add("fail_fast").finish128().to_string();
  }
  ROTA_TRY(use_workers(setup, options.workers, options.jobs));
  setup.fresh = options.fresh;
  setup.cache = !options.no_cache;
  setup.dry_run = options.dry_run;
  setup.output = options.output;
  setup.web = options.web;
  setup.durability = options.durability;
  setup.secrets = options.secrets;
  if (!options.files_bytes.empty()) {
    const Result<ByteSize> most = parse_bytes(options.files_bytes);
    if (!most.ok()) {
      return Error{ErrorCode::kInvalidArgument,
                   "--files-bytes: '" + printable(options.files_bytes, 40) + "' " + most.error().message};
    }
    setup.files_bytes = most->count;
  }
  if (!setup.secrets.directory.empty()) {
    ROTA_TRY(check_secret_directory(setup.secrets.directory));
    setup.secrets.directory = std::filesystem::absolute(setup.secrets.directory).string();
  }
  setup.state = !options.state.empty() ? std::filesystem::absolute(options.state).lexically_normal().string()
                                       : state_folder_of(setup.workflow.path);
  if (options.dry_run) return show_plan(setup, output);
  // With `rota run FILE | head`, the workflow runs to its end although the reader has gone.
  std::signal(SIGPIPE, SIG_IGN);
  output.set_verbose(options.verbose);
  ROTA_TRY_ASSIGN(const RunEnd end, run_session(std::move(setup), output.run_view()));
  output.run_ended(summarize(end.report, end.logs));
  output.flush();
  confirm(end);
  if (end.late) {
    output.note("the deadline of the workflow has passed");
    return exit_status(ErrorCode::kDeadlineExceeded);
  }
  return exit_status_of(end.report.outcome);
}

}  // namespace

Subcommand run_subcommand() {
  using ledger::Durability;
  const std::vector<std::pair<std::string, Durability>> durabilities{{"full", Durability::kFull},
                                                                     {"relaxed", Durability::kRelaxed}};
  auto options = std::make_shared<RunOptions>();
  Subcommand run_it{
      .name = "run",
      .meaning = "Run a workflow on this machine to its end; run it again to resume it",
      .positionals = {workflow_file(&options->file)},
      .options = {text("--state", "DIR", &options->state,
                       "the state folder of the run; default: .rota/<name of the file>/ next to the file"),
                  text("--workers", "FILE", &options->workers,
                       "a fleet file: run with workers of these sizes; the programs are real"),
                  excluding(
                      number("-j,--jobs", &options->jobs, 1, 100'000, "CPUs to use; default: all CPUs of this machine"),
                      "--workers"),
                  texts("--only", "STAGE", &options->selection.only,
                        "run this stage, or one task like 'train[2]', with the earlier results of what it needs"),
                  excluding(texts("--from", "STAGE", &options->selection.from,
                                  "run this stage and everything after it again; keep what is unchanged"),
                            "--only"),
                  excluding(texts("--until", "STAGE", &options->selection.until, "run this stage and what it needs"),
                            "--only"),
                  flag("--dry-run", &options->dry_run, "show what would be run, and why, and run nothing"),
                  flag("--fresh", &options->fresh, "start a new run instead of resuming the last one; keep no results"),
                  flag("--fail-fast", &options->fail_fast, "when a task fails for good, cancel the others"),
                  excluding(flag("--keep-going", &options->keep_going,
                                 "when a task fails, run what does not need it, even if the file has fail_fast"),
                            "--fail-fast"),
                  flag("--no-cache", &options->no_cache,
                       "run stages with `cache` even if nothing has changed since an earlier run"),
                  flag("-v,--verbose", &options->verbose, "on a terminal, show a line for each start and end as well"),
                  flag("--output", &options->output, "show what the programs write, line by line"),
                  flag("--web", &options->web,
                       "serve the dashboard on this machine while the workflow runs, and print its address"),
                  text("--files-bytes", "SIZE", &options->files_bytes,
                       "the most that the stored outputs of stages may take, in the state folder; default: 100GiB"),
                  text("--secrets-dir", "DIR", &options->secrets.directory,
                       "where the secrets of tasks are: one file for each, mode 0600"),
                  text("--secrets-command", "COMMAND", &options->secrets.command,
                       "a shell command that prints the value of the secret $ROTA_SECRET"),
                  flag("--secrets-env", &options->secrets.environment,
                       "take the secrets of tasks from the variables ROTA_SECRET_<NAME>"),
                  choice("--durability", durabilities, &options->durability,
                         "full: the run survives a power failure; relaxed: a crash of this process")},
      .json = "print one event per line as JSON, and a summary as the last line",
      .footer =
          "FILE may be - for the standard input. A second run resumes the first: tasks that succeeded are not run\n"
          "again. If the file was edited, unchanged tasks keep their results. --only, --from and --until may be given\n"
          "several times; --fresh can be combined with --until, but not with --only and --from, which keep results.\n"
          "Ctrl-C cancels the running tasks; a second Ctrl-C exits immediately. Exit status 1: the workflow failed;\n"
          "7: it was cancelled.",
      .examples = {"rota run nightly.yaml", "rota run nightly.yaml --jobs 4 --state /var/tmp/nightly",
                   "rota run train.yaml --set lr=0.01 --params night.yaml", "rota run nightly.yaml --from report",
                   "rota run nightly.yaml --json | jq -r .event"},
      .run = [options](Output& output) { return run(*options, output); }};
  std::vector<Option> params = param_options(&options->params);
  run_it.options.insert(run_it.options.begin(), params.begin(), params.end());
  return run_it;
}

}  // namespace rota::cli

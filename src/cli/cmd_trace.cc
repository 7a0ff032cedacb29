// `rota trace [WHERE] [-o FILE]`: writes a run as a trace file for ui.perfetto.dev.
#include <cerrno>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "base/json_text.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/subcommands.h"
#include "cli/timeline.h"
#include "cli/trace_run.h"

namespace rota::cli {

namespace {

struct TraceOptions {
  std::string where;
  std::string out;
  bool all = false;
};

Result<int> trace(const TraceOptions& options, Output& output) {
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(options.where, &note));
  output.note(note);
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> source, LogSource::open(place.log));
  ProgressLine progress(output.shows_progress());
  ROTA_TRY_ASSIGN(const RunLog log, read_log(*source, progress));
  progress.clear();
  const model::WorkflowId latest = latest_workflow(log.brain.state());
  if (latest.is_none()) return Error{ErrorCode::kNotFound, place.name + ": no workflow was submitted yet"};
  const model::WorkflowId workflow = options.all ? model::WorkflowId() : latest;
  if (options.out.empty()) {
    write_trace(log, workflow, std::cout);
    if (!std::cout) return Error{ErrorCode::kIoError, "the trace could not be written to standard output"};
    return 0;
  }
  std::ofstream file(options.out, std::ios::binary | std::ios::trunc);
  const int problem = errno;
  const std::size_t slices = file ? write_trace(log, workflow, file) : 0;
  file.close();
  if (!file) {
    const std::error_code error(problem, std::generic_category());
    return Error{error == std::errc::permission_denied ? ErrorCode::kPermissionDenied : ErrorCode::kIoError,
                 "'" + printable(options.out, 300) + "' could not be written: " + error.message()};
  }
  output.trace_written(options.out, slices);
  return 0;
}

}  // namespace

Subcommand trace_subcommand() {
  auto options = std::make_shared<TraceOptions>();
  return {
      .name = "trace",
      .meaning = "Write a run as a trace file for ui.perfetto.dev",
      .positionals = {where(&options->where)},
      .options = {text("-o,--output", "FILE", &options->out, "the file to write; default: standard output"),
                  flag("--all", &options->all, "all runs of the log; default: the latest run")},
      .json = "with --output: print the path and the number of slices as JSON. The trace itself is always JSON",
      .footer =
          "The trace has a track for each worker, with as many lanes as tasks ran there at once; a slice for each\n"
          "attempt, with why it ran there, how long it waited and how it ended; and arrows to a task from the tasks\n"
          "that it needed. The times are those of the log: from the assignment to the report.",
      .examples = {"rota trace nightly.yaml -o nightly.json", "rota trace | gzip > trace.json.gz"},
      .run = [options](Output& output) { return trace(*options, output); }};
}

}  // namespace rota::cli

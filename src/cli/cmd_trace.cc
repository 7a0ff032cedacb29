// `rota trace [WHERE] [-o OUT.json]`: a run as a file for ui.perfetto.dev.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/log_source.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/timeline.h"
#include "cli/trace_run.h"

namespace rota::cli {

namespace {

struct TraceOptions {
  std::string where;
  std::string out;
  bool all = false;
  bool json = false;
};

Result<void> trace(const TraceOptions& options) {
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(options.where, &note));
  say_note(note);
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> source, LogSource::open(place.log));
  ProgressLine progress(true);
  ROTA_TRY_ASSIGN(const RunLog log, read_log(*source, progress));
  progress.clear();
  const model::WorkflowId latest = latest_workflow(log.brain.state());
  if (latest.is_none()) return Error{ErrorCode::kNotFound, place.name + ": no workflow was submitted yet"};
  const model::WorkflowId workflow = options.all ? model::WorkflowId() : latest;
  if (options.out.empty()) {
    write_trace(log, workflow, std::cout);
    if (!std::cout) return Error{ErrorCode::kIoError, "the trace could not be written to standard output"};
    return {};
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
  if (options.json) {
    std::string out = "{\"path\":";
    append_json_string(out, options.out);
    std::printf("%s,\"slices\":%zu}\n", out.c_str(), slices);
  } else {
    std::printf("%s: %zu slices. Open it at https://ui.perfetto.dev\n", options.out.c_str(), slices);
  }
  return {};
}

}  // namespace

void add_trace(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("trace", "Write a run as a file for ui.perfetto.dev");
  auto options = std::make_shared<TraceOptions>();
  add_where(*verb, options->where);
  verb->add_option("-o,--output", options->out, "where to; otherwise to standard output")->option_text("FILE");
  verb->add_flag("--all", options->all, "all runs of the log; otherwise the latest");
  verb->add_flag("--json", options->json,
                 "what was written to FILE, for programs; the trace itself is JSON in any case");
  verb->footer(
      "A track for each worker, with as many lanes as tasks ran there at once; a slice for each attempt, with why it\n"
      "ran there, how long it waited and how it ended; arrows to a task from what it needed. The times are those of\n"
      "the log: from the assignment to the report.\n"
      "\n"
      "Examples:\n"
      "  rota trace nightly.yaml -o nightly.json\n"
      "  rota trace | gzip > trace.json.gz");
  verb->callback([&exit, options] {
    Result<void> done = trace(*options);
    exit.status = done.ok() ? 0 : report(done.error());
  });
}

}  // namespace rota::cli

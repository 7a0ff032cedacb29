#include "cli/status.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "cli/log_source.h"
#include "cli/progress_line.h"
#include "cli/timeline.h"

namespace rota::cli {

namespace {

std::int64_t wall_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Result<PlaceStatus> read_status(const Place& place, bool progress) {
  PlaceStatus status;
  status.place = place;
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> source, LogSource::open(place.log));
  // The writer is looked up before the log is read, so that a run that ends in between is seen as ended and not as
  // interrupted.
  ROTA_TRY_ASSIGN(status.writer, writer_of(place.log));
  ROTA_TRY(source->refresh());
  ProgressLine line(progress);
  ROTA_TRY_ASSIGN(const RunLog log, read_log(*source, line));
  const fleet::State& state = log.brain.state();
  state.each_workflow([&](const fleet::Workflow& workflow) {
    WorkflowStatus each;
    const std::int64_t now_ns = status.writer ? wall_now_ns() : state.globals().now_ns;
    each.report = report_of(state, workflow.id, now_ns, &log.timeline);
    each.report.interrupted = workflow.outcome == fleet::Outcome::kRunning && !status.writer;
    each.submitted_ns = workflow.submitted_ns;
    status.workflows.push_back(std::move(each));
  });
  std::reverse(status.workflows.begin(), status.workflows.end());
  return status;
}

}  // namespace rota::cli

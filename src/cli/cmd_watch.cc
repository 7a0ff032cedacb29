// `rota watch [WHERE] [WORKFLOW]`: shows what happens in a workflow until it has ended, as `rota run` does.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/run_facts.h"
#include "cli/run_past.h"
#include "cli/run_view.h"
#include "cli/status.h"
#include "cli/subcommands.h"
#include "cli/timeline.h"

namespace rota::cli {

namespace {

constexpr std::string_view kNoKey = "\x01";  // No submission has it: the workflow to watch exists already.

struct WatchOptions {
  std::string where;
  std::string workflow;
};

// The workflow of this id or name; the latest one without a name.
Result<model::WorkflowId> choose(const fleet::State& state, const std::string& name) {
  if (name.empty()) {
    const model::WorkflowId latest = latest_workflow(state);
    if (latest.is_none()) return Error{ErrorCode::kNotFound, "no workflow was submitted yet"};
    return latest;
  }
  if (const std::optional<model::WorkflowId> id = model::WorkflowId::parse(name); id && state.find(*id) != nullptr) {
    return *id;
  }
  model::WorkflowId found;
  state.each_workflow([&](const fleet::Workflow& each) {
    if (each.spec.name == name) found = each.id;
  });
  if (found.is_none()) {
    return Error{ErrorCode::kNotFound,
                 "there is no workflow '" + printable(name) + "' here; `rota status --all` lists them"};
  }
  return found;
}

class Watch {
 public:
  explicit Watch(Output& output) : output_(output), view_(output.run_view()) {}

  Result<int> run(const WatchOptions& options) {
    std::string note;
    ROTA_TRY_ASSIGN(const Place place, find_place(options.where, &note));
    output_.note(note);
    ROTA_TRY_ASSIGN(source_, LogSource::open(place.log));
    ProgressLine progress(output_.shows_progress());
    ROTA_TRY_ASSIGN(log_, read_log(*source_, progress));
    progress.clear();
    ROTA_TRY_ASSIGN(workflow_, choose(state(), options.workflow));
    begin();
    source_->keep_trying([this](const std::string& text) {
      view_->finish();  // On a terminal, the remark takes the place of what is drawn again.
      output_.note(text);
    });
    while (state().find(workflow_) != nullptr && state().at(workflow_).outcome == fleet::Outcome::kRunning) {
      ROTA_TRY_ASSIGN(const std::optional<std::string> writer, writer_of(place.log));
      ROTA_TRY(writer ? source_->wait() : source_->refresh());
      ROTA_TRY_ASSIGN(const bool more, show_new());
      if (!writer && !more) break;  // Interrupted: the report says so.
      view_->refresh(facts_, elapsed_ns());
    }
    view_->finish();
    return report(place);
  }

 private:
  [[nodiscard]] const fleet::State& state() const { return log_.brain.state(); }
  [[nodiscard]] std::int64_t elapsed_ns() const { return now_ns_ - state().at(workflow_).submitted_ns; }

  void begin() {
    const fleet::Workflow& workflow = state().at(workflow_);
    spec_ = workflow.spec;
    std::vector<std::size_t> done(spec_.stages.size());
    for (const fleet::Task& task : workflow.tasks) done[task.stage] += graph::is_terminal(task.state) ? 1U : 0U;
    RunShape shape(spec_);
    for (Expanded& each : expanded_of(workflow)) shape.expand(each.first, std::move(each.second));
    facts_ = RunFacts(std::move(shape), std::string(kNoKey));
    facts_.resume(workflow_, done);
    now_ns_ = state().globals().now_ns;
  }

  // Shows the records that were read since; false if there is none.
  Result<bool> show_new() {
    bool any = false;
    for (;;) {
      ROTA_TRY_ASSIGN(const fleet::Record* record, source_->next());
      if (record == nullptr) return any;
      any = true;
      ROTA_TRY(log_.brain.apply(*record));
      log_.timeline.see(*record, state());
      if (state().find(workflow_) == nullptr) return any;  // Forgotten.
      now_ns_ = record->wall_ns;
      view_->record(*record);
      for (const RunNews& news : facts_.see(*record)) view_->show(news, facts_, elapsed_ns());
      output_.flush();
    }
  }

  // Ends with what `rota status` shows, and with the exit status of `rota run`.
  Result<int> report(const Place& place) {
    if (state().find(workflow_) == nullptr) {
      return Error{ErrorCode::kNotFound, workflow_.to_string() + " was forgotten while it was watched"};
    }
    PlaceStatus status;
    status.place = place;
    ROTA_TRY_ASSIGN(status.writer, writer_of(place.log));
    WorkflowStatus one;
    one.report = report_of(state(), workflow_, state().globals().now_ns, &log_.timeline);
    one.report.interrupted = one.report.outcome == fleet::Outcome::kRunning;
    one.submitted_ns = state().at(workflow_).submitted_ns;
    const bool interrupted = one.report.interrupted;
    const fleet::Outcome outcome = one.report.outcome;
    status.workflows.push_back(std::move(one));
    output_.status({status}, false);
    if (interrupted || outcome == fleet::Outcome::kFailed) return 1;
    return outcome == fleet::Outcome::kCancelled ? exit_status(ErrorCode::kCancelled) : 0;
  }

  Output& output_;
  const std::unique_ptr<RunView> view_;
  std::unique_ptr<LogSource> source_;
  RunLog log_;
  model::WorkflowId workflow_;
  model::WorkflowSpec spec_;  // Of that workflow; the facts refer to it.
  RunFacts facts_;
  std::int64_t now_ns_ = 0;
};

}  // namespace

Subcommand watch_subcommand() {
  auto options = std::make_shared<WatchOptions>();
  return {
      .name = "watch",
      .meaning = "Show what happens in a workflow until it has ended",
      .positionals = {where(&options->where),
                      positional("WORKFLOW", &options->workflow, "by id or name; default: the latest")},
      .json = "print one JSON object per event, and the status at the end",
      .footer =
          "What ended before is in the status that is printed at the end. The exit status is that of `rota run`: 1 if\n"
          "the workflow failed or nobody runs it, 7 if it was cancelled. A host at a URL that stops answering is "
          "waited for.",
      .examples = {"rota watch                                    # the latest run in this folder, or of $ROTA_URL",
                   "rota watch https://rota.example:7070 wf-3"},
      .run = [options](Output& output) -> Result<int> {
        std::vector<std::string> names;
        separate_where(options->where, names);
        if (!names.empty() && !options->workflow.empty()) {
          return Error{ErrorCode::kInvalidArgument, "'" + printable(names.front()) +
                                                        "' is neither a workflow file nor a state folder, and only "
                                                        "one workflow can be watched at a time"};
        }
        if (!names.empty()) options->workflow = names.front();
        return Watch(output).run(*options);
      }};
}

}  // namespace rota::cli

#include "cli/run_facts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "fleet/feasibility.h"

namespace rota::cli {

using Kind = RunNews::Kind;

RunFacts::RunFacts(std::vector<std::string> names, std::string key) : names_(std::move(names)), key_(std::move(key)) {}

void RunFacts::resume(model::WorkflowId workflow, std::size_t done) {
  workflow_ = workflow;
  done_ = done_before_ = done;
}

RunNews RunFacts::about(Kind kind, model::TaskId task, std::string text) const {
  RunNews news;
  news.kind = kind;
  news.task = task;
  news.name = name(task);
  news.text = std::move(text);
  return news;
}

std::vector<RunNews> RunFacts::see(const fleet::Record& record) {
  std::vector<RunNews> news;
  for (const fleet::Event& event : record.events) on(event, record, news);
  return news;
}

void RunFacts::on(const fleet::Event& event, const fleet::Record& record, std::vector<RunNews>& news) {
  const auto* report = std::get_if<fleet::ReportEnded>(&record.command);
  static const model::AttemptOutcome kNone;
  const auto outcome_of = [&](model::TaskId task) -> const model::AttemptOutcome& {
    return report != nullptr && report->task == task ? report->outcome : kNone;
  };
  if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
    const auto* submit = std::get_if<fleet::SubmitWorkflow>(&record.command);
    if (submit != nullptr && submit->key == key_) workflow_ = accepted->workflow;
  } else if (const auto* warned = std::get_if<fleet::PlacementWarned>(&event)) {
    if (warned->workflow != workflow_) return;
    RunNews warning;
    warning.kind = Kind::kUnplaceable;
    // The name of the worker that comes nearest is in no event; its number is.
    const auto* submit = std::get_if<fleet::SubmitWorkflow>(&record.command);
    warning.text = submit == nullptr || warned->stage >= submit->workflow.stages.size()
                       ? warned->requirement
                       : fleet::infeasible_sentence(submit->workflow.stages[warned->stage].name, warned->requirement,
                                                    warned->nearest.is_none() ? "" : warned->nearest.to_string());
    news.push_back(std::move(warning));
  } else if (const auto* succeeded = std::get_if<fleet::TaskSucceeded>(&event)) {
    if (!has(succeeded->task)) return;
    ++done_;
    const model::AttemptOutcome& outcome = outcome_of(succeeded->task);
    if (outcome.reused) ++cached_;
    news.push_back(outcome.reused ? about(Kind::kCached, succeeded->task, outcome.cache_note)
                                  : about(Kind::kSucceeded, succeeded->task));
    news.back().duration_ns = std::max<std::int64_t>(outcome.ended_ns - outcome.started_ns, 1);
  } else if (const auto* skipped = std::get_if<fleet::TaskSkipped>(&event)) {
    if (!has(skipped->task)) return;
    ++done_;
    news.push_back(about(Kind::kSkipped, skipped->task));
  } else if (const auto* failed = std::get_if<fleet::TaskFailed>(&event)) {
    if (!has(failed->task)) return;
    ++done_;
    ++failed_;
    news.push_back(about(Kind::kFailed, failed->task, failed->message));
  } else if (const auto* cancelled = std::get_if<fleet::TaskCancelled>(&event)) {
    if (!has(cancelled->task)) return;
    ++done_;
    news.push_back(about(Kind::kCancelled, cancelled->task));
  } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
    if (!has(requeued->task)) return;
    running_.erase(requeued->task.index());
    if (requeued->reason != fleet::RequeueReason::kFailed) return;
    news.push_back(about(Kind::kRetry, requeued->task, outcome_of(requeued->task).message));
    news.back().duration_ns = std::max<std::int64_t>(requeued->not_before_ns - record.wall_ns, 0);
  } else if (const auto* over = std::get_if<fleet::WorkflowEnded>(&event)) {
    ended_ = ended_ || over->workflow == workflow_;
  }
}

std::vector<RunNews> RunFacts::see(const std::string& worker, const model::Report& report, std::int64_t now_ns) {
  std::vector<RunNews> news;
  const model::TaskId task = report.id.task;
  if (!has(task)) return news;
  RunNews about_it = about(Kind::kLog, task);
  about_it.attempt = report.id.attempt;
  about_it.worker = worker;
  if (const auto* written = std::get_if<model::Output>(&report.body)) {
    output(*written, std::move(about_it), news);
  } else if (std::holds_alternative<model::Started>(report.body)) {
    running_[task.index()] = {now_ns, 0, false, {}};
    about_it.kind = Kind::kStarted;
    news.push_back(std::move(about_it));
  } else if (const auto* progress = std::get_if<model::Progress>(&report.body)) {
    if (const auto running = running_.find(task.index()); running != running_.end()) {
      running->second = {running->second.since_ns, progress->permille, true, progress->text};
    }
  } else if (const auto* log = std::get_if<model::LogLine>(&report.body)) {
    about_it.text = log->text;
    news.push_back(std::move(about_it));
  } else if (const auto* ended = std::get_if<model::Ended>(&report.body)) {
    output_ends(about_it, news);
    running_.erase(task.index());
    if (ended->outcome.end == model::AttemptEnd::kSucceeded && !ended->outcome.message.empty()) {
      about_it.kind = Kind::kNote;
      about_it.text = ended->outcome.message;
      news.push_back(std::move(about_it));
    }
  }
  return news;
}

void RunFacts::output(const model::Output& output, RunNews piece, std::vector<RunNews>& news) {
  piece.from_stderr = output.from_stderr;
  const std::uint32_t index = piece.task.index();
  const auto add = [&](std::vector<std::string> lines) {
    piece.kind = Kind::kOutput;
    for (std::string& line : lines) {
      piece.text = std::move(line);
      news.push_back(piece);
    }
  };
  std::string_view bytes = output.bytes;
  if (output.dropped_bytes > 0) {
    // The worker's line about it is for files; here there is a message of its own.
    if (const std::size_t end = bytes.find("]\n"); bytes.starts_with("\n[rota: ") && end != std::string_view::npos) {
      bytes.remove_prefix(end + 2);
    }
    add(lines_.finish(index, output.from_stderr));
    RunNews dropped = piece;
    dropped.kind = Kind::kDropped;
    dropped.bytes = output.dropped_bytes;
    dropped.text.clear();
    news.push_back(std::move(dropped));
  }
  add(lines_.add(index, output.from_stderr, bytes));
}

void RunFacts::output_ends(RunNews piece, std::vector<RunNews>& news) {
  piece.kind = Kind::kOutput;
  for (const bool from_stderr : {false, true}) {
    piece.from_stderr = from_stderr;
    for (std::string& line : lines_.finish(piece.task.index(), from_stderr)) {
      piece.text = std::move(line);
      news.push_back(piece);
    }
  }
}

}  // namespace rota::cli

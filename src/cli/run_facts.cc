#include "cli/run_facts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/json_text.h"

namespace rota::cli {

using bus::ReportKind;
using Kind = RunNews::Kind;

RunFacts::RunFacts(std::vector<std::string> names, std::string key)
    : names_(std::move(names)), key_(std::move(key)), times_(names_.size()) {}

void RunFacts::resume(fleet::WorkflowId workflow, std::size_t done) {
  workflow_ = workflow;
  done_ = done_before_ = done;
}

RunNews RunFacts::about(Kind kind, fleet::TaskId task, std::string text) const {
  RunNews news;
  news.kind = kind;
  news.task = task;
  news.name = name(task);
  news.text = std::move(text);
  return news;
}

std::vector<RunNews> RunFacts::see(const fleet::Record& record, std::int64_t now_ns) {
  std::vector<RunNews> news;
  for (const fleet::Event& event : record.events) on(event, record, now_ns, news);
  return news;
}

void RunFacts::on(const fleet::Event& event, const fleet::Record& record, std::int64_t now_ns,
                  std::vector<RunNews>& news) {
  if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
    const auto* submit = std::get_if<fleet::SubmitWorkflow>(&record.command);
    if (submit != nullptr && submit->key == key_) workflow_ = accepted->workflow;
  } else if (const auto* warned = std::get_if<fleet::PlacementWarned>(&event)) {
    if (warned->workflow != workflow_) return;
    RunNews warning;
    warning.kind = Kind::kUnplaceable;
    warning.text = warned->requirement;
    news.push_back(std::move(warning));
  } else if (const auto* succeeded = std::get_if<fleet::TaskSucceeded>(&event)) {
    if (!has(succeeded->task)) return;
    ++done_;
    const auto* report = std::get_if<fleet::ReportSucceeded>(&record.command);
    const bool cached = report != nullptr && report->cached && report->task == succeeded->task;
    if (cached) ++cached_;
    news.push_back(cached ? about(Kind::kCached, succeeded->task, report->note)
                          : about(Kind::kSucceeded, succeeded->task));
    news.back().duration_ns = now_ns - times_[succeeded->task.index()].began_ns;
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
    const auto* why = std::get_if<fleet::ReportFailed>(&record.command);
    const bool said = why != nullptr && why->task == requeued->task;
    news.push_back(about(Kind::kRetry, requeued->task, said ? why->message : ""));
    news.back().duration_ns = std::max<std::int64_t>(requeued->not_before_ns - record.wall_ns, 0);
  } else if (const auto* over = std::get_if<fleet::WorkflowEnded>(&event)) {
    ended_ = ended_ || over->workflow == workflow_;
  }
}

std::vector<RunNews> RunFacts::see(const std::string& worker, const bus::Report& report, std::int64_t now_ns) {
  std::vector<RunNews> news;
  const fleet::TaskId task(report.task);
  if (!has(task)) return news;
  RunNews about_it = about(Kind::kLog, task, report.text);
  about_it.attempt = report.attempt;
  about_it.worker = worker;
  Times& times = times_[task.index()];
  if (report.kind == ReportKind::kOutput) {
    output(report, about_it, news);
  } else if (report.kind == ReportKind::kStarted) {
    times = {now_ns, 0};
    running_[task.index()] = {now_ns, 0, false, {}};
    about_it.kind = Kind::kStarted;
    news.push_back(std::move(about_it));
  } else if (report.kind == ReportKind::kProgress) {
    if (const auto running = running_.find(task.index()); running != running_.end()) {
      running->second.permille = report.permille;
      running->second.has_progress = true;
      running->second.text = report.text;
    }
  } else if (report.kind == ReportKind::kLog) {
    news.push_back(std::move(about_it));
  } else if (is_final(report.kind)) {
    output_ends(report, about_it, news);
    times.ended_ns = now_ns;
    running_.erase(task.index());
    if (report.kind == ReportKind::kSucceeded && !report.text.empty()) {
      about_it.kind = Kind::kNote;
      news.push_back(std::move(about_it));
    }
  }
  return news;
}

void RunFacts::output(const bus::Report& report, const RunNews& about_it, std::vector<RunNews>& news) {
  RunNews piece = about_it;
  piece.kind = Kind::kOutput;
  piece.from_stderr = report.from_stderr;
  const auto add = [&](std::vector<std::string> lines) {
    for (std::string& line : lines) {
      piece.text = std::move(line);
      news.push_back(piece);
    }
  };
  const std::uint32_t index = about_it.task.index();
  if (report.dropped_bytes > 0) {
    add(lines_.finish(index, report.from_stderr));
    RunNews dropped = piece;
    dropped.kind = Kind::kDropped;
    dropped.bytes = report.dropped_bytes;
    dropped.text.clear();
    news.push_back(std::move(dropped));
  }
  add(lines_.add(index, report.from_stderr, report.text));
}

void RunFacts::output_ends(const bus::Report& report, const RunNews& about_it, std::vector<RunNews>& news) {
  for (const bool from_stderr : {false, true}) {
    for (std::string& line : lines_.finish(fleet::TaskId(report.task).index(), from_stderr)) {
      RunNews piece = about_it;
      piece.kind = Kind::kOutput;
      piece.from_stderr = from_stderr;
      piece.text = std::move(line);
      news.push_back(std::move(piece));
    }
  }
}

void RunFacts::correct(RunReport& report, std::int64_t now_ns) const {
  for (std::size_t i = 0; i < std::min(report.tasks.size(), times_.size()); ++i) {
    const Times& times = times_[i];
    TaskRow& task = report.tasks[i];
    if (times.ended_ns <= times.began_ns || !graph::is_terminal(task.state)) continue;
    const std::int64_t run_ns = times.ended_ns - times.began_ns;
    if (task.run_ns > run_ns) task.wait_ns += task.run_ns - run_ns;
    task.run_ns = run_ns;
  }
  report.elapsed_ns = now_ns;
}

}  // namespace rota::cli

#include "cli/run_facts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "cli/format.h"
#include "cli/load.h"
#include "fleet/feasibility.h"

namespace rota::cli {

using Kind = RunNews::Kind;

namespace {

constexpr std::size_t kMostOrdered = 5000;  // Stages for which the longest chain is computed.

}  // namespace

RunShape::RunShape(std::vector<std::string> task_names) : names(std::move(task_names)) {
  for (std::uint32_t i = 0; i < names.size(); ++i) stages.push_back({names[i], i, 1, {}, 0});
}

RunShape::RunShape(const model::WorkflowSpec& workflow)
    : title(workflow.name), names(task_names(workflow)), spec(&workflow) {
  std::uint32_t first = 0;
  stages.reserve(workflow.stages.size());
  std::vector<std::vector<std::uint32_t>> needs = model::drawn_needs(workflow);
  for (std::size_t s = 0; s < workflow.stages.size(); ++s) {
    const model::Stage& stage = workflow.stages[s];
    const auto tasks = static_cast<std::uint32_t>(tasks_of(stage));
    stages.push_back({stage.name, first, tasks, std::move(needs[s]), 0});
    first += tasks;
  }
}

void RunShape::expand(std::uint32_t stage, std::vector<std::string> items) {
  Stage& own = stages[stage];
  if (items.empty()) {
    own.tasks = 1;
    names[own.first] = own.name;
    expanded_.erase(stage);
    return;
  }
  if (own.tasks > 1) return;  // Known already.
  own.tasks = static_cast<std::uint32_t>(items.size());
  if (own.tasks > 1) {
    added_.push_back({static_cast<std::uint32_t>(names.size()), stage});
    names[own.first] = own.name + "[0]";
    for (std::uint32_t i = 1; i < own.tasks; ++i) names.push_back(own.name + "[" + std::to_string(i) + "]");
  }
  expanded_.insert_or_assign(stage, std::move(items));
}

std::uint32_t RunShape::stage_of(std::uint32_t task) const {
  if (!added_.empty() && task >= added_.front().first) {
    const auto next = std::upper_bound(added_.begin(), added_.end(), task,
                                       [](std::uint32_t value, const Added& added) { return value < added.first; });
    return std::prev(next)->stage;
  }
  const auto after = std::upper_bound(stages.begin(), stages.end(), task,
                                      [](std::uint32_t value, const Stage& stage) { return value < stage.first; });
  return static_cast<std::uint32_t>(after - stages.begin()) - 1;
}

std::string RunShape::label(std::uint32_t task) const {
  std::string text = names[task];
  if (spec == nullptr) return text;
  const std::uint32_t s = stage_of(task);
  const auto expanded = expanded_.find(s);
  const std::vector<std::string>& items = expanded == expanded_.end() ? spec->stages[s].items : expanded->second;
  if (items.empty()) return text;
  std::size_t number = task - stages[s].first;
  for (const Added& added : added_) {
    if (added.stage == s && task >= added.first) number = task - added.first + 1;
  }
  if (number >= items.size()) return text;  // It was withdrawn.
  const std::string values = values_text(items[number]);
  return values.empty() ? text : text + " " + values;
}

RunFacts::RunFacts(RunShape shape, std::string key)
    : shape_(std::move(shape)), counts_(shape_.stages.size()), key_(std::move(key)) {
  if (shape_.stages.size() > kMostOrdered) return;
  std::vector<std::size_t> waits(shape_.stages.size());
  std::vector<std::vector<std::uint32_t>> children(shape_.stages.size());
  for (std::uint32_t s = 0; s < shape_.stages.size(); ++s) {
    waits[s] = shape_.stages[s].needs.size();
    for (const std::uint32_t need : shape_.stages[s].needs) children[need].push_back(s);
    if (waits[s] == 0) order_.push_back(s);
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    for (const std::uint32_t child : children[order_[i]]) {
      if (--waits[child] == 0) order_.push_back(child);
    }
  }
}

void RunFacts::resume(model::WorkflowId workflow, const std::vector<std::size_t>& done) {
  workflow_ = workflow;
  done_ = 0;
  for (std::size_t s = 0; s < std::min(done.size(), counts_.size()); ++s) {
    counts_[s].done = static_cast<std::uint32_t>(done[s]);
    done_ += done[s];
  }
  done_before_ = done_;
}

void RunFacts::ends(model::TaskId task) {
  ++done_;
  ++count_of(task).done;
}

void RunFacts::stops(std::uint32_t index) {
  if (running_.erase(index) > 0) --counts_[shape_.stage_of(index)].running;
}

std::int64_t RunFacts::time_left_ns(std::int64_t now_ns) const {
  std::int64_t all_spent = 0;
  std::int64_t all_timed = 0;
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    all_spent += counts_[s].spent_ns;
    all_timed += counts_[s].timed;
  }
  const std::int64_t overall = all_timed > 0 ? all_spent / all_timed : 0;
  std::vector<std::int64_t> mean(counts_.size());
  std::vector<std::int64_t> rest(counts_.size());  // Of each stage: until its last task ends, if there is room for all.
  std::int64_t work = 0;
  for (std::size_t s = 0; s < counts_.size(); ++s) {
    const StageCount& count = counts_[s];
    mean[s] = count.timed > 0                    ? count.spent_ns / count.timed
              : shape_.stages[s].expected_ns > 0 ? shape_.stages[s].expected_ns
                                                 : overall;
    const std::int64_t waiting = std::int64_t{shape_.stages[s].tasks} - count.done - count.running;
    if (waiting <= 0) continue;
    if (mean[s] == 0) return -1;
    work += waiting * mean[s];
    rest[s] = mean[s];
  }
  for (const auto& [index, running] : running_) {
    const std::uint32_t s = shape_.stage_of(index);
    if (mean[s] == 0) return -1;
    const std::int64_t left = std::max<std::int64_t>(mean[s] - (now_ns - running.since_ns), 0);
    work += left;
    rest[s] = std::max(rest[s], left);
  }
  std::int64_t longest = 0;
  std::vector<std::int64_t> path(counts_.size());
  for (const std::uint32_t s : order_) {
    for (const std::uint32_t need : shape_.stages[s].needs) path[s] = std::max(path[s], path[need]);
    path[s] += rest[s];
    longest = std::max(longest, path[s]);
  }
  return std::max(work / static_cast<std::int64_t>(std::max<std::size_t>(shape_.slots, 1)), longest);
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
    ends(succeeded->task);
    const model::AttemptOutcome& outcome = outcome_of(succeeded->task);
    if (outcome.reused) ++cached_;
    news.push_back(outcome.reused ? about(Kind::kCached, succeeded->task, outcome.cache_note)
                                  : about(Kind::kSucceeded, succeeded->task));
    news.back().duration_ns = std::max<std::int64_t>(outcome.ended_ns - outcome.started_ns, 1);
    if (!outcome.reused) {
      StageCount& count = count_of(succeeded->task);
      ++count.timed;
      count.spent_ns += news.back().duration_ns;
    }
  } else if (const auto* skipped = std::get_if<fleet::TaskSkipped>(&event)) {
    if (!has(skipped->task)) return;
    ends(skipped->task);
    news.push_back(about(Kind::kSkipped, skipped->task));
  } else if (const auto* failed = std::get_if<fleet::TaskFailed>(&event)) {
    if (!has(failed->task)) return;
    ends(failed->task);
    ++failed_;
    ++count_of(failed->task).failed;
    news.push_back(about(Kind::kFailed, failed->task, failed->message));
    if (report != nullptr && report->task == failed->task) news.back().attempt = report->attempt;
  } else if (const auto* cancelled = std::get_if<fleet::TaskCancelled>(&event)) {
    if (!has(cancelled->task)) return;
    ends(cancelled->task);
    news.push_back(about(Kind::kCancelled, cancelled->task));
  } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
    if (!has(requeued->task)) return;
    stops(requeued->task.index());
    if (requeued->reason != fleet::RequeueReason::kFailed) return;
    news.push_back(about(Kind::kRetry, requeued->task, outcome_of(requeued->task).message));
    news.back().duration_ns = std::max<std::int64_t>(requeued->not_before_ns - record.wall_ns, 0);
  } else if (const auto* stop = std::get_if<fleet::WorkflowStopped>(&event)) {
    if (stop->workflow == workflow_) stopped_ = stop->cause;
  } else if (const auto* expanded = std::get_if<fleet::StageExpanded>(&event)) {
    if (expanded->workflow == workflow_) shape_.expand(expanded->stage, expanded->items);
  } else if (const auto* collapsed = std::get_if<fleet::StageCollapsed>(&event)) {
    if (collapsed->workflow != workflow_) return;
    shape_.expand(collapsed->stage, {});
    counts_[collapsed->stage] = {};
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
    if (running_.insert_or_assign(task.index(), Running{now_ns, 0, false, {}}).second) ++count_of(task).running;
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
    stops(task.index());
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

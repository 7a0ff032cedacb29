#include "cli/run_report.h"

#include <algorithm>

#include "fleet/names.h"
#include "fleet/state.h"

namespace rota::cli {

using graph::TaskState;

std::string_view outcome_text(const RunReport& report) {
  return report.interrupted ? "interrupted" : fleet::to_string(report.outcome);
}

std::string state_text(const TaskRow& row) {
  if (row.skipped) return "skipped";
  if (row.at_worker && row.state == TaskState::kRunning) return "at worker";
  std::string text(graph::to_string(row.state));
  text.front() = static_cast<char>(text.front() - 'A' + 'a');
  return text;
}

std::vector<std::pair<std::string, std::size_t>> counts_of(const RunReport& report) {
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const char* state :
       {"failed", "running", "succeeded", "skipped", "at worker", "ready", "queued", "paused", "cancelled"}) {
    counts.emplace_back(state, 0);
  }
  for (const TaskRow& task : report.tasks) {
    const std::string state = state_text(task);
    for (auto& [name, count] : counts) count += name == state ? 1U : 0U;
  }
  std::erase_if(counts, [](const auto& each) { return each.second == 0; });
  return counts;
}

RunReport report_of(const fleet::State& state, fleet::WorkflowId id) {
  const fleet::Workflow& workflow = state.at(id);
  RunReport report;
  report.workflow = id;
  report.name = workflow.spec.name;
  report.outcome = workflow.outcome;
  for (const fleet::Stage& stage : workflow.spec.stages) report.needs.push_back(stage.needs);
  for (const fleet::Task& task : workflow.tasks) {
    TaskRow row;
    row.id = workflow.id_of(task);
    row.name = workflow.name_of(task);
    row.stage = task.stage;
    row.state = task.state;
    row.skipped = task.skipped;
    row.at_worker = task.at_worker;
    row.attempts = task.attempt;
    if (task.attempt > 0) {
      row.wait_ns = std::max<std::int64_t>(task.assigned_ns - task.since_ns, 0);
      if (graph::is_terminal(task.state)) row.run_ns = std::max<std::int64_t>(task.ended_ns - task.assigned_ns, 0);
      if (const fleet::Worker* worker = state.find(task.worker)) row.worker = worker->spec.name;
    }
    if (task.extra != nullptr) {
      row.message = task.extra->message;
      row.cached = task.extra->cached && task.state == TaskState::kSucceeded;
      if (graph::is_terminal(task.state)) row.note = task.extra->note;
    }
    report.tasks.push_back(std::move(row));
  }
  return report;
}

// Visits the stages in topological order: a stage is ready once all stages that it needs were visited.
CriticalPath critical_path(const RunReport& report) {
  constexpr std::uint32_t kNone = ~0U;
  const std::size_t stages = report.needs.size();
  std::vector<std::vector<std::uint32_t>> children(stages);
  std::vector<std::size_t> waits(stages);
  std::vector<std::uint32_t> longest(stages, kNone);  // The stage's task that ran longest.
  for (std::uint32_t t = 0; t < report.tasks.size(); ++t) {
    std::uint32_t& best = longest[report.tasks[t].stage];
    if (best == kNone || report.tasks[t].run_ns > report.tasks[best].run_ns) best = t;
  }
  std::vector<std::uint32_t> ready;
  for (std::uint32_t s = 0; s < stages; ++s) {
    waits[s] = report.needs[s].size();
    for (const std::uint32_t need : report.needs[s]) children[need].push_back(s);
    if (waits[s] == 0) ready.push_back(s);
  }
  std::vector<std::int64_t> length(stages);
  std::vector<std::uint32_t> before(stages, kNone);
  std::uint32_t last = kNone;
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const std::uint32_t s = ready[i];
    if (longest[s] != kNone) length[s] += report.tasks[longest[s]].run_ns;
    if (last == kNone || length[s] > length[last]) last = s;
    for (const std::uint32_t child : children[s]) {
      if (before[child] == kNone || length[s] > length[before[child]]) before[child] = s;
      if (--waits[child] == 0) {
        length[child] = length[before[child]];
        ready.push_back(child);
      }
    }
  }
  CriticalPath path;
  if (last != kNone) path.run_ns = length[last];
  for (std::uint32_t s = last; s != kNone; s = before[s]) {
    if (longest[s] != kNone && report.tasks[longest[s]].run_ns > 0) path.tasks.push_back(longest[s]);
  }
  std::reverse(path.tasks.begin(), path.tasks.end());
  return path;
}

}  // namespace rota::cli

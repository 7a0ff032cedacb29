#include "cli/run_report.h"

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "cli/format.h"
#include "cli/timeline.h"
#include "fleet/names.h"
#include "fleet/state.h"

namespace rota::cli {

using graph::TaskState;

namespace {
constexpr std::size_t kMostValueBytes = 120;  // Of the values of a matrix, in bytes.
}

std::string_view outcome_text(const RunReport& report) {
  return report.interrupted ? "interrupted" : fleet::to_string(report.outcome);
}

std::string TaskRow::label() const { return values.empty() ? name : name + " " + printable(values, kMostValueBytes); }

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

namespace {

// The number of attempts that started. `attempt` counts those that were assigned: the last one may have ended, or may
// still wait, at its worker.
std::uint32_t attempts_of(const fleet::Task& task) {
  const std::uint32_t assigned = task.attempt.value();
  if (graph::is_terminal(task.state)) return task.started_ns > 0 ? assigned : std::min(task.spent, assigned);
  return task.at_worker && assigned > 0 ? assigned - 1 : assigned;
}

void set_times(TaskRow& row, const fleet::Task& task, std::int64_t now_ns, const Timeline* timeline) {
  if (graph::is_terminal(task.state)) {
    row.started_ns = task.started_ns;
    row.ended_ns = task.ended_ns;
  } else if (task.state == TaskState::kRunning && !task.at_worker) {
    const Attempt* attempt = timeline == nullptr ? nullptr : timeline->find(row.id, task.attempt);
    row.started_ns = attempt == nullptr || attempt->started_ns == 0 ? task.assigned_ns : attempt->started_ns;
    row.ended_ns = std::max(now_ns, row.started_ns);
  }
  if (row.started_ns == 0) {
    row.ended_ns = 0;
    return;
  }
  row.wait_ns = std::max<std::int64_t>(row.started_ns - task.since_ns, 0);
  row.run_ns = std::max<std::int64_t>(row.ended_ns - row.started_ns, 1);
}

}  // namespace

RunReport report_of(const fleet::State& state, model::WorkflowId id, std::int64_t now_ns, const Timeline* timeline) {
  const fleet::Workflow& workflow = state.at(id);
  RunReport report;
  report.workflow = id;
  report.name = workflow.spec.name;
  report.outcome = workflow.outcome;
  report.stopped = workflow.stopped;
  report.begin_ns = workflow.submitted_ns;
  report.end_ns = workflow.outcome == fleet::Outcome::kRunning ? now_ns : workflow.ended_ns;
  report.needs = model::drawn_needs(workflow.spec);
  for (const fleet::Task& task : workflow.tasks) {
    if (workflow.is_withdrawn(task)) continue;
    TaskRow row;
    row.id = workflow.id_of(task);
    row.name = workflow.name_of(task);
    const std::vector<std::string>& items = workflow.spec.stages[task.stage].items;
    const std::uint32_t number = workflow.stages[task.stage].number(row.id.index());
    if (number < items.size()) row.values = values_text(items[number]);
    row.stage = task.stage;
    row.state = task.state;
    row.skipped = task.skipped;
    row.at_worker = task.at_worker;
    row.attempts = attempts_of(task);
    row.last_attempt = task.attempt;
    set_times(row, task, now_ns, timeline);
    const fleet::Worker* worker = row.started_ns > 0 ? state.find(task.worker) : nullptr;
    if (worker != nullptr) {
      row.worker = worker->spec.name;
    } else if (row.started_ns > 0 && timeline != nullptr) {
      row.worker = timeline->worker_name(task.worker);  // The worker has left since.
    }
    if (task.extra != nullptr) {
      row.message = task.extra->message;
      row.cached = task.extra->reused && task.state == TaskState::kSucceeded;
      if (graph::is_terminal(task.state)) row.note = task.extra->cache_note;
    }
    report.tasks.push_back(std::move(row));
  }
  // Tasks that a fan-out created have the highest ids; people look for them in their stage.
  const auto fans_out = [](const model::Stage& stage) { return stage.fan_out.has_value(); };
  if (std::any_of(workflow.spec.stages.begin(), workflow.spec.stages.end(), fans_out)) {
    std::stable_sort(report.tasks.begin(), report.tasks.end(),
                     [](const TaskRow& a, const TaskRow& b) { return a.stage < b.stage; });
  }
  return report;
}

CriticalPath critical_path(const RunReport& report) {
  constexpr std::uint32_t kNone = ~0U;
  // The longest chain that ends with a task of a stage, or, if none of its tasks ran, before it.
  struct Chain {
    std::int64_t run_ns = 0;
    std::uint32_t task = kNone;  // Its last task.
  };
  const std::size_t stages = report.needs.size();
  std::vector<std::vector<std::uint32_t>> children(stages);
  std::vector<std::vector<std::uint32_t>> tasks(stages);
  std::vector<std::size_t> waits(stages);
  std::vector<std::uint32_t> ready;
  for (std::uint32_t s = 0; s < stages; ++s) {
    waits[s] = report.needs[s].size();
    for (const std::uint32_t need : report.needs[s]) children[need].push_back(s);
    if (waits[s] == 0) ready.push_back(s);
  }
  for (std::uint32_t t = 0; t < report.tasks.size(); ++t) tasks[report.tasks[t].stage].push_back(t);
  std::vector<Chain> before(stages);
  std::vector<Chain> best(stages);
  Chain longest;
  // In topological order: a stage is ready once all stages that it needs were visited.
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const std::uint32_t s = ready[i];
    for (const std::uint32_t need : report.needs[s]) {
      if (best[need].run_ns > before[s].run_ns) before[s] = best[need];
    }
    best[s] = before[s];
    for (const std::uint32_t t : tasks[s]) {
      const TaskRow& task = report.tasks[t];
      if (task.started_ns == 0) continue;
      const std::int64_t run_ns = std::min(task.ended_ns, report.end_ns) - std::max(task.started_ns, report.begin_ns);
      if (run_ns > 0 && before[s].run_ns + run_ns > best[s].run_ns) best[s] = {before[s].run_ns + run_ns, t};
    }
    if (best[s].run_ns > longest.run_ns) longest = best[s];
    for (const std::uint32_t child : children[s]) {
      if (--waits[child] == 0) ready.push_back(child);
    }
  }
  CriticalPath path;
  path.run_ns = longest.run_ns;
  for (std::uint32_t t = longest.task; t != kNone; t = before[report.tasks[t].stage].task) path.tasks.push_back(t);
  std::reverse(path.tasks.begin(), path.tasks.end());
  return path;
}

}  // namespace rota::cli

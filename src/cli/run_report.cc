#include "cli/run_report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/json_text.h"
#include "fleet/names.h"
#include "fleet/state.h"

namespace rota::cli {

using graph::TaskState;

namespace {

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string money(std::int64_t microdollars) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4f", static_cast<double>(microdollars) / 1e6);
  return text;
}

}  // namespace

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

std::string short_time(std::int64_t ns) {
  char text[64];
  const double seconds = static_cast<double>(ns) / 1e9;
  if (ns <= 0) return "-";
  if (seconds < 0.9995) {
    std::snprintf(text, sizeof text, "%.0fms", std::max(seconds * 1e3, 1.0));
  } else if (seconds < 60) {
    std::snprintf(text, sizeof text, "%.2fs", seconds);
  } else {
    const auto whole = static_cast<long long>(seconds);
    if (whole < 3600) {
      std::snprintf(text, sizeof text, "%lldm%02llds", whole / 60, whole % 60);
    } else {
      std::snprintf(text, sizeof text, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
    }
  }
  return text;
}

RunReport report_of(const fleet::State& state, model::WorkflowId id) {
  const fleet::Workflow& workflow = state.at(id);
  RunReport report;
  report.workflow = id;
  report.name = workflow.spec.name;
  report.outcome = workflow.outcome;
  for (const model::Stage& stage : workflow.spec.stages) report.needs.push_back(stage.needs);
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
      row.because_of_another = !task.extra->root.is_none();
    }
    report.tasks.push_back(std::move(row));
  }
  return report;
}

// Stages stand in no order that helps, so it goes by how many of its needs a stage still waits for.
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

std::string to_table(const RunReport& report, std::size_t most_rows) {
  using Row = std::array<std::string, 6>;
  std::vector<Row> rows{{"task", "state", "attempts", "wait", "run", "worker"}};
  std::array<std::size_t, 7> counts{};
  std::size_t skipped = 0;
  std::size_t cached = 0;
  std::size_t left_out = 0;
  for (const TaskRow& task : report.tasks) {
    ++counts[static_cast<std::size_t>(task.state)];
    if (task.skipped) ++skipped;
    if (task.cached) ++cached;
    if (report.tasks.size() > most_rows && (task.state == TaskState::kSucceeded || rows.size() > most_rows)) {
      ++left_out;
      continue;
    }
    rows.push_back({task.name, task.cached ? "cached" : state_text(task), std::to_string(task.attempts),
                    task.attempts == 0 ? "-" : short_time(task.wait_ns), short_time(task.run_ns),
                    task.worker.empty() ? "-" : task.worker});
  }
  std::array<std::size_t, 6> widths{};
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += padded(row[i], widths[i] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  if (left_out > 0) out += "(" + std::to_string(left_out) + " more tasks are not shown)\n";
  const auto count = [&](TaskState state) { return counts[static_cast<std::size_t>(state)]; };
  out += "\n" + report.name + " " + std::string(outcome_text(report)) +
         (report.interrupted                           ? " after "
          : report.outcome == fleet::Outcome::kRunning ? " for "
                                                       : " in ") +
         short_time(report.elapsed_ns) + ": " + std::to_string(count(TaskState::kSucceeded) - skipped) + " of " +
         std::to_string(report.tasks.size()) + " tasks succeeded";
  if (cached > 0) out += " (" + std::to_string(cached) + " cached)";
  if (skipped > 0) out += ", " + std::to_string(skipped) + " skipped";
  if (const std::size_t failed = count(TaskState::kFailed); failed > 0)
    out += ", " + std::to_string(failed) + " failed";
  if (const std::size_t cancelled = count(TaskState::kCancelled); cancelled > 0) {
    out += ", " + std::to_string(cancelled) + " cancelled";
  }
  out += "\n";
  if (const CriticalPath path = critical_path(report); path.tasks.size() > 1) {
    out += "critical path " + short_time(path.run_ns) + ": ";
    constexpr std::size_t kShown = 8;
    for (std::size_t i = 0; i < path.tasks.size(); ++i) {
      if (i == kShown) {
        out += " > ... (" + std::to_string(path.tasks.size()) + " tasks)";
        break;
      }
      const TaskRow& task = report.tasks[path.tasks[i]];
      out += (i > 0 ? " > " : "") + task.name + " " + short_time(task.run_ns);
    }
    out += "\n";
  }
  if (report.cost_microdollars >= 0) out += "cost " + money(report.cost_microdollars) + "\n";
  return out;
}

std::string tasks_json(const RunReport& report) {
  std::string out = "[";
  for (std::size_t i = 0; i < report.tasks.size(); ++i) {
    const TaskRow& task = report.tasks[i];
    out += (i > 0 ? ",{\"task\":\"" : "{\"task\":\"") + task.id.to_string() + "\",\"name\":";
    append_json_string(out, task.name);
    out += ",\"state\":\"" + state_text(task) + "\",\"attempts\":" + std::to_string(task.attempts) +
           ",\"wait_ns\":" + std::to_string(task.wait_ns) + ",\"run_ns\":" + std::to_string(task.run_ns) +
           (task.begun_ns > 0 ? ",\"begun_ns\":" + std::to_string(task.begun_ns) : "") + ",\"worker\":";
    append_json_string(out, task.worker);
    if (!task.message.empty()) {
      out += ",\"message\":";
      append_json_string(out, task.message);
    }
    if (!task.note.empty()) {
      out += ",\"cached\":" + std::string(task.cached ? "true" : "false") + ",\"cache\":";
      append_json_string(out, task.note);
    }
    out += "}";
  }
  return out + "]";
}

std::string to_json(const RunReport& report) {
  std::string out = "{\"event\":\"Summary\",\"workflow\":\"" + report.workflow.to_string() + "\",\"name\":";
  append_json_string(out, report.name);
  out += ",\"outcome\":\"" + std::string(fleet::to_string(report.outcome)) +
         "\",\"elapsed_ns\":" + std::to_string(report.elapsed_ns);
  if (report.cost_microdollars >= 0) out += ",\"cost_microdollars\":" + std::to_string(report.cost_microdollars);
  const CriticalPath path = critical_path(report);
  out += ",\"critical_path\":{\"run_ns\":" + std::to_string(path.run_ns) + ",\"tasks\":[";
  for (std::size_t i = 0; i < path.tasks.size(); ++i) {
    if (i > 0) out += ",";
    append_json_string(out, report.tasks[path.tasks[i]].name);
  }
  out += "]},\"tasks\":" + tasks_json(report);
  return out + "}";
}

}  // namespace rota::cli

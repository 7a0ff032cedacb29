// How TableOutput and QuietOutput show runs: the table of tasks, and the table of `rota status`.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

#include "cli/format.h"
#include "cli/output_table.h"
#include "cli/table.h"
#include "cli/terminal.h"

namespace rota::cli {

using graph::TaskState;

namespace {

constexpr std::size_t kMostRows = 60;     // With more tasks, stages are listed instead of tasks.
constexpr std::size_t kMostFailed = 20;   // Of the tasks that failed, beside the stages.
constexpr std::size_t kMostRunning = 20;  // Of the tasks that run now.
constexpr std::size_t kMostOnPath = 8;    // Tasks of the critical path.

// A table as wide as it needs to be, unless it is for a terminal.
std::string table_text(const Table& table, const Terminal& terminal, std::span<const std::size_t> optional) {
  return terminal.is_terminal ? table.fitted(terminal.columns, optional) : table.text();
}

constexpr std::array<std::size_t, 3> kOptionalOfTasks{5, 3, 2};    // The worker, the wait and the attempts.
constexpr std::array<std::size_t, 3> kOptionalOfStages{5, 4, 6};   // The mean, the others and the longest.
constexpr std::array<std::size_t, 4> kOptionalOfRuns{3, 4, 5, 1};  // The start, the time, the counts and the name.

void task_row(Table& table, const TaskRow& task) {
  table.row({task.label(), task.cached ? "cached" : state_text(task), std::to_string(task.attempts),
             task.started_ns == 0 ? "-" : short_time(task.wait_ns), short_time(task.run_ns),
             task.worker.empty() ? "-" : task.worker});
}

// One row per stage: how many of its tasks are in which state, and how long they took.
std::string stage_table(const RunReport& report, const Terminal& terminal) {
  struct Sum {
    std::string name{};
    std::size_t tasks = 0, succeeded = 0, failed = 0, others = 0, timed = 0;
    std::int64_t run_ns = 0, longest_ns = 0;
  };
  std::vector<Sum> stages(report.needs.size());
  for (const TaskRow& task : report.tasks) {
    Sum& sum = stages[task.stage];
    if (sum.tasks++ == 0) sum.name = task.name.substr(0, task.name.find('['));
    if (task.state == TaskState::kSucceeded) {
      ++sum.succeeded;
    } else if (task.state == TaskState::kFailed) {
      ++sum.failed;
    } else {
      ++sum.others;
    }
    if (task.run_ns == 0) continue;
    ++sum.timed;
    sum.run_ns += task.run_ns;
    sum.longest_ns = std::max(sum.longest_ns, task.run_ns);
  }
  std::stable_sort(stages.begin(), stages.end(), [](const Sum& a, const Sum& b) { return a.failed > b.failed; });
  Table table;
  table.row({"stage", "tasks", "succeeded", "failed", "other", "mean", "longest"});
  std::size_t left_out = 0;
  for (const Sum& sum : stages) {
    if (table.size() > kMostRows) {
      ++left_out;
      continue;
    }
    table.row({sum.name, std::to_string(sum.tasks), std::to_string(sum.succeeded), std::to_string(sum.failed),
               std::to_string(sum.others),
               sum.timed == 0 ? "-" : short_time(sum.run_ns / static_cast<std::int64_t>(sum.timed)),
               sum.timed == 0 ? "-" : short_time(sum.longest_ns)});
  }
  return table_text(table, terminal, kOptionalOfStages) +
         (left_out > 0 ? "(" + counted(left_out, "more stage") + " not shown)\n" : "");
}

// Failures first. With many tasks, only failures, and then the stages.
std::string task_table(const RunReport& report, const Terminal& terminal) {
  const bool many = report.tasks.size() > kMostRows;
  Table table;
  table.row({"task", "state", "attempts", "wait", "run", "worker"});
  std::size_t left_out = 0;
  for (const TaskRow& task : report.tasks) {
    if (task.state != TaskState::kFailed) continue;
    if (many && table.size() > kMostFailed) {
      ++left_out;
    } else {
      task_row(table, task);
    }
  }
  if (many) {
    const std::string failed =
        table.size() == 1
            ? std::string()
            : table_text(table, terminal, kOptionalOfTasks) +
                  (left_out > 0 ? "(" + counted(left_out, "more failed task") + " not shown)\n" : "") + "\n";
    return failed + stage_table(report, terminal);
  }
  for (const TaskRow& task : report.tasks) {
    if (task.state != TaskState::kFailed) task_row(table, task);
  }
  return table_text(table, terminal, kOptionalOfTasks);
}

// "nightly succeeded in 1.24s: 8 of 9 tasks succeeded (2 cached), 1 skipped"
std::string totals(const RunReport& report) {
  std::array<std::size_t, 7> counts{};
  std::size_t skipped = 0;
  std::size_t cached = 0;
  for (const TaskRow& task : report.tasks) {
    ++counts[static_cast<std::size_t>(task.state)];
    if (task.skipped) ++skipped;
    if (task.cached) ++cached;
  }
  const auto count = [&](TaskState state) { return counts[static_cast<std::size_t>(state)]; };
  const char* since = report.interrupted ? " after " : report.outcome == fleet::Outcome::kRunning ? " for " : " in ";
  std::string out = report.name + " " + std::string(outcome_text(report)) + since + short_time(report.elapsed_ns()) +
                    ": " + std::to_string(count(TaskState::kSucceeded) - skipped) + " of " +
                    counted(report.tasks.size(), "task") + " succeeded";
  const auto add = [&](std::size_t number, const char* what) {
    if (number > 0) out += ", " + std::to_string(number) + " " + what;
  };
  if (cached > 0) out += " (" + std::to_string(cached) + " cached)";
  add(skipped, "skipped");
  add(count(TaskState::kFailed), "failed");
  add(count(TaskState::kCancelled), "cancelled");
  return out + "\n";
}

// "critical path 1.10s: prepare 100ms > train[2] 1.00s"; nothing for a workflow of one task.
std::string path_line(const RunReport& report) {
  const CriticalPath path = critical_path(report);
  if (path.tasks.empty() || report.tasks.size() < 2) return {};
  std::string out = "critical path " + short_time(path.run_ns) + ": ";
  for (std::size_t i = 0; i < std::min(path.tasks.size(), kMostOnPath); ++i) {
    const TaskRow& task = report.tasks[path.tasks[i]];
    out += (i > 0 ? " > " : "") + task.name + " " + short_time(task.run_ns);
  }
  if (path.tasks.size() > kMostOnPath) out += " > ... (" + std::to_string(path.tasks.size()) + " tasks)";
  return out + "\n";
}

std::string run_table(const RunReport& report, const Terminal& terminal) {
  return task_table(report, terminal) + "\n" + totals(report) + path_line(report) +
         (report.cost_microdollars >= 0 ? "cost " + dollars(report.cost_microdollars) + "\n" : "");
}

std::string counts_text(const RunReport& report) {
  std::string text;
  for (const auto& [name, count] : counts_of(report)) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  return text;
}

}  // namespace

void TableOutput::run_ended(const RunSummary& summary) {
  const Terminal terminal = terminal_of(out());
  print("\n" + run_table(summary.report, terminal));
  for (const LogTail& failure : summary.failures) {
    print_line("\n" + coloured(failure.name + " failed: " + failure.message, Colour::kRed, terminal.escapes));
    if (failure.text.empty()) continue;
    log_tail(failure);
    print_line("  full log: " + failure.log);
  }
  if (summary.more_failures > 0) {
    print_line("\n" + std::to_string(summary.more_failures) + " more tasks failed; their logs are in " + summary.logs);
  }
  if (summary.result) {
    print_line("\noutput of " + summary.result->name + ":");
    log_tail(*summary.result);
  }
  if (summary.report.outcome != fleet::Outcome::kSucceeded) {
    print_line(
        "\nRun it again to resume: tasks that succeeded are not run again, also after an edit unless they changed.");
  }
}

void TableOutput::log_tail(const LogTail& tail) {
  const bool terminal = ::isatty(::fileno(out())) == 1;
  std::string_view text = tail.text;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    print_line("  | " + (terminal ? for_a_terminal(line) : std::string(line)));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
}

void TableOutput::status(const std::vector<PlaceStatus>& places, bool older) {
  status_table(places, older);
  if (places.size() > 1) return print_line("\n`rota status FILE` shows the tasks of one run.");
  const PlaceStatus& status = places.front();
  if (status.workflows.empty()) return;
  const RunReport& latest = status.workflows.front().report;
  print("\n" + run_table(latest, terminal_of(out())));
  if (latest.outcome == fleet::Outcome::kRunning && status.writer) {
    running_tasks(latest);
    print_line("\nIt is run by " + *status.writer + ".");
  }
  if (latest.interrupted) print_line("\nNo process runs it now; `rota run` resumes it.");
  if (!older && status.workflows.size() > 1) {
    print_line("\n" + counted(status.workflows.size() - 1, "older run") + " not shown; --all shows all runs.");
  }
}

void TableOutput::status_table(const std::vector<PlaceStatus>& places, bool older) {
  Table table;
  table.row({"where", "workflow", "outcome", "started", "elapsed", "tasks"});
  for (const PlaceStatus& status : places) {
    if (status.error) {
      table.row({status.place.name, "-", "unreadable", "-", "-", status.error->message});
    } else if (status.workflows.empty()) {
      table.row({status.place.name, "-", "none yet", "-", "-", "-"});
    }
    for (std::size_t i = 0; i < status.workflows.size() && (older || i == 0); ++i) {
      const WorkflowStatus& each = status.workflows[i];
      table.row({status.place.name, each.report.workflow.to_string() + " " + each.report.name,
                 std::string(outcome_text(each.report)), utc_date_time(each.submitted_ns),
                 short_time(each.report.elapsed_ns()), counts_text(each.report)});
    }
  }
  print(table_text(table, terminal_of(out()), kOptionalOfRuns));
}

void TableOutput::running_tasks(const RunReport& report) {
  std::size_t shown = 0;
  for (const TaskRow& task : report.tasks) {
    if (task.state != TaskState::kRunning || task.at_worker || ++shown > kMostRunning) continue;
    std::string line = (shown == 1 ? "\nrunning now:\n  " : "  ") + task.name + " on " + task.worker;
    if (task.started_ns > 0) line += " since " + utc_time(task.started_ns) + ", for " + short_time(task.run_ns);
    if (task.attempts > 1) line += ", attempt " + std::to_string(task.attempts);
    print_line(line);
  }
  if (shown > kMostRunning) print_line("  and " + std::to_string(shown - kMostRunning) + " more");
}

// A failure is neither progress nor a remark.
void QuietOutput::run_ended(const RunSummary& summary) {
  for (const LogTail& failure : summary.failures) {
    std::fprintf(stderr, "rota: %s failed: %s\n", failure.name.c_str(), failure.message.c_str());
  }
  if (summary.more_failures > 0) {
    std::fprintf(stderr, "rota: %s failed; the logs are in %s\n", counted(summary.more_failures, "more task").c_str(),
                 summary.logs.c_str());
  }
}

void QuietOutput::status(const std::vector<PlaceStatus>& places, bool older) {
  for (const PlaceStatus& status : places) {
    for (std::size_t i = 0; i < status.workflows.size() && (older || i == 0); ++i) {
      const RunReport& report = status.workflows[i].report;
      print_line(report.workflow.to_string() + " " + std::string(outcome_text(report)));
    }
  }
}

}  // namespace rota::cli

// `rota status [WHERE]`: which workflows were run here, how far they are, and what runs now.
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/log_source.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/run_report.h"
#include "cli/timeline.h"
#include "fleet/names.h"
#include "ledger/disk_reader.h"

namespace rota::cli {

namespace {

constexpr std::size_t kMostRunning = 20;

struct StatusOptions {
  std::string where;
  bool all = false;
  bool json = false;
};

// One workflow of a log.
struct Run {
  RunReport report{};
  std::int64_t submitted_ns = 0;
};

struct Status {
  Place place{};
  std::optional<std::string> writer{};  // Who runs it now.
  std::vector<Run> runs{};              // The latest first.
  std::optional<Error> error{};         // It could not be read.
};

std::int64_t wall_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string utc(std::int64_t ns, const char* format = "%Y-%m-%d %H:%M:%SZ") {
  const std::time_t seconds = ns / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), format, &parts);
  return text.data();
}

Result<Status> read_status(const Place& place, bool json) {
  Status status;
  status.place = place;
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> source, LogSource::open(place.log));
  // Asked before the log is read: what ended meanwhile has ended, and is not taken for interrupted.
  ROTA_TRY_ASSIGN(status.writer, ledger::DiskReader::writer_of(place.log));
  ROTA_TRY(source->refresh());
  ProgressLine progress(!json);
  ROTA_TRY_ASSIGN(const RunLog log, read_log(*source, progress));
  const fleet::State& state = log.brain.state();
  state.each_workflow([&](const fleet::Workflow& workflow) {
    Run run;
    run.report = report_of(state, workflow.id);
    run.submitted_ns = workflow.submitted_ns;
    const bool open = workflow.outcome == fleet::Outcome::kRunning;
    run.report.interrupted = open && !status.writer;
    const std::int64_t now_ns = status.writer ? wall_now_ns() : state.globals().now_ns;
    run.report.elapsed_ns = (open ? now_ns : workflow.ended_ns) - workflow.submitted_ns;
    log.timeline.correct(run.report, now_ns);
    status.runs.push_back(std::move(run));
  });
  std::reverse(status.runs.begin(), status.runs.end());
  return status;
}

// How many tasks are in which state, in the order in which a person would ask.
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

std::string counts_text(const RunReport& report) {
  std::string text;
  for (const auto& [name, count] : counts_of(report)) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  }
  return text;
}

std::string to_json(const Status& status, bool with_tasks, bool all) {
  std::string out = "{\"where\":";
  append_json_string(out, status.place.folder);
  out += ",\"name\":";
  append_json_string(out, status.place.name);
  out += ",\"in_use\":";
  out += status.writer ? "true" : "false";
  if (status.writer) {
    out += ",\"writer\":";
    append_json_string(out, *status.writer);
  }
  if (status.error) {
    out += ",\"error\":{\"code\":";
    append_json_string(out, to_string(status.error->code));
    out += ",\"message\":";
    append_json_string(out, status.error->message);
    out += "}";
  }
  out += ",\"workflows\":[";
  for (std::size_t i = 0; i < status.runs.size() && (all || i == 0); ++i) {
    const Run& run = status.runs[i];
    out += (i > 0 ? ",{\"workflow\":\"" : "{\"workflow\":\"") + run.report.workflow.to_string() + "\",\"name\":";
    append_json_string(out, run.report.name);
    out += ",\"outcome\":\"" + std::string(outcome_text(run.report)) +
           "\",\"submitted_ns\":" + std::to_string(run.submitted_ns) +
           ",\"elapsed_ns\":" + std::to_string(run.report.elapsed_ns) + ",\"counts\":{";
    bool first = true;
    for (const auto& [name, count] : counts_of(run.report)) {
      if (!std::exchange(first, false)) out += ",";
      append_json_string(out, name);
      out += ":" + std::to_string(count);
    }
    out += "}";
    if (with_tasks && i == 0) out += ",\"tasks\":" + tasks_json(run.report);
    out += "}";
  }
  return out + "]}";
}

void print_rows(const std::vector<std::array<std::string, 6>>& rows) {
  std::array<std::size_t, 6> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += row[i] + std::string(widths[i] + 2 - row[i].size(), ' ');
    line.erase(line.find_last_not_of(' ') + 1);
    std::printf("%s\n", line.c_str());
  }
}

void print_runs(const std::vector<Status>& all, bool older) {
  std::vector<std::array<std::string, 6>> rows{{"where", "workflow", "outcome", "started", "elapsed", "tasks"}};
  for (const Status& status : all) {
    if (status.error) rows.push_back({status.place.name, "-", "unreadable", "-", "-", status.error->message});
    if (!status.error && status.runs.empty()) rows.push_back({status.place.name, "-", "nothing yet", "-", "-", "-"});
    for (std::size_t i = 0; i < status.runs.size() && (older || i == 0); ++i) {
      const Run& run = status.runs[i];
      rows.push_back({status.place.name, run.report.workflow.to_string() + " " + run.report.name,
                      std::string(outcome_text(run.report)), utc(run.submitted_ns), short_time(run.report.elapsed_ns),
                      counts_text(run.report)});
    }
  }
  print_rows(rows);
}

void print_running(const RunReport& report) {
  std::size_t shown = 0;
  for (const TaskRow& task : report.tasks) {
    if (task.state != graph::TaskState::kRunning || task.at_worker) continue;
    if (++shown > kMostRunning) continue;
    if (shown == 1) std::printf("\nrunning now:\n");
    std::string line = "  " + task.name + " on " + task.worker;
    if (task.begun_ns > 0) line += " since " + utc(task.begun_ns, "%H:%M:%SZ") + ", for " + short_time(task.run_ns);
    if (task.attempts > 1) line += ", attempt " + std::to_string(task.attempts);
    std::printf("%s\n", line.c_str());
  }
  if (shown > kMostRunning) std::printf("  and %zu more\n", shown - kMostRunning);
}

void print_one(const Status& status, bool all) {
  print_runs({status}, all);
  if (status.runs.empty()) return;
  const Run& latest = status.runs.front();
  std::printf("\n%s", to_table(latest.report).c_str());
  if (latest.report.outcome == fleet::Outcome::kRunning && status.writer) {
    print_running(latest.report);
    std::printf("\nIt is run by %s.\n", status.writer->c_str());
  }
  if (latest.report.interrupted) std::printf("\nNobody runs it now; `rota run` goes on where it stopped.\n");
  if (!all && status.runs.size() > 1) {
    std::printf("\n%zu older runs are not shown; --all shows them.\n", status.runs.size() - 1);
  }
}

Result<int> status(const StatusOptions& options) {
  ROTA_TRY_ASSIGN(const std::vector<Place> places, find_places(options.where));
  std::vector<Status> all;
  for (const Place& place : places) {
    Result<Status> read = read_status(place, options.json);
    if (!read.ok() && places.size() == 1) return std::move(read).take_error();
    if (!read.ok()) {
      Status failed;
      failed.place = place;
      failed.error = read.error();
      all.push_back(std::move(failed));
    } else {
      all.push_back(std::move(*read));
    }
  }
  int exit = 0;
  for (const Status& each : all) {
    if (each.error && exit == 0) exit = exit_status(each.error->code);
  }
  if (options.json) {
    std::string out = "{\"runs\":[";
    for (std::size_t i = 0; i < all.size(); ++i) {
      out += (i > 0 ? "," : "") + to_json(all[i], all.size() == 1, options.all);
    }
    std::printf("%s]}\n", out.c_str());
  } else if (all.size() == 1) {
    print_one(all.front(), options.all);
  } else {
    print_runs(all, options.all);
    std::printf("\n`rota status FILE` shows the tasks of one.\n");
  }
  return exit;
}

}  // namespace

void add_status(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("status", "Show what was run, how far it is, and what runs now");
  auto options = std::make_shared<StatusOptions>();
  add_where(*verb, options->where);
  verb->add_flag("--all", options->all, "older runs as well");
  verb->add_flag("--json", options->json, "for programs");
  verb->footer(
      "A run that goes on can be looked at from another terminal. What has not ended and is run by nobody is\n"
      "interrupted: `rota run` goes on with it. Times are UTC.\n"
      "With --json: {\"runs\": [{\"where\", \"name\", \"in_use\", \"writer\", \"workflows\": [{\"workflow\", \"name\", "
      "\"outcome\",\n"
      "\"submitted_ns\", \"elapsed_ns\", \"counts\", \"tasks\"}]}]}; \"tasks\" if there is one run, and of the latest "
      "workflow.\n"
      "\n"
      "Examples:\n"
      "  rota status                # all that was run in this folder\n"
      "  rota status nightly.yaml   # the tasks of its latest run\n"
      "  rota status --json | jq '.runs[].workflows[0].outcome'");
  verb->callback([&exit, options] {
    Result<int> done = status(*options);
    exit.status = done.ok() ? *done : report(done.error());
  });
}

}  // namespace rota::cli

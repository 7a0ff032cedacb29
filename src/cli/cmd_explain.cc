// `rota explain [WHERE] TASK [--at TIME]`: why a task waits, why it runs where it does, or how it ended.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/units.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/subcommands.h"
#include "fleet/brain.h"
#include "fleet/explain.h"

namespace rota::cli {

namespace {

struct ExplainOptions {
  std::string where;
  std::string log;  // --log: the same as where.
  std::string task;
  std::string at;
};

// Parses "2026-11-16T06:30:00.5Z".
bool parse_utc(const std::string& text, std::int64_t& ns) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  int used = 0;
  if (std::sscanf(text.c_str(), "%4d-%2u-%2uT%2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &used) !=
      6) {
    return false;
  }
  std::string rest = text.substr(static_cast<std::size_t>(used));
  std::int64_t fraction = 0;
  if (!rest.empty() && rest.front() == '.') {
    std::size_t digits = 1;
    std::int64_t unit = 100'000'000;
    for (; digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9'; ++digits, unit /= 10) {
      fraction += (rest[digits] - '0') * unit;
    }
    if (digits == 1) return false;
    rest.erase(0, digits);
  }
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (rest != "Z" || !date.ok() || year < 1970 || year > 2200 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
      second < 0 || second > 60) {
    return false;
  }
  const auto since = std::chrono::sys_days(date) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
                     std::chrono::seconds(second);
  ns = std::chrono::nanoseconds(since.time_since_epoch()).count() + fraction;
  return true;
}

// A point in time: a UTC time, or a duration since the log's first record.
Result<std::int64_t> parse_at(const std::string& text, std::int64_t first_ns) {
  std::int64_t ns = 0;
  if (parse_utc(text, ns)) return ns;
  const Result<Duration> since = parse_duration(text);
  if (since.ok() && since->count() >= 0 && since->count() <= std::numeric_limits<std::int64_t>::max() - first_ns) {
    return first_ns + since->count();
  }
  return Error{ErrorCode::kInvalidArgument,
               "--at " + printable(text) +
                   " is not a time; write it in UTC, like 2026-11-16T06:30:00Z, or as a duration since the log's first "
                   "record, like 1m30s"};
}

std::int64_t wall_now_ns() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

// In `[WHERE] TASK`, WHERE may be left out: a single word is the task.
Result<void> choose_task(ExplainOptions& options) {
  std::vector<std::string> tasks;
  if (!options.task.empty()) tasks.push_back(options.task);
  if (options.log.empty()) {
    separate_where(options.where, tasks);
  } else {
    if (!options.where.empty()) tasks.insert(tasks.begin(), options.where);
    options.where = options.log;
  }
  if (tasks.empty()) {
    return Error{ErrorCode::kInvalidArgument, "which task? Name one, like train or train[2]; `rota status` lists them"};
  }
  if (tasks.size() > 1) {
    return Error{ErrorCode::kInvalidArgument, "'" + printable(tasks.front()) +
                                                  "' is neither a workflow file nor a state folder, and only one task "
                                                  "can be explained at a time"};
  }
  options.task = tasks.front();
  return {};
}

Result<fleet::Explanation> explain(const ExplainOptions& options, Output& output) {
  // A mistake in --at is found before the log is read.
  ROTA_TRY(options.at.empty() ? Result<std::int64_t>(0) : parse_at(options.at, 0));
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(options.where, &note));
  output.note(note);
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  ProgressLine progress(output.shows_progress());
  ROTA_TRY_ASSIGN(fleet::Brain brain, log->begin());
  // A worker that has left is forgotten; the log knows its name.
  fleet::WorkerNames names;
  brain.state().each_worker([&](const fleet::Worker& worker) { names[worker.id] = worker.spec.name; });
  std::int64_t at_ns = 0;
  bool first = true;
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, log->next());
    if (record == nullptr) break;
    if (std::exchange(first, false) && !options.at.empty()) {
      ROTA_TRY_ASSIGN(at_ns, parse_at(options.at, record->wall_ns));
      if (at_ns < record->wall_ns) {
        return Error{ErrorCode::kNotFound, "--at " + printable(options.at) + " is before the log's first record" +
                                               (log->compacted() > 0 ? "; earlier records were compacted" : "")};
      }
    }
    if (at_ns != 0 && record->wall_ns > at_ns) break;
    Result<void> applied = brain.apply(*record);
    if (!applied.ok()) return std::move(applied).take_error().in(place.log);
    fleet::note_workers(*record, brain.state(), names);
    if (record->index % 4096 == 0) progress.show("reading " + std::to_string(log->permille() / 10) + " %");
  }
  ROTA_TRY_ASSIGN(const model::TaskId task, fleet::find_task(brain.state(), options.task));
  const std::uint64_t in = brain.state().at(task).assigned_in;
  const fleet::TaskAssigned* assigned = nullptr;
  if (in > 0) {
    progress.show("looking for the record of the assignment");
    ROTA_TRY_ASSIGN(const fleet::Record* record, log->find(in));
    if (record != nullptr) assigned = fleet::find_assignment(*record, task);
  }
  // Without --at, a task that has not ended is explained now, not as of the last record: nothing is recorded while it
  // runs.
  if (at_ns == 0 && !graph::is_terminal(brain.state().at(task).state)) {
    at_ns = std::max(brain.state().time_ns(), wall_now_ns());
  }
  return fleet::explain(brain.state(), task, assigned, at_ns, names);
}

}  // namespace

Subcommand explain_subcommand() {
  auto options = std::make_shared<ExplainOptions>();
  return {.name = "explain",
          .meaning = "Explain why a task waits, why it runs where it does, or how it ended",
          .positionals = {where(&options->where),
                          positional("TASK", &options->task,
                                     "wf-1.3, train, train[2], or with its workflow: nightly/train[2]")},
          .options = {text("--log", "FILE", &options->log, "the same as WHERE; also a log file"),
                      text("--at", "TIME", &options->at,
                           "explain the state at that time: 2026-11-16T06:30:00Z, or a duration since the log's first "
                           "record: 1m30s")},
          .json = "print one JSON object",
          .footer = "A task can be explained from another terminal while its workflow runs.",
          .examples = {"rota explain train                     # in the latest run in this folder",
                       "rota explain nightly.yaml 'train[2]'   # in the latest run of that file",
                       "rota explain train --at 1m30s          # as it was then"},
          .run = [options](Output& output) -> Result<int> {
            ROTA_TRY(choose_task(*options));
            ROTA_TRY_ASSIGN(const fleet::Explanation explanation, explain(*options, output));
            output.explanation(explanation);
            return 0;
          }};
}

}  // namespace rota::cli

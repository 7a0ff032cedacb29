// How facts are shown: tables, JSON and quiet output.
#include "cli/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/format.h"
#include "cli/table.h"

namespace rota::cli {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1000 * kMillisecond;
constexpr std::int64_t kStart = 1'794'000'000 * kSecond;  // 2026-11-06T21:20:00Z

// What an output of this mode prints.
std::string shown(OutputMode mode, const std::function<void(Output&)>& show) {
  char* bytes = nullptr;
  std::size_t size = 0;
  std::FILE* file = ::open_memstream(&bytes, &size);
  show(*make_output(mode, file));
  std::fclose(file);
  std::string text(bytes, size);
  std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): as open_memstream() asks for.
  return text;
}

TaskRow task(const std::string& name, std::uint32_t index, std::uint32_t stage, graph::TaskState state,
             std::int64_t run_ns) {
  TaskRow row;
  row.id = {model::WorkflowId(1), index};
  row.name = name;
  row.stage = stage;
  row.state = state;
  row.attempts = run_ns > 0 ? 1 : 0;
  row.run_ns = run_ns;
  row.wait_ns = run_ns > 0 ? 5 * kMillisecond : 0;
  row.started_ns = run_ns > 0 ? kStart + stage * kSecond : 0;
  row.ended_ns = run_ns > 0 ? row.started_ns + run_ns : 0;
  row.worker = run_ns > 0 ? "local" : "";
  return row;
}

// "load" and then two tasks of "train", the second of which failed; "report" was cancelled.
RunReport failed_run() {
  RunReport report;
  report.workflow = model::WorkflowId(1);
  report.name = "nightly";
  report.outcome = fleet::Outcome::kFailed;
  report.needs = {{}, {0}, {1}};
  report.tasks = {task("load", 0, 0, graph::TaskState::kSucceeded, kSecond),
                  task("train[0]", 1, 1, graph::TaskState::kSucceeded, 250 * kMillisecond),
                  task("train[1]", 2, 1, graph::TaskState::kFailed, 2 * kSecond),
                  task("report", 3, 2, graph::TaskState::kCancelled, 0)};
  report.tasks[2].message = "exit status 3";
  report.begin_ns = kStart;
  report.end_ns = kStart + 4 * kSecond;
  return report;
}

PlaceStatus status_of(RunReport report) {
  PlaceStatus status;
  status.place = {".rota/w.yaml", ".rota/w.yaml/ledger.db", "w.yaml"};
  status.workflows.push_back({std::move(report), kStart});
  return status;
}

// C-1: the table at the end of a run has tasks, attempts, times and the critical path.
TEST(Output, ARunThatFailed) {
  RunSummary summary;
  summary.report = failed_run();
  summary.logs = "/s/logs";
  summary.failures.push_back({"train[1]", "exit status 3", "/s/logs/3-1.log", "one\ntwo"});
  summary.more_failures = 2;
  const std::string table = shown(OutputMode::kTable, [&](Output& output) { output.run_ended(summary); });
  EXPECT_THAT(table, HasSubstr("task      state      attempts  wait  run    worker\n"
                               "train[1]  failed     1         5ms   2.00s  local\n"
                               "load      succeeded  1         5ms   1.00s  local\n"
                               "train[0]  succeeded  1         5ms   250ms  local\n"
                               "report    cancelled  0         -     -      -\n"));
  EXPECT_THAT(table, HasSubstr("nightly failed in 4.00s: 2 of 4 tasks succeeded, 1 failed, 1 cancelled\n"));
  EXPECT_THAT(table, HasSubstr("critical path 3.00s: load 1.00s > train[1] 2.00s\n"));
  EXPECT_THAT(table, HasSubstr("train[1] failed: exit status 3\n  | one\n  | two\n  full log: /s/logs/3-1.log\n"));
  EXPECT_THAT(table, HasSubstr("2 more tasks failed; their logs are in /s/logs\n"));
  EXPECT_THAT(table, HasSubstr("Run it again to resume: tasks that succeeded are not run again"));
  EXPECT_EQ(shown(OutputMode::kQuiet, [&](Output& output) { output.run_ended(summary); }), "");
  const json summary_json = json::parse(shown(OutputMode::kJson, [&](Output& output) { output.run_ended(summary); }));
  EXPECT_EQ(summary_json.at("outcome"), "failed");
  EXPECT_EQ(summary_json.at("critical_path"), json::parse(R"({"run_ns": 3000000000, "tasks": ["load", "train[1]"]})"));
  EXPECT_EQ(summary_json.at("tasks").at(2).at("message"), "exit status 3");
  EXPECT_FALSE(summary_json.contains("cost_microdollars")) << "the workers have no price";
}

// C-2: status as a table, as JSON, and in one line per run.
TEST(Output, Status) {
  const std::vector<PlaceStatus> one{status_of(failed_run())};
  const auto show = [&](Output& output) { output.status(one, false); };
  EXPECT_THAT(
      shown(OutputMode::kTable, show),
      HasSubstr("where   workflow      outcome  started               elapsed  tasks\n"
                "w.yaml  wf-1 nightly  failed   2026-11-06 21:20:00Z  4.00s    1 failed, 2 succeeded, 1 cancelled\n"));
  EXPECT_EQ(shown(OutputMode::kQuiet, show), "wf-1 failed\n");
  const json run = json::parse(shown(OutputMode::kJson, show)).at("runs").at(0);
  EXPECT_EQ(run.at("workflows").at(0).at("counts"), json::parse(R"({"failed": 1, "succeeded": 2, "cancelled": 1})"));
  EXPECT_EQ(run.at("workflows").at(0).at("tasks").size(), 4U);
  EXPECT_EQ(run.at("in_use"), false);
}

// A place that cannot be read is listed with its error.
TEST(Output, StatusOfAnUnreadablePlace) {
  PlaceStatus broken;
  broken.place = {"b", "b/ledger.db", "b"};
  broken.error = Error{ErrorCode::kCorrupt, "it is damaged"};
  const std::vector<PlaceStatus> two{status_of(failed_run()), broken};
  const auto show = [&](Output& output) { output.status(two, false); };
  EXPECT_THAT(shown(OutputMode::kTable, show), HasSubstr("unreadable  -                     -        it is damaged\n"));
  const json runs = json::parse(shown(OutputMode::kJson, show)).at("runs");
  EXPECT_EQ(runs.at(1).at("error"), json::parse(R"({"code": "Corrupt", "message": "it is damaged"})"));
  EXPECT_FALSE(runs.at(0).at("workflows").at(0).contains("tasks")) << "there are several runs";
}

// C-3: a table fits the terminal: first without what matters least, then with shortened names.
TEST(Output, ATableThatFits) {
  Table table;
  table.row({"task", "state", "worker"});
  table.row({"train[1] lr=0.01 seed=2", "failed", "local"});
  constexpr std::array<std::size_t, 1> kOptional{2};
  const auto widest = [](const std::string& text) {
    std::size_t most = 0;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
      most = std::max(most, text.find('\n', at) - at);
    }
    return most;
  };
  EXPECT_EQ(table.fitted(39, kOptional), table.text());
  EXPECT_EQ(widest(table.fitted(32, kOptional)), 32U);
  EXPECT_THAT(table.fitted(32, kOptional), HasSubstr("seed=2  failed  local\n"));
  EXPECT_EQ(table.fitted(31, kOptional), "task                     state\ntrain[1] lr=0.01 seed=2  failed\n");
  EXPECT_EQ(widest(table.fitted(20, kOptional)), 20U);
  EXPECT_THAT(table.fitted(20, kOptional), HasSubstr("=2  failed\n"));
}

// C-3: failures first, and one row per stage when there are many tasks.
TEST(Output, StagesAreListedWhenThereAreManyTasks) {
  RunSummary summary;
  summary.report = failed_run();
  for (std::uint32_t i = 4; i < 500; ++i) {
    summary.report.tasks.push_back(task("more", i, 0, graph::TaskState::kSucceeded, kMillisecond));
  }
  const std::string table = shown(OutputMode::kTable, [&](Output& output) { output.run_ended(summary); });
  EXPECT_THAT(table, HasSubstr("train[1]  failed"));
  EXPECT_THAT(table, HasSubstr("\n\nstage   tasks  succeeded  failed  other  mean"));
  EXPECT_THAT(table, HasSubstr("\ntrain   2      1          1       0 "));
  EXPECT_THAT(table, HasSubstr("\nload    497    497        0       0 "));
  EXPECT_THAT(table, Not(HasSubstr("more ")));
}

TEST(Output, LogLines) {
  const LogOwner owner{{model::WorkflowId(1), 2}, "b[1]", model::AttemptNumber(3)};
  const auto show = [&](Output& output) { output.log_line(owner, "a \"quoted\" line"); };
  EXPECT_EQ(shown(OutputMode::kTable, show), "b[1] | a \"quoted\" line\n");
  EXPECT_EQ(shown(OutputMode::kQuiet, show), "b[1] | a \"quoted\" line\n");
  EXPECT_EQ(json::parse(shown(OutputMode::kJson, show)),
            json::parse(R"({"task": "wf-1.2", "name": "b[1]", "attempt": 3, "line": "a \"quoted\" line"})"));
}

// S-3: the figures of each policy stand side by side.
TEST(Output, Replay) {
  Replay replay;
  replay.verified = true;
  replay.records = 7;
  replay.hash = "abc";
  replay.courses = {{"as it happened", "", {}}, {"same policy", "", {}}, {"mode=x", "mode=x", {}}};
  replay.courses[2].figures.wait_p95_ns = 3 * kSecond;
  const auto show = [&](Output& output) { output.replay(replay); };
  const std::string table = shown(OutputMode::kTable, show);
  EXPECT_THAT(table, HasSubstr("Verified: 7 records, each decided again with the same result; the hash of the final "
                               "state is abc.\n\n"
                               "                    as it happened  same policy  policy 1\n"));
  EXPECT_THAT(table, HasSubstr("wait p95                        0s           0s        3s\n"));
  EXPECT_THAT(table, HasSubstr("\npolicy 1: mode=x\n"));
  EXPECT_EQ(json::parse(shown(OutputMode::kJson, show)).at("courses").at(2).at("figures").at("wait_p95_ns"),
            3 * kSecond);
  EXPECT_EQ(shown(OutputMode::kQuiet, show), "");
}

TEST(Table, AlignsColumns) {
  Table left;
  left.row({"a", "bcd", "e"});
  left.row({"long", "f", ""});
  EXPECT_EQ(left.text(), "a     bcd  e\nlong  f\n");
  Table right(Table::Align::kRight);
  right.row({"a", "bcd", "e"});
  right.row({"long", "f", "10"});
  EXPECT_EQ(right.text(), "a     bcd   e\nlong    f  10\n");
}

TEST(Format, Times) {
  EXPECT_EQ(short_time(0), "-");
  EXPECT_EQ(short_time(1), "1ms");
  EXPECT_EQ(short_time(35 * kMillisecond), "35ms");
  EXPECT_EQ(short_time(999'600'000), "1.00s");
  EXPECT_EQ(short_time(125 * kSecond), "2m05s");
  EXPECT_EQ(short_time(11'220 * kSecond), "3h07m");
  EXPECT_EQ(counted(1, "task"), "1 task");
  EXPECT_EQ(counted(0, "task"), "0 tasks");
}

TEST(Format, ForATerminal) {
  EXPECT_EQ(for_a_terminal("10%\r20%\r"), "20%");
  EXPECT_EQ(for_a_terminal("a\tb\x1b[1mc"), "a b\\x1b[1mc");
  EXPECT_EQ(for_a_terminal("\xc2\x9b"
                           "31m"),
            "?31m");
}

}  // namespace
}  // namespace rota::cli

// When attempts ran according to the log, and the trace that is written from it.
#include "cli/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_report.h"
#include "cli/task_choice.h"
#include "cli/trace_run.h"

namespace rota::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStart = 1'794'000'000 * kSecond;

// A brain that executes commands, and its timeline.
class Told {
 public:
  void execute(fleet::Command command, std::int64_t seconds) {
    Result<fleet::Record> record = log.brain.execute(std::move(command), kStart + seconds * kSecond);
    ASSERT_TRUE(record.ok()) << record.error().message;
    if (record->index > 0) log.timeline.see(*record, log.brain.state());
  }
  void worker(const char* name, std::int64_t cpu_millis) {
    model::WorkerSpec spec;
    spec.name = name;
    spec.resources.cpu_millis = cpu_millis;
    fleet::RegisterWorker registered;
    registered.worker = spec;
    execute(registered, 0);
  }
  // Three of "train", and "report", which needs them.
  void submit(std::int64_t seconds) {
    fleet::SubmitWorkflow submit;
    submit.workflow.name = "nightly";
    submit.workflow.templates.resize(1);
    submit.workflow.templates[0].spec.program.emplace().shell = "true";
    submit.workflow.templates[0].needs.cpu_millis = 1000;
    submit.workflow.templates[0].retry.max_attempts = 2;
    submit.workflow.stages = {model::Stage{"train"}, model::Stage{"report", 0, {0}}};
    submit.workflow.stages[0].items = {"{}", "{}", "{}"};
    execute(submit, seconds);
  }
  // The worker measured these times; 0 to 0: the attempt ended before it started.
  void end(model::AttemptEnd how, std::uint32_t index, std::uint32_t attempt, std::int64_t started_s,
           std::int64_t ended_s, std::int64_t told_s) {
    fleet::ReportEnded ended{task(index), model::AttemptNumber(attempt), {}};
    ended.outcome.end = how;
    if (how == model::AttemptEnd::kFailed) ended.outcome.message = "oh no";
    ended.outcome.started_ns = started_s == 0 ? 0 : kStart + started_s * kSecond;
    ended.outcome.ended_ns = ended_s == 0 ? 0 : kStart + ended_s * kSecond;
    execute(ended, told_s);
  }
  static model::TaskId task(std::uint32_t index) { return {model::WorkflowId(1), index}; }
  [[nodiscard]] RunReport report(std::int64_t now_s) const {
    return report_of(log.brain.state(), model::WorkflowId(1), kStart + now_s * kSecond, &log.timeline);
  }

  RunLog log;
};

// Two tasks run at once, the third after the first; the third fails once. Reports take a second to arrive.
void tell_a_run(Told& told) {
  told.worker("a", 2000);
  told.submit(1);
  told.end(model::AttemptEnd::kSucceeded, 0, 1, 2, 10, 11);
  told.end(model::AttemptEnd::kFailed, 2, 1, 12, 14, 15);
  told.end(model::AttemptEnd::kSucceeded, 1, 1, 2, 15, 16);
}

// The times are those that the worker measured, not those of the records.
TEST(Timeline, AttemptsAndTheirTimes) {
  Told told;
  tell_a_run(told);
  const Timeline& timeline = told.log.timeline;
  const Attempt* first = timeline.find(Told::task(0));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->name, "train[0]");
  EXPECT_EQ(first->started_ns, kStart + 2 * kSecond);
  EXPECT_EQ(first->ended_ns, kStart + 10 * kSecond);
  EXPECT_EQ(first->end, "succeeded");
  EXPECT_THAT(first->why, HasSubstr("worker 'a'"));
  const Attempt* failed = timeline.find(Told::task(2), model::AttemptNumber(1));
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->assigned_ns, kStart + 11 * kSecond) << "there were no free CPUs before";
  EXPECT_EQ(failed->started_ns, kStart + 12 * kSecond);
  EXPECT_EQ(failed->ended_ns, kStart + 14 * kSecond);
  EXPECT_EQ(failed->ready_ns, kStart + kSecond);
  EXPECT_EQ(failed->end, "requeued: failed");
  EXPECT_EQ(failed->message, "oh no");
  const Attempt* again = timeline.find(Told::task(2));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->attempt, model::AttemptNumber(2));
  EXPECT_EQ(again->ended_ns, 0);
  EXPECT_EQ(timeline.find(Told::task(3)), nullptr) << "it has never run";
  EXPECT_EQ(timeline.find(Told::task(0), model::AttemptNumber(7)), nullptr);
  EXPECT_EQ(latest_workflow(told.log.brain.state()), model::WorkflowId(1));
}

// Times that contradict the log (a worker with a wrong clock) are bounded by the assignment and the record.
TEST(Timeline, BoundsTheTimesOfAWrongClock) {
  Told told;
  told.worker("a", 2000);
  told.submit(5);
  told.end(model::AttemptEnd::kSucceeded, 0, 1, 1, 99, 11);
  const Attempt* attempt = told.log.timeline.find(Told::task(0));
  ASSERT_NE(attempt, nullptr);
  EXPECT_EQ(attempt->started_ns, kStart + 5 * kSecond);
  EXPECT_EQ(attempt->ended_ns, kStart + 11 * kSecond);
  const TaskRow row = told.report(20).tasks[0];
  EXPECT_EQ(row.started_ns, attempt->started_ns);
  EXPECT_EQ(row.ended_ns, attempt->ended_ns);
}

// C-1, C-2: the report of a run (`rota run`, `rota status`) and the timeline (`rota trace`) have the same times.
TEST(RunReport, HasTheTimesOfTheTimeline) {
  Told told;
  tell_a_run(told);
  const RunReport running = told.report(20);
  EXPECT_EQ(running.tasks[0].run_ns, 8 * kSecond);
  EXPECT_EQ(running.tasks[0].wait_ns, kSecond);
  EXPECT_EQ(running.tasks[2].attempts, 2U);
  EXPECT_EQ(running.tasks[2].run_ns, 5 * kSecond) << "its second attempt runs since 15 s";
  EXPECT_EQ(running.tasks[3].attempts, 0U);
  EXPECT_EQ(running.elapsed_ns(), 19 * kSecond);
  told.end(model::AttemptEnd::kSucceeded, 2, 2, 17, 19, 20);
  told.end(model::AttemptEnd::kSucceeded, 3, 1, 21, 21, 25);
  const RunReport ended = told.report(99);
  for (const TaskRow& row : ended.tasks) {
    const Attempt* attempt = told.log.timeline.find(row.id);
    ASSERT_NE(attempt, nullptr);
    EXPECT_EQ(row.started_ns, attempt->started_ns) << row.name;
    EXPECT_EQ(row.ended_ns, attempt->ended_ns) << row.name;
    EXPECT_GT(row.run_ns, 0) << row.name << " ran";
  }
  EXPECT_EQ(ended.elapsed_ns(), 24 * kSecond);
}

// C-1: after Ctrl-C, a task that never started has no attempt and no run time.
TEST(RunReport, ATaskThatNeverStarted) {
  Told told;
  tell_a_run(told);
  told.execute(fleet::Control{fleet::Action::kCancel, model::WorkflowId(1), {}}, 17);
  told.end(model::AttemptEnd::kCancelled, 2, 2, 0, 0, 18);
  const RunReport report = told.report(20);
  EXPECT_EQ(report.outcome, fleet::Outcome::kCancelled);
  const TaskRow& stopped = report.tasks[2];
  EXPECT_EQ(stopped.attempts, 1U) << "the second attempt did not start";
  EXPECT_EQ(stopped.run_ns, 0);
  EXPECT_EQ(stopped.worker, "");
  EXPECT_EQ(report.tasks[3].attempts, 0U);
  EXPECT_EQ(report.tasks[3].run_ns, 0);
  const Attempt* attempt = told.log.timeline.find(Told::task(2));
  ASSERT_NE(attempt, nullptr);
  EXPECT_EQ(attempt->started_ns, 0) << "it gets no slice";
}

TaskRow row_of(std::uint32_t stage, std::int64_t started_s, std::int64_t ended_s) {
  TaskRow row;
  row.stage = stage;
  row.started_ns = started_s * kSecond;
  row.ended_ns = ended_s * kSecond;
  return row;
}

// C-1: the critical path is the chain of dependent tasks with the longest sum of run times, and never longer than the
// run.
TEST(CriticalPath, IsTheLongestChain) {
  RunReport report;
  report.begin_ns = 10 * kSecond;
  report.end_ns = 40 * kSecond;
  // 0 and 1 are sources; 2 needs both and was skipped; 3 needs 2; 4 needs nothing.
  report.needs = {{}, {}, {0, 1}, {2}, {}};
  report.tasks = {row_of(0, 10, 14), row_of(1, 10, 16), row_of(1, 11, 12),
                  row_of(2, 0, 0),   row_of(3, 30, 39), row_of(4, 20, 34)};
  const CriticalPath path = critical_path(report);
  EXPECT_THAT(path.tasks, ElementsAre(1, 4));
  EXPECT_EQ(path.run_ns, 15 * kSecond);
  // A task that ran longer than that chain is the path, although others ended later.
  report.tasks[5] = row_of(4, 10, 38);
  EXPECT_THAT(critical_path(report).tasks, ElementsAre(5));
  EXPECT_EQ(critical_path(report).run_ns, 28 * kSecond);
  // In a run that was resumed at 35 s, only the time since then counts, and earlier tasks are not part of the path.
  report.begin_ns = 35 * kSecond;
  EXPECT_THAT(critical_path(report).tasks, ElementsAre(4));
  EXPECT_EQ(critical_path(report).run_ns, 4 * kSecond);
  EXPECT_LE(critical_path(report).run_ns, report.elapsed_ns());
  report.tasks.clear();
  EXPECT_TRUE(critical_path(report).tasks.empty());
}

// C-2: the file is JSON; slices of one track do not overlap; arrows go forward, from slice to slice; counters fit.
TEST(Trace, TracksSlicesArrowsAndCounters) {
  Told told;
  tell_a_run(told);
  told.end(model::AttemptEnd::kSucceeded, 2, 2, 17, 19, 20);
  told.end(model::AttemptEnd::kSucceeded, 3, 1, 21, 21, 25);
  std::ostringstream out;
  EXPECT_EQ(write_trace(told.log, model::WorkflowId(1), out), 5U);
  const json trace = json::parse(out.str());
  std::map<int, double> busy_until;
  std::map<int, json> starts;
  std::size_t arrows = 0;
  std::vector<std::string> names;
  std::int64_t most_running = 0;
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "M" && event.at("name") == "thread_name") names.push_back(event.at("args").at("name"));
    if (phase == "X") {
      double& until = busy_until[event.at("tid")];
      EXPECT_GE(event.at("ts").get<double>(), until);
      until = event.at("ts").get<double>() + event.at("dur").get<double>();
      EXPECT_GE(event.at("dur").get<double>(), 1.0) << "also of a task that took no time";
      EXPECT_TRUE(event.at("args").contains("wait_ns"));
    }
    if (phase == "s") starts[event.at("id")] = event;
    if (phase == "f") {
      ++arrows;
      ASSERT_TRUE(starts.count(event.at("id")) == 1);
      EXPECT_LE(starts[event.at("id")].at("ts").get<double>(), event.at("ts").get<double>());
    }
    if (phase == "C" && event.at("name") == "running tasks") {
      most_running = std::max<std::int64_t>(most_running, event.at("args").at("tasks"));
    }
  }
  EXPECT_THAT(names, ElementsAre("a", "a (2)"));
  EXPECT_EQ(arrows, 1U) << "from the last task of train to report";
  EXPECT_EQ(most_running, 2);
  EXPECT_EQ(trace.at("otherData").at("workflow"), "wf-1");
}

TEST(TaskChoice, AStageIsAllOfItsTasks) {
  Told told;
  tell_a_run(told);
  const fleet::State& state = told.log.brain.state();
  EXPECT_THAT(*find_tasks(state, "train"), ElementsAre(Told::task(0), Told::task(1), Told::task(2)));
  EXPECT_THAT(*find_tasks(state, "nightly/train"), ElementsAre(Told::task(0), Told::task(1), Told::task(2)));
  EXPECT_THAT(*find_tasks(state, "train[1]"), ElementsAre(Told::task(1)));
  EXPECT_THAT(*find_tasks(state, "report"), ElementsAre(Told::task(3)));
  EXPECT_EQ(find_tasks(state, "train[9]").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(find_tasks(state, "trian").code(), ErrorCode::kNotFound);
  EXPECT_EQ(find_tasks(state, "weekly/train").code(), ErrorCode::kNotFound);
  EXPECT_EQ(tasks_of(state, model::WorkflowId(1)).size(), 4U);
}

}  // namespace
}  // namespace rota::cli

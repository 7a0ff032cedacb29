// When attempts ran according to the log, and the trace that is written from it.
#include "cli/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

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
    fleet::WorkerSpec spec;
    spec.name = name;
    spec.cpu_millis = cpu_millis;
    execute(fleet::RegisterWorker{spec, {}}, 0);
  }
  // Three of "train", and "report", which needs them.
  void submit(std::int64_t seconds) {
    fleet::SubmitWorkflow submit;
    submit.workflow.name = "nightly";
    submit.workflow.templates.resize(1);
    submit.workflow.templates[0].needs.cpu_millis = 1000;
    submit.workflow.templates[0].retry.max_attempts = 2;
    submit.workflow.stages = {fleet::Stage{"train"}, fleet::Stage{"report", 0, {0}}};
    submit.workflow.stages[0].items = {"{}", "{}", "{}"};
    execute(submit, seconds);
  }
  static fleet::TaskId task(std::uint32_t index) { return {fleet::WorkflowId(1), index}; }

  RunLog log;
};

// Two tasks run at once, the third after the first; the third fails once.
void tell_a_run(Told& told) {
  told.worker("a", 2000);
  told.submit(1);
  told.execute(fleet::ReportSucceeded{Told::task(0), 1, "null"}, 11);
  told.execute(fleet::ReportFailed{Told::task(2), 1, fleet::FailureKind::kError, "oh no", false}, 15);
  told.execute(fleet::ReportSucceeded{Told::task(1), 1, "null"}, 16);
}

TEST(Timeline, AttemptsAndTheirTimes) {
  Told told;
  tell_a_run(told);
  const Timeline& timeline = told.log.timeline;
  const Attempt* first = timeline.find(Told::task(0));
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->name, "train[0]");
  EXPECT_EQ(first->begun_ns, kStart + kSecond);
  EXPECT_EQ(first->ended_ns, kStart + 11 * kSecond);
  EXPECT_EQ(first->end, "succeeded");
  EXPECT_THAT(first->why, HasSubstr("worker 'a'"));
  const Attempt* failed = timeline.find(Told::task(2), 1);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->begun_ns, kStart + 11 * kSecond) << "there were no free CPUs before";
  EXPECT_EQ(failed->ready_ns, kStart + kSecond);
  EXPECT_EQ(failed->end, "requeued: failed");
  EXPECT_EQ(failed->message, "oh no");
  const Attempt* again = timeline.find(Told::task(2));
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->attempt, 2U);
  EXPECT_EQ(again->ended_ns, 0);
  EXPECT_EQ(timeline.find(Told::task(3)), nullptr) << "it has never run";
  EXPECT_EQ(timeline.find(Told::task(0), 7), nullptr);
  EXPECT_EQ(latest_workflow(told.log.brain.state()), fleet::WorkflowId(1));

  RunReport report = report_of(told.log.brain.state(), fleet::WorkflowId(1));
  timeline.correct(report, kStart + 20 * kSecond);
  EXPECT_EQ(report.tasks[0].run_ns, 10 * kSecond);
  EXPECT_EQ(report.tasks[2].run_ns, kStart + 20 * kSecond - again->begun_ns) << "it still runs";
  EXPECT_EQ(report.tasks[2].begun_ns, again->begun_ns);
}

// C-2: the file is JSON; slices of one track do not overlap; arrows go forward, from slice to slice; counters fit.
TEST(Trace, TracksSlicesArrowsAndCounters) {
  Told told;
  tell_a_run(told);
  told.execute(fleet::ReportSucceeded{Told::task(2), 2, "null"}, 20);
  told.execute(fleet::ReportSucceeded{Told::task(3), 1, "null"}, 25);
  std::ostringstream out;
  EXPECT_EQ(write_trace(told.log, fleet::WorkflowId(1), out), 5U);
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
  EXPECT_EQ(arrows, 1U) << "from the last of train to report";
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
  EXPECT_EQ(tasks_of(state, fleet::WorkflowId(1)).size(), 4U);
}

}  // namespace
}  // namespace rota::cli

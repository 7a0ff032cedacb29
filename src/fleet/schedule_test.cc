// Contract: H-7. What the brain decides about schedules: a time fires once, and the rule for overlap is kept.
#include "fleet/schedule.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fleet/brain.h"

namespace rota::fleet {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

WorkflowSpec workflow() {
  WorkflowSpec spec;
  spec.name = "nightly";
  spec.user = "ann";
  TaskTemplate& use = spec.templates.emplace_back();
  use.spec.type = "shell";
  use.spec.program = ProgramSpec{.shell = "true"};
  spec.stages.emplace_back().name = "only";
  return spec;
}

// A brain with a worker and one schedule. All records are kept, to be replayed.
struct Bench {
  Brain brain;
  std::vector<Record> records;
  std::int64_t now = 100 * kSecond;

  explicit Bench(OverlapRule overlap) {
    WorkerSpec worker;
    worker.name = "w";
    worker.resources.cpu_millis = 100'000;
    (void)run(RegisterWorker{worker, {}, {}});
    ScheduleSpec spec{.name = "nightly", .cron = "* * * * *", .zone = "UTC", .overlap = overlap};
    spec.workflow = workflow();
    EXPECT_TRUE(run(SetSchedule{spec}).ok());
  }
  Result<Record> run(Command command) {
    now += kSecond / 10;
    Result<Record> record = brain.execute(std::move(command), now);
    if (record.ok() && record->index != 0) records.push_back(*record);
    brain.check_invariants();
    return record;
  }
  // "started wf-1", "skipped", "queued", or the code of the refusal.
  std::string fire(std::int64_t second) {
    const std::string key = "schedule/nightly/" + std::to_string(second);
    const Result<Record> record = run(SubmitWorkflow{key, workflow(), "nightly", second * kSecond});
    if (!record.ok()) return std::string(error_code_info(record.code()).name);
    for (const Event& event : record->events) {
      if (const auto* fired = std::get_if<ScheduleFired>(&event)) {
        return std::string(to_string(fired->outcome)) +
               (fired->workflow.is_none() ? "" : " " + fired->workflow.to_string());
      }
    }
    return "nothing";
  }
  void end(std::uint64_t number) {
    ReportEnded report{TaskId(WorkflowId(number), 0), AttemptNumber(1), {}};
    report.outcome.end = AttemptEnd::kSucceeded;
    ASSERT_TRUE(run(report).ok());
  }
  Outcome outcome(std::uint64_t number) const { return brain.state().at(WorkflowId(number)).outcome; }
  const Schedule& schedule() const { return brain.state().globals().schedules.at("nightly"); }

  // The log leads to the same state, decided again and through a snapshot.
  void expect_replays() {
    Brain again;
    for (std::size_t i = 0; i < records.size(); ++i) {
      ASSERT_TRUE(again.verify(records[i]).ok()) << i;
      if (i == records.size() / 2) {
        Result<Brain> restored = Brain::restore(again.snapshot());
        ASSERT_TRUE(restored.ok()) << restored.error().message;
        again = std::move(*restored);
      }
    }
    EXPECT_EQ(again.hash(), brain.hash());
  }
};

TEST(ScheduleTest, ATimeFiresOnce) {
  Bench bench(OverlapRule::kAllow);
  EXPECT_EQ(bench.fire(50), "AlreadyExists") << "before the schedule was made";
  EXPECT_EQ(bench.fire(160), "started wf-1");
  EXPECT_EQ(bench.fire(160), "AlreadyExists");
  EXPECT_EQ(bench.fire(120), "AlreadyExists") << "a clock that was set back";
  EXPECT_EQ(bench.fire(220), "started wf-2");
  EXPECT_EQ(bench.outcome(1), Outcome::kRunning);
  bench.end(1);
  bench.end(2);
  // Also after its workflow was forgotten, together with its key.
  ASSERT_TRUE(bench.run(ForgetWorkflow{WorkflowId(2)}).ok());
  EXPECT_EQ(bench.fire(220), "AlreadyExists");
  EXPECT_EQ(bench.schedule().fired, 2U);
  bench.expect_replays();
}

TEST(ScheduleTest, OverlapIsSkipped) {
  Bench bench(OverlapRule::kSkip);
  EXPECT_EQ(bench.fire(160), "started wf-1");
  EXPECT_EQ(bench.fire(220), "skipped");
  EXPECT_EQ(bench.fire(220), "AlreadyExists") << "a skipped time is dealt with";
  bench.end(1);
  EXPECT_EQ(bench.fire(280), "started wf-2");
  bench.expect_replays();
}

TEST(ScheduleTest, OverlapIsQueued) {
  Bench bench(OverlapRule::kQueue);
  EXPECT_EQ(bench.fire(160), "started wf-1");
  EXPECT_EQ(bench.fire(220), "queued");
  EXPECT_EQ(bench.fire(280), "queued");
  EXPECT_EQ(bench.fire(220), "FailedPrecondition") << "the first one still runs";
  EXPECT_EQ(bench.fire(280), "AlreadyExists") << "not its turn";
  bench.end(1);
  EXPECT_EQ(bench.fire(340), "queued") << "those that wait come first";
  EXPECT_EQ(bench.fire(220), "started wf-2");
  bench.end(2);
  EXPECT_EQ(bench.fire(280), "started wf-3");
  bench.end(3);
  EXPECT_EQ(bench.fire(340), "started wf-4");
  EXPECT_TRUE(bench.schedule().queued.empty());
  bench.expect_replays();
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kMostQueuedFirings); ++i) {
    ASSERT_EQ(bench.fire(400 + i), "queued");
  }
  EXPECT_EQ(bench.fire(900), "skipped") << "the queue is bounded";
}

TEST(ScheduleTest, OverlapReplacesTheEarlierOne) {
  Bench bench(OverlapRule::kReplace);
  EXPECT_EQ(bench.fire(160), "started wf-1");
  EXPECT_EQ(bench.fire(220), "started wf-2");
  const Task& first = bench.brain.state().at(TaskId(WorkflowId(1), 0));
  EXPECT_TRUE(first.stopping || graph::is_terminal(first.state)) << "the earlier one was told to stop";
  bench.expect_replays();
}

TEST(ScheduleTest, PausedSchedulesDoNotFireAndLeaveOutWhatPasses) {
  Bench bench(OverlapRule::kAllow);
  ASSERT_TRUE(bench.run(ChangeSchedule{"nightly", ScheduleChange::kPause}).ok());
  EXPECT_EQ(bench.run(ChangeSchedule{"nightly", ScheduleChange::kPause})->index, 0U) << "no record";
  EXPECT_EQ(bench.fire(160), "FailedPrecondition");
  bench.now = 200 * kSecond;
  ASSERT_TRUE(bench.run(ChangeSchedule{"nightly", ScheduleChange::kResume}).ok());
  EXPECT_EQ(bench.fire(160), "AlreadyExists") << "it passed while the schedule was paused";
  EXPECT_EQ(bench.fire(260), "started wf-1");
  ASSERT_TRUE(bench.run(ChangeSchedule{"nightly", ScheduleChange::kRemove}).ok());
  EXPECT_EQ(bench.fire(320), "NotFound");
  EXPECT_EQ(bench.run(ChangeSchedule{"nightly", ScheduleChange::kResume}).code(), ErrorCode::kNotFound);
  EXPECT_EQ(bench.outcome(1), Outcome::kRunning) << "its workflows continue";
  bench.expect_replays();
}

TEST(ScheduleTest, AReplacedScheduleKeepsWhatItHasDone) {
  Bench bench(OverlapRule::kQueue);
  EXPECT_EQ(bench.fire(160), "started wf-1");
  EXPECT_EQ(bench.fire(220), "queued");
  ScheduleSpec spec = bench.schedule().spec;
  spec.overlap = OverlapRule::kSkip;
  ASSERT_TRUE(bench.run(SetSchedule{spec}).ok());
  EXPECT_TRUE(bench.schedule().queued.empty());
  EXPECT_EQ(bench.fire(220), "AlreadyExists");
  EXPECT_EQ(bench.fire(280), "skipped") << "the workflow of the earlier version still runs";
  bench.expect_replays();
}

TEST(ScheduleTest, WrongSchedulesAreRefused) {
  Bench bench(OverlapRule::kAllow);
  ScheduleSpec spec = bench.schedule().spec;
  spec.name = "";
  EXPECT_EQ(bench.run(SetSchedule{spec}).code(), ErrorCode::kInvalidArgument);
  spec.name = "x\x1b[31m";
  EXPECT_EQ(bench.run(SetSchedule{spec}).code(), ErrorCode::kInvalidArgument);
  spec.name = "x";
  spec.cron = "";
  EXPECT_EQ(bench.run(SetSchedule{spec}).code(), ErrorCode::kInvalidArgument);
  spec.cron = "* * * * *";
  spec.workflow.stages.clear();
  EXPECT_FALSE(bench.run(SetSchedule{spec}).ok());
}

}  // namespace
}  // namespace rota::fleet

// Run times that the brain learns, and the paths that follow from them (B-25).
#include "fleet/run_times.h"

#include <gtest/gtest.h>

#include "fleet/brain.h"

namespace rota::fleet {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// B-25: a mean that follows the latest samples, in whole numbers.
TEST(RunTimes, TheMeanFollows) {
  RunTimes times;
  EXPECT_FALSE(times.find(7));
  times.learn(7, 10 * kSecond);
  EXPECT_EQ(times.find(7), 10 * kSecond);
  times.learn(7, 20 * kSecond);
  EXPECT_EQ(times.find(7), 15 * kSecond);
  for (int i = 0; i < 200; ++i) times.learn(7, kSecond);
  EXPECT_LT(*times.find(7), 2 * kSecond);
  times.learn(8, -5);  // A clock that was set back.
  EXPECT_EQ(times.find(8), 1);
}

// B-21, B-25: bounded; what was not used for two generations is forgotten; an image has the same content and hash.
TEST(RunTimes, Bounded) {
  RunTimes times;
  times.learn(1, 5);
  for (RunKey key = 2; key <= RunTimes::kMost; ++key) times.learn(key, 5);
  EXPECT_EQ(times.find(1), 5);
  times.learn(2, 5);  // It is used again, and stays.
  for (RunKey key = 0; key < RunTimes::kMost; ++key) times.learn(1'000'000 + key, 5);
  EXPECT_FALSE(times.find(1));
  EXPECT_EQ(times.find(2), 5);
  const RunTimes again = RunTimes::from(times.image());
  EXPECT_EQ(again.hash(), times.hash());
  EXPECT_EQ(again.find(2), 5);
  EXPECT_LE(times.image().young.size() + times.image().old.size(), 2 * RunTimes::kMost);
}

// B-25: programs without a type of their own are told apart by what they run.
TEST(RunTimes, Types) {
  model::TaskSpec one;
  one.type = "shell";
  one.program = model::ProgramSpec{.shell = "sleep 600"};
  model::TaskSpec other = one;
  other.program->shell = "true";
  EXPECT_NE(key_of_work(one), key_of_work(other));
  one.type = other.type = "align";
  EXPECT_EQ(key_of_work(one), key_of_work(other));
  EXPECT_NE(key_of_task("w", "ab", "c"), key_of_task("w", "a", "bc"));
}

// B-25: paths are computed again when the first tasks have ended, and ready tasks change their places.
TEST(RunTimes, AFirstRunLearns) {
  Brain brain;
  Policy policy;
  policy.order = Order::kCriticalPath;
  policy.aging_boost = 0;
  ASSERT_TRUE(brain.execute(SetPolicy{policy}, kSecond).ok());
  WorkerSpec spec;
  spec.name = "w";
  spec.resources.cpu_millis = 1000;
  ASSERT_TRUE(brain.execute(RegisterWorker{spec, {}, {}}, kSecond).ok());
  SubmitWorkflow submit;
  submit.workflow.name = "learns";
  for (const char* type : {"quick", "long"}) {
    TaskTemplate& use = submit.workflow.templates.emplace_back();
    use.spec.type = type;
    use.spec.program = ProgramSpec{.shell = "true"};
    Stage& stage = submit.workflow.stages.emplace_back();
    stage.name = type;
    stage.use = static_cast<std::int64_t>(submit.workflow.templates.size()) - 1;
    stage.items.assign(4, "{}");
  }
  ASSERT_TRUE(brain.execute(submit, kSecond).ok());
  // Nothing is known: the first task in the order of ids runs, then one of the other stage after it was seen to be
  // quick.
  const auto running = [&] {
    TaskId found;
    brain.state().each_worker([&](const Worker& worker) { found = worker.executions.front().members.front(); });
    return found;
  };
  const auto end_after = [&](std::int64_t seconds) {
    const TaskId id = running();
    const Task& task = brain.state().at(id);
    ReportEnded report{id, task.attempt, {}};
    report.outcome.end = AttemptEnd::kSucceeded;
    report.outcome.started_ns = brain.state().time_ns();
    report.outcome.ended_ns = report.outcome.started_ns + seconds * kSecond;
    ASSERT_TRUE(brain.execute(report, brain.state().time_ns() + seconds * kSecond).ok());
  };
  EXPECT_EQ(running().index(), 0U);
  end_after(0);
  EXPECT_EQ(running().index(), 4U);
  end_after(100);
  EXPECT_EQ(running().index(), 5U);
  end_after(100);
  EXPECT_EQ(running().index(), 6U);
}

}  // namespace
}  // namespace rota::fleet

// Workflows: started as a whole, ended once (G-1, G-9).
#include "rota/flow/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "rota/fiber.h"

namespace rota::flow {
namespace {

using testing::HasSubstr;

void nothing(StageContext& /*context*/) {}

std::unique_ptr<IScheduler> scheduler_of(int kind) {
  auto scheduler = kind == 0 ? create_simple_scheduler() : create_thread_pool_scheduler({.workers = 2});
  EXPECT_TRUE(scheduler.ok());
  return std::move(*scheduler);
}

class EngineOn : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EngineOn, testing::Values(0, 1),
                         [](const auto& kind) { return kind.param == 0 ? "Simple" : "Pool"; });

// G-9: a workflow of instant stages reports its end once, in 10,000 runs; half of them count in the callback.
TEST_P(EngineOn, InstantStagesReportTheirEndOnce) {
  WorkflowEngine engine(scheduler_of(GetParam()));
  const int runs = ROTA_TSAN || ROTA_ASAN ? 1000 : 10'000;
  std::atomic<int> ends{0}, wrong{0};
  std::vector<std::string> ids;
  for (int i = 0; i < runs; ++i) {
    Workflow workflow{.name = "w", .stages = {}};
    workflow.stages.push_back({.id = "a", .run = nothing});
    if (i % 2 == 0) workflow.stages.push_back({.id = "b", .run = nothing, .deps = {"a"}});
    if (i % 3 == 0) workflow.stages.push_back({.id = "c", .run = [](StageContext&) { throw std::runtime_error("c"); }});
    const WorkflowOutcome expected = i % 3 == 0 ? WorkflowOutcome::kFailed : WorkflowOutcome::kSucceeded;
    Result<std::string> id = engine.start_workflow(std::move(workflow), [&, expected](const WorkflowReport& report) {
      ends += 1;
      if (report.outcome != expected) wrong += 1;
    });
    ASSERT_TRUE(id.ok());
    if (i % 5 == 0) {
      ASSERT_EQ(engine.wait(*id)->outcome, expected);
    }
    ids.push_back(*id);
  }
  for (const std::string& id : ids) ASSERT_TRUE(engine.wait(id).ok());
  EXPECT_EQ(ends, runs);
  EXPECT_EQ(wrong, 0);
}

// Contract: G-9. Nothing in the engine grows with the number of stages per event: many of them, half in one chain, end
// in seconds. ROTA_MILLION_STAGES=1 makes it a million.
TEST_P(EngineOn, ManyStages) {
  const bool million = std::getenv("ROTA_MILLION_STAGES") != nullptr;
  const int count = ROTA_TSAN || ROTA_ASAN ? 20'000 : GetParam() == 0 ? 100'000 : million ? 1'000'000 : 200'000;
  std::atomic<int> events{0};
  double last = 0;
  WorkflowEngine engine(scheduler_of(GetParam()), [&](const WorkflowProgress& progress) {
    events += 1;
    last = progress.fraction;
  });
  Workflow workflow{.name = "w", .stages = {}};
  workflow.stages.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    WorkflowStage stage{.id = std::to_string(i), .run = nothing};
    if (i % 2 == 1 && i > 1) stage.deps.push_back(std::to_string(i - 2));
    workflow.stages.push_back(std::move(stage));
  }
  const Result<std::string> id = engine.start_workflow(std::move(workflow));
  ASSERT_TRUE(id.ok());
  const Result<WorkflowReport> report = engine.wait(*id);
  EXPECT_EQ(report->outcome, WorkflowOutcome::kSucceeded);
  EXPECT_EQ(report->tasks.size(), static_cast<std::size_t>(count));
  EXPECT_GE(events, 2 * count);
  EXPECT_EQ(last, 1.0) << "the sum is exact";
  EXPECT_EQ(engine.progress(*id)->ended, static_cast<std::uint32_t>(count));
}

// G-1, G-2: a graph is refused as a whole, and nothing is reported for it; the corrected one runs.
TEST_P(EngineOn, ARefusedWorkflowLeavesNothing) {
  WorkflowEngine engine(scheduler_of(GetParam()));
  std::atomic<int> ends{0};
  const auto start = [&](std::vector<WorkflowStage> stages) {
    return engine.start_workflow({.name = "w", .stages = std::move(stages)}, [&](const WorkflowReport&) { ends += 1; });
  };
  EXPECT_EQ(start({}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(start({{.id = "a", .run = nothing, .deps = {"b"}}}).code(), ErrorCode::kNotFound);
  EXPECT_EQ(start({{.id = "a", .run = nothing, .deps = {"a"}}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(start({{.id = "a", .run = nothing}, {.id = "a", .run = nothing}}).code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(start({{.id = "", .run = nothing}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine.start_workflow({.name = "a/b", .stages = {}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ends, 0);
  Result<std::string> id = start({{.id = "a", .run = nothing, .deps = {"b"}}, {.id = "b", .run = nothing}});
  ASSERT_TRUE(id.ok()) << id.error().to_string();
  EXPECT_EQ(engine.wait(*id)->outcome, WorkflowOutcome::kSucceeded);
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(engine.wait("nobody").code(), ErrorCode::kNotFound);
}

// G-9: failure, cancel and retry: one end each, with the first error; two workflows are independent.
TEST_P(EngineOn, FailureAndCancelAreEnds) {
  std::atomic<int> ends{0};
  {
    WorkflowEngine engine(scheduler_of(GetParam()));
    const auto count = [&](const WorkflowReport&) { ends += 1; };
    std::atomic<int> tries{0};
    Result<std::string> flaky = engine.start_workflow({.name = "flaky",
                                                       .stages = {{.id = "a",
                                                                   .run =
                                                                       [&](StageContext&) {
                                                                         if (++tries < 3)
                                                                           throw std::runtime_error("not yet");
                                                                       },
                                                                   .retry = {.max_attempts = 3}}}},
                                                      count);
    ASSERT_TRUE(flaky.ok());
    EXPECT_EQ(engine.wait(*flaky)->outcome, WorkflowOutcome::kSucceeded);
    EXPECT_EQ(ends, 1);
    Result<std::string> fails =
        engine.start_workflow({.name = "fails",
                               .stages = {{.id = "a", .run = [](StageContext&) { throw std::runtime_error("no ink"); }},
                                          {.id = "b", .run = nothing, .deps = {"a"}}}},
                              count);
    ASSERT_TRUE(fails.ok());
    const WorkflowReport report = *engine.wait(*fails);
    EXPECT_EQ(report.outcome, WorkflowOutcome::kFailed);
    EXPECT_THAT(report.error->message, HasSubstr("no ink"));
    EXPECT_EQ(report.tasks[1].state, TaskState::kCancelled);
    EXPECT_EQ(ends, 2);
    // A retry by hand, after the end: it fails again, and is not reported again.
    ASSERT_TRUE(engine.scheduler().retry(*fails + "/a").ok());
    EXPECT_FALSE(engine.scheduler().wait(*fails + "/a").ok());
    engine.scheduler().flush_events();
    EXPECT_EQ(ends, 2);

    const auto endless = [](StageContext& context) {
      for (;;) {
        context.checkpoint();
        fiber::yield();
      }
    };
    Result<std::string> id = engine.start_workflow({.name = "endless", .stages = {{.id = "a", .run = endless}}}, count);
    ASSERT_TRUE(id.ok());
    ASSERT_TRUE(engine.pause(*id).ok());
    EXPECT_EQ(*engine.scheduler().state(*id + "/a"), TaskState::kPaused);
    ASSERT_TRUE(engine.resume(*id).ok());
    ASSERT_TRUE(engine.cancel(*id).ok());
    EXPECT_EQ(engine.wait(*id)->outcome, WorkflowOutcome::kCancelled);
    EXPECT_EQ(ends, 3);
    ASSERT_TRUE(engine.start_workflow({.name = "left", .stages = {{.id = "a", .run = endless}}}, count).ok());
  }
  EXPECT_EQ(ends, 4);  // The engine's end is its end, too.
}

// Progress is the mean of the stages' progress, and reaches 1.
TEST_P(EngineOn, ReportsProgress) {
  std::vector<double> fractions;
  std::atomic<std::uint32_t> ended{0};
  WorkflowEngine engine(scheduler_of(GetParam()), [&](const WorkflowProgress& progress) {
    fractions.push_back(progress.fraction);
    ended = progress.ended;
  });
  Result<std::string> id = engine.start_workflow(
      {.name = "w",
       .stages = {{.id = "a", .run = [](StageContext& context) { context.progress(0.5); }},
                  {.id = "b", .run = [](StageContext& context) { context.progress(0.5); }, .deps = {"a"}}}});
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(engine.wait(*id).ok());
  engine.scheduler().flush_events();
  EXPECT_EQ(ended, 2U);
  EXPECT_THAT(fractions, testing::Contains(0.25));
  EXPECT_THAT(fractions, testing::Contains(0.75));
  EXPECT_EQ(fractions.back(), 1.0);
  EXPECT_EQ(engine.progress(*id)->fraction, 1.0);
}

}  // namespace
}  // namespace rota::flow

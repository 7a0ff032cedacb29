// Schedulers and engines that forget what has ended (G-9).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rota/fiber.h"
#include "rota/flow.h"

namespace rota::flow {
namespace {

using testing::HasSubstr;

void nothing(StageContext& /*context*/) {}

std::unique_ptr<IScheduler> scheduler_of(int kind, SchedulerConfig config = {}) {
  config.workers = 2;
  auto scheduler = kind == 0 ? create_simple_scheduler(config) : create_thread_pool_scheduler(config);
  EXPECT_TRUE(scheduler.ok());
  return std::move(*scheduler);
}

class ForgetOn : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ForgetOn, testing::Values(0, 1),
                         [](const auto& kind) { return kind.param == 0 ? "Simple" : "Pool"; });

// G-9: a forgotten task is unknown, its stage is destroyed, its id may be used again; the counts still include it.
TEST_P(ForgetOn, ATaskOnRequest) {
  const auto scheduler = scheduler_of(GetParam());
  auto captured = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = captured;
  ASSERT_TRUE(scheduler->submit({.task_id = "a"}, [captured](StageContext&) {}).ok());
  captured.reset();
  ASSERT_TRUE(scheduler->wait("a").ok());
  EXPECT_FALSE(watch.expired()) << "a retry could need it";
  ASSERT_TRUE(scheduler->forget("a").ok());
  EXPECT_TRUE(watch.expired());
  const Result<TaskInfo> info = scheduler->info("a");
  EXPECT_EQ(info.code(), ErrorCode::kNotFound);
  EXPECT_THAT(info.error().message, HasSubstr("forgotten"));
  EXPECT_EQ(scheduler->wait("a").code(), ErrorCode::kNotFound);
  EXPECT_EQ(scheduler->forget("a").code(), ErrorCode::kNotFound);
  EXPECT_EQ(scheduler->submit({.task_id = "b", .deps = {"a"}}, nothing).code(), ErrorCode::kNotFound);
  EXPECT_TRUE(scheduler->report().empty());
  ASSERT_TRUE(scheduler->submit({.task_id = "a"}, [](StageContext&) { throw std::runtime_error("no"); }).ok());
  EXPECT_FALSE(scheduler->wait("a").ok());
  EXPECT_EQ(scheduler->report().size(), 1U);
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.tasks, 2U);
  EXPECT_EQ(stats.succeeded, 1U);
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.forgotten, 1U);
}

// G-9: a task that has not ended is not forgotten.
TEST_P(ForgetOn, NotWhileItRuns) {
  const auto scheduler = scheduler_of(GetParam());
  std::atomic<bool> open{false};
  ASSERT_TRUE(scheduler
                  ->submit({.task_id = "a"},
                           [&](StageContext&) {
                             while (!open) fiber::yield();
                           })
                  .ok());
  ASSERT_TRUE(scheduler->submit({.task_id = "b", .deps = {"a"}}, nothing).ok());
  for (const char* id : {"a", "b"}) {
    const Result<void> refused = scheduler->forget(id);
    EXPECT_EQ(refused.code(), ErrorCode::kFailedPrecondition);
    EXPECT_THAT(refused.error().message, HasSubstr("has not ended"));
  }
  EXPECT_EQ(scheduler->forget_ended(), 0U);
  open = true;
  scheduler->wait_all();
  EXPECT_EQ(scheduler->forget_ended(), 2U);
  EXPECT_EQ(scheduler->forget_ended(), 0U);
}

// G-8, G-9: the outputs of a forgotten task are there for every task that depends on it, also when that one is retried
// after many others were forgotten and removed.
TEST_P(ForgetOn, OutputsStayWhileTheyAreNeeded) {
  const auto scheduler = scheduler_of(GetParam());
  ASSERT_TRUE(scheduler->submit({.task_id = "in"}, [](StageContext& c) { c.output("n", 7); }).ok());
  std::atomic<int> runs{0}, sum{0};
  ASSERT_TRUE(scheduler
                  ->submit({.task_id = "out", .deps = {"in"}},
                           [&](StageContext& c) -> Result<void> {
                             ROTA_TRY_ASSIGN(const int* n, c.input<int>("n"));
                             sum += *n;
                             if (++runs == 1) return Error{ErrorCode::kInternal, "once"};
                             return {};
                           })
                  .ok());
  EXPECT_FALSE(scheduler->wait("out").ok());
  ASSERT_TRUE(scheduler->forget("in").ok());
  for (int i = 0; i < 1000; ++i) {
    const std::string id = "x" + std::to_string(i);
    ASSERT_TRUE(scheduler->submit({.task_id = id}, nothing).ok());
    ASSERT_TRUE(scheduler->wait(id).ok());
    ASSERT_TRUE(scheduler->forget(id).ok());
  }
  ASSERT_TRUE(scheduler->retry("out").ok());
  EXPECT_TRUE(scheduler->wait("out").ok());
  EXPECT_EQ(sum, 14);
}

// G-9: beyond the bound the task that ended first is forgotten, and no more tasks are kept; tasks with `keep` stay.
TEST_P(ForgetOn, BeyondABound) {
  constexpr int kTasks = 2000;
  const auto scheduler = scheduler_of(GetParam(), {.max_ended_tasks = 10});
  ASSERT_TRUE(scheduler->submit({.task_id = "kept", .keep = true}, nothing).ok());
  for (int i = 0; i < kTasks; ++i) {
    const std::string id = std::to_string(i);
    ASSERT_TRUE(scheduler->submit({.task_id = id}, nothing).ok());
    ASSERT_TRUE(scheduler->wait(id).ok());
    ASSERT_LE(scheduler->report().size(), 11U);
    if (i >= 10) {
      EXPECT_EQ(scheduler->state(std::to_string(i - 10)).code(), ErrorCode::kNotFound);
    }
    if (i >= 9) {
      EXPECT_TRUE(scheduler->state(std::to_string(i - 9)).ok());
    }
  }
  EXPECT_TRUE(scheduler->state("kept").ok());
  EXPECT_EQ(scheduler->forget_ended(), 10U);
  EXPECT_TRUE(scheduler->state("kept").ok());
  EXPECT_EQ(scheduler->stats().succeeded, static_cast<std::uint64_t>(kTasks) + 1);
}

// G-9: a long chain that was submitted as a whole, with failures, is forgotten while it runs.
TEST_P(ForgetOn, AGraphWhileItRuns) {
  const int count = ROTA_TSAN || ROTA_ASAN ? 2000 : 20'000;
  const auto scheduler = scheduler_of(GetParam(), {.trace_slices = 100, .max_ended_tasks = 5});
  std::vector<IScheduler::Submission> tasks;
  std::atomic<int> wrong{0};
  for (int i = 0; i < count; ++i) {
    TaskDescriptor task{.task_id = std::to_string(i)};
    if (i > 0) task.deps.push_back(std::to_string(i - 1));
    tasks.emplace_back(std::move(task), [i, &wrong](StageContext& c) -> Result<void> {
      if (i > 0 && (!c.input<int>("n").ok() || **c.input<int>("n") != i - 1)) wrong += 1;
      c.output("n", i);
      if (i == count / 2) return Error{ErrorCode::kInternal, "the middle"};
      return {};
    });
  }
  ASSERT_TRUE(scheduler->submit_all(std::move(tasks)).ok());
  scheduler->wait_all();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(scheduler->report().size(), 5U);
  const SchedulerStats stats = scheduler->stats();
  EXPECT_EQ(stats.succeeded, static_cast<std::uint64_t>(count / 2));
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.cancelled, static_cast<std::uint64_t>(count - count / 2 - 1));
  EXPECT_EQ(stats.forgotten, static_cast<std::uint64_t>(count - 5));
}

// G-9: a caller that waits for a task gets its outcome even if the task is forgotten as soon as it has ended.
TEST_P(ForgetOn, WaitersGetTheOutcome) {
  const auto scheduler = scheduler_of(GetParam(), {.max_ended_tasks = 1});
  for (int round = 0; round < 200; ++round) {
    const std::string id = "w" + std::to_string(round);
    std::atomic<bool> open{false};
    ASSERT_TRUE(scheduler
                    ->submit({.task_id = id},
                             [&](StageContext&) -> Result<void> {
                               while (!open) fiber::yield();
                               return Error{ErrorCode::kInternal, "an outcome"};
                             })
                    .ok());
    std::atomic<bool> waits{false};
    Result<void> outcome;
    std::thread waiter([&] {
      waits = true;
      outcome = scheduler->wait(id);
    });
    while (!waits) std::this_thread::yield();
    open = true;
    while (scheduler->state(id).ok() && !graph::is_terminal(*scheduler->state(id))) std::this_thread::yield();
    for (int i = 0; i < 2; ++i) {  // These push it out.
      const std::string next = id + "-" + std::to_string(i);
      ASSERT_TRUE(scheduler->submit({.task_id = next}, nothing).ok());
      (void)scheduler->wait(next);
    }
    waiter.join();
    // The thread may have come too late, when the task was forgotten already.
    EXPECT_TRUE(outcome.code() == ErrorCode::kInternal || outcome.code() == ErrorCode::kNotFound);
  }
}

// G-9: tasks are submitted, observed, cancelled and forgotten by several threads at once.
TEST_P(ForgetOn, FromManyThreads) {
  const int rounds = ROTA_TSAN || ROTA_ASAN ? 300 : 2000;
  std::atomic<std::uint64_t> ends{0};
  {
    const auto scheduler = scheduler_of(GetParam(), {.trace_slices = 50, .max_ended_tasks = 20});
    scheduler->observe([&](const TaskEvent& event) {
      if (event.ends) ends += event.task_id.empty() ? 0 : 1;
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < rounds; ++i) {
          const std::string a = std::to_string(t) + "a" + std::to_string(i), b = a + "b";
          EXPECT_TRUE(scheduler->submit({.task_id = a, .keep = true}, nothing).ok());
          EXPECT_TRUE(scheduler->submit({.task_id = b, .deps = {a}}, nothing).ok());
          if (i % 3 == 0) (void)scheduler->cancel(a);
          if (i % 5 == 0) (void)scheduler->wait(b);
          (void)scheduler->wait(a);
          EXPECT_TRUE(scheduler->forget(a).ok());
          if (i % 50 == 0) (void)scheduler->forget_ended();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    scheduler->wait_all();
    scheduler->flush_events();
    EXPECT_LE(scheduler->report().size(), 20U);
    EXPECT_EQ(scheduler->stats().tasks, static_cast<std::uint64_t>(6 * rounds));
  }
  EXPECT_EQ(ends, static_cast<std::uint64_t>(6 * rounds));
}

// G-9: an engine forgets workflows with their tasks, on request and beyond its bound, whatever the bound of its
// scheduler; a report is complete although the scheduler keeps few tasks.
TEST_P(ForgetOn, Workflows) {
  const auto three = [](const std::string& name) {
    Workflow workflow{.name = name, .stages = {}};
    for (const char* id : {"a", "b", "c"}) workflow.stages.push_back({.id = id, .run = nothing});
    return workflow;
  };
  WorkflowEngine engine(scheduler_of(GetParam(), {.max_ended_tasks = 1}), {}, 2);
  std::vector<std::string> ids;
  for (int i = 0; i < 50; ++i) {
    const Result<std::string> id = engine.start_workflow(three("w"));
    ASSERT_TRUE(id.ok());
    ids.push_back(*id);
    const Result<WorkflowReport> report = engine.wait(*id);
    ASSERT_TRUE(report.ok());
    ASSERT_EQ(report->tasks.size(), 3U);
    for (const TaskInfo& task : report->tasks) EXPECT_EQ(task.attempts, 1U);
  }
  engine.scheduler().flush_events();  // The bound applies after the waiters are woken.
  EXPECT_EQ(engine.wait(ids[47]).code(), ErrorCode::kNotFound);
  EXPECT_TRUE(engine.wait(ids[48]).ok());
  EXPECT_EQ(engine.scheduler().report().size(), 6U);
  ASSERT_TRUE(engine.forget(ids[48]).ok());
  EXPECT_EQ(engine.forget(ids[48]).code(), ErrorCode::kNotFound);
  EXPECT_EQ(engine.progress(ids[48]).code(), ErrorCode::kNotFound);
  EXPECT_EQ(engine.scheduler().report().size(), 3U);
}

// G-9: a workflow that runs is not forgotten; its own callback may forget it, and waiting callers get the report.
TEST_P(ForgetOn, AWorkflowInItsOwnCallback) {
  WorkflowEngine engine(scheduler_of(GetParam()));
  std::atomic<bool> open{false};
  std::atomic<ErrorCode> forgotten{ErrorCode::kInternal};
  Workflow workflow{.name = "w", .stages = {}};
  workflow.stages.push_back({.id = "a", .run = [&](StageContext&) {
                               while (!open) fiber::yield();
                             }});
  const Result<std::string> id = engine.start_workflow(
      std::move(workflow), [&](const WorkflowReport& report) { forgotten = engine.forget(report.id).code(); });
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(engine.forget(*id).code(), ErrorCode::kFailedPrecondition);
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    waits = true;
    const Result<WorkflowReport> report = engine.wait(*id);
    EXPECT_TRUE(report.ok() ? report->tasks.size() == 1 : report.code() == ErrorCode::kNotFound);
  });
  while (!waits) std::this_thread::yield();
  open = true;
  waiter.join();
  engine.scheduler().flush_events();
  EXPECT_EQ(forgotten, ErrorCode::kOk);
  EXPECT_TRUE(engine.scheduler().report().empty());
}

// G-9: a user who has a task of a workflow forgotten by its name changes neither its end nor commands to the workflow.
TEST_P(ForgetOn, ATaskOfAWorkflow) {
  WorkflowEngine engine(scheduler_of(GetParam()));
  std::atomic<bool> open{false};
  Workflow workflow{.name = "w", .stages = {}};
  workflow.stages.push_back({.id = "a", .run = nothing});
  workflow.stages.push_back({.id = "b",
                             .run =
                                 [&](StageContext& c) {
                                   while (!open) {
                                     c.checkpoint();
                                     fiber::yield();
                                   }
                                 },
                             .deps = {"a"}});
  const Result<std::string> id = engine.start_workflow(std::move(workflow));
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(engine.scheduler().wait(*id + "/a").ok());
  ASSERT_TRUE(engine.scheduler().forget(*id + "/a").ok());
  EXPECT_TRUE(engine.pause(*id).ok());
  EXPECT_TRUE(engine.resume(*id).ok());
  open = true;
  const Result<WorkflowReport> report = engine.wait(*id);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->outcome, WorkflowOutcome::kSucceeded);
  EXPECT_EQ(report->tasks.front().state, TaskState::kSucceeded);
}

}  // namespace
}  // namespace rota::flow

// Workflows whose callbacks meddle, and that are cancelled, paused and forgotten from all sides (G-6, G-7, G-9).
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hostile.h"
#include "rota/flow.h"

namespace hostile {
namespace {

using namespace rota::flow;

std::vector<std::unique_ptr<IScheduler>> both_schedulers(std::size_t max_ended_tasks = 0) {
  std::vector<std::unique_ptr<IScheduler>> made;
  made.push_back(create_simple_scheduler({.max_ended_tasks = max_ended_tasks}).value());
  made.push_back(create_thread_pool_scheduler({.workers = 2, .max_ended_tasks = max_ended_tasks}).value());
  return made;
}

// Contract: G-9. A workflow that is cancelled while it ends, by two threads and by its own last stage, reports its end
// once, and wait() and the report agree.
TEST(Hostile, WorkflowsThatEndWhileTheyAreCancelled) {
  for (std::unique_ptr<IScheduler>& scheduler : both_schedulers()) {
    WorkflowEngine engine(std::move(scheduler));
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> ends{0};
      std::atomic<WorkflowOutcome> reported{WorkflowOutcome::kSucceeded};
      Workflow workflow{.name = "w", .stages = {}};
      workflow.stages.push_back({.id = "a", .run = [](StageContext&) {}});
      workflow.stages.push_back({.id = "b", .run = [](StageContext&) {}, .deps = {"a"}});
      const std::string id = engine
                                 .start_workflow(std::move(workflow),
                                                 [&](const WorkflowReport& report) {
                                                   reported = report.outcome;
                                                   ++ends;
                                                 })
                                 .value();
      std::thread first([&] { (void)engine.cancel(id); });
      std::thread second([&] { (void)engine.cancel(id); });
      const WorkflowReport report = engine.wait(id).value();
      first.join();
      second.join();
      engine.scheduler().flush_events();
      EXPECT_EQ(ends, 1);
      EXPECT_EQ(report.outcome, reported.load());
      EXPECT_NE(report.outcome, WorkflowOutcome::kFailed);
      EXPECT_TRUE(engine.forget(id).ok());
      EXPECT_FALSE(engine.wait(id).ok()) << "forgotten";
    }
  }
}

// Contract: G-9. The callback of one end throws, starts the next workflow, cancels and forgets its own; a thousand
// workflows in a row leave nothing behind.
TEST(Hostile, EndsThatStartTheNextWorkflow) {
  for (std::unique_ptr<IScheduler>& scheduler : both_schedulers()) {
    std::atomic<int> ends{0};
    std::atomic<bool> done{false};
    constexpr int kWorkflows = 1000;
    WorkflowEngine engine(std::move(scheduler), {}, 10);
    std::function<void(const WorkflowReport&)> on_end;
    const auto start = [&] {
      Workflow next{.name = "next", .stages = {}};
      next.stages.push_back({.id = "only", .run = [](StageContext&) {}});
      EXPECT_TRUE(engine.start_workflow(std::move(next), on_end).ok());
    };
    on_end = [&](const WorkflowReport& report) {
      (void)engine.cancel(report.id);  // It has ended: no effect.
      if (++ends < kWorkflows) {
        start();
      } else {
        done = true;
      }
      throw std::runtime_error("an observer that throws");
    };
    start();
    while (!done) std::this_thread::yield();
    engine.scheduler().wait_all();
    engine.scheduler().flush_events();
    EXPECT_EQ(ends, kWorkflows);
    EXPECT_LE(engine.scheduler().report().size(), 11U) << "ended workflows beyond the bound are forgotten";
  }
}

// Contract: G-6, G-7, G-9. Tasks are paused, resumed, cancelled, retried and forgotten by three threads while they run:
// each ends in a legal state, wait_all() returns, and afterwards everything can be forgotten.
TEST(Hostile, ControlFromAllSides) {
  for (std::unique_ptr<IScheduler>& scheduler : both_schedulers()) {
    constexpr int kTasks = 60;
    std::atomic<bool> stop{false};
    std::vector<std::thread> meddlers;
    for (int meddler = 0; meddler < 3; ++meddler) {
      meddlers.emplace_back([&, meddler] {
        for (int round = meddler; !stop; ++round) {
          const std::string id = "t" + std::to_string(round % kTasks);
          switch ((round / 7) % 4) {
            case 0:
              (void)scheduler->resume(id);
              break;
            case 1:
              (void)scheduler->cancel(id);
              break;
            case 2:
              (void)scheduler->forget(id);
              break;
            default:
              (void)scheduler->resume(id);
              (void)scheduler->info(id);
          }
          std::this_thread::yield();
        }
      });
    }
    for (int i = 0; i < kTasks; ++i) {
      TaskDescriptor task{.task_id = "t" + std::to_string(i)};
      // Without retries, so that a wait ends. The predecessor may be forgotten already: then the submit is refused.
      if (i % 3 != 0) task.deps = {"t" + std::to_string(i - 1)};
      (void)scheduler->submit(std::move(task), [i](StageContext& context) {
        context.checkpoint();
        if (i % 10 == 9) throw std::runtime_error("fails");
      });
    }
    scheduler->wait_all();
    stop = true;
    for (std::thread& meddler : meddlers) meddler.join();
    for (const TaskInfo& task : scheduler->report()) {
      EXPECT_TRUE(rota::graph::is_terminal(task.state)) << task.descriptor.task_id;
    }
    scheduler->forget_ended();
    EXPECT_TRUE(scheduler->report().empty());
  }
}

}  // namespace
}  // namespace hostile

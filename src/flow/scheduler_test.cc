// The schedulers through their interface; each test runs on all of them (G-1 to G-10).
#include "rota/flow/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rota/fiber.h"
#include "rota/flow.h"

namespace rota::flow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Which scheduler: 0 simple, n > 0 a pool of n threads, n < 0 a pool in deterministic mode with seed -n.
class SchedulerOn : public testing::TestWithParam<int> {
 protected:
  // Runs `body` with a scheduler; in deterministic mode inside its runtime.
  void with(SchedulerConfig config, const std::function<void(IScheduler&)>& body) {
    if (GetParam() == 0) {
      auto scheduler = create_simple_scheduler(config);
      ASSERT_TRUE(scheduler.ok()) << scheduler.error().to_string();
      body(**scheduler);
    } else if (GetParam() > 0) {
      config.workers = static_cast<std::uint32_t>(GetParam());
      auto scheduler = create_thread_pool_scheduler(config);
      ASSERT_TRUE(scheduler.ok()) << scheduler.error().to_string();
      body(**scheduler);
    } else {
      fiber::Config runtime_config;
      runtime_config.worker_count = 3;
      runtime_config.deterministic_seed = static_cast<std::uint64_t>(-GetParam());
      fiber::Runtime runtime(runtime_config);
      runtime.run([&] {
        auto scheduler = create_thread_pool_scheduler(config, nullptr, runtime);
        ASSERT_TRUE(scheduler.ok()) << scheduler.error().to_string();
        body(**scheduler);
      });
    }
  }
  void with(const std::function<void(IScheduler&)>& body) { with(SchedulerConfig{}, body); }
};
INSTANTIATE_TEST_SUITE_P(Kinds, SchedulerOn, testing::Values(0, 1, 2, 8, -1, -2), [](const auto& kind) {
  return kind.param == 0  ? std::string("Simple")
         : kind.param > 0 ? "Pool" + std::to_string(kind.param)
                          : "Seed" + std::to_string(-kind.param);
});

void nothing(StageContext& /*context*/) {}

// Lets other tasks run, and virtual time pass. A cancelled task cannot sleep.
void pause_a_moment() {
  if (!fiber::sleep_for(std::chrono::microseconds(100)).ok()) fiber::yield();
}

// A flag that a stage waits for, as a fiber or a thread, and any thread sets.
class Door {
 public:
  void open() { open_ = true; }
  void pass() const {
    while (!open_) pause_a_moment();
  }
  // Passes a checkpoint each time.
  void pass(StageContext& context) const {
    while (!open_) {
      context.checkpoint();
      pause_a_moment();
    }
  }

 private:
  std::atomic<bool> open_{false};
};

// Waits until a task is in a state, by whatever path.
void until(IScheduler& scheduler, std::string_view id, TaskState state) {
  while (*scheduler.state(id) != state) fiber::yield();
}

// G-1: submit, run, wait, and values from stage to stage, merged from all predecessors (G-8).
TEST_P(SchedulerOn, RunsAGraphAndHandsValuesOn) {
  with([](IScheduler& scheduler) {
    ASSERT_TRUE(scheduler
                    .submit({.task_id = "a"},
                            [](StageContext& c) {
                              c.output("number", 7);
                              c.output("text", "from a");
                              c.output("who", std::string("a"));
                            })
                    .ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "b"}, [](StageContext& c) { c.output("who", std::string("b")); }).ok());
    ASSERT_TRUE(scheduler
                    .submit({.task_id = "c", .trace_id = "trace-9", .deps = {"a", "b"}},
                            [](StageContext& c) -> Result<void> {
                              ROTA_TRY_ASSIGN(const int* number, c.input<int>("number"));
                              ROTA_TRY_ASSIGN(const std::string* text, c.input<std::string>("text"));
                              ROTA_TRY_ASSIGN(const std::string* who, c.input<std::string>("who"));
                              c.output("sum", std::to_string(*number) + " " + *text + " " + *who);
                              EXPECT_EQ(c.trace_id(), "trace-9");
                              EXPECT_EQ(c.task_id(), "c");
                              EXPECT_EQ(c.attempt(), 1U);
                              EXPECT_EQ(c.input<double>("number").code(), ErrorCode::kInvalidArgument);
                              EXPECT_EQ(c.input<int>("none").code(), ErrorCode::kNotFound);
                              return {};
                            })
                    .ok());
    ASSERT_TRUE(scheduler.wait("c").ok());
    EXPECT_EQ(**(*scheduler.outputs("c"))->get<std::string>("sum"), "7 from a b");  // The later dependency counts.
    EXPECT_EQ(*scheduler.state("a"), TaskState::kSucceeded);
    EXPECT_EQ(scheduler.wait("nobody").code(), ErrorCode::kNotFound);
    const TaskInfo info = *scheduler.info("c");
    EXPECT_EQ(info.attempts, 1U);
    EXPECT_GE(info.started, info.ready);
    EXPECT_GE(info.ended, info.started);
    EXPECT_EQ(info.descriptor.trace_id, "trace-9");
  });
}

// G-2: each kind of refusal leaves no trace; the corrected submission under the same id succeeds.
TEST_P(SchedulerOn, RefusesAndTakesTheCorrectedOne) {
  with({.budget = {.cpu_slots_hard = 2}}, [](IScheduler& scheduler) {
    ASSERT_TRUE(scheduler.submit({.task_id = "a"}, nothing).ok());
    EXPECT_EQ(scheduler.submit({.task_id = ""}, nothing).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(scheduler.submit({.task_id = "b"}, nullptr).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(scheduler.submit({.task_id = "b"}, std::function<void(StageContext&)>()).code(),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(scheduler.submit({.task_id = "a"}, nothing).code(), ErrorCode::kAlreadyExists);
    EXPECT_EQ(scheduler.submit({.task_id = "b", .deps = {"a", "x"}}, nothing).code(), ErrorCode::kNotFound);
    EXPECT_EQ(scheduler.submit({.task_id = "b", .deps = {"b"}}, nothing).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(scheduler.submit({.task_id = "b", .resource_demand = {.cpu_slots = 3}}, nothing).code(),
              ErrorCode::kCapacity);
    EXPECT_EQ(scheduler.state("b").code(), ErrorCode::kNotFound);
    std::vector<IScheduler::Submission> circle;
    circle.emplace_back(TaskDescriptor{.task_id = "b", .deps = {"c"}}, nothing);
    circle.emplace_back(TaskDescriptor{.task_id = "c", .deps = {"b"}}, nothing);
    Result<void> refused = scheduler.submit_all(circle);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().message, HasSubstr("cycle"));
    EXPECT_EQ(scheduler.stats().tasks, 1U);
    circle[0].first.deps = {"a"};
    EXPECT_TRUE(scheduler.submit_all(circle).ok());
    EXPECT_TRUE(scheduler.wait("c").ok());
  });
}

// G-3: a task that is paused while it is queued, and whose dependency completes meanwhile, runs after resume.
TEST_P(SchedulerOn, PausedWhileQueuedRunsAfterResume) {
  with([](IScheduler& scheduler) {
    Door door;
    ASSERT_TRUE(scheduler.submit({.task_id = "a"}, [&](StageContext&) { door.pass(); }).ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "b", .deps = {"a"}}, nothing).ok());
    ASSERT_TRUE(scheduler.pause("b").ok());
    EXPECT_EQ(scheduler.describe("b")->paused_from, TaskState::kQueued);
    door.open();
    ASSERT_TRUE(scheduler.wait("a").ok());
    EXPECT_EQ(*scheduler.state("b"), TaskState::kPaused);
    ASSERT_TRUE(scheduler.resume("b").ok());
    EXPECT_TRUE(scheduler.wait("b").ok());
  });
}

// G-4: with one slot, tasks run by priority, then in the order in which they became ready.
TEST_P(SchedulerOn, RunsByPriority) {
  with({.budget = {.cpu_slots_hard = 1}}, [](IScheduler& scheduler) {
    Door door;
    std::mutex mutex;
    std::vector<std::string> order;
    ASSERT_TRUE(scheduler.submit({.task_id = "first"}, [&](StageContext&) { door.pass(); }).ok());
    const auto note = [&](StageContext& context) {
      std::lock_guard lock(mutex);
      order.emplace_back(context.task_id());
    };
    ASSERT_TRUE(scheduler.submit({.task_id = "low", .priority = 1}, note).ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "high1", .priority = 5}, note).ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "high2", .priority = 5}, note).ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "middle", .priority = 3}, note).ok());
    door.open();
    scheduler.wait_all();
    EXPECT_THAT(order, ElementsAre("high1", "high2", "middle", "low"));
  });
}

// G-5: CPU slots are never exceeded; memory only by a task that runs alone.
TEST_P(SchedulerOn, KeepsToItsBudget) {
  with({.budget = {.cpu_slots_hard = 3, .ram_mb_soft = 100}}, [](IScheduler& scheduler) {
    std::atomic<std::uint32_t> slots{0}, ram{0}, running{0};
    std::atomic<bool> exceeded{false};
    for (std::uint32_t i = 0; i < 200; ++i) {
      const ResourceDemand demand{.cpu_slots = 1 + i % 3, .ram_mb = i % 7 == 0 ? 300U : 20 * (i % 4)};
      ASSERT_TRUE(scheduler
                      .submit({.task_id = "t" + std::to_string(i), .resource_demand = demand},
                              [&, demand](StageContext&) {
                                const std::uint32_t others = running.fetch_add(1);
                                const std::uint32_t held = slots.fetch_add(demand.cpu_slots) + demand.cpu_slots;
                                const auto mb = static_cast<std::uint32_t>(demand.ram_mb);
                                const std::uint32_t used = ram.fetch_add(mb) + mb;
                                if (held > 3 || (used > 100 && others > 0)) exceeded = true;
                                for (int k = 0; k < 3; ++k) fiber::yield();
                                ram -= mb;
                                slots -= demand.cpu_slots;
                                running -= 1;
                              })
                      .ok());
    }
    scheduler.wait_all();
    EXPECT_FALSE(exceeded);
    EXPECT_EQ(scheduler.stats().succeeded, 200U);
    EXPECT_EQ(scheduler.stats().cpu_slots_held, 0U);
  });
}

// G-6: a stage that throws fails only its descendants; the root cause is named; other tasks continue.
TEST_P(SchedulerOn, AFailureReachesItsDescendantsOnly) {
  with([](IScheduler& scheduler) {
    ASSERT_TRUE(scheduler.submit({.task_id = "a"}, [](StageContext&) { throw std::runtime_error("no paper"); }).ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "b", .deps = {"a"}}, nothing).ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "c", .deps = {"b"}}, nothing).ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "other"}, nothing).ok());
    ASSERT_TRUE(scheduler
                    .submit({.task_id = "refuses"},
                            [](StageContext&) -> Result<void> { return Error{ErrorCode::kNoSpace, "full"}; })
                    .ok());
    Result<void> end = scheduler.wait("a");
    ASSERT_FALSE(end.ok());
    EXPECT_THAT(end.error().message, HasSubstr("no paper"));
    end = scheduler.wait("c");
    ASSERT_EQ(end.code(), ErrorCode::kCancelled);
    EXPECT_EQ(*end.error().detail("root"), "a");
    EXPECT_THAT(end.error().message, HasSubstr("no paper"));
    EXPECT_TRUE(scheduler.wait("other").ok());
    EXPECT_EQ(scheduler.wait("refuses").code(), ErrorCode::kNoSpace);
    EXPECT_EQ(*scheduler.state("a"), TaskState::kFailed);
    EXPECT_EQ(*scheduler.state("c"), TaskState::kCancelled);
  });
}

// G-7: a running task pauses at its checkpoint and gives its worker and its slot to another; then it continues.
TEST_P(SchedulerOn, APausedTaskGivesItsWorkerAndSlotBack) {
  with({.budget = {.cpu_slots_hard = 1}}, [](IScheduler& scheduler) {
    Door door;
    ASSERT_TRUE(scheduler.submit({.task_id = "a"}, [&](StageContext& c) { door.pass(c); }).ok());
    until(scheduler, "a", TaskState::kRunning);
    ASSERT_TRUE(scheduler.pause("a").ok());
    EXPECT_EQ(*scheduler.state("a"), TaskState::kPaused);
    EXPECT_EQ(scheduler.describe("a")->paused_from, TaskState::kRunning);
    EXPECT_EQ(scheduler.stats().cpu_slots_held, 0U);
    EXPECT_TRUE(scheduler.pause("a").ok());  // Again: it is.
    ASSERT_TRUE(scheduler.submit({.task_id = "b"}, nothing).ok());
    ASSERT_TRUE(scheduler.wait("b").ok());
    ASSERT_TRUE(scheduler.resume("a").ok());
    door.open();
    EXPECT_TRUE(scheduler.wait("a").ok());
    EXPECT_EQ(scheduler.info("a")->attempts, 1U);
    EXPECT_EQ(scheduler.pause("a").code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(scheduler.resume("a").code(), ErrorCode::kFailedPrecondition);
  });
}

// G-7: no checkpoint within the timeout: pause returns the timeout, the task is cancelled, its successors too.
TEST_P(SchedulerOn, NoCheckpointInTimeIsATimeout) {
  with({.pause = {.timeout_ms = 20}}, [](IScheduler& scheduler) {
    Door door;
    ASSERT_TRUE(scheduler.submit({.task_id = "a"}, [&](StageContext&) { door.pass(); }).ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "b", .deps = {"a"}}, nothing).ok());
    until(scheduler, "a", TaskState::kRunning);
    EXPECT_EQ(scheduler.pause("a").code(), ErrorCode::kTimeout);
    EXPECT_EQ(*scheduler.state("b"), TaskState::kCancelled);
    door.open();
    EXPECT_EQ(scheduler.wait("a").code(), ErrorCode::kTimeout);
    EXPECT_EQ(*scheduler.state("a"), TaskState::kCancelled);
  });
}

// G-7: cancelling one of three siblings leaves the others; cancelling again succeeds; its descendants are cancelled.
TEST_P(SchedulerOn, CancelIsForOneTask) {
  with({.budget = {.cpu_slots_hard = 1}}, [](IScheduler& scheduler) {
    Door door;
    ASSERT_TRUE(scheduler.submit({.task_id = "root"}, [&](StageContext&) { door.pass(); }).ok());
    for (const char* id : {"s1", "s2", "s3"}) {
      ASSERT_TRUE(scheduler.submit({.task_id = id, .deps = {"root"}}, nothing).ok());
    }
    ASSERT_TRUE(scheduler.submit({.task_id = "below", .deps = {"s2"}}, nothing).ok());
    EXPECT_TRUE(scheduler.cancel("s2").ok());
    EXPECT_TRUE(scheduler.cancel("s2").ok());
    door.open();
    scheduler.wait_all();
    EXPECT_EQ(*scheduler.state("s1"), TaskState::kSucceeded);
    EXPECT_EQ(*scheduler.state("s2"), TaskState::kCancelled);
    EXPECT_EQ(*scheduler.state("s3"), TaskState::kSucceeded);
    EXPECT_EQ(*scheduler.state("below"), TaskState::kCancelled);
    EXPECT_EQ(scheduler.cancel("root").code(), ErrorCode::kFailedPrecondition);
  });
}

// G-7: a running stage learns of its cancellation at its checkpoint and by its token; a paused one unwinds.
TEST_P(SchedulerOn, CancelReachesARunningAndAPausedStage) {
  with([](IScheduler& scheduler) {
    std::atomic<int> unwound{0};
    struct Count {
      std::atomic<int>& n;
      ~Count() { n += 1; }
    };
    std::atomic<bool> called{false}, inside{false};
    ASSERT_TRUE(scheduler
                    .submit({.task_id = "a"},
                            [&](StageContext& c) {
                              Count count{unwound};
                              c.cancel_token().on_cancel([&] { called = true; });
                              inside = true;
                              for (;;) {
                                c.progress(0.5);
                                fiber::yield();
                              }
                            })
                    .ok());
    while (!inside) fiber::yield();
    EXPECT_TRUE(scheduler.cancel("a").ok());
    EXPECT_EQ(scheduler.wait("a").code(), ErrorCode::kCancelled);
    EXPECT_EQ(unwound, 1);
    ASSERT_TRUE(scheduler
                    .submit({.task_id = "b"},
                            [&](StageContext& c) {
                              Count count{unwound};
                              for (;;) {
                                c.checkpoint();
                                fiber::yield();
                              }
                            })
                    .ok());
    until(scheduler, "b", TaskState::kRunning);
    ASSERT_TRUE(scheduler.pause("b").ok());
    EXPECT_TRUE(scheduler.cancel("b").ok());
    EXPECT_EQ(scheduler.wait("b").code(), ErrorCode::kCancelled);
    EXPECT_EQ(unwound, 2);
    EXPECT_TRUE(called);
  });
}

// G-7: a wait of a stage's fiber in the pool is interrupted.
TEST_P(SchedulerOn, CancelInterruptsAWaitingStage) {
  if (GetParam() == 0) GTEST_SKIP() << "a stage of the simple scheduler blocks its thread";
  with([](IScheduler& scheduler) {
    std::atomic<bool> started{false};
    ASSERT_TRUE(scheduler
                    .submit({.task_id = "a"},
                            [&](StageContext&) -> Result<void> {
                              started = true;
                              return fiber::sleep_for(std::chrono::hours(24));
                            })
                    .ok());
    while (!started) fiber::yield();
    EXPECT_TRUE(scheduler.cancel("a").ok());
    EXPECT_EQ(scheduler.wait("a").code(), ErrorCode::kCancelled);
    // The fiber that ran it runs other tasks afterwards: they are not cancelled.
    for (int i = 0; i < 20; ++i) {
      const std::string id = "after" + std::to_string(i);
      ASSERT_TRUE(
          scheduler
              .submit({.task_id = id},
                      [](StageContext&) -> Result<void> { return fiber::sleep_for(std::chrono::microseconds(1)); })
              .ok());
      EXPECT_TRUE(scheduler.wait(id).ok());
    }
  });
}

// G-8: attempts are counted, the backoff passes between them, and a retry by hand revives the tasks cancelled for it.
TEST_P(SchedulerOn, Retries) {
  with([](IScheduler& scheduler) {
    std::atomic<std::uint32_t> runs{0};
    const auto flaky = [&](StageContext& c) {
      runs += 1;
      EXPECT_EQ(c.attempt(), runs);
      if (runs < 3) throw std::runtime_error("not yet");
      if (runs == 4) throw std::runtime_error("again");
    };
    ASSERT_TRUE(scheduler.submit({.task_id = "a", .retry = {.max_attempts = 3, .backoff_ms = 1}}, flaky).ok());
    EXPECT_TRUE(scheduler.wait("a").ok());
    EXPECT_EQ(runs, 3U);
    EXPECT_EQ(scheduler.retry("a").code(), ErrorCode::kFailedPrecondition);
    std::atomic<bool> works{false};
    ASSERT_TRUE(scheduler
                    .submit({.task_id = "b"},
                            [&](StageContext&) {
                              if (!works) throw std::runtime_error("broken");
                            })
                    .ok());
    ASSERT_TRUE(scheduler.submit({.task_id = "c", .deps = {"b"}}, nothing).ok());
    EXPECT_FALSE(scheduler.wait("c").ok());
    works = true;
    ASSERT_TRUE(scheduler.retry("b").ok());
    EXPECT_TRUE(scheduler.wait("c").ok());
    EXPECT_EQ(scheduler.info("b")->attempts, 2U);
  });
}

// Destroying a scheduler cancels the tasks that have not run, and waits for those that run, paused or not.
TEST_P(SchedulerOn, DestructionLeavesNothingBehind) {
  std::atomic<int> inside{0};
  with([&](IScheduler& scheduler) {
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(scheduler
                      .submit({.task_id = std::to_string(i)},
                              [&](StageContext& c) {
                                inside += 1;
                                struct Leave {
                                  std::atomic<int>& n;
                                  ~Leave() { n -= 1; }
                                } leave{inside};
                                for (;;) {
                                  c.checkpoint();
                                  fiber::yield();
                                }
                              })
                      .ok());
    }
    until(scheduler, "0", TaskState::kRunning);
    ASSERT_TRUE(scheduler.pause("0").ok());
  });
  EXPECT_EQ(inside, 0);
}

// G-8: events come in order, one at a time, each change once, and progress with its note.
TEST_P(SchedulerOn, ObserversSeeEveryChangeInOrder) {
  with([](IScheduler& scheduler) {
    std::map<std::string, std::vector<std::string>, std::less<>> seen;
    std::atomic<int> at_once{0};
    scheduler.observe([&](const TaskEvent& event) {
      EXPECT_EQ(at_once.fetch_add(1), 0);
      seen[std::string(event.task_id)].push_back(
          event.from == event.to ? event.note + " " + std::to_string(static_cast<int>(event.progress * 100))
                                 : std::string(graph::to_string(event.to)));
      at_once -= 1;
    });
    for (int i = 0; i < 50; ++i) {
      const std::string id = std::to_string(i);
      ASSERT_TRUE(
          scheduler
              .submit({.task_id = id,
                       .deps = i == 0 ? std::vector<std::string>{} : std::vector<std::string>{std::to_string(i / 2)}},
                      [](StageContext& c) { c.progress(0.25, "quarter"); })
              .ok());
    }
    scheduler.wait_all();
    EXPECT_EQ(scheduler.stats().succeeded, 50U);
    scheduler.flush_events();
    ASSERT_EQ(seen.size(), 50U);
    for (const auto& [id, events] : seen) {
      EXPECT_THAT(events, ElementsAre("Ready", "Running", "quarter 25", "Succeeded")) << id;
    }
  });
}

}  // namespace
}  // namespace rota::flow

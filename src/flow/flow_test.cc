// Flow: every task runs once, after its predecessors, with their values (G-3, G-6), on the fast path and in the ready
// order (G-4, G-5).
#include "rota/flow/flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/prng.h"
#include "rota/fiber.h"

namespace rota::flow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Flow, HandsResultsOn) {
  Flow flow;
  auto seven = flow.task([] { return 7; });
  auto text = flow.task([] { return std::string("seven"); });
  auto both = flow.task([](int n, const std::string& s) { return s + "=" + std::to_string(n); }, seven, text);
  std::vector<std::string> log;
  auto after = flow.task([&] { log.push_back("after"); });
  auto printed = flow.task([&](const std::string& s) { log.push_back(s); }, both);
  printed.precede(after);
  for (int run = 0; run < 3; ++run) {
    log.clear();
    Result<void> end = flow.run();
    ASSERT_TRUE(end.ok()) << end.error().to_string();
    EXPECT_EQ(both.result(), "seven=7");
    EXPECT_THAT(log, ElementsAre("seven=7", "after"));
    EXPECT_EQ(flow.counts().succeeded, 5U);
  }
}

TEST(Flow, AnEmptyFlowEnds) {
  Flow flow;
  EXPECT_TRUE(flow.run().ok());
}

// G-2: a cycle is refused by name, and nothing has run.
TEST(Flow, RefusesACycle) {
  Flow flow;
  bool ran = false;
  auto a = flow.task([&] { ran = true; }).name("a");
  auto b = flow.task([] {}).name("b");
  auto c = flow.task([] {}).name("c");
  auto behind = flow.task([] {}).name("behind");
  a.precede(b);
  b.precede(c);
  c.precede(b, behind);
  Result<void> end = flow.run();
  ASSERT_EQ(end.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(end.error().message, HasSubstr("'b' -> 'c'"));
  EXPECT_THAT(end.error().message, testing::Not(HasSubstr("behind")));
  EXPECT_FALSE(ran);
}

// G-6: a task that throws fails only its descendants; the others run.
TEST(Flow, AFailureReachesItsDescendantsOnly) {
  for (const bool ordered : {false, true}) {
    Flow flow;
    std::atomic<int> ran{0};
    auto bad = flow.task([]() -> int { throw std::runtime_error("no paper"); }).name("bad");
    auto behind = flow.task([&](int) { ran += 100; }, bad);
    auto last = flow.task([&] { ran += 100; });
    behind.precede(last);
    auto good = flow.task([&] { ran += 1; });
    auto also = flow.task([&] { ran += 1; });
    good.precede(also, last);
    if (ordered) good.priority(1);
    Result<void> end = flow.run();
    ASSERT_FALSE(end.ok());
    EXPECT_THAT(end.error().message, HasSubstr("bad: no paper"));
    EXPECT_EQ(*end.error().detail("task"), "bad");
    EXPECT_EQ(ran, 2);
    EXPECT_EQ(flow.counts().failed, 1U);
    EXPECT_EQ(flow.counts().skipped, 2U);
    EXPECT_EQ(flow.counts().succeeded, 2U);
    EXPECT_FALSE(bad.has_result());
  }
}

// Each task runs once, after all its predecessors; on one and many workers, on the fast path and in the ready order,
// and in deterministic mode. Some tasks wait.
void run_random(std::uint64_t seed, fiber::Runtime& runtime, bool ordered) {
  Prng random(seed);
  Flow flow;
  const std::size_t count = 1 + random.below(200);
  std::vector<std::vector<std::size_t>> before(count);
  std::vector<std::atomic<int>> runs(count);
  std::atomic<int> early{0};
  std::vector<FlowTask<void>> tasks;
  for (std::size_t i = 0; i < count; ++i) {
    tasks.push_back(flow.task([&, i, waits = random.chance(1, 8)] {
      for (const std::size_t j : before[i]) early += runs[j] == 1 ? 0 : 1;
      if (waits) (void)fiber::sleep_for(std::chrono::microseconds(10));
      runs[i] += 1;
    }));
    if (ordered && random.chance(1, 2)) tasks[i].priority(static_cast<std::int32_t>(random.below(5)));
    for (std::uint64_t k = i == 0 ? 0 : random.below(4); k > 0; --k) {
      before[i].push_back(random.below(i));
      tasks[before[i].back()].precede(tasks[i]);
    }
  }
  for (int round = 1; round <= 2; ++round) {
    ASSERT_TRUE(flow.run(runtime).ok());
    EXPECT_EQ(early, 0);
    for (std::atomic<int>& n : runs) ASSERT_EQ(n.exchange(0), 1);
  }
}

// G-3: random graphs on real workers.
TEST(Flow, RunsEachTaskOnceAfterItsPredecessors) {
  for (const std::size_t workers : {1U, 2U, 8U}) {
    fiber::Runtime runtime({.worker_count = workers});
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      ASSERT_NO_FATAL_FAILURE(run_random(seed, runtime, seed % 2 == 0)) << "seed " << seed;
    }
  }
}

// G-3: random graphs in deterministic mode.
TEST(Flow, RunsInDeterministicMode) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    fiber::Config config;
    config.worker_count = 1 + seed % 3;
    config.deterministic_seed = seed;
    fiber::Runtime runtime(config);
    ASSERT_NO_FATAL_FAILURE(run_random(seed, runtime, seed % 2 == 0)) << "seed " << seed;
  }
}

// A task that waits for another one of the same flow must not keep it from running, even on one worker.
TEST(Flow, ATaskMayWaitForItsSibling) {
  for (const std::size_t workers : {1U, 2U}) {
    fiber::Runtime runtime({.worker_count = workers});
    Flow flow;
    std::atomic<bool> told{false};
    auto root = flow.task([] {});
    std::vector<FlowTask<void>> waiting;
    for (int i = 0; i < 10; ++i) {
      waiting.push_back(flow.task([&] {
        while (!told) (void)fiber::sleep_for(std::chrono::microseconds(10));
      }));
      root.precede(waiting.back());
    }
    root.precede(flow.task([&] { told = true; }));
    EXPECT_TRUE(flow.run(runtime).ok());
  }
}

// G-4: one slot, so that the order of the ready tasks is visible.
TEST(Flow, PrioritiesOrderWhatIsReady) {
  Flow flow;
  std::vector<int> order;
  auto root = flow.task([] {});
  for (const int priority : {1, 5, 3, 5, 2}) {
    auto task = flow.task([&order, priority] { order.push_back(priority); }).priority(priority);
    root.precede(task);
  }
  flow.limits({.cpu_slots_hard = 1});
  ASSERT_TRUE(flow.run().ok());
  EXPECT_THAT(order, ElementsAre(5, 5, 3, 2, 1));
}

// G-5: demands are respected; a demand that could never be met is refused before anything runs.
TEST(Flow, DemandsAreKeptTo) {
  fiber::Runtime runtime({.worker_count = 4});
  Flow flow;
  std::atomic<std::uint32_t> ram{0}, running{0};
  std::atomic<bool> exceeded{false};
  for (std::uint32_t i = 0; i < 300; ++i) {
    const std::uint32_t mb = i % 11 == 0 ? 500 : 10 * (i % 6);
    flow.task([&, mb] {
          const std::uint32_t others = running++;
          if (ram.fetch_add(mb) + mb > 100 && others > 0) exceeded = true;
          fiber::yield();
          ram -= mb;
          running -= 1;
        })
        .demand({.cpu_slots = 1 + i % 2, .ram_mb = mb});
  }
  flow.limits({.cpu_slots_hard = 4, .ram_mb_soft = 100});
  ASSERT_TRUE(flow.run(runtime).ok());
  EXPECT_FALSE(exceeded);
  flow.task([] {}).name("wide").demand({.cpu_slots = 5});
  Result<void> end = flow.run(runtime);
  ASSERT_EQ(end.code(), ErrorCode::kCapacity);
  EXPECT_THAT(end.error().message, HasSubstr("wide"));
}

// Run from inside a task of the runtime, and cancelled there.
TEST(Flow, RunsInsideATaskAndIsCancelledWithIt) {
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    Flow flow;
    int n = 0;
    flow.task([&] { n = 1; });
    EXPECT_TRUE(flow.run(runtime).ok());
    EXPECT_EQ(n, 1);
    Flow endless;
    std::atomic<bool> last_ran{false};
    auto sleeper = endless.task([] { (void)fiber::sleep_for(std::chrono::hours(24)); });
    sleeper.precede(endless.task([&] { last_ran = true; }));
    const auto in_time = fiber::with_deadline(std::chrono::milliseconds(5), [&](fiber::Nursery&) {
      EXPECT_EQ(endless.run(runtime).code(), ErrorCode::kCancelled);
    });
    EXPECT_FALSE(in_time);
    EXPECT_FALSE(last_ran);
  });
}

// The deadline has passed before the flow's first task asks, so no nursery of the flow is marked as cancelled; and the
// task ignores what sleep_for() says. The successors do not run all the same, and the flow reports the cancellation.
TEST(Flow, ACancellationThatTasksIgnoreIsReported) {
  for (const std::uint32_t workers : {1U, 2U}) {
    for (const bool ordered : {false, true}) {
      fiber::Runtime runtime({.worker_count = workers});
      runtime.run([&] {
        Flow flow;
        std::atomic<bool> second_ran{false};
        auto first = flow.task([] {
          while (!fiber::is_cancelled()) {
          }
        });
        if (ordered) first.priority(1);
        first.precede(flow.task([&] { second_ran = true; }));
        const auto in_time = fiber::with_deadline(std::chrono::milliseconds(1), [&](fiber::Nursery&) {
          EXPECT_EQ(flow.run(runtime).code(), ErrorCode::kCancelled);
        });
        EXPECT_FALSE(in_time);
        EXPECT_FALSE(second_ran);
      });
    }
  }
}

// Functions and results that own memory are destroyed, after any number of runs and without one.
TEST(Flow, DestroysWhatItHolds) {
  auto shared = std::make_shared<int>(1);
  {
    Flow flow;
    auto a = flow.task([shared] { return shared; });
    flow.task([](const std::shared_ptr<int>& p) { return std::vector<std::shared_ptr<int>>(100, p); }, a);
    EXPECT_TRUE(flow.run().ok());
    EXPECT_TRUE(flow.run().ok());
    EXPECT_EQ(shared.use_count(), 1 + 1 + 1 + 100);
  }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(Flow, DrawsItself) {
  Flow flow;
  auto a = flow.task([] {}).name("say \"a\"");
  a.precede(flow.task([] {}));
  EXPECT_EQ(flow.graphviz(),
            "digraph flow {\n  n0 [label=\"say \\\"a\\\"\"];\n  n1 [label=\"task 1\"];\n  n0 -> n1;\n}\n");
  EXPECT_EQ(flow.mermaid(), "flowchart LR\n  n0[\"say #quot;a#quot;\"]\n  n1[\"task 1\"]\n  n0 --> n1\n");
}

// A long chain and a wide fan: nothing recurses, nothing is quadratic.
TEST(Flow, LongChainsAndWideFans) {
  fiber::Runtime runtime({.worker_count = 2});
  Flow chain;
  std::uint64_t steps = 0;
  FlowTask<void> last = chain.task([&] { ++steps; });
  for (int i = 1; i < 300'000; ++i) {
    auto next = chain.task([&] { ++steps; });
    last.precede(next);
    last = next;
  }
  ASSERT_TRUE(chain.run(runtime).ok());
  EXPECT_EQ(steps, 300'000U);
  Flow fan;
  std::atomic<std::uint64_t> ran{0};
  auto first = fan.task([] {});
  auto end = fan.task([] {});
  for (int i = 0; i < 100'000; ++i) {
    auto task = fan.task([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    first.precede(task);
    task.precede(end);
  }
  ASSERT_TRUE(fan.run(runtime).ok());
  EXPECT_EQ(ran, 100'000U);
}

}  // namespace
}  // namespace rota::flow

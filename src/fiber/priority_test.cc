// Priorities, tenancy, and who may steal from whom (F-18).
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fiber/io_testing.h"
#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

constexpr Grant of(Priority priority) { return {.priority = priority}; }
const Grant kHigh = of(Priority::kHigh);
const Grant kNormal = of(Priority::kNormal);
const Grant kLow = of(Priority::kLow);

// Contract: F-18. With one thread worker, ready tasks run in the order of their priorities, whatever the order in which
// they were spawned, in every profile that spawns.
TEST(Priorities, DecideWhatRunsNext) {
  for (const Profile profile : {Profile::kOpen, Profile::kService}) {
    Runtime runtime({.worker_count = 1, .profile = profile});
    std::string order;
    runtime.run([&order] {
      with_scope([&order](Nursery& scope) {
        for (int i = 0; i < 5; ++i) {
          scope.launch(kLow, [&order] { order += 'l'; });
          scope.launch([&order] { order += 'n'; });
          scope.launch(kHigh, [&order] { order += 'h'; });
          scope.launch(kNormal, [&order] { order += 'n'; });
        }
      });
    });
    EXPECT_EQ(order, "hhhhhnnnnnnnnnnlllll");
  }
}

// Contract: F-18. The same for tasks from outside, which wait in the global queue while the thread worker is busy.
TEST(Priorities, HoldForTasksFromOutside) {
  Runtime runtime({.worker_count = 1});
  std::string order;
  std::atomic<bool> started{false};
  std::atomic<bool> go{false};
  Task<void> busy = runtime.spawn([&] {
    started = true;
    while (!go.load()) std::this_thread::yield();
  });
  while (!started.load()) std::this_thread::yield();
  std::vector<Task<void>> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(runtime.spawn(kLow, [&order] { order += 'l'; }));
    tasks.push_back(runtime.spawn([&order] { order += 'n'; }));
    tasks.push_back(runtime.spawn(kHigh, [&order] { order += 'h'; }));
  }
  EXPECT_EQ(tasks[0].priority(), Priority::kLow);
  EXPECT_EQ(tasks[1].priority(), Priority::kNormal);
  EXPECT_EQ(tasks[2].priority(), Priority::kHigh);
  go = true;
  for (Task<void>& task : tasks) task.get();
  EXPECT_EQ(order, "hhhnnnlll");
}

// Contract: F-18, F-17. The bound of the global queue holds for prioritised tasks as well.
TEST(Priorities, DoNotEvadeTheBoundOfTheGlobalQueue) {
  Runtime runtime({.worker_count = 1, .global_queue_size = 4});
  std::atomic<bool> started{false};
  std::atomic<bool> go{false};
  Task<void> busy = runtime.spawn([&] {
    started = true;
    while (!go.load()) std::this_thread::yield();
  });
  while (!started.load()) std::this_thread::yield();
  std::vector<Task<void>> tasks;
  for (int i = 0; i < 4; ++i) tasks.push_back(runtime.spawn(i % 2 == 0 ? kLow : kHigh, [] {}));
  EXPECT_EQ(runtime.try_spawn([] {}).code(), ErrorCode::kQueueFull);
  go = true;
  for (Task<void>& task : tasks) task.get();
  runtime.run([] {});
}

// Contract: F-18. A task keeps its priority when it waits and is woken, and when it yields.
TEST(Priorities, HoldAfterAWaitAndAYield) {
  Runtime runtime({.worker_count = 1});
  std::string order;
  runtime.run([&order] {
    Event go;
    WaitGroup started(3);
    with_scope([&](Nursery& scope) {
      for (const Priority priority : {Priority::kLow, Priority::kNormal, Priority::kHigh}) {
        scope.launch(of(priority), [&go, &started, &order, priority] {
          EXPECT_EQ(current_priority(), priority);
          started.done();
          go.wait();
          order += to_string(priority)[0];
          yield();
          order += to_string(priority)[0];
        });
      }
      started.wait();  // On one thread worker the last one to arrive waits for `go` before this continues.
      go.set();
    });
  });
  EXPECT_EQ(order, "HHNNLL");
}

// Contract: F-18. A child has its parent's priority unless it is given another.
TEST(Priorities, AreInherited) {
  in_all_modes([] {
    with_scope([](Nursery& scope) {
      Task<void> parent = scope.spawn(kLow, [] {
        with_scope([](Nursery& inner) {
          Task<Priority> child = inner.spawn([] { return current_priority(); });
          EXPECT_EQ(child.priority(), Priority::kLow);
          EXPECT_EQ(child.get(), Priority::kLow);
          EXPECT_EQ(inner.spawn(kNormal, [] { return current_priority(); }).get(), Priority::kNormal);
          const auto [a, b] = both([] { return 1; }, [] { return 2; });
          EXPECT_EQ(a + b, 3);
        });
      });
      parent.get();
    });
  });
}

// Contract: F-18. Low ones do not starve while normal ones never run out, and a high one that yields while it waits for
// a normal one does not wait forever.
TEST(Priorities, StarveNobody) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    std::atomic<bool> low_ran{false};
    std::atomic<bool> normal_ran{false};
    with_scope([&](Nursery& scope) {
      scope.launch(kLow, [&low_ran] { low_ran = true; });
      for (int i = 0; i < 2; ++i) {
        scope.launch([&low_ran] {
          while (!low_ran.load()) yield();
        });
      }
    });
    with_scope([&](Nursery& scope) {
      scope.launch(kHigh, [&normal_ran] {
        while (!normal_ran.load()) yield();
      });
      scope.launch([&normal_ran] { normal_ran = true; });
    });
  });
}

// Contract: F-18. In deterministic mode the queues respect priorities as well, and the order depends only on the seed.
TEST(Priorities, InDeterministicMode) {
  const auto run = [](std::uint64_t seed) {
    Runtime runtime({.worker_count = 3, .deterministic_seed = seed});
    std::string order;
    runtime.run([&order] {
      with_scope([&order](Nursery& scope) {
        for (int i = 0; i < 4; ++i) {
          scope.launch(kLow, [&order] { order += 'l'; });
          scope.launch(kHigh, [&order] { order += 'h'; });
        }
      });
    });
    return std::pair(order, runtime.event_hash());
  };
  int in_order = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(run(seed), run(seed));
    in_order += run(seed).first == "hhhhllll" ? 1 : 0;
  }
  EXPECT_GE(in_order, 10) << "except where fairness lets a low one pass";
}

// Contract: F-18. Prioritised tasks on several thread workers are all run, exactly once, while workers sleep and wake.
TEST(Priorities, NoneIsLostOnSeveralThreadWorkers) {
  Runtime runtime({.worker_count = 4});
  std::atomic<int> ran{0};
  constexpr int kRounds = ROTA_TSAN ? 50 : 500;
  for (int round = 0; round < kRounds; ++round) {
    runtime.run([&ran] {
      with_scope([&ran](Nursery& scope) {
        for (int i = 0; i < 6; ++i) {
          scope.launch(i % 3 == 0   ? kHigh
                       : i % 3 == 1 ? kLow
                                    : kNormal,
                       [&ran] {
                         (void)sleep_for(10us);
                         ran.fetch_add(1);
                       });
        }
      });
    });
  }
  EXPECT_EQ(ran.load(), kRounds * 6);
}

// Contract: F-18. Every task has the tenancy CPU_Parallel.
TEST(Tenancies, AreCpuParallel) {
  Runtime runtime({.worker_count = 1});
  Task<void> task = runtime.spawn([] {});
  EXPECT_EQ(task.tenancy(), Tenancy::kCpuParallel);
  EXPECT_EQ(to_string(task.tenancy()), "CPU_Parallel");
  task.get();
}

// --------------------------------------------------------------------------------------------------------- stealing

// Runs tasks that can only all make progress on different thread workers, if each steals: each spins until all have
// arrived.
void meet_everywhere(Runtime& runtime, std::size_t workers) {
  runtime.run([workers] {
    std::atomic<std::size_t> arrived{0};
    with_scope([&](Nursery& scope) {
      for (std::size_t i = 0; i < workers; ++i) {
        scope.launch([&arrived, workers] {
          arrived.fetch_add(1);
          while (arrived.load() < workers) std::this_thread::yield();
        });
      }
    });
  });
}

// Contract: F-18. Each strategy steals at every worker count from 2 upwards, again and again: also after attempts that
// failed, which happen between the rounds.
TEST(Stealing, EveryStrategyAtEveryWorkerCount) {
  for (const VictimStrategy victims :
       {VictimStrategy::kRandom, VictimStrategy::kRoundRobin, VictimStrategy::kMostLoaded}) {
    for (const std::size_t workers : {2U, 3U, 4U, 5U, 7U}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(victims)) + ", " + std::to_string(workers));
      Runtime runtime({.worker_count = workers, .victims = victims});
      for (int round = 0; round < 10; ++round) meet_everywhere(runtime, workers);
      EXPECT_GE(runtime.stats().sum.steals, 10 * (workers - 1));
    }
  }
}

// Contract: F-18, F-28. Deterministic mode uses the configured strategy: round robin and most loaded choose different
// victims, and each steals.
TEST(Stealing, DeterministicModeUsesTheStrategy) {
  const auto run = [](VictimStrategy victims) {
    Runtime runtime({.worker_count = 4, .victims = victims, .deterministic_seed = 5});
    runtime.run([] {
      with_scope([](Nursery& scope) {
        for (int i = 0; i < 40; ++i) {
          scope.launch([] {
            with_scope([](Nursery& inner) {
              for (int j = 0; j < 5; ++j) inner.launch([] { yield(); });
            });
          });
        }
      });
    });
    EXPECT_GT(runtime.stats().sum.steals, 0U);
    return runtime.event_hash();
  };
  const std::uint64_t random = run(VictimStrategy::kRandom);
  const std::uint64_t round_robin = run(VictimStrategy::kRoundRobin);
  const std::uint64_t most_loaded = run(VictimStrategy::kMostLoaded);
  EXPECT_NE(random, round_robin);
  EXPECT_NE(round_robin, most_loaded);
  EXPECT_EQ(round_robin, run(VictimStrategy::kRoundRobin));
}

// Contract: F-18. Stealing can be turned off for one thread worker, or all, while the runtime runs, and on again.
TEST(Stealing, CanBeSwitchedWhileItRuns) {
  Runtime runtime({.worker_count = 3});
  meet_everywhere(runtime, 3);
  ASSERT_TRUE(runtime.set_stealing(false).ok());
  const auto steals = [&runtime] { return runtime.stats().sum.steals; };
  testing::until_all_sleep(runtime);  // One that still searches may have looked at the switch before.
  const std::uint64_t before = steals();
  runtime.run([] {
    with_scope([](Nursery& scope) {
      for (int i = 0; i < 200; ++i) scope.launch([] { yield(); });
    });
  });
  EXPECT_EQ(steals(), before);
  // One thread worker may: what the others have is found by it, although all of them are woken.
  for (std::size_t thief = 0; thief < 3; ++thief) {
    ASSERT_TRUE(runtime.set_stealing(thief, true).ok());
    const std::uint64_t own = runtime.stats().workers[thief].steals;
    // The task that waits runs on some thread worker. Unless that is the thief, the thief must steal its child.
    for (int round = 0; round < 50 && runtime.stats().workers[thief].steals == own; ++round) {
      const std::uint64_t here = runtime.run([&runtime, thief] {
        std::atomic<bool> ran{false};
        Nursery scope;
        Task<void> child = scope.spawn([&ran] { ran = true; });
        const std::size_t index = detail::current_worker()->index;
        while (index != thief && !ran.load()) std::this_thread::yield();
        child.wait();
        (void)scope.close();
        (void)runtime;
        return static_cast<std::uint64_t>(index);
      });
      EXPECT_TRUE(here == thief || runtime.stats().workers[thief].steals > own);
    }
    ASSERT_TRUE(runtime.set_stealing(thief, false).ok());
  }
  ASSERT_TRUE(runtime.set_stealing(true).ok());
  meet_everywhere(runtime, 3);
  EXPECT_EQ(runtime.set_stealing(3, true).code(), ErrorCode::kInvalidArgument);
  Runtime never({.worker_count = 2, .enable_stealing = false});
  EXPECT_EQ(never.set_stealing(true).code(), ErrorCode::kFailedPrecondition);
}

}  // namespace
}  // namespace rota::fiber

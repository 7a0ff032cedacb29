// Workers: queues, stealing, parking, configuration, counters (F-17 to F-19, F-21).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rota/fiber.h"
#include "rota/fiber/detail/deque.h"

namespace rota::fiber {
namespace {

using std::chrono::milliseconds;

// Contract: F-17. The owner's end is LIFO, the thieves' FIFO; it grows past its first size and loses nothing.
TEST(Deque, LifoForTheOwnerFifoForThieves) {
  detail::Deque<std::uintptr_t> deque(4);
  EXPECT_EQ(deque.pop(), 0U);
  EXPECT_EQ(deque.steal().item, 0U);
  for (std::uintptr_t i = 1; i <= 1000; ++i) deque.push(i);
  EXPECT_EQ(deque.size_hint(), 1000U);
  EXPECT_EQ(deque.peek(), 1000U);
  EXPECT_EQ(deque.pop(), 1000U);
  EXPECT_EQ(deque.steal().item, 1U);
  EXPECT_EQ(deque.take_top(), 2U);
  EXPECT_FALSE(deque.pop_if(5));
  EXPECT_TRUE(deque.pop_if(999));
  for (std::uintptr_t i = 998; i >= 3; --i) EXPECT_EQ(deque.pop(), i);
  EXPECT_EQ(deque.pop(), 0U);
}

// Contract: F-17. One owner, several thieves, a small start size: every item comes out exactly once.
TEST(Deque, EveryItemOnceUnderThieves) {
  detail::Deque<std::uintptr_t> deque(2);
  constexpr std::uintptr_t kItems = 200'000;
  std::vector<sync::Atomic<int>> seen(kItems + 1);
  sync::Atomic<bool> done{false};
  std::vector<std::thread> thieves;
  for (int t = 0; t < 3; ++t) {
    thieves.emplace_back([&] {
      while (!done.load()) {
        if (const auto stolen = deque.steal(); stolen.item != 0) seen[stolen.item].fetch_add(1);
      }
    });
  }
  std::uintptr_t next = 1;
  while (next <= kItems) {
    for (int i = 0; i < 7 && next <= kItems; ++i) deque.push(next++);
    for (int i = 0; i < 4; ++i) {
      if (const std::uintptr_t item = i % 2 == 0 ? deque.pop() : deque.take_top(); item != 0) seen[item].fetch_add(1);
    }
  }
  while (const std::uintptr_t item = deque.pop()) seen[item].fetch_add(1);
  done.store(true);
  for (auto& thief : thieves) thief.join();
  EXPECT_TRUE(std::all_of(seen.begin() + 1, seen.end(), [](const auto& count) { return count.load() == 1; }));
}

// Contract: F-17. One worker a core unless said otherwise; 1 and 256 work.
TEST(Workers, FromOneTo256) {
  EXPECT_EQ(Runtime().config().worker_count, std::max(1U, std::thread::hardware_concurrency()));
  for (std::size_t workers : {std::size_t{1}, std::size_t{ROTA_TSAN ? 16 : 256}}) {  // Too slow under ThreadSanitizer.
    Runtime runtime({.worker_count = workers});
    sync::Atomic<int> ran{0};
    runtime.run([&ran] {
      with_scope([&ran](Nursery& n) {
        for (int i = 0; i < 5000; ++i) {
          n.launch([&ran, i] {
            if (i % 16 == 0) yield();
            ran.fetch_add(1);
          });
        }
      });
    });
    EXPECT_EQ(ran.load(), 5000);
    EXPECT_EQ(runtime.stats().workers.size(), workers);
  }
}

// Contract: F-17. The bound of the global queue pushes back on the spawner and no task is lost: try_spawn is refused,
// spawn waits.
TEST(Workers, GlobalQueuePushesBack) {
  Runtime runtime({.worker_count = 1, .global_queue_size = 8});
  sync::Atomic<bool> hold{true};
  sync::Atomic<bool> running{false};
  sync::Atomic<int> ran{0};
  Task<void> blocker = runtime.spawn([&] {
    running.store(true);
    while (hold.load()) {  // Keeps the only worker, so that the queue fills.
    }
  });
  while (!running.load()) std::this_thread::yield();
  std::vector<Task<void>> tasks;
  for (int i = 0; i < 8; ++i) tasks.push_back(runtime.try_spawn([&ran] { ran.fetch_add(1); }).value());
  EXPECT_EQ(runtime.try_spawn([&ran] { ran.fetch_add(1); }).code(), ErrorCode::kQueueFull);
  std::thread spawner([&] {
    for (int i = 0; i < 100; ++i) tasks.push_back(runtime.spawn([&ran] { ran.fetch_add(1); }));
  });
  hold.store(false);
  spawner.join();
  for (auto& task : tasks) task.get();
  blocker.get();
  EXPECT_EQ(ran.load(), 108);
}

// A task that spawns into the runtime while the global queue is full makes way instead of blocking its worker.
TEST(Workers, TaskSpawningIntoAFullQueueMakesWay) {
  Runtime runtime({.worker_count = 1, .global_queue_size = 2});
  sync::Atomic<int> ran{0};
  runtime.run([&] {
    std::vector<Task<void>> tasks;
    for (int i = 0; i < 50; ++i) tasks.push_back(runtime.spawn([&ran] { ran.fetch_add(1); }));
    for (auto& task : tasks) task.get();
  });
  EXPECT_EQ(ran.load(), 50);
}

// Contract: F-18. Every strategy of choosing victims spreads work; with stealing off nothing is stolen.
TEST(Workers, VictimStrategies) {
  for (const VictimStrategy victims :
       {VictimStrategy::kRandom, VictimStrategy::kRoundRobin, VictimStrategy::kMostLoaded}) {
    for (const bool stealing : {true, false}) {
      Runtime runtime({.worker_count = 4, .enable_stealing = stealing, .victims = victims});
      sync::Atomic<int> ran{0};
      runtime.run([&ran] {
        with_scope([&ran](Nursery& n) {
          for (int i = 0; i < 2000; ++i) n.launch([&ran] { ran.fetch_add(1); });
        });
      });
      EXPECT_EQ(ran.load(), 2000);
      if (!stealing) {
        EXPECT_EQ(runtime.stats().sum.steals, 0U);
      }
    }
  }
}

// Contract: F-18. A task that is waited for by a busy worker is stolen: this ends only if another worker takes it.
TEST(Workers, StealingMakesProgressForABusyWorker) {
  Runtime runtime({.worker_count = 2});
  for (int round = 0; round < 50; ++round) {
    runtime.run([] {
      with_scope([](Nursery& n) {
        sync::Atomic<bool> ran{false};
        n.launch([&ran] { ran.store(true); });
        while (!ran.load()) {  // No yield: this worker never lets go.
        }
      });
    });
  }
  EXPECT_GE(runtime.stats().sum.steals, 50U);
}

// Contract: F-18. No wake-up is lost: tasks that come one at a time from outside, with pauses in which all fall asleep.
TEST(Workers, NoWakeUpIsLost) {
  Runtime runtime({.worker_count = 3, .spin_count = 0});
  for (int i = 0; i < 3000; ++i) {
    EXPECT_EQ(runtime.run([i] { return with_scope([i](Nursery& n) { return n.spawn([i] { return i; }).get(); }); }), i);
  }
}

// Contract: F-19. Bad values are refused with a sentence that names the setting and what is allowed.
TEST(Workers, BadConfigurationIsRefused) {
  const std::vector<std::pair<Config, std::string>> bad = {
      {{.worker_count = 5000}, "worker_count"},
      {{.local_queue_size = 0}, "local_queue_size"},
      {{.global_queue_size = 0}, "global_queue_size"},
      {{.spin_count = 2'000'000'000}, "spin_count"},
      {{.stack_bytes = 4096}, "stack_bytes"},
      {{.stack_bytes = std::size_t{1} << 40}, "stack_bytes"},
      {{.victims = static_cast<VictimStrategy>(9)}, "victims"},
      {{.profile = static_cast<Profile>(9)}, "profile"},
      {{.profile = Profile::kSovereign}, "yield_interval"},
  };
  for (const auto& [config, setting] : bad) {
    const Result<std::unique_ptr<Runtime>> made = Runtime::create(config);
    ASSERT_FALSE(made.ok()) << setting;
    EXPECT_EQ(made.code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(*made.error().detail("setting"), setting);
    EXPECT_NE(made.error().message.find("allowed"), std::string::npos) << made.error().message;
    EXPECT_THROW(Runtime runtime(config), FiberError);
  }
  const Config defaults;
  EXPECT_EQ(defaults.local_queue_size, 256U);
  EXPECT_EQ(defaults.global_queue_size, 4096U);
  EXPECT_EQ(defaults.spin_count, 100U);
  EXPECT_TRUE(defaults.enable_stealing);
  EXPECT_EQ(defaults.profile, Profile::kOpen);
}

// Contract: F-21. Counters, per worker and in sum, agree with what happened.
TEST(Workers, StatsAgreeWithWhatHappened) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    with_scope([](Nursery& n) {
      for (int i = 0; i < 1000; ++i) n.launch([] {});
    });
    EXPECT_THROW(with_scope([](Nursery& n) { n.launch([] { throw 1; }); }), int);
    Nursery cancelled;
    Task<void> sleeper = cancelled.spawn([] {
      if (!sleep_for(std::chrono::hours(1)).ok()) throw Cancelled(CancelReason::kExplicit);
    });
    while (sleeper.state() != TaskState::kBlocked) yield();
    cancelled.cancel();
    (void)cancelled.close();
  });
  runtime.shutdown();
  const Stats stats = runtime.stats();
  EXPECT_EQ(stats.sum.spawned, 1003U);
  EXPECT_EQ(stats.sum.completed, 1001U);
  EXPECT_EQ(stats.sum.failed, 1U);
  EXPECT_EQ(stats.sum.cancelled, 1U);
  EXPECT_GE(stats.sum.latency_samples, 10U);
  EXPECT_GE(stats.sum.latency_p99, stats.sum.latency_average / 2);
  std::uint64_t completed = 0;
  for (const WorkerStats& worker : stats.workers) completed += worker.completed;
  EXPECT_EQ(completed, stats.sum.completed);
  EXPECT_GT(stats.stacks_live + stats.stacks_cached, 0U);
}

// Two tasks that yield take turns on one worker.
TEST(Workers, YieldTakesTurns) {
  Runtime runtime({.worker_count = 1});
  std::string order;
  runtime.run([&order] {
    with_scope([&order](Nursery& n) {
      for (const char name : {'a', 'b'}) {
        n.launch([&order, name] {
          for (int i = 0; i < 20; ++i) {
            order += name;
            yield();
          }
        });
      }
    });
  });
  ASSERT_EQ(order.size(), 40U);
  for (std::size_t i = 2; i < 38; ++i) EXPECT_NE(order[i], order[i + 1]) << order;
}

// New spawns are refused once the runtime shuts down; shutting down twice is fine.
TEST(Workers, ShutdownRefusesAndIsIdempotent) {
  Runtime runtime({.worker_count = 2});
  Task<int> before = runtime.spawn([] { return 1; });
  runtime.shutdown();
  runtime.shutdown();
  EXPECT_EQ(before.get(), 1);
  EXPECT_EQ(runtime.try_spawn([] {}).code(), ErrorCode::kClosed);
}

// A runtime that goes while tasks sleep cancels them and waits.
TEST(Workers, DestructorCancelsWhatSleeps) {
  Task<ErrorCode> task;
  {
    Runtime runtime({.worker_count = 2});
    task = runtime.spawn([] { return sleep_for(std::chrono::hours(1)).code(); });
    while (task.state() != TaskState::kBlocked) std::this_thread::yield();
  }
  EXPECT_EQ(task.get(), ErrorCode::kCancelled);
}

// Contract: F-21. The latency of a program with few tasks is sampled as well: of each task from outside, and of the
// first that a thread worker spawns.
TEST(Workers, LatencyIsSampledForFewTasks) {
  Runtime runtime({.worker_count = 1});
  for (int i = 0; i < 3; ++i) runtime.spawn([] {}).get();
  EXPECT_EQ(runtime.stats().sum.latency_samples, 3U);
  runtime.run([] {
    with_scope([](Nursery& scope) {
      for (int i = 0; i < 5; ++i) scope.launch([] {});
    });
  });
  const Stats stats = runtime.stats();
  EXPECT_EQ(stats.sum.latency_samples, 5U) << "one more from outside, and the first of the five";
  EXPECT_EQ(stats.sum.spawned, 9U);
  EXPECT_EQ(stats.sum.completed, 9U);
  EXPECT_GT(stats.sum.latency_average.count(), 0);
}

// Contract: F-18. A thread worker without work looks for it in growing intervals up to 1 ms before it parks for good:
// of 64, 128, 256, 512 and 1,000 us, after the first 50 us, in which it spins.
TEST(Workers, BackOffUpToAMillisecond) {
  const Runtime runtime({.worker_count = 1});
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (runtime.stats().sum.parks < 5 && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_GE(runtime.stats().sum.parks, 5U) << "it parked for good too early";
  EXPECT_GE(runtime.stats().sum.park_time, milliseconds(1));
}

}  // namespace
}  // namespace rota::fiber

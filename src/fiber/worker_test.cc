// Workers: queues, stealing, parking, configuration, counters (F-17 to F-19, F-21).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rota/fiber.h"
#include "rota/fiber/detail/deque.h"
#include "rota/fiber/detail/steal_batch.h"

namespace rota::fiber {
namespace {

using std::chrono::milliseconds;

// Contract: F-17. The owner's end is LIFO, the thieves' FIFO; it grows past its first size and loses nothing. Items are
// private until they are asked for, or until a thief publishes them.
TEST(Deque, LifoForTheOwnerFifoForThieves) {
  for (const bool open : {false, true}) {
    detail::Deque<std::uintptr_t> deque(4, open);
    EXPECT_EQ(deque.pop(), 0U);
    EXPECT_EQ(deque.peek(), 0U);
    EXPECT_EQ(deque.take_top(), 0U);
    for (std::uintptr_t i = 1; i <= 1000; ++i) deque.push(i);
    EXPECT_EQ(deque.size_hint(), 1000U);
    EXPECT_EQ(deque.peek(), 1000U);
    EXPECT_EQ(deque.pop(), 1000U);
    EXPECT_EQ(deque.steal().item, open ? 1U : 0U);
    EXPECT_EQ(deque.expose(), !open);
    if (!open) {
      EXPECT_EQ(deque.steal().item, 1U);
    }
    EXPECT_EQ(deque.take_top(), 2U);
    EXPECT_FALSE(deque.pop_if(5));
    EXPECT_TRUE(deque.pop_if(999));
    EXPECT_EQ(deque.size_hint(), 996U);
    for (std::uintptr_t i = 998; i >= 3; --i) EXPECT_EQ(deque.pop(), i);
    EXPECT_EQ(deque.pop(), 0U);
    EXPECT_EQ(deque.peek(), 0U);
    EXPECT_FALSE(deque.pop_if(3));  // What the slot still contains.
    EXPECT_EQ(deque.size_hint(), 0U);
    EXPECT_FALSE(deque.expose());
  }
}

// Contract: F-17. A thief that finds nothing public gets half of the items with the owner's next push.
TEST(Deque, AskedForItemsTheOwnerPublishesHalf) {
  detail::Deque<std::uintptr_t> deque(4);
  for (std::uintptr_t i = 1; i <= 9; ++i) deque.push(i);
  EXPECT_EQ(deque.steal().item, 0U);
  deque.push(10);
  for (std::uintptr_t i = 1; i <= 5; ++i) EXPECT_EQ(deque.steal().item, i);
  EXPECT_EQ(deque.steal().item, 0U);
  for (std::uintptr_t i = 10; i >= 6; --i) EXPECT_EQ(deque.pop(), i);
  EXPECT_EQ(deque.pop(), 0U);
  deque.push(11);  // Asked again, with nothing there: the next item is published at once.
  EXPECT_EQ(deque.steal().item, 11U);
}

// Contract: F-17. The FIFO end that the owner uses for fairness gives the oldest item, whether it is public or private.
TEST(Deque, TheOldestItemFirst) {
  for (std::uintptr_t count = 1; count <= 6; ++count) {
    for (int published = 0; published <= 3; ++published) {
      detail::Deque<std::uintptr_t> deque(4);
      for (std::uintptr_t i = 1; i <= count; ++i) deque.push(i);
      for (int i = 0; i < published; ++i) deque.publish();
      for (std::uintptr_t i = 1; i <= count; ++i) EXPECT_EQ(deque.take_top(), i) << count << " items";
      EXPECT_EQ(deque.take_top(), 0U);
      EXPECT_EQ(deque.size_hint(), 0U);
    }
  }
}

// Contract: F-17. One owner, several thieves, a small start size: every item comes out exactly once.
TEST(Deque, EveryItemOnceUnderThieves) {
  for (const bool open : {!detail::enable_heavy_fence(), true}) {
    detail::Deque<std::uintptr_t> deque(2, open);
    constexpr std::uintptr_t kItems = 200'000;
    std::vector<sync::Atomic<int>> seen(kItems + 1);
    sync::Atomic<bool> done{false};
    std::vector<std::thread> thieves;
    for (int t = 0; t < 3; ++t) {
      thieves.emplace_back([&, t] {
        for (int round = 0; !done.load(); ++round) {
          auto stolen = deque.steal();
          if (stolen.item == 0 && round % 64 == t && deque.expose()) stolen = deque.steal();
          if (stolen.item != 0) seen[stolen.item].fetch_add(1);
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
}

using detail::StealBatch;

// Takes as many items as the batch wants, each of which lasts for `task_ns`; returns how many, and the rest that
// follows.
struct Stolen {
  std::uint32_t items;
  std::int64_t rest_ns;
};
Stolen steal_batch(StealBatch& batch, std::int64_t task_ns, std::size_t room = 256) {
  std::uint32_t items = 1;
  batch.begin(1'000);
  for (; batch.wants_more(room); ++items) batch.took_another();
  const std::int64_t now = 1'000 + task_ns * items;
  return {items, batch.end(now) - now};
}

// Contract: F-18. A thief of short tasks takes twice as many each time, up to a bound, and rests for a bounded time;
// one long task, and it takes them one by one again, without a rest.
TEST(StealBatch, GrowsWithShortTasksOnly) {
  StealBatch batch;
  for (const std::uint32_t expected : {1U, 2U, 4U, 8U, 16U, 32U, 64U, 64U}) {
    const Stolen stolen = steal_batch(batch, 100);
    EXPECT_EQ(stolen.items, expected);
    EXPECT_EQ(stolen.rest_ns, std::min<std::int64_t>(100 * expected * StealBatch::kRest, StealBatch::kMaxRestNs));
  }
  EXPECT_EQ(steal_batch(batch, StealBatch::kShortTaskNs).rest_ns, 0) << "not short";
  EXPECT_EQ(steal_batch(batch, StealBatch::kShortTaskNs - 1).items, 1U);
  EXPECT_EQ(steal_batch(batch, StealBatch::kShortTaskNs - 1).rest_ns, 2 * (StealBatch::kShortTaskNs - 1) * 8);
}

// Contract: F-17, F-19. A batch never needs memory: it is not larger than the room in the thief's deque.
TEST(StealBatch, FitsIntoTheDeque) {
  StealBatch batch;
  for (int i = 0; i < 7; ++i) (void)steal_batch(batch, 1);
  EXPECT_EQ(steal_batch(batch, 1, 2).items, 2U);
  EXPECT_EQ(steal_batch(batch, 1, 1).items, 1U);
  EXPECT_EQ(steal_batch(batch, 1, 100).items, 64U);
}

// Contract: F-18. A batch is judged once: a thread worker that stole nothing since does not rest again.
TEST(StealBatch, IsJudgedOnce) {
  StealBatch batch;
  EXPECT_FALSE(batch.begun());
  EXPECT_EQ(batch.end(5'000), 5'000);
  batch.begin(1'000);
  EXPECT_TRUE(batch.begun());
  EXPECT_GT(batch.end(1'100), 1'100);
  EXPECT_FALSE(batch.begun());
  EXPECT_EQ(batch.end(1'200), 1'200);
}

// Contract: F-17. Batches of short tasks, deques that start with two slots, more thread workers than cores: every task
// runs exactly once.
TEST(Workers, EveryTaskOnceWithBatches) {
  for (const std::uint32_t queue_size : {2U, 256U}) {
    Runtime runtime({.worker_count = 4, .local_queue_size = queue_size});
    std::vector<std::atomic<std::uint8_t>> ran(ROTA_TSAN ? 5'000 : 100'000);
    runtime.run([&] {
      with_scope([&](Nursery& scope) {
        for (auto& count : ran) scope.launch([&count] { count.fetch_add(1, std::memory_order_relaxed); });
      });
    });
    EXPECT_TRUE(std::all_of(ran.begin(), ran.end(), [](const auto& count) { return count.load() == 1; }));
  }
}

// Contract: F-18. What a thief took as a batch can be stolen from it: two tasks among many short ones, which one worker
// takes together, wait for each other without a yield. This ends only if another worker takes one of the two.
TEST(Workers, ABatchIsNotOutOfReach) {
  for (const VictimStrategy victims :
       {VictimStrategy::kRandom, VictimStrategy::kRoundRobin, VictimStrategy::kMostLoaded}) {
    Runtime runtime({.worker_count = 3, .victims = victims});
    for (int round = 0; round < (ROTA_TSAN ? 20 : 200); ++round) {
      runtime.run([round] {
        std::atomic<int> met{0};
        with_scope([&met, round](Nursery& scope) {
          for (int i = 0; i < 600; ++i) {
            const bool meets = i == round || i == round + 1 + round % 3;
            scope.launch([&met, meets] {
              if (!meets) return;
              met.fetch_add(1);
              while (met.load() < 2) sync::cpu_pause();
            });
          }
        });
      });
    }
  }
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

// Pause, resume, cancel and retry against each other and against stages that end: thousands of seeds in deterministic
// mode, and real threads.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "rota/fiber.h"
#include "rota/flow.h"

namespace rota::flow {
namespace {

constexpr int kTasks = 8;

// A stage with checkpoints that sometimes fails, waits or spawns, drawn from its own seed.
Stage random_stage(std::uint64_t seed, std::atomic<int>& inside) {
  return [seed, &inside](StageContext& context) {
    Prng random = Prng::stream(seed, context.attempt());
    inside += 1;
    struct Leave {
      std::atomic<int>& n;
      ~Leave() { n -= 1; }
    } leave{inside};
    for (std::uint64_t i = random.below(5); i > 0; --i) {
      context.progress(1.0 / static_cast<double>(i));
      switch (random.below(4)) {
        case 0:
          fiber::yield();
          break;
        case 1:
          if (!fiber::sleep_for(std::chrono::microseconds(random.below(3000))).ok()) throw std::runtime_error("woken");
          break;
        case 2:
          if (fiber::detail::current_worker() != nullptr) {
            fiber::with_scope([&](fiber::Nursery& nursery) { nursery.launch([] { fiber::yield(); }); });
          }
          break;
        default:
          break;
      }
    }
    if (random.chance(1, 8)) throw std::runtime_error("bad luck");
  };
}

// Gives commands at random.
void command(IScheduler& scheduler, Prng& random) {
  const std::string id = std::to_string(random.below(kTasks));
  switch (random.below(8)) {
    case 0:
    case 1:
      (void)scheduler.pause(id);
      break;
    case 2:
    case 3:
    case 4:
      (void)scheduler.resume(id);
      break;
    case 5:
      if (random.chance(1, 3)) (void)scheduler.cancel(id);
      break;
    case 6:
      (void)scheduler.retry(id);
      break;
    default:
      if (!fiber::sleep_for(std::chrono::microseconds(random.below(500))).ok()) return;
  }
}

void submit_tasks(IScheduler& scheduler, Prng& random, std::atomic<int>& inside) {
  for (int i = 0; i < kTasks; ++i) {
    TaskDescriptor task{.task_id = std::to_string(i), .priority = static_cast<std::int32_t>(random.below(3))};
    for (std::uint64_t k = random.below(3); k > 0 && i > 0; --k) {
      task.deps.push_back(std::to_string(random.below(static_cast<std::uint64_t>(i))));
    }
    task.resource_demand.cpu_slots = 1 + static_cast<std::uint32_t>(random.below(2));
    task.retry = {.max_attempts = 1 + static_cast<std::uint32_t>(random.below(2)), .backoff_ms = 1};
    ASSERT_TRUE(scheduler.submit(task, random_stage(random.next(), inside)).ok());
  }
}

// Resumes every paused task until all are terminal.
void finish(IScheduler& scheduler) {
  for (bool live = true; live;) {
    live = false;
    for (int i = 0; i < kTasks; ++i) {
      const std::string id = std::to_string(i);
      if (*scheduler.state(id) == TaskState::kPaused) (void)scheduler.resume(id);
      live |= !graph::is_terminal(*scheduler.state(id));
    }
    if (live && !fiber::sleep_for(std::chrono::microseconds(50)).ok()) return;
  }
}

// G-7: in any order of commands and ends every change is legal, each task ends, and a terminal task has no running
// body. An observer follows each task from change to change.
void one_history(IScheduler& scheduler, std::uint64_t seed) {
  Prng random(seed);
  std::atomic<int> inside{0};
  struct Seen {
    TaskState state = TaskState::kQueued;
    bool broken = false;
  };
  auto seen = std::make_shared<std::vector<Seen>>(kTasks);
  scheduler.observe([seen](const TaskEvent& event) {
    Seen& task = (*seen)[static_cast<std::size_t>(std::stoi(std::string(event.task_id)))];
    if (event.from == event.to) return;
    if (event.from != task.state || !graph::legal_transition(event.from, event.to)) task.broken = true;
    task.state = event.to;
  });
  submit_tasks(scheduler, random, inside);
  std::atomic<int> commanders{3};
  const auto commander = [&](std::uint64_t number) {
    Prng own = Prng::stream(seed, number);
    for (int i = 0; i < 12; ++i) command(scheduler, own);
    commanders -= 1;
  };
  if (fiber::detail::current_worker() != nullptr) {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      for (std::uint64_t n = 1; n <= 3; ++n) nursery.launch([&commander, n] { commander(n); });
      while (commanders > 0) {
        finish(scheduler);
        (void)fiber::sleep_for(std::chrono::microseconds(100));
      }
    });
  } else {
    std::vector<std::thread> threads;
    for (std::uint64_t n = 1; n <= 3; ++n) threads.emplace_back([&commander, n] { commander(n); });
    while (commanders > 0) finish(scheduler);  // A pause waits for a task that may itself wait for a resume.
    for (std::thread& thread : threads) thread.join();
  }
  finish(scheduler);
  scheduler.wait_all();
  scheduler.flush_events();
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(scheduler.stats().cpu_slots_held, 0U);
  for (int i = 0; i < kTasks; ++i) {
    const Seen& task = (*seen)[static_cast<std::size_t>(i)];
    EXPECT_FALSE(task.broken) << "task " << i;
    EXPECT_EQ(task.state, *scheduler.state(std::to_string(i)));
    EXPECT_TRUE(graph::is_terminal(task.state));
  }
}

// G-7: in deterministic mode. The seed of a failure reproduces it.
TEST(Races, ThousandsOfSeedsInDeterministicMode) {
  constexpr std::uint64_t kSeeds = ROTA_TSAN || ROTA_ASAN ? 300 : 3000;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    fiber::Config config;
    config.worker_count = 1 + seed % 4;
    config.deterministic_seed = seed;
    fiber::Runtime runtime(config);
    runtime.run([&] {
      auto scheduler = create_thread_pool_scheduler(
          {.budget = {.cpu_slots_hard = 3}, .aging = {.interval_ms = 2}, .pause = {.timeout_ms = 2}}, nullptr, runtime);
      ASSERT_TRUE(scheduler.ok());
      one_history(**scheduler, seed);
    });
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

// G-7: the same on real threads, with more workers than cores, and one stage at a time.
TEST(Races, RealThreads) {
  constexpr std::uint64_t kRounds = ROTA_TSAN || ROTA_ASAN ? 30 : 150;
  for (std::uint64_t seed = 1; seed <= kRounds; ++seed) {
    const SchedulerConfig config{.workers = 1 + static_cast<std::uint32_t>(seed % 5),
                                 .budget = {.cpu_slots_hard = 3},
                                 .aging = {.interval_ms = 2},
                                 .pause = {.timeout_ms = 2}};
    auto scheduler = seed % 3 == 0 ? create_simple_scheduler(config) : create_thread_pool_scheduler(config);
    ASSERT_TRUE(scheduler.ok());
    one_history(**scheduler, seed);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace rota::flow

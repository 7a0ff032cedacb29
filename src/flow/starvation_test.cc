// A wide task under a load of narrow ones that never ends, on a live scheduler in virtual time.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "rota/fiber.h"
#include "rota/flow.h"

namespace rota::flow {
namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr nanoseconds kInterval = 10ms;
constexpr nanoseconds kLongest = 7ms;    // Of the narrow tasks.
constexpr nanoseconds kGiveUp = 2000ms;  // The load ends then: a wide task that starved until here fails the test.

// What an observer saw of the wide task. It keeps the ready tasks in the order in which they became ready.
struct Seen {
  std::vector<std::string> ready;
  nanoseconds oldest_from{-1}, started{-1};
  int overtaken = 0;  // Narrow tasks that started while the wide one was the oldest.

  void on(const TaskEvent& event) {
    const std::string id(event.task_id);
    if (event.to == TaskState::kRunning && event.from == TaskState::kReady) {
      if (id == "wide") started = event.at;
      if (id != "wide" && oldest_from >= 0ns && started < 0ns) overtaken += 1;
    }
    if (event.to == TaskState::kReady) ready.push_back(id);
    if (event.from == TaskState::kReady) std::erase(ready, id);
    if (oldest_from < 0ns && !ready.empty() && ready.front() == "wide") oldest_from = event.at;
  }
};

// Chains of narrow tasks with a higher priority, each of which submits its successor before it ends, so that one is
// always ready; `chains` of them, with lengths drawn from the seed, so that two slots are rarely free at once.
class Load {
 public:
  Load(IScheduler& scheduler, std::uint64_t seed) : scheduler_(scheduler), random_(seed) {}
  void add() {
    const auto length = 1ms + nanoseconds(random_.below(static_cast<std::uint64_t>((kLongest - 1ms).count()) + 1));
    const std::string id = "narrow" + std::to_string(count_++);
    const Result<void> submitted =
        scheduler_.submit({.task_id = id, .priority = 1000}, [this, length](StageContext& /*context*/) {
          if (!fiber::sleep_for(length).ok()) return;
          if (!over && fiber::now() - began_ < kGiveUp) add();
        });
    EXPECT_TRUE(submitted.ok());
  }
  bool over = false;

 private:
  IScheduler& scheduler_;
  Prng random_;
  int count_ = 0;
  const nanoseconds began_ = fiber::now();
};

// G-5: once it is the oldest, a task that needs both slots waits at most 3 intervals plus the longest running task,
// while narrow tasks of a higher priority never end. It does wait the 3 intervals: the load starves it until the
// reservation.
void wide_task_runs(std::uint64_t seed, int chains) {
  fiber::Config runtime_config;
  runtime_config.worker_count = 2;
  runtime_config.deterministic_seed = seed;
  fiber::Runtime runtime(runtime_config);
  Seen seen;
  runtime.run([&] {
    const SchedulerConfig config{.budget = {.cpu_slots_hard = 2}, .aging = {.interval_ms = 10, .boost = 1}};
    auto scheduler = create_thread_pool_scheduler(config, nullptr, runtime);
    ASSERT_TRUE(scheduler.ok()) << scheduler.error().to_string();
    (*scheduler)->observe([&seen](const TaskEvent& event) { seen.on(event); });
    Load load(**scheduler, seed);
    for (int i = 0; i < chains; ++i) load.add();
    ASSERT_TRUE((*scheduler)
                    ->submit({.task_id = "wide", .resource_demand = {.cpu_slots = 2}},
                             [&load](StageContext& /*context*/) { load.over = true; })
                    .ok());
    ASSERT_TRUE((*scheduler)->wait("wide").ok());
    (*scheduler)->wait_all();
    (*scheduler)->flush_events();
  });
  ASSERT_GE(seen.oldest_from, 0ns);
  ASSERT_GE(seen.started, 0ns);
  const nanoseconds waited = seen.started - seen.oldest_from;
  EXPECT_LE(waited, 3 * kInterval + kLongest);
  EXPECT_GE(waited, 3 * kInterval);
  EXPECT_GT(seen.overtaken, 0);
}

TEST(Starvation, AWideTaskRunsWithinItsBoundUnderAnEndlessLoad) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    for (const int chains : {3, 4, 16}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(chains) + " chains");
      wide_task_runs(seed, chains);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace rota::flow

// Which task runs next: exactly by the formula, compared with a reference that scans (G-4), and no starvation (G-5).
#include "rota/graph/ready_order.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/sanitizers.h"

namespace rota::graph {
namespace {

constexpr Moment at_ms(std::int64_t ms) { return Moment{ms * kNsPerMs}; }

// The rule of ready_order.h as a plain scan of all ready tasks.
class Scan {
 public:
  Scan(const ResourceBudget& budget, const AgingPolicy& aging, const Dag& dag)
      : budget_(budget), aging_(aging), dag_(dag) {}
  struct Item {
    TaskRef task;
    std::int32_t priority;
    ResourceDemand demand;
    Moment since;
  };
  void push(const Item& item, Moment now) {
    ready_.push_back(item);
    settle(now);
  }
  void remove(TaskRef task, Moment now) {
    std::erase_if(ready_, [&](const Item& item) { return item.task == task; });
    settle(now);
  }
  void set_priority(TaskRef task, std::int32_t priority) {
    for (Item& item : ready_) {
      if (item.task == task) item.priority = priority;
    }
  }
  TaskRef pick(Moment now) {
    const Item* best = nullptr;
    const bool reserved = !ready_.empty() && now >= oldest_from_.after(3 * aging_.interval_ms * kNsPerMs);
    for (const Item& item : ready_) {
      if (reserved && item.task != ready_.front().task) break;  // The front is the oldest.
      if (!fits(item.demand)) continue;
      if (best == nullptr || before(item, *best, now)) best = &item;
    }
    if (best == nullptr) return TaskRef::none();
    const Item picked = *best;
    running_.push_back(picked.demand);
    remove(picked.task, now);
    return picked.task;
  }
  void release(const ResourceDemand& demand) { running_.erase(std::find(running_.begin(), running_.end(), demand)); }

 private:
  [[nodiscard]] bool fits(const ResourceDemand& demand) const {
    std::uint64_t cpu = demand.cpu_slots, ram = demand.ram_mb, vram = demand.vram_mb;
    for (const ResourceDemand& other : running_) {
      cpu += other.cpu_slots;
      ram += other.ram_mb;
      vram += other.vram_mb;
    }
    if (cpu > budget_.cpu_slots_hard) return false;
    if (running_.empty()) return true;
    return (budget_.ram_mb_soft == 0 || ram <= budget_.ram_mb_soft) &&
           (budget_.vram_mb_soft == 0 || vram <= budget_.vram_mb_soft);
  }
  [[nodiscard]] bool before(const Item& a, const Item& b, Moment now) const {
    const auto effective = [&](const Item& item) {
      const std::int64_t wait_ms = (now.ns - item.since.ns) / kNsPerMs;
      return item.priority + wait_ms / aging_.interval_ms * aging_.boost;
    };
    if (effective(a) != effective(b)) return effective(a) > effective(b);
    if (a.since != b.since) return a.since < b.since;
    return dag_.name(a.task) < dag_.name(b.task);
  }
  void settle(Moment now) {
    const TaskRef front = ready_.empty() ? TaskRef::none() : ready_.front().task;
    const Moment since = ready_.empty() ? Moment{} : ready_.front().since;
    if (front != oldest_ || since != oldest_since_) oldest_from_ = now;
    oldest_ = front;
    oldest_since_ = since;
  }

  const ResourceBudget budget_;
  const AgingPolicy aging_;
  const Dag& dag_;
  std::vector<Item> ready_;  // In the order of their becoming ready.
  std::vector<ResourceDemand> running_;
  TaskRef oldest_;
  Moment oldest_since_, oldest_from_;
};

// One history: tasks become ready, are removed, change priority, are chosen and end; both must choose the same.
struct Shape {
  std::uint32_t tasks = 60;
  std::uint32_t priorities = 4;
  std::uint32_t demands = 3;
  AgingPolicy aging{.interval_ms = 10, .boost = 2};
  ResourceBudget budget{.cpu_slots_hard = 4, .ram_mb_soft = 100, .vram_mb_soft = 0};
  std::int64_t step_ns = 4 * kNsPerMs;
};

std::uint64_t compare(std::uint64_t seed, const Shape& shape, std::uint32_t steps) {
  Prng random(seed);
  Dag dag;
  std::vector<std::string> names;
  // Names that share their first bytes and are not in the order of the numbers.
  for (std::uint32_t i = 0; i < shape.tasks; ++i) names.push_back("some-task-" + std::to_string((i * 7919) % 100'003));
  for (const std::string& name : names) EXPECT_TRUE(dag.add({name, {}}).ok());
  ReadyOrder order(shape.budget, shape.aging, &dag);
  Scan scan(shape.budget, shape.aging, dag);
  std::vector<Scan::Item> items;
  for (std::uint32_t i = 0; i < shape.tasks; ++i) {
    const auto kind = random.below(shape.demands);
    const ResourceDemand demand{.cpu_slots = static_cast<std::uint32_t>(kind % shape.budget.cpu_slots_hard) + 1,
                                .ram_mb = kind * 37 % 130,
                                .vram_mb = kind % 2};
    items.push_back({TaskRef(i + 1), static_cast<std::int32_t>(random.below(shape.priorities)) - 1, demand, {}});
    order.declare(items[i].task, items[i].priority, demand);
  }
  std::vector<char> state(shape.tasks, 'i');  // idle, ready, running
  std::vector<std::uint32_t> running;
  std::uint64_t picks = 0;
  Moment now{};
  for (std::uint32_t step = 0; step < steps; ++step) {
    if (random.chance(1, 2))
      now.ns += static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(shape.step_ns)));
    const auto i = static_cast<std::uint32_t>(random.below(shape.tasks));
    switch (random.below(8)) {
      case 0:
      case 1:
      case 2:
        if (state[i] != 'i') break;
        items[i].since = now;
        order.push(items[i].task, now);
        scan.push(items[i], now);
        state[i] = 'r';
        break;
      case 3:
        if (state[i] != 'r' || !random.chance(1, 3)) break;
        order.remove(items[i].task, now);
        scan.remove(items[i].task, now);
        state[i] = 'i';
        break;
      case 4:
        if (!random.chance(1, 3)) break;
        items[i].priority = static_cast<std::int32_t>(random.below(shape.priorities)) - 1;
        order.set_priority(items[i].task, items[i].priority);
        scan.set_priority(items[i].task, items[i].priority);
        break;
      case 5:
        if (running.empty()) break;
        std::swap(running[random.below(running.size())], running.back());
        order.release(items[running.back()].task);
        scan.release(items[running.back()].demand);
        state[running.back()] = 'i';
        running.pop_back();
        break;
      default: {
        const TaskRef expected = scan.pick(now);
        const TaskRef picked = order.pick(now);
        EXPECT_EQ(picked, expected) << "seed " << seed << " step " << step;
        if (picked != expected) return picks;
        if (picked.is_none()) break;
        ++picks;
        state[picked.value() - 1] = 'x';
        running.push_back(picked.value() - 1);
      }
    }
    if (step % 16 == 0) order.check_invariants();
  }
  return picks;
}

// G-4: on random histories the order chooses what the scan chooses; with few and many priorities and demands, with and
// without aging, with time that hardly moves (all ties) and time that jumps.
TEST(ReadyOrder, ChoosesWhatAScanWouldChoose) {
  std::uint64_t picks = 0;
  for (std::uint64_t seed = 1; seed <= (kUnderAsan ? 80 : 400); ++seed) {
    Shape shape;
    shape.priorities = seed % 2 == 0 ? 4 : 1000;
    shape.demands = seed % 3 == 0 ? 40 : 3;
    shape.tasks = seed % 5 == 0 ? 400 : 60;
    shape.aging.boost = static_cast<std::uint32_t>(seed % 4);
    shape.step_ns = seed % 7 == 0 ? 1 : seed % 11 == 0 ? 200 * kNsPerMs : 4 * kNsPerMs;
    shape.budget.cpu_slots_hard = 1 + static_cast<std::uint32_t>(seed % 6);
    picks += compare(seed, shape, 1500);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(picks, kUnderAsan ? 10'000U : 50'000U);
}

// G-4: the same with shapes that rapidcheck draws, and shrinks when they fail.
RC_GTEST_PROP(ReadyOrderProperty, ChoosesWhatAScanWouldChoose, (std::uint64_t seed)) {
  Shape shape;
  shape.tasks = *rc::gen::inRange(1U, 50U);
  shape.priorities = *rc::gen::inRange(1U, 30U);
  shape.demands = *rc::gen::inRange(1U, 10U);
  shape.aging = {.interval_ms = *rc::gen::inRange(1U, 50U), .boost = *rc::gen::inRange(0U, 5U)};
  shape.budget = {.cpu_slots_hard = *rc::gen::inRange(1U, 5U),
                  .ram_mb_soft = *rc::gen::inRange<std::uint64_t>(0, 200),
                  .vram_mb_soft = *rc::gen::inRange<std::uint64_t>(0, 3)};
  compare(seed, shape, 500);
  RC_ASSERT(!testing::Test::HasFailure());
}

// G-4: the terms of the formula, one at a time.
TEST(ReadyOrder, PriorityThenAgeThenReadySinceThenName) {
  Dag dag;
  for (const char* name : {"b", "a", "c", "d"}) ASSERT_TRUE(dag.add({name, {}}).ok());
  ReadyOrder order({.cpu_slots_hard = 10}, {.interval_ms = 100, .boost = 3}, &dag);
  const TaskRef b(1), a(2), c(3), d(4);
  for (const TaskRef task : {b, a, c}) order.declare(task, 0, {});
  order.declare(d, 5, {});
  order.push(c, at_ms(0));
  order.push(b, at_ms(1));
  order.push(a, at_ms(1));
  order.push(d, at_ms(150));
  EXPECT_EQ(order.effective_priority(c, at_ms(199)), 3);
  EXPECT_EQ(order.effective_priority(c, at_ms(200)), 6);
  EXPECT_EQ(order.pick(at_ms(199)), d);  // 5 against 3.
  order.declare(d, 5, {});
  order.push(d, at_ms(200));
  EXPECT_EQ(order.pick(at_ms(200)), c);  // 6 against 5, and 3 of those that came a millisecond later.
  EXPECT_EQ(order.pick(at_ms(200)), d);
  EXPECT_EQ(order.pick(at_ms(200)), a);  // Both since 1 ms: by name.
  EXPECT_EQ(order.pick(at_ms(200)), b);
  EXPECT_TRUE(order.pick(at_ms(200)).is_none());
}

TEST(ReadyOrder, AgingSaturates) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(aged_priority(5, kMax, 1, kMax), kMax);
  EXPECT_EQ(aged_priority(std::numeric_limits<std::int32_t>::max(), kMax, 1, 1), kMax);
  EXPECT_EQ(aged_priority(-5, 99, 10, 2), 13);
}

// G-5: CPU is hard; memory is soft, and a task that needs more than there is runs alone.
TEST(ReadyOrder, CpuIsHardAndMemoryIsSoft) {
  Dag dag;
  for (const char* name : {"big", "small", "free", "wide"}) ASSERT_TRUE(dag.add({name, {}}).ok());
  ReadyOrder order({.cpu_slots_hard = 2, .ram_mb_soft = 100, .vram_mb_soft = 0}, {}, &dag);
  const TaskRef big(1), small(2), free(3), wide(4);
  order.declare(big, 9, {.ram_mb = 500});
  order.declare(small, 0, {.ram_mb = 60});
  order.declare(free, 0, {.vram_mb = 1000});
  order.declare(wide, 1, {.cpu_slots = 2});
  for (const TaskRef task : {big, small, free, wide}) order.push(task, at_ms(0));
  EXPECT_EQ(order.pick(at_ms(1)), big);  // Nothing runs, so that it may.
  EXPECT_TRUE(order.pick(at_ms(1)).is_none());
  order.release(big);
  EXPECT_EQ(order.pick(at_ms(1)), wide);
  EXPECT_TRUE(order.pick(at_ms(1)).is_none());
  order.release(wide);
  EXPECT_EQ(order.pick(at_ms(1)), free);  // VRAM is unlimited here.
  EXPECT_EQ(order.pick(at_ms(1)), small);
  EXPECT_GT(order.hits().memory, 0U);
  EXPECT_GT(order.hits().cpu, 0U);
  EXPECT_EQ(check(ResourceDemand{.cpu_slots = 3}, order.budget()).code(), ErrorCode::kCapacity);
}

// G-5: under a random load that never ends, no task waits longer, once it is the oldest, than three intervals and the
// longest running task.
TEST(ReadyOrder, TheOldestWaitsThreeIntervalsAndTheLongestTask) {
  std::int64_t longest_wait_ms = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Prng random(seed);
    Dag dag;
    const std::uint32_t interval_ms = 20, longest_ms = 35, slots = 1 + static_cast<std::uint32_t>(seed % 4);
    const ResourceBudget budget{.cpu_slots_hard = slots, .ram_mb_soft = 100};
    ReadyOrder order(budget, {.interval_ms = interval_ms, .boost = static_cast<std::uint32_t>(seed % 3)}, nullptr);
    struct Running {
      TaskRef task;
      std::int64_t ends_ms;
    };
    std::vector<Running> running;
    std::vector<TaskRef> ready;  // By age.
    std::int64_t oldest_from = 0;
    for (std::int64_t ms = 0; ms < 4000; ++ms) {
      std::erase_if(running, [&](const Running& r) {
        if (r.ends_ms > ms) return false;
        order.release(r.task);
        return true;
      });
      const TaskRef oldest = ready.empty() ? TaskRef::none() : ready.front();
      while (ready.size() < 6) {  // There is always work, mostly narrow and of high priority.
        const TaskRef task = dag.add(std::span<const TaskRef>());
        const bool odd = random.chance(1, 10);
        order.declare(task, odd ? 0 : 50,
                      {.cpu_slots = odd ? slots : 1, .ram_mb = odd && random.chance(1, 2) ? std::uint64_t{500} : 30});
        order.push(task, at_ms(ms));
        ready.push_back(task);
      }
      while (true) {
        const TaskRef task = order.pick(at_ms(ms));
        if (task.is_none()) break;
        if (task == ready.front()) longest_wait_ms = std::max(longest_wait_ms, ms - oldest_from);
        std::erase(ready, task);
        running.push_back({task, ms + 1 + static_cast<std::int64_t>(random.below(longest_ms))});
        if (!ready.empty() && ready.front() != oldest) oldest_from = ms;
      }
      if (!ready.empty() && ready.front() != oldest) oldest_from = ms;
      ASSERT_LE(ms - oldest_from, 3 * interval_ms + longest_ms) << "seed " << seed;
    }
  }
  EXPECT_GT(longest_wait_ms, 3 * 20);  // The load was heavy enough for reservations.
}

}  // namespace
}  // namespace rota::graph

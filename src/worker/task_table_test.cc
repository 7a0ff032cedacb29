#include <gtest/gtest.h>

#include <set>

#include "base/prng.h"
#include "worker/intake.h"

namespace rota::worker {
namespace {

using Verdict = Intake::Verdict;
constexpr Hardware kMachine{.cpu_millis = 4000, .memory_bytes = 1000, .gpus = 2};

// Contract: U-1. Fences: an older term and an older attempt are no news; the same attempt is known for ever.
TEST(Intake, Fences) {
  Intake intake(kMachine, 10);
  EXPECT_TRUE(intake.hear(3));
  EXPECT_TRUE(intake.hear(3));
  EXPECT_FALSE(intake.hear(2));
  EXPECT_EQ(intake.offer(1, 2, {}), Verdict::kQueued);
  EXPECT_EQ(intake.offer(1, 2, {}), Verdict::kDuplicate);
  EXPECT_EQ(intake.offer(1, 1, {}), Verdict::kStale);
  EXPECT_EQ(intake.start_next(), 1U);
  EXPECT_EQ(intake.offer(1, 2, {}), Verdict::kDuplicate);
  intake.end(1);
  EXPECT_EQ(intake.offer(1, 2, {}), Verdict::kDuplicate);
  EXPECT_EQ(intake.offer(1, 1, {}), Verdict::kStale);
  EXPECT_EQ(intake.offer(1, 3, {}), Verdict::kQueued);
  intake.check_invariants();
}

// Contract: U-2. Each resource holds the first in line back, and whoever is behind it.
TEST(Intake, FirstInLine) {
  for (const Demand& demand : {Demand{.cpu_millis = 3000}, Demand{.memory_bytes = 600}, Demand{.gpu_mask = 3}}) {
    Intake intake(kMachine, 10);
    EXPECT_EQ(intake.offer(1, 1, demand), Verdict::kQueued);
    EXPECT_EQ(intake.offer(2, 1, demand), Verdict::kQueued);
    EXPECT_EQ(intake.offer(3, 1, {}), Verdict::kQueued);
    EXPECT_EQ(intake.start_next(), 1U);
    EXPECT_EQ(intake.start_next(), std::nullopt);
    intake.end(1);
    EXPECT_EQ(intake.start_next(), 2U);
    EXPECT_EQ(intake.start_next(), 3U);
    EXPECT_EQ(intake.start_next(), std::nullopt);
  }
}

// Contract: U-2. What can never fit, and what is too much, is refused at once, and the rest goes on.
TEST(Intake, Refused) {
  Intake intake(kMachine, 2);
  EXPECT_EQ(intake.offer(1, 1, {.cpu_millis = 4001}), Verdict::kImpossible);
  EXPECT_EQ(intake.offer(2, 1, {.memory_bytes = 1001}), Verdict::kImpossible);
  EXPECT_EQ(intake.offer(3, 1, {.gpu_mask = 4}), Verdict::kImpossible);
  EXPECT_EQ(intake.offer(4, 1, {.cpu_millis = 4000, .memory_bytes = 1000, .gpu_mask = 3}), Verdict::kQueued);
  EXPECT_EQ(intake.offer(5, 1, {}), Verdict::kQueued);
  EXPECT_EQ(intake.offer(6, 1, {}), Verdict::kFull);
  EXPECT_EQ(intake.offer(6, 1, {}), Verdict::kDuplicate);
  EXPECT_EQ(intake.start_next(), 4U);
  EXPECT_EQ(intake.offer(7, 1, {}), Verdict::kQueued);
}

// Contract: U-2. One that has the place of another runs, wherever it stood in line, if it fits; and is not started
// again.
TEST(Intake, OutOfLine) {
  Intake intake(kMachine, 10);
  for (const std::uint64_t task : {1, 2, 3, 4})
    ASSERT_EQ(intake.offer(task, 1, {.cpu_millis = 2000}), Verdict::kQueued);
  EXPECT_EQ(intake.first_in_line(2), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(intake.start_next(), 1U);
  EXPECT_TRUE(intake.start(3));
  EXPECT_FALSE(intake.start(3));
  EXPECT_FALSE(intake.start(4)) << "there is no room";
  EXPECT_FALSE(intake.start(9));
  EXPECT_EQ(intake.first_in_line(9), (std::vector<std::uint64_t>{2, 4}));
  intake.check_invariants();
  intake.end(3);
  EXPECT_EQ(intake.start_next(), 2U);
  EXPECT_EQ(intake.start_next(), std::nullopt);
  intake.end(1);
  EXPECT_EQ(intake.start_next(), 4U);
  intake.check_invariants();
}

// What has ended long ago is forgotten, in that order; memory is bounded.
TEST(Intake, Forgets) {
  Intake intake(kMachine, 10);
  for (std::uint64_t task = 1; task <= Intake::kRemembered + 1; ++task) {
    ASSERT_EQ(intake.offer(task, 1, {}), Verdict::kQueued);
    ASSERT_EQ(intake.start_next(), task);
    intake.end(task);
  }
  EXPECT_EQ(intake.offer(2, 1, {}), Verdict::kDuplicate);
  EXPECT_EQ(intake.offer(1, 1, {}), Verdict::kQueued);
}

// Random commands against a plain list: the same tasks start in the same order, and the books are right.
TEST(Intake, AgainstAList) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Prng random(seed);
    Intake intake(kMachine, 20);
    struct Row {
      std::uint64_t task;
      Demand demand;
    };
    std::vector<Row> waiting;
    std::vector<Row> running;
    std::uint64_t next = 0;
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t dice = random.next() % 10;
      if (dice < 5) {
        const Demand demand{
            .cpu_millis = random.next() % 3000, .memory_bytes = random.next() % 700, .gpu_mask = random.next() % 4};
        ++next;
        const Verdict verdict = intake.offer(next, 1, demand);
        ASSERT_EQ(verdict, waiting.size() < 20 ? Verdict::kQueued : Verdict::kFull);
        if (verdict == Verdict::kQueued) waiting.push_back({next, demand});
      } else if (dice < 8 && !running.empty()) {
        const std::size_t which = random.next() % running.size();
        intake.end(running[which].task);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (!waiting.empty()) {
        const std::size_t which = random.next() % waiting.size();
        ASSERT_TRUE(intake.is_waiting(waiting[which].task));
        intake.end(waiting[which].task);
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(which));
      }
      for (;;) {
        Demand used;
        for (const Row& row : running) {
          used.cpu_millis += row.demand.cpu_millis;
          used.memory_bytes += row.demand.memory_bytes;
          used.gpu_mask |= row.demand.gpu_mask;
        }
        const bool fits = !waiting.empty() && used.cpu_millis + waiting[0].demand.cpu_millis <= 4000 &&
                          used.memory_bytes + waiting[0].demand.memory_bytes <= 1000 &&
                          (used.gpu_mask & waiting[0].demand.gpu_mask) == 0;
        const std::optional<std::uint64_t> started = intake.start_next();
        ASSERT_EQ(started.has_value(), fits);
        if (!fits) break;
        ASSERT_EQ(*started, waiting[0].task);
        running.push_back(waiting[0]);
        waiting.erase(waiting.begin());
      }
      intake.check_invariants();
      ASSERT_EQ(intake.waiting(), waiting.size());
      ASSERT_EQ(intake.running(), running.size());
    }
  }
}

}  // namespace
}  // namespace rota::worker

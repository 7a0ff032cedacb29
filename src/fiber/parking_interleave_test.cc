// The real parking lot under the interleaving checker: no wake-up is lost, and the counts are right afterwards.
// Contract: F-18.
#include <gtest/gtest.h>

#include "fiber/parking.h"
#include "interleave/interleave.h"

namespace rota::fiber::detail {

// The library is not linked here; this is its lock without the call to the system.
void SpinLock::lock_slow() {
  while (word_.load(std::memory_order_relaxed) != 0 || word_.exchange(1, std::memory_order_acquire) != 0) {
    sync::cpu_pause();
  }
}

namespace {

using interleave::check;
using interleave::Execution;
using interleave::Failure;
using interleave::Result;

// A queue that is only a number of items; what matters is when its changes are seen.
struct Work {
  sync::Atomic<int> items{0};

  bool take() {
    int now = items.load(std::memory_order_acquire);
    while (now > 0) {
      if (items.compare_exchange_strong(now, now - 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }
};

void wake(ParkingLot& lot) {
  lot.wake_one([](std::uint32_t) {});
}

// As a worker does after a push.
void push(ParkingLot& lot, Work& work) {
  work.items.fetch_add(1, std::memory_order_relaxed);
  light_fence();
  const std::uint64_t word = lot.word().load(std::memory_order_relaxed);
  if (ParkingLot::sleepers(word) > 0 && ParkingLot::searchers(word) == 0) wake(lot);
}

// As a worker does without work, until it has found one item. `second_look`: whether it looks again before it sleeps.
void find_one(ParkingLot& lot, Work& work, std::uint32_t worker, bool second_look) {
  lot.begin_search();
  for (;;) {
    if (work.take()) {
      if (lot.end_search()) wake(lot);
      return;
    }
    lot.begin_sleep(worker);
    if (second_look && work.items.load(std::memory_order_relaxed) > 0) {
      if (lot.leave(worker)) lot.begin_search();
      continue;
    }
    lot.sleep(worker);
  }
}

Result one_sleeper(bool second_look) {
  return check({.name = "one sleeper"}, [=](Execution& ex) {
    ParkingLot lot(1);
    Work work;
    ex.run([&] { push(lot, work); }, [&] { find_one(lot, work, 0, second_look); });
    ROTA_INTERLEAVE_ASSERT(work.items.load() == 0);
    ROTA_INTERLEAVE_ASSERT(lot.word().load() == 0);
  });
}

TEST(ParkingInterleave, NoWakeUpIsLost) {
  const Result result = one_sleeper(true);
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// Without the second look, a push between the search and the sleep is lost: the checker says so.
TEST(ParkingInterleave, WithoutTheSecondLookItIsLost) {
  const Result result = one_sleeper(false);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failure, Failure::kDeadlock) << result.report;
}

// A worker that was chosen while it got up by itself takes its seat again: it must not find the token of the last time.
TEST(ParkingInterleave, ASeatTakenAgainHasNoOldToken) {
  const Result result = check({.name = "a seat taken again", .max_executions = 100'000}, [](Execution& ex) {
    ParkingLot lot(1);
    Work work;
    ex.run(
        [&] {
          push(lot, work);
          push(lot, work);
        },
        [&] {
          find_one(lot, work, 0, true);
          find_one(lot, work, 0, true);
        });
    ROTA_INTERLEAVE_ASSERT(work.items.load() == 0);
    ROTA_INTERLEAVE_ASSERT(lot.word().load() == 0);
  });
  EXPECT_TRUE(result.ok) << result.report;
}

// Two items, two thread workers: one that is chosen takes its seat again without an old token. Bounded preemptions.
TEST(ParkingInterleave, TwoSleepersTwoPushes) {
  const Result result =
      check({.name = "two sleepers", .preemption_bound = 2, .max_executions = 60'000}, [](Execution& ex) {
        ParkingLot lot(2);
        Work work;
        ex.run(
            [&] {
              push(lot, work);
              push(lot, work);
            },
            [&] { find_one(lot, work, 0, true); }, [&] { find_one(lot, work, 1, true); });
        ROTA_INTERLEAVE_ASSERT(work.items.load() == 0);
        ROTA_INTERLEAVE_ASSERT(lot.word().load() == 0);
      });
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace rota::fiber::detail

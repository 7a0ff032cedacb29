// The biased lock under the interleaving checker: the owner and others exclude each other, before, during and after the
// bias is revoked. Contract: F-24.
#include <gtest/gtest.h>

#include "fiber/biased_lock.h"
#include "interleave/interleave.h"

namespace rota::fiber::detail {
namespace {

using interleave::check;
using interleave::Execution;
using interleave::Failure;
using interleave::Result;

struct Counted {
  explicit Counted(const ThreadWorker* owner) : lock(owner) {}
  void add(const ThreadWorker* self) {
    lock.lock_as(self);
    value = value.get() + 1;
    lock.unlock();
  }
  BiasedLock lock;
  sync::Plain<int> value{0};  // The checker sees two at once.
};

// The owner twice, so that one of its times may be before and one after the other's.
TEST(BiasedLockInterleave, OwnerAndOther) {
  const Result result = check({.name = "owner and other"}, [](Execution& ex) {
    ThreadWorker owner(2);
    owner.solo = true;
    Counted counted(&owner);
    ex.run(
        [&] {
          counted.add(&owner);
          counted.add(&owner);
        },
        [&] { counted.add(nullptr); });
    ROTA_INTERLEAVE_ASSERT(counted.value.get() == 3);
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// Two who revoke it at the same time: the second must not believe in the first one's half-done work.
TEST(BiasedLockInterleave, OwnerAndTwoOthers) {
  const Result result =
      check({.name = "owner and two others", .preemption_bound = 2, .max_executions = 300'000}, [](Execution& ex) {
        ThreadWorker owner(2);
        owner.solo = true;
        Counted counted(&owner);
        ex.run([&] { counted.add(&owner); }, [&] { counted.add(nullptr); }, [&] { counted.add(nullptr); });
        ROTA_INTERLEAVE_ASSERT(counted.value.get() == 3);
      });
  EXPECT_TRUE(result.ok) << result.report;
}

// The same without the light_fence() on the owner's way in: both are inside at once, and the checker says so.
TEST(BiasedLockInterleave, WithoutTheFenceBothAreInside) {
  const Result result = check({.name = "without the fence"}, [](Execution& ex) {
    sync::Atomic<std::uint32_t> busy{0};
    sync::Atomic<std::uint32_t> revoked{0};
    sync::Plain<int> value{0};
    ex.run(
        [&] {
          busy.store(1, std::memory_order_relaxed);
          if (revoked.load(std::memory_order_relaxed) == 0) value = value.get() + 1;
          busy.store(0, std::memory_order_release);
        },
        [&] {
          revoked.store(1, std::memory_order_relaxed);
          heavy_fence();
          while (busy.load(std::memory_order_acquire) != 0) sync::cpu_pause();
          value = value.get() + 1;
        });
  });
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failure, Failure::kDataRace) << result.report;
}

}  // namespace
}  // namespace rota::fiber::detail

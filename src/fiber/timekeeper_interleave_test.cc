// The real timekeeper under the interleaving checker: a timer that is added while the poller leaves, or while the
// timekeeper goes to sleep, is fired. Contract: F-6.
#include <gtest/gtest.h>

#include "fiber/timekeeper.h"
#include "interleave/interleave.h"

namespace rota::fiber::detail {
namespace {

using interleave::check;
using interleave::Execution;
using interleave::Failure;
using interleave::Result;

constexpr Nanoseconds kSoon = 5;
constexpr Nanoseconds kLater = 1'000'000'000;

// The runtime's timers and poller, as far as this protocol reads them. A timer at kSoon is due as soon as it is seen;
// one at kLater never is.
struct World {
  explicit World(Nanoseconds first, bool polled) : next(first), poller(polled ? 0 : -1) {}

  sync::Atomic<Nanoseconds> next;
  sync::Atomic<int> poller;
  Timekeeper keeper;
  int fired = 0;  // Only the timekeeper's thread.

  // As add_timer(): true if it left the timer to the poller.
  void add() {
    next.store(kSoon, std::memory_order_seq_cst);
    if (poller.load(std::memory_order_seq_cst) < 0) keeper.watch(kSoon);  // Otherwise the poller is rung.
  }
  // As stop_polling().
  void stop_polling(bool watches) {
    poller.store(-1, std::memory_order_seq_cst);
    const Nanoseconds earliest = next.load(std::memory_order_seq_cst);
    if (watches && earliest != kNever) keeper.watch(earliest);
  }
  template <bool kLooksAgain = true>
  void keep_time() {
    keeper.run<kLooksAgain>([this] { return next.load(std::memory_order_seq_cst); },
                            [this] { return next.load(std::memory_order_relaxed) == kSoon ? kLater * 2 : 0; },
                            [this](Nanoseconds) {
                              ++fired;
                              next.store(kNever, std::memory_order_seq_cst);
                              keeper.stop();
                            });
  }
};

// A timer is added while the timekeeper falls asleep, without any other timer or with a later one.
TEST(TimekeeperInterleave, ATimerMeetsTheSleep) {
  for (const Nanoseconds first : {kNever, kLater}) {
    const Result result = check({.name = "a timer meets the sleep"}, [first](Execution& ex) {
      World world(first, false);
      ex.run([&] { world.add(); }, [&] { world.keep_time(); });
      ROTA_INTERLEAVE_ASSERT(world.fired == 1);
    });
    EXPECT_TRUE(result.ok) << result.report;
    EXPECT_TRUE(result.exhaustive) << result.report;
  }
}

// Without the second look at the earliest timer it sleeps for ever: the checker says so.
TEST(TimekeeperInterleave, WithoutTheSecondLookItIsLost) {
  const Result result = check({.name = "no second look"}, [](Execution& ex) {
    World world(kNever, false);
    ex.run([&] { world.add(); }, [&] { world.keep_time<false>(); });
  });
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failure, Failure::kDeadlock) << result.report;
}

Result poller_leaves(bool watches) {
  return check({.name = "the poller leaves"}, [=](Execution& ex) {
    World world(kNever, true);
    ex.run([&] { world.add(); }, [&] { world.stop_polling(watches); }, [&] { world.keep_time(); });
    ROTA_INTERLEAVE_ASSERT(world.fired == 1);
  });
}

// A timer is added while the poller, which would have watched it, leaves to work.
TEST(TimekeeperInterleave, ATimerMeetsAPollerThatLeaves) {
  const Result result = poller_leaves(true);
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}
TEST(TimekeeperInterleave, APollerThatLeavesSilentlyLosesIt) {
  const Result result = poller_leaves(false);
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failure, Failure::kDeadlock) << result.report;
}

// Two timers at once: one of the two callers relies on the other's wake.
TEST(TimekeeperInterleave, TwoTimersAtOnce) {
  const Result result =
      check({.name = "two timers", .preemption_bound = 3, .max_executions = 200'000}, [](Execution& ex) {
        World world(kLater, false);
        ex.run([&] { world.add(); }, [&] { world.add(); }, [&] { world.keep_time(); });
        ROTA_INTERLEAVE_ASSERT(world.fired >= 1);
      });
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace rota::fiber::detail

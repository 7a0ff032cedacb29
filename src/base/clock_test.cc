// The clocks: the manual one moves only when told and lets exactly those go whose time has come.
#include "rota/clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/sync.h"

namespace rota {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(SystemClockTest, IsMonotonicAndSleepsAtLeastAsLongAsAsked) {
  SystemClock& clock = system_clock();
  const Instant start = clock.now();
  EXPECT_TRUE(clock.sleep_until(start).ok());
  EXPECT_TRUE(clock.sleep_until(Instant::min()).ok());
  EXPECT_TRUE(clock.sleep_for(milliseconds(1)).ok());
  EXPECT_GE(clock.now(), start + milliseconds(1));
  EXPECT_GT(clock.wall(), ManualClock::kDefaultWall);  // The machine's calendar is past 2024.
}

TEST(ClockTest, AddingSaturates) {
  EXPECT_EQ(Clock::saturating_add(Instant::max(), seconds(1)), Instant::max());
  EXPECT_EQ(Clock::saturating_add(Instant::min(), -seconds(1)), Instant::min());
  EXPECT_EQ(Clock::saturating_add(Instant(seconds(1)), Duration::max()), Instant::max());
  EXPECT_EQ(Clock::saturating_add(Instant(seconds(1)), seconds(2)), Instant(seconds(3)));
}

TEST(ManualClockTest, StandsStillUntilAdvanced) {
  ManualClock clock;
  const Instant start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(seconds(3));
  EXPECT_EQ(clock.now(), start + seconds(3));
  EXPECT_EQ(clock.wall(), ManualClock::kDefaultWall + seconds(3));
  clock.advance_to(start);  // The past: nothing happens.
  EXPECT_EQ(clock.now(), start + seconds(3));
  clock.set_wall(ManualClock::kDefaultWall - hours(1));
  EXPECT_EQ(clock.wall(), ManualClock::kDefaultWall - hours(1));
  EXPECT_EQ(clock.now(), start + seconds(3));
  EXPECT_TRUE(clock.sleep_until(start).ok());
  EXPECT_EQ(clock.next_deadline(), std::nullopt);
}

TEST(ManualClockTest, LetsExactlyTheDueSleepersGo) {
  ManualClock clock;
  const Instant start = clock.now();
  sync::Mutex mutex;
  std::vector<int> woken;
  std::vector<sync::Thread> threads;
  for (const int at : {3, 1, 2}) {
    threads.emplace_back([&, at] {
      EXPECT_TRUE(clock.sleep_until(start + seconds(at)).ok());
      EXPECT_GE(clock.now(), start + seconds(at));
      const sync::MutexLock lock(mutex);
      woken.push_back(at);
    });
  }
  clock.wait_for_sleepers(3);
  EXPECT_EQ(clock.sleepers(), 3U);
  EXPECT_EQ(clock.next_deadline(), start + seconds(1));
  clock.advance(milliseconds(999));
  EXPECT_EQ(clock.sleepers(), 3U);
  clock.advance(milliseconds(1));
  EXPECT_EQ(clock.sleepers(), 2U);
  EXPECT_EQ(clock.next_deadline(), start + seconds(2));
  clock.advance_to(start + seconds(3));
  EXPECT_EQ(clock.sleepers(), 0U);
  threads.clear();
  std::sort(woken.begin(), woken.end());
  EXPECT_EQ(woken, (std::vector<int>{1, 2, 3}));
}

TEST(ManualClockTest, CloseEndsEveryWait) {
  ManualClock clock;
  ErrorCode code = ErrorCode::kOk;
  sync::Thread sleeper([&] { code = clock.sleep_for(Duration::max()).code(); });
  clock.wait_for_sleepers(1);
  clock.close();
  sleeper.join();
  EXPECT_EQ(code, ErrorCode::kClosed);
  EXPECT_EQ(clock.sleep_for(seconds(1)).code(), ErrorCode::kClosed);
}

TEST(ManualClockTest, ManyThreadsSleepInRounds) {
  // Every sleeper must see every round: advance() may not run past one that has not woken yet.
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  ManualClock clock;
  std::vector<int> rounds(kThreads, 0);
  {
    std::vector<sync::Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int r = 0; r < kRounds; ++r) {
          if (clock.sleep_for(seconds(1)).ok()) ++rounds[static_cast<std::size_t>(t)];
        }
      });
    }
    for (int r = 0; r < kRounds; ++r) {
      clock.wait_for_sleepers(kThreads);
      clock.advance(seconds(1));
    }
  }
  EXPECT_EQ(rounds, std::vector<int>(kThreads, kRounds));
  EXPECT_EQ(clock.now(), ManualClock::kDefaultStart + seconds(kRounds));
}

using ManualClockDeathTest = testing::Test;

TEST(ManualClockDeathTest, TimeDoesNotRunBackwards) {
  EXPECT_DEATH(
      {
        ManualClock clock;
        clock.advance(-seconds(1));
      },
      "advance by -1000000000 ns");
}

}  // namespace
}  // namespace rota

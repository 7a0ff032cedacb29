// Baton and Condition: fibers and plain threads wait, with limits and cancellation, and return exactly when they
// should. Contract: F-9, F-25
#include "fiber/baton.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "fiber/condition.h"
#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;
using End = Baton::End;
constexpr const char* kTest = "the test";

TEST(Baton, IsPostedOnceAndStaysPosted) {
  Baton baton;
  EXPECT_FALSE(baton.is_posted());
  EXPECT_EQ(baton.wait_for(0ns, kTest), End::kTimeout);
  EXPECT_EQ(baton.wait_for(-1s, kTest), End::kTimeout);
  EXPECT_FALSE(in_task());
  baton.post();
  baton.post();
  EXPECT_TRUE(baton.is_posted());
  EXPECT_TRUE(baton.wait(kTest));
  EXPECT_EQ(baton.wait_for(0ns, kTest), End::kPosted);
  baton.wait_uncancellable(kTest);
}

// The waiter destroys the baton as soon as wait() has returned, often while post() has not returned. What the poster
// wrote before is visible: a race on `value` is one that ThreadSanitizer sees.
TEST(Baton, AThreadWaitsForAThread) {
  for (int round = 0; round < (ROTA_TSAN ? 200 : 2000); ++round) {
    auto baton = std::make_unique<Baton>();
    int value = 0;
    std::thread poster([&value, raw = baton.get()] {
      value = 7;
      raw->post();
    });
    EXPECT_TRUE(baton->wait(kTest));
    EXPECT_EQ(value, 7);
    baton.reset();
    poster.join();
  }
}

TEST(Baton, AThreadsTimeRunsOutAndItMayWaitAgain) {
  Baton baton;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(baton.wait_for(2ms, kTest), End::kTimeout);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 2ms);
  std::thread poster([&] { baton.post(); });
  EXPECT_EQ(baton.wait_for(1h, kTest), End::kPosted);
  poster.join();
}

TEST(Baton, AFiberWaitsForAFiberInEveryMode) {
  in_all_modes([] {
    EXPECT_TRUE(in_task());
    int value = 0;
    with_scope([&](Nursery& n) {
      Baton there;
      Baton back;
      n.launch([&] {
        EXPECT_TRUE(there.wait(kTest));
        EXPECT_EQ(value, 1);
        value = 2;
        back.post();
      });
      value = 1;
      there.post();
      EXPECT_TRUE(back.wait(kTest));
      EXPECT_EQ(value, 2);
    });
  });
}

// A fiber that waits does not block its thread: with one thread worker the poster still runs.
TEST(Baton, AFiberWaitsForAThreadAndTheOtherWayRound) {
  Runtime runtime({.worker_count = 1});
  Baton asked;
  Baton answered;
  int value = 0;
  std::thread thread([&] {
    EXPECT_TRUE(asked.wait(kTest));
    value += 1;
    answered.post();
  });
  runtime.run([&] {
    with_scope([&](Nursery& n) {
      n.launch([&] {
        EXPECT_TRUE(answered.wait(kTest));
        EXPECT_EQ(value, 1);
      });
      n.launch([&] { asked.post(); });
    });
  });
  thread.join();
}

TEST(Baton, AFibersTimeRunsOutInVirtualTime) {
  in_virtual_time([] {
    EXPECT_TRUE(in_deterministic_task());
    Baton baton;
    const auto start = now();
    EXPECT_EQ(baton.wait_for(0ns, kTest), End::kTimeout);
    EXPECT_EQ(baton.wait_for(1h, kTest), End::kTimeout);
    EXPECT_EQ(now() - start, std::chrono::nanoseconds(1h));
    with_scope([&](Nursery& n) {
      n.launch([&] {
        (void)sleep_for(1min);
        baton.post();
      });
      EXPECT_EQ(baton.wait_for(1h, kTest), End::kPosted);
    });
    EXPECT_EQ(now() - start, std::chrono::nanoseconds(1h + 1min));
  });
}

// The limit and the post() come at the same time, on real thread workers: either may win, and nothing is left behind.
TEST(Baton, APostMeetsTheLimit) {
  Runtime runtime({.worker_count = 3});
  runtime.run([] {
    for (int round = 0; round < (ROTA_TSAN ? 100 : 1000); ++round) {
      const auto baton = std::make_shared<Baton>();
      with_scope([&](Nursery& n) {
        n.launch([baton] {
          (void)sleep_for(20us);
          baton->post();
        });
        EXPECT_TRUE(baton->wait_for(20us, kTest) == End::kPosted || baton->wait(kTest));
      });
    }
  });
}

// F-9: a cancelled task's wait ends early, and it may wait again without being cancellable.
TEST(Baton, CancellationEndsAFibersWait) {
  in_all_modes([] {
    Baton never;
    Baton waits;
    Baton later;
    bool cancelled = false;
    Nursery n;
    n.launch([&] {
      waits.post();
      cancelled = !never.wait(kTest);
      EXPECT_EQ(never.wait_for(1h, kTest), End::kCancelled) << "it is still cancelled";
      later.wait_uncancellable(kTest);
      EXPECT_TRUE(later.is_posted());
    });
    EXPECT_TRUE(waits.wait(kTest));
    (void)sleep_for(1us);
    n.cancel();
    yield();
    later.post();
    EXPECT_EQ(n.close().code(), ErrorCode::kCancelled);
    EXPECT_TRUE(cancelled);
    EXPECT_FALSE(never.is_posted());
  });
}

// F-9: a cancellation meets a post() from a plain thread; the fiber returns once, and the poster never touches a frame
// that is gone (AddressSanitizer and ThreadSanitizer would see it).
TEST(Baton, ACancellationMeetsAPost) {
  Runtime runtime({.worker_count = 2});
  for (int round = 0; round < (ROTA_TSAN ? 100 : 1000); ++round) {
    const auto baton = std::make_shared<Baton>();
    Task<void> task = runtime.spawn([baton] { (void)baton->wait(kTest); });
    std::thread poster([baton] { baton->post(); });
    task.cancel();
    (void)task.wait_for(1h);
    poster.join();
  }
}

// The poster's thread may still be inside post() when the task has ended and its runtime is destroyed.
TEST(Baton, ARuntimeMayBeDestroyedWhileAThreadPostsToItsLastTask) {
  for (int round = 0; round < (ROTA_TSAN ? 30 : 300); ++round) {
    auto runtime = std::make_unique<Runtime>(Config{.worker_count = 1});
    Baton baton;
    Baton waits;
    Task<void> task = runtime->spawn([&] {
      waits.post();
      EXPECT_TRUE(baton.wait(kTest));
    });
    std::thread poster([&] {
      EXPECT_TRUE(waits.wait(kTest));
      baton.post();
    });
    task.get();
    runtime.reset();
    poster.join();
  }
}

// Task::get() and wait_for() of a plain thread go through a baton.
TEST(Baton, AThreadThatStopsJoiningMayJoinAgain) {
  Runtime runtime({.worker_count = 1});
  Baton go;
  Task<int> task = runtime.spawn([&] {
    (void)go.wait(kTest);
    return 42;
  });
  EXPECT_FALSE(task.wait_for(1ms));
  EXPECT_FALSE(task.wait_for(0ns));
  go.post();
  EXPECT_TRUE(task.wait_for(1h));
  EXPECT_EQ(task.get(), 42);
}

struct Shared {
  sync::Mutex mutex;
  Condition changed;
  int value ROTA_GUARDED_BY(mutex) = 0;
  int waiting ROTA_GUARDED_BY(mutex) = 0;

  Result<void> wait_for_value(int wanted) {
    const sync::MutexLock lock(mutex);
    ++waiting;
    while (value < wanted) ROTA_TRY(changed.wait(mutex, kTest));
    return {};
  }
  void set(int to) {
    const sync::MutexLock lock(mutex);
    value = to;
    changed.wake_all();
  }
  bool all_wait(int count) {
    const sync::MutexLock lock(mutex);
    return waiting == count;
  }
};

TEST(Condition, WakesEveryFiberAndThreadThatWaits) {
  Runtime runtime({.worker_count = 2});
  Shared shared;
  std::vector<std::thread> threads;
  std::vector<Task<void>> tasks;
  std::atomic<int> done{0};
  for (int i = 0; i < 4; ++i) {
    const auto body = [&shared, &done, i] {
      EXPECT_TRUE(shared.wait_for_value(1 + i % 2).ok());
      ++done;
    };
    threads.emplace_back(body);
    tasks.push_back(runtime.spawn(body));
  }
  while (!shared.all_wait(8)) std::this_thread::yield();
  shared.set(1);
  while (done < 4) std::this_thread::yield();
  shared.set(2);
  for (std::thread& thread : threads) thread.join();
  for (Task<void>& task : tasks) task.get();
}

// F-9: a cancelled waiter leaves the list, whichever place it has in it, and the others are still woken.
TEST(Condition, ACancelledWaiterLeavesTheOthersInPlace) {
  for (int victim = 0; victim < 3; ++victim) {
    Runtime runtime({.worker_count = 2});
    Shared shared;
    std::vector<Task<ErrorCode>> tasks;
    for (int i = 0; i < 3; ++i) {
      tasks.push_back(runtime.spawn([&] { return shared.wait_for_value(1).code(); }));
      while (!shared.all_wait(i + 1)) std::this_thread::yield();
    }
    tasks[static_cast<std::size_t>(victim)].cancel();
    EXPECT_EQ(tasks[static_cast<std::size_t>(victim)].get(), ErrorCode::kCancelled);
    shared.set(1);
    for (int i = 0; i < 3; ++i) {
      if (i == victim) continue;
      EXPECT_EQ(tasks[static_cast<std::size_t>(i)].get(), ErrorCode::kOk);
    }
  }
}

TEST(Condition, WorksInDeterministicMode) {
  in_virtual_time([] {
    Shared shared;
    with_scope([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) n.launch([&] { EXPECT_TRUE(shared.wait_for_value(3).ok()); });
      for (int i = 1; i <= 3; ++i) {
        (void)sleep_for(1s);
        shared.set(i);
      }
    });
  });
}

// A wait with a limit ends exactly at its time, leaves the list, and holds the mutex again.
TEST(Condition, WaitUntil) {
  in_virtual_time([] {
    sync::Mutex mutex;
    Condition changed;
    bool set = false;
    with_scope([&](Nursery& n) {
      const std::chrono::nanoseconds start = now();
      const auto wait_until = [&](std::chrono::nanoseconds time) -> Result<void> {
        const sync::MutexLock lock(mutex);
        while (!set) ROTA_TRY(changed.wait_until(mutex, time, "the test"));
        return {};
      };
      auto early = n.spawn([&] {
        const ErrorCode code = wait_until(start + 1s).code();
        EXPECT_EQ(now(), start + 1s);
        return code;
      });
      auto late = n.spawn([&] { return wait_until(start + 3s).code(); });
      auto never = n.spawn([&] { return wait_until(std::chrono::nanoseconds::max()).code(); });
      EXPECT_TRUE(sleep_until(start + 2s).ok());
      EXPECT_EQ(wait_until(start + 2s).code(), ErrorCode::kDeadlineExceeded);
      EXPECT_EQ(now(), start + 2s);
      EXPECT_EQ(early.get(), ErrorCode::kDeadlineExceeded);
      {
        const sync::MutexLock lock(mutex);
        set = true;
        changed.wake_all();
      }
      EXPECT_EQ(late.get(), ErrorCode::kOk);
      EXPECT_EQ(never.get(), ErrorCode::kOk);
      EXPECT_EQ(now(), start + 2s);
    });
  });
}

}  // namespace
}  // namespace rota::fiber

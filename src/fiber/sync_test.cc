// Mutex, Semaphore, Event, WaitGroup: exclusion, order, limits, cancellation, misuse (F-25).
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

// Contract: F-25. One at a time, on more workers than cores; a worker whose task waits runs others.
TEST(Mutex, ExcludesOnManyWorkers) {
  Runtime runtime({.worker_count = 10});
  runtime.run([] {
    Mutex mutex;
    std::uint64_t plain = 0;  // A race here is one that ThreadSanitizer sees.
    int inside = 0;
    with_scope([&](Nursery& n) {
      for (int t = 0; t < 20; ++t) {
        n.launch([&, t] {
          for (int i = 0; i < 500; ++i) {
            const std::lock_guard lock(mutex);
            EXPECT_EQ(++inside, 1);
            plain += 1;
            if (i % 50 == t) yield();
            --inside;
          }
        });
      }
    });
    EXPECT_EQ(plain, 10'000U);
  });
}

// Contract: F-25. Waiting does not block the thread worker: with one, the holder sleeps and others run.
TEST(Mutex, WaitingDoesNotBlockTheWorker) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Mutex mutex;
    bool other_ran = false;
    mutex.lock();
    with_scope([&](Nursery& n) {
      n.launch([&] { const std::lock_guard lock(mutex); });
      n.launch([&] { other_ran = true; });
      while (!other_ran) yield();
      mutex.unlock();
    });
  });
}

// Contract: F-25. Those who wait are served in their order.
TEST(Mutex, IsFirstInFirstOut) {
  in_virtual_time([] {
    Mutex mutex;
    std::vector<int> order;
    Event waits;
    mutex.lock();
    with_scope([&](Nursery& n) {
      for (int i = 0; i < 10; ++i) {
        waits.reset();
        n.launch([&, i] {
          waits.set();
          const std::lock_guard lock(mutex);
          order.push_back(i);
        });
        waits.wait();
        (void)sleep_for(100us);
      }
      EXPECT_FALSE(code_thrown([&] { (void)mutex.try_lock_for(1us); }) == ErrorCode::kOk) << "it is ours already";
      mutex.unlock();
    });
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(order.size(), 10U);
  });
}

// Contract: F-9, F-25. Limits and cancellation end the wait for a mutex; it is not lost with the one who left.
TEST(Mutex, LimitsAndCancellation) {
  in_all_modes([] {
    Mutex mutex;
    with_scope([&](Nursery& n) {
      std::unique_lock mine(mutex);
      n.spawn([&] {
         EXPECT_FALSE(mutex.try_lock());
         EXPECT_FALSE(mutex.try_lock_for(20us));
         EXPECT_FALSE(mutex.try_lock_for(0us));
       }).get();
      Task<void> waits = n.spawn([&] { const std::lock_guard lock(mutex); });
      Task<void> after_it = n.spawn([&] { const std::lock_guard lock(mutex); });
      (void)sleep_for(50us);
      waits.cancel();
      EXPECT_THROW(waits.get(), Cancelled);
      mine.unlock();
      after_it.get();
      EXPECT_TRUE(mutex.try_lock());
      mutex.unlock();
    });
  });
}

// Contract: F-25. A cancelled task that need not wait gets the lock, so that cleaning up works.
TEST(Mutex, ACancelledTaskGetsAFreeLock) {
  in_virtual_time([] {
    Mutex mutex;
    Event never;
    bool cleaned = false;
    with_scope([&](Nursery& n) {
      Task<void> task = n.spawn([&] {
        try {
          never.wait();
        } catch (const Cancelled&) {
          const std::lock_guard lock(mutex);
          cleaned = true;
        }
      });
      (void)sleep_for(10us);
      task.cancel();
    });
    EXPECT_TRUE(cleaned);
  });
}

// Contract: F-25. Misuse is said, and changes nothing.
TEST(Mutex, MisuseIsSaid) {
  Mutex mutex;
  EXPECT_EQ(code_thrown([&] { mutex.lock(); }), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(code_thrown([&] { (void)mutex.try_lock(); }), ErrorCode::kOutsideRuntime);
  in_all_modes([&mutex] {
    EXPECT_EQ(code_thrown([&] { mutex.unlock(); }), ErrorCode::kFailedPrecondition);
    mutex.lock();
    EXPECT_EQ(code_thrown([&] { mutex.lock(); }), ErrorCode::kFailedPrecondition);
    EXPECT_FALSE(mutex.try_lock());
    with_scope([&](Nursery& n) {
      n.launch([&] { EXPECT_EQ(code_thrown([&] { mutex.unlock(); }), ErrorCode::kFailedPrecondition); });
    });
    mutex.unlock();
  });
}

// Contract: F-9, F-25. Waits of all kinds end by limits and cancellations at random while the lock goes round: it is
// never held twice, and never lost.
TEST(Mutex, NeverLostUnderCancellation) {
  Runtime runtime({.worker_count = 8});
  runtime.run([] {
    Mutex mutex;
    int inside = 0;
    std::uint64_t entered = 0;
    with_scope([&](Nursery& n) {
      for (int t = 0; t < 8; ++t) {
        n.launch([&, t] {
          for (int i = 0; i < 150; ++i) {
            with_scope([&](Nursery& inner) {
              Task<void> task = inner.spawn([&] {
                if (i % 3 == 0 && !mutex.try_lock_for(std::chrono::microseconds(i % 5))) return;
                if (i % 3 != 0) mutex.lock();
                const std::lock_guard lock(mutex, std::adopt_lock);
                EXPECT_EQ(++inside, 1);
                ++entered;
                if (i % 7 == 0) yield();
                --inside;
              });
              if (i % 4 == t % 4) task.cancel();
              task.wait();
            });
          }
        });
      }
    });
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
    EXPECT_GT(entered, 0U);
  });
}

// Contract: F-25. Never more holders than permits; permits come back; those who wait are served first.
TEST(Semaphore, LimitsTheHolders) {
  Runtime runtime({.worker_count = 8});
  runtime.run([] {
    Semaphore semaphore(3, 3);
    sync::Atomic<int> inside{0};
    sync::Atomic<int> most{0};
    with_scope([&](Nursery& n) {
      for (int t = 0; t < 16; ++t) {
        n.launch([&] {
          for (int i = 0; i < 200; ++i) {
            semaphore.acquire();
            const int now = inside.fetch_add(1) + 1;
            EXPECT_LE(now, 3);
            for (int seen = most.load(); now > seen && !most.compare_exchange_weak(seen, now);) {
            }
            if (i % 20 == 0) yield();
            inside.fetch_sub(1);
            semaphore.release();
          }
        });
      }
    });
    EXPECT_EQ(semaphore.available(), 3U);
    EXPECT_GT(most.load(), 1);
  });
}

// Contract: F-25. Limits, cancellation, several permits at once, the maximum, and use from outside.
TEST(Semaphore, LimitsCancellationAndMisuse) {
  EXPECT_EQ(code_thrown([] { Semaphore semaphore(2, 1); }), ErrorCode::kInvalidArgument);
  Semaphore shared(1);
  EXPECT_TRUE(shared.try_acquire());
  EXPECT_FALSE(shared.try_acquire());
  EXPECT_EQ(code_thrown([&] { shared.acquire(); }), ErrorCode::kOutsideRuntime);
  in_virtual_time([] {
    Semaphore semaphore(0, 5);
    EXPECT_FALSE(semaphore.try_acquire_for(10us));
    with_scope([&](Nursery& n) {
      sync::Atomic<int> got{0};
      std::vector<Task<void>> tasks;
      for (int i = 0; i < 4; ++i) {
        tasks.push_back(n.spawn([&] {
          semaphore.acquire();
          got.fetch_add(1);
        }));
      }
      (void)sleep_for(50us);
      tasks[1].cancel();
      tasks[1].wait();
      semaphore.release(2);
      (void)sleep_for(50us);
      EXPECT_EQ(semaphore.available(), 0U);
      semaphore.release(5);  // One more waits, four are left.
      for (auto& task : tasks) task.wait();
      EXPECT_EQ(got.load(), 3);
      EXPECT_EQ(semaphore.available(), 4U);
      EXPECT_EQ(code_thrown([&] { semaphore.release(2); }), ErrorCode::kFailedPrecondition);
      EXPECT_EQ(semaphore.available(), 4U);
    });
  });
  Runtime runtime({.worker_count = 1});
  Task<void> waits = runtime.spawn([&] { shared.acquire(); });
  shared.release();
  waits.get();
}

// Contract: F-25. set() lets all go, and all who come later; reset() makes them wait again.
TEST(Event, LetsAllGo) {
  in_virtual_time([] {
    Event event;
    sync::Atomic<int> passed{0};
    with_scope([&](Nursery& n) {
      for (int i = 0; i < 20; ++i) {
        n.launch([&] {
          event.wait();
          passed.fetch_add(1);
        });
      }
      (void)sleep_for(50us);
      EXPECT_EQ(passed.load(), 0);
      EXPECT_FALSE(event.wait_for(1us));
      event.set();
      event.reset();  // The tasks that waited continue nevertheless.
    });
    EXPECT_EQ(passed.load(), 20);
    EXPECT_FALSE(event.is_set());
    event.set();
    event.wait();
    EXPECT_TRUE(event.wait_for(0us));
    with_scope([&](Nursery& n) {
      event.reset();
      Task<void> task = n.spawn([&] { event.wait(); });
      (void)sleep_for(10us);
      Task<ErrorCode> quiet = n.spawn([&] { return event.wait(std::nothrow).code(); });
      (void)sleep_for(10us);
      task.cancel();
      quiet.cancel();
      EXPECT_THROW(task.get(), Cancelled);
      EXPECT_EQ(quiet.get(), ErrorCode::kCancelled);
      event.set();
      EXPECT_TRUE(event.wait(std::nothrow).ok());
    });
  });
}

// Contract: F-25. An event may be destroyed by the one it has let go, while set() is still on its way out; also by
// threads outside.
TEST(Event, MayGoWithItsWaiter) {
  Runtime runtime({.worker_count = 4});
  runtime.run([] {
    with_scope([](Nursery& n) {
      for (int i = 0; i < 500; ++i) {
        auto event = std::make_unique<Event>();
        Event* address = event.get();
        n.launch([address] { address->set(); });
        event->wait();
      }
    });
  });
  auto event = std::make_unique<Event>();
  Event* address = event.get();
  Task<void> waits = runtime.spawn([&event] {
    event->wait();
    event.reset();
  });
  address->set();
  waits.get();
  Event outside;
  EXPECT_EQ(code_thrown([&] { outside.wait(); }), ErrorCode::kOutsideRuntime);
  outside.set();
  outside.wait();
}

// Contract: F-25. wait() returns when all is done; the group counts again; misuse is said.
TEST(WaitGroup, WaitsForAll) {
  in_all_modes([] {
    WaitGroup group;
    group.wait();
    sync::Atomic<int> done{0};
    with_scope([&](Nursery& n) {
      for (int round = 0; round < 3; ++round) {
        group.add(10);
        for (int i = 0; i < 10; ++i) {
          n.launch([&] {
            yield();
            done.fetch_add(1);
            group.done();
          });
        }
        group.wait();
        EXPECT_EQ(done.load(), (round + 1) * 10);
      }
      group.add(2);
      EXPECT_EQ(group.count(), 2U);
      EXPECT_FALSE(group.wait_for(5us));
      EXPECT_EQ(code_thrown([&] { group.done(3); }), ErrorCode::kFailedPrecondition);
      EXPECT_EQ(code_thrown([&] { group.add(UINT64_MAX); }), ErrorCode::kFailedPrecondition);
      Task<void> task = n.spawn([&] { group.wait(); });
      (void)sleep_for(10us);
      task.cancel();
      EXPECT_THROW(task.get(), Cancelled);
      group.done(2);
      EXPECT_TRUE(group.wait_for(0us));
    });
  });
}

using SyncDeathTest = ::testing::Test;

// Contract: F-25. Destroying what a task waits for is a bug, and said.
TEST(SyncDeathTest, DestroyedWhileWaitedFor) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto destroy = [](auto made, auto wait) {
    Runtime runtime({.worker_count = 1});
    runtime.run([&] {
      with_scope([&](Nursery& n) {
        n.launch([&] { wait(*made); });
        yield();
        made.reset();
      });
    });
  };
  EXPECT_DEATH(destroy(std::make_unique<Event>(), [](Event& event) { event.wait(); }), "an event was destroyed");
  EXPECT_DEATH(destroy(std::make_unique<Semaphore>(0), [](Semaphore& semaphore) { semaphore.acquire(); }),
               "a semaphore was destroyed");
  EXPECT_DEATH(destroy(std::make_unique<WaitGroup>(1), [](WaitGroup& group) { group.wait(); }),
               "a wait group was destroyed");
  EXPECT_DEATH(destroy(std::make_unique<Mutex>(),
                       [](Mutex& mutex) {
                         mutex.lock();
                         yield();
                         mutex.unlock();
                       }),
               "a mutex was destroyed");
}

}  // namespace
}  // namespace rota::fiber

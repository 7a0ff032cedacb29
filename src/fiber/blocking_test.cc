#include "rota/fiber/blocking.h"

#include <sched.h>

#include <atomic>
#include <memory>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "fiber/blocking_pool.h"
#include "fiber/io_testing.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;
using testing::until_blocked;

// Contract: F-26. Whatever f returns comes back: a value, nothing, something that only moves, a Result of its own.
TEST(Blocking, ResultComesBack) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    const Result<int> value = blocking([] { return 42; });
    EXPECT_EQ(value.value(), 42);
    bool ran = false;
    const Result<void> nothing = blocking([&] { ran = true; });
    EXPECT_TRUE(nothing.ok() && ran);
    const Result<std::unique_ptr<int>> moved = blocking([] { return std::make_unique<int>(7); });
    EXPECT_EQ(**moved, 7);
    const Result<int> own = blocking([]() -> Result<int> { return Error{ErrorCode::kNotFound, "mine"}; });
    EXPECT_EQ(own.error().message, "mine");
    const Result<void> own_void = blocking([]() -> Result<void> { return ErrorCode::kNoSpace; });
    EXPECT_EQ(own_void.code(), ErrorCode::kNoSpace);
    const Result<void> code = blocking([] { return ErrorCode::kNotFound; });
    EXPECT_EQ(code.code(), ErrorCode::kNotFound);
    EXPECT_TRUE(blocking([] { return ErrorCode::kOk; }).ok());
    const Result<void> error = blocking([] { return Error{ErrorCode::kIoError, "mine"}; });
    EXPECT_EQ(error.error().message, "mine");
  });
}

// Contract: F-26. f runs on another thread, not a thread worker, and its exception is thrown in the task.
TEST(Blocking, RunsElsewhereAndRethrows) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    const std::thread::id mine = std::this_thread::get_id();
    EXPECT_NE(blocking([] { return std::this_thread::get_id(); }).value(), mine);
    EXPECT_EQ(blocking([] { return blocking([] { return 1; }); }).code(), ErrorCode::kOutsideRuntime);
    try {
      (void)blocking([]() -> int { throw std::runtime_error("from the helper"); });
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "from the helper");
    }
    EXPECT_EQ(blocking([] { return 1; }).value(), 1);
  });
}

// Contract: F-26. While f blocks its thread the only thread worker runs other tasks: here, the one that ends the
// blocking.
TEST(Blocking, WorkerGoesOn) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    std::binary_semaphore semaphore(0);
    with_scope([&](Nursery& n) {
      auto blocked = n.spawn([&] { return blocking([&] { semaphore.acquire(); }).code(); });
      until_blocked(blocked);
      semaphore.release();
      EXPECT_EQ(blocked.get(), ErrorCode::kOk);
    });
  });
}

// Contract: F-26. From many tasks: all run, never more at once than there may be helpers, and the rest waits in line.
TEST(Blocking, BoundOfHelpers) {
  for (const std::size_t workers : {1U, 2U, 64U}) {
    Runtime runtime({.worker_count = workers, .blocking_threads = 4});
    std::atomic<int> now_running = 0;
    std::atomic<int> most = 0;
    std::atomic<int> ran = 0;
    runtime.run([&] {
      with_scope([&](Nursery& n) {
        for (int i = 0; i < testing::rounds(1000); ++i) {
          n.launch([&] {
            const Result<void> done = blocking([&] {
              const int running = ++now_running;
              int seen = most;
              while (seen < running && !most.compare_exchange_weak(seen, running)) {
              }
              sched_yield();
              --now_running;
              ++ran;
            });
            EXPECT_TRUE(done.ok());
          });
        }
      });
    });
    EXPECT_EQ(ran, testing::rounds(1000));
    EXPECT_LE(most, 4);
    EXPECT_LE(runtime.core()->helpers->threads(), 4U);
  }
}

// Contract: F-26. A call that waits for a helper: in line, in order, and a cancelled one leaves the line and never
// runs.
TEST(Blocking, CancelledInTheQueue) {
  Runtime runtime({.worker_count = 2, .blocking_threads = 1});
  runtime.run([&] {
    std::binary_semaphore semaphore(0);
    std::string order;
    with_scope([&](Nursery& n) {
      const auto until_queued = [&](std::size_t count) {
        while (runtime.core()->helpers->queued() != count) yield();
      };
      std::atomic<bool> holds = false;
      auto holder = n.spawn([&] {
        return blocking([&] {
                 holds = true;
                 semaphore.acquire();
               })
            .code();
      });
      while (!holds) yield();
      auto first = n.spawn([&] { return blocking([&] { order += '1'; }).code(); });
      until_queued(1);
      auto second = n.spawn([&] { return blocking([&] { order += '2'; }).code(); });
      until_queued(2);
      auto third = n.spawn([&] { return blocking([&] { order += '3'; }).code(); });
      until_queued(3);
      second.cancel();
      EXPECT_EQ(second.get(), ErrorCode::kCancelled);
      EXPECT_EQ(runtime.core()->helpers->queued(), 2U);
      semaphore.release();
      EXPECT_EQ(holder.get(), ErrorCode::kOk);
      EXPECT_EQ(first.get(), ErrorCode::kOk);
      EXPECT_EQ(third.get(), ErrorCode::kOk);
    });
    EXPECT_EQ(order, "13");
  });
}

// Contract: F-9, F-26. A call that has begun cannot be interrupted: a cancelled task gets its result when it has ended,
// and its nursery waits for it.
TEST(Blocking, CancelledWhileItRuns) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    std::binary_semaphore semaphore(0);
    std::atomic<bool> begun = false;
    std::atomic<bool> ended = false;
    with_scope([&](Nursery& n) {
      auto task = n.spawn([&] {
        const Result<int> result = blocking([&] {
          begun = true;
          semaphore.acquire();
          ended = true;
          return 5;
        });
        EXPECT_TRUE(ended);
        EXPECT_TRUE(is_cancelled());
        return result.value();
      });
      while (!begun) yield();
      until_blocked(task);
      task.cancel();
      // Woken, it finds that its call runs, and blocks again.
      for (int i = 0; i < 100; ++i) yield();
      EXPECT_FALSE(task.is_completed());
      semaphore.release();
      EXPECT_EQ(task.get(), 5);
    });
    EXPECT_TRUE(ended);
  });
}

// Contract: F-9. In a task that is cancelled already nothing is called.
TEST(Blocking, CancelledBefore) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    std::atomic<bool> started = false;
    bool called = false;
    with_scope([&](Nursery& n) {
      auto task = n.spawn([&] {
        started = true;
        while (!is_cancelled()) yield();
        return blocking([&] { called = true; }).code();
      });
      while (!started) yield();
      task.cancel();
      EXPECT_EQ(task.get(), ErrorCode::kCancelled);
    });
    EXPECT_FALSE(called);
  });
}

// Contract: F-26. Outside a task it is refused; in deterministic mode f runs in place.
TEST(Blocking, OutsideAndDeterministic) {
  bool called = false;
  const Result<void> outside = blocking([&] { called = true; });
  EXPECT_EQ(outside.code(), ErrorCode::kOutsideRuntime);
  EXPECT_FALSE(called);
  Runtime runtime({.worker_count = 3, .deterministic_seed = 5});
  runtime.run([] {
    const std::thread::id mine = std::this_thread::get_id();
    EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }).value(), mine);
    EXPECT_THROW((void)blocking([] { throw std::runtime_error("x"); }), std::runtime_error);
  });
  EXPECT_EQ(runtime.core()->helpers->threads(), 0U);
}

// Contract: F-19, F-26. The bound is checked like the rest of the configuration.
TEST(Blocking, BadBound) {
  EXPECT_EQ(Runtime::create({.blocking_threads = 0}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Runtime::create({.blocking_threads = 5000}).code(), ErrorCode::kInvalidArgument);
}

// Contract: F-26. A runtime that ends waits for the calls that have begun.
TEST(Blocking, RuntimeEndsMeanwhile) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> begun = 0;
    std::atomic<int> ended = 0;
    {
      Runtime runtime({.worker_count = 2, .blocking_threads = 2});
      for (int i = 0; i < 10; ++i) {
        (void)runtime.spawn([&] {
          (void)blocking([&] {
            ++begun;
            sched_yield();
            ++ended;
          });
        });
      }
      while (begun == 0) sched_yield();
    }
    EXPECT_EQ(begun, ended);
  }
}

// Contract: F-26. Random cancels against helpers that begin and end, with more workers than cores: every task ends, and
// says Cancelled exactly if its call did not run.
TEST(Blocking, StressCancel) {
  Runtime runtime({.worker_count = 64, .blocking_threads = 3});
  runtime.run([] {
    for (int round = 0; round < 30; ++round) {
      with_scope([&](Nursery& n) {
        std::vector<Task<void>> tasks;
        for (int i = 0; i < 20; ++i) {
          tasks.push_back(n.spawn([] {
            bool ran = false;
            const ErrorCode code = blocking([&] {
                                     sched_yield();
                                     ran = true;
                                   }).code();
            EXPECT_EQ(code, ran ? ErrorCode::kOk : ErrorCode::kCancelled);
          }));
        }
        for (int i = 0; i < round % 5; ++i) yield();
        for (std::size_t i = 0; i < tasks.size(); i += 2) tasks[i].cancel();
      });
    }
  });
}

// Contract: F-26. A helper with nothing to do ends; the next call has a new one.
TEST(Blocking, IdleHelpersEnd) {
  detail::BlockingPool pool(4, 1ns);
  std::atomic<int> ran = 0;
  struct Job : detail::BlockingJob {
    explicit Job(std::atomic<int>& counter)
        : BlockingJob([](BlockingJob* job) { ++static_cast<Job*>(job)->count; }), count(counter) {}
    std::atomic<int>& count;
  };
  for (int i = 1; i <= 3; ++i) {
    Job job(ran);
    ASSERT_TRUE(pool.submit(&job).ok());
    while (ran < i || pool.threads() > 0) sched_yield();
    EXPECT_FALSE(pool.withdraw(&job));
  }
}

}  // namespace
}  // namespace rota::fiber

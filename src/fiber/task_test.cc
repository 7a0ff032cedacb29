// Tasks and their handles: states, results, waiting (F-1 to F-3, F-7).
#include "rota/fiber/task.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <thread>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Contract: F-1. The table, written out here a second time: every pair that is not named is illegal.
TEST(TaskStates, OnlyTheTransitionsOfTheTable) {
  using S = TaskState;
  const std::set<std::pair<S, S>> legal = {
      {S::kNew, S::kReady},          {S::kReady, S::kRunning},         {S::kReady, S::kCancelled},
      {S::kRunning, S::kReady},      {S::kRunning, S::kBlocked},       {S::kRunning, S::kBudgetExhausted},
      {S::kRunning, S::kCompleting}, {S::kRunning, S::kCancelled},     {S::kRunning, S::kFailed},
      {S::kBlocked, S::kReady},      {S::kBudgetExhausted, S::kReady}, {S::kCompleting, S::kCompleted},
      {S::kCompleting, S::kFailed},
  };
  for (int from = 0; from < kTaskStateCount; ++from) {
    for (int to = 0; to < kTaskStateCount; ++to) {
      const S a = static_cast<S>(from);
      const S b = static_cast<S>(to);
      EXPECT_EQ(legal_transition(a, b), legal.contains({a, b})) << to_string(a) << " to " << to_string(b);
      if (is_terminal(a)) {
        EXPECT_FALSE(legal_transition(a, b));
      }
    }
  }
}

// Contract: F-1. Each state is seen from outside at the moment it should be, on one worker so that the order is known.
TEST(TaskStates, AreSeenAsTheyHappen) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    with_scope([](Nursery& n) {
      bool go = false;
      Event end;
      Task<int> task = n.spawn([&go, &end] {
        while (!go) yield();
        end.wait();
        return 7;
      });
      EXPECT_EQ(task.state(), TaskState::kReady);
      yield();  // It runs, and yields back.
      EXPECT_EQ(task.state(), TaskState::kReady);
      go = true;
      yield();  // Now it waits.
      EXPECT_EQ(task.state(), TaskState::kBlocked);
      EXPECT_FALSE(task.is_completed());
      end.set();
      task.wait();
      EXPECT_EQ(task.state(), TaskState::kCompleted);
      task.cancel();  // Contract: F-2. A no-op once terminal.
      EXPECT_EQ(task.state(), TaskState::kCompleted);
      EXPECT_EQ(task.get(), 7);
    });
  });
}

// Contract: F-1. A task asked to end reports Cancelling until it has.
TEST(TaskStates, CancellingUntilItEnds) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    with_scope([](Nursery& n) {
      bool seen = false;
      Task<void> task = n.spawn([&seen] {
        while (!is_cancelled()) yield();
        yield();
        seen = true;
      });
      yield();
      task.cancel();
      task.cancel();  // Contract: F-2. Idempotent.
      EXPECT_EQ(task.state(), TaskState::kCancelling);
      task.wait();
      EXPECT_TRUE(seen);
      EXPECT_EQ(task.state(), TaskState::kCompleted) << "it returned, so it has a result";
    });
  });
}

// Contract: F-1, F-7. A thread that sees the terminal state sees the result: many tasks, polled from another thread
// worker.
TEST(Task, ResultIsThereBeforeItsState) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    for (int round = 0; round < 2000; ++round) {
      with_scope([&](Nursery& n) {
        Task<std::unique_ptr<std::string>> task =
            n.spawn([round] { return std::make_unique<std::string>(std::to_string(round)); });
        for (;;) {
          if (auto result = task.poll()) {
            EXPECT_EQ(**result, std::to_string(round));
            break;
          }
          yield();
        }
        EXPECT_FALSE(task.valid());
      });
    }
  });
}

// Contract: F-2. get() returns or rethrows; a second one is an error, not undefined.
TEST(Task, GetReturnsRethrowsAndIsUsedUp) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    with_scope([](Nursery& n) {
      Task<int> task = n.spawn([] { return 1; });
      EXPECT_NE(task.id(), 0U);
      EXPECT_EQ(task.get(), 1);
      try {
        (void)task.get();
        ADD_FAILURE() << "a double join went through";
      } catch (const FiberError& error) {
        EXPECT_EQ(error.code(), ErrorCode::kFailedPrecondition);
      }
      EXPECT_THROW(task.wait(), FiberError);
      EXPECT_THROW((void)task.poll(), FiberError);
      Task<int> moved = std::move(task);
      EXPECT_FALSE(moved.valid());
    });
  });
}

// Contract: F-2. poll() never blocks: a task that cannot run yet gives nothing.
TEST(Task, PollGivesNothingWhileItRuns) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    with_scope([](Nursery& n) {
      Task<int> value = n.spawn([] { return 3; });
      Task<void> nothing = n.spawn([] {});
      EXPECT_FALSE(value.poll().has_value());
      EXPECT_FALSE(nothing.poll());
      while (!value.is_completed() || !nothing.is_completed()) yield();
      EXPECT_EQ(value.poll().value(), 3);
      EXPECT_TRUE(nothing.poll());
    });
  });
}

// Contract: F-2. wait_for() gives up in time, and the task continues. In virtual time, so that nothing sleeps.
TEST(Task, WaitForGivesUpInTime) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 3});
  runtime.run([] {
    with_scope([](Nursery& n) {
      Task<int> task = n.spawn([] {
        (void)sleep_for(milliseconds(100));
        return 5;
      });
      const auto start = now();
      EXPECT_FALSE(task.wait_for(milliseconds(30)));
      EXPECT_EQ(now() - start, milliseconds(30));
      EXPECT_FALSE(task.wait_for(milliseconds(0)));
      EXPECT_TRUE(task.wait_for(milliseconds(1000)));
      EXPECT_EQ(now() - start, milliseconds(100));
      EXPECT_TRUE(task.wait_for(milliseconds(0)));
      EXPECT_EQ(task.get(), 5);
    });
  });
}

// Contract: F-2. Waiting is a cancellation point: get(), wait() and wait_for().
TEST(Task, WaitingIsACancellationPoint) {
  for (int way = 0; way < 3; ++way) {
    Runtime runtime({.worker_count = 2});
    runtime.run([way] {
      with_scope([way](Nursery& outer) {
        Task<void> sleeper = outer.spawn([] { (void)sleep_for(hours(1)); });
        Task<bool> waiter = outer.spawn([way, &sleeper] {
          try {
            if (way == 0) sleeper.get();
            if (way == 1) sleeper.wait();
            if (way == 2) (void)sleeper.wait_for(hours(1));
          } catch (const Cancelled& cancelled) {
            return cancelled.reason() == CancelReason::kExplicit;
          }
          return false;
        });
        while (waiter.state() != TaskState::kBlocked) yield();
        waiter.cancel();
        EXPECT_TRUE(waiter.get());
        EXPECT_FALSE(sleeper.is_completed()) << "only the waiter was cancelled";
        sleeper.cancel();
      });
    });
  }
}

// Contract: F-2. With one worker, a task that waits for another still makes progress, in whatever order they were made.
TEST(Task, OneWorkerMakesProgress) {
  Runtime runtime({.worker_count = 1});
  const int sum = runtime.run([] {
    return with_scope([](Nursery& n) {
      std::vector<Task<int>> tasks;
      for (int i = 0; i < 100; ++i) {
        tasks.push_back(n.spawn([i, &tasks] {
          if (i % 3 == 1) yield();
          return i == 0 ? 0 : 1 + 0 * static_cast<int>(tasks.size());
        }));
      }
      int total = 0;
      for (auto& task : tasks) total += task.get();  // Oldest first: the way a deque does not like.
      return total;
    });
  });
  EXPECT_EQ(sum, 99);
}

// Contract: F-3. An exception is an outcome; thread workers and process continue.
TEST(Task, ExceptionIsItsOutcome) {
  Runtime runtime({.worker_count = 2});
  for (int i = 0; i < 200; ++i) {
    Task<int> task = runtime.spawn([i]() -> int { throw std::runtime_error("no " + std::to_string(i)); });
    try {
      (void)task.get();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), "no " + std::to_string(i));
    }
  }
  EXPECT_THROW(runtime.run([] { throw 42; }), int);
  EXPECT_EQ(runtime.run([] { return 1; }), 1);
  const Stats stats = runtime.stats();
  EXPECT_EQ(stats.sum.failed, 201U);
  EXPECT_EQ(stats.worker_panics, 0U);
}

// Contract: F-3. Tasks that wait inside their catch blocks keep their own exceptions, on one worker and on several.
TEST(Task, WaitingInACatchBlockKeepsTheException) {
  for (const std::size_t workers : {1U, 3U}) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      with_scope([](Nursery& n) {
        for (int i = 0; i < 50; ++i) {
          n.launch([i] {
            for (int round = 0; round < 10; ++round) {
              try {
                try {
                  throw i;
                } catch (...) {
                  yield();
                  EXPECT_TRUE(sleep_for(std::chrono::microseconds(i % 7)).ok());
                  yield();
                  throw;
                }
              } catch (int seen) {
                EXPECT_EQ(seen, i);
              }
            }
          });
        }
      });
    });
  }
}

// Contract: F-2. A task may wait for a task of another runtime: each resumes in its own runtime.
TEST(Task, WaitsAcrossRuntimes) {
  Runtime first({.worker_count = 2});
  Runtime second({.worker_count = 2});
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(first.run([&second, i] {
      Task<int> far = second.spawn([i] {
        yield();
        return i;
      });
      const int result = far.get();
      yield();
      return result;
    }),
              i);
  }
}

// Contract: F-7. Dropping a handle ends nothing; the nursery still waits for the task. Results are destroyed once.
TEST(Task, DroppedHandleAndResultLifetimes) {
  auto counter = std::make_shared<int>(0);
  Runtime runtime({.worker_count = 2});
  runtime.run([&counter] {
    with_scope([&counter](Nursery& n) {
      for (int i = 0; i < 1000; ++i) {
        auto task = n.spawn([counter, i] {
          if (i % 5 == 0) yield();
          return counter;
        });
        if (i % 2 == 0) auto dropped = std::move(task);
        if (i % 3 == 0) yield();
      }
    });
  });
  runtime.shutdown();
  EXPECT_EQ(counter.use_count(), 1);
}

// Handles may outlive their nursery and their runtime; threads outside may wait for them.
TEST(Task, HandleOutlivesTheRuntime) {
  Task<std::string> task;
  {
    Runtime runtime({.worker_count = 2});
    task = runtime.spawn([] { return std::string(100, 'x'); });
    runtime.shutdown();
  }
  EXPECT_EQ(task.get(), std::string(100, 'x'));
}

// Contract: F-2. Threads outside the runtime wait by blocking, also with a limit.
TEST(Task, ThreadsOutsideWait) {
  Runtime runtime({.worker_count = 1});
  std::vector<std::thread> threads;
  sync::Atomic<int> sum{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&runtime, &sum, t] {
      for (int i = 0; i < 100; ++i) {
        Task<int> task = runtime.spawn([t, i] { return t + i; });
        while (!task.wait_for(milliseconds(1))) {
        }
        sum.fetch_add(task.get());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum.load(), 8 * 4950 + 100 * 28);
}

// Contract: F-2, F-25. A limit beyond the range of the clock means no limit.
TEST(Task, ALimitBeyondTheClockIsNone) {
  for (const std::uint64_t seed : {1U, 2U}) {
    Runtime runtime({.worker_count = 2, .deterministic_seed = seed});
    runtime.run([] {
      with_scope([](Nursery& nursery) {
        Task<void> sleeper = nursery.spawn([] { (void)sleep_for(std::chrono::hours(1)); });
        EXPECT_TRUE(sleeper.wait_for(std::chrono::nanoseconds::max()));
        Task<ErrorCode> forever = nursery.spawn([] { return sleep_for(std::chrono::nanoseconds::max()).code(); });
        EXPECT_FALSE(forever.wait_for(std::chrono::hours(1)));
        forever.cancel();
        EXPECT_EQ(forever.get(), ErrorCode::kCancelled);
      });
    });
  }
}

}  // namespace
}  // namespace rota::fiber

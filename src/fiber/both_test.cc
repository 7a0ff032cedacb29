// both(): a fork whose child is called in place, taken by another worker, cancelled or failed. Contract: F-4, F-5, F-9.
#include "rota/fiber/both.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using std::chrono::milliseconds;

std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  const auto [a, b] = both([n] { return fib(n - 2); }, [n] { return fib(n - 1); });
  return a + b;
}

// Runs `body` on runtimes of every kind that both() goes different ways on.
template <class Body>
void on_every_runtime(const Body& body) {
  Config deterministic;
  deterministic.worker_count = 3;
  deterministic.deterministic_seed = 7;
  Config metered;
  metered.profile = Profile::kService;
  metered.default_budget = Budget{1'000'000, 1 << 20, 1000, 1000, 1000};
  Config traced;
  traced.trace_events = 1024;
  for (const auto& [name, config] : {std::pair{"one worker", Config{.worker_count = 1}},
                                     {"two workers", Config{.worker_count = 2}},
                                     {"eight workers", Config{.worker_count = 8}},
                                     {"deterministic", deterministic},
                                     {"metered", metered},
                                     {"traced", traced}}) {
    SCOPED_TRACE(name);
    Runtime runtime(config);
    runtime.run([&] { body(); });
  }
}

// Waits until another worker, or the loop of this one, has started the child.
void until(const sync::Atomic<bool>& flag) {
  while (!flag.load()) yield();
}

TEST(Both, ReturnsBothResults) {
  on_every_runtime([] {
    const auto [a, b] = both([] { return 1; }, [] { return std::string("two"); });
    EXPECT_EQ(a, 1);
    EXPECT_EQ(b, "two");
    int ran = 0;
    both([&] { ran += 1; }, [] {});
    EXPECT_EQ(ran, 1);
    auto moved = both([] { return std::make_unique<int>(3); }, [] { return std::make_unique<int>(4); });
    EXPECT_EQ(*moved.first + *moved.second, 7);
    EXPECT_EQ(fib(16), 987U);
  });
}

TEST(Both, OutsideTheRuntimeIsAnError) {
  try {
    both([] {}, [] {});
    FAIL();
  } catch (const FiberError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutsideRuntime);
  }
}

// The body waits until the child runs, so that the child is never called in place.
TEST(Both, AChildThatIsTakenHandsBackItsResult) {
  on_every_runtime([] {
    sync::Atomic<bool> started{false};
    auto [a, b] = both(
        [&] {
          until(started);
          return 1;
        },
        [&] {
          started = true;
          yield();
          return std::make_unique<int>(2);
        });
    EXPECT_EQ(a + *b, 3);
  });
}

// What the body leaves in the deque lies above the child: it is not at hand, and not lost.
TEST(Both, AChildUnderOtherTasksIsWaitedFor) {
  on_every_runtime([] {
    sync::Atomic<int> ran{0};
    with_scope([&](Nursery& outer) {
      const auto [a, b] = both(
          [&] {
            outer.launch([&] { ran.fetch_add(1); });
            outer.launch([&] { ran.fetch_add(1); });
            return 1;
          },
          [] { return 2; });
      EXPECT_EQ(a + b, 3);
    });
    EXPECT_EQ(ran.load(), 2);
  });
}

TEST(Both, AFailureInEitherHalfGoesOn) {
  on_every_runtime([] {
    int first = 0;
    EXPECT_THROW(both([&] { first = 1; }, [] { throw std::runtime_error("child"); }), std::runtime_error);
    EXPECT_EQ(first, 1);
    EXPECT_THROW(both([]() -> int { throw std::logic_error("body"); }, [] { return 1; }), std::logic_error);
    // The child runs on its own when it fails; the body is interrupted.
    sync::Atomic<bool> started{false};
    EXPECT_THROW(both(
                     [&] {
                       until(started);
                       (void)sleep_for(std::chrono::hours(1));
                     },
                     [&] {
                       started = true;
                       yield();
                       throw std::runtime_error("taken child");
                     }),
                 std::runtime_error);
  });
}

// A body that throws cancels the child, waits for it, and drops what it made.
TEST(Both, ABodyThatThrowsEndsTheChild) {
  on_every_runtime([] {
    sync::Atomic<bool> started{false};
    sync::Atomic<bool> ended{false};
    EXPECT_THROW(both(
                     [&]() -> int {
                       until(started);
                       throw std::runtime_error("body");
                     },
                     [&] {
                       started = true;
                       (void)sleep_for(std::chrono::hours(1));
                       ended = true;
                       return std::string(100, 'x');
                     }),
                 std::runtime_error);
    EXPECT_TRUE(ended.load());
  });
}

TEST(Both, ACancelledCallerDoesNotBeginTheChild) {
  on_every_runtime([] {
    bool ran = false;
    Nursery nursery;
    Task<void> task = nursery.spawn([&] {
      nursery.cancel();
      both([] {}, [&] { ran = true; });
    });
    EXPECT_EQ(nursery.close().code(), ErrorCode::kCancelled);
    EXPECT_EQ(task.state(), TaskState::kCancelled);
    EXPECT_FALSE(ran);
  });
}

// With one thread worker, nobody else can begin the child before the body cancels.
TEST(Both, ABodyThatCancelsItsScopeKeepsTheChildFromBeginning) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    bool ran = false;
    Nursery nursery;
    Task<void> task = nursery.spawn([&] { both([&] { nursery.cancel(); }, [&] { ran = true; }); });
    EXPECT_EQ(nursery.close().code(), ErrorCode::kCancelled);
    EXPECT_EQ(task.state(), TaskState::kCancelled);
    EXPECT_FALSE(ran);
  });
}

TEST(Both, ADeadlineReachesAChildThatWasTaken) {
  on_every_runtime([] {
    sync::Atomic<bool> started{false};
    sync::Atomic<bool> interrupted{false};
    // On a busy machine the deadline may pass before the child begins, which then never begins: once more.
    for (auto limit = milliseconds(5); !started.load() && limit < std::chrono::minutes(1); limit *= 2) {
      const bool in_time = with_deadline(limit, [&](Nursery&) {
        both(
            [&] {
              while (!started.load() && !is_cancelled()) yield();
            },
            [&] {
              started = true;
              interrupted = !sleep_for(std::chrono::hours(1)).ok();
            });
      });
      EXPECT_FALSE(in_time);
    }
    EXPECT_TRUE(interrupted.load());
  });
}

// Contract: F-21.
TEST(Both, TheChildIsCounted) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    fib(12);
    EXPECT_THROW(both([] {}, [] { throw std::runtime_error("child"); }), std::runtime_error);
  });
  const Stats stats = runtime.stats();
  EXPECT_EQ(stats.sum.spawned, 232U + 1 + 1);
  EXPECT_EQ(stats.sum.completed, 232U + 1);
  EXPECT_EQ(stats.sum.failed, 1U);
}

// An overflow in the body leaves a child behind in a frame that is gone: it is ended first. Contract: F-23.
[[gnu::noinline]] int dig(int depth) {
  volatile char frame[1024];  // Less than the guard, which it must not jump over.
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? frame[0] : dig(depth - 1) + frame[0];
}
TEST(Both, AnOverflowInTheBodyEndsTheChildToo) {
#if ROTA_ASAN || ROTA_TSAN
  GTEST_SKIP() << "a sanitizer's own handler takes the fault first";
#endif
  Runtime runtime({.worker_count = 2, .stack_bytes = 64 * 1024});
  sync::Atomic<int> ended{0};
  runtime.run([&] {
    Nursery nursery;
    Task<void> task = nursery.spawn([&] {
      sync::Atomic<bool> started{false};
      both(
          [&] {
            until(started);
            dig(1000);
          },
          [&] {
            started = true;
            (void)sleep_for(std::chrono::hours(1));
            ended.fetch_add(1);
          });
    });
    EXPECT_EQ(nursery.close().code(), ErrorCode::kStackOverflow);
    task.wait();
  });
  EXPECT_EQ(ended.load(), 1);
}

TEST(Both, ManyWorkersFewCores) {
  for (const std::uint32_t workers : {2U, 8U, 32U}) {
    Runtime runtime({.worker_count = workers});
    for (int round = 0; round < 5; ++round) EXPECT_EQ(runtime.run([] { return fib(20); }), 6765U);
  }
}

}  // namespace
}  // namespace rota::fiber

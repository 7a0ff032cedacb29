// Results that cannot be moved, objects that tasks of two runtimes share, deadlines inside deadlines.
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "hostile.h"

namespace hostile {
namespace {

std::atomic<int> alive{0};

// Its move throws, as often as `throws` says, and counts what lives.
struct Immovable {
  explicit Immovable(int number) : value(number) { ++alive; }
  Immovable(Immovable&& other) : value(other.value) {  // NOLINT(*-noexcept-move*): that is the point.
    if (throws > 0) {
      --throws;
      throw std::runtime_error("the move");
    }
    ++alive;
  }
  ~Immovable() { --alive; }
  int value;
  static inline std::atomic<int> throws{0};
};

template <class F>
bool throws_the_move(F&& f) {
  Immovable::throws = 1;
  try {
    std::forward<F>(f)();
  } catch (const std::runtime_error&) {
    return true;
  }
  Immovable::throws = 0;
  return false;
}

// Contract: F-2, F-3, F-7. A result whose move throws: the exception is the caller's, and the result is destroyed.
TEST(Hostile, ResultsThatDoNotMove) {
  for (const std::size_t workers : {1, 2}) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      with_scope([](Nursery& nursery) {
        const auto make = [] { return Immovable(7); };
        Task<Immovable> in_place = nursery.spawn(make);
        EXPECT_TRUE(throws_the_move([&] { (void)in_place.get(); }));
        EXPECT_FALSE(in_place.valid());
        Task<Immovable> ended = nursery.spawn(make);
        ended.wait();
        EXPECT_TRUE(throws_the_move([&] { (void)ended.get(); }));
        Task<Immovable> polled = nursery.spawn(make);
        polled.wait();
        EXPECT_TRUE(throws_the_move([&] { (void)polled.poll(); }));
        Task<Immovable> fine = nursery.spawn(make);
        EXPECT_EQ(fine.get().value, 7);
      });
    });
    EXPECT_TRUE(throws_the_move([&] { (void)runtime.run([] { return Immovable(1); }); }));
    EXPECT_EQ(runtime.run([] { return Immovable(1); }).value, 1);
    EXPECT_EQ(alive, 0);
  }
}

// Contract: F-3, F-5. both() with such results ends with the exception, whoever ran the second half.
TEST(Hostile, HalvesThatDoNotMove) {
  for (const std::size_t workers : {1, 2}) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_TRUE(throws_the_move([] { (void)both([] { return Immovable(1); }, [] { return Immovable(2); }); }));
        EXPECT_TRUE(throws_the_move([] { (void)both([] {}, [] { return Immovable(2); }); }));
      }
      const auto [one, two] = both([] { return Immovable(1); }, [] { return Immovable(2); });
      EXPECT_EQ(one.value + two.value, 3);
    });
    EXPECT_EQ(alive, 0);
  }
}

// Contract: F-25. A mutex that tasks of two runtimes share, whose ids are equal, has one owner at a time.
TEST(Hostile, AMutexOfTwoRuntimes) {
  Runtime one({.worker_count = 1}), two({.worker_count = 1});
  Mutex mutex;
  Channel<int> locked(1), done(1);
  Task<std::uint64_t> first = one.spawn([&] {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(locked.send(1));
    EXPECT_TRUE(done.receive().has_value());
    return std::uint64_t{0};
  });
  const std::uint64_t id = first.id();
  two.run([&] { EXPECT_TRUE(locked.receive().has_value()); });
  for (int i = 0; i < 200; ++i) {  // One of them has the same id.
    Task<bool> other = two.spawn([&] {
      EXPECT_FALSE(mutex.try_lock());
      EXPECT_FALSE(mutex.try_lock_for(0ns));
      return code_of([&] { mutex.unlock(); }) == ErrorCode::kFailedPrecondition;
    });
    const bool same = other.id() == id;
    EXPECT_TRUE(other.get()) << "a task of another runtime has unlocked it; same id: " << same;
  }
  two.run([&] { EXPECT_TRUE(done.send(1)); });
  (void)first.get();
  two.run([&] { const std::lock_guard lock(mutex); });
}

// Contract: F-6. A scope's deadline is the earlier of its own and that of the scopes around it: when an outer one
// passes, the inner call returns nothing, whether its body threw, returned a value, or ignored the cancellation.
TEST(Hostile, DeadlinesInsideDeadlines) {
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(7)}) {
    for (const std::size_t workers : {1, 2}) {
      Runtime runtime({.worker_count = workers, .deterministic_seed = seed});
      runtime.run([] {
        int inner_calls = 0;
        const auto outer = with_deadline(2ms, [&](Nursery& nursery) {
          const auto swallows = with_deadline(1h, [](Nursery& inner) {
            EXPECT_LE(*inner.deadline(), now() + 2ms);
            (void)sleep_for(2h);
            return 1;
          });
          EXPECT_FALSE(swallows.has_value());
          const auto throws = with_deadline(1h, [](Nursery&) { return Channel<int>().receive().value(); });
          EXPECT_FALSE(throws.has_value());
          EXPECT_EQ(nursery.cancel_reason(), CancelReason::kTimeout);
          inner_calls += 1;
          return 2;
        });
        EXPECT_FALSE(outer.has_value());
        EXPECT_EQ(inner_calls, 1);
        // In a child, and below a scope without a deadline.
        std::optional<bool> in_child;  // Nothing if the deadline passed before the child started: then again.
        for (std::chrono::nanoseconds limit = 2ms; !in_child && limit < 1min; limit *= 2) {
          EXPECT_FALSE(with_deadline(limit, [&](Nursery& nursery) {
            nursery.launch([&] {
              with_scope([&](Nursery&) {
                in_child = with_deadline(1h, [](Nursery&) { return Channel<int>().receive().value(); }).has_value();
              });
            });
          }));
        }
        EXPECT_EQ(in_child, false);
        // An outer scope that is cancelled before its deadline is a cancellation, not the end of the time.
        EXPECT_EQ(code_of([] {
                    with_scope([](Nursery& nursery) {
                      nursery.cancel();
                      (void)with_deadline(1h, [](Nursery&) { return Channel<int>().receive().value(); });
                    });
                  }),
                  ErrorCode::kCancelled);
      });
    }
  }
}

}  // namespace
}  // namespace hostile

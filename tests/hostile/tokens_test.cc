// Tokens of tasks and scopes that end while they are cancelled, and what their callbacks leave behind (F-5, F-8, F-28).
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "hostile.h"

namespace hostile {
namespace {

// Contract: F-8. A task that sees its cancellation and ends at once has its callbacks called nevertheless, exactly once
// each: those of its own token, of the token that its handle gives, and of the scope that it opened.
TEST(Hostile, TokensOfTasksThatEndWhileTheyAreCancelled) {
  Runtime runtime({.worker_count = 2});
  constexpr int kRounds = 1000;
  int missed = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> own{0};
    std::atomic<int> of_handle{0};
    std::atomic<int> of_scope{0};
    std::atomic<bool> ready{false};
    runtime.run([&] {
      Nursery nursery;
      Task<void> task = nursery.spawn([&] {
        current_token().on_cancel([&own] { ++own; });
        (void)code_of([&] {
          with_scope([&](Nursery& inner) {
            inner.token().on_cancel([&of_scope] { ++of_scope; });
            ready = true;
            while (check_cancelled().ok()) {
            }
          });
        });
      });
      task.cancel_token().on_cancel([&of_handle] { ++of_handle; });
      while (!ready) yield();
      nursery.cancel();
      (void)nursery.close();
    });
    missed += own != 1 || of_handle != 1 || of_scope != 1 ? 1 : 0;
  }
  EXPECT_EQ(missed, 0);
}

// Contract: F-8, F-25. A callback that never ran, because its task ended well, is destroyed by the runtime: its
// destructor may call what needs a task or would block, and is told, and the next callback is not affected.
TEST(Hostile, CallbacksThatAreDestroyedUnused) {
  struct Probe {
    explicit Probe(std::atomic<int>* destroyed) : done(destroyed) {}
    ~Probe() {
      const auto refused_or_done = [](const std::function<void()>& f) {
        const ErrorCode code = code_of(f);
        EXPECT_TRUE(code == ErrorCode::kOk || code == ErrorCode::kOutsideRuntime || code == ErrorCode::kCancelled)
            << static_cast<int>(code);
      };
      refused_or_done([] { yield(); });
      refused_or_done([] { (void)sleep_for(1us); });
      refused_or_done([] { with_scope([](Nursery& nursery) { (void)nursery.spawn([] { return 1; }).get(); }); });
      refused_or_done([] {
        Channel<int> channel(1);
        (void)channel.send(1);
        (void)channel.receive();
      });
      refused_or_done([] { (void)current_token(); });
      refused_or_done([] { (void)blocking([] { return 1; }); });
      refused_or_done([] {
        Mutex mutex;
        mutex.lock();
        mutex.unlock();
      });
      ++*done;
    }
    std::atomic<int>* done;
  };
  for (const Profile profile : {Profile::kOpen, Profile::kService}) {
    for (const bool in_place : {false, true}) {
      std::atomic<int> destroyed{0};
      {
        Runtime runtime({.worker_count = 2, .profile = profile});
        runtime.run([&] {
          for (int i = 0; i < 50; ++i) {
            with_scope([&](Nursery& nursery) {
              const auto body = [&destroyed] {
                current_token().on_cancel([probe = std::make_shared<Probe>(&destroyed)] {});
              };
              if (in_place) {
                nursery.spawn(body).get();
              } else {
                nursery.launch(body);
              }
            });
          }
        });
        Task<void> alone = runtime.spawn([&destroyed] {
          current_token().on_cancel([probe = std::make_shared<Probe>(&destroyed)] {});
          (void)sleep_for(1us);
        });
        alone.get();
      }
      EXPECT_EQ(destroyed, 51);
    }
  }
}

// Contract: F-5. A child of a scope that ends as Cancelled, because it asked and something far above was cancelled,
// makes its scope end as cancelled, even if the scope itself was never told.
TEST(Hostile, ScopesOfChildrenThatAsked) {
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(5)}) {
    Runtime runtime({.worker_count = 2, .deterministic_seed = seed});
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> polling{0};
      std::atomic<int> succeeded{0};
      std::atomic<int> told{0};
      runtime.run([&] {
        Nursery nursery;
        nursery.launch([&] {
          const ErrorCode code = code_of([&] {
            with_scope([&](Nursery& inner) {
              inner.launch([&] {
                ++polling;
                while (check_cancelled().ok()) yield();
                throw Cancelled(CancelReason::kParent);
              });
            });
          });
          ++(code == ErrorCode::kOk ? succeeded : told);
        });
        while (polling == 0) yield();
        nursery.cancel();
        (void)nursery.close();
      });
      ASSERT_EQ(succeeded, 0) << "round " << round;
      ASSERT_EQ(told, 1);
    }
  }
}

// Contract: F-8, F-28. In deterministic mode the order in which the callbacks of many tasks' tokens run depends on the
// seed alone, not on where the tasks happen to be in memory.
TEST(Hostile, OrderOfCallbacks) {
  struct Run {
    std::vector<int> order;
    std::uint64_t hash = 0;
  };
  const auto run = [](std::uint64_t seed) {
    Run result;
    Runtime runtime({.worker_count = 2, .deterministic_seed = seed});
    runtime.run([&result] {
      Nursery nursery;
      Channel<int> seen = Channel<int>::unbounded();
      for (int i = 0; i < 100; ++i) {
        nursery.launch([i, seen] {
          current_token().on_cancel([i, seen] { (void)seen.try_send(i); });
          (void)sleep_for(1h);
        });
      }
      (void)sleep_for(1s);
      nursery.cancel();
      (void)nursery.close();
      while (Result<int> next = seen.try_receive()) result.order.push_back(next.value());
    });
    result.hash = runtime.event_hash();
    return result;
  };
  const Run first = run(7);
  EXPECT_EQ(first.order.size(), 100U);
  std::vector<std::unique_ptr<std::vector<std::byte>>> elsewhere;
  for (std::size_t i = 0; i < 20; ++i) {
    // Blocks of all the sizes that a runtime asks for, so that the next one gets others.
    for (std::size_t bytes = 16; bytes <= 1 << 18; bytes = bytes * 3 / 2 + i) {
      elsewhere.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    }
    const Run again = run(7);
    ASSERT_EQ(again.order, first.order) << "run " << i;
    ASSERT_EQ(again.hash, first.hash);
  }
}

}  // namespace
}  // namespace hostile

// What a cancelled task may still do, and what it is told (F-5, F-6, F-9).
#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "hostile.h"

namespace hostile {
namespace {

// Runs `body` in a task that was cancelled in one of three ways before.
void in_cancelled_task(const Config& config, int way, const std::function<void()>& body) {
  Runtime runtime(config);
  std::atomic<bool> ran{false};
  runtime.run([&] {
    const auto task = [&] {
      (void)sleep_for(1h);
      EXPECT_TRUE(is_cancelled());
      body();
      ran = true;
    };
    if (way == 0) {
      // On a busy machine the time may be over before the task starts: then again, with more time.
      for (std::chrono::nanoseconds limit = 1ms; !ran && limit < 1min; limit *= 2) {
        (void)with_deadline(limit, [&](Nursery& nursery) { nursery.launch(task); });
      }
      return;
    }
    Nursery nursery;
    Task<void> handle = nursery.spawn(task);
    yield();
    way == 1 ? nursery.cancel() : handle.cancel();
    (void)nursery.close();
  });
  // A task that was cancelled in the queue does not run at all.
  if (way == 0) {
    EXPECT_TRUE(ran);
  }
}

// Contract: F-5, F-9. A scope that a cancelled task opens never reports success for a child that did not run.
TEST(Hostile, ScopesInCancelledTasks) {
  for (const Profile profile : {Profile::kOpen, Profile::kService}) {
    for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(3)}) {
      for (const std::size_t workers : {1, 2}) {
        for (int way = 0; way < 3; ++way) {
          const Config config{.worker_count = workers, .deterministic_seed = seed, .profile = profile};
          in_cancelled_task(config, way, [] {
            std::atomic<int> ran{0};
            const auto child = [&] { ran += 1; };
            // F: how it ends, and that it says so if nothing ran.
            const auto check = [&](const char* what, const std::function<ErrorCode()>& f) {
              ran = 0;
              const ErrorCode code = f();
              EXPECT_TRUE(ran > 0 || code != ErrorCode::kOk) << what;
            };
            check("with_scope", [&] { return code_of([&] { with_scope([&](Nursery& n) { n.launch(child); }); }); });
            check("close", [&] {
              Nursery nursery;
              const ErrorCode launched = code_of([&] { nursery.launch(child); });
              const Result<void> closed = nursery.close();
              if (ran == 0 && launched == ErrorCode::kOk) {
                EXPECT_EQ(nursery.state(), NurseryState::kCancelled);
              }
              return launched == ErrorCode::kOk ? closed.code() : launched;
            });
            check("a handle", [&] {
              return code_of([&] { with_scope([&](Nursery& n) { (void)n.spawn(child).wait(std::nothrow); }); });
            });
            check("with_deadline", [&] {
              return code_of([&] {
                if (!with_deadline(1h, [&](Nursery& n) { n.launch(child); })) throw Cancelled(CancelReason::kTimeout);
              });
            });
            check("options",
                  [&] { return code_of([&] { with_scope(NurseryOptions{}, [&](Nursery& n) { n.launch(child); }); }); });
            check("both", [&] { return code_of([&] { both([] {}, child); }); });
          });
        }
      }
    }
  }
}

// Contract: F-6. A loop of spawns on every thread worker sees its deadline: scopes with many children, with one, and
// one nursery without end.
TEST(Hostile, LoopsOfSpawnsSeeTheirDeadline) {
  for (const Profile profile : {Profile::kOpen, Profile::kService}) {
    for (const std::size_t workers : {1, 2}) {
      for (int kind = 0; kind < 4; ++kind) {
        Config config{.worker_count = workers, .profile = profile};
        if (profile == Profile::kService) config.default_budget = Budget::unlimited();
        Runtime runtime(config);
        const bool in_time = runtime.run([&] {
          return with_deadline(5ms, [&](Nursery& nursery) {
            for (std::size_t i = 0; i < workers; ++i) {
              nursery.launch([kind] {
                if (kind == 2) {
                  Nursery endless;
                  for (;;) endless.launch([] {});
                }
                for (;;) {
                  with_scope([kind](Nursery& scope) {
                    for (int n = kind == 0 ? 50 : 1; n > 0; --n) scope.launch([] {});
                    if (kind == 3) scope.spawn([] {}).get();
                  });
                }
              });
            }
          });
        });
        EXPECT_FALSE(in_time) << kind;
      }
    }
  }
}

}  // namespace
}  // namespace hostile

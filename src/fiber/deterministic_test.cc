// Deterministic mode (F-28, F-29), and random programs run under it.
//
// ROTA_FIBER_SEEDS sets how many seeds the random programs run with: 300 in the test run, 10,000 for the long one.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/prng.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

struct Outcome {
  std::uint64_t hash;
  std::uint64_t events;
  std::string order;
  bool operator==(const Outcome&) const = default;
};

Outcome mixed_program(std::uint64_t seed, std::size_t workers) {
  Runtime runtime({.worker_count = workers, .deterministic_seed = seed});
  std::string order;
  runtime.run([&order] {
    with_scope([&order](Nursery& n) {
      for (int i = 0; i < 8; ++i) {
        n.launch([&order, i] {
          order += static_cast<char>('a' + i);
          (void)sleep_for(milliseconds((i * 7) % 5));
          order += static_cast<char>('A' + i);
          with_scope([&order, i](Nursery& inner) {
            for (int k = 0; k < i % 3; ++k) inner.launch([&order, i] { order += static_cast<char>('0' + i); });
          });
        });
      }
      yield();
    });
  });
  return {runtime.event_hash(), runtime.event_count(), order};
}

// Contract: F-28. Same seed and workers: the same order, the same hash, with steals and timers. Others differ.
TEST(Deterministic, SameSeedSameOrder) {
  std::set<std::uint64_t> hashes;
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Outcome first = mixed_program(seed, 3);
    EXPECT_EQ(first, mixed_program(seed, 3)) << "seed " << seed;
    EXPECT_GT(first.events, 30U);
    hashes.insert(first.hash);
    orders.insert(first.order);
  }
  EXPECT_EQ(hashes.size(), 50U);
  EXPECT_GT(orders.size(), 10U) << "seeds explore different orders";
  EXPECT_NE(mixed_program(1, 3).hash, mixed_program(1, 4).hash) << "the worker count is part of it";
}

// Contract: F-28. Time is virtual: an hour passes at once, and only when nothing can run.
TEST(Deterministic, ClockIsVirtual) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 1});
  runtime.run([] {
    const auto start = now();
    for (int i = 0; i < 1000; ++i) yield();
    EXPECT_EQ(now(), start);
    EXPECT_TRUE(sleep_for(hours(24)).ok());
    EXPECT_EQ(now() - start, hours(24));
    std::vector<int> woke;
    with_scope([&woke](Nursery& n) {
      for (const int ms : {5, 1, 3}) {
        n.launch([&woke, ms] {
          (void)sleep_for(milliseconds(ms));
          woke.push_back(ms);
        });
      }
    });
    EXPECT_EQ(woke, (std::vector<int>{1, 3, 5}));
  });
}

// Opens a scope in a task in a scope, `depth` times; the innermost task waits for what never happens.
void nest(int depth) {
  with_scope([depth](Nursery& scope) {
    if (depth == 0) {
      Event().wait();
    } else {
      scope.launch([depth] { nest(depth - 1); });
    }
  });
}

// Contract: F-29. The report of a deadlock does not depend on how deeply the scopes are nested: it does not recurse.
TEST(Deterministic, ADeepDeadlockIsReported) {
  constexpr int kDepth = ROTA_TSAN || ROTA_ASAN ? 1'000 : 6'000;
  Runtime runtime({.worker_count = 2, .stack_bytes = 32 * 1024, .deterministic_seed = 1});
  try {
    runtime.run([] { nest(kDepth); });
    ADD_FAILURE() << "a deadlock went unnoticed";
  } catch (const FiberError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlock);
    const std::string report = error.what();
    EXPECT_NE(report.find("waits for an event"), std::string::npos);
    std::size_t scopes = 0;
    for (std::size_t at = 0; (at = report.find("the children of its scope", at)) != std::string::npos; ++at) ++scopes;
    EXPECT_EQ(scopes, static_cast<std::size_t>(kDepth));
  }
}

// Contract: F-29. Two tasks that wait for each other: the report says who waits for what, and everything is unwound.
TEST(Deterministic, DeadlockIsReported) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 7});
  int unwound = 0;
  try {
    runtime.run([&unwound] {
      Task<void> a;
      Task<void> b;
      const auto wait_for = [&unwound](Task<void>& other) {
        try {
          while (!other.valid()) yield();
          other.wait();
        } catch (const Cancelled&) {
          ++unwound;
          throw;
        }
      };
      with_scope([&](Nursery& n) {
        a = n.spawn([&] { wait_for(b); });
        b = n.spawn([&] { wait_for(a); });
        yield();
      });
    });
    ADD_FAILURE() << "a deadlock went unnoticed";
  } catch (const FiberError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlock);
    const std::string what = error.what();
    std::size_t waits = 0;
    for (std::size_t at = what.find("waits for a task"); at != std::string::npos;
         at = what.find("waits for a task", at + 1)) {
      ++waits;
    }
    EXPECT_EQ(waits, 2U) << what;
    EXPECT_NE(what.find("waits for the children of its scope"), std::string::npos) << what;
  }
  EXPECT_GE(unwound, 1);  // One is cancelled; the other may find its task ended.
}

// A program drawn from a seed: a tree of scopes in which tasks spawn, yield, sleep, throw, cancel each other, set
// deadlines, send, receive, select and lock, every other one on a budget. It counts what starts and what ends; whatever
// happens, each that started has ended when its scope is closed, nothing throws but what the program throws, what was
// sent is received once, the mutex has one owner, and the budget's books balance.
class Program {
 public:
  Program(std::uint64_t seed, bool deterministic) : draw_(seed) {
    Config config;
    config.worker_count = 1 + draw_.below(5);
    config.stack_bytes = 65536;
    if (deterministic) config.deterministic_seed = seed;
    if (seed % 2 == 0) {
      config.profile = Profile::kService;
      config.yield_interval = static_cast<std::uint32_t>(8 + draw_.below(64));
      config.default_budget = Budget{.ops = static_cast<std::uint32_t>(20 + draw_.below(300)),
                                     .memory = 1000,
                                     .spawn_count = static_cast<std::uint16_t>(draw_.below(20)),
                                     .channel_ops = static_cast<std::uint16_t>(1 + draw_.below(20)),
                                     .syscalls = 1};  // What was granted not at all would not be renewed either.
      config.on_exhausted = draw_.below(2) == 0 ? OnExhausted::kCancel : OnExhausted::kRecharge;
    }
    runtime_ = std::make_unique<Runtime>(config);
    script_seed_ = draw_.next();
  }
  // The hash of the order.
  std::uint64_t run() {
    runtime_->run([this] { guarded([this] { node(script_seed_, 4); }); });
    EXPECT_EQ(started_.load(), ended_.load());
    EXPECT_EQ(open_.load(), 0);
    for (const auto& channel : channels_) {
      while (Result<std::uint64_t> rest = channel.try_receive()) received_.fetch_add(rest.value());
      EXPECT_EQ(channel.try_send(1).code(), channel.capacity() == 0 ? ErrorCode::kWouldBlock : ErrorCode::kOk)
          << "somebody still waits there";
    }
    EXPECT_EQ(sent_.load(), received_.load());
    EXPECT_TRUE(runtime_->run([this] {
      const bool free = mutex_.try_lock();
      if (free) mutex_.unlock();
      return free;
    }));
    runtime_->shutdown();
    const Stats stats = runtime_->stats();
    EXPECT_EQ(stats.sum.spawned, stats.sum.completed + stats.sum.cancelled + stats.sum.failed);
    EXPECT_TRUE(runtime_->audit().balanced());
    EXPECT_EQ(runtime_->audit().granted, Reserve());
    return runtime_->event_hash();
  }

 private:
  struct Planned {};  // What the program throws.
  static bool refuses_a_spawn(ErrorCode code) {
    return code == ErrorCode::kNurseryNotActive || code == ErrorCode::kSpawnBudgetExhausted ||
           code == ErrorCode::kBudgetExhausted || code == ErrorCode::kCancelled;
  }

  // The choices of a node come from its own seed, so that they do not depend on the order of execution.
  void node(std::uint64_t seed, int depth) {
    started_.fetch_add(1);
    struct AtEnd {
      Program* program;
      ~AtEnd() { program->ended_.fetch_add(1); }
    } at_end{this};
    Prng draw(seed);
    const auto steps = draw.below(4);
    for (std::uint64_t i = 0; i < steps; ++i) {
      switch (draw.below(10)) {
        case 8:
          tick(static_cast<std::uint32_t>(draw.below(60)));
          break;
        case 9:
          if (depth > 0) fork(draw.next(), depth - 1);
          break;
        case 5:
          talk(draw.next());
          break;
        case 6:
          talk_in_select(draw.next());
          break;
        case 7: {
          const std::lock_guard lock(mutex_);
          EXPECT_EQ(++inside_, 1);
          if (draw.below(2) == 0) yield();
          --inside_;
          break;
        }
        case 0:
          yield();
          break;
        case 1:
          if (!sleep_for(microseconds(draw.below(50))).ok()) return;
          break;
        case 2:
          if (depth > 0) scope(draw.next(), depth - 1);
          break;
        case 3:
          if (depth > 0 && draw.below(2) == 0) deadline(draw.next(), depth - 1);
          break;
        default:
          if (draw.below(12) == 0) throw Planned();
          break;
      }
    }
  }
  void fork(std::uint64_t seed, int depth) {
    guarded([&] { both([&] { node(seed, depth); }, [&] { node(seed + 1, depth); }); });
  }
  // Each ends by itself, because nobody has promised to be on the other side. Throws Cancelled: then nothing was sent.
  void talk(std::uint64_t seed) {
    Prng draw(seed);
    const auto& channel = channels_[draw.below(channels_.size())];
    const microseconds limit(draw.below(20));
    if (draw.below(2) == 0) {
      const std::uint64_t value = draw.below(1'000'000);
      if (channel.send_for(value, limit).ok()) sent_.fetch_add(value);
    } else if (const Result<std::uint64_t> value = channel.receive_for(limit); value.ok()) {
      received_.fetch_add(value.value());
    }
  }
  void talk_in_select(std::uint64_t seed) {
    Prng draw(seed);
    const std::uint64_t value = draw.below(1'000'000);
    const auto receive = [this](std::optional<std::uint64_t> v) { received_.fetch_add(v.value()); };
    select(on_send(channels_[draw.below(channels_.size())], value, [&] { sent_.fetch_add(value); }),
           on_receive(channels_[draw.below(channels_.size())], receive),
           on_receive(channels_[draw.below(channels_.size())], receive), after(microseconds(draw.below(20))));
  }
  void body(Nursery& nursery, std::uint64_t seed, int depth) {
    Prng draw(seed);
    std::vector<Task<void>> tasks;
    const auto count = draw.below(6);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t child = draw.next();
      auto made = nursery.try_spawn([this, child, depth] { node(child, depth); });
      if (!made.ok()) {
        EXPECT_TRUE(refuses_a_spawn(made.code())) << made.error().to_string();
        break;
      }
      tasks.push_back(std::move(made).value());
      if (draw.below(4) == 0) yield();
    }
    for (auto& task : tasks) {
      switch (draw.below(7)) {
        case 0:
          task.cancel();
          break;
        case 1:
          (void)task.wait_for(microseconds(draw.below(30)));
          break;
        case 2:
        case 3:
          task.wait();
          break;
        case 4:
          (void)task.state();
          (void)task.is_completed();
          break;
        default:
          break;
      }
    }
    if (draw.below(10) == 0) nursery.cancel();
  }
  template <class F>
  void guarded(F&& f) {
    open_.fetch_add(1);
    try {
      f();
    } catch (const Planned&) {
    } catch (const Cancelled&) {
    } catch (const FiberError& error) {
      EXPECT_TRUE(refuses_a_spawn(error.code())) << error.what();  // That of both().
    }
    open_.fetch_sub(1);
  }
  void scope(std::uint64_t seed, int depth) {
    guarded([&] { with_scope([&](Nursery& nursery) { body(nursery, seed, depth); }); });
  }
  void deadline(std::uint64_t seed, int depth) {
    guarded(
        [&] { (void)with_deadline(microseconds(seed % 60), [&](Nursery& nursery) { body(nursery, seed, depth); }); });
  }

  Prng draw_;
  std::unique_ptr<Runtime> runtime_;
  std::uint64_t script_seed_ = 0;
  sync::Atomic<int> started_{0};
  sync::Atomic<int> ended_{0};
  sync::Atomic<int> open_{0};
  const std::array<Channel<std::uint64_t>, 3> channels_{Channel<std::uint64_t>(0), Channel<std::uint64_t>(1),
                                                        Channel<std::uint64_t>(3)};
  sync::Atomic<std::uint64_t> sent_{0};
  sync::Atomic<std::uint64_t> received_{0};
  Mutex mutex_;
  int inside_ = 0;
};

std::uint64_t seeds() {
  const char* text = std::getenv("ROTA_FIBER_SEEDS");
  return text == nullptr ? 300 : std::strtoull(text, nullptr, 10);
}

// Contract: F-4, F-5, F-6, F-9, F-11, F-12, F-24, F-25, F-28. Random programs keep their invariants under every seed,
// and repeat exactly.
TEST(RandomPrograms, KeepTheirInvariantsUnderEverySeed) {
  for (std::uint64_t seed = 1; seed <= seeds() && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::uint64_t hash = Program(seed, true).run();
    if (seed % 10 == 0) {
      EXPECT_EQ(Program(seed, true).run(), hash);
    }
  }
}

// The same programs on real threads.
TEST(RandomPrograms, KeepTheirInvariantsOnThreads) {
  for (std::uint64_t seed = 1; seed <= seeds() / 3 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Program(seed, false).run();
  }
}

// Far more workers than cores: spawning, joining, sleeping and cancelling all at once.
TEST(RandomPrograms, SixtyFourWorkers) {
  Runtime runtime({.worker_count = 64});
  sync::Atomic<int> ended{0};
  runtime.run([&ended] {
    with_scope([&ended](Nursery& n) {
      for (int i = 0; i < 64; ++i) {
        n.launch([&ended, i] {
          for (int round = 0; round < 20; ++round) {
            const auto result = with_deadline(milliseconds(i % 4 == 0 ? 1 : 1000), [&](Nursery& inner) {
              Task<int> slow = inner.spawn([i] {
                (void)sleep_for(milliseconds(i % 4 == 0 ? 50 : 0));
                return 1;
              });
              Task<int> quick = inner.spawn([] {
                yield();
                return 2;
              });
              if (i % 8 == 1) slow.cancel();
              int sum = quick.get();
              try {
                sum += slow.get();
              } catch (const Cancelled&) {
                if (inner.cancel_reason() != CancelReason::kNone) throw;
              }
              return sum;
            });
            (void)result;
          }
          ended.fetch_add(1);
        });
      }
    });
  });
  EXPECT_EQ(ended.load(), 64);
}

}  // namespace
}  // namespace rota::fiber

// Deadlines, sleeps and timers while every thread worker is busy (F-6), and that every charge can yield (F-11).
//
// Each loop below ends only if the runtime does what the clause says. kPatience ends it otherwise, as a failure.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kPatience{120};

// What a busy task does over and over. Each returns false, or throws, when it sees that it is cancelled.
struct Poll {
  const char* name;
  bool (*once)(Nursery&);
};
long fib(long n) {
  if (n < 2) return n;
  const auto [a, b] = both([n] { return fib(n - 1); }, [n] { return fib(n - 2); });
  return a + b;
}
const Poll kPolls[] = {
    {"check", [](Nursery&) { return check_cancelled().ok(); }},
    {"token", [](Nursery& scope) { return !scope.token().is_cancelled(); }},
    {"tick",
     [](Nursery&) {
       tick();
       return true;
     }},
    {"spawn",
     [](Nursery& scope) {
       scope.launch([] {});
       scope.help();
       return true;
     }},
    {"spawn and get", [](Nursery& scope) { return scope.spawn([] { return true; }).get(); }},
    {"scope",
     [](Nursery&) { return with_scope([](Nursery& inner) { return inner.spawn([] { return true; }).get(); }); }},
    {"both", [](Nursery&) { return fib(8) == 21; }},
    {"yield",
     [](Nursery&) {
       yield();
       return !is_cancelled();
     }},
    {"get",
     [](Nursery& scope) {
       Task<void> task = scope.spawn([] { yield(); });
       task.wait();
       return true;
     }},
};

Config config_of(Profile profile, std::size_t workers) {
  Config config{.worker_count = workers, .profile = profile};
  config.default_budget = Budget{1'000'000, std::size_t{1} << 20, 60'000, 60'000, 60'000};  // Every task may spawn.
  if (profile == Profile::kSovereign) {
    config.yield_interval = 1000;
    config.on_exhausted = OnExhausted::kRecharge;
    // To spawn, and to let children spawn. 2^32 tasks at a time is no limit here.
    config.root_grant = Grant{.capabilities = Capabilities{.spawn = CapSpawn{.max_tasks = UINT32_MAX}}};
  }
  return config;
}

// True if the loop was ended by the deadline, and not by our patience.
bool ends_in_time(const Poll& poll, std::chrono::nanoseconds deadline) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  bool gave_up = false;
  const std::optional<int> result = with_deadline(deadline, [&](Nursery& scope) {
    for (int round = 0; poll.once(scope); ++round) {
      if (round % 256 == 0 && std::chrono::steady_clock::now() > give_up) {
        gave_up = true;
        break;
      }
    }
    return 1;
  });
  return !gave_up && !result.has_value();
}

std::string name_of(Profile profile) {
  constexpr const char* kNames[] = {"core", "open", "service", "cluster", "sovereign"};
  return kNames[static_cast<int>(profile)];
}

// Contract: F-6. With every thread worker busy in code that polls and never waits, each sees its deadline.
TEST(BusyDeadline, IsSeenInEveryProfileByEveryPoll) {
  for (const Profile profile : {Profile::kOpen, Profile::kService, Profile::kCluster, Profile::kSovereign}) {
    for (const std::size_t workers : {1U, 2U, 4U}) {
      Runtime runtime(config_of(profile, workers));
      for (const Poll& poll : kPolls) {
        // In sovereign a child may not spawn, so what spawns in children is left out.
        if (profile == Profile::kSovereign && std::string_view(poll.name) == "both") continue;
        SCOPED_TRACE(name_of(profile) + ", " + std::to_string(workers) + " workers, " + poll.name);
        std::vector<Task<bool>> busy;
        for (std::size_t i = 0; i < workers; ++i) {
          busy.push_back(runtime.spawn([&poll] { return ends_in_time(poll, 2ms); }));
        }
        for (Task<bool>& task : busy) ASSERT_TRUE(task.get());
      }
    }
  }
}

// Contract: F-6. In deterministic mode polling takes virtual time, so the same loops end, and always at the same event.
TEST(BusyDeadline, IsSeenInDeterministicMode) {
  for (const Poll& poll : kPolls) {
    SCOPED_TRACE(poll.name);
    const auto run = [&poll](std::uint64_t seed) {
      Runtime runtime({.worker_count = 2, .deterministic_seed = seed});
      EXPECT_TRUE(runtime.run([&] { return ends_in_time(poll, 20ms); }));
      return std::pair(runtime.event_hash(), runtime.now());
    };
    const auto first = run(1);
    EXPECT_EQ(first, run(1));
    EXPECT_GE(first.second, 20ms);
  }
}

// Contract: F-6, F-28. A program that polls little sees a clock that moves only with its timers.
TEST(BusyDeadline, AFewPollsTakeNoVirtualTime) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 7});
  runtime.run([] {
    const auto start = now();
    for (int i = 0; i < 10'000; ++i) (void)is_cancelled();
    EXPECT_EQ(now() - start, 0ns);
    (void)sleep_for(1h);
    EXPECT_EQ(now() - start, 1h);
  });
}

// Contract: F-6. A sleep that is over while the only thread worker is busy makes its task ready, and a deadline around
// a wait cancels it.
TEST(BusyDeadline, SleepsEndAndWaitsAreInterruptedMeanwhile) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    with_scope([](Nursery& scope) {
      const auto give_up = std::chrono::steady_clock::now() + kPatience;
      bool seen = false;
      // On a busy machine the time may be over before this task has seen that both wait: then again, with more time.
      for (std::chrono::nanoseconds time = 1ms; !seen; time *= 2) {
        Task<bool> sleeper = scope.spawn([time] { return sleep_for(time).ok(); });
        Task<bool> waiter = scope.spawn([time] {
          Event never;
          return with_deadline(time, [&never](Nursery&) { never.wait(); });
        });
        while (!seen && !sleeper.is_completed() && !waiter.is_completed()) {
          yield();
          seen = sleeper.state() == TaskState::kBlocked && waiter.state() == TaskState::kBlocked;
        }
        // If both were seen to wait, this task does not give way from here on.
        while (seen && (sleeper.state() == TaskState::kBlocked || waiter.state() == TaskState::kBlocked)) {
          ASSERT_LT(std::chrono::steady_clock::now(), give_up);
        }
        EXPECT_TRUE(sleeper.get());
        EXPECT_FALSE(waiter.get());
      }
    });
  });
}

// Contract: F-6. Timers that are added in every order while the thread workers go to sleep and wake up all fire: the
// hand-over of the clock between idle thread workers and the timekeeper loses none.
TEST(BusyDeadline, NoTimerIsLostBetweenIdleAndBusy) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    std::atomic<int> fired{0};
    constexpr int kTasks = 16;
    constexpr int kRounds = ROTA_TSAN ? 20 : 100;
    with_scope([&fired](Nursery& scope) {
      for (int i = 0; i < kTasks; ++i) {
        scope.launch([&fired, i] {
          for (int round = 0; round < kRounds; ++round) {
            (void)sleep_for(std::chrono::microseconds((i * 37 + round * 61) % 400));
            for (int busy = 0; busy < (i % 4) * 2000; ++busy) (void)is_cancelled();
            fired.fetch_add(1);
          }
        });
      }
    });
    EXPECT_EQ(fired.load(), kTasks * kRounds);
  });
}

// Contract: F-11. A loop of any operation that is charged, or of scopes, shares its only thread worker with another
// task, as a loop of ticks does.
TEST(EveryChargeYields, InService) {
  for (const Poll& poll : kPolls) {
    if (std::string_view(poll.name) == "check" || std::string_view(poll.name) == "token") continue;  // Not charged.
    SCOPED_TRACE(poll.name);
    Runtime runtime(config_of(Profile::kService, 1));
    std::atomic<bool> other_ran{false};
    Task<bool> loop = runtime.spawn([&] {
      return with_scope([&](Nursery& scope) {
        const auto give_up = std::chrono::steady_clock::now() + kPatience;
        while (!other_ran.load()) {
          poll.once(scope);
          if (std::chrono::steady_clock::now() > give_up) return false;
        }
        return true;
      });
    });
    Task<void> other = runtime.spawn([&] { other_ran = true; });
    EXPECT_TRUE(loop.get());
    other.get();
  }
}
TEST(EveryChargeYields, EmptyScopesToo) {
  Runtime runtime({.worker_count = 1, .profile = Profile::kService});
  std::atomic<bool> other_ran{false};
  Task<bool> loop = runtime.spawn([&] {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (!other_ran.load() && std::chrono::steady_clock::now() < give_up) with_scope([](Nursery&) {});
    return other_ran.load();
  });
  Task<void> other = runtime.spawn([&] { other_ran = true; });
  EXPECT_TRUE(loop.get());
  other.get();
}

// Contract: F-5, F-9. A child of both() that another thread worker took, and that ended without running because of a
// cancellation from outside, has no result: both() throws Cancelled, and returns nothing that was never made.
TEST(BusyDeadline, BothDoesNotReturnTheResultOfAChildThatNeverRan) {
  struct Fat {
    std::string text = std::string(1000, 'x');
  };
  Runtime runtime({.worker_count = 4});
  for (int round = 0; round < (ROTA_TSAN ? 20 : 200); ++round) {
    runtime.run([] {
      Nursery scope;
      std::atomic<int> bad{0};
      for (int i = 0; i < 3; ++i) {  // They do not give way: one thread worker is left for this task.
        scope.launch([&bad] {
          for (;;) {
            const auto pair = both([] { return 1; }, [] { return Fat(); });
            if (pair.second.text.size() != 1000) bad.fetch_add(1);
          }
        });
      }
      (void)sleep_for(50us);
      scope.cancel();
      (void)scope.close();
      EXPECT_EQ(bad.load(), 0);
    });
  }
}

}  // namespace
}  // namespace rota::fiber

// A host that is not metered runs code that is: what the compiler inserted makes it share, pay and end.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "metered_code.h"
#include "rota/fiber.h"

#if defined(__SANITIZE_ADDRESS__)
// What a task had allocated whose frames were left is lost, and that is no finding: exceptions that it was throwing or
// handling.
extern "C" int __lsan_is_turned_off();
extern "C" int __lsan_is_turned_off() { return 1; }
#endif

namespace rota::fiber {
namespace {

using metered::Counter;

Config metered_config(std::size_t workers = 1) {
  Config config;
  config.worker_count = workers;
  config.profile = Profile::kService;
  config.cancel_grace_ops = 5000;
  config.default_budget = Budget{1'000'000, std::size_t{256} << 20, 1000, 1000, 1000};
  return config;
}

struct Endless {
  const char* name;
  void (*run)(Counter& rounds);
};
constexpr Endless kEndless[] = {{"loop", metered::endless},
                                {"noexcept", metered::endless_noexcept},
                                {"destructor", metered::endless_destructor},
                                {"unwinding", metered::endless_while_unwinding},
                                {"handler", metered::endless_handler},
                                {"calls", metered::endless_calls},
                                {"swallowing", metered::endless_swallowing},
                                {"children", metered::endless_with_children}};

// ThreadSanitizer keeps a stack of its own that cannot be told of frames that are left (return_point.h).
#if defined(__SANITIZE_THREAD__) || !(defined(__x86_64__) || defined(__aarch64__))
constexpr bool kAbandons = false;
#else
constexpr bool kAbandons = true;
#endif
#define ROTA_NEEDS_ABANDONING() \
  if (!kAbandons) GTEST_SKIP() << "frames cannot be left without unwinding here"

// Contract: F-13. In a metered target plain `new` and `malloc`, and what is built on them, are charged: 2 GiB against a
// budget of 1 MiB ends as MemoryBudgetExhausted. What is freed can be used again.
TEST(Metering, AllocationsAreCharged) {
  using metered::Hoard;
  static constexpr std::size_t kMuch = std::size_t{2} << 30;
  Runtime runtime(metered_config());
  runtime.run([] {
    const auto hoard = [](Hoard how) {
      Nursery nursery;
      Task<std::size_t> task = nursery.spawn(Grant{.budget = Budget{.ops = 1'000'000, .memory = 1 << 20}},
                                             [how] { return metered::hoard(how, kMuch); });
      task.wait();
      const Result<void> end = nursery.close();
      EXPECT_TRUE(nursery.audit().balanced());
      return std::pair(end.code(), end.ok() ? task.get() : 0);
    };
    EXPECT_EQ(hoard(Hoard::kNew).first, ErrorCode::kMemoryBudgetExhausted);
    EXPECT_EQ(hoard(Hoard::kVector).first, ErrorCode::kMemoryBudgetExhausted);
    for (const Hoard how : {Hoard::kMalloc, Hoard::kRealloc, Hoard::kReallocArray}) {  // It gets null, as C does.
      const auto [code, got] = hoard(how);
      EXPECT_EQ(code, ErrorCode::kOk);
      EXPECT_LE(got, std::size_t{1} << 20);
      EXPECT_GE(got, std::size_t{1} << 18);
    }
    EXPECT_EQ(hoard(Hoard::kReturns), std::pair(ErrorCode::kOk, kMuch));
  });
  EXPECT_EQ(metered::hoard(Hoard::kNew, 1 << 24), std::size_t{1} << 24) << "outside of tasks nothing is charged";
}

// Contract: F-13. There is no allocation function of the C library that is not charged: a block larger than the budget
// is refused by each, one that is smaller is granted by each.
TEST(Metering, EveryAllocationFunctionIsCharged) {
  constexpr std::size_t kLarge = std::size_t{8} << 20;
  EXPECT_EQ(metered::served(kLarge), metered::all_allocators()) << "outside of tasks nothing is charged";
  Runtime runtime(metered_config());
  runtime.run([] {
    with_scope(NurseryOptions{.on_exhausted = OnExhausted::kCancel}, [](Nursery& nursery) {
      Task<void> task = nursery.spawn(Grant{.budget = Budget{.ops = 1'000'000, .memory = 1 << 20}}, [] {
        EXPECT_EQ(metered::served(kLarge), std::vector<std::string>{});
        EXPECT_EQ(metered::served(1 << 16), metered::all_allocators());
      });
      task.get();
    });
  });
}

// Contract: F-13, F-27. An actor whose handler is metered code without an end is left without unwinding: when it is
// told to drop its messages, its supervisor does not wait for it forever; when its budget is used up, it has failed.
TEST(Metering, ActorsThatAreLeftWithoutUnwinding) {
  ROTA_NEEDS_ABANDONING();
  Runtime runtime(metered_config());
  runtime.run(Grant{.budget = Budget{10'000'000, std::size_t{1} << 24, 1000, 1000, 1000}}, [] {
    Counter rounds = 0;
    const auto make = [&rounds] { return [&rounds](int value) { value == 0 ? metered::endless(rounds) : void(); }; };
    with_actors({}, [&](ActorSupervisor& actors) {
      const Actor<int> endless = actors.start<int>("endless", make);
      EXPECT_TRUE(endless.tell(0));
      while (rounds == 0) yield();
      endless.stop(StopMode::kDrop);
    });
    with_actors({.on_exhausted = OnActorExhausted::kFail, .max_restarts = 2}, [&](ActorSupervisor& actors) {
      const Actor<int> endless =
          actors.start<int>("endless", make, {.grant = Grant{.budget = Budget{.ops = 10'000, .channel_ops = 100}}});
      EXPECT_TRUE(endless.tell(0));
      EXPECT_TRUE(endless.tell(1));
      while (endless.restarts() == 0) yield();
    });
  });
  EXPECT_TRUE(runtime.audit().balanced());
}

// Contract: F-13. Every kind of endless loop shares one worker with its siblings, is cancelled, and ends.
TEST(Metering, EndlessLoopsShareOneWorkerAndEnd) {
  ROTA_NEEDS_ABANDONING();
  for (const Endless& endless : kEndless) {
    SCOPED_TRACE(endless.name);
    Runtime runtime(metered_config());
    runtime.run([&endless] {
      Counter rounds = 0;
      Nursery nursery;
      auto task = nursery.spawn([&] { endless.run(rounds); });
      std::uint64_t before = 0;
      for (int i = 0; i < 20; ++i) {  // Each time it has gone on, and has been interrupted.
        while (rounds == before) yield();
        before = rounds;
      }
      EXPECT_EQ(nursery.spawn([] { return 5; }).get(), 5);
      task.cancel();
      EXPECT_THROW(task.get(), Cancelled);
      EXPECT_TRUE(nursery.close().ok());
    });
    EXPECT_TRUE(runtime.audit().balanced());
  }
}

// Contract: F-11, F-13. A loop without end runs out of its budget like any other task; nobody else is harmed, and what
// it did not use is back in the pool.
TEST(Metering, EndlessLoopsRunOut) {
  ROTA_NEEDS_ABANDONING();
  for (const Endless& endless : kEndless) {
    SCOPED_TRACE(endless.name);
    Runtime runtime(metered_config());
    runtime.run([&endless] {
      Counter rounds = 0;
      with_scope(NurseryOptions{.on_exhausted = OnExhausted::kCancel}, [&](Nursery& nursery) {
        auto task =
            nursery.spawn(Grant{.budget = Budget{.ops = 100'000, .spawn_count = 10}}, [&] { endless.run(rounds); });
        auto other = nursery.spawn([] { return metered::count_to(10'000); });
        EXPECT_THROW(task.get(), BudgetExhausted);
        EXPECT_EQ(other.get(), 10'000U);
      });
      EXPECT_GT(rounds, 1000U);
      EXPECT_LE(rounds, 110'000U);
    });
    EXPECT_TRUE(runtime.audit().balanced());
  }
}

// Contract: F-11, F-13. Out of ops, metered code waits in the middle of its loop and goes on there when recharged.
TEST(Metering, WaitsInTheMiddleOfALoop) {
  ROTA_NEEDS_ABANDONING();
  Runtime runtime(metered_config());
  runtime.run([] {
    Counter rounds = 0;
    Nursery nursery(NurseryOptions{.on_exhausted = OnExhausted::kWait});
    auto task = nursery.spawn(Grant{.budget = Budget{.ops = 5000}}, [&] { metered::endless_noexcept(rounds); });
    while (task.state() != TaskState::kBudgetExhausted) yield();
    const std::uint64_t first = rounds;
    EXPECT_GT(first, 1000U);
    for (int i = 0; i < 100; ++i) yield();
    EXPECT_EQ(rounds, first);
    EXPECT_TRUE(nursery.recharge(task, {.ops = 5000}).ok());
    while (task.state() != TaskState::kBudgetExhausted) yield();
    EXPECT_GT(rounds, first + 1000);
    nursery.cancel();
    EXPECT_THROW(task.get(), Cancelled);
    EXPECT_EQ(nursery.close().code(), ErrorCode::kCancelled);
  });
}

// Contract: F-10, F-13. Iterations and calls cost at least an op each, and not many.
TEST(Metering, LoopsAndCallsAreCharged) {
  Runtime runtime(metered_config());
  const auto cost = [&runtime](const std::function<void()>& f) {
    return runtime.run(Grant{.budget = Budget{.ops = 10'000'000}}, [&f] {
      const std::uint32_t before = current_budget().ops;
      f();
      return before - current_budget().ops;
    });
  };
  const std::uint32_t loop = cost([] { metered::count_to(10'000); });
  EXPECT_GE(loop, 10'000U);
  EXPECT_LE(loop, 40'000U);
  const std::uint32_t calls = cost([] { metered::fibonacci(15); });
  EXPECT_GE(calls, 1973U / 4);  // An optimiser turns some of the calls into loops, and unrolls those.
  EXPECT_LE(calls, 8 * 1973U);
  EXPECT_EQ(cost([] {}), 0U);  // The host's own code costs nothing.
}

// Contract: F-13. Metered code outside the runtime, and in profiles that do not meter, is ordinary code.
TEST(Metering, OrdinaryCodeElsewhere) {
  EXPECT_EQ(metered::count_to(100'000), 100'000U);
  std::uint64_t sum = 0;
  std::thread([&sum] { sum = metered::fibonacci(15); }).join();
  EXPECT_EQ(sum, 610U);
  for (const Profile profile : {Profile::kCore, Profile::kOpen}) {
    Config config = metered_config();
    config.profile = profile;
    Runtime runtime(config);
    EXPECT_EQ(runtime.run([] { return metered::count_to(100'000); }), 100'000U);
  }
}

// Contract: F-9, F-13. Code that looks whether it is cancelled ends by itself, within its grace.
TEST(Metering, GraceIsEnoughToNotice) {
  Runtime runtime(metered_config());
  runtime.run([] {
    Counter rounds = 0;
    Nursery nursery;
    auto task = nursery.spawn([&] { return metered::runs_until_cancelled(rounds); });
    while (rounds < 5000) yield();
    task.cancel();
    EXPECT_TRUE(task.get());
    EXPECT_TRUE(nursery.close().ok());
  });
}

// Contract: F-13. Code that is not of the doomed task stays as it is: the exceptions and errno of others.
TEST(Metering, ExceptionsAndErrnoStayWithTheirTask) {
  Runtime runtime(metered_config());
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      for (int id = 1; id <= 4; ++id) {
        nursery.launch([id] {
          for (int round = 0; round < 20; ++round) {
            errno = id;
            try {
              throw std::to_string(id);
            } catch (const std::string&) {
              metered::count_to(3000);
              EXPECT_EQ(errno, id);
              try {
                throw;
              } catch (const std::string& mine) {
                EXPECT_EQ(mine, std::to_string(id));
              }
            }
          }
        });
      }
    });
  });
}

// Contract: F-13. After a task was abandoned in a handler the worker has no exception left over.
TEST(Metering, AnAbandonedHandlerLeavesNoException) {
  ROTA_NEEDS_ABANDONING();
  Runtime runtime(metered_config());
  runtime.run([] {
    Nursery nursery;
    Counter rounds = 0;
    auto task = nursery.spawn([&] { metered::endless_handler(rounds); });
    while (rounds == 0) yield();
    task.cancel();
    while (!task.is_completed()) yield();
    nursery.spawn([] { EXPECT_EQ(std::current_exception(), nullptr); }).get();
    EXPECT_TRUE(nursery.close().ok());
  });
}

// Contract: F-13. Under a MeterHold metered code is not interrupted, so nobody else finds it half-way.
TEST(Metering, AHoldIsNotInterrupted) {
  Runtime runtime(metered_config());
  runtime.run([] {
    bool inside = false;
    with_scope([&inside](Nursery& nursery) {
      for (int i = 0; i < 4; ++i) {
        nursery.launch([&inside] {
          for (int round = 0; round < 10; ++round) {
            EXPECT_TRUE(metered::count_alone(inside, 5000));
            metered::count_to(5000);
          }
        });
      }
    });
  });
}

// Contract: F-13. A signal handler in metered code is not switched away from.
TEST(Metering, ASignalHandlerIsNotInterrupted) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = metered::slow_handler;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  Runtime runtime(metered_config());
  runtime.run([] {
    Counter others = 0;
    bool stop = false;
    with_scope([&](Nursery& nursery) {
      nursery.launch([&] {
        while (!stop) {
          others = others + 1;
          yield();
        }
      });
      while (others < 3) yield();
      const std::uint64_t seen = others;
      raise(SIGUSR1);
      EXPECT_EQ(metered::g_handled, 100'000U);
      EXPECT_EQ(others, seen);
      metered::count_to(10'000);
      EXPECT_GT(others, seen);
      stop = true;
    });
  });
  sigaction(SIGUSR1, &before, nullptr);
}

// Contract: F-13, F-23. A recursion without end is the end of its task, also when the runtime looks up at every single
// op, so that it is always the one to meet the end of the stack first.
TEST(Metering, ARecursionWithoutEndOverflows) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "an overflow is not survived here";
#endif
  ROTA_NEEDS_ABANDONING();
  for (const std::uint32_t interval : {1U, 2U, 7U, 1024U}) {
    for (const auto dive : {metered::dive, metered::dive_in_a_scope}) {
      Config config = metered_config();
      config.yield_interval = interval;
      Runtime runtime(config);
      runtime.run([dive] {
        Nursery nursery;
        Counter rounds = 0;
        auto task = nursery.spawn([&] { dive(rounds); });
        auto other = nursery.spawn([] { return metered::count_to(1000); });
        try {
          task.get();
          ADD_FAILURE();
        } catch (const FiberError& error) {
          EXPECT_EQ(error.code(), ErrorCode::kStackOverflow);
        }
        EXPECT_GT(rounds, 1000U);
        EXPECT_EQ(nursery.close().code(), ErrorCode::kStackOverflow);
      });
      EXPECT_EQ(runtime.run([] { return metered::count_to(1000); }), 1000U);
      EXPECT_TRUE(runtime.audit().balanced());
    }
  }
}

// Contract: F-4, F-13. A scope's deadline ends metered children that do not look.
TEST(Metering, ADeadlineEndsEndlessChildren) {
  ROTA_NEEDS_ABANDONING();
  Config config = metered_config(3);
  Runtime runtime(config);
  runtime.run([] {
    Counter rounds[4] = {};
    const bool in_time = with_deadline(std::chrono::milliseconds(5), [&](Nursery& nursery) {
      for (Counter& mine : rounds) nursery.launch([&mine] { metered::endless(mine); });
    });
    EXPECT_FALSE(in_time);
  });
  EXPECT_TRUE(runtime.audit().balanced());
}

// Contract: F-13, F-28. The ticks are part of the order that a seed gives: it is the same again.
TEST(Metering, DeterministicModeRepeatsIt) {
  const auto run = [](std::uint64_t seed) {
    Config config = metered_config(4);
    config.deterministic_seed = seed;
    Runtime runtime(config);
    runtime.run([] {
      with_scope(NurseryOptions{.on_exhausted = OnExhausted::kCancel}, [](Nursery& nursery) {
        for (int i = 0; i < 6; ++i) nursery.launch([i] { metered::count_to(5000U * static_cast<unsigned>(i)); });
        if (!kAbandons) return;
        Counter rounds = 0;
        auto task = nursery.spawn(Grant{.budget = Budget{.ops = 20'000}}, [&] { metered::endless(rounds); });
        EXPECT_THROW(task.get(), BudgetExhausted);
      });
    });
    return std::pair(runtime.event_hash(), runtime.event_count());
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

}  // namespace
}  // namespace rota::fiber

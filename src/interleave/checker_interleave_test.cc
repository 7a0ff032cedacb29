// Goal: each kind of failure is reported as what it is, replays exactly, and the checker says honestly what it did.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>

#include "base/sync.h"
#include "interleave/interleave.h"
#include "rota/assert.h"

namespace rota::interleave {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
constexpr std::memory_order kAcquire = std::memory_order_acquire;
constexpr std::memory_order kRelease = std::memory_order_release;

void expect_report(const Result& result, Failure failure, const std::string& text) {
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failure, failure) << result.report;
  EXPECT_NE(result.report.find(text), std::string::npos) << result.report;
}

// --- locks

TEST(Checker, FindsLocksTakenInOppositeOrder) {
  const auto run = [](bool opposite) {
    return check({.name = "lock order"}, [=](Execution& ex) {
      sync::Mutex a;
      sync::Mutex b;
      ex.run(
          [&] {
            const sync::MutexLock first(a);
            const sync::MutexLock second(b);
          },
          [&] {
            const sync::MutexLock first(opposite ? b : a);
            const sync::MutexLock second(opposite ? a : b);
          });
    });
  };
  EXPECT_TRUE(run(false).exhaustive);
  expect_report(run(true), Failure::kDeadlock, "wants to lock");
}

TEST(Checker, FindsLockTakenTwice) {
  expect_report(check({},
                      [](Execution&) {
                        sync::Mutex mutex;
                        mutex.lock();
                        mutex.lock();
                      }),
                Failure::kDeadlock, "which it holds");
}

TEST(Checker, FindsLockLeakedAndStolen) {
  expect_report(check({},
                      [](Execution& ex) {
                        sync::Mutex mutex;
                        ex.run([&] { mutex.lock(); });
                      }),
                Failure::kMisuse, "ends while it holds a mutex");
  expect_report(check({},
                      [](Execution& ex) {
                        sync::Mutex mutex;
                        mutex.lock();
                        ex.run([&] { mutex.unlock(); });
                      }),
                Failure::kMisuse, "which it does not hold");
  expect_report(check({},
                      [](Execution&) {
                        sync::Mutex mutex;
                        mutex.lock();
                      }),
                Failure::kMisuse, "while it is locked");
}

TEST(Checker, TryLockMayFail) {
  std::set<int> got;
  const Result result = check({}, [&](Execution& ex) {
    sync::Mutex mutex;
    std::array<int, 2> success{};
    const auto attempt = [&](std::size_t i) {
      if (!mutex.try_lock()) return;
      success[i] = 1;
      mutex.unlock();
    };
    ex.run([&] { attempt(0); }, [&] { attempt(1); });
    got.insert(success[0] + success[1]);
  });
  EXPECT_TRUE(result.exhaustive) << result.report;
  EXPECT_EQ(got, (std::set<int>{1, 2}));
}

// --- waiting

TEST(Checker, WakeOneMayHitAnyWaiter) {
  std::set<int> woken_first;
  const Result result = check({}, [&](Execution& ex) {
    sync::Futex gate;
    sync::Atomic<int> order{0};
    std::array<int, 2> place{};
    const auto wait = [&](std::size_t i) {
      gate.wait(0);
      place[i] = order.fetch_add(1, kRelaxed);
    };
    ex.run([&] { wait(0); }, [&] { wait(1); },
           [&] {
             while (gate.wake_one() == 0) sync::cpu_pause();
             while (gate.wake_one() == 0) sync::cpu_pause();
           });
    woken_first.insert(place[0] == 0 ? 0 : 1);
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_EQ(woken_first, (std::set<int>{0, 1}));
}

TEST(Checker, TimeOutsHappenAtAnyMoment) {
  std::set<std::pair<bool, int>> seen;  // In time? What was read after it?
  const Result result = check({}, [&](Execution& ex) {
    sync::Futex gate;
    bool in_time = false;
    int value = 0;
    ex.run(
        [&] {
          in_time = gate.wait(0, std::chrono::seconds(1));
          value = static_cast<int>(gate.value.load(kRelaxed));
        },
        [&] {
          gate.value.store(1, kRelaxed);
          gate.wake_all();
        });
    seen.insert({in_time, value});
  });
  EXPECT_TRUE(result.exhaustive) << result.report;
  // Woken or too late to sleep, it reads the new value or (relaxed) still the old one; likewise after a time-out.
  EXPECT_EQ(seen, (std::set<std::pair<bool, int>>{{true, 1}, {true, 0}, {false, 0}, {false, 1}}));
}

TEST(Checker, AWaitThatOnlyATimeOutEndsIsNoDeadlock) {
  const Result result = check({.timeouts = 0}, [&](Execution& ex) {
    sync::Futex gate;
    ex.run([&] { EXPECT_FALSE(gate.wait(0, std::chrono::seconds(1))); });
  });
  EXPECT_TRUE(result.exhaustive) << result.report;
}

TEST(Checker, SpuriousReturnsAreTriedOnRequest) {
  const auto run = [](int spurious) {
    return check({.spurious = spurious}, [](Execution& ex) {
      sync::Futex gate;
      ex.run(
          [&] {
            gate.wait(0);  // Should be in a loop.
            ROTA_INTERLEAVE_ASSERT(gate.value.load(kAcquire) == 1);
          },
          [&] {
            gate.value.store(1, std::memory_order_release);
            gate.wake_all();
          });
    });
  };
  // Even without: the return of wait() orders nothing, so an acquire load may still see the old value.
  expect_report(run(0), Failure::kAssertion, "gate.value.load");
  const auto weak = [](int spurious) {
    return check({.spurious = spurious}, [](Execution&) {
      sync::Atomic<int> x{0};
      int expected = 0;
      ROTA_INTERLEAVE_ASSERT(x.compare_exchange_weak(expected, 1));
    });
  };
  EXPECT_TRUE(weak(0).exhaustive);
  EXPECT_EQ(weak(1).failure, Failure::kAssertion);
}

TEST(Checker, AtomicWaitAndNotify) {
  const Result result = check({}, [](Execution& ex) {
    sync::Atomic<int> state{0};
    sync::Plain<int> value{0};
    ex.run(
        [&] {
          state.wait(0, kAcquire);
          ROTA_INTERLEAVE_ASSERT(value.get() == 1);
        },
        [&] {
          value = 1;
          state.store(1, kRelease);
          state.notify_one();
        });
  });
  EXPECT_TRUE(result.exhaustive) << result.report;
}

TEST(Checker, ThreadsMayStartThreads) {
  const Result result = check({}, [](Execution&) {
    sync::Plain<int> value{0};
    sync::Thread outer([&] {
      value = 1;
      sync::Thread inner([&] { value = value + 1; });
      inner.join();
      value = value + 1;
    });
    outer.join();
    ROTA_INTERLEAVE_ASSERT(value.get() == 3);
  });
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// --- spinning

TEST(Checker, FindsLivelocks) {
  expect_report(check({},
                      [](Execution& ex) {
                        sync::Atomic<int> x{0};
                        ex.run([&] {
                          while (x.load(kRelaxed) == 0) sync::cpu_pause();
                        });
                      }),
                Failure::kLivelock, "");
  // Each waits for the other to be polite.
  expect_report(check({.max_steps = 300},
                      [](Execution& ex) {
                        sync::Atomic<int> turn{0};
                        ex.run(
                            [&] {
                              while (turn.load(kRelaxed) != 2) turn.store(1, kRelaxed);
                            },
                            [] {});
                      }),
                Failure::kLivelock, "max_steps");
}

// A loop that gives up must be given its rounds; if it was not, the checker does not claim to have tried everything.
TEST(Checker, BoundedSpinLoopsAreNotClaimedProven) {
  const auto run = [](int rounds, int free_spins, bool stored) {
    return check({.free_spins = free_spins}, [=](Execution& ex) {
      sync::Atomic<int> x{0};
      ex.run(
          [&] {
            for (int i = 0; i < rounds; ++i) {
              if (x.load(kRelaxed) != 0) return;
              sync::cpu_pause();
            }
            x.store(5, kRelaxed);
          },
          [&] {
            if (stored) x.store(1, kRelaxed);
          });
    });
  };
  for (const bool stored : {false, true}) {
    EXPECT_TRUE(run(1, 1, stored).exhaustive);
    EXPECT_TRUE(run(3, 3, stored).exhaustive);
    const Result cut = run(6, 1, stored);
    EXPECT_TRUE(cut.ok) << cut.report;
    EXPECT_FALSE(cut.exhaustive) << cut.report;
    EXPECT_NE(cut.report.find("free_spins"), std::string::npos) << cut.report;
  }
}

TEST(Checker, EndlessSpinLoopsAreProven) {
  const Result result = check({}, [](Execution& ex) {
    sync::Atomic<int> x{0};
    sync::Plain<int> value{0};
    ex.run(
        [&] {
          while (x.load(kAcquire) != 2) sync::cpu_pause();
          ROTA_INTERLEAVE_ASSERT(value.get() == 1);
        },
        [&] {
          x.store(1, kRelaxed);
          value = 1;
          x.store(2, kRelease);
        });
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// --- failures of the body itself

TEST(Checker, ReportsAssertionsAndExceptions) {
  expect_report(check({}, [](Execution&) { ROTA_ASSERT(1 + 1 == 3, "sum is ", 2); }), Failure::kAssertion,
                "1 + 1 == 3 | sum is 2");
  expect_report(check({}, [](Execution& ex) { ex.run([] { throw std::runtime_error("thrown"); }); }),
                Failure::kAssertion, "thrown");
}

TEST(Checker, ReportsMisuseOfItself) {
  expect_report(check({}, [](Execution&) { new sync::Thread([] {}); }), Failure::kMisuse, "while its threads run");
  EXPECT_EQ(check({},
                  [](Execution&) {
                    sync::Atomic<int> x{0};
                    for (int i = 0; i < 300; ++i) x.load();
                  })
                .failure,
            Failure::kLimit);
}

// --- replay

// Fails only in a corner: three threads have to come in one order, with one stale value.
Result corner(const Options& options) {
  return check(options, [](Execution& ex) {
    sync::Atomic<int> x{0};
    sync::Atomic<int> y{0};
    std::array<int, 4> r{};
    ex.run([&] { r[0] = x.fetch_add(1, kRelaxed); }, [&] { r[1] = x.fetch_add(1, kRelaxed); },
           [&] {
             y.store(1, kRelaxed);
             r[2] = x.fetch_add(1, kRelaxed);
           },
           [&] {
             if (x.load(kRelaxed) == 3) r[3] = y.load(kRelaxed) == 0 ? 1 : 0;
           });
    ROTA_INTERLEAVE_ASSERT(!(r[0] == 2 && r[1] == 0 && r[3] == 1));
  });
}

TEST(Checker, AFailureReplaysFromItsPath) {
  for (const Mode mode : {Mode::kExhaustive, Mode::kRandom, Mode::kPct}) {
    const Result found = corner({.name = "corner", .mode = mode});
    ASSERT_EQ(found.failure, Failure::kAssertion) << found.report;
    EXPECT_GT(found.executions, 1U);
    EXPECT_EQ(found.report.find("did NOT end the same way"), std::string::npos) << found.report;
    const Result again = corner({.name = "corner", .replay = found.path});
    EXPECT_EQ(again.failure, Failure::kAssertion) << again.report;
    EXPECT_EQ(again.executions, 1U);

    ASSERT_EQ(::setenv("ROTA_INTERLEAVE_REPLAY", ("corner:" + found.path).c_str(), 1), 0);
    const Result by_environment = corner({.name = "corner"});
    const Result other = corner({.name = "another"});
    ::unsetenv("ROTA_INTERLEAVE_REPLAY");
    EXPECT_EQ(by_environment.executions, 1U);
    EXPECT_EQ(by_environment.failure, Failure::kAssertion);
    EXPECT_GT(other.executions, 1U);
  }
}

TEST(Checker, TheSameSeedGivesTheSameExecutions) {
  const Result first = corner({.mode = Mode::kRandom, .seed = 7});
  const Result second = corner({.mode = Mode::kRandom, .seed = 7});
  EXPECT_EQ(first.executions, second.executions);
  EXPECT_EQ(first.path, second.path);
}

TEST(Checker, SaysWhenTheBodyIsNotReproducible) {
  int runs = 0;
  const Result result = check({}, [&](Execution&) {
    ++runs;
    ROTA_INTERLEAVE_ASSERT(runs != 1);
  });
  expect_report(result, Failure::kAssertion, "did NOT end the same way");
}

// The trace tells the story in an order that plain memory would give, if there is one, and says so if there is none.
TEST(Checker, TheTraceNamesWhatHappened) {
  const auto run = [](std::memory_order order) {
    return check({.name = "trace"}, [=](Execution& ex) {
      sync::Atomic<int> left{0};
      sync::Atomic<int> right{0};
      ex.name(left, "left");
      ex.name(right, "right");
      std::array<int, 2> r{};
      ex.run(
          [&] {
            left.store(1, order);
            r[0] = right.load(order);
          },
          [&] {
            right.store(1, order);
            r[1] = left.load(order);
          });
      ROTA_INTERLEAVE_ASSERT(order == kRelaxed ? r[0] + r[1] != 0 : r[0] + r[1] != 1);
    });
  };
  const Result weak = run(kRelaxed);
  EXPECT_NE(weak.report.find("No interleaving on sequential memory"), std::string::npos) << weak.report;
  EXPECT_NE(weak.report.find("load relaxed              right         = 0"), std::string::npos) << weak.report;
  EXPECT_NE(weak.report.find("(old)"), std::string::npos) << weak.report;
  EXPECT_NE(weak.report.find("checker_interleave_test.cc:"), std::string::npos) << weak.report;
  const Result plain = run(std::memory_order_seq_cst);
  EXPECT_NE(plain.report.find("An interleaving on sequential memory explains it"), std::string::npos) << plain.report;
  EXPECT_EQ(plain.report.find("(old)"), std::string::npos) << plain.report;
}

// --- bounds

TEST(Checker, APreemptionBoundLimitsTheSearchAndIsReported) {
  // Needs two preemptions: the first thread stops twice in the middle of its work.
  const auto run = [](int bound) {
    return check({.preemption_bound = bound}, [](Execution& ex) {
      sync::Atomic<int> x{0};
      const auto three_steps = [&](int base) {
        for (int i = 0; i < 3; ++i) {
          const int seen = x.load(std::memory_order_seq_cst);
          ROTA_INTERLEAVE_ASSERT(!(base == 10 && i == 2 && seen == 121));
          x.fetch_add(base == 10 ? 10 : 1, std::memory_order_seq_cst);
          if (base == 1) x.fetch_add(50, std::memory_order_seq_cst);
        }
      };
      ex.run([&] { three_steps(10); }, [&] { three_steps(1); });
    });
  };
  std::uint64_t last = 0;
  for (const int bound : {0, 1, 2}) {
    const Result result = run(bound);
    if (!result.ok) break;
    EXPECT_TRUE(result.exhaustive);
    EXPECT_NE(result.report.find("within " + std::to_string(bound) + " preemption"), std::string::npos)
        << result.report;
    EXPECT_GT(result.executions, last);
    last = result.executions;
  }
  EXPECT_GT(last, 0U);
}

TEST(Checker, AnUnfinishedSearchIsNotCalledExhaustive) {
  const Result result = check({.max_executions = 3}, [](Execution& ex) {
    sync::Atomic<int> x{0};
    const auto body = [&] {
      for (int i = 0; i < 3; ++i) x.fetch_add(1, kRelaxed);
    };
    ex.run(body, body);
  });
  EXPECT_TRUE(result.ok);
  EXPECT_FALSE(result.exhaustive);
  EXPECT_EQ(result.executions, 3U);
  EXPECT_NE(result.report.find("NOT exhaustive"), std::string::npos) << result.report;
}

}  // namespace
}  // namespace rota::interleave

// Metered tasks: charging, exhaustion, recharging, policies (F-10, F-11, F-13, F-15, F-16).
#include "rota/fiber/meter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory_resource>
#include <string>
#include <vector>

#include "rota/fiber.h"
#include "rota/fiber/detail/charge.h"

namespace rota::fiber {
namespace {

using detail::charge_channel_op;
using detail::charge_syscall;

Config metered(Profile profile = Profile::kService) {
  Config config;
  config.worker_count = 1;
  config.profile = profile;
  config.yield_interval = 16;
  return config;
}

constexpr Budget kSmall{.ops = 100, .memory = 1000, .spawn_count = 3, .channel_ops = 5, .syscalls = 4};

// Runs `f` as the only child of a nursery with these options, with the budget kSmall.
template <class F>
auto run_small(NurseryOptions options, F f, Profile profile = Profile::kService) {
  Runtime runtime(metered(profile));
  return runtime.run([&] {
    return with_scope(options, [&](Nursery& nursery) { return nursery.spawn(Grant{.budget = kSmall}, f).get(); });
  });
}

// Contract: F-10. Each kind of operation takes its op and its own component.
TEST(Meter, OperationsChargeTheirComponents) {
  const Budget left = run_small({}, [] {
    tick(7);
    EXPECT_EQ(charge_channel_op(), ErrorCode::kOk);
    EXPECT_EQ(charge_channel_op(), ErrorCode::kOk);
    EXPECT_EQ(charge_syscall(), ErrorCode::kOk);
    EXPECT_EQ(detail::charge_memory(300), ErrorCode::kOk);
    with_scope([](Nursery& nursery) { nursery.spawn([] {}).get(); });
    return current_budget();
  });
  EXPECT_EQ(left, (Budget{100 - 7 - 2 - 1 - 1 - 1, 700, 2, 3, 3}));
}

// Contract: F-10, F-16. A spawn and an allocation that the budget does not cover are refused and cost nothing.
TEST(Meter, RefusesWhatCanBeRefused) {
  run_small({.on_exhausted = OnExhausted::kCancel}, [] {
    with_scope([](Nursery& nursery) {
      for (int i = 0; i < 3; ++i) nursery.launch([] {});
      auto refused = nursery.try_spawn([] {});
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.code(), ErrorCode::kSpawnBudgetExhausted);
      EXPECT_THROW((void)nursery.spawn([] {}), FiberError);
    });
    MeteredResource resource;
    const Budget before = current_budget();
    EXPECT_THROW((void)resource.allocate(1001), MemoryBudgetExhausted);
    EXPECT_EQ(current_budget(), before);
    void* memory = resource.allocate(1000);
    EXPECT_EQ(current_budget().memory, 0U);
    resource.deallocate(memory, 1000);
    EXPECT_EQ(current_budget().memory, 1000U);
    EXPECT_EQ(current_budget().ops, before.ops - 1);
  });
}

// Contract: F-16. A task that dies of a refused allocation reports MemoryBudgetExhausted through its nursery, and its
// exception is a std::bad_alloc.
TEST(Meter, MemoryExhaustionIsABadAlloc) {
  Runtime runtime(metered());
  const ErrorCode code = runtime.run([] {
    Nursery nursery(NurseryOptions{.on_exhausted = OnExhausted::kCancel});
    auto hog = nursery.spawn(Grant{.budget = kSmall}, [] {
      MeteredResource resource;
      std::pmr::vector<char> much(&resource);
      much.resize(5000);
    });
    EXPECT_THROW(hog.get(), std::bad_alloc);
    return nursery.close().code();
  });
  EXPECT_EQ(code, ErrorCode::kMemoryBudgetExhausted);
}

// Contract: F-11. Out of ops, a task is BudgetExhausted and stops; after its nursery recharges it, it continues.
TEST(Meter, WaitsForItsNursery) {
  Runtime runtime(metered());
  runtime.run([] {
    with_scope(NurseryOptions{.on_exhausted = OnExhausted::kWait}, [](Nursery& nursery) {
      int done = 0;
      auto task = nursery.spawn(Grant{.budget = kSmall}, [&done] {
        for (int i = 0; i < 250; ++i) {
          tick();
          ++done;
        }
      });
      while (task.state() != TaskState::kBudgetExhausted) yield();
      EXPECT_EQ(done, 100);
      for (int i = 0; i < 100; ++i) yield();
      EXPECT_EQ(done, 100);
      EXPECT_TRUE(nursery.recharge(task, {.ops = 120}).ok());
      EXPECT_EQ(task.state(), TaskState::kReady);
      while (task.state() != TaskState::kBudgetExhausted) yield();
      EXPECT_EQ(done, 220);
      EXPECT_TRUE(nursery.recharge(task, {.ops = 30}).ok());
      task.get();
      EXPECT_EQ(done, 250);
    });
  });
}

// Contract: F-11. Each component exhausts by itself.
TEST(Meter, EveryComponentExhausts) {
  for (const Component component : {Component::kOps, Component::kChannelOps, Component::kSyscalls}) {
    Runtime runtime(metered());
    runtime.run([component] {
      std::vector<Exhaustion> told;
      with_scope(NurseryOptions{.on_exhausted = OnExhausted::kWait,
                                .notify = [&told](const Exhaustion& e) { told.push_back(e); }},
                 [&](Nursery& nursery) {
                   auto task = nursery.spawn(Grant{.budget = kSmall}, [component] {
                     for (int i = 0; i < 101; ++i) {
                       if (component == Component::kOps) tick();
                       if (component == Component::kChannelOps) (void)charge_channel_op();
                       if (component == Component::kSyscalls) (void)charge_syscall();
                     }
                   });
                   while (task.state() != TaskState::kBudgetExhausted) yield();
                   ASSERT_EQ(told.size(), 1U);
                   EXPECT_EQ(told[0].task_id, task.id());
                   EXPECT_EQ(told[0].component, component);
                   EXPECT_TRUE(nursery.recharge(task, {.ops = 200, .channel_ops = 200, .syscalls = 200}).ok());
                   task.get();
                 });
    });
  }
}

// Contract: F-11. What is not covered by a first recharge needs a second.
TEST(Meter, ARechargeThatIsTooSmallDoesNotWake) {
  Runtime runtime(metered());
  runtime.run([] {
    with_scope(NurseryOptions{.on_exhausted = OnExhausted::kWait}, [](Nursery& nursery) {
      auto task = nursery.spawn(Grant{.budget = kSmall}, [] { tick(150); });
      while (task.state() != TaskState::kBudgetExhausted) yield();
      EXPECT_TRUE(nursery.recharge(task, {.ops = 49}).ok());
      EXPECT_EQ(task.state(), TaskState::kBudgetExhausted);
      EXPECT_TRUE(nursery.recharge(task, {.ops = 1}).ok());
      task.get();
      EXPECT_EQ(nursery.recharge(task, {.ops = 1}).code(), ErrorCode::kFailedPrecondition);
    });
  });
}

// Contract: F-11. A supervisor, another task, recharges by id when it is told.
TEST(Meter, ASupervisorRecharges) {
  Runtime runtime(metered(Profile::kCluster));
  runtime.run([] {
    std::vector<std::uint64_t> exhausted;
    NurseryOptions options{.on_exhausted = OnExhausted::kWait,
                           .notify = [&exhausted](const Exhaustion& e) { exhausted.push_back(e.task_id); }};
    int running = 5;
    with_scope([&](Nursery& outer) {
      with_scope(options, [&](Nursery& nursery) {
        const Supervisor supervisor = nursery.supervisor();
        outer.launch([&, supervisor] {
          while (running > 0) {
            for (const std::uint64_t id : std::exchange(exhausted, {})) {
              EXPECT_TRUE(supervisor.recharge(id, {.ops = 77}).ok());
            }
            yield();
          }
        });
        for (int i = 0; i < 5; ++i) {
          nursery.launch(Grant{.budget = kSmall}, [&running] {
            for (int k = 0; k < 1000; ++k) tick();
            --running;
          });
        }
      });
    });
  });
}

TEST(Meter, ASupervisorOutlivesItsNursery) {
  Runtime runtime(metered());
  const Supervisor supervisor =
      runtime.run([] { return with_scope([](Nursery& nursery) { return nursery.supervisor(); }); });
  EXPECT_EQ(supervisor.recharge(1, {.ops = 1}).code(), ErrorCode::kNurseryNotActive);
  EXPECT_EQ(supervisor.audit().code(), ErrorCode::kNurseryNotActive);
}

// Contract: F-11. The pool recharges by itself; in `service` that is the default, so a task never notices.
TEST(Meter, ThePoolRecharges) {
  EXPECT_EQ(run_small({},
                      [] {
                        for (int i = 0; i < 100'000; ++i) tick();
                        for (int i = 0; i < 1000; ++i) EXPECT_EQ(charge_channel_op(), ErrorCode::kOk);
                        return 7;
                      }),
            7);
}

// Contract: F-11, F-12. Only what was granted is renewed: a task without spawns gets none from the pool.
TEST(Meter, ThePoolRenewsNothingThatWasNotGranted) {
  Runtime runtime(metered());
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      nursery
          .spawn(Grant{.budget = Budget{.ops = 10}},
                 [] {
                   with_scope([](Nursery& inner) {
                     EXPECT_EQ(inner.try_spawn([] {}).code(), ErrorCode::kSpawnBudgetExhausted);
                   });
                   for (int i = 0; i < 1000; ++i) tick();
                 })
          .get();
    });
  });
}

// Contract: F-11. With an empty pool a task waits until another one has ended and its rest is back.
TEST(Meter, WaitsForWhatComesBackToThePool) {
  Runtime runtime(metered());
  runtime.run([] {
    NurseryOptions options{.pool = Reserve(1000, 0, 0, 0, 0), .on_exhausted = OnExhausted::kRecharge};
    with_scope(options, [](Nursery& nursery) {
      bool go = false;
      auto holder = nursery.spawn(Grant{.budget = Budget{.ops = 900}}, [&go] {
        while (!go) yield();
      });
      auto needy = nursery.spawn(Grant{.budget = Budget{.ops = 900}}, [] { tick(500); });  // Got 100.
      while (needy.state() != TaskState::kBudgetExhausted) yield();
      EXPECT_EQ(nursery.audit().waiting, 1U);
      go = true;
      needy.get();
      holder.get();
      EXPECT_EQ(nursery.audit().spent.ops, 500U);
    });
  });
}

// Contract: F-11. Two tasks that have run out share what the pool has.
TEST(Meter, AScarcePoolIsSharedFairly) {
  Runtime runtime(metered());
  runtime.run([] {
    Nursery nursery(NurseryOptions{.pool = Reserve(20'000, 0, 0, 0, 0), .default_child = Budget{.ops = 1'000'000}});
    std::uint64_t used[2] = {};
    for (std::uint64_t& mine : used) {
      nursery.launch(Grant{.budget = Budget{.ops = 10}}, [&mine] {
        for (;;) {
          tick();
          ++mine;
        }
      });
    }
    EXPECT_TRUE(nursery.close().ok()) << "when nothing can return to the pool, the tasks end";
    EXPECT_EQ(used[0] + used[1], 20'000U);
    EXPECT_GT(used[0], 5'000U);
    EXPECT_GT(used[1], 5'000U);
  });
}

// Contract: F-11, F-9. A task that waits for a recharge is woken by cancellation.
TEST(Meter, CancellationReachesTheExhausted) {
  Runtime runtime(metered());
  runtime.run([] {
    Nursery nursery(NurseryOptions{.on_exhausted = OnExhausted::kWait});
    auto by_handle = nursery.spawn(Grant{.budget = kSmall}, [] { tick(1000); });
    auto by_nursery = nursery.spawn(Grant{.budget = kSmall}, [] { tick(1000); });
    while (by_handle.state() != TaskState::kBudgetExhausted || by_nursery.state() != TaskState::kBudgetExhausted) {
      yield();
    }
    by_handle.cancel();
    EXPECT_THROW(by_handle.get(), Cancelled);
    nursery.cancel();
    EXPECT_THROW(by_nursery.get(), Cancelled);
    EXPECT_EQ(nursery.close().code(), ErrorCode::kCancelled);
  });
}

// Contract: F-11. A nursery may have its exhausted tasks cancelled: the handle says why, the siblings continue.
TEST(Meter, PolicyCancel) {
  Runtime runtime(metered());
  runtime.run([] {
    with_scope(NurseryOptions{.on_exhausted = OnExhausted::kCancel}, [](Nursery& nursery) {
      auto endless = nursery.spawn(Grant{.budget = kSmall}, [] {
        for (;;) tick();
      });
      auto talker = nursery.spawn(Grant{.budget = kSmall}, [] {
        while (charge_channel_op() == ErrorCode::kOk) {
        }
        EXPECT_TRUE(is_cancelled());
        throw Cancelled(CancelReason::kExplicit);
      });
      auto good = nursery.spawn([] {
        for (int i = 0; i < 50; ++i) {
          tick();
          yield();
        }
        return 5;
      });
      try {
        endless.get();
        ADD_FAILURE();
      } catch (const BudgetExhausted& error) {
        EXPECT_EQ(error.code(), ErrorCode::kBudgetExhausted);
      }
      EXPECT_THROW(talker.get(), BudgetExhausted);
      EXPECT_EQ(good.get(), 5);
      EXPECT_GE(nursery.audit().grants, 0U);
    });
  });
  EXPECT_GE(runtime.stats().sum.budget_exhaustions, 2U);
}

// Contract: F-13, F-15. A task that only ticks lets others on the same worker run every yield_interval ops, and yield()
// itself costs nothing.
TEST(Meter, YieldsEveryInterval) {
  for (const auto& [profile, interval] : {std::pair{Profile::kService, 1024U}, {Profile::kCluster, 512U}}) {
    Config config;
    config.worker_count = 1;
    config.profile = profile;
    Runtime runtime(config);
    runtime.run([interval = interval] {
      std::uint64_t ticks = 0;
      bool stop = false;
      with_scope([&, interval](Nursery& nursery) {
        nursery.launch([&] {
          while (!stop) {
            tick();
            ++ticks;
          }
        });
        std::vector<std::uint64_t> seen;
        for (int i = 0; i < 6; ++i) {
          yield();
          seen.push_back(ticks);
        }
        for (std::size_t i = 1; i < seen.size(); ++i) EXPECT_EQ(seen[i] - seen[i - 1], interval) << i;
        stop = true;
      });
    });
  }
}

// Contract: F-10. A voluntary yield costs nothing.
TEST(Meter, YieldIsFree) {
  run_small({}, [] {
    const Budget before = current_budget();
    for (int i = 0; i < 1000; ++i) yield();
    EXPECT_EQ(current_budget(), before);
  });
}

// Contract: F-13. Under a hold a task neither yields nor waits; it pays afterwards.
TEST(Meter, HoldPostponesYieldAndExhaustion) {
  Runtime runtime(metered());
  runtime.run([] {
    with_scope(NurseryOptions{.on_exhausted = OnExhausted::kCancel}, [](Nursery& nursery) {
      int others = 0;
      bool stop = false;
      auto holder = nursery.spawn(Grant{.budget = kSmall}, [&] {
        {
          const MeterHold hold;
          const int before = others;
          for (int i = 0; i < 500; ++i) {
            const MeterHold nested;
            tick();
          }
          EXPECT_EQ(others, before);
        }
        EXPECT_FALSE(is_cancelled());
        for (int i = 0; i < 500; ++i) tick();
      });
      auto other = nursery.spawn([&] {
        while (!stop) {
          ++others;
          yield();
        }
      });
      EXPECT_THROW(holder.get(), BudgetExhausted);
      stop = true;
      other.get();
    });
  });
}

// Contract: F-13. A yield inside a handler keeps the exception that is being handled this task's own.
TEST(Meter, ExceptionsStayWithTheirTask) {
  Runtime runtime(metered());
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      for (int id = 0; id < 4; ++id) {
        nursery.launch([id] {
          for (int round = 0; round < 50; ++round) {
            try {
              throw std::to_string(id);
            } catch (const std::string&) {
              for (int i = 0; i < 37; ++i) tick();
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

// Contract: F-15. Nothing is metered in `open`.
TEST(Meter, OpenIsUnmetered) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    with_scope(NurseryOptions{.pool = Reserve(1, 1, 1, 1, 1), .on_exhausted = OnExhausted::kCancel},
               [](Nursery& nursery) {
                 nursery
                     .spawn(Grant{.budget = Budget{}, .capabilities = Capabilities{}},
                            [] {
                              for (int i = 0; i < 10'000; ++i) tick();
                              EXPECT_EQ(current_budget(), Budget::unlimited());
                              with_scope([](Nursery& inner) { inner.launch([] {}); });
                            })
                     .get();
                 EXPECT_EQ(nursery.audit(), PoolAudit{});
               });
  });
}

// Contract: F-15, F-16. In `core` there are no nurseries.
TEST(Meter, CoreSpawnsNothing) {
  Config config;
  config.profile = Profile::kCore;
  config.worker_count = 1;
  Runtime runtime(config);
  runtime.run([] {
    tick(1000);
    try {
      with_scope([](Nursery&) { ADD_FAILURE(); });
      ADD_FAILURE();
    } catch (const FiberError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNurseryNotActive);
    }
  });
}

// Contract: F-11, F-15. In `sovereign` a task waits by default, and the host recharges it from outside.
TEST(Meter, TheHostRecharges) {
  Config config = metered(Profile::kSovereign);
  Runtime runtime(config);
  auto task = runtime.spawn(Grant{.budget = kSmall}, [] {
    for (int i = 0; i < 200; ++i) tick();
    return 3;
  });
  while (task.state() != TaskState::kBudgetExhausted) std::this_thread::yield();
  EXPECT_TRUE(runtime.recharge(task, {.ops = 100}).ok());
  EXPECT_EQ(task.get(), 3);
}

TEST(Meter, AbsurdConfigsAreRefused) {
  Config config = metered();
  config.yield_interval = 0xffff'ffffU;
  EXPECT_EQ(config.checked().code(), ErrorCode::kInvalidArgument);
  config = metered();
  config.cancel_grace_ops = 0xffff'ffffU;
  EXPECT_EQ(config.checked().code(), ErrorCode::kInvalidArgument);
  config = metered();
  config.on_exhausted = static_cast<OnExhausted>(9);
  EXPECT_EQ(config.checked().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace rota::fiber

// Code that tries to get more than it was given (F-10 to F-16).
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "hostile.h"
#include "rota/janus.h"

namespace hostile {
namespace {

Config service(std::size_t workers = 2) {
  Config config;
  config.worker_count = workers;
  config.profile = Profile::kService;
  return config;
}

// Contract: F-11. A hundred tasks without limits in a row, and the next task still gets its budget.
TEST(Hostile, UnlimitedBudgetsDrainNothing) {
  Runtime runtime(service());
  runtime.run([&] {
    with_scope([&](Nursery& nursery) {
      for (int i = 0; i < 100; ++i) {
        nursery.spawn(Grant{.budget = Budget::unlimited()}, [] { tick(4'000'000'000U); }).get();
        EXPECT_GT(nursery.spawn([] { return current_budget().memory; }).get(), 0U);
      }
    });
  });
  EXPECT_TRUE(runtime.audit().balanced());
}

// Contract: F-12. A child that was granted nothing spawns nothing, at any depth.
TEST(Hostile, ChildrenDoNotSpawn) {
  Runtime runtime(service());
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      for (int i = 0; i < 10; ++i) {
        nursery
            .spawn([] {
              with_scope([](Nursery& inner) {
                EXPECT_EQ(inner.try_spawn([] {}).code(), ErrorCode::kSpawnBudgetExhausted);
                EXPECT_EQ(code_of([] { both([] {}, [] {}); }), ErrorCode::kSpawnBudgetExhausted);
              });
            })
            .get();
      }
    });
  });
}

// Contract: F-12. A fork bomb ends at what its first task was granted.
TEST(Hostile, AForkBombIsBounded) {
  Runtime runtime(service());
  std::atomic<std::uint64_t> spawned{0};
  runtime.run([&] {
    with_scope([&](Nursery& nursery) {
      nursery
          .spawn(Grant{.budget = Budget{.ops = 1'000'000, .spawn_count = 500}},
                 [&] {
                   with_scope([&](Nursery& inner) {
                     while (inner.try_spawn([] {}).ok()) spawned += 1;
                   });
                 })
          .get();
    });
  });
  EXPECT_EQ(spawned, 500U);
}

// Contract: F-11. A pool that nothing can refill: everybody who waits for it is told.
TEST(Hostile, AnEmptyPoolIsReported) {
  Runtime runtime(service());
  runtime.run([] {
    Nursery nursery(NurseryOptions{.pool = Reserve{1000, 0, 0, 0, 0}, .default_child = Budget{.ops = 10}});
    std::vector<Task<void>> tasks;
    for (int i = 0; i < 20; ++i) {
      tasks.push_back(nursery.spawn([] {
        for (;;) tick();
      }));
    }
    for (Task<void>& task : tasks) EXPECT_EQ(code_of([&] { task.get(); }), ErrorCode::kBudgetExhausted);
  });
}

// Contract: F-11. A task that swallows its exhaustion does not go on.
TEST(Hostile, SwallowedExhaustion) {
  Runtime runtime(service());
  runtime.run([] {
    Nursery nursery(NurseryOptions{.on_exhausted = OnExhausted::kCancel});
    std::uint64_t rounds = 0;
    Task<void> task = nursery.spawn(Grant{.budget = Budget{.ops = 100}}, [&] {
      for (; rounds < 1'000'000; ++rounds) {
        try {
          tick();
        } catch (const BudgetExhausted&) {
          if (rounds > 1000) throw;
        }
      }
    });
    EXPECT_EQ(code_of([&] { task.get(); }), ErrorCode::kBudgetExhausted);
    EXPECT_LT(rounds, 10'000U);
  });
}

// Contract: F-11, F-9. A task that waits for a recharge that never comes can be cancelled.
TEST(Hostile, ExhaustedAndCancelled) {
  Runtime runtime(service(1));
  runtime.run([] {
    Nursery nursery(NurseryOptions{.on_exhausted = OnExhausted::kWait});
    Task<void> task = nursery.spawn(Grant{.budget = Budget{.ops = 10}}, [] {
      for (;;) tick();
    });
    while (task.state() != TaskState::kBudgetExhausted) yield();
    task.cancel();
    EXPECT_EQ(code_of([&] { task.get(); }), ErrorCode::kCancelled);
  });
}

// Contract: F-13, F-16. An allocation beyond the budget takes nothing and is reported with its own code.
TEST(Hostile, MemoryBeyondTheBudget) {
  Runtime runtime(service());
  runtime.run([] {
    Nursery nursery;
    Task<void> task = nursery.spawn(Grant{.budget = Budget{.ops = 10'000, .memory = 1 << 20}}, [] {
      MeteredResource memory;
      std::pmr::vector<std::pmr::string> texts(&memory);
      for (;;) texts.emplace_back(10'000, 'x');
    });
    EXPECT_EQ(code_of([&] { task.get(); }), ErrorCode::kMemoryBudgetExhausted);
    EXPECT_EQ(nursery.close().code(), ErrorCode::kMemoryBudgetExhausted);
  });
  EXPECT_TRUE(runtime.audit().balanced());
}

// Contract: F-14. No way out of a task gives it back what it was not given.
TEST(Hostile, NoCapabilitiesAnywhere) {
  Runtime runtime(service());
  CancelToken token;
  std::vector<ErrorCode> codes;
  const auto try_it = [&] { codes.push_back(code_of([&] { (void)runtime.spawn([] {}); })); };
  runtime.run([&] {
    with_scope([&](Nursery& nursery) {
      nursery
          .spawn(Grant{.capabilities = Capabilities{}},
                 [&] {
                   try_it();
                   EXPECT_TRUE(blocking(try_it).ok());
                   token.on_cancel(try_it);
                   codes.push_back(code_of([] { const Channel<int> channel(1); }));
                   EXPECT_TRUE(blocking([&] { codes.push_back(code_of([] { const Channel<int> channel(1); })); }).ok());
                   codes.push_back(code_of([] { with_scope([](Nursery& inner) { inner.launch([] {}); }); }));
                   codes.push_back(recharge({.ops = 1}).code());
                 })
          .get();
    });
  });
  std::thread([&] { token.cancel(); }).join();
  EXPECT_EQ(codes.size(), 7U);
  for (const ErrorCode code : codes) EXPECT_EQ(code, ErrorCode::kCapabilityDenied);
}

// Contract: F-14. What is passed on is never wider, neither in one step nor in two.
TEST(Hostile, WiderGrants) {
  Runtime runtime(service());
  runtime.run([] {
    const Capabilities small{.spawn = CapSpawn{2, {.ops = 100, .spawn_count = 5}}, .channel = CapChannel{1, 1}};
    with_scope([&](Nursery& nursery) {
      nursery
          .spawn(Grant{.budget = Budget{.ops = 10'000, .spawn_count = 100}, .capabilities = small},
                 [&] {
                   with_scope([&](Nursery& inner) {
                     for (const Capabilities& wider :
                          {Capabilities{.spawn = CapSpawn{3}}, Capabilities{.spawn = CapSpawn{1}},
                           Capabilities{.budget = CapBudget{{.ops = 1}}}, Capabilities{.channel = CapChannel{2, 1}},
                           Capabilities{.channel = CapChannel{1, 2}}}) {
                       EXPECT_EQ(inner.try_spawn(Grant{.capabilities = wider}, [] {}).code(),
                                 ErrorCode::kCapabilityDenied);
                     }
                     const auto ops = [] { return current_budget().ops; };
                     EXPECT_LE(inner.spawn(Grant{.budget = Budget::unlimited()}, ops).get(), 100U);
                   });
                 })
          .get();
    });
  });
}

// Contract: F-15. In `core` nothing spawns; in `sovereign` nothing without a capability.
TEST(Hostile, ProfilesWithoutSpawns) {
  Runtime core({.worker_count = 1, .profile = Profile::kCore});
  EXPECT_EQ(code_of([&] { core.run([] { Nursery nursery; }); }), ErrorCode::kNurseryNotActive);
  Runtime sovereign({.worker_count = 1, .profile = Profile::kSovereign, .yield_interval = 100});
  EXPECT_EQ(code_of([&] { sovereign.run([] { with_scope([](Nursery& n) { n.launch([] {}); }); }); }),
            ErrorCode::kCapabilityDenied);
}

// Contract: F-11. A busy loop of ticks shares its only thread worker.
TEST(Hostile, ABusyLoopShares) {
  Runtime runtime(service(1));
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      bool done = false;
      nursery.launch([&done] {
        while (!done) tick();
      });
      nursery.launch([&done] { done = true; });
    });
  });
}

// Contract: F-12. Whatever tasks do with their budgets, the books balance.
TEST(Hostile, TheBooksBalance) {
  Config config = service(4);
  config.root_budget = Reserve::all(10'000'000);
  config.default_budget = Budget{.ops = 1000, .memory = 1000, .spawn_count = 3, .channel_ops = 10, .syscalls = 10};
  Runtime runtime(config);
  runtime.run([] {
    Nursery nursery;
    for (int i = 0; i < 3; ++i) {
      nursery.launch([i] {
        Nursery inner(NurseryOptions{.pool = Reserve{500, 100, 0, 0, 0}, .on_exhausted = OnExhausted::kCancel});
        if (i == 2)
          throw std::runtime_error("leaves a pool open");  // The last one: a failure refuses further launches.
        tick(100);
      });
    }
    (void)nursery.close();
  });
  runtime.shutdown();
  const PoolAudit books = runtime.audit();
  EXPECT_TRUE(books.balanced());
  EXPECT_EQ(books.grants, 0U);
  EXPECT_EQ(books.rest + books.spent, books.total);
}

// Contract: F-30. Stale handles, null pointers and wrong kinds are codes, not crashes.
TEST(Hostile, NonsenseFromC) {
  JanusSchedulerConfig config = janus_scheduler_config_default();
  config.worker_count = 1;
  void* scheduler = janus_scheduler_create(config);
  ASSERT_NE(scheduler, nullptr);
  for (const std::uint64_t handle : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    EXPECT_EQ(janus_task_join(handle, nullptr, nullptr), JANUS_NOT_FOUND);
    EXPECT_EQ(janus_task_cancel(handle), JANUS_NOT_FOUND);
    EXPECT_EQ(janus_channel_close(handle), JANUS_NOT_FOUND);
    EXPECT_EQ(janus_token_cancel(handle), JANUS_NOT_FOUND);
    EXPECT_NE(janus_nursery_close(handle), JANUS_OK);
  }
  EXPECT_EQ(janus_scheduler_spawn(nullptr, nullptr), JANUS_INVALID_ARGUMENT);
  EXPECT_NE(janus_select(nullptr, 0, 0, nullptr), JANUS_OK);
  EXPECT_EQ(janus_channel_create(1, nullptr), JANUS_INVALID_ARGUMENT);
  EXPECT_EQ(janus_op_task_create(nullptr, nullptr, nullptr, nullptr), JANUS_INVALID_ARGUMENT);
  // A function in C++ that throws, and one that leaves nurseries open.
  const auto throws = [](void*) -> void* { throw std::runtime_error("across the interface"); };
  EXPECT_EQ(janus_scheduler_run(scheduler, reinterpret_cast<void*>(+throws), nullptr, nullptr), JANUS_INTERNAL);
  const auto leaves = [](void*) -> void* {
    JanusNursery nursery = 0;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(janus_nursery_open(nullptr, &nursery), JANUS_OK);
    return nullptr;
  };
  EXPECT_EQ(janus_scheduler_run(scheduler, reinterpret_cast<void*>(+leaves), nullptr, nullptr), JANUS_OK);
  const auto stops = [](void* own) -> void* {
    janus_scheduler_shutdown(own);
    return own;
  };
  EXPECT_EQ(janus_scheduler_run(scheduler, reinterpret_cast<void*>(+stops), scheduler, nullptr), JANUS_OK);
  janus_scheduler_shutdown(scheduler);
  janus_scheduler_shutdown(scheduler);
}

}  // namespace
}  // namespace hostile

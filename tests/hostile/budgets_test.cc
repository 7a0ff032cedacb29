// Code that tries to get more than it was given (F-10 to F-16).
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "hostile.h"
#include "rota/flow.h"
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
    // The failure cancels the nursery, in which this task waits: it may learn of either first.
    const ErrorCode code = code_of([&] { task.get(); });
    EXPECT_TRUE(code == ErrorCode::kMemoryBudgetExhausted || code == ErrorCode::kCancelled);
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
    std::atomic<bool> done{false};
    with_scope([&done](Nursery& nursery) {
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

// Contract: F-11. A component that a grant, or the default budget, does not name is renewed from the pool like the
// others: one operation does not wait for ever beside a full pool.
TEST(Hostile, ComponentsThatWereGrantedAsZero) {
  const auto use_all = [] {
    tick(10);
    Channel<int> channel(1);
    EXPECT_TRUE(channel.send(1));
    Result<Pipe> pipe = make_pipe();
    ASSERT_TRUE(pipe.ok());
    EXPECT_TRUE(pipe->write_end.write_all("x").ok());
    return;
  };
  for (const bool by_default : {false, true}) {
    Config config = service(1);
    if (by_default) config.default_budget = Budget{.ops = 1000, .spawn_count = 10};
    Runtime runtime(config);
    runtime.run([&] {
      with_scope([&](Nursery& nursery) {
        nursery.spawn(use_all).get();
        if (by_default) return;
        nursery.spawn(Grant{.budget = Budget{.ops = 100}}, use_all).get();
        nursery.spawn(Grant{.budget = Budget{}}, use_all).get();
      });
      with_scope(NurseryOptions{.default_child = Budget{.ops = 5}},
                 [&](Nursery& nursery) { nursery.spawn(use_all).get(); });
    });
  }
  // Spawns are granted, or there are none.
  Runtime runtime(service(1));
  runtime.run([&] {
    with_scope([&](Nursery& nursery) {
      const auto spawns = [] { return code_of([] { with_scope([](Nursery& n) { n.launch([] {}); }); }); };
      EXPECT_EQ(nursery.spawn(Grant{.budget = Budget{.ops = 100}}, spawns).get(), ErrorCode::kSpawnBudgetExhausted);
    });
  });
}

// Contract: F-14, G-1. A flow in a task that may not spawn says so; it does not count its tasks as done.
TEST(Hostile, FlowsInTasksThatMayNotSpawn) {
  Runtime runtime(service());
  const auto run_flow = [&] {
    int ran = 0;
    rota::flow::Flow flow;
    (void)flow.task([&] { ran += 1; });
    (void)flow.task([&] { ran += 1; });
    const Result<void> done = flow.run(runtime);
    EXPECT_EQ(ran, 0);
    EXPECT_EQ(flow.counts().succeeded, 0U);
    return done.code();
  };
  runtime.run([&] {
    with_scope([&](Nursery& nursery) {
      EXPECT_EQ(nursery.spawn(Grant{.budget = Budget{.ops = 10'000}}, run_flow).get(),
                ErrorCode::kSpawnBudgetExhausted);
      const Grant nothing{.budget = Budget{.ops = 10'000, .spawn_count = 10}, .capabilities = Capabilities{}};
      EXPECT_EQ(nursery.spawn(nothing, run_flow).get(), ErrorCode::kCapabilityDenied);
    });
  });
}

// Contract: F-11, G-1. A scheduler on a metered runtime starts every task, however few spawns its stages have; a flow
// that needs more spawns than there are says so.
TEST(Hostile, SchedulersOnMeteredRuntimes) {
  Config config = service();
  config.root_grant = Grant{.budget = Budget{.ops = 1'000'000, .memory = 1 << 24, .spawn_count = 20}};
  Runtime runtime(config);
  std::atomic<int> ran{0};
  {
    auto scheduler = rota::flow::create_thread_pool_scheduler({}, nullptr, runtime);
    ASSERT_TRUE(scheduler.ok());
    for (int i = 0; i < 300; ++i) {
      std::vector<std::string> deps;
      if (i % 3 == 2) deps.push_back(std::to_string(i - 1));
      ASSERT_TRUE(
          (*scheduler)
              ->submit({.task_id = std::to_string(i), .deps = deps}, [&](rota::flow::StageContext&) { ran += 1; })
              .ok());
    }
    (*scheduler)->wait_all();
  }
  EXPECT_EQ(ran, 300);
  rota::flow::Flow flow;
  for (int i = 0; i < 100; ++i) (void)flow.task([] {});
  EXPECT_EQ(flow.run(runtime).code(), ErrorCode::kSpawnBudgetExhausted);
  runtime.shutdown();
  EXPECT_EQ(flow.run(runtime).code(), ErrorCode::kClosed);
}

// What code without capabilities gets when it asks for a child.
ErrorCode try_to_spawn() {
  return code_of([] { with_scope([](Nursery& nursery) { nursery.spawn([] {}).get(); }); });
}

// Asks when it is destroyed.
struct AsksLate {
  explicit AsksLate(ErrorCode* where) : answer(where) {}
  AsksLate(AsksLate&& other) noexcept : answer(std::exchange(other.answer, nullptr)) {}
  ~AsksLate() {
    if (answer != nullptr) *answer = try_to_spawn();
  }
  ErrorCode* answer;
};

// Contract: F-14. A task without capabilities leaves code behind: a callback that a free task runs and destroys, a
// result that nobody takes. None of it may do what the task could not.
TEST(Hostile, CodeLeftBehindHasNoCapabilities) {
  Config config = service();
  config.default_budget = Budget{.ops = 1'000'000, .memory = 1 << 24, .spawn_count = 1000};
  Runtime runtime(config);
  const Grant nothing{.budget = Budget{.ops = 100'000, .memory = 1 << 20, .spawn_count = 100},
                      .capabilities = Capabilities{}};
  runtime.run([&] {
    ErrorCode called = ErrorCode::kOk, destroyed = ErrorCode::kOk, launched = ErrorCode::kOk, dropped = ErrorCode::kOk;
    {
      CancelToken token;
      with_scope([&](Nursery& nursery) {
        nursery
            .spawn(nothing,
                   [&] {
                     auto late = std::make_shared<AsksLate>(&destroyed);
                     (void)token.on_cancel([&called, late] { called = try_to_spawn(); });
                   })
            .get();
      });
      token.cancel();
    }
    EXPECT_EQ(called, ErrorCode::kCapabilityDenied);
    EXPECT_EQ(destroyed, ErrorCode::kCapabilityDenied);
    EXPECT_EQ(try_to_spawn(), ErrorCode::kOk) << "the free task itself may";
    with_scope([&](Nursery& nursery) { nursery.launch(nothing, [&] { return AsksLate(&launched); }); });
    EXPECT_NE(launched, ErrorCode::kOk);
    with_scope([&](Nursery& nursery) { (void)nursery.spawn(nothing, [&] { return AsksLate(&dropped); }); });
    EXPECT_NE(dropped, ErrorCode::kOk);
  });
}

// Contract: F-14. An exception that such a task throws is destroyed by whoever handles it last: a free task, a plain
// thread, a task that holds it for later. Its destructor may not do what the thrower could not; the handler may.
TEST(Hostile, ExceptionsLeftBehindHaveNoCapabilities) {
  struct Thrown {
    std::shared_ptr<AsksLate> late;
  };
  Config config = service();
  config.default_budget = Budget{.ops = 1'000'000, .memory = 1 << 24, .spawn_count = 1000};
  Runtime runtime(config);
  const Grant nothing{.budget = Budget{.ops = 100'000, .memory = 1 << 20, .spawn_count = 100},
                      .capabilities = Capabilities{}};
  ErrorCode caught = ErrorCode::kOk, kept = ErrorCode::kOk, again = ErrorCode::kOk, outside = ErrorCode::kOk;
  const auto throws = [](ErrorCode* answer) { return [answer] { throw Thrown{std::make_shared<AsksLate>(answer)}; }; };
  runtime.run([&] {
    try {
      with_scope([&](Nursery& nursery) { nursery.launch(nothing, throws(&caught)); });
      ADD_FAILURE();
    } catch (const Thrown&) {
      EXPECT_EQ(try_to_spawn(), ErrorCode::kOk) << "the free task itself may, while it handles the exception";
    }
    EXPECT_EQ(caught, ErrorCode::kCapabilityDenied);
    std::exception_ptr later;
    try {
      with_scope([&](Nursery& nursery) {
        nursery.launch(nothing, [&] {
          try {
            throws (&kept)();
          } catch (...) {
            later = std::current_exception();
            throw;
          }
        });
      });
      ADD_FAILURE();
    } catch (const Thrown&) {
    }
    EXPECT_EQ(kept, ErrorCode::kOk) << "it still exists";
    later = nullptr;
    EXPECT_EQ(kept, ErrorCode::kCapabilityDenied);
    // Through two tasks, the second of which may do more than the first, but less than this one.
    try {
      with_scope([&](Nursery& nursery) {
        nursery
            .spawn(Grant{.budget = nothing.budget, .capabilities = Capabilities{.spawn = CapSpawn{.max_tasks = 10}}},
                   [&] { with_scope([&](Nursery& inner) { inner.spawn(nothing, throws(&again)).get(); }); })
            .get();
      });
      ADD_FAILURE();
    } catch (const Thrown&) {
    }
    EXPECT_EQ(again, ErrorCode::kCapabilityDenied);
  });
  try {
    runtime.run(nothing, throws(&outside));
    ADD_FAILURE();
  } catch (const Thrown&) {
  }
  EXPECT_NE(outside, ErrorCode::kOk);
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

// Budgets, capabilities and resources at their limits: what is unlimited, what is not granted, what nobody can refill
// (F-11 to F-14, F-19).
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rota/fiber.h"
#include "rota/janus.h"

namespace rota::fiber {
namespace {

constexpr Budget kFinite{.ops = 10'000, .memory = 1 << 20, .spawn_count = 10, .channel_ops = 100, .syscalls = 100};

// Contract: F-11. Budget::unlimited() is never drained: it outlasts every pool. It drains no other budget: the pool has
// as much as before, and other tasks start and run.
TEST(Unlimited, IsNeverDrainedAndDrainsNothing) {
  for (const Reserve& root : {kPlenty, Reserve::all(4'000'000)}) {
    Runtime runtime({.worker_count = 2,
                     .profile = Profile::kService,
                     .root_budget = root,
                     .default_budget = kFinite,
                     .root_grant = Grant{.budget = Budget::unlimited()}});
    runtime.run([&] {
      const Reserve before = runtime.audit().rest;
      for (int i = 0; i < 100; ++i) {
        with_scope([&](Nursery& nursery) {
          Task<Budget> task = nursery.spawn(Grant{.budget = Budget::unlimited()}, [&] {
            EXPECT_EQ(runtime.audit().rest, before);
            for (int round = 0; round < 30; ++round) tick(1'000'000);
            Channel<int> channel(1);
            for (int op = 0; op < 40'000 && i == 0; ++op) {  // Twice as many operations as its counter can count.
              (void)channel.send(op);
              (void)channel.receive();
            }
            MeteredResource memory;
            memory.deallocate(memory.allocate(64 << 20), 64 << 20);
            return current_budget();
          });
          EXPECT_EQ(task.get(), Budget::unlimited());
          Task<Budget> other = nursery.spawn([] { return current_budget(); });
          EXPECT_EQ(other.get(), kFinite);
        });
      }
      EXPECT_TRUE(runtime.audit().balanced());
      EXPECT_EQ(runtime.audit().rest.memory, before.memory);
    });
  }
}

// Contract: F-11, F-12. What is unlimited cannot be granted by a task whose own budget is bounded by a pool or by
// capabilities: it gets what the pool has, in slices, and no more than the pool has in total.
TEST(Unlimited, IsNoWayOutOfAPool) {
  Runtime runtime({.worker_count = 2, .profile = Profile::kService});
  runtime.run([] {
    Nursery nursery(NurseryOptions{.pool = Reserve{500'000, 1 << 20, 100, 100, 100},
                                   .default_child = Budget{.ops = 10'000, .memory = 1000, .spawn_count = 10},
                                   .on_exhausted = OnExhausted::kRecharge});
    Task<void> escapes = nursery.spawn([] {
      with_scope([](Nursery& inner) {
        Task<Budget> task = inner.spawn(Grant{.budget = Budget::unlimited()}, [] { return current_budget(); });
        EXPECT_LE(task.get().ops, 10'000U);
        Task<void> endless = inner.spawn(Grant{.budget = Budget::unlimited()}, [] {
          for (;;) tick();
        });
        EXPECT_THROW(endless.get(), BudgetExhausted);
      });
    });
    EXPECT_NO_THROW(escapes.get());
    EXPECT_TRUE(nursery.audit().balanced());
  });
}

// Contract: F-11, F-30. The same from C: a task with the largest budget drains nothing, and so does a nursery's pool.
TEST(Unlimited, FromC) {
  JanusSchedulerConfig config = janus_scheduler_config_default();
  config.worker_count = 1;
  config.profile = JANUS_PROFILE_SERVICE;
  void* scheduler = janus_scheduler_create(config);
  ASSERT_NE(scheduler, nullptr);
  const auto body = [](void*) -> void* {
    const Budget most = Budget::unlimited();
    const JanusBudget budget{most.ops, most.memory, most.spawn_count, most.channel_ops, most.syscalls};
    for (int i = 0; i < 10; ++i) {
      JanusNursery nursery = 0;
      const JanusNurseryOptions options{&budget, nullptr, JANUS_EXHAUSTED_DEFAULT, JANUS_FOREVER};
      EXPECT_EQ(janus_nursery_open(i % 2 == 0 ? &options : nullptr, &nursery), JANUS_OK);
      JanusTask task = 0;
      const auto child = [](void*) -> void* {
        EXPECT_EQ(janus_op_budget_decrement(3'000'000), JANUS_OK);
        return nullptr;
      };
      EXPECT_EQ(janus_nursery_spawn(nursery, reinterpret_cast<void*>(+child), nullptr, &budget, &task), JANUS_OK);
      EXPECT_EQ(janus_task_join(task, nullptr, nullptr), JANUS_OK);
      EXPECT_EQ(janus_nursery_spawn(nursery, reinterpret_cast<void*>(+child), nullptr, nullptr, &task), JANUS_OK);
      EXPECT_EQ(janus_task_join(task, nullptr, nullptr), JANUS_OK);
      EXPECT_EQ(janus_nursery_close(nursery), JANUS_OK);
    }
    return nullptr;
  };
  EXPECT_EQ(janus_scheduler_run(scheduler, reinterpret_cast<void*>(+body), nullptr, nullptr), JANUS_OK);
  janus_scheduler_shutdown(scheduler);
}

// Contract: F-12. A child has no spawns unless it is granted some.
TEST(Spawns, AreGranted) {
  Runtime runtime({.worker_count = 1, .profile = Profile::kService});
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      const auto try_three = [] {
        int spawned = 0;
        with_scope([&](Nursery& inner) {
          for (int i = 0; i < 3; ++i) {
            const auto task = inner.try_spawn([] {});
            if (task.ok()) {
              ++spawned;
            } else {
              EXPECT_EQ(task.code(), ErrorCode::kSpawnBudgetExhausted);
            }
          }
        });
        return spawned;
      };
      EXPECT_EQ(nursery.spawn(try_three).get(), 0);
      EXPECT_EQ(nursery.spawn(Grant{.budget = Budget{.ops = 1000, .spawn_count = 2}}, try_three).get(), 2);
    });
  });
}

// Contract: F-12. One task cannot spawn two million: neither a task from outside, nor one that was granted spawns, gets
// more of them from the root pool automatically.
TEST(Spawns, AreNotRefilled) {
  Runtime runtime({.worker_count = 1, .profile = Profile::kService});
  const auto count = [] {
    std::uint32_t spawned = 0;
    with_scope([&](Nursery& nursery) {
      for (; spawned < 2'000'000; ++spawned) {
        Result<Task<void>> task = nursery.try_spawn([] {});
        if (!task.ok()) {
          EXPECT_EQ(task.code(), ErrorCode::kSpawnBudgetExhausted);
          break;
        }
        task->get();
      }
    });
    return spawned;
  };
  EXPECT_EQ(runtime.run(count), 60'000U);
  EXPECT_EQ(runtime.run([&] {
    return with_scope([&](Nursery& nursery) {
      return nursery.spawn(Grant{.budget = Budget{.ops = 1'000'000, .spawn_count = 7}}, count).get();
    });
  }),
            7U);
}

// Contract: F-11. Waiting for a pool that nothing can refill is reported: when all that draw from it wait, one after
// the other ends with BudgetExhausted, and what it held goes to the rest.
TEST(Pools, ThatNothingCanRefillAreReported) {
  for (const std::size_t workers : {1U, 4U}) {
    Runtime runtime({.worker_count = workers, .profile = Profile::kService});
    runtime.run([] {
      Nursery nursery(NurseryOptions{.pool = Reserve{10'000, 0, 0, 0, 0},
                                     .default_child = Budget{.ops = 1000},
                                     .on_exhausted = OnExhausted::kRecharge});
      std::vector<Task<void>> tasks;
      for (int i = 0; i < 5; ++i) {
        tasks.push_back(nursery.spawn([] {
          for (;;) tick();
        }));
      }
      for (Task<void>& task : tasks) EXPECT_THROW(task.get(), BudgetExhausted);
      const PoolAudit books = nursery.audit();
      EXPECT_TRUE(books.balanced());
      EXPECT_EQ(books.waiting, 0U);
    });
  }
}

// The same when the last one that runs ends with too little to return.
TEST(Pools, ThatBecomeHopelessLaterAreReported) {
  Runtime runtime({.worker_count = 2, .profile = Profile::kService});
  runtime.run([] {
    Nursery nursery(NurseryOptions{.pool = Reserve{3000, 0, 0, 100, 0},
                                   .default_child = Budget{.ops = 1500, .channel_ops = 10},
                                   .on_exhausted = OnExhausted::kRecharge});
    Channel<int> go(1);
    // First, so that it has its grant, which it may give back, when the other one runs out.
    Task<void> runs = nursery.spawn([go] { (void)go.receive(); });
    Task<void> waits = nursery.spawn([] { tick(5000); });
    while (waits.state() != TaskState::kBudgetExhausted) yield();
    (void)go.send(1);
    EXPECT_NO_THROW(runs.get());
    EXPECT_THROW(waits.get(), BudgetExhausted);
  });
}

// Contract: F-14. A task without capabilities keeps none in blocking(), neither for tasks nor for channels.
TEST(Rights, AreKeptAcrossBlocking) {
  Runtime runtime({.worker_count = 2, .profile = Profile::kService});
  runtime.run([&runtime] {
    with_scope([&](Nursery& nursery) {
      nursery
          .spawn(Grant{.capabilities = Capabilities{}},
                 [&] {
                   std::optional<ErrorCode> spawn, channel;
                   const Result<void> done = blocking([&] {
                     try {
                       (void)runtime.spawn([] {});
                     } catch (const FiberError& error) {
                       spawn = error.code();
                     }
                     try {
                       const Channel<int> made(1);
                     } catch (const FiberError& error) {
                       channel = error.code();
                     }
                   });
                   EXPECT_TRUE(done.ok());
                   EXPECT_EQ(spawn, ErrorCode::kCapabilityDenied);
                   EXPECT_EQ(channel, ErrorCode::kCapabilityDenied);
                 })
          .get();
      // The helper thread is not marked for ever.
      EXPECT_TRUE(blocking([&] { (void)runtime.spawn([] {}); }).ok());
    });
  });
}

struct SpawnsWhenDestroyed {
  Runtime* runtime;
  std::optional<ErrorCode>* code;
  bool armed = true;
  SpawnsWhenDestroyed(Runtime* on, std::optional<ErrorCode>* to) : runtime(on), code(to) {}
  SpawnsWhenDestroyed(SpawnsWhenDestroyed&& other) noexcept
      : runtime(other.runtime), code(other.code), armed(std::exchange(other.armed, false)) {}
  ~SpawnsWhenDestroyed() {
    if (!armed) return;
    try {
      (void)runtime->spawn([] {});
      *code = ErrorCode::kOk;
    } catch (const FiberError& error) {
      *code = error.code();
    }
  }
};

// Contract: F-14. Nor do its destructors get more: neither that of its closure, if it never runs, nor that of a result
// that nobody takes.
TEST(Rights, AreKeptInDestructors) {
  Runtime runtime({.worker_count = 1, .profile = Profile::kService});
  std::optional<ErrorCode> closure, result;
  runtime.run([&] {
    Nursery nursery;
    nursery.launch(Grant{.capabilities = Capabilities{}}, [&] { return SpawnsWhenDestroyed(&runtime, &result); });
    yield();
    while (nursery.audit().grants > 1) yield();
    nursery.launch(Grant{.capabilities = Capabilities{}}, [held = SpawnsWhenDestroyed(&runtime, &closure)] {});
    nursery.cancel();
    (void)nursery.close();
  });
  EXPECT_EQ(closure, ErrorCode::kCapabilityDenied);
  EXPECT_EQ(result, ErrorCode::kCapabilityDenied);
}

// Contract: F-14. A callback has the capabilities of the task that registered it, whoever runs it: another task with
// more, or a plain thread.
TEST(Rights, AreKeptInCallbacks) {
  Runtime runtime({.worker_count = 2, .profile = Profile::kService});
  std::optional<ErrorCode> in_task, in_thread;
  CancelToken by_task, by_thread;
  const auto note = [&runtime](std::optional<ErrorCode>* to) {
    return [&runtime, to] {
      try {
        (void)runtime.spawn([] {});
        *to = ErrorCode::kOk;
      } catch (const FiberError& error) {
        *to = error.code();
      }
    };
  };
  runtime.run([&] {
    with_scope([&](Nursery& nursery) {
      nursery
          .spawn(Grant{.capabilities = Capabilities{}},
                 [&] {
                   by_task.on_cancel(note(&in_task));
                   by_thread.on_cancel(note(&in_thread));
                 })
          .get();
      by_task.cancel();
      EXPECT_NO_THROW((void)nursery.spawn([] {}).get()) << "the canceller keeps its own capabilities";
    });
  });
  by_thread.cancel();
  EXPECT_EQ(in_task, ErrorCode::kCapabilityDenied);
  EXPECT_EQ(in_thread, ErrorCode::kCapabilityDenied);
}

// Contract: F-19. shutdown() in a task of the runtime, or in a call of blocking() for one, is an error, not a deadlock.
TEST(Shutdown, InATaskIsRefused) {
  Runtime runtime({.worker_count = 1});
  const auto code = [&runtime] {
    try {
      runtime.shutdown();
    } catch (const FiberError& error) {
      return error.code();
    }
    return ErrorCode::kOk;
  };
  EXPECT_EQ(runtime.run(code), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(runtime.run([&] { return blocking(code).code(); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(runtime.run([] { return 1; }), 1);
  runtime.shutdown();
}

#if !ROTA_ASAN && !ROTA_TSAN
// An emulator (qemu-user) ignores a limit of the address space, which would be its own as well.
bool limits_address_space() {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit less = before;
  less.rlim_cur = std::min(before.rlim_max, rlim_t{1} << 40);
  setrlimit(RLIMIT_AS, &less);
  rlimit now{};
  getrlimit(RLIMIT_AS, &now);
  setrlimit(RLIMIT_AS, &before);
  return now.rlim_cur == less.rlim_cur;
}

// Contract: F-19. No memory for another stack: the wait that needs it reports ResourceExhausted; nothing ends but that
// task, and with memory everything works again.
TEST(Resources, NoMemoryForStacks) {
  if (!limits_address_space()) GTEST_SKIP() << "the address space cannot be limited here";
  Runtime runtime({.worker_count = 2, .stack_bytes = 1 << 20});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit none = before;
  none.rlim_cur = 1 << 20;  // Less than is in use: nothing more can be mapped.
  runtime.run([&] {
    Event open;
    int refused = 0;
    Nursery nursery;
    std::vector<Task<bool>> tasks;
    tasks.reserve(5000);
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    for (int i = 0; i < 5000; ++i) {
      tasks.push_back(nursery.spawn([&open] {
        try {
          open.wait();
          return true;
        } catch (const FiberError& error) {
          EXPECT_EQ(error.code(), ErrorCode::kResourceExhausted);
        } catch (const std::bad_alloc&) {
        }
        return false;
      }));
      yield();
    }
    setrlimit(RLIMIT_AS, &before);
    open.set();
    for (Task<bool>& task : tasks) refused += task.get() ? 0 : 1;
    EXPECT_GT(refused, 0);
    EXPECT_TRUE(nursery.close().ok());
  });
  EXPECT_EQ(runtime.run([] { return sleep_for(std::chrono::microseconds(1)).ok(); }), true);
}

// Contract: F-19. No memory for the first stacks is an error of Runtime::create().
TEST(Resources, NoMemoryToStart) {
  if (!limits_address_space()) GTEST_SKIP() << "the address space cannot be limited here";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit none = before;
  none.rlim_cur = 1 << 20;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  const Result<std::unique_ptr<Runtime>> runtime = Runtime::create({.worker_count = 2, .stack_bytes = 1 << 22});
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(runtime.code(), ErrorCode::kResourceExhausted);
}
#endif

}  // namespace
}  // namespace rota::fiber

// Conservation: whatever tasks do, no budget is made and none is lost (F-12).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <atomic>
#include <memory_resource>
#include <vector>

#include "base/prng.h"
#include "rota/fiber.h"
#include "rota/fiber/detail/charge.h"

namespace rota::fiber {

void PrintTo(const Reserve& r, std::ostream* out) {
  *out << '{' << r.ops << ' ' << r.memory << ' ' << r.spawn_count << ' ' << r.channel_ops << ' ' << r.syscalls << '}';
}

namespace {

// What the tasks of a random program say they used; compared with what the pools say.
struct Used {
  std::atomic<std::uint64_t> ops{0}, spawns{0}, channel_ops{0}, syscalls{0}, leaked{0}, ops_at_cancel{0};
};

struct Program {
  std::uint64_t seed;
  Used* used;
  bool with_pools = true;
};

void check_books(const PoolAudit& books) {
  ASSERT_TRUE(books.balanced());
  ASSERT_TRUE(books.total.covers(books.rest));
}

void run_node(const Program& program, std::uint64_t path, int depth);

void use_something(const Program& program, Prng& random) {
  Used& used = *program.used;
  switch (random.below(6)) {
    case 0:
    case 1: {
      const auto n = static_cast<std::uint32_t>(1 + random.below(40));
      try {
        tick(n);
      } catch (const Cancelled&) {
        used.ops_at_cancel += n;  // Paid or not.
        throw;
      }
      used.ops += n;
      break;
    }
    case 2:
      if (detail::charge_channel_op() == ErrorCode::kOk) {
        ++used.ops;
        ++used.channel_ops;
      }
      break;
    case 3:
      if (detail::charge_syscall() == ErrorCode::kOk) {
        ++used.ops;
        ++used.syscalls;
      }
      break;
    case 4:
      try {
        MeteredResource resource;
        const std::size_t bytes = 1 + random.below(2000);
        void* memory = resource.allocate(bytes);
        ++used.ops;
        yield();
        resource.deallocate(memory, bytes);
      } catch (const MemoryBudgetExhausted&) {  // Refused and not paid for.
      }
      break;
    default:
      yield();
  }
}

Grant random_grant(Prng& random) {
  Grant grant;
  if (random.below(2) == 0) {
    grant.budget = Budget{static_cast<std::uint32_t>(random.below(300)), random.below(3000),
                          static_cast<std::uint16_t>(random.below(6)), static_cast<std::uint16_t>(random.below(20)),
                          static_cast<std::uint16_t>(random.below(20))};
  }
  return grant;
}

// Spawns children, recharges those that wait, cancels now and then.
void run_scope(const Program& program, Prng& random, std::uint64_t path, int depth, Nursery& nursery) {
  Used& used = *program.used;
  std::vector<Task<void>> children;
  const std::uint64_t count = random.below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto child = [&program, path, i, depth] { run_node(program, path * 5 + i + 1, depth - 1); };
    auto task = random.below(3) == 0 ? nursery.try_spawn(child) : nursery.try_spawn(random_grant(random), child);
    if (task.ok()) {
      ++used.ops;
      ++used.spawns;
      children.push_back(std::move(*task));
    }
    check_books(nursery.audit());
    use_something(program, random);
  }
  const bool cancels = random.below(8) == 0;
  if (cancels) nursery.cancel();
  // Keeps the waiting ones going, as far as the pool has something; what cannot be helped is cancelled.
  for (Task<void>& child : children) {
    for (int rounds = 0; !child.is_completed(); ++rounds) {
      if (child.state() == TaskState::kBudgetExhausted) {
        const Result<void> helped =
            nursery.recharge(child, {.ops = 50, .memory = 10, .spawn_count = 0, .channel_ops = 9, .syscalls = 9});
        if (helped.code() == ErrorCode::kBudgetExhausted) child.cancel();
      }
      if (rounds > 2000) child.cancel();  // Waits for a pool, or below it somebody does.
      yield();
    }
    check_books(nursery.audit());
  }
}

void run_node(const Program& program, std::uint64_t path, int depth) {
  Prng random(program.seed ^ (path * 0x9e3779b97f4a7c15U));
  for (std::uint64_t i = random.below(6); i > 0; --i) use_something(program, random);
  if (depth == 0) return;
  NurseryOptions options;
  if (program.with_pools && random.below(2) == 0) {
    options.pool =
        Reserve(random.below(4000), random.below(20'000), random.below(20), random.below(100), random.below(100));
  }
  if (random.below(3) == 0) options.on_exhausted = static_cast<OnExhausted>(random.below(3));
  if (random.below(3) == 0) options.default_child = Budget{200, 2000, 4, 20, 20};
  try {
    Nursery nursery(options);
    run_scope(program, random, path, depth, nursery);
    (void)nursery.close();
  } catch (const FiberError& error) {
    if (error.code() != ErrorCode::kBudgetExhausted) throw;  // The pool around it has not as much.
  }
}

void expect_conserved(const Runtime& runtime, const Used& used, const Reserve& total) {
  const PoolAudit books = runtime.audit();
  EXPECT_EQ(books.total, total);
  EXPECT_EQ(books.grants, 0U);
  EXPECT_EQ(books.waiting, 0U);
  EXPECT_EQ(books.granted, Reserve());
  EXPECT_TRUE(books.balanced());
  EXPECT_EQ(books.rest, total - books.spent);
  EXPECT_GE(books.spent.ops, used.ops.load());
  EXPECT_LE(books.spent.ops, used.ops.load() + used.ops_at_cancel.load());
  EXPECT_EQ(books.spent.memory, 0U);
  EXPECT_EQ(books.spent.spawn_count, used.spawns.load());
  EXPECT_EQ(books.spent.channel_ops, used.channel_ops.load());
  EXPECT_EQ(books.spent.syscalls, used.syscalls.load());
}

Config config_for(std::uint64_t seed, const Reserve& total, std::size_t workers, bool deterministic) {
  Config config;
  config.worker_count = workers;
  config.profile = seed % 2 == 0 ? Profile::kService : Profile::kCluster;
  config.yield_interval = static_cast<std::uint32_t>(1 + seed % 40);
  config.root_budget = total;
  if (deterministic) config.deterministic_seed = seed;
  return config;
}

const Reserve kLittle{40'000'000, 4'000'000'000, 4'000'000, 4'000'000, 4'000'000};

void run_program(std::uint64_t seed, const Reserve& total, std::size_t workers, bool deterministic,
                 std::uint64_t* hash = nullptr) {
  Used used;
  Runtime runtime(config_for(seed, total, workers, deterministic));
  const Program program{seed, &used};
  try {
    runtime.run([&program] { run_node(program, 1, 3); });
  } catch (const Cancelled&) {  // The root's own scope may be cancelled by its program.
  }
  runtime.shutdown();
  expect_conserved(runtime, used, total);
  if (hash != nullptr) *hash = runtime.event_hash();
}

// Contract: F-12, F-28. Random programs under deterministic seeds, with a root pool that can run dry and one that
// cannot.
TEST(Conservation, UnderDeterministicSeeds) {
  for (std::uint64_t seed = 0; seed < (ROTA_TSAN ? 60 : 300); ++seed) {
    SCOPED_TRACE(seed);
    std::uint64_t hash = 0;
    std::uint64_t again = 1;
    run_program(seed, seed % 3 == 0 ? kPlenty : kLittle, 1 + seed % 4, true, &hash);
    if (seed % 10 == 0) {
      run_program(seed, seed % 3 == 0 ? kPlenty : kLittle, 1 + seed % 4, true, &again);
      EXPECT_EQ(hash, again);
    }
    if (HasFailure()) break;
  }
}

// Contract: F-12. The same with real threads.
TEST(Conservation, WithThreads) {
  for (std::uint64_t seed = 1000; seed < 1030; ++seed) {
    SCOPED_TRACE(seed);
    run_program(seed, seed % 2 == 0 ? kPlenty : kLittle, seed % 5 == 0 ? 64 : 4, false);
    if (HasFailure()) break;
  }
}

// Contract: F-12. A child gets the smaller of what its pool has and what it would get, and no spawns that were not
// given; what it does not use comes back.
TEST(Conservation, AGrantLeavesThePoolAndComesBack) {
  Config config;
  config.worker_count = 1;
  config.profile = Profile::kSovereign;
  config.yield_interval = 64;
  config.root_grant =
      Grant{.budget = Budget{10'000, 10'000, 100, 100, 100},
            .capabilities = Capabilities{.spawn = CapSpawn{10}, .budget = CapBudget{Budget::unlimited()}}};
  config.root_budget = Reserve(100'000, 100'000, 1000, 1000, 10'000);
  config.default_budget = Budget{400, 400, 0, 40, 40};
  Runtime runtime(config);
  runtime.run([] {
    with_scope(NurseryOptions{.pool = Reserve(1000, 500, 3, 50, 1000)}, [](Nursery& nursery) {
      bool stop = false;
      const auto idle = [&stop] {
        const Budget mine = current_budget();
        while (!stop) yield();
        return mine;
      };
      auto first = nursery.spawn(idle);
      PoolAudit books = nursery.audit();
      EXPECT_EQ(books.granted, Reserve(400, 400, 0, 40, 40));
      EXPECT_EQ(books.rest, Reserve(600, 100, 3, 10, 960));
      auto second = nursery.spawn(Grant{.budget = Budget{5000, 5000, 2, 5000, 5000}}, idle);
      books = nursery.audit();
      EXPECT_EQ(books.rest, Reserve(0, 0, 1, 0, 0));
      EXPECT_EQ(books.grants, 2U);
      stop = true;
      EXPECT_EQ(first.get(), (Budget{400, 400, 0, 40, 40}));
      EXPECT_EQ(second.get(), (Budget{600, 100, 2, 10, 960}));
      books = nursery.audit();
      EXPECT_EQ(books.rest, books.total);
      nursery.spawn([] { tick(123); }).get();
      books = nursery.audit();
      EXPECT_EQ(books.spent, Reserve(123, 0, 0, 0, 0));
      EXPECT_EQ(books.rest, Reserve(877, 500, 3, 50, 1000));
    });
  });
  EXPECT_EQ(runtime.audit().granted, Reserve());
  EXPECT_EQ(runtime.audit().spent.ops, 123U + 3);  // And three spawns.
}

// Contract: F-12. A nursery's own pool is taken out of the one around it, or refused.
TEST(Conservation, NestedPools) {
  Config config;
  config.worker_count = 1;
  config.profile = Profile::kService;
  config.root_budget = Reserve(5'000'000, std::uint64_t{1} << 40, 1'000'000, 1'000'000, 1'000'000);
  Runtime runtime(config);
  runtime.run([] {
    with_scope(NurseryOptions{.pool = Reserve(1000, 0, 10, 0, 0)}, [](Nursery& outer) {
      with_scope(NurseryOptions{.pool = Reserve(600, 0, 10, 0, 0)}, [&outer](Nursery& inner) {
        EXPECT_EQ(outer.audit().rest.ops, 400U);
        EXPECT_EQ(inner.audit().rest.ops, 600U);
        inner.spawn([] { tick(100); }).get();
        EXPECT_EQ(outer.audit().rest.ops, 400U);
        try {
          Nursery refused(NurseryOptions{.pool = Reserve(700, 0, 0, 0, 0)});
          ADD_FAILURE();
        } catch (const FiberError& error) {
          EXPECT_EQ(error.code(), ErrorCode::kBudgetExhausted);
        }
        // A nursery without a pool of its own draws from the one around it.
        with_scope([&inner](Nursery& plain) {
          plain.spawn([] { tick(50); }).get();
          EXPECT_EQ(inner.audit().rest.ops, 450U);
        });
      });
      EXPECT_EQ(outer.audit().rest.ops, 850U);
      EXPECT_EQ(outer.audit().spent.ops, 150U);
    });
  });
  EXPECT_EQ(runtime.audit().granted, Reserve());
}

}  // namespace
}  // namespace rota::fiber

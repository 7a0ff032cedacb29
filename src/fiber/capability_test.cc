// Capabilities and profiles (F-14, F-15, F-16).
#include "rota/fiber/capability.h"

#include <gtest/gtest.h>

#include <optional>

#include "rota/fiber.h"
#include "rota/fiber/detail/charge.h"

namespace rota::fiber {
namespace {

using detail::ChannelPermit;

Config sovereign() {
  Config config;
  config.worker_count = 1;
  config.profile = Profile::kSovereign;
  config.yield_interval = 100;
  return config;
}

template <class F>
ErrorCode code_of(F f) {
  try {
    f();
    return ErrorCode::kOk;
  } catch (const FiberError& error) {
    return error.code();
  }
}

// Contract: F-14, F-15. Without a capability nothing goes in `sovereign`.
TEST(Capability, NothingWithoutOne) {
  Runtime runtime(sovereign());
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      EXPECT_EQ(nursery.try_spawn([] {}).code(), ErrorCode::kCapabilityDenied);
      EXPECT_EQ(code_of([&] { nursery.launch([] {}); }), ErrorCode::kCapabilityDenied);
    });
    EXPECT_EQ(recharge({.ops = 1}).code(), ErrorCode::kCapabilityDenied);
    EXPECT_EQ(code_of([] { ChannelPermit permit(0); }), ErrorCode::kCapabilityDenied);
    EXPECT_EQ(code_of([] { Nursery nursery(NurseryOptions{.pool = Reserve(1, 1, 1, 1, 1)}); }),
              ErrorCode::kCapabilityDenied);
  });
}

// Contract: F-14. A task does not get around it through the runtime itself.
TEST(Capability, NotThroughTheRuntimeEither) {
  Runtime runtime(sovereign());
  runtime.run([&runtime] {
    EXPECT_EQ(runtime.try_spawn([] {}).code(), ErrorCode::kCapabilityDenied);
    EXPECT_EQ(code_of([&] { (void)runtime.spawn(Grant{.capabilities = Capabilities{CapSpawn{5}, {}, {}}}, [] {}); }),
              ErrorCode::kCapabilityDenied);
  });
}

// Contract: F-14. CapSpawn: so many at a time, none with more than its task_budget; the children may not spawn.
TEST(Capability, SpawnIsLimited) {
  Runtime runtime(sovereign());
  const Capabilities rights{.spawn = CapSpawn{.max_tasks = 2, .task_budget = Budget{.ops = 50}}};
  runtime.run(Grant{.budget = Budget{1000, 0, 10, 0, 0}, .capabilities = rights}, [] {
    with_scope([](Nursery& nursery) {
      bool stop = false;
      const auto wait = [&stop] {
        while (!stop) yield();
        return current_budget();
      };
      auto a = nursery.spawn(wait);
      auto b = nursery.spawn(Grant{.budget = Budget{.ops = 900, .spawn_count = 9}}, wait);
      EXPECT_EQ(nursery.try_spawn(wait).code(), ErrorCode::kCapabilityDenied);
      stop = true;
      EXPECT_EQ(a.get(), (Budget{.ops = 50}));
      EXPECT_EQ(b.get(), (Budget{.ops = 50}));
      nursery
          .spawn([] {
            with_scope([](Nursery& inner) { EXPECT_EQ(inner.try_spawn([] {}).code(), ErrorCode::kCapabilityDenied); });
          })
          .get();
    });
    EXPECT_EQ(current_budget(), (Budget{997, 0, 7, 0, 0}));
  });
}

// Contract: F-14, F-16. The capability to spawn does not include a budget for it.
TEST(Capability, SpawningNeedsBudgetAsWell) {
  Runtime runtime(sovereign());
  runtime.run(
      Grant{.budget = Budget{.ops = 1000, .spawn_count = 1}, .capabilities = Capabilities{.spawn = CapSpawn{10}}}, [] {
        with_scope([](Nursery& nursery) {
          nursery.launch([] {});
          EXPECT_EQ(nursery.try_spawn([] {}).code(), ErrorCode::kSpawnBudgetExhausted);
        });
      });
  // A grant that names the right and no budget brings as many spawns as it allows tasks.
  runtime.run(Grant{.capabilities = Capabilities{.spawn = CapSpawn{3}}},
              [] { EXPECT_EQ(current_budget().spawn_count, 3U); });
}

// Contract: F-14. What is passed on is never wider than what the giver has.
TEST(Capability, NeverWiderThanTheGivers) {
  Runtime runtime(sovereign());
  const Capabilities mine{.spawn = CapSpawn{5, Budget{100, 100, 100, 100, 100}},
                          .budget = CapBudget{Budget{10, 10, 10, 10, 10}},
                          .channel = CapChannel{.max_buffer = 8, .max_channels = 4}};
  runtime.run(Grant{.budget = Budget{10'000, 0, 100, 0, 0}, .capabilities = mine}, [&mine] {
    with_scope([&mine](Nursery& nursery) {
      const auto attempt = [&nursery](const Capabilities& rights) {
        auto task = nursery.try_spawn(Grant{.capabilities = rights}, [] {});
        if (!task.ok()) return task.code();
        task->get();
        return ErrorCode::kOk;
      };
      const Budget before = current_budget();
      EXPECT_EQ(attempt({.spawn = CapSpawn{6, Budget{}}}), ErrorCode::kCapabilityDenied);
      EXPECT_EQ(attempt({.spawn = CapSpawn{5, Budget{.ops = 101}}}), ErrorCode::kCapabilityDenied);
      EXPECT_EQ(attempt({.budget = CapBudget{Budget{.memory = 11}}}), ErrorCode::kCapabilityDenied);
      EXPECT_EQ(attempt({.channel = CapChannel{9, 1}}), ErrorCode::kCapabilityDenied);
      EXPECT_EQ(attempt({.channel = CapChannel{1, 5}}), ErrorCode::kCapabilityDenied);
      EXPECT_EQ(current_budget(), before);  // A refused spawn costs nothing.
      EXPECT_EQ(attempt(mine), ErrorCode::kOk);
      EXPECT_EQ(attempt({.channel = CapChannel{8, 4}}), ErrorCode::kOk);
      // A child that was given only one of them has nothing else to pass on.
      nursery
          .spawn(
              Grant{.capabilities = Capabilities{.spawn = CapSpawn{2, Budget{.ops = 10}}}},
              [] {
                with_scope([](Nursery& inner) {
                  EXPECT_EQ(
                      inner.try_spawn(Grant{.capabilities = Capabilities{.channel = CapChannel{0, 1}}}, [] {}).code(),
                      ErrorCode::kCapabilityDenied);
                });
              })
          .get();
    });
  });
}

// Contract: F-14. Children that share a capability share its limit: at most 3 tasks, whichever of them spawns.
TEST(Capability, PassedOnRightsCountAgainstTheGivers) {
  Runtime runtime(sovereign());
  const Capabilities mine{.spawn = CapSpawn{.max_tasks = 3}, .channel = CapChannel{10, 2}};
  runtime.run(Grant{.budget = Budget{10'000, 0, 100, 0, 0}, .capabilities = mine}, [&mine] {
    with_scope([&mine](Nursery& nursery) {
      const Grant grant{.budget = Budget{.ops = 100, .spawn_count = 9}, .capabilities = mine};
      nursery
          .spawn(grant,
                 [] {
                   bool stop = false;
                   with_scope([&stop](Nursery& inner) {  // This task is one of the three.
                     const auto wait = [&stop] {
                       while (!stop) yield();
                     };
                     inner.launch(wait);
                     inner.launch(wait);
                     EXPECT_EQ(inner.try_spawn(wait).code(), ErrorCode::kCapabilityDenied);
                     stop = true;
                   });
                   const ChannelPermit one(10);
                   const ChannelPermit two(0);
                   EXPECT_EQ(code_of([] { ChannelPermit three(0); }), ErrorCode::kCapabilityDenied);
                 })
          .get();
      // All of them have ended: the rights are free again.
      std::optional<ChannelPermit> mine_again;
      mine_again.emplace(10);
      EXPECT_EQ(code_of([] { ChannelPermit big(11); }), ErrorCode::kCapabilityDenied);
      for (int i = 0; i < 3; ++i) nursery.launch([] {});
    });
  });
}

// Contract: F-11, F-14. A task with CapBudget recharges itself, up to the limit, and no further.
TEST(Capability, BudgetRechargesUpToItsLimit) {
  Runtime runtime(sovereign());
  const Capabilities rights{.budget = CapBudget{Budget{.ops = 1000}}};
  runtime.run(Grant{.budget = Budget{.ops = 10}, .capabilities = rights}, [] {
    tick(10);
    EXPECT_TRUE(recharge({.ops = 600}).ok());
    EXPECT_EQ(current_budget().ops, 600U);
    EXPECT_EQ(recharge({.ops = 401}).code(), ErrorCode::kCapabilityDenied);
    EXPECT_EQ(recharge({.memory = 1}).code(), ErrorCode::kCapabilityDenied);
    EXPECT_EQ(recharge({.ops = 1, .memory = SIZE_MAX}).code(), ErrorCode::kCapabilityDenied);
    EXPECT_TRUE(recharge({.ops = 400}).ok());
    EXPECT_EQ(current_budget().ops, 1000U);
    EXPECT_EQ(recharge({.ops = 1}).code(), ErrorCode::kCapabilityDenied);
  });
  EXPECT_EQ(runtime.audit().granted, Reserve());
}

// Contract: F-14, F-15. In `service` everything is implied, until a task is given capabilities: it, and all below it,
// have what they were given.
TEST(Capability, ServiceImpliesThemUntilATaskIsConfined) {
  Config config;
  config.worker_count = 1;
  config.profile = Profile::kService;
  Runtime runtime(config);
  runtime.run([] {
    const ChannelPermit unbounded(ChannelPermit::kUnbounded);
    EXPECT_TRUE(recharge({.ops = 5}).ok());
    with_scope([](Nursery& nursery) {
      nursery
          .spawn(Grant{.budget = Budget{.ops = 100, .spawn_count = 1}},
                 [] { with_scope([](Nursery& inner) { inner.launch([] {}); }); })
          .get();
      nursery
          .spawn(
              Grant{.budget = Budget{.ops = 500, .spawn_count = 5}, .capabilities = Capabilities{.spawn = CapSpawn{2}}},
              [] {
                EXPECT_EQ(recharge({.ops = 5}).code(), ErrorCode::kCapabilityDenied);
                EXPECT_EQ(code_of([] { ChannelPermit permit(0); }), ErrorCode::kCapabilityDenied);
                with_scope([](Nursery& inner) {
                  inner
                      .spawn([] {
                        with_scope([](Nursery& third) {
                          EXPECT_EQ(third.try_spawn([] {}).code(), ErrorCode::kCapabilityDenied);
                        });
                      })
                      .get();
                });
              })
          .get();
    });
  });
}

}  // namespace
}  // namespace rota::fiber

// A nursery's owner runs its children in place while the nursery stays open (F-4).
#include <gtest/gtest.h>

#include <atomic>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

// F-4: children that help() runs may launch more into the same nursery, which is still open; close() then has the rest.
TEST(NurseryHelp, RunsChildrenThatLaunchMore) {
  for (const std::size_t workers : {1U, 2U, 8U}) {
    Runtime runtime({.worker_count = workers});
    std::atomic<int> ran{0}, refused{0};
    runtime.run([&] {
      Nursery nursery;
      for (int i = 0; i < 100; ++i) {
        nursery.launch([&] {
          ran += 1;
          if (!nursery.try_spawn([&] { ran += 1; }).ok()) refused += 1;
        });
      }
      nursery.help();
      while (ran < 200) yield();  // Those that were stolen launch while it is open, too.
      EXPECT_EQ(nursery.state(), NurseryState::kOpen);
      EXPECT_TRUE(nursery.close().ok());
    });
    EXPECT_EQ(ran, 200);
    EXPECT_EQ(refused, 0);
  }
}

// Where it may not be called it does nothing: inside another scope, from a child, in deterministic mode.
TEST(NurseryHelp, ElsewhereDoesNothing) {
  Config config;
  config.worker_count = 1;
  for (const bool deterministic : {false, true}) {
    if (deterministic) config.deterministic_seed = 1;
    Runtime runtime(config);
    runtime.run([&] {
      Nursery outer;
      bool ran = false;
      outer.launch([&] { ran = true; });
      if (deterministic) {
        outer.help();
      } else {
        Nursery inner;
        outer.help();
        EXPECT_TRUE(inner.close().ok());
      }
      EXPECT_FALSE(ran);
      EXPECT_TRUE(outer.close().ok());
      EXPECT_TRUE(ran);
    });
  }
}

}  // namespace
}  // namespace rota::fiber

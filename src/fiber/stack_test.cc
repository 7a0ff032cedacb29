// Stacks: pooled, lean, guarded (F-22, F-23).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <functional>

#include "fiber/stack_pool.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

std::size_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long total = 0;
  unsigned long resident = 0;
  if (file == nullptr || std::fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t map_count() {
  std::FILE* file = std::fopen("/proc/self/maps", "r");
  std::size_t lines = 0;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) lines += c == '\n' ? 1 : 0;
  std::fclose(file);
  return lines;
}

// Uses `bytes` of stack, more or less, and gives something back so that nothing is optimised away.
[[gnu::noinline, maybe_unused]] int dig(std::size_t bytes) {
  volatile char frame[512];
  frame[0] = static_cast<char>(bytes);
  if (bytes <= sizeof frame) return frame[0];
  return dig(bytes - sizeof frame) + frame[0];
}

// Contract: F-22. Blocked tasks cost at most 8 KiB resident each, and no further mappings to speak of. (The million is
// a row of the benchmarks, P-6.)
TEST(Stacks, BlockedTasksAreLean) {
  if (detail::StackPool(65536, true).guard_kind() != detail::GuardKind::kAdvised) {
    GTEST_SKIP() << "the kernel, or the emulator, has no guard regions: each guard is a mapping";
  }
  constexpr int kTasks = ROTA_TSAN ? 300 : 20'000;  // ThreadSanitizer keeps a thread's worth of state for each stack.
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    const std::size_t before = resident_bytes();
    const std::size_t maps = map_count();
    Nursery nursery;
    sync::Atomic<int> started{0};
    for (int i = 0; i < kTasks; ++i) {
      nursery.launch([&started] {
        started.fetch_add(1);
        (void)sleep_for(std::chrono::hours(1));
      });
    }
    while (started.load() < kTasks) yield();
#if !ROTA_ASAN && !ROTA_TSAN
    EXPECT_LE((resident_bytes() - before) / kTasks, 8192U);
    EXPECT_LE(map_count() - maps, 4 * kTasks * std::size_t{270'000} / (64 * 1024 * 1024));
#else
    (void)before;
    (void)maps;
#endif
    nursery.cancel();
    EXPECT_EQ(nursery.close().code(), ErrorCode::kCancelled);
  });
}

// Contract: F-22. Stacks are used again: waves of blocked tasks need no more than one wave's stacks.
TEST(Stacks, ArePooled) {
  Runtime runtime({.worker_count = 1});
  runtime.run([&runtime] {
    for (int wave = 0; wave < 20; ++wave) {
      with_scope([](Nursery& n) {
        for (int i = 0; i < 500; ++i) n.launch([] { (void)sleep_for(std::chrono::microseconds(10)); });
      });
    }
    const Stats stats = runtime.stats();
    EXPECT_LE(stats.stacks_live + stats.stacks_cached, 2U * 500 + 256);
  });
}

// Contract: F-22. A stack grows to what was asked for; 8 KiB is honoured exactly.
TEST(Stacks, SizeIsHonoured) {
  for (const std::size_t bytes : {std::size_t{8192}, std::size_t{65536}, std::size_t{1} << 20}) {
    detail::StackPool pool(bytes, true);
    detail::Fiber* fiber = pool.take();
    ASSERT_NE(fiber, nullptr);
    auto* top = reinterpret_cast<std::byte*>(fiber + 1);
    EXPECT_EQ(static_cast<std::size_t>(top - fiber->low), bytes);
    for (std::byte* byte = fiber->low; byte < reinterpret_cast<std::byte*>(fiber); byte += 1024) *byte = std::byte{1};
    pool.give(fiber);
    EXPECT_EQ(pool.cached(), 1U);
    EXPECT_EQ(pool.trim(0, 10), 1U);
    EXPECT_EQ(pool.cached(), 0U);
    EXPECT_EQ(pool.take(), fiber) << "a trimmed stack comes back";
  }
  Runtime runtime({.worker_count = 1, .stack_bytes = std::size_t{1} << 20});
  EXPECT_NO_THROW(runtime.run([] { (void)dig(700'000); }));
}

// Contract: F-23. Below every stack is a guard of some kind.
TEST(Stacks, HaveGuards) {
  detail::StackPool guarded(16384, true);
  detail::Fiber* fiber = guarded.take();
  EXPECT_TRUE(guarded.in_guard(fiber, fiber->low - 1));
  EXPECT_TRUE(guarded.in_guard(fiber, fiber->low - 4000));
  EXPECT_FALSE(guarded.in_guard(fiber, fiber->low));
  EXPECT_NE(guarded.guard_kind(), detail::GuardKind::kCanary);
  detail::StackPool canary(16384, false);
  fiber = canary.take();
  EXPECT_EQ(canary.guard_kind(), detail::GuardKind::kCanary);
  EXPECT_TRUE(canary.canary_intact(fiber));
  *fiber->low = std::byte{0};
  EXPECT_FALSE(canary.canary_intact(fiber));
}

#if (defined(__x86_64__) || defined(__aarch64__)) && !ROTA_ASAN && !ROTA_TSAN
[[gnu::noinline]] int for_ever(int depth) {  // NOLINT(misc-no-recursion)
  volatile char frame[256];
  frame[0] = static_cast<char>(depth);
  if (depth < 0) return 0;  // Never; the compiler does not know.
  return for_ever(depth + 1) + frame[0];
}

// Contract: F-23, F-16. An overflow ends that task with StackOverflow; its siblings and the process continue, many
// times.
TEST(Stacks, OverflowEndsOneTask) {
  for (const std::size_t workers : {1U, 4U}) {
    Runtime runtime({.worker_count = workers, .stack_bytes = 65536});
    for (int round = 0; round < 20; ++round) {
      Task<int> bad = runtime.spawn([] { return for_ever(0); });
      Task<int> good =
          runtime.spawn([] { return with_scope([](Nursery& n) { return n.spawn([] { return 6; }).get(); }); });
      try {
        (void)bad.get();
        ADD_FAILURE() << "an overflow went unnoticed";
      } catch (const FiberError& error) {
        EXPECT_EQ(error.code(), ErrorCode::kStackOverflow);
      }
      EXPECT_EQ(good.get(), 6);
    }
    EXPECT_EQ(runtime.stats().sum.failed, 20U);
  }
}

// Contract: F-23. A child called in place by a join overflows: the parent, on the same stack, gets the error. A scope
// that the child had open is cancelled and waited for.
TEST(Stacks, OverflowBelowAJoin) {
  Runtime runtime({.worker_count = 1, .stack_bytes = 131072});
  runtime.run([] {
    for (int round = 0; round < 20; ++round) {
      bool grandchild_ended = false;
      try {
        with_scope([&](Nursery& n) {
          Task<int> child = n.spawn([&] {
            return with_scope([&](Nursery& inner) {
              inner.launch([&] {
                (void)sleep_for(std::chrono::hours(1));
                grandchild_ended = true;
              });
              yield();
              return for_ever(0);
            });
          });
          (void)child.get();
        });
        ADD_FAILURE() << "an overflow went unnoticed";
      } catch (const FiberError& error) {
        EXPECT_EQ(error.code(), ErrorCode::kStackOverflow);
      }
      EXPECT_TRUE(grandchild_ended);
    }
  });
}

// A fault that is not an overflow still ends the process, with its signal.
TEST(StacksDeathTest, OtherFaultsAreNotSwallowed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        Runtime runtime({.worker_count = 1});
        volatile std::uintptr_t nowhere = 16;
        runtime.run([&nowhere] { *reinterpret_cast<volatile int*>(nowhere) = 1; });
      },
      ::testing::KilledBySignal(SIGSEGV), "");
}
#endif

// A chain of joins far deeper than one stack: new stacks are used as the old ones fill.
TEST(Stacks, DeepJoinsUseNewStacks) {
  // The frames of code that AddressSanitizer instruments without optimisation are several times as large.
  Runtime runtime({.worker_count = 2, .stack_bytes = ROTA_ASAN ? 524288 : 65536});
  std::function<int(int)> chain = [&chain](int depth) -> int {
    if (depth == 0) return 0;
    return with_scope([&](Nursery& n) { return 1 + n.spawn([&chain, depth] { return chain(depth - 1); }).get(); });
  };
  EXPECT_EQ(runtime.run([&chain] { return chain(5000); }), 5000);
}

}  // namespace
}  // namespace rota::fiber

// Threads, stacks, memory and queues that run out (F-17, F-19, F-22, F-23).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hostile.h"
#include "rota/flow.h"

namespace hostile {
namespace {

#if !ROTA_ASAN && !ROTA_TSAN

// Contract: F-19. Threads that cannot be created are an error of the call that asked for them.
TEST(Hostile, NoThreadsLeft) {
  if (!NoMoreMemory::works()) GTEST_SKIP() << "the address space cannot be limited here";
  const NoMoreMemory limit;
  EXPECT_EQ(Runtime::create({.worker_count = 64}).code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(rota::flow::create_thread_pool_scheduler({.workers = 64}).code(), ErrorCode::kResourceExhausted);
  // One thread may still be possible, on the stack of one that has ended. In no case does it throw.
  const ErrorCode one = rota::flow::create_simple_scheduler().code();
  EXPECT_TRUE(one == ErrorCode::kResourceExhausted || one == ErrorCode::kOk);
  EXPECT_EQ(code_of([] { Runtime runtime({.worker_count = 64}); }), ErrorCode::kResourceExhausted);
}

// Contract: F-19. No helper thread is an error of blocking(); afterwards it works.
TEST(Hostile, NoHelpersLeft) {
  if (!NoMoreMemory::works()) GTEST_SKIP() << "the address space cannot be limited here";
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    {
      const NoMoreMemory limit;
      const ErrorCode code = blocking([] { return 1; }).code();
      EXPECT_TRUE(code == ErrorCode::kResourceExhausted || code == ErrorCode::kOk);  // As above.
    }
    EXPECT_EQ(blocking([] { return 1; }).value(), 1);
  });
}

// Contract: F-19. No memory for stacks ends the tasks that need one, and no others.
TEST(Hostile, NoStacksLeft) {
  if (!NoMoreMemory::works()) GTEST_SKIP() << "the address space cannot be limited here";
  Runtime runtime({.worker_count = 2, .stack_bytes = 1 << 20});
  runtime.run([] {
    Event open;
    Nursery nursery;
    std::vector<Task<ErrorCode>> tasks;
    tasks.reserve(2000);
    {
      const NoMoreMemory limit;
      for (int i = 0; i < 2000; ++i) {
        try {
          tasks.push_back(nursery.spawn([&] { return code_of([&] { open.wait(); }); }));
        } catch (const std::bad_alloc&) {  // Nor is there memory for more tasks.
        }
        yield();
      }
    }
    open.set();
    int waited = 0, refused = 0;
    for (Task<ErrorCode>& task : tasks) (task.get() == ErrorCode::kOk ? waited : refused) += 1;
    EXPECT_GT(waited, 0);
    EXPECT_GT(refused, 0);
  });
}

[[gnu::noinline]] int recurse(int depth) {  // NOLINT(misc-no-recursion)
  volatile char frame[512];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

[[gnu::noinline]] int large_frame(volatile int* seed) {
  volatile char frame[1 << 20];
  frame[0] = static_cast<char>(*seed);
  return frame[0] + frame[sizeof(frame) - 1];
}

// Contract: F-23. Overflows of every kind, with the option that the package propagates: the task ends, the neighbours
// and the process do not, and no stack is lost.
TEST(Hostile, Overflows) {
  Runtime runtime({.worker_count = 2, .stack_bytes = 65536});
  std::uint64_t live = 0;
  for (int round = 0; round < 200; ++round) {
    EXPECT_EQ(code_of([&] { (void)runtime.run([] { return recurse(0); }); }), ErrorCode::kStackOverflow);
    EXPECT_EQ(code_of([&] {
                (void)runtime.run([] {
                  volatile int seed = 1;
                  return large_frame(&seed);
                });
              }),
              ErrorCode::kStackOverflow);
    EXPECT_EQ(code_of([&] {
                runtime.run([] {
                  with_scope([](Nursery& nursery) {
                    nursery.launch([] { (void)sleep_for(1h); });
                    nursery.spawn([] { return recurse(0); }).get();
                  });
                });
              }),
              ErrorCode::kStackOverflow);
    EXPECT_EQ(runtime.run([] { return 1; }), 1);
    if (round == 10) live = runtime.stats().stacks_live;
  }
  EXPECT_LE(runtime.stats().stacks_live, live + 64);
}

#endif

// Contract: F-23. After a flood of tasks that waited, their stacks go back within seconds of the runtime's clock.
TEST(Hostile, AFloodLeavesNoStacks) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 1});
  runtime.run([&] {
    with_scope([](Nursery& nursery) {
      for (int i = 0; i < 3000; ++i) nursery.launch([] { (void)sleep_for(1ms); });
    });
    for (int i = 0; i < 50; ++i) (void)sleep_for(100ms);
    EXPECT_LT(runtime.stats().stacks_cached + runtime.stats().stacks_live, 300U);
  });
}

// Contract: F-17. A full queue pushes back, and nothing is lost.
TEST(Hostile, AFullQueue) {
  Runtime runtime({.worker_count = 1, .global_queue_size = 4});
  Event go;
  Task<void> holds = runtime.spawn([&] { go.wait(); });
  std::atomic<int> ran{0};
  int accepted = 0, full = 0;
  for (int i = 0; i < 10'000; ++i) {
    Result<Task<void>> task = runtime.try_spawn([&] { ran += 1; });
    if (task.ok()) {
      ++accepted;
    } else {
      EXPECT_EQ(task.code(), ErrorCode::kQueueFull);
      ++full;
    }
  }
  runtime.run([&] { go.set(); });
  holds.get();
  runtime.shutdown();
  EXPECT_EQ(ran, accepted);
  EXPECT_EQ(accepted + full, 10'000);
}

// Contract: F-17, F-22. A million tasks that never wait need no more stacks than a few.
TEST(Hostile, AMillionTasks) {
  Runtime runtime({.worker_count = 2});
  constexpr int kTasks = kSanitized ? 20'000 : 1'000'000;
  std::atomic<int> ran{0};
  runtime.run([&] {
    with_scope([&](Nursery& nursery) {
      for (int i = 0; i < kTasks; ++i) nursery.launch([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    });
  });
  EXPECT_EQ(ran, kTasks);
  EXPECT_LT(runtime.stats().stacks_live, 200U);
}

// Contract: F-22. The smallest stack that may be asked for works, for tasks that need little.
TEST(Hostile, SmallStacks) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need more stack than that";
  Runtime runtime({.worker_count = 2, .stack_bytes = 8192});
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      for (int i = 0; i < 1000; ++i) nursery.launch([] { (void)sleep_for(1us); });
    });
  });
}

}  // namespace
}  // namespace hostile

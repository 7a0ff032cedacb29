// Stacks at their end, and after it: large frames, code without unwind tables, canaries, and what returns to the system
// (F-23).
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include "fiber/runtime_core.h"
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

#if (defined(__x86_64__) || defined(__aarch64__)) && !ROTA_ASAN && !ROTA_TSAN

// Calls itself for ever, with frames of 40,000 bytes of which it writes only the far end, as code does that fills a
// buffer from its beginning. Without probes, so only the width of the guard stops it.
extern "C" int rota_test_step_over();
#if defined(__x86_64__)
asm(R"(
  .text
  .globl rota_test_step_over
  .type rota_test_step_over, @function
rota_test_step_over:
  .cfi_startproc
  subq $40008, %rsp
  .cfi_adjust_cfa_offset 40008
  movb $1, (%rsp)
  call rota_test_step_over
  addq $40008, %rsp
  .cfi_adjust_cfa_offset -40008
  ret
  .cfi_endproc
  .size rota_test_step_over, .-rota_test_step_over
)");
#else
asm(R"(
  .text
  .globl rota_test_step_over
  .type rota_test_step_over, %function
rota_test_step_over:
  .cfi_startproc
  sub sp, sp, #4048
  sub sp, sp, #36864
  .cfi_def_cfa_offset 40912
  str x30, [sp]
  .cfi_offset 30, -40912
  bl rota_test_step_over
  ldr x30, [sp]
  add sp, sp, #36864
  add sp, sp, #4048
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size rota_test_step_over, .-rota_test_step_over
)");
#endif

// A frame of more than stack and guard together. The compiler's probes stop it.
[[gnu::noinline]] int step_far(volatile int* depth) {
  volatile char frame[1 << 20];
  frame[0] = static_cast<char>(*depth);
  return frame[0] + frame[sizeof(frame) - 1];
}

template <class F>
void expect_overflow(F&& f) {
  Runtime runtime({.worker_count = 1, .stack_bytes = 65536});
  runtime.run([&f] {
    with_scope([&f](Nursery& outer) {
      // Neighbours on both sides, whose stacks are checked.
      std::vector<Task<bool>> neighbours;
      Event end;
      for (int i = 0; i < 40; ++i) {
        neighbours.push_back(outer.spawn([&end, i] {
          volatile unsigned char mine[40'000];
          for (std::size_t at = 0; at < sizeof(mine); ++at) mine[at] = static_cast<unsigned char>(i);
          end.wait();
          bool intact = true;
          for (std::size_t at = 0; at < sizeof(mine); ++at)
            intact = intact && mine[at] == static_cast<unsigned char>(i);
          return intact;
        }));
      }
      while (neighbours.back().state() != TaskState::kBlocked) yield();
      for (int round = 0; round < 10; ++round) {
        Nursery inner;
        Task<int> bad = inner.spawn(f);
        try {
          (void)bad.get();
          ADD_FAILURE() << "an overflow went unnoticed";
        } catch (const FiberError& error) {
          EXPECT_EQ(error.code(), ErrorCode::kStackOverflow);
        }
      }
      end.set();
      for (Task<bool>& neighbour : neighbours) EXPECT_TRUE(neighbour.get());
    });
  });
}

// Contract: F-23. No frame steps over the guard: not one of 40,000 bytes in code without probes, and none at all in
// code that was compiled with the option of the package.
TEST(Guards, LargeFramesDoNotStepOver) {
  expect_overflow([] { return rota_test_step_over(); });
  expect_overflow([] {
    volatile int depth = 1;
    return step_far(&depth);
  });
}

// Code without unwind tables that calls `f` for ever.
extern "C" int rota_test_no_tables(int depth);
#if defined(__x86_64__)
asm(R"(
  .text
  .globl rota_test_no_tables
  .type rota_test_no_tables, @function
rota_test_no_tables:
  pushq %rbx
  movq $0x5a5a, %rbx
  subq $512, %rsp
  movl %edi, (%rsp)
  incl %edi
  call rota_test_no_tables
  addq $512, %rsp
  popq %rbx
  ret
  .size rota_test_no_tables, .-rota_test_no_tables
)");
#else
asm(R"(
  .text
  .globl rota_test_no_tables
  .type rota_test_no_tables, %function
rota_test_no_tables:
  sub sp, sp, #512
  str x30, [sp]
  add w0, w0, #1
  bl rota_test_no_tables
  ldr x30, [sp]
  add sp, sp, #512
  ret
  .size rota_test_no_tables, .-rota_test_no_tables
)");
#endif

// Contract: F-23. An overflow in code without unwind tables ends that task, and the process continues. Its scopes are
// closed.
TEST(Guards, OverflowInCodeWithoutUnwindTables) {
  for (const std::size_t workers : {1U, 3U}) {
    Runtime runtime({.worker_count = workers, .stack_bytes = 65536});
    for (int round = 0; round < 20; ++round) {
      bool child_ended = false;
      Task<int> bad = runtime.spawn([&] {
        Event started;
        return with_scope([&](Nursery& nursery) {
          nursery.launch([&] {
            started.set();
            (void)sleep_for(std::chrono::hours(1));
            child_ended = true;
          });
          started.wait();
          return rota_test_no_tables(round);
        });
      });
      Task<int> good =
          runtime.spawn([] { return with_scope([](Nursery& n) { return n.spawn([] { return 6; }).get(); }); });
      try {
        (void)bad.get();
        ADD_FAILURE() << "an overflow went unnoticed";
      } catch (const FiberError& error) {
        EXPECT_EQ(error.code(), ErrorCode::kStackOverflow);
      }
      EXPECT_TRUE(child_ended);
      EXPECT_EQ(good.get(), 6);
    }
  }
}

// The same below a join that called the task in place: the tasks on that stack end, and nothing else.
TEST(Guards, OverflowInCodeWithoutUnwindTablesBelowAJoin) {
  Runtime runtime({.worker_count = 1, .stack_bytes = 65536});
  for (int round = 0; round < 10; ++round) {
    Task<int> outer = runtime.spawn([] {
      return with_scope([](Nursery& n) {
        Task<int> inner = n.spawn([] { return rota_test_no_tables(0); });
        return inner.get();
      });
    });
    EXPECT_THROW((void)outer.get(), FiberError);
    EXPECT_EQ(runtime.run([] { return 5; }), 5);
  }
  const Stats stats = runtime.stats();
  EXPECT_EQ(stats.sum.failed, 20U);
}

int g_attempts = 0;

[[gnu::noinline]] int overflow_once(int depth) {  // NOLINT(misc-no-recursion)
  volatile char frame[512];
  frame[0] = static_cast<char>(depth);
  if (g_attempts > 1) return 7;
  return overflow_once(depth + 1) + frame[0];
}

int initialised_late() {
  static const int value = [] {
    ++g_attempts;
    return overflow_once(0);
  }();
  return value;
}

// Contract: F-23. A static variable in whose initialiser a task was abandoned is initialised by the next one; the only
// thread worker does not wait for ever.
TEST(Guards, AnAbandonedStaticInitialiserIsEnteredAgain) {
  Runtime runtime({.worker_count = 1, .stack_bytes = 65536});
  try {
    (void)runtime.run([] { return initialised_late(); });
    ADD_FAILURE() << "an overflow went unnoticed";
  } catch (const FiberError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kStackOverflow);
  }
  EXPECT_EQ(runtime.run([] { return initialised_late(); }), 7);
  EXPECT_EQ(g_attempts, 2);
}

// A task that waits in an initialiser does not block the thread worker for a task that wants the same variable.
TEST(Guards, AnInitialiserMayWait) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    const auto slow = [] {
      static const int value = [] {
        (void)sleep_for(std::chrono::milliseconds(1));
        return 3;
      }();
      return value;
    };
    with_scope([&](Nursery& nursery) {
      Task<int> first = nursery.spawn(slow);
      Task<int> second = nursery.spawn(slow);
      EXPECT_EQ(first.get() + second.get(), 6);
    });
  });
}

#endif

#if !ROTA_ASAN && !ROTA_TSAN
// Writes to the lowest word of the current stack, as a frame does that is a little too deep.
void overwrite_canary() {
  std::byte* low = detail::current_worker()->fiber->low;
  std::memset(low, 0x77, 8);
}

// Contract: F-23. Without guards, the canary is checked when a task waits, when it yields, and at its end: the task
// ends with StackOverflow, and others continue.
TEST(Canaries, AreCheckedAtEverySwitchAndAtTheEnd) {
  Runtime runtime({.worker_count = 1, .guard_stacks = false});
  const auto code_of = [&runtime](auto f) {
    try {
      runtime.run(f);
    } catch (const FiberError& error) {
      return error.code();
    }
    return ErrorCode::kOk;
  };
  EXPECT_EQ(code_of([] { overwrite_canary(); }), ErrorCode::kStackOverflow) << "at its end";
  EXPECT_EQ(code_of([] {
              overwrite_canary();
              yield();
              ADD_FAILURE() << "yield() did not look";
            }),
            ErrorCode::kStackOverflow);
  EXPECT_EQ(code_of([] {
              overwrite_canary();
              (void)sleep_for(std::chrono::milliseconds(1));
              ADD_FAILURE() << "sleep_for() did not look";
            }),
            ErrorCode::kStackOverflow);
  EXPECT_EQ(code_of([] {
              Event event;
              overwrite_canary();
              event.wait();
              ADD_FAILURE() << "wait() did not look";
            }),
            ErrorCode::kStackOverflow);
  EXPECT_EQ(code_of([] {
              with_scope([](Nursery& n) {
                Task<std::vector<int>> child = n.spawn([] {
                  overwrite_canary();
                  return std::vector<int>(100);  // A result that is not leaked.
                });
                (void)child.get();
              });
            }),
            ErrorCode::kStackOverflow);
  EXPECT_EQ(code_of([] { yield(); }), ErrorCode::kOk) << "the stacks can be used again";
}
#endif

// Contract: F-23. Stacks that were not needed for a period return to the system; those that were needed stay.
TEST(Trimming, ReturnsWhatWasNotNeeded) {
  constexpr detail::Nanoseconds kPeriod = detail::StackPool::kTrimPeriod;
  constexpr int kStacks = ROTA_TSAN ? 200 : 5000;
  detail::StackPool pool(16384, true);
  std::vector<detail::Fiber*> taken;
  for (int i = 0; i < kStacks; ++i) taken.push_back(pool.take());
  for (detail::Fiber* fiber : taken) std::memset(fiber->low, 1, 8192);
  [[maybe_unused]] const std::size_t before = resident_bytes();
  for (detail::Fiber* fiber : taken) pool.give(fiber);
  EXPECT_EQ(pool.trim_idle(kPeriod), 2 * kPeriod) << "nothing is idle yet";
  EXPECT_EQ(pool.cached(), static_cast<std::uint64_t>(kStacks));
  // During the first period a hundred of them are in use at some time.
  taken.clear();
  for (int i = 0; i < 100; ++i) taken.push_back(pool.take());
  for (detail::Fiber* fiber : taken) pool.give(fiber);
  detail::Nanoseconds at = 2 * kPeriod;
  while (at < 3 * kPeriod) at = pool.trim_idle(at);
  EXPECT_EQ(pool.cached(), 100U);
  EXPECT_EQ(pool.made(), 100U);
#if !ROTA_ASAN && !ROTA_TSAN
  EXPECT_LT(resident_bytes() + (kStacks - 200) * std::size_t{8192}, before);
#endif
  // Nobody needs them in the next one.
  while (at != detail::kNever && at < 10 * kPeriod) at = pool.trim_idle(at);
  EXPECT_EQ(pool.cached(), 0U);
  EXPECT_EQ(at, detail::kNever);
  EXPECT_NE(pool.take(), nullptr);
  EXPECT_EQ(pool.made(), 1U);
}

// Contract: F-23. The same in a runtime, within two seconds of its clock.
TEST(Trimming, HappensByItself) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 3});
  runtime.run([&runtime] {
    with_scope([](Nursery& nursery) {
      for (int i = 0; i < 2000; ++i) nursery.launch([] { (void)sleep_for(std::chrono::milliseconds(1)); });
    });
    EXPECT_GT(runtime.stats().stacks_cached, 1000U);
    for (int i = 0; i < 30; ++i) (void)sleep_for(std::chrono::milliseconds(100));
    EXPECT_LT(runtime.stats().stacks_cached, 64U);
    EXPECT_LT(runtime.stats().stacks_live, 300U);
  });
}

// Real thread workers arm a timer for it, which is armed again as long as there is something to return.
TEST(Trimming, HappensInRealTime) {
  Runtime runtime({.worker_count = 2});
  runtime.core()->stacks.set_trim_period(1'000'000);
  runtime.run([&runtime] {
    for (int round = 0; round < 3; ++round) {
      with_scope([](Nursery& nursery) {
        for (int i = 0; i < 1000; ++i) nursery.launch([] { (void)sleep_for(std::chrono::microseconds(100)); });
      });
      while (runtime.stats().stacks_cached > 64) (void)sleep_for(std::chrono::microseconds(100));
    }
  });
}

}  // namespace
}  // namespace rota::fiber

// What a switch of stacks, and leaving a task's frames, must preserve on each processor that has a switch of its own
// (rota/fiber/detail/context.h, return_point.h).
#include <gtest/gtest.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "fiber/runtime_core.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

#if (defined(__x86_64__) || defined(__aarch64__)) && !ROTA_BOOST_CONTEXT && !ROTA_ASAN && !ROTA_TSAN

// Calls function(argument) with 1001, 1002, ... in the registers that a call preserves, and stores what is in them
// afterwards.
extern "C" void rota_test_call(void (*function)(void*), void* argument, std::uint64_t* registers);
#if defined(__x86_64__)
constexpr std::size_t kRegisters = 6;
asm(R"(
  .text
  .globl rota_test_call
  .type rota_test_call, @function
rota_test_call:
  .cfi_startproc
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbx, 0
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %rbp, 0
  pushq %r12
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r12, 0
  pushq %r13
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r13, 0
  pushq %r14
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r14, 0
  pushq %r15
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset %r15, 0
  pushq %rdx
  .cfi_adjust_cfa_offset 8
  movq %rdi, %rax
  movq %rsi, %rdi
  movq $1001, %rbx
  movq $1002, %rbp
  movq $1003, %r12
  movq $1004, %r13
  movq $1005, %r14
  movq $1006, %r15
  callq *%rax
  popq %rdx
  .cfi_adjust_cfa_offset -8
  movq %rbx, 0(%rdx)
  movq %rbp, 8(%rdx)
  movq %r12, 16(%rdx)
  movq %r13, 24(%rdx)
  movq %r14, 32(%rdx)
  movq %r15, 40(%rdx)
  popq %r15
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r15
  popq %r14
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r14
  popq %r13
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r13
  popq %r12
  .cfi_adjust_cfa_offset -8
  .cfi_restore %r12
  popq %rbp
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbp
  popq %rbx
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbx
  ret
  .cfi_endproc
  .size rota_test_call, .-rota_test_call
)");

// Overwrites the registers that a call preserves; the compiler, which knows, saves them first.
#define ROTA_OVERWRITE_REGISTERS()                                                                                \
  asm volatile(                                                                                                   \
      "xorq %%rbx, %%rbx\n\txorq %%r12, %%r12\n\txorq %%r13, %%r13\n\txorq %%r14, %%r14\n\txorq %%r15, %%r15\n\t" \
      :                                                                                                           \
      :                                                                                                           \
      : "rbx", "r12", "r13", "r14", "r15", "cc")
#else
constexpr std::size_t kRegisters = 18;  // x19 to x28, d8 to d15. x29 must be a frame's.
asm(R"(
  .text
  .globl rota_test_call
  .type rota_test_call, %function
rota_test_call:
  .cfi_startproc
  sub sp, sp, #176
  .cfi_def_cfa_offset 176
  stp x29, x30, [sp]
  .cfi_offset 29, -176
  .cfi_offset 30, -168
  stp x19, x20, [sp, #16]
  .cfi_offset 19, -160
  .cfi_offset 20, -152
  stp x21, x22, [sp, #32]
  .cfi_offset 21, -144
  .cfi_offset 22, -136
  stp x23, x24, [sp, #48]
  .cfi_offset 23, -128
  .cfi_offset 24, -120
  stp x25, x26, [sp, #64]
  .cfi_offset 25, -112
  .cfi_offset 26, -104
  stp x27, x28, [sp, #80]
  .cfi_offset 27, -96
  .cfi_offset 28, -88
  stp d8, d9, [sp, #96]
  .cfi_offset 72, -80
  .cfi_offset 73, -72
  stp d10, d11, [sp, #112]
  .cfi_offset 74, -64
  .cfi_offset 75, -56
  stp d12, d13, [sp, #128]
  .cfi_offset 76, -48
  .cfi_offset 77, -40
  stp d14, d15, [sp, #144]
  .cfi_offset 78, -32
  .cfi_offset 79, -24
  str x2, [sp, #160]
  mov x29, sp
  mov x9, x0
  mov x0, x1
  mov x19, #1011
  fmov d8, x19
  mov x19, #1012
  fmov d9, x19
  mov x19, #1013
  fmov d10, x19
  mov x19, #1014
  fmov d11, x19
  mov x19, #1015
  fmov d12, x19
  mov x19, #1016
  fmov d13, x19
  mov x19, #1017
  fmov d14, x19
  mov x19, #1018
  fmov d15, x19
  mov x19, #1001
  mov x20, #1002
  mov x21, #1003
  mov x22, #1004
  mov x23, #1005
  mov x24, #1006
  mov x25, #1007
  mov x26, #1008
  mov x27, #1009
  mov x28, #1010
  blr x9
  ldr x2, [sp, #160]
  stp x19, x20, [x2]
  stp x21, x22, [x2, #16]
  stp x23, x24, [x2, #32]
  stp x25, x26, [x2, #48]
  stp x27, x28, [x2, #64]
  stp d8, d9, [x2, #80]
  stp d10, d11, [x2, #96]
  stp d12, d13, [x2, #112]
  stp d14, d15, [x2, #128]
  ldp x29, x30, [sp]
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #176
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size rota_test_call, .-rota_test_call
)");

#define ROTA_OVERWRITE_REGISTERS()                                                                                    \
  asm volatile(                                                                                                       \
      "mov x19, xzr\n\tmov x20, xzr\n\tmov x21, xzr\n\tmov x22, xzr\n\tmov x23, xzr\n\tmov x24, xzr\n\t"              \
      "mov x25, xzr\n\tmov x26, xzr\n\tmov x27, xzr\n\tmov x28, xzr\n\tmovi v8.2d, #0\n\tmovi v9.2d, #0\n\t"          \
      "movi v10.2d, #0\n\tmovi v11.2d, #0\n\tmovi v12.2d, #0\n\tmovi v13.2d, #0\n\tmovi v14.2d, #0\n\t"               \
      "movi v15.2d, #0"                                                                                               \
      :                                                                                                               \
      :                                                                                                               \
      : "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "v8", "v9", "v10", "v11", "v12", "v13", \
        "v14", "v15")
#endif

template <class F>
void expect_preserved(F&& body) {
  std::array<std::uint64_t, kRegisters> after{};
  rota_test_call([](void* argument) { (*static_cast<std::remove_reference_t<F>*>(argument))(); }, &body, after.data());
  for (std::size_t i = 0; i < kRegisters; ++i) EXPECT_EQ(after[i], 1001 + i) << "register " << i;
}

struct Pair {
  void* here = nullptr;
  void* there = nullptr;
};
constinit Pair g_pair;

[[noreturn]] void other_side() {
  for (;;) {
    ROTA_OVERWRITE_REGISTERS();
    detail::switch_stacks(&g_pair.there, g_pair.here);
  }
}

// The code on the other stack may use every register.
TEST(Context, ASwitchPreservesRegisters) {
  alignas(16) static std::array<std::byte, 65536> stack;
  g_pair.there = detail::prepare_stack(stack.data() + stack.size(), other_side);
  for (int round = 0; round < 3; ++round) {
    expect_preserved([] { detail::switch_stacks(&g_pair.here, g_pair.there); });
  }
}

[[gnu::noinline]] int overflow(int depth) {  // NOLINT(misc-no-recursion)
  volatile char frame[256];
  frame[0] = static_cast<char>(depth);
  ROTA_OVERWRITE_REGISTERS();
  if (depth < 0) return 0;  // Never; the compiler does not know.
  return overflow(depth + 1) + frame[0];
}

// Contract: F-23. A join that called the task in place finds its registers as they were when that task's stack
// overflowed; also if scopes had to be closed first.
TEST(Context, ATaskThatIsLeftPreservesRegisters) {
  Runtime runtime({.worker_count = 1, .stack_bytes = 131072});
  for (const bool open : {false, true}) {
    runtime.run([open] {
      with_scope([open](Nursery& nursery) {
        Nursery inner;
        Task<int> child = inner.spawn([open] {
          if (!open) return overflow(0);
          return with_scope([](Nursery& scope) {
            scope.launch([] { (void)sleep_for(std::chrono::hours(1)); });
            return overflow(0);
          });
        });
        expect_preserved([&child] { child.wait(); });
        EXPECT_EQ(child.state(), TaskState::kFailed);
        (void)inner.close();
        (void)nursery;
      });
    });
  }
}

#endif

#if !ROTA_BOOST_CONTEXT

struct Frames {
  int count = 0;
  std::uintptr_t last = 0;
};

_Unwind_Reason_Code count_frame(_Unwind_Context* frame, void* argument) {
  auto* frames = static_cast<Frames*>(argument);
  frames->last = _Unwind_GetRegionStart(frame);
  return ++frames->count < 1000 ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

// A backtrace of a task ends at the first function of its stack: debuggers, profilers and uncaught exceptions rely on
// it.
TEST(Context, ABacktraceEndsAtTheEntry) {
  Runtime runtime({.worker_count = 2});
  const auto walk = [] {
    Frames frames;
    EXPECT_EQ(_Unwind_Backtrace(count_frame, &frames), _URC_END_OF_STACK);
    return frames;
  };
  const Frames frames = runtime.run([&] {
    // The first task of a stack, then one on a stack that was taken because this one waits.
    return with_scope([&](Nursery& nursery) {
      Event ready;
      Frames inside;
      nursery.launch([&] {
        inside = walk();
        ready.set();
      });
      ready.wait();
      EXPECT_LT(walk().count, 100);
      return inside;
    });
  });
  EXPECT_LT(frames.count, 100);
  EXPECT_EQ(frames.last, reinterpret_cast<std::uintptr_t>(&detail::fiber_main));
}

#endif

// A task that has moved to another thread worker sees that one, also in a function that had asked before.
TEST(Context, TheThreadWorkerIsReadAnewAfterAWait) {
  Runtime runtime({.worker_count = 2});
  const int moves = runtime.run([] {
    int count = 0;
    // Each round: the child ends the wait, and keeps its thread worker until the task has continued. So the task goes
    // to the other one, unless the child ran there.
    for (int round = 0; round < 1000 && count < 20; ++round) {
      Nursery nursery;
      Event event;
      std::atomic<bool> resumed{false};
      detail::ThreadWorker* before = detail::current_worker();
      nursery.launch([&] {
        event.set();
        while (!resumed) sync::cpu_pause();
      });
      event.wait();
      detail::ThreadWorker* after = detail::current_worker();
      EXPECT_EQ(after, rota_fiber_worker_slow());
      resumed = true;
      count += before != after ? 1 : 0;
      (void)nursery.close();
    }
    return count;
  });
  EXPECT_GE(moves, 1);
}

}  // namespace
}  // namespace rota::fiber

// The barest switch of stacks there is, for the limits: callee-saved registers and the stack pointer, nothing else.
//
// Not the runtime's own switch, so that the limit does not move when that changes. x86-64 and aarch64; elsewhere
// BENCH_HAS_SWAP is 0 and the limits that need it are not built.
// Thread safety: a stack is entered by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) || defined(__aarch64__)
#define BENCH_HAS_SWAP 1

namespace bench {

// Saves this stack's pointer in `*from` and goes on where `to` was saved.
extern "C" void bench_swap(void** from, void* to);

#if defined(__x86_64__)
inline constexpr std::size_t kSavedWords = 6;
// `pop; jmp` and not `ret`: the return would be predicted to the caller's own place and always miss.
asm(R"(
.text
.p2align 4
.globl bench_swap
.type bench_swap,@function
bench_swap:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size bench_swap,.-bench_swap
)");
#else
inline constexpr std::size_t kSavedWords = 20;
asm(R"(
.text
.p2align 4
.globl bench_swap
.type bench_swap,%function
bench_swap:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp d8, d9, [sp, #80]
  stp d10, d11, [sp, #96]
  stp d12, d13, [sp, #112]
  stp d14, d15, [sp, #128]
  stp x29, x30, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp d8, d9, [sp, #80]
  ldp d10, d11, [sp, #96]
  ldp d12, d13, [sp, #112]
  ldp d14, d15, [sp, #128]
  ldp x29, x9, [sp, #144]
  add sp, sp, #160
  br x9
.size bench_swap,.-bench_swap
)");
#endif

// A stack ending at `top` (16-byte aligned) that runs `entry` when first entered. `entry` must never return.
inline void* prepare_stack(void* top, void (*entry)()) {
  auto* word = static_cast<std::uintptr_t*>(top);
#if defined(__x86_64__)
  *--word = 0;  // Where a caller's return address would be; also aligns the stack as after a call.
  *--word = reinterpret_cast<std::uintptr_t>(entry);
  word -= kSavedWords;
#else
  word -= kSavedWords;
  word[kSavedWords - 1] = reinterpret_cast<std::uintptr_t>(entry);
#endif
  return word;
}

}  // namespace bench
#else
#define BENCH_HAS_SWAP 0
#endif

// Switching between stacks, and the thread worker of the current thread.
//
// switch_stacks(save, load) stores the caller's stack pointer in *save and continues where `load` was saved. It is
// inlined, so the compiler saves only live registers, and it leaves by a jump, because a return would be mispredicted.
// Callee-saved registers are preserved; the floating-point control words (mxcsr and x87, fpcr) are not switched: code
// that changes the rounding mode must restore it before it blocks.
//
// Fiber (core.h) reports each switch to the sanitizers.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#define ROTA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROTA_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ROTA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROTA_TSAN 1
#endif
#endif
#ifndef ROTA_ASAN
#define ROTA_ASAN 0
#endif
#ifndef ROTA_TSAN
#define ROTA_TSAN 0
#endif

// 1 in the code of a metered target (rota_meter() in CMake): the compiler inserts ticks, and so possibly a switch to
// another thread worker, between any two steps of inlined code. Therefore code that must not be interrupted is called
// through the *_called() functions of called.cc, which do the same steps in the runtime's own code.
#ifndef ROTA_METERED
#define ROTA_METERED 0
#endif

// 1: the switch is Boost.Context's (context_boost.cc), which supports more processors and costs about three times as
// much. The build sets it where we have no switch of our own, and on request (ROTA_BOOST_CONTEXT in CMake).
#ifndef ROTA_BOOST_CONTEXT
#define ROTA_BOOST_CONTEXT 0
#endif

namespace rota::fiber::detail {
struct ThreadWorker;
}

extern "C" {
// The thread worker of this thread, or null. Read it only through current_worker(): a parked fiber may resume on
// another thread, and a compiler may keep the address of a thread-local variable across the switch.
extern thread_local constinit rota::fiber::detail::ThreadWorker* rota_fiber_worker
    __attribute__((tls_model("initial-exec")));
rota::fiber::detail::ThreadWorker* rota_fiber_worker_slow() noexcept;
}

namespace rota::fiber::detail {

[[gnu::always_inline]] inline ThreadWorker* current_worker() noexcept {
#if defined(__x86_64__) && !ROTA_TSAN
  ThreadWorker* worker;
  // Volatile, so that two reads are never merged, whether or not there is a switch between them.
  asm volatile("movq rota_fiber_worker@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(worker));
  return worker;
#elif defined(__aarch64__) && !ROTA_TSAN
  ThreadWorker* worker;
  void* offset;
  // Volatile as above. The compiler would also keep the thread pointer, which differs after a switch, in a register.
  asm volatile(
      "adrp %1, :gottprel:rota_fiber_worker\n\t"
      "ldr %1, [%1, #:gottprel_lo12:rota_fiber_worker]\n\t"
      "mrs %0, tpidr_el0\n\t"
      "ldr %0, [%0, %1]"
      : "=&r"(worker), "=&r"(offset));
  return worker;
#else
  return rota_fiber_worker_slow();
#endif
}

using EntryFunction = void (*)();

#if ROTA_BOOST_CONTEXT

void switch_stacks(void** save, void* load) noexcept;
// REQUIRES: the same `entry` in the whole process.
void* prepare_stack(void* top, EntryFunction entry) noexcept;

#elif defined(__x86_64__)

[[gnu::always_inline]] inline void switch_stacks(void** save, void* load) noexcept {
  // 128 bytes below the stack pointer may hold the caller's red zone. rbx and rbp cannot always be listed as clobbered,
  // so they are saved explicitly; the compiler saves the others.
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "pushq %%rbp\n\t"
      "pushq %%rbx\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "movq %%rsp, (%%rdi)\n\t"
      "movq %%rsi, %%rsp\n\t"
      "popq %%rax\n\t"
      "jmpq *%%rax\n"
      "1:\n\t"
      "popq %%rbx\n\t"
      "popq %%rbp\n\t"
      "leaq 128(%%rsp), %%rsp\n\t"
      : "+D"(save), "+S"(load)
      :
      : "rax", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0", "xmm1",
        "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15", "mm0", "mm1", "mm2", "mm3", "mm4", "mm5", "mm6", "mm7", "st"
#if defined(__AVX512F__)
        ,
        "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",
        "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#endif
  );
}

// The stack pointer to pass to switch_stacks so that `entry` starts on the stack that ends at `top`. `entry` never
// returns.
inline void* prepare_stack(void* top, EntryFunction entry) noexcept {
  auto address = reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<void**>(address);
  *--words = nullptr;  // The return address that ends a backtrace; the stack now looks as after a call.
  *--words = reinterpret_cast<void*>(entry);
  return words;
}

#elif defined(__aarch64__)

[[gnu::always_inline]] inline void switch_stacks(void** save, void* load) noexcept {
  register void** save_register asm("x0") = save;
  register void* load_register asm("x1") = load;
  // Linux has no red zone here. The frame, from the stack pointer on: where to continue, x30, x29, x19. x29 and x19
  // cannot always be listed as clobbered, so they are saved explicitly; the compiler saves the others. x30 is loaded
  // for the sake of a new stack only (prepare_stack()).
  asm volatile(
      "adr x9, 1f\n\t"
      "stp x29, x19, [sp, #-16]!\n\t"
      "stp x9, xzr, [sp, #-16]!\n\t"
      "mov x9, sp\n\t"
      "str x9, [x0]\n\t"
      "mov sp, x1\n\t"
      "ldp x16, x30, [sp], #16\n\t"
      "ldp x29, x19, [sp], #16\n\t"
      "br x16\n"
      "1:\n\t"
#if defined(__ARM_FEATURE_BTI_DEFAULT)
      "hint #36\n\t"  // bti j: the target of a jump. The first instruction of `entry` allows one through x16.
#endif
      : "+r"(save_register), "+r"(load_register)
      :
      : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18",
        "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30", "memory", "cc", "v0", "v1", "v2", "v3",
        "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20",
        "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"
#if defined(__ARM_FEATURE_SVE)
        ,
        "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"
#endif
  );
}

// `entry` finds the stack pointer 16-aligned, as the architecture requires, and x29 and x30 zero, which ends a
// backtrace.
inline void* prepare_stack(void* top, EntryFunction entry) noexcept {
  auto address = reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<void**>(address) - 4;
  words[0] = reinterpret_cast<void*>(entry);
  words[1] = words[2] = words[3] = nullptr;
  return words;
}

#else
#error "there is no context switch for this processor: build with -DROTA_BOOST_CONTEXT=ON"
#endif

}  // namespace rota::fiber::detail

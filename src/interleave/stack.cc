#include "interleave/stack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#define ROTA_STACK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROTA_STACK_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define ROTA_STACK_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ROTA_STACK_TSAN 1
#endif
#endif

#ifdef ROTA_STACK_ASAN
#include <pthread.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif
#ifdef ROTA_STACK_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
#define ROTA_STACK_ASM 1
// The frame that a switch leaves on the stack, from the top: rbp rbx r12 r13 r14 r15, return address.
asm(R"(
.text
.align 16
.type rota_interleave_switch,@function
.hidden rota_interleave_switch
.globl rota_interleave_switch
rota_interleave_switch:
  .cfi_startproc
  endbr64
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
  .cfi_endproc
.size rota_interleave_switch,.-rota_interleave_switch
)");
#elif defined(__aarch64__)
#define ROTA_STACK_ASM 1
// The frame that a switch leaves on the stack, from its start: x19 to x30, d8 to d15, where to continue. A new stack
// has a zero in the place of x30, which ends a backtrace.
asm(R"(
.text
.align 4
.type rota_interleave_switch,%function
.hidden rota_interleave_switch
.globl rota_interleave_switch
rota_interleave_switch:
  .cfi_startproc
  sub sp, sp, #176
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  str x30, [sp, #160]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldr x16, [sp, #160]
  add sp, sp, #176
  ret x16
  .cfi_endproc
.size rota_interleave_switch,.-rota_interleave_switch
)");
#else
#include <ucontext.h>
#endif

#ifdef ROTA_STACK_ASM
extern "C" void rota_interleave_switch(void** save, void* to);
#endif

namespace rota::interleave {
namespace {

// Set right before a switch, read right after it on the other side.
Stack* g_to = nullptr;

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::abort();
}

}  // namespace

Stack::Stack() {
#ifdef ROTA_STACK_ASAN
  // AddressSanitizer wants the bounds of every stack that is switched to.
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) die("pthread_getattr_np");
  pthread_attr_getstack(&attributes, &bottom_, &bytes_);
  pthread_attr_destroy(&attributes);
#endif
#ifdef ROTA_STACK_TSAN
  tsan_fiber_ = __tsan_get_current_fiber();
#endif
#ifndef ROTA_STACK_ASM
  pointer_ = new ucontext_t;
#endif
}

Stack::Stack(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bytes_ = (bytes + page - 1) / page * page;
  void* memory = ::mmap(nullptr, bytes_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) die("mmap of a checker stack");
  memory_ = static_cast<char*>(memory) + page;
  bottom_ = memory_;
  if (::mprotect(memory, page, PROT_NONE) != 0) die("mprotect of a checker stack");
#ifdef ROTA_STACK_TSAN
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
#ifndef ROTA_STACK_ASM
  pointer_ = new ucontext_t;
#endif
}

Stack::~Stack() {
#ifndef ROTA_STACK_ASM
  delete static_cast<ucontext_t*>(pointer_);
#endif
  if (memory_ == nullptr) return;
#ifdef ROTA_STACK_TSAN
  __tsan_destroy_fiber(tsan_fiber_);
#endif
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  ::munmap(memory_ - page, bytes_ + page);
}

void Stack::abandon() {
#ifdef ROTA_STACK_ASAN
  __lsan_register_root_region(memory_, bytes_);
  memory_ = nullptr;
#endif
}

// First thing on the new side of each switch.
void Stack::arrive() {
#ifdef ROTA_STACK_ASAN
  __sanitizer_finish_switch_fiber(g_to->fake_stack_, nullptr, nullptr);
#endif
}

void Stack::trampoline() {
  arrive();
  Stack* self = g_to;
  self->entry_(self->argument_);
  std::abort();  // The entry must not return.
}

void Stack::prepare(Entry entry, void* argument) {
  entry_ = entry;
  argument_ = argument;
  fake_stack_ = nullptr;
#if defined(__x86_64__)
  // Six zeroed registers, the entry, and a zero return address: the stack pointer is then 8 modulo 16, as after a call.
  auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + bytes_);
  *--top = 0;
  *--top = reinterpret_cast<std::uintptr_t>(&Stack::trampoline);
  for (int i = 0; i < 6; ++i) *--top = 0;
  pointer_ = top;
#elif defined(__aarch64__)
  auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + bytes_) - 22;
  for (int i = 0; i < 22; ++i) top[i] = 0;
  top[20] = reinterpret_cast<std::uintptr_t>(&Stack::trampoline);
  pointer_ = top;
#else
  auto* context = static_cast<ucontext_t*>(pointer_);
  ::getcontext(context);
  context->uc_stack.ss_sp = memory_;
  context->uc_stack.ss_size = bytes_;
  context->uc_link = nullptr;
  ::makecontext(context, &Stack::trampoline, 0);
#endif
}

void Stack::switch_to(Stack& from, Stack& to) {
  g_to = &to;
#ifdef ROTA_STACK_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack_, to.bottom_, to.bytes_);
#endif
#ifdef ROTA_STACK_TSAN
  __tsan_switch_to_fiber(to.tsan_fiber_, 0);
#endif
#ifdef ROTA_STACK_ASM
  rota_interleave_switch(&from.pointer_, to.pointer_);
#else
  ::swapcontext(static_cast<ucontext_t*>(from.pointer_), static_cast<ucontext_t*>(to.pointer_));
#endif
  arrive();  // Back again: g_to is now `from`.
}

}  // namespace rota::interleave

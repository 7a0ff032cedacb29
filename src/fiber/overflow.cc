// A task's function is called through TaskRecord::act. When its stack overflows, the handler, on its alternate stack,
// walks the frames up to that call with the unwinder and returns from it as act() would, with its caller's registers.
// This costs nothing unless a stack overflows. Code without unwind tables cannot be walked: then all tasks on the stack
// end (one, unless a join called another on top), and the stack starts anew with the loop of the thread worker.
//
// User code that is not a task's function is called through call_user(); an overflow there ends that call only.
//
// The frames in between are abandoned: their destructors do not run, and a lock held in them stays locked. Scopes that
// the task had open are cancelled and waited for, on the same stack, before it continues.
#include "fiber/overflow.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <mutex>

#include "fiber/no_task.h"
#include "fiber/return_point.h"
#include "fiber/runtime_core.h"
#include "fiber/user_call.h"

namespace rota::fiber::detail {

namespace {

constexpr std::size_t kAlternateBytes = 64 * 1024;

struct sigaction g_before_segv;
struct sigaction g_before_bus;

#if (defined(__x86_64__) || defined(__aarch64__)) && !ROTA_ASAN && !ROTA_TSAN
#define ROTA_RECOVERS_FROM_OVERFLOW 1

// The registers of a call of function(argument), on the stack below `stack`, which is 16-aligned. Nothing is above it
// in a backtrace.
template <class T>
void continue_with(ucontext_t* context, void (*function)(T*), T* argument, std::uintptr_t stack) {
#if defined(__aarch64__)
  mcontext_t& registers = context->uc_mcontext;
  registers.regs[0] = reinterpret_cast<std::uintptr_t>(argument);
  registers.regs[29] = registers.regs[30] = 0;
  registers.sp = stack;
  registers.pc = reinterpret_cast<std::uintptr_t>(function);
#else
  greg_t* registers = context->uc_mcontext.gregs;
  registers[REG_RDI] = reinterpret_cast<greg_t>(argument);
  registers[REG_RSP] = static_cast<greg_t>(stack) - 8;  // As after a call.
  registers[REG_RIP] = reinterpret_cast<greg_t>(function);
#endif
}

#if defined(__aarch64__)
void return_from(ReturnPoint* to) { return_to(*to); }

// The vector registers of the interrupted code are in one of several records of the context; which one counts depends
// on the processor. So return_to() sets them, from a copy on the part of the stack that is abandoned.
bool continue_at(ucontext_t* context, const std::byte* low, const ReturnPoint& to) {
  const std::uintptr_t place = (to.sp - sizeof(ReturnPoint)) & ~std::uintptr_t{15};
  if (place - 512 < reinterpret_cast<std::uintptr_t>(low)) return false;
  auto* copy = reinterpret_cast<ReturnPoint*>(place);
  *copy = to;
  continue_with(context, &return_from, copy, place);
  return true;
}
#else
bool continue_at(ucontext_t* context, const std::byte* /*low*/, const ReturnPoint& to) {
  greg_t* registers = context->uc_mcontext.gregs;
  registers[REG_RBX] = static_cast<greg_t>(to.rbx);
  registers[REG_RBP] = static_cast<greg_t>(to.rbp);
  registers[REG_R12] = static_cast<greg_t>(to.r12);
  registers[REG_R13] = static_cast<greg_t>(to.r13);
  registers[REG_R14] = static_cast<greg_t>(to.r14);
  registers[REG_R15] = static_cast<greg_t>(to.r15);
  registers[REG_RIP] = static_cast<greg_t>(to.rip);
  registers[REG_RSP] = static_cast<greg_t>(to.rsp);
  return true;
}
#endif

// The registers of a call of end_stack(fiber), below everything on the stack that is still in use.
bool restart(Fiber* fiber, ucontext_t* context) {
  std::byte* lowest = reinterpret_cast<std::byte*>(fiber);
  for (NurseryCore* at = fiber->scope; at != nullptr; at = at->outer) {
    auto* scope = reinterpret_cast<std::byte*>(at);
    if (scope >= fiber->low && scope < lowest) lowest = scope;
  }
  if (!has_room_below(fiber, lowest)) lowest = take_far_landing(fiber);
  if (lowest == nullptr) return false;
  fiber->task->flags |= TaskRecord::kFlagOverflow;
  const auto below = (reinterpret_cast<std::uintptr_t>(lowest) - 1024) & ~std::uintptr_t{15};
  continue_with<Fiber>(context, &end_stack, fiber, below);
  return true;
}

bool recover_on_thread(siginfo_t* info, ucontext_t* context) {
  UserCall* call = thread_call_to_leave(info->si_addr);
  if (call == nullptr) return false;
  const std::optional<ReturnPoint> to = return_of(call->frame);
  if (!to || !continue_at(context, nullptr, *to)) return false;
  call->left = true;
  return true;
}

bool recover(siginfo_t* info, ucontext_t* context) {
  ThreadWorker* worker = current_worker() != nullptr ? current_worker() : hidden_worker();
  if (worker == nullptr) return recover_on_thread(info, context);
  if (worker->fiber == nullptr || worker->fiber == &worker->native) return false;
  Fiber* fiber = worker->fiber;
  TaskRecord* task = fiber->task;
  UserCall* call = call_to_leave(fiber);
  if ((task == nullptr && call == nullptr) || !worker->runtime->stacks.in_guard(fiber, info->si_addr)) return false;
  const std::optional<ReturnPoint> to =
      return_of(call != nullptr ? call->frame : reinterpret_cast<const void*>(task->act));
  if (!to) return task != nullptr && restart(fiber, context);
  NurseryCore* until = call != nullptr ? call->scope : nullptr;
  if (fiber->scope != until && fiber->scope != nullptr && fiber->scope->owner_task == task) {
    const Landing wanted{*to, fiber, task, until};
    std::byte* lowest = lowest_in_use(fiber, task, *to);
    Landing* landing = has_room_below(fiber, lowest) ? place_landing(lowest, wanted) : place_far_landing(wanted);
    if (landing == nullptr) return false;  // There is no room to close its scopes, so nothing safe can be done.
    continue_with<Landing>(context, &land, landing, reinterpret_cast<std::uintptr_t>(landing) - 128);
  } else if (!continue_at(context, fiber->low, *to)) {
    return false;
  }
  if (call != nullptr) {
    call->left = true;
  } else {
    task->flags |= TaskRecord::kFlagOverflow;
  }
  return true;
}
#else
#define ROTA_RECOVERS_FROM_OVERFLOW 0
bool recover(siginfo_t*, ucontext_t*) { return false; }
#endif

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = signal == SIGSEGV ? g_before_segv : g_before_bus;
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
    return;
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
    return;
  }
  // The default action, at the instruction that faulted.
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
}

[[maybe_unused]] void on_fault(int signal, siginfo_t* info, void* context) {
  if (!recover(info, static_cast<ucontext_t*>(context))) pass_on(signal, info, context);
}

}  // namespace

void install_overflow_handler() {
#if ROTA_RECOVERS_FROM_OVERFLOW
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &g_before_segv);
    sigaction(SIGBUS, &action, &g_before_bus);
  });
#endif
}

AlternateStack::AlternateStack() : bytes_(kAlternateBytes) {
  memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory_ == MAP_FAILED) {
    memory_ = nullptr;
    return;
  }
  stack_t stack{};
  stack.ss_sp = memory_;
  stack.ss_size = bytes_;
  sigaltstack(&stack, &before_);
}

AlternateStack::~AlternateStack() {
  if (memory_ == nullptr) return;
  sigaltstack(&before_, nullptr);
  munmap(memory_, bytes_);
}

}  // namespace rota::fiber::detail

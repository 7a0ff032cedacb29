// A task's function is called through Record::act. When its stack overflows, the handler, on its alternate stack, walks
// the frames up to that call with the unwinder and returns from it as if act() had: the registers are those of its
// caller. Nothing is paid for this while nothing overflows.
//
// The frames in between are abandoned: their destructors do not run, and a lock held in them stays held. Scopes that
// the task had open are cancelled and waited for by the caller (abandon_scopes).
#include "fiber/overflow.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include <mutex>

#include "fiber/runtime_core.h"
#include "rota/assert.h"

namespace rota::fiber::detail {

namespace {

constexpr std::size_t kAlternateBytes = 64 * 1024;

struct sigaction g_before_segv;
struct sigaction g_before_bus;

#if defined(__x86_64__) && !ROTA_ASAN && !ROTA_TSAN
#define ROTA_RECOVERS_FROM_OVERFLOW 1

// Columns of the x86-64 unwind tables, and where ucontext keeps the same registers.
struct Saved {
  int column;
  int greg;
};
constexpr Saved kCalleeSaved[] = {{3, REG_RBX},  {6, REG_RBP},  {12, REG_R12},
                                  {13, REG_R13}, {14, REG_R14}, {15, REG_R15}};

struct Walk {
  const void* act;      // The function whose frame is looked for.
  ucontext_t* context;  // Becomes the state after that function returned.
  bool found = false;
  bool done = false;
};

_Unwind_Reason_Code visit(_Unwind_Context* frame, void* argument) {
  auto* walk = static_cast<Walk*>(argument);
  if (walk->found) {
    // The caller of act(): its registers as they are on return.
    greg_t* registers = walk->context->uc_mcontext.gregs;
    for (const Saved& saved : kCalleeSaved) {
      registers[saved.greg] = static_cast<greg_t>(_Unwind_GetGR(frame, saved.column));
    }
    registers[REG_RIP] = static_cast<greg_t>(_Unwind_GetIP(frame));
    registers[REG_RSP] = static_cast<greg_t>(_Unwind_GetCFA(frame));  // Where it stands after the call.
    walk->done = true;
    return _URC_END_OF_STACK;
  }
  if (reinterpret_cast<const void*>(_Unwind_GetRegionStart(frame)) == walk->act) walk->found = true;
  return _URC_NO_REASON;
}

bool recover(siginfo_t* info, ucontext_t* context) {
  Worker* worker = current_worker();
  if (worker == nullptr || worker->fiber == nullptr || worker->fiber == &worker->native) return false;
  Fiber* fiber = worker->fiber;
  Record* task = fiber->task;
  if (task == nullptr || !worker->runtime->stacks.in_guard(fiber, info->si_addr)) return false;
  Walk walk{reinterpret_cast<const void*>(task->act), context};
  _Unwind_Backtrace(visit, &walk);
  if (!walk.done) return false;
  task->flags |= Record::kFlagOverflow;
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
  sigaltstack(&stack, nullptr);
}

AlternateStack::~AlternateStack() {
  if (memory_ == nullptr) return;
  stack_t off{};
  off.ss_flags = SS_DISABLE;
  sigaltstack(&off, nullptr);
  munmap(memory_, bytes_);
}

}  // namespace rota::fiber::detail

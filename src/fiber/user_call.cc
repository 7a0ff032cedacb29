// See user_call.h.
#include "fiber/user_call.h"

#include <cxxabi.h>
#include <pthread.h>

#include "fiber/no_task.h"
#include "fiber/return_point.h"

namespace rota::fiber::detail {

namespace {

struct ThreadStack {
  const std::byte* low = nullptr;   // The guard and what is below it. Null: this thread is not guarded.
  const std::byte* high = nullptr;  // The first byte above the guard.
  UserCall* call = nullptr;
};
thread_local constinit ThreadStack g_stack;

// Its frame is the one that is searched, so it must not become a jump.
#ifdef __clang__
[[gnu::noinline]]
#else
[[gnu::noinline, gnu::noclone]]
#endif
void enter(void (*function)(void*), void* argument) {
  function(argument);
  asm volatile("" ::: "memory");
}

// The call is in the list while this lives, also if it throws.
class Listed {
 public:
  Listed(UserCall*& list, TaskRecord* task, NurseryCore* scope)
      : list_(list), call_{reinterpret_cast<const void*>(&enter), task, scope, list} {
    list_ = &call_;
  }
  ~Listed() { list_ = call_.outer; }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  // Volatile: a call that is left writes it from elsewhere.
  [[nodiscard]] bool left() const { return *static_cast<const volatile bool*>(&call_.left); }

 private:
  UserCall*& list_;
  UserCall call_;
};

// Not inlined, and opaque: the library declares that the result never changes, which is wrong after a switch of
// threads.
[[gnu::noinline]] ExceptionGlobals& exceptions_here() {
  asm volatile("");
  return *reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
}

}  // namespace

bool call_user(void (*function)(void* argument), void* argument) {
  ThreadWorker* worker = current_worker() != nullptr ? current_worker() : hidden_worker();
  Fiber* fiber = worker == nullptr || worker->fiber == &worker->native ? nullptr : worker->fiber;
  if (fiber == nullptr && g_stack.low == nullptr) {
    function(argument);
    return true;
  }
  TaskRecord* task = fiber == nullptr ? nullptr : fiber->task;
  const std::uint8_t flags = task == nullptr ? std::uint8_t{0} : task->flags;
  const ExceptionGlobals exceptions = exceptions_here();
  const Listed listed(fiber == nullptr ? g_stack.call : fiber->user_call, task,
                      fiber == nullptr ? nullptr : fiber->scope);
  enter(function, argument);
  if (!listed.left()) [[likely]]
    return true;
  exceptions_here() = exceptions;  // An exception that was being handled in the call is forgotten.
  if (task != nullptr) task->flags = flags;
  if (fiber != nullptr) release_far_landing(fiber);
  return false;
}

void guard_this_thread() {
#if defined(__linux__)
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  std::size_t guard_bytes = 0;
  if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0 &&
      pthread_attr_getguardsize(&attributes, &guard_bytes) == 0 && guard_bytes > 0) {
    // The C library may count the guard as a part of the stack or not.
    g_stack.low = static_cast<const std::byte*>(lowest) - guard_bytes;
    g_stack.high = static_cast<const std::byte*>(lowest) + guard_bytes;
  }
  pthread_attr_destroy(&attributes);
#endif
}

UserCall* thread_call_to_leave(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte >= g_stack.low && byte < g_stack.high ? g_stack.call : nullptr;
}

}  // namespace rota::fiber::detail

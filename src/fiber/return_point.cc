// Finds a frame, and returns to it.
#include "fiber/return_point.h"

#include <sys/mman.h>
#include <unwind.h>

#include "fiber/runtime_core.h"
#include "fiber/user_call.h"
#include "rota/assert.h"

#if ROTA_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace rota::fiber::detail {

#if ROTA_CAN_RETURN

namespace {

constexpr std::ptrdiff_t kClosingBytes = 16 * 1024;  // Stack that closing the scopes may need.
constexpr std::size_t kFarBytes = 128 * 1024;
constexpr std::ptrdiff_t kOwnBytes = 4 * 1024;  // Stack that these frames need, with those between them and the task.

struct Walk {
  const void* act;  // The function whose frame is searched.
  ReturnPoint to{};
  bool found = false;
  bool done = false;
};

_Unwind_Reason_Code visit(_Unwind_Context* frame, void* argument) {
  auto* walk = static_cast<Walk*>(argument);
  if (walk->found) {
    // The caller of act(): its registers as on return, by their columns in the processor's tables. The frame's address
    // is the stack pointer after the call.
#if defined(__aarch64__)
    for (int i = 0; i < 11; ++i) walk->to.x19_to_x29[i] = _Unwind_GetGR(frame, 19 + i);
    for (int i = 0; i < 8; ++i) walk->to.d8_to_d15[i] = _Unwind_GetGR(frame, 72 + i);
    walk->to.pc = _Unwind_GetIP(frame);
    walk->to.sp = _Unwind_GetCFA(frame);
#else
    walk->to = {_Unwind_GetGR(frame, 3),  _Unwind_GetGR(frame, 6),  _Unwind_GetGR(frame, 12), _Unwind_GetGR(frame, 13),
                _Unwind_GetGR(frame, 14), _Unwind_GetGR(frame, 15), _Unwind_GetIP(frame),     _Unwind_GetCFA(frame)};
#endif
    walk->done = true;
    return _URC_END_OF_STACK;
  }
  if (reinterpret_cast<const void*>(_Unwind_GetRegionStart(frame)) == walk->act) walk->found = true;
  return _URC_NO_REASON;
}

}  // namespace

std::optional<ReturnPoint> return_of(const void* act) {
  Walk walk{.act = act};
  _Unwind_Backtrace(visit, &walk);
  if (!walk.done) return std::nullopt;
  return walk.to;
}

void return_to(const ReturnPoint& to) {
#if ROTA_ASAN
  __asan_handle_no_return();  // The abandoned frames are plain memory again.
#endif
#if defined(__aarch64__)
  register const ReturnPoint* from asm("x0") = &to;
  // A return and no jump: where branch targets are checked, the place behind a call is none.
  asm volatile(
      "ldp x19, x20, [x0]\n\t"
      "ldp x21, x22, [x0, #16]\n\t"
      "ldp x23, x24, [x0, #32]\n\t"
      "ldp x25, x26, [x0, #48]\n\t"
      "ldp x27, x28, [x0, #64]\n\t"
      "ldp x29, x16, [x0, #80]\n\t"
      "ldr x17, [x0, #96]\n\t"
      "ldp d8, d9, [x0, #104]\n\t"
      "ldp d10, d11, [x0, #120]\n\t"
      "ldp d12, d13, [x0, #136]\n\t"
      "ldp d14, d15, [x0, #152]\n\t"
      "mov sp, x17\n\t"
      "ret x16"
      :
      : "r"(from)
      : "memory");
#else
  asm volatile(
      "movq 0(%0), %%rbx\n\t"
      "movq 8(%0), %%rbp\n\t"
      "movq 16(%0), %%r12\n\t"
      "movq 24(%0), %%r13\n\t"
      "movq 32(%0), %%r14\n\t"
      "movq 40(%0), %%r15\n\t"
      "movq 48(%0), %%rcx\n\t"
      "movq 56(%0), %%rsp\n\t"
      "jmpq *%%rcx"
      :
      : "a"(&to)
      : "memory");
#endif
  __builtin_unreachable();
}

std::byte* lowest_in_use(const Fiber* fiber, const TaskRecord* task, const ReturnPoint& to) {
  auto* lowest = reinterpret_cast<std::byte*>(to.stack_pointer());
  for (NurseryCore* at = fiber->scope; at != nullptr && at->owner_task == task; at = at->outer) {
    auto* scope = reinterpret_cast<std::byte*>(at);
    if (scope >= fiber->low && scope < lowest) lowest = scope;
  }
  return lowest;
}

bool has_room_below(const Fiber* fiber, const std::byte* address) { return address - fiber->low >= kClosingBytes; }

Landing* place_landing(std::byte* below, const Landing& landing) {
  const auto address = (reinterpret_cast<std::uintptr_t>(below) - 1024 - sizeof(Landing)) & ~std::uintptr_t{15};
  auto* placed = reinterpret_cast<Landing*>(address);
  *placed = landing;
  return placed;
}

Landing* place_far_landing(const Landing& landing) {
  std::byte* top = take_far_landing(landing.fiber);
  return top == nullptr ? nullptr : place_landing(top, landing);
}

// By mmap(), which may be called in the handler of a fault. The lower half is a guard.
std::byte* take_far_landing(Fiber* fiber) {
  if (fiber->far_landing == nullptr) {
    void* memory = mmap(nullptr, kFarBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    if (mprotect(memory, kFarBytes / 2, PROT_NONE) != 0) {
      munmap(memory, kFarBytes);
      return nullptr;
    }
    fiber->far_landing = memory;
  }
  return static_cast<std::byte*>(fiber->far_landing) + kFarBytes;
}

void release_far_landing(Fiber* fiber) {
  // land() runs on it, and the scopes that it closes may end children that never ran: they must not take it away. It is
  // released when the fiber's own stack is in use again.
  const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
  const auto* memory = static_cast<const std::byte*>(fiber->far_landing);
  if (memory == nullptr || (here >= memory && here < memory + kFarBytes)) return;
  munmap(std::exchange(fiber->far_landing, nullptr), kFarBytes);
}

void land(Landing* landing) {
  Fiber* fiber = landing->fiber;
  // No join calls a task on top of the little room that there is.
  std::byte* floor = std::exchange(fiber->floor, reinterpret_cast<std::byte*>(~std::uintptr_t{0}));
  abandon_scopes(fiber, landing->task, landing->until);
  fiber->floor = floor;
  return_to(landing->to);
}

void leave_task(Fiber* fiber, TaskRecord* task) {
  UserCall* call = call_to_leave(fiber);
  const std::optional<ReturnPoint> to =
      return_of(call != nullptr ? call->frame : reinterpret_cast<const void*>(task->act));
  if (!to) return;
  NurseryCore* until = call != nullptr ? call->scope : nullptr;
  if (fiber->scope != until && fiber->scope != nullptr && fiber->scope->owner_task == task) {
    const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
    if (has_room_below(fiber, here)) {
      if (call != nullptr) call->left = true;
      abandon_scopes(fiber, task, until);
    } else {
      // Close to the end of the stack. The landing is far enough above, so writing it overwrites nothing of this.
      std::byte* lowest = lowest_in_use(fiber, task, *to);
      if (!has_room_below(fiber, lowest) || lowest - here < kOwnBytes) return;
      if (call != nullptr) call->left = true;
      Landing* landing = place_landing(lowest, {*to, fiber, task, until});
#if defined(__aarch64__)
      register Landing* argument asm("x0") = landing;
      register void (*function)(Landing*) asm("x16") = &land;
      asm volatile(
          "sub sp, %0, #128\n\t"
          "mov x29, xzr\n\t"
          "mov x30, xzr\n\t"
          "br %1"
          :
          : "r"(argument), "r"(function)
          : "memory");
#else
      asm volatile(
          "leaq -128(%0), %%rsp\n\t"
          "callq *%1"
          :
          : "D"(landing), "a"(&land)
          : "memory");
#endif
      __builtin_unreachable();
    }
  }
  if (call != nullptr) call->left = true;
  return_to(*to);
}

#else

void leave_task(Fiber*, TaskRecord*) {}
void release_far_landing(Fiber*) {}
std::optional<ReturnPoint> return_of(const void*) { return std::nullopt; }
void return_to(const ReturnPoint&) { ROTA_ASSERT(false, "there is no return point"); }

#endif

}  // namespace rota::fiber::detail

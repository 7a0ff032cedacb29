// Leaving a task's function from far inside, as if it had returned.
//
// A task's function is called through Record::act. return_of(act) walks the frames of the calling thread with the
// unwinder's tables and finds how the registers are when that call returns; return_to() goes there. The frames in
// between are abandoned: their destructors do not run, and a lock held in them stays held. Nothing is paid for this
// while it is not used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rota/fiber/detail/core.h"

// Elsewhere, and under ThreadSanitizer, which keeps a stack of its own, return_of() finds nothing.
#if defined(__x86_64__) && !ROTA_TSAN
#define ROTA_CAN_RETURN 1
#else
#define ROTA_CAN_RETURN 0
#endif

namespace rota::fiber::detail {

// What a call preserves, and where it returns to.
struct ReturnPoint {
  std::uint64_t rbx, rbp, r12, r13, r14, r15, rip, rsp;
};

// Where to go on when the scopes of a task that is left are closed. It lies on that task's stack, below the innermost
// of those scopes that is there, which is still in use, and above what may be overwritten.
struct Landing {
  ReturnPoint to;
  Fiber* fiber;
  Record* task;
};
// What is in use of a task's stack when its frames are abandoned: from its innermost scope on, or, if none is on the
// stack (those of the C interface are on the heap), from its function's caller on.
[[nodiscard]] std::byte* lowest_in_use(const Fiber* fiber, const Record* task, const ReturnPoint& to);
// Is there room on the stack below `address` to close scopes in?
[[nodiscard]] bool has_room_below(const Fiber* fiber, const std::byte* address);
Landing* place_landing(std::byte* below, const ReturnPoint& to, Fiber* fiber, Record* task);
// Closes the scopes, and returns there. REQUIRES: on the landing's stack, below it.
[[noreturn]] void land(Landing* landing);

// None if no frame of `act` is on this stack. Safe in a handler of a fault in ordinary code.
std::optional<ReturnPoint> return_of(const void* act);
// REQUIRES: the frame that it returns to is on the current stack.
[[noreturn]] void return_to(const ReturnPoint& to);
// Closes the scopes that `task` has open and returns from its function. Returns here only if there is no room for that,
// or no such frame. REQUIRES: `task` is the innermost on `fiber`, which runs here.
void leave_task(Fiber* fiber, Record* task);

}  // namespace rota::fiber::detail

// Leaving a task's function from far inside, as if it had returned.
//
// A task's function is called through Record::act. return_of(act) walks the frames of the calling thread with the
// unwinder's tables and finds how the registers are when that call returns; return_to() goes there. The frames in
// between are abandoned: their destructors do not run, and a lock held in them stays held. Nothing is paid for this
// while it is not used.
#pragma once

#include <cstdint>
#include <optional>

#include "rota/fiber/detail/context.h"

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

// None if no frame of `act` is on this stack. Safe in a handler of a fault in ordinary code.
std::optional<ReturnPoint> return_of(const void* act);
// REQUIRES: the frame that it returns to is on the current stack.
[[noreturn]] void return_to(const ReturnPoint& to);

}  // namespace rota::fiber::detail

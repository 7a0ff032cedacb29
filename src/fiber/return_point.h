// Leaves a task's function from deep inside, as if it had returned.
//
// A task's function is called through TaskRecord::act. return_of(act) walks the frames of the calling thread with the
// unwinder's tables and computes the registers at the return of that call; return_to() continues there. The frames in
// between are abandoned: their destructors do not run, and a lock held in them stays locked. Unused, this costs
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rota/fiber/detail/core.h"

// On other processors, and under ThreadSanitizer, which keeps its own stack, return_of() finds nothing.
#if (defined(__x86_64__) || defined(__aarch64__)) && !ROTA_TSAN
#define ROTA_CAN_RETURN 1
#else
#define ROTA_CAN_RETURN 0
#endif

namespace rota::fiber::detail {

// The registers that a call preserves, and its return address. return_to() knows the order.
struct ReturnPoint {
#if defined(__aarch64__)
  std::uint64_t x19_to_x29[11];
  std::uint64_t pc, sp;
  std::uint64_t d8_to_d15[8];
  [[nodiscard]] std::uintptr_t stack_pointer() const { return sp; }
#else
  std::uint64_t rbx, rbp, r12, r13, r14, r15, rip, rsp;
  [[nodiscard]] std::uintptr_t stack_pointer() const { return rsp; }
#endif
};

// Where to continue when the scopes of an abandoned task are closed. It is placed on that task's stack, below the
// innermost of those scopes that is there, which is still in use, and above the part that may be overwritten.
struct Landing {
  ReturnPoint to;
  Fiber* fiber;
  TaskRecord* task;
  NurseryCore* until;  // Stays open; null: all scopes of the task are closed.
};
// The part of a task's stack that stays in use when its frames are abandoned: from its innermost scope on, or, if none
// is on the stack (those of the C interface are on the heap), from its function's caller on.
[[nodiscard]] std::byte* lowest_in_use(const Fiber* fiber, const TaskRecord* task, const ReturnPoint& to);
// True if the stack below `address` has room for closing scopes.
[[nodiscard]] bool has_room_below(const Fiber* fiber, const std::byte* address);
Landing* place_landing(std::byte* below, const Landing& landing);
// The same in memory that is not of this stack, where the stack has no room: null if there is none. The memory belongs
// to the fiber until release_far_landing(), which is called when its own stack is in use again.
Landing* place_far_landing(const Landing& landing);
// A place in such memory, with room below it; null if there is none.
std::byte* take_far_landing(Fiber* fiber);
void release_far_landing(Fiber* fiber);
// Closes the scopes, and returns there. REQUIRES: on the landing's stack, below it.
[[noreturn]] void land(Landing* landing);

// None if no frame of `act` is on this stack. Safe in a handler of a fault in ordinary code.
std::optional<ReturnPoint> return_of(const void* act);
// REQUIRES: the frame that it returns to is on the current stack.
[[noreturn]] void return_to(const ReturnPoint& to);
// Closes the scopes that `task` has open and returns from its function; in a UserCall, closes the scopes opened in it
// and returns from the call. Returns here only if there is no room for that, or no such frame. REQUIRES: `task` is the
// innermost on `fiber`, which runs here.
void leave_task(Fiber* fiber, TaskRecord* task);

}  // namespace rota::fiber::detail

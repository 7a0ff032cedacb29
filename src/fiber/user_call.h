// Calls user code that is not the function of a task: a token's callback, or the destructor of a closure or a result.
//
// If the stack overflows in such a call, only the call ends, as if it had returned (F-23); metered code in it that does
// not end when its task must (instrument.cc) is left in the same way. So the runtime's own code around the call
// completes what it has begun: a callback's token, a child's nursery. The frames of the call are abandoned like those
// of a task (overflow.h), and the scopes opened in it are closed.
//
// The calls of a fiber form a list. A call is the one to leave while the task on the fiber is the one that made it; a
// task that the user code runs on top (a join in place) is left by itself.
#pragma once

#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

struct UserCall {
  const void* frame;   // The function whose frame is left.
  TaskRecord* task;    // The task on the fiber, which may be null.
  NurseryCore* scope;  // The innermost scope of the fiber.
  UserCall* outer;
  bool left = false;  // Set by the code that leaves it.
};

// Calls function(argument). False if the call was left. On a thread outside the runtime, an ordinary call.
bool call_user(void (*function)(void* argument), void* argument);

// The call that has to be left if the code on `fiber` cannot continue, or null if that is its task.
inline UserCall* call_to_leave(const Fiber* fiber) {
  UserCall* call = fiber->user_call;
  return call != nullptr && call->task == fiber->task ? call : nullptr;
}

// The same for the timekeeper's thread, which runs callbacks on a stack of its own: from now on, for the life of the
// thread, an overflow in a call ends the call.
void guard_this_thread();
// The call to leave if this is such a thread and the address is below its stack, or null.
UserCall* thread_call_to_leave(const void* address);

}  // namespace rota::fiber::detail

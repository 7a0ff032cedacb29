// User code that the runtime calls where no task can wait.
//
// This code is: the callbacks of tokens that a deadline cancels, which run on the loop's own stack of a thread worker,
// on top of whatever task yields there, or on the timekeeper's thread; and the destructors of closures and results, on
// the loop's own stack. It may do what any thread outside the runtime may do. A call that needs a task says so
// (OutsideRuntime), and a call that would block the thread is refused with the same code: all other tasks need the
// thread.
//
// How it works: while an OutsideTasks lives, current_worker() is null. Nothing can park then, so the user code returns
// on the same thread. The hot paths need no check of their own.
#pragma once

#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// Has no effect in a task, unless a timer fires there, nor on a thread outside the runtime.
class OutsideTasks {
 public:
  OutsideTasks();
  ~OutsideTasks();
  OutsideTasks(const OutsideTasks&) = delete;
  OutsideTasks& operator=(const OutsideTasks&) = delete;

 private:
  ThreadWorker* worker_;  // Null: no effect.
  bool might_block_ = false;
};

// While it lives, a timer fires on this thread: the code that it calls must not wait, even on top of a task.
class FiringTimer {
 public:
  FiringTimer();
  ~FiringTimer();
  FiringTimer(const FiringTimer&) = delete;
  FiringTimer& operator=(const FiringTimer&) = delete;

 private:
  bool before_;
};

// False on a thread that the runtime needs, while it runs user code.
bool may_block_thread();
// Throws OutsideRuntime if this thread must not block.
void must_be_able_to_block(const char* what);
// From now on this thread, the timekeeper's, must not block in user code.
void never_block_thread();

// The thread worker of this thread while an OutsideTasks hides it, otherwise null.
ThreadWorker* hidden_worker();

// Destroys the closure or the result of a task. False if the stack overflowed in its destructor.
bool drop_part(TaskRecord* record, Action part);

}  // namespace rota::fiber::detail

// Parking a fiber that is queued at a channel or a lock (rota/fiber/detail/waiting.h says how such a wait ends).
#pragma once

#include <chrono>

#include "fiber/runtime_core.h"
#include "rota/fiber/detail/waiting.h"

namespace rota::fiber::detail {

// The worker of the current task. Throws OutsideRuntime if there is no task: `what` needs one.
Worker* waiting_worker(const char* what);
// The current task is cancelled: throws Cancelled, or BudgetExhausted if that is why.
[[noreturn]] void throw_cancelled();

// When a wait that begins now and lasts `timeout` ends; kNever without one.
Nanoseconds deadline_of(const RuntimeCore* runtime, const std::chrono::nanoseconds* timeout);

// Wakes a fiber at `at`, with WakeReason::kTimeout.
struct WakeTimer {
  Timer timer{};
  Fiber* fiber = nullptr;
  bool armed = false;

  // In a Publish: the fiber is not resumed before that returns.
  void arm(RuntimeCore* runtime, Fiber* waiter, Nanoseconds at);
  // After the wait. Returns only when the timer has let go of the fiber.
  void disarm(RuntimeCore* runtime) {
    if (armed) runtime->timers.remove(&timer);
  }
};

// The task is in its nursery's registry, so that parking cannot fail. To be called before a lock is taken.
inline bool registered(const Worker* worker) { return worker->fiber->task->has_entry(); }
inline void register_current(const Worker* worker) { register_task(worker->fiber->task, worker->fiber); }

// Queues `waiter`, which is the current fiber's, parks, and releases the lock as it does. Afterwards the waiter is out
// of the queue and the lock is not held. kDone: waiter->outcome says how it ended. kTimeout, kCancelled: nothing was
// handed to it.
// REQUIRES: the lock is held; registered().
WakeReason wait_in(Worker* worker, SpinLock& lock, WaitQueue& queue, Waiter& waiter, Nanoseconds deadline,
                   const char* waits_for);

// Queues the claimed for running. REQUIRES: no spin lock is held.
void schedule_all(const Woken& woken);

}  // namespace rota::fiber::detail

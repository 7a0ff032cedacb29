// Parking a fiber that is queued at a channel or a lock (rota/fiber/detail/waiting.h describes how such a wait ends).
#pragma once

#include <chrono>

#include "fiber/runtime_core.h"
#include "rota/fiber/detail/channel_core.h"
#include "rota/fiber/detail/waiting.h"
#include "rota/fiber/error.h"

namespace rota::fiber::detail {

// The thread worker of the current task. Throws OutsideRuntime if there is no task, which `what` needs.
inline ThreadWorker* waiting_worker(const char* what) {
  ThreadWorker* worker = current_worker();
  // Without a task: the loop's own stack, where the closures of ended tasks are destroyed.
  if (worker == nullptr || worker->fiber->task == nullptr) [[unlikely]]
    throw_outside_runtime(what);
  return worker;
}

// The end of a wait that begins now and lasts `timeout`; kNever without one.
Nanoseconds deadline_of(const RuntimeCore* runtime, const std::chrono::nanoseconds* timeout);

// Wakes a fiber at `at`, with WakeReason::kTimeout.
struct WakeTimer {
  Timer timer{};
  Fiber* fiber = nullptr;
  bool armed = false;

  // Called in a Publish: the fiber is not resumed before that returns.
  void arm(RuntimeCore* runtime, Fiber* waiter, Nanoseconds at);
  // Called after the wait. Returns only when the timer does not use the fiber any more.
  void disarm(RuntimeCore* runtime) {
    if (armed) runtime->timers.remove(&timer);
  }
};

// True if the task is in its nursery's registry, so that parking cannot fail. To be ensured before a lock is taken.
inline bool registered(const ThreadWorker* worker) { return worker->fiber->task->has_entry(); }
inline void register_current(const ThreadWorker* worker) { register_task(worker->fiber->task, worker->fiber); }

template <class Lock>
struct LockedWait {
  Lock* lock;
  bool published = false;

  static bool publish(ThreadWorker* /*worker*/, void* argument) {
    auto* wait = static_cast<LockedWait*>(argument);
    wait->published = true;
    wait->lock->unlock();
    return true;
  }
  // The end of a wait that was not claimed with kDone: removes the waiter.
  [[gnu::noinline]] void leave(WaitQueue& queue, Waiter& waiter) {
    if (published) lock->lock();  // Otherwise it was cancelled before it could wait, and has the lock.
    if (waiter.queued) queue.remove(&waiter);
    lock->unlock();
  }
};

template <class Lock>
struct TimedWait : LockedWait<Lock> {
  Fiber* fiber;
  Nanoseconds deadline;
  WakeTimer timer{};

  static bool publish(ThreadWorker* worker, void* argument) {
    auto* wait = static_cast<TimedWait*>(argument);
    wait->timer.arm(worker->runtime, wait->fiber, wait->deadline);
    return LockedWait<Lock>::publish(worker, static_cast<LockedWait<Lock>*>(wait));
  }
  // A separate function, so that a wait without a limit has no timer in its frame.
  [[gnu::noinline]] static WakeReason park_until(ThreadWorker* worker, Lock& lock, WaitQueue& queue, Waiter& waiter,
                                                 Nanoseconds deadline, const char* waits_for) {
    RuntimeCore* runtime = worker->runtime;
    TimedWait wait{{&lock}, worker->fiber, deadline};
    const WakeReason reason = park(worker, publish, &wait, true, waits_for);
    wait.timer.disarm(runtime);
    if (reason != WakeReason::kDone) wait.leave(queue, waiter);
    return reason;
  }
};

// Queues `waiter`, which belongs to the current fiber, parks, and releases the lock after the switch. On return the
// waiter is not in the queue and the lock is not held. kDone: waiter->outcome says how it ended. kTimeout, kCancelled:
// nothing was passed to it. REQUIRES: the lock is held; registered().
template <class Lock>
WakeReason wait_in(ThreadWorker* worker, Lock& lock, WaitQueue& queue, Waiter& waiter, Nanoseconds deadline,
                   const char* waits_for) {
  waiter.fiber = worker->fiber;
  waiter.outcome = WaitOutcome::kNone;
  queue.add(&waiter);
  if (deadline != kNever) {
    return TimedWait<Lock>::park_until(worker, lock, queue, waiter, deadline, waits_for);
  }
  LockedWait<Lock> wait{&lock};
  const WakeReason reason = park(worker, LockedWait<Lock>::publish, &wait, true, waits_for);
  // The thread that claimed it with kDone has removed it.
  if (reason != WakeReason::kDone) [[unlikely]]
    wait.leave(queue, waiter);
  return reason;
}

// Schedules the claimed waiters. REQUIRES: no spin lock is held.
inline void schedule_all(const Woken& woken) {
  for (Waiter* waiter = woken.first(); waiter != nullptr;) {
    Waiter* next = waiter->next;  // The frame may be gone once it is scheduled.
    schedule(waiter->fiber);
    waiter = next;
  }
}

}  // namespace rota::fiber::detail

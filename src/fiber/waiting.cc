#include "fiber/waiting.h"

#include "rota/fiber/error.h"
#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

namespace {

struct LockedWait {
  SpinLock* lock;
  Fiber* fiber;
  Nanoseconds deadline;
  WakeTimer* timer;
  bool published;
};

bool publish_locked(Worker* worker, void* argument) {
  auto* wait = static_cast<LockedWait*>(argument);
  wait->published = true;
  if (wait->deadline != kNever) wait->timer->arm(worker->runtime, wait->fiber, wait->deadline);
  wait->lock->unlock();
  return true;
}

}  // namespace

Worker* waiting_worker(const char* what) {
  Worker* worker = current_worker();
  // Without a task: the loop's own stack, where the closures of ended tasks are destroyed.
  if (worker == nullptr || worker->fiber->task == nullptr) [[unlikely]]
    throw_outside_runtime(what);
  return worker;
}

void throw_cancelled() {
  if ((current_worker()->fiber->task->flags & Record::kFlagBudget) != 0) throw BudgetExhausted();
  throw Cancelled(current_cancel_reason());
}

Nanoseconds deadline_of(const RuntimeCore* runtime, const std::chrono::nanoseconds* timeout) {
  if (timeout == nullptr) return kNever;
  const Nanoseconds now = runtime->now();
  return timeout->count() >= kNever - now ? kNever : now + timeout->count();
}

void WakeTimer::arm(RuntimeCore* runtime, Fiber* waiter, Nanoseconds at) {
  fiber = waiter;
  armed = true;
  timer.at = at;
  timer.context = this;
  timer.fire = [](Timer* fired) {
    Fiber* timed_out = static_cast<WakeTimer*>(fired->context)->fiber;
    wake(timed_out->home, timed_out, WakeReason::kTimeout);
  };
  add_timer(runtime, &timer);
}

WakeReason wait_in(Worker* worker, SpinLock& lock, WaitQueue& queue, Waiter& waiter, Nanoseconds deadline,
                   const char* waits_for) {
  RuntimeCore* runtime = worker->runtime;
  waiter.fiber = worker->fiber;
  waiter.outcome = WaitOutcome::kNone;
  queue.add(&waiter);
  WakeTimer timer;
  LockedWait wait{&lock, worker->fiber, deadline, &timer, false};
  const WakeReason reason = park(worker, publish_locked, &wait, true, waits_for);
  timer.disarm(runtime);
  if (reason == WakeReason::kDone) return reason;  // Whoever claimed it has taken it out.
  if (wait.published) lock.lock();                 // Else it was cancelled before it could wait, and has the lock.
  if (waiter.queued) queue.remove(&waiter);
  lock.unlock();
  return reason;
}

void schedule_all(const Woken& woken) {
  for (Waiter* waiter = woken.first(); waiter != nullptr;) {
    Waiter* next = waiter->next;  // The frame may be gone once it is scheduled.
    schedule(waiter->fiber->home, waiter->fiber);
    waiter = next;
  }
}

}  // namespace rota::fiber::detail

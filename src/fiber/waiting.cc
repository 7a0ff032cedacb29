#include "fiber/waiting.h"

#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

namespace {

struct LockedWait {
  SpinLock* lock;
  bool published;
};
struct TimedWait : LockedWait {
  Fiber* fiber;
  Nanoseconds deadline;
  WakeTimer timer;
};

bool publish_locked(Worker* /*worker*/, void* argument) {
  auto* wait = static_cast<LockedWait*>(argument);
  wait->published = true;
  wait->lock->unlock();
  return true;
}
bool publish_timed(Worker* worker, void* argument) {
  auto* wait = static_cast<TimedWait*>(argument);
  wait->published = true;
  wait->timer.arm(worker->runtime, wait->fiber, wait->deadline);
  wait->lock->unlock();
  return true;
}

// The end of a wait that was not claimed with kDone: it takes itself out.
[[gnu::noinline]] void leave(const LockedWait& wait, WaitQueue& queue, Waiter& waiter) {
  if (wait.published) wait.lock->lock();  // Else it was cancelled before it could wait, and has the lock.
  if (waiter.queued) queue.remove(&waiter);
  wait.lock->unlock();
}

[[gnu::noinline]] WakeReason park_timed(Worker* worker, SpinLock& lock, WaitQueue& queue, Waiter& waiter,
                                        Nanoseconds deadline, const char* waits_for) {
  RuntimeCore* runtime = worker->runtime;
  TimedWait wait{{&lock, false}, worker->fiber, deadline, {}};
  const WakeReason reason = park(worker, publish_timed, &wait, true, waits_for);
  wait.timer.disarm(runtime);
  if (reason != WakeReason::kDone) leave(wait, queue, waiter);
  return reason;
}

}  // namespace

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
  waiter.fiber = worker->fiber;
  waiter.outcome = WaitOutcome::kNone;
  queue.add(&waiter);
  if (deadline != kNever) return park_timed(worker, lock, queue, waiter, deadline, waits_for);
  LockedWait wait{&lock, false};
  const WakeReason reason = park(worker, publish_locked, &wait, true, waits_for);
  // Whoever claimed it with kDone has taken it out.
  if (reason != WakeReason::kDone) [[unlikely]]
    leave(wait, queue, waiter);
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

#include "fiber/waiting.h"

#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

void throw_cancelled() {
  if ((current_worker()->fiber->task->flags & TaskRecord::kFlagBudget) != 0) throw BudgetExhausted();
  throw Cancelled(current_cancel_reason());
}

ErrorCode cancel_code() {
  const bool budget = (current_worker()->fiber->task->flags & TaskRecord::kFlagBudget) != 0;
  return budget ? ErrorCode::kBudgetExhausted : ErrorCode::kCancelled;
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
    wake(timed_out, WakeReason::kTimeout);
  };
  add_timer(runtime, &timer);
}

}  // namespace rota::fiber::detail

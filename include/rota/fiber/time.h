// yield, sleep and the runtime's clock.
#pragma once

#include <chrono>

#include "rota/fiber/detail/core.h"
#include "rota/result.h"

namespace rota::fiber {

void yield_slow();

namespace detail {
void push_yielded(ThreadWorker* worker, void* fiber);
}

// Lets another ready task run; this one goes to the end of its thread worker's queue. Returns at once if there is none.
[[gnu::always_inline]] inline void yield() {
  using namespace detail;
  if constexpr (ROTA_METERED) return yield_slow();
  ThreadWorker* worker = current_worker();
  // Every 64th call, and whenever a hook is active, takes the slow path, which also checks the shared queues.
  if (worker == nullptr || (worker->hooks & ~kHookMeter) != 0 || (++worker->tick & 63) == 0) [[unlikely]]
    return yield_slow();
  const Item item = worker->solo ? worker->deque.take_top<true>() : worker->deque.take_top<false>();
  if (item == 0) return;
  if (!is_fiber(item)) [[unlikely]] {
    worker->handoff = item;
    return yield_slow();
  }
  Fiber* self = worker->fiber;
  TaskRecord* task = self->task;
  set_state(task, TaskState::kReady);
  worker->after = push_yielded;
  worker->after_argument = self;
  switch_fibers(worker, self, fiber_of(item));
  set_state(task, TaskState::kRunning);
}

// Cancelled if the task is cancelled meanwhile. Outside the runtime the thread sleeps.
Result<void> sleep_for(std::chrono::nanoseconds duration);
// Sleeps until the runtime's clock (now()) reaches `time`.
Result<void> sleep_until(std::chrono::nanoseconds time);
// The runtime's clock: monotonic; virtual in deterministic mode.
[[nodiscard]] std::chrono::nanoseconds now();
// The wall time (since the epoch) minus now(). Both clocks are read several times, so that a preempted thread does not
// falsify the difference. In deterministic mode the result depends on the real clock: give the wall time yourself
// there.
[[nodiscard]] std::chrono::nanoseconds wall_offset();

}  // namespace rota::fiber

// The ticks that the compiler inserts: __sanitizer_cov_trace_pc(), called at the start of every basic block of a target
// that rota_meter() was applied to (F-13, docs/metering.md).
//
// It may be called anywhere: outside the runtime, on any stack, in a destructor while an exception is in flight, in a
// noexcept function, in a signal handler. So
//   - it never throws. Both compilers believe that it cannot: g++ writes no landing pads for it and takes functions
//   that
//     call nothing else for nothrow, and clang does so from -O1 on, so an exception would end the process;
//   - it changes nothing that its caller can see: errno and the exceptions in flight stay this task's;
//   - it waits only where the task could have called yield() itself: not while it is held (MeterHold, or code of the
//     runtime that calls the task's under a lock), not while its end is being stored, not in a signal handler. Its ops
//     are counted there nevertheless.
//
// How a task ends that is cancelled, or out of budget with OnExhausted::kCancel, and calls nothing that would tell it:
// it gets Config::cancel_grace_ops more ops to notice by itself, free of charge, yielding every interval. Then it is
// abandoned: the scopes that it has open are cancelled and waited for, and its function is left as if it had
// returned, without unwinding, as after a stack overflow. It makes no difference whether a noexcept function or a
// destructor is in between. A task that has come close to the end of its stack by then is ended as if it had
// overflowed.
#include <algorithm>
#include <csignal>
#include <cstring>

#include "fiber/meter_core.h"
#include "fiber/return_point.h"
#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

namespace {

constexpr std::ptrdiff_t kNeededBytes = 4 * 1024;  // Of stack, by the slow path.

// A handler runs with at least its own signal blocked. Code that blocks signals for longer is not interrupted either.
bool in_signal_handler(const RootMeter& root) {
  sigset_t now;
  if (pthread_sigmask(SIG_BLOCK, nullptr, &now) != 0) return true;
  std::uint64_t here = 0;  // The kernel's signals are the first 64 bits.
  std::uint64_t usual = 0;
  std::memcpy(&here, &now, sizeof(here));
  std::memcpy(&usual, &root.signals, sizeof(usual));
  return (here & ~usual) != 0;
}

// Ends the current task without unwinding it, as `how` says. Returns only if that is impossible here.
void abandon(Worker* worker, Record* task, std::uint8_t how) {
  const std::uint8_t before = task->flags;
  task->flags |= Record::kFlagHeld | how;  // Held: what runs while its scopes are closed does not come here again.
  leave_task(worker->fiber, task);
  task->flags = before;
}

// Is there too little left of the stack to wait on it? A fault in the middle of that would leave the runtime in pieces.
bool at_the_end_of_its_stack(const Fiber* fiber) {
  const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
  const auto* top = reinterpret_cast<const std::byte*>(fiber);
  if (here < fiber->low || here > top) return false;  // On a stack of the user's own.
  return here - fiber->low < std::min<std::ptrdiff_t>(kNeededBytes, (top - fiber->low) / 4);
}

// The task is to end: from now on it runs on grace, and what is left of its budget is its pool's.
void doom(Worker* worker, Record* task) {
  Meter* meter = open_meter(worker, task);
  meter->left.ops += static_cast<std::uint64_t>(meter->fuel);
  meter->fuel = 0;
  meter->grace = worker->runtime->meter->grace;
  meter->doomed = true;
}

// The next interval of a doomed task; or its end.
void spend_grace(Worker* worker, Record* task, Meter* meter) {
  const std::uint32_t interval = worker->runtime->meter->interval;
  if (meter->grace == 0) {
    abandon(worker, task, Record::kFlagNeverRan);
    meter->grace = interval;  // Impossible here: it goes on, and others with it.
  }
  const std::uint32_t next = std::min(interval, meter->grace);
  meter->grace -= next;
  meter->fuel = static_cast<std::int32_t>(next);
  yield_anywhere();
}

// Pays for one op, waiting if it must. False: the task is cancelled.
bool pay_op(Worker* worker, Record* task) {
  try {
    if (pay(worker, task, Component::kOps, 1, true) != ErrorCode::kOk) return false;
  } catch (...) {  // From the nursery's `notify`, or for want of memory. It cannot go on as if it had been recharged.
    cancel_task(task, CancelReason::kFailure);
    return false;
  }
  // Only its own cancellation: when just a scope is over that it opened itself, what is around the scope lives on.
  return !cancelled_before_run(current_worker(), task);
}

[[gnu::noinline]] void inserted_tick_slow() noexcept {
  Worker* worker = current_worker();
  Record* task = worker->fiber->task;
  if (!may_look_up(task) || in_signal_handler(*worker->runtime->meter)) {
    Meter* meter = is_inline(task->meter) ? nullptr : meter_of(task->meter);
    if (meter != nullptr && meter->doomed) {
      meter->fuel = static_cast<std::int32_t>(worker->runtime->meter->interval);
    } else {
      (void)pay(worker, task, Component::kOps, 1, false);
    }
    return;
  }
  if (at_the_end_of_its_stack(worker->fiber)) abandon(worker, task, Record::kFlagOverflow);
  if (is_inline(task->meter) || !meter_of(task->meter)->doomed) {
    if (pay_op(worker, task)) return;
    doom(current_worker(), task);
  }
  spend_grace(current_worker(), task, meter_of(task->meter));
}

}  // namespace

}  // namespace rota::fiber::detail

// By the compilers' convention; declared nowhere.
extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() {
  using namespace rota::fiber::detail;
  if (!tick_quickly(current_worker(), 1)) [[unlikely]]
    inserted_tick_slow();
}

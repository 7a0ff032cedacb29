// The ticks that the compiler inserts: __sanitizer_cov_trace_pc(), called at the start of every basic block of a target
// to which rota_meter() was applied (F-13, docs/metering.md).
//
// It may be called anywhere: outside the runtime, on any stack, in a destructor while an exception is in flight, in a
// noexcept function, in a signal handler. Therefore
//   - it never throws. Both compilers assume that it cannot: g++ emits no landing pads for it and considers functions
//     that call nothing else nothrow, and clang does so from -O1 on, so an exception would end the process;
//   - it changes nothing that its caller can see: errno and the exceptions in flight are preserved;
//   - it waits only where the task could have called yield() itself: not while it is held (MeterHold, or code of the
//     runtime that calls the task's code under a lock), not while its outcome is being stored, not in a signal handler.
//     Its ops are counted there nevertheless.
//
// How a task ends that is cancelled, or out of budget with OnExhausted::kCancel, and makes no call that would tell it:
// it gets Config::cancel_grace_ops more ops free of charge, yielding every interval. Then it is abandoned: its open
// scopes are cancelled and waited for, and its function is left as if it had returned, without unwinding, as after a
// stack overflow, even if a noexcept function or a destructor is in between. A task that is close to the end of its
// stack by then is ended as if it had overflowed.
#include <algorithm>
#include <csignal>
#include <cstring>

#include "fiber/meter_core.h"
#include "fiber/return_point.h"
#include "fiber/user_call.h"
#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

namespace {

constexpr std::ptrdiff_t kNeededBytes = 4 * 1024;  // Stack that the slow path needs.

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

// Ends the current task without unwinding it, or the UserCall that it is in; `how` is the flag to set. Returns only if
// that is impossible here.
void abandon(ThreadWorker* worker, TaskRecord* task, std::uint8_t how) {
  const std::uint8_t before = task->flags;
  if (call_to_leave(worker->fiber) != nullptr) how = 0;  // The task itself does not end here.
  // Held: code that runs while its scopes are closed does not get here again.
  task->flags |= TaskRecord::kFlagHeld | how;
  leave_task(worker->fiber, task);
  task->flags = before;
}

// True if too little of the stack is left to wait on it. A fault during the wait would leave the runtime inconsistent.
bool at_the_end_of_its_stack(const Fiber* fiber) {
  const auto* here = static_cast<const std::byte*>(__builtin_frame_address(0));
  const auto* top = reinterpret_cast<const std::byte*>(fiber);
  if (here < fiber->low || here > top) return false;  // On a stack that the user made.
  return here - fiber->low < std::min<std::ptrdiff_t>(kNeededBytes, (top - fiber->low) / 4);
}

// The task must end: from now on it runs on grace, and the rest of its budget returns to its pool.
void doom(ThreadWorker* worker, TaskRecord* task) {
  Meter* meter = open_meter(worker, task);
  meter->left.ops += static_cast<std::uint64_t>(meter->fuel);
  meter->fuel = 0;
  meter->grace = worker->runtime->meter->grace;
  meter->doomed = true;
}

// Starts the next interval of a doomed task, or ends it.
void spend_grace(ThreadWorker* worker, TaskRecord* task, Meter* meter) {
  const std::uint32_t interval = worker->runtime->meter->interval;
  if (meter->grace == 0) {
    abandon(worker, task, TaskRecord::kFlagNeverRan);
    meter->grace = interval;  // It cannot be ended here, so it continues.
  }
  const std::uint32_t next = std::min(interval, meter->grace);
  meter->grace -= next;
  meter->fuel = static_cast<std::int32_t>(next);
  yield_anywhere();
}

// Pays for one op, waiting if necessary. False: the task is cancelled.
bool pay_op(ThreadWorker* worker, TaskRecord* task) {
  try {
    if (pay(worker, task, Component::kOps, 1, true) != ErrorCode::kOk) return false;
  } catch (...) {  // From the nursery's `notify`, or std::bad_alloc. It cannot continue as if it had been recharged.
    cancel_task(task, CancelReason::kFailure);
    return false;
  }
  // Only its own cancellation: if only a scope that it opened is cancelled, the code around that scope continues.
  return !cancelled_before_run(current_worker(), task);
}

[[gnu::noinline]] void inserted_tick_slow() noexcept {
  ThreadWorker* worker = current_worker();
  TaskRecord* task = worker->fiber->task;
  if (!may_look_up(task) || in_signal_handler(*worker->runtime->meter)) {
    Meter* meter = is_inline(task->meter) ? nullptr : meter_of(task->meter);
    if (meter != nullptr && meter->doomed) {
      meter->fuel = static_cast<std::int32_t>(worker->runtime->meter->interval);
    } else {
      (void)pay(worker, task, Component::kOps, 1, false);
    }
    return;
  }
  if (at_the_end_of_its_stack(worker->fiber)) abandon(worker, task, TaskRecord::kFlagOverflow);
  if (is_inline(task->meter) || !meter_of(task->meter)->doomed) {
    if (pay_op(worker, task)) return;
    doom(current_worker(), task);
  }
  spend_grace(current_worker(), task, meter_of(task->meter));
}

}  // namespace

}  // namespace rota::fiber::detail

// Defined by the compilers' convention; declared nowhere.
extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() {
  using namespace rota::fiber::detail;
  if (!tick_quickly(current_worker(), 1)) [[unlikely]]
    inserted_tick_slow();
}

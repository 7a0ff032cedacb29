// What sends, receives and selects have in common.
#pragma once

#include "fiber/channel_core.h"
#include "fiber/waiting.h"

namespace rota::fiber::detail {

// While a channel is locked, metered code (a T's move) must neither yield nor stop: whoever ran next on this worker
// would wait for the lock for ever.
class HeldWhileLocked {
 public:
  explicit HeldWhileLocked(const Worker* worker) {
    if (!is_metered(worker)) [[likely]]
      return;
    Record* task = worker->fiber->task;
    if (task == nullptr || (task->flags & Record::kFlagHeld) != 0) return;
    task_ = task;
    task_->flags |= Record::kFlagHeld;
  }
  ~HeldWhileLocked() {
    if (task_ != nullptr) [[unlikely]]
      task_->flags &= static_cast<std::uint8_t>(~Record::kFlagHeld);
  }
  HeldWhileLocked(const HeldWhileLocked&) = delete;
  HeldWhileLocked& operator=(const HeldWhileLocked&) = delete;

 private:
  Record* task_ = nullptr;
};

// Pays for an operation of the current task, and refuses it if the task is cancelled. Returns the worker, which may be
// another one now. Throws Cancelled, BudgetExhausted.
inline Worker* begin_operation(Worker* worker) {
  if (is_metered(worker)) [[unlikely]] {
    if (charge_channel_op(worker) != ErrorCode::kOk) throw_cancelled();
    worker = current_worker();
  }
  if (cancelled_now(worker)) [[unlikely]]
    throw_cancelled();
  return worker;
}

}  // namespace rota::fiber::detail

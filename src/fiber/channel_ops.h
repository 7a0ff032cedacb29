// Shared by send, receive and select.
#pragma once

#include "fiber/channel_core.h"
#include "fiber/waiting.h"

namespace rota::fiber::detail {

// While a channel is locked, metered code (T's move constructor) must neither yield nor stop: the next task on this
// thread worker would wait for the lock forever.
class HeldWhileLocked {
 public:
  explicit HeldWhileLocked(const ThreadWorker* worker) {
    if (!is_metered(worker)) [[likely]]
      return;
    TaskRecord* task = worker->fiber->task;
    if (task == nullptr || (task->flags & TaskRecord::kFlagHeld) != 0) return;
    task_ = task;
    task_->flags |= TaskRecord::kFlagHeld;
  }
  ~HeldWhileLocked() {
    if (task_ != nullptr) [[unlikely]]
      task_->flags &= static_cast<std::uint8_t>(~TaskRecord::kFlagHeld);
  }
  HeldWhileLocked(const HeldWhileLocked&) = delete;
  HeldWhileLocked& operator=(const HeldWhileLocked&) = delete;

 private:
  TaskRecord* task_ = nullptr;
};

// Charges the current task for an operation, and refuses it if the task is cancelled. Returns the thread worker, which
// may have changed. If it is refused: throws Cancelled or BudgetExhausted, or returns null.
inline ThreadWorker* begin_operation(ThreadWorker* worker, Leave leave = Leave::kThrow) {
  bool refused = false;
  if (is_metered(worker)) [[unlikely]] {
    refused = charge_channel_op(worker) != ErrorCode::kOk;
    worker = current_worker();
  }
  if (refused || cancelled_now(worker)) [[unlikely]] {
    if (leave == Leave::kReturn) return nullptr;
    throw_cancelled();
  }
  return worker;
}

}  // namespace rota::fiber::detail

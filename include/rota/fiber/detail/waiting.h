// The queue of fibers that wait at a channel or a lock.
//
// A Waiter lives in the frame of the waiting fiber. It is added and removed under the lock of the object that it waits
// for, so nobody finds it after it is gone:
//   - the thread that ends the wait removes it, then claims the fiber (claim_wake), and only as the claimer writes
//     `outcome` and the value: until it is scheduled, nobody resumes the fiber, and its frame stays valid;
//   - a waiter that was cancelled or timed out is claimed by another thread. The fiber removes it, under the lock,
//     before it continues. A thread that finds it before that fails to claim it, and takes the next one.
// So a value is passed to a waiter if and only if the thread that has the value claimed it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// How a wait that was claimed with WakeReason::kDone ended.
enum class WaitOutcome : std::uint8_t {
  kNone,
  kDone,
  kClosed,
  kAgain,  // Nothing was passed: try again.
};

struct Waiter {
  Fiber* fiber = nullptr;
  Waiter* next = nullptr;
  Waiter* previous = nullptr;
  void* value = nullptr;  // The value to send, or where to receive.
  bool queued = false;
  WaitOutcome outcome = WaitOutcome::kNone;
};

// First in, first out. Thread safety: under the lock of the object that owns it.
class WaitQueue {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  void add(Waiter* waiter) {
    waiter->next = nullptr;
    waiter->previous = last_;
    (last_ == nullptr ? first_ : last_->next) = waiter;
    last_ = waiter;
    waiter->queued = true;
  }
  void remove(Waiter* waiter) {
    (waiter->previous == nullptr ? first_ : waiter->previous->next) = waiter->next;
    (waiter->next == nullptr ? last_ : waiter->next->previous) = waiter->previous;
    waiter->queued = false;
  }
  // Removes the oldest waiter whose wake-up the caller could claim, or returns null.
  Waiter* take() {
    while (Waiter* waiter = first_) {
      remove(waiter);
      // The usual case of claim_wake(), inlined.
      std::uint32_t waiting = kWaiting;
      if (waiter->fiber->claim.compare_exchange_strong(waiting, kWoken, std::memory_order_acq_rel)) [[likely]] {
        waiter->fiber->reason = WakeReason::kDone;
        return waiter;
      }
      if (claim_wake(waiter->fiber, WakeReason::kDone)) return waiter;
    }
    return nullptr;
  }

 private:
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

// Claimed waiters that are to be scheduled after the lock is released.
class Woken {
 public:
  void add(Waiter* waiter, WaitOutcome outcome) {
    waiter->outcome = outcome;
    waiter->next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = waiter;
    last_ = waiter;
  }
  [[nodiscard]] Waiter* first() const { return first_; }

 private:
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

}  // namespace rota::fiber::detail

// Those who wait at a channel or a lock, in their order.
//
// A waiter lives in the frame of the fiber that waits. It is queued and taken out under the lock of what it waits for,
// and so it is never found after it is gone:
//   - whoever ends the wait takes it out, then claims the fiber (claim_wake), and only as the claimer writes `outcome`
//     and the value: until it is scheduled, nobody resumes the fiber, and its frame stays;
//   - one that was cancelled or has timed out is claimed by somebody else. It takes itself out, under the lock, before
//     it goes on. Whoever finds it before that fails to claim it, forgets it, and goes on to the next.
// So a value goes to a waiter if and only if its claimer is the one with the value.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// How a wait ended that was claimed with WakeReason::kDone.
enum class WaitOutcome : std::uint8_t {
  kNone,
  kDone,
  kClosed,
  kAgain,  // Nothing was handed over: try again.
};

struct Waiter {
  Fiber* fiber = nullptr;
  Waiter* next = nullptr;
  Waiter* previous = nullptr;
  void* value = nullptr;  // What it sends, or where it receives.
  bool queued = false;
  WaitOutcome outcome = WaitOutcome::kNone;
};

// First in, first out. Thread safety: under the lock of whoever has it.
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
  // The oldest whose wake-up is the caller's now, or null. It is out of the queue.
  Waiter* take() {
    while (Waiter* waiter = first_) {
      remove(waiter);
      if (claim_wake(waiter->fiber, WakeReason::kDone)) return waiter;
    }
    return nullptr;
  }

 private:
  Waiter* first_ = nullptr;
  Waiter* last_ = nullptr;
};

// Waiters that were claimed and are to be scheduled once the lock is released.
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

// The two words that a wait uses, and every step that is made on them: Fiber::claim (who may resume a parked fiber) and
// TaskRecord::join (who waits for a task). wait_word_interleave_test.cc runs exactly these steps under the checker.
#pragma once

#include <sched.h>

#include <cstdint>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// A short spin for another thread that needs only a few more instructions. After a while it yields its time slice,
// because with more thread workers than cores that thread may not be running.
class ShortWait {
 public:
  void round() {
#if defined(ROTA_INTERLEAVE) && ROTA_INTERLEAVE
    sync::cpu_pause();
#else
    if (++rounds_ < 128) {
      sync::cpu_pause();
    } else {
      sched_yield();
    }
#endif
  }

 private:
  [[maybe_unused]] std::uint32_t rounds_ = 0;
};

// ------------------------------------------------------------------------------------------------------------- claim
// core.h names the steps. Invariant: between begin_wait() and the moment the fiber runs again, exactly one party gets
// true from commit_wait() (as "not waiting"), claim_wait() or cancel_wait(), and only that one schedules it.
using ClaimWord = sync::Atomic<std::uint32_t>;

// Called by the fiber itself. If the wait is cancellable, the fiber then checks whether it is cancelled, and either
// calls withdraw_wait() or switches away. seq_cst, partner: cancel_wait(): it finds Parking, or the fiber sees its
// mark.
inline void begin_wait(ClaimWord& claim, bool cancellable) {
  if (cancellable) {
    claim.store(kParking, std::memory_order_seq_cst);
  } else {
    claim.store(kParkingFirm, std::memory_order_relaxed);
  }
}
inline void withdraw_wait(ClaimWord& claim) { claim.store(kRunning, std::memory_order_relaxed); }

// Called on the stack that runs after the switch: the context is saved, the wait is published; `waits` is false if it
// was already over. True: the fiber waits, and may be gone. False: it does not, for `reason`, and the caller must
// schedule it.
inline bool commit_wait(ClaimWord& claim, bool waits, WakeReason& reason) {
  std::uint32_t now = claim.load(std::memory_order_relaxed);
  while (now != kParkingCancelled) {
    const std::uint32_t next = !waits ? kWoken : now == kParkingFirm ? kWaitingFirm : kWaiting;
    // Release, partner: the acquire of claim_wait() and cancel_wait(): the saved context is visible.
    if (!claim.compare_exchange_weak(now, next, std::memory_order_seq_cst)) continue;
    if (waits) return true;
    reason = WakeReason::kDone;
    return false;
  }
  claim.store(kWoken, std::memory_order_relaxed);
  reason = WakeReason::kCancelled;
  return false;
}

// Called to end the wait because the awaited event happened or the time ran out. REQUIRES: the wait is published.
inline bool claim_wait(ClaimWord& claim) {
  std::uint32_t now = claim.load(std::memory_order_acquire);
  for (ShortWait pause;;) {
    if (now == kWaiting || now == kWaitingFirm) {
      if (claim.compare_exchange_weak(now, kWoken, std::memory_order_acq_rel)) return true;
      continue;
    }
    if (now != kParking && now != kParkingFirm) return false;
    pause.round();  // It is about to be Waiting, on a thread worker that has just switched to another stack.
    now = claim.load(std::memory_order_acquire);
  }
}

// Called by a canceller, at any time after its mark is set. True: the wait is over and the caller schedules the fiber.
// False: it does not wait, waits uncancellably, or has seen the mark and will not wait.
inline bool cancel_wait(ClaimWord& claim) {
  std::uint32_t now = claim.load(std::memory_order_seq_cst);
  for (;;) {
    if (now == kWaiting) {
      if (claim.compare_exchange_weak(now, kWoken, std::memory_order_seq_cst)) return true;
    } else if (now == kParking) {
      if (claim.compare_exchange_weak(now, kParkingCancelled, std::memory_order_seq_cst)) return false;
    } else {
      return false;
    }
  }
}

// Cancels a fiber's wait (true: schedule it), or marks it if it is about to wait. claim_wake() is in core.h.
bool cancel_wake(Fiber* fiber);

// -------------------------------------------------------------------------------------------------------------- join
// TaskRecord::join goes None -> waiter -> Done, or None -> Done. The waiter stores itself after it has switched away;
// the finisher removes it by its exchange and then owns exactly one attempt to wake it. A waiter that was woken for
// another reason (cancelled, timed out) withdraws; if the finisher was faster, it waits until the finisher's attempt is
// over (kJoinReleased in TaskRecord::cancel), because the attempt touches the fiber. A waiter that never got into the
// word has nothing to wait for, whatever the word's value.
inline bool publish_waiter(TaskRecord* record, std::uintptr_t waiter) {
  std::uintptr_t none = kJoinNone;
  // acq_rel, partner: finish_join()'s exchange.
  return record->join.compare_exchange_strong(none, waiter, std::memory_order_acq_rel);
}
// Returns the previous value: kJoinNone, kJoinDetached, or the waiter. acq_rel: releases the result to the handle's
// acquire; acquires the waiter's fiber or the drop.
inline std::uintptr_t finish_join(TaskRecord* record) {
  return record->join.exchange(kJoinDone, std::memory_order_acq_rel);
}
// The finisher's attempt on a waiter is over and was unsuccessful.
inline void release_waiter(TaskRecord* record) {
  record->cancel.fetch_or(TaskRecord::kJoinReleased, std::memory_order_release);
}
// REQUIRES: publish_waiter() was true. After this nobody touches the waiter on the record's behalf.
inline void withdraw_waiter(TaskRecord* record, std::uintptr_t waiter) {
  std::uintptr_t expected = waiter;
  if (record->join.compare_exchange_strong(expected, kJoinNone, std::memory_order_acq_rel)) return;
  // Acquire, partner: release_waiter().
  for (ShortWait pause; (record->cancel.load(std::memory_order_acquire) & TaskRecord::kJoinReleased) == 0;)
    pause.round();
}

}  // namespace rota::fiber::detail

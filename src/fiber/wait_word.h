// The two words that a wait goes through, and every step that is made on them: Fiber::claim, who may resume a parked
// fiber, and Record::join, who waits for a task. wait_word_interleave_test.cc runs exactly these steps under the
// checker.
#pragma once

#include <sched.h>

#include <cstdint>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// One round of waiting for somebody who needs a few instructions more. Gives the time slice away after a while: with
// more workers than cores he may not be running.
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
// The steps are named in core.h. Invariant: between begin_wait() and the moment the fiber runs again, exactly one party
// gets true from commit_wait() (as "not waiting"), claim_wait() or cancel_wait(), and only that one schedules it.
using ClaimWord = sync::Atomic<std::uint32_t>;

// By the fiber itself. A cancellable one then looks whether it is cancelled, and either takes this back with
// withdraw_wait() or switches away. seq_cst, partner: cancel_wait(): it finds Parking, or the fiber sees its mark.
inline void begin_wait(ClaimWord& claim, bool cancellable) {
  if (cancellable) {
    claim.store(kParking, std::memory_order_seq_cst);
  } else {
    claim.store(kParkingFirm, std::memory_order_relaxed);
  }
}
inline void withdraw_wait(ClaimWord& claim) { claim.store(kRunning, std::memory_order_relaxed); }

// By whoever runs after the switch: the context is saved, the wait is published; `waits` is false if it was over by
// then. True: the fiber waits, and may be gone. False: it does not, for `reason`, and the caller must schedule it.
inline bool commit_wait(ClaimWord& claim, bool waits, WakeReason& reason) {
  std::uint32_t now = claim.load(std::memory_order_relaxed);
  while (now != kParkingCancelled) {
    const std::uint32_t next = !waits ? kWoken : now == kParkingFirm ? kWaitingFirm : kWaiting;
    // Release, partner: the acquire of claim_wait() and cancel_wait(): the saved context is there.
    if (!claim.compare_exchange_weak(now, next, std::memory_order_seq_cst)) continue;
    if (waits) return true;
    reason = WakeReason::kDone;
    return false;
  }
  claim.store(kWoken, std::memory_order_relaxed);
  reason = WakeReason::kCancelled;
  return false;
}

// By whoever ends the wait because of what was waited for, or its time. REQUIRES: the wait is published.
inline bool claim_wait(ClaimWord& claim) {
  std::uint32_t now = claim.load(std::memory_order_acquire);
  for (ShortWait pause;;) {
    if (now == kWaiting || now == kWaitingFirm) {
      if (claim.compare_exchange_weak(now, kWoken, std::memory_order_acq_rel)) return true;
      continue;
    }
    if (now != kParking && now != kParkingFirm) return false;
    pause.round();  // On its way to Waiting, on a worker that has just switched to another stack.
    now = claim.load(std::memory_order_acquire);
  }
}

// By a canceller, after its mark is set, at any time. True: the wait is over and the caller schedules the fiber. False:
// it does not wait, waits for something firm, or has been told and will not wait.
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

// Cancels a fiber's wait (true: schedule it), or marks it if it is on its way to one. claim_wake() is in core.h.
bool cancel_wake(Fiber* fiber);

// -------------------------------------------------------------------------------------------------------------- join
// Record::join goes None -> waiter -> Done, or None -> Done. The waiter puts itself there after it has switched away;
// the finisher takes it out by its exchange and then owns exactly one attempt to wake it. A waiter that was woken for
// another reason (cancelled, timed out) takes itself out; if the finisher was faster, it waits for the finisher's
// attempt to be over (kJoinReleased in Record::cancel), because the attempt touches the fiber. A waiter that never got
// into the word has nobody to wait for, whatever the word says by now.
inline bool publish_waiter(Record* record, std::uintptr_t waiter) {
  std::uintptr_t none = kJoinNone;
  // acq_rel, partner: finish_join()'s exchange.
  return record->join.compare_exchange_strong(none, waiter, std::memory_order_acq_rel);
}
// Returns what was there: kJoinNone, kJoinDetached, or the waiter. acq_rel: releases the result to the handle's
// acquire; acquires the waiter's fiber or the drop.
inline std::uintptr_t finish_join(Record* record) {
  return record->join.exchange(kJoinDone, std::memory_order_acq_rel);
}
// The finisher's attempt on a waiter is over, and was in vain.
inline void release_waiter(Record* record) {
  record->cancel.fetch_or(Record::kJoinReleased, std::memory_order_release);
}
// REQUIRES: publish_waiter() was true. After this nobody touches the waiter on the record's behalf.
inline void withdraw_waiter(Record* record, std::uintptr_t waiter) {
  std::uintptr_t expected = waiter;
  if (record->join.compare_exchange_strong(expected, kJoinNone, std::memory_order_acq_rel)) return;
  // Acquire, partner: release_waiter().
  for (ShortWait pause; (record->cancel.load(std::memory_order_acquire) & Record::kJoinReleased) == 0;) pause.round();
}

}  // namespace rota::fiber::detail

// The word that decides who ends a wait: Fiber::claim (core.h has its states). Apart from the worker, so that the
// interleaving checker runs it as it is.
#pragma once

#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// The step from Parking, after the switch and after the wait was published. False: the wait is over already, and the
// caller, who owns the wake-up, schedules the fiber. `waits`: what publish() said.
inline bool commit_wait(Fiber* fiber, bool waits) {
  std::uint32_t claim = fiber->claim.load(std::memory_order_relaxed);
  for (;;) {
    if (claim == kParkingCancelled) {
      fiber->reason = WakeReason::kCancelled;
      break;
    }
    if (!waits) {
      if (!fiber->claim.compare_exchange_weak(claim, kWoken, std::memory_order_seq_cst)) continue;
      fiber->reason = WakeReason::kDone;
      break;
    }
    const std::uint32_t next = claim == kParkingFirm ? kWaitingFirm : kWaiting;
    // Release, partner: the acquire of claim_wake() and cancel_wake(): the saved context is there.
    if (fiber->claim.compare_exchange_weak(claim, next, std::memory_order_seq_cst)) return true;
  }
  fiber->claim.store(kWoken, std::memory_order_relaxed);
  return false;
}

// Cancels a fiber's wait (true: schedule it), or marks it if it is on its way to one.
bool cancel_wake(Fiber* fiber);

}  // namespace rota::fiber::detail

#include "fiber/claim.h"

#include <sched.h>

namespace rota::fiber::detail {

bool claim_wake(Fiber* fiber, WakeReason reason) {
  std::uint32_t claim = fiber->claim.load(std::memory_order_acquire);
  for (std::uint32_t spins = 0;;) {
    if (claim == kWaiting || claim == kWaitingFirm) {
      if (fiber->claim.compare_exchange_weak(claim, kWoken, std::memory_order_acq_rel)) {
        fiber->reason = reason;
        return true;
      }
      continue;
    }
    if (claim != kParking && claim != kParkingFirm) return false;
    // On its way to Waiting, on a worker that has just switched to another stack.
    if (++spins < 128) {
      sync::cpu_pause();
    } else {
      sched_yield();
    }
    claim = fiber->claim.load(std::memory_order_acquire);
  }
}

bool cancel_wake(Fiber* fiber) {
  std::uint32_t claim = fiber->claim.load(std::memory_order_seq_cst);
  for (;;) {
    if (claim == kWaiting) {
      if (fiber->claim.compare_exchange_weak(claim, kWoken, std::memory_order_seq_cst)) {
        fiber->reason = WakeReason::kCancelled;
        return true;
      }
    } else if (claim == kParking) {
      if (fiber->claim.compare_exchange_weak(claim, kParkingCancelled, std::memory_order_seq_cst)) return false;
    } else {
      return false;
    }
  }
}

}  // namespace rota::fiber::detail

// claim_wake() and cancel_wake(). A file of its own, so that the checker's tests can link it.
#include "fiber/wait_word.h"

namespace rota::fiber::detail {

bool claim_wake(Fiber* fiber, WakeReason reason) {
  if (!claim_wait(fiber->claim)) return false;
  fiber->reason = reason;
  return true;
}

bool cancel_wake(Fiber* fiber) {
  if (!cancel_wait(fiber->claim)) return false;
  fiber->reason = WakeReason::kCancelled;
  return true;
}

}  // namespace rota::fiber::detail

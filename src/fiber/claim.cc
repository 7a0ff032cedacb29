// A fiber's claim, for those who end its wait. Apart from the worker, so that the checker links it as it is.
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

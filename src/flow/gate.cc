#include "flow/gate.h"

namespace rota::flow::detail {

using fiber::detail::Fiber;
using fiber::detail::WakeReason;

void Gate::open() {
  lock_.lock();
  opened_.value.store(1, std::memory_order_release);  // Partner: is_open(), wait().
  Fiber* waiter = waiter_;
  waiter_ = nullptr;
  const bool claimed = waiter != nullptr && claim_wake(waiter, WakeReason::kDone);
  lock_.unlock();
  if (claimed) {
    schedule(nullptr, waiter);  // It goes to its own runtime.
  } else {
    opened_.wake_all();
  }
}

// On the stack that runs next.
bool Gate::publish(fiber::detail::Worker* /*worker*/, void* argument) {
  Gate& gate = *static_cast<Gate*>(argument);
  gate.lock_.lock();
  const bool waits = gate.opened_.value.load(std::memory_order_relaxed) == 0;
  if (waits) gate.waiter_ = gate.arriving_;
  gate.lock_.unlock();
  return waits;
}

bool Gate::wait_outside(std::chrono::nanoseconds limit) {
  if (fiber::detail::current_worker() != nullptr) return true;
  while (!is_open()) {
    if (!opened_.wait(0, limit)) return is_open();
  }
  return true;
}

bool Gate::wait() {
  if (is_open()) return true;
  fiber::detail::Worker* worker = fiber::detail::current_worker();
  if (worker == nullptr) {
    while (!is_open()) opened_.wait(0);
    return true;
  }
  arriving_ = worker->fiber;
  if (park(worker, &publish, this, true, "a task of a scheduler") != WakeReason::kCancelled) return true;
  lock_.lock();
  waiter_ = nullptr;
  lock_.unlock();
  return false;
}

}  // namespace rota::flow::detail

// Gate: something that happens once, and one who waits for it, as a fiber or as a thread.
//
// Shared by both sides (std::shared_ptr), so that neither cares who is gone first.
//
// A fiber that waits is published under lock_, and whoever opens the gate claims it under lock_ and queues it after.
// A fiber that was cancelled instead takes itself back under lock_; whoever opens the gate then finds nobody, or
// failed to claim it. So no fiber is touched that has gone on.
#pragma once

#include <chrono>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::flow::detail {

class Gate {
 public:
  // Any thread; more than once is as good as once.
  void open();
  // Waits until it is open. False if the caller is a fiber and its task was cancelled first.
  // REQUIRES: one caller at a time.
  [[nodiscard]] bool wait();
  // For a thread: false if it is not open within `limit`. A fiber does not wait here: true.
  [[nodiscard]] bool wait_outside(std::chrono::nanoseconds limit);
  [[nodiscard]] bool is_open() const { return opened_.value.load(std::memory_order_acquire) != 0; }  // Partner: open().

 private:
  static bool publish(fiber::detail::Worker* worker, void* gate);

  fiber::detail::SpinLock lock_;
  sync::Futex opened_{0};  // Written under lock_.
  fiber::detail::Fiber* waiter_ = nullptr;
  fiber::detail::Fiber* arriving_ = nullptr;
};

}  // namespace rota::flow::detail

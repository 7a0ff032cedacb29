// Waiting for descriptors: one epoll for the runtime, watched by an idle worker, or looked at now and then by busy
// ones.
//
// Thread safety: poll() by one thread at a time blocks, others may poll(0) meanwhile; the rest from any thread.
#pragma once

#include <cstdint>

#include "fiber/timers.h"
#include "rota/detail/sync.h"

namespace rota::fiber::detail {

class Reactor {
 public:
  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // Is any descriptor watched?
  [[nodiscard]] bool active() const { return watched_.load(std::memory_order_relaxed) > 0; }
  // Waits up to `timeout_ns` (0: not at all; kNever: until rung) and wakes the fibers whose descriptors are ready.
  // Returns how many were woken.
  std::uint32_t poll(Nanoseconds timeout_ns);
  // Ends a blocking poll().
  void ring();

 private:
  int epoll_ = -1;
  int bell_ = -1;
  sync::Atomic<std::uint64_t> watched_{0};
};

}  // namespace rota::fiber::detail

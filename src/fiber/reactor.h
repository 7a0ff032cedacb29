// Waits for descriptors: one epoll per runtime, on which an idle thread worker sleeps and which busy ones check
// regularly.
//
// A descriptor is added to epoll once, edge-triggered and for both directions, when a fiber first has to wait for it;
// an event identifies a slot (io_slot.h) and its generation. An event only means "try again", so a superfluous one is
// harmless.
//
// Who polls, and why readiness is noticed:
//   - the poller: one idle thread worker sleeps in poll(timeout) instead of on its seat (worker.cc);
//   - every thread worker that searches for work, and each one at every 64th dispatch, calls poll(0).
// A fiber that begins to wait increments `waiters_`, then checks whether there is a poller, and if there is none wakes
// a sleeper to become it; a thread worker that goes to sleep counts itself as a sleeper, then checks `waiters_`. Both
// are seq_cst: at least one of the two sees the other.
//
// The bell wakes the poller when it is chosen for work, when an earlier timer is added, or at the end. It is
// level-triggered and reset only by the poller: if it were edge-triggered, another thread worker's poll(0) could
// consume it, and the poller would sleep although it had been chosen.
//
// Thread safety: one thread at a time may block in poll(), others may call poll(0) meanwhile; the rest from any thread.
#pragma once

#include <cstdint>

#include "fiber/timers.h"
#include "rota/detail/sync.h"

namespace rota::fiber::detail {

struct IoSlot;

class Reactor {
 public:
  explicit Reactor(RuntimeCore* runtime);
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // True if a fiber waits for a descriptor.
  [[nodiscard]] bool active() const { return waiters_.load(std::memory_order_seq_cst) > 0; }
  // Waits up to `timeout_ns` (0: not at all; kNever: until rung) and wakes the fibers whose descriptors are ready.
  // Returns the number of woken fibers. With 0 it returns at once if another thread is in poll(0).
  std::uint32_t poll(Nanoseconds timeout_ns);
  // Ends a blocking poll().
  void ring();

  // Called around each wait. begin_wait() makes sure that a thread worker will poll.
  void begin_wait();
  void end_wait() { waiters_.fetch_sub(1, std::memory_order_relaxed); }

  // Adds the slot's descriptor to epoll. Returns 0 or an errno. REQUIRES: slot->lock, and a use of the slot.
  int watch(IoSlot* slot);
  // REQUIRES: slot->lock, and the descriptor is still open.
  void unwatch(IoSlot* slot);

 private:
  int wait(void* events, Nanoseconds timeout_ns);

  RuntimeCore* runtime_;
  int epoll_ = -1;
  int bell_ = -1;
  bool nanoseconds_ = true;  // The kernel has epoll_pwait2.
  alignas(sync::kCacheLineBytes) sync::Atomic<std::uint64_t> waiters_{0};
  sync::Atomic<bool> looking_{false};  // A thread is in poll(0).
};

}  // namespace rota::fiber::detail

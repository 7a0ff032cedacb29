// Waiting for descriptors: one epoll for the runtime, watched by an idle worker, or looked at now and then by busy
// ones.
//
// A descriptor is given to epoll once, edge-triggered and for both directions, when somebody first has to wait for it;
// an event says which slot (io_slot.h) and which generation of it. What is ready is found out by trying: an event only
// ever means "try again", so that one too many is harmless.
//
// Who looks, and why readiness is noticed:
//   - the poller: one idle worker sleeps in poll(timeout) rather than on its seat (sleep_until_chosen(), worker.cc);
//   - every worker that searches for work, and every worker each 64th dispatch, calls poll(0).
// A fiber that begins to wait raises `waiters_`, then looks whether there is a poller, and wakes a sleeper to be it if
// there is none; a worker that goes to sleep counts itself as a sleeper, then looks at `waiters_`. Both are seq_cst: at
// least one of the two sees the other.
//
// The bell wakes the poller when it is chosen for work, when an earlier timer was added, or at the end. It is level-
// triggered and emptied by the poller alone: were it an edge, another worker's poll(0) could take it away, and the
// poller would sleep on although it had been chosen.
//
// Thread safety: poll() by one thread at a time blocks, others may poll(0) meanwhile; the rest from any thread.
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

  [[nodiscard]] RuntimeCore* runtime() const { return runtime_; }

  // Does any fiber wait for a descriptor?
  [[nodiscard]] bool active() const { return waiters_.load(std::memory_order_seq_cst) > 0; }
  // Waits up to `timeout_ns` (0: not at all; kNever: until rung) and wakes the fibers whose descriptors are ready.
  // Returns how many were woken. With 0 it returns at once if another thread is polling with 0 just now.
  std::uint32_t poll(Nanoseconds timeout_ns);
  // Ends a blocking poll().
  void ring();

  // Around each wait. `begin_wait` makes sure that somebody will look.
  void begin_wait();
  void end_wait() { waiters_.fetch_sub(1, std::memory_order_relaxed); }

  // Makes epoll know the slot's descriptor. Returns 0 or an errno. REQUIRES: slot->lock, and a use of the slot.
  int watch(IoSlot* slot);
  // REQUIRES: slot->lock, and the descriptor still open.
  void unwatch(IoSlot* slot);

 private:
  int wait(void* events, Nanoseconds timeout_ns);

  RuntimeCore* runtime_;
  int epoll_ = -1;
  int bell_ = -1;
  bool nanoseconds_ = true;  // The kernel has epoll_pwait2.
  alignas(sync::kCacheLineBytes) sync::Atomic<std::uint64_t> waiters_{0};
  sync::Atomic<bool> looking_{false};  // Somebody is in poll(0).
};

}  // namespace rota::fiber::detail

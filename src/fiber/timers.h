// The runtime's timers: a four-way heap of timers that are stored in their users' frames.
//
// A timer fires once, on the thread worker that polls next after its time, by calling fire(timer) outside the lock.
// remove() returns only when the timer will not fire any more and is not firing: then its memory may be released.
// Timers with equal times fire in the order in which they were added, so virtual time is deterministic.
//
// Thread safety: all members, from any thread; fire callbacks must not block and must not add() under a lock that they
// take in fire.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

using Nanoseconds = std::int64_t;  // Since the clock's start.
inline constexpr Nanoseconds kNever = INT64_MAX;

struct Timer {
  Nanoseconds at = kNever;
  void (*fire)(Timer*) = nullptr;
  void* context = nullptr;
  std::uint64_t sequence = 0;
  std::size_t index = 0;  // Index in the heap, or one of the marks below.
  Timer* next = nullptr;  // Link of the list of timers for which the heap had no memory.
  static constexpr std::size_t kIdle = SIZE_MAX;
  static constexpr std::size_t kFiring = SIZE_MAX - 1;
  static constexpr std::size_t kListed = SIZE_MAX - 2;
  sync::Atomic<bool> done{true};  // False from add() until removed or fired.
};

class Timers {
 public:
  // Returns true if it is now the earliest: a thread that sleeps until the previous earliest must be woken.
  bool add(Timer* timer);
  // True if it was removed before it fired.
  bool remove(Timer* timer);
  // Fires all timers due at `now`. Returns their number.
  std::uint32_t fire_due(Nanoseconds now);
  // When the earliest timer is due, or kNever. One relaxed load.
  [[nodiscard]] Nanoseconds next() const { return next_.load(std::memory_order_seq_cst); }
  [[nodiscard]] std::size_t size();

 private:
  static bool before(const Timer* a, const Timer* b) {
    return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
  }
  void put(std::size_t index, Timer* timer) {
    heap_[index] = timer;
    timer->index = index;
  }
  void up(std::size_t index);
  void down(std::size_t index);
  void take_out(std::size_t index);
  void publish_next();
  // The timer that is due first, or null.
  [[nodiscard]] Timer* first() const;
  void unlist(Timer* timer);

  SpinLock lock_;
  std::vector<Timer*> heap_;
  Timer* listed_ = nullptr;  // A wait that has begun cannot fail: without memory for the heap its timer goes here.
  std::uint64_t sequence_ = 0;
  sync::Atomic<Nanoseconds> next_{kNever};
};

}  // namespace rota::fiber::detail

// A pair of fences that is free on the frequent side, and a lock for a few instructions.
#pragma once

#include <atomic>
#include <cstdint>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/context.h"

namespace rota::fiber::detail {

// light_fence() only prevents the compiler from reordering; heavy_fence() makes every other thread of the process
// execute a full fence (membarrier). If one thread does a store, light_fence() and a load, and another a store,
// heavy_fence() and a load, at least one of the two loads sees the other's store. Where the kernel has no membarrier,
// every thread worker takes the paths with full fences (kHookFence). Under ThreadSanitizer and the interleaving checker
// both are full fences.
#if defined(ROTA_INTERLEAVE) && ROTA_INTERLEAVE
inline void light_fence() { sync::fence(std::memory_order_seq_cst); }
inline void heavy_fence() { sync::fence(std::memory_order_seq_cst); }
#elif ROTA_TSAN
inline void light_fence() { sync::fence(std::memory_order_seq_cst); }
void heavy_fence();
#else
inline void light_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
void heavy_fence();
#endif
// Prepares the process for heavy_fence(). False if the kernel has no membarrier.
bool enable_heavy_fence();

// A lock held for a few dozen instructions, never across a wait, except that a wait may pass it to the stack that runs
// next, which releases it. It spins, then yields its time slice, because with more thread workers than cores the holder
// may not be running.
class SpinLock {
 public:
  void lock() {
    if (word_.exchange(1, std::memory_order_acquire) == 0) [[likely]]
      return;
    lock_slow();
  }
  bool try_lock() { return word_.exchange(1, std::memory_order_acquire) == 0; }
  void unlock() { word_.store(0, std::memory_order_release); }  // Partner: lock().

 private:
  void lock_slow();
  sync::Atomic<std::uint32_t> word_{0};
};

}  // namespace rota::fiber::detail

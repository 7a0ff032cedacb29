// A lock that costs its owner no locked instruction until another thread wants it.
//
// The owner is a thread worker, in practice the only one of its runtime. It runs its tasks one at a time, and none of
// them yields with the lock held (a wait that takes the lock along releases it before anything else runs), so tasks
// need no exclusion between them. Other threads must be excluded: plain ones, or those of another runtime. The first of
// them revokes the bias permanently, and from then on this is a SpinLock for everybody.
//
// Invariant: once a thread has seen state kShared, the owner is not inside by its fast path, and never will be again.
//   The owner enters: busy = 1, light_fence, state must be kOwned; otherwise it resets busy and takes the slow path.
//   Others: state = kRevoking, heavy_fence, wait until busy == 0, state = kShared; then the spin lock.
//   By the fences, if the owner still found kOwned, the others see its busy == 1 and wait; any later entry finds
//   kRevoking. Several threads may revoke at once; each does all the steps, because kRevoking alone proves nothing.
//
// The owner is identified by its address. If the only thread worker of another runtime is later allocated there, it is
// the owner; there is still only one.
#pragma once

#include <cstdint>

#include "fiber/wait_word.h"
#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

class BiasedLock {
 public:
  // `owner` may be null. It owns the lock if nobody steals from it, so that other threads are rare, and if membarrier
  // is available.
  explicit BiasedLock(const ThreadWorker* owner)
      : owner_(owner != nullptr && owner->solo && (owner->hooks & kHookFence) == 0 ? owner : nullptr) {}
  BiasedLock(const BiasedLock&) = delete;
  BiasedLock& operator=(const BiasedLock&) = delete;

  void lock() { lock_as(current_worker()); }
  void lock_as(const ThreadWorker* worker) {
    if (worker == owner_ && worker != nullptr) [[likely]] {
      busy_.store(1, std::memory_order_relaxed);
      light_fence();  // Partner: lock_shared()'s heavy_fence().
      if (state_.load(std::memory_order_relaxed) == kOwned) [[likely]] {
        owned_ = true;
        return;
      }
      busy_.store(0, std::memory_order_release);
    }
    lock_shared();
  }
  void unlock() {
    if (owned_) {
      owned_ = false;
      busy_.store(0, std::memory_order_release);  // Partner: lock_shared()'s acquire.
    } else {
      spin_.unlock();
    }
  }

 private:
  static constexpr std::uint32_t kOwned = 0;
  static constexpr std::uint32_t kRevoking = 1;
  static constexpr std::uint32_t kShared = 2;

  void lock_shared() {
    // Acquire, partner: the release of the thread that revoked the bias: the owner's writes are visible.
    if (owner_ != nullptr && state_.load(std::memory_order_acquire) != kShared) [[unlikely]]
      revoke();
    spin_.lock();
  }
  [[gnu::noinline]] void revoke() {
    std::uint32_t owned = kOwned;
    state_.compare_exchange_strong(owned, kRevoking, std::memory_order_relaxed);
    heavy_fence();  // Partner: lock_as()'s light_fence().
    for (ShortWait pause; busy_.load(std::memory_order_acquire) != 0;) pause.round();
    state_.store(kShared, std::memory_order_release);
  }

  const ThreadWorker* const owner_;
  sync::Atomic<std::uint32_t> busy_{0};  // Written only by the owner.
  sync::Atomic<std::uint32_t> state_{kOwned};
  SpinLock spin_;
  bool owned_ = false;  // Under the lock: the owner holds it, without spin_.
};

}  // namespace rota::fiber::detail

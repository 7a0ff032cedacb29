// A lock that costs its owner no locked instruction until somebody else wants it.
//
// The owner is a worker, in practice the only one of its runtime. The tasks that it runs, it runs one at a time, and
// none of them gives way with the lock held (a wait that takes it along releases it before anything else runs): between
// them there is nothing to exclude. What must be excluded are other threads: from outside, or another runtime's. The
// first of them revokes the bias, for ever, and from then on it is a SpinLock for all.
//
// Invariant: once a thread has seen state kShared, the owner is not inside by its own way, and never will be.
//   The owner enters: busy = 1, light_fence, state must be kOwned, else it takes back busy and goes the other way.
//   Others: state = kRevoking, heavy_fence, wait until busy == 0, state = kShared; then the spin lock.
//   By the fences, an owner who still found kOwned has its busy == 1 seen by the others, who wait; any later one finds
//   kRevoking. Several may revoke at once; each does all the steps, because kRevoking alone says nothing yet.
//
// The owner is compared by address. Should another runtime's only worker come to live there, it is the owner: there is
// still only one.
#pragma once

#include <cstdint>

#include "fiber/wait_word.h"
#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

class BiasedLock {
 public:
  // `owner` may be null. It owns the lock if nobody steals from it, so that others are rare, and fences are to be had.
  explicit BiasedLock(const Worker* owner)
      : owner_(owner != nullptr && owner->solo && (owner->hooks & kHookFence) == 0 ? owner : nullptr) {}
  BiasedLock(const BiasedLock&) = delete;
  BiasedLock& operator=(const BiasedLock&) = delete;

  void lock() { lock_as(current_worker()); }
  void lock_as(const Worker* worker) {
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
    // Acquire, partner: the release of whoever revoked it: what the owner did is seen.
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

  const Worker* const owner_;
  sync::Atomic<std::uint32_t> busy_{0};  // Written by the owner alone.
  sync::Atomic<std::uint32_t> state_{kOwned};
  SpinLock spin_;
  bool owned_ = false;  // Under the lock: it is held by the owner, without spin_.
};

}  // namespace rota::fiber::detail

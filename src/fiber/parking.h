// The parking lot: where thread workers without work sleep, and which one is woken when there is some.
//
// Every thread worker is working, searching or sleeping. `word` counts sleepers (low half) and searchers (high half).
//
// Protocol, and why no wake-up is lost:
//   A pusher makes work visible, then light_fence(), then reads `word`. If it sees a searcher it does nothing; if it
//   sees none, and a sleeper, it wakes one. A searcher that gives up becomes a sleeper in one step (begin_sleep), then
//   heavy_fence(), then checks every queue once more, and only then sleeps. Either the pusher's read of `word` comes
//   after that step in the fences' order, and then it sees the sleeper and no searcher in its place, or the second
//   check comes after the push and finds the work. A pusher that saw a searcher and did nothing is covered by that
//   searcher: it will find the work, or give up as above. A searcher that finds work stops searching; if it was the
//   last one it wakes another (end_search), because pushes made while it searched relied on it. The woken thread worker
//   counts as a searcher from the moment it is chosen, so a burst of pushes wakes one at a time.
//
// A seat's token is set by the thread that removed the sleeper from the list, exactly once each time it was on it.
// Bounds: one seat per thread worker; the list never contains a thread worker twice.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rota/assert.h"
#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

class ParkingLot {
 public:
  explicit ParkingLot(std::uint32_t workers) : seats_(workers) { list_.reserve(workers); }

  sync::Atomic<std::uint64_t>& word() { return word_; }

  void begin_search() { word_.fetch_add(kSearcher, std::memory_order_seq_cst); }
  // Work was found. True if the caller must wake_one(): it was the last searcher, and others sleep.
  bool end_search() {
    const std::uint64_t before = word_.fetch_sub(kSearcher, std::memory_order_seq_cst);
    return searchers(before) == 1 && sleepers(before) > 0;
  }
  // A searcher takes its seat. The caller then checks every queue once more and calls sleep() or leave().
  void begin_sleep(std::uint32_t worker) {
    lock_.lock();
    seats_[worker].token.value.store(0, std::memory_order_relaxed);
    list_.push_back(worker);
    word_.fetch_add(kSleeper - kSearcher, std::memory_order_seq_cst);
    lock_.unlock();
    heavy_fence();  // Partner: the pushers' light_fence().
  }
  // Leaves the seat without having slept. True if it was not chosen: it is neither sleeper nor searcher now. False if
  // it was chosen: it is a searcher.
  bool leave(std::uint32_t worker) {
    lock_.lock();
    for (std::size_t i = list_.size(); i-- > 0;) {
      if (list_[i] != worker) continue;
      list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(i));
      word_.fetch_sub(kSleeper, std::memory_order_seq_cst);
      lock_.unlock();
      return true;
    }
    lock_.unlock();
    return false;
  }
  // Sleeps until chosen; the caller is then a searcher.
  void sleep(std::uint32_t worker) {
    sync::Futex& token = seats_[worker].token;
    // Acquire, partner: wake_one()'s release.
    while (token.value.load(std::memory_order_acquire) == 0) token.wait(0);
  }
  // The same for at most `limit`. False if it was not chosen within that time: the caller then calls leave().
  bool sleep_for(std::uint32_t worker, std::chrono::nanoseconds limit) {
    sync::Futex& token = seats_[worker].token;
    while (token.value.load(std::memory_order_acquire) == 0) {
      if (!token.wait(0, limit)) return token.value.load(std::memory_order_acquire) != 0;
    }
    return true;
  }
  [[nodiscard]] bool chosen(std::uint32_t worker) const {
    return seats_[worker].token.value.load(std::memory_order_seq_cst) != 0;
  }

  // Wakes the thread worker that fell asleep last, unless one is searching. `ring(worker)` is called because it may
  // wait in epoll_wait instead of on its token. Returns false if there was nobody to wake.
  template <class Ring>
  bool wake_one(Ring&& ring, bool even_if_searching = false) {
    return wake_one(ring, even_if_searching, [](std::uint32_t) { return true; });
  }
  // The same among those for which eligible(worker) is true.
  template <class Ring, class Eligible>
  bool wake_one(Ring&& ring, bool even_if_searching, const Eligible& eligible) {
    lock_.lock();
    const std::uint64_t now = word_.load(std::memory_order_seq_cst);
    std::size_t at = list_.size();
    if (even_if_searching || searchers(now) == 0) {
      while (at > 0 && !eligible(list_[at - 1])) --at;
    } else {
      at = 0;
    }
    if (at == 0) {
      lock_.unlock();
      return false;
    }
    const std::uint32_t worker = list_[at - 1];
    list_.erase(list_.begin() + static_cast<std::ptrdiff_t>(at - 1));
    word_.fetch_add(kSearcher - kSleeper, std::memory_order_seq_cst);
    // Under the lock: the thread worker may have left its seat and take it again, and must not find an old token.
    // seq_cst, partner: chosen(): a thread worker that becomes the poller is rung, or sees this.
    seats_[worker].token.value.store(1, std::memory_order_seq_cst);
    lock_.unlock();
    seats_[worker].token.wake_one();
    ring(worker);
    return true;
  }

  static std::uint64_t sleepers(std::uint64_t word) { return word & 0xffffffffU; }
  static std::uint64_t searchers(std::uint64_t word) { return word >> 32; }

 private:
  static constexpr std::uint64_t kSleeper = 1;
  static constexpr std::uint64_t kSearcher = std::uint64_t{1} << 32;

  struct Seat {
    alignas(sync::kCacheLineBytes) sync::Futex token;
  };

  alignas(sync::kCacheLineBytes) sync::Atomic<std::uint64_t> word_{0};
  alignas(sync::kCacheLineBytes) SpinLock lock_;
  std::vector<std::uint32_t> list_;  // The sleepers, in the order in which they fell asleep. Under lock_.
  std::vector<Seat> seats_;
};

}  // namespace rota::fiber::detail

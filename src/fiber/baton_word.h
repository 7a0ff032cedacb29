// The state word of a Baton, and every step that is made on it. baton_interleave_test.cc runs exactly these steps under
// the interleaving checker.
//
//   Empty ──announce──► ThreadWaits ──post──► Posted
//     │  ◄──withdraw──        │
//     ├─announce──► FiberWaits ──post──► Posted ──claim failed──► Released
//     │  ◄──withdraw──
//     └─────────────────post────────────► Posted
//
// Invariants: the state never leaves {Posted, Released}; the step to Posted is made once, so exactly one post() owns
// the wake-up; only the waiter writes `fiber`, before it announces itself, and post() reads it only after it found
// FiberWaits.
//
// No wake-up is lost. Announcing and posting are read-modify-write steps on one word, so one comes first. If the
// announcement comes first, post() finds ThreadWaits or FiberWaits and wakes that waiter. If post() comes first, the
// announcement fails and the waiter does not sleep. A thread sleeps only while the state is ThreadWaits: the kernel
// compares and sleeps in one step, so a post() between the announcement and the sleep is seen too.
//
// Lifetime. The waiter may return, and its frame with the baton be gone, as soon as it can see Posted, or as soon as
// its fiber is scheduled. Therefore:
//   Empty        post() touches nothing after its step.
//   ThreadWaits  After its step post() only passes the word's address to the kernel and does not dereference it. If
//   that
//                memory has become another futex, its waiter wakes spuriously, which every user of a futex expects.
//   FiberWaits   After its step post() reads `fiber` and claims the wait. If it gets the claim, the fiber stays parked
//                until post() schedules it, and post() touches neither baton nor fiber afterwards. If the fiber was
//                woken by its timer or by cancellation, the claim fails; the fiber then finds Posted when it withdraws,
//                and does not return before post() has made its last step, to Released.
//
// Orderings: each step is acq_rel and pairs with the other side's step. post()'s step and the Released store release
// what the caller did before; the waiter's load of Posted or Released acquires it. The announcement releases `fiber` to
// post()'s step.
#pragma once

#include <cstdint>

#include "fiber/baton.h"
#include "fiber/wait_word.h"

namespace rota::fiber::detail {

inline constexpr std::uint32_t kBatonEmpty = 0;
inline constexpr std::uint32_t kBatonThreadWaits = 1;
inline constexpr std::uint32_t kBatonFiberWaits = 2;
inline constexpr std::uint32_t kBatonPosted = 3;
inline constexpr std::uint32_t kBatonReleased = 4;

inline bool baton_posted(const BatonWord& baton) {
  return baton.state.value.load(std::memory_order_acquire) >= kBatonPosted;  // Partner: post_baton(), release_baton().
}

// The waiter is a thread that will sleep on `state` while it is ThreadWaits. False: posted already.
inline bool announce_thread(BatonWord& baton) {
  std::uint32_t empty = kBatonEmpty;
  return baton.state.value.compare_exchange_strong(empty, kBatonThreadWaits, std::memory_order_acq_rel);
}
// The waiter's time ran out. False: posted meanwhile.
inline bool withdraw_thread(BatonWord& baton) {
  std::uint32_t waits = kBatonThreadWaits;
  return baton.state.value.compare_exchange_strong(waits, kBatonEmpty, std::memory_order_acq_rel);
}

// The waiter is `fiber`, which has switched away. False: posted already.
inline bool announce_fiber(BatonWord& baton, Fiber* fiber) {
  baton.fiber.set(fiber);
  std::uint32_t empty = kBatonEmpty;
  return baton.state.value.compare_exchange_strong(empty, kBatonFiberWaits, std::memory_order_acq_rel);
}
// The fiber was woken for another reason. False: posted meanwhile, and post() is done with the fiber.
// REQUIRES: announce_fiber() was true.
inline bool withdraw_fiber(BatonWord& baton) {
  std::uint32_t waits = kBatonFiberWaits;
  if (baton.state.value.compare_exchange_strong(waits, kBatonEmpty, std::memory_order_acq_rel)) return true;
  // Acquire, partner: release_baton(). post() needs a few instructions to get there.
  for (ShortWait pause; baton.state.value.load(std::memory_order_acquire) != kBatonReleased;) pause.round();
  return false;
}

// Makes the baton posted and returns the state before: whom the caller must wake. Posted: nobody, another did it.
inline std::uint32_t post_baton(BatonWord& baton) {
  std::uint32_t before = baton.state.value.load(std::memory_order_relaxed);
  do {
    if (before >= kBatonPosted) return kBatonPosted;
  } while (!baton.state.value.compare_exchange_weak(before, kBatonPosted, std::memory_order_acq_rel,
                                                    std::memory_order_relaxed));
  return before;
}
// post() found a fiber and could not claim its wait: from here on it does not touch baton or fiber.
// REQUIRES: post_baton() returned FiberWaits.
inline void release_baton(BatonWord& baton) {
  baton.state.value.store(kBatonReleased, std::memory_order_release);  // Partner: withdraw_fiber(), baton_posted().
}

}  // namespace rota::fiber::detail

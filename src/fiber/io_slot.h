// One record for each descriptor that this process gave to the runtime: who is in a system call on it, who waits for
// it.
//
// Three races end here.
//
// A number that is used again. The kernel gives a closed descriptor's number to the next open. A fiber that has read
// the number but not yet made its system call would then read from a stranger's file. So every system call is made
// between begin_use() and end_use(), close marks the slot closed, and the last user out calls ::close(): the number
// cannot be given away while anybody is about to use it. A fiber that is parked is no user; it must begin_use() again
// when it wakes, and then finds out.
//
// A slot that is used again. Slots are never freed, so a stale handle or a stale event finds a slot, and the generation
// in `state`, which changes at each close, tells it that this is not its descriptor any more. (A handle would have to
// sleep through 2^32 closes of the same slot to be fooled; an event, between two lines of Reactor::poll().)
//
// Readiness, timeout, cancellation and close at once. A waiter queues itself under `lock` and parks with the lock held;
// it is visible when the lock is released. Whoever ends the wait holds the lock (readiness, close), or the right to the
// fiber alone (timeout, cancellation: claim_wake() and cancel_wake() let exactly one win). Readiness and close take the
// waiter out of the queue; one that was woken otherwise takes itself out, under the lock, before its frame goes. So
// nobody finds a waiter that is gone.
//
// Why readiness is not missed, with an epoll that reports edges: the waiter reads `tick` before its system call, and
// under the lock, when it queues itself, compares it. What became ready after the system call said EAGAIN is an edge
// that either has been counted (the tick differs: try again) or is counted later (and finds the waiter queued).
//
// Thread safety: all functions, from any thread. They are the only ones to touch a slot.
#pragma once

#include <cstdint>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

class Reactor;

enum class Direction : std::uint8_t { kRead, kWrite };

// Lives in the frame of a fiber that waits.
struct IoWaiter {
  Fiber* fiber = nullptr;
  IoWaiter* next = nullptr;
  IoWaiter* previous = nullptr;
  bool queued = false;
};

struct IoQueue {
  IoWaiter* first = nullptr;

  void add(IoWaiter* waiter);
  void remove(IoWaiter* waiter);
};

struct alignas(sync::kCacheLineBytes) IoSlot {
  // generation << 32 | kClosed | users. A slot without a descriptor is closed and has no users.
  sync::Atomic<std::uint64_t> state{kClosed};
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 31;
  static constexpr std::uint64_t kUsers = kClosed - 1;

  int fd = -1;                                // Constant between begin_use() and end_use().
  std::uint32_t index = 0;                    // Constant.
  SpinLock lock;                              // For `reactor`, `waiting` and changes of `tick`.
  bool socket = false;                        // Constant as fd is.
  sync::Atomic<std::uint32_t> tick[2]{0, 0};  // Edges seen, by Direction.
  Reactor* reactor = nullptr;                 // Whose epoll knows the descriptor, or null.
  IoQueue waiting[2];                         // By Direction.
  IoSlot* next_free = nullptr;                // Under the table's lock.

  [[nodiscard]] bool is(std::uint32_t generation) const {
    const std::uint64_t now = state.load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(now >> 32) == generation && (now & kClosed) == 0;
  }
  [[nodiscard]] std::uint32_t generation() const {
    return static_cast<std::uint32_t>(state.load(std::memory_order_relaxed) >> 32);
  }
};
static_assert(sizeof(IoSlot) == sync::kCacheLineBytes);

// A slot for `fd`, or null if there are kMaxSlots descriptors already.
inline constexpr std::uint32_t kSlotsInChunk = 256;
inline constexpr std::uint32_t kMaxChunks = 16384;
inline constexpr std::uint32_t kMaxSlots = kSlotsInChunk * kMaxChunks;
IoSlot* take_slot(int fd, bool socket);
// REQUIRES: an index that take_slot() gave out.
IoSlot* slot_at(std::uint32_t index);

// False if the descriptor of that generation is closed.
[[nodiscard]] bool begin_use(IoSlot* slot, std::uint32_t generation);
// The last use of a closed descriptor closes it. Returns the errno of that, or 0.
int end_use(IoSlot* slot);

// Wakes all who wait, takes the descriptor out of its epoll, and closes it as soon as no system call uses it. Returns
// the errno of ::close(), 0, or -1 if it was closed already.
int close_slot(IoSlot* slot, std::uint32_t generation);
// The same, but the descriptor stays open: returns it, or -1 if it was closed already. REQUIRES: nobody else uses it.
int release_slot(IoSlot* slot, std::uint32_t generation);

// `directions` are ready: counts the edge and wakes who waits. Returns how many were woken.
std::uint32_t wake_waiters(RuntimeCore* runtime, IoSlot* slot, std::uint32_t generation, bool readable, bool writable);

// A reactor goes away with its runtime: no slot may remember it.
void forget_reactor(const Reactor* reactor);

}  // namespace rota::fiber::detail

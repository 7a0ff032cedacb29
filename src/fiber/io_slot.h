// One IoSlot per descriptor that the runtime manages: which threads are in a system call on it, and who waits for it.
//
// It solves three races.
//
// Reuse of a number. The kernel gives the number of a closed descriptor to the next open. A fiber that has read the
// number but not yet made its system call would then access another file. Therefore every system call is made between
// begin_use() and end_use(), close marks the slot closed, and the last user calls ::close(): the number cannot be
// reused while somebody is about to use it. A parked fiber is not a user; it must call begin_use() again when it
// resumes, which tells it about the close.
//
// Reuse of a slot. Slots are never freed, so a stale handle or a stale event finds a slot; the generation in `state`,
// which changes at each close, tells it that this is not its descriptor any more. (A handle would have to miss 2^32
// closes of the same slot to be wrong; an event, between two lines of Reactor::poll().)
//
// Readiness, timeout, cancellation and close at once. A waiter queues itself under `lock` and parks with the lock held;
// it is visible when the lock is released. The thread that ends the wait holds the lock (readiness, close), or has only
// claimed the fiber (timeout, cancellation: claim_wake() and cancel_wake() let exactly one succeed). Readiness and
// close remove the waiter from the queue; a waiter that was woken otherwise removes itself, under the lock, before its
// frame ends. So nobody finds a waiter that is gone.
//
// Why readiness is not missed, with an edge-triggered epoll: the waiter reads `tick` before its system call, and
// compares it under the lock when it queues itself. If the descriptor became ready after the system call returned
// EAGAIN, that edge has either been counted (the tick differs: try again) or will be counted later (and finds the
// waiter queued).
//
// Thread safety: all functions, from any thread. Only they access a slot.
#pragma once

#include <cstdint>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

class Reactor;

enum class Direction : std::uint8_t { kRead, kWrite };

// Lives in the frame of a waiting fiber.
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
  bool socket = false;                        // Constant while fd is.
  sync::Atomic<std::uint32_t> tick[2]{0, 0};  // Number of edges, by Direction.
  Reactor* reactor = nullptr;                 // The reactor whose epoll has the descriptor, or null.
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

// A slot for `fd`, or null if kMaxSlots descriptors exist.
inline constexpr std::uint32_t kSlotsInChunk = 256;
inline constexpr std::uint32_t kMaxChunks = 16384;
inline constexpr std::uint32_t kMaxSlots = kSlotsInChunk * kMaxChunks;
IoSlot* take_slot(int fd, bool socket);
// REQUIRES: an index that take_slot() returned.
IoSlot* slot_at(std::uint32_t index);

// False if the descriptor of that generation is closed.
[[nodiscard]] bool begin_use(IoSlot* slot, std::uint32_t generation);
// The last use of a closed descriptor closes it. Returns the errno of that, or 0.
int end_use(IoSlot* slot);

// Wakes all waiters, removes the descriptor from its epoll, and closes it as soon as no system call uses it. Returns
// the errno of ::close(), 0, or -1 if it was already closed.
int close_slot(IoSlot* slot, std::uint32_t generation);
// The same, but the descriptor stays open: returns it, or -1 if it was already closed. REQUIRES: nobody else uses it.
int release_slot(IoSlot* slot, std::uint32_t generation);

// `directions` are ready: counts the edge and wakes the waiters. Returns the number of woken fibers.
std::uint32_t wake_waiters(IoSlot* slot, std::uint32_t generation, bool readable, bool writable);

// Makes the table of slots, so that forget_reactor() needs no memory. Throws std::bad_alloc.
void prepare_slots();
// A reactor is destroyed with its runtime: removes it from all slots. REQUIRES: prepare_slots().
void forget_reactor(const Reactor* reactor);

}  // namespace rota::fiber::detail

#include "fiber/io_slot.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "base/sync.h"
#include "fiber/reactor.h"
#include "fiber/runtime_core.h"
#include "rota/assert.h"

namespace rota::fiber::detail {

namespace {

// The slots of the process. Chunks are allocated on demand and never freed: descriptors may outlive every runtime.
struct SlotTable {
  sync::Mutex mutex;
  IoSlot* free ROTA_GUARDED_BY(mutex) = nullptr;
  std::uint32_t made ROTA_GUARDED_BY(mutex) = 0;
  std::array<sync::Atomic<IoSlot*>, kMaxChunks> chunks{};
};

SlotTable& table() {
  static auto* slots = new SlotTable;  // Never destroyed: the user's static objects may hold descriptors.
  return *slots;
}

// Resets a slot after its last user has left. The slot may serve another descriptor at once.
int finish_close(IoSlot* slot, std::uint64_t state) {
  const int fd = slot->fd;
  slot->fd = -1;
  // Linux releases the number even if close() reports an error, also for EINTR.
  const int error = fd >= 0 && ::close(fd) != 0 && errno != EINTR ? errno : 0;
  slot->state.store((((state >> 32) + 1) << 32) | IoSlot::kClosed, std::memory_order_release);
  SlotTable& slots = table();
  const sync::MutexLock lock(slots.mutex);
  slot->next_free = slots.free;
  slots.free = slot;
  return error;
}

// Removes all waiters of one direction; those that this caller could claim are put in front of `woken`.
IoWaiter* take_waiters(IoQueue& queue, IoWaiter* woken) {
  for (IoWaiter* waiter = queue.first; waiter != nullptr;) {
    IoWaiter* next = waiter->next;
    waiter->queued = false;
    // One that was cancelled or timed out is already on its way. Otherwise nobody resumes it before it is scheduled, so
    // its frame stays valid.
    if (claim_wake(waiter->fiber, WakeReason::kDone)) {
      waiter->next = woken;
      woken = waiter;
    }
    waiter = next;
  }
  queue = {};
  return woken;
}

std::uint32_t schedule_all(IoWaiter* woken) {
  std::uint32_t count = 0;
  for (; woken != nullptr; ++count) {
    IoWaiter* next = woken->next;  // The frame may be gone once it is scheduled.
    schedule(woken->fiber);
    woken = next;
  }
  return count;
}

// Marks the slot closed and takes a use of it, so that the descriptor stays open until the caller's end_use().
bool begin_close(IoSlot* slot, std::uint32_t generation) {
  std::uint64_t state = slot->state.load(std::memory_order_relaxed);
  do {
    if (static_cast<std::uint32_t>(state >> 32) != generation || (state & IoSlot::kClosed) != 0) return false;
    // acq_rel: a waiter that takes the lock later sees the mark.
  } while (!slot->state.compare_exchange_weak(state, (state | IoSlot::kClosed) + 1, std::memory_order_acq_rel));
  return true;
}

// Wakes all waiters and removes the slot from its epoll. REQUIRES: begin_close().
void detach(IoSlot* slot) {
  slot->lock.lock();
  IoWaiter* woken = take_waiters(slot->waiting[0], nullptr);
  woken = take_waiters(slot->waiting[1], woken);
  if (slot->reactor != nullptr) slot->reactor->unwatch(slot);
  slot->lock.unlock();
  schedule_all(woken);
}

}  // namespace

void IoQueue::add(IoWaiter* waiter) {
  waiter->next = first;
  waiter->previous = nullptr;
  if (first != nullptr) first->previous = waiter;
  first = waiter;
  waiter->queued = true;
}

void IoQueue::remove(IoWaiter* waiter) {
  (waiter->previous == nullptr ? first : waiter->previous->next) = waiter->next;
  if (waiter->next != nullptr) waiter->next->previous = waiter->previous;
  waiter->queued = false;
}

IoSlot* take_slot(int fd, bool socket) {
  SlotTable& slots = table();
  IoSlot* slot = nullptr;
  {
    const sync::MutexLock lock(slots.mutex);
    if (slots.free == nullptr) {
      if (slots.made == kMaxSlots) return nullptr;
      auto* chunk = new IoSlot[kSlotsInChunk];
      for (std::uint32_t i = kSlotsInChunk; i-- > 0;) {
        chunk[i].index = slots.made + i;
        chunk[i].next_free = slots.free;
        slots.free = &chunk[i];
      }
      // Release, partner: slot_at().
      slots.chunks[slots.made / kSlotsInChunk].store(chunk, std::memory_order_release);
      slots.made += kSlotsInChunk;
    }
    slot = slots.free;
    slots.free = slot->next_free;
  }
  slot->fd = fd;
  slot->socket = socket;
  const std::uint64_t state = slot->state.load(std::memory_order_relaxed);
  ROTA_ASSERT((state & (IoSlot::kClosed | IoSlot::kUsers)) == IoSlot::kClosed, "a slot in use was on the free list");
  // Release, partner: begin_use().
  slot->state.store(state & ~IoSlot::kClosed, std::memory_order_release);
  return slot;
}

IoSlot* slot_at(std::uint32_t index) {
  // Acquire, partner: take_slot().
  return &table().chunks[index / kSlotsInChunk].load(std::memory_order_acquire)[index % kSlotsInChunk];
}

bool begin_use(IoSlot* slot, std::uint32_t generation) {
  std::uint64_t state = slot->state.load(std::memory_order_relaxed);
  do {
    if (static_cast<std::uint32_t>(state >> 32) != generation || (state & IoSlot::kClosed) != 0) return false;
    // Acquire, partners: take_slot()'s release, and the release of end_use().
  } while (!slot->state.compare_exchange_weak(state, state + 1, std::memory_order_acquire));
  ROTA_DASSERT((state & IoSlot::kUsers) != IoSlot::kUsers);
  return true;
}

int end_use(IoSlot* slot) {
  // acq_rel: the last user sees the effects of all others.
  const std::uint64_t before = slot->state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & (IoSlot::kClosed | IoSlot::kUsers)) != (IoSlot::kClosed | 1)) [[likely]]
    return 0;
  return finish_close(slot, before);
}

int close_slot(IoSlot* slot, std::uint32_t generation) {
  if (slot == nullptr || !begin_close(slot, generation)) return -1;
  detach(slot);
  return end_use(slot);
}

int release_slot(IoSlot* slot, std::uint32_t generation) {
  if (slot == nullptr || !begin_close(slot, generation)) return -1;
  detach(slot);
  const int fd = slot->fd;
  slot->fd = -1;
  end_use(slot);
  return fd;
}

std::uint32_t wake_waiters(IoSlot* slot, std::uint32_t generation, bool readable, bool writable) {
  slot->lock.lock();
  if (!slot->is(generation)) {  // Closed since the event was reported; close woke the waiters.
    slot->lock.unlock();
    return 0;
  }
  IoWaiter* woken = nullptr;
  for (const Direction direction : {Direction::kRead, Direction::kWrite}) {
    if (!(direction == Direction::kRead ? readable : writable)) continue;
    const auto i = static_cast<std::size_t>(direction);
    // Release, partner: the acquire before a system call: a thread that sees this edge counted sees the data it
    // announced.
    slot->tick[i].fetch_add(1, std::memory_order_release);
    woken = take_waiters(slot->waiting[i], woken);
  }
  slot->lock.unlock();
  return schedule_all(woken);
}

void prepare_slots() { (void)table(); }

void forget_reactor(const Reactor* reactor) {
  SlotTable& slots = table();
  std::uint32_t made = 0;
  {
    const sync::MutexLock lock(slots.mutex);
    made = slots.made;
  }
  for (std::uint32_t index = 0; index < made; ++index) {
    IoSlot* slot = slot_at(index);
    std::lock_guard guard(slot->lock);
    if (slot->reactor != reactor) continue;
    ROTA_ASSERT(slot->waiting[0].first == nullptr && slot->waiting[1].first == nullptr,
                "a runtime ended while a task waits for a descriptor");
    slot->reactor = nullptr;
  }
}

}  // namespace rota::fiber::detail

// The implementation of a channel: its buffer, its queues, and the operations under the lock. Nothing here waits.
//
// Invariants whenever the lock is free (a waiter that another thread claimed counts as gone):
//   (1) a receiver waits only while nothing is buffered and the channel is open;
//   (2) a sender waits only while the buffer is full and the channel is open;
//   (3) both wait only in a channel without room, and then all of them are cases of the same select.
// Therefore an operation that finds a waiter on the other side passes its value directly, and no value is ever left in
// the buffer while a receiver waits.
//
// If a move throws, the caller gets the exception and nothing has changed, except that a waiter that was claimed for
// the hand-over is told to try again.
//
// Thread safety: everything under `lock`, except `references`, `ops` and `capacity`.
#pragma once

#include <cstddef>

#include "fiber/biased_lock.h"
#include "rota/detail/sync.h"
#include "rota/fiber/detail/channel_core.h"
#include "rota/fiber/detail/charge.h"

namespace rota::fiber::detail {

// A queue of values in chunks; it never moves a stored value. One empty chunk is kept, so a channel in steady use
// allocates nothing.
class ValueBuffer {
 public:
  ValueBuffer(const ValueOps& ops, std::size_t capacity);
  ~ValueBuffer();
  ValueBuffer(const ValueBuffer&) = delete;
  ValueBuffer& operator=(const ValueBuffer&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  // Moves *from to the end. Throws the exceptions of the move, or std::bad_alloc, and then has no effect.
  void push(void* from);
  // Moves the first value into the optional and removes it. Throws likewise.
  void pop(void* optional);

 private:
  struct Chunk {
    Chunk* next;
  };
  [[nodiscard]] std::size_t bytes_of_chunk() const { return first_slot_ + slots_ * ops_.size; }
  [[nodiscard]] void* slot(Chunk* chunk, std::size_t index) const {
    return reinterpret_cast<std::byte*>(chunk) + first_slot_ + index * ops_.size;
  }
  Chunk* new_chunk();
  void free_chunk(Chunk* chunk);

  const ValueOps& ops_;
  std::size_t slots_;       // Per chunk.
  std::size_t alignment_;   // Of a chunk.
  std::size_t first_slot_;  // Offset of the first slot in a chunk.
  Chunk* head_ = nullptr;
  Chunk* tail_ = nullptr;
  Chunk* spare_ = nullptr;
  std::size_t head_index_ = 0;  // Index of the first value in head_.
  std::size_t tail_index_ = 0;  // Index of the first free slot in tail_.
  std::size_t size_ = 0;
};

enum class Attempt : std::uint8_t { kDone, kClosed, kWait };

struct ChannelCore {
  ChannelCore(const ValueOps& value_ops, std::size_t room)
      : permit(room), ops(value_ops), capacity(room), buffer(value_ops, room) {}
  ChannelCore(const ValueOps& value_ops, std::size_t room, ChannelPermit::NotNeeded own)
      : permit(own), ops(value_ops), capacity(room), buffer(value_ops, room) {}

  // In this order, so that a refused channel allocates nothing.
  ChannelPermit permit;
  const ValueOps& ops;
  const std::size_t capacity;
  sync::Atomic<std::uint32_t> references{1};
  // The members that an operation writes start here, on their own cache line.
  alignas(sync::kCacheLineBytes) BiasedLock lock{current_worker()};
  // Counts operations. Written under the lock; read without it, relaxed, by spinning threads, which take the lock
  // before they rely on it.
  sync::Atomic<std::uint32_t> changes{0};
  bool closed = false;
  // How long to spin before a wait: increased after success, decreased after failure. Relaxed: only an estimate.
  sync::Atomic<std::uint16_t> spins{64};
  WaitQueue receivers;
  WaitQueue senders;
  ValueBuffer buffer;

  void changed() { changes.store(changes.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
};

// An operation as far as it is possible without waiting. The waiters in `woken` must be scheduled after the lock is
// released, also if it throws. REQUIRES: the lock is held.
inline Attempt attempt_send(ChannelCore* channel, void* value, Woken& woken) {
  if (channel->closed) return Attempt::kClosed;
  if (Waiter* receiver = channel->receivers.take(); receiver != nullptr) {
    try {
      channel->ops.emplace(receiver->value, value);
    } catch (...) {
      woken.add(receiver, WaitOutcome::kAgain);
      throw;
    }
    woken.add(receiver, WaitOutcome::kDone);
    return Attempt::kDone;
  }
  if (channel->buffer.size() >= channel->capacity) return Attempt::kWait;
  channel->buffer.push(value);
  channel->changed();
  return Attempt::kDone;
}

inline Attempt attempt_receive(ChannelCore* channel, void* optional, Woken& woken) {
  if (channel->buffer.size() > 0) {
    channel->buffer.pop(optional);
    channel->changed();
    // There is room for a sender (2). If its value cannot be moved, it tries again itself and gets the exception.
    while (channel->buffer.size() < channel->capacity) {
      Waiter* sender = channel->senders.take();
      if (sender == nullptr) break;
      try {
        channel->buffer.push(sender->value);
        woken.add(sender, WaitOutcome::kDone);
      } catch (...) {
        woken.add(sender, WaitOutcome::kAgain);
      }
    }
    return Attempt::kDone;
  }
  if (Waiter* sender = channel->senders.take(); sender != nullptr) {
    try {
      channel->ops.emplace(optional, sender->value);
    } catch (...) {
      woken.add(sender, WaitOutcome::kAgain);
      throw;
    }
    woken.add(sender, WaitOutcome::kDone);
    return Attempt::kDone;
  }
  return channel->closed ? Attempt::kClosed : Attempt::kWait;
}

// False if the channel was already closed.
bool attempt_close(ChannelCore* channel, Woken& woken);

}  // namespace rota::fiber::detail

// The inside of a channel: its buffer, its queues, and what an operation does under the lock. Nothing here waits.
//
// Invariants, whenever the lock is free (a waiter that was claimed by another counts as gone):
//   (1) a receiver waits only while nothing is buffered and the channel is open;
//   (2) a sender waits only while the buffer is full and the channel is open;
//   (3) both wait only in a channel without room, and then all of them are cases of the same select.
// So an operation that finds somebody on the other side hands its value over directly, and there is never a value that
// a waiting receiver should have had.
//
// A move that throws: the one who made the call gets the exception, and nothing has changed, except that a waiter that
// was claimed for the hand-over is told to try again.
//
// Thread safety: everything under `lock`, but `references`, `ops` and `capacity`.
#pragma once

#include <cstddef>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/channel_core.h"
#include "rota/fiber/detail/charge.h"

namespace rota::fiber::detail {

// A queue of values in chunks: it never moves a value that it holds. One empty chunk is kept, so that a channel in use
// allocates nothing.
class ValueBuffer {
 public:
  ValueBuffer(const ValueOps& ops, std::size_t capacity);
  ~ValueBuffer();
  ValueBuffer(const ValueBuffer&) = delete;
  ValueBuffer& operator=(const ValueBuffer&) = delete;

  [[nodiscard]] std::size_t size() const { return size_; }
  // Moves *from to the end. Throws what the move throws, or std::bad_alloc; nothing has changed then.
  void push(void* from);
  // Moves the first value into the optional, and removes it. Throws likewise.
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
  std::size_t slots_;       // Of a chunk.
  std::size_t alignment_;   // Of a chunk.
  std::size_t first_slot_;  // Its offset in a chunk.
  Chunk* head_ = nullptr;
  Chunk* tail_ = nullptr;
  Chunk* spare_ = nullptr;
  std::size_t head_index_ = 0;  // Of the first value, in head_.
  std::size_t tail_index_ = 0;  // Of the first free slot, in tail_.
  std::size_t size_ = 0;
};

enum class Attempt : std::uint8_t { kDone, kClosed, kWait };

struct ChannelCore {
  ChannelCore(const ValueOps& value_ops, std::size_t room)
      : permit(room), ops(value_ops), capacity(room), buffer(value_ops, room) {}

  // In this order, so that a channel that is refused allocates nothing.
  ChannelPermit permit;
  const ValueOps& ops;
  const std::size_t capacity;
  sync::Atomic<std::uint32_t> references{1};
  SpinLock lock;
  bool closed = false;
  WaitQueue receivers;
  WaitQueue senders;
  ValueBuffer buffer;
};

// An operation as far as it goes without waiting. Those in `woken` are to be scheduled when the lock is released, also
// if it throws. REQUIRES: the lock is held.
Attempt attempt_send(ChannelCore* channel, void* value, Woken& woken);
Attempt attempt_receive(ChannelCore* channel, void* optional, Woken& woken);
// False if it was closed already.
bool attempt_close(ChannelCore* channel, Woken& woken);

}  // namespace rota::fiber::detail

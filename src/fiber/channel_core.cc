#include "fiber/channel_core.h"

#include <algorithm>
#include <new>

#include "rota/assert.h"

namespace rota::fiber::detail {

namespace {

constexpr std::size_t kChunkBytes = 1024;  // About; at least one value, and no more than the channel has room for.

}  // namespace

ValueBuffer::ValueBuffer(const ValueOps& ops, std::size_t capacity)
    : ops_(ops),
      slots_(std::clamp<std::size_t>(kChunkBytes / ops.size, 1, std::max<std::size_t>(capacity, 1))),
      alignment_(std::max(ops.alignment, alignof(Chunk))),
      first_slot_((sizeof(Chunk) + ops.alignment - 1) / ops.alignment * ops.alignment) {}

ValueBuffer::~ValueBuffer() {
  while (size_ > 0) {
    if (head_index_ == slots_) {
      Chunk* empty = head_;
      head_ = head_->next;
      head_index_ = 0;
      free_chunk(empty);
    }
    ops_.destroy(slot(head_, head_index_++));
    --size_;
  }
  while (head_ != nullptr) {
    Chunk* next = head_->next;
    free_chunk(head_);
    head_ = next;
  }
  if (spare_ != nullptr) free_chunk(spare_);
}

ValueBuffer::Chunk* ValueBuffer::new_chunk() {
  if (Chunk* chunk = spare_; chunk != nullptr) {
    spare_ = nullptr;
    chunk->next = nullptr;
    return chunk;
  }
  void* memory = ::operator new(bytes_of_chunk(), std::align_val_t(alignment_));
  return ::new (memory) Chunk{nullptr};
}

void ValueBuffer::free_chunk(Chunk* chunk) {
  ::operator delete(static_cast<void*>(chunk), std::align_val_t(alignment_));
}

void ValueBuffer::push(void* from) {
  if (tail_ == nullptr || tail_index_ == slots_) {
    Chunk* chunk = new_chunk();
    // An empty chunk at the end is harmless if the move throws: tail_index_ says that nothing is in it.
    (tail_ == nullptr ? head_ : tail_->next) = chunk;
    tail_ = chunk;
    tail_index_ = 0;
  }
  ops_.move(slot(tail_, tail_index_), from);
  ++tail_index_;
  ++size_;
}

void ValueBuffer::pop(void* optional) {
  ROTA_DASSERT(size_ > 0);
  if (head_index_ == slots_) {
    Chunk* empty = head_;
    head_ = head_->next;
    head_index_ = 0;
    if (spare_ == nullptr) {
      spare_ = empty;
    } else {
      free_chunk(empty);
    }
  }
  void* value = slot(head_, head_index_);
  ops_.emplace(optional, value);
  ops_.destroy(value);
  ++head_index_;
  if (--size_ == 0 && head_ == tail_) head_index_ = tail_index_ = 0;  // From the start again, in the same cache line.
}

Attempt attempt_send(ChannelCore* channel, void* value, Woken& woken) {
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
  return Attempt::kDone;
}

Attempt attempt_receive(ChannelCore* channel, void* optional, Woken& woken) {
  if (channel->buffer.size() > 0) {
    channel->buffer.pop(optional);
    // There is room for a sender (2). One whose value cannot be moved tries again by itself, and gets the exception.
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

bool attempt_close(ChannelCore* channel, Woken& woken) {
  if (channel->closed) return false;
  channel->closed = true;
  while (Waiter* receiver = channel->receivers.take()) woken.add(receiver, WaitOutcome::kClosed);
  while (Waiter* sender = channel->senders.take()) woken.add(sender, WaitOutcome::kClosed);
  return true;
}

}  // namespace rota::fiber::detail

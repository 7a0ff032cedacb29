#include "fiber/channel_core.h"

#include <algorithm>
#include <new>

#include "rota/assert.h"

namespace rota::fiber::detail {

namespace {

constexpr std::size_t kChunkBytes = 1024;  // Approximate; at least one value, and at most the channel's capacity.

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
    // An empty chunk at the end is harmless if the move throws: tail_index_ says that it is empty.
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
  if (--size_ == 0 && head_ == tail_) head_index_ = tail_index_ = 0;  // Reuse the same cache line.
}

bool attempt_close(ChannelCore* channel, Woken& woken) {
  if (channel->closed) return false;
  channel->closed = true;
  channel->changed();
  while (Waiter* receiver = channel->receivers.take()) woken.add(receiver, WaitOutcome::kClosed);
  while (Waiter* sender = channel->senders.take()) woken.add(sender, WaitOutcome::kClosed);
  return true;
}

}  // namespace rota::fiber::detail

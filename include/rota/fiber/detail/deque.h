// The worker's own queue: a Chase-Lev deque that grows.
//
// The owner pushes and pops at the bottom (LIFO) and may take from the top (FIFO); any thread may steal from the top.
// Items are words; 0 is no item.
//
// Invariants:
//   (1) top_ never decreases, and an item leaves through the top only by a compare-exchange of top_ from its index
//       to the next, so that no two takers get the same index there.
//   (2) pop() takes index b without a compare-exchange only if it read top_ < b *after* it had published
//       bottom_ = b. Both are seq_cst, as are a thief's reads of top_ and then bottom_: in their single order either
//       the owner sees the thief's raised top_, or the thief sees the lowered bottom_. Hence (1) holds for pop too;
//       the last item, where b == top_, is fought for by compare-exchange.
//   (3) A slot is written again only for index + capacity, which the owner pushes only when top_ > index: a thief
//       that read the old content fails its compare-exchange.
//   (4) Grown-out buffers live until the deque does, so a slow thief reads old memory, never freed memory.
//
// With `kSolo` (a runtime with one worker: nobody steals) the same operations run without locked instructions.
// Thread safety: push, pop, take_top and peek by the owner; steal and size_hint by anyone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rota/assert.h"
#include "rota/detail/sync.h"

namespace rota::fiber::detail {

template <class T>
class Deque {
 public:
  // `capacity` is rounded up to a power of two; it grows as needed.
  explicit Deque(std::size_t capacity = 256) {
    std::size_t size = 2;
    while (size < capacity) size *= 2;
    buffers_.push_back(std::make_unique<Buffer>(size));
    buffer_.store(buffers_.back().get(), std::memory_order_relaxed);
  }
  Deque(const Deque&) = delete;
  Deque& operator=(const Deque&) = delete;

  void push(T item) {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    Buffer* buffer = buffer_.load(std::memory_order_relaxed);
    if (b - top_seen_ >= buffer->capacity) [[unlikely]]
      buffer = make_room(b, buffer);
    buffer->slot(b).store(item, std::memory_order_relaxed);
    // Release, partner: steal()'s load of bottom_. It publishes the slot and what the item points to.
    bottom_.store(b + 1, std::memory_order_release);
  }

  // The newest item, or 0.
  template <bool kSolo = false>
  T pop() {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    if constexpr (kSolo) {
      const std::int64_t t = top_.load(std::memory_order_relaxed);
      if (t > b) return T{};
      bottom_.store(b, std::memory_order_relaxed);
      return buffer_.load(std::memory_order_relaxed)->slot(b).load(std::memory_order_relaxed);
    } else {
      // top_ only grows: if even this old value says empty, it is.
      if (top_.load(std::memory_order_relaxed) > b) return T{};
      return pop_shared(b);
    }
  }

  // The newest item without taking it, or 0. Only its identity may be used: it may be gone already.
  T peek() const {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    if (top_.load(std::memory_order_relaxed) > b) return T{};
    return buffer_.load(std::memory_order_relaxed)->slot(b).load(std::memory_order_relaxed);
  }

  // The oldest item, taken by the owner, or 0. Loses no race silently: it tries again until it wins or is empty.
  template <bool kSolo = false>
  T take_top() {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    std::int64_t t = top_.load(std::memory_order_relaxed);
    while (t < b) {
      T item = buffer_.load(std::memory_order_relaxed)->slot(t).load(std::memory_order_relaxed);
      if constexpr (kSolo) {
        top_.store(t + 1, std::memory_order_relaxed);
        return item;
      } else {
        // bottom_ is the owner's own, so only other thieves compete, and (1) settles that.
        if (top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) return item;
      }
    }
    return T{};
  }

  struct Stolen {
    T item{};
    bool retry = false;  // Another thief or the owner won this round; there may be more.
  };
  Stolen steal() {
    std::int64_t t = top_.load(std::memory_order_seq_cst);
    // seq_cst, partner: pop_shared()'s exchange (2); acquire, partner: push()'s release.
    const std::int64_t b = bottom_.load(std::memory_order_seq_cst);
    if (t >= b) return {};
    // Acquire, partner: make_room()'s release: a grown buffer holds what was copied.
    const Buffer* buffer = buffer_.load(std::memory_order_acquire);
    T item = buffer->slot(t).load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) {
      return {T{}, true};
    }
    return {item, false};
  }

  // How many items there seem to be; exact for the owner when nobody steals.
  [[nodiscard]] std::size_t size_hint() const {
    const std::int64_t t = top_.load(std::memory_order_relaxed);
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    return b > t ? static_cast<std::size_t>(b - t) : 0;
  }

 private:
  struct Buffer {
    explicit Buffer(std::size_t size)
        : capacity(static_cast<std::int64_t>(size)),
          mask(static_cast<std::int64_t>(size) - 1),
          slots(std::make_unique<sync::Atomic<T>[]>(size)) {}
    sync::Atomic<T>& slot(std::int64_t index) { return slots[static_cast<std::size_t>(index & mask)]; }
    const sync::Atomic<T>& slot(std::int64_t index) const { return slots[static_cast<std::size_t>(index & mask)]; }
    std::int64_t capacity;
    std::int64_t mask;
    std::unique_ptr<sync::Atomic<T>[]> slots;
  };

  T pop_shared(std::int64_t b) {
    // An exchange rather than a store: the same locked instruction, and seq_cst by itself (2).
    bottom_.exchange(b, std::memory_order_seq_cst);
    std::int64_t t = top_.load(std::memory_order_seq_cst);
    if (t < b) [[likely]]
      return buffer_.load(std::memory_order_relaxed)->slot(b).load(std::memory_order_relaxed);
    T item{};
    if (t == b) {
      item = buffer_.load(std::memory_order_relaxed)->slot(b).load(std::memory_order_relaxed);
      if (!top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) item = T{};
    }
    // Release, partner: steal()'s load of bottom_: it may see this store and then read a slot pushed before it.
    bottom_.store(b + 1, std::memory_order_release);
    return item;
  }

  [[gnu::noinline]] Buffer* make_room(std::int64_t b, Buffer* buffer) {
    top_seen_ = top_.load(std::memory_order_acquire);
    if (b - top_seen_ < buffer->capacity) return buffer;
    auto bigger = std::make_unique<Buffer>(static_cast<std::size_t>(buffer->capacity) * 2);
    for (std::int64_t i = top_seen_; i < b; ++i) {
      bigger->slot(i).store(buffer->slot(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    buffer = bigger.get();
    buffers_.push_back(std::move(bigger));
    buffer_.store(buffer, std::memory_order_release);
    return buffer;
  }

  alignas(sync::kCacheLineBytes) sync::Atomic<std::int64_t> top_{0};
  alignas(sync::kCacheLineBytes) sync::Atomic<std::int64_t> bottom_{0};
  std::int64_t top_seen_ = 0;  // Owner only: an old value of top_, good enough to know that there is room.
  sync::Atomic<Buffer*> buffer_{nullptr};
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace rota::fiber::detail

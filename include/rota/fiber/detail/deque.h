// The deque of a thread worker: a Chase-Lev deque that grows.
//
// The owner pushes and pops at the bottom (LIFO) and may take from the top (FIFO); any thread may steal from the top.
// Items are words; 0 means no item.
//
// Invariants:
//   (1) top_ never decreases, and an item leaves through the top only by a compare-exchange of top_ from its index
//       to the next, so that no two takers get the same index there.
//   (2) pop() takes index b without a compare-exchange only if it read top_ < b *after* it had published
//       bottom_ = b. Both are seq_cst, as are a thief's reads of top_ and then bottom_: in their single order either
//       the owner sees the thief's raised top_, or the thief sees the lowered bottom_. Hence (1) holds for pop too;
//       for the last item, where b == top_, a compare-exchange decides.
//   (3) A slot is written again only for index + capacity, which the owner pushes only when top_ > index: a thief
//       that read the old content fails its compare-exchange.
//   (4) Replaced buffers live as long as the deque, so a slow thief reads old memory, never freed memory.
//
// With `kSolo` (a runtime with one thread worker: nobody steals) the operations need no locked instructions.
// Thread safety: push, pop, take_top and peek by the owner; steal and size_hint by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
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
    Buffer* buffer = Buffer::make(size);
    buffers_.push_back(buffer);
    buffer_.store(buffer, std::memory_order_relaxed);
    limit_ = buffer->mask + 1;
  }
  ~Deque() {
    for (Buffer* buffer : buffers_) Buffer::destroy(buffer);
  }
  Deque(const Deque&) = delete;
  Deque& operator=(const Deque&) = delete;

  // False, without effect, if it is full and there is no memory to grow.
  bool push(T item) {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    Buffer* buffer = buffer_.load(std::memory_order_relaxed);
    if (b >= limit_) [[unlikely]] {
      buffer = make_room(b, buffer);
      if (buffer == nullptr) return false;
    }
    buffer->slot(b).store(item, std::memory_order_relaxed);
    // Release, partner: steal()'s load of bottom_. It publishes the slot and the object that the item points to.
    bottom_.store(b + 1, std::memory_order_release);
    return true;
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
      // top_ only grows: if even this old value means empty, the deque is empty.
      if (top_.load(std::memory_order_relaxed) > b) return T{};
      return pop_shared(b);
    }
  }

  // Takes the newest item if it is `item`; cheaper than peek() and pop().
  template <bool kSolo = false>
  bool pop_if(T item) {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    // A slot keeps its content when it is stolen; pop_shared() detects that.
    if (buffer_.load(std::memory_order_relaxed)->slot(b).load(std::memory_order_relaxed) != item) return false;
    if constexpr (kSolo) {
      if (top_.load(std::memory_order_relaxed) > b) return false;
      bottom_.store(b, std::memory_order_relaxed);
      return true;
    } else {
      return pop_shared(b) == item;
    }
  }

  // The newest item without taking it, or 0. Only its identity may be used: it may already be gone.
  T peek() const {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    if (top_.load(std::memory_order_relaxed) > b) return T{};
    return buffer_.load(std::memory_order_relaxed)->slot(b).load(std::memory_order_relaxed);
  }

  // Takes the oldest item on behalf of the owner, or returns 0. Repeats until it wins the race or the deque is empty.
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
        // Only the owner changes bottom_, so only thieves compete, and (1) decides.
        if (top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) return item;
      }
    }
    return T{};
  }

  struct Stolen {
    T item{};
    bool retry = false;  // Another thief or the owner won this round; there may be more items.
  };
  Stolen steal() {
    std::int64_t t = top_.load(std::memory_order_seq_cst);
    // seq_cst, partner: pop_shared()'s exchange (2); acquire, partner: push()'s release.
    const std::int64_t b = bottom_.load(std::memory_order_seq_cst);
    if (t >= b) return {};
    // Acquire, partner: make_room()'s release: a grown buffer holds what was copied.
    Buffer* buffer = buffer_.load(std::memory_order_acquire);
    T item = buffer->slot(t).load(std::memory_order_relaxed);
    if (!top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) {
      return {T{}, true};
    }
    return {item, false};
  }

  // The apparent number of items; exact for the owner if nobody steals.
  [[nodiscard]] std::size_t size_hint() const {
    const std::int64_t t = top_.load(std::memory_order_relaxed);
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    return b > t ? static_cast<std::size_t>(b - t) : 0;
  }

 private:
  // The slots follow the header in one allocation.
  struct Buffer {
    std::int64_t mask;

    static Buffer* make(std::size_t size) {
      void* memory = ::operator new(sizeof(Buffer) + size * sizeof(sync::Atomic<T>));
      auto* buffer = ::new (memory) Buffer{static_cast<std::int64_t>(size) - 1};
      for (std::size_t i = 0; i < size; ++i) ::new (static_cast<void*>(buffer->first() + i)) sync::Atomic<T>(T{});
      return buffer;
    }
    static void destroy(Buffer* buffer) {
      std::destroy_n(buffer->first(), static_cast<std::size_t>(buffer->mask + 1));
      ::operator delete(buffer);
    }
    sync::Atomic<T>* first() { return reinterpret_cast<sync::Atomic<T>*>(this + 1); }
    sync::Atomic<T>& slot(std::int64_t index) { return first()[index & mask]; }
  };
  static_assert(alignof(sync::Atomic<T>) <= alignof(Buffer));

  T pop_shared(std::int64_t b) {
    // An exchange instead of a store: the same locked instruction, and seq_cst by itself (2).
    bottom_.exchange(b, std::memory_order_seq_cst);
    std::int64_t t = top_.load(std::memory_order_seq_cst);
    if (t < b) [[likely]]
      return buffer_.load(std::memory_order_relaxed)->slot(b).load(std::memory_order_relaxed);
    T item{};
    if (t == b) {
      item = buffer_.load(std::memory_order_relaxed)->slot(b).load(std::memory_order_relaxed);
      if (!top_.compare_exchange_strong(t, t + 1, std::memory_order_seq_cst, std::memory_order_relaxed)) item = T{};
    }
    // Release, partner: steal()'s load of bottom_, which may see this store and then read a slot pushed before it.
    bottom_.store(b + 1, std::memory_order_release);
    return item;
  }

  [[gnu::noinline]] Buffer* make_room(std::int64_t b, Buffer* buffer) {
    const std::int64_t t = top_.load(std::memory_order_acquire);
    limit_ = t + buffer->mask + 1;
    if (b < limit_) return buffer;
    Buffer* bigger = nullptr;
    try {
      buffers_.reserve(buffers_.size() + 1);
      bigger = Buffer::make(static_cast<std::size_t>(buffer->mask + 1) * 2);
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    for (std::int64_t i = t; i < b; ++i) {
      bigger->slot(i).store(buffer->slot(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    buffers_.push_back(bigger);
    limit_ = t + bigger->mask + 1;
    // Release, partner: steal()'s acquire.
    buffer_.store(bigger, std::memory_order_release);
    return bigger;
  }

  alignas(sync::kCacheLineBytes) sync::Atomic<std::int64_t> top_{0};
  alignas(sync::kCacheLineBytes) sync::Atomic<std::int64_t> bottom_{0};
  std::int64_t limit_ = 0;  // Owner only: an old value of top_ plus the capacity; below it there is room.
  sync::Atomic<Buffer*> buffer_{nullptr};
  std::vector<Buffer*> buffers_;  // Owner only.
};

}  // namespace rota::fiber::detail

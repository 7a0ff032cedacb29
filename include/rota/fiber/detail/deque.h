// The deque of a thread worker: a split deque that grows.
//
// The owner pushes and pops at the bottom (LIFO) and may take from the top (FIFO); any thread may steal from the top.
// Items are words; 0 means no item. The indices of the items are split into two parts:
//
//     top ≤ ... public, `count` of them ... < split ≤ ... private ... < bottom
//
// Public items are taken by a compare-exchange of one word, (top, count), by the owner as by thieves. Private items
// belong to the owner, who pushes and pops them without a locked instruction. A thief that finds no public item asks
// for some (asked_), and the owner publishes the older half of its private items when it next pushes. An owner that
// does not push, because it is busy in a task, does not see that; then the thief publishes them itself (expose).
//
// The words, and who writes them:
//   public_  (top, count).  Thieves and the owner take one item: (top + 1, count - 1). The rest under lock_: the count
//            rises (publish), or falls without top (the owner takes the newer items back, and leaves at least one).
//   split_   Under lock_. Outside of it split == top + count; while count is 0, top is not stored, and is split.
//   guard_   Under lock_, never below split_. Items at or above it may be popped without the lock.
//   bottom_  The owner. Pushing raises it at any time; below guard_ it is lowered only under lock_.
//   asked_   A thief sets it when it finds nothing public, the owner resets it when it answers. Not relied on.
//
// Why every item is taken exactly once:
//   (1) top never decreases: while count > 0 it changes only by compare-exchange to top + 1, and while count is 0 split
//       does not decrease, because the owner takes back items only if it leaves one, and takes the last public item
//       from the top. Hence, from the time at which an item at index top is public, its slot is not written until top
//       has changed, and a thief whose compare-exchange succeeds has read the right item. (40 bits of top are stored.
//       A thief would have to stand still while 2^40 items leave through the top, which takes an hour at the least.)
//   (2) A public item is taken only by a successful compare-exchange from a state in which it was public; these are
//       totally ordered. split_ says which items are not public, and is changed in the same locked section as count.
//   (3) The owner takes a private item either under lock_, where split_ is exact, or by the short path of pop(): it
//       stores bottom = b, light_fence(), and takes b only if it then reads guard_ ≤ b. Guard_ rises either by the
//       owner itself, or in expose(), which stores guard_ = g, heavy_fence(), and then reads bottom_ = e, and publishes
//       only below min(g, e). For every short pop either the pop reads the new guard_, and if that is above b it gives
//       b back and waits for lock_, or expose() reads that pop's bottom_ or a later one. So of the values of bottom_
//       that follow e, none was stored by a short pop below g: what is below min(g, e) is there, and stays.
//   (4) A slot is written again only for index + capacity, and only when the owner has read that top > index: a thief
//       that read the old content fails its compare-exchange.
//   (5) Replaced buffers live as long as the deque, so a slow thief reads old memory, never freed memory.
// Why no item is out of reach: every item is public or private, and expose() publishes private ones whatever the owner
// does. size_hint() counts both, so a thread worker does not sleep while there are any (parking.h).
// Why the owner may take from the top without the lock: of public items by the same compare-exchange as a thief (2); of
// private ones only if there is one, which is the newest, too, by the short path of pop() (3). That no older item is
// public is known because split_ is read before public_: what raised split_ had raised the count before.
//
// Memory orders. public_, bottom_, split_ and guard_ are read with acquire and written with release by everyone who
// does not hold lock_ (the owner reads its own bottom_ relaxed); the comments name the partners that an argument needs.
// The two accesses that need more, a store followed by a load of another word, are in (3), and have fences. Slots are
// relaxed: their content counts only if a later step succeeds. asked_ is a hint. The interleaving checker executes this
// code, but no load sees a store that comes later in its schedule; without relaxed read-modify-writes, and with lock_
// around the rest, no argument here depends on such an execution.
//
// An open deque is for systems without membarrier: guard_ is always above everything, so each pop takes the lock, and
// expose() needs no fence; limit_ is always kPublish, so each push publishes.
// With `kSolo` (nobody steals: one thread worker, or one thread that acts as all) take_top() needs no lock.
// Overflow: in optimised code the owner's sections under lock_ call no function, so a stack that overflows in push() or
// pop() does so before the lock is taken.
// Thread safety: push, pop, take_top, the peeks and publish by the owner; steal, expose and size_hint by any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "rota/assert.h"
#include "rota/detail/sync.h"
#include "rota/fiber/detail/fence.h"

namespace rota::fiber::detail {

template <class T>
class Deque {
 public:
  // `capacity` is rounded up to a power of two; it grows as needed.
  explicit Deque(std::size_t capacity = 256, bool open = false) : open_(open) {
    std::size_t size = 2;
    while (size < capacity) size *= 2;
    Buffer* buffer = Buffer::make(size);
    buffers_.push_back(buffer);
    buffer_.store(buffer, std::memory_order_relaxed);
    own_buffer_ = buffer;
    room_ = buffer->mask + 1;
    limit_ = open ? kPublish : room_;
    if (open) guard_.store(kEverything, std::memory_order_relaxed);
  }
  ~Deque() {
    for (Buffer* buffer : buffers_) Buffer::destroy(buffer);
  }
  Deque(const Deque&) = delete;
  Deque& operator=(const Deque&) = delete;

  // False, without effect, if it is full and there is no memory to grow.
  bool push(T item) {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    if (b >= limit_) [[unlikely]]
      return push_slow(item);
    own_buffer_->slot(b).store(item, std::memory_order_relaxed);
    // Release, partner: expose()'s load of bottom_. It publishes the slot and the object that the item points to.
    bottom_.store(b + 1, std::memory_order_release);
    // Relaxed: a request that is not seen yet is seen by a later push.
    if (asked_.load(std::memory_order_relaxed)) [[unlikely]]
      answer();
    return true;
  }

  // The newest item, or 0.
  T pop() {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    if (!lower_bottom(b)) [[unlikely]]
      return pop_slow();
    return own_buffer_->slot(b).load(std::memory_order_relaxed);
  }

  // Takes the newest item if it is `item`; cheaper than peek() and pop().
  bool pop_if(T item) {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    // A slot keeps its content when it is stolen; pop_slow() detects that.
    if (own_buffer_->slot(b).load(std::memory_order_relaxed) != item) return false;
    return lower_bottom(b) || pop_slow() == item;
  }

  // The newest item without taking it, or 0. Only its identity may be used: it may already be gone.
  T peek() const {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed) - 1;
    if (is_empty(b + 1)) return T{};
    return own_buffer_->slot(b).load(std::memory_order_relaxed);
  }

  // The private item `depth` below the newest one, or 0. As peek().
  T peek_below(std::int64_t depth) const {
    const std::int64_t at = bottom_.load(std::memory_order_relaxed) - 1 - depth;
    if (at < split_.load(std::memory_order_acquire)) return T{};
    return own_buffer_->slot(at).load(std::memory_order_relaxed);
  }

  // Takes the oldest item on behalf of the owner, or returns 0.
  template <bool kSolo = false>
  T take_top() {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    const std::int64_t s = split_.load(std::memory_order_acquire);  // First, as in is_empty().
    if constexpr (kSolo) {
      if (s >= b) return T{};
      set_split(s + 1);
      return own_buffer_->slot(s).load(std::memory_order_relaxed);
    } else {
      std::uint64_t word = public_.load(std::memory_order_acquire);
      if (count_of(word) == 0) {
        if (s >= b) return T{};
        // The only item is the newest one, too, and the short path of pop() needs no locked instruction.
        if (s + 1 == b && lower_bottom(s)) [[likely]]
          return own_buffer_->slot(s).load(std::memory_order_relaxed);
        return take_top_slow();
      }
      do {  // As steal().
        const T item = own_buffer_->slot(top_of(word)).load(std::memory_order_relaxed);
        if (public_.compare_exchange_strong(word, word + kTake, std::memory_order_acq_rel, std::memory_order_acquire)) {
          return item;
        }
      } while (count_of(word) > 0);
      return take_top_slow();
    }
  }

  // Publishes the older half of the private items.
  void publish() {
    if (!lock_.try_lock()) return;  // A thief is publishing.
    publish_locked();
    lock_.unlock();
  }

  struct Stolen {
    T item{};
    bool retry = false;  // Another thread won this round; there may be more items.
    bool more = false;   // There were more public items.
  };
  // Takes the oldest public item. Asks for some if there is none.
  Stolen steal() {
    // Acquire, partner: the release in raise_count(): the slot and the object that its item points to are visible.
    std::uint64_t word = public_.load(std::memory_order_acquire);
    if (count_of(word) == 0) {
      if (!asked_.load(std::memory_order_relaxed)) asked_.store(true, std::memory_order_relaxed);
      return {};
    }
    // Acquire, partner: push_slow()'s release: a grown buffer holds what was copied.
    T item = buffer_.load(std::memory_order_acquire)->slot(top_of(word)).load(std::memory_order_relaxed);
    // Release, partner: the acquire loads of public_ by the owner, which may overwrite the slot after it (4).
    if (!public_.compare_exchange_strong(word, word + kTake, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return {T{}, true, true};
    }
    return {item, false, count_of(word) > 1};
  }

  // Publishes private items on behalf of an owner that does not push. True if it did. Expensive: heavy_fence().
  bool expose() {
    // Writes nothing in vain: the owner reads the same cache lines.
    if (bottom_.load(std::memory_order_relaxed) <= split_.load(std::memory_order_relaxed)) return false;
    if (!lock_.try_lock()) return false;  // The owner is publishing, or another thief.
    const std::int64_t s = split_.load(std::memory_order_relaxed);
    // Acquire, here and below, partner: the release of push() and pop(): the slots are visible.
    std::int64_t end = bottom_.load(std::memory_order_acquire);
    if (end > s && !open_) {
      const std::int64_t guard = s + (end - s + 1) / 2;
      guard_.store(guard, std::memory_order_release);
      heavy_fence();  // Partner: lower_bottom()'s light_fence(), see (3).
      end = std::min(guard, bottom_.load(std::memory_order_acquire));
    }
    const bool any = end > s && raise_count(s, end);
    if (!any && !open_) guard_.store(s, std::memory_order_release);
    lock_.unlock();
    return any;
  }

  // How many items fit before it must grow. For the owner.
  [[nodiscard]] std::size_t capacity() const { return static_cast<std::size_t>(own_buffer_->mask + 1); }

  // The apparent number of items; exact for the owner if nobody steals.
  [[nodiscard]] std::size_t size_hint() const {
    for (;;) {
      // In this order, and again if the word has changed: an item that is being published or taken back counts once or
      // twice, never not at all. Public items count whatever the difference of the others is, which is negative if
      // split_ was raised and lowered again around its load. If there are none, and the word is the same afterwards,
      // nothing was published meanwhile, because by (1) a word whose count is 0 does not return. Acquire, partners:
      // raise_count(), take_back(), push().
      const std::uint64_t word = public_.load(std::memory_order_acquire);
      const std::int64_t s = split_.load(std::memory_order_acquire);
      const std::int64_t size = std::max<std::int64_t>(bottom_.load(std::memory_order_acquire) - s, 0) + count_of(word);
      if (public_.load(std::memory_order_acquire) == word) return static_cast<std::size_t>(size);
    }
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

  static constexpr std::int64_t kPublish = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t kEverything = std::numeric_limits<std::int64_t>::max();

  // public_: the low 40 bits of top, and 24 bits for the count.
  static constexpr int kCountBits = 24;
  static constexpr std::int64_t kMaxCount = (std::int64_t{1} << kCountBits) - 1;
  static constexpr std::uint64_t kTake = (std::uint64_t{1} << kCountBits) - 1;  // top + 1, count - 1.
  static std::int64_t count_of(std::uint64_t word) { return static_cast<std::int64_t>(word) & kMaxCount; }
  static std::int64_t top_of(std::uint64_t word) { return static_cast<std::int64_t>(word >> kCountBits); }
  static std::uint64_t pack(std::int64_t top, std::int64_t count) {
    return static_cast<std::uint64_t>(top) << kCountBits | static_cast<std::uint64_t>(count);
  }

  // The short path of a pop. False, and without effect, if index b is not above the guard.
  [[gnu::always_inline]] bool lower_bottom(std::int64_t b) {
    // Release, partner: expose()'s loads of bottom_, which may see this store and publish a slot written before it.
    bottom_.store(b, std::memory_order_release);
    light_fence();  // Partner: expose()'s heavy_fence(), see (3).
    // Acquire, partner: the release of expose(), and the owner's own stores.
    if (b >= guard_.load(std::memory_order_acquire)) [[likely]]
      return true;
    bottom_.store(b + 1, std::memory_order_release);
    return false;
  }

  // For the owner, without the lock. False while items are being published: split_ is stored after the count.
  [[nodiscard]] bool is_empty(std::int64_t bottom) const {
    return bottom <= split_.load(std::memory_order_acquire) &&  // Acquire, partner: raise_count()'s release.
           count_of(public_.load(std::memory_order_acquire)) == 0;
  }

  // REQUIRES, like the following: lock_ is held.
  [[gnu::always_inline]] void set_split(std::int64_t split) {
    // Release, partner: size_hint() and is_empty().
    split_.store(split, std::memory_order_release);
    if (!open_) guard_.store(split, std::memory_order_release);
  }
  // Publishes the private items below `end`, or as many as can be counted. REQUIRES: they cannot be popped meanwhile.
  [[gnu::always_inline]] bool raise_count(std::int64_t s, std::int64_t end) {
    // The count can only fall meanwhile. Acquire, partner: the release of steal(), whose sequence the store below ends
    // (4).
    const std::uint64_t word = public_.load(std::memory_order_acquire);
    end = std::min(end, s + kMaxCount - count_of(word));
    if (end <= s) return false;
    // Release, partner: steal()'s acquire. Thieves do not change the word while the count is 0.
    if (count_of(word) == 0) {
      public_.store(pack(s, end - s), std::memory_order_release);
    } else {
      public_.fetch_add(static_cast<std::uint64_t>(end - s), std::memory_order_acq_rel);
    }
    set_split(end);
    return true;
  }
  [[gnu::always_inline]] void publish_locked() {
    const std::int64_t s = split_.load(std::memory_order_relaxed);
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    if (b > s) raise_count(s, open_ ? b : s + (b - s + 1) / 2);
  }

  [[gnu::noinline]] T pop_slow() {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    if (is_empty(b)) return T{};
    Buffer* buffer = own_buffer_;
    lock_.lock();
    const std::int64_t s = split_.load(std::memory_order_relaxed);
    T item{};
    if (b > s) {
      bottom_.store(b - 1, std::memory_order_release);  // As in lower_bottom().
      item = buffer->slot(b - 1).load(std::memory_order_relaxed);
    } else if (take_back(s)) {
      item = buffer->slot(b - 1).load(std::memory_order_relaxed);
    }
    lock_.unlock();
    return item;
  }

  // Takes the newest public item, and half of the others with it, which become private. False if there is none.
  [[gnu::always_inline]] bool take_back(std::int64_t s) {
    std::uint64_t word = public_.load(std::memory_order_acquire);
    for (;;) {
      const std::int64_t count = count_of(word);
      if (count == 0) {
        set_split(s);
        return false;
      }
      if (count == 1) {  // The last one leaves through the top, see (1).
        if (public_.compare_exchange_strong(word, word + kTake, std::memory_order_acq_rel, std::memory_order_acquire)) {
          set_split(s);
          return true;
        }
        continue;
      }
      const std::int64_t back = open_ ? 1 : count / 2;
      set_split(s - back);
      // Release, partner: size_hint()'s acquire: it sees the lower split_, too.
      if (public_.compare_exchange_strong(word, word - static_cast<std::uint64_t>(back), std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
        bottom_.store(s - 1, std::memory_order_release);  // As in lower_bottom().
        return true;
      }
    }
  }

  [[gnu::noinline]] T take_top_slow() {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    Buffer* buffer = own_buffer_;
    lock_.lock();
    const std::int64_t s = split_.load(std::memory_order_relaxed);
    std::uint64_t word = public_.load(std::memory_order_acquire);
    T item{};
    while (count_of(word) > 0 && item == T{}) {  // Published meanwhile.
      const std::int64_t top = s - count_of(word);
      if (public_.compare_exchange_strong(word, word + kTake, std::memory_order_acq_rel, std::memory_order_acquire)) {
        item = buffer->slot(top).load(std::memory_order_relaxed);
      }
    }
    if (item == T{} && s < b) {
      set_split(s + 1);
      item = buffer->slot(s).load(std::memory_order_relaxed);
    }
    lock_.unlock();
    return item;
  }

  // A thief has asked for items. If it gets all that there are, it will probably ask again, and the next push publishes
  // its item before it looks whether somebody has asked: looking is a cache miss if somebody has.
  [[gnu::noinline]] void answer() {
    asked_.store(false, std::memory_order_relaxed);
    publish();
    const bool all = split_.load(std::memory_order_relaxed) >= bottom_.load(std::memory_order_relaxed);
    limit_ = all || open_ ? kPublish : room_;
  }

  // There is no room, or the item is published at once.
  [[gnu::noinline]] bool push_slow(T item) {
    const std::int64_t b = bottom_.load(std::memory_order_relaxed);
    if (b >= room_ && !make_room(b)) return false;
    own_buffer_->slot(b).store(item, std::memory_order_relaxed);
    bottom_.store(b + 1, std::memory_order_release);  // As in push().
    if (limit_ == kPublish) {
      publish();
      if (!asked_.load(std::memory_order_relaxed) && !open_) limit_ = room_;
      asked_.store(false, std::memory_order_relaxed);
    } else {
      limit_ = room_;
    }
    return true;
  }

  bool make_room(std::int64_t b) {
    Buffer* buffer = own_buffer_;
    lock_.lock();
    // Acquire, partner: the compare-exchanges of steal(): the slots that are overwritten have been read (4).
    const std::int64_t top = split_.load(std::memory_order_relaxed) - count_of(public_.load(std::memory_order_acquire));
    lock_.unlock();
    room_ = top + buffer->mask + 1;
    if (b < room_) return true;
    Buffer* bigger = nullptr;
    try {
      buffers_.reserve(buffers_.size() + 1);
      bigger = Buffer::make(static_cast<std::size_t>(buffer->mask + 1) * 2);
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (std::int64_t i = top; i < b; ++i) {
      bigger->slot(i).store(buffer->slot(i).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    buffers_.push_back(bigger);
    room_ = top + bigger->mask + 1;
    // Release, partner: steal()'s acquire.
    buffer_.store(bigger, std::memory_order_release);
    own_buffer_ = bigger;
    return true;
  }

  // What a thief reads and writes.
  alignas(sync::kCacheLineBytes) sync::Atomic<std::uint64_t> public_{0};
  sync::Atomic<Buffer*> buffer_{nullptr};
  // Read by the owner all the time, written rarely.
  alignas(sync::kCacheLineBytes) sync::Atomic<std::int64_t> guard_{0};
  sync::Atomic<std::int64_t> split_{0};
  sync::Atomic<bool> asked_{false};
  const bool open_;
  // The owner's. Others read bottom_, and take lock_ in expose(), when nothing is public.
  alignas(sync::kCacheLineBytes) sync::Atomic<std::int64_t> bottom_{0};
  SpinLock lock_;
  Buffer* own_buffer_ = nullptr;  // The same as buffer_, in a cache line that thieves do not write.
  std::int64_t limit_ = 0;        // room_, or kPublish: the next push takes the slow path.
  std::int64_t room_ = 0;         // An old value of top plus the capacity; below it there is room.
  std::vector<Buffer*> buffers_;
};

}  // namespace rota::fiber::detail

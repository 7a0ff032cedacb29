// The ready tasks of high and low priority (F-18), for all thread workers of a runtime.
//
// A task of normal priority is in its thread worker's deque. One of high or low priority is here instead, before its
// first run and whenever it is ready again; so is the fiber that it runs on. A thread worker takes from here: high
// before anything else, low when there is nothing else; at every 64th step it takes the low ones first, so that they
// do not starve. `alive` counts the prioritised tasks that have not ended: while it is 0, no thread worker looks here
// (kHookPriority).
//
// Bounds: as for deques, none; a task from outside also counts against the bound of the global queue.
// Thread safety: all members, from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/core.h"
#include "rota/fiber/state.h"

namespace rota::fiber::detail {

class PriorityQueue {
 public:
  // Throws std::bad_alloc, and has no effect then.
  void push(Item item, Priority priority) {
    std::lock_guard guard(lock_);
    Lane& lane = lanes_[index_of(priority)];
    lane.items.push_back(item);
    // seq_cst, partner: the second look of a thread worker that goes to sleep (parking.h).
    lane.count.store(lane.items.size(), std::memory_order_seq_cst);
  }
  // The oldest item, or 0.
  Item take(Priority priority) {
    Lane& lane = lanes_[index_of(priority)];
    if (lane.count.load(std::memory_order_relaxed) == 0) return 0;
    std::lock_guard guard(lock_);
    if (lane.items.empty()) return 0;
    const Item item = lane.items.front();
    lane.items.pop_front();
    lane.count.store(lane.items.size(), std::memory_order_relaxed);
    return item;
  }
  [[nodiscard]] bool any() const {
    return lanes_[0].count.load(std::memory_order_seq_cst) != 0 || lanes_[1].count.load(std::memory_order_seq_cst) != 0;
  }
  // Prioritised tasks that have not ended. Relaxed: only an indication for thread workers that did not spawn them.
  sync::Atomic<std::uint64_t> alive{0};

 private:
  struct Lane {
    std::deque<Item> items;
    sync::Atomic<std::uint64_t> count{0};
  };
  static std::size_t index_of(Priority priority) { return priority == Priority::kHigh ? 0 : 1; }

  SpinLock lock_;
  std::array<Lane, 2> lanes_;
};

}  // namespace rota::fiber::detail

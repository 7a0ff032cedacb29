// Stacks, carved from large slabs, guarded and pooled (F-22, F-23).
//
// A slab is one mapping of many stacks of the same size, without huge pages and reserved swap. Guards use
// MADV_GUARD_INSTALL where the kernel has it (it does not split mappings, so a million stacks need few maps); otherwise
// mprotect as long as fewer than kMaxProtected maps are used; after that, or with guards off, a canary word at the low
// end is checked at every switch and at the end of a task (kHookCanary). A stack touches only its top page until it is
// used deeper.
//
//   low address                                                          high address
//   | guard, 64 KiB | ........ stack, grows down ........ | Fiber (control block) |
//   An 8 KiB stack has its guard beyond its 8 KiB.
//
// The guard is wide because a frame that is larger than the guard steps over it, unless the code is compiled with
// -fstack-clash-protection, as our own code and that of CMake users of rota::fiber is. Address space is all that it
// costs. It has one page more if that makes the distance between two stacks an odd number of pages, for the sake of the
// caches.
//
// Cached stacks that were not needed for a whole period return to the system (trim_idle()).
//
// Thread safety: all members, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fiber/timers.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

enum class GuardKind : std::uint8_t { kAdvised, kProtected, kCanary };

class StackPool {
 public:
  // `stack_bytes` is the usable size, a multiple of the page size.
  StackPool(std::size_t stack_bytes, bool guards);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  // A fiber whose context is not prepared. Null if the system has no more memory.
  Fiber* take();
  void give(Fiber* fiber);
  // Takes up to `count` at once, linked by Fiber::next; at least one unless there is no memory.
  Fiber* take_some(std::uint32_t count, std::uint32_t* taken);
  // Returns a list, linked by Fiber::next.
  void give_some(Fiber* first, Fiber* last, std::uint32_t count);

  // Releases the memory of cached stacks beyond `keep`, at most `limit` of them. Returns the number released.
  std::uint32_t trim(std::uint64_t keep, std::uint64_t limit);
  // Releases, in portions, the stacks that stayed in the cache during the last whole period. Returns when to call it
  // again; kNever if nothing is cached.
  Nanoseconds trim_idle(Nanoseconds now);
  static constexpr Nanoseconds kTrimPeriod = 1'000'000'000;
  void set_trim_period(Nanoseconds period) { trim_period_.store(period, std::memory_order_relaxed); }
  [[nodiscard]] Nanoseconds trim_period() const { return trim_period_.load(std::memory_order_relaxed); }

  // True if `address` is in the guard of a stack of this pool.
  [[nodiscard]] bool in_guard(const Fiber* fiber, const void* address) const;
  // True if some stacks have only a canary.
  [[nodiscard]] bool has_canaries() const { return canaries_.load(std::memory_order_relaxed); }
  // False if something wrote below the stack's end.
  [[nodiscard]] bool canary_intact(const Fiber* fiber) const;
  void restore_canary(Fiber* fiber) const;

  // Stacks with memory: in use or cached.
  [[nodiscard]] std::uint64_t made() const { return made_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t cached() const { return cached_.load(std::memory_order_relaxed); }
  [[nodiscard]] GuardKind guard_kind() const { return guard_kind_; }
  [[nodiscard]] std::size_t stack_bytes() const { return stack_bytes_; }

 private:
  struct Slab {
    std::byte* base;
    std::size_t bytes;
    std::uint32_t count;
    std::uint32_t next;  // The first stack that was never used.
  };
  Fiber* carve_locked(std::uint32_t count, std::uint32_t* taken);
  bool add_slab_locked();
  void guard(std::byte* first_guard, std::uint32_t count);
  Fiber* place(std::byte* stack_start);

  const std::size_t page_;
  const std::size_t stack_bytes_;
  const std::size_t guard_bytes_;
  const std::size_t stride_;  // Guard and stack together.
  GuardKind guard_kind_;
  SpinLock lock_;
  std::vector<Slab> slabs_;
  Fiber* free_ = nullptr;
  // Trimmed: their memory is released, their Fiber is not constructed. Has room for all stacks, so that trimming needs
  // no memory.
  std::vector<std::byte*> cold_stacks_;
  std::uint64_t carved_ = 0;   // Stacks in all slabs.
  std::uint64_t lowest_ = 0;   // The fewest that were cached since the current period began.
  std::uint64_t to_trim_ = 0;  // Still to be released.
  Nanoseconds period_end_ = 0;
  sync::Atomic<Nanoseconds> trim_period_{kTrimPeriod};
  sync::Atomic<bool> canaries_{false};
  std::uint64_t protected_maps_ = 0;
  sync::Atomic<std::uint64_t> made_{0};
  sync::Atomic<std::uint64_t> cached_{0};
};

}  // namespace rota::fiber::detail

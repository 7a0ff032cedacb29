#include "fiber/stack_pool.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <new>

#if ROTA_ASAN
#include <sanitizer/asan_interface.h>
#endif
#if ROTA_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace rota::fiber::detail {

namespace {

constexpr std::size_t kSlabBytes = 64 * 1024 * 1024;
constexpr std::uint64_t kMaxProtected = 16'000;  // Each protected guard splits a mapping in two; 65,530 are allowed.
constexpr std::uint64_t kCanary = 0x5ca1ab1e0ddba115;
constexpr std::size_t kGuardBytes = 64 * 1024;
constexpr std::uint32_t kAdviceBatch = 256;
constexpr std::uint64_t kTrimBatch = 1024;  // Stacks released at a time; about a millisecond.
constexpr Nanoseconds kTrimPauseNs = 5'000'000;

// Gives one advice for many ranges of the same size with few system calls. False if the kernel refuses that.
bool advise(std::byte* first, std::size_t stride, std::size_t bytes, std::uint32_t count, int advice) {
  static sync::Atomic<bool> works{true};
  if (!works.load(std::memory_order_relaxed)) return false;
  std::array<iovec, kAdviceBatch> ranges;
  for (std::uint32_t done = 0; done < count;) {
    const std::uint32_t n = std::min(count - done, kAdviceBatch);
    for (std::uint32_t i = 0; i < n; ++i) ranges[i] = {first + (done + i) * stride, bytes};
    constexpr int kPidfdSelfProcess = -10001;  // The pidfd of this process (Linux 6.14 on).
    const auto advised = syscall(SYS_process_madvise, kPidfdSelfProcess, ranges.data(), n, advice, 0);
    if (advised != static_cast<long>(n * bytes)) {
      works.store(false, std::memory_order_relaxed);
      return false;
    }
    done += n;
  }
  return true;
}

bool kernel_has_guards(std::size_t page) {
  void* probe = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  // An emulator may accept any advice and ignore it. In a guard the kernel finds no set of signals to read.
  const bool has = madvise(probe, page, MADV_GUARD_INSTALL) == 0 &&
                   syscall(SYS_rt_sigprocmask, SIG_BLOCK, probe, nullptr, sizeof(std::uint64_t)) != 0;
  munmap(probe, page);
  return has;
}

// The guard's size. A stack and its guard are an odd number of pages: if their tops were a power of two apart, all of
// them would share a few sets of the caches and of the TLB, and a thread worker that visits many stacks, to cancel the
// tasks on them for instance, would miss each time.
std::size_t guard_bytes(std::size_t stack_bytes, std::size_t page) {
  const std::size_t pages = (kGuardBytes + page - 1) / page;
  return (pages + (stack_bytes / page + pages + 1) % 2) * page;
}

}  // namespace

StackPool::StackPool(std::size_t stack_bytes, bool guards)
    : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      stack_bytes_((stack_bytes + page_ - 1) / page_ * page_),
      guard_bytes_(guard_bytes(stack_bytes_, page_)),
      stride_(stack_bytes_ + guard_bytes_),
      guard_kind_(!guards                    ? GuardKind::kCanary
                  : kernel_has_guards(page_) ? GuardKind::kAdvised
                                             : GuardKind::kProtected) {
  canaries_.store(guard_kind_ == GuardKind::kCanary, std::memory_order_relaxed);
}

StackPool::~StackPool() {
#if ROTA_TSAN
  for (Fiber* fiber = free_; fiber != nullptr; fiber = fiber->next) {
    if (fiber->tsan != nullptr) __tsan_destroy_fiber(fiber->tsan);
  }
#endif
  for (const Slab& slab : slabs_) munmap(slab.base, slab.bytes);
}

bool StackPool::add_slab_locked() {
  const auto count = static_cast<std::uint32_t>(std::clamp<std::size_t>(kSlabBytes / stride_, 4, 4096));
  const std::size_t bytes = count * stride_;
  try {
    slabs_.reserve(slabs_.size() + 1);
    if (cold_stacks_.capacity() < carved_ + count) {
      cold_stacks_.reserve(std::max<std::size_t>(carved_ + count, 2 * cold_stacks_.capacity()));
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (base == MAP_FAILED) return false;
  madvise(base, bytes, MADV_NOHUGEPAGE);  // Kernels without huge pages refuse it, which is harmless.
#if ROTA_ASAN
  __asan_unpoison_memory_region(base, bytes);  // Remove the poison that an unmapped slab left at these addresses.
#endif
  slabs_.push_back({static_cast<std::byte*>(base), bytes, count, 0});
  carved_ += count;
  return true;
}

void StackPool::guard(std::byte* first_guard, std::uint32_t count) {
  if (guard_kind_ == GuardKind::kAdvised) {
    if (advise(first_guard, stride_, guard_bytes_, count, MADV_GUARD_INSTALL)) return;
    for (std::uint32_t i = 0; i < count; ++i) madvise(first_guard + i * stride_, guard_bytes_, MADV_GUARD_INSTALL);
  } else if (guard_kind_ == GuardKind::kProtected) {
    for (std::uint32_t i = 0; i < count; ++i, ++protected_maps_) {
      if (protected_maps_ < kMaxProtected && mprotect(first_guard + i * stride_, guard_bytes_, PROT_NONE) == 0)
        continue;
      canaries_.store(true, std::memory_order_relaxed);
      return;
    }
  }
}

Fiber* StackPool::place(std::byte* stack_start) {
  std::byte* top = stack_start + stack_bytes_;
  auto* fiber = ::new (static_cast<void*>(top - sizeof(Fiber))) Fiber;
  fiber->low = stack_start;
  // A join may call tasks on top of this stack until three quarters of it are used.
  fiber->floor = stack_start + std::max(stack_bytes_ / 4, std::min<std::size_t>(stack_bytes_, 6144));
  restore_canary(fiber);
#if ROTA_ASAN
  fiber->bytes = stack_bytes_ - sizeof(Fiber);
#endif
#if ROTA_TSAN
  fiber->tsan = __tsan_create_fiber(0);
#endif
  return fiber;
}

Fiber* StackPool::carve_locked(std::uint32_t count, std::uint32_t* taken) {
  if (slabs_.empty() || slabs_.back().next == slabs_.back().count) {
    if (!add_slab_locked()) return nullptr;
  }
  Slab& slab = slabs_.back();
  const std::uint32_t n = std::min(count, slab.count - slab.next);
  std::byte* first = slab.base + slab.next * stride_;
  guard(first, n);
  // One system call instead of a page fault for each stack. If it is refused, place() faults.
  (void)advise(first + stride_ - page_, stride_, page_, n, MADV_POPULATE_WRITE);
  Fiber* list = nullptr;
  for (std::uint32_t i = n; i-- > 0;) {
    Fiber* fiber = place(first + i * stride_ + guard_bytes_);
    fiber->next = list;
    list = fiber;
  }
  slab.next += n;
  made_.fetch_add(n, std::memory_order_relaxed);
  *taken = n;
  return list;
}

Fiber* StackPool::take_some(std::uint32_t count, std::uint32_t* taken) {
  lock_.lock();
  *taken = 0;
  Fiber* list = nullptr;
  while (*taken < count && free_ != nullptr) {
    Fiber* fiber = free_;
    free_ = fiber->next;
    fiber->next = list;
    list = fiber;
    ++*taken;
  }
  if (*taken > 0) {
    const std::uint64_t left = cached_.fetch_sub(*taken, std::memory_order_relaxed) - *taken;
    lowest_ = std::min(lowest_, left);
    to_trim_ = std::min(to_trim_, left);
  } else if (!cold_stacks_.empty()) {
    for (; *taken < count && !cold_stacks_.empty(); ++*taken) {
      Fiber* fiber = place(cold_stacks_.back());
      cold_stacks_.pop_back();
      fiber->next = list;
      list = fiber;
    }
    made_.fetch_add(*taken, std::memory_order_relaxed);
  } else {
    list = carve_locked(count, taken);
  }
  lock_.unlock();
  return list;
}

void StackPool::give_some(Fiber* first, Fiber* last, std::uint32_t count) {
  lock_.lock();
  last->next = free_;
  free_ = first;
  cached_.fetch_add(count, std::memory_order_relaxed);
  lock_.unlock();
}

Fiber* StackPool::take() {
  std::uint32_t taken = 0;
  return take_some(1, &taken);
}

void StackPool::give(Fiber* fiber) { give_some(fiber, fiber, 1); }

std::uint32_t StackPool::trim(std::uint64_t keep, std::uint64_t limit) {
  std::uint32_t released = 0;
  while (released < limit && cached_.load(std::memory_order_relaxed) > keep) {
    Fiber* fiber = nullptr;
    lock_.lock();
    if (free_ != nullptr) {
      fiber = free_;
      free_ = fiber->next;
      cached_.fetch_sub(1, std::memory_order_relaxed);
      made_.fetch_sub(1, std::memory_order_relaxed);
    }
    lock_.unlock();
    if (fiber == nullptr) break;
    std::byte* stack = fiber->low;
#if ROTA_TSAN
    __tsan_destroy_fiber(fiber->tsan);
#endif
    madvise(stack, stack_bytes_, MADV_DONTNEED);
    lock_.lock();
    cold_stacks_.push_back(stack);
    lock_.unlock();
    ++released;
  }
  return released;
}

Nanoseconds StackPool::trim_idle(Nanoseconds now) {
  std::uint64_t limit = 0;
  std::uint64_t keep = 0;
  {
    std::lock_guard guard(lock_);
    const std::uint64_t cached = cached_.load(std::memory_order_relaxed);
    if (now >= period_end_) {
      if (period_end_ != 0) to_trim_ = std::min(cached, lowest_);
      lowest_ = cached - to_trim_;
      period_end_ = now + trim_period();
    }
    limit = std::min(to_trim_, kTrimBatch);
    to_trim_ -= limit;
    keep = cached - limit;
    if (cached == limit) period_end_ = 0;  // A new period begins with the next stack.
    if (limit == 0) return cached == 0 ? kNever : period_end_;
  }
  trim(keep, limit);
  return now + kTrimPauseNs;
}

bool StackPool::in_guard(const Fiber* fiber, const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte < fiber->low && byte >= fiber->low - guard_bytes_;
}

void StackPool::restore_canary(Fiber* fiber) const {
  if (guard_kind_ != GuardKind::kAdvised) std::memcpy(fiber->low, &kCanary, sizeof kCanary);
}

bool StackPool::canary_intact(const Fiber* fiber) const {
  if (guard_kind_ == GuardKind::kAdvised) return true;
  std::uint64_t word = 0;
  std::memcpy(&word, fiber->low, sizeof word);
  return word == kCanary;
}

}  // namespace rota::fiber::detail

#include "fiber/stack_pool.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
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

namespace rota::fiber::detail {

namespace {

constexpr std::size_t kSlabBytes = 64 * 1024 * 1024;
constexpr std::uint64_t kMaxProtected = 16'000;  // Each protected guard splits a mapping in two; 65,530 are allowed.
constexpr std::uint64_t kCanary = 0x5ca1ab1e0ddba115;
constexpr std::uint32_t kGuardBatch = 256;

bool kernel_has_guards(std::size_t page) {
  void* probe = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) return false;
  const bool has = madvise(probe, page, MADV_GUARD_INSTALL) == 0;
  munmap(probe, page);
  return has;
}

}  // namespace

StackPool::StackPool(std::size_t stack_bytes, bool guards)
    : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))),
      stack_bytes_((stack_bytes + page_ - 1) / page_ * page_),
      stride_(stack_bytes_ + page_),
      guard_kind_(!guards                    ? GuardKind::kCanary
                  : kernel_has_guards(page_) ? GuardKind::kAdvised
                                             : GuardKind::kProtected) {}

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
  void* base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (base == MAP_FAILED) return false;
  madvise(base, bytes, MADV_NOHUGEPAGE);  // Kernels without huge pages refuse it, which is harmless.
#if ROTA_ASAN
  __asan_unpoison_memory_region(base, bytes);  // Remove the poison that an unmapped slab left at these addresses.
#endif
  slabs_.push_back({static_cast<std::byte*>(base), bytes, count, 0});
  return true;
}

void StackPool::guard(std::byte* first_guard, std::uint32_t count) {
  if (guard_kind_ == GuardKind::kAdvised) {
    std::array<iovec, kGuardBatch> ranges;
    std::uint32_t done = 0;
    static sync::Atomic<bool> batch_works{true};
    while (done < count) {
      const std::uint32_t n = std::min(count - done, kGuardBatch);
      for (std::uint32_t i = 0; i < n; ++i) ranges[i] = {first_guard + (done + i) * stride_, page_};
      if (batch_works.load(std::memory_order_relaxed)) {
        // pidfd of this process: PIDFD_SELF_PROCESS (Linux 6.14 on).
        constexpr int kPidfdSelfProcess = -10001;
        const auto advised = syscall(SYS_process_madvise, kPidfdSelfProcess, ranges.data(), n, MADV_GUARD_INSTALL, 0);
        if (advised == static_cast<long>(n * page_)) {
          done += n;
          continue;
        }
        batch_works.store(false, std::memory_order_relaxed);
      }
      for (std::uint32_t i = 0; i < n; ++i) madvise(ranges[i].iov_base, page_, MADV_GUARD_INSTALL);
      done += n;
    }
  } else if (guard_kind_ == GuardKind::kProtected) {
    for (std::uint32_t i = 0; i < count && protected_maps_ < kMaxProtected; ++i, ++protected_maps_) {
      if (mprotect(first_guard + i * stride_, page_, PROT_NONE) != 0) break;
    }
  }
}

Fiber* StackPool::place(std::byte* stack_start) {
  std::byte* top = stack_start + stack_bytes_;
  auto* fiber = ::new (static_cast<void*>(top - sizeof(Fiber))) Fiber;
  fiber->low = stack_start;
  // A join may call tasks on top of this stack until three quarters of it are used.
  fiber->floor = stack_start + std::max(stack_bytes_ / 4, std::min<std::size_t>(stack_bytes_, 6144));
  if (guard_kind_ != GuardKind::kAdvised) std::memcpy(stack_start, &kCanary, sizeof kCanary);
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
  Fiber* list = nullptr;
  for (std::uint32_t i = n; i-- > 0;) {
    Fiber* fiber = place(first + i * stride_ + page_);
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
    cached_.fetch_sub(*taken, std::memory_order_relaxed);
  } else if (!cold_stacks_.empty()) {
    std::byte* stack = cold_stacks_.back();
    cold_stacks_.pop_back();
    list = place(stack);
    *taken = 1;
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

std::uint32_t StackPool::trim(std::uint32_t keep, std::uint32_t limit) {
  std::uint32_t released = 0;
  while (released < limit && cached_.load(std::memory_order_relaxed) > keep) {
    Fiber* fiber = nullptr;
    lock_.lock();
    if (free_ != nullptr) {
      fiber = free_;
      free_ = fiber->next;
      cached_.fetch_sub(1, std::memory_order_relaxed);
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

bool StackPool::in_guard(const Fiber* fiber, const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte < fiber->low && byte >= fiber->low - page_;
}

bool StackPool::canary_intact(const Fiber* fiber) const {
  if (guard_kind_ == GuardKind::kAdvised) return true;
  std::uint64_t word = 0;
  std::memcpy(&word, fiber->low, sizeof word);
  return word == kCanary;
}

}  // namespace rota::fiber::detail

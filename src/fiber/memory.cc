// The allocation of task records: a free list per thread worker, refilled from and drained to one depot of the process.
//
// The depot keeps its memory for the life of the process, so a handle may outlive its runtime. A record freed on
// another thread worker than it was allocated on stays there; beyond a bound half of the list moves to the depot at
// once. Under AddressSanitizer every record is a separate malloc, so that a use after free is detected.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "fiber/runtime_core.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

namespace {

constexpr std::uint32_t kBatch = 1024;
constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr std::size_t kFirstChunkBytes = 16 * 1024;  // A short program touches only what it uses.

struct Bundle {
  FreeSlot* first;
  std::uint32_t count;
};

class Depot {
 public:
  // A list of free slots; its length in *count.
  FreeSlot* take(std::uint8_t size_class, std::uint32_t* count) {
    {
      std::lock_guard guard(lock_);
      auto& bundles = bundles_[size_class];
      if (!bundles.empty()) {
        const Bundle bundle = bundles.back();
        bundles.pop_back();
        *count = bundle.count;
        return bundle.first;
      }
    }
    return carve(size_class, count);
  }
  void give(std::uint8_t size_class, FreeSlot* first, std::uint32_t count) {
    std::lock_guard guard(lock_);
    bundles_[size_class].push_back({first, count});
  }

 private:
  FreeSlot* carve(std::uint8_t size_class, std::uint32_t* count) {
    const std::size_t bytes = kSmallestRecord << size_class;
    std::size_t chunk_bytes = 0;
    {
      std::lock_guard guard(lock_);
      chunk_bytes = chunk_bytes_[size_class] == 0 ? kFirstChunkBytes : chunk_bytes_[size_class];
      chunk_bytes_[size_class] = std::min(2 * chunk_bytes, kChunkBytes);
    }
    auto* chunk = static_cast<std::byte*>(std::aligned_alloc(64, chunk_bytes));
    if (chunk == nullptr) throw std::bad_alloc();
    {
      std::lock_guard guard(lock_);
      chunks_.push_back(chunk);
    }
    *count = static_cast<std::uint32_t>(chunk_bytes / bytes);
    FreeSlot* list = nullptr;
    for (std::size_t i = *count; i-- > 0;) {
      auto* slot = reinterpret_cast<FreeSlot*>(chunk + i * bytes);
      slot->next = list;
      list = slot;
    }
    return list;
  }

  SpinLock lock_;
  std::array<std::vector<Bundle>, kSizeClasses> bundles_;
  std::array<std::size_t, kSizeClasses> chunk_bytes_{};  // Size of the next chunk; 0: kFirstChunkBytes.
  std::vector<std::byte*> chunks_;                       // Reachable for leak checkers.
};

Depot& depot() {
  static auto* the_depot = new Depot;  // Never destroyed: records may outlive everything.
  return *the_depot;
}

}  // namespace

TaskRecord* allocate_slow(ThreadWorker* worker, std::uint8_t size_class, std::size_t bytes) {
  if (ROTA_ASAN || size_class == kHugeClass) {
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<TaskRecord*>(memory);
  }
  std::uint32_t count = 0;
  FreeSlot* list = depot().take(size_class, &count);
  if (worker != nullptr) {
    worker->free[size_class] = list->next;
    worker->free_count[size_class] = count - 1;
  } else if (count > 1) {
    depot().give(size_class, list->next, count - 1);
  }
  return reinterpret_cast<TaskRecord*>(list);
}

void free_slow(TaskRecord* record) {
  if (record->size_class == kFrameClass) return;
  if (ROTA_ASAN || record->size_class == kHugeClass) {
    std::free(record);
    return;
  }
  const std::uint8_t size_class = record->size_class;
  auto* slot = reinterpret_cast<FreeSlot*>(record);
  slot->next = nullptr;
  depot().give(size_class, slot, 1);
}

void free_overflow(ThreadWorker* worker, std::uint8_t size_class) {
  FreeSlot* first = worker->free[size_class];
  FreeSlot* last = first;
  for (std::uint32_t i = 1; i < kBatch; ++i) last = last->next;
  worker->free[size_class] = last->next;
  worker->free_count[size_class] -= kBatch;
  last->next = nullptr;
  depot().give(size_class, first, kBatch);
}

void release_records(ThreadWorker* worker) {
  for (std::uint8_t i = 0; i < kSizeClasses; ++i) {
    if (worker->free[i] != nullptr) depot().give(i, worker->free[i], worker->free_count[i]);
    worker->free[i] = nullptr;
    worker->free_count[i] = 0;
  }
}

}  // namespace rota::fiber::detail

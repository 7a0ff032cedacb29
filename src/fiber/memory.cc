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

#include "fiber/runtime_core.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

namespace {

constexpr std::uint32_t kBatch = 1024;
constexpr std::size_t kChunkBytes = 256 * 1024;
constexpr std::size_t kFirstChunkBytes = 16 * 1024;  // A short program touches only what it uses.

// The first slot of a list of free slots. The depot links lists through it, because returning slots may not need
// memory.
struct Bundle : FreeSlot {
  Bundle* next_bundle;
  std::uint32_t count;
};
static_assert(sizeof(Bundle) <= kSmallestRecord);

struct Chunk {
  Chunk* next;
};

class Depot {
 public:
  // A list of free slots; its length in *count.
  FreeSlot* take(std::uint8_t size_class, std::uint32_t* count) {
    {
      std::lock_guard guard(lock_);
      if (Bundle* bundle = bundles_[size_class]; bundle != nullptr) {
        bundles_[size_class] = bundle->next_bundle;
        *count = bundle->count;
        return bundle;
      }
    }
    return carve(size_class, count);
  }
  void give(std::uint8_t size_class, FreeSlot* first, std::uint32_t count) {
    auto* bundle = static_cast<Bundle*>(first);
    std::lock_guard guard(lock_);
    bundle->count = count;
    bundle->next_bundle = bundles_[size_class];
    bundles_[size_class] = bundle;
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
      auto* header = reinterpret_cast<Chunk*>(chunk);  // The first slot is not used: it keeps the chunk reachable.
      std::lock_guard guard(lock_);
      header->next = chunks_;
      chunks_ = header;
    }
    *count = static_cast<std::uint32_t>(chunk_bytes / bytes) - 1;
    FreeSlot* list = nullptr;
    for (std::size_t i = *count; i > 0; --i) {
      auto* slot = reinterpret_cast<FreeSlot*>(chunk + i * bytes);
      slot->next = list;
      list = slot;
    }
    return list;
  }

  SpinLock lock_;
  std::array<Bundle*, kSizeClasses> bundles_{};
  std::array<std::size_t, kSizeClasses> chunk_bytes_{};  // Size of the next chunk; 0: kFirstChunkBytes.
  Chunk* chunks_ = nullptr;                              // Reachable for leak checkers.
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

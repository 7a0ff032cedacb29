// The allocation functions of metered targets (rota/fiber/detail/metered_memory.h).
//
// A block is charged with its usable size, which free() can ask for again, so blocks need no header, and may be freed
// by code that is not metered. In return it is not known whether a block was charged, and by whom: a task is credited
// for what it frees, but never with more than it was granted. So a budget cannot be increased by freeing the blocks of
// others.
//
// A charge happens where metered code calls, which is where it could be interrupted anyway: it may yield, and wait for
// a recharge of its ops. malloc() must not throw: it returns null when the budget does not cover the block, or the task
// is cancelled; new throws MemoryBudgetExhausted, BudgetExhausted or Cancelled.
#include <malloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "fiber/meter_core.h"
#include "rota/fiber/error.h"
#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

namespace {

ErrorCode charge_block(void* block) noexcept {
  try {
    return charge_memory(malloc_usable_size(block));
  } catch (...) {  // From the nursery's `notify`, or std::bad_alloc.
    return ErrorCode::kMemoryBudgetExhausted;
  }
}

void credit_block(void* block) noexcept {
  ThreadWorker* worker = current_worker();
  if (block == nullptr || !is_metered(worker)) return;
  const TaskRecord* task = worker->fiber->task;
  if (task == nullptr || task->meter == 0 || is_inline(task->meter)) return;  // It has not been charged yet.
  Meter* meter = meter_of(task->meter);
  if (meter->left.memory >= meter->granted.memory) return;
  meter->left.memory += std::min<std::uint64_t>(malloc_usable_size(block), meter->granted.memory - meter->left.memory);
}

// Charges a new block for malloc() and its relatives; frees it if that fails.
void* charged_or_null(void* block) noexcept {
  if (block == nullptr || charge_block(block) == ErrorCode::kOk) return block;
  std::free(block);
  errno = ENOMEM;
  return nullptr;
}

// The same for new.
template <class Free>
void* charged_or_throw(void* block, std::size_t bytes, Free free_block) {
  const ErrorCode code = charge_block(block);
  if (code == ErrorCode::kOk) return block;
  free_block(block);
  if (code == ErrorCode::kCancelled) throw_cancelled();
  throw MemoryBudgetExhausted(bytes);
}

}  // namespace

}  // namespace rota::fiber::detail

using namespace rota::fiber::detail;

extern "C" {

void* rota_metered_malloc(std::size_t bytes) noexcept;
void* rota_metered_malloc(std::size_t bytes) noexcept { return charged_or_null(std::malloc(bytes)); }

void* rota_metered_calloc(std::size_t count, std::size_t bytes) noexcept;
void* rota_metered_calloc(std::size_t count, std::size_t bytes) noexcept {
  return charged_or_null(std::calloc(count, bytes));
}

void* rota_metered_aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept;
void* rota_metered_aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  return charged_or_null(std::aligned_alloc(alignment, bytes));
}

int rota_metered_posix_memalign(void** to, std::size_t alignment, std::size_t bytes) noexcept;
int rota_metered_posix_memalign(void** to, std::size_t alignment, std::size_t bytes) noexcept {
  void* block = nullptr;
  if (const int error = posix_memalign(&block, alignment, bytes); error != 0) return error;
  block = charged_or_null(block);
  if (block == nullptr) return ENOMEM;
  *to = block;
  return 0;
}

void* rota_metered_valloc(std::size_t bytes) noexcept;
void* rota_metered_valloc(std::size_t bytes) noexcept { return charged_or_null(valloc(bytes)); }

void* rota_metered_pvalloc(std::size_t bytes) noexcept;
void* rota_metered_pvalloc(std::size_t bytes) noexcept { return charged_or_null(pvalloc(bytes)); }

char* rota_metered_strndup(const char* text, std::size_t most) noexcept;
char* rota_metered_strndup(const char* text, std::size_t most) noexcept {
  return static_cast<char*>(charged_or_null(strndup(text, most)));
}

char* rota_metered_strdup(const char* text) noexcept;
char* rota_metered_strdup(const char* text) noexcept { return static_cast<char*>(charged_or_null(strdup(text))); }

void rota_metered_free(void* block) noexcept;
void rota_metered_free(void* block) noexcept {
  credit_block(block);
  std::free(block);
}

// A new block, because the old one must stay as it is if the new size is refused.
void* rota_metered_realloc(void* block, std::size_t bytes) noexcept;
void* rota_metered_realloc(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return rota_metered_malloc(bytes);
  const std::size_t before = malloc_usable_size(block);
  if (bytes <= before && bytes >= before / 2) return block;
  if (bytes == 0) {
    rota_metered_free(block);
    return nullptr;
  }
  void* moved = rota_metered_malloc(bytes);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, std::min(before, bytes));
  rota_metered_free(block);
  return moved;
}

void* rota_metered_reallocarray(void* block, std::size_t count, std::size_t bytes) noexcept;
void* rota_metered_reallocarray(void* block, std::size_t count, std::size_t bytes) noexcept {
  std::size_t all = 0;
  if (!__builtin_mul_overflow(count, bytes, &all)) return rota_metered_realloc(block, all);
  errno = ENOMEM;
  return nullptr;
}

void* rota_metered_new(std::size_t bytes);
void* rota_metered_new(std::size_t bytes) {
  return charged_or_throw(::operator new(bytes), bytes, [](void* block) { ::operator delete(block); });
}

void* rota_metered_new_aligned(std::size_t bytes, std::align_val_t alignment);
void* rota_metered_new_aligned(std::size_t bytes, std::align_val_t alignment) {
  return charged_or_throw(::operator new(bytes, alignment), bytes,
                          [alignment](void* block) { ::operator delete(block, alignment); });
}

void* rota_metered_new_nothrow(std::size_t bytes, const std::nothrow_t&) noexcept;
void* rota_metered_new_nothrow(std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
  void* block = ::operator new(bytes, nothrow);
  if (block == nullptr || charge_block(block) == rota::ErrorCode::kOk) return block;
  ::operator delete(block);
  return nullptr;
}

// The size, if there is one, is not needed.
void rota_metered_delete(void* block) noexcept;
void rota_metered_delete(void* block) noexcept {
  credit_block(block);
  ::operator delete(block);
}
void rota_metered_delete_aligned(void* block, std::align_val_t alignment) noexcept;
void rota_metered_delete_aligned(void* block, std::align_val_t alignment) noexcept {
  credit_block(block);
  ::operator delete(block, alignment);
}
void rota_metered_delete_aligned_sized(void* block, std::size_t bytes, std::align_val_t alignment) noexcept;
void rota_metered_delete_aligned_sized(void* block, std::size_t bytes, std::align_val_t alignment) noexcept {
  credit_block(block);
  ::operator delete(block, bytes, alignment);
}
}

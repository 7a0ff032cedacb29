// Allocations that are charged to the allocating task.
#include <cstdio>

#include "fiber/runtime_core.h"
#include "rota/fiber/meter.h"

namespace rota::fiber {

using namespace detail;

MemoryBudgetExhausted::MemoryBudgetExhausted(std::size_t bytes) : bytes_(bytes), what_{} {
  std::snprintf(what_, sizeof(what_), "MemoryBudgetExhausted: no budget for %zu bytes", bytes);
}

void* MeteredResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  const ErrorCode code = charge_memory(bytes);
  if (code == ErrorCode::kCancelled) throw Cancelled(current_cancel_reason());
  if (code != ErrorCode::kOk) throw MemoryBudgetExhausted(bytes);
  try {
    return upstream_->allocate(bytes, alignment);
  } catch (...) {
    release_memory(bytes);
    throw;
  }
}

void MeteredResource::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  upstream_->deallocate(memory, bytes, alignment);
  release_memory(bytes);
}

bool MeteredResource::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  const auto* same = dynamic_cast<const MeteredResource*>(&other);
  return same != nullptr && (same == this || same->upstream_->is_equal(*upstream_));
}

MeterHold::MeterHold() {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr || worker->fiber->task == nullptr) return;
  if ((worker->fiber->task->flags & TaskRecord::kFlagHeld) != 0) return;  // Inside another one.
  task_ = worker->fiber->task;
  task_->flags |= TaskRecord::kFlagHeld;
}

MeterHold::~MeterHold() {
  if (task_ != nullptr) task_->flags &= static_cast<std::uint8_t>(~TaskRecord::kFlagHeld);
}

}  // namespace rota::fiber

// Functions that metered code calls instead of inlining them (ROTA_METERED in context.h).
//
// Each function is the inlined path of its header, compiled here, where no tick is inserted: between reading
// current_worker() and its last use nothing can move the task to another thread worker.
#include "rota/fiber/nursery.h"
#include "rota/fiber/task.h"

namespace rota::fiber::detail {

static_assert(ROTA_METERED == 0, "the runtime itself is not metered");

void tick_called(std::uint32_t ops) {
  if (!is_metered(current_worker())) return tick_unmetered();
  if (!tick_quickly(current_worker(), ops)) tick_slow(ops);
}

void open_called(NurseryCore* core) { open_nursery(core); }

void* allocate_called(std::size_t bytes) {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr) throw_outside_runtime("spawn()");
  const std::uint8_t size_class = size_class_of(bytes);
  if (!ROTA_ASAN && size_class != kHugeClass) {
    if (FreeSlot* slot = worker->free[size_class]; slot != nullptr) {
      worker->free[size_class] = slot->next;
      --worker->free_count[size_class];
      return slot;
    }
  }
  return allocate_slow(worker, size_class, bytes);
}

Result<void> start_called(NurseryCore* core, TaskRecord* record, const Grant* grant) {
  return start_record<TaskRecord>(current_worker(), core, record, grant).error;
}

void join_called(TaskRecord* record) { join(record); }

void free_called(TaskRecord* record) { free_record(current_worker(), record); }

}  // namespace rota::fiber::detail

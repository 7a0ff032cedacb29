#include "fiber/panic.h"

#include "fiber/runtime_core.h"

namespace rota::fiber::detail {

FaultHook g_fault_hook = nullptr;

namespace {

// Returns what the dead loop had taken, so that others neither rely on this thread worker's search nor wait for it.
void leave_idle(ThreadWorker* worker) {
  RuntimeCore* runtime = worker->runtime;
  const std::uint8_t idle = worker->idle;
  worker->idle = kBusy;
  if (idle == kBusy) return;
  if (idle == kPolling) stop_polling(runtime);
  // If it was not chosen, it is now neither sleeper nor searcher. Otherwise it counts as a searcher.
  if (idle != kSearching && runtime->lot.leave(worker->index)) return;
  if (runtime->lot.end_search()) runtime->wake_one();
}

}  // namespace

void worker_panicked() {
  ThreadWorker* worker = current_worker();
  RuntimeCore* runtime = worker->runtime;
  leave_idle(worker);
  runtime->worker_panics.fetch_add(1, std::memory_order_relaxed);
  event(worker, TaskEvent::kPanic, 0);
  if (runtime->deterministic) return;
  Fiber* self = worker->fiber;
  worker->replaced = true;
  keep_spare(worker, self);
  switch_fibers(worker, self, &worker->native);
}

}  // namespace rota::fiber::detail

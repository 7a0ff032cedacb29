// See no_task.h.
#include "fiber/no_task.h"

#include <utility>

#include "fiber/user_call.h"
#include "rota/fiber/error.h"

namespace rota::fiber::detail {

namespace {
// Read and written only where nothing parks in between, so always on the same thread.
thread_local constinit bool g_may_block = true;
thread_local constinit bool g_firing = false;
thread_local constinit ThreadWorker* g_hidden = nullptr;
}  // namespace

OutsideTasks::OutsideTasks() : worker_(current_worker()) {
  if (worker_ != nullptr && worker_->fiber->task != nullptr && !g_firing) worker_ = nullptr;
  if (worker_ == nullptr) return;
  rota_fiber_worker = nullptr;
  g_hidden = worker_;
  might_block_ = std::exchange(g_may_block, false);
}

OutsideTasks::~OutsideTasks() {
  if (worker_ == nullptr) return;
  g_may_block = might_block_;
  g_hidden = nullptr;
  rota_fiber_worker = worker_;
}

FiringTimer::FiringTimer() : before_(std::exchange(g_firing, true)) {}
FiringTimer::~FiringTimer() { g_firing = before_; }

bool may_block_thread() { return g_may_block; }

void must_be_able_to_block(const char* what) {
  if (!g_may_block) throw_outside_runtime(what);
}

void never_block_thread() { g_may_block = false; }

ThreadWorker* hidden_worker() { return g_hidden; }

bool drop_part(TaskRecord* record, Action part) {
  const OutsideTasks outside;
  struct Part {
    TaskRecord* record;
    Action part;
  } dropped{record, part};
  return call_user(
      [](void* argument) {
        const auto* given = static_cast<const Part*>(argument);
        given->record->act(given->record, given->part);
      },
      &dropped);
}

}  // namespace rota::fiber::detail

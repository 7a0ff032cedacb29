// Pools: drawing, returning, and sharing among waiting tasks.
#include <algorithm>
#include <mutex>

#include "fiber/meter_core.h"
#include "rota/assert.h"
#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

namespace {

void check_books([[maybe_unused]] const BudgetPool* pool) {
  ROTA_DASSERT(pool->rest + pool->granted + pool->spent == pool->total, "the accounts of a pool do not add up");
}

void grant(BudgetPool* pool, const Reserve& amount) {
  pool->rest -= amount;
  pool->granted += amount;
  check_books(pool);
}

// What a task that lacks `need` gets if the rest covers it: in each component that it lacks, its part of the rest if
// all holders of grants asked for more, but at most the usual budget and at least its need.
std::optional<Reserve> share(const BudgetPool* pool, const Reserve& need, const Budget& usual) {
  if (!pool->rest.covers(need)) return std::nullopt;
  const std::uint64_t holders = std::max<std::uint64_t>(pool->grants, 1);
  const Reserve most(usual);
  const auto part_of = [holders](std::uint64_t needed, std::uint64_t rest, std::uint64_t limit) {
    return needed == 0 ? 0 : std::max(needed, std::min(limit, rest / holders));
  };
  return Reserve{part_of(need.ops, pool->rest.ops, most.ops), part_of(need.memory, pool->rest.memory, most.memory),
                 part_of(need.spawn_count, pool->rest.spawn_count, most.spawn_count),
                 part_of(need.channel_ops, pool->rest.channel_ops, most.channel_ops),
                 part_of(need.syscalls, pool->rest.syscalls, most.syscalls)};
}

void enqueue(BudgetPool* pool, ExhaustedTask* waiter) {
  waiter->previous = pool->last;
  waiter->next = nullptr;
  (pool->last == nullptr ? pool->first : pool->last->next) = waiter;
  pool->last = waiter;
  waiter->queued = true;
  ++pool->waiting;
}

void dequeue(BudgetPool* pool, ExhaustedTask* waiter) {
  (waiter->previous == nullptr ? pool->first : waiter->previous->next) = waiter->next;
  (waiter->next == nullptr ? pool->last : waiter->next->previous) = waiter->previous;
  waiter->queued = false;
  --pool->waiting;
}

// Grants the amount and removes the waiter from the queue. Returns the fiber to schedule after the lock is released, or
// null if it is not parked yet, or another thread woke it.
Fiber* serve(BudgetPool* pool, ExhaustedTask* waiter, const Reserve& amount) {
  grant(pool, amount);
  waiter->given += amount;
  if (!waiter->given.covers(waiter->need)) return nullptr;
  dequeue(pool, waiter);
  return waiter->parked && claim_wake(waiter->fiber, WakeReason::kDone) ? waiter->fiber : nullptr;
}

// Serves the tasks that wait for the pool, oldest first, as far as possible: a small need does not overtake.
void serve_automatic(BudgetPool* pool) {
  for (;;) {
    Fiber* woken = nullptr;
    {
      std::lock_guard guard(pool->lock);
      ExhaustedTask* waiter = pool->first;
      while (waiter != nullptr && !waiter->automatic) waiter = waiter->next;
      if (waiter == nullptr) return;
      const Budget usual = scope_meter(waiter->task->nursery, pool->runtime->meter.get()).default_child;
      const std::optional<Reserve> amount = share(pool, waiter->need, usual);
      if (!amount) return;
      woken = serve(pool, waiter, *amount);
    }
    if (woken != nullptr) schedule(woken);
  }
}

bool publish_wait(ThreadWorker* /*worker*/, void* argument) {
  auto* waiter = static_cast<ExhaustedTask*>(argument);
  std::lock_guard guard(waiter->pool->lock);
  waiter->parked = waiter->queued;
  return waiter->queued;  // False: it was served before it was parked.
}

// True if `nursery` is the task's own, or surrounds it.
bool is_below(const TaskRecord* task, const NurseryCore* nursery) {
  for (const NurseryCore* at = task->nursery; at != nullptr; at = parent_of(at)) {
    if (at == nursery) return true;
  }
  return false;
}

}  // namespace

Reserve draw(BudgetPool* pool, const Reserve& wanted, bool new_holder) {
  std::lock_guard guard(pool->lock);
  const Reserve amount = min(pool->rest, wanted);
  grant(pool, amount);
  pool->grants += new_holder ? 1 : 0;
  return amount;
}

bool draw_all(BudgetPool* pool, const Reserve& wanted, bool new_holder) {
  std::lock_guard guard(pool->lock);
  if (!pool->rest.covers(wanted)) return false;
  grant(pool, wanted);
  pool->grants += new_holder ? 1 : 0;
  return true;
}

void give_back(BudgetPool* pool, const Reserve& granted, const Reserve& left) {
  bool waited_for = false;
  {
    std::lock_guard guard(pool->lock);
    pool->granted -= granted;
    pool->rest += left;
    pool->spent += granted - left;
    --pool->grants;
    check_books(pool);
    waited_for = pool->first != nullptr;
  }
  if (waited_for) serve_automatic(pool);
}

std::optional<Reserve> draw_share(BudgetPool* pool, const Reserve& need, const Budget& usual) {
  std::lock_guard guard(pool->lock);
  const std::optional<Reserve> amount = share(pool, need, usual);
  if (amount) grant(pool, *amount);
  return amount;
}

bool await_recharge(BudgetPool* pool, ExhaustedTask* waiter, const ScopeMeter& scope) {
  ThreadWorker* worker = current_worker();
  waiter->pool = pool;
  waiter->task = worker->fiber->task;
  waiter->fiber = worker->fiber;
  struct Queued {  // Leaves the queue on every path; `notify` is user code and may throw.
    explicit Queued(ExhaustedTask* who) : waiter(who) {
      std::lock_guard guard(who->pool->lock);
      enqueue(who->pool, who);
    }
    ~Queued() {
      std::lock_guard guard(waiter->pool->lock);
      if (waiter->queued) dequeue(waiter->pool, waiter);
    }
    ExhaustedTask* waiter;
  } queued(waiter);
  if (scope.notify) {
    const MeterHold hold;  // If this is metered code, its ops must not exhaust the task a second time.
    scope.notify({waiter->task->id, waiter->component});
  }
  // Something may have returned to the pool after the failed attempt and before the queueing.
  if (waiter->automatic) serve_automatic(pool);
  return park(current_worker(), publish_wait, waiter, true, "a recharge of its budget", TaskState::kBudgetExhausted) ==
         WakeReason::kDone;
}

Result<void> recharge_waiter(BudgetPool* pool, const NurseryCore* nursery, std::uint64_t id, const Reserve& amount) {
  Fiber* woken = nullptr;
  {
    std::lock_guard guard(pool->lock);
    ExhaustedTask* waiter = pool->first;
    while (waiter != nullptr && waiter->task->id != id) waiter = waiter->next;
    if (waiter == nullptr || !is_below(waiter->task, nursery)) {
      return Error{ErrorCode::kFailedPrecondition, "the task has not run out of budget"}.with("task",
                                                                                              std::to_string(id));
    }
    if (!pool->rest.covers(amount)) {
      return Error{ErrorCode::kBudgetExhausted, "the pool does not have that much left"};
    }
    woken = serve(pool, waiter, amount);
  }
  if (woken != nullptr) schedule(woken);
  return {};
}

PoolAudit audit(BudgetPool* pool) {
  PoolAudit books;
  {
    std::lock_guard guard(pool->lock);
    books = {pool->total, pool->rest, pool->granted, pool->spent, pool->grants, pool->waiting};
  }
  if (!pool->plentiful) return books;
  // The default budgets that were granted without touching the pool; exact when nothing runs.
  RuntimeCore& runtime = *pool->runtime;
  std::uint64_t holders = 0;
  Reserve used{};
  for (const auto& worker : runtime.workers) {
    const Counters& c = worker->counters;
    holders += (c.spawned.get() & kTaskCountMask) - kFirstTask - worker->not_inline.get() - worker->inline_opened.get();
    holders -= c.completed.get() + c.cancelled.get() + c.failed.get() - worker->meters_ended.get();
    used.ops += worker->spent_ops.get();
    used.spawn_count += worker->spent_spawns.get();
  }
  {
    sync::MutexLock lock(runtime.global_mutex);
    holders += runtime.outside_spawned - runtime.meter->outside_not_inline.get();
  }
  const Reserve each(runtime.meter->scope.default_child);
  const Reserve held{each.ops * holders, each.memory * holders, each.spawn_count * holders, each.channel_ops * holders,
                     each.syscalls * holders};
  books.granted += held;
  books.spent += used;
  books.rest -= held + used;
  books.grants += holders;
  return books;
}

}  // namespace rota::fiber::detail

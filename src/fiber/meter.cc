// Charging: the slow paths of charge.h: intervals, exhaustion, and the task's policy for it.
#include "rota/fiber/meter.h"

#include <cxxabi.h>

#include <algorithm>
#include <cerrno>

#include "fiber/meter_core.h"
#include "rota/assert.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::fiber::detail {

namespace {

constexpr std::uint32_t kCredit = 61;  // Ops that a task gets on credit where it cannot wait.
// Ops until a task that could not yield is asked again. A prime, so that in a loop with several kinds of operations it
// is not always the same kind that asks.
constexpr std::uint32_t kSoon = 251;

void credit(Meter* meter, const Reserve& amount) {
  meter->left += amount;
  meter->granted += amount;
}

ErrorCode refusal_of(Component component) {
  switch (component) {
    case Component::kMemory:
      return ErrorCode::kMemoryBudgetExhausted;
    case Component::kSpawnCount:
      return ErrorCode::kSpawnBudgetExhausted;
    default:
      return ErrorCode::kBudgetExhausted;
  }
}

bool renews(const Meter* meter, Component component) {
  return (meter->renewable >> static_cast<int>(component) & 1U) != 0;
}

// The budget lacks `missing`. kOk: it does not any more.
ErrorCode exhaust(ThreadWorker* worker, TaskRecord* task, Meter* meter, const Reserve& missing, Component component,
                  bool may_wait) {
  worker->counters.exhaustions.add(1);
  const ScopeMeter& scope = *meter->scope;
  const Component first = missing.ops > 0 ? Component::kOps : component;
  const bool automatic = scope.on_exhausted == OnExhausted::kRecharge && renews(meter, component) &&
                         (missing.ops == 0 || renews(meter, Component::kOps));
  if (automatic) {
    if (const auto share = draw_share(scope.pool, missing, scope.default_child); share) {
      credit(meter, *share);
      return ErrorCode::kOk;
    }
  }
  if (component == Component::kMemory || component == Component::kSpawnCount || !may_wait) return refusal_of(first);
  if (scope.on_exhausted == OnExhausted::kCancel) {
    task->flags |= TaskRecord::kFlagBudget;
    cancel_task(task, CancelReason::kExplicit);
    return ErrorCode::kCancelled;
  }
  ExhaustedTask waiter;
  waiter.need = missing;
  waiter.component = first;
  waiter.automatic = automatic;
  struct Credited {  // Also when `notify` throws.
    ~Credited() { credit(meter, waiter.given); }
    Meter* meter;
    ExhaustedTask& waiter;
  } credited{meter, waiter};
  if (await_recharge(scope.pool, &waiter, scope)) return ErrorCode::kOk;
  if (waiter.hopeless) {
    task->flags |= TaskRecord::kFlagBudget;
    cancel_task(task, CancelReason::kExplicit);
  }
  return ErrorCode::kCancelled;
}

// Takes ops from the fuel, then from the rest. True: an interval is over.
bool take_ops(Meter* meter, std::uint64_t ops, std::uint32_t interval) {
  if (static_cast<std::uint64_t>(meter->fuel) >= ops) {
    meter->fuel -= static_cast<std::int32_t>(ops);
    return false;
  }
  const std::uint64_t beyond = ops - static_cast<std::uint64_t>(meter->fuel);
  const std::uint64_t next = std::max(beyond, std::min<std::uint64_t>(interval, meter->left.ops));
  meter->fuel = static_cast<std::int32_t>(next - beyond);
  meter->left.ops -= next;
  return true;
}

// The exceptions that this thread has in flight or caught, in the layout of the C++ ABI.
struct ExceptionState {
  void* caught;
  unsigned int uncaught;
};
// Not inlined, and opaque: the library declares that the result never changes, which is wrong after a switch of
// threads.
[[gnu::noinline]] ExceptionState* exception_state() {
  asm volatile("");
  return reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}
[[gnu::noinline]] int* error_number() {
  asm volatile("");
  return &errno;
}

}  // namespace

std::uint8_t renewable_parts(const Budget& budget) {
  // Spawns only where some were granted (F-12). Everything else is renewed even if the grant names none of it:
  // otherwise the first operation would wait for ever beside a full pool.
  const bool has[kComponentCount] = {true, true, budget.spawn_count > 0, true, true};
  std::uint8_t bits = 0;
  for (int i = 0; i < kComponentCount; ++i) bits = static_cast<std::uint8_t>(bits | (has[i] ? 1U << i : 0U));
  return bits;
}

std::uint8_t unlimited_parts(const Budget& budget) {
  constexpr Budget kMost = Budget::unlimited();
  const bool has[kComponentCount] = {budget.ops == kMost.ops, budget.memory == kMost.memory,
                                     budget.spawn_count == kMost.spawn_count, budget.channel_ops == kMost.channel_ops,
                                     budget.syscalls == kMost.syscalls};
  std::uint8_t bits = 0;
  for (int i = 0; i < kComponentCount; ++i) bits = static_cast<std::uint8_t>(bits | (has[i] ? 1U << i : 0U));
  return bits;
}

bool may_look_up(const TaskRecord* task) {
  return (task->flags & TaskRecord::kFlagHeld) == 0 &&
         task->state.load(std::memory_order_relaxed) == TaskState::kRunning;
}

void yield_anywhere() {
  const int number = *error_number();
  const ExceptionState saved = *exception_state();
  *exception_state() = {nullptr, 0};
  yield();
  *exception_state() = saved;
  *error_number() = number;
}

Meter* new_meter(ThreadWorker* worker) {
  static_assert(sizeof(Meter) <= 128);
  void* memory = worker == nullptr ? allocate_slow(nullptr, size_class_of(sizeof(Meter)), sizeof(Meter))
                                   : static_cast<void*>(allocate_record<Meter>(worker));
  return ::new (memory) Meter;
}

void free_meter(ThreadWorker* worker, Meter* meter) {
  auto* slot = reinterpret_cast<TaskRecord*>(meter);
  slot->size_class = size_class_of(sizeof(Meter));
  free_record(worker, slot);
}

Meter* open_meter(ThreadWorker* worker, TaskRecord* task) {
  const std::uint64_t word = task->meter;
  if (!is_inline(word)) return meter_of(word);
  const RootMeter& root = *worker->runtime->meter;
  const Budget& budget = root.scope.default_child;
  Meter* meter = new_meter(worker);
  meter->scope = &scope_meter(task->nursery, &root);
  meter->granted = meter->left = budget;
  meter->fuel = static_cast<std::int32_t>(word & (kFuelGuard - 1));
  meter->left.ops -= root.fresh & (kFuelGuard - 1);
  meter->left.spawn_count = (word & ~kInlineMeter) >> 32;
  meter->renewable = renewable_parts(budget);
  meter->plain = true;  // Opening a scope with other options opens the meter first.
  const bool drawn = draw_all(meter->scope->pool, budget, true);
  ROTA_ASSERT(drawn, "a plentiful pool ran dry");
  worker->inline_opened.add(1);
  task->meter = reinterpret_cast<std::uint64_t>(meter);
  return meter;
}

ErrorCode pay(ThreadWorker* worker, TaskRecord* task, Component component, std::uint64_t amount, bool may_wait) {
  Meter* meter = open_meter(worker, task);
  const std::uint32_t interval = worker->runtime->meter->interval;
  may_wait = may_wait && may_look_up(task);
  for (;;) {
    const std::uint64_t ops = meter->doomed ? 0 : (component == Component::kOps ? amount : 1) + meter->debt;
    Reserve missing;
    const std::uint64_t ops_left = meter->left.ops + static_cast<std::uint64_t>(meter->fuel);
    if (ops > ops_left) missing.ops = ops - ops_left;
    if (component != Component::kOps) {
      std::uint64_t& left = part(meter->left, component);
      if (amount > left) part(missing, component) = amount - left;
      if (missing == Reserve{}) left -= amount;
    }
    if (missing == Reserve{}) {
      meter->debt = 0;
      if (take_ops(meter, ops, interval)) meter->due = true;
      break;
    }
    const ErrorCode code = exhaust(worker, task, meter, missing, component, may_wait);
    if (code == ErrorCode::kBudgetExhausted && component == Component::kOps) {
      // It cannot wait here, and an op cannot be refused: it continues on credit, and pays later.
      meter->debt = static_cast<std::uint32_t>(std::min<std::uint64_t>(ops + kCredit, UINT32_MAX / 2));
      meter->fuel = kCredit;
      return ErrorCode::kOk;
    }
    if (code != ErrorCode::kOk) return code;
    worker = current_worker();
  }
  if (meter->due) {
    if (may_wait) {
      meter->due = false;
      if ((worker->hooks & kHookDeterministic) != 0) poll_point(worker, interval);
      yield_anywhere();
    } else if (meter->fuel > static_cast<std::int32_t>(kSoon)) {
      meter->left.ops += static_cast<std::uint64_t>(meter->fuel) - kSoon;
      meter->fuel = kSoon;
    }
  }
  return ErrorCode::kOk;
}

ErrorCode charge_slow(Component component, std::uint64_t amount) {
  ThreadWorker* worker = current_worker();
  TaskRecord* task = worker->fiber->task;
  return task == nullptr ? ErrorCode::kOk : pay(worker, task, component, amount, true);
}

void release_memory_slow(std::size_t bytes) {
  ThreadWorker* worker = current_worker();
  if (TaskRecord* task = worker->fiber->task; task != nullptr) open_meter(worker, task)->left.memory += bytes;
}

void tick_unmetered() {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr || worker->fiber->task == nullptr) return;
  if ((worker->hooks & kHookDeterministic) != 0) [[unlikely]]
    poll_point(worker);
  if (cancelled_now(worker) && may_look_up(worker->fiber->task)) [[unlikely]]
    throw_cancelled();
}

void tick_slow(std::uint32_t ops) {
  ThreadWorker* worker = current_worker();
  TaskRecord* task = worker->fiber->task;
  ErrorCode code = pay(worker, task, Component::kOps, ops, true);
  if (code == ErrorCode::kOk && may_look_up(task) && cancelled_now(current_worker())) code = ErrorCode::kCancelled;
  if (code == ErrorCode::kOk) return;
  if ((task->flags & TaskRecord::kFlagBudget) != 0) throw BudgetExhausted();
  throw Cancelled(current_cancel_reason());
}

}  // namespace rota::fiber::detail

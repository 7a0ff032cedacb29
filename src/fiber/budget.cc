// The public interface of budgets: queries, recharging, supervisors.
#include "rota/fiber/budget.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "fiber/meter_core.h"
#include "rota/fiber/meter.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"

namespace rota::fiber {

namespace {

template <class U>
U clamped(std::uint64_t amount) {
  return static_cast<U>(std::min<std::uint64_t>(amount, std::numeric_limits<U>::max()));
}

}  // namespace

using namespace detail;

std::string_view to_string(Component component) {
  static constexpr std::string_view kNames[] = {"ops", "memory", "spawn_count", "channel_ops", "syscalls"};
  return kNames[static_cast<std::size_t>(component)];
}

BudgetExhausted::BudgetExhausted()
    : Cancelled(CancelReason::kExplicit,
                Error{ErrorCode::kBudgetExhausted, "the task was cancelled because its budget was used up"}) {}

Budget current_budget() {
  ThreadWorker* worker = current_worker();
  if (!is_metered(worker) || worker->fiber->task == nullptr) return Budget::unlimited();
  const Meter* meter = open_meter(worker, worker->fiber->task);
  Reserve left = meter->left;
  for (int i = 0; i < kComponentCount; ++i) {
    if ((meter->unlimited >> i & 1U) != 0) part(left, static_cast<Component>(i)) = UINT64_MAX;
  }
  std::uint64_t ops = left.ops;
  if (ops != UINT64_MAX) {
    ops += meter->doomed ? 0 : static_cast<std::uint64_t>(meter->fuel);
    ops -= std::min<std::uint64_t>(ops, meter->debt);
  }
  return {clamped<std::uint32_t>(ops), clamped<std::size_t>(left.memory), clamped<std::uint16_t>(left.spawn_count),
          clamped<std::uint16_t>(left.channel_ops), clamped<std::uint16_t>(left.syscalls)};
}

Result<void> recharge(const Budget& amount) {
  ThreadWorker* worker = current_worker();
  if (!is_metered(worker) || worker->fiber->task == nullptr) return {};
  Meter* meter = open_meter(worker, worker->fiber->task);
  if (meter->caps != nullptr && !count_drawn(meter->caps, amount)) {
    return Error{ErrorCode::kCapabilityDenied, "recharging needs CapBudget, and is bounded by its limit"}.with(
        "capability", "CapBudget");
  }
  if (!draw_all(meter->scope->pool, amount, false)) {
    if (meter->caps != nullptr) uncount_drawn(meter->caps, amount);
    return Error{ErrorCode::kBudgetExhausted, "the pool does not have that much left"};
  }
  meter->left += amount;
  meter->granted += amount;
  return {};
}

Result<void> Runtime::recharge(std::uint64_t task_id, const Budget& amount) {
  return recharge_task(&core_->root, task_id, amount);
}

PoolAudit Runtime::audit() const { return pool_audit(&core_->root); }

Result<void> Supervisor::recharge(std::uint64_t task_id, const Budget& amount) const {
  std::lock_guard guard(state_->lock);
  if (state_->core == nullptr) return Error{ErrorCode::kNurseryNotActive, "the supervised nursery is closed"};
  return recharge_task(state_->core, task_id, amount);
}

Result<PoolAudit> Supervisor::audit() const {
  std::lock_guard guard(state_->lock);
  if (state_->core == nullptr) return Error{ErrorCode::kNurseryNotActive, "the supervised nursery is closed"};
  return pool_audit(state_->core);
}

namespace detail {

Result<void> recharge_task(NurseryCore* nursery, std::uint64_t id, const Budget& amount) {
  RuntimeCore* runtime = runtime_of(nursery);
  if (runtime->meter == nullptr) return Error{ErrorCode::kFailedPrecondition, "this runtime does not meter"};
  return recharge_waiter(scope_meter(nursery, runtime->meter.get()).pool, nursery, id, amount);
}

PoolAudit pool_audit(NurseryCore* nursery) {
  RuntimeCore* runtime = runtime_of(nursery);
  if (runtime->meter == nullptr) return {};
  return audit(scope_meter(nursery, runtime->meter.get()).pool);
}

std::shared_ptr<SupervisorState> supervise(NurseryCore* nursery) {
  ThreadWorker* worker = current_worker();
  auto state = std::make_shared<SupervisorState>();
  if (!is_metered(worker)) return state;
  NurseryExtras* extras = extras_of(nursery);
  if (extras->meter == nullptr) open_metered(worker, nursery, {});
  if (extras->meter->supervisor == nullptr) {
    state->core = nursery;
    extras->meter->supervisor = std::move(state);
  }
  return extras->meter->supervisor;
}

}  // namespace detail

}  // namespace rota::fiber

// Commands about workers, policy, quotas and submissions.
#include "fleet/decide.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/nearest.h"
#include "base/sim_hooks.h"
#include "fleet/check.h"
#include "fleet/dispatch_mode.h"
#include "fleet/placement.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {

constexpr std::int64_t kMostCost = 9'000'000'000;  // 9,000 per hour.

Error invalid(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message)}; }

Result<void> check_worker(const WorkerSpec& worker) {
  if (worker.name.empty()) return invalid("a worker needs a name");
  ROTA_TRY(amounts_in_range("the worker's ", worker.resources));
  ROTA_TRY(in_range("the worker's cost in millionths per hour", worker.cost_microdollars_per_hour, 0, kMostCost));
  ROTA_TRY(in_range("the worker's power in milliwatts", worker.power_milliwatts, 0, kMostAmount));
  if (worker.resources.gpus.size() > kMostDevices) {
    return invalid("a worker has at most " + std::to_string(kMostDevices) + " GPUs, not " +
                   std::to_string(worker.resources.gpus.size()));
  }
  for (const Device& gpu : worker.resources.gpus) {
    ROTA_TRY(in_range("a GPU's memory in bytes", gpu.memory_bytes, 0, kMostAmount));
  }
  return {};
}

}  // namespace

Error no_worker_called(const State& state, std::string_view name) {
  std::vector<std::string> names;
  state.each_worker([&](const Worker& worker) { names.push_back(worker.spec.name); });
  std::string message = "no worker is called '" + std::string(name) + "'";
  if (const std::string_view near = nearest(name, names); !near.empty())
    message.append("; did you mean '").append(near).append("'?");
  return Error{ErrorCode::kNotFound, std::move(message)};
}

Result<void> Decision::run() {
  Result<void> result = std::visit([&](const auto& command) { return on(command); }, command_);
  ROTA_ASSERT(result.ok() || events_.empty(), "a refused command has no events");
  return result;
}

Result<void> Decision::on(const SetPolicy& command) {
  ROTA_TRY(check_policy(command.policy));
  if (command.policy.selection == Selection::kCustom && state_.selector() == nullptr) {
    return Error{ErrorCode::kFailedPrecondition,
                 "selection 'custom' needs a program that brings its own (docs/brain.md)"};
  }
  if (command.policy == state_.policy() && state_.globals().index > 1) return {};
  emit(PolicyChanged());
  if (command.policy.elastic.enable) return {};
  // Nobody else enables what the coordinator had disabled (B-17).
  std::vector<WorkerId> disabled;
  state_.each_worker([&](const Worker& worker) {
    if (worker.disabled_elastic) disabled.push_back(worker.id);
  });
  for (const WorkerId id : disabled) emit(WorkerChanged{id, WorkerChange::kEnabledElastic});
  return {};
}

Result<void> Decision::on(const Tick&) {
  std::vector<ShapeRef> graces;
  // What fires may set timers that are due at once: the loss of the last worker begins a grace period of 0.
  for (std::vector<Timer> fired = state_.fired(); !fired.empty(); fired = state_.take_due_timers()) {
    // Sorted by kind and id, so that the order does not depend on when the timers were set.
    std::sort(fired.begin(), fired.end(),
              [](const Timer& a, const Timer& b) { return a.kind != b.kind ? a.kind < b.kind : a.id < b.id; });
    for (const Timer& timer : fired) {
      if (timer.kind == Timer::Kind::kGrace) {
        graces.push_back(static_cast<ShapeRef>(timer.id));
      } else {
        fire(timer);
      }
    }
  }
  // A task that becomes ready here may be bound to a worker that cannot run it, and with a grace period of 0 it is late
  // at once: the binding is released before that (B-7).
  if (!graces.empty()) {
    state_.placement().drop_stale(state_);
    unbind();
  }
  fire_graces(graces);
  // Otherwise settle() does it, in its place: which timers were set depends on the history of the process.
  if (events_.empty()) recall();
  return {};
}

Result<void> Decision::on(const RegisterWorker& command) {
  ROTA_TRY(check_worker(command.worker));
  const Worker* known = state_.find_worker(command.worker.name);
  if (known == nullptr) {
    emit(WorkerRegistered{state_.globals().last_worker.next()});
    return {};
  }
  const WorkerId id = known->id;
  const bool same = known->spec == command.worker;
  if (known->lives_as(command.incarnation)) {
    // The same process as before. If its spec has changed, that is accepted once it has no tasks.
    if (same || !known->executions.empty()) {
      heard_from(*known);
      if (!command.caches.empty()) emit(CachesReported{id});
      return {};
    }
  } else if (ROTA_GUARD("brain: ignores registrations of an earlier life",
                        known->reachable && known->lived_as(command.incarnation))) {
    ROTA_SOMETIMES("brain: a registration of an earlier life");
    return {};  // A late message: the worker has restarted since.
  }
  // It restarted: its tasks are lost.
  if (ROTA_GUARD("brain: a restarted worker has lost its tasks", known->reachable && !known->executions.empty())) {
    ROTA_SOMETIMES("brain: a worker restarted before it was missed");
    emit(WorkerChanged{id, WorkerChange::kUnreachable});
    worker_gone(id);
  }
  if (same) {
    emit(WorkerRegistered{id});
    return {};
  }
  drop_bindings(id);
  emit(WorkerChanged{id, WorkerChange::kLeft});  // Another machine has the name now.
  emit(WorkerRegistered{state_.globals().last_worker.next()});
  return {};
}

void Decision::heard_from(const Worker& worker) {
  if (!worker.reachable) emit(WorkerChanged{worker.id, WorkerChange::kBack});
}

Result<void> Decision::on(const Heartbeats& command) {
  std::vector<WorkerId> back;
  for (const std::string& name : command.workers) {
    // The host asks a worker that is not known here to register (RegisterAgain).
    const Worker* worker = state_.find_worker(name);
    if (worker != nullptr && !worker->reachable) back.push_back(worker->id);
  }
  std::sort(back.begin(), back.end());
  back.erase(std::unique(back.begin(), back.end()), back.end());
  for (const WorkerId id : back) emit(WorkerChanged{id, WorkerChange::kBack});
  return {};
}

Result<void> Decision::on(const DrainWorker& command) {
  const Worker* worker = state_.find_worker(command.worker);
  if (worker == nullptr) return no_worker_called(state_, command.worker);
  if (worker->draining) return {};
  emit(WorkerChanged{worker->id, WorkerChange::kDraining});
  drop_bindings(worker->id);
  return {};
}

Result<void> Decision::on(const WorkerLost& command) {
  const Worker* worker = state_.find_worker(command.worker);
  if (worker == nullptr) return no_worker_called(state_, command.worker);
  if (!worker->reachable) return {};
  emit(WorkerChanged{worker->id, WorkerChange::kUnreachable});
  worker_gone(worker->id);
  return {};
}

Result<void> Decision::on(const SetWorkerEnabled& command) {
  const Worker* worker = state_.find_worker(command.worker);
  if (worker == nullptr) return no_worker_called(state_, command.worker);
  if (!command.enabled) {
    if (worker->disabled_by_hand) return {};
    emit(WorkerChanged{worker->id, WorkerChange::kDisabledByHand});
    drop_bindings(worker->id);
    return {};
  }
  const bool enabled = !worker->disabled_by_hand && !worker->disabled_elastic;
  if (enabled && worker->enabled_by_hand == command.held) return {};
  emit(WorkerChanged{worker->id, command.held ? WorkerChange::kEnabledByHand : WorkerChange::kAutomatic});
  return {};
}

Result<void> Decision::on(const ReportCaches& command) {
  const Worker* worker = state_.find_worker(command.worker);
  if (worker == nullptr) return no_worker_called(state_, command.worker);
  if (!command.items.empty()) emit(CachesReported{worker->id});
  return {};
}

Result<void> Decision::on(const SetQuota& command) {
  ROTA_TRY(in_range("the weight of user '" + command.user + "'", command.weight, 1, 1'000'000));
  ROTA_TRY(amounts_in_range("the quota of ", command.limits));
  ROTA_TRY(in_range("the quota of gpus", command.limits.gpus, 0, kMostAmount));
  ROTA_TRY(in_range("the quota of tasks", command.limits.tasks, 0, kMostAmount));
  emit(QuotaChanged());
  return {};
}

Result<void> Decision::on(const SubmitWorkflow& command) {
  if (ROTA_GUARD("brain: a key is accepted once", !command.key.empty() && state_.find_key(command.key) != nullptr)) {
    return Error{ErrorCode::kAlreadyExists, "a workflow with the key '" + command.key + "' was submitted before"}.with(
        "workflow", state_.find_key(command.key)->id.to_string());
  }
  // Backpressure (B-18). Without a worker the fleet counts as full.
  const Policy& policy = state_.policy();
  const std::int64_t capacity = state_.live_workers() * policy.backlog_per_worker;
  const auto queued = static_cast<std::int64_t>(std::min<std::uint64_t>(state_.unfinished_tasks(), 1ULL << 32));
  const std::int64_t usage = capacity == 0 ? kOne : std::min(kOne, queued * kOne / capacity);
  if (ROTA_GUARD("brain: backpressure", usage >= policy.reject_threshold)) {
    ROTA_SOMETIMES("brain: backpressure");
    std::string message = capacity == 0 ? "there is no worker"
                                        : std::to_string(queued) + " tasks are waiting or running; the limit is " +
                                              std::to_string(capacity);
    return Error{ErrorCode::kOverloaded, std::move(message) + "; try again in 5 s"}.with("retry_after_ms", "5000");
  }
  for (const Stage& stage : command.workflow.stages) {
    if (stage.fan_out && !stage.items.empty()) {
      return invalid("stage '" + stage.name + "' has items, but its matrix names results");
    }
  }
  ROTA_TRY_ASSIGN(WorkflowPlan plan, plan_workflow(command.workflow));
  if (!command.schedule.empty()) {
    ROTA_TRY_ASSIGN(const bool fires_now, fires(command));
    if (!fires_now) return {};
  }
  state_.use_plan(std::move(plan));
  const WorkflowId id = state_.globals().last_workflow.next();
  emit(WorkflowAccepted{id, usage > kOne / 2});
  if (!command.schedule.empty()) emit(ScheduleFired{FiringOutcome::kStarted, id});
  for (Infeasible& stage : infeasible_stages(state_, state_.at(id))) {
    emit(PlacementWarned{id, stage.stage, std::move(stage.requirement), stage.nearest});
  }
  return {};
}

Result<void> Decision::on(const ForgetWorkflow& command) {
  const Workflow* workflow = state_.find(command.workflow);
  if (workflow == nullptr) return Error{ErrorCode::kNotFound, "there is no workflow " + command.workflow.to_string()};
  if (workflow->outcome == Outcome::kRunning) {
    return Error{ErrorCode::kFailedPrecondition, command.workflow.to_string() + " has not ended; cancel it first"};
  }
  emit(WorkflowForgotten{command.workflow});
  return {};
}

}  // namespace rota::fleet

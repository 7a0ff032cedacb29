// Reports of workers, and what follows from the end of an attempt.
#include <algorithm>
#include <string>

#include "base/sim_hooks.h"
#include "fleet/decide.h"
#include "model/json.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {

bool active(const Task& task) {
  return task.state == TaskState::kRunning ||
         (task.state == TaskState::kPaused && task.paused_from == TaskState::kRunning);
}

std::int64_t backoff_ms(const Retry& retry, std::uint32_t spent) {
  std::int64_t wait = retry.backoff_ms;
  for (std::uint32_t i = 0; i < spent && wait < retry.backoff_most_ms; ++i) {
    wait = wait > retry.backoff_most_ms * 1000 / retry.backoff_factor_permille
               ? retry.backoff_most_ms
               : wait * retry.backoff_factor_permille / 1000;
  }
  return std::min(wait, retry.backoff_most_ms);
}

bool in_merged_execution(const State& state, TaskId id) {
  const auto& executions = state.at(state.at(id).worker).executions;
  return std::any_of(executions.begin(), executions.end(),
                     [&](const Execution& execution) { return execution.merged && execution.has(id); });
}

RequeueReason reason_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::kMemory:
      return RequeueReason::kKilledForMemory;
    case FailureKind::kTimeout:
      return RequeueReason::kTimedOut;
    case FailureKind::kWorkerLost:
      return RequeueReason::kWorkerLost;
    default:
      return RequeueReason::kFailed;
  }
}

}  // namespace

// The task, if the report is about its current attempt; null for a late report, which is not an error.
Result<const Task*> Decision::reported(TaskId id, AttemptNumber attempt) {
  const Task* task = state_.find(id);
  if (task == nullptr) return Error{ErrorCode::kNotFound, "there is no task " + id.to_string()};
  if (attempt > task->attempt) {
    return Error{ErrorCode::kInvalidArgument, "attempt " + attempt.to_string() + " of " + id.to_string() +
                                                  " was never made; the latest is " + task->attempt.to_string()};
  }
  if (attempt != task->attempt) ROTA_SOMETIMES("brain: a report of an older attempt");
  if (ROTA_GUARD("brain: reports of older attempts are ignored", attempt != task->attempt)) return nullptr;
  return active(*task) ? task : nullptr;
}

void Decision::resume_if_paused(TaskId id) {
  if (state_.at(id).state == TaskState::kPaused) emit(TaskResumed{id});
}

Result<void> Decision::on(const ReportEnded& command) {
  ROTA_TRY_ASSIGN(const Task* task, reported(command.task, command.attempt));
  if (task == nullptr) return {};
  const AttemptOutcome& outcome = command.outcome;
  switch (outcome.end) {
    case AttemptEnd::kSucceeded:
      succeeded(command);
      break;
    case AttemptEnd::kFailed:
      end_attempt(command.task, outcome.failure, outcome.message, outcome.final, outcome.batch);
      break;
    case AttemptEnd::kCancelled:
    case AttemptEnd::kPreempted:
      if (task->stopping) {
        stopped(command.task);
      } else if (task->recalled()) {
        emit(TaskRequeued{command.task, RequeueReason::kRecalled, 0, 0});
      } else {
        end_attempt(command.task, FailureKind::kError, "the task stopped without having been told to", false);
      }
      break;
  }
  return {};
}

// A success with an invalid result is a failure.
void Decision::succeeded(const ReportEnded& report) {
  const std::string& result = report.outcome.result;
  const auto most = static_cast<std::size_t>(state_.policy().result_most_bytes);
  if (result.size() > most) {
    end_attempt(report.task, FailureKind::kError,
                "the result has " + std::to_string(result.size()) + " bytes; the limit is " + std::to_string(most),
                true);
    return;
  }
  if (!result.empty() && result != "null") {
    if (const Result<void> valid = json_validate(result); !valid.ok()) {
      end_attempt(report.task, FailureKind::kError, "the result is not JSON: " + valid.error().message, true);
      return;
    }
  }
  resume_if_paused(report.task);
  emit(TaskSucceeded{report.task, report.attempt});
}

// The task has stopped as it was told to.
void Decision::stopped(TaskId id) {
  const Workflow& workflow = state_.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  switch (task.stop) {
    case StopReason::kCancel:
      cancel(id, TaskId());
      cascade(id);
      return;
    case StopReason::kPreempt:
    case StopReason::kRecall:  // Not with `stopping`.
      ROTA_SOMETIMES("brain: preempted");
      emit(TaskRequeued{id, RequeueReason::kPreempted, 0, 0});
      return;
    case StopReason::kGang: {
      const StageState& stage = workflow.stages[task.stage];
      for (const std::uint32_t t : stage.tasks()) {
        const Task& other = workflow.tasks[t];
        if (other.state != TaskState::kFailed && other.state != TaskState::kCancelled) continue;
        const TaskId root = other.extra == nullptr ? TaskId() : other.extra->root;
        cancel(id, root.is_none() ? TaskId(workflow.id, t) : root);  // The gang can never be complete again.
        return;
      }
      ROTA_SOMETIMES("brain: a task of a gang stopped with the others");
      emit(TaskRequeued{id, RequeueReason::kGang, 0, 0});
      return;
    }
  }
}

Result<void> Decision::on(const ReportCheckpoint& command) {
  ROTA_TRY_ASSIGN(const Task* task, reported(command.task, command.attempt));
  if (task == nullptr) return {};
  if (command.checkpoint.size() > static_cast<std::size_t>(state_.policy().result_most_bytes)) {
    return Error{ErrorCode::kTooLarge, "a checkpoint of " + std::to_string(command.checkpoint.size()) +
                                           " bytes; save it to a file and report the file's name"};
  }
  ROTA_TRY(json_validate(command.checkpoint));
  emit(CheckpointSaved{command.task});
  return {};
}

Result<void> Decision::on(const ReportUndeliverable& command) {
  ROTA_TRY_ASSIGN(const Task* task, reported(command.task, command.attempt));
  if (task == nullptr) return {};
  // Otherwise the next decision would choose this worker again, over and over at one instant (B-23).
  if (state_.at(task->worker).takes_tasks()) emit(WorkerChanged{task->worker, WorkerChange::kRefusing});
  if (task->stopping && task->stop != StopReason::kPreempt) {
    stopped(command.task);
  } else {
    emit(TaskRequeued{command.task, RequeueReason::kUndeliverable, 0, 0});
  }
  return {};
}

// The attempt of a running task ended without success. A paused task stays paused (B-19).
void Decision::end_attempt(TaskId id, FailureKind kind, const std::string& message, bool final, bool batch) {
  const Workflow& workflow = state_.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  const TaskTemplate& use = workflow.template_of(task);
  // It was told to stop: however it ended, it has stopped.
  if (task.stopping && task.stop != StopReason::kPreempt) {
    stopped(id);
    return;
  }
  // One of the merged tasks may be the reason why all of them failed: each runs alone, and only its own failures count
  // (B-12).
  if (ROTA_GUARD("brain: a failed batch runs one by one", batch && in_merged_execution(state_, id))) {
    ROTA_SOMETIMES("brain: a merged execution failed as a whole");
    emit(TaskRequeued{id, RequeueReason::kBatchFailed, 0, 0});
    return;
  }
  if (final || ROTA_GUARD("brain: attempts are limited", task.spent + 1 >= use.retry.max_attempts)) {
    fail(id, kind, message);
    return;
  }
  TaskRequeued requeued{id, reason_of(kind), 0, 0};
  // The loss of a worker is not the task's fault: it is requeued without a backoff.
  if (kind != FailureKind::kWorkerLost) {
    if (const std::int64_t wait = backoff_ms(use.retry, task.spent); wait > 0) {
      ROTA_SOMETIMES("brain: a task waits for its next attempt");
      requeued.not_before_ns = state_.time_ns() + wait * graph::kNsPerMs;
    }
  }
  if (kind == FailureKind::kMemory && use.retry.memory_factor_permille > 0 && !use.gang) {
    const std::int64_t asked =
        task.extra != nullptr && task.extra->memory_bytes > 0 ? task.extra->memory_bytes : use.needs.memory_bytes;
    std::int64_t largest = 0;
    for (const Kind& kind_of : state_.placement().kinds()) {
      if (kind_of.live > 0) largest = std::max(largest, kind_of.spec.resources.memory_bytes);
    }
    const std::int64_t more =
        asked / 1000 * use.retry.memory_factor_permille + asked % 1000 * use.retry.memory_factor_permille / 1000;
    requeued.memory_bytes = std::max(asked, std::min(more, largest));
  }
  emit(requeued);
  if (ROTA_GUARD("brain: a gang stops together", use.gang)) stop_gang(id);
}

// A task of a gang ended its attempt: the others that run are told to stop, so that all start again together.
void Decision::stop_gang(TaskId id) {
  const Workflow& workflow = state_.at(id.workflow());
  const StageState& stage = workflow.stages[workflow.tasks[id.index()].stage];
  for (const std::uint32_t t : stage.tasks()) {
    const TaskId other(workflow.id, t);
    const Task& task = workflow.tasks[t];
    if (other == id || !active(task) || task.stopping) continue;
    emit(StopRequested{other, StopReason::kGang, id});
  }
}

void Decision::fail(TaskId id, FailureKind kind, const std::string& message) {
  resume_if_paused(id);
  emit(TaskFailed{id, kind, message});
  cascade(id);
  const Workflow& workflow = state_.at(id.workflow());
  if (workflow.spec.fail_fast && workflow.stopped == StopCause::kNone &&
      !workflow.spec.stages[workflow.tasks[id.index()].stage].finally) {
    stop_workflow(workflow, StopCause::kFailFast, id);
  }
}

// The tasks of the stages in `reached` (all that come after the root) that need neither the root nor a task that needs
// it: their stage needs another one by item, and their values are others (Y-3).
std::vector<bool> Decision::spared_by_item(const Workflow& workflow, TaskId root,
                                           std::vector<std::uint32_t> reached) const {
  std::vector<bool> hit(workflow.tasks.size());
  hit[root.index()] = true;
  const Task& lost = workflow.tasks[root.index()];
  if (workflow.template_of(lost).gang) {  // The others of its gang never succeed either.
    const StageState& gang = workflow.stages[lost.stage];
    for (const std::uint32_t t : gang.tasks()) {
      if (workflow.tasks[t].state != TaskState::kSucceeded) hit[t] = true;
    }
  }
  std::sort(reached.begin(), reached.end(), [&](std::uint32_t a, std::uint32_t b) {
    return workflow.dag.order(graph::TaskRef(a + 1)) < workflow.dag.order(graph::TaskRef(b + 1));
  });
  std::vector<bool> any(workflow.stages.size());  // A task of the stage is hit.
  any[lost.stage] = true;
  for (const std::uint32_t s : reached) {
    const StageState& own = workflow.stages[s];
    for (const graph::TaskRef parent : workflow.dag.parents(graph::TaskRef(s + 1))) {
      const std::uint32_t p = parent.value() - 1;
      if (!any[p]) continue;
      const ItemLink* link = workflow.link_of(s, p);
      for (std::uint32_t i = 0; i < own.count; ++i) {
        // Tasks that are created later are cancelled then (fan_out.cc).
        bool hits = link == nullptr || (!link->resolved && !workflow.items_known(p));
        if (link != nullptr && link->resolved && link->child_group[i] != ItemLink::kNoGroup) {
          const std::vector<std::uint32_t>& before = link->groups[link->child_group[i]].parents;
          hits = std::any_of(before.begin(), before.end(),
                             [&](std::uint32_t number) { return hit[workflow.stages[p].task(number)]; });
        }
        if (!hits) continue;
        hit[own.task(i)] = any[s] = true;
      }
    }
  }
  hit.flip();
  return hit;
}

// The root failed or was cancelled: cancels everything that needs it, directly or indirectly.
void Decision::cascade(TaskId root) {
  const Workflow& workflow = state_.at(root.workflow());
  const Task& task = workflow.tasks[root.index()];
  if (workflow.template_of(task).gang) {  // Without one of its tasks the gang cannot run.
    stop_gang(root);
    const StageState& stage = workflow.stages[task.stage];
    for (const std::uint32_t t : stage.tasks()) {
      const Task& other = workflow.tasks[t];
      if (!graph::is_terminal(other.state) && !active(other)) cancel(TaskId(workflow.id, t), root);
    }
  }
  std::vector<bool> seen(workflow.stages.size());
  std::vector<std::uint32_t> stack{task.stage};
  std::vector<std::uint32_t> reached;
  while (!stack.empty()) {
    const std::uint32_t at = stack.back();
    stack.pop_back();
    for (const graph::TaskRef child : workflow.dag.children(graph::TaskRef(at + 1))) {
      const std::uint32_t stage = child.value() - 1;
      if (seen[stage] || workflow.spec.stages[stage].waits_for_end()) continue;
      seen[stage] = true;
      reached.push_back(stage);
      stack.push_back(stage);
    }
  }
  std::sort(reached.begin(), reached.end());
  const std::vector<bool> spared =
      workflow.links.empty() ? std::vector<bool>() : spared_by_item(workflow, root, reached);
  for (const std::uint32_t stage : reached) {
    const StageState& range = workflow.stages[stage];
    for (const std::uint32_t t : range.tasks()) {
      if (!spared.empty() && spared[t]) continue;
      if (ROTA_GUARD("brain: a failure cancels what needs it", !graph::is_terminal(workflow.tasks[t].state))) {
        cancel(TaskId(workflow.id, t), root);
      }
    }
  }
}

void Decision::cancel(TaskId id, TaskId root) { emit(TaskCancelled{id, !root.is_none(), root}); }

// The worker cannot be reached: its tasks are requeued, and its bindings are dropped.
void Decision::worker_gone(WorkerId id) {
  while (ROTA_GUARD("brain: a lost worker's tasks are requeued", !state_.at(id).executions.empty())) {
    const TaskId task = state_.at(id).executions.front().members.front();
    if (state_.at(task).stopping) {
      stopped(task);
    } else {
      end_attempt(task, FailureKind::kWorkerLost, "worker '" + state_.at(id).spec.name + "' was lost", false);
    }
  }
  drop_bindings(id);
}

void Decision::drop_bindings(WorkerId id) {
  if (ROTA_GUARD("brain: bindings to a lost worker are dropped", !state_.at(id).owner.is_none())) {
    ROTA_SOMETIMES("brain: a workflow loses its worker");
    emit(BindingDropped{state_.at(id).owner, {}});
  }
  std::vector<std::string> types;
  for (const auto& [type, owner] : state_.globals().type_owner) {
    if (owner == id) types.push_back(type);
  }
  for (std::string& type : types) emit(BindingDropped{WorkflowId(), std::move(type)});
}

}  // namespace rota::fleet

// Commands of users about tasks and workflows: pause, resume, cancel, retry, priorities.
#include <algorithm>
#include <string>
#include <vector>

#include "base/sim_hooks.h"
#include "fleet/decide.h"

namespace rota::fleet {

namespace {

Error no_workflow(WorkflowId id) { return Error{ErrorCode::kNotFound, "there is no workflow " + id.to_string()}; }

}  // namespace

Result<void> Decision::on(const Control& command) {
  const WorkflowId id = command.task.is_none() ? command.workflow : command.task.workflow();
  const Workflow* workflow = state_.find(id);
  if (workflow == nullptr) return no_workflow(id);
  if (command.task.is_none()) {
    if (command.action != Action::kRetry && workflow->outcome != Outcome::kRunning) {
      return Error{ErrorCode::kFailedPrecondition,
                   id.to_string() + " has ended: " + std::string(to_string(workflow->outcome))};
    }
    if (command.action == Action::kRetry && workflow->outcome == Outcome::kSucceeded) {
      return Error{ErrorCode::kFailedPrecondition, id.to_string() + " has succeeded: there is nothing to retry"};
    }
    if (command.action == Action::kRetry) {
      ROTA_TRY(check_retry(*workflow, TaskId()));
      retry(*workflow, TaskId());
    } else if (command.action == Action::kCancel && !workflow->finally.empty() &&
               workflow->stopped != StopCause::kCancel) {
      // Also while `finally` runs: only a second one cancels that.
      stop_workflow(*workflow, StopCause::kCancel);
    } else {
      for (std::uint32_t t = 0; t < workflow->tasks.size(); ++t) control(*workflow, TaskId(id, t), command.action);
    }
    return {};
  }
  const Task* task = state_.find(command.task);
  if (task == nullptr) return Error{ErrorCode::kNotFound, "there is no task " + command.task.to_string()};
  const bool retry = command.action == Action::kRetry;
  if (retry ? task->state != TaskState::kFailed && task->state != TaskState::kCancelled
            : graph::is_terminal(task->state)) {
    return Error{ErrorCode::kFailedPrecondition, command.task.to_string() + " is " +
                                                     std::string(graph::to_string(task->state)) + "; it cannot be " +
                                                     (retry ? "retried" : "changed any more")};
  }
  if (retry) {
    TaskId broken = broken_need(*workflow, task->stage);
    if (broken.is_none()) broken = broken_item(*workflow, *task);
    if (!broken.is_none()) {
      return Error{ErrorCode::kFailedPrecondition,
                   command.task.to_string() + " needs " + broken.to_string() + ", which is " +
                       std::string(graph::to_string(state_.at(broken).state)) + "; retry that one, or the workflow"};
    }
    ROTA_TRY(check_retry(*workflow, command.task));
    this->retry(*workflow, command.task);
    return {};
  }
  control(*workflow, command.task, command.action);
  if (command.action == Action::kCancel && state_.at(command.task).state == TaskState::kCancelled)
    cascade(command.task);
  return {};
}

void Decision::control(const Workflow& workflow, TaskId id, Action action) {
  const Task& task = workflow.tasks[id.index()];
  if (graph::is_terminal(task.state)) return;
  const bool paused = task.state == TaskState::kPaused;
  switch (action) {
    case Action::kPause:
      if (!paused && task.stopping) ROTA_SOMETIMES("brain: a task is to be paused that stops");
      if (!paused && !ROTA_GUARD("brain: a stopping task is not paused", task.stopping)) emit(TaskPaused{id});
      return;
    case Action::kResume:
      if (paused) emit(TaskResumed{id});
      return;
    case Action::kCancel:
      if (task.state == TaskState::kRunning || (paused && task.paused_from == TaskState::kRunning)) {
        if (task.stopping) ROTA_SOMETIMES("brain: a task that stops is cancelled");
        if (!task.stopping || task.stop != StopReason::kCancel) emit(StopRequested{id, StopReason::kCancel, TaskId()});
      } else {
        cancel(id, TaskId());
      }
      return;
    case Action::kRetry:
      return;
  }
}

// A task that the stage needs and that failed or was cancelled; none if there is none.
TaskId Decision::broken_need(const Workflow& workflow, std::uint32_t stage) const {
  if (workflow.spec.stages[stage].waits_for_end()) return {};
  for (const graph::TaskRef parent : workflow.dag.parents(graph::TaskRef(stage + 1))) {
    const StageState& range = workflow.stages[parent.value() - 1];
    if (range.unfinished == 0 || workflow.link_of(stage, parent.value() - 1) != nullptr) continue;
    for (const std::uint32_t t : range.tasks()) {
      const TaskState state = workflow.tasks[t].state;
      if (state == TaskState::kFailed || state == TaskState::kCancelled) return TaskId(workflow.id, t);
    }
  }
  return {};
}

// The same for the stages that the stage needs by item and whose items are not known.
TaskId Decision::broken_fan_out(const Workflow& workflow, std::uint32_t stage) const {
  for (const ItemLink& link : workflow.links) {
    if (link.child != stage || link.resolved || workflow.items_known(link.parent)) continue;
    const TaskId first(workflow.id, workflow.stages[link.parent].first);
    const TaskState state = workflow.tasks[first.index()].state;
    if (state == TaskState::kFailed || state == TaskState::kCancelled) return first;
  }
  return {};
}

// The same for a task, of the stages that its stage needs by item.
TaskId Decision::broken_item(const Workflow& workflow, const Task& task) const {
  if (const TaskId first = broken_fan_out(workflow, task.stage); !first.is_none()) return first;
  const std::uint32_t number = workflow.stages[task.stage].number(workflow.id_of(task).index());
  for (const ItemLink& link : workflow.links) {
    if (link.child != task.stage || !link.resolved) continue;
    if (link.child_group[number] == ItemLink::kNoGroup) continue;
    for (const std::uint32_t i : link.groups[link.child_group[number]].parents) {
      const std::uint32_t t = workflow.stages[link.parent].task(i);
      const TaskState state = workflow.tasks[t].state;
      if (state == TaskState::kFailed || state == TaskState::kCancelled) return TaskId(workflow.id, t);
    }
  }
  return {};
}

// There is a task outside of `finally` that has neither ended nor been told to: after a failure with fail_fast, stages
// that run after failures go on, and the deadline holds for them, too.
bool Decision::stoppable(const Workflow& workflow) const {
  return std::any_of(workflow.tasks.begin(), workflow.tasks.end(), [&](const Task& task) {
    return !workflow.spec.stages[task.stage].finally && !graph::is_terminal(task.state) &&
           !(task.stopping && task.stop == StopReason::kCancel);
  });
}

// Cancels the tasks of the workflow, but for those of `finally`, which run then (Y-4). After a failure, stages that run
// after failures are not cancelled either. `finally` also runs if the workflow was paused, unless a task has failed:
// then the user who paused it still decides when it continues.
void Decision::stop_workflow(const Workflow& workflow, StopCause cause, TaskId failed) {
  emit(WorkflowStopped{workflow.id, cause, failed});
  for (std::uint32_t t = 0; t < workflow.tasks.size(); ++t) {
    const Stage& stage = workflow.spec.stages[workflow.tasks[t].stage];
    if (stage.finally) {
      if (cause != StopCause::kFailFast) control(workflow, TaskId(workflow.id, t), Action::kResume);
      continue;
    }
    if (cause == StopCause::kFailFast && stage.waits_for_end()) continue;
    control(workflow, TaskId(workflow.id, t), Action::kCancel);
  }
}

// The stages in the order of the graph, those of `finally` last.
std::vector<std::uint32_t> Decision::stages_in_order(const Workflow& workflow) {
  std::vector<std::uint32_t> stages(workflow.stages.size());
  for (std::uint32_t s = 0; s < stages.size(); ++s) stages[workflow.dag.order(graph::TaskRef(s + 1))] = s;
  std::stable_partition(stages.begin(), stages.end(), [&](auto s) { return !workflow.spec.stages[s].finally; });
  return stages;
}

// A stage whose items come from what is retried is expanded again (StageCollapsed). Its tasks must not run then: what
// they do belongs to items that may no longer be there. Stages that may be retried are found without looking at what
// else has failed, so that a few more retries are refused than necessary.
Result<void> Decision::check_retry(const Workflow& workflow, TaskId id) const {
  const auto is_expanded = [](const Stage& stage) { return stage.fan_out && !stage.items.empty(); };
  if (std::none_of(workflow.spec.stages.begin(), workflow.spec.stages.end(), is_expanded)) return {};
  std::vector<bool> retried(workflow.stages.size());
  bool main = false;
  for (const std::uint32_t s : stages_in_order(workflow)) {
    const StageState& range = workflow.stages[s];
    const auto parents = workflow.dag.parents(graph::TaskRef(s + 1));
    const bool above =
        (workflow.spec.stages[s].finally && main) ||
        std::any_of(parents.begin(), parents.end(), [&](graph::TaskRef parent) { return retried[parent.value() - 1]; });
    const bool again = above && range.repeats && is_expanded(workflow.spec.stages[s]);
    bool own = !id.is_none() && workflow.tasks[id.index()].stage == s;
    for (const std::uint32_t t : range.tasks()) {
      const Task& task = workflow.tasks[t];
      own = own || (id.is_none() && (task.state == TaskState::kFailed || task.state == TaskState::kCancelled));
      if (!ROTA_GUARD("brain: a fan-out that runs is not collapsed", again) || !runs(task)) continue;
      return Error{ErrorCode::kFailedPrecondition,
                   TaskId(workflow.id, t).to_string() + " runs, and the items of its stage '" +
                       workflow.spec.stages[s].name +
                       "' come from what is retried; retry when the tasks of that stage have ended, or cancel them"};
    }
    retried[s] = above || own;
    main = main || (retried[s] && !workflow.spec.stages[s].finally);
  }
  return {};
}

// Requeues the task (for a gang: all its tasks; for none: every task that did not succeed). Then, in the order of the
// graph, requeues what was cancelled because of it, if nothing else that it needs failed or was cancelled. What has run
// because stages had ended runs again after those of them that are requeued (Y-4).
void Decision::retry(const Workflow& workflow, TaskId id) {
  const std::vector<std::uint32_t> stages = stages_in_order(workflow);
  std::vector<bool> reached(stages.size(), id.is_none());
  std::vector<bool> requeued(stages.size());  // A task of the stage.
  bool main_requeued = false;
  if (!id.is_none()) reached[workflow.tasks[id.index()].stage] = true;
  for (const std::uint32_t s : stages) {
    const StageState& range = workflow.stages[s];
    const auto parents = workflow.dag.parents(graph::TaskRef(s + 1));
    const bool again = range.repeats && ((workflow.spec.stages[s].finally && main_requeued) ||
                                         std::any_of(parents.begin(), parents.end(), [&](graph::TaskRef parent) {
                                           return requeued[parent.value() - 1];
                                         }));
    if (!reached[s] && !again) continue;
    for (const graph::TaskRef child : workflow.dag.children(graph::TaskRef(s + 1))) reached[child.value() - 1] = true;
    const bool own = !id.is_none() && workflow.tasks[id.index()].stage == s;
    if ((!again && range.unfinished == 0) || (!own && !broken_need(workflow, s).is_none())) continue;
    if (again && workflow.spec.stages[s].fan_out && !workflow.spec.stages[s].items.empty() &&
        ROTA_GUARD("brain: a retry expands a fan-out again", broken_fan_out(workflow, s).is_none())) {
      emit(StageCollapsed{workflow.id, s});
      requeued[s] = true;
      main_requeued = main_requeued || !workflow.spec.stages[s].finally;
      continue;
    }
    for (const std::uint32_t t : range.tasks()) {
      const Task& task = workflow.tasks[t];
      const bool early = again && task.state == TaskState::kReady;  // It waits again.
      if (!early && !graph::is_terminal(task.state)) continue;
      if (task.state == TaskState::kSucceeded && !again) continue;
      const bool because =
          !own && task.state == TaskState::kCancelled && task.extra != nullptr && !task.extra->root.is_none();
      const bool meant = id.is_none() || TaskId(workflow.id, t) == id || (own && workflow.template_of(task).gang);
      if (!meant && !because && !again) continue;
      if (!own && !broken_item(workflow, task).is_none()) continue;
      emit(TaskRequeued{TaskId(workflow.id, t), RequeueReason::kRetried, 0, 0});
      requeued[s] = true;
      main_requeued = main_requeued || !workflow.spec.stages[s].finally;
    }
  }
}

Result<void> Decision::on(const SetPriority& command) {
  const WorkflowId id = command.task.is_none() ? command.workflow : command.task.workflow();
  const Workflow* workflow = state_.find(id);
  if (workflow == nullptr) return no_workflow(id);
  constexpr std::int64_t kMost = 1'000'000'000;
  if (command.priority < -kMost || command.priority > kMost) {
    return Error{ErrorCode::kInvalidArgument, "a priority of " + std::to_string(command.priority) + "; allowed is " +
                                                  std::to_string(-kMost) + " to " + std::to_string(kMost)};
  }
  if (!command.task.is_none()) {
    const Task* task = state_.find(command.task);
    if (task == nullptr) return Error{ErrorCode::kNotFound, "there is no task " + command.task.to_string()};
    if (graph::is_terminal(task->state)) {
      return Error{ErrorCode::kFailedPrecondition, command.task.to_string() + " has ended"};
    }
    if (task->priority == command.priority) return {};
  } else if (workflow->outcome != Outcome::kRunning) {
    return Error{ErrorCode::kFailedPrecondition, id.to_string() + " has ended"};
  }
  emit(PriorityChanged());
  return {};
}

}  // namespace rota::fleet

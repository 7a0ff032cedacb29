// Commands of users about tasks and workflows: pause, resume, cancel, retry, priorities.
#include <string>

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
    if (command.action == Action::kRetry) {
      retry(*workflow, TaskId());
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
    if (const TaskId broken = broken_need(*workflow, task->stage); !broken.is_none()) {
      return Error{ErrorCode::kFailedPrecondition,
                   command.task.to_string() + " needs " + broken.to_string() + ", which is " +
                       std::string(graph::to_string(state_.at(broken).state)) + "; retry that one, or the workflow"};
    }
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
      if (!paused && !task.stopping) emit(TaskPaused{id});
      return;
    case Action::kResume:
      if (paused) emit(TaskResumed{id});
      return;
    case Action::kCancel:
      if (task.state == TaskState::kRunning || (paused && task.paused_from == TaskState::kRunning)) {
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
  for (const graph::TaskRef parent : workflow.dag.parents(graph::TaskRef(stage + 1))) {
    const StageState& range = workflow.stages[parent.value() - 1];
    if (range.unfinished == 0) continue;
    for (std::uint32_t t = range.first; t < range.first + range.count; ++t) {
      const TaskState state = workflow.tasks[t].state;
      if (state == TaskState::kFailed || state == TaskState::kCancelled) return TaskId(workflow.id, t);
    }
  }
  return {};
}

// Requeues the task (for a gang: all its tasks; for none: every task that did not succeed). Then, in the order of the
// graph, requeues what was cancelled because of it, if nothing else that it needs failed or was cancelled.
void Decision::retry(const Workflow& workflow, TaskId id) {
  std::vector<std::uint32_t> stages(workflow.stages.size());
  for (std::uint32_t s = 0; s < stages.size(); ++s) stages[workflow.dag.order(graph::TaskRef(s + 1))] = s;
  std::vector<bool> reached(stages.size(), id.is_none());
  if (!id.is_none()) reached[workflow.tasks[id.index()].stage] = true;
  for (const std::uint32_t s : stages) {
    const StageState& range = workflow.stages[s];
    if (!reached[s]) continue;
    for (const graph::TaskRef child : workflow.dag.children(graph::TaskRef(s + 1))) reached[child.value() - 1] = true;
    const bool own = !id.is_none() && workflow.tasks[id.index()].stage == s;
    if (range.unfinished == 0 || (!own && !broken_need(workflow, s).is_none())) continue;
    for (std::uint32_t t = range.first; t < range.first + range.count; ++t) {
      const Task& task = workflow.tasks[t];
      if (task.state != TaskState::kFailed && task.state != TaskState::kCancelled) continue;
      const bool because =
          !own && task.state == TaskState::kCancelled && task.extra != nullptr && !task.extra->root.is_none();
      const bool meant = id.is_none() || TaskId(workflow.id, t) == id || (own && workflow.template_of(task).gang);
      if (meant || because) emit(TaskRequeued{TaskId(workflow.id, t), RequeueReason::kRetried, 0, 0});
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

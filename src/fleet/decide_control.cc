// What people do to tasks and workflows: pause, resume, cancel, retry, priorities.
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
    for (std::uint32_t t = 0; t < workflow->tasks.size(); ++t) control(*workflow, TaskId(id, t), command.action);
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
  if (retry && task->extra != nullptr && !task->extra->root.is_none() &&
      state_.at(task->extra->root).state != TaskState::kSucceeded) {
    return Error{ErrorCode::kFailedPrecondition, command.task.to_string() + " was cancelled because of " +
                                                     task->extra->root.to_string() + "; retry that one"};
  }
  control(*workflow, command.task, command.action);
  if (command.action == Action::kCancel && state_.at(command.task).state == TaskState::kCancelled)
    cascade(command.task);
  return {};
}

void Decision::control(const Workflow& workflow, TaskId id, Action action) {
  const Task& task = workflow.tasks[id.index()];
  if (action == Action::kRetry) {
    retry(workflow, id);
    return;
  }
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

// The task again, and all that was cancelled because of it; a gang as a whole.
void Decision::retry(const Workflow& workflow, TaskId id) {
  const Task& task = workflow.tasks[id.index()];
  if (task.state != TaskState::kFailed && task.state != TaskState::kCancelled) return;
  emit(TaskRequeued{id, RequeueReason::kRetried, 0, 0});
  for (std::uint32_t t = 0; t < workflow.tasks.size(); ++t) {
    const Task& other = workflow.tasks[t];
    const bool because = other.state == TaskState::kCancelled && other.extra != nullptr && other.extra->root == id;
    const bool beside = other.stage == task.stage && workflow.template_of(other).gang &&
                        (other.state == TaskState::kFailed || other.state == TaskState::kCancelled);
    if (!because && !beside) continue;
    emit(TaskRequeued{TaskId(workflow.id, t), RequeueReason::kRetried, 0, 0});
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

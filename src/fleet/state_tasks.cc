// How events change tasks and what they hold.
#include <algorithm>
#include <utility>

#include "fleet/codec.h"
#include "fleet/dispatch_mode.h"
#include "fleet/input_files.h"
#include "fleet/state.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {
// An empty text is kept instead of JSON's null.
std::string empty_if_null(const std::string& json) { return json == "null" ? std::string() : json; }
}  // namespace

Task& State::edit(TaskId id) {
  Workflow& workflow = workflow_at(id.workflow());
  ROTA_ASSERT(id.index() < workflow.tasks.size());
  return edit(workflow, workflow.tasks[id.index()]);
}

void State::on(const TaskReadied& e, const Command&) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  if (task.due_ns() != 0) {  // Its backoff is over. What it comes after may have been retried in the meantime (Y-4).
    task.extra->due_ns = 0;
    if (workflow.stages[task.stage].waits > 0 || workflow.waits_for_items(task)) return;
    if (workflow.spec.stages[task.stage].parallel > 0) return ready_or_examined(workflow, task);
    return ready_again(workflow, task);
  }
  become_ready(workflow, task);
}

void State::on(const TaskSkipped& e, const Command&) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  // The life cycle has no transition from Queued to Succeeded: a skipped task passes through Ready and Running.
  move(workflow, task, TaskState::kReady);
  move(workflow, task, TaskState::kRunning);
  task.skipped = true;
  move(workflow, task, TaskState::kSucceeded);
  stage_task_done(workflow, task);
  if (workflow.is_placeholder(task)) resolve_links(workflow, task.stage);
}

void State::on(const TaskAssigned& e, const Command&) {
  Workflow& lead_workflow = workflow_at(e.task.workflow());
  Worker& worker = edit(e.worker);
  Execution execution;
  const auto begin = [&](TaskId id, AttemptNumber attempt) {
    Workflow& workflow = workflow_at(id.workflow());
    Task& task = edit(id);
    reserve(workflow, task, WorkerId());
    placement_.remove(*this, workflow, task);
    move(workflow, task, TaskState::kRunning);
    execution.count_in(users_[workflow.user].used);
    task.attempt = attempt;
    task.worker = e.worker;
    task.at_worker = e.queued;
    task.stopping = task.deferred = false;
    task.stop = StopReason::kCancel;
    task.assigned_ns = time_ns();
    task.assigned_in = record_;
    if (!workflow.started) {
      edit(id.workflow()).started = true;
      placement_.workflow_started(*this, id.workflow());
    }
  };
  const TaskTemplate& use = lead_workflow.template_of(lead_workflow.tasks[e.task.index()]);
  const Task& lead = lead_workflow.tasks[e.task.index()];
  const bool was_bound = placement_.shape(lead.shape).bound();
  execution.lead = e.task;
  execution.members.push_back(e.task);
  for (const AttemptId& member : e.members) execution.members.push_back(member.task);
  static_cast<Amounts&>(execution.held) = use.needs;
  if (lead.extra != nullptr && lead.extra->memory_bytes > 0) execution.held.memory_bytes = lead.extra->memory_bytes;
  execution.fleet = take_fleet_names(policy(), execution.held);
  if (!execution.fleet.named.empty()) fleet_used_.add(execution.fleet);
  execution.held.gpus = use.needs.gpu.count;
  execution.queued = e.queued;
  execution.merged = !e.members.empty();
  if (e.queued) {
    const std::int64_t most_ns = policy().queue_most_ms * graph::kNsPerMs;
    execution.expected_ns = std::clamp<std::int64_t>(known_run_ns(lead_workflow, lead).value_or(most_ns), 1, most_ns);
    worker.queued_ns += execution.expected_ns;
    ++worker.queued;
  } else {
    execution.held.devices = e.devices;
    worker.used.add(execution.held);
  }
  worker.execution_set.add(hash_fields(execution));
  begin(e.task, e.attempt);
  for (const AttemptId& member : e.members) begin(member.task, member.attempt);
  worker.executions.push_back(std::move(execution));
  for (const std::string& item : use.context) touch_cache(worker, item, time_ns());
  if (use.spec.files) {
    for (const std::string& item : wanted_files(*this, e.task)) touch_cache(worker, item, time_ns());
  }
  globals_.last_assigned = e.worker;
  const Binding binding = dispatch_rules(*this).binding;
  if (binding == Binding::kWorkflow && lead_workflow.bound.is_none()) {
    edit(e.task.workflow()).bound = e.worker;
    worker.owner = e.task.workflow();
    placement_.update_workflow(*this, e.task.workflow());
  } else if (binding == Binding::kType && !was_bound && !globals_.type_owner.contains(use.spec.type)) {
    bind_type(use.spec.type, e.worker);
    placement_.update_type(*this, use.spec.type);
  }
  placement_.update_worker(*this, worker);
  placement_.set_recall_timer(*this, worker);
}

void State::on(const TaskStarted& e, const Command&) {
  Task& task = edit(e.task);
  Worker& worker = edit(task.worker);
  const auto found = std::find_if(worker.executions.begin(), worker.executions.end(),
                                  [&](const Execution& execution) { return execution.has(e.task); });
  ROTA_ASSERT(found != worker.executions.end() && found->queued);
  worker.execution_set.remove(hash_fields(*found));
  found->queued = false;
  worker.queued_ns -= std::exchange(found->expected_ns, 0);
  found->held.devices = e.devices;
  worker.execution_set.add(hash_fields(*found));
  --worker.queued;
  worker.used.add(found->held);
  for (const TaskId member : found->members) edit(member).at_worker = false;
  placement_.update_worker(*this, worker);
  placement_.set_recall_timer(*this, worker);
}

void State::leave_execution(Workflow& workflow, Task& task) {
  Worker& worker = edit(task.worker);
  const TaskId id = workflow.id_of(task);
  const auto found = std::find_if(worker.executions.begin(), worker.executions.end(),
                                  [&](const Execution& execution) { return execution.has(id); });
  ROTA_ASSERT(found != worker.executions.end(), "the task's worker has its execution");
  if (worker.executions.size() == 1) {
    worker.execution_set = SetHash();
  } else {
    worker.execution_set.remove(hash_fields(*found));
  }
  std::erase(found->members, id);
  found->count_out(users_[workflow.user].used);
  if (!users_[workflow.user].limits.limits_nothing()) placement_.limits_changed(workflow.user);
  task.stopping = task.at_worker = false;
  if (task.stop == StopReason::kRecall) task.stop = StopReason::kCancel;
  if (!found->members.empty()) {
    worker.execution_set.add(hash_fields(*found));
    // Whether all of the others stop decides which tasks may start beside a reservation.
    if (!worker.reserved.empty()) placement_.update_worker(*this, worker);
    return;
  }
  if (!found->fleet.named.empty()) {
    fleet_used_.subtract(found->fleet);
    placement_.fleet_resources_changed();
  }
  if (found->queued) {
    --worker.queued;
    worker.queued_ns -= found->expected_ns;
  } else {
    worker.used.subtract(found->held);
  }
  worker.executions.erase(found);
  if (worker.queued > 0) placement_.add_to_promote(worker.id);
  if (worker.executions.empty()) {
    worker.idle_since_ns = time_ns();
    if (worker.draining) placement_.add_to_leave(worker.id);
  }
  placement_.update_worker(*this, worker);
  placement_.set_recall_timer(*this, worker);
}

void State::on(const TaskSucceeded& e, const Command& cause) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  leave_execution(workflow, task);
  move(workflow, task, TaskState::kSucceeded);
  keep_outcome(task, e.task, cause);
  learn(workflow, task, cause);
  stage_task_done(workflow, task);
  rank_again(workflow);
}

void State::keep_outcome(Task& task, TaskId id, const Command& cause) {
  const auto* report = std::get_if<ReportEnded>(&cause);
  const bool own = report != nullptr && report->task == id;
  static const AttemptOutcome kNothing;
  const AttemptOutcome& outcome = own ? report->outcome : kNothing;
  if (task.extra != nullptr || outcome.reused || !outcome.cache_note.empty()) {
    TaskExtra& more = extra(task);
    more.reused = outcome.reused;
    more.cache_note = outcome.cache_note;
  }
  if (!own) return;
  if (task.state == TaskState::kSucceeded && !outcome.result.empty() && outcome.result != "null") {
    extra(task).result = outcome.result;
  }
  if (task.state == TaskState::kSucceeded && !outcome.outputs.empty()) {
    extra(task).outputs = outcome.outputs;
    Worker& worker = edit(task.worker);
    for (const std::string& item : file_items(outcome.outputs)) touch_cache(worker, item, time_ns());
  }
  if (!graph::is_terminal(task.state) || outcome.started_ns == 0) return;
  const auto [started_ns, ended_ns] = outcome.times_within(task.assigned_ns, time_ns());
  task.started_ns = started_ns;
  task.ended_ns = ended_ns;
}

void State::on(const TaskFailed& e, const Command& cause) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  if (task.state == TaskState::kRunning) {
    ++task.spent;
    leave_execution(workflow, task);
  } else {  // It never ran: a reference did not resolve, or no worker could run it.
    reserve(workflow, task, WorkerId());
    const bool pushed = task.shape != kNoShape;
    if (task.state == TaskState::kQueued) move(workflow, task, TaskState::kReady);
    move(workflow, task, TaskState::kRunning);
    if (pushed) placement_.remove(*this, workflow, task);
  }
  move(workflow, task, TaskState::kFailed);
  TaskExtra& more = extra(task);
  more.kind = e.kind;
  more.message = e.message;
  keep_outcome(task, e.task, cause);
}

void State::on(const TaskRequeued& e, const Command& cause) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  if (e.reason == RequeueReason::kStickyWorkerBusy) {
    task.deferred = true;
    return;
  }
  if (e.reason == RequeueReason::kRetried) {
    if (task.state == TaskState::kReady) {  // What it comes after is retried.
      reserve(workflow, task, WorkerId());
      placement_.remove(*this, workflow, task);
    }
    TaskExtra& more = extra(task);
    more.root = TaskId();
    more.failed_on.clear();
    task.spent = 0;
    task.alone = false;
    task.since_ns = 0;
    more.due_ns = 0;
    task.skipped = false;
    more.result.clear();
    more.outputs.clear();
    move(workflow, task, TaskState::kQueued);
    if (workflow.stages[task.stage].waits == 0 && !workflow.waits_for_items(task)) ready_or_examined(workflow, task);
    return;
  }
  const bool paused = task.state == TaskState::kPaused;
  ROTA_ASSERT(paused ? task.paused_from == TaskState::kRunning : task.state == TaskState::kRunning);
  const WorkerId worker = task.worker;
  leave_execution(workflow, task);
  if (e.reason <= RequeueReason::kTimedOut) {
    ++task.spent;
    TaskExtra& more = extra(task);
    const auto place = std::lower_bound(more.failed_on.begin(), more.failed_on.end(), worker);
    if (place == more.failed_on.end() || *place != worker) more.failed_on.insert(place, worker);
    if (e.memory_bytes > 0) more.memory_bytes = e.memory_bytes;
    if (const auto* report = std::get_if<ReportEnded>(&cause); report != nullptr && report->task == e.task) {
      more.kind = report->outcome.failure;
      more.message = report->outcome.message;
      keep_outcome(task, e.task, cause);
    }
  }
  if (e.reason == RequeueReason::kBatchFailed) task.alone = true;
  if (e.not_before_ns > 0 || task.extra != nullptr) extra(task).due_ns = e.not_before_ns;
  if (e.not_before_ns > 0) placement_.set_timer({e.not_before_ns, Timer::Kind::kBackoff, e.task.value()});
  if (paused) {
    task.paused_from = TaskState::kQueued;
    if (workflow.spec.stages[task.stage].parallel > 0) slots_changed(workflow, task, true, false);
    return;
  }
  move(workflow, task, TaskState::kQueued);
  // What it comes after may have been retried while it ran.
  const bool waits = workflow.stages[task.stage].waits > 0 || workflow.waits_for_items(task);
  if (e.not_before_ns == 0 && !waits) ready_again(workflow, task);
}

void State::on(const TaskCancelled& e, const Command& cause) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  const bool ready = task.state == TaskState::kReady;
  if (ready) reserve(workflow, task, WorkerId());
  if (task.state == TaskState::kRunning ||
      (task.state == TaskState::kPaused && task.paused_from == TaskState::kRunning)) {
    leave_execution(workflow, task);
  }
  move(workflow, task, TaskState::kCancelled);
  if (ready) placement_.remove(*this, workflow, task);
  if (!e.parent_task_id.is_none()) extra(task).root = e.parent_task_id;
  keep_outcome(task, e.task, cause);
}

void State::on(const TaskPaused& e, const Command&) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  if (task.state == TaskState::kReady) reserve(workflow, task, WorkerId());
  task.paused_from = task.state;
  move(workflow, task, TaskState::kPaused);
  if (task.paused_from == TaskState::kReady) placement_.remove(*this, workflow, task);
}

void State::on(const TaskResumed& e, const Command&) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  // Another task may have the slot that it had, or what it waited for was retried meanwhile and runs again (Y-4).
  const bool waits_again = workflow.spec.stages[task.stage].parallel > 0 || workflow.stages[task.stage].repeats;
  move(workflow, task, waits_again && task.paused_from == TaskState::kReady ? TaskState::kQueued : task.paused_from);
  if (task.state == TaskState::kReady) {
    placement_.push(*this, workflow, task);
  } else if (task.state == TaskState::kQueued) {
    // Its timer may have rung while it was paused. It needs one even if it waits for others, too: whoever finds these
    // ended leaves a task alone whose backoff is not over.
    if (task.due_ns() > time_ns()) {
      placement_.set_timer({task.due_ns(), Timer::Kind::kBackoff, e.task.value()});
      return;
    }
    if (task.extra != nullptr) task.extra->due_ns = 0;
    if (workflow.stages[task.stage].waits == 0 && !workflow.waits_for_items(task)) ready_or_examined(workflow, task);
  }
}

void State::on(const StopRequested& e, const Command&) {
  Task& task = edit(e.task);
  ROTA_ASSERT(task.state == TaskState::kRunning || task.state == TaskState::kPaused);
  // A cancellation overrides a preemption.
  if (!task.stopping || e.reason == StopReason::kCancel) task.stop = e.reason;
  task.stopping = true;
  // What will be free there when it has stopped decides which tasks may start beside a reservation.
  const Worker& worker = at(task.worker);
  if (!worker.reserved.empty()) placement_.update_worker(*this, worker);
}

void State::on(const CheckpointSaved& e, const Command& cause) {
  const auto* report = std::get_if<ReportCheckpoint>(&cause);
  ROTA_ASSERT(report != nullptr);
  extra(edit(e.task)).checkpoint = empty_if_null(report->checkpoint);
}

void State::on(const PriorityChanged&, const Command& cause) {
  const auto* command = std::get_if<SetPriority>(&cause);
  ROTA_ASSERT(command != nullptr);
  const WorkflowId id = command->task.is_none() ? command->workflow : command->task.workflow();
  Workflow& workflow = command->task.is_none() ? edit(id) : workflow_at(id);
  const auto change = [&](Task& task, std::int64_t priority) {
    edit(workflow, task);
    const bool ready = task.state == TaskState::kReady;
    if (ready) placement_.remove(*this, workflow, task);
    task.priority = static_cast<std::int32_t>(priority);
    if (ready) placement_.push(*this, workflow, task);
  };
  if (!command->task.is_none()) {
    change(workflow.tasks[command->task.index()], command->priority);
    return;
  }
  workflow.priority = command->priority;
  for (Task& task : workflow.tasks) {
    if (!graph::is_terminal(task.state)) change(task, command->priority + workflow.spec.stages[task.stage].priority);
  }
}

}  // namespace rota::fleet

// Which stages wait for which, and what happens when a stage has succeeded or has ended.
//
// Two kinds of stages count differently. Most wait for the success of the stages that they need. A stage with `when`
// or of `finally` waits for their end (Stage::waits_for_end()), and a stage of `finally` also for the end of all others
// (Y-4). The counters are derived: count_stages() makes them from the tasks.
//
// Thread safety: none; one owner.
#include "fleet/state.h"
#include "rota/assert.h"

namespace rota::fleet {

bool Workflow::applies(std::uint32_t stage) const {
  const Stage& own = spec.stages[stage];
  if (own.finally) {
    const bool succeeded = main.outcome() == Outcome::kSucceeded;
    return own.when == When::kAlways || succeeded == (own.when == When::kSuccess);
  }
  if (own.when != When::kFailure) return true;
  for (const graph::TaskRef parent : dag.parents(graph::TaskRef(stage + 1))) {
    if (stages[parent.value() - 1].unfinished > 0) return true;
  }
  return false;
}

// REQUIRES: the tasks and the graph are there; `unfinished` and `open` of the stages are the numbers of their tasks.
void State::count_stages(Workflow& workflow) const {
  workflow.main = MainTasks();
  for (const Task& task : workflow.tasks) {
    if (workflow.is_withdrawn(task)) continue;
    StageState& stage = workflow.stages[task.stage];
    if (task.state == TaskState::kSucceeded) --stage.unfinished;
    if (graph::is_terminal(task.state)) --stage.open;
    if (workflow.spec.stages[task.stage].finally) continue;
    workflow.main.open += graph::is_terminal(task.state) ? 0 : 1;
    workflow.main.failed += task.state == TaskState::kFailed ? 1 : 0;
    workflow.main.cancelled += task.state == TaskState::kCancelled ? 1 : 0;
  }
  for (std::uint32_t s = 0; s < workflow.stages.size(); ++s) {
    const Stage& spec = workflow.spec.stages[s];
    StageState& stage = workflow.stages[s];
    stage.waits = spec.finally && workflow.main.open > 0 ? 1 : 0;
    for (const graph::TaskRef parent : workflow.dag.parents(graph::TaskRef(s + 1))) {
      const StageState& before = workflow.stages[parent.value() - 1];
      if (workflow.link_of(s, parent.value() - 1) != nullptr) continue;
      stage.waits += (spec.waits_for_end() ? before.open : before.unfinished) > 0 ? 1 : 0;
    }
  }
  for (ItemLink& link : workflow.links) count_link(workflow, link);
  workflow.slots.clear();
  for (std::uint32_t s = 0; s < workflow.stages.size(); ++s) {
    if (workflow.spec.stages[s].parallel == 0) continue;
    const StageState& stage = workflow.stages[s];
    StageSlots& slots = workflow.slots[s];
    for (const std::uint32_t t : stage.tasks()) {
      const Task& task = workflow.tasks[t];
      slots.used += uses_slot(task) ? 1 : 0;
      const bool waits = stage.waits > 0 || task.due_ns() != 0 || workflow.waits_for_items(task);
      if (task.state == TaskState::kQueued && !waits) slots.held.insert(t);
    }
  }
}

void State::needs_met(Workflow& workflow, std::uint32_t stage) {
  const StageState& range = workflow.stages[stage];
  const bool by_item = !workflow.spec.stages[stage].each.empty();
  for (const std::uint32_t t : range.tasks()) {
    Task& task = workflow.tasks[t];
    if (task.state != TaskState::kQueued || task.due_ns() != 0) continue;
    if (!by_item || !workflow.waits_for_items(task)) ready_or_examined(workflow, task);
  }
}

// The task has succeeded: those that wait for it by item may have all that they need.
void State::link_done(Workflow& workflow, const Task& task) {
  const auto number = workflow.stages[task.stage].number(static_cast<std::uint32_t>(&task - workflow.tasks.data()));
  for (ItemLink& link : workflow.links) {
    if (link.parent != task.stage || !link.resolved) continue;
    ItemLink::Group& group = link.groups[link.parent_group[number]];
    ROTA_ASSERT(group.unfinished > 0);
    if (--group.unfinished > 0 || workflow.stages[link.child].waits > 0) continue;
    for (const std::uint32_t i : group.children) {
      Task& child = workflow.tasks[workflow.stages[link.child].task(i)];
      if (child.state != TaskState::kQueued || child.due_ns() != 0 || workflow.waits_for_items(child)) continue;
      ready_or_examined(workflow, child);
    }
  }
}

// The task waits for no other task.
void State::ready_or_examined(Workflow& workflow, Task& task) {
  if (workflow.spec.stages[task.stage].parallel == 0) {
    start_waiting(workflow, task);
    return;
  }
  workflow.slots[task.stage].held.insert(workflow.id_of(task).index());
  slots_to_fill_.emplace(workflow.id, task.stage);
}

// An attempt of the task has ended, and the next one may begin. What had failed may have been retried while it ran, and
// its `when` may not hold any more (Y-4): then it is examined again, and skipped.
void State::ready_again(Workflow& workflow, Task& task) {
  if (workflow.stages[task.stage].repeats && !workflow.applies(task.stage)) return ready_or_examined(workflow, task);
  become_ready(workflow, task);
}

void State::start_waiting(Workflow& workflow, Task& task) {
  const Stage& spec = workflow.spec.stages[task.stage];
  const bool examine =
      (workflow.info_of(task).examine && task.attempt.is_none()) || workflow.is_placeholder(task) ||
      workflow.unmatched(task) != nullptr ||
      (!spec.left_out.empty() && spec.leaves_out(workflow.stages[task.stage].number(workflow.id_of(task).index())));
  const bool again = workflow.stages[task.stage].repeats;  // Whatever was found out at an earlier attempt.
  if (examine || again) {
    if (workflow.spec.stages[task.stage].parallel > 0) {
      workflow.slots[task.stage].examining.insert(workflow.id_of(task).index());
    }
    placement_.add_to_examine(workflow.id_of(task));
  } else {
    become_ready(workflow, edit(workflow, task));
  }
}

// A task of a stage with `parallel` has changed its state.
void State::slots_changed(Workflow& workflow, const Task& task, bool used, bool uses) {
  StageSlots& slots = workflow.slots[task.stage];
  const std::uint32_t index = workflow.id_of(task).index();
  if (task.state != TaskState::kQueued) {
    slots.held.erase(index);
    slots.examining.erase(index);
  }
  slots.used += uses ? 1 : 0;
  slots.used -= used ? 1 : 0;
  slots_to_fill_.emplace(workflow.id, task.stage);
}

// Tasks that wait for a slot get those that are free, in their order.
void State::fill_slots() {
  while (!slots_to_fill_.empty()) {
    const auto [id, stage] = *slots_to_fill_.begin();
    slots_to_fill_.erase(slots_to_fill_.begin());
    Workflow* workflow = lookup(id);
    if (workflow == nullptr) continue;
    StageSlots& slots = workflow->slots[stage];
    const auto most = static_cast<std::uint64_t>(workflow->spec.stages[stage].parallel);
    while (slots.used + slots.examining.size() < most && !slots.held.empty()) {
      const std::uint32_t next = *slots.held.begin();
      slots.held.erase(slots.held.begin());
      start_waiting(*workflow, workflow->tasks[next]);
    }
  }
}

void State::set_deadline(Workflow& workflow) {
  if (workflow.spec.deadline_ms == 0) return;
  workflow.deadline_ns = time_ns() + workflow.spec.deadline_ms * graph::kNsPerMs;
  placement_.set_timer({workflow.deadline_ns, Timer::Kind::kDeadline, workflow.id.value()});
}

void State::less_to_wait_for(Workflow& workflow, std::uint32_t stage) {
  StageState& next = workflow.stages[stage];
  ROTA_ASSERT(next.waits > 0);
  if (--next.waits == 0) needs_met(workflow, stage);
}

// The task has succeeded.
void State::stage_task_done(Workflow& workflow, Task& task) {
  StageState& stage = workflow.stages[task.stage];
  ROTA_ASSERT(stage.unfinished > 0);
  if (!workflow.links.empty()) link_done(workflow, task);
  if (--stage.unfinished > 0) return;
  for (const graph::TaskRef child : workflow.dag.children(graph::TaskRef(task.stage + 1))) {
    const std::uint32_t next = child.value() - 1;
    if (workflow.spec.stages[next].waits_for_end() || workflow.link_of(next, task.stage) != nullptr) continue;
    less_to_wait_for(workflow, next);
  }
}

// The task has ended in any way. What waits for the end is examined before it becomes ready, so that it does not matter
// that the outcome of the task is not kept yet.
void State::task_ended(Workflow& workflow, const Task& task) {
  StageState& stage = workflow.stages[task.stage];
  ROTA_ASSERT(stage.open > 0);
  if (--stage.open == 0) {
    for (const graph::TaskRef child : workflow.dag.children(graph::TaskRef(task.stage + 1))) {
      if (workflow.spec.stages[child.value() - 1].waits_for_end()) less_to_wait_for(workflow, child.value() - 1);
    }
  }
  if (workflow.spec.stages[task.stage].finally) return;
  workflow.main.failed += task.state == TaskState::kFailed ? 1 : 0;
  workflow.main.cancelled += task.state == TaskState::kCancelled ? 1 : 0;
  if (--workflow.main.open > 0) return;
  for (const std::uint32_t last : workflow.finally) less_to_wait_for(workflow, last);
}

// The task had ended as `from` says and is retried.
void State::task_reopened(Workflow& workflow, const Task& task, TaskState from) {
  StageState& stage = workflow.stages[task.stage];
  const bool first_open = stage.open++ == 0;
  const bool first_unfinished = from == TaskState::kSucceeded && stage.unfinished++ == 0;
  for (const graph::TaskRef child : workflow.dag.children(graph::TaskRef(task.stage + 1))) {
    const std::uint32_t next = child.value() - 1;
    if (workflow.link_of(next, task.stage) != nullptr) continue;
    if (!(workflow.spec.stages[next].waits_for_end() ? first_open : first_unfinished)) continue;
    ++workflow.stages[next].waits;
    if (const auto slots = workflow.slots.find(next); slots != workflow.slots.end()) slots->second.held.clear();
  }
  if (from == TaskState::kSucceeded && workflow.is_placeholder(task)) {  // It had no items, and may get some now.
    for (ItemLink& link : workflow.links) {
      if (link.parent == task.stage || link.child == task.stage) link = {.parent = link.parent, .child = link.child};
    }
  } else if (from == TaskState::kSucceeded) {
    const auto number = stage.number(static_cast<std::uint32_t>(&task - workflow.tasks.data()));
    for (ItemLink& link : workflow.links) {
      if (link.parent != task.stage || !link.resolved) continue;
      ItemLink::Group& group = link.groups[link.parent_group[number]];
      ++group.unfinished;
      const auto slots = workflow.slots.find(link.child);
      if (slots == workflow.slots.end()) continue;
      for (const std::uint32_t i : group.children) {
        slots->second.held.erase(workflow.stages[link.child].task(i));
      }
    }
  }
  if (workflow.spec.stages[task.stage].finally) return;
  workflow.main.failed -= from == TaskState::kFailed ? 1 : 0;
  workflow.main.cancelled -= from == TaskState::kCancelled ? 1 : 0;
  if (workflow.main.open++ > 0) return;
  for (const std::uint32_t last : workflow.finally) {
    ++workflow.stages[last].waits;
    if (const auto slots = workflow.slots.find(last); slots != workflow.slots.end()) slots->second.held.clear();
  }
}

}  // namespace rota::fleet

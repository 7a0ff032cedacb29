// Fan-out over data (Y-2): a stage whose matrix names results gets its tasks when these are known.
//
// Until then it is one task, the placeholder. When all that the stage needs has ended, the placeholder is examined as
// any other task is; instead of becoming ready it is expanded. The items are in the event StageExpanded, so that a log
// is applied without computing them again. The placeholder becomes the task of the first item; the others come after
// all tasks that the workflow has then. Without items the placeholder is skipped, and the result of the stage is [].
//
// When its tasks are retried, it keeps its items, unless what it comes after runs again (Y-4): then its items may be
// others. StageCollapsed makes it one task again, the placeholder, which is expanded when its needs have ended. The
// other tasks are withdrawn: they keep their ids, so that no message about an earlier attempt can be taken for one
// about a new task, and count as skipped. None of them runs then (Decision::check_retry()).
#include <algorithm>
#include <string>
#include <utility>

#include "base/sim_hooks.h"
#include "fleet/codec.h"
#include "fleet/decide.h"
#include "fleet/scope.h"
#include "model/json.h"
#include "model/matrix.h"
#include "model/reference.h"

namespace rota::fleet {

namespace {

// The values of one list as canonical JSON.
Result<std::vector<std::string>> values_of(const MatrixList& list, ReferenceScope& scope) {
  std::string resolved;
  std::string_view values = list.values;
  if (list.is_reference()) {
    ROTA_TRY_ASSIGN(const Reference reference, parse_reference(list.values));
    ROTA_TRY_ASSIGN(resolved, resolve_reference(reference, scope));
    values = resolved;
    if (json_kind(values) != JsonKind::kArray) {
      return Error{ErrorCode::kInvalidArgument, list.values + " is " + std::string(to_string(json_kind(values))) +
                                                    ", not a list: " + resolved.substr(0, 80)};
    }
  }
  std::vector<std::string> out;
  for (const std::string_view value : json_elements(values)) {
    ROTA_TRY_ASSIGN(std::string written, json_minify(value));
    out.push_back(std::move(written));
  }
  return out;
}

Result<std::vector<std::string>> items_of(const FanOut& fan_out, ReferenceScope& scope, std::size_t most) {
  Matrix matrix;
  for (const MatrixList& list : fan_out.lists) {
    matrix.names.push_back(list.name);
    ROTA_TRY_ASSIGN(matrix.values.emplace_back(), values_of(list, scope));
  }
  for (const std::string& entry : fan_out.include) {
    ROTA_TRY_ASSIGN(matrix.include.emplace_back(), matrix_entry(entry));
  }
  for (const std::string& entry : fan_out.exclude) {
    ROTA_TRY_ASSIGN(matrix.exclude.emplace_back(), matrix_entry(entry));
  }
  return matrix_items(matrix, most, kResolvedMostBytes);
}

// A condition that does not speak of an item is the same for all of them.
bool is_about_items(const std::string& condition) {
  const Result<std::vector<ReferenceUse>> uses = check_condition(condition);
  return uses.ok() && std::any_of(uses->begin(), uses->end(), [](const ReferenceUse& use) {
           return use.reference.root == "matrix" || use.reference.root == "task";
         });
}

}  // namespace

// The placeholder waits for nothing any more.
void Decision::expand(TaskId id) {
  const Workflow& workflow = state_.at(id.workflow());
  const std::uint32_t stage = workflow.tasks[id.index()].stage;
  const std::string& condition = workflow.template_of(workflow.tasks[id.index()]).condition;
  TaskScope scope(state_, id);
  if (!condition.empty() && !is_about_items(condition)) {
    const Result<bool> holds = evaluate_condition(condition, scope);
    if (!holds.ok()) return fail(id, FailureKind::kReference, "the condition: " + holds.error().message);
    if (!*holds) return emit(TaskSkipped{id});
  }
  const std::size_t most =
      std::min<std::size_t>(static_cast<std::size_t>(state_.policy().fan_out_most),
                            TaskId::kMostTasks - std::min<std::size_t>(workflow.tasks.size(), TaskId::kMostTasks));
  Result<std::vector<std::string>> items = items_of(*workflow.spec.stages[stage].fan_out, scope, most);
  if (!items.ok()) {
    std::string message = "the matrix: " + items.error().message;
    if (items.code() == ErrorCode::kTooLarge && items.error().detail("bytes") == nullptr) {
      message = "the matrix has more than " + std::to_string(most) + " items; policy.fan_out_most is the limit";
    }
    return fail(id, FailureKind::kReference, message);
  }
  if (items->empty()) {
    ROTA_SOMETIMES("brain: a fan-out has no items");
    return emit(TaskSkipped{id});
  }
  emit(StageExpanded{workflow.id, stage, std::move(*items)});
  // Tasks of which a counterpart had failed before they were created.
  std::vector<TaskId> roots;
  for (const ItemLink& link : workflow.links) {
    if (link.child != stage || !link.resolved) continue;
    for (const std::uint32_t t : workflow.stages[link.parent].tasks()) {
      const Task& task = workflow.tasks[t];
      if (task.state != TaskState::kFailed && task.state != TaskState::kCancelled) continue;
      const TaskId root = task.extra == nullptr ? TaskId() : task.extra->root;
      roots.push_back(root.is_none() ? TaskId(workflow.id, t) : root);
    }
  }
  std::sort(roots.begin(), roots.end());
  roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
  for (const TaskId root : roots) cascade(root);
}

void State::on(const StageExpanded& e, const Command&) {
  Workflow& workflow = edit(e.workflow);
  Stage& spec = workflow.spec.stages[e.stage];
  StageState& stage = workflow.stages[e.stage];
  ROTA_ASSERT(spec.fan_out && spec.items.empty() && !e.items.empty() && stage.count == 1,
              "a stage without items is expanded");
  placement_.examined(*this, TaskId(e.workflow, stage.first));
  spec.items = e.items;
  workflow.spec_hash = hash_fields(workflow.spec);
  const auto count = static_cast<std::uint32_t>(e.items.size());
  stage.count = count;
  stage.more = static_cast<std::uint32_t>(workflow.tasks.size());
  stage.unfinished += count - 1;
  stage.open += count - 1;
  if (!spec.finally) workflow.main.open += count - 1;
  workflow.unfinished += count - 1;
  unfinished_ += count - 1;
  workflow.tasks.resize(workflow.tasks.size() + count - 1);
  const std::int32_t priority = workflow.tasks[stage.first].priority;
  for (std::uint32_t t = stage.more; t < workflow.tasks.size(); ++t) {
    Task& task = workflow.tasks[t];
    task.stage = e.stage;
    task.priority = priority;
    task.dirty = true;
    dirty_tasks_.push_back(TaskId(workflow.id, t));
  }
  if (spec.parallel > 0) {
    workflow.slots[e.stage].examining.erase(stage.first);
    slots_to_fill_.emplace(workflow.id, e.stage);
  }
  resolve_links(workflow, e.stage);
  needs_met(workflow, e.stage);
}

void State::on(const StageCollapsed& e, const Command&) {
  Workflow& workflow = edit(e.workflow);
  Stage& spec = workflow.spec.stages[e.stage];
  StageState& stage = workflow.stages[e.stage];
  ROTA_ASSERT(spec.fan_out && !spec.items.empty() && stage.repeats, "a stage with items is collapsed");
  bool pause = false;
  for (const std::uint32_t t : stage.tasks()) pause = pause || workflow.tasks[t].state == TaskState::kPaused;
  Task& first = edit(workflow, workflow.tasks[stage.first]);
  become_placeholder(workflow, first);
  for (std::uint32_t number = 1; number < stage.count; ++number) withdraw(workflow, workflow.tasks[stage.task(number)]);
  stage.count = 1;
  stage.more = stage.first + 1;
  spec.items.clear();
  workflow.spec_hash = hash_fields(workflow.spec);
  for (ItemLink& link : workflow.links) {
    if (link.parent == e.stage || link.child == e.stage) link = {.parent = link.parent, .child = link.child};
  }
  if (spec.parallel > 0) slots_to_fill_.emplace(workflow.id, e.stage);
  if (pause) {  // Some of its tasks were paused (B-19): the new ones are created when it is resumed.
    if (first.state != TaskState::kPaused) move(workflow, first, TaskState::kPaused);
    first.paused_from = TaskState::kQueued;
  } else if (stage.waits == 0) {
    ready_or_examined(workflow, first);
  }
}

// The first task of a stage will be that of another item: only the number of its attempts is kept.
void State::become_placeholder(Workflow& workflow, Task& task) {
  ROTA_ASSERT(!runs(task), "a stage of which a task runs is not collapsed");
  if (task.state == TaskState::kReady) {
    reserve(workflow, task, WorkerId());
    placement_.remove(*this, workflow, task);
  }
  if (task.state == TaskState::kReady || graph::is_terminal(task.state)) move(workflow, task, TaskState::kQueued);
  if (const auto slots = workflow.slots.find(task.stage); slots != workflow.slots.end()) {
    slots->second.held.erase(workflow.id_of(task).index());
  }
  TaskData fresh;
  fresh.state = task.state;
  fresh.stage = task.stage;
  fresh.attempt = task.attempt;
  fresh.priority = task.priority;
  static_cast<TaskData&>(task) = fresh;
  task.extra.reset();
}

// The placeholder is open, so that the counters of the stage and of the workflow do not become 0.
void State::withdraw(Workflow& workflow, Task& task) {
  edit(workflow, task);
  ROTA_ASSERT(!runs(task), "a task that runs is not withdrawn");
  StageState& stage = workflow.stages[task.stage];
  const bool main = !workflow.spec.stages[task.stage].finally;
  if (task.state == TaskState::kReady) {
    reserve(workflow, task, WorkerId());
    placement_.remove(*this, workflow, task);
  }
  if (const auto slots = workflow.slots.find(task.stage); slots != workflow.slots.end()) {
    const std::uint32_t index = workflow.id_of(task).index();
    slots->second.used -= uses_slot(task) ? 1 : 0;
    slots->second.held.erase(index);
    slots->second.examining.erase(index);
  }
  stage.unfinished -= task.state == TaskState::kSucceeded ? 0 : 1;
  if (graph::is_terminal(task.state)) {
    if (main) workflow.main.failed -= task.state == TaskState::kFailed ? 1 : 0;
    if (main) workflow.main.cancelled -= task.state == TaskState::kCancelled ? 1 : 0;
  } else {
    --stage.open;
    if (main) --workflow.main.open;
    --workflow.unfinished;
    --unfinished_;
    task.ended_ns = time_ns();
  }
  task.extra.reset();
  task.state = TaskState::kSucceeded;
  task.paused_from = TaskState::kQueued;
  task.skipped = true;
}

// The items of the stage are known now: links to stages whose items are known, too, are resolved. Tasks of other stages
// that wait for no task of this one continue.
void State::resolve_links(Workflow& workflow, std::uint32_t stage) {
  for (ItemLink& link : workflow.links) {
    if (link.resolved || (link.parent != stage && link.child != stage)) continue;
    if (!workflow.items_known(link.parent) || !workflow.items_known(link.child)) continue;
    const Result<void> resolved = resolve_link(workflow.spec, link);
    ROTA_ASSERT(resolved.ok(), "the items of a fan-out have all of its names");
    count_link(workflow, link);
    if (link.parent != stage || workflow.stages[link.child].waits > 0) continue;
    for (const std::uint32_t t : workflow.stages[link.child].tasks()) {
      Task& child = workflow.tasks[t];
      if (workflow.is_placeholder(child) || child.state != TaskState::kQueued || child.due_ns() != 0) continue;
      if (!workflow.waits_for_items(child)) ready_or_examined(workflow, child);
    }
  }
}

void State::count_link(const Workflow& workflow, ItemLink& link) {
  for (ItemLink::Group& group : link.groups) {
    group.unfinished = 0;
    for (const std::uint32_t i : group.parents) {
      const Task& task = workflow.tasks[workflow.stages[link.parent].task(i)];
      group.unfinished += task.state == TaskState::kSucceeded ? 0 : 1;
    }
  }
}

}  // namespace rota::fleet

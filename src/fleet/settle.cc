// The steps that follow from a state by themselves, repeated until none is left.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/sim_hooks.h"
#include "fleet/decide.h"
#include "fleet/dispatch_mode.h"
#include "fleet/placement.h"
#include "fleet/ready_head.h"
#include "fleet/scope.h"
#include "rota/assert.h"

namespace rota::fleet {

void Decision::settle() {
  for (;;) {
    state_.placement().drop_stale(state_);
    if (promote() || examine() || unbind() || release_room() || place() || defer() || preempt() || recall() ||
        leave() || end_workflow())
      continue;
    return;
  }
}

// The first execution in the queue of a worker starts when its resources are free. The order is that of the worker.
bool Decision::promote() {
  PlacementIndex& index = state_.placement();
  while (!index.to_promote().empty()) {
    const Worker& worker = state_.at(index.to_promote().front());
    const auto next = std::find_if(worker.executions.begin(), worker.executions.end(),
                                   [](const Execution& execution) { return execution.queued; });
    if (next != worker.executions.end()) {
      const TaskId first = next->members.front();
      const Workflow& workflow = state_.at(first.workflow());
      ResourceRequest request = workflow.template_of(workflow.tasks[first.index()]).needs;
      request.memory_bytes = next->held.memory_bytes;
      take_fleet_names(state_.policy(), request);
      if (worker.spec.resources.fits(request, worker.used) ||
          !ROTA_GUARD("brain: a queued task starts when it fits", true)) {
        emit(TaskStarted{first, worker.spec.resources.allot(request, worker.used).devices});
        return true;
      }
    }
    index.pop_to_promote();
    index.drop_stale(state_);
  }
  return false;
}

// All stages that the task needs have ended: evaluates its condition, and checks that its references resolve.
bool Decision::examine() {
  PlacementIndex& index = state_.placement();
  if (index.to_examine().empty()) return false;
  const TaskId id = index.to_examine().front();
  index.pop_to_examine(id);
  const Workflow& workflow = state_.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  const TaskTemplate& use = workflow.template_of(task);
  const Stage& stage = workflow.spec.stages[task.stage];
  if (!workflow.applies(task.stage) || stage.leaves_out(workflow.stages[task.stage].number(id.index()))) {
    emit(TaskSkipped{id});
    return true;
  }
  if (workflow.is_placeholder(task)) {
    expand(id);
    return true;
  }
  if (const ItemLink* link = workflow.unmatched(task); link != nullptr) {
    fail(id, FailureKind::kReference,
         "no task of stage '" + workflow.spec.stages[link->parent].name +
             "' has the values of this one, which `each` compares");
    return true;
  }
  TaskScope scope(state_, id);
  if (!use.condition.empty()) {
    const Result<bool> holds = evaluate_condition(use.condition, scope);
    if (!holds.ok()) {
      fail(id, FailureKind::kReference, "the condition: " + holds.error().message);
      return true;
    }
    if (!*holds) {
      emit(TaskSkipped{id});
      return true;
    }
  }
  std::size_t bytes = 0;
  for (const ReferenceUse& reference : workflow.info_of(workflow.tasks[id.index()]).references) {
    const Result<std::string_view> value = find_value(reference.reference, scope);
    bytes += value.ok() ? value->size() : 0;
    if (!value.ok() || bytes > kResolvedMostBytes) {
      fail(id, FailureKind::kReference,
           value.ok() ? "the values of the references have more than " + std::to_string(kResolvedMostBytes) + " bytes"
                      : value.error().message);
      return true;
    }
  }
  emit(TaskReadied{id});
  return true;
}

bool Decision::over_limit(const User& user, const ShapeKey& key, std::int64_t tasks) const {
  if (!key.fleet.named.empty()) {
    Amounts fleet;
    fleet.named = state_.policy().fleet;
    Amounts more;
    more.add(key.fleet, tasks);
    if (ROTA_GUARD("brain: counts of the fleet", !fleet.fits(more, state_.fleet_used()))) {
      ROTA_SOMETIMES("brain: a named resource of the fleet is used up");
      return true;
    }
  }
  return ROTA_GUARD("brain: quotas", !user.limits.limits_nothing() &&
                                         user.limits.exceeded(user.used, counted_use(key, tasks)).has_value());
}

// A ready task is bound to a worker that can never run it, and another one can: the binding is released (B-7).
bool Decision::unbind() {
  PlacementIndex& index = state_.placement();
  if (index.to_unbind().empty()) return false;
  const bool workflows = dispatch_rules(state_).binding == Binding::kWorkflow;
  // Sorted: the order of the list depends on the history of the process.
  std::set<std::pair<WorkflowId, std::string>> bindings;
  while (!index.to_unbind().empty()) {
    const ShapeKey key = index.shape(index.to_unbind().front()).key;
    index.pop_to_unbind();
    index.drop_stale(state_);
    if (!could_run_elsewhere(state_, key)) continue;
    bindings.emplace(workflows ? key.workflow : WorkflowId(), workflows ? std::string() : key.type);
  }
  for (const auto& [workflow, type] : bindings) emit(BindingDropped{workflow, type});
  return !bindings.empty();
}

// Room is kept for a task that may not start now, whatever room there is, or on a worker that can no longer run it,
// that belongs to another workflow now, or where a paused task will not make room: others may use it.
bool Decision::release_room() {
  for (const TaskId id : state_.reserving()) {
    const Workflow& workflow = state_.at(id.workflow());
    const Shape& shape = state_.placement().shape(workflow.tasks[id.index()].shape);
    const Worker& worker = state_.at(workflow.tasks[id.index()].reserved());
    if (!over_limit(state_.users()[workflow.user], shape.key) && !works_for_another(state_, shape.key, worker) &&
        PlacementIndex::permits(state_, shape, worker) && could_make_room(state_, worker, shape.key)) {
      continue;
    }
    ROTA_SOMETIMES("brain: kept room is released");
    emit(RoomReserved{id, WorkerId()});
    return true;
  }
  return false;
}

// The first class of the open shapes. Shapes that no worker takes now, and workers that take nothing, are passed over
// until something changes.
const OrderTree::Item* Decision::first_open() {
  PlacementIndex& index = state_.placement();
  const auto limited = [&](const OrderTree::Item& item) {
    return over_limit(state_.users()[item.klass->user], index.shape(item.shape).key);
  };
  const OrderTree::Item* best = nullptr;
  Head first;  // Of `best`, once there is another one to compare it with.
  do {
    best = nullptr;
    bool compared = false;
    index.offer_workers(state_, limited);
    for (std::size_t i = 0; i < index.open_shapes().size();) {
      const ShapeRef ref = index.open_shapes()[i];
      const Shape& shape = index.shape(ref);
      const OrderTree::Item* item =
          index.first_in(state_, shape, [&](const OrderTree::Item& each) { return !limited(each); });
      if (item == nullptr || !index.has_takers_after_offer(state_, ref)) {
        index.close(ref);
        continue;
      }
      ++i;
      if (best == nullptr) {
        best = item;
        continue;
      }
      if (!std::exchange(compared, true)) first = head_of(state_, *best);
      if (const Head head = head_of(state_, *item); before(head, first)) {
        best = item;
        first = head;
      }
    }
  } while (index.has_workers_to_offer());
  return best;
}

// The best class that is not a gang.
const OrderTree::Item* Decision::next_to_place() {
  const OrderTree::Item* best = first_open();
  if (best == nullptr || !placed_) return best;
  return state_.placement().open_between(state_, *placed_, *best) ? first_open() : best;
}

bool Decision::place() {
  const PlacementIndex& index = state_.placement();
  const OrderTree::Item* best = next_to_place();
  // Gangs may turn out not to fit.
  std::vector<Head> gangs;
  for (const ShapeRef ref : index.gangs()) {
    const Shape& shape = index.shape(ref);
    const OrderTree::Item* item = index.first_in(state_, shape, [&](const OrderTree::Item& each) {
      return !over_limit(state_.users()[each.klass->user], shape.key);
    });
    if (item != nullptr) gangs.push_back(head_of(state_, *item));
  }
  if (!gangs.empty()) {
    std::sort(gangs.begin(), gangs.end(), before);
    Head first;
    if (best != nullptr) first = head_of(state_, *best);
    for (const Head& gang : gangs) {
      if (best != nullptr && before(first, gang)) break;
      if (place_gang(gang.shape, gang.entry.task)) return true;
    }
  }
  if (best == nullptr) return false;
  const TaskId task = best->key.head.task;
  const Choice choice = choose_worker(state_, task);
  if (reserve_ahead_of(*best, choice.worker)) return true;
  placed_ = *best;
  assign(task, choice);
  return true;
}

// Places a gang if each of its tasks that has not succeeded is ready, and all of them fit at once.
bool Decision::place_gang(ShapeRef ref, TaskId any) {
  const Workflow& workflow = state_.at(any.workflow());
  const StageState& stage = workflow.stages[workflow.tasks[any.index()].stage];
  std::vector<TaskId> tasks;
  for (const std::uint32_t t : stage.tasks()) {
    const TaskState state = workflow.tasks[t].state;
    if (state == TaskState::kReady && workflow.tasks[t].shape == ref) tasks.push_back(TaskId(workflow.id, t));
    if (ROTA_GUARD("brain: a gang is complete", state != TaskState::kReady && state != TaskState::kSucceeded)) {
      ROTA_SOMETIMES("brain: a gang is not complete");
      return false;
    }
  }
  const User& user = state_.users()[workflow.user];
  const auto count = static_cast<std::int64_t>(tasks.size());
  if (over_limit(user, state_.placement().shape(ref).key, count)) return false;
  const std::vector<Choice> choices = choose_gang(state_, ref, tasks);
  if (choices.size() != tasks.size()) ROTA_SOMETIMES("brain: a gang finds room for a part");
  if (ROTA_GUARD("brain: a gang starts together", choices.size() != tasks.size())) return false;
  for (std::size_t i = 0; i < tasks.size() && i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    emit(TaskAssigned{
        tasks[i], state_.at(tasks[i]).attempt.next(), choice.worker, choice.devices, false, {}, choice.reasoning});
  }
  return true;
}

void Decision::assign(TaskId id, const Choice& choice) {
  TaskAssigned assigned{
      id, state_.at(id).attempt.next(), choice.worker, choice.devices, choice.queued, {}, choice.reasoning};
  const Shape& shape = state_.placement().shape(state_.at(id).shape);
  const Workflow& own = state_.at(id.workflow());
  if (const Hash128 merge = PlacementIndex::merge_of(state_, own, own.tasks[id.index()]); merge != Hash128()) {
    // The next tasks with an equal template, of any workflow, join the execution in their order.
    std::vector<Head> more;
    ClassKey from;
    from.merge = merge;
    from.priority = std::numeric_limits<std::int32_t>::min();
    for (auto at = shape.classes.lower_bound(from); at != shape.classes.end() && at->first.merge == merge; ++at) {
      const ReadyClass& ready = at->second;
      std::size_t taken = 0;
      auto run = ready.queue.begin();
      auto side = ready.stragglers.begin();
      while (taken < static_cast<std::size_t>(state_.policy().merge_most) &&
             (run != ready.queue.end() || side != ready.stragglers.end())) {
        const bool from_run = run != ready.queue.end() && (side == ready.stragglers.end() || *run < *side);
        const ReadyEntry entry = from_run ? *run++ : *side++;
        const Task* task = state_.find(entry.task);
        if (entry.task == id || task == nullptr || task->state != TaskState::kReady || task->stamp != entry.stamp)
          continue;
        Head head;
        head.entry = entry;
        head.priority = effective_priority(state_, *task);
        more.push_back(head);
        ++taken;
      }
    }
    std::sort(more.begin(), more.end(), before);
    std::map<std::uint32_t, std::int64_t> joined;  // By user. Each of them counts in the quota of its user.
    ++joined[state_.at(id.workflow()).user];
    for (const Head& head : more) {
      if (assigned.members.size() + 1 >= static_cast<std::size_t>(state_.policy().merge_most)) break;
      const std::uint32_t user = state_.at(head.entry.task.workflow()).user;
      const User& owner = state_.users()[user];
      if (ROTA_GUARD("brain: merged tasks count in quotas",
                     !owner.limits.limits_nothing() &&
                         owner.limits.exceeded(owner.used, counted_use(shape.key, joined[user] + 1)).has_value())) {
        continue;
      }
      ++joined[user];
      assigned.members.push_back({head.entry.task, state_.at(head.entry.task).attempt.next()});
    }
  }
  emit(std::move(assigned));
}

// The task may only run on its parent's worker, which is busy: recorded once, and no attempt is spent (B-11).
bool Decision::defer() {
  PlacementIndex& index = state_.placement();
  if (index.to_defer().empty()) return false;
  const TaskId id = index.to_defer().front();
  index.pop_to_defer();
  ROTA_SOMETIMES("brain: a task waits for its parent's worker");
  emit(TaskRequeued{id, RequeueReason::kStickyWorkerBusy, 0, 0});
  return true;
}

// Asks tasks of lower priority to stop at a checkpoint, to make room for a task that found none, and keeps that room
// for it (B-22).
bool Decision::preempt() {
  if (!state_.policy().preemption || state_.placement().ready_tasks() == 0) return false;
  Head best;
  Victims victims;
  state_.placement().each_shape([&](ShapeRef ref, const Shape& shape) {
    if (shape.ready == 0 || shape.key.gang != 0 || !shape.key.reserves.is_none()) return;
    for (const auto& [key, ready] : shape.classes) {
      Head head = head_of(state_, ref, key, ready);
      if (over_limit(state_.users()[key.user], shape.key)) continue;
      if (best.shape != kNoShape && !before(head, best)) continue;
      Victims found = choose_victims(state_, head.entry.task);
      if (found.tasks.empty()) continue;
      best = head;
      victims = std::move(found);
    }
  });
  if (victims.tasks.empty()) return false;
  const TaskId task = best.entry.task;  // The class of `best` changes with the next event.
  emit(RoomReserved{task, victims.worker});
  for (const TaskId victim : victims.tasks) emit(StopRequested{victim, StopReason::kPreempt, task});
  return true;
}

bool Decision::leave() {
  PlacementIndex& index = state_.placement();
  if (index.to_leave().empty()) return false;
  const WorkerId id = index.to_leave().front();
  index.pop_to_leave();
  worker_gone(id);  // Drops its bindings: it has no tasks.
  emit(WorkerChanged{id, WorkerChange::kLeft});
  return true;
}

bool Decision::end_workflow() {
  PlacementIndex& index = state_.placement();
  if (index.to_end().empty()) return false;
  const WorkflowId id = index.to_end().front();
  index.pop_to_end();
  Outcome outcome = Outcome::kSucceeded;
  for (const Task& task : state_.at(id).tasks) {
    if (ROTA_GUARD("brain: a failed task fails its workflow", task.state == TaskState::kFailed))
      outcome = Outcome::kFailed;
    if (task.state == TaskState::kCancelled && outcome != Outcome::kFailed) outcome = Outcome::kCancelled;
  }
  emit(WorkflowEnded{id, outcome});
  return true;
}

}  // namespace rota::fleet

// The steps that follow from a state by themselves, repeated until none is left.
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "fleet/decide.h"
#include "fleet/dispatch_mode.h"
#include "fleet/placement.h"
#include "fleet/scope.h"
#include "rota/assert.h"

namespace rota::fleet {

void Decision::settle() {
  for (;;) {
    state_.placement().drop_stale(state_);
    if (promote() || examine() || unbind() || release_room() || place() || defer() || preempt() || leave() ||
        end_workflow())
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
      if (worker.spec.resources.fits(request, worker.used)) {
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
  const TaskTemplate& use = workflow.template_of(workflow.tasks[id.index()]);
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
    if (!fleet.fits(more, state_.fleet_used())) return true;
  }
  return !user.limits.limits_nothing() && user.limits.exceeded(user.used, counted_use(key, tasks)).has_value();
}

// A ready task is bound to a worker that can never run it, and another one can: the binding is released (B-7).
bool Decision::unbind() {
  PlacementIndex& index = state_.placement();
  while (!index.to_unbind().empty()) {
    const ShapeKey key = index.shape(index.to_unbind().front()).key;
    index.pop_to_unbind();
    index.drop_stale(state_);
    if (!could_run_elsewhere(state_, key)) continue;
    if (dispatch_rules(state_).binding == Binding::kWorkflow) {
      emit(BindingDropped{key.workflow, {}});
    } else {
      emit(BindingDropped{WorkflowId(), key.type});
    }
    return true;
  }
  return false;
}

// Room is kept for a task that may not start now, whatever room there is: others may use it.
bool Decision::release_room() {
  for (const TaskId id : state_.reserving()) {
    const Workflow& workflow = state_.at(id.workflow());
    const Shape& shape = state_.placement().shape(workflow.tasks[id.index()].shape);
    if (!over_limit(state_.users()[workflow.user], shape.key)) continue;
    emit(RoomReserved{id, WorkerId()});
    return true;
  }
  return false;
}

namespace {

// The head of a class, with everything that decides its place in the order (B-4, B-22).
struct Head {
  std::int64_t priority = 0;
  bool started = false;
  std::int64_t share = 0;
  ReadyEntry entry{};
  ShapeRef shape = kNoShape;
  const ReadyClass* ready = nullptr;
};

bool before(const Head& a, const Head& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  if (a.started != b.started) return a.started;
  if (a.share != b.share) return a.share < b.share;
  return a.entry < b.entry;
}

Head head_of(const State& state, ShapeRef shape, const ClassKey& key, const ReadyClass& ready) {
  Head head;
  head.entry = *ready.head();
  head.shape = shape;
  head.ready = &ready;
  head.priority = effective_priority(state, state.at(head.entry.task));
  if (state.policy().prefer_started) head.started = state.at(head.entry.task.workflow()).started;
  if (state.policy().fair_share) head.share = dominant_share(state, state.users()[key.user]);
  return head;
}

}  // namespace

bool Decision::place() {
  const PlacementIndex& index = state_.placement();
  if (index.open_shapes().empty()) return false;
  // The best class that is not a gang, and the gangs, which may turn out not to fit.
  Head best;
  std::vector<Head> others;
  for (const ShapeRef ref : index.open_shapes()) {
    const Shape& shape = index.shape(ref);
    for (const auto& [key, ready] : shape.classes) {
      if (over_limit(state_.users()[key.user], shape.key)) continue;
      Head head = head_of(state_, ref, key, ready);
      if (shape.key.gang != 0) {
        others.push_back(head);
      } else if (best.ready == nullptr || before(head, best)) {
        best = head;
      }
    }
  }
  std::sort(others.begin(), others.end(), before);
  for (const Head& gang : others) {
    if (best.ready != nullptr && before(best, gang)) break;
    if (place_gang(gang.shape, *gang.ready)) return true;
  }
  if (best.ready != nullptr) {
    assign(best.entry.task);
    return true;
  }
  return false;
}

// Places a gang if each of its tasks that has not succeeded is ready, and all of them fit at once.
bool Decision::place_gang(ShapeRef ref, const ReadyClass& ready) {
  const TaskId any = ready.head()->task;
  const Workflow& workflow = state_.at(any.workflow());
  const StageState& stage = workflow.stages[workflow.tasks[any.index()].stage];
  std::vector<TaskId> tasks;
  for (std::uint32_t t = stage.first; t < stage.first + stage.count; ++t) {
    const TaskState state = workflow.tasks[t].state;
    if (state == TaskState::kReady && workflow.tasks[t].shape == ref) tasks.push_back(TaskId(workflow.id, t));
    if (state != TaskState::kReady && state != TaskState::kSucceeded) return false;
  }
  const User& user = state_.users()[workflow.user];
  const auto count = static_cast<std::int64_t>(tasks.size());
  if (over_limit(user, state_.placement().shape(ref).key, count)) return false;
  const std::vector<Choice> choices = choose_gang(state_, ref, tasks);
  if (choices.size() != tasks.size()) return false;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Choice& choice = choices[i];
    emit(TaskAssigned{
        tasks[i], state_.at(tasks[i]).attempt.next(), choice.worker, choice.devices, false, {}, choice.reasoning});
  }
  return true;
}

void Decision::assign(TaskId id) {
  Choice choice = choose_worker(state_, id);
  TaskAssigned assigned{
      id, state_.at(id).attempt.next(), choice.worker, choice.devices, choice.queued, {}, choice.reasoning};
  const Shape& shape = state_.placement().shape(state_.at(id).shape);
  if (shape.key.merge != Hash128()) {
    // The next tasks with an equal template, of any workflow, join the execution in their order.
    std::vector<Head> more;
    for (const auto& [key, ready] : shape.classes) {
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
      if (!owner.limits.limits_nothing() &&
          owner.limits.exceeded(owner.used, counted_use(shape.key, joined[user] + 1)).has_value()) {
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
    if (shape.ready == 0 || shape.start > 0 || shape.key.gang != 0 || !shape.key.reserves.is_none()) return;
    for (const auto& [key, ready] : shape.classes) {
      Head head = head_of(state_, ref, key, ready);
      if (over_limit(state_.users()[key.user], shape.key)) continue;
      if (best.ready != nullptr && !before(head, best)) continue;
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
    if (task.state == TaskState::kFailed) outcome = Outcome::kFailed;
    if (task.state == TaskState::kCancelled && outcome != Outcome::kFailed) outcome = Outcome::kCancelled;
  }
  emit(WorkflowEnded{id, outcome});
  return true;
}

}  // namespace rota::fleet

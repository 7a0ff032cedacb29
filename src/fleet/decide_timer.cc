// Decisions that follow from the passing of time.
#include <algorithm>
#include <string>
#include <vector>

#include "base/sim_hooks.h"
#include "fleet/decide.h"
#include "fleet/dispatch_mode.h"
#include "fleet/placement.h"

namespace rota::fleet {

void Decision::fire(const Timer& timer) {
  switch (timer.kind) {
    case Timer::Kind::kBackoff: {
      const TaskId id(timer.id);
      const Task* task = state_.find(id);
      if (task != nullptr && task->state == TaskState::kQueued && task->due_ns() == timer.due_ns) emit(TaskReadied{id});
      return;
    }
    case Timer::Kind::kGrace:  // fire_graces() handles all of them together.
      return;
    case Timer::Kind::kElastic:
      poll_elastic();
      return;
    case Timer::Kind::kRecall:  // Only wakes the brain: on(Tick) recalls.
      return;
    case Timer::Kind::kDeadline: {
      const Workflow* workflow = state_.find(WorkflowId(timer.id));
      if (workflow == nullptr || workflow->outcome != Outcome::kRunning || workflow->main.open == 0) return;
      if (workflow->deadline_ns > state_.time_ns() || !stoppable(*workflow)) return;
      stop_workflow(*workflow, StopCause::kDeadline);
      return;
    }
    case Timer::Kind::kForgetWorkflow: {
      const Workflow* workflow = state_.find(WorkflowId(timer.id));
      if (workflow == nullptr || workflow->outcome == Outcome::kRunning) return;
      if (workflow->ended_ns + state_.policy().retention_ms * graph::kNsPerMs > state_.time_ns()) return;
      emit(WorkflowForgotten{workflow->id});
      return;
    }
    case Timer::Kind::kForgetWorker: {
      const Worker* worker = state_.find(WorkerId(static_cast<std::uint32_t>(timer.id)));
      if (worker == nullptr || worker->reachable) return;
      if (worker->gone_ns + state_.policy().retention_ms * graph::kNsPerMs > state_.time_ns()) return;
      emit(WorkerChanged{worker->id, WorkerChange::kLeft});
      return;
    }
    case Timer::Kind::kRefusal: {
      const Worker* worker = state_.find(WorkerId(static_cast<std::uint32_t>(timer.id)));
      if (worker == nullptr || !worker->refusing) return;
      if (worker->refused_ns + state_.policy().undeliverable_backoff_ms * graph::kNsPerMs > state_.time_ns()) return;
      emit(WorkerChanged{worker->id, WorkerChange::kAccepting});
      return;
    }
  }
}

// Fails tasks that no live worker could run for longer than the grace period.
void Decision::fire_graces(const std::vector<ShapeRef>& shapes) {
  const std::int64_t grace = state_.policy().no_worker_grace_ms * graph::kNsPerMs;
  std::vector<TaskId> late;
  state_.placement().each_shape([&](ShapeRef ref, const Shape& shape) {
    if (std::find(shapes.begin(), shapes.end(), ref) == shapes.end() || shape.live > 0) return;
    std::int64_t gone = 0;
    for (std::size_t i = 0; i < shape.fits.size(); ++i) {
      if (shape.fits[i].possible) gone = std::max(gone, state_.placement().kinds()[i].gone_ns);
    }
    const auto look = [&](const ReadyEntry& entry) {
      const Task* task = state_.find(entry.task);
      if (task == nullptr || task->state != TaskState::kReady || task->stamp != entry.stamp) return;
      if (std::max(task->since_ns, gone) + grace <= state_.time_ns()) late.push_back(entry.task);
    };
    for (const auto& [key, ready] : shape.classes) {
      for (const ReadyEntry& entry : ready.queue) look(entry);
      for (const ReadyEntry& entry : ready.stragglers) look(entry);
    }
  });
  std::sort(late.begin(), late.end());
  for (const TaskId id : late) {
    const Task& task = state_.at(id);
    if (task.state != TaskState::kReady) continue;  // It was cancelled because of a task before it.
    ROTA_SOMETIMES("brain: a task fails because no worker could run it");
    fail(id, FailureKind::kUnplaceable, unplaceable(state_.placement().shape(task.shape).key));
  }
}

std::string Decision::unplaceable(const ShapeKey& key) const {
  const Nearest near = nearest_worker(state_, key.needs, key.handler);
  const std::string message = "no live worker can run it: ";
  if (const std::string lacks = missing_in_fleet(state_, key); !lacks.empty()) return message + lacks;
  if (const Worker* pinned = state_.find_worker(key.pinned); pinned != nullptr && pinned->live()) {
    return message + unmet_requirement(pinned->spec, key.needs, key.handler) + " (at '" + key.pinned +
           "', to which it is pinned)";
  }
  if (!key.pinned.empty()) return message + "worker '" + key.pinned + "' is not registered";
  if (near.worker.is_none()) return message + "there is no live worker";
  if (!near.lacks.empty()) {
    return message + near.lacks + " (at '" + state_.at(near.worker).spec.name + "', which comes nearest)";
  }
  if (key.gang != 0) {
    return message + "all its replicas must start together, and there is room for " +
           std::to_string(state_.placement().room_for(state_, key)) + " of them";
  }
  return message + mode_obstacle(state_, key);
}

namespace {

// Ready tasks of one shape.
struct Waiting {
  const Shape* shape;
  std::int64_t tasks;
};

// Sorted by the keys of the shapes, because their numbers depend on the history of the process.
std::vector<Waiting> waiting_tasks(const PlacementIndex& index) {
  std::vector<Waiting> list;
  index.each_shape([&](ShapeRef, const Shape& shape) {
    if (shape.ready > 0) list.push_back({&shape, shape.ready});
  });
  std::sort(list.begin(), list.end(), [](const Waiting& a, const Waiting& b) { return a.shape->key < b.shape->key; });
  return list;
}

// True if an enabled worker could ever run tasks of the shape.
bool has_enabled_worker(const State& state, const Shape& shape) {
  const ShapeKey& key = shape.key;
  const auto& kinds = state.placement().kinds();
  const bool any_of_kind = key.only.is_none() && key.pinned.empty() && key.excluded.empty() &&
                           dispatch_rules(state).binding == Binding::kNone && key.gang == 0;
  if (any_of_kind) {
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (shape.fits[i].possible && kinds[i].enabled > 0) return true;
    }
    return false;
  }
  std::int64_t room = 0;
  const Workflow* workflow = state.find(key.workflow);
  const std::int64_t together = key.gang == 0 ? 1 : workflow->stages[key.gang - 1].count;
  const bool one_place = dispatch_rules(state).binding != Binding::kNone;
  state.each_worker([&](const Worker& worker) {
    if (!worker.enabled() || !PlacementIndex::permits(state, shape, worker)) return;
    const std::int64_t here =
        dispatch_rules(state).one_task_per_worker ? 1 : std::min(worker.spec.resources.count(key.needs), together);
    room = one_place ? std::max(room, here) : room + here;
  });
  return room >= together;
}

// Removes from `list` the tasks that the worker would start if it were enabled; false if there are none. Tasks that it
// still runs hold their resources. In modes that bind tasks to workers it counts for one task: the others may be bound
// to other workers.
bool take_waiting(const State& state, const Worker& worker, std::vector<Waiting>& list) {
  const DispatchRules& rules = dispatch_rules(state);
  const Resources& resources = worker.spec.resources;
  const bool only_one = rules.binding != Binding::kNone || rules.one_task_per_worker;
  ResourceUse used = worker.used;
  bool any = false;
  for (Waiting& waiting : list) {
    const ShapeKey& key = waiting.shape->key;
    if (!PlacementIndex::permits(state, *waiting.shape, worker) || works_for_another(state, key, worker)) continue;
    std::int64_t count = only_one ? std::min<std::int64_t>(waiting.tasks, 1) : waiting.tasks;
    if (!rules.one_task_per_worker) count = std::min(count, resources.count(key.needs, used));
    if (count <= 0) continue;
    any = true;
    waiting.tasks -= count;
    if (only_one) break;
    used.add(resources.allot(key.needs, used, count));
  }
  return any;
}

}  // namespace

// B-17. Workers are enabled, the strongest first, as many as needed: when the queue is long, for its tasks; for tasks
// that no enabled worker could ever run, however short the queue is; and to have the minimum. Otherwise, with a short
// queue, workers that have idled long enough are disabled, the weakest first, down to the minimum.
void Decision::poll_elastic() {
  const ElasticPolicy& elastic = state_.policy().elastic;
  if (!elastic.enable) return;
  emit(ElasticPolled());
  const auto queue = static_cast<std::int64_t>(state_.placement().ready_tasks());
  const std::int64_t now = state_.time_ns();
  const auto cool = [&](const Worker& worker) {
    return worker.toggled_ns == 0 || worker.toggled_ns + elastic.cooldown_ms * graph::kNsPerMs <= now;
  };
  std::vector<Waiting> waiting = waiting_tasks(state_.placement());
  const auto could_run_one = [&](const Worker& worker) {
    return std::any_of(waiting.begin(), waiting.end(),
                       [&](const Waiting& each) { return PlacementIndex::permits(state_, *each.shape, worker); });
  };
  std::int64_t active = 0;
  std::vector<const Worker*> disabled;
  std::vector<const Worker*> idle;
  state_.each_worker([&](const Worker& worker) {
    if (worker.enabled()) ++active;
    if (!worker.eligible() || !cool(worker)) return;
    if (worker.disabled_elastic) {
      disabled.push_back(&worker);
    } else if (queue <= elastic.disable_queue_most && !worker.enabled_by_hand && worker.executions.empty() &&
               worker.owner.is_none() && worker.idle_since_ns + elastic.disable_idle_ms * graph::kNsPerMs <= now &&
               !could_run_one(worker)) {
      idle.push_back(&worker);
    }
  });
  const auto& kinds = state_.placement().kinds();
  const auto stronger = [&](const Worker* a, const Worker* b) {
    const std::int64_t x = kinds[a->kind].throughput;
    const std::int64_t y = kinds[b->kind].throughput;
    return x != y ? x > y : a->id < b->id;
  };
  std::sort(disabled.begin(), disabled.end(), stronger);
  std::sort(idle.begin(), idle.end(), [&](const Worker* a, const Worker* b) { return stronger(b, a); });

  if (queue <= elastic.enable_queue_threshold) {
    std::erase_if(waiting, [&](const Waiting& each) { return has_enabled_worker(state_, *each.shape); });
  }
  std::vector<WorkerId> enable;
  std::vector<WorkerId> spare;
  for (const Worker* worker : disabled) (take_waiting(state_, *worker, waiting) ? enable : spare).push_back(worker->id);
  for (const WorkerId id : spare) {
    if (active + static_cast<std::int64_t>(enable.size()) >= elastic.least_active) break;
    enable.push_back(id);
  }
  if (!enable.empty()) ROTA_SOMETIMES("brain: the elastic coordinator enables a worker");
  if (!ROTA_GUARD("brain: the elastic coordinator enables workers", true)) enable.clear();
  for (const WorkerId id : enable) emit(WorkerChanged{id, WorkerChange::kEnabledElastic});
  if (!enable.empty() || queue > elastic.enable_queue_threshold) return;
  for (const Worker* worker : idle) {
    if (active-- <= elastic.least_active) break;
    const WorkerId id = worker->id;
    emit(WorkerChanged{id, WorkerChange::kDisabledElastic});
    drop_bindings(id);
  }
}

}  // namespace rota::fleet

// Decisions that follow from the passing of time.
#include <algorithm>
#include <string>
#include <vector>

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
    fail(id, FailureKind::kUnplaceable, unplaceable(state_.placement().shape(task.shape).key));
  }
}

std::string Decision::unplaceable(const ShapeKey& key) const {
  const Nearest near = nearest_worker(state_, key.needs, key.handler);
  const std::string message = "no live worker can run it: ";
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

// Removes from `list` the tasks that the worker would start if it were enabled; false if there are none. Tasks that it
// still runs hold their resources. In modes that bind tasks to workers it counts for one task: the others may be bound
// to other workers.
bool take_waiting(const Worker& worker, const DispatchRules& rules, std::vector<Waiting>& list) {
  const Resources& resources = worker.spec.resources;
  const bool only_one = rules.binding != Binding::kNone || rules.one_task_per_worker;
  ResourceUse used = worker.used;
  bool any = false;
  for (Waiting& waiting : list) {
    const ShapeKey& key = waiting.shape->key;
    if (!meets(worker.spec, key.needs, key.handler)) continue;
    if (!key.pinned.empty() && key.pinned != worker.spec.name) continue;
    if (!key.only.is_none() && key.only != worker.id) continue;
    if (waiting.shape->spare_excluded && std::binary_search(key.excluded.begin(), key.excluded.end(), worker.id))
      continue;
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

// B-17. With a short queue, workers that have idled long enough are disabled, the weakest first, down to the minimum;
// with a long one, disabled workers are enabled, the strongest first, as many as the queue needs.
void Decision::poll_elastic() {
  const ElasticPolicy& elastic = state_.policy().elastic;
  if (!elastic.enable) return;
  emit(ElasticPolled());
  const auto queue = static_cast<std::int64_t>(state_.placement().ready_tasks());
  const std::int64_t now = state_.time_ns();
  const auto cool = [&](const Worker& worker) {
    return worker.toggled_ns == 0 || worker.toggled_ns + elastic.cooldown_ms * graph::kNsPerMs <= now;
  };
  std::int64_t active = 0;
  std::vector<const Worker*> change;
  const bool grow = queue > elastic.enable_queue_threshold;
  state_.each_worker([&](const Worker& worker) {
    if (worker.takes_tasks()) ++active;
    if (!worker.live() || worker.disabled_by_hand || !cool(worker)) return;
    if (grow && worker.disabled_elastic) change.push_back(&worker);
    if (!grow && queue <= elastic.disable_queue_most && !worker.disabled_elastic && worker.executions.empty() &&
        worker.owner.is_none() && worker.idle_since_ns + elastic.disable_idle_ms * graph::kNsPerMs <= now) {
      change.push_back(&worker);
    }
  });
  const auto& kinds = state_.placement().kinds();
  std::sort(change.begin(), change.end(), [&](const Worker* a, const Worker* b) {
    const std::int64_t x = kinds[a->kind].throughput;
    const std::int64_t y = kinds[b->kind].throughput;
    if (x != y) return grow ? x > y : x < y;
    return grow ? a->id < b->id : a->id > b->id;
  });
  if (grow) {
    std::vector<Waiting> waiting = waiting_tasks(state_.placement());
    const DispatchRules& rules = dispatch_rules(state_);
    std::erase_if(change, [&](const Worker* worker) { return !take_waiting(*worker, rules, waiting); });
  } else {
    const auto spare = static_cast<std::size_t>(std::max<std::int64_t>(0, active - elastic.least_active));
    change.resize(std::min(change.size(), spare));
  }
  for (const Worker* worker : change) {
    emit(WorkerChanged{worker->id, grow ? WorkerChange::kEnabledElastic : WorkerChange::kDisabledElastic});
  }
}

}  // namespace rota::fleet

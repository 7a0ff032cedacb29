// The two bounds of the ready order (B-4): a task that others overtake reserves a worker, and tasks that wait in the
// queue of a worker are recalled for one that is ahead of them.
#include <algorithm>
#include <optional>
#include <vector>

#include "fleet/decide.h"
#include "fleet/dispatch_mode.h"
#include "fleet/placement.h"
#include "fleet/ready_head.h"

namespace rota::fleet {

namespace {

// The worker may take tasks of the shape as soon as there is room.
bool may_take(const State& state, const Worker& worker, const Shape& shape) {
  return worker.takes_tasks() && !works_for_another(state, shape.key, worker) &&
         PlacementIndex::permits(state, shape, worker);
}

// The worker that keeps room for a task of the shape: of those that keep room for no other task, the one with the most
// free cores, then the one that registered first. None if there is none.
WorkerId worker_to_reserve(const State& state, const Shape& shape) {
  const Worker* best = nullptr;
  const auto free = [](const Worker& worker) { return worker.spec.resources.cpu_millis - worker.used.cpu_millis; };
  state.each_worker([&](const Worker& worker) {
    if (!worker.reserved.empty() || (best != nullptr && free(worker) <= free(*best))) return;
    if (may_take(state, worker, shape) && could_make_room(state, worker, shape.key)) best = &worker;
  });
  return best == nullptr ? WorkerId() : best->id;
}

}  // namespace

bool could_make_room(const State& state, const Worker& worker, const ShapeKey& key) {
  ResourceUse used;
  bool any = false;
  for (const Execution& execution : worker.executions) {
    const auto paused = [&](TaskId member) { return state.at(member).state == TaskState::kPaused; };
    if (execution.queued || std::none_of(execution.members.begin(), execution.members.end(), paused)) continue;
    used.add(execution.held);
    any = true;
  }
  if (!any) return true;
  return !dispatch_rules(state).one_task_per_worker && worker.spec.resources.fits(key.needs, used);
}

// The first task of `next` is about to start on the worker. If a task that is ahead of it has waited for long enough,
// and fits some worker but not now, that one reserves a worker first. A task that can go to one worker only is
// overtaken only there.
bool Decision::reserve_ahead_of(const OrderTree::Item& next, WorkerId where) {
  const PlacementIndex& index = state_.placement();
  const std::int64_t latest_ns = state_.time_ns() - state_.policy().reservation_after_ms * graph::kNsPerMs;
  WorkerId worker;
  const OrderTree::Item* late = index.first_before(state_, next, where, [&](const OrderTree::Item& item) {
    const Shape& shape = index.shape(item.shape);
    if (item.key.head.since_ns > latest_ns || shape.open_at != kNoShape || shape.live == 0) return false;
    if (!shape.key.reserves.is_none() || over_limit(state_.users()[item.klass->user], shape.key)) return false;
    const WorkerId found = worker_to_reserve(state_, shape);
    if (!found.is_none()) worker = found;
    return !found.is_none();
  });
  if (late == nullptr) return false;
  emit(RoomReserved{late->key.head.task, worker});
  return true;
}

bool Decision::recall() {
  for (const WorkerId id : state_.placement().deep_workers()) {
    if (recall_at(state_.at(id))) return true;
  }
  return false;
}

// The queue of a worker takes longer than it was expected to: of its tasks, all but one per slot are recalled that
// stand before a task that is ahead of them in the ready order, be it ready or in the same queue.
bool Decision::recall_at(const Worker& worker) {
  const PlacementIndex& index = state_.placement();
  if (worker.queued <= worker.slots() || PlacementIndex::recall_due_ns(state_, worker) > state_.time_ns()) return false;
  std::optional<Head> ahead;
  index.each_shape([&](ShapeRef ref, const Shape& shape) {
    if (shape.ready == 0 || shape.key.gang != 0) return;
    if (!may_take(state_, worker, shape)) return;
    for (const auto& [key, ready] : shape.classes) {
      const Head head = head_of(state_, ref, key, ready);
      if ((ahead && !before(head, *ahead)) || over_limit(state_.users()[key.user], shape.key)) continue;
      ahead = head;
    }
  });
  std::vector<const Execution*> queue;
  for (const Execution& execution : worker.executions) {
    if (execution.queued) queue.push_back(&execution);
  }
  std::vector<RecallRequested> recalls;
  for (std::size_t i = queue.size(); i > worker.slots(); --i) {
    const TaskId id = queue[i - 1]->members.front();
    const Task& task = state_.at(id);
    const Head head = head_of(state_, id);
    const bool alone = queue[i - 1]->members.size() == 1 && !queue[i - 1]->merged;
    if (ahead && before(*ahead, head)) {
      if (alone && task.state == TaskState::kRunning && !task.recalled() && !task.stopping) {
        recalls.push_back({id, ahead->entry.task});
      }
    } else if (!task.recalled() && !task.stopping) {
      ahead = head;
    }
  }
  for (const RecallRequested& recall : recalls) emit(recall);
  return !recalls.empty();
}

}  // namespace rota::fleet

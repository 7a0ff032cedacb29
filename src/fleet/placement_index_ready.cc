// Ready tasks in their order, and timers.
#include <algorithm>
#include <utility>

#include "fleet/dispatch_mode.h"
#include "fleet/placement_index.h"
#include "fleet/state.h"
#include "rota/assert.h"

namespace rota::fleet {

Hash128 PlacementIndex::merge_of(const State& state, const Workflow& workflow, const Task& task) {
  if (!dispatch_rules(state).uses_context || !state.policy().merge) return {};
  const TemplateInfo& info = workflow.info_of(task);
  // A task that failed, or whose execution failed as a whole, is not merged: it might make the whole execution fail.
  // Nor is one that continues from a checkpoint of its own.
  const bool continues = task.extra != nullptr && !task.extra->checkpoint.empty();
  if (!info.mergeable || task.spent > 0 || task.alone || continues || !task.reserved().is_none()) return {};
  return info.merge;
}

ClassKey PlacementIndex::class_of(const State& state, const Workflow& workflow, const Task& task) {
  const Policy& policy = state.policy();
  return {merge_of(state, workflow, task), task.priority, workflow.user,
          policy.prefer_started ? workflow.id : WorkflowId(), policy.order == Order::kCriticalPath ? task.since_ns : 0};
}

std::int64_t PlacementIndex::phase_now(const State& state) {
  const Policy& policy = state.policy();
  return policy.aging_boost == 0 ? 0 : state.time_ns() % (policy.aging_interval_ms * graph::kNsPerMs);
}
bool PlacementIndex::compares_one_by_one(const State& state) { return state.policy().fair_share; }

OrderKey PlacementIndex::key_in_group(const State& state, const OrderTree::Item& item, bool passed) {
  OrderKey key = item.key;
  const bool has_passed = item.phase <= phase_now(state);
  if (has_passed && !passed) key.level += state.policy().aging_boost;
  if (!has_passed && passed) key.level -= state.policy().aging_boost;
  return key;
}

bool PlacementIndex::goes_first(const State& state, const OrderTree::Item& a, const OrderTree::Item& b) {
  const OrderKey x = key_in_group(state, a, true);
  const OrderKey y = key_in_group(state, b, true);
  if (!state.policy().fair_share) return x < y;
  if (x.level != y.level) return x.level > y.level;
  if (x.started != y.started) return x.started;
  const std::int64_t x_share = dominant_share(state, state.users()[a.klass->user]);
  const std::int64_t y_share = dominant_share(state, state.users()[b.klass->user]);
  return x_share != y_share ? x_share < y_share : x.head < y.head;
}

// Between two records nothing waits that could start, and what has changed since is offered or opened: so only a worker
// that changed and still waits can take a class that is not open, and only one behind its first choice. That choice has
// moved at most from `from` to `to`. A class that is the only choice of its worker needs no look: when its head starts,
// that worker changes and is offered the next one. With fair shares every start changes the whole order, so that there
// is no lower bound.
bool PlacementIndex::open_between(const State& state, const OrderTree::Item& from, const OrderTree::Item& to) {
  if (touched_.empty()) return false;
  bool opened = false;
  const bool whole = compares_one_by_one(state);
  const auto look = [&](const OrderTree::Item& item) {
    if (shapes_[item.shape]->open_at == kNoShape && (whole || goes_first(state, from, item))) {
      open(item.shape, false);
      opened = true;
    }
    return false;
  };
  (void)first_of(state, tree_, kAnyRoom, &to, look);
  if (!whole || homes_.empty()) return opened;
  for (const WorkerId id : touched_) {
    if (const auto home = homes_.find(id); home != homes_.end()) {
      (void)first_of(state, home->second, kAnyRoom, &to, look);
    }
  }
  return opened;
}

void PlacementIndex::add_item(const State& state, ShapeRef ref, const ClassKey& key, ReadyClass& ready) {
  Shape& shape = *shapes_[ref];
  const Policy& policy = state.policy();
  const std::int64_t interval_ns = policy.aging_interval_ms * graph::kNsPerMs;
  OrderTree::Item item;
  item.key.head = *ready.head();
  item.key.level = key.priority - item.key.head.since_ns / interval_ns * policy.aging_boost;
  item.phase = policy.aging_boost == 0 ? 0 : item.key.head.since_ns % interval_ns;
  if (policy.prefer_started) item.key.started = state.at(item.key.head.task.workflow()).started;
  const Requirements& needs = shape.key.needs;
  item.needs = {needs.cpu_millis, needs.memory_bytes, needs.gpu.count};
  item.shape = ref;
  item.klass = &key;
  ready.in_shape = shape.order.insert(item);
  if (shape.key.gang == 0) ready.at_home = home_of(shape).insert(item);
}

void PlacementIndex::remove_item(Shape& shape, ReadyClass& ready) {
  shape.order.erase(std::exchange(ready.in_shape, OrderTree::kNone));
  if (shape.key.gang != 0) return;
  home_of(shape).erase(std::exchange(ready.at_home, OrderTree::kNone));
  if (!shape.one_worker) return;
  if (const auto home = homes_.find(shape.home); home->second.empty()) homes_.erase(home);
}

void PlacementIndex::workflow_started(State& state, WorkflowId id) {
  if (!state.policy().prefer_started) return;
  const auto found = user_shapes_.find(state.at(id).user);
  if (found == user_shapes_.end()) return;
  for (const auto& [ref, count] : found->second) {
    for (auto& [key, ready] : shapes_[ref]->classes) {
      if (key.workflow != id) continue;
      remove_item(*shapes_[ref], ready);
      add_item(state, ref, key, ready);
      open(ref, false);  // It may now be ahead of what the workers that changed were waiting for.
    }
  }
}

void PlacementIndex::push(State& state, Workflow& workflow, Task& task) {
  ROTA_ASSERT(task.state == TaskState::kReady && task.shape == kNoShape);
  TemplateInfo& info = workflow.templates[static_cast<std::size_t>(workflow.spec.stages[task.stage].use)];
  const bool plain = task.extra == nullptr && info.sticky == TemplateInfo::kNoStage && !workflow.template_of(task).gang;
  ShapeRef ref = plain ? info.shape : kNoShape;
  if (ref == kNoShape) {
    ref = intern(state, key_of(state, workflow, task));
    if (plain) {
      info.shape = ref;
      ++shapes_[ref]->uses;
    }
  }
  Shape& shape = *shapes_[ref];
  ++shape.uses;
  if (shape.ready++ == 0) {
    if (shape.key.gang != 0) gangs_.insert(ref);
    if (!shape.key.fleet.named.empty()) fleet_shapes_.insert(ref);
  }
  ++ready_;
  task.shape = ref;
  const auto [place, fresh] = shape.classes.try_emplace(class_of(state, workflow, task));
  ReadyClass& ready = place->second;
  if (fresh) ++user_shapes_[workflow.user][ref];
  const std::int64_t path_ms = state.policy().order == Order::kCriticalPath ? task.path_ms : 0;
  const ReadyEntry entry{-path_ms, task.since_ns, workflow.id_of(task), ++task.stamp};
  if (!fresh && entry < *ready.head()) remove_item(shape, ready);
  if (ready.queue.empty() || ready.queue.back() < entry) {
    ready.queue.push_back(entry);
  } else {
    ready.stragglers.insert(entry);
  }
  ++ready.live;
  if (ready.in_shape == OrderTree::kNone) add_item(state, ref, place->first, ready);
  if (!shape.key.only.is_none() && !task.deferred) to_defer_.push_back(entry.task);
  open(ref, true);
  if (shape.live == 0) set_grace_timer(state, ref);
}

void PlacementIndex::remove(State& state, Workflow& workflow, Task& task) {
  const ShapeRef ref = std::exchange(task.shape, kNoShape);
  Shape& shape = *shapes_[ref];
  ++task.stamp;
  if (--shape.ready == 0) {
    gangs_.erase(ref);
    fleet_shapes_.erase(ref);
  }
  --ready_;
  const auto found = shape.classes.find(class_of(state, workflow, task));
  ROTA_ASSERT(found != shape.classes.end() && found->second.live > 0);
  ReadyClass& ready = found->second;
  --ready.live;
  if (ready.live == 0) {
    remove_item(shape, ready);
    const auto user = user_shapes_.find(workflow.user);
    if (--user->second[ref] == 0) user->second.erase(ref);
    if (user->second.empty()) user_shapes_.erase(user);
    shape.classes.erase(found);
  } else {
    drop_stale_entries(state, ready);
    const ReadyEntry& head = *ready.head();
    if (const ReadyEntry& former = shape.order.item(ready.in_shape).key.head; head.since_ns != former.since_ns) {
      remove_item(shape, ready);
      add_item(state, ref, found->first, ready);
    } else if (!(head == former)) {
      shape.order.set_head(ready.in_shape, head);
      if (shape.key.gang == 0) home_of(shape).set_head(ready.at_home, head);
    }
  }
  release(ref);
}

// Removes stale entries from the front, or all of them if most are stale.
void PlacementIndex::drop_stale_entries(const State& state, ReadyClass& ready) {
  const auto stale = [&](const ReadyEntry& entry) {
    const Task* task = state.find(entry.task);
    return task == nullptr || task->state != TaskState::kReady || task->stamp != entry.stamp;
  };
  while (!ready.queue.empty() && stale(ready.queue.front())) ready.queue.pop_front();
  while (!ready.stragglers.empty() && stale(*ready.stragglers.begin()))
    ready.stragglers.erase(ready.stragglers.begin());
  if (ready.queue.size() + ready.stragglers.size() > 64 &&
      ready.queue.size() + ready.stragglers.size() > 2 * std::size_t{ready.live}) {
    std::erase_if(ready.queue, stale);
    std::erase_if(ready.stragglers, stale);
  }
}

void PlacementIndex::pop_to_examine(TaskId task) {
  ROTA_ASSERT(!to_examine_.empty() && to_examine_.front() == task);
  to_examine_.pop_front();
}

namespace {

// It has become ready, was skipped, has failed, ...
bool was_examined(const State& state, TaskId id) {
  const Task* task = state.find(id);
  return task == nullptr || task->state != TaskState::kQueued || task->due_ns() != 0;
}

}  // namespace

void PlacementIndex::examined(const State& state, TaskId task) {
  while (!to_examine_.empty() && was_examined(state, to_examine_.front())) to_examine_.pop_front();
  if (!to_examine_.empty() && to_examine_.front() == task) to_examine_.pop_front();
}

void PlacementIndex::pop_to_promote() { to_promote_.pop_front(); }

void PlacementIndex::drop_stale(const State& state) {
  while (!to_examine_.empty() && was_examined(state, to_examine_.front())) to_examine_.pop_front();
  const auto promoted = [&](WorkerId id) {
    const Worker* worker = state.find(id);
    return worker == nullptr || worker->queued == 0;
  };
  while (!to_promote_.empty() && promoted(to_promote_.front())) to_promote_.pop_front();
  const auto deferred = [&](TaskId id) {
    const Task* task = state.find(id);
    return task == nullptr || task->state != TaskState::kReady || task->deferred ||
           shape(task->shape).key.only.is_none();
  };
  while (!to_defer_.empty() && deferred(to_defer_.front())) to_defer_.pop_front();
  const auto ended = [&](WorkflowId id) {
    const Workflow* workflow = state.find(id);
    return workflow == nullptr || workflow->unfinished > 0 || workflow->outcome != Outcome::kRunning;
  };
  while (!to_end_.empty() && ended(to_end_.front())) to_end_.pop_front();
  const auto left = [&](WorkerId id) {
    const Worker* worker = state.find(id);
    return worker == nullptr || !worker->draining || worker->left || !worker->executions.empty();
  };
  while (!to_leave_.empty() && left(to_leave_.front())) to_leave_.pop_front();
  const auto unbound = [&](ShapeRef ref) {
    return shapes_[ref] == nullptr || shapes_[ref]->ready == 0 || shapes_[ref]->live > 0 ||
           bound_worker(state, shapes_[ref]->key).is_none();
  };
  while (!to_unbind_.empty() && unbound(to_unbind_.front())) to_unbind_.pop_front();
}

void PlacementIndex::set_timer(Timer timer) { timers_.insert(timer); }

std::int64_t PlacementIndex::next_due_ns() const {
  return timers_.empty() ? graph::Moment::never().ns : timers_.begin()->due_ns;
}

// The grace period of tasks that no live worker could run begins when they become ready, or when the last worker that
// could run them goes.
void PlacementIndex::set_grace_timer(const State& state, ShapeRef ref) {
  Shape& shape = *shapes_[ref];
  if (shape.live > 0 || shape.ready == 0) return;
  if (dispatch_rules(state).binding != Binding::kNone) to_unbind_.push_back(ref);
  std::int64_t since = graph::Moment::never().ns;
  for (const auto& [key, ready] : shape.classes) since = std::min(since, ready.head()->since_ns);
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (shape.fits[i].possible) since = std::max(since, kinds_[i].gone_ns);
  }
  // The time depends on the data alone: an index that is rebuilt from a snapshot must fire with the same tick. An
  // earlier timer stays; it fires without an effect and is set again.
  const std::int64_t due = since + state.policy().no_worker_grace_ms * graph::kNsPerMs;
  if (shape.grace_ns != 0 && shape.grace_ns <= due) return;
  shape.grace_ns = due;
  set_timer({shape.grace_ns, Timer::Kind::kGrace, ref});
}

std::int64_t PlacementIndex::recall_due_ns(const State& state, const Worker& worker) {
  const auto first = std::find_if(worker.executions.begin(), worker.executions.end(),
                                  [](const Execution& execution) { return execution.queued; });
  return state.at(first->members.front()).assigned_ns + state.policy().queue_most_ms * graph::kNsPerMs;
}

// The first task in a queue was assigned before the others, so that a timer is never late. One that is early is set
// again when it has fired.
void PlacementIndex::set_recall_timer(const State& state, Worker& worker) {
  if (worker.recall_due_ns != 0 || !deep_.contains(worker.id)) return;
  const std::int64_t due_ns = recall_due_ns(state, worker);
  if (due_ns <= state.time_ns()) return;  // Each decision looks at it from now on.
  worker.recall_due_ns = due_ns;
  set_timer({due_ns, Timer::Kind::kRecall, worker.id.value()});
}

void PlacementIndex::reset_fired_timers(State& state) {
  for (const ShapeRef ref : std::exchange(fired_graces_, {})) {
    if (shapes_[ref] != nullptr) set_grace_timer(state, ref);
  }
  for (const WorkerId id : std::exchange(fired_recalls_, {})) {
    if (Worker* worker = state.lookup(id); worker != nullptr) set_recall_timer(state, *worker);
  }
}

void PlacementIndex::take_due_timers(State& state, std::vector<Timer>& fired) {
  while (!timers_.empty() && timers_.begin()->due_ns <= state.time_ns()) {
    const Timer timer = timers_.extract(timers_.begin()).value();
    switch (timer.kind) {
      case Timer::Kind::kGrace: {
        const auto ref = static_cast<ShapeRef>(timer.id);
        if (ref >= shapes_.size() || shapes_[ref] == nullptr || shapes_[ref]->grace_ns != timer.due_ns) continue;
        shapes_[ref]->grace_ns = 0;
        fired_graces_.push_back(ref);
        break;
      }
      case Timer::Kind::kRecall:
        if (Worker* worker = state.lookup(WorkerId(static_cast<std::uint32_t>(timer.id))); worker != nullptr) {
          worker->recall_due_ns = 0;
          fired_recalls_.push_back(worker->id);
        }
        break;
      case Timer::Kind::kBackoff:
      case Timer::Kind::kElastic:
      case Timer::Kind::kForgetWorkflow:
      case Timer::Kind::kForgetWorker:
      case Timer::Kind::kRefusal:
      case Timer::Kind::kDeadline:
        break;
    }
    fired.push_back(timer);
  }
}

void PlacementIndex::check_invariants(const State& state) const {
  std::uint64_t ready = 0;
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr) continue;
    const Shape& shape = *shapes_[i];
    std::uint32_t live = 0;
    for (const auto& [key, klass] : shape.classes) {
      ROTA_ASSERT(klass.live > 0 && klass.head() != nullptr);
      const Task* head = state.find(klass.head()->task);
      ROTA_ASSERT(head != nullptr && head->state == TaskState::kReady && head->stamp == klass.head()->stamp,
                  "the head of a class is ready");
      live += klass.live;
    }
    ROTA_ASSERT(live == shape.ready);
    ready += live;
    // (2) Each class is in the trees with its head.
    for (const auto& [key, klass] : shape.classes) {
      ROTA_ASSERT(shape.order.item(klass.in_shape).key.head == *klass.head());
    }
    if (shape.ready == 0) continue;  // Its workflow may have been forgotten.
    // (3) Masks that are brought up to date are as if they were made anew.
    if (shape.synced != Shape::kNever) {
      sync(state, *shapes_[i]);
      std::uint32_t start = 0;
      std::uint32_t queue = 0;
      state.each_worker([&](const Worker& worker) {
        const Taking taking = could_take_now(state, shape, worker);
        const Fit& fit = shape.fits[worker.kind];
        ROTA_ASSERT((fit.start_mask[worker.slot / 64] >> worker.slot % 64 & 1U) == (taking.start ? 1U : 0U));
        ROTA_ASSERT((fit.queue_mask[worker.slot / 64] >> worker.slot % 64 & 1U) == (taking.queue ? 1U : 0U));
        start += taking.start ? 1 : 0;
        queue += taking.queue ? 1 : 0;
      });
      ROTA_ASSERT(start == shape.start && queue == shape.queue);
    }
    ROTA_ASSERT(shape.open_at == kNoShape && !shape.fresh, "nothing is left to look at");
    // (4) It is found where it belongs.
    ROTA_ASSERT(
        shape.one_worker == one_worker(state, shape.key) &&
        (!shape.one_worker || shape.home == only_worker(state, shape.key) || state.find(shape.home) == nullptr));
    std::uint32_t live_now = shape.live;
    Shape again;
    again.key = shape.key;
    again.fits = shape.fits;
    count_live(state, again);
    ROTA_ASSERT(again.live == live_now && again.spare_excluded == shape.spare_excluded, "live workers are counted");
  }
  ROTA_ASSERT(ready == ready_);
}

}  // namespace rota::fleet

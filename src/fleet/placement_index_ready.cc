// Ready tasks in their order, and timers.
#include <algorithm>
#include <utility>

#include "fleet/dispatch_mode.h"
#include "fleet/placement_index.h"
#include "fleet/state.h"
#include "rota/assert.h"

namespace rota::fleet {

ClassKey PlacementIndex::class_of(const State& state, const Workflow& workflow, const Task& task) {
  return {task.priority, workflow.user, state.policy().prefer_started ? workflow.id : WorkflowId()};
}

void PlacementIndex::push(State& state, Workflow& workflow, Task& task) {
  ROTA_ASSERT(task.state == TaskState::kReady && task.shape == kNoShape);
  TemplateInfo& info = workflow.templates[static_cast<std::size_t>(workflow.spec.stages[task.stage].use)];
  const bool plain = task.extra == nullptr && task.spent == 0 && !task.alone && info.sticky == TemplateInfo::kNoStage &&
                     !workflow.template_of(task).gang;
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
  ++shape.ready;
  ++ready_;
  task.shape = ref;
  ReadyClass& ready = shape.classes[class_of(state, workflow, task)];
  const ReadyEntry entry{task.since_ns, workflow.id_of(task), ++task.stamp};
  if (ready.queue.empty() || ready.queue.back() < entry) {
    ready.queue.push_back(entry);
  } else {
    ready.stragglers.insert(entry);
  }
  ++ready.live;
  if (!shape.key.only.is_none() && !task.deferred) to_defer_.push_back(entry.task);
  update_open(ref);
  if (shape.live == 0) set_grace_timer(state, ref);
}

void PlacementIndex::remove(State& state, Workflow& workflow, Task& task) {
  const ShapeRef ref = std::exchange(task.shape, kNoShape);
  Shape& shape = *shapes_[ref];
  ++task.stamp;
  --shape.ready;
  --ready_;
  const auto found = shape.classes.find(class_of(state, workflow, task));
  ROTA_ASSERT(found != shape.classes.end() && found->second.live > 0);
  ReadyClass& ready = found->second;
  --ready.live;
  if (ready.live == 0) {
    shape.classes.erase(found);
  } else {
    drop_stale_entries(state, ready);
  }
  update_open(ref);
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

void PlacementIndex::pop_to_promote() { to_promote_.pop_front(); }

void PlacementIndex::drop_stale(const State& state) {
  const auto examined = [&](TaskId id) {
    const Task* task = state.find(id);
    return task == nullptr || task->state != TaskState::kQueued || task->due_ns() != 0;
  };
  while (!to_examine_.empty() && examined(to_examine_.front())) to_examine_.pop_front();
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

void PlacementIndex::reset_grace_timers(const State& state) {
  for (const ShapeRef ref : std::exchange(fired_graces_, {})) {
    if (shapes_[ref] != nullptr) set_grace_timer(state, ref);
  }
}

void PlacementIndex::take_due_timers(const State& state, std::vector<Timer>& fired) {
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
      case Timer::Kind::kBackoff:
      case Timer::Kind::kElastic:
      case Timer::Kind::kForgetWorkflow:
      case Timer::Kind::kForgetWorker:
      case Timer::Kind::kRefusal:
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
    std::uint32_t start = 0;
    std::uint32_t queue = 0;
    for (const Fit& fit : shape.fits) {
      std::uint32_t bits = 0;
      for (const std::uint64_t word : fit.start_mask) bits += static_cast<std::uint32_t>(__builtin_popcountll(word));
      ROTA_ASSERT(bits == fit.start);
      start += bits;
      queue += fit.queue;
    }
    ROTA_ASSERT(start == shape.start && queue == shape.queue);
    ROTA_ASSERT((shape.open_at != kNoShape) == (shape.ready > 0 && (shape.start > 0 || shape.queue > 0)));
    if (shape.open_at != kNoShape) ROTA_ASSERT(open_[shape.open_at] == i);
  }
  ROTA_ASSERT(ready == ready_);
}

}  // namespace rota::fleet

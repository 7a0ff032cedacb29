// Explains why a ready task is not placed: the first of these reasons that applies.
//
//   no live worker could ever run it > its user's quota > the fleet's named resources > its gang > the only worker that
//   may run it > no worker has room
//
// Reasons that more room would not remove come first.
#include <algorithm>
#include <tuple>

#include "base/json_text.h"
#include "fleet/dispatch_mode.h"
#include "fleet/explain_parts.h"
#include "fleet/explain_words.h"
#include "fleet/placement.h"

namespace rota::fleet {

namespace {

// The place of a ready task in the order of decisions (B-4); less is earlier.
using Place = std::tuple<std::int64_t, bool, std::int64_t, std::int64_t, TaskId>;
Place place_of(const State& state, const Workflow& workflow, const Task& task, TaskId id) {
  const Policy& policy = state.policy();
  return {-effective_priority(state, task), policy.prefer_started && !workflow.started,
          policy.fair_share ? dominant_share(state, state.users()[workflow.user]) : 0, task.since_ns, id};
}

// Calls f(workflow, task, id) for each ready task, in no particular order.
template <class F>
void each_ready(const State& state, F&& f) {
  state.placement().each_shape([&](ShapeRef, const Shape& shape) {
    const auto look = [&](const ReadyEntry& entry) {
      const Task* task = state.find(entry.task);
      if (task == nullptr || task->state != TaskState::kReady || task->stamp != entry.stamp) return;
      f(state.at(entry.task.workflow()), *task, entry.task);
    };
    for (const auto& [key, ready] : shape.classes) {
      for (const ReadyEntry& entry : ready.queue) look(entry);
      for (const ReadyEntry& entry : ready.stragglers) look(entry);
    }
  });
}

std::string quoted(std::string_view text) { return "'" + printable(text) + "'"; }

// How many tasks with this key the worker could start now.
std::int64_t room_now(const Worker& worker, const ShapeKey& key) {
  if (!worker.takes_tasks() || worker.queued > 0 || !meets(worker.spec, key.needs, key.handler)) return 0;
  return std::min<std::int64_t>(worker.spec.resources.count(key.needs, worker.used), TaskId::kMostTasks);
}

}  // namespace

// " (static_worker)"
std::string Explainer::mode_name() const { return " (" + std::string(to_string(state_.policy().mode)) + ")"; }

void Explainer::ready() {
  const Shape& shape = state_.placement().shape(task_.shape);
  const ShapeKey& key = shape.key;
  if (shape.live == 0) {
    unplaceable(shape);
  } else if (over_quota(shape) || over_fleet(shape)) {  // It has written the reason.
  } else if (key.gang != 0) {
    gang(shape);
  } else if (PlacementIndex::any_could_take(state_, shape)) {
    because(ExplainReason::kTurn, "is placed with the next decision");
  } else if (const Worker* only = state_.find(key.only); only != nullptr) {
    one_worker(ExplainReason::kStickyWorker, *only, "which has the weights of its parent");
  } else if (const Worker* pinned = key.pinned.empty() ? nullptr : state_.find_worker(key.pinned); pinned != nullptr) {
    one_worker(ExplainReason::kPinnedWorker, *pinned, "to which its stage is pinned");
  } else if (const Worker* bound = state_.find(bound_worker(state_, key)); bound != nullptr) {
    if (dispatch_rules(state_).binding == Binding::kWorkflow) {
      one_worker(ExplainReason::kWorkflowWorker, *bound, "which works for its whole workflow" + mode_name());
    } else {
      one_worker(ExplainReason::kTypeWorker, *bound,
                 "to which all tasks of type " + quoted(use_.spec.type) + " belong" + mode_name());
    }
  } else {
    no_room(shape);
  }
  if (const Worker* keeper = state_.find(task_.reserved()); keeper != nullptr) {
    also("; worker " + quoted(keeper->spec.name) + " keeps room for it");
    fact("reserved", keeper->spec.name);
  }
  place_in_order();
}

void Explainer::unplaceable(const Shape& shape) {
  const ShapeKey& key = shape.key;
  // The same time as in Decision::fire_graces().
  std::int64_t since = task_.since_ns;
  for (std::size_t i = 0; i < shape.fits.size(); ++i) {
    if (shape.fits[i].possible) since = std::max(since, state_.placement().kinds()[i].gone_ns);
  }
  const std::int64_t fails = since + state_.policy().no_worker_grace_ms * graph::kNsPerMs;
  const Nearest near = nearest_worker(state_, key.needs, key.handler);
  std::string why;
  if (!key.pinned.empty()) {
    const Worker* worker = state_.find_worker(key.pinned);
    why = "it is pinned to worker " + quoted(key.pinned) + ", ";
    why += worker == nullptr ? std::string("which is not registered")
           : !worker->live() ? "which is " + std::string(to_string(worker->status(0)))
                             : "which lacks " + unmet_requirement(worker->spec, key.needs, key.handler);
  } else if (std::string name = missing_in_fleet(state_, key); !name.empty()) {
    why = name;
    fact("requirement", name);
  } else if (near.worker.is_none()) {
    why = "there is no live worker";
  } else if (!near.lacks.empty()) {
    why = near.lacks + " (at " + worker_name(near.worker) + ", which comes nearest)";
    fact("requirement", near.lacks);
    fact("nearest", state_.at(near.worker).spec.name);
  } else if (key.gang != 0) {
    const std::int64_t room = state_.placement().room_for(state_, key);
    why = std::to_string(workflow_.stages[task_.stage].count) +
          " must start together, and the whole fleet has room for " + std::to_string(room);
    fact("gang", workflow_.stages[task_.stage].count);
    fact("room_ever", room);
  } else {
    why = mode_obstacle(state_, key);
  }
  because(ExplainReason::kUnplaceable, "waits for a worker that could run it; no live one can: " + why);
  also(fails > now_ns_ ? "; it fails in " + span_of(fails - now_ns_) + " unless one comes"
                       : std::string("; it fails with the next tick"));
  fact("fails_ns", fails);
}

bool Explainer::over_quota(const Shape& shape) {
  const User& user = state_.users()[workflow_.user];
  // The quota counts a gang as a whole.
  const std::int64_t count = shape.key.gang == 0 ? 1 : workflow_.stages[task_.stage].unfinished;
  const auto excess = user.limits.exceeded(user.used, counted_use(shape.key, count));
  if (!excess) return false;
  because(ExplainReason::kQuota,
          "waits for the quota of user " + quoted(user.name) + ": " + excess->what + " " +
              amount_text(excess->unit, excess->used) + " of " + amount_text(excess->unit, excess->limit) +
              " in use, and " + (count > 1 ? "its gang" : "it") + " needs " + amount_text(excess->unit, excess->more));
  fact("user", user.name);
  fact("quota", excess->what);
  fact("limit", excess->limit);
  fact("used", excess->used);
  fact("required", excess->more);
  return true;
}

bool Explainer::over_fleet(const Shape& shape) {
  Amounts fleet;
  fleet.named = state_.policy().fleet;
  const std::int64_t count = shape.key.gang == 0 ? 1 : workflow_.stages[task_.stage].unfinished;
  for (const NamedAmount& entry : shape.key.fleet.named) {
    const std::int64_t all = fleet.count_of(entry.name);
    const std::int64_t used = state_.fleet_used().count_of(entry.name);
    const std::int64_t more = entry.count * count;
    if (more <= all - used) continue;
    because(ExplainReason::kFleetResource, "waits for " + quoted(entry.name) + ", of which the whole fleet has " +
                                               std::to_string(all) + ": " + std::to_string(used) +
                                               (used == 1 ? " is" : " are") + " in use, and " +
                                               (count > 1 ? "its gang" : "it") + " needs " + std::to_string(more));
    fact("resource", entry.name);
    fact("limit", all);
    fact("used", used);
    fact("required", more);
    return true;
  }
  return false;
}

void Explainer::gang(const Shape& shape) {
  const StageState& stage = workflow_.stages[task_.stage];
  std::int64_t missing = 0;
  for (const std::uint32_t t : stage.tasks()) {
    const TaskState state = workflow_.tasks[t].state;
    if (state != TaskState::kReady && state != TaskState::kSucceeded) ++missing;
  }
  fact("gang", stage.unfinished);
  if (missing > 0) {
    because(ExplainReason::kGangIncomplete, "waits for its gang, which starts together: " + std::to_string(missing) +
                                                " of " + counted(stage.count, "task") +
                                                (missing == 1 ? " is" : " are") +
                                                " not ready: " + stage_progress(task_.stage));
    fact("not_ready", missing);
    return;
  }
  const bool one = dispatch_rules(state_).binding != Binding::kNone;
  std::int64_t room = 0;
  state_.each_worker([&](const Worker& worker) {
    const std::int64_t here = room_now(worker, shape.key);
    room = one ? std::max(room, here) : room + here;
  });
  because(ExplainReason::kGangRoom, "waits for room for its gang: " + std::to_string(stage.unfinished) +
                                        " must start together, and now there is room for " + std::to_string(room) +
                                        (one ? " on one worker" : ""));
  fact("room_now", room);
}

void Explainer::one_worker(ExplainReason reason, const Worker& worker, const std::string& what) {
  const std::string status(to_string(worker.status(state_.policy().max_queue_per_worker)));
  because(reason, "waits for worker " + quoted(worker.spec.name) + ", " + what + "; it " +
                      (worker.takes_tasks() ? "has " + counted(worker.depth(), "task") : "is " + status));
  fact("worker", worker.spec.name);
  fact("worker_status", status);
  fact("worker_tasks", worker.depth());
}

// Counts each worker that could run the task once, by the first reason why it does not.
void Explainer::no_room(const Shape& shape) {
  const ShapeKey& key = shape.key;
  struct Count {
    std::string_view key;
    std::string words;
    std::int64_t count = 0;
  };
  Count busy{"busy", "busy"};
  Count disabled{"disabled", "disabled"};
  Count draining{"draining", "draining"};
  Count unreachable{"unreachable", "unreachable"};
  Count excluded{"excluded", "left out, as it failed there"};
  Count owned{"owned", "working for another workflow" + mode_name()};
  Count incapable{"incapable", "unable to run all of its workflow" + mode_name()};
  std::int64_t able = 0;
  state_.each_worker([&](const Worker& worker) {
    if (worker.left || !shape.fits[worker.kind].possible) return;
    ++able;
    const bool failed_there = std::binary_search(key.excluded.begin(), key.excluded.end(), worker.id);
    const bool by_workflow = dispatch_rules(state_).binding == Binding::kWorkflow;
    const bool all = !by_workflow || could_run_all(state_, worker.spec, workflow_.spec);
    Count& why = !worker.reachable                                                        ? unreachable
                 : worker.draining                                                        ? draining
                 : worker.disabled_by_hand || worker.disabled_elastic                     ? disabled
                 : shape.spare_excluded && failed_there                                   ? excluded
                 : !all                                                                   ? incapable
                 : by_workflow && !worker.owner.is_none() && worker.owner != workflow_.id ? owned
                                                                                          : busy;
    ++why.count;
  });
  because(owned.count > 0 && busy.count == 0 ? ExplainReason::kWorkflowWorker : ExplainReason::kNoRoom,
          "waits for room: " + counted(able, "worker") + " could run it: ");
  fact("able", able);
  bool first = true;
  for (const Count* each : {&busy, &disabled, &draining, &unreachable, &excluded, &owned, &incapable}) {
    if (each->count == 0) continue;
    also((first ? "" : ", ") + std::to_string(each->count) + (each->count == 1 ? " is " : " are ") + each->words);
    fact(each->key, each->count);
    first = false;
  }
}

// The place of the task in the order of all ready tasks (B-4).
void Explainer::place_in_order() {
  const Place own = place_of(state_, workflow_, task_, out_.task);
  std::uint64_t before = 0;
  std::uint64_t all = 0;
  each_ready(state_, [&](const Workflow& workflow, const Task& task, TaskId id) {
    ++all;
    if (place_of(state_, workflow, task, id) < own) ++before;
  });
  also("; it has been ready for " + span_of(std::max<std::int64_t>(now_ns_ - task_.since_ns, 0)) + ", " +
       ordinal(before + 1) + " of " + counted(static_cast<std::int64_t>(all), "ready task"));
  fact("ready_since_ns", task_.since_ns);
  fact("place", static_cast<std::int64_t>(before + 1));
  fact("ready_tasks", static_cast<std::int64_t>(all));
  fact("priority", effective_priority(state_, task_));
}

std::vector<TaskId> ready_order(const State& state, std::size_t most, TaskId before) {
  const Task* last = before.is_none() ? nullptr : state.find(before);
  std::vector<Place> places;
  each_ready(state, [&](const Workflow& workflow, const Task& task, TaskId id) {
    places.push_back(place_of(state, workflow, task, id));
  });
  if (last != nullptr) {
    const Place limit = place_of(state, state.at(before.workflow()), *last, before);
    std::erase_if(places, [&](const Place& place) { return !(place < limit); });
  }
  const auto end = places.begin() + static_cast<std::ptrdiff_t>(std::min(most, places.size()));
  std::partial_sort(places.begin(), end, places.end());
  std::vector<TaskId> order;
  for (auto place = places.begin(); place != end; ++place) order.push_back(std::get<TaskId>(*place));
  return order;
}

}  // namespace rota::fleet

// The rules of the brain, written a second time: slowly, from the contract's wording, and from the data of the state
// alone. The adversarial test compares the brain's decisions with them. Nothing here uses the placement index.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "fleet/state.h"

namespace rota::fleet::naive {

// What the task asks for now: its template's request, with more memory if it was killed for memory.
inline Requirements needs_of(const Workflow& workflow, const Task& task) {
  Requirements needs = workflow.template_of(task).needs;
  if (task.extra != nullptr && task.extra->memory_bytes > 0 && !workflow.template_of(task).gang) {
    needs.memory_bytes = task.extra->memory_bytes;
  }
  return needs;
}

inline std::int64_t of_name(const std::vector<NamedAmount>& list, const std::string& name) {
  for (const NamedAmount& entry : list) {
    if (entry.name == name) return entry.count;
  }
  return 0;
}

inline bool fleet_wide(const State& state, const std::string& name) { return of_name(state.policy().fleet, name) > 0; }

inline bool round_robin(const State& state) { return state.policy().mode == DispatchMode::kStaticRoundRobin; }

inline bool takes_tasks(const Worker& worker) {
  return worker.reachable && !worker.draining && !worker.left && !worker.disabled_by_hand && !worker.disabled_elastic &&
         !worker.refusing;
}

// The worker may take tasks without an operator's help.
inline bool eligible(const Worker& worker) {
  return worker.reachable && !worker.draining && !worker.left && !worker.disabled_by_hand;
}

// Its hardware, its handlers, zone, capabilities and labels (B-5). `used`: what is held there.
inline bool has_room(const State& state, const Worker& worker, const Requirements& needs, const ResourceUse& used) {
  const Resources& have = worker.spec.resources;
  if (needs.cpu_millis > have.cpu_millis - used.cpu_millis) return false;
  if (needs.memory_bytes > have.memory_bytes - used.memory_bytes) return false;
  for (const NamedAmount& entry : needs.named) {
    if (fleet_wide(state, entry.name)) continue;
    if (entry.count > of_name(have.named, entry.name) - of_name(used.named, entry.name)) return false;
  }
  std::int64_t devices = 0;
  for (std::size_t i = 0; i < have.gpus.size(); ++i) {
    const bool free = (used.devices >> i & 1U) == 0;
    if (free && (needs.gpu.model.empty() || have.gpus[i].model == needs.gpu.model) &&
        have.gpus[i].memory_bytes >= needs.gpu.memory_bytes) {
      ++devices;
    }
  }
  return devices >= needs.gpu.count;
}

inline bool has_handler(const Worker& worker, const TaskSpec& spec) {
  if (spec.program) return worker.spec.programs;
  return std::find(worker.spec.handlers.begin(), worker.spec.handlers.end(), spec.type) != worker.spec.handlers.end();
}

inline bool could_run(const State& state, const Worker& worker, const TaskTemplate& use, const Requirements& needs) {
  if (!has_handler(worker, use.spec)) return false;
  if (round_robin(state)) return true;
  if (!has_room(state, worker, needs, {})) return false;
  if (!needs.zone.empty() && worker.spec.zone != needs.zone) return false;
  if (!use.pinned.empty() && worker.spec.name != use.pinned) return false;
  const auto among = [](const auto& list, const auto& one) {
    return std::find(list.begin(), list.end(), one) != list.end();
  };
  for (const std::string& want : needs.capabilities) {
    if (!among(worker.spec.capabilities, want)) return false;
  }
  for (const Label& want : needs.labels) {
    if (!among(worker.spec.labels, want)) return false;
  }
  return true;
}

// The worker could run the task if it had nothing else to do, whatever is bound to whom: in static_worker mode it would
// have to run the whole workflow.
inline bool could_ever_run(const State& state, const Worker& worker, const Workflow& workflow, const Task& task) {
  if (!could_run(state, worker, workflow.template_of(task), needs_of(workflow, task))) return false;
  if (state.policy().mode != DispatchMode::kStaticWorker) return true;
  return std::all_of(workflow.spec.templates.begin(), workflow.spec.templates.end(),
                     [&](const TaskTemplate& use) { return could_run(state, worker, use, use.needs); });
}

// B-14: a worker on which the task failed is left out while another one is eligible.
inline bool left_out(const State& state, const Worker& worker, const Workflow& workflow, const Task& task) {
  if (task.extra == nullptr || workflow.template_of(task).gang || round_robin(state)) return false;
  const auto& failed = task.extra->failed_on;
  if (std::find(failed.begin(), failed.end(), worker.id) == failed.end()) return false;
  const WorkerId bound = state.policy().mode == DispatchMode::kStaticWorker ? workflow.bound : WorkerId();
  const auto owner = state.globals().type_owner.find(workflow.template_of(task).spec.type);
  bool other = false;
  state.each_worker([&](const Worker& each) {
    if (std::find(failed.begin(), failed.end(), each.id) != failed.end() || !eligible(each)) return;
    if (!bound.is_none() && bound != each.id) return;
    if (state.policy().mode == DispatchMode::kFixedPipeline && owner != state.globals().type_owner.end() &&
        owner->second != each.id) {
      return;
    }
    other = other || could_ever_run(state, each, workflow, task);
  });
  return other;
}

// B-11: the worker that has the weights of the task's parent; none if it need not go anywhere.
inline WorkerId sticky_worker(const State& state, const Workflow& workflow, const Task& task) {
  const TemplateInfo& info = workflow.info_of(task);
  if (!state.policy().stickiness || state.policy().mode != DispatchMode::kAdaptive || info.sticky == info.kNoStage ||
      workflow.template_of(task).gang || (task.extra != nullptr && !task.extra->failed_on.empty())) {
    return {};
  }
  const StageState& parent = workflow.stages[info.sticky];
  const StageState& own = workflow.stages[task.stage];
  const auto index = own.number(static_cast<std::uint32_t>(&task - workflow.tasks.data()));
  if (parent.count != 1 && parent.count != own.count) return {};
  const Task& source = workflow.tasks[parent.task(parent.count == 1 ? 0 : index)];
  const Worker* worker = source.skipped ? nullptr : state.find(source.worker);
  if (worker == nullptr || !worker->enabled() || !could_ever_run(state, *worker, workflow, task)) return {};
  return worker->id;
}

// What the user's assigned tasks hold, queued and merged ones included (B-22).
inline FleetUse used_by(const State& state, std::uint32_t user) {
  FleetUse use;
  state.each_worker([&](const Worker& worker) {
    for (const Execution& execution : worker.executions) {
      for (const TaskId id : execution.members) {
        const Workflow& workflow = state.at(id.workflow());
        if (workflow.user != user) continue;
        const Requirements needs = needs_of(workflow, workflow.tasks[id.index()]);
        use.cpu_millis += needs.cpu_millis;
        use.memory_bytes += needs.memory_bytes;
        use.gpus += needs.gpu.count;
        use.tasks += 1;
      }
    }
  });
  return use;
}

inline bool within(std::int64_t limit, std::int64_t used) { return limit == 0 || used <= limit; }
inline bool within_quota(const State& state, std::uint32_t user, const FleetUse& use) {
  const FleetUse& limits = state.users()[user].limits;
  return within(limits.cpu_millis, use.cpu_millis) && within(limits.memory_bytes, use.memory_bytes) &&
         within(limits.gpus, use.gpus) && within(limits.tasks, use.tasks);
}
inline bool quota_allows(const State& state, const Workflow& workflow, const Task& task, std::int64_t tasks = 1) {
  FleetUse use = used_by(state, workflow.user);
  const Requirements needs = needs_of(workflow, task);
  use.cpu_millis += needs.cpu_millis * tasks;
  use.memory_bytes += needs.memory_bytes * tasks;
  use.gpus += needs.gpu.count * tasks;
  use.tasks += tasks;
  return within_quota(state, workflow.user, use);
}

// What all executions hold of a named resource of the fleet (B-5): one share per execution.
inline std::int64_t fleet_used(const State& state, const std::string& name) {
  std::int64_t used = 0;
  state.each_worker([&](const Worker& worker) {
    for (const Execution& execution : worker.executions) {
      const Workflow& workflow = state.at(execution.members.front().workflow());
      used += of_name(workflow.template_of(workflow.tasks[execution.members.front().index()]).needs.named, name);
    }
  });
  return used;
}
inline bool fleet_allows(const State& state, const Requirements& needs, std::int64_t tasks = 1) {
  if (round_robin(state)) return true;
  return std::all_of(needs.named.begin(), needs.named.end(), [&](const NamedAmount& entry) {
    return !fleet_wide(state, entry.name) ||
           entry.count * tasks + fleet_used(state, entry.name) <= of_name(state.policy().fleet, entry.name);
  });
}

// The whole fleet has what is needed of it (B-5), whoever uses it now.
inline bool fleet_has(const State& state, const Requirements& needs) {
  return round_robin(state) || std::all_of(needs.named.begin(), needs.named.end(), [&](const NamedAmount& entry) {
           return !fleet_wide(state, entry.name) || entry.count <= of_name(state.policy().fleet, entry.name);
         });
}

// The mode lets the worker take the task now (B-7).
inline bool mode_allows(const State& state, const Worker& worker, const Workflow& workflow, const Task& task) {
  switch (state.policy().mode) {
    case DispatchMode::kAdaptive:
      return true;
    case DispatchMode::kStaticRoundRobin:
      return true;  // While it has no task: could_start().
    case DispatchMode::kStaticWorker:
      if (!worker.owner.is_none() && worker.owner != workflow.id) return false;
      return workflow.bound.is_none() || workflow.bound == worker.id;
    case DispatchMode::kFixedPipeline: {
      const auto owner = state.globals().type_owner.find(workflow.template_of(task).spec.type);
      return owner == state.globals().type_owner.end() || owner->second == worker.id;
    }
  }
  return false;
}

// The task may run on the worker as soon as there is room.
inline bool may_run(const State& state, const Worker& worker, const Workflow& workflow, const Task& task) {
  // A workflow stays with the worker that it owns, though the worker would not be chosen for all of it any more.
  const bool owned = state.policy().mode == DispatchMode::kStaticWorker && workflow.bound == worker.id;
  const bool able = owned ? could_run(state, worker, workflow.template_of(task), needs_of(workflow, task))
                          : could_ever_run(state, worker, workflow, task);
  if (!takes_tasks(worker) || !able) return false;
  if (left_out(state, worker, workflow, task) || !mode_allows(state, worker, workflow, task)) return false;
  const WorkerId sticky = sticky_worker(state, workflow, task);
  return sticky.is_none() || sticky == worker.id;
}

// The task, which is ready and in no gang, could start on the worker now. Workers that keep room for another task are
// not counted on.
inline bool could_start(const State& state, const Worker& worker, const Workflow& workflow, const Task& task) {
  if (!may_run(state, worker, workflow, task)) return false;
  const TaskId id = workflow.id_of(task);
  if (std::any_of(worker.reserved.begin(), worker.reserved.end(), [&](TaskId other) { return other != id; }))
    return false;
  const auto queued = [](const Execution& execution) { return execution.queued; };
  if (std::any_of(worker.executions.begin(), worker.executions.end(), queued)) return false;
  if (round_robin(state)) return worker.executions.empty();
  ResourceUse used;
  for (const Execution& execution : worker.executions) used.add(execution.held);
  return has_room(state, worker, needs_of(workflow, task), used);
}
inline bool could_start_somewhere(const State& state, const Workflow& workflow, const Task& task) {
  if (!quota_allows(state, workflow, task) || !fleet_allows(state, needs_of(workflow, task))) return false;
  bool found = false;
  state.each_worker([&](const Worker& worker) { found = found || could_start(state, worker, workflow, task); });
  return found;
}

// B-4: the worker will have room for the task when those that run there have ended; paused ones stay.
inline bool will_have_room(const State& state, const Worker& worker, const Workflow& workflow, const Task& task) {
  ResourceUse stays;
  for (const Execution& execution : worker.executions) {
    for (const TaskId member : execution.members) {
      if (execution.queued || state.at(member).state != TaskState::kPaused) continue;
      if (round_robin(state)) return false;
      stays.add(execution.held);
      break;
    }
  }
  return round_robin(state) || has_room(state, worker, needs_of(workflow, task), stays);
}

// The task can go to this worker only; none: to several.
inline WorkerId single_worker(const State& state, const Workflow& workflow, const Task& task) {
  const TaskTemplate& use = workflow.template_of(task);
  if (const WorkerId sticky = sticky_worker(state, workflow, task); !sticky.is_none()) return sticky;
  if (!use.pinned.empty() && !round_robin(state)) {
    const Worker* worker = state.find_worker(use.pinned);
    return worker == nullptr ? WorkerId() : worker->id;
  }
  if (state.policy().mode == DispatchMode::kStaticWorker) return workflow.bound;
  const auto owner = state.globals().type_owner.find(use.spec.type);
  const bool typed = state.policy().mode == DispatchMode::kFixedPipeline && owner != state.globals().type_owner.end();
  return typed ? owner->second : WorkerId();
}

// B-4: the task has waited for long enough, and some worker that keeps room for no other task could be kept for it.
inline bool should_reserve(const State& state, const Workflow& workflow, const Task& task) {
  if (workflow.template_of(task).gang || !task.reserved().is_none()) return false;
  if (state.time_ns() - task.since_ns < state.policy().reservation_after_ms * 1'000'000) return false;
  if (!quota_allows(state, workflow, task) || !fleet_allows(state, needs_of(workflow, task))) return false;
  bool found = false;
  state.each_worker([&](const Worker& worker) {
    found = found || (worker.reserved.empty() && may_run(state, worker, workflow, task) &&
                      will_have_room(state, worker, workflow, task));
  });
  return found;
}

// B-4: the priority of the task at a time at which it was ready.
inline std::int64_t aged_at(const State& state, const Task& task, std::int64_t at_ns) {
  const Policy& policy = state.policy();
  return task.priority + (at_ns - task.since_ns) / (policy.aging_interval_ms * 1'000'000) * policy.aging_boost;
}

// B-22: a lower priority; B-4: and it was not ahead in the ready order when it was assigned.
inline bool may_stop(const State& state, const Task& task, const Task& victim) {
  if (victim.priority >= task.priority) return false;
  return task.since_ns > victim.assigned_ns ||
         aged_at(state, task, victim.assigned_ns) > aged_at(state, victim, victim.assigned_ns);
}

// B-4: the queue of the worker has one task per slot, or more that are expected to end in time.
inline bool queue_has_room(const State& state, const Worker& worker) {
  std::int64_t queued = 0;
  std::int64_t running = 0;
  std::int64_t expected_ns = 0;
  for (const Execution& execution : worker.executions) {
    (execution.queued ? queued : running) += 1;
    expected_ns += execution.queued ? execution.expected_ns : 0;
  }
  running = std::max<std::int64_t>(running, 1);
  return queued < state.policy().max_queue_per_worker &&
         expected_ns < state.policy().queue_most_ms * 1'000'000 * running;
}

// B-4: tasks beyond one per slot that wait at the worker for too long, alone and behind nobody's recall, and before
// which `ahead` goes.
inline TaskId should_be_recalled(const State& state, const Worker& worker, std::int64_t ahead) {
  std::vector<const Execution*> queue;
  for (const Execution& execution : worker.executions) {
    if (execution.queued) queue.push_back(&execution);
  }
  const std::size_t slots = std::max<std::size_t>(worker.executions.size() - queue.size(), 1);
  if (queue.size() <= slots) return {};
  const Task& first = state.at(queue.front()->members.front());
  if (first.assigned_ns + state.policy().queue_most_ms * 1'000'000 > state.time_ns()) return {};
  for (std::size_t i = slots; i < queue.size(); ++i) {
    const Task& task = state.at(queue[i]->members.front());
    if (queue[i]->members.size() > 1 || queue[i]->merged || task.state != TaskState::kRunning) continue;
    if (task.recalled() || task.stopping || effective_priority(state, task) >= ahead) continue;
    return queue[i]->members.front();
  }
  return {};
}

// Policy::prefer_locality: where the first task of the first stage that the task needs has run; null if nowhere.
inline const Worker* where_parent_ran(const State& state, const Workflow& workflow, const Task& task) {
  std::uint32_t first = ~0U;
  for (const graph::TaskRef parent : workflow.dag.parents(graph::TaskRef(task.stage + 1))) {
    first = std::min(first, parent.value() - 1);
  }
  return first == ~0U ? nullptr : state.find(workflow.tasks[workflow.stages[first].first].worker);
}

// B-18: some live worker could run the stage, which is no gang; with `all`, and the whole workflow if the mode asks for
// that.
inline bool feasible(const State& state, const Workflow& workflow, std::uint32_t stage, bool all) {
  const Task& task = workflow.tasks[workflow.stages[stage].first];
  const TaskTemplate& use = workflow.template_of(task);
  if (!fleet_has(state, use.needs)) return false;
  bool found = false;
  state.each_worker([&](const Worker& worker) {
    if (!worker.reachable || worker.draining || worker.left) return;
    found = found || (all ? could_ever_run(state, worker, workflow, task) : could_run(state, worker, use, use.needs));
  });
  return found;
}

// B-18: some live worker could run every stage of the workflow.
inline bool feasible_as_a_whole(const State& state, const Workflow& workflow) {
  bool found = false;
  state.each_worker([&](const Worker& worker) {
    if (!worker.reachable || worker.draining || worker.left) return;
    found = found || std::all_of(workflow.spec.templates.begin(), workflow.spec.templates.end(),
                                 [&](const TaskTemplate& use) { return could_run(state, worker, use, use.needs); });
  });
  return found;
}

// B-17: how many workers are enabled at least once the coordinator has acted: the minimum, or all that are enabled and
// those that it disabled and whose cooldown is over.
inline std::int64_t active_after_poll(const State& state) {
  const ElasticPolicy& elastic = state.policy().elastic;
  std::int64_t possible = 0;
  state.each_worker([&](const Worker& worker) {
    if (!eligible(worker)) return;
    const bool cool = worker.toggled_ns == 0 || state.time_ns() - worker.toggled_ns >= elastic.cooldown_ms * 1'000'000;
    if (!worker.disabled_elastic || cool) ++possible;
  });
  return std::min(elastic.least_active, possible);
}

// How many tasks like this one a worker could run at once with nothing else to do.
inline std::int64_t places(const State& state, const Worker& worker, const Workflow& workflow, const Task& task) {
  if (!could_ever_run(state, worker, workflow, task)) return 0;
  if (round_robin(state)) return 1;
  const Requirements needs = needs_of(workflow, task);
  ResourceUse used;
  std::int64_t count = 0;
  while (count < 64 && has_room(state, worker, needs, used)) {
    ++count;
    used.cpu_millis += needs.cpu_millis;
    used.memory_bytes += needs.memory_bytes;
    for (const NamedAmount& entry : needs.named) {
      Amounts more;
      more.named = {entry};
      used.Amounts::add(more);
    }
    for (std::int64_t d = 0; d < needs.gpu.count; ++d) {
      for (std::size_t i = 0; i < worker.spec.resources.gpus.size(); ++i) {
        if ((used.devices >> i & 1U) != 0) continue;
        used.devices |= DeviceSet{1} << i;
        break;
      }
    }
  }
  return count;
}

// With everything idle, and with what the coordinator may enable, the task (or its gang as a whole) could start.
inline bool could_start_one_day(const State& state, const Workflow& workflow, const Task& task) {
  const bool gang = workflow.template_of(task).gang;
  std::int64_t together = 1;
  if (gang) {
    const StageState& stage = workflow.stages[task.stage];
    together = 0;
    for (const std::uint32_t t : stage.tasks()) {
      const TaskState other = workflow.tasks[t].state;
      if (other == TaskState::kPaused) return false;
      together += other == TaskState::kSucceeded ? 0 : 1;
    }
    together = std::max<std::int64_t>(together, stage.count);  // As the brain counts it: as if all had to start.
  }
  const Requirements needs = needs_of(workflow, task);
  FleetUse whole;
  whole.cpu_millis = needs.cpu_millis * together;
  whole.memory_bytes = needs.memory_bytes * together;
  whole.gpus = needs.gpu.count * together;
  whole.tasks = together;
  if (!within_quota(state, workflow.user, whole)) return false;
  for (const NamedAmount& entry : needs.named) {
    if (!round_robin(state) && fleet_wide(state, entry.name) &&
        entry.count * together > of_name(state.policy().fleet, entry.name)) {
      return false;
    }
  }
  const bool one_place =
      state.policy().mode == DispatchMode::kStaticWorker || state.policy().mode == DispatchMode::kFixedPipeline;
  std::int64_t room = 0;
  state.each_worker([&](const Worker& worker) {
    if (!eligible(worker)) return;
    const std::int64_t here = places(state, worker, workflow, task);
    room = one_place ? std::max(room, here) : room + here;
  });
  return room >= together;
}

}  // namespace rota::fleet::naive

// What holds between two records. Visits everything: for tests.
#include <algorithm>
#include <map>
#include <set>

#include "fleet/codec.h"
#include "fleet/state.h"
#include "rota/assert.h"

namespace rota::fleet {

void State::check_invariants() const {
  SetHash set;
  std::uint64_t unfinished = 0;
  std::map<TaskId, WorkerId> placed;
  std::map<std::uint32_t, FleetUse> used_by;
  Amounts fleet_used;
  std::set<TaskId> reserving;

  // (1) The resources in use on a worker are the sum over its executions; a task and a device are in one execution.
  each_worker([&](const Worker& worker) {
    ROTA_ASSERT(!worker.dirty && worker.hash == hash_of_worker(worker), "a worker's hash is up to date");
    set.add(worker.hash);
    ResourceUse used;
    std::uint32_t queued = 0;
    std::int64_t queued_ns = 0;
    for (const Execution& execution : worker.executions) {
      ROTA_ASSERT(!execution.members.empty());
      for (const TaskId member : execution.members) {
        ROTA_ASSERT(placed.emplace(member, worker.id).second, "a task runs in one place");
        execution.count_in(used_by[at(member.workflow()).user]);
      }
      fleet_used.add(execution.fleet);
      if (execution.queued) {
        ++queued;
        queued_ns += execution.expected_ns;
        continue;
      }
      ROTA_ASSERT((used.devices & execution.held.devices) == 0, "a device serves one execution");
      used.add(execution.held);
    }
    ROTA_ASSERT(used == worker.used && queued == worker.queued && queued_ns == worker.queued_ns,
                "a worker's use is the sum over its executions");
    ROTA_ASSERT(worker.reachable || worker.executions.empty(), "an unreachable worker has no executions");
  });

  ROTA_ASSERT(fleet_used == fleet_used_, "the use of the fleet's resources is the sum over all executions");

  // (2) The use of a user is the sum over the user's tasks that are assigned.
  for (std::uint32_t i = 0; i < users_.size(); ++i) {
    const User& user = users_[i];
    ROTA_ASSERT(user.used == used_by[i], "a user's use is the sum over the user's executions", user.name);
    ROTA_ASSERT(!user.dirty && user.hash == hash_of_user(user));
    set.add(user.hash);
  }

  // (3) Counters match the tasks; a running task is in an execution; no task runs before its needs have succeeded;
  // times
  //     are in order.
  each_workflow([&](const Workflow& workflow) {
    ROTA_ASSERT(!workflow.dirty && workflow.hash == hash_of_workflow(workflow), "a workflow's hash is up to date");
    set.add(workflow.hash);
    std::uint32_t open = 0;
    std::uint32_t running = 0;
    std::vector<std::uint32_t> left(workflow.stages.size());
    std::vector<std::uint32_t> ending(workflow.stages.size());
    MainTasks main;
    for (const Task& task : workflow.tasks) {
      const TaskId id = workflow.id_of(task);
      ROTA_ASSERT(!task.dirty && task.hash == hash_of_task(id, task), "a task's hash is up to date");
      set.add(task.hash);
      if (workflow.is_withdrawn(task)) {
        ROTA_ASSERT(task.state == TaskState::kSucceeded && task.skipped && task.extra == nullptr,
                    "a task that was withdrawn has ended", id.to_string());
        ROTA_ASSERT(workflow.spec.stages[task.stage].fan_out && workflow.stages[task.stage].repeats);
        continue;
      }
      open += graph::is_terminal(task.state) ? 0 : 1;
      running += task.state == TaskState::kRunning ? 1 : 0;
      left[task.stage] += task.state == TaskState::kSucceeded ? 0 : 1;
      ending[task.stage] += graph::is_terminal(task.state) ? 0 : 1;
      if (!workflow.spec.stages[task.stage].finally) {
        main.open += graph::is_terminal(task.state) ? 0 : 1;
        main.failed += task.state == TaskState::kFailed ? 1 : 0;
        main.cancelled += task.state == TaskState::kCancelled ? 1 : 0;
      }
      const bool runs = task.state == TaskState::kRunning ||
                        (task.state == TaskState::kPaused && task.paused_from == TaskState::kRunning);
      const auto found = placed.find(id);
      ROTA_ASSERT(runs == (found != placed.end()), "a task is in an execution exactly while it runs", id.to_string());
      if (runs) {
        ROTA_ASSERT(found->second == task.worker);
        placed.erase(found);
      }
      ROTA_ASSERT((task.state == TaskState::kReady) == (task.shape != kNoShape),
                  "a task has a shape exactly while it is ready");
      ROTA_ASSERT(task.spent <= task.attempt.value());
      if (!task.reserved().is_none()) {
        reserving.insert(id);
        const Worker& keeper = at(task.reserved());
        ROTA_ASSERT(task.state == TaskState::kReady && keeper.enabled(),
                    "an enabled worker keeps room for a ready task");
        ROTA_ASSERT(std::binary_search(keeper.reserved.begin(), keeper.reserved.end(), id));
      }
      ROTA_ASSERT(task.started_ns == 0 || (task.assigned_ns <= task.started_ns && task.started_ns <= task.ended_ns));
      ROTA_ASSERT(task.ended_ns <= time_ns());
      // A stage that waits for the end of others may run when one of them is retried.
      const StageState& own = workflow.stages[task.stage];
      if (!own.repeats && (runs || task.state == TaskState::kReady || task.state == TaskState::kSucceeded)) {
        ROTA_ASSERT(own.waits == 0 && !workflow.waits_for_items(task), "its needs have succeeded", id.to_string());
      }
    }
    ROTA_ASSERT(open == workflow.unfinished && running == workflow.running && main == workflow.main);
    ROTA_ASSERT((workflow.outcome == Outcome::kRunning) == (open > 0),
                "a workflow has ended exactly if all its tasks have");
    unfinished += open;
    for (std::uint32_t s = 0; s < workflow.stages.size(); ++s) {
      ROTA_ASSERT(left[s] == workflow.stages[s].unfinished && ending[s] == workflow.stages[s].open);
      const Stage& spec = workflow.spec.stages[s];
      std::uint32_t waits = spec.finally && main.open > 0 ? 1 : 0;
      for (const graph::TaskRef parent : workflow.dag.parents(graph::TaskRef(s + 1)))
        waits += workflow.link_of(s, parent.value() - 1) != nullptr               ? 0
                 : (spec.waits_for_end() ? ending : left)[parent.value() - 1] > 0 ? 1
                                                                                  : 0;
      ROTA_ASSERT(waits == workflow.stages[s].waits);
      if (spec.parallel == 0) continue;
      StageSlots slots;
      for (const std::uint32_t t : workflow.stages[s].tasks()) {
        const Task& task = workflow.tasks[t];
        slots.used += uses_slot(task) ? 1 : 0;
        if (task.state == TaskState::kQueued && waits == 0 && task.due_ns() == 0 && !workflow.waits_for_items(task))
          slots.held.insert(t);
      }
      ROTA_ASSERT(slots == workflow.slots.at(s), "the tasks that wait for a slot are known");
      ROTA_ASSERT(slots.used <= static_cast<std::uint64_t>(spec.parallel), "at most `parallel` tasks run");
      ROTA_ASSERT(slots.held.empty() || slots.used == static_cast<std::uint64_t>(spec.parallel), "no slot is idle");
    }
    for (const ItemLink& link : workflow.links) {
      for (const ItemLink::Group& group : link.groups) {
        std::uint32_t missing = 0;
        for (const std::uint32_t i : group.parents) {
          const Task& task = workflow.tasks[workflow.stages[link.parent].task(i)];
          missing += task.state == TaskState::kSucceeded ? 0 : 1;
        }
        ROTA_ASSERT(missing == group.unfinished);
      }
    }
  });
  ROTA_ASSERT(placed.empty(), "each task of an execution exists");
  ROTA_ASSERT(reserving == reserving_, "the tasks for which room is kept are known");
  ROTA_ASSERT(unfinished == unfinished_);
  ROTA_ASSERT(set == set_, "the hash is the sum over all entities");

  // (4) No step is left to do.
  ROTA_ASSERT(placement_.to_examine().empty(), "no task is left to examine", placement_.to_examine().size());
  ROTA_ASSERT(placement_.to_end().empty() && placement_.to_leave().empty(),
              "no workflow is left to end, no worker to leave");
  ROTA_ASSERT(placement_.to_defer().empty(), "no task is left to defer");
  placement_.check_invariants(*this);

  SetHash schedules;
  for (const auto& [name, schedule] : globals_.schedules) {
    ROTA_ASSERT(name == schedule.spec.name, "a schedule has its name");
    ROTA_ASSERT(schedule.queued.empty() || schedule.spec.overlap == OverlapRule::kQueue, "only such schedules queue");
    ROTA_ASSERT(std::is_sorted(schedule.queued.begin(), schedule.queued.end()), "firings wait in order");
    ROTA_ASSERT(schedule.queued.empty() || schedule.queued.back() <= schedule.last_ns, "what waits was dealt with");
    schedules.add(hash_fields(schedule));
  }
  ROTA_ASSERT(schedules.value() == schedule_set_.value(), "the hash of the schedules is up to date");
}

}  // namespace rota::fleet

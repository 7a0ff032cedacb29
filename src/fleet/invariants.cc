// What holds between two records. Visits everything: for tests.
#include <algorithm>
#include <map>
#include <set>

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
    for (const Execution& execution : worker.executions) {
      ROTA_ASSERT(!execution.members.empty());
      for (const TaskId member : execution.members) {
        ROTA_ASSERT(placed.emplace(member, worker.id).second, "a task runs in one place");
        used_by[at(member.workflow()).user].add(execution.counted());
      }
      fleet_used.add(execution.fleet);
      if (execution.queued) {
        ++queued;
        continue;
      }
      ROTA_ASSERT((used.devices & execution.held.devices) == 0, "a device serves one execution");
      used.add(execution.held);
    }
    ROTA_ASSERT(used == worker.used && queued == worker.queued, "a worker's use is the sum over its executions");
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
    for (const Task& task : workflow.tasks) {
      const TaskId id = workflow.id_of(task);
      ROTA_ASSERT(!task.dirty && task.hash == hash_of_task(id, task), "a task's hash is up to date");
      set.add(task.hash);
      open += graph::is_terminal(task.state) ? 0 : 1;
      running += task.state == TaskState::kRunning ? 1 : 0;
      left[task.stage] += task.state == TaskState::kSucceeded ? 0 : 1;
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
      if (runs || task.state == TaskState::kReady || task.state == TaskState::kSucceeded) {
        ROTA_ASSERT(workflow.stages[task.stage].waits == 0, "its needs have succeeded", id.to_string());
      }
    }
    ROTA_ASSERT(open == workflow.unfinished && running == workflow.running);
    ROTA_ASSERT((workflow.outcome == Outcome::kRunning) == (open > 0),
                "a workflow has ended exactly if all its tasks have");
    unfinished += open;
    for (std::uint32_t s = 0; s < workflow.stages.size(); ++s) {
      ROTA_ASSERT(left[s] == workflow.stages[s].unfinished);
      std::uint32_t waits = 0;
      for (const graph::TaskRef parent : workflow.dag.parents(graph::TaskRef(s + 1)))
        waits += left[parent.value() - 1] > 0 ? 1 : 0;
      ROTA_ASSERT(waits == workflow.stages[s].waits);
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
}

}  // namespace rota::fleet

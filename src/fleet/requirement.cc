// Which worker comes nearest to what a task needs, and what it lacks (B-14, B-18).
#include <string>
#include <utility>
#include <vector>

#include "fleet/dispatch_mode.h"
#include "fleet/placement.h"

namespace rota::fleet {

std::string unmet_requirement(const WorkerSpec& worker, const Requirements& needs, std::string_view handler) {
  std::vector<std::string> all = unmet_requirements(worker, needs, handler);
  return all.empty() ? std::string() : std::move(all.front());
}

Nearest nearest_worker(const State& state, const Requirements& needs, std::string_view handler) {
  Nearest nearest;
  std::size_t fewest = ~std::size_t{0};
  std::int64_t strongest = -1;
  for (const Kind& kind : state.placement().kinds()) {
    if (kind.live == 0) continue;
    std::vector<std::string> lacks = unmet_requirements(kind.spec, needs, handler);
    WorkerId first;
    for (const WorkerId id : kind.members) {
      const Worker* worker = state.find(id);
      if (worker != nullptr && worker->live()) {
        first = id;
        break;
      }
    }
    const bool better = lacks.size() < fewest ||
                        (lacks.size() == fewest &&
                         (kind.throughput > strongest || (kind.throughput == strongest && first < nearest.worker)));
    if (!better) continue;
    fewest = lacks.size();
    strongest = kind.throughput;
    nearest = {first, lacks.empty() ? std::string() : std::move(lacks.front())};
  }
  return nearest;
}

std::string missing_in_fleet(const State& state, const ShapeKey& key, std::int64_t together) {
  Amounts fleet;
  fleet.named = state.policy().fleet;
  for (const NamedAmount& entry : key.fleet.named) {
    const std::int64_t all = fleet.count_of(entry.name);
    if (entry.count * together <= all) continue;
    return entry.name + ": " + std::to_string(entry.count * together) + " needed, the whole fleet has " +
           std::to_string(all);
  }
  return {};
}

namespace {

// Why no live worker could ever run a task of the stage, apart from what the dispatch mode asks of the whole workflow.
Nearest lacking(const State& state, const Workflow& workflow, std::uint32_t stage) {
  const StageState& range = workflow.stages[stage];
  const TaskTemplate& use = workflow.template_of(workflow.tasks[range.first]);
  const ShapeKey key = PlacementIndex::key_of(state, workflow, workflow.tasks[range.first]);
  const std::int64_t together = use.gang ? range.count : 1;
  if (std::string lacks = missing_in_fleet(state, key, together); !lacks.empty()) return {{}, std::move(lacks)};
  Requirements needs = checked_requirements(state, use);  // In the order in which they were given.
  take_fleet_names(state.policy(), needs);
  const Nearest near = nearest_worker(state, needs, key.handler);
  if (!near.lacks.empty() || near.worker.is_none()) return near;
  if (!key.pinned.empty()) {
    const Worker* worker = state.find_worker(key.pinned);
    if (worker == nullptr || !worker->live()) {
      return {near.worker, "worker: '" + key.pinned + "' needed, which is " +
                               (worker == nullptr ? "not registered" : std::string(to_string(worker->status(0))))};
    }
    if (std::string lacks = unmet_requirement(worker->spec, needs, key.handler); !lacks.empty()) {
      return {worker->id, std::move(lacks)};
    }
  }
  if (!use.gang) return {};
  // An idle fleet must have room for the whole gang.
  const std::int64_t room = state.placement().room_for(state, key);
  if (room >= together) return {};
  return {near.worker, "replicas: " + std::to_string(together) + " together needed, room for " + std::to_string(room)};
}

// The live worker that could run the most stages of the workflow; null if one could run all of them, or none is live.
const Worker* nearest_to_all(const State& state, const Workflow& workflow) {
  const Worker* best = nullptr;
  std::size_t most = 0;
  state.each_worker([&](const Worker& worker) {
    if (!worker.live()) return;
    std::size_t able = 0;
    for (const TaskTemplate& use : workflow.spec.templates) {
      if (can_run(state, worker.spec, use)) ++able;
    }
    if (best != nullptr && able <= most) return;
    best = &worker;
    most = able;
  });
  return most == workflow.spec.templates.size() ? nullptr : best;
}

}  // namespace

std::vector<Infeasible> infeasible_stages(const State& state, const Workflow& workflow) {
  std::vector<Infeasible> list;
  const Worker* nearest_all =
      dispatch_rules(state).binding == Binding::kWorkflow ? nearest_to_all(state, workflow) : nullptr;
  std::vector<bool> seen(workflow.spec.templates.size());
  for (std::uint32_t i = 0; i < workflow.spec.stages.size(); ++i) {
    const auto number = static_cast<std::size_t>(workflow.spec.stages[i].use);
    const TaskTemplate& use = workflow.spec.templates[number];
    if (seen[number] && !use.gang) continue;
    seen[number] = true;
    Nearest near = lacking(state, workflow, i);
    if (near.lacks.empty() && nearest_all != nullptr && !can_run(state, nearest_all->spec, use)) {
      Requirements needs = use.needs;
      take_fleet_names(state.policy(), needs);
      near = {nearest_all->id, unmet_requirement(nearest_all->spec, needs, needed_handler(use.spec))};
      if (near.lacks.empty()) near.lacks = "worker: '" + use.pinned + "' needed";
      near.lacks += "; the dispatch mode " + std::string(to_string(state.policy().mode)) +
                    " needs one worker for the whole workflow";
    }
    if (near.worker.is_none() && near.lacks.empty() && state.live_workers() == 0) near.lacks = "there is no worker";
    if (!near.lacks.empty()) list.push_back({i, std::move(near.lacks), near.worker});
  }
  return list;
}

std::string mode_obstacle(const State& state, const ShapeKey& key) {
  const std::string mode = "the dispatch mode " + std::string(to_string(state.policy().mode));
  const WorkerId bound = bound_worker(state, key);
  if (bound.is_none()) return mode + " needs a worker that can run all tasks of the workflow";
  const Worker* worker = state.find(bound);
  return mode + " binds it to " + (worker == nullptr ? bound.to_string() : "worker '" + worker->spec.name + "'") +
         ", which cannot run it";
}

}  // namespace rota::fleet

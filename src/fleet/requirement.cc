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

std::string mode_obstacle(const State& state, const ShapeKey& key) {
  const std::string mode = "the dispatch mode " + std::string(to_string(state.policy().mode));
  const WorkerId bound = bound_worker(state, key);
  if (bound.is_none()) return mode + " needs a worker that can run all tasks of the workflow";
  const Worker* worker = state.find(bound);
  return mode + " binds it to " + (worker == nullptr ? bound.to_string() : "worker '" + worker->spec.name + "'") +
         ", which cannot run it";
}

}  // namespace rota::fleet

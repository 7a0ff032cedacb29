// A file that describes a fleet: the workers of a simulation, or of `rota run --workers FILE`.
//
//   workers:
//     - name: trainer            # with `count`, trainer-1, trainer-2, ...
//       count: 4
//       cpu: 16
//       memory: 64GiB
//       gpu: {count: 2, type: A100, memory: 80GiB}
//       zone: eu-1
//       cost_per_hour: 3.20
//       labels: {rack: b7}
//       capabilities: [docker]
//   named: {licence: 2}          # of the whole fleet
//
// As strict as a workflow file, and read the same way. Thread safety: functions without state.
#pragma once

#include <vector>

#include "model/workflow_spec.h"
#include "workflow/workflow.h"

namespace rota::workflow {

inline constexpr std::size_t kMostWorkers = 100'000;

struct FleetFile {
  std::vector<model::WorkerSpec> workers{};  // Whole only if there is no problem.
  std::vector<model::NamedAmount> named{};   // Counted resources of the whole fleet. Sorted.
  std::vector<Problem> problems{};
  [[nodiscard]] bool ok() const { return problems.empty(); }
};

[[nodiscard]] FleetFile read_fleet(const Source& source);

}  // namespace rota::workflow

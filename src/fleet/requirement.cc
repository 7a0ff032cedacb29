// Requirements in words: what a worker lacks, and which worker comes nearest (B-14, B-18).
#include <algorithm>
#include <bit>
#include <string>

#include "fleet/explain_words.h"
#include "fleet/placement.h"

namespace rota::fleet {

namespace {

std::string cores(std::int64_t millis) { return decimal(millis, 1000); }

std::string bytes(std::int64_t count) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (unit + 1 < std::size(kUnits) && count >= 1024 && count % 1024 == 0) {
    count /= 1024;
    ++unit;
  }
  return std::to_string(count) + " " + std::string(kUnits[unit]);
}

// One text for each requirement that is not met.
std::vector<std::string> unmet(const WorkerSpec& worker, const Requirements& needs) {
  std::vector<std::string> all;
  if (worker.cpu_millis < needs.cpu_millis) {
    all.push_back("cpu: " + cores(needs.cpu_millis) + " needed, " + cores(worker.cpu_millis) + " there");
  }
  if (worker.memory_bytes < needs.memory_bytes) {
    all.push_back("memory: " + bytes(needs.memory_bytes) + " needed, " + bytes(worker.memory_bytes) + " there");
  }
  const auto count = static_cast<std::int64_t>(worker.gpus.size());
  if (count < needs.gpu.count) {
    all.push_back("gpu.count: " + std::to_string(needs.gpu.count) + " needed, " + std::to_string(count) + " there");
  } else {
    GpuNeed any_memory = needs.gpu;
    any_memory.memory_bytes = 0;
    const auto of_model = std::popcount(Board::suitable_devices(worker, any_memory));
    const auto suitable = std::popcount(Board::suitable_devices(worker, needs.gpu));
    if (of_model < needs.gpu.count) {
      all.push_back("gpu.type: " + std::to_string(needs.gpu.count) + " of '" + needs.gpu.model + "' needed, " +
                    std::to_string(of_model) + " there");
    } else if (suitable < needs.gpu.count) {
      all.push_back("gpu.memory: " + std::to_string(needs.gpu.count) +
                    (needs.gpu.count == 1 ? " device with " : " devices with ") + bytes(needs.gpu.memory_bytes) +
                    " each needed, " + std::to_string(suitable) + " there");
    }
  }
  if (!needs.zone.empty() && worker.zone != needs.zone) {
    all.push_back("zone: '" + needs.zone + "' needed, '" + worker.zone + "' there");
  }
  for (const std::string& want : needs.capabilities) {
    if (std::find(worker.capabilities.begin(), worker.capabilities.end(), want) == worker.capabilities.end()) {
      all.push_back("capability: '" + want + "' needed");
    }
  }
  for (const Label& want : needs.labels) {
    if (std::find(worker.labels.begin(), worker.labels.end(), want) == worker.labels.end()) {
      all.push_back("label: " + want.key + "=" + want.value + " needed");
    }
  }
  return all;
}

}  // namespace

std::string unmet_requirement(const WorkerSpec& worker, const Requirements& needs) {
  const std::vector<std::string> all = unmet(worker, needs);
  return all.empty() ? std::string() : all.front();
}

Nearest nearest_worker(const State& state, const Requirements& needs) {
  Nearest nearest;
  std::size_t fewest = ~std::size_t{0};
  std::int64_t strongest = -1;
  for (const Kind& kind : state.board().kinds()) {
    if (kind.live == 0) continue;
    const std::vector<std::string> lacks = unmet(kind.spec, needs);
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
    nearest = {first, lacks.empty() ? std::string() : lacks.front()};
  }
  return nearest;
}

}  // namespace rota::fleet

#include "host/density.h"

#include <algorithm>
#include <variant>

#include "base/replace_file.h"

namespace rota::host {

void Density::begin(const fleet::State& state) {
  state.each_worker([&](const fleet::Worker& worker) {
    if (worker.takes_tasks()) workers_.insert(worker.id);
  });
  count_workers(state.time_ns());
}

void Density::see(const fleet::Record& record) {
  const std::size_t before = workers_.size();
  for (const fleet::Event& event : record.events) {
    if (const auto* registered = std::get_if<fleet::WorkerRegistered>(&event)) {
      workers_.insert(registered->worker);
    } else if (const auto* changed = std::get_if<fleet::WorkerChanged>(&event)) {
      switch (changed->change) {
        case fleet::WorkerChange::kBack:
        case fleet::WorkerChange::kEnabledByHand:
        case fleet::WorkerChange::kEnabledElastic:
          workers_.insert(changed->worker);
          break;
        default:
          workers_.erase(changed->worker);
      }
    } else if (std::holds_alternative<fleet::WorkflowAccepted>(event)) {
      const auto* submitted = std::get_if<fleet::SubmitWorkflow>(&record.command);
      if (submitted == nullptr) continue;
      std::uint64_t tasks = 0;
      for (const model::Stage& stage : submitted->workflow.stages) {
        tasks += std::max<std::size_t>(stage.items.size(), 1);
      }
      submissions_[record.wall_ns / bucket_ns_] += tasks;
      if (submissions_.size() > kMostBuckets) submissions_.erase(submissions_.begin());
      changed_ = true;
    }
  }
  if (workers_.size() != before) count_workers(record.wall_ns);
}

void Density::count_workers(std::int64_t wall_ns) {
  std::size_t& most = active_[wall_ns / bucket_ns_];
  most = std::max(most, workers_.size());
  if (active_.size() > kMostBuckets) active_.erase(active_.begin());
  changed_ = true;
}

std::string Density::to_json() const {
  const std::int64_t seconds = bucket_ns_ / 1'000'000'000;
  const auto pairs = [&](const auto& map) {
    std::string text = "[";
    for (const auto& [bucket, value] : map) {
      if (text.size() > 1) text += ",";
      text += "[" + std::to_string(bucket * seconds) + "," + std::to_string(value) + "]";
    }
    return text + "]";
  };
  return "{\"bucket_sec\":" + std::to_string(seconds) + ",\"submissions\":" + pairs(submissions_) +
         ",\"active_workers\":" + pairs(active_) + "}\n";
}

Result<void> Density::write(const std::string& path) const {
  ROTA_TRY(replace_file(path, to_json()));
  changed_ = false;
  return {};
}

}  // namespace rota::host

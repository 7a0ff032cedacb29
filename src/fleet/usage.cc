#include "fleet/usage.h"

#include <algorithm>
#include <type_traits>
#include <variant>

namespace rota::fleet {

void UsageMeter::begin(const State& state) {
  now_ns_ = state.time_ns();
  state.each_worker([&](const Worker& worker) { touch(worker.id, state); });
  begin();
}

// Updates the part of the rates that the worker contributes.
void UsageMeter::touch(WorkerId id, const State& state) {
  if (id.is_none()) return;
  if (workers_.size() <= id.value()) workers_.resize(id.value() + 1);
  Rates fresh;
  if (const Worker* worker = state.find(id); worker != nullptr) {
    const std::int64_t price = worker->spec.cost_microdollars_per_hour;
    const std::int64_t power = worker->spec.power_milliwatts;
    const bool up = worker->reachable && !worker->left && !worker->disabled_by_hand && !worker->disabled_elastic;
    const bool busy = worker->executions.size() > worker->queued;
    // A worker that was disabled while it ran tasks is up until they end.
    fresh = {.cpu_used = worker->used.cpu_millis,
             .cpu_up = up || busy ? worker->spec.resources.cpu_millis : 0,
             .cost_busy = busy ? price : 0,
             .cost_up = up || busy ? price : 0,
             .power_busy = busy ? power : 0,
             .power_up = up || busy ? power : 0};
  }
  rates_.add(workers_[id.value()], -1);
  rates_.add(fresh, 1);
  workers_[id.value()] = fresh;
}

void UsageMeter::touch_worker_of(TaskId id, const State& state) {
  if (const Task* task = state.find(id)) touch(task->worker, state);
}

void UsageMeter::see(const Record& record, const State& state) {
  if (counting_) sums_.add(rates_, std::max<std::int64_t>(record.wall_ns - now_ns_, 0));
  now_ns_ = record.wall_ns;
  for (const Event& event : record.events) {
    std::visit(
        [&](const auto& each) {
          using E = std::remove_cvref_t<decltype(each)>;
          if constexpr (std::is_same_v<E, TaskAssigned> || std::is_same_v<E, WorkerChanged> ||
                        std::is_same_v<E, WorkerRegistered>) {
            touch(each.worker, state);
          } else if constexpr (std::is_same_v<E, TaskStarted> || std::is_same_v<E, TaskSucceeded> ||
                               std::is_same_v<E, TaskFailed> || std::is_same_v<E, TaskCancelled> ||
                               std::is_same_v<E, TaskRequeued>) {
            touch_worker_of(each.task, state);
          }
        },
        event);
  }
}

Usage UsageMeter::totals(std::int64_t now_ns) const {
  Sums sums = sums_;
  if (counting_) sums.add(rates_, std::max<std::int64_t>(now_ns - now_ns_, 0));
  return usage_of(sums);
}

Usage UsageMeter::usage_of(const Sums& sums) {
  constexpr Wide kNsPerHour = Wide{3'600'000'000} * 1000;
  constexpr Wide kNsPerSecond = 1'000'000'000;
  Usage usage;
  usage.cost_busy_microdollars = static_cast<std::int64_t>(sums.cost_busy / kNsPerHour);
  usage.cost_up_microdollars = static_cast<std::int64_t>(sums.cost_up / kNsPerHour);
  usage.energy_busy_millijoules = static_cast<std::int64_t>(sums.power_busy / kNsPerSecond);
  usage.energy_up_millijoules = static_cast<std::int64_t>(sums.power_up / kNsPerSecond);
  if (sums.cpu_up > 0) {
    usage.utilisation_millionths = static_cast<std::int64_t>(sums.cpu_used * 1'000'000 / sums.cpu_up);
  }
  return usage;
}

}  // namespace rota::fleet

#include "fleet/figures.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace rota::fleet {

void Meter::advance(std::int64_t now_ns) {
  if (begun_) {
    const Wide passed = now_ns - now_ns_;
    sums_.cpu_used += passed * rates_.cpu_used;
    sums_.cpu_up += passed * rates_.cpu_up;
    sums_.cost_busy += passed * rates_.cost_busy;
    sums_.cost_up += passed * rates_.cost_up;
    sums_.power_busy += passed * rates_.power_busy;
    sums_.power_up += passed * rates_.power_up;
  }
  now_ns_ = now_ns;
}

// Updates the part of the rates that the worker contributes.
void Meter::touch(WorkerId id, const State& state) {
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
  Rates& old = workers_[id.value()];
  rates_.cpu_used += fresh.cpu_used - old.cpu_used;
  rates_.cpu_up += fresh.cpu_up - old.cpu_up;
  rates_.cost_busy += fresh.cost_busy - old.cost_busy;
  rates_.cost_up += fresh.cost_up - old.cost_up;
  rates_.power_busy += fresh.power_busy - old.power_busy;
  rates_.power_up += fresh.power_up - old.power_up;
  old = fresh;
}

void Meter::touch_worker_of(TaskId id, const State& state) {
  if (const Task* task = state.find(id)) touch(task->worker, state);
}

void Meter::ended(std::int64_t now_ns) {
  end_ns_ = now_ns;
  at_end_ = sums_;
}

void Meter::see(const Record& record, const State& state) {
  advance(record.wall_ns);
  ++counts_.records;
  for (const Event& event : record.events) {
    each_begun(event, state, [&](TaskId id, AttemptNumber attempt) {
      if (attempt == AttemptNumber(1))
        waits_.push_back(std::max<std::int64_t>(record.wall_ns - state.at(id).since_ns, 0));
    });
    if (const auto* assigned = std::get_if<TaskAssigned>(&event)) {
      ++counts_.assignments;
      touch(assigned->worker, state);
    } else if (const auto* started = std::get_if<TaskStarted>(&event)) {
      touch_worker_of(started->task, state);
    } else if (const auto* succeeded = std::get_if<TaskSucceeded>(&event)) {
      ++counts_.succeeded;
      touch_worker_of(succeeded->task, state);
      ended(record.wall_ns);
    } else if (const auto* skipped = std::get_if<TaskSkipped>(&event)) {
      static_cast<void>(skipped);
      ++counts_.skipped;
    } else if (const auto* failed = std::get_if<TaskFailed>(&event)) {
      failed_.insert(failed->task);
      touch_worker_of(failed->task, state);
      ended(record.wall_ns);
    } else if (const auto* cancelled = std::get_if<TaskCancelled>(&event)) {
      cancelled_.insert(cancelled->task);
      touch_worker_of(cancelled->task, state);
      ended(record.wall_ns);
    } else if (const auto* requeued = std::get_if<TaskRequeued>(&event)) {
      touch_worker_of(requeued->task, state);
      if (requeued->reason == RequeueReason::kRetried) {
        failed_.erase(requeued->task);
        cancelled_.erase(requeued->task);
      }
    } else if (const auto* changed = std::get_if<WorkerChanged>(&event)) {
      touch(changed->worker, state);
    } else if (const auto* registered = std::get_if<WorkerRegistered>(&event)) {
      touch(registered->worker, state);
    } else if (std::holds_alternative<WorkflowAccepted>(event) && !begun_) {
      begun_ = true;
      begin_ns_ = end_ns_ = record.wall_ns;
    }
  }
}

Figures Meter::figures(const State& state) const {
  constexpr Wide kNsPerHour = Wide{3'600'000'000} * 1000;
  Figures figures = counts_;
  figures.failed = failed_.size();
  figures.cancelled = cancelled_.size();
  figures.unfinished = state.unfinished_tasks();
  figures.makespan_ns = end_ns_ - begin_ns_;
  figures.cost_busy_microdollars = static_cast<std::int64_t>(at_end_.cost_busy / kNsPerHour);
  figures.cost_up_microdollars = static_cast<std::int64_t>(at_end_.cost_up / kNsPerHour);
  constexpr Wide kNsPerSecond = 1'000'000'000;
  figures.energy_busy_millijoules = static_cast<std::int64_t>(at_end_.power_busy / kNsPerSecond);
  figures.energy_up_millijoules = static_cast<std::int64_t>(at_end_.power_up / kNsPerSecond);
  if (at_end_.cpu_up > 0) {
    figures.utilisation_millionths = static_cast<std::int64_t>(at_end_.cpu_used * 1'000'000 / at_end_.cpu_up);
  }
  if (!waits_.empty()) {
    Wide sum = 0;
    for (const std::int64_t wait : waits_) sum += wait;
    figures.wait_mean_ns = static_cast<std::int64_t>(sum / static_cast<Wide>(waits_.size()));
    std::vector<std::int64_t> sorted = waits_;
    const std::size_t at = (sorted.size() * 95 + 99) / 100 - 1;  // The smallest value that 95 % do not exceed.
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at), sorted.end());
    figures.wait_p95_ns = sorted[at];
  }
  return figures;
}

std::string to_json(const Figures& figures) {
  std::string out;
  const auto add = [&](std::string_view key, auto value) {
    out.append(out.empty() ? "{\"" : ",\"").append(key).append("\":").append(std::to_string(value));
  };
  add("records", figures.records);
  add("assignments", figures.assignments);
  add("succeeded", figures.succeeded);
  add("skipped", figures.skipped);
  add("failed", figures.failed);
  add("cancelled", figures.cancelled);
  add("unfinished", figures.unfinished);
  add("refused", figures.refused);
  add("makespan_ns", figures.makespan_ns);
  add("cost_busy_microdollars", figures.cost_busy_microdollars);
  add("cost_up_microdollars", figures.cost_up_microdollars);
  add("energy_busy_millijoules", figures.energy_busy_millijoules);
  add("energy_up_millijoules", figures.energy_up_millijoules);
  add("utilisation_millionths", figures.utilisation_millionths);
  add("wait_mean_ns", figures.wait_mean_ns);
  add("wait_p95_ns", figures.wait_p95_ns);
  return out + "}";
}

}  // namespace rota::fleet

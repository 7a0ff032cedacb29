#include "fleet/figures.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace rota::fleet {

void Meter::ended(std::int64_t now_ns) {
  end_ns_ = now_ns;
  at_end_ = usage_.sums();
}

void Meter::see(const Record& record, const State& state) {
  usage_.see(record, state);
  ++counts_.records;
  for (const Event& event : record.events) {
    each_begun(event, state, [&](TaskId id, AttemptNumber attempt) {
      if (attempt == AttemptNumber(1))
        waits_.push_back(std::max<std::int64_t>(record.wall_ns - state.at(id).since_ns, 0));
    });
    if (std::holds_alternative<TaskAssigned>(event)) {
      ++counts_.assignments;
    } else if (std::holds_alternative<TaskSucceeded>(event)) {
      ++counts_.succeeded;
      ended(record.wall_ns);
    } else if (std::holds_alternative<TaskSkipped>(event)) {
      ++counts_.skipped;
    } else if (const auto* failed = std::get_if<TaskFailed>(&event)) {
      failed_.insert(failed->task);
      ended(record.wall_ns);
    } else if (const auto* cancelled = std::get_if<TaskCancelled>(&event)) {
      cancelled_.insert(cancelled->task);
      ended(record.wall_ns);
    } else if (const auto* requeued = std::get_if<TaskRequeued>(&event)) {
      if (requeued->reason == RequeueReason::kRetried) {
        failed_.erase(requeued->task);
        cancelled_.erase(requeued->task);
      }
    } else if (std::holds_alternative<WorkflowAccepted>(event) && !begun_) {
      begun_ = true;
      usage_.begin();
      begin_ns_ = end_ns_ = record.wall_ns;
    }
  }
}

Figures Meter::figures(const State& state) const {
  Figures figures = counts_;
  figures.failed = failed_.size();
  figures.cancelled = cancelled_.size();
  figures.unfinished = state.unfinished_tasks();
  figures.makespan_ns = end_ns_ - begin_ns_;
  const Usage usage = UsageMeter::usage_of(at_end_);
  figures.cost_busy_microdollars = usage.cost_busy_microdollars;
  figures.cost_up_microdollars = usage.cost_up_microdollars;
  figures.energy_busy_millijoules = usage.energy_busy_millijoules;
  figures.energy_up_millijoules = usage.energy_up_millijoules;
  figures.utilisation_millionths = usage.utilisation_millionths;
  if (!waits_.empty()) {
    __extension__ __int128 sum = 0;
    for (const std::int64_t wait : waits_) sum += wait;
    figures.wait_mean_ns = static_cast<std::int64_t>(sum / static_cast<std::int64_t>(waits_.size()));
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

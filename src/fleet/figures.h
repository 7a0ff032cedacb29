// Figures of a run: makespan, cost, energy, utilisation and waits.
//
// The same meter reads a log and a simulation under another policy (what_if.h), so that the two can be compared. All
// figures are for the time from the first accepted workflow to the last end of a task.
//
// Pure. Thread safety: none.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "fleet/record.h"
#include "fleet/state.h"
#include "fleet/usage.h"
#include "rota/model/ids.h"

namespace rota::fleet {

struct Figures {
  std::uint64_t records = 0;      // Decisions.
  std::uint64_t assignments = 0;  // Executions that were sent to a worker.
  std::uint64_t succeeded = 0;    // Without skipped ones.
  std::uint64_t skipped = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t unfinished = 0;  // Tasks that had not ended at the end.
  std::uint64_t refused = 0;     // Commands of the log that are refused under the other policy.
  std::int64_t makespan_ns = 0;
  // The price of each worker for the time in which it ran tasks (busy), and for the time in which it was reachable and
  // enabled (up).
  std::int64_t cost_busy_microdollars = 0;
  std::int64_t cost_up_microdollars = 0;
  // The energy that workers which give their power (power_watts) used in these times, at that power.
  std::int64_t energy_busy_millijoules = 0;
  std::int64_t energy_up_millijoules = 0;
  // Core-seconds that tasks held, divided by the core-seconds of workers that were up; in millionths.
  std::int64_t utilisation_millionths = 0;
  // The time from ready to assigned, of first attempts.
  std::int64_t wait_mean_ns = 0;
  std::int64_t wait_p95_ns = 0;
  bool operator==(const Figures&) const = default;
};

// {"records": ..., ...}: every member by its name.
[[nodiscard]] std::string to_json(const Figures& figures);

// Calls f(task, attempt) for each task that gets its resources by the event; a task that is queued at its worker gets
// them later. `state` is the one after the record.
template <class F>
void each_begun(const Event& event, const State& state, F&& f) {
  if (const auto* assigned = std::get_if<TaskAssigned>(&event)) {
    if (assigned->queued) return;
    f(assigned->task, assigned->attempt);
    for (const AttemptId& member : assigned->members) f(member.task, member.attempt);
  } else if (const auto* started = std::get_if<TaskStarted>(&event)) {
    const Task* task = state.find(started->task);
    const Worker* worker = task == nullptr ? nullptr : state.find(task->worker);
    if (worker == nullptr) return;
    for (const Execution& execution : worker->executions) {
      if (!execution.has(started->task)) continue;
      for (const TaskId member : execution.members) f(member, state.at(member).attempt);
      return;
    }
  }
}

class Meter {
 public:
  // Adds a record. `state` is the one after it. The cost depends on the number of events.
  void see(const Record& record, const State& state);
  [[nodiscard]] Figures figures(const State& state) const;

 private:
  void ended(std::int64_t now_ns);

  Figures counts_;
  UsageMeter usage_;
  UsageMeter::Sums at_end_;  // At the last end of a task.
  bool begun_ = false;
  std::int64_t begin_ns_ = 0;
  std::int64_t end_ns_ = 0;
  std::set<TaskId> failed_;  // A set, because a task that is retried no longer counts as failed.
  std::set<TaskId> cancelled_;
  std::vector<std::int64_t> waits_;
};

}  // namespace rota::fleet

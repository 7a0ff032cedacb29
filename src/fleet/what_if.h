// What another policy would have done with a log (S-3, `rota replay --policy`).
//
//   Past past;
//   for each record: brain.verify(record) or apply(record); past.see(record, brain.state());
//   past.figures(brain.state());                              // of the log
//   what_if(past, "mode=static_worker");                      // of a simulation under another policy
//   what_if(past, "", {FleetChange{"small", 3}});             // with another fleet
//
// The simulation keeps the inputs of the log with their times (registrations, losses and returns of workers,
// submissions, controls, priorities, quotas, changes of policy), and for each attempt that a worker reported how long
// it took and how it ended. Everything else is decided again.
//
// Where the log has no answer, the simulation assumes:
//   - An attempt takes as long as it took in the log, on any worker; the attempts of a task end as they did, in order.
//   - A task without a (further) end in the log takes the mean of its type, or of all tasks, and succeeds.
//   - A task that is told to stop does so at once. What it did until then is lost.
//   - The last checkpoint of an attempt is reported with its end. A pause does not make a running task longer.
//   - Workers are reachable when they were in the log, and stay after its end. Heartbeats have no effect.
//   - A change of policy in the log is made as well, with the values of the other policy on top.
//   - Another fleet: further workers of a kind register with the first one, and stay; what the log says about the first
//     one (loss, drain, disabled) happens to the first one alone. A worker that has other hardware is as fast as
//     before.
//
// Pure. Cost: that of the decisions, and O(log n) per end of a task. Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/command.h"
#include "fleet/figures.h"
#include "fleet/record.h"
#include "fleet/state.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::fleet {

// A group of workers like one of the log. The groups with the same `worker` together take its place: the first worker
// of the first group has its name, the others are called small+2, small+3 and so on. A group of 0 adds nothing, so that
// a single group of 0 removes the worker. -1: as in the log.
struct FleetChange {
  static constexpr std::int64_t kAsInLog = -1;
  static constexpr std::int64_t kMostCount = 1000;
  static constexpr std::int64_t kMostGpus = 64;

  std::string worker{};
  std::int64_t count = 1;
  std::int64_t cpu_millis = kAsInLog;
  std::int64_t memory_bytes = kAsInLog;
  std::int64_t gpus = kAsInLog;  // Devices like its first one.
  std::int64_t cost_microdollars_per_hour = kAsInLog;
  ROTA_FIELDS(worker, count, cpu_millis, memory_bytes, gpus, cost_microdollars_per_hour)
  friend bool operator==(const FleetChange&, const FleetChange&) = default;
};
// Text of fleet/text.h: "worker=small count=3 cpu_millis=16000". kParseError, kInvalidArgument.
[[nodiscard]] Result<FleetChange> parse_fleet_change(std::string_view text);

class Past {
 public:
  Past();

  // The log's records in order, from the first one on, each with the state after it.
  void see(const Record& record, const State& state);
  // Figures of the log.
  [[nodiscard]] Figures figures(const State& state) const { return meter_.figures(state); }
  // Whether the changes are about workers of the log, and possible for them. InvalidArgument.
  [[nodiscard]] Result<void> check(const std::vector<FleetChange>& fleet) const;

 private:
  friend class Simulation;

  // A command of the log that does not follow from decisions.
  struct Input {
    std::int64_t wall_ns;
    Command command;
    WorkflowId accepted{};  // Of a submission: the workflow's id in the log.
  };
  // How one attempt ended.
  struct End {
    std::int64_t took_ns = 0;
    std::uint32_t result = 0;      // In texts_.
    std::uint32_t message = 0;     // In texts_.
    std::uint32_t checkpoint = 0;  // In texts_; 0: none.
    std::uint32_t next = kNone;    // In ends_: the next attempt of the task.
    AttemptEnd end = AttemptEnd::kFailed;
    FailureKind failure = FailureKind::kError;
    bool final = false;
  };
  struct TaskPast {
    std::int64_t began_ns = 0;
    std::uint32_t first = kNone;  // In ends_.
    std::uint32_t last = kNone;
  };
  struct Mean {
    std::int64_t sum_ns = 0;
    std::int64_t count = 0;
  };
  static constexpr std::uint32_t kNone = ~0U;

  void keep(const Record& record, const State& state);
  void attempt_ended(const Record& record, const State& state, TaskId id, End end);
  std::uint32_t text(const std::string& text);
  TaskPast& of(TaskId id, const State& state);

  Meter meter_;
  std::vector<Input> inputs_;
  std::vector<std::vector<TaskPast>> tasks_;  // By workflow, by task.
  std::vector<End> ends_;
  std::vector<std::string> texts_;
  std::map<TaskId, std::uint32_t> checkpoints_;     // Of attempts that have not ended: in texts_.
  std::map<std::string, Mean, std::less<>> means_;  // By type.
  Mean mean_;                                       // Of all.
};

// Called from time to time with the number of decisions so far; for a progress display.
using WhatIfProgress = std::function<void(std::uint64_t decisions)>;
// Called with each record of the simulation and the state after it; to draw its course.
using WhatIfSeen = std::function<void(const Record& record, const State& state)>;

// `change` is text of fleet/text.h for a Policy: "mode=static_worker lambda_other=200000000"; empty: the same policy.
// kParseError, kInvalidArgument: it is not a policy, or the fleet cannot be changed like that (Past::check).
[[nodiscard]] Result<Figures> what_if(const Past& past, std::string_view change,
                                      const std::vector<FleetChange>& fleet = {}, const WhatIfProgress& progress = {},
                                      const WhatIfSeen& seen = {});

}  // namespace rota::fleet

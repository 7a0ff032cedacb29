// Schedules: workflows that are submitted again and again (H-7).
//
// The brain knows neither cron nor time zones: the host computes the moments at which a schedule is due (their nominal
// times) and submits its workflow for each, as SubmitWorkflow with `schedule` and `nominal_ns`. The brain decides
// whether it starts: a nominal time is dealt with once, whatever the host sends twice, and the rule for overlap is
// applied.
//
// Invariants (check_invariants()):
//   (1) nominal times in `queued` are increasing, and none is after last_ns
//   (2) `queued` is empty unless the rule is kQueue
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/enum_names.h"
#include "model/workflow_spec.h"
#include "rota/model/fields.h"
#include "rota/model/ids.h"

namespace rota::fleet {

inline constexpr std::size_t kMostSchedules = 10'000;
inline constexpr std::size_t kMostQueuedFirings = 100;  // Of one schedule. Further ones are skipped.

// What the host does with nominal times that passed while it did not run.
enum class MissedRule : std::uint8_t {
  kSkip,
  kLast,  // The latest of them fires.
  kAll,   // Each of them fires, the latest kMostQueuedFirings of them.
};
ROTA_ENUM_NAMES(MissedRule, kAll, "skip", "last", "all")

// What happens if the schedule is due while a workflow of an earlier time still runs.
enum class OverlapRule : std::uint8_t {
  kAllow,    // Both run.
  kSkip,     // It does not fire.
  kQueue,    // It fires when the earlier ones have ended.
  kReplace,  // The earlier ones are cancelled.
};
ROTA_ENUM_NAMES(OverlapRule, kReplace, "allow", "skip", "queue", "replace")

struct ScheduleSpec {
  std::string name{};  // Unique.
  std::string cron{};  // For the host.
  std::string zone{};  // For the host.
  MissedRule missed = MissedRule::kLast;
  OverlapRule overlap = OverlapRule::kSkip;
  model::WorkflowSpec workflow{};
  ROTA_FIELDS(name, cron, zone, missed, overlap, workflow)
};

struct Schedule {
  ScheduleSpec spec{};
  bool paused = false;
  std::int64_t last_ns = 0;               // The last nominal time that was dealt with; first, when it was set.
  std::vector<std::int64_t> queued{};     // Nominal times that wait (OverlapRule::kQueue).
  std::vector<model::WorkflowId> runs{};  // Its workflows; those that had ended when it fired last are left out.
  std::uint64_t fired = 0;                // How many workflows it has started.
  ROTA_FIELDS(spec, paused, last_ns, queued, runs, fired)
};

}  // namespace rota::fleet

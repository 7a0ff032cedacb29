// What is known about the runs at a place: which workflows were run, how far they are, and which process runs them.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/places.h"
#include "cli/run_report.h"
#include "rota/result.h"

namespace rota::cli {

// One workflow of a log.
struct WorkflowStatus {
  RunReport report{};
  std::int64_t submitted_ns = 0;
};

struct PlaceStatus {
  Place place{};
  std::optional<std::string> writer{};      // The process that runs it now: "process 42 (rota)".
  std::vector<WorkflowStatus> workflows{};  // The latest first.
  std::optional<Error> error{};             // Why the log could not be read; the other fields are empty then.
};

// Reads the log of a place. `progress`: show on a terminal how much was read.
[[nodiscard]] Result<PlaceStatus> read_status(const Place& place, bool progress);

}  // namespace rota::cli

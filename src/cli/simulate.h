// What `rota simulate` computes: the same workflow on one or two fleets under several policies, many times each.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fleet/figures.h"
#include "rota/result.h"

namespace rota::cli {

struct SimulateOptions {
  std::string file{};
  std::vector<std::string> fleets{};     // A file, then additions: "+2xgpu".
  std::vector<std::string> policies{};   // As in policy_text.h; none: each dispatch mode.
  std::string from_log{};                // Where a log has durations.
  std::vector<std::string> durations{};  // "90s", "train=2h".
  std::string spread{};                  // "20%"
  std::string spot{};                    // "5%/h"
  std::vector<std::string> failures{};   // "w2@30m"
  std::string trace{};                   // Where the log of one run is written.
  std::int64_t runs = 20;
  std::int64_t seed = 1;
  std::int64_t items = 10;  // Of a matrix that is a result.
};

// One fleet under one policy.
struct SimulatedCourse {
  std::string fleet{};   // "fleet.yaml", "fleet.yaml +2xgpu"
  std::string policy{};  // "adaptive", or as it was given.
  std::vector<fleet::Figures> runs{};
  std::map<std::string, std::int64_t> waits_ns{};  // By reason, of the tasks that were sampled.
};

struct Simulated {
  std::string workflow{};
  std::size_t tasks = 0;
  std::int64_t runs = 0;
  std::int64_t recorded_makespan_ns = 0;  // Of the trace or of the log; 0: not known.
  std::vector<SimulatedCourse> courses{};
  std::string trace{};  // Where the log of one run is.
};

[[nodiscard]] Result<Simulated> simulate(const SimulateOptions& options);

// Tables for people, and one JSON object.
[[nodiscard]] std::string simulation_table(const Simulated& simulated);
[[nodiscard]] std::string simulation_json(const Simulated& simulated);

}  // namespace rota::cli

// Replays a log: decides every command again and compares with what was decided then; and computes what another policy
// would have done.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/places.h"
#include "fleet/figures.h"
#include "fleet/what_if.h"
#include "rota/result.h"

namespace rota::cli {

struct ReplayOptions {
  std::string where{};
  std::vector<std::string> policies{};  // Each as in policy_text.h.
  std::vector<std::string> fleet{};     // Each a fleet::FleetChange with commas: worker=small,count=3.
  bool no_verify = false;               // Apply the events of the log instead of deciding again.
  bool records = false;                 // Print the records instead of replaying them.
};

// What happened, or would have happened under a policy.
struct Course {
  std::string name{};    // "as it happened", "same policy", or the policy as it was written.
  std::string policy{};  // The fields that it changes; empty for the log's own policy.
  fleet::Figures figures{};
};

struct Replay {
  bool verified = false;
  std::uint64_t records = 0;
  std::uint64_t compacted = 0;  // Records before the snapshot at which the replay began; the log has them no more.
  std::string hash{};           // Of the state at the end.
  std::vector<Course> courses{};
};

// The policies as fields (policy_text.h). Their mistakes are found before the log is read.
[[nodiscard]] Result<std::vector<std::string>> check_policies(const std::vector<std::string>& policies);

[[nodiscard]] Result<std::vector<fleet::FleetChange>> check_fleet(const std::vector<std::string>& fleet);

// `changes` are those of check_policies(options.policies). `progress`: show on a terminal how far the replay is.
// Conflict, with the record, the command and the policy as details, if a record would be decided differently now.
[[nodiscard]] Result<Replay> replay_log(const Place& place, const ReplayOptions& options,
                                        const std::vector<std::string>& changes, bool progress);

}  // namespace rota::cli

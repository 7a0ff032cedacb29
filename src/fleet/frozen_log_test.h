// One log that must have the same bytes from every compiler, build type and machine (B-1): the hash of all records of
// some random fleets. A change of the format or of a decision changes it; that is then said in the commit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "fleet/random_fleet_test.h"
#include "fleet/record.h"

namespace rota::fleet {

inline constexpr std::string_view kFrozenLog = "4a95a8d07156615ce10044382c8d45c4";

inline std::string play_frozen_log() {
  Hash128 chain = first_chain();
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    RandomFleet::Options options;
    options.workers = static_cast<std::uint32_t>(2 + seed % 5);
    options.policy.mode = static_cast<DispatchMode>(seed % 4);
    options.policy.selection = static_cast<Selection>(seed % 7);
    options.policy.max_queue_per_worker = static_cast<std::int64_t>(seed % 3);
    options.policy.preemption = seed % 2 == 0;
    options.policy.elastic.enable = seed % 3 == 0;
    RandomFleet fleet(seed, options);
    Brain brain;
    std::string bytes;
    for (int i = 0; i < 200; ++i) {
      const Command command = fleet.next(brain);  // Moves the time; arguments have no order among themselves.
      const Result<Record> record = brain.execute(command, fleet.now_ns());
      if (!record.ok() || record->index == 0) continue;
      bytes.clear();
      chain = encode_record(*record, chain, bytes);
    }
  }
  return chain.to_string();
}

}  // namespace rota::fleet

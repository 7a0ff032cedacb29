// Shared by tests of waiting.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "rota/fiber/runtime.h"

namespace rota::fiber {

// Under ThreadSanitizer a runtime costs as much as a hundred otherwise.
inline constexpr std::uint64_t kSeeds = ROTA_TSAN ? 4 : 40;

// Runs the body once on real thread workers (seed 0) and under some seeds in deterministic mode.
template <class F>
void in_all_modes(F&& body, std::uint64_t first_seed = 0, Profile profile = Profile::kOpen) {
  for (std::uint64_t seed = first_seed; seed <= kSeeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Config config{.worker_count = 3, .profile = profile};
    if (seed > 0) config.deterministic_seed = seed;
    Runtime runtime(config);
    runtime.run(body);
  }
}
// Only in deterministic mode, where a sleep lasts until everything that can run has run.
template <class F>
void in_virtual_time(F&& body) {
  in_all_modes(body, 1);
}

template <class F>
ErrorCode code_thrown(F&& f) {
  try {
    f();
  } catch (const FiberError& error) {
    return error.code();
  }
  return ErrorCode::kOk;
}

}  // namespace rota::fiber

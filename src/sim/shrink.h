// Makes a failing scenario smaller: removes faults, client actions, workflows, tasks and workers, and sets noise and
// settings back to their defaults, as long as the same checker fails (delta debugging).
//
// Thread safety: a function without state.
#pragma once

#include <cstddef>
#include <functional>

#include "sim/scenario.h"

namespace rota::sim {

// True if the scenario still fails in the same way.
using StillFails = std::function<bool(const Scenario&)>;

struct Shrunk {
  Scenario scenario{};
  std::size_t replays = 0;
};
// Tries at most `replays_most` scenarios. REQUIRES: still_fails(scenario).
[[nodiscard]] Shrunk shrink(Scenario scenario, const StillFails& still_fails, std::size_t replays_most = 400);

}  // namespace rota::sim

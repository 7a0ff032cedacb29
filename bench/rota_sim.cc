// The simulator (P-20): whole fleets of 5 workers and 100 tasks with every class of faults, from seed 1 on, one after
// the other in this thread. What is measured is a run and the judgement of its checkers.
#include <array>
#include <chrono>
#include <cstdint>

#include "base/log.h"
#include "rota.h"
#include "sim/checkers.h"
#include "sim/scenario.h"
#include "sim/world.h"

namespace {

namespace sim = rota::sim;
using bench::Figures;

// Milliseconds a seed, and real milliseconds a second of virtual time.
Figures simulate(unsigned, std::uint64_t seeds) {
  const rota::LogCapture quiet(rota::LogLevel::kOff);
  std::uint64_t held = 0;
  std::chrono::nanoseconds simulated{0};
  const std::uint64_t start_ns = bench::now_ns();
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const sim::Witness witness =
        sim::run_scenario(sim::draw_scenario(seed, {.workers_most = 5, .tasks_most = 100, .full = true}));
    held += sim::check(witness).empty() ? 1 : 0;
    simulated += witness.ended;
  }
  const double ms = static_cast<double>(bench::now_ns() - start_ns) / 1e6;
  bench::expect(held, seeds);
  return {ms / static_cast<double>(seeds), ms / std::chrono::duration<double>(simulated).count()};
}

constexpr std::array<bench::Work, 1> kWorks{{{"simulate", 200, simulate}}};

}  // namespace

std::span<const bench::Work> bench::rota_sim_works() { return kWorks; }

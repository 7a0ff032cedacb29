// Runs many seeds, in processes of their own: an assertion that fails, a crash or an endless loop in one seed is a
// verdict like any other.
//
// Thread safety: none; call it from a process with one thread, because it forks.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "sim/log_rules.h"
#include "sim/scenario.h"
#include "sim/witness.h"

namespace rota::sim {

struct SweepOptions {
  std::uint64_t from = 1;
  std::uint64_t seeds = 1000;
  int processes = 1;
  std::string mutant{};             // The guard that is removed; empty: none.
  std::size_t failures_most = 1;    // Stops after this many.
  std::uint64_t twice_every = 100;  // Every so many seeds one runs twice, and both runs are compared; 0: never.
  std::chrono::seconds seed_within{60};
  ScenarioSize size{};
};

struct SeedFailure {
  std::uint64_t seed = 0;
  Violation violation{};
};

struct SweepResult {
  std::uint64_t seeds = 0;                       // That have run.
  std::vector<SeedFailure> failures{};           // By seed.
  std::map<std::string, std::uint64_t> marks{};  // ROTA_SOMETIMES: how often each was reached.
  std::uint64_t tasks = 0;
  std::uint64_t messages = 0;
  std::uint64_t records = 0;
  std::chrono::nanoseconds simulated{0};
};

[[nodiscard]] SweepResult sweep(const SweepOptions& options);

// The first violation of the scenario, found in a process of its own; an empty checker: none.
[[nodiscard]] Violation judge_apart(const Scenario& scenario, const std::string& mutant,
                                    std::chrono::seconds within = std::chrono::seconds(60));

// Removes the guard of this name in this process; empty: none. False in a build without mutants.
bool remove_guard(std::string_view name);
// True if this build has mutants.
[[nodiscard]] bool has_mutants();

// The run's log as a file that every `rota` subcommand reads.
[[nodiscard]] std::string log_file(const Witness& witness);

}  // namespace rota::sim

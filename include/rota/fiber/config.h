// The configuration of a runtime (F-19).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rota/fiber/budget.h"
#include "rota/fiber/capability.h"
#include "rota/result.h"

namespace rota::fiber {

enum class VictimStrategy : std::uint8_t {
  kRandom,      // Seeded; the default.
  kRoundRobin,  // The thread worker after the last victim.
  kMostLoaded,  // The thread worker with the longest queue.
};

// F-15: what a task may do without an explicit capability, and whether it is metered.
enum class Profile : std::uint8_t {
  kCore,       // Spawning is an error.
  kOpen,       // Everything allowed, unmetered. The default.
  kService,    // Implicit capabilities, default budgets.
  kCluster,    // As service; supervisors recharge; actors.
  kSovereign,  // Nothing without an explicit capability.
};

struct Config {
  std::size_t worker_count = 0;          // Thread workers. 0: one per core. At most 1024.
  std::size_t local_queue_size = 256;    // Initial size of a thread worker's deque, which grows.
  std::size_t global_queue_size = 4096;  // Bound for queued tasks from outside; when it is reached, spawn() waits.
  bool enable_stealing = true;
  std::uint32_t spin_count = 100;        // Search rounds before a thread worker backs off; 0: it sleeps at once.
  std::size_t stack_bytes = 256 * 1024;  // Address space per stack; memory is used page by page. 8 KiB to 1 GiB.
  VictimStrategy victims = VictimStrategy::kRandom;
  std::optional<std::uint64_t> deterministic_seed{};  // Deterministic mode: one thread, ordered by this seed.
  Profile profile = Profile::kOpen;
  std::uint32_t yield_interval = 0;  // 0: the profile's default (service 1024, cluster 512). Required in sovereign.
  std::uint64_t seed = 0x526f7461;   // For the choice of victims and select(); does not determine the order.
  bool guard_stacks = true;          // False: an overflow is detected only by a canary.

  // Budgets, in metered profiles (budget.h, capability.h).
  Reserve root_budget = kPlenty;              // The pool that all budgets come from.
  std::optional<Budget> default_budget{};     // Per task; none: the profile's, which has no spawns.
  std::optional<OnExhausted> on_exhausted{};  // None: recharge from the pool; in sovereign: wait.
  // For tasks from outside; none: as for any task without a grant. If default_budget is not set either, with 60,000
  // spawns in addition, except in sovereign.
  std::optional<Grant> root_grant{};
  std::uint32_t cancel_grace_ops = 1 << 20;  // Ops that metered code may still use after its cancellation.
  // Maximum number of helper threads for blocking(). 1 to 4096.
  std::size_t blocking_threads = 64;
  std::size_t trace_events = 0;  // Per thread worker, for write_trace(); the oldest are dropped first. 0: no trace.

  // This configuration with defaults filled in, or an error that says which value is wrong.
  [[nodiscard]] Result<Config> checked() const;
};

}  // namespace rota::fiber

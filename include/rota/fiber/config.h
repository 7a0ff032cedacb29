// How a runtime is made (F-19).
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
  kRoundRobin,  // The next worker after the last victim.
  kMostLoaded,  // The one with the longest queue.
};

// F-15. What a task may do without being given a capability, and whether it is metered.
enum class Profile : std::uint8_t {
  kCore,       // Spawning is an error.
  kOpen,       // Everything allowed, unmetered. The default.
  kService,    // Implicit capabilities, default budgets.
  kCluster,    // As service, and supervisors recharge; actors.
  kSovereign,  // Nothing without an explicit capability.
};

struct Config {
  std::size_t worker_count = 0;          // 0: one a core. At most 1024.
  std::size_t local_queue_size = 256;    // Where a worker's deque starts; it grows.
  std::size_t global_queue_size = 4096;  // Tasks from outside that wait; at the bound, spawn() waits.
  bool enable_stealing = true;
  std::uint32_t spin_count = 100;        // Rounds of searching before a worker backs off; 0: it sleeps at once.
  std::size_t stack_bytes = 256 * 1024;  // Address space of a stack; memory is used page by page. 8 KiB to 1 GiB.
  VictimStrategy victims = VictimStrategy::kRandom;
  std::optional<std::uint64_t> deterministic_seed{};  // One thread plays all workers, in an order drawn from this.
  Profile profile = Profile::kOpen;
  std::uint32_t yield_interval = 0;  // 0: the profile's (service 1024, cluster 512). Required for sovereign.
  std::uint64_t seed = 0x526f7461;   // Of victim choice and select; not of order.
  bool guard_stacks = true;          // False: only a canary tells of an overflow.

  // Budgets, in the profiles that meter (budget.h, capability.h).
  Reserve root_budget = kPlenty;              // The pool that everything comes from.
  std::optional<Budget> default_budget{};     // Of a task; none: the profile's. No spawns by default in sovereign.
  std::optional<OnExhausted> on_exhausted{};  // None: recharge from the pool; in sovereign: wait.
  std::optional<Grant> root_grant{};          // Of tasks from outside; none: as any task without a grant.
  std::uint32_t cancel_grace_ops = 1 << 20;   // What metered code that does not notice its cancellation may still use.
  // Helper threads of blocking(), at most. 1 to 4096.
  std::size_t blocking_threads = 64;
  std::size_t trace_events = 0;  // Of each worker, for write_trace(); the oldest goes first. 0: no trace.

  // The same with defaults filled in, or a sentence that says what is wrong.
  [[nodiscard]] Result<Config> checked() const;
};

}  // namespace rota::fiber

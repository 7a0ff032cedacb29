// Capabilities: what a task may do, where that is asked (F-14).
//
// A task has the capabilities that it was given when it was spawned and no others; it may pass on what it has, or less,
// never more. Where a capability counts (tasks, channels, budget), what those use to whom it was passed on counts
// against the giver's as well: ten children with the same right together have it once.
//
// In profile `sovereign` every task is asked. In `service` and `cluster` a task has everything implicitly, until it is
// spawned with a Grant that names capabilities: from there on down it is asked as in `sovereign`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rota/fiber/budget.h"

namespace rota::fiber {

// May spawn: at most `max_tasks` alive at a time, none with more than `task_budget`.
struct CapSpawn {
  std::uint32_t max_tasks = 0;
  Budget task_budget = Budget::unlimited();
};

// May draw this much, altogether, from its pool: by recharging itself, or for the pool of a nursery that it opens.
struct CapBudget {
  Budget limit{};
};

// May have channels: at most `max_channels` at a time, none with room for more than `max_buffer` (an unbounded one
// needs SIZE_MAX).
struct CapChannel {
  std::size_t max_buffer = 0;
  std::uint32_t max_channels = 0;
};

struct Capabilities {
  std::optional<CapSpawn> spawn{};
  std::optional<CapBudget> budget{};
  std::optional<CapChannel> channel{};
};

// What a task is given when it is spawned: nursery.spawn(Grant{...}, f).
struct Grant {
  // None: the default, or for a holder of CapSpawn, as many spawns besides as it may have tasks. As much of it as the
  // pool has.
  std::optional<Budget> budget{};
  // None: as the profile says. Given, even if empty: exactly these.
  std::optional<Capabilities> capabilities{};
};

}  // namespace rota::fiber

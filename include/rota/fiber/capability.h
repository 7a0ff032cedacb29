// Capabilities: what a task may do, in runtimes that check it (F-14).
//
// A task has exactly the capabilities that it was given when it was spawned. It may pass on the same or less, never
// more. Where a capability counts something (tasks, channels, budget), use by those to whom it was passed on counts
// against the giver as well: ten children with the same capability share one limit.
//
// In profile `sovereign` every task is checked. In `service` and `cluster` a task implicitly has all capabilities until
// it is spawned with a Grant that names capabilities; from there on down, checks apply as in `sovereign`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rota/fiber/budget.h"
#include "rota/fiber/state.h"

namespace rota::fiber {

// May spawn: at most `max_tasks` alive at a time, each with at most `task_budget`.
struct CapSpawn {
  std::uint32_t max_tasks = 0;
  Budget task_budget = Budget::unlimited();
};

// May draw this much in total from its pool: by recharging itself, or for the pool of a nursery that it opens.
struct CapBudget {
  Budget limit{};
};

// May create channels: at most `max_channels` at a time, each with at most `max_buffer` places (an unbounded one needs
// SIZE_MAX).
struct CapChannel {
  std::size_t max_buffer = 0;
  std::uint32_t max_channels = 0;
};

struct Capabilities {
  std::optional<CapSpawn> spawn{};
  std::optional<CapBudget> budget{};
  std::optional<CapChannel> channel{};
};

// The budget, capabilities and priority of a new task: nursery.spawn(Grant{...}, f).
struct Grant {
  // None: the default; for a holder of CapSpawn, with as many additional spawns as it may have tasks. Limited by what
  // the pool has.
  std::optional<Budget> budget{};
  // None: as the profile says. If set, even to an empty list: exactly these.
  std::optional<Capabilities> capabilities{};
  // None: the spawner's; normal for a task from outside. In every profile.
  std::optional<Priority> priority{};
};

}  // namespace rota::fiber

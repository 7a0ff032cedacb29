// Resource demands and budgets of tasks, and how waiting raises a priority.
#pragma once

#include <compare>
#include <cstdint>

#include "rota/result.h"

namespace rota::graph {

struct ResourceDemand {
  std::uint32_t cpu_slots = 1;
  std::uint64_t ram_mb = 0;
  std::uint64_t vram_mb = 0;
  friend constexpr auto operator<=>(const ResourceDemand&, const ResourceDemand&) = default;
};

struct ResourceBudget {
  std::uint32_t cpu_slots_hard = 1;  // Never exceeded.
  std::uint64_t ram_mb_soft = 0;     // Exceeded only by a task that runs alone. 0: unlimited.
  std::uint64_t vram_mb_soft = 0;    // As ram_mb_soft.
  friend constexpr auto operator<=>(const ResourceBudget&, const ResourceBudget&) = default;
};

// effective priority = base + floor(wait_ms / interval_ms) * boost.
struct AgingPolicy {
  std::uint32_t interval_ms = 1000;  // > 0.
  std::uint32_t boost = 1;           // 0 turns aging off.
  friend constexpr auto operator<=>(const AgingPolicy&, const AgingPolicy&) = default;
};

// An upper bound on any memory size, far above real machines; keeps sums of millions of demands from overflowing.
inline constexpr std::uint64_t kMemoryMbMax = std::uint64_t{1} << 40;

// Returns InvalidArgument with the reason if the values are not usable.
Result<void> check(const ResourceBudget& budget);
Result<void> check(const AgingPolicy& aging);
// The same for a task's demand; Capacity if the task could never run, because the CPU slots are a hard limit.
Result<void> check(const ResourceDemand& demand, const ResourceBudget& budget);

// Counts how much of each resource is held. Thread safety: none.
//
// Invariants: cpu_slots <= the hard limit; tasks == 0 implies that nothing is held.
struct ResourcesHeld {
  std::uint64_t tasks = 0;
  std::uint32_t cpu_slots = 0;
  std::uint64_t ram_mb = 0;
  std::uint64_t vram_mb = 0;

  enum class Fit : std::uint8_t { kFits, kNoCpu, kNoMemory };
  // RAM and VRAM are soft: a task that runs alone may exceed them, because otherwise it would wait forever.
  [[nodiscard]] constexpr Fit fit(const ResourceDemand& demand, const ResourceBudget& budget) const {
    if (demand.cpu_slots > budget.cpu_slots_hard - cpu_slots) return Fit::kNoCpu;
    if (tasks == 0) return Fit::kFits;
    const auto within = [](std::uint64_t held, std::uint64_t more, std::uint64_t soft) {
      return soft == 0 || (held <= soft && more <= soft - held);
    };
    const bool fits =
        within(ram_mb, demand.ram_mb, budget.ram_mb_soft) && within(vram_mb, demand.vram_mb, budget.vram_mb_soft);
    return fits ? Fit::kFits : Fit::kNoMemory;
  }
  constexpr void take(const ResourceDemand& demand) {
    tasks += 1;
    cpu_slots += demand.cpu_slots;
    ram_mb += demand.ram_mb;
    vram_mb += demand.vram_mb;
  }
  // REQUIRES: an unreleased take(demand).
  constexpr void give_back(const ResourceDemand& demand) {
    tasks -= 1;
    cpu_slots -= demand.cpu_slots;
    ram_mb -= demand.ram_mb;
    vram_mb -= demand.vram_mb;
  }
};

}  // namespace rota::graph

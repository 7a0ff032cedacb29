// What a task needs, what there is, and how waiting raises a priority.
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
  std::uint32_t boost = 1;           // 0: waiting raises nothing.
  friend constexpr auto operator<=>(const AgingPolicy&, const AgingPolicy&) = default;
};

// More than any machine has; keeps sums of millions of demands far from overflow.
inline constexpr std::uint64_t kMemoryMbMax = std::uint64_t{1} << 40;

// InvalidArgument with a sentence, or nothing.
Result<void> check(const ResourceBudget& budget);
Result<void> check(const AgingPolicy& aging);
// The same for what a task asks for; Capacity if it could never run, because the CPU slots are a hard limit.
Result<void> check(const ResourceDemand& demand, const ResourceBudget& budget);

// What is held of each resource. Thread safety: none.
//
// Invariants: cpu_slots <= the hard limit; tasks == 0 implies that nothing is held.
struct ResourcesHeld {
  std::uint64_t tasks = 0;
  std::uint32_t cpu_slots = 0;
  std::uint64_t ram_mb = 0;
  std::uint64_t vram_mb = 0;

  enum class Fit : std::uint8_t { kFits, kNoCpu, kNoMemory };
  // RAM and VRAM are soft: while nothing else runs, a task may have more than there is, or it would wait for ever.
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
  // REQUIRES: a take(demand) that was not given back.
  constexpr void give_back(const ResourceDemand& demand) {
    tasks -= 1;
    cpu_slots -= demand.cpu_slots;
    ram_mb -= demand.ram_mb;
    vram_mb -= demand.vram_mb;
  }
};

}  // namespace rota::graph

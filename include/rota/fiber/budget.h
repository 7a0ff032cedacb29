// Budgets: how much a task may still use, and the pools that budgets come from (F-10 to F-12).
//
//   Budget budget{.ops = 1'000'000, .memory = 1 << 20, .spawn_count = 10, .channel_ops = 1000, .syscalls = 100};
//
// Costs (F-10), each charged completely or not at all:
//   loop iteration, call   1 op
//   allocation             1 op and its size in memory
//   spawn                  1 op and 1 spawn_count
//   channel operation      1 op and 1 channel_op
//   I/O                    1 op and 1 syscall
//
// A grant leaves its pool and returns to it, less what was used: the total of pool, grants and use is constant.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string_view>

namespace rota::fiber {

namespace detail {
template <class U>
constexpr U add_saturating(U a, U b) {
  return b > std::numeric_limits<U>::max() - a ? std::numeric_limits<U>::max() : static_cast<U>(a + b);
}
}  // namespace detail

// The components, in the order of Budget's members.
enum class Component : std::uint8_t { kOps, kMemory, kSpawnCount, kChannelOps, kSyscalls };
inline constexpr int kComponentCount = 5;
std::string_view to_string(Component component);  // "ops", "memory", "spawn_count", "channel_ops", "syscalls".

struct Budget {
  std::uint32_t ops = 0;
  std::size_t memory = 0;  // Bytes.
  std::uint16_t spawn_count = 0;
  std::uint16_t channel_ops = 0;
  std::uint16_t syscalls = 0;

  // The maximum of every component, which means no limit: such a component of a task's budget is neither taken from a
  // pool nor used up. A task may grant it if it draws from the runtime's root pool without capabilities, or has it
  // itself; otherwise the component of the grant is the default.
  static constexpr Budget unlimited() {
    return {std::numeric_limits<std::uint32_t>::max(), std::numeric_limits<std::size_t>::max(),
            std::numeric_limits<std::uint16_t>::max(), std::numeric_limits<std::uint16_t>::max(),
            std::numeric_limits<std::uint16_t>::max()};
  }

  // True if each component is at least that of `cost`.
  [[nodiscard]] constexpr bool covers(const Budget& cost) const { return cost <= *this; }
  // Subtracts `cost`, or subtracts nothing and returns false.
  [[nodiscard]] constexpr bool charge(const Budget& cost) {
    if (!covers(cost)) return false;
    *this -= cost;
    return true;
  }
  // Adds, saturating at each component's largest value.
  constexpr Budget& operator+=(const Budget& other) {
    ops = detail::add_saturating(ops, other.ops);
    memory = detail::add_saturating(memory, other.memory);
    spawn_count = detail::add_saturating(spawn_count, other.spawn_count);
    channel_ops = detail::add_saturating(channel_ops, other.channel_ops);
    syscalls = detail::add_saturating(syscalls, other.syscalls);
    return *this;
  }
  friend constexpr Budget operator+(Budget a, const Budget& b) { return a += b; }

  constexpr bool operator==(const Budget&) const = default;
  // Compares all components: two budgets of which neither covers the other are unordered.
  friend constexpr std::partial_ordering operator<=>(const Budget& a, const Budget& b) {
    const auto in_all = [&a, &b](auto compare) {
      return compare(a.ops, b.ops) && compare(a.memory, b.memory) && compare(a.spawn_count, b.spawn_count) &&
             compare(a.channel_ops, b.channel_ops) && compare(a.syscalls, b.syscalls);
    };
    if (a == b) return std::partial_ordering::equivalent;
    if (in_all(std::less_equal<>{})) return std::partial_ordering::less;
    if (in_all(std::greater_equal<>{})) return std::partial_ordering::greater;
    return std::partial_ordering::unordered;
  }

 private:
  // REQUIRES: covers(other).
  constexpr Budget& operator-=(const Budget& other) {
    ops -= other.ops;
    memory -= other.memory;
    spawn_count = static_cast<std::uint16_t>(spawn_count - other.spawn_count);
    channel_ops = static_cast<std::uint16_t>(channel_ops - other.channel_ops);
    syscalls = static_cast<std::uint16_t>(syscalls - other.syscalls);
    return *this;
  }
};

// The minimum of each component.
constexpr Budget min(const Budget& a, const Budget& b) {
  return {std::min(a.ops, b.ops), std::min(a.memory, b.memory), std::min(a.spawn_count, b.spawn_count),
          std::min(a.channel_ops, b.channel_ops), std::min(a.syscalls, b.syscalls)};
}

// The costs of single operations.
inline constexpr Budget kCostOfOp{.ops = 1};
inline constexpr Budget kCostOfSpawn{.ops = 1, .spawn_count = 1};
inline constexpr Budget kCostOfChannelOp{.ops = 1, .channel_ops = 1};
inline constexpr Budget kCostOfSyscall{.ops = 1, .syscalls = 1};
constexpr Budget cost_of_allocation(std::size_t bytes) { return {.ops = 1, .memory = bytes}; }

// The contents of a pool: the sum of many budgets.
struct Reserve {
  std::uint64_t ops = 0;
  std::uint64_t memory = 0;
  std::uint64_t spawn_count = 0;
  std::uint64_t channel_ops = 0;
  std::uint64_t syscalls = 0;

  constexpr Reserve() = default;
  constexpr Reserve(std::uint64_t ops_, std::uint64_t memory_, std::uint64_t spawns, std::uint64_t channels,
                    std::uint64_t calls)
      : ops(ops_), memory(memory_), spawn_count(spawns), channel_ops(channels), syscalls(calls) {}
  constexpr explicit(false) Reserve(const Budget& budget)
      : ops(budget.ops),
        memory(budget.memory),
        spawn_count(budget.spawn_count),
        channel_ops(budget.channel_ops),
        syscalls(budget.syscalls) {}
  // The same amount of every component.
  static constexpr Reserve all(std::uint64_t amount) { return {amount, amount, amount, amount, amount}; }

  // Arithmetic modulo 2^64, so that sums are exact in any order.
  constexpr Reserve& operator+=(const Reserve& other) {
    ops += other.ops;
    memory += other.memory;
    spawn_count += other.spawn_count;
    channel_ops += other.channel_ops;
    syscalls += other.syscalls;
    return *this;
  }
  constexpr Reserve& operator-=(const Reserve& other) {
    ops -= other.ops;
    memory -= other.memory;
    spawn_count -= other.spawn_count;
    channel_ops -= other.channel_ops;
    syscalls -= other.syscalls;
    return *this;
  }
  friend constexpr Reserve operator+(Reserve a, const Reserve& b) { return a += b; }
  friend constexpr Reserve operator-(Reserve a, const Reserve& b) { return a -= b; }
  [[nodiscard]] constexpr bool covers(const Reserve& other) const {
    return other.ops <= ops && other.memory <= memory && other.spawn_count <= spawn_count &&
           other.channel_ops <= channel_ops && other.syscalls <= syscalls;
  }
  constexpr bool operator==(const Reserve&) const = default;
};

constexpr Reserve min(const Reserve& a, const Reserve& b) {
  return {std::min(a.ops, b.ops), std::min(a.memory, b.memory), std::min(a.spawn_count, b.spawn_count),
          std::min(a.channel_ops, b.channel_ops), std::min(a.syscalls, b.syscalls)};
}

// More than a process can use: the default contents of a runtime's root pool.
inline constexpr Reserve kPlenty = Reserve::all(std::uint64_t{1} << 62);

// What happens to a task that runs out of budget (F-11). A spawn or an allocation that the budget does not cover is
// refused with an error instead; with kRecharge the pool is tried first for these, too, but for spawns only if the task
// has its scope's default budget: a grant of spawns is all that the task gets.
enum class OnExhausted : std::uint8_t {
  // It takes a fair slice from its pool; if there is none, it waits until something returns to the pool. If nothing
  // can,
  // because all tasks that hold some of it wait like this, one of them is cancelled as with kCancel.
  kRecharge,
  kWait,    // It waits until it is recharged explicitly.
  kCancel,  // It is cancelled; its handle reports BudgetExhausted.
};

// A task that has run out of budget, as passed to NurseryOptions::notify.
struct Exhaustion {
  std::uint64_t task_id;
  Component component;
};

// How a nursery meters its children. Unmetered runtimes ignore it.
struct NurseryOptions {
  // A pool for this nursery, taken from the surrounding pool when the nursery opens (BudgetExhausted if that does not
  // have as much) and returned, less what was used, when it closes. None: children draw from the surrounding pool. As
  // in a Grant, a component at its largest value has no limit and is taken from no pool, where the task may grant that.
  std::optional<Reserve> pool{};
  std::optional<Budget> default_child{};      // None: the value of the surrounding scope, or of the runtime.
  std::optional<OnExhausted> on_exhausted{};  // Likewise.
  // Called by a child that has run out, on its own stack, before it waits; from then on it can be recharged. Not called
  // if the pool recharges it at once.
  std::function<void(const Exhaustion&)> notify{};
};

// The accounts of a pool: rest + granted + spent == total, always (F-12).
struct PoolAudit {
  Reserve total;              // The initial contents.
  Reserve rest;               // In the pool now.
  Reserve granted;            // Held by tasks and nested pools.
  Reserve spent;              // Used up.
  std::uint64_t grants = 0;   // Number of tasks and nested pools that hold a grant.
  std::uint64_t waiting = 0;  // Tasks that have run out of budget.
  [[nodiscard]] bool balanced() const { return rest + granted + spent == total; }
  bool operator==(const PoolAudit&) const = default;
};

}  // namespace rota::fiber

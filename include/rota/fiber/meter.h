// Metering by hand: what a task pays for its own work, and how it gets more (F-10 to F-13).
//
//   for (const Row& row : rows) {
//     tick();                       // an op; yields when others have waited for an interval, stops when the budget is
//     gone handle(row);
//   }
//
// The compiler inserts the ticks into a whole target with rota_meter(target) in CMake; see docs/metering.md.
//
// In an unmetered runtime (profiles `core` and `open`) and outside of tasks all of this is allowed and does nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <utility>

#include "rota/fiber/budget.h"
#include "rota/fiber/detail/charge.h"
#include "rota/fiber/error.h"
#include "rota/fiber/task.h"
#include "rota/result.h"

// For a function of a metered target: the compiler inserts no ticks into it. A signal handler must have it.
#if defined(__clang__)
#define ROTA_UNMETERED __attribute__((no_sanitize("coverage")))
#else
#define ROTA_UNMETERED __attribute__((no_sanitize_coverage))
#endif

namespace rota::fiber {

namespace detail {
struct SupervisorState;
[[nodiscard]] Result<void> recharge_task(NurseryCore* nursery, std::uint64_t id, const Budget& amount);
}  // namespace detail

// Why a task was cancelled whose budget was used up, where its nursery says OnExhausted::kCancel.
class BudgetExhausted : public Cancelled {
 public:
  BudgetExhausted();
};

// Pays `ops` ops. Every yield_interval ops it lets other tasks run; when the budget is gone, the task is exhausted and
// waits here (F-11). Throws Cancelled if the task is cancelled, BudgetExhausted if its budget was the reason.
[[gnu::always_inline]] inline void tick(std::uint32_t ops = 1) {
  if constexpr (ROTA_METERED) return detail::tick_called(ops);
  if (!detail::tick_quickly(detail::current_worker(), ops)) [[unlikely]]
    detail::tick_slow(ops);
}

// What is left of the current task's budget; Budget::unlimited() where nothing is metered.
[[nodiscard]] Budget current_budget();

// Takes `amount` from the pool for the current task. Needs CapBudget where capabilities are asked for, and counts
// against its limit. CapabilityDenied, or BudgetExhausted if the pool has not as much; nothing is taken then.
[[nodiscard]] Result<void> recharge(const Budget& amount);

// Recharges tasks that are out of budget, below the nursery that it is from (Nursery::supervisor()), from that
// nursery's pool. It may be handed to any task and outlive the nursery. Thread safety: all members, from any thread.
class Supervisor {
 public:
  explicit Supervisor(std::shared_ptr<detail::SupervisorState> state) : state_(std::move(state)) {}
  // Gives `amount` to a task that waits for a recharge; it becomes Ready when that covers what it needs.
  // FailedPrecondition: it is not out of budget. BudgetExhausted: the pool has not as much. NurseryNotActive: closed.
  [[nodiscard]] Result<void> recharge(std::uint64_t task_id, const Budget& amount) const;
  template <class T>
  [[nodiscard]] Result<void> recharge(const Task<T>& task, const Budget& amount) const {
    return recharge(task.id(), amount);
  }
  // The books of the nursery's pool.
  [[nodiscard]] Result<PoolAudit> audit() const;

 private:
  std::shared_ptr<detail::SupervisorState> state_;
};

// While it lives, the current task is not interrupted by a metered yield, nor stopped: its ops are counted, and paid
// when it is gone. For the few lines of metered code that hold a lock which other tasks want. They nest.
class [[nodiscard]] MeterHold {
 public:
  ROTA_UNMETERED MeterHold();
  ROTA_UNMETERED ~MeterHold();
  MeterHold(const MeterHold&) = delete;
  MeterHold& operator=(const MeterHold&) = delete;

 private:
  detail::Record* task_ = nullptr;
};

// What MeteredResource throws: a std::bad_alloc, with the code MemoryBudgetExhausted when a nursery reports it.
class MemoryBudgetExhausted : public std::bad_alloc {
 public:
  explicit MemoryBudgetExhausted(std::size_t bytes);
  [[nodiscard]] const char* what() const noexcept override { return what_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  char what_[64];
};

// Charges what is allocated through it to the task that allocates, and credits what is freed to the task that frees;
// outside of metered tasks it only passes on. An allocation that the budget does not cover throws MemoryBudgetExhausted
// and takes nothing from `upstream`; one whose task is cancelled while it waits for ops throws Cancelled.
// Thread safety: that of `upstream`.
class MeteredResource : public std::pmr::memory_resource {
 public:
  explicit MeteredResource(std::pmr::memory_resource* upstream = std::pmr::get_default_resource())
      : upstream_(upstream) {}
  [[nodiscard]] std::pmr::memory_resource* upstream() const { return upstream_; }

 protected:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override;

 private:
  std::pmr::memory_resource* upstream_;
};

}  // namespace rota::fiber

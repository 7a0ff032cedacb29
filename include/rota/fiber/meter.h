// Explicit metering: how a task pays for its own work, and how it gets more budget (F-10 to F-13).
//
//   for (const Row& row : rows) {
//     tick();            // Costs an op; yields after an interval; stops when the budget is used up.
//     handle(row);
//   }
//
// rota_meter(target) in CMake makes the compiler insert the ticks into a whole target; see docs/metering.md.
//
// In an unmetered runtime (profiles `core` and `open`) tick() is only a cancellation point, and everything else here is
// allowed and has no effect; the same holds for all of it outside of tasks.
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

// Marks a function of a metered target into which the compiler inserts no ticks. A signal handler needs it.
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

// Thrown in a task that was cancelled because its budget was used up, where its nursery says OnExhausted::kCancel.
class BudgetExhausted : public Cancelled {
 public:
  BudgetExhausted();
};

// Pays `ops` ops. Every yield_interval ops it lets other tasks run. When the budget is used up, the task is exhausted
// and waits here (F-11). Throws Cancelled if the task is cancelled, BudgetExhausted if its budget was the reason.
[[gnu::always_inline]] inline void tick(std::uint32_t ops = 1) {
  if constexpr (ROTA_METERED) return detail::tick_called(ops);
  detail::ThreadWorker* worker = detail::current_worker();
  if (!detail::is_metered(worker)) return detail::tick_unmetered();
  if (!detail::tick_quickly(worker, ops)) [[unlikely]]
    detail::tick_slow(ops);
}

// The rest of the current task's budget; Budget::unlimited() where nothing is metered.
[[nodiscard]] Budget current_budget();

// Takes `amount` from the pool for the current task. Needs CapBudget where capabilities are checked, and counts against
// its limit. Errors, without taking anything: CapabilityDenied; BudgetExhausted if the pool does not have as much.
[[nodiscard]] Result<void> recharge(const Budget& amount);

// Recharges tasks that have run out of budget, below the nursery that it comes from (Nursery::supervisor()), from that
// nursery's pool. It may be passed to any task and may outlive the nursery. Thread safety: all members, from any
// thread.
class Supervisor {
 public:
  explicit Supervisor(std::shared_ptr<detail::SupervisorState> state) : state_(std::move(state)) {}
  // Gives `amount` to a task that waits for a recharge; it becomes Ready when that covers its need. Errors:
  // FailedPrecondition (it has not run out), BudgetExhausted (the pool does not have as much), NurseryNotActive
  // (closed).
  [[nodiscard]] Result<void> recharge(std::uint64_t task_id, const Budget& amount) const;
  template <class T>
  [[nodiscard]] Result<void> recharge(const Task<T>& task, const Budget& amount) const {
    return recharge(task.id(), amount);
  }
  // The accounts of the nursery's pool.
  [[nodiscard]] Result<PoolAudit> audit() const;

 private:
  std::shared_ptr<detail::SupervisorState> state_;
};

// While this object lives, the current task is neither interrupted by a metered yield nor stopped; its ops are counted
// and paid when the object is destroyed. For short metered code that holds a lock which other tasks need. They nest.
class [[nodiscard]] MeterHold {
 public:
  ROTA_UNMETERED MeterHold();
  ROTA_UNMETERED ~MeterHold();
  MeterHold(const MeterHold&) = delete;
  MeterHold& operator=(const MeterHold&) = delete;

 private:
  detail::TaskRecord* task_ = nullptr;
};

// Thrown by MeteredResource: a std::bad_alloc, with the code MemoryBudgetExhausted when a nursery reports it.
class MemoryBudgetExhausted : public std::bad_alloc {
 public:
  explicit MemoryBudgetExhausted(std::size_t bytes);
  [[nodiscard]] const char* what() const noexcept override { return what_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  char what_[64];
};

// Charges allocations to the task that allocates, and credits them to the task that frees; outside of metered tasks it
// only forwards. An allocation that the budget does not cover throws MemoryBudgetExhausted and takes nothing from
// `upstream`; if the task is cancelled while it waits for ops, the allocation throws Cancelled.
// Thread safety: as `upstream`.
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

// Charges a task for operations of the runtime (F-10): called by channels, I/O, allocators and spawns.
//
//   if (const ErrorCode code = charge_channel_op(worker); code != ErrorCode::kOk) [[unlikely]] return code;
//
// Call these first in an operation, before anything is queued or locked: a task that has run out of budget parks in
// here until it is recharged, and a task that has run for a whole interval yields. The task may be on another thread
// worker on return, so read current_worker() again. In an unmetered runtime each costs one load and one branch.
//
// Results: kOk, and the operation is paid for; kCancelled if the task is cancelled, by its budget's policy or
// otherwise, while it waits for a recharge; kMemoryBudgetExhausted from charge_memory(). In case of an error nothing is
// paid.
//
// Where a task's budget is stored: TaskRecord::meter is 0 in an unmetered runtime. A task that has the default budget
// of a root pool that cannot run dry, and has used only ops and spawns, has its whole account in that word (an inline
// meter); every other task has a Meter.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rota/error_code.h"
#include "rota/fiber/budget.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

struct ScopeMeter;
struct CapContext;

// An inline meter: 1, spawns left (31 bits), 1, ops left of the first interval (31 bits). A guard bit that a
// subtraction has cleared means that the part below it was too small. A Meter* has the top bit clear.
inline constexpr std::uint64_t kInlineMeter = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kFuelGuard = std::uint64_t{1} << 31;
inline constexpr std::uint64_t kSpawnCost = (std::uint64_t{1} << 32) + 1;
constexpr std::uint64_t inline_meter(std::uint32_t fuel, std::uint32_t spawns) {
  return kInlineMeter | static_cast<std::uint64_t>(spawns) << 32 | kFuelGuard | fuel;
}
constexpr bool is_inline(std::uint64_t word) { return (word & kInlineMeter) != 0; }

// A task's account. Only the thread worker that runs the task touches it.
struct Meter {
  std::int32_t fuel = 0;   // Ops until the slow path: to yield, or because they are the last.
  std::uint32_t debt = 0;  // Ops used where the task could not wait; paid before the next ones.
  Reserve left{};          // In addition to `fuel`.
  Reserve granted{};       // By its scope's pool, in total; returns there, less what was used.
  const ScopeMeter* scope = nullptr;
  CapContext* caps = nullptr;        // Null: everything is allowed.
  CapContext* counted_by = nullptr;  // The CapSpawn against which this task counts.
  std::uint32_t grace = 0;           // Ops that a cancelled task still gets in order to end.
  std::uint8_t renewable = 0;        // Bits by Component: what its pool recharges automatically.
  bool doomed = false;               // Cancelled, and running on grace: `fuel` is not a budget.
  bool due = false;                  // An interval has ended in a place that could not wait.
  bool plain = false;                // Its children have inline meters: no scope that it opened has other options.
};
inline Meter* meter_of(std::uint64_t word) { return reinterpret_cast<Meter*>(word); }

[[nodiscard]] ErrorCode charge_slow(Component component, std::uint64_t amount);
void release_memory_slow(std::size_t bytes);
void settle_meter(ThreadWorker* worker, TaskRecord* record);
// Throws Cancelled, or BudgetExhausted.
void tick_slow(std::uint32_t ops);
void tick_called(std::uint32_t ops);

[[nodiscard]] inline bool is_metered(const ThreadWorker* worker) {
  return worker != nullptr && (worker->hooks & kHookMeter) != 0;
}

// A send or a receive, or the performed case of a select.
[[nodiscard]] inline ErrorCode charge_channel_op(const ThreadWorker* worker) {
  return is_metered(worker) ? charge_slow(Component::kChannelOps, 1) : ErrorCode::kOk;
}
[[nodiscard]] inline ErrorCode charge_channel_op() { return charge_channel_op(current_worker()); }

// A read, write, accept, connect, open and so on.
[[nodiscard]] inline ErrorCode charge_syscall(const ThreadWorker* worker) {
  return is_metered(worker) ? charge_slow(Component::kSyscalls, 1) : ErrorCode::kOk;
}
[[nodiscard]] inline ErrorCode charge_syscall() { return charge_syscall(current_worker()); }

// An allocation of `bytes`; release_memory() credits them to the task that calls it.
[[nodiscard]] inline ErrorCode charge_memory(std::size_t bytes) {
  return is_metered(current_worker()) ? charge_slow(Component::kMemory, bytes) : ErrorCode::kOk;
}
inline void release_memory(std::size_t bytes) {
  if (is_metered(current_worker())) release_memory_slow(bytes);
}

// tick() where nothing is metered: a cancellation point (and, in deterministic mode, a poll point).
void tick_unmetered();

// Takes ops from the current task on the fast path. False: tick_slow() must do it.
[[gnu::always_inline]] inline bool tick_quickly(const ThreadWorker* worker, std::uint32_t ops) {
  if (!is_metered(worker)) return true;
  TaskRecord* task = worker->fiber->task;
  if (task == nullptr) [[unlikely]]
    return true;  // The loop itself, or code that it calls between two tasks.
  const std::uint64_t word = task->meter;
  if (is_inline(word)) {
    if (const std::uint64_t next = word - ops; (next & kFuelGuard) != 0) [[likely]] {
      task->meter = next;
      return true;
    }
  } else if (Meter* meter = meter_of(word); static_cast<std::uint32_t>(meter->fuel) >= ops) [[likely]] {
    meter->fuel -= static_cast<std::int32_t>(ops);
    return true;
  }
  return false;
}

// Pays for a spawn by the owner of a nursery without budget options; the child has an inline meter.
[[gnu::always_inline]] inline bool charge_spawn_quickly(const ThreadWorker* worker, const NurseryCore* core) {
  TaskRecord* task = worker->fiber->task;
  if (worker->hooks != kHookMeter || core->owner_task != task) [[unlikely]]
    return false;
  const std::uint64_t word = task->meter;
  if (is_inline(word)) {
    const std::uint64_t next = word - kSpawnCost;
    if ((~next & (kInlineMeter | kFuelGuard)) != 0) [[unlikely]]
      return false;
    task->meter = next;
    return true;
  }
  Meter* meter = meter_of(word);
  if (!meter->plain || meter->fuel < 1 || meter->left.spawn_count < 1) [[unlikely]]
    return false;
  meter->fuel -= 1;
  meter->left.spawn_count -= 1;
  return true;
}

// Takes back what a task that has ended did not use.
[[gnu::always_inline]] inline void settle_quickly(ThreadWorker* worker, TaskRecord* record) {
  const std::uint64_t word = record->meter;
  if (is_inline(word)) [[likely]] {
    const std::uint64_t used = worker->fresh_meter - word;
    worker->spent_ops.add(used & 0xffff'ffffU);
    worker->spent_spawns.add(used >> 32);
  } else {
    settle_meter(worker, record);
  }
}

// The permission to have a channel (CapChannel): a member of every channel, empty where capabilities are not checked.
// The constructor throws CapabilityDenied if `capacity` or the number of channels exceeds the current task's limit.
class ChannelPermit {
 public:
  static constexpr std::size_t kUnbounded = SIZE_MAX;
  enum NotNeeded { kNotNeeded };
  explicit ChannelPermit(NotNeeded /*channel of the runtime itself*/) {}
  explicit ChannelPermit(std::size_t capacity) {
    if (const ThreadWorker* worker = current_worker(); is_metered(worker)) acquire(capacity);
  }
  ~ChannelPermit() {
    if (holder_ != nullptr) release();
  }
  ChannelPermit(const ChannelPermit&) = delete;
  ChannelPermit& operator=(const ChannelPermit&) = delete;

 private:
  void acquire(std::size_t capacity);
  void release();
  CapContext* holder_ = nullptr;
};

}  // namespace rota::fiber::detail

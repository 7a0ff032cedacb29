// What an operation of the runtime costs its task (F-10): called by channels, I/O, allocators and spawns.
//
//   if (const ErrorCode code = charge_channel_op(worker); code != ErrorCode::kOk) [[unlikely]] return code;
//
// Call them first in the operation, before anything is queued or locked: a task that has run out parks in here until it
// is recharged, and one that has run for a whole interval lets others go first. The worker may be another one on
// return, so read current_worker() again. In an unmetered runtime each is one load and one branch.
//
// Answers: kOk, and it is paid for; kCancelled, if the task is cancelled, by its budget's policy or otherwise, while it
// waits for a recharge; kMemoryBudgetExhausted from charge_memory(). Nothing is paid for then.
//
// Where a task's budget is: Record::meter is 0 in an unmetered runtime. A task that has the default budget of a root
// pool that cannot run dry, and has used nothing but ops and spawns, has its whole account in that word (an inline
// meter); everybody else has a Meter.
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
// subtraction has cleared says that the part below it was too small. A Meter* has the top bit clear.
inline constexpr std::uint64_t kInlineMeter = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kFuelGuard = std::uint64_t{1} << 31;
inline constexpr std::uint64_t kSpawnCost = (std::uint64_t{1} << 32) + 1;
constexpr std::uint64_t inline_meter(std::uint32_t fuel, std::uint32_t spawns) {
  return kInlineMeter | static_cast<std::uint64_t>(spawns) << 32 | kFuelGuard | fuel;
}
constexpr bool is_inline(std::uint64_t word) { return (word & kInlineMeter) != 0; }

// A task's account. Only the one who runs the task touches it.
struct Meter {
  std::int32_t fuel = 0;   // Ops until the task looks up: to let others go first, or because they are the last.
  std::uint32_t debt = 0;  // Ops used while it could not wait; paid before the next ones.
  Reserve left{};          // Besides `fuel`.
  Reserve granted{};       // By its scope's pool, altogether; goes back there, less what was used.
  const ScopeMeter* scope = nullptr;
  CapContext* caps = nullptr;        // Null: everything is allowed.
  CapContext* counted_by = nullptr;  // Whose CapSpawn this task counts against.
  std::uint32_t grace = 0;           // Ops that a cancelled task still gets, to end by itself.
  std::uint8_t renewable = 0;        // Bits by Component: what its pool recharges by itself.
  bool doomed = false;               // Cancelled, and running on grace: `fuel` is no budget.
  bool due = false;                  // An interval has passed in a place that could not wait.
  bool plain = false;                // Its children have inline meters: no scope that it opened says otherwise.
};
inline Meter* meter_of(std::uint64_t word) { return reinterpret_cast<Meter*>(word); }

[[nodiscard]] ErrorCode charge_slow(Component component, std::uint64_t amount);
void release_memory_slow(std::size_t bytes);
void settle_meter(Worker* worker, Record* record);
// Throws Cancelled, or BudgetExhausted.
void tick_slow(std::uint32_t ops);
void tick_called(std::uint32_t ops);

[[nodiscard]] inline bool is_metered(const Worker* worker) {
  return worker != nullptr && (worker->hooks & kHookMeter) != 0;
}

// A send or a receive, also one case of a select that was taken.
[[nodiscard]] inline ErrorCode charge_channel_op(const Worker* worker) {
  return is_metered(worker) ? charge_slow(Component::kChannelOps, 1) : ErrorCode::kOk;
}
[[nodiscard]] inline ErrorCode charge_channel_op() { return charge_channel_op(current_worker()); }

// A read, write, accept, connect, open...
[[nodiscard]] inline ErrorCode charge_syscall(const Worker* worker) {
  return is_metered(worker) ? charge_slow(Component::kSyscalls, 1) : ErrorCode::kOk;
}
[[nodiscard]] inline ErrorCode charge_syscall() { return charge_syscall(current_worker()); }

// An allocation of `bytes`; release_memory() gives the bytes back, to the task that calls it.
[[nodiscard]] inline ErrorCode charge_memory(std::size_t bytes) {
  return is_metered(current_worker()) ? charge_slow(Component::kMemory, bytes) : ErrorCode::kOk;
}
inline void release_memory(std::size_t bytes) {
  if (is_metered(current_worker())) release_memory_slow(bytes);
}

// Takes ops from the current task, without looking up. False: tick_slow() must.
[[gnu::always_inline]] inline bool tick_quickly(const Worker* worker, std::uint32_t ops) {
  if (!is_metered(worker)) return true;
  Record* task = worker->fiber->task;
  if (task == nullptr) [[unlikely]]
    return true;  // The loop itself, or what it calls between two tasks.
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

// Pays for a spawn by the owner of a nursery without a say about budgets; the child has an inline meter.
[[gnu::always_inline]] inline bool charge_spawn_quickly(const Worker* worker, const NurseryCore* core) {
  Record* task = worker->fiber->task;
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
[[gnu::always_inline]] inline void settle_quickly(Worker* worker, Record* record) {
  const std::uint64_t word = record->meter;
  if (is_inline(word)) [[likely]] {
    const std::uint64_t used = worker->fresh_meter - word;
    worker->spent_ops.add(used & 0xffff'ffffU);
    worker->spent_spawns.add(used >> 32);
  } else {
    settle_meter(worker, record);
  }
}

// The right to have a channel (CapChannel): a member of every channel. Where capabilities are not asked for it is
// empty. The constructor throws CapabilityDenied when `capacity` or the number of channels is above what the current
// task may.
class ChannelPermit {
 public:
  static constexpr std::size_t kUnbounded = SIZE_MAX;
  explicit ChannelPermit(std::size_t capacity) {
    if (const Worker* worker = current_worker(); is_metered(worker)) acquire(capacity);
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

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
#pragma once

#include <cstddef>
#include <cstdint>

#include "rota/error_code.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// The budget's components, in Budget's order.
enum class Component : std::uint8_t { kOps, kMemory, kSpawns, kChannelOps, kSyscalls };

[[nodiscard]] ErrorCode charge_component(Component component);
[[nodiscard]] ErrorCode charge_memory_slow(std::size_t bytes);
void release_memory_slow(std::size_t bytes);

[[nodiscard]] inline bool is_metered(const Worker* worker) {
  return worker != nullptr && (worker->hooks & kHookMeter) != 0;
}

// A send or a receive, also one case of a select that was taken.
[[nodiscard]] inline ErrorCode charge_channel_op(const Worker* worker) {
  return is_metered(worker) ? charge_component(Component::kChannelOps) : ErrorCode::kOk;
}
[[nodiscard]] inline ErrorCode charge_channel_op() { return charge_channel_op(current_worker()); }

// A read, write, accept, connect, open...
[[nodiscard]] inline ErrorCode charge_syscall(const Worker* worker) {
  return is_metered(worker) ? charge_component(Component::kSyscalls) : ErrorCode::kOk;
}
[[nodiscard]] inline ErrorCode charge_syscall() { return charge_syscall(current_worker()); }

// An allocation of `bytes`; release_memory() gives the bytes back, to the task that calls it.
[[nodiscard]] inline ErrorCode charge_memory(std::size_t bytes) {
  return is_metered(current_worker()) ? charge_memory_slow(bytes) : ErrorCode::kOk;
}
inline void release_memory(std::size_t bytes) {
  if (is_metered(current_worker())) release_memory_slow(bytes);
}

// The right to have a channel (CapChannel): a member of every channel. Where capabilities are not asked for it is empty.
// The constructor throws CapabilityDenied when `capacity` or the number of channels is above what the current task may.
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
  void* holder_ = nullptr;
};

}  // namespace rota::fiber::detail

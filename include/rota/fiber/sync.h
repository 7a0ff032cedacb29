// Mutex, Semaphore, Event, WaitGroup: synchronisation between tasks (F-25). Waiting parks the task, never the thread.
//
// All of them serve waiters first in, first out, and hand over directly: unlocking a mutex for which a task waits locks
// it again at once for the first waiter. Under contention this costs a switch per hand-over; in return no task starves,
// no task is woken in vain, and in deterministic mode the order is always the same. Keep critical sections short; for
// throughput under contention use a Channel.
//
// A call that has to wait is a cancellation point: it throws Cancelled, and the caller has acquired nothing. A call
// that need not wait succeeds even in a cancelled task, so that cleanup works. A wait needs a task; calls that do not
// wait may be made from any thread, except for a mutex, whose owner is a task.
//
// An object may be destroyed as soon as the waits that it ended have returned, even if set(), done() or unlock() has
// not returned yet. Destroying an object for which a task waits is a bug and asserted. Misuse throws FiberError with
// code FailedPrecondition and changes nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <new>

#include "rota/fiber/detail/waiting.h"
#include "rota/result.h"

namespace rota::fiber {

// Mutual exclusion between tasks. Works with std::lock_guard, std::unique_lock and std::scoped_lock. Not recursive: a
// second lock() by its owner is misuse, and so is unlock() by another task.
class Mutex {
 public:
  Mutex() = default;
  ~Mutex();
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock();
  // Returns Cancelled instead of throwing it; then the mutex is not locked.
  [[nodiscard]] Result<void> lock(std::nothrow_t);
  [[nodiscard]] bool try_lock();
  // False if it could not be locked within `limit`.
  [[nodiscard]] bool try_lock_for(std::chrono::nanoseconds limit);
  void unlock();

 private:
  // A task. Its id alone is unique only within its runtime, and its address only while it lives.
  struct Owner {
    const detail::TaskRecord* task = nullptr;
    std::uint64_t id = 0;
    bool operator==(const Owner&) const = default;
  };
  static Owner owner_of(const detail::TaskRecord* task);
  static Owner caller();
  detail::WakeReason acquire(const std::chrono::nanoseconds* limit);

  detail::SpinLock guard_;
  detail::WaitQueue waiting_;  // Invariant: empty while nobody owns it.
  Owner owner_;
};

// A counter of permits.
class Semaphore {
 public:
  static constexpr std::uint64_t kNoMaximum = UINT64_MAX;
  // Throws InvalidArgument if `permits` is above `maximum`.
  explicit Semaphore(std::uint64_t permits, std::uint64_t maximum = kNoMaximum);
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void acquire();
  // Returns Cancelled instead of throwing it; then no permit was taken.
  [[nodiscard]] Result<void> acquire(std::nothrow_t);
  [[nodiscard]] bool try_acquire();
  [[nodiscard]] bool try_acquire_for(std::chrono::nanoseconds limit);
  // Misuse if there would be more than the maximum.
  void release(std::uint64_t permits = 1);
  // The number of permits at this moment.
  [[nodiscard]] std::uint64_t available() const;

 private:
  detail::WakeReason take(const std::chrono::nanoseconds* limit);

  mutable detail::SpinLock guard_;
  detail::WaitQueue waiting_;  // Invariant: empty while there are permits.
  std::uint64_t permits_;
  const std::uint64_t maximum_;
};

// A flag that tasks wait for. It stays set until reset().
class Event {
 public:
  explicit Event(bool set = false) : set_(set) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Wakes all tasks that wait now, even if it is reset before they run.
  void set();
  void reset();
  [[nodiscard]] bool is_set() const;
  void wait();
  // Returns Cancelled instead of throwing it: cheaper if many waiting tasks are cancelled together.
  Result<void> wait(std::nothrow_t);
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit);

 private:
  detail::WakeReason await(const std::chrono::nanoseconds* limit);

  mutable detail::SpinLock guard_;
  detail::WaitQueue waiting_;  // Invariant: empty while it is set.
  bool set_;
};

// Counts pending work; waiters continue when it reaches 0. It may then be used again.
class WaitGroup {
 public:
  explicit WaitGroup(std::uint64_t count = 0) : count_(count) {}
  ~WaitGroup();
  WaitGroup(const WaitGroup&) = delete;
  WaitGroup& operator=(const WaitGroup&) = delete;

  // Misuse if the count overflows.
  void add(std::uint64_t count = 1);
  // Misuse if the count is smaller.
  void done(std::uint64_t count = 1);
  [[nodiscard]] std::uint64_t count() const;
  void wait();
  // Returns Cancelled instead of throwing it.
  Result<void> wait(std::nothrow_t);
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit);

 private:
  detail::WakeReason await(const std::chrono::nanoseconds* limit);

  mutable detail::SpinLock guard_;
  detail::WaitQueue waiting_;  // Invariant: empty while the count is 0.
  std::uint64_t count_;
};

}  // namespace rota::fiber

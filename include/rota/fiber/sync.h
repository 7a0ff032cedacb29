// Mutex, Semaphore, Event, WaitGroup: what tasks wait for besides values (F-25). Waiting parks the task, never the
// thread.
//
// All serve those who wait in their order. What a wait was for is handed over by whoever ends it: a mutex that is
// unlocked while somebody waits is locked again at once, by the first in line. This costs a switch for each hand-over
// when many compete for it, and in return nobody starves, nobody is woken in vain, and the order is the same each time
// in deterministic mode. Keep what a mutex protects short; for throughput under contention, use a Channel.
//
// Each wait is a cancellation point when it has to wait: it throws Cancelled, and the caller has got nothing. One that
// need not wait goes through even in a cancelled task, so that cleaning up works. A wait needs a task around it; what
// does not wait may be called from any thread, except for a mutex, whose owner is a task.
//
// An object may be destroyed as soon as the waits that it ended have returned, even while set(), done() or unlock()
// has not yet; destroying one that somebody waits for is a bug, and asserted. Misuse throws FiberError with code
// FailedPrecondition and changes nothing.
#pragma once

#include <chrono>
#include <cstdint>

#include "rota/fiber/detail/waiting.h"

namespace rota::fiber {

// Mutual exclusion between tasks. Works with std::lock_guard, std::unique_lock and std::scoped_lock. Not recursive: a
// second lock() by its owner is misuse, and so is unlock() by anybody else.
class Mutex {
 public:
  Mutex() = default;
  ~Mutex();
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock();
  [[nodiscard]] bool try_lock();
  // False if it was not to be had within `limit`.
  [[nodiscard]] bool try_lock_for(std::chrono::nanoseconds limit);
  void unlock();

 private:
  bool acquire(const std::chrono::nanoseconds* limit);

  detail::SpinLock guard_;
  detail::WaitQueue waiting_;  // Invariant: empty while owner_ is 0.
  std::uint64_t owner_ = 0;    // The id of the task that has it, or 0.
};

// A number of permits.
class Semaphore {
 public:
  static constexpr std::uint64_t kNoMaximum = UINT64_MAX;
  // Throws InvalidArgument if `permits` is above `maximum`.
  explicit Semaphore(std::uint64_t permits, std::uint64_t maximum = kNoMaximum);
  ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  void acquire();
  [[nodiscard]] bool try_acquire();
  [[nodiscard]] bool try_acquire_for(std::chrono::nanoseconds limit);
  // Misuse, if there would be more than the maximum.
  void release(std::uint64_t permits = 1);
  // How many there are just now.
  [[nodiscard]] std::uint64_t available() const;

 private:
  bool take(const std::chrono::nanoseconds* limit);

  mutable detail::SpinLock guard_;
  detail::WaitQueue waiting_;  // Invariant: empty while there are permits.
  std::uint64_t permits_;
  const std::uint64_t maximum_;
};

// Something that has happened, or not. Whoever waits goes on when it has; it stays so until reset().
class Event {
 public:
  explicit Event(bool set = false) : set_(set) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // All who wait now go on, even if it is reset before they run.
  void set();
  void reset();
  [[nodiscard]] bool is_set() const;
  void wait();
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit);

 private:
  bool await(const std::chrono::nanoseconds* limit);

  mutable detail::SpinLock guard_;
  detail::WaitQueue waiting_;  // Invariant: empty while it is set.
  bool set_;
};

// Counts what is still to be done; whoever waits goes on when it is nothing. May be used again from there.
class WaitGroup {
 public:
  explicit WaitGroup(std::uint64_t count = 0) : count_(count) {}
  ~WaitGroup();
  WaitGroup(const WaitGroup&) = delete;
  WaitGroup& operator=(const WaitGroup&) = delete;

  // Misuse, if the number does not fit.
  void add(std::uint64_t count = 1);
  // Misuse, if there is not as much to be done.
  void done(std::uint64_t count = 1);
  [[nodiscard]] std::uint64_t count() const;
  void wait();
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit);

 private:
  bool await(const std::chrono::nanoseconds* limit);

  mutable detail::SpinLock guard_;
  detail::WaitQueue waiting_;  // Invariant: empty while the count is 0.
  std::uint64_t count_;
};

}  // namespace rota::fiber

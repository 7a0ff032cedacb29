// Locks, conditions and threads for code that may block an OS thread, with clang's thread-safety annotations.
//
// Atomics, Plain and Futex come from rota/detail/sync.h. With ROTA_INTERLEAVE=1 Mutex, CondVar and Thread are the
// interleaving checker's; a deadlock, a lost wake-up or a leaked lock then fails the test.
// Thread safety: everything may be shared, except MutexLock, which belongs to one thread.
#pragma once

#include "base/thread_annotations.h"
#include "rota/detail/sync.h"

#if defined(ROTA_INTERLEAVE) && ROTA_INTERLEAVE
#include "interleave/sync_types.h"

namespace rota::sync {
using interleave::CondVar;
using interleave::Mutex;
using interleave::MutexLock;
using interleave::Thread;
}  // namespace rota::sync

#else

#include <condition_variable>
#include <mutex>
#include <thread>

namespace rota::sync {

class ROTA_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() ROTA_ACQUIRE() { raw_.lock(); }
  void unlock() ROTA_RELEASE() { raw_.unlock(); }
  bool try_lock() ROTA_TRY_ACQUIRE(true) { return raw_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex raw_;
};

// Holds a Mutex for a scope.
class ROTA_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ROTA_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() ROTA_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases `mutex`, sleeps until notified (or spuriously), and takes it again.
  void wait(Mutex& mutex) ROTA_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.raw_, std::adopt_lock);
    raw_.wait(lock);
    lock.release();
  }
  // The same with a limit; false only if the time ran out.
  bool wait_for(Mutex& mutex, std::chrono::nanoseconds timeout) ROTA_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.raw_, std::adopt_lock);
    const std::cv_status status = raw_.wait_for(lock, timeout);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  template <class Predicate>
  void wait(Mutex& mutex, Predicate done) ROTA_REQUIRES(mutex) {
    while (!done()) wait(mutex);
  }
  void notify_one() { raw_.notify_one(); }
  void notify_all() { raw_.notify_all(); }

 private:
  std::condition_variable raw_;
};

// Joins in the destructor, so that no thread outlives what it uses.
class Thread {
 public:
  Thread() = default;
  template <class F>
  explicit Thread(F&& body) : raw_(std::forward<F>(body)) {}
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other) {
    join();
    raw_ = std::move(other.raw_);
    return *this;
  }
  ~Thread() { join(); }

  bool joinable() const { return raw_.joinable(); }
  void join() {
    if (raw_.joinable()) raw_.join();
  }

 private:
  std::thread raw_;
};

}  // namespace rota::sync

#endif  // ROTA_INTERLEAVE

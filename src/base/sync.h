// Locks, conditions and threads for code that may block an OS thread, with clang's thread-safety annotations.
//
// Atomics, Plain and Futex come from rota/detail/sync.h. With ROTA_INTERLEAVE=1 Mutex, CondVar and Thread are
// the interleaving checker's; a deadlock, a lost wake-up or a leaked lock then fails the test that has it.
// Thread safety: all of it is for sharing, except MutexLock, which belongs to one thread.
#pragma once

#include "rota/detail/sync.h"

#if defined(__clang__)
#define ROTA_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define ROTA_THREAD_ANNOTATION(x)
#endif
#define ROTA_CAPABILITY(x) ROTA_THREAD_ANNOTATION(capability(x))
#define ROTA_SCOPED_CAPABILITY ROTA_THREAD_ANNOTATION(scoped_lockable)
#define ROTA_GUARDED_BY(x) ROTA_THREAD_ANNOTATION(guarded_by(x))
#define ROTA_PT_GUARDED_BY(x) ROTA_THREAD_ANNOTATION(pt_guarded_by(x))
#define ROTA_REQUIRES(...) ROTA_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ROTA_ACQUIRE(...) ROTA_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define ROTA_RELEASE(...) ROTA_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define ROTA_TRY_ACQUIRE(...) ROTA_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define ROTA_EXCLUDES(...) ROTA_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define ROTA_ASSERT_CAPABILITY(x) ROTA_THREAD_ANNOTATION(assert_capability(x))
#define ROTA_RETURN_CAPABILITY(x) ROTA_THREAD_ANNOTATION(lock_returned(x))
#define ROTA_NO_THREAD_SAFETY_ANALYSIS ROTA_THREAD_ANNOTATION(no_thread_safety_analysis)

#if defined(ROTA_INTERLEAVE) && ROTA_INTERLEAVE
#include "interleave/sync_types.h"
namespace rota::sync::detail {
using RawMutex = interleave::Mutex;
using RawCondVar = interleave::CondVar;
using RawThread = interleave::Thread;
}  // namespace rota::sync::detail
#else
#include <condition_variable>
#include <mutex>
#include <thread>
namespace rota::sync::detail {
using RawMutex = std::mutex;
using RawCondVar = std::condition_variable_any;
using RawThread = std::thread;
}  // namespace rota::sync::detail
#endif

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
  detail::RawMutex raw_;
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

  // Releases `mutex`, sleeps until notified (or spuriously), and holds it again on return.
  void wait(Mutex& mutex) ROTA_REQUIRES(mutex) { raw_.wait(mutex.raw_); }
  // The same with a limit; false only when the time ran out.
  bool wait_for(Mutex& mutex, std::chrono::nanoseconds timeout) ROTA_REQUIRES(mutex) {
    return raw_.wait_for(mutex.raw_, timeout) == std::cv_status::no_timeout;
  }
  template <class Predicate>
  void wait(Mutex& mutex, Predicate done) ROTA_REQUIRES(mutex) {
    while (!done()) wait(mutex);
  }
  void notify_one() { raw_.notify_one(); }
  void notify_all() { raw_.notify_all(); }

 private:
  detail::RawCondVar raw_;
};

// Joins when destroyed, so that no thread outlives what it uses.
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
  detail::RawThread raw_;
};

}  // namespace rota::sync

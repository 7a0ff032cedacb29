// The sync shim: atomics, watched plain variables and the futex. All of Rota's lock-free code accesses shared memory
// through these names.
//
// In a normal build every name is std::atomic or an empty wrapper around the variable, at no cost. With
// ROTA_INTERLEAVE=1 the same names are the interleaving checker's types (src/interleave), so that the real source of a
// deque or a parking protocol runs under the checker without changes. The two builds are never linked together.
//
// Rules for code that runs under the checker:
//   - all shared state is sync::Atomic, sync::Plain, sync::Futex or (base/sync.h) sync::Mutex / sync::CondVar;
//   - a spin loop calls sync::cpu_pause() in each iteration; otherwise the checker reports a livelock;
//   - no thread_local, because the checker's threads are fibers of one OS thread: pass per-thread state as an argument.
// Thread safety: as std::atomic; Plain is deliberately not synchronised.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace rota::sync {

inline constexpr std::size_t kCacheLineBytes = 64;
inline constexpr int kWakeAll = 0x7fffffff;

}  // namespace rota::sync

#if defined(ROTA_INTERLEAVE) && ROTA_INTERLEAVE
#include "interleave/sync_types.h"  // Only in the checker's own test binaries; never installed.
#else

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace rota::sync {

template <class T>
using Atomic = std::atomic<T>;

// A non-atomic variable that a surrounding protocol shares (for example a slot that a flag publishes). The checker
// watches each access for data races; in a normal build it is the bare variable.
template <class T>
class Plain {
 public:
  constexpr Plain() = default;
  constexpr explicit(false) Plain(T value) : value_(std::move(value)) {}
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

  constexpr const T& get() const { return value_; }           // a read
  constexpr void set(T value) { value_ = std::move(value); }  // a write
  constexpr T& mut() { return value_; }                       // a write, through the returned reference
  constexpr T take() { return std::move(value_); }            // a write: moves the value out
  constexpr explicit(false) operator const T&() const { return value_; }
  constexpr Plain& operator=(T value) {
    value_ = std::move(value);
    return *this;
  }

 private:
  T value_{};
};

// Must be called in each iteration of a spin loop: informs the processor, and lets the checker run other threads.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

// Discouraged: ThreadSanitizer does not see fences. Prefer an ordering on the operation.
inline void fence(std::memory_order order) { std::atomic_thread_fence(order); }

// Blocks the OS thread while `word` == expected. Returns at a wake, or spuriously, or at once if it differs.
void futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected);
// The same with a limit (relative, monotonic clock); false only if the time ran out.
bool futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds timeout);
// Wakes up to `count` waiters and returns their number.
int futex_wake(Atomic<std::uint32_t>& word, int count);

// A word on which OS threads sleep. `value` is changed by ordinary atomic operations; code that changes it to the value
// that a waiter waits for must call wake() afterwards. wait() compares and sleeps atomically with respect to wake().
//
// The kernel's compare is not an acquire: read `value` again with the required ordering after wait() has returned.
class Futex {
 public:
  Atomic<std::uint32_t> value;

  Futex() : value(0) {}
  explicit Futex(std::uint32_t initial) : value(initial) {}
  Futex(const Futex&) = delete;
  Futex& operator=(const Futex&) = delete;

  // Sleeps while value == expected; may return spuriously.
  void wait(std::uint32_t expected) { futex_wait(value, expected); }
  // False only if the time ran out.
  bool wait(std::uint32_t expected, std::chrono::nanoseconds timeout) { return futex_wait(value, expected, timeout); }
  int wake(int count) { return futex_wake(value, count); }
  int wake_one() { return wake(1); }
  int wake_all() { return wake(kWakeAll); }
};

}  // namespace rota::sync

#endif  // ROTA_INTERLEAVE

// The types sync::Atomic, sync::Plain, sync::Mutex and the others under ROTA_INTERLEAVE=1: the same interfaces, with
// every operation passed to the checker. Included by rota/detail/sync.h and base/sync.h; not for direct use.
//
// Sizes and alignments are those of the real types, so that code that depends on the layout compiles unchanged.
// Thread safety: none; the checker's threads share one OS thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "base/thread_annotations.h"
#include "interleave/engine.h"

namespace rota::interleave {

// The caller's source position, as a default argument.
#define ROTA_INTERLEAVE_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define ROTA_INTERLEAVE_WHERE \
  ::rota::interleave::Where { file, line }

template <class T>
Value to_value(const T& object) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(Value));
  static_assert(std::has_unique_object_representations_v<T> || std::is_floating_point_v<T>,
                "padding would be compared by compare_exchange");
  Value value;
  std::memcpy(static_cast<void*>(&value), &object, sizeof(T));
  return value;
}

template <class T>
T from_value(const Value& value) {
  alignas(T) unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  return *std::launder(reinterpret_cast<T*>(bytes));
}

// The order of the load that a failed compare-exchange is, as std::atomic derives it.
constexpr std::memory_order failure_order(std::memory_order order) {
  if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
  if (order == std::memory_order_release) return std::memory_order_relaxed;
  return order;
}

template <class T>
class Atomic {
 public:
  using value_type = T;
  static constexpr bool is_always_lock_free = std::atomic<T>::is_always_lock_free;

  Atomic() : Atomic(T{}) {}
  explicit(false) Atomic(T value) : unused_(value) {
    Engine::current().construct(ObjectKind::kAtomic, this, to_value(value), sizeof(T));
  }
  ~Atomic() { Engine::current().destroy(ObjectKind::kAtomic, this); }
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  bool is_lock_free() const { return true; }
  T load(std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) const {
    return from_value<T>(Engine::current().load(this, order, ROTA_INTERLEAVE_WHERE));
  }
  void store(T value, std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) {
    Engine::current().store(this, to_value(value), order, ROTA_INTERLEAVE_WHERE);
  }
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) {
    return modify<T>(order, value, "exchange", [](T, T given) { return given; }, ROTA_INTERLEAVE_WHERE);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order success, std::memory_order failure,
                               ROTA_INTERLEAVE_HERE) {
    return compare_exchange(expected, desired, success, failure, false, ROTA_INTERLEAVE_WHERE);
  }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst,
                               ROTA_INTERLEAVE_HERE) {
    return compare_exchange(expected, desired, order, failure_order(order), false, ROTA_INTERLEAVE_WHERE);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order success, std::memory_order failure,
                             ROTA_INTERLEAVE_HERE) {
    return compare_exchange(expected, desired, success, failure, true, ROTA_INTERLEAVE_WHERE);
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order = std::memory_order_seq_cst,
                             ROTA_INTERLEAVE_HERE) {
    return compare_exchange(expected, desired, order, failure_order(order), true, ROTA_INTERLEAVE_WHERE);
  }

  // Difference is T itself for integers, ptrdiff_t for pointers.
  using Difference = std::conditional_t<std::is_pointer_v<T>, std::ptrdiff_t, T>;
  T fetch_add(Difference by, std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) {
    return modify<Difference>(
        order, by, "fetch_add", [](T old, Difference d) { return static_cast<T>(old + d); }, ROTA_INTERLEAVE_WHERE);
  }
  T fetch_sub(Difference by, std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) {
    return modify<Difference>(
        order, by, "fetch_sub", [](T old, Difference d) { return static_cast<T>(old - d); }, ROTA_INTERLEAVE_WHERE);
  }
  T fetch_and(T bits, std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) {
    return modify<T>(
        order, bits, "fetch_and", [](T old, T b) { return static_cast<T>(old & b); }, ROTA_INTERLEAVE_WHERE);
  }
  T fetch_or(T bits, std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) {
    return modify<T>(
        order, bits, "fetch_or", [](T old, T b) { return static_cast<T>(old | b); }, ROTA_INTERLEAVE_WHERE);
  }
  T fetch_xor(T bits, std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) {
    return modify<T>(
        order, bits, "fetch_xor", [](T old, T b) { return static_cast<T>(old ^ b); }, ROTA_INTERLEAVE_WHERE);
  }

  explicit(false) operator T() const { return load(); }
  T operator=(T value) {
    store(value);
    return value;
  }
  T operator++() { return static_cast<T>(fetch_add(1) + 1); }
  T operator++(int) { return fetch_add(1); }
  T operator--() { return static_cast<T>(fetch_sub(1) - 1); }
  T operator--(int) { return fetch_sub(1); }
  T operator+=(Difference by) { return static_cast<T>(fetch_add(by) + by); }
  T operator-=(Difference by) { return static_cast<T>(fetch_sub(by) - by); }
  T operator&=(T bits) { return static_cast<T>(fetch_and(bits) & bits); }
  T operator|=(T bits) { return static_cast<T>(fetch_or(bits) | bits); }
  T operator^=(T bits) { return static_cast<T>(fetch_xor(bits) ^ bits); }

  void wait(T old, std::memory_order order = std::memory_order_seq_cst, ROTA_INTERLEAVE_HERE) const {
    while (to_value(load(order, file, line)) == to_value(old)) {
      Engine::current().wait_on_value(this, to_value(old), false, ROTA_INTERLEAVE_WHERE);
    }
  }
  void notify_one(ROTA_INTERLEAVE_HERE) { Engine::current().wake(this, 1, ROTA_INTERLEAVE_WHERE); }
  void notify_all(ROTA_INTERLEAVE_HERE) { Engine::current().wake(this, 0x7fffffff, ROTA_INTERLEAVE_WHERE); }

 private:
  template <class Operand>
  struct Context {
    Operand operand;
    T (*apply)(T, Operand);
  };
  template <class Operand>
  T modify(std::memory_order order, Operand operand, const char* what, T (*apply)(T, Operand), Where where) {
    const Context<Operand> context{operand, apply};
    const auto call = [](Value old_value, const void* raw) {
      const auto& c = *static_cast<const Context<Operand>*>(raw);
      return to_value(c.apply(from_value<T>(old_value), c.operand));
    };
    return from_value<T>(Engine::current().modify(this, order, call, &context, what, where));
  }
  bool compare_exchange(T& expected, T desired, std::memory_order success, std::memory_order failure, bool weak,
                        Where where) {
    Value value = to_value(expected);
    const bool done = Engine::current().compare_exchange(this, value, to_value(desired), success, failure, weak, where);
    if (!done) expected = from_value<T>(value);
    return done;
  }

  alignas(std::atomic<T>) T unused_;  // The value is stored in the checker.
};

template <class T>
class Plain {
 public:
  Plain() { Engine::current().construct(ObjectKind::kPlain, this, Value{}, 0); }
  explicit(false) Plain(T value) : value_(std::move(value)) {
    Engine::current().construct(ObjectKind::kPlain, this, Value{}, 0);
  }
  ~Plain() { Engine::current().destroy(ObjectKind::kPlain, this); }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;

  const T& get(ROTA_INTERLEAVE_HERE) const {
    Engine::current().plain_read(this, ROTA_INTERLEAVE_WHERE);
    return value_;
  }
  void set(T value, ROTA_INTERLEAVE_HERE) {
    Engine::current().plain_write(this, ROTA_INTERLEAVE_WHERE);
    value_ = std::move(value);
  }
  T& mut(ROTA_INTERLEAVE_HERE) {
    Engine::current().plain_write(this, ROTA_INTERLEAVE_WHERE);
    return value_;
  }
  T take(ROTA_INTERLEAVE_HERE) {
    Engine::current().plain_write(this, ROTA_INTERLEAVE_WHERE);
    return std::move(value_);
  }
  explicit(false) operator const T&() const {
    Engine::current().plain_read(this, Where{});
    return value_;
  }
  Plain& operator=(T value) {
    Engine::current().plain_write(this, Where{});
    value_ = std::move(value);
    return *this;
  }

 private:
  T value_{};
};

class ROTA_CAPABILITY("mutex") Mutex {
 public:
  Mutex() { Engine::current().construct(ObjectKind::kMutex, this, Value{}, 1); }
  ~Mutex() { Engine::current().destroy(ObjectKind::kMutex, this); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  void lock(ROTA_INTERLEAVE_HERE) ROTA_ACQUIRE() { Engine::current().lock(this, ROTA_INTERLEAVE_WHERE); }
  void unlock(ROTA_INTERLEAVE_HERE) ROTA_RELEASE() { Engine::current().unlock(this, ROTA_INTERLEAVE_WHERE); }
  bool try_lock(ROTA_INTERLEAVE_HERE) ROTA_TRY_ACQUIRE(true) {
    return Engine::current().try_lock(this, ROTA_INTERLEAVE_WHERE);
  }
};

class ROTA_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex, ROTA_INTERLEAVE_HERE) ROTA_ACQUIRE(mutex)
      : mutex_(mutex), where_(ROTA_INTERLEAVE_WHERE) {
    mutex_.lock(file, line);
  }
  ~MutexLock() ROTA_RELEASE() { mutex_.unlock(where_.file, where_.line); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
  const Where where_;
};

class CondVar {
 public:
  CondVar() { Engine::current().construct(ObjectKind::kCondition, this, Value{}, 0); }
  ~CondVar() { Engine::current().destroy(ObjectKind::kCondition, this); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;
  void wait(Mutex& mutex, ROTA_INTERLEAVE_HERE) ROTA_REQUIRES(mutex) {
    Engine::current().wait_on_condition(this, &mutex, false, ROTA_INTERLEAVE_WHERE);
  }
  bool wait_for(Mutex& mutex, std::chrono::nanoseconds, ROTA_INTERLEAVE_HERE) ROTA_REQUIRES(mutex) {
    return Engine::current().wait_on_condition(this, &mutex, true, ROTA_INTERLEAVE_WHERE);
  }
  template <class Predicate>
    requires std::is_invocable_r_v<bool, Predicate&>
  void wait(Mutex& mutex, Predicate done, ROTA_INTERLEAVE_HERE) ROTA_REQUIRES(mutex) {
    while (!done()) wait(mutex, file, line);
  }
  void notify_one(ROTA_INTERLEAVE_HERE) { Engine::current().notify(this, 1, ROTA_INTERLEAVE_WHERE); }
  void notify_all(ROTA_INTERLEAVE_HERE) { Engine::current().notify(this, 0x7fffffff, ROTA_INTERLEAVE_WHERE); }
};

class Thread {
 public:
  Thread() = default;
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Thread>)
  explicit Thread(F&& body, ROTA_INTERLEAVE_HERE) {
    using Body = std::decay_t<F>;
    auto owned = std::make_unique<Body>(std::forward<F>(body));
    const auto entry = [](void* argument) {
      const std::unique_ptr<Body> mine(static_cast<Body*>(argument));
      (*mine)();
    };
    id_ = Engine::current().spawn(entry, owned.release(), ROTA_INTERLEAVE_WHERE);
  }
  Thread(Thread&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Thread& operator=(Thread&& other) {
    join();
    id_ = std::exchange(other.id_, -1);
    return *this;
  }
  ~Thread() { join(); }
  bool joinable() const { return id_ >= 0; }
  void join(ROTA_INTERLEAVE_HERE) {
    if (joinable()) Engine::current().join(std::exchange(id_, -1), ROTA_INTERLEAVE_WHERE);
  }

 private:
  int id_ = -1;
};

// The values of an atomic in its modification order, oldest first.
template <class T>
std::vector<T> modification_order(const Atomic<T>& atomic) {
  std::vector<T> values;
  for (const Value& value : Engine::current().modification_order(&atomic)) values.push_back(from_value<T>(value));
  return values;
}

}  // namespace rota::interleave

namespace rota::sync {

template <class T>
using Atomic = interleave::Atomic<T>;
template <class T>
using Plain = interleave::Plain<T>;

inline void cpu_pause(ROTA_INTERLEAVE_HERE) { interleave::Engine::current().pause(ROTA_INTERLEAVE_WHERE); }
inline void fence(std::memory_order order, ROTA_INTERLEAVE_HERE) {
  interleave::Engine::current().fence(order, ROTA_INTERLEAVE_WHERE);
}
inline void futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected, ROTA_INTERLEAVE_HERE) {
  interleave::Engine::current().wait_on_value(&word, interleave::to_value(expected), false, ROTA_INTERLEAVE_WHERE);
}
inline bool futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds,
                       ROTA_INTERLEAVE_HERE) {
  return interleave::Engine::current().wait_on_value(&word, interleave::to_value(expected), true,
                                                     ROTA_INTERLEAVE_WHERE);
}
inline int futex_wake(Atomic<std::uint32_t>& word, int count, ROTA_INTERLEAVE_HERE) {
  return interleave::Engine::current().wake(&word, count, ROTA_INTERLEAVE_WHERE);
}

class Futex {
 public:
  Atomic<std::uint32_t> value;

  Futex() : value(0) {}
  explicit Futex(std::uint32_t initial) : value(initial) {}
  Futex(const Futex&) = delete;
  Futex& operator=(const Futex&) = delete;

  void wait(std::uint32_t expected, ROTA_INTERLEAVE_HERE) { futex_wait(value, expected, file, line); }
  bool wait(std::uint32_t expected, std::chrono::nanoseconds timeout, ROTA_INTERLEAVE_HERE) {
    return futex_wait(value, expected, timeout, file, line);
  }
  int wake(int count, ROTA_INTERLEAVE_HERE) { return futex_wake(value, count, file, line); }
  int wake_one(ROTA_INTERLEAVE_HERE) { return futex_wake(value, 1, file, line); }
  int wake_all(ROTA_INTERLEAVE_HERE) { return futex_wake(value, 0x7fffffff, file, line); }
};

}  // namespace rota::sync

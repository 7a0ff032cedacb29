// blocking(f): calls a function that blocks its thread, from a task (F-26).
//
//   Result<std::string> text = blocking([] { return slow_library_call(); });
//
// f runs on a helper thread while the task is parked, so the thread worker runs other tasks meanwhile. Its result is
// returned, or its exception rethrown. A helper is not a thread worker: f must not use functions that need a task.
//
// Helpers are created on demand, up to Config::blocking_threads; further calls wait in a FIFO queue. A helper that is
// idle for ten seconds ends.
//
// Cancellation: a call cannot be interrupted. Once f has begun, blocking() returns after f has ended, with its result,
// whether or not the task was cancelled. A call that is still in the queue is removed, f never runs, and Cancelled is
// returned; the same happens if the task is already cancelled.
//
// Errors: Cancelled; ResourceExhausted if there is no helper and none can be created; OutsideRuntime if the caller is
// not a task. In deterministic mode f runs in place, and the only thread waits for it.
#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "rota/fiber/detail/core.h"
#include "rota/result.h"

namespace rota::fiber {

namespace detail {

struct CapContext;

// A call, in the frame of the waiting task.
struct BlockingJob {
  explicit BlockingJob(void (*run_it)(BlockingJob*)) : run(run_it) {}
  BlockingJob(const BlockingJob&) = delete;
  BlockingJob& operator=(const BlockingJob&) = delete;

  void (*run)(BlockingJob*);  // Never throws.
  // The task's runtime and capabilities, which f keeps on the helper thread.
  RuntimeCore* runtime = nullptr;
  CapContext* caps = nullptr;
  // Links of the pool's queue; under its mutex.
  BlockingJob* next = nullptr;
  BlockingJob* previous = nullptr;
  bool queued = false;
  // Shared by the helper and the task; under `lock`.
  SpinLock lock;
  bool done = false;
  Fiber* waiter = nullptr;
};

// Runs the job to its end and returns success; an error means that it never ran.
Result<void> run_blocking(BlockingJob* job);

template <class T>
inline constexpr bool kIsResultType = false;
template <class T>
inline constexpr bool kIsResultType<Result<T>> = true;

template <class F>
struct BlockingCall : BlockingJob {
  using T = std::invoke_result_t<F&>;
  static constexpr bool kVoid = std::is_void_v<T>;

  explicit BlockingCall(F& callable) : BlockingJob(&perform), f(callable) {}

  static void perform(BlockingJob* job) {
    auto* self = static_cast<BlockingCall*>(job);
    try {
      if constexpr (kVoid) {
        self->f();
      } else {
        self->value.emplace(self->f());
      }
    } catch (...) {
      self->error = std::current_exception();
    }
  }

  F& f;
  std::optional<std::conditional_t<kVoid, char, T>> value;
  std::exception_ptr error;
};

}  // namespace detail

// Result<T> for an f that returns T; f's own type if that is a Result; Result<void> for an f that returns an ErrorCode
// or an Error.
template <class F>
auto blocking(F&& f) {
  using Call = detail::BlockingCall<std::remove_reference_t<F>>;
  using T = typename Call::T;
  constexpr bool kError = std::is_same_v<T, ErrorCode> || std::is_same_v<T, Error>;
  using R = std::conditional_t<detail::kIsResultType<T>, T,
                               Result<std::conditional_t<detail::kIsResultType<T> || kError, void, T>>>;
  Call call(f);
  if (Result<void> ran = detail::run_blocking(&call); !ran.ok()) [[unlikely]]
    return R(std::move(ran).take_failure());
  if (call.error != nullptr) [[unlikely]]
    std::rethrow_exception(std::move(call.error));
  if constexpr (Call::kVoid) {
    return R();
  } else {
    if constexpr (std::is_same_v<T, ErrorCode>) {
      return *call.value == ErrorCode::kOk ? R() : R(*call.value);
    } else {
      return R(std::move(*call.value));
    }
  }
}

}  // namespace rota::fiber

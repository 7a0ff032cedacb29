// blocking(f): a call that would block its thread, made from a task (F-26).
//
//   Result<std::string> text = blocking([] { return slow_library_call(); });
//
// f runs on a helper thread while the task is parked, so the worker goes on with other tasks. Its result comes back, or
// its exception is rethrown. A helper is no worker: f must not use what needs a task around it.
//
// Helpers are made when needed, up to Config::blocking_threads; calls beyond that wait in a queue, in their order. A
// helper with nothing to do for ten seconds ends.
//
// Cancellation. A call cannot be interrupted: once f has begun, blocking() returns when f has ended, with its result,
// cancelled or not. A call that is still in the queue is taken out, f never runs, and Cancelled is returned; likewise
// if the task is cancelled already.
//
// Errors: Cancelled; ResourceExhausted, if there is no helper and none can be made; OutsideRuntime, if no task is
// around it. In deterministic mode f runs in place: the one thread waits for it.
#pragma once

#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "rota/fiber/detail/core.h"
#include "rota/result.h"

namespace rota::fiber {

namespace detail {

// A call, in the frame of the task that waits for it.
struct BlockingJob {
  explicit BlockingJob(void (*run_it)(BlockingJob*)) : run(run_it) {}
  BlockingJob(const BlockingJob&) = delete;
  BlockingJob& operator=(const BlockingJob&) = delete;

  void (*run)(BlockingJob*);  // Never throws.
  // In the pool's queue; under its mutex.
  BlockingJob* next = nullptr;
  BlockingJob* previous = nullptr;
  bool queued = false;
  // Between the helper and the task; under `lock`.
  SpinLock lock;
  bool done = false;
  Fiber* waiter = nullptr;
  RuntimeCore* runtime = nullptr;
};

// Runs the job to its end and returns nothing wrong; or it never ran.
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

// Result<T> for an f that returns T; what f returns if that is a Result itself.
template <class F>
auto blocking(F&& f) {
  using Call = detail::BlockingCall<std::remove_reference_t<F>>;
  using T = typename Call::T;
  using R =
      std::conditional_t<detail::kIsResultType<T>, T, Result<std::conditional_t<detail::kIsResultType<T>, void, T>>>;
  Call call(f);
  if (Result<void> ran = detail::run_blocking(&call); !ran.ok()) [[unlikely]]
    return R(std::move(ran).take_failure());
  if (call.error != nullptr) [[unlikely]]
    std::rethrow_exception(std::move(call.error));
  if constexpr (Call::kVoid) {
    return R();
  } else {
    return R(std::move(*call.value));
  }
}

}  // namespace rota::fiber

// Debug builds: finds a task that still refers to a variable of its scope's body after the body has returned.
//
//   with_scope([](Nursery& nursery) {
//     int sum = 0;
//     nursery.launch([&sum] { sum = 1; });
//   });                                     // `sum` is gone here; only then the scope waits for the task.
//
// The closure of such a task contains an address in the frame of the body. This is looked for when the task is spawned
// (in closures that are trivially copyable, as those that capture by reference are: others may contain leftovers that
// look like addresses); the closure then counts until it is destroyed. If such a closure is left when the body returns
// or throws, a message on stderr says what to do. A task that the body has joined is no longer counted. It is a message
// and not an assertion, because a task that keeps such an address without using it any more does no harm.
//
// Only with_scope() and with_deadline() are checked: the frame of a body is known. In release builds nothing is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "rota/assert.h"
#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// body_check.cc. Counts the closures that refer to the body of `core`.
void count_body_capture(const NurseryCore* core, int change);
// Writes the message if there is one.
void check_body_captures(const NurseryCore* core);

#if ROTA_DASSERTS_ENABLED && !ROTA_METERED

// The body of a scope that is running on a fiber; in the frame that calls it.
struct BodyFrame {
  BodyFrame(const NurseryCore* of, const void* end)
      : core(of), high(reinterpret_cast<std::uintptr_t>(end)), fiber(current_worker()->fiber), outer(fiber->bodies) {
    fiber->bodies = this;
  }
  ~BodyFrame() { fiber->bodies = outer; }
  BodyFrame(const BodyFrame&) = delete;
  BodyFrame& operator=(const BodyFrame&) = delete;

  const NurseryCore* core;
  std::uintptr_t high;  // The frames of the body lie below.
  Fiber* fiber;
  BodyFrame* outer;
};

// True if the object contains an address in the frames between this one and the body of `core`.
[[gnu::noinline]] inline bool refers_to_body(const NurseryCore* core, const void* object, std::size_t bytes) {
  const ThreadWorker* worker = current_worker();
  if (core->owner != worker->fiber) return false;  // Another stack.
  const BodyFrame* frame = worker->fiber->bodies;
  while (frame != nullptr && frame->core != core) frame = frame->outer;
  if (frame == nullptr) return false;
  const auto low = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(object) + at, sizeof word);
    if (word > low && word < frame->high) return true;
  }
  return false;
}

// The closure of a task, counted while it refers to the body of its scope.
template <class F>
struct WatchedClosure {
  template <class G>
    requires(!std::is_same_v<std::remove_cvref_t<G>, WatchedClosure>)
  explicit(false) WatchedClosure(G&& g) : f(std::forward<G>(g)) {}
  ~WatchedClosure() {
    if (scope != nullptr) count_body_capture(scope, -1);
  }
  WatchedClosure(const WatchedClosure&) = delete;
  WatchedClosure& operator=(const WatchedClosure&) = delete;

  void watch(const NurseryCore* core) {
    if (!refers_to_body(core, &f, sizeof f)) return;
    count_body_capture(core, 1);
    scope = core;
  }
  auto operator()() -> std::invoke_result_t<F> { return std::move(f)(); }

  F f;
  const NurseryCore* scope = nullptr;
};
template <class F>
inline constexpr bool kIsWatched = std::is_trivially_copyable_v<F> && sizeof(F) >= sizeof(void*);
template <class F>
using ClosureOf = std::conditional_t<kIsWatched<F>, WatchedClosure<F>, F>;

// Calls the body of a scope, in a frame of its own.
template <class F, class N>
[[gnu::noinline]] auto call_body(F&& body, N& nursery) -> std::invoke_result_t<F, N&> {
  struct Checked {  // After the variables of the body are destroyed, however it ends.
    const NurseryCore* core;
    ~Checked() { check_body_captures(core); }
  } checked{nursery.core()};
  const BodyFrame frame(nursery.core(), __builtin_frame_address(0));
  return std::forward<F>(body)(nursery);
}

#else

template <class F>
inline constexpr bool kIsWatched = false;
template <class F>
using ClosureOf = F;

template <class F, class N>
[[gnu::always_inline]] inline auto call_body(F&& body, N& nursery) -> std::invoke_result_t<F, N&> {
  return std::forward<F>(body)(nursery);
}

#endif

}  // namespace rota::fiber::detail

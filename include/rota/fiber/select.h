// select(): performs the first of several sends and receives that is possible (F-24).
//
//   select(on_receive(requests, [&](std::optional<Request> r) { ... }),     // nothing: closed and drained
//          on_send(answers, std::move(answer), [&](bool sent) { ... }),     // false: closed
//          after(10ms, [&] { ... }));
//
// Exactly one case is performed, and then its handler runs, on the caller's stack, without a lock. If several are
// possible, each is equally likely, drawn from the runtime's seed. With otherwise(f) it does not wait: f runs if no
// case is possible at once. Returns the position of the case that was performed.
//
// A closed channel is ready: a receive gets no value, a send does not happen. The handler of a send may omit the bool;
// then a closed channel throws FiberError(Closed). A case whose channel was moved from is never performed.
//
// It is a cancellation point and needs a task, like send() and receive(); it costs one channel operation. With
// std::nothrow as its first argument it returns a Result, with Cancelled or BudgetExhausted instead of an exception.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "rota/fiber/cancel.h"
#include "rota/fiber/channel.h"

namespace rota::fiber {

namespace detail {

struct DoNothing {
  void operator()() const {}
};

template <class T, class F>
struct ReceiveCase {
  ChannelCore* channel;
  F handler;
  std::optional<T> value{};

  SelectCase plain() { return {.channel = channel, .value = &value}; }
  void happened(const SelectCase&) { std::invoke(handler, std::move(value)); }
};

template <class T, class F>
struct SendCase {
  ChannelCore* channel;
  T value;
  F handler;

  SelectCase plain() { return {.channel = channel, .value = std::addressof(value), .send = true}; }
  void happened(const SelectCase& it) {
    const bool sent = it.status == ChannelStatus::kDone;
    if constexpr (std::is_invocable_v<F&, bool>) {
      std::invoke(handler, sent);
    } else {
      if (!sent) throw_error(ErrorCode::kClosed, "a select's send found its channel closed");
      std::invoke(handler);
    }
  }
};

// The case that is performed when a token is cancelled: its channel is closed then.
template <class F>
struct TokenCase {
  CancelToken token;
  F handler;
  std::optional<std::monostate> nothing{};

  SelectCase plain() { return {.channel = token.done_channel(), .value = &nothing}; }
  void happened(const SelectCase&) {
    if constexpr (std::is_invocable_v<F&, CancelReason>) {
      std::invoke(handler, token.reason());
    } else {
      std::invoke(handler);
    }
  }
};

// The case that is performed when no other one is in time.
template <class F>
struct TimeoutCase {
  std::chrono::nanoseconds limit;
  F handler;

  SelectCase plain() { return {}; }
  void happened(const SelectCase&) { std::invoke(handler); }
};

template <class C>
inline constexpr bool kIsTimeout = false;
template <class F>
inline constexpr bool kIsTimeout<TimeoutCase<F>> = true;

}  // namespace detail

// The channel must live until select() returns; a temporary in the same expression does.
template <class T, class F>
  requires std::is_invocable_v<F&, std::optional<T>>
[[nodiscard]] auto on_receive(const Channel<T>& channel, F handler) {
  return detail::ReceiveCase<T, F>{channel.core(), std::move(handler)};
}
template <class T, class F = detail::DoNothing>
  requires(std::is_invocable_v<F&> || std::is_invocable_v<F&, bool>)
[[nodiscard]] auto on_send(const Channel<T>& channel, std::type_identity_t<T> value, F handler = {}) {
  return detail::SendCase<T, F>{channel.core(), std::move(value), std::move(handler)};
}
// The handler gets the reason, or nothing.
template <class F = detail::DoNothing>
  requires(std::is_invocable_v<F&> || std::is_invocable_v<F&, CancelReason>)
[[nodiscard]] auto on_cancelled(const CancelToken& token, F handler = {}) {
  return detail::TokenCase<F>{token, std::move(handler)};
}
// At most one of these two per select().
template <class F = detail::DoNothing>
[[nodiscard]] auto after(std::chrono::nanoseconds limit, F handler = {}) {
  return detail::TimeoutCase<F>{limit, std::move(handler)};
}
template <class F = detail::DoNothing>
[[nodiscard]] auto otherwise(F handler = {}) {
  return detail::TimeoutCase<F>{std::chrono::nanoseconds(0), std::move(handler)};
}

namespace detail {

// The index of the performed case, or kCancelledCase.
template <class... Cases>
std::size_t select_and_run(Leave leave, Cases&... cases) {
  constexpr std::size_t kCount = sizeof...(Cases);
  constexpr std::size_t kTimeouts = (std::size_t{0} + ... + (detail::kIsTimeout<Cases> ? 1 : 0));
  static_assert(kCount > 0, "a select needs a case");
  static_assert(kTimeouts <= 1, "a select has one after() or one otherwise() at most");
  std::array<detail::SelectCase, kCount> plain{cases.plain()...};
  std::optional<std::chrono::nanoseconds> limit;
  std::size_t timeout_at = 0;
  std::size_t at = 0;
  const auto look = [&]<class C>(const C& it) {
    if constexpr (detail::kIsTimeout<C>) {
      limit = it.limit;
      timeout_at = at;
    }
    ++at;
  };
  (look(cases), ...);
  std::size_t chosen = detail::select_case(plain.data(), kCount, limit ? &*limit : nullptr, leave);
  if (chosen == detail::kCancelledCase) return chosen;
  if (chosen == detail::kNoCase) chosen = timeout_at;
  at = 0;
  const auto run = [&](auto& it) {
    if (at++ == chosen) it.happened(plain[chosen]);
  };
  (run(cases), ...);
  return chosen;
}

}  // namespace detail

template <class... Cases>
  requires(!(std::is_same_v<Cases, std::nothrow_t> || ...))
std::size_t select(Cases... cases) {
  return detail::select_and_run(detail::Leave::kThrow, cases...);
}
template <class... Cases>
Result<std::size_t> select(std::nothrow_t, Cases... cases) {
  const std::size_t chosen = detail::select_and_run(detail::Leave::kReturn, cases...);
  if (chosen == detail::kCancelledCase) return detail::cancel_code();
  return chosen;
}

}  // namespace rota::fiber

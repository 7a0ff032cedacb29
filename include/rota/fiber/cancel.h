// CancelToken: a cancellation that can be observed, waited for, linked and used with callbacks (F-8).
//
// A token is a shared reference: copies are the same cancellation. It may be linked to any number of parents, and is
// cancelled with reason Parent when one of them is. A link lives as long as it can matter: a token whose last copy is
// gone still passes a cancellation on to its own children and callbacks. A token without copies, children and callbacks
// is removed from its parents, so a long-lived parent does not accumulate what was once linked to it.
//
// A callback runs exactly once, and only on cancellation; a callback added to a cancelled token runs at once. It runs
// on the thread that cancels, which for a deadline may be the runtime's timekeeper: keep it short.
//
// Thread safety: every member may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>

#include "rota/fiber/state.h"
#include "rota/result.h"

namespace rota::fiber {

namespace detail {
struct TokenHandle;
struct ChannelCore;
}  // namespace detail

class CancelToken {
 public:
  CancelToken();                                                     // Not linked to anything.
  explicit CancelToken(std::initializer_list<CancelToken> parents);  // Cancelled when one of them is.
  explicit CancelToken(std::shared_ptr<detail::TokenHandle> handle) : handle_(std::move(handle)) {}

  [[nodiscard]] bool is_cancelled() const;
  [[nodiscard]] CancelReason reason() const;
  // True for the call that cancelled the token, false if it was already cancelled.
  bool cancel(CancelReason reason = CancelReason::kExplicit);
  // Runs `f` once when the token is cancelled. off_cancel(id) removes it: true if it will never run; if it is running
  // on another thread, waits for its end and returns false. Both are O(1). `f` runs where the cancellation happens; at
  // a deadline that is a thread of the runtime, where a call that needs a task or would block is OutsideRuntime.
  std::uint64_t on_cancel(std::function<void()> f);
  bool off_cancel(std::uint64_t id);
  // Makes this token a child of `parent` as well. A token that is its own ancestor is cancelled as usual; such a circle
  // keeps its tokens in memory until it is cancelled.
  void link(const CancelToken& parent);

  // Waits until the token is cancelled, and returns the reason. Parks a task; blocks any other thread. Throws Cancelled
  // if the waiting task is itself cancelled. select() has on_cancelled() for the same.
  CancelReason wait() const;
  // The same; returns Cancelled instead of throwing it.
  [[nodiscard]] Result<CancelReason> wait(std::nothrow_t) const;
  // False if it was not cancelled within `limit`.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit) const;

  // Cancelled, with the reason as a detail, or success.
  [[nodiscard]] Result<void> check() const;

  bool operator==(const CancelToken& other) const { return handle_ == other.handle_; }

  // For select(): a channel that is closed when the token is cancelled, and that lives as long as this copy.
  [[nodiscard]] detail::ChannelCore* done_channel() const;

 private:
  std::shared_ptr<detail::TokenHandle> handle_;
};

// The current task's token: cancelled when the task or a scope around it is. REQUIRES: in a task.
CancelToken current_token();

// Cancelled if the current task is being cancelled. Always success outside the runtime.
[[nodiscard]] Result<void> check_cancelled();
[[nodiscard]] bool is_cancelled();

}  // namespace rota::fiber

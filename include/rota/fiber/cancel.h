// CancelToken: a cancellation that can be observed, waited for, linked and used with callbacks (F-8).
//
// A token is a shared reference: copies are the same cancellation. It may be linked to any number of parents, and is
// cancelled with reason Parent when one of them is. A callback runs exactly once, on the cancelling thread, and only on
// cancellation; a callback added to a cancelled token runs at once.
//
// Thread safety: every member may be called from any thread.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>

#include "rota/fiber/state.h"
#include "rota/result.h"

namespace rota::fiber {

namespace detail {
struct TokenState;
}

class CancelToken {
 public:
  CancelToken();                                                     // Not linked to anything.
  explicit CancelToken(std::initializer_list<CancelToken> parents);  // Cancelled when one of them is.
  explicit CancelToken(std::shared_ptr<detail::TokenState> state) : state_(std::move(state)) {}

  [[nodiscard]] bool is_cancelled() const;
  [[nodiscard]] CancelReason reason() const;
  // True for the call that cancelled the token, false if it was already cancelled.
  bool cancel(CancelReason reason = CancelReason::kExplicit);
  // Runs `f` once when the token is cancelled. off_cancel(id) removes it: true if it will never run; if it is running
  // on another thread, waits for its end and returns false.
  std::uint64_t on_cancel(std::function<void()> f);
  bool off_cancel(std::uint64_t id);
  // Makes this token a child of `parent` as well.
  void link(const CancelToken& parent);

  // Cancelled, with the reason as a detail, or success.
  [[nodiscard]] Result<void> check() const;

  bool operator==(const CancelToken& other) const { return state_ == other.state_; }

 private:
  std::shared_ptr<detail::TokenState> state_;
};

// The current task's token: cancelled when the task or a scope around it is. REQUIRES: in a task.
CancelToken current_token();

// Cancelled if the current task is being cancelled. Always success outside the runtime.
[[nodiscard]] Result<void> check_cancelled();
[[nodiscard]] bool is_cancelled();

}  // namespace rota::fiber

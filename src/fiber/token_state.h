// The shared state of a CancelToken.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/sync.h"
#include "rota/fiber/state.h"

namespace rota::fiber::detail {

// Callbacks and children are removed under the mutex and used outside it, so a callback may do anything, including
// adding callbacks and dropping tokens. Children are weak references: a token that nobody holds is not kept alive.
struct TokenState {
  sync::Mutex mutex;
  sync::CondVar idle;
  sync::Atomic<CancelReason> reason{CancelReason::kNone};
  std::uint64_t next_id = 1;
  struct Callback {
    std::uint64_t id;
    std::function<void()> call;
  };
  std::vector<Callback> callbacks;
  std::vector<std::weak_ptr<TokenState>> children;
  std::uint64_t running_id = 0;  // The running callback, and its thread.
  std::size_t running_thread = 0;
};

// True for the call that cancelled the token.
bool cancel_token(const std::shared_ptr<TokenState>& token, CancelReason reason);

}  // namespace rota::fiber::detail

// What a CancelToken refers to.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/sync.h"
#include "rota/fiber/state.h"

namespace rota::fiber::detail {

// Callbacks and children are taken out under the mutex and used outside it, so that a callback may do anything,
// including adding callbacks and dropping tokens. A child is known weakly: a token nobody holds is not kept for it.
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
  std::uint64_t running_id = 0;  // The callback that runs just now, and on which thread.
  std::size_t running_thread = 0;
};

// True for the call that cancelled it.
bool cancel_token(const std::shared_ptr<TokenState>& token, CancelReason reason);

}  // namespace rota::fiber::detail

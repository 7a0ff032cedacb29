// What a CancelToken refers to: a reason, callbacks, and the links to parents and children.
//
// Ownership. Every copy of a CancelToken shares one TokenHandle, which owns its TokenState. A parent owns its children;
// a child knows its parents weakly. So a token in the middle of a chain stays as long as the token above it, whether or
// not a handle of it is left. A token that nobody can notice any more (no handle, no callback, no child: unobserved())
// is taken out of its parents at once, and so are the parents that this makes unobserved.
//
// Invariants, under a token's own mutex:
//   (1) `reason` is set once; then `children`, `parents` and the callbacks are taken out, and nothing is added any more
//   (2) a link of an uncancelled child that names a living, uncancelled, undissolved parent is an element of that
//       parent's `children`
//   (3) `held` is true while there is a handle; only a holder of a handle adds children, parents and callbacks, so an
//       unobserved token stays unobserved
// No function here holds two mutexes at once, or a mutex while user code runs or is destroyed. A cancellation passes
// from a parent to a child that is being linked: link_token() adds the child under the parent's mutex or finds the
// parent cancelled under the same mutex.
//
// Nothing recurses, because chains of tokens have any length, and nothing that cancels or drops allocates.
// token_interleave_test.cc runs this code under the checker.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "base/sync.h"
#include "rota/fiber/state.h"

namespace rota::fiber::detail {

struct ChannelCore;
struct TokenState;
using TokenRef = std::shared_ptr<TokenState>;

// The callbacks of a token: slots with generations, in a list in the order in which they were added.
class TokenCallbacks {
 public:
  std::uint64_t add(std::function<void()>&& call);
  // The callback, if it is still there.
  bool take(std::uint64_t id, std::function<void()>& out);
  // The oldest one and its id; false if there is none.
  bool take_first(std::uint64_t& id, std::function<void()>& out);
  [[nodiscard]] bool empty() const { return first_ == kNone; }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Slot {
    std::function<void()> call;
    std::uint32_t generation = 0;  // Odd while it is in use.
    std::uint32_t next = kNone;    // Of the list, or of the free slots.
    std::uint32_t previous = kNone;
  };
  void remove(std::uint32_t index, std::function<void()>& out);

  std::vector<Slot> slots_;
  std::uint32_t first_ = kNone;
  std::uint32_t last_ = kNone;
  std::uint32_t free_ = kNone;
};

struct TokenState {
  using Children = std::list<TokenRef>;
  struct Link {
    std::weak_ptr<TokenState> parent;
    Children::iterator at;
  };

  TokenState() = default;
  ~TokenState();
  TokenState(const TokenState&) = delete;
  TokenState& operator=(const TokenState&) = delete;

  sync::Mutex mutex;
  sync::CondVar idle;  // A callback has ended.
  sync::Atomic<CancelReason> reason{CancelReason::kNone};
  // Under the mutex:
  bool held = true;
  bool dissolved = false;  // Its children were taken out because nothing can cancel it any more.
  TokenCallbacks callbacks;
  Children children;
  std::list<Link> parents;
  std::uint64_t running_id = 0;  // The running callback, and who runs it.
  std::uintptr_t running_on = 0;
  ChannelCore* done = nullptr;  // Closed at the cancellation; created when somebody first waits.

  [[nodiscard]] bool unobserved() const { return !held && callbacks.empty() && children.empty(); }
};

struct TokenHandle {
  TokenHandle() : state(std::make_shared<TokenState>()) {}
  ~TokenHandle();
  TokenHandle(const TokenHandle&) = delete;
  TokenHandle& operator=(const TokenHandle&) = delete;

  const TokenRef state;
  // Of TokensToCancel.
  sync::Atomic<bool> collected{false};
  std::shared_ptr<TokenHandle> next;
  CancelReason why = CancelReason::kNone;
};

// True for the call that cancelled the token.
bool cancel_token(const TokenRef& token, CancelReason reason) noexcept;
// Makes `child` a child of `parent`. REQUIRES: the caller has a handle of both.
void link_token(const TokenRef& child, const TokenRef& parent);
// Returns 0, without storing `f`, if the token is already cancelled.
std::uint64_t add_callback(TokenState& token, std::function<void()>& f);
// As CancelToken::off_cancel().
bool remove_callback(TokenState& token, std::uint64_t id);

// Provided by the runtime; the checker's tests have their own.
std::uintptr_t token_thread();  // Identifies the running task, or the thread if there is none.
// Calls a callback, and destroys it.
void run_callback(std::function<void()> call) noexcept;
// Drops a handle where no task need be running: with the last one, callbacks that never ran are destroyed.
void release_token(std::shared_ptr<TokenHandle> token) noexcept;
void wait_for_callback(TokenState& token) ROTA_REQUIRES(token.mutex);
void close_done(ChannelCore* done) noexcept;
void free_done(ChannelCore* done) noexcept;

// Tokens to be cancelled after the locks under which they were found are released. A chain through the handles, because
// a cancellation must not fail for lack of memory; a token that two cancellers find at once is left to the first.
class TokensToCancel {
 public:
  TokensToCancel() = default;
  ~TokensToCancel() { cancel_all(); }
  TokensToCancel(const TokensToCancel&) = delete;
  TokensToCancel& operator=(const TokensToCancel&) = delete;

  void add(const std::shared_ptr<TokenHandle>& token, CancelReason reason) {
    // acq_rel: the chain belongs to the canceller that sets the mark.
    if (token->collected.exchange(true, std::memory_order_acq_rel)) return;
    token->why = reason;
    token->next = std::move(first_);
    first_ = token;
  }
  void cancel_all() noexcept {
    while (first_ != nullptr) {
      const std::shared_ptr<TokenHandle> token = std::move(first_);
      first_ = std::move(token->next);
      cancel_token(token->state, token->why);
    }
  }

 private:
  std::shared_ptr<TokenHandle> first_;
};

}  // namespace rota::fiber::detail

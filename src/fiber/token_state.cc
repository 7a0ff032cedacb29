// Cancelling tokens, linking them, and dropping what nobody can notice. See token_state.h.
#include "fiber/token_state.h"

#include <utility>

namespace rota::fiber::detail {

namespace {

using Children = TokenState::Children;
using Links = std::list<TokenState::Link>;

// Runs the token's callbacks one at a time; one that was removed meanwhile is not run.
void run_callbacks(TokenState& token) {
  for (;;) {
    std::function<void()> call;
    {
      sync::MutexLock lock(token.mutex);
      std::uint64_t id = 0;
      if (!token.callbacks.take_first(id, call)) return;
      token.running_id = id;
      token.running_on = token_thread();
    }
    run_callback(std::move(call));
    sync::MutexLock lock(token.mutex);
    token.running_id = 0;
    token.idle.notify_all();
  }
}

// Cancels one token; what is to be cancelled next and where it was linked is appended to `pending` and `links`.
bool cancel_one(TokenState& token, CancelReason reason, Children& pending, Links& links) {
  ChannelCore* done = nullptr;
  {
    sync::MutexLock lock(token.mutex);
    if (token.reason.load(std::memory_order_relaxed) != CancelReason::kNone) return false;
    // Release, partner: the acquire in CancelToken::reason(): what preceded the cancellation is visible.
    token.reason.store(reason, std::memory_order_release);
    pending.splice(pending.end(), token.children);
    links.splice(links.end(), token.parents);
    done = token.done;
  }
  if (done != nullptr) close_done(done);  // Stays with the token: closing it twice would be harmless, freeing not.
  run_callbacks(token);
  return true;
}

// Removes the children that `links` name from their parents, and the parents that become unobserved from theirs.
void unlink_all(Links& links) {
  Children dropped;  // Destroyed when no mutex is held.
  while (!links.empty()) {
    Links one;
    one.splice(one.begin(), links, links.begin());
    const TokenRef parent = one.front().parent.lock();
    if (parent == nullptr) continue;
    sync::MutexLock lock(parent->mutex);
    // Invariants (1) and (2): a parent that is cancelled or dissolved does not have the element any more.
    if (parent->reason.load(std::memory_order_relaxed) != CancelReason::kNone || parent->dissolved) continue;
    dropped.splice(dropped.end(), parent->children, one.front().at);
    if (parent->unobserved()) links.splice(links.end(), parent->parents);
  }
}

void drop_if_unobserved(TokenState& token) {
  Links links;
  {
    sync::MutexLock lock(token.mutex);
    if (!token.unobserved()) return;
    links.splice(links.end(), token.parents);
  }
  unlink_all(links);
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------- callbacks

std::uint64_t TokenCallbacks::add(std::function<void()>&& call) {
  if (free_ == kNone) {
    slots_.emplace_back();
    free_ = static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t index = free_;
  Slot& slot = slots_[index];
  free_ = slot.next;
  slot.call = std::move(call);
  ++slot.generation;
  slot.next = kNone;
  slot.previous = last_;
  (last_ == kNone ? first_ : slots_[last_].next) = index;
  last_ = index;
  return (std::uint64_t{slot.generation} << 32) | index;
}

void TokenCallbacks::remove(std::uint32_t index, std::function<void()>& out) {
  Slot& slot = slots_[index];
  (slot.previous == kNone ? first_ : slots_[slot.previous].next) = slot.next;
  (slot.next == kNone ? last_ : slots_[slot.next].previous) = slot.previous;
  out = std::move(slot.call);
  slot.call = nullptr;
  ++slot.generation;
  slot.next = free_;
  free_ = index;
}

bool TokenCallbacks::take(std::uint64_t id, std::function<void()>& out) {
  const auto index = static_cast<std::uint32_t>(id);
  // An id has an odd generation, so neither 0 nor an id whose callback is gone is found.
  if (index >= slots_.size() || slots_[index].generation != id >> 32 || (id >> 32) % 2 == 0) return false;
  remove(index, out);
  return true;
}

bool TokenCallbacks::take_first(std::uint64_t& id, std::function<void()>& out) {
  if (first_ == kNone) return false;
  id = (std::uint64_t{slots_[first_].generation} << 32) | first_;
  remove(first_, out);
  return true;
}

// ------------------------------------------------------------------------------------------------------------- tokens

TokenState::~TokenState() {
  // Without recursion: the children that only this token owned are taken apart here, one after the other. A child of
  // such a child may be dropping itself at the same time; `dissolved` tells it that its link is gone.
  Children doomed;
  doomed.swap(children);
  while (!doomed.empty()) {
    const TokenRef child = std::move(doomed.front());
    doomed.pop_front();
    if (child.use_count() != 1) continue;  // Another parent or a handle has it, or will destroy it.
    sync::MutexLock lock(child->mutex);
    child->dissolved = true;
    doomed.splice(doomed.end(), child->children);
  }
  if (done != nullptr) free_done(done);
}

TokenHandle::~TokenHandle() {
  {
    sync::MutexLock lock(state->mutex);
    state->held = false;
  }
  drop_if_unobserved(*state);
}

bool cancel_token(const TokenRef& token, CancelReason reason) noexcept {
  Children pending;
  Links links;
  const bool won = cancel_one(*token, reason, pending, links);
  while (!pending.empty()) {
    Children one;
    one.splice(one.begin(), pending, pending.begin());
    cancel_one(*one.front(), CancelReason::kParent, pending, links);
    // A child that has no handle ends here; its own children are in `pending`.
  }
  unlink_all(links);
  return won;
}

void link_token(const TokenRef& child, const TokenRef& parent) {
  TokenState::Children::iterator at;
  bool cancelled = false;
  {
    Children element{child};  // Before the lock: it allocates.
    at = element.begin();
    sync::MutexLock lock(parent->mutex);
    cancelled = parent->reason.load(std::memory_order_relaxed) != CancelReason::kNone;
    if (!cancelled) parent->children.splice(parent->children.end(), element);
  }
  if (cancelled) {
    cancel_token(child, CancelReason::kParent);
    return;
  }
  Links link;
  link.push_back({parent, at});
  {
    sync::MutexLock lock(child->mutex);
    // A child that is already cancelled needs no link.
    if (child->reason.load(std::memory_order_relaxed) == CancelReason::kNone) {
      child->parents.splice(child->parents.end(), link);
    }
  }
  unlink_all(link);
}

std::uint64_t add_callback(TokenState& token, std::function<void()>& f) {
  sync::MutexLock lock(token.mutex);
  if (token.reason.load(std::memory_order_relaxed) != CancelReason::kNone) return 0;
  return token.callbacks.add(std::move(f));
}

bool remove_callback(TokenState& token, std::uint64_t id) {
  std::function<void()> call;  // Destroyed outside the lock.
  sync::MutexLock lock(token.mutex);
  if (token.callbacks.take(id, call)) return true;
  // A callback that removes itself must not wait for its own end.
  while (id != 0 && token.running_id == id && token.running_on != token_thread()) wait_for_callback(token);
  return false;
}

}  // namespace rota::fiber::detail

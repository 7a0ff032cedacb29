// The tree along which a cancellation spreads: the registry of tasks that have blocked, the links between nurseries,
// the marks and the epoch. docs/fibers.md ("Cancellation: a registry and an epoch") argues why no task is missed.
//
// A file of its own, so that the interleaving checker can run it (cancel_tree_interleave_test.cc).
#include <mutex>

#include "fiber/runtime_core.h"
#include "fiber/token_state.h"

namespace rota::fiber::detail {

namespace {

// Sets the nursery's mark. False if it was already set.
bool mark_cancelled(NurseryCore* core, CancelReason reason) {
  end_fast_spawns(core);
  CancelReason none = CancelReason::kNone;
  if (!core->cancel.compare_exchange_strong(none, reason, std::memory_order_seq_cst)) return false;
  note_cancellation();
  NurseryState state = core->state.load(std::memory_order_relaxed);
  while ((state == NurseryState::kOpen || state == NurseryState::kClosing) &&
         !core->state.compare_exchange_weak(state, NurseryState::kCancelling, std::memory_order_acq_rel)) {
  }
  return true;
}

void wake_cancelled(Fiber* fiber) {
  if (fiber != nullptr && cancel_wake(fiber)) schedule(fiber);
}

void wake_registered(NurseryExtras* extras, CancelReason reason, TokensToCancel& tokens) {
  const std::size_t count = extras->registry.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 4 < count) __builtin_prefetch(&extras->registry[i + 4].fiber->claim, 1);
    wake_cancelled(extras->registry[i].fiber);
  }
  if (extras->scope_token != nullptr) tokens.add(extras->scope_token, reason);
  if (extras->task_tokens == nullptr) return;
  for (const std::shared_ptr<TokenHandle>& token : extras->task_tokens->in_order()) {
    tokens.add(token, reason);  // As cancel_reason_of() says, also if another task cancels it first.
  }
}

// Cancels `top` and every linked nursery below it. Descends with the locks of the path held, from the outside inwards,
// and without recursion, because the depth is up to the user. REQUIRES: top's own lock is held if it has extras; `only`
// limits the nurseries directly below `top` to that task's.
void cancel_below(NurseryCore* top, const TaskRecord* only, TokensToCancel& tokens) {
  NurseryExtras* extras = peek_extras(top);
  if (extras == nullptr) return;
  NurseryCore* at = extras->first_nested;
  NurseryCore* above = top;
  for (;;) {
    if (at == nullptr) {
      if (above == top) return;
      at = above;
      above = parent_of(at);
      NurseryExtras* done = at->extras.load(std::memory_order_relaxed);
      done->lock.unlock();
      at = done->next_nested;
      continue;
    }
    NurseryExtras* below = at->extras.load(std::memory_order_relaxed);
    if ((above == top && only != nullptr && at->owner_task != only) || !mark_cancelled(at, CancelReason::kParent)) {
      at = below->next_nested;
      continue;
    }
    below->lock.lock();
    wake_cancelled(at->owner);
    wake_registered(below, CancelReason::kParent, tokens);
    above = at;
    at = below->first_nested;
  }
}

// cancel_nursery(); the tokens are left to the caller, to be cancelled when it holds nothing.
void cancel_collecting(NurseryCore* core, CancelReason reason, TokensToCancel& tokens);

// Adds `core` to its parent's list. REQUIRES: the parent is linked.
void link_one(NurseryCore* core, TokensToCancel& tokens) {
  NurseryCore* parent = parent_of(core);
  NurseryExtras* extras = extras_of(core);
  if (parent == nullptr) {
    extras->linked.store(true, std::memory_order_release);
    return;
  }
  NurseryExtras* above = extras_of(parent);
  bool inherits = false;
  {
    std::lock_guard guard(above->lock);
    if (extras->linked.load(std::memory_order_relaxed)) return;
    extras->next_nested = above->first_nested;
    extras->previous_nested = nullptr;
    if (above->first_nested != nullptr) {
      above->first_nested->extras.load(std::memory_order_relaxed)->previous_nested = core;
    }
    above->first_nested = core;
    extras->linked.store(true, std::memory_order_release);
    inherits = parent->cancel.load(std::memory_order_seq_cst) != CancelReason::kNone ||
               (core->owner_task != nullptr && core->owner_task->nursery == parent &&
                (core->owner_task->cancel.load(std::memory_order_seq_cst) & 0x0f) != 0);
  }
  if (inherits) cancel_collecting(core, CancelReason::kParent, tokens);
}

// The runtime's cancel epoch.
sync::Atomic<std::uint32_t>& epoch_of(const NurseryCore* core) {
  for (;;) {
    const NurseryCore* parent = parent_of(core);
    if (parent == nullptr) return *static_cast<const RootNursery*>(core)->epoch;
    core = parent;
  }
}

}  // namespace

void unlink_nursery(NurseryCore* core, NurseryExtras* extras) {
  NurseryCore* parent = parent_of(core);
  if (parent == nullptr || !extras->linked.load(std::memory_order_acquire)) return;
  NurseryExtras* above = peek_extras(parent);
  std::lock_guard guard(above->lock);
  if (extras->previous_nested != nullptr) {
    extras->previous_nested->extras.load(std::memory_order_relaxed)->next_nested = extras->next_nested;
  } else {
    above->first_nested = extras->next_nested;
  }
  if (extras->next_nested != nullptr) {
    extras->next_nested->extras.load(std::memory_order_relaxed)->previous_nested = extras->previous_nested;
  }
  extras->linked.store(false, std::memory_order_relaxed);
}

NurseryCore* parent_of(const NurseryCore* core) {
  if (core->outer != nullptr && core->outer->owner_task == core->owner_task) return core->outer;
  return core->owner_task == nullptr ? nullptr : core->owner_task->nursery;
}

NurseryExtras* extras_of(NurseryCore* core) {
  NurseryExtras* extras = peek_extras(core);
  if (extras != nullptr) return extras;
  auto* made = new NurseryExtras;
  // seq_cst, partner: the load in cancel_from_handle(). A task that blocks for the first time creates these and then
  // reads the epoch; a canceller increments the epoch and then looks for these: at least one of the two sees the other.
  extras = core->extras.load(std::memory_order_acquire);
  while (extras == nullptr || extras == kNoExtras) {
    if (core->extras.compare_exchange_strong(extras, made, std::memory_order_seq_cst)) return made;
  }
  delete made;
  return extras;
}

void end_fast_spawns(NurseryCore* core) {
  if (core->extras.load(std::memory_order_acquire) != nullptr) return;
  try {
    extras_of(core);
  } catch (const std::bad_alloc&) {
    NurseryExtras* none = nullptr;
    core->extras.compare_exchange_strong(none, kNoExtras, std::memory_order_seq_cst);
  }
}

void ensure_linked(NurseryCore* core) {
  TokensToCancel tokens;
  ensure_linked(core, tokens);
}

void ensure_linked(NurseryCore* core, TokensToCancel& tokens) {
  const auto is_linked = [](NurseryCore* nursery) {
    NurseryExtras* extras = peek_extras(nursery);
    return extras != nullptr && extras->linked.load(std::memory_order_acquire);
  };
  std::vector<NurseryCore*> path;
  for (NurseryCore* at = core; at != nullptr && !is_linked(at); at = parent_of(at)) path.push_back(at);
  while (!path.empty()) {
    link_one(path.back(), tokens);  // The outermost first.
    path.pop_back();
  }
}

void register_task(TaskRecord* task, Fiber* fiber) {
  NurseryCore* nursery = task->nursery;
  ensure_linked(nursery);
  NurseryExtras* extras = extras_of(nursery);
  std::lock_guard guard(extras->lock);
  extras->registry.push_back({fiber, task});  // First: it may throw, and then the task has no entry.
  task->registry.store(static_cast<std::uint32_t>(extras->registry.size() - 1), std::memory_order_relaxed);
}

void unregister_task(TaskRecord* task) {
  NurseryExtras* extras = peek_extras(task->nursery);
  std::lock_guard guard(extras->lock);
  const std::uint32_t index = task->registry.load(std::memory_order_relaxed);
  Entry& entry = extras->registry[index];
  const Entry& last = extras->registry.back();
  if (&entry != &last) {
    last.task->registry.store(index, std::memory_order_relaxed);
    entry = last;
  }
  extras->registry.pop_back();
  task->registry.store(TaskRecord::kNoEntry, std::memory_order_relaxed);
}

void drop_task_token(TaskRecord* task) {
  NurseryExtras* extras = peek_extras(task->nursery);
  std::shared_ptr<TokenHandle> token;
  {
    std::lock_guard guard(extras->lock);
    if (extras->task_tokens == nullptr) return;
    token = extras->task_tokens->take(task);
  }
  if (token == nullptr) return;
  // From here on no walk finds the token. A canceller that has set its mark and not yet come here with its walk leaves
  // the token to this thread: the marks are read after the token was taken out, so each mark that the task, or anybody
  // it heard from, has seen is seen here as well. A mark that is set later comes after the end of the task.
  if (const CancelReason reason = cancel_reason_of(task); reason != CancelReason::kNone) {
    cancel_token(token->state, reason);
  }
  release_token(std::move(token));
}

void settle_scope_token(NurseryCore* core) {
  const std::shared_ptr<TokenHandle> token = peek_extras(core)->scope_token;
  CancelReason reason = core->cancel.load(std::memory_order_seq_cst);
  if (reason == CancelReason::kNone && scope_cancelled_around(core)) reason = CancelReason::kParent;
  if (reason != CancelReason::kNone) cancel_token(token->state, reason);
}

bool scope_cancelled_around(NurseryCore* core) {
  for (NurseryCore* at = core; at != nullptr; at = parent_of(at)) {
    if (at->cancel.load(std::memory_order_seq_cst) != CancelReason::kNone) return true;
    // The task that opened it, when the path upwards leaves that task.
    const TaskRecord* owner = at->owner_task;
    if (owner != nullptr && (owner->cancel.load(std::memory_order_seq_cst) & 0x0f) != 0) return true;
  }
  return false;
}

bool scope_cancelled_slow(NurseryCore* scope, TaskRecord* task, std::uint32_t epoch) {
  if ((task->cancel.load(std::memory_order_seq_cst) & 0x0f) != 0 || scope_cancelled_around(scope)) return true;
  scope->seen_epoch.store(epoch, std::memory_order_relaxed);
  return false;
}

CancelReason cancel_reason_of(TaskRecord* task) {
  if (const auto own = static_cast<CancelReason>(task->cancel.load(std::memory_order_seq_cst) & 0x0f);
      own != CancelReason::kNone) {
    return own;
  }
  const CancelReason reason = task->nursery->cancel.load(std::memory_order_seq_cst);
  if (reason != CancelReason::kNone) return reason;
  return scope_cancelled_around(task->nursery) ? CancelReason::kParent : CancelReason::kNone;
}

void cancel_nursery(NurseryCore* core, CancelReason reason) {
  TokensToCancel tokens;
  cancel_collecting(core, reason, tokens);
}

void inherit_cancellation(NurseryCore* core) {
  if (core->cancel.load(std::memory_order_relaxed) != CancelReason::kNone) return;  // Only an optimisation.
  if (scope_cancelled_around(core)) cancel_nursery(core, CancelReason::kParent);
}

namespace {

void cancel_collecting(NurseryCore* core, CancelReason reason, TokensToCancel& tokens) {
  if (!mark_cancelled(core, reason)) return;
  epoch_of(core).fetch_add(1, std::memory_order_seq_cst);
  if (ThreadWorker* worker = current_worker(); worker != nullptr) {
    event(worker, TaskEvent::kCancel, core->owner_task == nullptr ? 0 : core->owner_task->id,
          static_cast<std::uint32_t>(reason));
  }
  wake_cancelled(core->owner);
  if (NurseryExtras* extras = peek_extras(core, std::memory_order_seq_cst); extras != nullptr) {
    std::lock_guard guard(extras->lock);
    wake_registered(extras, reason, tokens);
    cancel_below(core, nullptr, tokens);
  }
}

}  // namespace

void cancel_from_handle(TaskRecord* task, TokensToCancel& tokens) {
  NurseryCore* nursery = task->nursery;
  epoch_of(nursery).fetch_add(1, std::memory_order_seq_cst);
  if (NurseryExtras* extras = peek_extras(nursery, std::memory_order_seq_cst); extras != nullptr) {
    std::lock_guard guard(extras->lock);
    if (task->has_entry()) wake_cancelled(extras->registry[task->registry.load(std::memory_order_relaxed)].fiber);
    if (extras->task_tokens != nullptr) {
      if (const std::shared_ptr<TokenHandle> token = extras->task_tokens->find(task); token != nullptr) {
        tokens.add(token, static_cast<CancelReason>(task->cancel.load(std::memory_order_relaxed) & 0x0f));
      }
    }
    cancel_below(nursery, task, tokens);
  }
}

}  // namespace rota::fiber::detail

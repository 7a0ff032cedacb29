#include "rota/fiber/cancel.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>

#include "fiber/runtime_core.h"
#include "fiber/token_state.h"
#include "rota/fiber/error.h"

namespace rota::fiber {

namespace detail {

namespace {

std::size_t this_thread() { return std::hash<std::thread::id>{}(std::this_thread::get_id()); }

// Runs the token's callbacks one at a time; one that was removed meanwhile is not run.
void run_callbacks(const std::shared_ptr<TokenState>& token) {
  for (;;) {
    std::function<void()> call;
    {
      sync::MutexLock lock(token->mutex);
      if (token->callbacks.empty()) return;
      call = std::move(token->callbacks.front().call);
      token->running_id = token->callbacks.front().id;
      token->running_thread = this_thread();
      token->callbacks.erase(token->callbacks.begin());
    }
    try {
      call();
    } catch (...) {  // A callback cannot report an exception to anybody, and must not prevent the others from running.
    }
    call = nullptr;
    sync::MutexLock lock(token->mutex);
    token->running_id = 0;
    token->idle.notify_all();
  }
}

}  // namespace

bool cancel_token(const std::shared_ptr<TokenState>& first, CancelReason reason) {
  // A list instead of recursion: chains of tokens may have any length.
  std::vector<std::shared_ptr<TokenState>> pending{first};
  bool won = false;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const std::shared_ptr<TokenState> token = pending[i];
    {
      sync::MutexLock lock(token->mutex);
      if (token->reason.load(std::memory_order_relaxed) != CancelReason::kNone) continue;
      token->reason.store(i == 0 ? reason : CancelReason::kParent, std::memory_order_release);
      for (const auto& child : token->children) {
        if (auto alive = child.lock()) pending.push_back(std::move(alive));
      }
      token->children.clear();
    }
    if (i == 0) won = true;
    run_callbacks(token);
  }
  return won;
}

}  // namespace detail

using namespace detail;

CancelToken::CancelToken() : state_(std::make_shared<TokenState>()) {}

CancelToken::CancelToken(std::initializer_list<CancelToken> parents) : CancelToken() {
  for (const CancelToken& parent : parents) link(parent);
}

bool CancelToken::is_cancelled() const { return reason() != CancelReason::kNone; }

CancelReason CancelToken::reason() const { return state_->reason.load(std::memory_order_acquire); }

bool CancelToken::cancel(CancelReason reason) {
  return cancel_token(state_, reason == CancelReason::kNone ? CancelReason::kExplicit : reason);
}

std::uint64_t CancelToken::on_cancel(std::function<void()> f) {
  f = with_current_rights(std::move(f));
  {
    sync::MutexLock lock(state_->mutex);
    if (state_->reason.load(std::memory_order_relaxed) == CancelReason::kNone) {
      const std::uint64_t id = state_->next_id++;
      state_->callbacks.push_back({id, std::move(f)});
      return id;
    }
  }
  f();
  return 0;
}

bool CancelToken::off_cancel(std::uint64_t id) {
  sync::MutexLock lock(state_->mutex);
  auto& callbacks = state_->callbacks;
  const auto found = std::ranges::find(callbacks, id, &TokenState::Callback::id);
  if (found != callbacks.end()) {
    callbacks.erase(found);
    return true;
  }
  // A callback that removes itself must not wait for its own end.
  while (id != 0 && state_->running_id == id && state_->running_thread != this_thread()) {
    state_->idle.wait(state_->mutex);
  }
  return false;
}

void CancelToken::link(const CancelToken& parent) {
  {
    sync::MutexLock lock(parent.state_->mutex);
    if (parent.state_->reason.load(std::memory_order_relaxed) == CancelReason::kNone) {
      auto& children = parent.state_->children;
      // Amortised: removes expired tokens whenever the list would grow.
      if (children.size() == children.capacity()) {
        std::erase_if(children, [](const std::weak_ptr<TokenState>& child) { return child.expired(); });
      }
      children.push_back(state_);
      return;
    }
  }
  cancel_token(state_, CancelReason::kParent);
}

Result<void> CancelToken::check() const {
  const CancelReason why = reason();
  if (why == CancelReason::kNone) return {};
  return Error{ErrorCode::kCancelled, "cancelled"}.with("reason", std::string(to_string(why)));
}

CancelToken current_token() {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr) throw_outside_runtime("current_token()");
  TaskRecord* task = worker->fiber->task;
  if (!task->has_entry()) register_task(task, worker->fiber);
  NurseryExtras* extras = extras_of(task->nursery);
  std::shared_ptr<TokenState> token;
  {
    std::lock_guard guard(extras->lock);
    Entry& entry = extras->registry[task->registry.load(std::memory_order_relaxed)];
    if (entry.token == nullptr) entry.token = std::make_shared<TokenState>();
    token = entry.token;
  }
  // Registered first, checked then: one of the two sees a cancellation in between.
  if (scope_cancelled(worker, task->nursery, task)) cancel_token(token, current_cancel_reason());
  return CancelToken(std::move(token));
}

bool is_cancelled() {
  ThreadWorker* worker = current_worker();
  return worker != nullptr && cancelled_now(worker);
}

Result<void> check_cancelled() {
  if (!is_cancelled()) return {};
  return Error{ErrorCode::kCancelled, "the task is cancelled"}.with("reason",
                                                                    std::string(to_string(current_cancel_reason())));
}

}  // namespace rota::fiber

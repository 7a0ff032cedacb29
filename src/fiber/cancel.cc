// CancelToken, the tokens of tasks and scopes, and asking whether the current task is cancelled.
#include "rota/fiber/cancel.h"

#include <functional>
#include <mutex>
#include <thread>
#include <variant>

#include "fiber/baton.h"
#include "fiber/channel_core.h"
#include "fiber/no_task.h"
#include "fiber/runtime_core.h"
#include "fiber/token_state.h"
#include "fiber/user_call.h"
#include "fiber/waiting.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/time.h"

namespace rota::fiber {

namespace detail {

std::uintptr_t token_thread() {
  const ThreadWorker* worker = current_worker();
  if (worker != nullptr && worker->fiber->task != nullptr) return reinterpret_cast<std::uintptr_t>(worker->fiber);
  return std::hash<std::thread::id>{}(std::this_thread::get_id()) | 1U;  // Odd: no fiber.
}

void run_callback(std::function<void()> call) noexcept {
  const OutsideTasks outside;  // Without effect in a task.
  // A callback cannot report an exception or an overflow to anybody, and must not prevent the others from running.
  (void)call_user(
      [](void* argument) {
        try {
          (*static_cast<std::function<void()>*>(argument))();
        } catch (...) {  // NOLINT(bugprone-empty-catch)
        }
      },
      &call);
  (void)call_user([](void* argument) { *static_cast<std::function<void()>*>(argument) = nullptr; }, &call);
}

void wait_for_callback(TokenState& token) {
  const ThreadWorker* worker = current_worker();
  if (worker == nullptr || worker->fiber->task == nullptr) {
    token.idle.wait(token.mutex);
    return;
  }
  // A task does not block its thread: the callback may even be waiting, as a fiber, for this thread worker.
  token.mutex.unlock();
  yield();
  token.mutex.lock();
}

void close_done(ChannelCore* done) noexcept { channel_close(done); }
void free_done(ChannelCore* done) noexcept { drop_channel(done); }

// The token of `task`, or of the scope if it is null, created if necessary. The caller then cancels it if that is due.
static std::shared_ptr<TokenHandle> token_at(NurseryExtras* extras, const TaskRecord* task) {
  // REQUIRES: the lock is held.
  const auto find = [extras, task]() -> std::shared_ptr<TokenHandle> {
    if (task == nullptr) return extras->scope_token;
    return extras->task_tokens == nullptr ? nullptr : extras->task_tokens->find(task);
  };
  {
    std::lock_guard guard(extras->lock);
    if (std::shared_ptr<TokenHandle> token = find(); token != nullptr) return token;
  }
  auto made = std::make_shared<TokenHandle>();  // Before the lock.
  std::lock_guard guard(extras->lock);
  if (std::shared_ptr<TokenHandle> token = find(); token != nullptr) return token;
  if (task == nullptr) {
    extras->scope_token = made;
    return made;
  }
  if (extras->task_tokens == nullptr) extras->task_tokens = std::make_unique<TaskTokens>();
  extras->task_tokens->add(task, made);
  return made;
}

std::shared_ptr<TokenHandle> token_of_task(TaskRecord* task, TokensToCancel& tokens, CancelReason& reason) {
  ensure_linked(task->nursery, tokens);
  std::shared_ptr<TokenHandle> token = token_at(extras_of(task->nursery), task);
  task->cancel.fetch_or(TaskRecord::kHasToken, std::memory_order_seq_cst);
  // Created first, checked then: a canceller sets its mark and then looks for tokens, so one of the two sees the other
  // (by the lock of the extras).
  reason = cancel_reason_of(task);
  return token;
}

CancelToken token_of_scope(NurseryCore* core) {
  ensure_linked(core);
  std::shared_ptr<TokenHandle> token = token_at(extras_of(core), nullptr);
  CancelReason reason = core->cancel.load(std::memory_order_seq_cst);
  if (reason == CancelReason::kNone && scope_cancelled_around(core)) reason = CancelReason::kParent;
  if (reason != CancelReason::kNone) cancel_token(token->state, reason);
  return CancelToken(std::move(token));
}

CancelToken token_of_handle(TaskRecord* task) {
  std::shared_ptr<TokenHandle> token;
  CancelReason why = CancelReason::kNone;
  {
    TokensToCancel tokens;  // Cancelled after the hold: callbacks are user code.
    const HeldTask held(task);
    if (held.alive()) token = token_of_task(task, tokens, why);
  }
  if (token != nullptr) {
    if (why != CancelReason::kNone) cancel_token(token->state, why);
    return CancelToken(std::move(token));
  }
  // It has ended: its token is cancelled if the task was, and never changes any more.
  CancelToken ended;
  if (task->state.load(std::memory_order_acquire) == TaskState::kCancelled) {
    const auto reason = static_cast<CancelReason>(task->cancel.load(std::memory_order_relaxed) & 0x0f);
    ended.cancel(reason == CancelReason::kNone ? CancelReason::kParent : reason);
  }
  return ended;
}

void release_token(std::shared_ptr<TokenHandle> token) noexcept {
  const OutsideTasks outside;  // Without effect in a task.
  (void)call_user([](void* argument) { static_cast<std::shared_ptr<TokenHandle>*>(argument)->reset(); }, &token);
}

}  // namespace detail

using namespace detail;

CancelToken::CancelToken() : handle_(std::make_shared<TokenHandle>()) {}

CancelToken::CancelToken(std::initializer_list<CancelToken> parents) : CancelToken() {
  for (const CancelToken& parent : parents) link(parent);
}

bool CancelToken::is_cancelled() const {
  ThreadWorker* worker = current_worker();
  if (worker != nullptr && (worker->hooks & kHookDeterministic) != 0 && worker->fiber->task != nullptr) [[unlikely]]
    poll_point(worker);
  return reason() != CancelReason::kNone;
}

// Acquire, partner: the release in cancel_one().
CancelReason CancelToken::reason() const { return handle_->state->reason.load(std::memory_order_acquire); }

bool CancelToken::cancel(CancelReason reason) {
  return cancel_token(handle_->state, reason == CancelReason::kNone ? CancelReason::kExplicit : reason);
}

std::uint64_t CancelToken::on_cancel(std::function<void()> f) {
  f = with_current_rights(std::move(f));
  const std::uint64_t id = add_callback(*handle_->state, f);
  if (id == 0) f();
  return id;
}

bool CancelToken::off_cancel(std::uint64_t id) { return remove_callback(*handle_->state, id); }

void CancelToken::link(const CancelToken& parent) { link_token(handle_->state, parent.handle_->state); }

Result<void> CancelToken::check() const {
  const CancelReason why = reason();
  if (why == CancelReason::kNone) return {};
  return Error{ErrorCode::kCancelled, "cancelled"}.with("reason", std::string(to_string(why)));
}

ChannelCore* CancelToken::done_channel() const {
  TokenState& token = *handle_->state;
  {
    sync::MutexLock lock(token.mutex);
    if (token.done != nullptr) return token.done;
  }
  ChannelCore* made = make_channel_unpermitted(kValueOps<std::monostate>, 0);
  bool cancelled = false;
  {
    sync::MutexLock lock(token.mutex);
    if (token.done == nullptr) token.done = std::exchange(made, nullptr);
    cancelled = token.reason.load(std::memory_order_relaxed) != CancelReason::kNone;
  }
  if (made != nullptr) drop_channel(made);
  if (cancelled) channel_close(token.done);  // Otherwise cancel_one() finds it under the mutex.
  return token.done;
}

namespace {

// kClosed: cancelled. kTimeout; kCancelled: the waiting task is.
ChannelStatus await_token(const CancelToken& token, const std::chrono::nanoseconds* limit) {
  if (token.is_cancelled()) return ChannelStatus::kClosed;
  const ThreadWorker* worker = current_worker();
  if (worker != nullptr && worker->fiber->task != nullptr) {
    return channel_await_close(token.done_channel(), limit, "a token");
  }
  must_be_able_to_block("a token");  // Before the callback refers to this frame.
  Baton baton;
  CancelToken watched = token;
  const std::uint64_t id = watched.on_cancel([&baton] { baton.post(); });
  if (limit != nullptr && baton.wait_for(*limit, "a token") != Baton::End::kPosted) {
    if (watched.off_cancel(id)) return ChannelStatus::kTimeout;
    return ChannelStatus::kClosed;  // It ran meanwhile, and has returned.
  }
  if (limit == nullptr) baton.wait_uncancellable("a token");
  (void)watched.off_cancel(id);  // Waits until the callback has returned: it uses this frame.
  return ChannelStatus::kClosed;
}

}  // namespace

CancelReason CancelToken::wait() const {
  if (await_token(*this, nullptr) == ChannelStatus::kCancelled) throw_cancelled();
  return reason();
}

Result<CancelReason> CancelToken::wait(std::nothrow_t) const {
  if (await_token(*this, nullptr) == ChannelStatus::kCancelled) return cancel_code();
  return reason();
}

bool CancelToken::wait_for(std::chrono::nanoseconds limit) const {
  const ChannelStatus status = await_token(*this, &limit);
  if (status == ChannelStatus::kCancelled) throw_cancelled();
  return status == ChannelStatus::kClosed;
}

CancelToken current_token() {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr || worker->fiber->task == nullptr) throw_outside_runtime("current_token()");
  TaskRecord* task = worker->fiber->task;
  if (!task->has_entry()) register_task(task, worker->fiber);  // So that the task ends by finish_task().
  std::shared_ptr<TokenHandle> token;
  CancelReason reason = CancelReason::kNone;
  {
    TokensToCancel tokens;
    token = token_of_task(task, tokens, reason);
  }
  if (reason != CancelReason::kNone) cancel_token(token->state, reason);
  return CancelToken(std::move(token));
}

bool is_cancelled() {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr || worker->fiber->task == nullptr) return false;
  if ((worker->hooks & kHookDeterministic) != 0) [[unlikely]]
    poll_point(worker);
  return cancelled_now(worker);
}

Result<void> check_cancelled() {
  if (!is_cancelled()) return {};
  return Error{ErrorCode::kCancelled, "the task is cancelled"}.with("reason",
                                                                    std::string(to_string(current_cancel_reason())));
}

}  // namespace rota::fiber

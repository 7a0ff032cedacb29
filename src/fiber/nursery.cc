// Nurseries: spawning, closing and failing. cancel_tree.cc cancels what is below.
#include "rota/fiber/nursery.h"

#include <algorithm>
#include <mutex>

#include "fiber/meter_core.h"
#include "fiber/no_task.h"
#include "fiber/runtime_core.h"
#include "fiber/waiting.h"
#include "rota/assert.h"
#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

namespace {

struct CloseWait {
  NurseryCore* core;
};

bool publish_close(ThreadWorker* /*worker*/, void* argument) {
  NurseryCore* core = static_cast<CloseWait*>(argument)->core;
  const std::int64_t change = core->local + NurseryCore::kClosing;
  core->local = 0;
  // acq_rel, partner: child_done(). From here on the last child that ends wakes the owner.
  return core->remote.fetch_add(change, std::memory_order_acq_rel) + change != NurseryCore::kClosing;
}

// Ends a task that was cancelled in the queue, if nothing about it is special, without running or finishing it as
// others are.
bool drop_cancelled(ThreadWorker* worker, NurseryCore* core, TaskRecord* record) {
  if (core->cancel.load(std::memory_order_relaxed) == CancelReason::kNone || worker->hooks != 0 ||
      (record->flags & TaskRecord::kFlagDetached) == 0 || !record->plain_entry()) {
    return false;
  }
  worker->counters.cancelled.add(1);
  core->local -=
      1;  // Before the destructor: if the stack overflows there, the owner's task ends, and closes this nursery.
  record->act(record, Action::kDropClosure);  // User code: it may park, and resume on another thread worker.
  free_record(current_worker(), record);
  return true;
}

// Runs the children that are left in the owner's own deque on this stack. Returns the current thread worker.
ThreadWorker* run_own_children(ThreadWorker* worker, NurseryCore* core) {
  // Not while there are prioritised tasks: then the loop decides what is next.
  while (core->local > 0 && stack_left(worker->fiber) && (worker->hooks & (kHookDeterministic | kHookPriority)) == 0) {
    const Item item = pop_item(worker);
    if (item == 0) break;
    if (is_fiber(item) || nursery_of(item) != core) {
      const bool returned = worker->deque.push(item);
      ROTA_ASSERT(returned, "there is room for the item that was just taken");
      break;
    }
    TaskRecord* record = task_of(worker, item);
    if (drop_cancelled(worker, core, record)) {
      worker = current_worker();
      continue;
    }
    if ((record->flags & TaskRecord::kFlagDetached) == 0) {
      run_in_place_slow(worker, record);
    } else if (call_in_place(worker, record)) {
      if ((record->flags & TaskRecord::kFlagNoResult) == 0) {
        record->act(record, Action::kDropResult);
        worker = current_worker();  // User code: it may park, and resume on another thread worker.
      }
      free_record(worker, record);
    }
    worker = current_worker();
  }
  return worker;
}

// The same, then waits for the other children.
void await_children(ThreadWorker* worker, NurseryCore* core) {
  worker = run_own_children(worker, core);
  // Acquire, partner: child_done()'s release.
  if (core->local + core->remote.load(std::memory_order_acquire) == 0) return;
  try {
    ensure_linked(core);  // So that the deadlock report finds it.
  } catch (const std::bad_alloc&) {
    // A child that blocks links the nursery itself; all others ask whether they are cancelled.
  }
  CloseWait wait{core};
  park(worker, publish_close, &wait, false, "the children of its scope");
}

}  // namespace

Error error_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const FiberError& error) {
    return error.error();
  } catch (const MemoryBudgetExhausted& error) {
    return Error{ErrorCode::kMemoryBudgetExhausted, error.what()};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, error.what()};
  } catch (...) {
    return Error{ErrorCode::kInternal, "a task failed with an exception that is not a std::exception"};
  }
}

RuntimeCore* runtime_of(const NurseryCore* core) {
  for (;;) {
    const NurseryCore* parent = parent_of(core);
    if (parent == nullptr) return static_cast<const RootNursery*>(core)->runtime;
    core = parent;
  }
}

CancelReason current_cancel_reason() {
  const Fiber* fiber = current_worker()->fiber;
  const TaskRecord* task = fiber->task;
  for (NurseryCore* scope = fiber->scope; scope != nullptr && scope->owner_task == task; scope = scope->outer) {
    if (const CancelReason reason = scope->cancel.load(); reason != CancelReason::kNone) return reason;
  }
  if (const auto reason = static_cast<CancelReason>(task->cancel.load() & 0x0f); reason != CancelReason::kNone) {
    return reason;
  }
  const CancelReason reason = task->nursery->cancel.load();
  return reason == CancelReason::kNone ? CancelReason::kParent : reason;
}

void child_failed(NurseryCore* core, TaskRecord* child) {
  if (!core->failure_cancels) return;
  std::exception_ptr failure;
  NurseryExtras* extras = nullptr;
  try {
    extras = extras_of(core);
    if ((child->flags & TaskRecord::kFlagOverflow) != 0) {
      failure = std::make_exception_ptr(FiberError(Error{ErrorCode::kStackOverflow, "a task's stack overflowed"}));
    } else {
      failure = static_cast<ResultRecord<void>*>(child)->error;
    }
  } catch (const std::bad_alloc&) {  // Without memory for extras, closing reports only that a failure cancelled it.
    failure = std::current_exception();
  }
  if (extras != nullptr) {
    std::lock_guard guard(extras->lock);
    if (extras->failure == nullptr) extras->failure = std::move(failure);
  }
  cancel_nursery(core, CancelReason::kFailure);
}

void child_done(RuntimeCore* runtime, NurseryCore* core, Fiber* on) {
  if (core->owner == on && on != nullptr) {
    core->local -= 1;
    return;
  }
  // acq_rel, partner: publish_close() and the acquire in await_children(): the child's effects are visible.
  if (core->remote.fetch_sub(1, std::memory_order_acq_rel) != NurseryCore::kClosing + 1) return;
  if (core->owner == nullptr) {
    runtime->root_empty.value.store(1, std::memory_order_release);
    runtime->root_empty.wake_all();
    return;
  }
  wake(core->owner, WakeReason::kDone);
}

void help_children(NurseryCore* core) {
  ThreadWorker* worker = current_worker();
  if (worker != nullptr && core->owner == worker->fiber && worker->fiber->scope == core) run_own_children(worker, core);
}

namespace {

// Why the caller may not close the nursery, or null.
[[gnu::always_inline]] inline const char* why_not_close(const NurseryCore* core) {
  const ThreadWorker* worker = current_worker();
  if (core->owner == nullptr) return "this nursery is already closed";
  if (worker == nullptr || core->owner != worker->fiber || worker->fiber->task != core->owner_task) {
    return "a nursery must be closed by the task that opened it";
  }
  return worker->fiber->scope == core ? nullptr : "close the scopes opened inside it first";
}

// Closes the nursery without memory. REQUIRES: why_not_close() is null.
[[gnu::always_inline]] inline void close_children(NurseryCore* core) {
  ThreadWorker* worker = current_worker();
  Fiber* self = worker->fiber;
  end_fast_spawns(core);
  NurseryState open = NurseryState::kOpen;
  core->state.compare_exchange_strong(open, NurseryState::kClosing, std::memory_order_acq_rel);
  await_children(worker, core);
  NurseryExtras* extras = peek_extras(core);
  if (extras != nullptr) {
    if (extras->deadline_armed) {
      RuntimeCore* runtime = current_worker()->runtime;
      runtime->timers.remove(&extras->deadline_timer);
      note_expiry(core);
      extras->deadline_armed = false;
    }
    unlink_nursery(core, extras);
    if (extras->scope_token != nullptr) [[unlikely]]
      settle_scope_token(core);
  }
  self->scope = core->outer;
  core->owner = nullptr;
  const CancelReason reason = core->cancel.load(std::memory_order_acquire);
  core->state.store(reason == CancelReason::kNone ? NurseryState::kClosed : NurseryState::kCancelled,
                    std::memory_order_release);
  if (current_worker()->hooks != 0) {
    event(current_worker(), TaskEvent::kScopeEnd, core->owner_task->id);
    close_metered(current_worker(), core);
  }
}

}  // namespace

Result<void> close_slow(NurseryCore* core) {
  if (const char* why = why_not_close(core); why != nullptr) return Error{ErrorCode::kFailedPrecondition, why};
  close_children(core);
  const NurseryExtras* extras = peek_extras(core);
  const CancelReason reason = core->cancel.load(std::memory_order_acquire);
  if (extras != nullptr && extras->failure != nullptr) return error_of(extras->failure);
  if (reason == CancelReason::kNone) return {};
  if (reason == CancelReason::kTimeout) return Error{ErrorCode::kDeadlineExceeded, "the scope's deadline passed"};
  return Error{ErrorCode::kCancelled, "the scope was cancelled"}.with("reason", std::string(to_string(reason)));
}

void throw_close(Error error, NurseryCore* core) {
  if (NurseryExtras* extras = peek_extras(core); extras != nullptr && extras->failure != nullptr) {
    std::rethrow_exception(extras->failure);
  }
  if (error.code == ErrorCode::kCancelled || error.code == ErrorCode::kDeadlineExceeded) {
    throw Cancelled(core->cancel.load(std::memory_order_acquire));
  }
  throw_error(std::move(error));
}

void finish_slow(NurseryCore* core) {
  Result<void> closed = close_slow(core);
  if (!closed.ok()) throw_close(std::move(closed).take_error(), core);
  dispose_nursery(core);
}

void dispose_nursery(NurseryCore* core) {
  if (core->owner != nullptr) {
    cancel_nursery(core, CancelReason::kFailure);
    const char* why = why_not_close(core);
    ROTA_ASSERT(why == nullptr, "a nursery was destroyed by another task than the one that opened it: ", why);
    close_children(core);
  }
  NurseryExtras* extras = core->extras.exchange(nullptr, std::memory_order_acq_rel);
  if (extras != kNoExtras) delete extras;
}

void fail_scope(NurseryCore* core) {
  std::exception_ptr failure;
  if (core->owner != nullptr) {
    cancel_nursery(core, CancelReason::kFailure);
    if (why_not_close(core) == nullptr) close_children(core);  // The error is in flight, or in `failure`.
    NurseryExtras* extras = peek_extras(core);
    if (extras != nullptr) failure = extras->failure;
  }
  dispose_nursery(core);
  if (failure != nullptr) {
    try {
      throw;
    } catch (const Cancelled&) {
      std::rethrow_exception(failure);
    }
  }
  throw;
}

void abandon_scopes(Fiber* fiber, TaskRecord* task, const NurseryCore* until) {
  while (fiber->scope != until && fiber->scope != nullptr && fiber->scope->owner_task == task) {
    dispose_nursery(fiber->scope);
  }
}

namespace {

// The earliest deadline of `core` and the scopes around it.
Nanoseconds deadline_around(const NurseryCore* core) {
  for (const NurseryCore* at = core; at != nullptr; at = parent_of(at)) {
    // Written before the scope's first child existed, so it does not change while a task below looks. The innermost
    // deadline is the earliest one: arm_deadline() sees to that.
    const NurseryExtras* extras = peek_extras(at);
    if (extras != nullptr && extras->deadline != kNever) return extras->deadline;
  }
  return kNever;
}

}  // namespace

bool note_expiry(NurseryCore* core) {
  const NurseryExtras* extras = peek_extras(core);
  if (extras == nullptr || current_worker()->runtime->now() < extras->deadline) {
    return core->cancel.load(std::memory_order_acquire) == CancelReason::kTimeout;
  }
  cancel_nursery(core, CancelReason::kTimeout);
  // A deadline around this scope that passes at the same time may have cancelled it first, as a part of its own scope.
  CancelReason outer = CancelReason::kParent;
  core->cancel.compare_exchange_strong(outer, CancelReason::kTimeout, std::memory_order_acq_rel);
  return core->cancel.load(std::memory_order_acquire) == CancelReason::kTimeout;
}

void arm_deadline(NurseryCore* core, std::chrono::nanoseconds duration) {
  ThreadWorker* worker = current_worker();
  RuntimeCore* runtime = worker->runtime;
  const Nanoseconds around = deadline_around(parent_of(core));
  NurseryExtras* extras = extras_of(core);
  extras->deadline = duration.count() > kNever - runtime->now() ? kNever : runtime->now() + duration.count();
  extras->deadline = std::min(extras->deadline, around);
  if (extras->deadline <= runtime->now()) {
    cancel_nursery(core, CancelReason::kTimeout);
    return;
  }
  extras->deadline_timer.at = extras->deadline;
  extras->deadline_timer.context = core;
  extras->deadline_timer.fire = [](Timer* timer) {
    auto* nursery = static_cast<NurseryCore*>(timer->context);
    if (ThreadWorker* firing = current_worker(); firing != nullptr) {
      event(firing, TaskEvent::kDeadline, nursery->owner_task->id);
    }
    const FiringTimer firing;
    cancel_nursery(nursery, CancelReason::kTimeout);
  };
  extras->deadline_armed = true;
  add_timer(runtime, &extras->deadline_timer);
}

void open_slow(ThreadWorker* worker, NurseryCore* core) {
  struct Undo {  // Unless the scope is open: the fiber forgets it. The nursery was not constructed then.
    ~Undo() {
      if (core == nullptr) return;
      current_worker()->fiber->scope = core->outer;
      core->owner = nullptr;
    }
    NurseryCore* core;
  } undo{core};
  if ((worker->hooks & kHookDeterministic) != 0) poll_point(worker);
  if ((worker->hooks & kHookMeter) != 0 && (worker->scopes & 255) == 0) {
    // A scope costs nothing, and a loop of scopes must share its thread worker nevertheless (F-11).
    if (may_look_up(worker->fiber->task)) yield_anywhere();
    worker = current_worker();
  }
  event(worker, TaskEvent::kScope, core->owner_task->id);
  if ((worker->hooks & kHookTrace) != 0) end_fast_spawns(core);  // Closing then takes close_slow(), which records it.
  if ((worker->hooks & kHookCore) != 0) {
    throw_error(ErrorCode::kNurseryNotActive, "the profile `core` has no nurseries");
  }
  undo.core = nullptr;
}

Result<void> refuse_without_memory(ThreadWorker* worker, NurseryCore* core, TaskRecord* record) {
  if (record->meter != 0) unsettle_meter(worker, record);
  worker->counters.refused.add(1);
  record->act(record, Action::kDropClosure);  // User code: it may park, and resume on another thread worker.
  worker = current_worker();
  free_record(worker, record);
  child_done(worker->runtime, core, worker->fiber);
  return ErrorCode::kResourceExhausted;
}

Result<void> spawn_check(ThreadWorker* worker, NurseryCore* core, TaskRecord* record, const Grant* grant) {
  Result<void> allowed;
  if ((worker->hooks & kHookCore) != 0) {
    allowed = Error{ErrorCode::kNurseryNotActive, "the profile `core` does not allow spawning"};
  } else if (core->state.load(std::memory_order_acquire) != NurseryState::kOpen) {
    allowed = Error{ErrorCode::kNurseryNotActive, "the nursery is no longer open"}.with(
        "state", std::string(to_string(core->state.load())));
  } else if ((worker->hooks & kHookMeter) != 0) {
    try {
      allowed = grant_meter(worker, core, record, grant);
    } catch (const std::bad_alloc&) {
      record->meter = 0;
      allowed = ErrorCode::kResourceExhausted;
    }
    worker = current_worker();  // It may have yielded.
  }
  if (allowed.ok()) {
    if ((worker->hooks & kHookDeterministic) != 0) poll_point(worker);
    const Priority priority = grant != nullptr && grant->priority ? *grant->priority : priority_of(worker->fiber->task);
    if (priority != Priority::kNormal) {
      record->id |= static_cast<std::uint64_t>(priority) << TaskRecord::kPriorityShift;
      worker->runtime->priorities.alive.fetch_add(1, std::memory_order_relaxed);
      worker->hooks |= kHookPriority;
    }
    event(worker, TaskEvent::kSpawn, record->id);
    return {};
  }
  if ((worker->hooks & kHookMeter) != 0) refuse_metered(worker);
  worker->counters.refused.add(1);
  record->act(record, Action::kDropClosure);
  free_record(worker, record);
  child_done(worker->runtime, core, worker->fiber);
  return allowed;
}

}  // namespace rota::fiber::detail

namespace rota::fiber {

using namespace detail;

std::optional<Scope> Scope::parent() const {
  NurseryCore* parent = parent_of(core_);
  if (parent == nullptr) return std::nullopt;
  return Scope(parent);
}

std::optional<std::chrono::nanoseconds> Scope::deadline() const {
  const Nanoseconds earliest = deadline_around(core_);
  if (earliest == kNever) return std::nullopt;
  return std::chrono::nanoseconds(earliest);
}

CancelToken Scope::token() const { return token_of_scope(core_); }

Scope current_scope() {
  const ThreadWorker* worker = waiting_worker("current_scope()");
  NurseryCore* scope = worker->fiber->scope;
  TaskRecord* task = worker->fiber->task;
  return Scope(scope != nullptr && scope->owner_task == task ? scope : task->nursery);
}

Priority current_priority() { return priority_of(waiting_worker("current_priority()")->fiber->task); }

}  // namespace rota::fiber

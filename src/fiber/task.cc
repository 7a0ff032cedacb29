// Running a task to its end, joining it, and the handle's slow paths.
#include "rota/fiber/task.h"

#include <cxxabi.h>

#include <algorithm>
#include <bit>
#include <typeinfo>

#include "fiber/baton.h"
#include "fiber/meter_core.h"
#include "fiber/no_task.h"
#include "fiber/return_point.h"
#include "fiber/runtime_core.h"
#include "fiber/token_state.h"
#include "fiber/waiting.h"
#include "rota/fiber/both.h"
#include "rota/fiber/meter.h"

namespace rota::fiber::detail {

namespace {

// Until a sampled task runs, TaskRecord::registry holds when it became ready: in units of 16 ns, modulo 2^31 (34 s).
constexpr int kSampleShift = 4;

std::uint32_t sample_time(const RuntimeCore* runtime) {
  // Never kNoEntry: that would be all ones.
  return TaskRecord::kSampled | (static_cast<std::uint32_t>(runtime->now() >> kSampleShift) & 0x7ffffffe);
}

void take_sample(ThreadWorker* worker, TaskRecord* record) {
  const std::uint32_t ticks =
      (sample_time(worker->runtime) - record->registry.load(std::memory_order_relaxed)) & 0x7fffffff;
  record->registry.store(TaskRecord::kNoEntry, std::memory_order_relaxed);
  const std::uint64_t latency_ns = static_cast<std::uint64_t>(ticks) << kSampleShift;
  Counters& counters = worker->counters;
  counters.latency_samples.add(1);
  counters.latency_sum_ns.add(latency_ns);
  const auto bucket = std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(latency_ns | 1) - 1),
                                            counters.latency_log2.size() - 1);
  counters.latency_log2[bucket].add(1);
}

// The capabilities that user code which runs for the task outside of it has: its destructors.
CapContext* rights_of(const TaskRecord* record) {
  return record->meter == 0 || is_inline(record->meter) ? nullptr : meter_of(record->meter)->caps;
}

// The stack overflowed in the destructor of a closure that was never called.
[[gnu::cold]] void fail_unstarted(TaskRecord* record) {
  record->flags |= TaskRecord::kFlagOverflow;
  set_state(record, TaskState::kRunning);
  set_state(record, TaskState::kCompleting);
}

// Calls the task on the current stack, or ends it without running if it is cancelled.
void execute(ThreadWorker* worker, TaskRecord* record) {
  if (!record->plain_entry()) take_sample(worker, record);
  if (cancelled_before_run(worker, record)) {
    bool dropped = false;
    if (CapContext* rights = rights_of(record); rights == nullptr) {
      dropped = drop_part(record, Action::kDropClosure);
    } else {
      const ActingFor acting(worker->runtime, rights);
      dropped = drop_part(record, Action::kDropClosure);
    }
    record->flags |= TaskRecord::kFlagNeverRan;
    if (!dropped) fail_unstarted(record);
    return;
  }
  Fiber* fiber = worker->fiber;
  TaskRecord* outer = fiber->task;
  RuntimeCore* home = fiber->home;
  BodyFrame* bodies = fiber->bodies;
  fiber->task = record;
  // A fiber has the priority of the task on it; a task called on top of a prioritised one shares its priority.
  if (const Priority priority = priority_of(record); priority != Priority::kNormal) [[unlikely]] {
    fiber->home = reinterpret_cast<RuntimeCore*>(reinterpret_cast<std::uintptr_t>(worker->runtime) |
                                                 static_cast<std::uintptr_t>(priority));
  }
  set_state(record, TaskState::kRunning);
  event(worker, TaskEvent::kStart, record->id);
  record->act(record, Action::kRun);
  fiber->task = outer;
  fiber->home = home;
  fiber->bodies = bodies;  // Also if the task was left without unwinding.
}

}  // namespace

void sample_spawn(ThreadWorker* worker, NurseryCore* core, TaskRecord* record) {
  sample_spawn(record, worker->runtime);
  if (core->owner_task != nullptr && scope_cancelled(worker, core, core->owner_task)) inherit_cancellation(core);
}
void sample_spawn(TaskRecord* record, const RuntimeCore* runtime) {
  record->registry.store(sample_time(runtime), std::memory_order_relaxed);
}

void capture_exception(TaskRecord* record, std::exception_ptr* slot) {
  ::new (static_cast<void*>(slot)) std::exception_ptr(std::current_exception());
  ThreadWorker* worker = current_worker();
  bool cancelled = false;
  if (!cancelled_now(worker)) {
    // A failure.
  } else if (const std::type_info* type = abi::__cxa_current_exception_type();
             type != nullptr && (*type == typeid(Cancelled) || *type == typeid(BudgetExhausted))) {
    cancelled = true;  // The usual case, without throwing it a second time.
  } else {
    try {
      std::rethrow_exception(*slot);
    } catch (const Cancelled&) {
      cancelled = true;
    } catch (const FiberError& error) {
      // In a cancelled nursery a spawn is refused: this is the cancellation, as a wait that ends with Cancelled is.
      cancelled = error.code() == ErrorCode::kNurseryNotActive;
    } catch (...) {  // Any other exception is a failure, cancelled or not.
    }
  }
  record->flags |= cancelled ? TaskRecord::kFlagCancelled : TaskRecord::kFlagFailed;
  if (CapContext* rights = rights_of(record); rights != nullptr) [[unlikely]]
    keep_rights(*slot, rights);
}

void throw_outcome(TaskRecord* record, std::exception_ptr* slot) {
  const std::uint8_t flags = record->flags;
  std::exception_ptr error;
  if ((flags & (TaskRecord::kFlagFailed | TaskRecord::kFlagCancelled)) != 0) error = *slot;
  const auto reason = static_cast<CancelReason>(record->cancel.load(std::memory_order_relaxed) & 0x0f);
  record->act(record, Action::kDropResult);
  free_record(current_worker(), record);
  if ((flags & TaskRecord::kFlagBudget) != 0 && (flags & TaskRecord::kFlagFailed) == 0) throw BudgetExhausted();
  if (error != nullptr) std::rethrow_exception(error);
  if ((flags & TaskRecord::kFlagOverflow) != 0) {
    throw_error(ErrorCode::kStackOverflow, "the task's stack overflowed; raise Config::stack_bytes or recurse less");
  }
  throw Cancelled(reason == CancelReason::kNone ? CancelReason::kParent : reason);
}

void throw_no_task() {
  throw_error(ErrorCode::kFailedPrecondition, "this handle has no task: its result was already taken, or it was moved");
}

namespace {

// Anything was ever cancelled in this process. Before that, no task's state needs a look at its nursery.
sync::Atomic<bool> g_cancelled{false};

// True if `nursery` is open on the current fiber: then it cannot go away.
bool is_open_here(const NurseryCore* nursery) {
  const ThreadWorker* worker = current_worker();
  if (worker == nullptr) return false;
  constexpr int kDeep = 64;  // Deeper scopes are found by HeldTask.
  const NurseryCore* at = worker->fiber->scope;
  for (int i = 0; at != nullptr && i < kDeep; ++i, at = at->outer) {
    if (at == nursery) return true;
  }
  return false;
}

}  // namespace

void note_cancellation() {
  // Relaxed: a thread that knows of the cancellation from elsewhere sees it; for others it has not happened yet.
  if (!g_cancelled.load(std::memory_order_relaxed)) g_cancelled.store(true, std::memory_order_relaxed);
}

HeldTask::HeldTask(TaskRecord* task) : task_(task) {
  for (ShortWait pause;
       (task->cancel.fetch_or(TaskRecord::kCancelBusy, std::memory_order_seq_cst) & TaskRecord::kCancelBusy) != 0;) {
    pause.round();  // Another holder, which holds only spin locks.
  }
  heavy_fence();  // Partner: the light_fence() before finish_task() reads `cancel`.
  alive_ = !is_terminal(task->state.load(std::memory_order_acquire));
}

HeldTask::~HeldTask() {
  task_->cancel.fetch_and(static_cast<std::uint8_t>(~TaskRecord::kCancelBusy), std::memory_order_release);
}

TaskState observed_state(const TaskRecord* record) {
  const TaskState state = record->state.load(std::memory_order_acquire);
  if (is_terminal(state) || state == TaskState::kCompleting) return state;
  if ((record->cancel.load(std::memory_order_relaxed) & 0x0f) != 0) return TaskState::kCancelling;
  if (!g_cancelled.load(std::memory_order_relaxed)) return state;
  // A task is also being cancelled if something around it is. Its nursery may be gone if it ends meanwhile.
  if (is_open_here(record->nursery)) {
    return scope_cancelled_around(record->nursery) ? TaskState::kCancelling : state;
  }
  const HeldTask held(const_cast<TaskRecord*>(record));
  if (!held.alive()) return record->state.load(std::memory_order_acquire);
  return scope_cancelled_around(record->nursery) ? TaskState::kCancelling : state;
}

void await_canceller(TaskRecord* record) {
  // Acquire, partner: ~HeldTask(). A holder has only spin locks, so this is short.
  for (ShortWait pause; (record->cancel.load(std::memory_order_acquire) & TaskRecord::kCancelBusy) != 0;) pause.round();
  if ((record->cancel.load(std::memory_order_relaxed) & TaskRecord::kHasToken) != 0) drop_task_token(record);
}

namespace {

// Destroys a result that nobody will take, while the task still has its capabilities; its destructor has no more.
[[gnu::cold, gnu::noinline]] void drop_with_rights(RuntimeCore* runtime, TaskRecord* record) {
  constexpr std::uint8_t kNoValue =
      TaskRecord::kFlagFailed | TaskRecord::kFlagCancelled | TaskRecord::kFlagOverflow | TaskRecord::kFlagNeverRan;
  const bool nobody =
      (record->flags & TaskRecord::kFlagDetached) != 0 || record->join.load(std::memory_order_acquire) == kJoinDetached;
  if (!nobody || (record->flags & kNoValue) != 0) return;
  const ActingFor acting(runtime, rights_of(record));
  if (!drop_part(record, Action::kDropResult)) record->flags |= TaskRecord::kFlagOverflow;
  record->act = [](TaskRecord*, Action) {};  // There is nothing left to destroy.
}

// The task has overwritten the canary of its stack: its result is dropped, and it fails.
[[gnu::cold]] void note_overflow(ThreadWorker* worker, TaskRecord* record) {
  worker->runtime->stacks.restore_canary(worker->fiber);
  if ((record->flags & (TaskRecord::kFlagOverflow | TaskRecord::kFlagNeverRan)) != 0) return;
  (void)drop_part(record, Action::kDropResult);
  record->flags &= static_cast<std::uint8_t>(~(TaskRecord::kFlagFailed | TaskRecord::kFlagCancelled));
  record->flags |= TaskRecord::kFlagOverflow;
  // Its function has ended, by an exception if the state is not yet this, and its closure is destroyed.
  if (record->state.load(std::memory_order_relaxed) == TaskState::kRunning) set_state(record, TaskState::kCompleting);
}

// Destroys the result that nobody will take. An overflow in its destructor is a failure of the task, which has ended
// otherwise: its nursery is told.
void drop_last(NurseryCore* nursery, TaskRecord* record) {
  constexpr std::uint8_t kStored = TaskRecord::kFlagFailed | TaskRecord::kFlagCancelled;
  if ((record->flags & (kStored | TaskRecord::kFlagNoResult)) == TaskRecord::kFlagNoResult) return;
  if (drop_part(record, Action::kDropResult)) return;
  record->flags |= TaskRecord::kFlagOverflow;
  child_failed(nursery, record);
}

}  // namespace

// The task's function has returned, or was never called. Stores the end, wakes the waiter, and leaves the nursery; that
// comes last, because the nursery may be gone then.
void finish_task(ThreadWorker* worker, TaskRecord* record) {
  NurseryCore* nursery = record->nursery;
  RuntimeCore* runtime = worker->runtime;
  TaskState end = TaskState::kCompleted;
  if (!stack_intact(worker)) [[unlikely]]
    note_overflow(worker, record);
  if (record->has_entry()) unregister_task(record);
  if (record->meter != 0) {
    if (rights_of(record) != nullptr) [[unlikely]]
      drop_with_rights(runtime, record);
    settle_meter(current_worker(), record);
    record->meter = 0;  // Not again.
  }
  if ((record->flags & (TaskRecord::kFlagFailed | TaskRecord::kFlagOverflow)) != 0) {
    end = TaskState::kFailed;
    child_failed(nursery, record);
  } else if ((record->flags & (TaskRecord::kFlagCancelled | TaskRecord::kFlagNeverRan)) != 0) {
    end = TaskState::kCancelled;
    // A task that asked, or did not run, knows of a cancellation far above; its nursery, if it was never linked, does
    // not, and would report success (F-5).
    inherit_cancellation(nursery);
  }
  worker = current_worker();  // Destructors and callbacks are user code: it may have parked in the task below this one.
  // A task that was left without unwinding may have been in a handler, whose exception must be forgotten.
  if ((record->flags & (TaskRecord::kFlagOverflow | TaskRecord::kFlagNeverRan)) != 0) [[unlikely]] {
    if (worker->fiber->task == nullptr) *worker->exceptions = {};
    release_static_guards(record);
    release_far_landing(worker->fiber);
    const NurseryExtras* extras = peek_extras(nursery);
    if (extras != nullptr && extras->on_left != nullptr &&
        record->state.load(std::memory_order_relaxed) == TaskState::kRunning) {  // Neither cancelled before, nor ended.
      extras->on_left(record);
    }
  }
  event(worker, TaskEvent::kComplete, record->id, static_cast<std::uint32_t>(end));
  // Everything up to here can be repeated if something throws (finish_after_fault); nothing throws from here on.
  Counters& counters = worker->counters;
  (end == TaskState::kCompleted ? counters.completed
   : end == TaskState::kFailed  ? counters.failed
                                : counters.cancelled)
      .add(1);
  if (priority_of(record) != Priority::kNormal) [[unlikely]]
    runtime->priorities.alive.fetch_sub(1, std::memory_order_relaxed);
  if ((record->flags & TaskRecord::kFlagDetached) != 0) {
    if (record->cancel.load(std::memory_order_relaxed) != 0) await_canceller(record);  // It may have a token.
    drop_last(nursery, record);  // User code: it may park, and resume on another thread worker.
    free_record(current_worker(), record);
  } else {
    set_state(record, end);
    light_fence();  // Partner: cancel_task()'s heavy_fence(): it sees the terminal state, or this sees its mark.
    if (record->cancel.load(std::memory_order_relaxed) != 0) await_canceller(record);
    const std::uintptr_t before = finish_join(record);
    if (before == kJoinDetached) {
      drop_last(nursery, record);
      free_record(current_worker(), record);
    } else if (before != kJoinNone) {
      wake_joiner(record, before);
    }
  }
  child_done(runtime, nursery, current_worker()->fiber);
}

namespace {

// The runtime threw while it ran or finished `record`. The task ends with the outcome that it has, or as Failed.
[[gnu::cold]] void finish_after_fault(TaskRecord* record, Fiber* fiber, TaskRecord* outer) {
  constexpr std::uint8_t kHasOutcome =
      TaskRecord::kFlagFailed | TaskRecord::kFlagCancelled | TaskRecord::kFlagOverflow | TaskRecord::kFlagNeverRan;
  fiber->task = outer;
  if (record->state.load(std::memory_order_relaxed) != TaskState::kCompleting && (record->flags & kHasOutcome) == 0) {
    (void)drop_part(record, Action::kDropClosure);  // act(kRun) destroys it last.
    ::new (static_cast<void*>(&static_cast<ResultRecord<void>*>(record)->error))
        std::exception_ptr(std::make_exception_ptr(
            FiberError(Error{ErrorCode::kWorkerPanic, "the thread worker that ran the task failed"})));
    record->flags |= TaskRecord::kFlagFailed;
  }
  try {
    finish_task(current_worker(), record);
  } catch (...) {
    ROTA_ASSERT(false, "a thread worker failed twice while it finished task ", record->id);
  }
}

}  // namespace

void run_task(ThreadWorker* worker, TaskRecord* record) {
  Fiber* fiber = worker->fiber;
  TaskRecord* outer = fiber->task;
  std::exception_ptr fault;
  try {
    execute(worker, record);
    finish_task(current_worker(), record);
    return;
  } catch (...) {
    fault = std::current_exception();
  }
  finish_after_fault(record, fiber, outer);
  // At the bottom of the stack is the loop, which gives up its thread. On top of a task, the fault ends here.
  if (outer == nullptr) std::rethrow_exception(fault);
  current_worker()->runtime->worker_panics.fetch_add(1, std::memory_order_relaxed);
}

void end_stack(Fiber* fiber) {
  fiber->user_call = nullptr;
  for (TaskRecord* task = fiber->task; task != nullptr;) {
    task->flags |= TaskRecord::kFlagOverflow;
    abandon_scopes(fiber, task);  // It may wait, and continue on another thread worker.
    // A task that was called in place by a join runs on top of the task that opened its nursery.
    TaskRecord* below = task->nursery->owner == fiber ? task->nursery->owner_task : nullptr;
    fiber->task = below;
    finish_task(current_worker(), task);
    task = below;
  }
  void* unused = nullptr;
  switch_stacks(&unused, prepare_stack(fiber, fiber_main));
  __builtin_unreachable();
}

TaskRecord* begin_fork(ThreadWorker* worker, Fork* fork) {
  auto* record = ::new (static_cast<void*>(fork + 1)) TaskRecord(fork->act, kFrameClass, 0);
  record->nursery = &fork->core;
  record->id = worker->counters.spawned.next();
  record->meter = 0;
  return record;
}

void run_in_place_slow(ThreadWorker* worker, TaskRecord* record) { run_task(worker, record); }

void drop_handle(TaskRecord* record) {
  // acq_rel, partner: finish_task()'s exchange.
  const std::uintptr_t before = record->join.exchange(kJoinDetached, std::memory_order_acq_rel);
  if (before != kJoinDone) return;
  record->act(record, Action::kDropResult);
  free_record(current_worker(), record);
}

// ------------------------------------------------------------------------------------------------------------- join

namespace {

constexpr const char* kWaitsForTask = "a task";
constexpr std::uintptr_t kOutsideTag = 4;  // In TaskRecord::join: the waiter is a thread, and this is its Baton*.
static_assert(alignof(Baton) > kOutsideTag);

struct JoinWait {
  TaskRecord* record;
  Fiber* fiber;
  Nanoseconds deadline;  // kNever without a limit. The timer starts after the switch.
  WakeTimer timer{};
  bool published = false;
};

bool publish_join(ThreadWorker* worker, void* argument) {
  auto* wait = static_cast<JoinWait*>(argument);
  if (!publish_waiter(wait->record, reinterpret_cast<std::uintptr_t>(wait->fiber))) return false;
  // The fiber is not resumed before this returns, so its frame is valid.
  wait->published = true;
  if (wait->deadline != kNever) wait->timer.arm(worker->runtime, wait->fiber, wait->deadline);
  return true;
}

bool join_outside(TaskRecord* record, const std::chrono::nanoseconds* timeout) {
  must_be_able_to_block("a join");  // Before anything is published.
  Baton baton;
  const std::uintptr_t word = reinterpret_cast<std::uintptr_t>(&baton) | kOutsideTag;
  if (!publish_waiter(record, word)) return true;
  if (timeout != nullptr && baton.wait_for(*timeout, kWaitsForTask) != Baton::End::kPosted) {
    std::uintptr_t expected = word;
    if (record->join.compare_exchange_strong(expected, kJoinNone, std::memory_order_acq_rel)) return false;
    // The finisher has taken the baton out of the word and is about to post it.
  }
  baton.wait_uncancellable(kWaitsForTask);
  return true;
}

}  // namespace

void wake_joiner(TaskRecord* record, std::uintptr_t waiter) {
  if ((waiter & kOutsideTag) != 0) {
    reinterpret_cast<Baton*>(waiter & ~kOutsideTag)->post();
    return;
  }
  auto* fiber = reinterpret_cast<Fiber*>(waiter);
  if (claim_wake(fiber, WakeReason::kDone)) {
    schedule(fiber);  // The record may be gone.
    return;
  }
  release_waiter(record);
}

namespace {

// kDone: it has ended. kTimeout; kCancelled: the waiter is.
WakeReason join_or_leave(TaskRecord* record, const std::chrono::nanoseconds* timeout) {
  if (is_terminal_now(record)) return WakeReason::kDone;
  ThreadWorker* worker = current_worker();
  if (worker == nullptr) return join_outside(record, timeout) ? WakeReason::kDone : WakeReason::kTimeout;
  Fiber* self = worker->fiber;
  RuntimeCore* runtime = worker->runtime;
  // In deterministic mode a join runs its task in place in half of the cases, so that both paths are exercised.
  if (timeout == nullptr && (worker->hooks & kHookDeterministic) != 0 && self->scope == record->nursery &&
      worker->deque.peek() == item_of(record) && runtime->order.below(2) == 0) {
    if (pop_item(worker) == item_of(record)) {
      run_in_place_slow(worker, record);
      return WakeReason::kDone;
    }
  }
  if (timeout != nullptr && timeout->count() <= 0) return WakeReason::kTimeout;
  JoinWait wait{record, self, deadline_of(runtime, timeout)};
  const WakeReason reason = park(worker, publish_join, &wait, true, kWaitsForTask);
  wait.timer.disarm(runtime);
  if (reason != WakeReason::kDone) {
    if (wait.published) withdraw_waiter(record, reinterpret_cast<std::uintptr_t>(self));
    if (is_terminal_now(record)) return WakeReason::kDone;
  }
  return reason;
}

}  // namespace

bool join_slow(TaskRecord* record, const std::chrono::nanoseconds* timeout) {
  const WakeReason reason = join_or_leave(record, timeout);
  if (reason == WakeReason::kCancelled) throw_cancelled();
  return reason == WakeReason::kDone;
}

Result<void> join_nothrow(TaskRecord* record) {
  if (!may_block_thread() && current_worker() == nullptr && !is_terminal_now(record)) return ErrorCode::kOutsideRuntime;
  if (join_or_leave(record, nullptr) == WakeReason::kCancelled) return cancel_code();
  return {};
}

Error take_failure(TaskRecord* record, std::exception_ptr* slot) {
  if (record->state.load(std::memory_order_relaxed) == TaskState::kCancelled) {
    const bool budget = (record->flags & TaskRecord::kFlagBudget) != 0;
    record->act(record, Action::kDropResult);
    free_record(current_worker(), record);
    return budget ? Error{ErrorCode::kBudgetExhausted, "the task was cancelled because its budget was used up"}
                  : Error{ErrorCode::kCancelled, "the task was cancelled"};
  }
  try {
    throw_outcome(record, slot);
  } catch (...) {
    return error_of(std::current_exception());
  }
}

// -------------------------------------------------------------------------------------------------------------- fork

void join_fork(Fork* fork) {
  Result<void> closed = close_slow(&fork->core);  // Makes the child's writes visible: its end is counted with release.
  if (closed.ok()) {
    // A child that found something around it cancelled before it ran has no result, although its own scope, which was
    // never linked, is not marked.
    const auto* child = reinterpret_cast<const TaskRecord*>(fork + 1);
    if ((child->flags & (TaskRecord::kFlagNeverRan | TaskRecord::kFlagCancelled)) == 0) {
      dispose_nursery(&fork->core);
      return;
    }
    closed = Error{ErrorCode::kCancelled, "the child was cancelled"};
    CancelReason none = CancelReason::kNone;
    fork->core.cancel.compare_exchange_strong(none, CancelReason::kParent, std::memory_order_acq_rel);
  }
  fork->act(reinterpret_cast<TaskRecord*>(fork + 1), Action::kDropResult);
  throw_close(std::move(closed).take_error(), &fork->core);
}

void abandon_fork(Fork* fork) {
  const bool closed = fork->core.owner == nullptr;
  const bool called = fork->core.local == 0;
  if (!closed && called) {
    ThreadWorker* worker = current_worker();
    worker->counters.spawned.add(1);
    (cancelled_now(worker) ? worker->counters.cancelled : worker->counters.failed).add(1);
  }
  try {
    fail_scope(&fork->core);
  } catch (...) {
    if (!closed && !called) fork->act(reinterpret_cast<TaskRecord*>(fork + 1), Action::kDropResult);
    throw;
  }
}

void finish_fork(Fork* fork) { finish_slow(&fork->core); }

// ------------------------------------------------------------------------------------------------------------ cancel

void cancel_task(TaskRecord* record, CancelReason reason) {
  if ((record->cancel.load(std::memory_order_seq_cst) & 0x0f) != 0) return;
  note_cancellation();
  TokensToCancel tokens;  // Cancelled after the hold: callbacks are user code.
  const HeldTask held(record);
  // Only holders write the reason. seq_cst: the mark comes before the epoch and the walk (docs/fibers.md).
  if ((record->cancel.load(std::memory_order_seq_cst) & 0x0f) != 0) return;
  if (!held.alive()) return;
  record->cancel.fetch_or(static_cast<std::uint8_t>(reason), std::memory_order_seq_cst);
  if (ThreadWorker* worker = current_worker(); worker != nullptr) {
    event(worker, TaskEvent::kCancel, record->id, static_cast<std::uint32_t>(reason));
  }
  cancel_from_handle(record, tokens);
}

}  // namespace rota::fiber::detail

// Task<T>: the handle of a spawned task (F-2).
//
// A handle is move-only and belongs to one fiber at a time, like std::future; cancel(), id(), state() and
// is_completed() may be called from anywhere while it lives. Dropping a handle does not end the task: its nursery owns
// it. Waiting parks the calling fiber, never the thread; outside the runtime it blocks the thread.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "rota/fiber/detail/core.h"
#include "rota/fiber/error.h"

namespace rota::fiber {

namespace detail {

// The result comes before the closure, so that a handle finds it without knowing the closure's type.
template <class T>
struct ResultRecord : Record {
  union {
    std::conditional_t<std::is_void_v<T>, char, T> value;
    std::exception_ptr error;
  };
  ResultRecord() {}   // NOLINT(modernize-use-equals-default): a union's members start dead.
  ~ResultRecord() {}  // NOLINT(modernize-use-equals-default)
};

// Stores the exception in flight as the task's outcome.
[[gnu::cold]] void capture_exception(Record* record, std::exception_ptr* slot);
// The exception that stands for the record's outcome when nothing was stored (cancelled in the queue, overflow).
[[noreturn]] [[gnu::cold]] void throw_outcome(Record* record, std::exception_ptr* slot);

// Waits until `record` is terminal. False when the time ran out. Throws Cancelled if the waiter is cancelled.
bool join_slow(Record* record, const std::chrono::nanoseconds* timeout);
// Runs a task that is not plain: cancelled, sampled, traced, metered. Finishes it, too.
void run_in_place_slow(Worker* worker, Record* record);
// The rest of a task's end, when it is not plain: failed, cancelled, registered, shared with somebody.
void finish_task(Worker* worker, Record* record);
void await_canceller(Record* record);
void cancel_task(Record* record, CancelReason reason);
void drop_handle(Record* record);
void throw_no_task();
[[nodiscard]] TaskState observed_state(const Record* record);

// Calls a task, just popped by its nursery's owner, on top of the current stack. If kJoining, the caller holds the only
// handle, so that nobody else can be waiting; otherwise somebody may, and the record may be gone on return.
template <bool kJoining>
[[gnu::always_inline]] inline void run_in_place(Worker* worker, Record* record) {
  constexpr std::uint8_t kUnusual = Record::kFlagFailed | Record::kFlagCancelled | Record::kFlagOverflow;
  if (cancelled_before_run(worker, record) || worker->hooks != 0 || !record->plain_entry()) [[unlikely]] {
    return run_in_place_slow(worker, record);
  }
  Fiber* fiber = worker->fiber;
  Record* outer = fiber->task;
  fiber->task = record;
  set_state(record, TaskState::kRunning);
  record->act(record, Action::kRun);
  worker = current_worker();
  fiber->task = outer;
  const bool detached = (record->flags & Record::kFlagDetached) != 0;
  if ((record->flags & kUnusual) != 0 || !record->plain_entry() || (!kJoining && !detached)) [[unlikely]] {
    return finish_task(worker, record);
  }
  worker->counters.completed.add(1);
  record->nursery->local -= 1;
  if constexpr (!kJoining) {
    record->act(record, Action::kDropResult);
    return free_record(worker, record);
  }
  set_state(record, TaskState::kCompleted);
  light_fence();  // Partner: cancel_task()'s heavy_fence(): it sees the terminal state, or this sees its mark.
  if (record->cancel.load(std::memory_order_relaxed) != 0) [[unlikely]]
    await_canceller(record);
  record->join.store(kJoinDone, std::memory_order_release);
}

// Has the task ended, so that its record is the handle's alone? (The terminal state is published a moment earlier.)
inline bool is_terminal_now(const Record* record) {
  return record->join.load(std::memory_order_acquire) == kJoinDone;  // Partner: the release of whoever finished it.
}

// Is there room on this stack to call another task?
inline bool stack_left(const Fiber* fiber) {
  return static_cast<std::byte*>(__builtin_frame_address(0)) > fiber->floor;
}

[[gnu::always_inline]] inline bool join(Record* record) {
  if (is_terminal_now(record)) return true;
  Worker* worker = current_worker();
  // In place only a child of the innermost scope of this very fiber: it is waited for anyway, and whatever cancels
  // this wait cancels the child as well.
  if (worker != nullptr && worker->fiber->scope == record->nursery && stack_left(worker->fiber) &&
      (worker->hooks & kHookDeterministic) == 0) [[likely]] {
    if (worker->solo ? worker->deque.pop_if<true>(item_of(record)) : worker->deque.pop_if<false>(item_of(record)))
        [[likely]] {
      run_in_place<true>(worker, record);
      return true;
    }
  }
  return join_slow(record, nullptr);
}

template <class F, class T>
struct TaskRecord : ResultRecord<T> {
  union {
    F closure;
  };
  explicit TaskRecord(F&& f) : closure(std::move(f)) {}
  explicit TaskRecord(const F& f) : closure(f) {}
  ~TaskRecord() {}  // NOLINT(modernize-use-equals-default)

  static void perform(Record* base, Action action) {
    auto* self = static_cast<TaskRecord*>(base);
    if (action == Action::kRun) {
      try {
        if constexpr (std::is_void_v<T>) {
          std::move(self->closure)();
        } else {
          ::new (static_cast<void*>(std::addressof(self->value))) T(std::move(self->closure)());
        }
        set_state(self, TaskState::kCompleting);
      } catch (...) {
        capture_exception(self, &self->error);
      }
      self->closure.~F();
    } else if (action == Action::kDropClosure) {
      self->closure.~F();
    } else {
      if (self->flags & (Record::kFlagFailed | Record::kFlagCancelled)) {
        self->error.~exception_ptr();
      } else if constexpr (!std::is_void_v<T>) {
        if (!(self->flags & (Record::kFlagOverflow | Record::kFlagNeverRan))) self->value.~T();
      }
    }
  }
};

}  // namespace detail

template <class T>
class [[nodiscard]] Task {
 public:
  Task() = default;
  explicit Task(detail::ResultRecord<T>* record) : record_(record) {}
  Task(Task&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      drop();
      record_ = std::exchange(other.record_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (record_ != nullptr) [[unlikely]]
      detail::drop_handle(record_);
  }

  // Waits, then returns the result or rethrows what the task threw; Cancelled if the task, or the caller while it
  // waited, was cancelled. Uses the handle up: a second get() throws FailedPrecondition.
  T get() {
    if (record_ == nullptr) [[unlikely]]
      detail::throw_no_task();
    detail::join(record_);
    return take();
  }

  // Waits until the task has ended, whatever its end. Throws only Cancelled, when the caller is.
  void wait() {
    if (record_ == nullptr) [[unlikely]]
      detail::throw_no_task();
    detail::join(record_);
  }
  // False when the task has not ended within `duration`.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds duration) {
    if (record_ == nullptr) [[unlikely]]
      detail::throw_no_task();
    return detail::is_terminal_now(record_) || detail::join_slow(record_, &duration);
  }

  // The result if the task has ended, as get() would give it; nothing (false for void) if it has not. Never blocks.
  auto poll()
      -> std::conditional_t<std::is_void_v<T>, bool, std::optional<std::conditional_t<std::is_void_v<T>, int, T>>> {
    if (record_ == nullptr) [[unlikely]]
      detail::throw_no_task();
    if (!is_completed()) return {};
    if constexpr (std::is_void_v<T>) {
      take();
      return true;
    } else {
      return take();
    }
  }

  // Asks the task to end. Idempotent; nothing happens once it is terminal.
  void cancel() const {
    if (record_ != nullptr) detail::cancel_task(record_, CancelReason::kExplicit);
  }
  [[nodiscard]] bool is_completed() const { return record_ != nullptr && detail::is_terminal_now(record_); }
  [[nodiscard]] TaskState state() const {
    return record_ == nullptr ? TaskState::kNew : detail::observed_state(record_);
  }
  // Unique within a runtime; 0 for an empty handle.
  [[nodiscard]] std::uint64_t id() const { return record_ == nullptr ? 0 : record_->id; }
  // For the runtime.
  detail::Record* record() const { return record_; }
  // False once get() or poll() has taken the result, or for a handle that was moved from.
  [[nodiscard]] bool valid() const { return record_ != nullptr; }

 private:
  T take() {
    detail::ResultRecord<T>* record = std::exchange(record_, nullptr);
    if (record->flags != 0 && record->state.load(std::memory_order_relaxed) != TaskState::kCompleted) [[unlikely]] {
      detail::throw_outcome(record, &record->error);
    }
    if constexpr (std::is_void_v<T>) {
      detail::free_record(detail::current_worker(), record);
    } else {
      T value = std::move(record->value);
      record->value.~T();
      detail::free_record(detail::current_worker(), record);
      return value;
    }
  }
  void drop() {
    if (record_ != nullptr) detail::drop_handle(record_);
    record_ = nullptr;
  }

  detail::ResultRecord<T>* record_ = nullptr;
};

}  // namespace rota::fiber

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

#include "rota/fiber/detail/charge.h"
#include "rota/fiber/detail/core.h"
#include "rota/fiber/error.h"

namespace rota::fiber {

namespace detail {

// The result comes before the closure, so that a handle finds it without knowing the closure's type.
template <class T>
struct ResultRecord : Record {
  static_assert(std::is_void_v<T> || alignof(std::conditional_t<std::is_void_v<T>, char, T>) <= 16,
                "a task's result is aligned to 16 bytes at most; return a pointer to it instead");
  union {
    std::conditional_t<std::is_void_v<T>, char, T> value;
    std::exception_ptr error;
  };
  ResultRecord(void (*function)(Record*, Action), std::uint8_t size, std::uint8_t bits)
      : Record(function, size, bits) {}
  ~ResultRecord() {}  // NOLINT(modernize-use-equals-default): a union's members start dead and end dead.
};

// Stores the exception in flight as the task's outcome.
[[gnu::cold]] void capture_exception(Record* record, std::exception_ptr* slot);
// The exception that stands for the record's outcome when nothing was stored (cancelled in the queue, overflow).
[[noreturn]] [[gnu::cold]] void throw_outcome(Record* record, std::exception_ptr* slot);

// The current task is cancelled: throws Cancelled, or BudgetExhausted if that is why.
[[noreturn]] void throw_cancelled();

// Waits until `record` is terminal. False when the time ran out. Throws Cancelled if the waiter is cancelled.
bool join_slow(Record* record, const std::chrono::nanoseconds* timeout);
// Runs a task that is not plain: cancelled, sampled, traced, metered. Finishes it, too.
void run_in_place_slow(Worker* worker, Record* record);
// The rest of a task's end, when it is not plain: failed, cancelled, registered, shared with somebody.
void finish_task(Worker* worker, Record* record);
void await_canceller(Record* record);
void cancel_task(Record* record, CancelReason reason);
void drop_handle(Record* record);
// join() and free_record() for metered code.
void join_called(Record* record);
void free_called(Record* record);
void throw_no_task();
[[nodiscard]] TaskState observed_state(const Record* record);

// Calls a task, just popped by its nursery's owner, on top of the current stack. True: it ended plainly, has left its
// nursery, and its record is the caller's. False: it was not plain, and has been finished to the end (its record may be
// gone if it is detached). `worker` is the current one on return.
[[gnu::always_inline]] inline bool call_in_place(Worker*& worker, Record* record) {
  constexpr std::uint8_t kUnusual =
      Record::kFlagFailed | Record::kFlagCancelled | Record::kFlagOverflow | Record::kFlagNeverRan;
  if (cancelled_before_run(worker, record) || (worker->hooks & ~kHookMeter) != 0 || !record->plain_entry())
      [[unlikely]] {
    run_in_place_slow(worker, record);
    worker = current_worker();
    return false;
  }
  Fiber* fiber = worker->fiber;
  Record* outer = fiber->task;
  fiber->task = record;
  set_state(record, TaskState::kRunning);
  record->act(record, Action::kRun);
  worker = current_worker();
  fiber->task = outer;
  if ((record->flags & kUnusual) != 0 || !record->plain_entry()) [[unlikely]] {
    finish_task(worker, record);
    worker = current_worker();
    return false;
  }
  if (record->meter != 0) [[unlikely]]
    settle_quickly(worker, record);
  worker->counters.completed.add(1);
  record->nursery->local -= 1;
  return true;
}

// The end of a plain task whose handle the caller holds: nobody else can be waiting for it.
[[gnu::always_inline]] inline void settle_in_place(Record* record) {
  set_state(record, TaskState::kCompleted);
  light_fence();  // Partner: cancel_task()'s heavy_fence(): it sees the terminal state, or this sees its mark.
  if (record->cancel.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    await_canceller(record);
  }
}

// Has the task ended, so that its record is the handle's alone? (The terminal state is published a moment earlier.)
inline bool is_terminal_now(const Record* record) {
  return record->join.load(std::memory_order_acquire) == kJoinDone;  // Partner: the release of whoever finished it.
}

// Is there room on this stack to call another task?
[[gnu::always_inline]] inline bool stack_left(const Fiber* fiber) {
#if defined(__x86_64__)
  std::byte* here;
  asm("movq %%rsp, %0" : "=r"(here));  // Not the frame's address: that would cost a frame pointer.
#else
  auto* here = static_cast<std::byte*>(__builtin_frame_address(0));
#endif
  return here > fiber->floor;
}

// Takes `record` out of this worker's deque if it is the newest there and may be called on this stack: only a child of
// the innermost scope of this very fiber, which is waited for anyway; whatever cancels this wait cancels it as well.
[[gnu::always_inline]] inline bool take_for_join(Worker* worker, Record* record) {
  if (worker == nullptr || worker->fiber->scope != record->nursery || !stack_left(worker->fiber) ||
      (worker->hooks & kHookDeterministic) != 0) [[unlikely]] {
    return false;
  }
  return worker->solo ? worker->deque.pop_if<true>(item_of(record)) : worker->deque.pop_if<false>(item_of(record));
}

// Waits until `record` has ended. Throws Cancelled if the waiter is cancelled.
inline void join(Record* record) {
  if (is_terminal_now(record)) return;
  if constexpr (ROTA_METERED) return join_called(record);
  Worker* worker = current_worker();
  if (!take_for_join(worker, record)) {
    join_slow(record, nullptr);
  } else if (call_in_place(worker, record)) {
    settle_in_place(record);
    record->join.store(kJoinDone, std::memory_order_release);
  }
}

template <class F, class T>
struct TaskRecord : ResultRecord<T> {
  union {
    F closure;
  };
  template <class G>
  TaskRecord(G&& f, std::uint8_t bits)
      : ResultRecord<T>(&perform, size_class_of(sizeof(TaskRecord)), bits), closure(std::forward<G>(f)) {}
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
  [[gnu::always_inline]] T get() {
    using namespace detail;
    ResultRecord<T>* record = record_;
    if (record == nullptr) [[unlikely]] {
      throw_no_task();
    }
    if constexpr (ROTA_METERED) {
      join(record);
      return take();
    } else {
      Worker* worker = current_worker();
      if (take_for_join(worker, record)) [[likely]] {
        record_ = nullptr;
        if (call_in_place(worker, record)) [[likely]] {
          settle_in_place(record);
          if constexpr (std::is_void_v<T>) {
            return free_record(worker, record);
          } else {
            T value = std::move(record->value);
            record->value.~T();
            free_record(worker, record);
            return value;
          }
        }
        record_ = record;
      }
      return get_slow();
    }
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
  [[gnu::noinline]] T get_slow() {
    if (!detail::is_terminal_now(record_)) detail::join_slow(record_, nullptr);
    return take();
  }
  T take() {
    detail::ResultRecord<T>* record = std::exchange(record_, nullptr);
    if (record->flags != 0 && record->state.load(std::memory_order_relaxed) != TaskState::kCompleted) [[unlikely]] {
      detail::throw_outcome(record, &record->error);
    }
    if constexpr (std::is_void_v<T>) {
      release(record);
    } else {
      T value = std::move(record->value);
      record->value.~T();
      release(record);
      return value;
    }
  }
  static void release(detail::Record* record) {
    if constexpr (ROTA_METERED) return detail::free_called(record);
    detail::free_record(detail::current_worker(), record);
  }
  void drop() {
    if (record_ != nullptr) detail::drop_handle(record_);
    record_ = nullptr;
  }

  detail::ResultRecord<T>* record_ = nullptr;
};

}  // namespace rota::fiber

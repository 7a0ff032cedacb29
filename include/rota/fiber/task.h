// Task<T>: the handle of a spawned task (F-2).
//
// A handle is move-only and belongs to one fiber at a time, like std::future; cancel(), id(), state() and
// is_completed() may be called from any thread while it lives. Dropping a handle does not end the task: its nursery
// owns it. Waiting parks the calling fiber, never the thread; outside the runtime it blocks the thread.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "rota/fiber/cancel.h"
#include "rota/fiber/detail/charge.h"
#include "rota/fiber/detail/core.h"
#include "rota/fiber/error.h"

namespace rota::fiber {

namespace detail {

// The result comes before the closure, so a handle finds it without knowing the closure's type.
template <class T>
struct ResultRecord : TaskRecord {
  static_assert(std::is_void_v<T> || alignof(std::conditional_t<std::is_void_v<T>, char, T>) <= 16,
                "a task's result is aligned to 16 bytes at most; return a pointer to it instead");
  union {
    std::conditional_t<std::is_void_v<T>, char, T> value;
    std::exception_ptr error;
  };
  ResultRecord(void (*function)(TaskRecord*, Action), std::uint8_t size, std::uint8_t bits)
      : TaskRecord(function, size, bits) {}
  ~ResultRecord() {}  // NOLINT(modernize-use-equals-default): union members are destroyed explicitly.
};

// Stores the current exception as the task's outcome.
[[gnu::cold]] void capture_exception(TaskRecord* record, std::exception_ptr* slot);
// Throws the exception for a record without a stored one (cancelled in the queue, stack overflow), or the stored one.
[[noreturn]] [[gnu::cold]] void throw_outcome(TaskRecord* record, std::exception_ptr* slot);

// Called in a cancelled task: throws Cancelled, or BudgetExhausted if that was the reason.
[[noreturn]] void throw_cancelled();

// Waits until `record` is terminal. False if the time ran out. Throws Cancelled if the waiter is cancelled.
bool join_slow(TaskRecord* record, const std::chrono::nanoseconds* timeout);
// The same without a limit; returns Cancelled instead of throwing it.
Result<void> join_nothrow(TaskRecord* record);
// The error of a record that ended without a result; frees it.
Error take_failure(TaskRecord* record, std::exception_ptr* slot);
CancelToken token_of_handle(TaskRecord* task);
// Runs and finishes a task that needs the slow path: cancelled, sampled, traced or metered.
void run_in_place_slow(ThreadWorker* worker, TaskRecord* record);
// Finishes a task that needs the slow path: failed, cancelled, registered, or shared with a waiter.
void finish_task(ThreadWorker* worker, TaskRecord* record);
void await_canceller(TaskRecord* record);
void cancel_task(TaskRecord* record, CancelReason reason);
void drop_handle(TaskRecord* record);
// join() and free_record() for metered code.
void join_called(TaskRecord* record);
void free_called(TaskRecord* record);
void throw_no_task();
[[nodiscard]] TaskState observed_state(const TaskRecord* record);

// Calls a task that its nursery's owner has just popped, on top of the current stack. True: it took the fast path, has
// left its nursery, and the caller owns its record. False: it took the slow path and is completely finished (its record
// may be gone if it is detached). `worker` is the current thread worker on return.
[[gnu::always_inline]] inline bool call_in_place(ThreadWorker*& worker, TaskRecord* record) {
  constexpr std::uint8_t kUnusual =
      TaskRecord::kFlagFailed | TaskRecord::kFlagCancelled | TaskRecord::kFlagOverflow | TaskRecord::kFlagNeverRan;
  if (cancelled_before_run(worker, record) || (worker->hooks & ~kHookMeter) != 0 || !record->plain_entry())
      [[unlikely]] {
    run_in_place_slow(worker, record);
    worker = current_worker();
    return false;
  }
  Fiber* fiber = worker->fiber;
  TaskRecord* outer = fiber->task;
  fiber->task = record;
#if ROTA_DASSERTS_ENABLED
  BodyFrame* bodies = fiber->bodies;
#endif
  set_state(record, TaskState::kRunning);
  record->act(record, Action::kRun);
  worker = current_worker();
  fiber->task = outer;
#if ROTA_DASSERTS_ENABLED
  fiber->bodies = bodies;  // Also if the task was left without unwinding.
#endif
  // A meter of its own may have capabilities, which the task keeps until its result is destroyed.
  const bool own_meter = record->meter != 0 && !is_inline(record->meter);
  if ((record->flags & kUnusual) != 0 || !record->plain_entry() || own_meter) [[unlikely]] {
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

// Finishes a fast-path task whose handle the caller holds: nobody else can be waiting for it.
[[gnu::always_inline]] inline void settle_in_place(TaskRecord* record) {
  set_state(record, TaskState::kCompleted);
  light_fence();  // Partner: cancel_task()'s heavy_fence(): it sees the terminal state, or this sees its mark.
  if (record->cancel.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    await_canceller(record);
  }
}

// True if the task has ended and only the handle uses its record. (The terminal state is published a little earlier.)
inline bool is_terminal_now(const TaskRecord* record) {
  return record->join.load(std::memory_order_acquire) == kJoinDone;  // Partner: finish_join()'s release.
}

// True if there is room on this stack to call another task.
[[gnu::always_inline]] inline bool stack_left(const Fiber* fiber) {
#if defined(__x86_64__)
  std::byte* here;
  asm("movq %%rsp, %0" : "=r"(here));  // Not the frame's address, which would cost a frame pointer.
#elif defined(__aarch64__)
  std::byte* here;
  asm("mov %0, sp" : "=r"(here));
#else
  auto* here = static_cast<std::byte*>(__builtin_frame_address(0));
#endif
  return here > fiber->floor;
}

// Pops `record` from the deque of this thread worker if it is the newest there and may be called on this stack: only a
// child of the innermost scope of this fiber, which is waited for anyway; cancelling this wait cancels the child, too.
[[gnu::always_inline]] inline bool take_for_join(ThreadWorker* worker, TaskRecord* record) {
  if (worker == nullptr || worker->fiber->scope != record->nursery || !stack_left(worker->fiber) ||
      (worker->hooks & kHookDeterministic) != 0) [[unlikely]] {
    return false;
  }
  return worker->deque.pop_if(item_of(record));
}

// Waits until `record` has ended. Throws Cancelled if the waiter is cancelled.
inline void join(TaskRecord* record) {
  if (is_terminal_now(record)) return;
  if constexpr (ROTA_METERED) return join_called(record);
  ThreadWorker* worker = current_worker();
  if (!take_for_join(worker, record)) {
    join_slow(record, nullptr);
  } else if (call_in_place(worker, record)) {
    settle_in_place(record);
    record->join.store(kJoinDone, std::memory_order_release);
  }
}

template <class F, class T>
struct ClosureRecord : ResultRecord<T> {
  union {
    F closure;
  };
  template <class G>
  ClosureRecord(G&& f, std::uint8_t bits)
      : ResultRecord<T>(&perform, size_class_of(sizeof(ClosureRecord)), bits), closure(std::forward<G>(f)) {}
  ~ClosureRecord() {}  // NOLINT(modernize-use-equals-default)

  static void perform(TaskRecord* base, Action action) {
    auto* self = static_cast<ClosureRecord*>(base);
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
      if (self->flags & (TaskRecord::kFlagFailed | TaskRecord::kFlagCancelled)) {
        self->error.~exception_ptr();
      } else if constexpr (!std::is_void_v<T>) {
        if (!(self->flags & (TaskRecord::kFlagOverflow | TaskRecord::kFlagNeverRan))) self->value.~T();
      }
    }
  }
};

// Constructs a record in memory of allocate_record(); frees the memory if the closure's constructor throws.
template <class R, class F>
[[gnu::always_inline]] inline R* construct_record(ThreadWorker* worker, void* memory, F&& f, std::uint8_t bits) {
  if constexpr (std::is_nothrow_constructible_v<std::decay_t<F>, F&&>) {
    return ::new (memory) R(std::forward<F>(f), bits);
  } else {
    try {
      return ::new (memory) R(std::forward<F>(f), bits);
    } catch (...) {
      auto* record = static_cast<TaskRecord*>(memory);
      record->size_class = size_class_of(sizeof(R));
      if constexpr (ROTA_METERED) {
        free_called(record);
      } else {
        free_record(worker == nullptr ? nullptr : current_worker(), record);
      }
      throw;
    }
  }
}

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

  // Waits, then returns the result or rethrows the task's exception; throws Cancelled if the task, or the caller while
  // it waited, was cancelled. Consumes the handle: a second get() throws FailedPrecondition.
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
      ThreadWorker* worker = current_worker();
      if (take_for_join(worker, record)) [[likely]] {
        record_ = nullptr;
        if (call_in_place(worker, record)) [[likely]] {
          settle_in_place(record);
          if constexpr (std::is_void_v<T>) {
            return free_record(worker, record);
          } else if constexpr (!std::is_nothrow_move_constructible_v<T>) {
            return take_value(record);
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

  // Waits until the task has ended in any way. Throws only Cancelled, if the caller is cancelled.
  void wait() {
    if (record_ == nullptr) [[unlikely]]
      detail::throw_no_task();
    detail::join(record_);
  }
  // The same; returns Cancelled instead of throwing it if the caller is cancelled.
  [[nodiscard]] Result<void> wait(std::nothrow_t) {
    if (record_ == nullptr) return ErrorCode::kFailedPrecondition;
    return detail::join_nothrow(record_);
  }
  // get() without exceptions: the result; or the error of the task (its code if it is a FiberError, otherwise Internal
  // with its message); or Cancelled if the caller is cancelled, and then the handle keeps the task.
  [[nodiscard]] Result<T> get(std::nothrow_t) {
    if (record_ == nullptr) return ErrorCode::kFailedPrecondition;
    if (Result<void> ended = detail::join_nothrow(record_); !ended.ok()) return std::move(ended).take_error();
    if (record_->flags != 0 && record_->state.load(std::memory_order_relaxed) != TaskState::kCompleted) {
      detail::ResultRecord<T>* record = std::exchange(record_, nullptr);
      return detail::take_failure(record, &record->error);
    }
    if constexpr (std::is_void_v<T>) {
      take();
      return {};
    } else {
      return take();
    }
  }
  // False if the task has not ended within `duration`.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds duration) {
    if (record_ == nullptr) [[unlikely]]
      detail::throw_no_task();
    return detail::is_terminal_now(record_) || detail::join_slow(record_, &duration);
  }

  // The result if the task has ended, like get(); nothing (false for void) if it has not. Never blocks.
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

  // Asks the task to end. Idempotent; no effect once it is terminal.
  void cancel() const {
    if (record_ != nullptr) detail::cancel_task(record_, CancelReason::kExplicit);
  }
  [[nodiscard]] bool is_completed() const { return record_ != nullptr && detail::is_terminal_now(record_); }
  [[nodiscard]] TaskState state() const {
    return record_ == nullptr ? TaskState::kNew : detail::observed_state(record_);
  }
  // A token that is cancelled when the task, or a scope around it, is; the one that the task itself gets from
  // current_token(). Of a task that has ended: cancelled if the task was. From any thread.
  [[nodiscard]] CancelToken cancel_token() const {
    if (record_ == nullptr) detail::throw_no_task();
    return detail::token_of_handle(record_);
  }
  [[nodiscard]] Priority priority() const {
    return record_ == nullptr ? Priority::kNormal
                              : static_cast<Priority>(record_->id >> detail::TaskRecord::kPriorityShift & 3U);
  }
  [[nodiscard]] Tenancy tenancy() const { return Tenancy::kCpuParallel; }
  // Unique within a runtime; 0 for an empty handle.
  [[nodiscard]] std::uint64_t id() const { return record_ == nullptr ? 0 : record_->id; }
  // For other parts of the runtime.
  detail::TaskRecord* record() const { return record_; }
  // False once get() or poll() has taken the result, and for a moved-from handle.
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
      return take_value(record);
    }
  }
  // Moves the result out of the record and frees it, also if the move throws.
  template <class Record>
  static T take_value(Record* record) {
    struct Free {
      Record* record;
      ~Free() {
        record->value.~T();
        release(record);
      }
    } const free{record};
    return std::move(record->value);
  }
  static void release(detail::TaskRecord* record) {
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

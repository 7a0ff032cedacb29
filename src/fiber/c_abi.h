// Internals of the C interface: handles, errors, and the wrapper around every entry point.
//
// A handle is an index, a generation and a kind in one number. The table holds a reference to the object; an entry
// point takes another one while it runs, so an object may be released while another thread is in a call with it.
//
// Thread safety: everything may be used from any thread. The table's lock is never held across a wait or user code.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "rota/fiber/detail/core.h"
#include "rota/fiber/error.h"
#include "rota/fiber/meter.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/task.h"
#include "rota/janus.h"
#include "rota/result.h"

namespace rota::fiber::c_abi {

// ------------------------------------------------------------------------------------------------------------ handles
enum class Kind : std::uint8_t { kScheduler = 1, kTask, kNursery, kChannel, kToken };

class HandleTable {
 public:
  static HandleTable& instance();
  // Never 0. Throws std::bad_alloc.
  std::uint64_t add(Kind kind, std::shared_ptr<void> object);
  // Null if the handle is stale or of another kind.
  std::shared_ptr<void> find(Kind kind, std::uint64_t handle);
  std::shared_ptr<void> remove(Kind kind, std::uint64_t handle);

 private:
  struct Slot {
    std::shared_ptr<void> object;
    std::uint32_t generation = 1;
    std::uint32_t next_free = 0;
    Kind kind{};
  };
  Slot* slot_of(Kind kind, std::uint64_t handle);

  detail::SpinLock lock_;
  std::vector<Slot> slots_;
  std::uint32_t first_free_ = kNone;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
};

template <class T>
[[nodiscard]] Result<std::shared_ptr<T>> find(std::uint64_t handle) {
  auto object = std::static_pointer_cast<T>(HandleTable::instance().find(T::kKind, handle));
  if (object == nullptr) return Error{ErrorCode::kNotFound, "the handle is stale, 0, or of another kind"};
  return object;
}
template <class T>
[[nodiscard]] Result<std::shared_ptr<T>> remove(std::uint64_t handle) {
  auto object = std::static_pointer_cast<T>(HandleTable::instance().remove(T::kKind, handle));
  if (object == nullptr) return Error{ErrorCode::kNotFound, "the handle is stale, 0, or of another kind"};
  return object;
}

// ------------------------------------------------------------------------------------------------------------- errors
// Stores why a call failed, for janus_last_error() of the same task or thread. Returns the code's number.
int remember(const Error& error) noexcept;
// Converts the exception that is being handled into a code and a stored message. REQUIRES: in a handler.
int remember_exception() noexcept;

// Calls `f`, which returns a Result<void>, and converts its result or exception into a code.
template <class F>
int guarded(F&& f) noexcept {
  try {
    const Result<void> result = std::forward<F>(f)();
    return result.ok() ? JANUS_OK : remember(result.error());
  } catch (...) {
    return remember_exception();
  }
}

[[nodiscard]] inline Error invalid(const char* message) { return Error{ErrorCode::kInvalidArgument, message}; }

// ------------------------------------------------------------------------------------------------------------ objects
struct Scheduler {
  static constexpr Kind kKind = Kind::kScheduler;
  std::unique_ptr<Runtime> runtime;
};
// The scheduler that was created last, or null.
std::shared_ptr<Scheduler> newest_scheduler();

inline constexpr std::size_t kMessageBytes = 256;

// Shared by a task of this interface and its handle.
struct TaskShare {
  void* result = nullptr;               // Written by the task, read after it has ended.
  int code = JANUS_OK;                  // Likewise: the code of its failure.
  char message[kMessageBytes] = "";     // Likewise.
  char last_error[kMessageBytes] = "";  // Used only by the task.
  bool told_cancelled = false;          // A call returned Cancelled for it. Used only by the task.
};

// A task's closure. TaskRecord::act identifies a task that has one, so the current task finds its TaskShare.
struct Body {
  void* (*function)(void*);
  void* argument;
  std::shared_ptr<TaskShare> state;
  void operator()();
};

struct TaskHandle {
  static constexpr Kind kKind = Kind::kTask;
  Task<void> task;  // Never consumed; released with this object, so cancelling is safe while it lives.
  std::shared_ptr<TaskShare> state;
  std::shared_ptr<Scheduler> scheduler{};  // For a task from outside: a deterministic one must be driven.
  sync::Atomic<bool> joining{false};       // One caller waits at a time.
};

// The current task; null outside.
detail::TaskRecord* current_task() noexcept;
// The TaskShare of the current task; null if it was not started by this interface.
TaskShare* current_state() noexcept;

// Starts a task in `core`. REQUIRES: in a task that may spawn there.
Result<std::shared_ptr<TaskHandle>> start_in(detail::NurseryCore* core, void* func, void* arg,
                                             const JanusBudget* budget);
// Starts an independent task.
Result<std::shared_ptr<TaskHandle>> start_on(const std::shared_ptr<Scheduler>& scheduler, void* func, void* arg,
                                             const JanusBudget* budget);
// Starts a task in the innermost nursery of the current task; outside, on the newest scheduler.
Result<std::shared_ptr<TaskHandle>> start_here(void* func, void* arg, const JanusBudget* budget);
// Publishes a handle, if the caller wants one.
Result<void> hand_out(std::shared_ptr<TaskHandle> task, JanusTask* to);
// The outcome of the task. REQUIRES: it has ended.
Result<void> outcome_of(const TaskHandle& task);
// Waits for the task, from a task or a plain thread.
void await(TaskHandle& task);

Budget budget_of(const JanusBudget& budget);
JanusBudget budget_of(const Budget& budget);

}  // namespace rota::fiber::c_abi

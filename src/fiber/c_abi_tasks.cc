// The C interface: tasks and nurseries.
//
// A nursery of this interface is on the heap and in the handle table, and otherwise a scope of its task like any other:
// in Fiber::scope, closed by the task that opened it, the innermost first. Body closes the scopes that a task's
// function leaves open, before the task ends.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>

#include "fiber/c_abi.h"
#include "fiber/runtime_core.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/nursery.h"

namespace rota::fiber::c_abi {

namespace {

using detail::NurseryCore;
using detail::TaskRecord;
using BodyRecord = detail::ClosureRecord<Body, void>;

struct NurseryHandle : NurseryCore {
  static constexpr Kind kKind = Kind::kNursery;
  NurseryHandle() : NurseryCore{} {}
  std::uint64_t handle = 0;
};

// Closes the scopes that the function left open when it returned or threw: they can only be nurseries of this
// interface.
void close_left_open(const TaskRecord* task) {
  for (;;) {
    NurseryCore* scope = detail::current_worker()->fiber->scope;
    if (scope == nullptr || scope->owner_task != task) return;
    auto* nursery = static_cast<NurseryHandle*>(scope);
    const Result<std::shared_ptr<NurseryHandle>> keep = find<NurseryHandle>(nursery->handle);
    detail::dispose_nursery(nursery);
    (void)remove<NurseryHandle>(nursery->handle);
  }
}

void fail_with(TaskShare& state, ErrorCode code, std::string_view text) {
  state.code = static_cast<int>(code);
  const std::size_t length = std::min(text.size(), kMessageBytes - 1);
  std::memcpy(state.message, text.data(), length);
  state.message[length] = '\0';
}

// The nursery of a handle, for the task that opened it or a task below, which cannot outlive it.
Result<std::shared_ptr<NurseryHandle>> nursery_for(JanusNursery handle) {
  ROTA_TRY_ASSIGN(auto nursery, find<NurseryHandle>(handle));
  const TaskRecord* task = current_task();
  if (task == nullptr) return Error{ErrorCode::kOutsideRuntime, "a nursery can be used only by tasks"};
  if (nursery->owner == nullptr) return ErrorCode::kNurseryNotActive;  // Its task was abandoned.
  if (nursery->owner_task == task) return nursery;
  for (const NurseryCore* at = task->nursery; at != nullptr; at = detail::parent_of(at)) {
    if (at == nursery.get()) return nursery;
  }
  return Error{ErrorCode::kFailedPrecondition, "a nursery can be used only by the task that opened it and tasks below"};
}

// The largest value of a component means no limit.
Reserve pool_of(const Budget& budget) {
  constexpr Budget kMost = Budget::unlimited();
  const auto amount = [](auto value, auto most) { return value == most ? UINT64_MAX : std::uint64_t{value}; };
  return {amount(budget.ops, kMost.ops), amount(budget.memory, kMost.memory),
          amount(budget.spawn_count, kMost.spawn_count), amount(budget.channel_ops, kMost.channel_ops),
          amount(budget.syscalls, kMost.syscalls)};
}

std::optional<Budget> optional_budget(const JanusBudget* budget) {
  if (budget == nullptr) return std::nullopt;
  return budget_of(*budget);
}

Result<Body> body_of(void* func, void* arg) {
  if (func == nullptr) return invalid("func is null");
  return Body{reinterpret_cast<JanusFunction>(func), arg, std::make_shared<TaskShare>()};
}

std::shared_ptr<TaskHandle> handle_for(Task<void> task, std::shared_ptr<TaskShare> state) {
  auto handle = std::make_shared<TaskHandle>();
  handle->task = std::move(task);
  handle->state = std::move(state);
  return handle;
}

}  // namespace

void Body::operator()() {
  const TaskRecord* task = current_task();
  try {
    state->result = function(argument);
  } catch (const FiberError& error) {  // From a function in C++.
    fail_with(*state, error.code(), error.what());
    close_left_open(task);
    throw;
  } catch (const std::exception& error) {
    fail_with(*state, ErrorCode::kInternal, error.what());
    close_left_open(task);
    throw;
  } catch (...) {
    fail_with(*state, ErrorCode::kInternal, "an exception that is not a std::exception");
    close_left_open(task);
    throw;
  }
  close_left_open(task);
  if (state->code != JANUS_OK) throw FiberError(Error{static_cast<ErrorCode>(state->code), state->message});
  if (state->told_cancelled && is_cancelled()) throw Cancelled(detail::current_cancel_reason());
}

TaskRecord* current_task() noexcept {
  const detail::ThreadWorker* worker = detail::current_worker();
  return worker == nullptr ? nullptr : worker->fiber->task;
}

TaskShare* current_state() noexcept {
  TaskRecord* task = current_task();
  if (task == nullptr || task->act != &BodyRecord::perform) return nullptr;
  return static_cast<BodyRecord*>(task)->closure.state.get();
}

Result<std::shared_ptr<TaskHandle>> start_in(NurseryCore* core, void* func, void* arg, const JanusBudget* budget) {
  ROTA_TRY_ASSIGN(Body body, body_of(func, arg));
  std::shared_ptr<TaskShare> state = body.state;
  const Grant grant{.budget = optional_budget(budget)};
  auto* record = ::new (detail::allocate_called(sizeof(BodyRecord))) BodyRecord(std::move(body), 0);
  ROTA_TRY(detail::start_called(core, record, budget == nullptr ? nullptr : &grant));
  return handle_for(Task<void>(record), std::move(state));
}

Result<std::shared_ptr<TaskHandle>> start_on(const std::shared_ptr<Scheduler>& scheduler, void* func, void* arg,
                                             const JanusBudget* budget) {
  ROTA_TRY_ASSIGN(Body body, body_of(func, arg));
  std::shared_ptr<TaskShare> state = body.state;
  Task<void> task = budget == nullptr
                        ? scheduler->runtime->spawn(std::move(body))
                        : scheduler->runtime->spawn(Grant{.budget = optional_budget(budget)}, std::move(body));
  auto handle = handle_for(std::move(task), std::move(state));
  handle->scheduler = scheduler;
  return handle;
}

Result<std::shared_ptr<TaskHandle>> start_here(void* func, void* arg, const JanusBudget* budget) {
  if (const TaskRecord* task = current_task(); task != nullptr) {
    NurseryCore* scope = detail::current_worker()->fiber->scope;
    if (scope == nullptr || scope->owner_task != task) {
      return Error{ErrorCode::kNurseryNotActive, "this task has no nursery open; janus_nursery_open() opens one"};
    }
    return start_in(scope, func, arg, budget);
  }
  const std::shared_ptr<Scheduler> scheduler = newest_scheduler();
  if (scheduler == nullptr) return Error{ErrorCode::kNotFound, "there is no scheduler"};
  return start_on(scheduler, func, arg, budget);
}

Result<void> hand_out(std::shared_ptr<TaskHandle> task, JanusTask* to) {
  if (to != nullptr) *to = HandleTable::instance().add(Kind::kTask, std::move(task));
  return {};
}

Result<void> outcome_of(const TaskHandle& task) {
  const TaskRecord* record = task.task.record();
  switch (task.task.state()) {
    case TaskState::kCompleted:
      return {};
    case TaskState::kCancelled:
      if ((record->flags & TaskRecord::kFlagBudget) != 0) return ErrorCode::kBudgetExhausted;
      return ErrorCode::kCancelled;
    default:
      break;
  }
  if (task.state->code != JANUS_OK) {
    return Error{static_cast<ErrorCode>(task.state->code), task.state->message};
  }
  if ((record->flags & TaskRecord::kFlagOverflow) != 0) return ErrorCode::kStackOverflow;
  return ErrorCode::kWorkerPanic;
}

void await(TaskHandle& task) {
  const bool drive =
      detail::current_worker() == nullptr && task.scheduler != nullptr && task.scheduler->runtime->deterministic();
  if (drive) {
    task.scheduler->runtime->run([&task] { task.task.wait(); });
  } else {
    task.task.wait();
  }
}

}  // namespace rota::fiber::c_abi

using namespace rota;
using namespace rota::fiber;
using namespace rota::fiber::c_abi;

// --------------------------------------------------------------------------------------------------------------- tasks

int janus_task_join(JanusTask task, void** result, int* joined) {
  if (result != nullptr) *result = nullptr;
  if (joined != nullptr) *joined = 0;
  return guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto handle, c_abi::find<TaskHandle>(task));
    // Acquire and release, partners: each other. The caller that sets it may wait.
    if (handle->joining.exchange(true, std::memory_order_acquire)) {
      return Error{ErrorCode::kConflict, "another caller is waiting for this task"};
    }
    struct Release {
      ~Release() { handle.joining.store(false, std::memory_order_release); }
      TaskHandle& handle;
    } release{*handle};
    await(*handle);
    ROTA_TRY(c_abi::remove<TaskHandle>(task));
    if (joined != nullptr) *joined = 1;
    ROTA_TRY(outcome_of(*handle));
    if (result != nullptr) *result = handle->state->result;
    return {};
  });
}

int janus_task_release(JanusTask task) {
  return guarded([task]() -> Result<void> {
    ROTA_TRY(c_abi::remove<TaskHandle>(task));
    return {};
  });
}

int janus_task_cancel(JanusTask task) {
  return guarded([task]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto handle, c_abi::find<TaskHandle>(task));
    handle->task.cancel();
    return {};
  });
}

int janus_task_is_done(JanusTask task, int* done) {
  return guarded([&]() -> Result<void> {
    if (done == nullptr) return invalid("done is null");
    ROTA_TRY_ASSIGN(const auto handle, c_abi::find<TaskHandle>(task));
    *done = handle->task.is_completed() ? 1 : 0;
    return {};
  });
}

int janus_task_fail(int code, const char* message) {
  return guarded([&]() -> Result<void> {
    TaskShare* state = current_state();
    if (state == nullptr) return Error{ErrorCode::kFailedPrecondition, "the caller is not a task of this interface"};
    const auto known = [code](const ErrorCodeInfo& row) { return static_cast<int>(row.code) == code; };
    if (code == JANUS_OK || std::ranges::none_of(error_codes(), known)) return invalid("code is not an error code");
    fail_with(*state, static_cast<ErrorCode>(code), message == nullptr ? "" : message);
    return {};
  });
}

int janus_task_is_cancelled(int* cancelled) {
  return guarded([cancelled]() -> Result<void> {
    if (cancelled == nullptr) return invalid("cancelled is null");
    *cancelled = current_task() != nullptr && is_cancelled() ? 1 : 0;
    return {};
  });
}

// ----------------------------------------------------------------------------------------------------------- nurseries

int janus_nursery_open(const JanusNurseryOptions* options, JanusNursery* nursery) {
  if (nursery != nullptr) *nursery = 0;
  return guarded([&]() -> Result<void> {
    if (nursery == nullptr) return invalid("nursery is null");
    if (current_task() == nullptr) return Error{ErrorCode::kOutsideRuntime, "a nursery must be opened by a task"};
    if (options != nullptr && (options->on_exhausted < JANUS_EXHAUSTED_DEFAULT ||
                               options->on_exhausted > JANUS_EXHAUSTED_CANCEL || options->deadline < JANUS_FOREVER)) {
      return invalid("on_exhausted is not a JanusOnExhausted, or the deadline is negative");
    }
    auto made = std::make_shared<NurseryHandle>();
    made->handle = HandleTable::instance().add(Kind::kNursery, made);
    struct Undo {  // Unless everything succeeded.
      ~Undo() {
        if (!armed) return;
        rota::fiber::detail::dispose_nursery(made);
        (void)c_abi::remove<NurseryHandle>(made->handle);
      }
      NurseryHandle* made;
      bool armed = true;
    } undo{made.get()};
    rota::fiber::detail::open_called(made.get());
    if (options != nullptr) {
      NurseryOptions wanted;
      if (options->pool != nullptr) wanted.pool = pool_of(budget_of(*options->pool));
      wanted.default_child = optional_budget(options->default_child);
      if (options->on_exhausted != JANUS_EXHAUSTED_DEFAULT) {
        wanted.on_exhausted = static_cast<OnExhausted>(options->on_exhausted - JANUS_EXHAUSTED_RECHARGE);
      }
      rota::fiber::detail::open_metered(rota::fiber::detail::current_worker(), made.get(), wanted);
      if (options->deadline != JANUS_FOREVER) {
        rota::fiber::detail::arm_deadline(made.get(), std::chrono::nanoseconds(options->deadline));
      }
    }
    undo.armed = false;
    *nursery = made->handle;
    return {};
  });
}

int janus_nursery_spawn(JanusNursery nursery, void* func, void* arg, const JanusBudget* budget, JanusTask* task) {
  if (task != nullptr) *task = 0;
  return guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto into, nursery_for(nursery));
    ROTA_TRY_ASSIGN(auto started, start_in(into.get(), func, arg, budget));
    return hand_out(std::move(started), task);
  });
}

int janus_nursery_recharge(JanusNursery nursery, JanusTask task, JanusBudget amount) {
  return guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto from, nursery_for(nursery));
    ROTA_TRY_ASSIGN(const auto handle, c_abi::find<TaskHandle>(task));
    return rota::fiber::detail::recharge_task(from.get(), handle->task.id(), budget_of(amount));
  });
}

int janus_nursery_cancel(JanusNursery nursery) {
  return guarded([nursery]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto found, nursery_for(nursery));
    rota::fiber::detail::cancel_nursery(found.get(), CancelReason::kExplicit);
    return {};
  });
}

int janus_nursery_close(JanusNursery nursery) {
  return guarded([nursery]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto found, nursery_for(nursery));
    if (found->owner_task != current_task() || rota::fiber::detail::current_worker()->fiber->scope != found.get()) {
      return Error{ErrorCode::kFailedPrecondition,
                   "a nursery must be closed by the task that opened it, the innermost first"};
    }
    Result<void> closed = rota::fiber::detail::close_slow(found.get());
    rota::fiber::detail::dispose_nursery(found.get());
    (void)c_abi::remove<NurseryHandle>(nursery);
    return closed;
  });
}

// Nurseries: structured concurrency (F-4 to F-7).
//
//   int sum = with_scope([](Nursery& n) {
//     Task<int> a = n.spawn([] { return 1; });
//     Task<int> b = n.spawn([] { return 2; });
//     return a.get() + b.get();
//   });
//
// No task outlives its nursery, on any path. The first child that fails cancels the others. If the body throws, all
// children are cancelled and waited for, and then the exception propagates. A nursery lives on the stack of the fiber
// that opened it; any task may spawn into it while it is open.
//
// The scope waits after its body has returned, and so after the body's own variables are destroyed: what tasks refer to
// is declared before the scope. Debug builds find tasks that break this rule (detail/body_check.h).
#pragma once

#include <chrono>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

#include "rota/fiber/budget.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/capability.h"
#include "rota/fiber/detail/body_check.h"
#include "rota/fiber/detail/charge.h"
#include "rota/fiber/detail/core.h"
#include "rota/fiber/meter.h"
#include "rota/fiber/task.h"

namespace rota::fiber {

namespace detail {
void open_slow(ThreadWorker* worker, NurseryCore* core);
Result<void> close_slow(NurseryCore* core);
void help_children(NurseryCore* core);
// Closes and frees the nursery; throws the failure, or Cancelled.
void finish_slow(NurseryCore* core);
// Cancels and waits if the nursery is still open; frees its resources.
void dispose_nursery(NurseryCore* core);
// Called in a handler, after the body has thrown. Cancels, waits, frees; then rethrows the exception, or a child's
// failure if the body only threw because that failure cancelled it (F-5: a failure takes precedence over cancellation).
[[noreturn]] void fail_scope(NurseryCore* core);
void arm_deadline(NurseryCore* core, std::chrono::nanoseconds duration);
// Whether the scope's deadline has passed; then the scope is cancelled for that reason. Called by its owner.
bool note_expiry(NurseryCore* core);
void cancel_nursery(NurseryCore* core, CancelReason reason);
[[noreturn]] void throw_close(Error error, NurseryCore* core);
// The expensive checks: budgets, capabilities, profile, trace. Null if the spawn is allowed.
Result<void> spawn_check(ThreadWorker* worker, NurseryCore* core, TaskRecord* record, const Grant* grant);
// Meters the children as the options say. Throws BudgetExhausted, CapabilityDenied.
void open_metered(ThreadWorker* worker, NurseryCore* core, const NurseryOptions& options);
std::shared_ptr<SupervisorState> supervise(NurseryCore* nursery);
PoolAudit pool_audit(NurseryCore* nursery);
// For every 64th task that a thread worker spawns: takes its time, and sees whether its nursery is cancelled from
// around it, so that a loop that only spawns learns of that (F-6); then the nursery is not open any more.
void sample_spawn(ThreadWorker* worker, NurseryCore* core, TaskRecord* record);
// There is no memory to queue a task: ends it without running. Returns the error.
[[gnu::cold]] Result<void> refuse_without_memory(ThreadWorker* worker, NurseryCore* core, TaskRecord* record);
// Queues a task whose id has a priority.
void queue_prioritized(ThreadWorker* worker, TaskRecord* record);
CancelToken token_of_scope(NurseryCore* core);
CancelToken token_of_handle(TaskRecord* task);

// Sets the owner of the scope. It becomes a scope when fiber->scope points to it.
[[gnu::always_inline]] inline void describe_scope(NurseryCore* core, Fiber* fiber) {
  core->owner_task = fiber->task;
  core->owner = fiber;
  core->outer = fiber->scope;
  core->seen_epoch.store(fiber->task->nursery->seen_epoch.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

[[gnu::always_inline]] inline void open_nursery(NurseryCore* core) {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr) [[unlikely]]
    throw_outside_runtime("a nursery");
  describe_scope(core, worker->fiber);
  worker->fiber->scope = core;
  if (worker->hooks != 0) [[unlikely]] {
    // In a metered runtime every 256th scope yields.
    if ((++worker->scopes & 255) == 0 || worker->hooks != kHookMeter) open_slow(worker, core);
  }
}

template <class T>
constexpr std::uint8_t detached_flags() {
  return TaskRecord::kFlagDetached |
         (std::is_void_v<T> || std::is_trivially_destructible_v<T> ? TaskRecord::kFlagNoResult : 0);
}

// Makes a record a task of the nursery, and queues it. If it is refused, the record is freed.
template <class R>
[[gnu::always_inline]] inline ErrorOr<R*> start_record(ThreadWorker* worker, NurseryCore* core, R* record,
                                                       const Grant* grant) {
  record->nursery = core;
  record->id = worker->counters.spawned.next();
  record->meter = worker->fresh_meter;
  if (core->owner == worker->fiber) [[likely]] {
    core->local += 1;
  } else {
    core->remote.fetch_add(1, std::memory_order_relaxed);
  }
  const bool special = grant != nullptr || core->extras.load(std::memory_order_relaxed) != nullptr;
  if (worker->hooks != 0 || special) [[unlikely]] {
    if (special || !charge_spawn_quickly(worker, core)) {
      if (Result<void> refused = spawn_check(worker, core, record, grant); !refused.ok()) {
        return {nullptr, std::move(refused)};
      }
      worker = current_worker();  // It may have yielded.
      if ((record->id >> TaskRecord::kPriorityShift & 3U) != 0) {
        queue_prioritized(worker, record);
        return {record, {}};
      }
    }
  }
  if ((record->id & 63) == 0) [[unlikely]] {
    sample_spawn(worker, core, record);
    worker = current_worker();  // It may have called callbacks of tokens.
  }
  if (!worker->deque.push(item_of(record))) [[unlikely]]
    return {nullptr, refuse_without_memory(worker, core, record)};
  notify_work(worker);
  return {record, {}};
}

// The same for metered code.
void open_called(NurseryCore* core);
[[nodiscard]] void* allocate_called(std::size_t bytes);
[[nodiscard]] Result<void> start_called(NurseryCore* core, TaskRecord* record, const Grant* grant);
}  // namespace detail

// A view of a scope: of a nursery, or of the runtime's root, which has no parent. Valid while the scope is open, so a
// task may use it for every scope around it.
class Scope {
 public:
  explicit Scope(detail::NurseryCore* core) : core_(core) {}
  // The next scope outwards: of the same task, or the nursery that its task belongs to. None for the root.
  [[nodiscard]] std::optional<Scope> parent() const;
  // The time on the runtime's clock (now()) at which this scope is cancelled: its own deadline, or an earlier one
  // around it.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> deadline() const;
  // Cancelled when this scope is, for whatever reason; never if it closes normally.
  [[nodiscard]] CancelToken token() const;
  [[nodiscard]] NurseryState state() const { return core_->state.load(std::memory_order_acquire); }
  [[nodiscard]] CancelReason cancel_reason() const { return core_->cancel.load(std::memory_order_acquire); }
  // The task that opened it; 0 for the root.
  [[nodiscard]] std::uint64_t owner_id() const { return core_->owner_task == nullptr ? 0 : core_->owner_task->id; }
  bool operator==(const Scope& other) const { return core_ == other.core_; }

 private:
  detail::NurseryCore* core_;
};

// The innermost scope that the current task has opened, or else the one that it belongs to. REQUIRES: in a task.
[[nodiscard]] Scope current_scope();
[[nodiscard]] Priority current_priority();

class Nursery {
 public:
  Nursery(const Nursery&) = delete;
  Nursery& operator=(const Nursery&) = delete;

  // Opens a nursery on the current fiber. Prefer with_scope(). Throws OutsideRuntime, or NurseryNotActive in `core`.
  Nursery() {
    if constexpr (ROTA_METERED) {
      detail::open_called(&core_);
    } else {
      detail::open_nursery(&core_);
    }
  }
  // A nursery that meters its children as `options` say. Throws BudgetExhausted if the surrounding pool does not have
  // as much as requested, CapabilityDenied without the CapBudget that this needs.
  explicit Nursery(const NurseryOptions& options) : Nursery() {
    detail::open_metered(detail::current_worker(), &core_, options);
  }
  // A nursery that was not closed is cancelled and waited for.
  ~Nursery() {
    if (core_.owner != nullptr || core_.extras.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
      detail::dispose_nursery(&core_);
    }
  }

  // Runs `f()` as a task of this nursery. Throws NurseryNotActive, SpawnBudgetExhausted, CapabilityDenied...
  template <class F>
  auto spawn(F&& f) -> Task<std::invoke_result_t<std::decay_t<F>>> {
    using T = std::invoke_result_t<std::decay_t<F>>;
    detail::ErrorOr<detail::ResultRecord<T>*> record = make<T>(std::forward<F>(f), 0);
    if (record.pointer == nullptr) [[unlikely]]
      detail::throw_error(std::move(record.error).take_error());
    return Task<T>(record.pointer);
  }
  // The same, with an error instead of an exception.
  template <class F>
  auto try_spawn(F&& f) -> Result<Task<std::invoke_result_t<std::decay_t<F>>>> {
    using T = std::invoke_result_t<std::decay_t<F>>;
    detail::ErrorOr<detail::ResultRecord<T>*> record = make<T>(std::forward<F>(f), 0);
    if (record.pointer == nullptr) [[unlikely]]
      return std::move(record.error).take_error();
    return Task<T>(record.pointer);
  }
  // Like spawn(), for a task whose result is not needed: only the nursery learns of its end or failure.
  template <class F>
  void launch(F&& f) {
    using T = std::invoke_result_t<std::decay_t<F>>;
    detail::ErrorOr<detail::ResultRecord<T>*> record = make<T>(std::forward<F>(f), detail::detached_flags<T>());
    if (record.pointer == nullptr) [[unlikely]]
      detail::throw_error(std::move(record.error).take_error());
  }
  // The same with its own budget and capabilities. CapabilityDenied if they exceed the caller's.
  template <class F>
  auto spawn(const Grant& grant, F&& f) -> Task<std::invoke_result_t<std::decay_t<F>>> {
    using T = std::invoke_result_t<std::decay_t<F>>;
    detail::ErrorOr<detail::ResultRecord<T>*> record = make<T>(std::forward<F>(f), 0, &grant);
    if (record.pointer == nullptr) [[unlikely]]
      detail::throw_error(std::move(record.error).take_error());
    return Task<T>(record.pointer);
  }
  template <class F>
  auto try_spawn(const Grant& grant, F&& f) -> Result<Task<std::invoke_result_t<std::decay_t<F>>>> {
    using T = std::invoke_result_t<std::decay_t<F>>;
    detail::ErrorOr<detail::ResultRecord<T>*> record = make<T>(std::forward<F>(f), 0, &grant);
    if (record.pointer == nullptr) [[unlikely]]
      return std::move(record.error).take_error();
    return Task<T>(record.pointer);
  }
  template <class F>
  void launch(const Grant& grant, F&& f) {
    using T = std::invoke_result_t<std::decay_t<F>>;
    detail::ErrorOr<detail::ResultRecord<T>*> record = make<T>(std::forward<F>(f), detail::detached_flags<T>(), &grant);
    if (record.pointer == nullptr) [[unlikely]]
      detail::throw_error(std::move(record.error).take_error());
  }
  // Runs `f(token)` with a token that is cancelled when the task is.
  template <class F>
  auto spawn_cancellable(F&& f) -> Task<std::invoke_result_t<std::decay_t<F>, CancelToken&>> {
    return spawn([f = std::decay_t<F>(std::forward<F>(f))]() mutable {
      CancelToken token = current_token();
      return std::move(f)(token);
    });
  }
  // Spawns each callable of a range.
  template <std::ranges::input_range R>
  auto spawn_all(R&& callables) {
    using F = std::ranges::range_value_t<R>;
    std::vector<Task<std::invoke_result_t<F>>> tasks;
    if constexpr (std::ranges::sized_range<R>) tasks.reserve(std::ranges::size(callables));
    for (auto&& f : callables) tasks.push_back(spawn(std::forward<decltype(f)>(f)));
    return tasks;
  }

  // Cancels every task in the nursery and below. Idempotent.
  void cancel() { detail::cancel_nursery(&core_, CancelReason::kExplicit); }

  // Runs, on this stack, children that are still in the deque of this thread worker, newest first, as close() would;
  // the nursery stays open, so they may launch more. Must be called by the fiber that opened it, with no scope open
  // inside; otherwise, and in deterministic mode, it does nothing.
  void help() { detail::help_children(&core_); }

  // Waits for all children. A child's failure takes precedence over cancellation: the error has the failure's code, or
  // Cancelled, or DeadlineExceeded. Only the fiber that opened the nursery may close it.
  Result<void> close() { return detail::close_slow(&core_); }

  // Recharges a task of this nursery, or below it, that has run out of budget; see Supervisor::recharge().
  template <class T>
  [[nodiscard]] Result<void> recharge(const Task<T>& task, const Budget& amount) {
    return detail::recharge_task(&core_, task.id(), amount);
  }
  // The Supervisor that can recharge the children. Called by the task that opened the nursery, before it spawns.
  [[nodiscard]] Supervisor supervisor() { return Supervisor(detail::supervise(&core_)); }
  // The accounts of the pool that its children draw from.
  [[nodiscard]] PoolAudit audit() { return detail::pool_audit(&core_); }

  [[nodiscard]] NurseryState state() const { return core_.state.load(std::memory_order_acquire); }
  [[nodiscard]] CancelReason cancel_reason() const { return core_.cancel.load(std::memory_order_acquire); }
  // The surrounding scope, the earliest deadline of this and the surrounding ones, and a token that is cancelled when
  // this scope is. See Scope.
  [[nodiscard]] std::optional<Scope> parent() { return Scope(&core_).parent(); }
  [[nodiscard]] std::optional<std::chrono::nanoseconds> deadline() { return Scope(&core_).deadline(); }
  [[nodiscard]] CancelToken token() { return Scope(&core_).token(); }
  // For other parts of the runtime.
  detail::NurseryCore* core() { return &core_; }

 private:
  template <class G>
  friend auto with_scope(G&& body) -> std::invoke_result_t<G, Nursery&>;
  template <class G>
  friend auto with_deadline(std::chrono::nanoseconds duration, G&& body);

  template <class T, class F>
  [[gnu::always_inline]] detail::ErrorOr<detail::ResultRecord<T>*> make(F&& f, std::uint8_t flags,
                                                                        const Grant* grant = nullptr) {
    using namespace detail;
    using R = ClosureRecord<ClosureOf<std::decay_t<F>>, T>;
    if constexpr (ROTA_METERED) {
      R* record = construct_record<R>(nullptr, allocate_called(sizeof(R)), std::forward<F>(f), flags);
      if (Result<void> refused = start_called(&core_, record, grant); !refused.ok()) {
        return {nullptr, std::move(refused)};
      }
      return {record, {}};
    } else {
      ThreadWorker* worker = current_worker();
      if (worker == nullptr) [[unlikely]]
        throw_outside_runtime("spawn()");
      R* record = construct_record<R>(worker, allocate_record<R>(worker), std::forward<F>(f), flags);
      if constexpr (kIsWatched<std::decay_t<F>>) record->closure.watch(&core_);
      return start_record<ResultRecord<T>>(worker, &core_, record, grant);
    }
  }

  // True if no child is left and nothing unusual happened. Acquire, partner: the release of the children that ended on
  // other fibers.
  [[gnu::always_inline]] bool is_quiet() const {
    return (core_.local | core_.remote.load(std::memory_order_acquire) |
            reinterpret_cast<std::intptr_t>(core_.extras.load(std::memory_order_relaxed))) == 0;
  }
  // The end of with_scope(), after which no destructor runs.
  [[gnu::always_inline]] void finish() {
    if (is_quiet()) [[likely]] {
      core_.owner->scope = core_.outer;
    } else {
      detail::finish_slow(&core_);
    }
  }

  detail::NurseryCore core_{};
};

// Opens a nursery, runs body(nursery), closes it, and returns the body's result.
template <class F>
auto with_scope(F&& body) -> std::invoke_result_t<F, Nursery&> {
  using T = std::invoke_result_t<F, Nursery&>;
  union Holder {  // Destroyed explicitly: on the normal path finish() has done everything.
    Nursery nursery;
    Holder() : nursery() {}
    ~Holder() {}  // NOLINT(modernize-use-equals-default)
  } holder;
  try {
    if constexpr (std::is_void_v<T>) {
      detail::call_body(std::forward<F>(body), holder.nursery);
      holder.nursery.finish();
    } else {
      T value = detail::call_body(std::forward<F>(body), holder.nursery);
      holder.nursery.finish();
      return value;
    }
  } catch (...) {
    detail::fail_scope(&holder.nursery.core_);
  }
}

// The same in a nursery that meters its children as `options` say.
template <class F>
auto with_scope(const NurseryOptions& options, F&& body) -> std::invoke_result_t<F, Nursery&> {
  using T = std::invoke_result_t<F, Nursery&>;
  Nursery nursery(options);
  const auto finish = [&nursery] {
    if (Result<void> closed = nursery.close(); !closed.ok()) {
      detail::throw_close(std::move(closed).take_error(), nursery.core());
    }
  };
  try {
    if constexpr (std::is_void_v<T>) {
      detail::call_body(std::forward<F>(body), nursery);
      finish();
    } else {
      T value = detail::call_body(std::forward<F>(body), nursery);
      finish();
      return value;
    }
  } catch (...) {
    detail::fail_scope(nursery.core());
  }
}

// The same within `duration`, or within the rest of a surrounding deadline. When the time runs out, everything in the
// scope is cancelled, blocked tasks are interrupted, all tasks are waited for, and nothing is returned, even if the
// body had already returned. For a body that returns void: true if it was in time.
template <class F>
auto with_deadline(std::chrono::nanoseconds duration, F&& body) {
  using T = std::invoke_result_t<F, Nursery&>;
  Nursery nursery;
  detail::arm_deadline(nursery.core(), duration);
  const auto finish = [&nursery](auto&& run) -> bool {
    try {
      run();
    } catch (const FiberError& error) {
      // After the expiry a wait is cancelled and a spawn is refused; this is the expiry, not a failure.
      const bool expired = error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kNurseryNotActive;
      if (!expired || !detail::note_expiry(nursery.core())) detail::fail_scope(nursery.core());
    }
    Result<void> closed = nursery.close();
    if (closed.ok()) return true;
    if (closed.code() == ErrorCode::kDeadlineExceeded) return false;
    detail::throw_close(std::move(closed).take_error(), nursery.core());
  };
  if constexpr (std::is_void_v<T>) {
    return finish([&] { detail::call_body(std::forward<F>(body), nursery); });
  } else {
    std::optional<T> value;
    if (!finish([&] { value.emplace(detail::call_body(std::forward<F>(body), nursery)); })) value.reset();
    return value;
  }
}

}  // namespace rota::fiber

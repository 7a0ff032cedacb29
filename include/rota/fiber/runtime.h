// Runtime: the thread workers, and how a program enters and leaves them.
//
//   Runtime runtime;                                    // one thread worker per core
//   int answer = runtime.run([] { return 42; });        // blocks this thread, not a thread worker
//
// Thread safety: run(), spawn(), stats() and shutdown() from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rota/fiber/config.h"
#include "rota/fiber/detail/core.h"
#include "rota/fiber/error.h"
#include "rota/fiber/task.h"

namespace rota::fiber {

struct WorkerStats {
  std::uint64_t spawned = 0, completed = 0, cancelled = 0, failed = 0;
  std::uint64_t steals = 0, failed_steals = 0;
  std::uint64_t parks = 0;
  std::chrono::nanoseconds park_time{0};
  std::uint64_t budget_exhaustions = 0;
  // Time from ready to running, for a sample of the tasks: those from outside, and of those that a thread worker spawns
  // the first and every 64th.
  std::uint64_t latency_samples = 0;
  std::chrono::nanoseconds latency_average{0};
  std::chrono::nanoseconds latency_p99{0};  // Upper end of its power-of-two bucket.
};

struct Stats {
  WorkerStats sum;
  std::vector<WorkerStats> workers;
  std::uint64_t stacks_live = 0, stacks_cached = 0;
  std::uint64_t worker_panics = 0;
};

class Runtime {
 public:
  // Throws FiberError(InvalidArgument) on a bad configuration; create() returns it.
  explicit Runtime(Config config = {});
  static Result<std::unique_ptr<Runtime>> create(const Config& config);
  // Cancels the tasks that still run and waits for them.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Runs `f()` as a task of this runtime and waits for it; returns its result or rethrows. Called from outside.
  template <class F>
  auto run(F&& f) -> std::invoke_result_t<std::decay_t<F>> {
    auto task = spawn(std::forward<F>(f));
    if (deterministic()) drive(task.record());
    return task.get();
  }

  // Starts `f()` as a task, from any thread. Waits while the global queue is full (a task waits as a fiber, a thread
  // blocks). A failure of the task affects no other task. In deterministic mode it runs during the next run().
  template <class F>
  auto spawn(F&& f) -> Task<std::invoke_result_t<std::decay_t<F>>> {
    using T = std::invoke_result_t<std::decay_t<F>>;
    auto* record = make<T>(std::forward<F>(f));
    if (Result<void> taken = submit(record, true); !taken.ok()) detail::throw_error(std::move(taken).take_error());
    return Task<T>(record);
  }
  // The same with its own budget and capabilities, which come from the runtime.
  template <class F>
  auto run(const Grant& grant, F&& f) -> std::invoke_result_t<std::decay_t<F>> {
    auto task = spawn(grant, std::forward<F>(f));
    if (deterministic()) drive(task.record());
    return task.get();
  }
  template <class F>
  auto spawn(const Grant& grant, F&& f) -> Task<std::invoke_result_t<std::decay_t<F>>> {
    using T = std::invoke_result_t<std::decay_t<F>>;
    auto* record = make<T>(std::forward<F>(f));
    if (Result<void> taken = submit(record, true, &grant); !taken.ok()) {
      detail::throw_error(std::move(taken).take_error());
    }
    return Task<T>(record);
  }
  // Recharges, from the root pool, a task that draws from it and has run out of budget.
  template <class T>
  [[nodiscard]] Result<void> recharge(const Task<T>& task, const Budget& amount) {
    return recharge(task.id(), amount);
  }
  [[nodiscard]] Result<void> recharge(std::uint64_t task_id, const Budget& amount);
  // The accounts of the root pool; exact when nothing runs.
  [[nodiscard]] PoolAudit audit() const;

  // Like spawn(), but returns QueueFull instead of waiting.
  template <class F>
  auto try_spawn(F&& f) -> Result<Task<std::invoke_result_t<std::decay_t<F>>>> {
    using T = std::invoke_result_t<std::decay_t<F>>;
    auto* record = make<T>(std::forward<F>(f));
    ROTA_TRY(submit(record, false));
    return Task<T>(record);
  }

  // Whether a thread worker (of 0 to worker_count - 1), or all of them, may steal; while the runtime runs. What is in
  // its own deque others may still steal. FailedPrecondition if Config::enable_stealing is off.
  Result<void> set_stealing(std::size_t worker, bool enabled);
  Result<void> set_stealing(bool enabled);

  // Waits until nothing runs, then stops the thread workers. Further spawns are refused. Idempotent. In a task of this
  // runtime, which would wait for its own end, it throws FailedPrecondition and changes nothing.
  void shutdown();
  // Cancels every task and accepts no more of them (Closed); shutdown() then waits for them.
  void cancel_all();

  [[nodiscard]] Stats stats() const;
  [[nodiscard]] const Config& config() const;
  [[nodiscard]] bool deterministic() const;
  // Deterministic mode: a hash of the order of all events so far, and their number.
  [[nodiscard]] std::uint64_t event_hash() const;
  [[nodiscard]] std::uint64_t event_count() const;
  // The runtime's clock: monotonic, or virtual in deterministic mode.
  [[nodiscard]] std::chrono::nanoseconds now() const;
  detail::RuntimeCore* core() { return core_.get(); }

 private:
  template <class T, class F>
  detail::ResultRecord<T>* make(F&& f) {
    using R = detail::ClosureRecord<std::decay_t<F>, T>;
    void* memory = detail::allocate_slow(nullptr, detail::size_class_of(sizeof(R)), sizeof(R));
    return detail::construct_record<R>(nullptr, memory, std::forward<F>(f), 0);
  }
  // Errors: Closed after shutdown(), QueueFull, NurseryNotActive in profile `core`; the record is freed then.
  Result<void> submit(detail::TaskRecord* record, bool wait, const Grant* grant = nullptr);
  void drive(detail::TaskRecord* until);

  std::unique_ptr<detail::RuntimeCore> core_;
};

}  // namespace rota::fiber

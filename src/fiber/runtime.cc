#include "rota/fiber/runtime.h"

#include <cxxabi.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <system_error>

#include "fiber/blocking_pool.h"
#include "fiber/meter_core.h"
#include "fiber/no_task.h"
#include "fiber/overflow.h"
#include "fiber/reactor.h"
#include "fiber/runtime_core.h"
#include "fiber/trace.h"
#include "fiber/user_call.h"
#include "fiber/waiting.h"
#include "rota/assert.h"
#include "rota/clock.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/time.h"

#if ROTA_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#if ROTA_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace rota::fiber {

namespace detail {

namespace {

bool g_membarrier = false;  // Set once, before any thread worker starts.
// Without membarrier a thread worker reads this instead of the lot's word: it says that somebody may sleep.
sync::Atomic<std::uint64_t> g_somebody_sleeps{1};

bool register_membarrier() {
#if ROTA_TSAN
  return false;  // ThreadSanitizer cannot see membarrier, but it sees the operations of the fences.
#else
  const long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands < 0 || (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return false;
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

Nanoseconds steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Describes the thread's own stack to the sanitizers, so that they accept switches back to it.
void adopt_native(ThreadWorker* worker) {
  worker->exceptions = reinterpret_cast<ExceptionGlobals*>(abi::__cxa_get_globals());
#if ROTA_ASAN
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  void* low = nullptr;
  pthread_attr_getstack(&attributes, &low, &worker->native.bytes);
  pthread_attr_destroy(&attributes);
  worker->native.low = static_cast<std::byte*>(low);
#endif
#if ROTA_TSAN
  worker->native.tsan = __tsan_get_current_fiber();
#endif
}

}  // namespace

bool enable_heavy_fence() {
  static std::once_flag once;
  std::call_once(once, [] { g_membarrier = register_membarrier(); });
  return g_membarrier || ROTA_TSAN;
}

void heavy_fence() {
  if (g_membarrier) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  }
  sync::fence(std::memory_order_seq_cst);
}

RuntimeCore::RuntimeCore(const Config& checked)
    : config(checked),
      worker_count(static_cast<std::uint32_t>(checked.worker_count)),
      crowded(worker_count > std::thread::hardware_concurrency()),
      stacks(checked.stack_bytes, checked.guard_stacks),
      lot(worker_count),
      reactor(std::make_unique<Reactor>(this)),
      helpers(std::make_unique<BlockingPool>(checked.blocking_threads)),
      deterministic(checked.deterministic_seed.has_value()),
      order(checked.deterministic_seed.value_or(0)) {
  const bool fences = !enable_heavy_fence();
  steals = std::make_unique<sync::Atomic<bool>[]>(worker_count);
  for (std::uint32_t i = 0; i < worker_count; ++i) steals[i].store(true, std::memory_order_relaxed);
  root.owner_task = nullptr;
  root.owner = nullptr;
  root.outer = nullptr;
  root.seen_epoch.store(cancel_epoch.load(std::memory_order_relaxed), std::memory_order_relaxed);
  root.failure_cancels = false;
  root.runtime = this;
  emergency_stacks.resize(worker_count);
  root_extras.reset(extras_of(&root));
  root.epoch = &cancel_epoch;
  ensure_linked(&root);
  if (config.trace_events > 0) trace = std::make_unique<Trace>(worker_count, config.trace_events);
  Prng seeds(config.seed);
  for (std::uint32_t i = 0; i < worker_count; ++i) {
    const bool solo = (worker_count == 1 || !config.enable_stealing) && !deterministic;
    auto worker = std::make_unique<ThreadWorker>(config.local_queue_size, fences && !solo && !deterministic);
    worker->runtime = this;
    worker->fiber = &worker->native;  // From the beginning, because a signal handler may read it.
    worker->index = i;
    worker->solo = solo;
    worker->cancel_epoch = &cancel_epoch;
    worker->counters.spawned.add((static_cast<std::uint64_t>(i) << 48) + kFirstTask);
    worker->idle_word = fences ? &g_somebody_sleeps : &lot.word();
    for (std::uint64_t& word : worker->random) word = seeds.next();
    std::uint8_t hooks = 0;
    if (config.profile == Profile::kCore) hooks |= kHookCore;
    if (config.profile == Profile::kService || config.profile == Profile::kCluster ||
        config.profile == Profile::kSovereign) {
      hooks |= kHookMeter;
    }
    if (deterministic) hooks |= kHookDeterministic;
    if (fences) hooks |= kHookFence;
    if (trace != nullptr || fault != nullptr) hooks |= kHookTrace;
    if (stacks.has_canaries()) hooks |= kHookCanary;
    worker->hooks = hooks;
    workers.push_back(std::move(worker));
  }
  if ((workers[0]->hooks & kHookMeter) != 0) meter = std::make_unique<RootMeter>(this, config);
  install_overflow_handler();
}

RuntimeCore::~RuntimeCore() {
  for (const auto& worker : workers) {
    // Stacks that are suspended in the loop return to the pool; records return to the depot.
    while (worker->spare != nullptr) {
      Fiber* fiber = worker->spare;
      worker->spare = fiber->next;
      stacks.give(fiber);
    }
    release_records(worker.get());
  }
  for (Fiber* fiber : emergency_stacks) {
    if (fiber != nullptr) stacks.give(fiber);
  }
}

Nanoseconds RuntimeCore::now() const { return deterministic ? virtual_now : steady_now(); }

void RuntimeCore::start_threads() {
  for (const auto& worker : workers) {
    if (!refill_spare(worker.get())) {
      throw_error(ErrorCode::kResourceExhausted, "there is no memory for the stacks of the thread workers");
    }
    if (deterministic) return;  // One thread acts as all thread workers.
  }
  try {
    sync::MutexLock lock(threads_mutex);  // A thread may have to be replaced before all have started.
    threads.resize(worker_count);
    for (std::uint32_t i = 0; i < worker_count; ++i) threads[i] = sync::Thread([this, i] { thread_main(i); });
    timekeeper_thread = sync::Thread([this] { keep_time(); });
  } catch (const std::exception& error) {
    stopping.store(true, std::memory_order_seq_cst);
    while (wake_one(true)) {
    }
    reactor->ring();
    join_threads();
    throw_error(Error{ErrorCode::kResourceExhausted,
                      std::string("the threads of the thread workers could not be created: ") + error.what()}
                    .with("worker_count", std::to_string(worker_count)));
  }
}

void RuntimeCore::arm_trim() {
  if (trim_armed.exchange(true, std::memory_order_relaxed)) return;
  trim_timer.at = now() + stacks.trim_period();
  trim_timer.context = this;
  trim_timer.fire = [](Timer* timer) {
    auto* runtime = static_cast<RuntimeCore*>(timer->context);
    const Nanoseconds next = runtime->stacks.trim_idle(runtime->now());
    if (next == kNever) {
      runtime->trim_armed.store(false, std::memory_order_relaxed);
      return;
    }
    timer->at = next;  // It is never removed: when the runtime ends, nobody is left to fire it.
    add_timer(runtime, timer);
  };
  add_timer(this, &trim_timer);
}

bool RuntimeCore::replace_thread(std::uint32_t index) {
  sync::MutexLock lock(threads_mutex);
  std::shared_ptr<sync::Thread> old;
  try {
    old = std::make_shared<sync::Thread>(std::move(threads[index]));
    threads[index] = sync::Thread([this, index, old] {
      if (old->joinable()) old->join();  // Not if shutdown() joins it.
      thread_main(index);
    });
    return true;
  } catch (const std::exception&) {  // No memory, or no more threads.
    if (old != nullptr) threads[index] = std::move(*old);
    return false;
  }
}

void RuntimeCore::join_threads() {
  for (std::uint32_t i = 0; i < worker_count; ++i) {
    for (;;) {
      sync::Thread thread;
      {
        sync::MutexLock lock(threads_mutex);
        if (i < threads.size()) thread = std::move(threads[i]);
      }
      if (!thread.joinable()) break;
      thread.join();  // It may have started a replacement.
    }
  }
  timekeeper.stop();
  if (timekeeper_thread.joinable()) timekeeper_thread.join();
}

void RuntimeCore::keep_time() {
  never_block_thread();
  const AlternateStack alternate;
  guard_this_thread();
  timekeeper.run([this] { return timers.next(); }, steady_now,
                 [this](Nanoseconds time) {
                   try {
                     timers.fire_due(time);
                   } catch (...) {  // As a thread worker's loop: the fault is counted, and the time is still kept.
                     worker_panics.fetch_add(1, std::memory_order_relaxed);
                   }
                 });
}

void RuntimeCore::thread_main(std::uint32_t index) {
  ThreadWorker* worker = workers[index].get();
  adopt_native(worker);
  const AlternateStack alternate;
  rota_fiber_worker = worker;
  worker->fiber = &worker->native;
  for (;;) {
    switch_fibers(worker, &worker->native, loop_fiber(worker));
    if (!worker->replaced) break;
    worker->replaced = false;
    if (replace_thread(index)) break;  // The new thread waits for this one to end.
  }
  rota_fiber_worker = nullptr;
}

void RuntimeCore::ring(std::uint32_t worker) {
  if (poller.load() == static_cast<std::int64_t>(worker)) reactor->ring();
}

void add_timer(RuntimeCore* runtime, Timer* timer) {
  const Nanoseconds at = timer->at;  // Read now: once it is added, the timer may fire and be gone.
  const bool earliest = runtime->timers.add(timer);
  if (!earliest || runtime->deterministic) return;
  // Who sleeps until a later time must be woken: the thread worker that watches, or else the timekeeper.
  if (runtime->poller.load() >= 0) {
    runtime->reactor->ring();
  } else {
    runtime->timekeeper.watch(at);
  }
}

[[noreturn]] void throw_error(Error error) {
  if (error.code == ErrorCode::kCancelled) throw Cancelled(CancelReason::kExplicit);
  throw FiberError(std::move(error));
}
[[noreturn]] void throw_error(ErrorCode code, const char* message) { throw_error(Error{code, message}); }
[[noreturn]] void throw_outside_runtime(const char* what) {
  throw_error(Error{ErrorCode::kOutsideRuntime,
                    std::string(what) + " must be called in a task, for example inside Runtime::run()"});
}

}  // namespace detail

using namespace detail;

Cancelled::Cancelled(CancelReason reason)
    : FiberError(Error{ErrorCode::kCancelled, "cancelled"}.with("reason", std::string(to_string(reason)))),
      reason_(reason) {}

std::string_view to_string(TaskState state) {
  static constexpr std::string_view kNames[] = {"New",        "Ready",      "Running",   "Blocked",   "BudgetExhausted",
                                                "Cancelling", "Completing", "Completed", "Cancelled", "Failed"};
  return kNames[static_cast<std::size_t>(state)];
}
std::string_view to_string(NurseryState state) {
  static constexpr std::string_view kNames[] = {"Open", "Closing", "Cancelling", "Closed", "Cancelled"};
  return kNames[static_cast<std::size_t>(state)];
}
std::string_view to_string(CancelReason reason) {
  static constexpr std::string_view kNames[] = {"None", "Explicit", "Timeout", "Parent", "Failure"};
  return kNames[static_cast<std::size_t>(reason)];
}

std::string_view to_string(Priority priority) {
  static constexpr std::string_view kNames[] = {"Normal", "High", "Low"};
  return kNames[static_cast<std::size_t>(priority)];
}
std::string_view to_string(Tenancy /*there is one*/) { return "CPU_Parallel"; }

Result<Config> Config::checked() const {
  Config c = *this;
  const auto bad = [](std::string_view name, auto value, std::string_view allowed) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(name) + " is " + std::to_string(value) + "; allowed: " + std::string(allowed)}
        .with("setting", std::string(name));
  };
  if (c.worker_count == 0) c.worker_count = std::max(1U, std::thread::hardware_concurrency());
  if (c.worker_count > 1024) return bad("worker_count", c.worker_count, "0 (one per core) to 1024");
  if (c.local_queue_size < 2 || c.local_queue_size > (1U << 24)) {
    return bad("local_queue_size", c.local_queue_size, "2 to 16777216");
  }
  if (c.global_queue_size < 1 || c.global_queue_size > (1U << 24)) {
    return bad("global_queue_size", c.global_queue_size, "1 to 16777216");
  }
  if (c.blocking_threads < 1 || c.blocking_threads > 4096) {
    return bad("blocking_threads", c.blocking_threads, "1 to 4096");
  }
  if (c.spin_count > 1'000'000) return bad("spin_count", c.spin_count, "0 to 1000000");
  if (c.stack_bytes < 8192 || c.stack_bytes > (std::size_t{1} << 30)) {
    return bad("stack_bytes", c.stack_bytes, "8192 to 1073741824");
  }
  if (c.trace_events > (1U << 24)) return bad("trace_events", c.trace_events, "0 (no trace) to 16777216");
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  c.stack_bytes = (c.stack_bytes + page - 1) / page * page;
  switch (c.profile) {
    case Profile::kCore:
    case Profile::kOpen:
      break;
    case Profile::kService:
      if (c.yield_interval == 0) c.yield_interval = 1024;
      break;
    case Profile::kCluster:
      if (c.yield_interval == 0) c.yield_interval = 512;
      break;
    case Profile::kSovereign:
      if (c.yield_interval == 0) {
        return bad("yield_interval", c.yield_interval, "1 or more: the profile `sovereign` has no default");
      }
      break;
    default:
      return bad("profile", static_cast<int>(c.profile), "core, open, service, cluster or sovereign");
  }
  if (c.yield_interval > (1U << 30)) return bad("yield_interval", c.yield_interval, "1 to 1073741824");
  if (c.cancel_grace_ops > (1U << 30)) return bad("cancel_grace_ops", c.cancel_grace_ops, "0 to 1073741824");
  const bool sovereign = c.profile == Profile::kSovereign;
  if (!c.default_budget) {
    c.default_budget = Budget{1'000'000, std::size_t{256} << 20, 0, 60'000, 60'000};
    // Children spawn only what they are granted; a task from outside is not a child.
    if (!sovereign && !c.root_grant) {
      c.root_grant = Grant{.budget = *c.default_budget};
      c.root_grant->budget->spawn_count = 60'000;
    }
  }
  if (!c.on_exhausted) c.on_exhausted = sovereign ? OnExhausted::kWait : OnExhausted::kRecharge;
  if (static_cast<int>(*c.on_exhausted) > 2) {
    return bad("on_exhausted", static_cast<int>(*c.on_exhausted), "recharge, wait, cancel");
  }
  if (static_cast<int>(c.victims) > 2)
    return bad("victims", static_cast<int>(c.victims), "random, round robin, most loaded");
  return c;
}

Runtime::Runtime(Config config) {
  Result<Config> checked = config.checked();
  if (!checked.ok()) throw_error(std::move(checked).take_error());
  core_ = std::make_unique<RuntimeCore>(*checked);
  core_->start_threads();
}

Result<std::unique_ptr<Runtime>> Runtime::create(const Config& config) {
  ROTA_TRY_ASSIGN(const Config checked, config.checked());
  try {
    return std::make_unique<Runtime>(checked);
  } catch (const FiberError& error) {
    return error.error();
  } catch (const std::bad_alloc&) {
    return ErrorCode::kResourceExhausted;
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kResourceExhausted, std::string("the runtime could not be created: ") + error.what()};
  }
}

Runtime::~Runtime() {
  cancel_all();
  shutdown();
}

void Runtime::cancel_all() { cancel_nursery(&core_->root, CancelReason::kExplicit); }

namespace {

// Queues a task from outside by its priority. Without memory for that it becomes an ordinary one, and this is false.
bool prioritize(RuntimeCore& core, TaskRecord* record, Priority priority) ROTA_REQUIRES(core.global_mutex) {
  core.priorities.alive.fetch_add(1, std::memory_order_relaxed);
  try {
    core.priorities.push(item_of(record), priority);
  } catch (const std::bad_alloc&) {
    core.priorities.alive.fetch_sub(1, std::memory_order_relaxed);
    record->id &= ~(std::uint64_t{3} << TaskRecord::kPriorityShift);
    return false;
  }
  ++core.outside_prioritized;
  return true;
}

}  // namespace

Result<void> Runtime::submit(TaskRecord* record, bool wait, const Grant* grant) {
  RuntimeCore& core = *core_;
  record->nursery = &core.root;
  record->meter = 0;
  core.root.remote.fetch_add(1, std::memory_order_relaxed);
  struct Refuse {  // Unless the task is queued: drops it, and leaves the root.
    ~Refuse() {
      if (record == nullptr) return;
      record->act(record, Action::kDropClosure);
      free_record(current_worker(), record);
      child_done(&core, &core.root, nullptr);
    }
    RuntimeCore& core;
    TaskRecord* record;
  } refused{core, record};
  if (core.root.state.load(std::memory_order_acquire) != NurseryState::kOpen) {
    return Error{ErrorCode::kClosed, "the runtime is shutting down and accepts no tasks"};
  }
  bool full = false;
  {
    sync::MutexLock lock(core.global_mutex);
    while (core.global.size() + core.outside_prioritized >= core.config.global_queue_size) {
      if (!wait || core.deterministic) {
        return Error{ErrorCode::kQueueFull, "the global queue is full; try again later or wait"};
      }
      if (current_worker() != nullptr && current_worker()->runtime == &core) break;  // A task waits below, as a fiber.
      if (!may_block_thread()) {
        return Error{ErrorCode::kQueueFull, "the global queue is full, and this thread must not wait for room"};
      }
      core.global_space.wait(core.global_mutex);
    }
    const Priority priority = grant != nullptr && grant->priority ? *grant->priority : Priority::kNormal;
    full =
        priority == Priority::kNormal && core.global.size() + core.outside_prioritized >= core.config.global_queue_size;
    if (!full) core.global.push_back(record);  // First, because it may throw. Nobody looks before the lock is released.
    if (core.meter != nullptr) {
      Result<void> granted;
      try {
        granted = grant_outside(&core, record, grant);
      } catch (const std::bad_alloc&) {
        granted = ErrorCode::kResourceExhausted;
      }
      if (!granted.ok()) {
        if (!full) core.global.pop_back();
        return granted;
      }
    }
    record->id = (std::uint64_t{0xffff} << 48) | (static_cast<std::uint64_t>(priority) << TaskRecord::kPriorityShift) |
                 ++core.outside_spawned;
    outside_event(&core, TaskEvent::kSpawn, record->id);
    sample_spawn(record, &core);  // Each one: it is not a hot path.
    refused.record = nullptr;
    if (priority != Priority::kNormal && prioritize(core, record, priority)) core.global.pop_back();
    if (!full) core.global_count.store(core.global.size(), std::memory_order_seq_cst);
  }
  if (full) {
    // A task of this runtime, with the queue full: its own deque takes the new task, and the spawner yields. Without
    // memory for the deque to grow, it yields first.
    while (!current_worker()->deque.push(item_of(record))) yield();
    notify_work(current_worker());
    yield();
    return {};
  }
  const std::uint64_t idle = core.lot.word().load(std::memory_order_seq_cst);
  if (ParkingLot::sleepers(idle) > 0 && ParkingLot::searchers(idle) == 0) core.wake_one();
  return {};
}

void Runtime::shutdown() {
  RuntimeCore& core = *core_;
  // A task would wait for its own end, and so would a call of blocking() on behalf of one.
  const ThreadWorker* caller = current_worker();
  if ((caller != nullptr && caller->runtime == &core) || helped_runtime() == &core || !may_block_thread()) {
    throw_error(ErrorCode::kFailedPrecondition, "a runtime must be shut down from outside, not by one of its tasks");
  }
  std::call_once(core.shutdown_once, [&core, this] {
    NurseryState open = NurseryState::kOpen;
    core.root.state.compare_exchange_strong(open, NurseryState::kClosing, std::memory_order_acq_rel);
    const std::int64_t left = core.root.remote.fetch_add(NurseryCore::kClosing, std::memory_order_acq_rel);
    if (core.deterministic) {
      if (left > 0) drive(nullptr);
    } else {
      // Acquire, partner: child_done().
      while (left > 0 && core.root_empty.value.load(std::memory_order_acquire) == 0) core.root_empty.wait(0);
    }
    core.stopping.store(true, std::memory_order_seq_cst);
    while (core.lot.wake_one([&core](std::uint32_t worker) { core.ring(worker); }, true)) {
    }
    core.reactor->ring();
    core.join_threads();
  });
}

void Runtime::drive(TaskRecord* until) {
  RuntimeCore& core = *core_;
  if (current_worker() != nullptr) {
    throw_error(ErrorCode::kFailedPrecondition, "run() of a deterministic runtime was called in a task; spawn instead");
  }
  sync::MutexLock guard(core.deterministic_mutex);
  const AlternateStack alternate;
  ThreadWorker* worker = core.workers[0].get();
  for (const auto& each : core.workers) adopt_native(each.get());
  core.await = until;
  rota_fiber_worker = worker;
  worker->fiber = &worker->native;
  switch_fibers(worker, &worker->native, loop_fiber(worker));
  rota_fiber_worker = nullptr;
  if (!core.deadlock.empty()) {
    std::string report = std::exchange(core.deadlock, {});
    throw_error(Error{ErrorCode::kDeadlock, std::move(report)});
  }
}

Result<void> Runtime::set_stealing(std::size_t worker, bool enabled) {
  RuntimeCore& core = *core_;
  if (worker >= core.worker_count) {
    return Error{ErrorCode::kInvalidArgument, "there is no thread worker " + std::to_string(worker)};
  }
  if (!core.config.enable_stealing) {
    return Error{ErrorCode::kFailedPrecondition, "the runtime was created with enable_stealing = false"};
  }
  core.steals[worker].store(enabled, std::memory_order_seq_cst);
  // One that sleeps may now be able to take what it passed over. Woken in vain, it sleeps again.
  if (enabled && !core.deterministic) {
    while (core.wake_one(true)) {
    }
  }
  return {};
}

Result<void> Runtime::set_stealing(bool enabled) {
  for (std::size_t i = 0; i < core_->worker_count; ++i) ROTA_TRY(set_stealing(i, enabled));
  return {};
}

const Config& Runtime::config() const { return core_->config; }
bool Runtime::deterministic() const { return core_->deterministic; }
std::uint64_t Runtime::event_hash() const { return core_->event_hash; }
std::uint64_t Runtime::event_count() const { return core_->event_count; }
std::chrono::nanoseconds Runtime::now() const { return std::chrono::nanoseconds(core_->now()); }

Stats Runtime::stats() const {
  Stats stats;
  std::array<std::uint64_t, 40> buckets{};
  std::uint64_t sum_ns = 0;
  const auto p99 = [](const auto& counts, std::uint64_t total) {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < 40; ++i) {
      seen += counts[i];
      if (total > 0 && seen * 100 >= total * 99) return std::chrono::nanoseconds(std::int64_t{2} << i);
    }
    return std::chrono::nanoseconds(0);
  };
  for (const auto& worker : core_->workers) {
    const Counters& c = worker->counters;
    WorkerStats w;
    w.spawned = (c.spawned.get() & kTaskCountMask) - kFirstTask - c.refused.get() + c.called.get();
    w.completed = c.completed.get() + c.called.get();
    w.cancelled = c.cancelled.get();
    w.failed = c.failed.get();
    w.steals = c.steals.get();
    w.failed_steals = c.failed_steals.get();
    w.parks = c.parks.get();
    w.park_time = std::chrono::nanoseconds(c.park_ns.get());
    w.budget_exhaustions = c.exhaustions.get();
    w.latency_samples = c.latency_samples.get();
    std::array<std::uint64_t, 40> own{};
    for (std::size_t i = 0; i < own.size(); ++i) buckets[i] += own[i] = c.latency_log2[i].get();
    if (w.latency_samples > 0) w.latency_average = std::chrono::nanoseconds(c.latency_sum_ns.get() / w.latency_samples);
    w.latency_p99 = p99(own, w.latency_samples);
    sum_ns += c.latency_sum_ns.get();
    stats.sum.spawned += w.spawned;
    stats.sum.completed += w.completed;
    stats.sum.cancelled += w.cancelled;
    stats.sum.failed += w.failed;
    stats.sum.steals += w.steals;
    stats.sum.failed_steals += w.failed_steals;
    stats.sum.parks += w.parks;
    stats.sum.park_time += w.park_time;
    stats.sum.budget_exhaustions += w.budget_exhaustions;
    stats.sum.latency_samples += w.latency_samples;
    stats.workers.push_back(w);
  }
  {
    sync::MutexLock lock(core_->global_mutex);
    stats.sum.spawned += core_->outside_spawned;
  }
  if (stats.sum.latency_samples > 0) {
    stats.sum.latency_average = std::chrono::nanoseconds(sum_ns / stats.sum.latency_samples);
  }
  stats.sum.latency_p99 = p99(buckets, stats.sum.latency_samples);
  stats.stacks_cached = core_->stacks.cached();
  stats.stacks_live = core_->stacks.made() - stats.stacks_cached;
  stats.worker_panics = core_->worker_panics.load(std::memory_order_relaxed);
  return stats;
}

std::chrono::nanoseconds now() {
  ThreadWorker* worker = current_worker();
  return std::chrono::nanoseconds(worker == nullptr ? steady_now() : worker->runtime->now());
}

std::chrono::nanoseconds wall_offset() {
  std::chrono::nanoseconds offset{};
  auto shortest = std::chrono::nanoseconds::max();
  for (int i = 0; i < 5; ++i) {
    const std::chrono::nanoseconds before = now();
    const std::chrono::nanoseconds wall = system_clock().wall().time_since_epoch();
    const std::chrono::nanoseconds after = now();
    if (after - before >= shortest) continue;
    shortest = after - before;
    offset = wall - (before + shortest / 2);
  }
  return offset;
}

Result<void> sleep_until(std::chrono::nanoseconds time) {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr) {
    if (!may_block_thread()) return ErrorCode::kOutsideRuntime;
    std::this_thread::sleep_for(time - now());
    return {};
  }
  if (worker->fiber->task == nullptr) return ErrorCode::kOutsideRuntime;
  if (cancelled_now(worker)) return ErrorCode::kCancelled;
  RuntimeCore* runtime = worker->runtime;
  if (time.count() <= runtime->now()) {
    yield();
    return {};
  }
  struct Sleep {
    Fiber* fiber;
    Nanoseconds until;
    WakeTimer timer{};
  } sleep{worker->fiber, time.count()};
  const auto publish = [](ThreadWorker* running, void* argument) {
    auto* waiting = static_cast<Sleep*>(argument);
    waiting->timer.arm(running->runtime, waiting->fiber, waiting->until);
    return true;
  };
  const WakeReason reason = park(worker, publish, &sleep, true, "the clock");
  sleep.timer.disarm(runtime);
  return reason == WakeReason::kCancelled ? Result<void>(ErrorCode::kCancelled) : Result<void>();
}

Result<void> sleep_for(std::chrono::nanoseconds duration) {
  const std::chrono::nanoseconds start = now();
  constexpr auto kLongest = std::chrono::nanoseconds::max();
  return sleep_until(duration > kLongest - start ? kLongest : start + duration);
}

}  // namespace rota::fiber

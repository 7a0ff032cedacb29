// Shared by the parts of the runtime. Internal to the room; users see rota/fiber/runtime.h.
#pragma once

#include <deque>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/prng.h"
#include "base/sync.h"
#include "fiber/panic.h"
#include "fiber/parking.h"
#include "fiber/priority_queue.h"
#include "fiber/stack_pool.h"
#include "fiber/timekeeper.h"
#include "fiber/timers.h"
#include "fiber/wait_word.h"
#include "rota/fiber/both.h"
#include "rota/fiber/config.h"
#include "rota/fiber/detail/core.h"
#include "rota/fiber/runtime.h"

namespace rota::fiber::detail {

struct TokenHandle;
class TokensToCancel;
struct ScopeMeter;
struct RootMeter;
class Reactor;
class BlockingPool;
class Trace;

// An entry of a nursery's registry: a task that has blocked at least once, or asked for its token. It stays until the
// task ends, so blocking again costs nothing.
struct Entry {
  Fiber* fiber;
  TaskRecord* task;
};

// The tokens of a nursery's tasks, for those that have one (TaskRecord::kHasToken), in the order of their creation: the
// callbacks of a cancelled nursery must not depend on addresses, or deterministic mode would not be deterministic.
class TaskTokens {
 public:
  // Null if the task has none.
  [[nodiscard]] std::shared_ptr<TokenHandle> find(const TaskRecord* task) const {
    const auto found = at_.find(task);
    return found == at_.end() ? nullptr : *found->second;
  }
  // REQUIRES: the task has none.
  void add(const TaskRecord* task, std::shared_ptr<TokenHandle> token) {
    tokens_.push_back(std::move(token));
    try {
      at_.emplace(task, std::prev(tokens_.end()));
    } catch (...) {
      tokens_.pop_back();
      throw;
    }
  }
  // Removes and returns it; null if there is none.
  std::shared_ptr<TokenHandle> take(const TaskRecord* task) {
    const auto found = at_.find(task);
    if (found == at_.end()) return nullptr;
    std::shared_ptr<TokenHandle> token = std::move(*found->second);
    tokens_.erase(found->second);
    at_.erase(found);
    return token;
  }
  [[nodiscard]] const std::list<std::shared_ptr<TokenHandle>>& in_order() const { return tokens_; }

 private:
  std::list<std::shared_ptr<TokenHandle>> tokens_;
  std::unordered_map<const TaskRecord*, std::list<std::shared_ptr<TokenHandle>>::iterator> at_;
};

// The rarely needed part of a nursery, allocated on demand. Everything under `lock` unless noted.
//
// The cancellation tree: a nursery is linked into its parent (the nursery of the task that opened it) when a child of
// it first blocks or asks for a token; all nurseries above it are linked then, too. Invariant: a linked nursery whose
// parent, or whose owner task, is cancelled is cancelled as well. Locks are taken from the outside inwards.
struct NurseryExtras {
  SpinLock lock;
  std::vector<Entry> registry;
  std::unique_ptr<TaskTokens> task_tokens;
  std::shared_ptr<TokenHandle> scope_token;  // Nursery::token(); null until somebody asks.
  NurseryCore* first_nested = nullptr;
  // Links of the parent's list; under the parent's lock.
  NurseryCore* next_nested = nullptr;
  NurseryCore* previous_nested = nullptr;
  sync::Atomic<bool> linked{false};
  std::exception_ptr failure;
  Nanoseconds deadline = kNever;
  Timer deadline_timer;
  bool deadline_armed = false;
  ScopeMeter* meter = nullptr;  // Set if it has metering options, by the owner, before there is a child.
  // Called for a child that was left without unwinding, so that its closure was not destroyed, while it is finished;
  // twice if the thread worker fails meanwhile. Set by the owner, before there is a child.
  void (*on_left)(TaskRecord* child) = nullptr;
};

// The nursery of tasks that were spawned from outside. It does not close before the runtime does.
struct RootNursery : NurseryCore {
  RuntimeCore* runtime = nullptr;
  sync::Atomic<std::uint32_t>* epoch = nullptr;  // The runtime's cancel_epoch.
};

// In NurseryCore::extras: the nursery is not open any more, and there was no memory for extras, which say so otherwise.
inline NurseryExtras* const kNoExtras = reinterpret_cast<NurseryExtras*>(1);
// The extras of a nursery, or null.
inline NurseryExtras* peek_extras(const NurseryCore* core, std::memory_order order = std::memory_order_acquire) {
  NurseryExtras* extras = core->extras.load(order);
  return extras == kNoExtras ? nullptr : extras;
}

struct RuntimeCore {
  explicit RuntimeCore(const Config& config);
  ~RuntimeCore();

  Config config;
  std::uint32_t worker_count;
  const bool crowded;  // More thread workers than cores: one without work does not spin for it.
  std::vector<std::unique_ptr<ThreadWorker>> workers;
  sync::Mutex threads_mutex;
  std::vector<sync::Thread> threads;  // Under threads_mutex; a slot is empty once shutdown() has taken it.
  StackPool stacks;
  ParkingLot lot;
  Timers timers;
  Timekeeper timekeeper;
  sync::Thread timekeeper_thread;
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<Trace> trace;           // Null unless Config::trace_events.
  std::unique_ptr<RootMeter> meter;       // Null in unmetered profiles.
  std::unique_ptr<BlockingPool> helpers;  // Destroyed before the members that its threads use when they wake a task.
  sync::Atomic<std::uint32_t> cancel_epoch{1};
  sync::Atomic<bool> stopping{false};
  sync::Atomic<std::uint64_t> worker_panics{0};
  const FaultHook fault = g_fault_hook;
  RootNursery root;
  std::unique_ptr<NurseryExtras> root_extras;  // Owns root.extras.
  sync::Futex root_empty{0};
  std::once_flag shutdown_once;

  // Fibers woken by threads that are not thread workers of this runtime: a stack of Fiber::next, taken as a whole.
  sync::Atomic<Fiber*> injected{nullptr};
  // New tasks from outside, bounded by global_queue_size.
  sync::Mutex global_mutex;
  sync::CondVar global_space;
  std::deque<TaskRecord*> global;
  sync::Atomic<std::uint64_t> global_count{0};
  std::uint64_t outside_spawned = 0;    // Under global_mutex.
  std::size_t outside_prioritized = 0;  // Tasks from outside that are in `priorities`. Under global_mutex.

  // Tasks of high and low priority, and the fibers of such tasks that are ready again.
  PriorityQueue priorities;
  // Which thread workers may steal; changed by Runtime::set_stealing(). seq_cst: see sleep_until_chosen().
  std::unique_ptr<sync::Atomic<bool>[]> steals;

  // A stack for each thread worker, for a wait that may not fail when there is no memory for another one. Used and
  // replaced by that thread worker.
  std::vector<Fiber*> emergency_stacks;
  // Fires while the stack pool has something to return to the system.
  Timer trim_timer;
  sync::Atomic<bool> trim_armed{false};

  // The thread worker in epoll_wait, or -1.
  sync::Atomic<std::int64_t> poller{-1};

  // Deterministic mode.
  bool deterministic = false;
  Prng order{0};
  Nanoseconds virtual_now = 0;
  std::uint64_t event_hash = 0;
  std::uint64_t event_count = 0;
  std::uint64_t polls = 0;            // Poll points since the clock last moved by itself.
  const TaskRecord* await = nullptr;  // The loop ends when this task has ended; null: when all have.
  std::string deadlock;               // The report, until run() throws it.
  sync::Mutex deterministic_mutex;

  [[nodiscard]] Nanoseconds now() const;
  void start_threads();
  void thread_main(std::uint32_t index);
  void keep_time();  // The timekeeper's thread.
  // Starts another thread for this thread worker; it waits for the calling one to end. False if the system has none.
  bool replace_thread(std::uint32_t index);
  void join_threads();
  void ring(std::uint32_t worker);
  // Stacks have returned to the pool: releases their memory after a while, unless they are needed again.
  void trim_later() {
    if (!trim_armed.load(std::memory_order_relaxed) && !deterministic) arm_trim();
  }
  void arm_trim();
  bool wake_one(bool even_if_searching = false) {
    return lot.wake_one([this](std::uint32_t worker) { ring(worker); }, even_if_searching);
  }
  // Wakes a thread worker that may steal, unless one is searching.
  bool wake_thief() {
    return lot.wake_one([this](std::uint32_t worker) { ring(worker); }, false,
                        [this](std::uint32_t worker) { return steals[worker].load(std::memory_order_seq_cst); });
  }
};

// Events in the life of a task, for the deterministic hash and the trace. The comments say what `detail` contains.
enum class TaskEvent : std::uint8_t {
  kSpawn,
  kStart,
  kBlock,
  kWake,
  kSteal,
  kCancel,    // A CancelReason.
  kComplete,  // The terminal TaskState.
  kScope,
  kDeadline,
  kTimer,
  kScopeEnd,  // This and the following are not part of the hash.
  kPanic,
};
inline constexpr TaskEvent kFirstUnhashed = TaskEvent::kScopeEnd;

// trace.cc
void note_event(ThreadWorker* worker, TaskEvent event, std::uint64_t id, std::uint32_t detail = 0);
inline void event(ThreadWorker* worker, TaskEvent what, std::uint64_t id, std::uint32_t detail = 0) {
  if (worker->hooks & (kHookTrace | kHookDeterministic)) [[unlikely]]
    note_event(worker, what, id, detail);
}
// An event on a thread that is not a thread worker of this runtime. REQUIRES: the runtime traces.
void note_outside_event(RuntimeCore* runtime, TaskEvent event, std::uint64_t id);
inline void outside_event(RuntimeCore* runtime, TaskEvent what, std::uint64_t id) {
  if (runtime->trace != nullptr) [[unlikely]]
    note_outside_event(runtime, what, id);
}

// cancel_tree.cc
void unlink_nursery(NurseryCore* core, NurseryExtras* extras);
// The surrounding nursery: the next open scope of the same task, or the nursery of that task.
NurseryCore* parent_of(const NurseryCore* core);
RuntimeCore* runtime_of(const NurseryCore* core);
NurseryExtras* extras_of(NurseryCore* core);
// From now on a spawn takes the slow path, which reads the nursery's state. Without memory there are no extras, only
// the mark kNoExtras.
void end_fast_spawns(NurseryCore* core);
void ensure_linked(NurseryCore* core);
// The same for a caller that holds something: if this finds a cancellation, the tokens are left to the caller.
void ensure_linked(NurseryCore* core, TokensToCancel& tokens);
void register_task(TaskRecord* task, Fiber* fiber);
void unregister_task(TaskRecord* task);
// The error that corresponds to an exception.
Error error_of(const std::exception_ptr& failure);
void child_failed(NurseryCore* core, TaskRecord* child);
// A child has ended; `on` is the fiber that it ended on.
void child_done(RuntimeCore* runtime, NurseryCore* core, Fiber* on);
// Cancels the scopes below a task, and its wait. REQUIRES: a HeldTask.
void cancel_from_handle(TaskRecord* task, TokensToCancel& tokens);
// Why `task` is cancelled, or kNone. REQUIRES: its nursery is alive.
CancelReason cancel_reason_of(TaskRecord* task);
// True if a scope or task around `core` is cancelled, or `core` itself.
bool scope_cancelled_around(NurseryCore* core);
// The task has ended: its nursery forgets its token, which is cancelled first if the task was, or something around it.
// REQUIRES: the task has not left its nursery.
void drop_task_token(TaskRecord* task);
// The nursery is closed and unlinked: its token is cancelled if the nursery is, or something around it that no walk has
// carried here. REQUIRES: the nursery has a token.
void settle_scope_token(NurseryCore* core);
// Cancels the nursery if something around it is cancelled: it may not be linked, and then no canceller has found it.
// REQUIRES: it cannot go away; the caller's task, or one that has not ended, belongs to it.
void inherit_cancellation(NurseryCore* core);
// Cancels the scopes that a task left open because its stack was abandoned, and waits for them.
void abandon_scopes(Fiber* fiber, TaskRecord* task, const NurseryCore* until = nullptr);
// Why the current task is cancelled. REQUIRES: cancelled_now().
CancelReason current_cancel_reason();

// cancel.cc
// The task's token, created if necessary. The caller cancels it, when it holds nothing, with `reason` if that is not
// kNone. REQUIRES: the task's nursery cannot go away.
std::shared_ptr<TokenHandle> token_of_task(TaskRecord* task, TokensToCancel& tokens, CancelReason& reason);

// task.cc
// While this object lives, a task that alive() says has not ended cannot leave its nursery, which may therefore be
// used, although the caller has only the task's handle. The holder marks the record (kCancelBusy) and then reads the
// state; the task stores its terminal state and then reads the mark: at least one of them sees the other.
class HeldTask {
 public:
  explicit HeldTask(TaskRecord* task);
  ~HeldTask();
  HeldTask(const HeldTask&) = delete;
  HeldTask& operator=(const HeldTask&) = delete;
  [[nodiscard]] bool alive() const { return alive_; }

 private:
  TaskRecord* task_;
  bool alive_;
};
void run_task(ThreadWorker* worker, TaskRecord* record);
// Ends all tasks on the current stack, whose frames are abandoned, as overflowed, and starts the loop on it anew.
// REQUIRES: called below everything on the stack that is still in use.
[[noreturn]] void end_stack(Fiber* fiber);
// static_guard.cc: the static variables that an abandoned task was initialising can be initialised by others.
void release_static_guards(const TaskRecord* task);
// Something in this process is being cancelled: observed_state() must look at nurseries from now on.
void note_cancellation();
// Starts the measurement of a task's latency from ready to run.
void sample_spawn(TaskRecord* record, const RuntimeCore* runtime);
TaskRecord* begin_fork(ThreadWorker* worker, Fork* fork);
// The nursery of an item that is not a fiber.
inline NurseryCore* nursery_of(Item item) { return is_fork(item) ? &fork_of(item)->core : record_of(item)->nursery; }
// The record of an item that is not a fiber, just taken from a deque by `worker`; creates it for a Fork.
inline TaskRecord* task_of(ThreadWorker* worker, Item item) {
  return is_fork(item) ? begin_fork(worker, fork_of(item)) : record_of(item);
}
void wake_joiner(TaskRecord* record, std::uintptr_t waiter);

// worker.cc
[[noreturn]] void fiber_main();
[[noreturn]] void worker_loop();
// Takes stacks from the pool. False if the system has no memory for one.
bool refill_spare(ThreadWorker* worker);
// Makes sure that a wait of the current task can begin: it is in its nursery's registry, and this thread worker has a
// stack to continue on. Throws ResourceExhausted or std::bad_alloc. The task may be on another thread worker on return.
void ensure_parkable(ThreadWorker* worker);
// False if the current stack has only a canary, and something overwrote it.
inline bool stack_intact(const ThreadWorker* worker) {
  return (worker->hooks & kHookCanary) == 0 || worker->runtime->stacks.canary_intact(worker->fiber);
}
// True if ensure_parkable() has nothing to do, and parking cannot fail.
inline bool can_park(const ThreadWorker* worker) {
  return worker->fiber->task->has_entry() && worker->spare != nullptr && stack_intact(worker);
}
// Throws StackOverflow.
[[noreturn]] void stack_overflowed(ThreadWorker* worker);
inline void check_canary(ThreadWorker* worker) {
  if (!stack_intact(worker)) [[unlikely]]
    stack_overflowed(worker);
}
// Keeps the running loop's stack for later; the caller switches away from it at once.
void keep_spare(ThreadWorker* worker, Fiber* fiber);
void give_way(ThreadWorker* worker, Fiber* self);
// A number below `bound`, from the thread worker's generator; in deterministic mode from the one that draws the order.
std::uint64_t draw_fairly(ThreadWorker* worker, std::uint64_t bound);
Fiber* loop_fiber(ThreadWorker* worker);
// Fires the timers that are due and wakes the tasks whose descriptors are ready. True if there was any.
bool poll_events(RuntimeCore* runtime);
// The next item of high priority, or of low priority, or 0.
Item take_prioritized(ThreadWorker* worker, Priority priority);
inline Priority priority_of(const TaskRecord* task) {
  return static_cast<Priority>(task->id >> TaskRecord::kPriorityShift & 3U);
}
// The thread worker to steal from next. REQUIRES: there is another one.
std::uint32_t pick_victim(ThreadWorker* worker);
// The poller has stopped watching the clock: the timekeeper must.
void stop_polling(RuntimeCore* runtime);

// deterministic.cc
// The next step of some virtual thread worker, which becomes the current one; 0 when the awaited task has ended.
Item next_deterministic(ThreadWorker* worker);
// The running task polls, `count` times: after many polls in a row this moves the virtual clock, and fires the timers
// that are due. REQUIRES: no lock is held.
void poll_point(ThreadWorker* worker, std::uint32_t count = 1);

// memory.cc
void release_records(ThreadWorker* worker);

// runtime.cc
void add_timer(RuntimeCore* runtime, Timer* timer);

// capability.cc
// The runtime for one of whose tasks this thread, which is not one of its thread workers, runs code; or null.
RuntimeCore* helped_runtime();
// The same function, which has the capabilities of the code that runs now, whoever calls it later.
std::function<void()> with_current_rights(std::function<void()> f);

// meter_grant.cc
// Gives a new task its budget and capabilities, or returns an error. `grant` may be null.
Result<void> grant_meter(ThreadWorker* worker, NurseryCore* core, TaskRecord* record, const Grant* grant);
// The same for a task from outside. REQUIRES: metered; global_mutex held.
Result<void> grant_outside(RuntimeCore* runtime, TaskRecord* record, const Grant* grant);
// Takes back what a task has not used.
void settle_meter(ThreadWorker* worker, TaskRecord* record);
// The same for a task that was granted a meter and could not be queued.
void unsettle_meter(ThreadWorker* worker, TaskRecord* record);
// Counts a refused spawn.
void refuse_metered(ThreadWorker* worker);
void close_metered(ThreadWorker* worker, NurseryCore* core);

}  // namespace rota::fiber::detail

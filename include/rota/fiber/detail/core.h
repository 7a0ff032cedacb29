// The runtime's data structures, and the few operations on them that must be inlined.
//
//   TaskRecord    a task: its closure, its result, its state. One allocation, from the thread worker's free list.
//   Fiber         a stack with a saved context. It is stored at the top of the stack that it describes.
//   NurseryCore   the counters of a scope, and the tree along which it is cancelled.
//   ThreadWorker  a thread's deque, free lists and counters.
//
// A task has no stack of its own until it blocks: a thread worker calls it on its current stack. When the task blocks,
// that whole stack is parked, and the thread worker continues on a spare one. A fiber may therefore hold several tasks,
// one called on top of the other by a join; `task` is the innermost.
//
// Who may write: `state` only the thread that runs the task; `cancel` only cancellers; `join` by exchange. The plain
// members of ThreadWorker belong to the thread that is that thread worker.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rota/detail/sync.h"
#include "rota/fiber/detail/context.h"
#include "rota/fiber/detail/deque.h"
#include "rota/fiber/detail/fence.h"
#include "rota/fiber/detail/steal_batch.h"
#include "rota/fiber/state.h"
#include "rota/result.h"

namespace rota::fiber::detail {

struct TaskRecord;
struct Fiber;
struct ThreadWorker;
struct RuntimeCore;
struct NurseryCore;
struct NurseryExtras;
struct Meter;
struct Fork;
struct BodyFrame;
struct UserCall;

// ---------------------------------------------------------------------------------------------------------- records
enum class Action : std::uint8_t {
  kRun,  // Call the closure, store its result or exception, destroy the closure; set kFlagFailed or kFlagCancelled.
  kDropClosure,  // Destroy the closure: the task was cancelled before it ran.
  kDropResult,   // Destroy the stored result or exception.
};

// The values of TaskRecord::join besides a waiting Fiber* or a tagged Baton* (task.cc).
inline constexpr std::uintptr_t kJoinNone = 0;
inline constexpr std::uintptr_t kJoinDone = 1;      // Terminal; the handle owns the record.
inline constexpr std::uintptr_t kJoinDetached = 2;  // The handle is gone; the runner frees the record.

struct TaskRecord {
  TaskRecord() = default;
  // State Ready; nursery, id and meter are still to be set. A constructor, because the compiler merges it into two
  // stores.
  TaskRecord(void (*function)(TaskRecord*, Action), std::uint8_t size, std::uint8_t bits)
      : act(function),
        join(kJoinNone),
        state(TaskState::kReady),
        cancel(0),
        size_class(size),
        flags(bits),
        registry(kNoEntry) {}

  void (*act)(TaskRecord*, Action);
  NurseryCore* nursery;
  sync::Atomic<std::uintptr_t> join;
  sync::Atomic<TaskState> state;
  sync::Atomic<std::uint8_t> cancel;  // A CancelReason; kCancelBusy while a canceller works in its nursery.
  std::uint8_t size_class;
  std::uint8_t flags;
  // Index in its nursery's registry (under that lock), kNoEntry, or kSampled + time.
  sync::Atomic<std::uint32_t> registry;
  std::uint64_t id;
  std::uint64_t meter;  // What it may still use (charge.h); 0 if unmetered.

  static constexpr std::uint32_t kNoEntry = ~std::uint32_t{0};
  // Until a sampled task runs, `registry` holds the time at which it became ready.
  static constexpr std::uint32_t kSampled = std::uint32_t{1} << 31;
  [[nodiscard]] bool has_entry() const { return registry.load(std::memory_order_relaxed) < kSampled; }
  [[nodiscard]] bool plain_entry() const { return registry.load(std::memory_order_relaxed) == kNoEntry; }
  static constexpr std::uint8_t kCancelBusy = 0x80;
  static constexpr std::uint8_t kJoinReleased = 0x40;  // In `cancel`: the finisher is done with a joiner that left.
  static constexpr std::uint8_t kHasToken = 0x20;      // In `cancel`: its nursery keeps a token for it.
  // In `id`: the task's Priority. Below are 46 bits that count, above the thread worker's index.
  static constexpr int kPriorityShift = 46;
  static constexpr std::uint8_t kFlagDetached = 1;    // Never had a handle.
  static constexpr std::uint8_t kFlagFailed = 2;      // An exception is stored: the task failed.
  static constexpr std::uint8_t kFlagCancelled = 4;   // An exception is stored: Cancelled, while being cancelled.
  static constexpr std::uint8_t kFlagOverflow = 8;    // The stack overflowed; nothing was unwound, nothing is stored.
  static constexpr std::uint8_t kFlagHeld = 16;       // In code that must not be interrupted by a metered yield.
  static constexpr std::uint8_t kFlagNeverRan = 32;   // Cancelled in the queue, or abandoned; nothing is stored.
  static constexpr std::uint8_t kFlagBudget = 64;     // Cancelled because its budget was used up.
  static constexpr std::uint8_t kFlagNoResult = 128;  // Detached, and its result needs no destruction.
};
static_assert(sizeof(TaskRecord) == 48);

// ---------------------------------------------------------------------------------------------------------- fibers
// The C++ runtime's state of the exceptions that a thread is handling (Itanium ABI). It belongs to the fiber: a switch
// inside a catch block saves and restores it.
struct ExceptionGlobals {
  void* caught;
  unsigned int uncaught;
};

enum class WakeReason : std::uint8_t { kDone, kCancelled, kTimeout };

// Fiber::claim. A wait goes Running -> Parking -> Waiting -> Woken -> Running; the Firm variants cannot be cancelled.
//   Parking   set by the fiber itself, before it checks whether it is cancelled. A canceller that comes later finds
//             Parking or Waiting (both sides are seq_cst), so no cancellation is missed. A thread that ends the wait
//             for another reason and finds Parking spins for the few instructions until it is Waiting.
//   Waiting   set after the switch, by the stack that runs next; only from now on may the fiber be resumed.
//   Woken     the thread that makes this step owns the wake-up; all others leave the fiber alone.
inline constexpr std::uint32_t kRunning = 0;
inline constexpr std::uint32_t kParking = 1;
inline constexpr std::uint32_t kParkingFirm = 2;
inline constexpr std::uint32_t kParkingCancelled = 3;
inline constexpr std::uint32_t kWaiting = 4;
inline constexpr std::uint32_t kWaitingFirm = 5;
inline constexpr std::uint32_t kWoken = 6;

struct alignas(sync::kCacheLineBytes) Fiber {
  void* sp = nullptr;
  TaskRecord* task = nullptr;
  NurseryCore* scope = nullptr;  // The innermost open scope on this stack.
  sync::Atomic<std::uint32_t> claim{kRunning};
  WakeReason reason = WakeReason::kDone;
  // The runtime that it belongs to, plus the Priority of the task on it: a waker that compares it with its own runtime
  // takes the slow path for a prioritised fiber.
  RuntimeCore* home = nullptr;
  Fiber* next = nullptr;            // Link of a spare, free or inject list.
  std::byte* low = nullptr;         // The lowest usable byte of the stack.
  std::byte* floor = nullptr;       // Below this address, a join calls no further task on top of this stack.
  const char* waits_for = nullptr;  // For the deadlock report.
  BodyFrame* bodies = nullptr;      // In debug builds (body_check.h).
  UserCall* user_call = nullptr;    // The innermost one on this stack (user_call.h).
  void* far_landing = nullptr;      // Memory of the last one, until it is released (return_point.h).
#if ROTA_ASAN
  void* fake_stack = nullptr;
  std::size_t bytes = 0;
#endif
#if ROTA_TSAN
  void* tsan = nullptr;
#endif
};

// An entry of a deque: a TaskRecord* to call, a Fiber* | 1 to resume, or a Fork* | 2 to make into a record (both.h).
using Item = std::uintptr_t;
inline Item item_of(TaskRecord* record) { return reinterpret_cast<Item>(record); }
inline Item item_of(Fiber* fiber) { return reinterpret_cast<Item>(fiber) | 1U; }
inline Item item_of(Fork* fork) { return reinterpret_cast<Item>(fork) | 2U; }
inline bool is_fiber(Item item) { return (item & 1U) != 0; }
inline Fiber* fiber_of(Item item) { return reinterpret_cast<Fiber*>(item & ~Item{1}); }
inline bool is_fork(Item item) { return (item & 2U) != 0; }
inline Fork* fork_of(Item item) { return reinterpret_cast<Fork*>(item & ~Item{2}); }
inline TaskRecord* record_of(Item item) { return reinterpret_cast<TaskRecord*>(item); }

// ---------------------------------------------------------------------------------------------------------- nursery
// Counts its children in two parts: `local` is changed only on the fiber that opened the nursery, without a locked
// instruction; all other fibers change `remote`, which may therefore be negative. To close, the owner adds `local` and
// kClosing to it; from then on `remote` - kClosing is the number of live children, and the thread that brings that to 0
// resumes the owner. A cancelled nursery always has extras.
struct NurseryCore {
  static constexpr std::int64_t kClosing = std::int64_t{1} << 48;

  TaskRecord* owner_task;  // The task that opened it; null for a runtime's root.
  Fiber* owner;            // The fiber that opened it.
  NurseryCore* outer;      // The surrounding scope on the same stack, or null.
  std::int64_t local = 0;
  sync::Atomic<std::int64_t> remote{0};
  sync::Atomic<NurseryState> state{NurseryState::kOpen};
  sync::Atomic<CancelReason> cancel{CancelReason::kNone};
  bool failure_cancels = true;             // False for a runtime's root and for actors: their tasks are independent.
  sync::Atomic<std::uint32_t> seen_epoch;  // No ancestor was cancelled when the runtime's cancel epoch had this value.
  // Created when a child blocks, fails or has a deadline or budget. kNoExtras instead if there was no memory for them.
  sync::Atomic<NurseryExtras*> extras{nullptr};
};

// ---------------------------------------------------------------------------------------------------------- workers
// A counter that only its thread worker changes and any thread may read.
class Counter {
 public:
  void add(std::uint64_t n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  std::uint64_t next() {
    const std::uint64_t value = value_.load(std::memory_order_relaxed) + 1;
    value_.store(value, std::memory_order_relaxed);
    return value;
  }
  [[nodiscard]] std::uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  sync::Atomic<std::uint64_t> value_{0};
};

struct Counters {
  Counter spawned;  // Starts at (index << 48) + kFirstTask, so it provides the ids of tasks.
  Counter completed, cancelled, failed;
  Counter called;   // Children of both() that were called in place; they count as spawned and completed.
  Counter refused;  // Spawns that were counted and then refused.
  Counter steals, failed_steals, parks, park_ns, exhaustions;
  Counter latency_samples, latency_sum_ns;
  std::array<Counter, 40> latency_log2;  // Samples with latency in [2^i, 2^(i+1)) ns.
};

inline constexpr int kSizeClasses = 5;  // 64, 128, 256, 512, 1024 bytes.
inline constexpr std::size_t kSmallestRecord = 64;
inline constexpr std::uint8_t kHugeClass = 255;   // Allocated separately.
inline constexpr std::uint8_t kFrameClass = 254;  // Part of a Fork in a caller's frame; not freed.
constexpr std::uint8_t size_class_of(std::size_t bytes) {
  std::size_t size = kSmallestRecord;
  for (std::uint8_t i = 0; i < kSizeClasses; ++i, size *= 2) {
    if (bytes <= size) return i;
  }
  return kHugeClass;
}

struct FreeSlot {
  FreeSlot* next;
};

using AfterSwitch = void (*)(ThreadWorker*, void*);

// Bits of ThreadWorker::hooks: why the inlined paths must call the out-of-line ones.
inline constexpr std::uint8_t kHookMeter = 1;          // Budgets or capabilities are checked.
inline constexpr std::uint8_t kHookTrace = 2;          // Events are recorded.
inline constexpr std::uint8_t kHookDeterministic = 4;  // One thread acts as all thread workers.
inline constexpr std::uint8_t kHookCore = 8;           // Profile `core`: spawning is an error.
inline constexpr std::uint8_t kHookFence = 16;         // No membarrier: light_fence() is not enough.
inline constexpr std::uint8_t kHookCanary = 64;        // Some stacks have a canary instead of a guard.
inline constexpr std::uint8_t kHookPriority = 32;      // Tasks of high or low priority exist (priority_queue.h).

// Of every 64 tasks that a thread worker spawns, the one whose id is a multiple of 64 is a sample for the latency. The
// ids of a thread worker start at such a one.
inline constexpr std::uint64_t kFirstTask = 63;
inline constexpr std::uint64_t kTaskCountMask = (std::uint64_t{1} << TaskRecord::kPriorityShift) - 1;

struct alignas(sync::kCacheLineBytes) ThreadWorker {
  explicit ThreadWorker(std::size_t queue_size, bool open_deque = false) : deque(queue_size, open_deque) {}

  Deque<Item> deque;

  alignas(sync::kCacheLineBytes) Fiber* fiber = nullptr;  // The fiber that runs now.
  RuntimeCore* runtime = nullptr;
  Item handoff = 0;  // What the loop runs next, before it checks any queue.
  AfterSwitch after = nullptr;
  void* after_argument = nullptr;
  bool solo = false;       // The only thread worker: nobody steals.
  std::uint8_t hooks = 0;  // kHook*.
  std::uint8_t idle = 0;   // What a loop that dies must undo (panic.h).
  bool replaced = false;   // The thread will end, and another will take over.
  std::uint32_t index = 0;
  std::uint32_t tick = 0;
  std::uint32_t scopes = 0;  // Opened in a metered runtime.
  StealBatch batch;
  std::array<FreeSlot*, kSizeClasses> free{};
  std::array<std::uint32_t, kSizeClasses> free_count{};
  std::uint64_t fresh_meter = 0;      // The initial TaskRecord::meter of a new task.
  Counter spent_ops, spent_spawns;    // Used by tasks with an inline meter.
  Counter not_inline, inline_opened;  // Spawns without an inline meter (or refused); inline meters that became a Meter.
  Counter meters_ended;               // Tasks that ended with a Meter.
  Fiber* spare = nullptr;             // Stacks that are suspended in the loop, ready to continue.
  std::uint32_t spare_count = 0;
  sync::Atomic<std::uint32_t>* cancel_epoch = nullptr;
  ExceptionGlobals* exceptions = nullptr;            // Of this thread.
  sync::Atomic<std::uint64_t>* idle_word = nullptr;  // The parking lot's word: sleepers and searchers.
  Fiber native;                                      // The thread's own stack.
  Counters counters;
  std::uint64_t random[4] = {};
};

// ---------------------------------------------------------------------------------------------------------- slow paths
TaskRecord* allocate_slow(ThreadWorker* worker, std::uint8_t size_class, std::size_t bytes);
void free_overflow(ThreadWorker* worker, std::uint8_t size_class);
void wake_sleeper(ThreadWorker* worker);
[[nodiscard]] bool scope_cancelled_slow(NurseryCore* scope, TaskRecord* task, std::uint32_t epoch);

// Parks the current fiber. `publish(worker, argument)` runs after the switch, on the stack that runs next. It makes the
// wait visible to the code that ends it (typically it releases the lock under which the wait was queued) and returns
// true, or returns false if the wait is already over. It must not touch `argument`'s target after it is visible and
// released. park() returns why the fiber was woken; if `cancellable` and the task is already cancelled, it returns
// kCancelled at once, without publishing, and the caller undoes what it queued. REQUIRES: in a task.
using Publish = bool (*)(ThreadWorker*, void*);
WakeReason park(ThreadWorker* worker, Publish publish, void* argument, bool cancellable, const char* waits_for,
                TaskState state = TaskState::kBlocked);
// Claims the wake-up: true for exactly one caller per wait, which must then schedule() the fiber.
// REQUIRES: the wait is published (the caller holds the lock that `publish` released, or has read what it wrote), and
// is withdrawn under the same lock before the fiber continues, so that no caller is late.
bool claim_wake(Fiber* fiber, WakeReason reason);
// Queues a claimed fiber: on the deque of this thread worker, or from outside on the inject list of the fiber's
// runtime.
void schedule(Fiber* fiber);
inline bool wake(Fiber* fiber, WakeReason reason) {
  if (!claim_wake(fiber, reason)) return false;
  schedule(fiber);
  return true;
}

// ---------------------------------------------------------------------------------------------------------- inlined
// A pointer, or null and the error.
template <class P>
struct ErrorOr {
  P pointer;
  Result<void> error;
};

template <class R>
[[gnu::always_inline]] inline R* allocate_record(ThreadWorker* worker) {
  constexpr std::uint8_t kClass = size_class_of(sizeof(R));
  static_assert(alignof(R) <= 64);
#if !ROTA_ASAN
  if constexpr (kClass != kHugeClass) {
    if (FreeSlot* slot = worker->free[kClass]; slot != nullptr) [[likely]] {
      worker->free[kClass] = slot->next;
      --worker->free_count[kClass];
      return reinterpret_cast<R*>(slot);
    }
  }
#endif
  return reinterpret_cast<R*>(allocate_slow(worker, kClass, sizeof(R)));
}

void free_slow(TaskRecord* record);

[[gnu::always_inline]] inline void free_record([[maybe_unused]] ThreadWorker* worker, TaskRecord* record) {
  [[maybe_unused]] const std::uint8_t size_class = record->size_class;
#if !ROTA_ASAN
  if (worker != nullptr && size_class < kSizeClasses) [[likely]] {
    auto* slot = reinterpret_cast<FreeSlot*>(record);
    slot->next = worker->free[size_class];
    worker->free[size_class] = slot;
    if (++worker->free_count[size_class] > 4096) [[unlikely]]
      free_overflow(worker, size_class);
    return;
  }
#endif
  free_slow(record);
}

inline void set_state(TaskRecord* record, TaskState to) {
  ROTA_DASSERT(legal_transition(record->state.load(std::memory_order_relaxed), to), "task ", record->id, " from ",
               static_cast<int>(record->state.load(std::memory_order_relaxed)), " to ", static_cast<int>(to));
  // Release, partner: the acquire loads of a handle's poll() and get(): the result is visible before its state.
  record->state.store(to, std::memory_order_release);
}

// True if `scope` or anything around it is cancelled. One comparison if nothing was cancelled since the last call.
inline bool scope_cancelled(ThreadWorker* worker, NurseryCore* scope, TaskRecord* task) {
  // seq_cst, partner: the cancellers' increment of the epoch; see Parking above.
  const std::uint32_t epoch = worker->cancel_epoch->load(std::memory_order_seq_cst);
  if (scope->seen_epoch.load(std::memory_order_relaxed) == epoch && task->cancel.load(std::memory_order_relaxed) == 0)
      [[likely]] {
    return false;
  }
  return scope_cancelled_slow(scope, task, epoch);
}
// True if a task is cancelled before it has run.
inline bool cancelled_before_run(ThreadWorker* worker, TaskRecord* task) {
  return scope_cancelled(worker, task->nursery, task);
}
// True if the current task, or its innermost open scope, is cancelled.
inline bool cancelled_now(ThreadWorker* worker) {
  Fiber* fiber = worker->fiber;
  NurseryCore* scope = fiber->scope;
  if (scope == nullptr || scope->owner_task != fiber->task) scope = fiber->task->nursery;
  return scope_cancelled(worker, scope, fiber->task);
}

// Work was pushed onto the deque of this thread worker: wakes a sleeping one if necessary.
[[gnu::always_inline]] inline void notify_work(ThreadWorker* worker) {
  light_fence();  // Partner: the heavy_fence() of a thread worker that goes to sleep.
  const std::uint64_t idle = worker->idle_word->load(std::memory_order_relaxed);
  // Low half: sleepers. High half: searchers. Wake one only if nobody is searching.
  if (idle != 0 && (idle >> 32) == 0) [[unlikely]]
    wake_sleeper(worker);
}

[[gnu::always_inline]] inline Item pop_item(ThreadWorker* worker) { return worker->deque.pop(); }

inline void run_after_switch(ThreadWorker* worker) {
  if (AfterSwitch after = worker->after; after != nullptr) {
    worker->after = nullptr;
    after(worker, worker->after_argument);
  }
}

// Switches to `to`; returns when another fiber switches back, possibly on another thread worker.
[[gnu::always_inline]] inline void switch_fibers(ThreadWorker* worker, Fiber* from, Fiber* to);

}  // namespace rota::fiber::detail

#include "rota/fiber/detail/switch.h"

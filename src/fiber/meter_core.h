// Implementation of metering: pools, capability contexts, and the tasks that wait for a recharge.
//
// The accounts (F-12). A pool's total is its initial contents; rest + granted + spent == total under its lock, always.
// A grant moves from rest to granted; when its holder ends, granted decreases by all of it, rest increases by what is
// left, and spent by the difference. A nested pool is a holder like any other. If one task frees memory that another
// allocated, `spent` decreases for one and increases for the other: the sums are modulo 2^64.
//
// A root pool that cannot run dry (plentiful) grants its default budget without being touched: the number of tasks that
// hold one follows from the thread workers' counters of spawned and ended tasks, and their use is counted there as
// well.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "fiber/runtime_core.h"
#include "rota/fiber/budget.h"
#include "rota/fiber/capability.h"
#include "rota/fiber/detail/charge.h"

namespace rota::fiber::detail {

struct BudgetPool;

// A task that has run out of budget; on its own stack. Everything under its pool's lock.
struct ExhaustedTask {
  ExhaustedTask* next = nullptr;
  ExhaustedTask* previous = nullptr;
  TaskRecord* task = nullptr;
  Fiber* fiber = nullptr;
  BudgetPool* pool = nullptr;
  Reserve need{};          // It can continue with this much.
  Reserve given{};         // Granted since it was queued.
  Component component{};   // The component that ran out.
  bool automatic = false;  // The pool serves it when something returns.
  bool hopeless = false;   // Nothing can return to the pool any more.
  bool queued = false;
  bool parked = false;
};

struct BudgetPool {
  explicit BudgetPool(RuntimeCore* of) : runtime(of) {}

  RuntimeCore* runtime;
  BudgetPool* parent = nullptr;
  bool plentiful = false;
  SpinLock lock;
  // Under the lock from here on.
  Reserve total{};
  Reserve rest{};
  Reserve granted{};
  Reserve spent{};
  std::uint64_t grants = 0;  // Number of holders.
  ExhaustedTask* first = nullptr;
  ExhaustedTask* last = nullptr;
  std::uint64_t waiting = 0;
  std::uint64_t automatic = 0;  // Of them those that the pool serves. If all holders are, nothing can return to it.
  std::uint32_t searches = 0;   // Identifies a search for holders that can still end.
  std::uint8_t endless = 0;     // Bits by Component: what was not taken from the parent. Constant.
};

// The target of a Supervisor; outlives its nursery.
struct SupervisorState {
  SpinLock lock;
  NurseryCore* core = nullptr;  // Null after the nursery has closed.
};

// How the children of a scope are metered. Stored in the NurseryExtras of scopes with options, and in the runtime.
struct ScopeMeter {
  BudgetPool* pool = nullptr;         // Its own pool, or the surrounding one.
  std::unique_ptr<BudgetPool> own{};  // Set if it has its own pool.
  CapContext* drawn_by = nullptr;     // The CapBudget against which it counts.
  Budget default_child{};
  OnExhausted on_exhausted = OnExhausted::kRecharge;
  std::function<void(const Exhaustion&)> notify{};
  std::shared_ptr<SupervisorState> supervisor{};
};

struct RootMeter {
  RootMeter(RuntimeCore* runtime, const Config& config);
  ~RootMeter();
  RootMeter(const RootMeter&) = delete;
  RootMeter& operator=(const RootMeter&) = delete;

  BudgetPool pool;
  ScopeMeter scope;
  Profile profile;
  std::uint32_t interval;
  std::uint32_t grace;
  std::uint64_t fresh = 0;          // The inline meter of a new task, or 0 if there are none.
  CapContext* caps = nullptr;       // For tasks from outside. Null: everything is allowed.
  std::optional<Budget> root_task;  // Budget of tasks from outside, if not the default.
  Counter outside_not_inline;       // Under RuntimeCore::global_mutex.
  sigset_t signals{};  // The signals that thread workers block; a thread that blocks more is in a signal handler.
};

// ------------------------------------------------------------------------------------------------ budget_pool.cc
// Takes as much of `wanted` as there is.
Reserve draw(BudgetPool* pool, const Reserve& wanted, bool new_holder);
// Takes all of `wanted`, or nothing.
bool draw_all(BudgetPool* pool, const Reserve& wanted, bool new_holder);
// A holder ends: it was granted `granted` and has `left` of it.
void give_back(BudgetPool* pool, const Reserve& granted, const Reserve& left);
// A share of the pool for a task that lacks `need`, in the components that it lacks; nothing if the rest does not cover
// that.
std::optional<Reserve> draw_share(BudgetPool* pool, const Reserve& need, const Budget& usual);
// Waits until `waiter` has received what it needs. False: cancelled, or waiter->hopeless is set. waiter->given contains
// what it got in any case.
bool await_recharge(BudgetPool* pool, ExhaustedTask* waiter, const ScopeMeter& scope);
// Gives `amount` from the pool to the waiting task with this id below `nursery`.
// REQUIRES: `nursery` and the pool are alive.
Result<void> recharge_waiter(BudgetPool* pool, const NurseryCore* nursery, std::uint64_t id, const Reserve& amount);
PoolAudit audit(BudgetPool* pool);

// ------------------------------------------------------------------------------------------------ capability.cc
// A task's capabilities, reference-counted. A context that was passed on refers to the giver's, and counts there, too.
struct CapContext {
  sync::Atomic<std::uint32_t> references{1};
  CapContext* giver = nullptr;
  Capabilities rights{};  // Constant.
  SpinLock lock;
  std::uint32_t tasks = 0;     // Alive now.
  std::uint32_t channels = 0;  // Likewise.
  Reserve drawn{};             // Drawn from CapBudget.
};
CapContext* add_reference(CapContext* caps);
void drop_reference(CapContext* caps);
// The context without any capability; never freed.
CapContext* no_rights();
// Creates the capabilities of a child: CapabilityDenied if they exceed the giver's (null: the giver has everything).
Result<CapContext*> pass_on(CapContext* giver, const Capabilities& rights);
// Counts a task, a channel or an amount in the context and in all contexts it came from; false, without counting, if it
// exceeds the limit of one of them.
bool count_task(CapContext* caps);
void uncount_task(CapContext* caps);
bool count_drawn(CapContext* caps, const Reserve& amount);
void uncount_drawn(CapContext* caps, const Reserve& amount);
// The capabilities of the code that runs now, not counted as a reference; null: everything is allowed.
CapContext* current_rights();
// While this object lives, code on this thread acts for a task that is elsewhere: a helper thread that runs its call, a
// thread that runs its callback or destroys its closure. It has that task's capabilities, and no task can wait for it.
class ActingFor {
 public:
  ActingFor(RuntimeCore* runtime, CapContext* caps);
  ~ActingFor();
  ActingFor(const ActingFor&) = delete;
  ActingFor& operator=(const ActingFor&) = delete;

 private:
  RuntimeCore* runtime_before_;
  CapContext* before_;
  Meter* meter_ = nullptr;  // Of the task whose capabilities are replaced meanwhile, if this is a task.
  bool plain_before_ = false;
};
// From now on the destructor of the exception has these capabilities, wherever it runs (thrown.cc). REQUIRES: the
// exception is being handled.
void keep_rights(const std::exception_ptr& error, CapContext* rights) noexcept;

// ------------------------------------------------------------------------------------------------ meter.cc
// The task's Meter, created from the inline meter if necessary. REQUIRES: metered; the caller runs the task.
Meter* open_meter(ThreadWorker* worker, TaskRecord* task);
Meter* new_meter(ThreadWorker* worker);
void free_meter(ThreadWorker* worker, Meter* meter);
// How children of `core` are metered, and from which pool.
const ScopeMeter& scope_meter(const NurseryCore* core, const RootMeter* root);
// Pays, or returns why not: kOk, kCancelled, kBudgetExhausted or similar. With `may_wait` it yields at the end of an
// interval and waits when the budget is used up.
ErrorCode pay(ThreadWorker* worker, TaskRecord* task, Component component, std::uint64_t amount, bool may_wait);
// The bits of Meter::renewable for the components of `budget`.
std::uint8_t renewable_parts(const Budget& budget);
// True if the current task may yield here: not in code of the runtime, and not while its outcome is being stored.
bool may_look_up(const TaskRecord* task);
// Lets other tasks run, from code that does not expect it: exceptions in flight and errno are preserved.
void yield_anywhere();
// What is left of an unlimited component: more than can be used, and it cannot overflow.
inline constexpr std::uint64_t kEndless = std::uint64_t{1} << 62;
// The bits of the components of `budget` that are unlimited.
std::uint8_t unlimited_parts(const Budget& budget);
inline std::uint64_t& part(Reserve& reserve, Component component) {
  switch (component) {
    case Component::kOps:
      return reserve.ops;
    case Component::kMemory:
      return reserve.memory;
    case Component::kSpawnCount:
      return reserve.spawn_count;
    case Component::kChannelOps:
      return reserve.channel_ops;
    case Component::kSyscalls:
      break;
  }
  return reserve.syscalls;
}

}  // namespace rota::fiber::detail

// Behind the meters: pools, capability contexts, and the tasks that wait for a recharge.
//
// The books (F-12). A pool's total is what it was made with; rest + granted + spent == total under its lock, always.
// A grant moves from rest to granted; when its holder ends, granted goes down by all of it, rest up by what is left,
// spent by the difference. A nested pool is a holder like any other. Memory that one task frees and another had
// allocated makes `spent` fall for one and rise for the other: the sums are modulo 2^64.
//
// A root pool that cannot run dry (plentiful) grants its default budget without touching the pool: how many tasks hold
// one follows from the workers' counters of spawned and ended tasks, and what they spent is in their counters as well.
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

// A task that is out of budget, on its own stack. All under its pool's lock.
struct ExhaustedTask {
  ExhaustedTask* next = nullptr;
  ExhaustedTask* previous = nullptr;
  Record* task = nullptr;
  Fiber* fiber = nullptr;
  BudgetPool* pool = nullptr;
  Reserve need{};          // It can go on with this.
  Reserve given{};         // Granted since it is queued.
  Component component{};   // What it ran out of.
  bool automatic = false;  // The pool serves it when something comes back.
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
  std::uint64_t grants = 0;  // Holders of grants.
  ExhaustedTask* first = nullptr;
  ExhaustedTask* last = nullptr;
  std::uint64_t waiting = 0;
};

// What a Supervisor refers to; outlives its nursery.
struct SupervisorState {
  SpinLock lock;
  NurseryCore* core = nullptr;  // Null once the nursery is closed.
};

// How the children of a scope are metered. In NurseryExtras of those that say something about it, and in the runtime.
struct ScopeMeter {
  BudgetPool* pool = nullptr;         // Of its own, or the one around it.
  std::unique_ptr<BudgetPool> own{};  // If it is its own.
  CapContext* drawn_by = nullptr;     // Whose CapBudget it counts against.
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
  std::uint64_t fresh = 0;          // A new task's inline meter, or 0 if there are none.
  CapContext* caps = nullptr;       // Of tasks from outside. Null: everything.
  std::optional<Budget> root_task;  // Budget of tasks from outside, if not the default.
  Counter outside_not_inline;       // Under RuntimeCore::global_mutex.
  sigset_t signals{};               // What workers block; a thread that blocks more is in a signal handler.
};

// ------------------------------------------------------------------------------------------------ budget_pool.cc
// As much of `wanted` as there is.
Reserve draw(BudgetPool* pool, const Reserve& wanted, bool new_holder);
// All of `wanted`, or nothing.
bool draw_all(BudgetPool* pool, const Reserve& wanted, bool new_holder);
// A holder ends: it was granted `granted` and has `left` of it.
void give_back(BudgetPool* pool, const Reserve& granted, const Reserve& left);
// A share of the pool for a task that is short of `need`, in the components in which it is; nothing if the rest does
// not cover that.
std::optional<Reserve> draw_share(BudgetPool* pool, const Reserve& need, const Budget& usual);
// Waits until `waiter` was given what it needs. False: cancelled. What it was given is in waiter->given either way.
bool await_recharge(BudgetPool* pool, ExhaustedTask* waiter, const ScopeMeter& scope);
// Gives `amount` from the pool to a waiting task: the one with this id below `nursery`.
// REQUIRES: `nursery` and the pool live.
Result<void> recharge_waiter(BudgetPool* pool, const NurseryCore* nursery, std::uint64_t id, const Reserve& amount);
PoolAudit audit(BudgetPool* pool);

// ------------------------------------------------------------------------------------------------ capability.cc
// A task's rights, counted by references. A context that was passed on points to the giver's, and counts there, too.
struct CapContext {
  sync::Atomic<std::uint32_t> references{1};
  CapContext* giver = nullptr;
  Capabilities rights{};  // Does not change.
  SpinLock lock;
  std::uint32_t tasks = 0;     // Alive now.
  std::uint32_t channels = 0;  // Likewise.
  Reserve drawn{};             // Of CapBudget.
};
CapContext* add_reference(CapContext* caps);
void drop_reference(CapContext* caps);
// The context of nobody's rights; never freed.
CapContext* no_rights();
// Rights for a child: CapabilityDenied if they are wider than the giver's (null: has everything).
Result<CapContext*> pass_on(CapContext* giver, const Capabilities& rights);
// Counts one task, channel or amount in the context and in all it came from; false, and counts nothing, if it is too
// much for one of them.
bool count_task(CapContext* caps);
void uncount_task(CapContext* caps);
bool count_drawn(CapContext* caps, const Reserve& amount);
void uncount_drawn(CapContext* caps, const Reserve& amount);

// ------------------------------------------------------------------------------------------------ meter.cc
// The task's Meter; made from the inline one if need be. REQUIRES: metered, run by the caller.
Meter* open_meter(Worker* worker, Record* task);
Meter* new_meter(Worker* worker);
void free_meter(Worker* worker, Meter* meter);
// How children of `core` are metered, and from which pool.
const ScopeMeter& scope_meter(const NurseryCore* core, const RootMeter* root);
// Pays, or says why not: kOk, kCancelled, kBudgetExhausted and its like. With `may_wait` it looks up when an interval
// is over and waits when the budget is.
ErrorCode pay(Worker* worker, Record* task, Component component, std::uint64_t amount, bool may_wait);
// The bits of Meter::renewable for what `budget` has.
std::uint8_t renewable_parts(const Budget& budget);
// May the current task yield here: not in code of the runtime, not while its end is being stored?
bool may_look_up(const Record* task);
// Lets others run, from a place that knows nothing of it: exceptions in flight and errno stay this task's.
void yield_anywhere();
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

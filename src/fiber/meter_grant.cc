// What a task is granted when it is spawned, what returns when it ends, and the pools of nurseries.
#include <pthread.h>

#include <algorithm>
#include <mutex>

#include "fiber/meter_core.h"
#include "rota/assert.h"
#include "rota/fiber/error.h"

namespace rota::fiber::detail {

namespace {

// With this much of every component a root pool cannot run dry: 2^29 tasks with the largest default budget fit.
constexpr std::uint64_t kNeverDry = std::uint64_t{1} << 61;
constexpr std::size_t kLargestDefaultMemory = std::size_t{1} << 32;

constexpr auto kOnceBits = static_cast<std::uint8_t>(1U << static_cast<int>(Component::kSpawnCount) |
                                                     1U << static_cast<int>(Component::kMemory));
constexpr auto kSpawnBit = static_cast<std::uint8_t>(1U << static_cast<int>(Component::kSpawnCount));
constexpr auto kAllComponents = static_cast<std::uint8_t>((1U << kComponentCount) - 1);
// Granted at a time instead of an unlimited component, where none may be granted.
constexpr Budget kSlice{
    .ops = 1'000'000, .memory = std::size_t{256} << 20, .spawn_count = 0, .channel_ops = 50'000, .syscalls = 50'000};

bool gives_inline_meters(const ScopeMeter& scope, const RootMeter& root) {
  return root.fresh != 0 && scope.pool == &root.pool && scope.default_child == root.scope.default_child;
}

// True if children of plain nurseries that `task` opens now have inline meters.
bool is_plain(const TaskRecord* task, const Meter* meter, const Fiber* fiber, const RootMeter& root) {
  if (meter->caps != nullptr || !gives_inline_meters(*meter->scope, root)) return false;
  for (const NurseryCore* at = fiber->scope; at != nullptr && at->owner_task == task; at = at->outer) {
    const NurseryExtras* extras = peek_extras(at);
    if (extras != nullptr && extras->meter != nullptr && !gives_inline_meters(*extras->meter, root)) return false;
  }
  return true;
}

Budget asked_budget(const Grant* grant, const ScopeMeter& scope, CapContext* giver) {
  Budget budget = scope.default_child;
  if (grant != nullptr && grant->budget) {
    budget = *grant->budget;
  } else if (grant != nullptr && grant->capabilities && grant->capabilities->spawn) {
    budget.spawn_count = static_cast<std::uint16_t>(std::max<std::uint32_t>(
        budget.spawn_count, std::min<std::uint32_t>(grant->capabilities->spawn->max_tasks, UINT16_MAX - 1)));
  }
  return giver == nullptr ? budget : min(budget, giver->rights.spawn->task_budget);
}

// Replaces the components in `bits` by those of `other`.
Budget with_parts(Budget budget, std::uint8_t bits, const Budget& other) {
  const auto has = [bits](Component component) { return (bits >> static_cast<int>(component) & 1U) != 0; };
  if (has(Component::kOps)) budget.ops = other.ops;
  if (has(Component::kMemory)) budget.memory = other.memory;
  if (has(Component::kSpawnCount)) budget.spawn_count = other.spawn_count;
  if (has(Component::kChannelOps)) budget.channel_ops = other.channel_ops;
  if (has(Component::kSyscalls)) budget.syscalls = other.syscalls;
  return budget;
}

// The unlimited components that a task may pass on.
std::uint8_t may_grant(const Meter* giver, const ScopeMeter& scope, const RootMeter& root) {
  const bool root_pool = scope.pool == &root.pool;
  if (giver == nullptr) return root_pool ? kAllComponents : 0;  // From outside, or with the default budget.
  if (giver->caps == nullptr && root_pool && giver->scope->pool == &root.pool) return kAllComponents;
  return giver->unlimited;
}

// `unlimited` are the unlimited components that may be granted.
Meter* make_meter(ThreadWorker* worker, const ScopeMeter& scope, Budget asked, CapContext* caps,
                  std::uint8_t unlimited) {
  Meter* meter = new_meter(worker);
  meter->scope = &scope;
  meter->caps = caps;
  const std::uint8_t wanted = unlimited_parts(asked);
  meter->unlimited = wanted & unlimited;
  asked = with_parts(asked, meter->unlimited, {});
  // A limit instead of none: the scope's default, or if that has none either, a slice.
  asked = with_parts(asked, static_cast<std::uint8_t>(wanted & ~unlimited), scope.default_child);
  asked = with_parts(asked, unlimited_parts(asked), kSlice);
  meter->renewable = renewable_parts(asked);
  meter->granted = meter->left = draw(scope.pool, asked, true);
  for (int i = 0; i < kComponentCount; ++i) {
    if ((meter->unlimited >> i & 1U) != 0) part(meter->left, static_cast<Component>(i)) = kEndless;
  }
  return meter;
}

}  // namespace

RootMeter::RootMeter(RuntimeCore* runtime, const Config& config)
    : pool(runtime), profile(config.profile), interval(config.yield_interval), grace(config.cancel_grace_ops) {
  pool.total = pool.rest = config.root_budget;
  pool.plentiful = config.root_budget.covers(Reserve::all(kNeverDry));
  scope.pool = &pool;
  scope.default_child = *config.default_budget;
  scope.on_exhausted = *config.on_exhausted;
  const Grant grant = config.root_grant.value_or(Grant{});
  if (grant.capabilities) {
    caps = *pass_on(nullptr, *grant.capabilities);
  } else if (profile == Profile::kSovereign) {
    caps = add_reference(no_rights());
  }
  if (config.root_grant) root_task = asked_budget(&grant, scope, nullptr);
  if (pool.plentiful && profile != Profile::kSovereign && scope.default_child.memory <= kLargestDefaultMemory &&
      unlimited_parts(scope.default_child) == 0) {
    fresh = inline_meter(std::min(interval, scope.default_child.ops), scope.default_child.spawn_count);
  }
  for (const auto& worker : runtime->workers) worker->fresh_meter = fresh;
  pthread_sigmask(SIG_BLOCK, nullptr, &signals);
}

RootMeter::~RootMeter() { drop_reference(caps); }

const ScopeMeter& scope_meter(const NurseryCore* core, const RootMeter* root) {
  for (const NurseryCore* at = core; at != nullptr; at = parent_of(at)) {
    const NurseryExtras* extras = peek_extras(at);
    if (extras != nullptr && extras->meter != nullptr) return *extras->meter;
  }
  return root->scope;
}

Result<void> grant_meter(ThreadWorker* worker, NurseryCore* core, TaskRecord* record, const Grant* grant) {
  RootMeter& root = *worker->runtime->meter;
  const NurseryExtras* extras = peek_extras(core);
  if (grant == nullptr && (extras == nullptr || extras->meter == nullptr) && charge_spawn_quickly(worker, core))
    return {};
  TaskRecord* spawner = worker->fiber->task;
  Meter* giver = is_inline(spawner->meter) ? nullptr : meter_of(spawner->meter);
  CapContext* rights = giver == nullptr ? nullptr : giver->caps;
  record->meter = 0;
  if (rights != nullptr && !rights->rights.spawn) {
    return Error{ErrorCode::kCapabilityDenied, "spawning needs CapSpawn, which this task does not have"}.with(
        "capability", "CapSpawn");
  }
  CapContext* child_rights = rights == nullptr ? nullptr : add_reference(no_rights());
  if (grant != nullptr && grant->capabilities) {
    drop_reference(child_rights);
    ROTA_TRY_ASSIGN(child_rights, pass_on(rights, *grant->capabilities));
  }
  if (rights != nullptr && !count_task(rights)) {
    drop_reference(child_rights);
    return Error{ErrorCode::kCapabilityDenied, "CapSpawn does not allow this task another child at the same time"}.with(
        "capability", "CapSpawn");
  }
  // At the end of an interval this yields: nothing about the child is visible yet.
  const ErrorCode code = pay(worker, spawner, Component::kSpawnCount, 1, true);
  worker = current_worker();
  if (code != ErrorCode::kOk) {
    if (rights != nullptr) uncount_task(rights);
    drop_reference(child_rights);
    return code;
  }
  const ScopeMeter& scope = scope_meter(core, &root);
  if (grant == nullptr && child_rights == nullptr && gives_inline_meters(scope, root)) {
    record->meter = root.fresh;
    return {};
  }
  Meter* meter = nullptr;
  try {
    meter = make_meter(worker, scope, asked_budget(grant, scope, rights), child_rights, may_grant(giver, scope, root));
  } catch (const std::bad_alloc&) {
    if (rights != nullptr) uncount_task(rights);
    drop_reference(child_rights);
    return ErrorCode::kResourceExhausted;
  }
  // A grant of spawns or memory is all that the task gets; ops are a rate.
  if (grant != nullptr && grant->budget) meter->renewable &= static_cast<std::uint8_t>(~kOnceBits);
  meter->counted_by = add_reference(rights);
  meter->plain = child_rights == nullptr && gives_inline_meters(scope, root);
  worker->not_inline.add(1);
  record->meter = reinterpret_cast<std::uint64_t>(meter);
  return {};
}

Result<void> grant_outside(RuntimeCore* runtime, TaskRecord* record, const Grant* grant) {
  RootMeter& root = *runtime->meter;
  if (current_rights() != nullptr) {
    return Error{ErrorCode::kCapabilityDenied, "a task with capabilities can spawn only in nurseries"};
  }
  if (grant == nullptr && root.caps == nullptr && !root.root_task && root.fresh != 0) {
    record->meter = root.fresh;
    return {};
  }
  Budget budget = root.root_task.value_or(root.scope.default_child);
  if (grant != nullptr && (grant->budget || grant->capabilities)) budget = asked_budget(grant, root.scope, nullptr);
  CapContext* caps =
      grant != nullptr && grant->capabilities ? *pass_on(nullptr, *grant->capabilities) : add_reference(root.caps);
  Meter* meter = nullptr;
  try {
    meter = make_meter(nullptr, root.scope, budget, caps, kAllComponents);
  } catch (const std::bad_alloc&) {
    drop_reference(caps);
    throw;
  }
  if (grant != nullptr || root.root_task) meter->renewable &= static_cast<std::uint8_t>(~kSpawnBit);
  meter->plain = caps == nullptr && gives_inline_meters(root.scope, root);
  root.outside_not_inline.add(1);
  record->meter = reinterpret_cast<std::uint64_t>(meter);
  return {};
}

void settle_meter(ThreadWorker* worker, TaskRecord* record) {
  const std::uint64_t word = record->meter;
  if (is_inline(word)) return settle_quickly(worker, record);
  Meter* meter = meter_of(word);
  Reserve left = meter->left;
  if (!meter->doomed) left.ops += static_cast<std::uint64_t>(meter->fuel);
  left.ops -= std::min<std::uint64_t>(left.ops, meter->debt);
  for (int i = 0; i < kComponentCount; ++i) {  // What was granted in addition to an unlimited component was not used.
    const auto component = static_cast<Component>(i);
    if ((meter->unlimited >> i & 1U) != 0) part(left, component) = part(meter->granted, component);
  }
  record->meter = 0;
  if (meter->counted_by != nullptr) {
    uncount_task(meter->counted_by);
    drop_reference(meter->counted_by);
  }
  drop_reference(meter->caps);
  worker->meters_ended.add(1);
  give_back(meter->scope->pool, meter->granted, left);
  free_meter(worker, meter);
}

void unsettle_meter(ThreadWorker* worker, TaskRecord* record) {
  if (is_inline(record->meter)) {
    record->meter = 0;
    return refuse_metered(worker);
  }
  settle_meter(worker, record);
  worker->meters_ended.add(~std::uint64_t{0});  // It does not count as a task that has ended.
}

void refuse_metered(ThreadWorker* worker) { worker->not_inline.add(1); }

void open_metered(ThreadWorker* worker, NurseryCore* core, const NurseryOptions& options) {
  if (!is_metered(worker)) return;
  RootMeter& root = *worker->runtime->meter;
  TaskRecord* task = worker->fiber->task;
  Meter* meter = open_meter(worker, task);
  const ScopeMeter& around = scope_meter(core, &root);
  auto made = std::make_unique<ScopeMeter>();
  NurseryExtras* extras = extras_of(core);
  made->pool = around.pool;
  made->default_child = options.default_child.value_or(around.default_child);
  made->on_exhausted = options.on_exhausted.value_or(around.on_exhausted);
  made->notify = options.notify ? options.notify : around.notify;
  if (options.pool) {
    // An unlimited component is not taken from the surrounding pool.
    Reserve drawn = *options.pool;
    Reserve contents = *options.pool;
    std::uint8_t endless = 0;
    for (int i = 0; i < kComponentCount; ++i) {
      const auto component = static_cast<Component>(i);
      if (part(drawn, component) != UINT64_MAX || (may_grant(meter, around, root) >> i & 1U) == 0) continue;
      part(drawn, component) = 0;
      part(contents, component) = kEndless;
      endless = static_cast<std::uint8_t>(endless | 1U << i);
    }
    made->own = std::make_unique<BudgetPool>(worker->runtime);
    if (meter->caps != nullptr && !count_drawn(meter->caps, drawn)) {
      throw_error(
          Error{ErrorCode::kCapabilityDenied, "a nursery's own pool needs CapBudget, and is bounded by its limit"}.with(
              "capability", "CapBudget"));
    }
    if (!draw_all(around.pool, drawn, true)) {
      if (meter->caps != nullptr) uncount_drawn(meter->caps, drawn);
      throw_error(ErrorCode::kBudgetExhausted,
                  "the surrounding pool does not have as much left as this nursery's own pool needs");
    }
    made->own->parent = around.pool;
    made->own->total = made->own->rest = contents;
    made->own->endless = endless;
    made->pool = made->own.get();
    made->drawn_by = add_reference(meter->caps);
  }
  extras->meter = made.release();
  meter->plain = is_plain(task, meter, worker->fiber, root);
}

void close_metered(ThreadWorker* worker, NurseryCore* core) {
  NurseryExtras* extras = peek_extras(core);
  if (extras == nullptr || extras->meter == nullptr) return;
  const std::unique_ptr<ScopeMeter> scope(std::exchange(extras->meter, nullptr));
  if (scope->supervisor != nullptr) {
    std::lock_guard guard(scope->supervisor->lock);
    scope->supervisor->core = nullptr;
  }
  if (BudgetPool* pool = scope->own.get(); pool != nullptr) {
    ROTA_ASSERT(pool->grants == 0 && pool->first == nullptr, "a pool closes while ", pool->grants,
                " tasks hold some of it");
    Reserve total = pool->total;
    Reserve rest = pool->rest;
    for (int i = 0; i < kComponentCount; ++i) {
      if ((pool->endless >> i & 1U) == 0) continue;
      part(total, static_cast<Component>(i)) = part(rest, static_cast<Component>(i)) = 0;
    }
    if (scope->drawn_by != nullptr) {
      uncount_drawn(scope->drawn_by, rest);
      drop_reference(scope->drawn_by);
    }
    give_back(pool->parent, total, rest);
  }
  if (!is_metered(worker)) return;
  TaskRecord* task = worker->fiber->task;
  if (task->meter != 0 && !is_inline(task->meter)) {
    Meter* meter = meter_of(task->meter);
    meter->plain = is_plain(task, meter, worker->fiber, *worker->runtime->meter);
  }
}

}  // namespace rota::fiber::detail

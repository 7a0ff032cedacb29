// The C interface: handles, errors, schedulers, budgets.
#include "fiber/c_abi.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "fiber/runtime_core.h"
#include "rota/assert.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/time.h"

namespace rota::fiber::c_abi {

namespace {

constexpr int kIndexBits = 32;
constexpr int kGenerationBits = 28;
constexpr std::uint32_t kGenerations = std::uint32_t{1} << kGenerationBits;

void copy_text(char (&to)[kMessageBytes], std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), kMessageBytes - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

// The last error messages of tasks that were started from C++ and call this interface. Bounded: at the bound one of
// them is dropped. Tasks of this interface keep theirs in their TaskShare, threads in a thread_local.
class Strangers {
 public:
  // The message of the current task. REQUIRES: in one.
  void set(std::string_view text) {
    const std::lock_guard guard(lock_);
    if (texts_.size() >= kMost && !texts_.contains(key())) texts_.erase(texts_.begin());
    texts_[key()] = text;
  }
  std::string get() {
    const std::lock_guard guard(lock_);
    const auto it = texts_.find(key());
    return it == texts_.end() ? std::string() : it->second;
  }

 private:
  using Key = std::pair<const void*, std::uint64_t>;  // A task's id is unique within its runtime.
  static Key key() {
    const detail::ThreadWorker* worker = detail::current_worker();
    return {worker->runtime, worker->fiber->task->id};
  }
  static constexpr std::size_t kMost = 1024;
  detail::SpinLock lock_;
  std::map<Key, std::string> texts_;
};

Strangers& strangers() {
  static auto* all = new Strangers;  // Never destroyed: tasks may end after everything else.
  return *all;
}

// Not inlined: a task that moved to another thread must not use the address that it read before.
[[gnu::noinline]] char (&thread_text())[kMessageBytes] {
  thread_local char text[kMessageBytes] = "";
  asm volatile("");
  return text;
}

int remember_text(ErrorCode code, std::string_view text) noexcept {
  if (TaskShare* state = current_state(); state != nullptr) {
    copy_text(state->last_error, text);
  } else if (current_task() != nullptr) {
    try {
      strangers().set(text);
    } catch (const std::bad_alloc&) {  // Then there is no message.
    }
  } else {
    copy_text(thread_text(), text);
  }
  return static_cast<int>(code);
}

sync::Atomic<std::uint64_t> g_newest{0};

std::uint64_t handle_of(void* scheduler) { return reinterpret_cast<std::uint64_t>(scheduler); }
static_assert(sizeof(void*) == sizeof(std::uint64_t), "a scheduler's handle is a number in a pointer");

Result<Config> config_of(const JanusSchedulerConfig& from) {
  if (from.abi_version != JANUS_ABI_VERSION) {
    return invalid("abi_version is not JANUS_ABI_VERSION; start from janus_scheduler_config_default()");
  }
  if (from.profile < JANUS_PROFILE_CORE || from.profile > JANUS_PROFILE_SOVEREIGN) {
    return invalid("profile is not a JanusProfile");
  }
  const auto is_flag = [](int value) { return value == 0 || value == 1; };
  if (!is_flag(from.enable_stealing)) return invalid("enable_stealing is neither 0 nor 1");
  if (!is_flag(from.deterministic)) return invalid("deterministic is neither 0 nor 1");
  Config config;
  config.worker_count = from.worker_count;
  config.local_queue_size = from.local_queue_size;
  config.global_queue_size = from.global_queue_size;
  config.enable_stealing = from.enable_stealing != 0;
  config.spin_count = from.spin_count;
  config.stack_bytes = from.task_stack_size;
  config.profile = static_cast<Profile>(from.profile);
  config.yield_interval = from.yield_interval;
  if (from.deterministic != 0) config.deterministic_seed = from.deterministic_seed;
  return config;
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------ handles
HandleTable& HandleTable::instance() {
  static auto* table = new HandleTable;  // Never destroyed: a handle may be used until the process ends.
  return *table;
}

std::uint64_t HandleTable::add(Kind kind, std::shared_ptr<void> object) {
  const std::lock_guard guard(lock_);
  std::uint32_t index = first_free_;
  if (index == kNone) {
    ROTA_ASSERT(slots_.size() < kNone, "too many handles");
    index = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    first_free_ = slots_[index].next_free;
  }
  Slot& slot = slots_[index];
  slot.kind = kind;
  slot.object = std::move(object);
  return static_cast<std::uint64_t>(kind) << (kIndexBits + kGenerationBits) |
         static_cast<std::uint64_t>(slot.generation) << kIndexBits | index;
}

HandleTable::Slot* HandleTable::slot_of(Kind kind, std::uint64_t handle) {
  const auto index = static_cast<std::uint32_t>(handle);
  if (index >= slots_.size()) return nullptr;
  Slot& slot = slots_[index];
  const bool same = slot.object != nullptr && slot.kind == kind &&
                    handle >> (kIndexBits + kGenerationBits) == static_cast<std::uint64_t>(kind) &&
                    (handle >> kIndexBits) % kGenerations == slot.generation;
  return same ? &slot : nullptr;
}

std::shared_ptr<void> HandleTable::find(Kind kind, std::uint64_t handle) {
  const std::lock_guard guard(lock_);
  const Slot* slot = slot_of(kind, handle);
  return slot == nullptr ? nullptr : slot->object;
}

std::shared_ptr<void> HandleTable::remove(Kind kind, std::uint64_t handle) {
  const std::lock_guard guard(lock_);
  Slot* slot = slot_of(kind, handle);
  if (slot == nullptr) return nullptr;
  slot->generation = slot->generation + 1 == kGenerations ? 1 : slot->generation + 1;
  slot->next_free = first_free_;
  first_free_ = static_cast<std::uint32_t>(handle);
  return std::move(slot->object);  // The caller destroys it, without the lock.
}

// ------------------------------------------------------------------------------------------------------------- errors
int remember(const Error& error) noexcept {
  if (error.code == ErrorCode::kCancelled || error.code == ErrorCode::kBudgetExhausted) {
    if (TaskShare* state = current_state(); state != nullptr) {
      state->told_cancelled = state->told_cancelled || is_cancelled();
    }
  }
  try {
    return remember_text(error.code, error.to_string());
  } catch (...) {
    return remember_text(error.code, error.message);
  }
}

int remember_exception() noexcept {
  try {
    throw;
  } catch (const FiberError& error) {
    return remember(error.error());
  } catch (const MemoryBudgetExhausted& error) {
    return remember_text(ErrorCode::kMemoryBudgetExhausted, error.what());
  } catch (const std::bad_alloc&) {
    return remember_text(ErrorCode::kResourceExhausted, "ResourceExhausted: no memory");
  } catch (const std::exception& error) {
    return remember_text(ErrorCode::kInternal, error.what());
  } catch (...) {
    return remember_text(ErrorCode::kInternal, "Internal: an exception that is not a std::exception");
  }
}

std::shared_ptr<Scheduler> newest_scheduler() {
  return std::static_pointer_cast<Scheduler>(
      HandleTable::instance().find(Kind::kScheduler, g_newest.load(std::memory_order_relaxed)));
}

Budget budget_of(const JanusBudget& budget) {
  return {budget.ops, budget.memory, budget.spawn_count, budget.channel_ops, budget.syscalls};
}
JanusBudget budget_of(const Budget& budget) {
  return {budget.ops, budget.memory, budget.spawn_count, budget.channel_ops, budget.syscalls};
}

}  // namespace rota::fiber::c_abi

using namespace rota;
using namespace rota::fiber;
using namespace rota::fiber::c_abi;

uint32_t janus_abi_version(void) { return JANUS_ABI_VERSION; }

const char* janus_error_name(int code) {
  const bool possible = code >= 0 && code <= UINT16_MAX;
  return error_code_info(possible ? static_cast<ErrorCode>(code) : ErrorCode::kInternal).name.data();
}

size_t janus_last_error(char* text, size_t size) {
  const auto copy = [text, size](std::string_view from) {
    if (text != nullptr && size > 0) {
      const std::size_t length = std::min(from.size(), size - 1);
      std::memcpy(text, from.data(), length);
      text[length] = '\0';
    }
    return from.size();
  };
  if (const TaskShare* state = current_state(); state != nullptr) return copy(state->last_error);
  if (current_task() == nullptr) return copy(thread_text());
  try {
    return copy(strangers().get());
  } catch (...) {
    return copy("");
  }
}

// ---------------------------------------------------------------------------------------------------------- schedulers

JanusSchedulerConfig janus_scheduler_config_default(void) {
  const Config standard;
  JanusSchedulerConfig config{};
  config.abi_version = JANUS_ABI_VERSION;
  config.worker_count = standard.worker_count;
  config.local_queue_size = standard.local_queue_size;
  config.global_queue_size = standard.global_queue_size;
  config.enable_stealing = standard.enable_stealing ? 1 : 0;
  config.spin_count = standard.spin_count;
  config.task_stack_size = standard.stack_bytes;
  config.profile = static_cast<int>(standard.profile);
  config.yield_interval = standard.yield_interval;
  return config;
}

void* janus_scheduler_create(JanusSchedulerConfig config) {
  std::uint64_t handle = 0;
  guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const Config wanted, config_of(config));
    auto scheduler = std::make_shared<Scheduler>();
    ROTA_TRY_ASSIGN(scheduler->runtime, Runtime::create(wanted));
    handle = HandleTable::instance().add(Kind::kScheduler, std::move(scheduler));
    g_newest.store(handle, std::memory_order_relaxed);
    return {};
  });
  return reinterpret_cast<void*>(handle);
}

void janus_scheduler_shutdown(void* scheduler) {
  guarded([&]() -> Result<void> {
    if (rota::fiber::detail::current_worker() != nullptr) {
      return Error{ErrorCode::kFailedPrecondition, "a scheduler must be shut down from outside, not by a task"};
    }
    ROTA_TRY_ASSIGN(const std::shared_ptr<Scheduler> gone, c_abi::remove<Scheduler>(handle_of(scheduler)));
    gone->runtime->shutdown();
    return {};
  });
}

int janus_scheduler_cancel(void* scheduler) {
  return guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<Scheduler>(handle_of(scheduler)));
    found->runtime->cancel_all();
    return {};
  });
}

int janus_scheduler_run(void* scheduler, void* func, void* arg, void** result) {
  if (result != nullptr) *result = nullptr;
  return guarded([&]() -> Result<void> {
    if (rota::fiber::detail::current_worker() != nullptr) {
      return Error{ErrorCode::kFailedPrecondition,
                   "janus_scheduler_run() must be called from outside; a task spawns in a nursery"};
    }
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<Scheduler>(handle_of(scheduler)));
    ROTA_TRY_ASSIGN(const auto task, start_on(found, func, arg, nullptr));
    await(*task);
    ROTA_TRY(outcome_of(*task));
    if (result != nullptr) *result = task->state->result;
    return {};
  });
}

int janus_scheduler_spawn(void* func, void* arg) {
  return guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto task, start_here(func, arg, nullptr));
    return {};
  });
}

int janus_scheduler_spawn_on(void* scheduler, void* func, void* arg, JanusTask* task) {
  if (task != nullptr) *task = 0;
  return guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<Scheduler>(handle_of(scheduler)));
    ROTA_TRY_ASSIGN(auto started, start_on(found, func, arg, nullptr));
    return hand_out(std::move(started), task);
  });
}

int janus_scheduler_yield(void) {
  return guarded([]() -> Result<void> {
    yield();
    return check_cancelled();
  });
}

int janus_sleep(int64_t nanoseconds) {
  return guarded([nanoseconds]() -> Result<void> {
    if (nanoseconds < 0) return invalid("the time to sleep must not be negative");
    return sleep_for(std::chrono::nanoseconds(nanoseconds));
  });
}

// ------------------------------------------------------------------------------------------------- budgets and opcodes

JanusBudget janus_budget_get_current(void) {
  try {
    return budget_of(current_budget());
  } catch (...) {
    remember_exception();
    return JanusBudget{};
  }
}

int janus_budget_recharge(JanusBudget amount) {
  return guarded([&amount] { return recharge(budget_of(amount)); });
}

int janus_op_budget_check(void) {
  return guarded([]() -> Result<void> {
    if (current_budget().ops == 0) tick(1);
    return check_cancelled();
  });
}

int janus_op_budget_decrement(uint32_t cost) {
  return guarded([cost]() -> Result<void> {
    tick(cost);
    return {};
  });
}

int janus_op_yield(void) { return janus_scheduler_yield(); }

int janus_op_task_create(void* func, void* arg, const JanusBudget* budget, JanusTask* task) {
  if (task != nullptr) *task = 0;
  return guarded([&]() -> Result<void> {
    if (task == nullptr) return invalid("task is null");
    ROTA_TRY_ASSIGN(auto started, start_here(func, arg, budget));
    return hand_out(std::move(started), task);
  });
}

int janus_op_task_join(JanusTask task, void** result) { return janus_task_join(task, result, nullptr); }

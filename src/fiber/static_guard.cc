// Static variables whose initialisation a task was abandoned in (overflow.cc, instrument.cc), or waits in.
//
// The C++ runtime marks a static variable as being initialised, and blocks the thread of everybody else who wants it. A
// task that is abandoned in the initialiser would leave the mark for ever. Therefore whoever links the runtime wraps
// the three functions of the C++ ABI that do this (src/fiber/CMakeLists.txt): the variables that a task is initialising
// are remembered, and released when the task is abandoned, so that the next one initialises them. A task that wants a
// variable which another task is initialising yields until that is over, instead of blocking its thread worker.
//
// Bounds: kMost variables at a time are remembered; beyond that they are as without this file.
#include <array>
#include <cstdint>
#include <mutex>

#include "fiber/meter_core.h"
#include "fiber/runtime_core.h"

extern "C" {
// Null if the program is linked without the wrapping.
int __real___cxa_guard_acquire(std::uint64_t* guard) __attribute__((weak));
void __real___cxa_guard_release(std::uint64_t* guard) noexcept __attribute__((weak));
void __real___cxa_guard_abort(std::uint64_t* guard) noexcept __attribute__((weak));
int __wrap___cxa_guard_acquire(std::uint64_t* guard);
void __wrap___cxa_guard_release(std::uint64_t* guard) noexcept;
void __wrap___cxa_guard_abort(std::uint64_t* guard) noexcept;
}

namespace rota::fiber::detail {

namespace {

struct Initialising {
  std::uint64_t* guard;
  const TaskRecord* task;
};

constexpr std::size_t kMost = 1024;
// No object here needs an initialiser of its own.
constinit SpinLock g_lock;
constinit std::array<Initialising, kMost> g_table{};
constinit std::size_t g_count = 0;
constinit sync::Atomic<std::size_t> g_any{0};  // As g_count; read without the lock.

const TaskRecord* current_task() {
  const ThreadWorker* worker = current_worker();
  return worker == nullptr ? nullptr : worker->fiber->task;
}

// The task that is initialising the variable, or null.
const TaskRecord* holder_of(const std::uint64_t* guard) {
  const std::lock_guard lock(g_lock);
  for (std::size_t i = 0; i < g_count; ++i) {
    if (g_table[i].guard == guard) return g_table[i].task;
  }
  return nullptr;
}

void remember(std::uint64_t* guard, const TaskRecord* task) {
  const std::lock_guard lock(g_lock);
  if (g_count == kMost) return;
  g_table[g_count++] = {guard, task};
  g_any.store(g_count, std::memory_order_relaxed);
}

void forget(const std::uint64_t* guard) {
  const std::lock_guard lock(g_lock);
  for (std::size_t i = 0; i < g_count; ++i) {
    if (g_table[i].guard != guard) continue;
    g_table[i] = g_table[--g_count];
    break;
  }
  g_any.store(g_count, std::memory_order_relaxed);
}

// A variable that the task is initialising, removed from the table; or null.
std::uint64_t* take_one_of(const TaskRecord* task) {
  const std::lock_guard lock(g_lock);
  for (std::size_t i = 0; i < g_count; ++i) {
    if (g_table[i].task != task) continue;
    std::uint64_t* guard = g_table[i].guard;
    g_table[i] = g_table[--g_count];
    g_any.store(g_count, std::memory_order_relaxed);
    return guard;
  }
  return nullptr;
}

}  // namespace

void release_static_guards(const TaskRecord* task) {
  if (g_any.load(std::memory_order_relaxed) == 0) return;
  while (std::uint64_t* guard = take_one_of(task)) __real___cxa_guard_abort(guard);
}

}  // namespace rota::fiber::detail

using namespace rota::fiber::detail;

int __wrap___cxa_guard_acquire(std::uint64_t* guard) {
  const TaskRecord* task = current_task();
  if (task == nullptr) return __real___cxa_guard_acquire(guard);
  if (g_any.load(std::memory_order_relaxed) != 0) {
    // The same task: a recursive initialisation, which the C++ runtime reports.
    for (const TaskRecord* holder = holder_of(guard); holder != nullptr && holder != task && may_look_up(task);
         holder = holder_of(guard)) {
      yield_anywhere();
    }
  }
  const int mine = __real___cxa_guard_acquire(guard);
  if (mine != 0) remember(guard, task);
  return mine;
}

void __wrap___cxa_guard_release(std::uint64_t* guard) noexcept {
  if (g_any.load(std::memory_order_relaxed) != 0) forget(guard);
  __real___cxa_guard_release(guard);
}

void __wrap___cxa_guard_abort(std::uint64_t* guard) noexcept {
  if (g_any.load(std::memory_order_relaxed) != 0) forget(guard);
  __real___cxa_guard_abort(guard);
}

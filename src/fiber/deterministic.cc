// Deterministic mode: one thread acts as all thread workers, one step at a time, in an order drawn from the seed (F-28,
// F-29).
//
// In a step a virtual thread worker, drawn at random, does what a thread worker does next: its own deque, the shared
// queues, a steal, by the configured strategy. Time is virtual: it stands still while anything can run, and jumps to
// the next timer when nothing can. A task that polls (check_cancelled(), tick(), yield(), a spawn, a scope) would then
// never see its deadline; therefore polling takes time: after kFreePolls poll points without a jump, each further one
// moves the clock by kPollNs and fires what is due, on the polling task's stack. If there is no timer either, and
// nobody waits for a descriptor, nothing can ever run again: all waits are reported, then cancelled, and run() throws.
// Descriptors are polled when nothing can run, and at every 64th step.
#include <algorithm>
#include <mutex>
#include <sstream>
#include <vector>

#include "fiber/reactor.h"
#include "fiber/runtime_core.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"

namespace rota::fiber::detail {

namespace {

constexpr std::uint64_t kFreePolls = 16'384;
constexpr Nanoseconds kPollNs = 1'000;

bool awaited_is_done(const RuntimeCore& runtime) {
  if (runtime.await != nullptr) return is_terminal_now(runtime.await);
  return runtime.root.remote.load(std::memory_order_relaxed) == NurseryCore::kClosing;  // shutdown()
}

void become(RuntimeCore& runtime, ThreadWorker* from, std::uint32_t index) {
  ThreadWorker* worker = runtime.workers[index].get();
  worker->fiber = from->fiber;
  rota_fiber_worker = worker;
}

// There is no memory for the deque to grow: keeps the rest of the list for later. Returns its first fiber.
Fiber* put_back(RuntimeCore& runtime, Fiber* first) {
  if (Fiber* rest = first->next; rest != nullptr) {
    Fiber* last = rest;
    while (last->next != nullptr) last = last->next;
    Fiber* head = runtime.injected.load(std::memory_order_relaxed);
    do {
      last->next = head;
      // Release, partner: the acquire of step().
    } while (!runtime.injected.compare_exchange_weak(head, rest, std::memory_order_release));
  }
  return first;
}

// A seeded random choice tries all others, because a virtual thread worker does not come back on its own.
Item steal(RuntimeCore& runtime, ThreadWorker* worker) {
  if (!runtime.config.enable_stealing || runtime.worker_count == 1) return 0;
  if (!runtime.steals[worker->index].load(std::memory_order_seq_cst)) return 0;
  const bool random = runtime.config.victims == VictimStrategy::kRandom;
  const auto first = random ? static_cast<std::uint32_t>(runtime.order.below(runtime.worker_count)) : 0;
  const std::uint32_t attempts = random ? runtime.worker_count : std::min(runtime.worker_count - 1, 4U);
  for (std::uint32_t i = 0; i < attempts; ++i) {
    const std::uint32_t victim = random ? (first + i) % runtime.worker_count : pick_victim(worker);
    if (victim == worker->index) continue;
    const Item item = runtime.workers[victim]->deque.take_top<true>();
    if (item == 0) {
      if (!random) worker->counters.failed_steals.add(1);  // As pick_victim() expects.
      continue;
    }
    worker->counters.steals.add(1);
    note_event(worker, TaskEvent::kSteal, is_fiber(item) ? fiber_of(item)->task->id : record_of(item)->id);
    return item;
  }
  return 0;
}

// What virtual thread worker `index` would run next, or 0. Low priorities come when no thread worker has anything else.
Item step(RuntimeCore& runtime, ThreadWorker* worker) {
  if (Item item = worker->handoff; item != 0) {
    worker->handoff = 0;
    return item;
  }
  const bool prioritised = runtime.priorities.alive.load(std::memory_order_relaxed) != 0;
  const bool fair = prioritised && runtime.order.below(64) == 0;
  if (prioritised) {
    if (Item item = fair ? take_prioritized(worker, Priority::kLow) : 0; item != 0) return item;
    if (Item item = fair ? 0 : take_prioritized(worker, Priority::kHigh); item != 0) return item;
  }
  // Usually the newest, sometimes the oldest: both orders occur in a real run.
  Item item = runtime.order.below(4) == 0 ? worker->deque.take_top<true>() : worker->deque.pop();
  if (item != 0) return item;
  if (Fiber* injected = runtime.injected.exchange(nullptr, std::memory_order_acquire); injected != nullptr) {
    while (injected->next != nullptr) {
      Fiber* next = injected->next;
      if (!worker->deque.push(item_of(injected))) return item_of(put_back(runtime, injected));
      injected = next;
    }
    return item_of(injected);
  }
  {
    sync::MutexLock lock(runtime.global_mutex);
    if (!runtime.global.empty()) {
      TaskRecord* record = runtime.global.front();
      runtime.global.pop_front();
      runtime.global_count.store(runtime.global.size(), std::memory_order_relaxed);
      return item_of(record);
    }
  }
  if (item = steal(runtime, worker); item != 0) return item;
  return 0;
}

// What the tasks of one nursery wait for.
void report_one(std::ostringstream& out, const NurseryCore* core, const NurseryExtras* extras) {
  for (const Entry& entry : extras->registry) {
    const Fiber* fiber = entry.fiber;
    if (fiber->task != entry.task) continue;  // Below another task on the same stack, which is reported.
    out << "\n  task " << entry.task->id << " waits for " << (fiber->waits_for == nullptr ? "?" : fiber->waits_for);
  }
  if (core->owner != nullptr && core->owner->claim.load() == kWaitingFirm && core->owner->scope == core) {
    out << "\n  task " << (core->owner_task == nullptr ? 0 : core->owner_task->id) << " waits for "
        << core->owner->waits_for;
  }
}

// Walks the tree of nurseries in the order of a recursive walk, without recursion, because the depth is up to the user.
void report_waits(std::ostringstream& out, NurseryCore* root) {
  std::vector<NurseryCore*> pending{root};
  while (!pending.empty()) {
    NurseryCore* core = pending.back();
    pending.pop_back();
    NurseryExtras* extras = peek_extras(core);
    if (extras == nullptr) continue;
    report_one(out, core, extras);
    const auto first = static_cast<std::ptrdiff_t>(pending.size());
    for (NurseryCore* nested = extras->first_nested; nested != nullptr;
         nested = nested->extras.load(std::memory_order_relaxed)->next_nested) {
      pending.push_back(nested);
    }
    std::reverse(pending.begin() + first, pending.end());
  }
}

}  // namespace

void poll_point(ThreadWorker* worker, std::uint32_t count) {
  RuntimeCore& runtime = *worker->runtime;
  runtime.polls += count;
  if (runtime.polls <= kFreePolls) return;
  runtime.virtual_now += kPollNs * static_cast<Nanoseconds>(std::min<std::uint64_t>(count, runtime.polls - kFreePolls));
  if (runtime.timers.next() > runtime.virtual_now) return;
  note_event(worker, TaskEvent::kTimer, 0);
  runtime.timers.fire_due(runtime.virtual_now);
}

Item next_deterministic(ThreadWorker* worker) {
  RuntimeCore& runtime = *worker->runtime;
  for (;;) {
    if (runtime.fault != nullptr) runtime.fault(worker, FaultPoint::kSearch);
    if (awaited_is_done(runtime)) {
      become(runtime, worker, 0);
      return 0;
    }
    Reactor& reactor = *runtime.reactor;
    if ((++runtime.workers[0]->tick & 63) == 0 && reactor.active()) reactor.poll(0);
    const auto first = static_cast<std::uint32_t>(runtime.order.below(runtime.worker_count));
    for (std::uint32_t i = 0; i < runtime.worker_count; ++i) {
      const std::uint32_t index = (first + i) % runtime.worker_count;
      become(runtime, worker, index);
      worker = runtime.workers[index].get();
      if (const Item item = step(runtime, worker); item != 0) return item;
    }
    if (const Item item = take_prioritized(worker, Priority::kLow); item != 0) return item;
    if (reactor.active() && reactor.poll(0) > 0) continue;
    if (const Nanoseconds next = runtime.timers.next(); next != kNever) {
      runtime.virtual_now = std::max(runtime.virtual_now, next);
      if (runtime.stacks.cached() > 0) (void)runtime.stacks.trim_idle(runtime.virtual_now);
      runtime.polls = 0;
      note_event(worker, TaskEvent::kTimer, 0);
      runtime.timers.fire_due(runtime.virtual_now);
      continue;
    }
    if (reactor.active()) {
      // Only the outside can cause progress: a descriptor, or a thread that wakes a task.
      constexpr Nanoseconds kLookNs = 10'000'000;
      while (reactor.poll(kLookNs) == 0 && runtime.injected.load(std::memory_order_acquire) == nullptr) {
      }
      continue;
    }
    ROTA_ASSERT(runtime.deadlock.empty(), "a deadlock that cancellation does not end: ", runtime.deadlock);
    std::ostringstream out;
    out << "deadlock: no task can ever run again";
    report_waits(out, &runtime.root);
    runtime.deadlock = out.str();
    cancel_nursery(&runtime.root, CancelReason::kExplicit);
  }
}

}  // namespace rota::fiber::detail

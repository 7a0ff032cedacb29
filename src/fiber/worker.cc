// The loop of a thread worker, and parking and waking fibers.
//
// The loop runs on a pooled stack, not on the thread's own: it calls tasks directly, and when one blocks, that stack is
// parked with the task on it and the thread worker continues in the loop of a spare stack. To resume a parked fiber the
// loop puts its own stack on the spare list and switches.
#include <sched.h>

#include <algorithm>

#include "fiber/reactor.h"
#include "fiber/return_point.h"
#include "fiber/runtime_core.h"
#include "rota/assert.h"
#include "rota/fiber/task.h"
#include "rota/fiber/time.h"

#if ROTA_ASAN
#include <sanitizer/asan_interface.h>
#endif

thread_local constinit rota::fiber::detail::ThreadWorker* rota_fiber_worker = nullptr;

extern "C" [[gnu::noinline]] rota::fiber::detail::ThreadWorker* rota_fiber_worker_slow() noexcept {
  asm volatile("");  // Not pure: the result differs after a switch.
  return rota_fiber_worker;
}

namespace rota::fiber::detail {

namespace {

constexpr std::uint32_t kFairness = 63;    // Every 64th step checks the old and the shared work first.
constexpr std::uint32_t kMaxSpare = 64;    // Spare stacks per thread worker; beyond that half return to the pool.
constexpr std::uint32_t kStackBatch = 16;  // Stacks taken from the pool at a time.
constexpr Nanoseconds kSearchNs = 50'000;  // About the cost of a wake-up: search that long before sleeping.
constexpr std::uint32_t kPollEvery = 16;   // In search rounds.
// The intervals between two searches double from the first to the last of these. Up to kSearchNs in total the thread
// worker spins between them; then it takes its seat for the rest of the interval, where a push can wake it.
constexpr Nanoseconds kFirstBackoffNs = 1'000;
constexpr Nanoseconds kFirstNapNs = 64'000;
constexpr Nanoseconds kLastBackoffNs = 1'000'000;

std::uint64_t draw(ThreadWorker* worker, std::uint64_t bound) {
  // xoshiro256**, inlined; the bias of the multiplication is below 2^-32 for the bounds used here.
  auto& s = worker->random;
  const std::uint64_t result = ((s[1] * 5) << 7 | (s[1] * 5) >> 57) * 9;
  const std::uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = s[3] << 45 | s[3] >> 19;
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(result) * bound) >> 64);
}

// A shared queue has got an item, or still has some: any sleeper may take it.
void wake_for_shared(RuntimeCore* runtime) {
  const std::uint64_t idle = runtime->lot.word().load(std::memory_order_seq_cst);
  if (ParkingLot::sleepers(idle) > 0 && ParkingLot::searchers(idle) == 0) runtime->wake_one();
}

void inject(RuntimeCore* runtime, Fiber* fiber) {
  Fiber* head = runtime->injected.load(std::memory_order_relaxed);
  do {
    fiber->next = head;
    // Release, partner: take_injected()'s acquire.
  } while (!runtime->injected.compare_exchange_weak(head, fiber, std::memory_order_seq_cst));
}

// A woken fiber is never lost: without memory for the deque to grow, it goes to the inject list, which needs none.
[[gnu::always_inline]] inline void push_or_inject(ThreadWorker* worker, Fiber* fiber) {
  if (!worker->deque.push(item_of(fiber))) [[unlikely]]
    inject(worker->runtime, fiber);
}

// Fiber::home without and with the priority of its task.
Priority priority_of(const Fiber* fiber) {
  return static_cast<Priority>(reinterpret_cast<std::uintptr_t>(fiber->home) & 3U);
}
RuntimeCore* runtime_of(const Fiber* fiber) {
  return reinterpret_cast<RuntimeCore*>(reinterpret_cast<std::uintptr_t>(fiber->home) & ~std::uintptr_t{3});
}

// To the shared queue of its priority.
void share(RuntimeCore* runtime, Fiber* fiber) {
  const Priority priority = priority_of(fiber);
  if (priority == Priority::kNormal) return inject(runtime, fiber);
  try {
    runtime->priorities.push(item_of(fiber), priority);
  } catch (const std::bad_alloc&) {
    inject(runtime, fiber);
  }
}
void enqueue(ThreadWorker* worker, Fiber* fiber) {
  if (priority_of(fiber) == Priority::kNormal) return push_or_inject(worker, fiber);
  share(worker->runtime, fiber);
}

// Whether there are prioritised tasks. A thread worker that spawns or takes one knows at once, others after 64 steps.
void note_priorities(ThreadWorker* worker) {
  const bool any = worker->runtime->priorities.alive.load(std::memory_order_relaxed) != 0;
  worker->hooks = static_cast<std::uint8_t>(any ? worker->hooks | kHookPriority : worker->hooks & ~kHookPriority);
}

// Moves all injected fibers to the deque of this thread worker, the oldest deepest, and returns one of them.
Item take_injected(ThreadWorker* worker) {
  RuntimeCore* runtime = worker->runtime;
  if (runtime->injected.load(std::memory_order_relaxed) == nullptr) return 0;
  // Acquire, partner: schedule()'s release.
  Fiber* list = runtime->injected.exchange(nullptr, std::memory_order_acquire);
  if (list == nullptr) return 0;
  // The list is newest first; pushed in that order, the oldest is at the bottom end of the deque and runs first.
  while (list->next != nullptr) {
    Fiber* fiber = list;
    list = list->next;
    push_or_inject(worker, fiber);
  }
  if (worker->deque.size_hint() > 0) notify_work(worker);
  return item_of(list);
}

Item take_global(ThreadWorker* worker) {
  RuntimeCore* runtime = worker->runtime;
  if (runtime->global_count.load(std::memory_order_relaxed) == 0) return 0;
  TaskRecord* record = nullptr;
  bool more = false;
  {
    sync::MutexLock lock(runtime->global_mutex);
    if (runtime->global.empty()) return 0;
    record = runtime->global.front();
    runtime->global.pop_front();
    more = !runtime->global.empty();
    runtime->global_count.store(runtime->global.size(), std::memory_order_relaxed);
    runtime->global_space.notify_one();
  }
  if (more) wake_for_shared(runtime);
  return item_of(record);
}

Item take_shared(ThreadWorker* worker) {
  if (Item item = take_prioritized(worker, Priority::kHigh); item != 0) return item;
  if (Item item = take_injected(worker); item != 0) return item;
  return take_global(worker);
}

void note_steal(ThreadWorker* worker, Item item) {
  worker->counters.steals.add(1);
  if (worker->hooks != 0) {
    event(worker, TaskEvent::kSteal, is_fiber(item) ? fiber_of(item)->task->id : record_of(item)->id);
  }
}

bool may_steal(const ThreadWorker* worker) {
  const RuntimeCore* runtime = worker->runtime;
  return runtime->config.enable_stealing && runtime->steals[worker->index].load(std::memory_order_seq_cst);
}

// An item was stolen from `victim`, which has more: takes as many of these as the batch allows. Nobody needs to be told
// of them: the thread worker counts as a searcher, and the last one to find something wakes another (search()).
void steal_more(ThreadWorker* worker, Deque<Item>& victim) {
  StealBatch& batch = worker->batch;
  batch.begin(worker->runtime->now());
  // The own deque is empty, so a batch that fits into it needs no memory, and is taken by every push.
  while (batch.wants_more(worker->deque.capacity())) {
    const Item item = victim.steal().item;
    if (item == 0) break;
    note_steal(worker, item);
    const bool kept = worker->deque.push(item);
    ROTA_ASSERT(kept, "there is room in an empty deque");
    batch.took_another();
  }
}

// `insist`: takes also what its owner has not published.
Item try_steal(ThreadWorker* worker, bool insist) {
  RuntimeCore* runtime = worker->runtime;
  if (worker->solo || !may_steal(worker)) return 0;
  const std::uint32_t attempts = std::min(runtime->worker_count - 1, 4U);
  for (std::uint32_t attempt = 0; attempt < attempts; ++attempt) {
    const std::uint32_t victim = pick_victim(worker);
    Deque<Item>& deque = runtime->workers[victim]->deque;
    auto stolen = deque.steal();
    if (insist && stolen.item == 0 && deque.expose()) stolen = deque.steal();
    if (stolen.item != 0) {
      note_steal(worker, stolen.item);
      if (stolen.more) steal_more(worker, deque);
      return stolen.item;
    }
    worker->counters.failed_steals.add(1);
  }
  return 0;
}

bool anything_shared(const RuntimeCore* runtime) {
  return runtime->stopping.load(std::memory_order_seq_cst) ||
         runtime->injected.load(std::memory_order_seq_cst) != nullptr ||
         runtime->global_count.load(std::memory_order_seq_cst) != 0 || runtime->priorities.any();
}
bool anything_to_steal(const RuntimeCore* runtime) {
  return std::any_of(runtime->workers.begin(), runtime->workers.end(),
                     [](const auto& worker) { return worker->deque.size_hint() > 0; });
}
// True if there is anything that this thread worker may take.
bool anything_anywhere(const ThreadWorker* worker) {
  const RuntimeCore* runtime = worker->runtime;
  return anything_shared(runtime) || worker->deque.size_hint() > 0 || (may_steal(worker) && anything_to_steal(runtime));
}

void maybe_fault(ThreadWorker* worker, FaultPoint point) {
  if (worker->runtime->fault != nullptr) [[unlikely]]
    worker->runtime->fault(worker, point);
}

// Sleeps until chosen, or until a timer or descriptor is ready, or for `nap`. On return the thread worker searches
// again. False: it only took a nap.
bool sleep_until_chosen(ThreadWorker* worker, Nanoseconds nap) {
  RuntimeCore* runtime = worker->runtime;
  ParkingLot& lot = runtime->lot;
  std::int64_t nobody = -1;
  const bool something_to_poll = runtime->timers.next() != kNever || runtime->reactor->active();
  if (something_to_poll && runtime->poller.compare_exchange_strong(nobody, worker->index)) {
    bool timed = false;
    worker->idle = kPolling;
    maybe_fault(worker, FaultPoint::kPoll);
    while (!lot.chosen(worker->index)) {
      const Nanoseconds next = runtime->timers.next();
      const Nanoseconds now = runtime->now();
      timed = next <= now;
      if (timed) break;
      if (runtime->reactor->poll(next == kNever ? kNever : next - now) > 0) break;
      if (runtime->stopping.load(std::memory_order_relaxed)) break;
    }
    stop_polling(runtime);
    if (lot.leave(worker->index)) lot.begin_search();
    worker->idle = kSearching;
    if (timed) runtime->timers.fire_due(runtime->now());
    // Another thread worker must watch the clock and the descriptors while this one works.
    if (runtime->timers.next() != kNever || runtime->reactor->active()) {
      if (ParkingLot::sleepers(lot.word().load()) > 0) runtime->wake_one(true);
    }
    return true;
  }
  bool chosen = true;
  if (nap == kNever) {
    lot.sleep(worker->index);
  } else if (!lot.sleep_for(worker->index, std::chrono::nanoseconds(nap)) && lot.leave(worker->index)) {
    lot.begin_search();
    chosen = false;
  }
  worker->idle = kSearching;
  return chosen;
}

// One search of everything that this thread worker may take. `insist`: including what others keep to themselves.
Item look(ThreadWorker* worker, bool events, bool insist) {
  if (Item item = take_shared(worker); item != 0) return item;
  if (Item item = try_steal(worker, insist); item != 0) return item;
  if (events && poll_events(worker->runtime)) {
    if (Item item = pop_item(worker); item != 0) return item;
  }
  return take_prioritized(worker, Priority::kLow);
}

// Searches in growing intervals, for kSearchNs at most.
Item spin_for_work(ThreadWorker* worker) {
  RuntimeCore* runtime = worker->runtime;
  const std::uint32_t spins = runtime->config.spin_count;
  const Nanoseconds start = runtime->now();
  Nanoseconds backoff = kFirstBackoffNs;
  for (std::uint32_t round = 0;; ++round) {
    // Polling the descriptors is a system call; checking the queues is free.
    if (Item item = look(worker, round % kPollEvery == 0 || round >= spins, round >= spins); item != 0) return item;
    if (runtime->stopping.load(std::memory_order_relaxed)) return 0;
    if (round < spins) {
      sync::cpu_pause();
      continue;
    }
    const Nanoseconds now = runtime->now();
    if (spins == 0 || runtime->crowded || now - start > kSearchNs) return 0;
    // Between the rounds only checks whether there is anything at all.
    const Nanoseconds until = std::min(now + backoff, start + kSearchNs);
    while (runtime->now() < until && !anything_anywhere(worker)) sync::cpu_pause();
    backoff *= 2;
  }
}

// The thread worker has run what it stole last. If these were short tasks, it rests, unless there is other work.
void rest_after_steal(ThreadWorker* worker) {
  if (!worker->batch.begun()) return;
  const RuntimeCore* runtime = worker->runtime;
  const Nanoseconds until = worker->batch.end(runtime->now());
  while (runtime->now() < until && !anything_shared(runtime)) {
    if (runtime->crowded) {
      sched_yield();
    } else {
      for (int i = 0; i < 16; ++i) sync::cpu_pause();
    }
  }
}

// Searches for work in growing intervals, then sleeps. 0 only when the runtime stops.
Item search(ThreadWorker* worker) {
  RuntimeCore* runtime = worker->runtime;
  ParkingLot& lot = runtime->lot;
  lot.begin_search();
  worker->idle = kSearching;
  rest_after_steal(worker);
  const auto found = [&](Item item) {
    worker->idle = kBusy;
    worker->handoff = item;  // Stored, so that it is not lost.
    if (lot.end_search()) runtime->wake_one();
    maybe_fault(worker, FaultPoint::kInHand);
    worker->handoff = 0;
    return item;
  };
  const Nanoseconds first_nap = runtime->config.spin_count == 0 ? kNever : kFirstNapNs;
  Nanoseconds nap = first_nap;
  bool spins = true;
  for (;;) {
    maybe_fault(worker, FaultPoint::kSearch);
    note_priorities(worker);
    if (Item item = spins ? spin_for_work(worker) : look(worker, true, true); item != 0) return found(item);
    if (runtime->stopping.load(std::memory_order_relaxed)) return found(0);
    lot.begin_sleep(worker->index);
    worker->idle = kSeated;
    maybe_fault(worker, FaultPoint::kSeat);
    if (anything_anywhere(worker) || runtime->timers.next() <= runtime->now()) {
      if (lot.leave(worker->index)) lot.begin_search();
      worker->idle = kSearching;
      spins = true;
      continue;
    }
    // Pushes made while it searched relied on it, although it may not steal what was pushed.
    if (!may_steal(worker) && anything_to_steal(runtime)) runtime->wake_thief();
    const Nanoseconds asleep = runtime->now();
    spins = sleep_until_chosen(worker, nap);
    nap = spins ? first_nap : nap >= kLastBackoffNs ? kNever : std::min(nap * 2, kLastBackoffNs);
    worker->counters.parks.add(1);
    worker->counters.park_ns.add(static_cast<std::uint64_t>(runtime->now() - asleep));
    // Fibers that a timer or a descriptor woke are in this thread worker's own deque.
    if (Item item = pop_item(worker); item != 0) return found(item);
  }
}

Item find_work(ThreadWorker* worker) {
  if (Item item = worker->handoff; item != 0) {
    worker->handoff = 0;
    return item;
  }
  if ((++worker->tick & kFairness) == 0) [[unlikely]] {
    poll_events(worker->runtime);
    if (worker->runtime->stacks.has_canaries()) worker->hooks |= kHookCanary;
    note_priorities(worker);
    if (Item item = take_prioritized(worker, Priority::kLow); item != 0) return item;
    if (Item item = take_shared(worker); item != 0) return item;
    Item item = worker->solo ? worker->deque.take_top<true>() : worker->deque.take_top<false>();
    if (item != 0) return item;
  }
  if ((worker->hooks & kHookPriority) != 0) [[unlikely]] {
    if (Item item = take_prioritized(worker, Priority::kHigh); item != 0) return item;
  }
  if (Item item = pop_item(worker); item != 0) return item;
  if (Item item = take_shared(worker); item != 0) return item;
  return search(worker);
}

void push_back(ThreadWorker* worker, void* fiber) {
  enqueue(worker, static_cast<Fiber*>(fiber));
  notify_work(worker);
}

// What runs while `self`, which yields, is in the queue; 0 if there is nothing that should.
Item next_after_yield(ThreadWorker* worker, const Fiber* self) {
  poll_events(worker->runtime);
  if ((worker->hooks & kHookPriority) != 0) ++worker->tick;  // yield() counts only without hooks.
  note_priorities(worker);
  const bool fair = (worker->tick & kFairness) == 0;  // Everything has its turn, the low ones first.
  const Priority own = priority_of(self);
  if (fair || (worker->hooks & kHookPriority) != 0) {
    if (Item item = fair ? take_prioritized(worker, Priority::kLow) : 0; item != 0) return item;
    if (Item item = take_prioritized(worker, Priority::kHigh); item != 0) return item;
    if (own == Priority::kHigh && !fair) return 0;
  }
  if (Item item = take_shared(worker); item != 0) return item;
  if (Item item = worker->solo ? worker->deque.take_top<true>() : worker->deque.take_top<false>(); item != 0)
    return item;
  return own == Priority::kLow ? take_prioritized(worker, Priority::kLow) : 0;
}

void prepare(Fiber* fiber) {
#if ROTA_ASAN
  __asan_unpoison_memory_region(fiber->low, fiber->bytes);
#endif
  fiber->task = nullptr;
  fiber->scope = nullptr;
  fiber->claim.store(kRunning, std::memory_order_relaxed);
  fiber->sp = prepare_stack(fiber, fiber_main);
}

struct ParkArguments {
  Fiber* fiber;
  Publish publish;
  void* argument;
};

// Runs on the next stack: makes the wait visible, then resumable.
void commit_park(ThreadWorker* worker, void* arguments) {
  const ParkArguments park = *static_cast<ParkArguments*>(arguments);
  const bool waits = park.publish(worker, park.argument);
  // Until the claim leaves Parking nobody resumes the fiber, so this thread worker may still access it.
  WakeReason reason{};
  if (commit_wait(park.fiber->claim, waits, reason)) return;
  park.fiber->reason = reason;
  schedule(park.fiber);
}

}  // namespace

bool poll_events(RuntimeCore* runtime) {
  bool any = false;
  if (runtime->timers.next() != kNever) any = runtime->timers.fire_due(runtime->now()) > 0;
  if (runtime->reactor->active()) any = runtime->reactor->poll(0) > 0 || any;
  return any;
}

void stop_polling(RuntimeCore* runtime) {
  runtime->poller.store(-1);  // seq_cst, partner: add_timer(); timekeeper.h.
  if (const Nanoseconds next = runtime->timers.next(); next != kNever) runtime->timekeeper.watch(next);
}

Item take_prioritized(ThreadWorker* worker, Priority priority) {
  RuntimeCore* runtime = worker->runtime;
  const Item item = runtime->priorities.take(priority);
  if (item == 0) return 0;
  worker->hooks |= kHookPriority;
  if (!is_fiber(item) && record_of(item)->id >> 48 == 0xffff) {
    sync::MutexLock lock(runtime->global_mutex);
    --runtime->outside_prioritized;
    runtime->global_space.notify_one();
  }
  if (runtime->priorities.any() && !runtime->deterministic) wake_for_shared(runtime);
  return item;
}

void queue_prioritized(ThreadWorker* worker, TaskRecord* record) {
  try {
    worker->runtime->priorities.push(item_of(record), priority_of(record));
  } catch (const std::bad_alloc&) {  // It becomes an ordinary task.
    worker->runtime->priorities.alive.fetch_sub(1, std::memory_order_relaxed);
    record->id &= ~(std::uint64_t{3} << TaskRecord::kPriorityShift);
    while (!current_worker()->deque.push(item_of(record))) yield();
  }
  notify_work(current_worker());
}

std::uint32_t pick_victim(ThreadWorker* worker) {
  RuntimeCore* runtime = worker->runtime;
  const std::uint32_t n = runtime->worker_count;
  switch (runtime->config.victims) {
    case VictimStrategy::kRandom:
      break;
    case VictimStrategy::kRoundRobin: {
      // Every attempt counts as one of the two, so their sum goes round all others.
      const std::uint64_t attempts = worker->counters.steals.get() + worker->counters.failed_steals.get();
      return (worker->index + 1 + static_cast<std::uint32_t>(attempts % (n - 1))) % n;
    }
    case VictimStrategy::kMostLoaded: {
      std::uint32_t best = (worker->index + 1) % n;
      std::size_t most = 0;
      for (std::uint32_t i = 0; i < n; ++i) {
        const std::size_t size = i == worker->index ? 0 : runtime->workers[i]->deque.size_hint();
        if (size > most) {
          most = size;
          best = i;
        }
      }
      return best;
    }
  }
  const auto other = static_cast<std::uint32_t>(draw_fairly(worker, n - 1));
  return other >= worker->index ? other + 1 : other;
}

std::uint64_t draw_fairly(ThreadWorker* worker, std::uint64_t bound) {
  RuntimeCore* runtime = worker->runtime;
  return runtime->deterministic ? runtime->order.below(bound) : draw(worker, bound);
}

void SpinLock::lock_slow() {
  for (ShortWait pause;; pause.round()) {
    if (word_.load(std::memory_order_relaxed) == 0 && word_.exchange(1, std::memory_order_acquire) == 0) return;
  }
}

void wake_sleeper(ThreadWorker* worker) {
  RuntimeCore* runtime = worker->runtime;
  if ((worker->hooks & kHookFence) != 0) {
    sync::fence(std::memory_order_seq_cst);
    const std::uint64_t idle = runtime->lot.word().load(std::memory_order_relaxed);
    if (ParkingLot::sleepers(idle) == 0 || ParkingLot::searchers(idle) != 0) return;
  }
  if (!worker->solo) worker->deque.publish();  // So that the thread worker that is woken need not ask.
  if (runtime->priorities.any()) {
    runtime->wake_one();
  } else {
    runtime->wake_thief();
  }
}

void keep_spare(ThreadWorker* worker, Fiber* fiber) {
  fiber->next = worker->spare;
  worker->spare = fiber;
  if (++worker->spare_count <= kMaxSpare) [[likely]]
    return;
  // The one just added is still running; those after it are returned.
  Fiber* first = fiber->next;
  Fiber* last = first;
  for (std::uint32_t i = 1; i < kMaxSpare / 2; ++i) last = last->next;
  fiber->next = last->next;
  worker->spare_count -= kMaxSpare / 2;
  worker->runtime->stacks.give_some(first, last, kMaxSpare / 2);
  worker->runtime->trim_later();
}

// Takes stacks from the pool. False if the system has no memory for one.
bool refill_spare(ThreadWorker* worker) {
  RuntimeCore* runtime = worker->runtime;
  std::uint32_t taken = 0;
  Fiber* list = runtime->stacks.take_some(kStackBatch, &taken);
  if (list == nullptr) return false;
  if (runtime->stacks.has_canaries()) worker->hooks |= kHookCanary;
  for (Fiber* fiber = list; fiber != nullptr; fiber = fiber->next) {
    fiber->home = runtime;
    prepare(fiber);
  }
  if (Fiber*& emergency = runtime->emergency_stacks[worker->index]; emergency == nullptr && taken > 1) {
    emergency = list;
    list = list->next;
    --taken;
  }
  Fiber* last = list;
  while (last->next != nullptr) last = last->next;
  last->next = worker->spare;
  worker->spare = list;
  worker->spare_count += taken;
  return true;
}

void ensure_parkable(ThreadWorker* worker) {
  Fiber* fiber = worker->fiber;
  if (!fiber->task->has_entry()) register_task(fiber->task, fiber);
  worker = current_worker();  // Registering may run callbacks, which may wait.
  check_canary(worker);
  if (worker->spare == nullptr && !refill_spare(worker)) {
    throw_error(ErrorCode::kResourceExhausted, "there is no memory for another stack, so the task cannot wait");
  }
}

void stack_overflowed(ThreadWorker* worker) {
  worker->runtime->stacks.restore_canary(worker->fiber);
  throw_error(ErrorCode::kStackOverflow, "the task's stack overflowed; raise Config::stack_bytes or recurse less");
}

Fiber* loop_fiber(ThreadWorker* worker) {
  if (Fiber* fiber = worker->spare; fiber != nullptr) {
    worker->spare = fiber->next;
    --worker->spare_count;
    return fiber;
  }
  if (refill_spare(worker)) return loop_fiber(worker);
  // A wait that may fail has been refused before it came here (ensure_parkable()). This is one that may not.
  Fiber* emergency = std::exchange(worker->runtime->emergency_stacks[worker->index], nullptr);
  ROTA_ASSERT(emergency != nullptr, "no memory for another stack; ", worker->runtime->stacks.made(), " exist");
  return emergency;
}

void fiber_main() {
#if ROTA_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  run_after_switch(current_worker());
  release_far_landing(current_worker()->fiber);  // If this stack starts anew after an overflow.
  worker_loop();
}

// Leaves the current stack, which ThreadWorker::after parks or queues, for the next thing to run.
void give_way(ThreadWorker* worker, Fiber* self) {
  // Not when the next step is the one that polls the descriptors and the shared queues: that belongs to the loop.
  if ((worker->hooks & (kHookDeterministic | kHookPriority)) == 0 && worker->handoff == 0 &&
      ((worker->tick + 1) & kFairness) != 0) {
    ++worker->tick;
    if (const Item newest = worker->deque.peek(); is_fiber(newest)) {
      const Item item = pop_item(worker);
      if (is_fiber(item)) {
        switch_fibers(worker, self, fiber_of(item));
        return;
      }
      worker->handoff = item;  // Another item than the one seen, or none.
    }
  }
  switch_fibers(worker, self, loop_fiber(worker));
}

namespace {

// Fetches the part of a queued fiber's stack that it touches first. After a cancellation or an event that wakes many
// tasks, the stacks of all of them are cold, and waiting for one cache line after the other is most of what they cost.
// Only the address is used, because the fiber may be stolen at any time: a blocked task's frames are right below it.
void prefetch_queued(const ThreadWorker* worker) {
  constexpr std::int64_t kAhead = 2;  // Fibers.
  constexpr std::size_t kLines = 10;
  const Item item = worker->deque.peek_below(kAhead);
  if (!is_fiber(item)) return;
  const auto* top = reinterpret_cast<const char*>(fiber_of(item));
  for (std::size_t line = 0; line <= kLines; ++line) __builtin_prefetch(top - line * sync::kCacheLineBytes, 1);
}

[[noreturn]] void run_loop() {
  for (;;) {
    ThreadWorker* worker = current_worker();
    const Item item = worker->runtime->deterministic ? next_deterministic(worker) : find_work(worker);
    worker = current_worker();
    Fiber* self = worker->fiber;
    if (item == 0) [[unlikely]] {
      Fiber* native = worker->runtime->deterministic ? &worker->runtime->workers[0]->native : &worker->native;
      keep_spare(worker, self);
      switch_fibers(worker, self, native);
    } else if (is_fiber(item)) {
      prefetch_queued(worker);
      keep_spare(worker, self);
      switch_fibers(worker, self, fiber_of(item));
    } else {
      run_task(worker, task_of(worker, item));
    }
  }
}

}  // namespace

void worker_loop() {
  for (;;) {
    try {
      run_loop();
    } catch (...) {  // Left at once: an exception that is being handled belongs to its thread.
    }
    worker_panicked();
  }
}

WakeReason park(ThreadWorker* worker, Publish publish, void* argument, bool cancellable, const char* waits_for,
                TaskState state) {
  Fiber* self = worker->fiber;
  TaskRecord* task = self->task;
  self->waits_for = waits_for;
  if (cancellable) {
    if (!can_park(worker)) [[unlikely]] {
      ensure_parkable(worker);
      worker = current_worker();
    }
    begin_wait(self->claim, true);
    if (cancelled_now(worker)) {
      withdraw_wait(self->claim);
      return WakeReason::kCancelled;
    }
  } else {
    begin_wait(self->claim, false);
  }
  set_state(task, state);
  event(worker, TaskEvent::kBlock, task->id);
  ParkArguments arguments{self, publish, argument};
  worker->after = commit_park;
  worker->after_argument = &arguments;
  give_way(worker, self);
  self->claim.store(kRunning, std::memory_order_relaxed);
  set_state(task, TaskState::kRunning);
  event(current_worker(), TaskEvent::kStart, task->id);
  return self->reason;
}

void schedule(Fiber* fiber) {
  set_state(fiber->task, TaskState::kReady);
  ThreadWorker* worker = current_worker();
  if (worker != nullptr && worker->runtime == fiber->home) [[likely]] {
    event(worker, TaskEvent::kWake, fiber->task->id);
    push_or_inject(worker, fiber);
    notify_work(worker);
    return;
  }
  RuntimeCore* runtime = runtime_of(fiber);
  if (worker != nullptr && worker->runtime == runtime) {
    event(worker, TaskEvent::kWake, fiber->task->id);
    worker->hooks |= kHookPriority;
    enqueue(worker, fiber);
    notify_work(worker);
    return;
  }
  outside_event(runtime, TaskEvent::kWake, fiber->task->id);
  // Once the fiber is queued, it may run to its end and the runtime may be shut down and destroyed. This thread counts
  // as a child of the root until it has left the runtime. In deterministic mode such a child would look like a task
  // that can never run; there the thread that wakes must know that the runtime stays.
  const bool counts = !runtime->deterministic;
  if (counts)
    runtime->root.remote.fetch_add(1, std::memory_order_relaxed);  // The fiber's own ancestor is counted, too.
  share(runtime, fiber);
  wake_for_shared(runtime);
  if (counts) child_done(runtime, &runtime->root, nullptr);
}

}  // namespace rota::fiber::detail

namespace rota::fiber {

using namespace detail;

void yield_slow() {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr) {
    sched_yield();
    return;
  }
  check_canary(worker);
  Fiber* self = worker->fiber;
  TaskRecord* task = self->task;
  if (worker->spare == nullptr && !refill_spare(worker)) return;  // No memory for a stack: nothing else can run here.
  if (worker->runtime->deterministic) {
    poll_point(worker);
  } else if (worker->handoff == 0) {
    worker->handoff = next_after_yield(worker, self);
    if (worker->handoff == 0) return;
  }
  set_state(task, TaskState::kReady);
  event(worker, TaskEvent::kBlock, task->id);
  worker->after = push_back;
  worker->after_argument = self;
  if (is_fiber(worker->handoff)) {
    Fiber* next = fiber_of(worker->handoff);
    worker->handoff = 0;
    switch_fibers(worker, self, next);
  } else {
    switch_fibers(worker, self, loop_fiber(worker));
  }
  set_state(task, TaskState::kRunning);
  event(current_worker(), TaskEvent::kStart, task->id);
}

void detail::push_yielded(ThreadWorker* worker, void* fiber) {
  // There is room: yield() has just taken an item out.
  (void)worker->deque.push(item_of(static_cast<Fiber*>(fiber)));
}

}  // namespace rota::fiber

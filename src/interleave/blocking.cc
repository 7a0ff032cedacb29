// Threads, mutexes, conditions and futexes.
//
// A mutex is an atomic word: lock() is a read-modify-write (acquire) that must read 0, unlock() a store (release)
// of 0; so it gives happens-before exactly as the memory model says, and try_lock() may fail on an old value, as the
// standard allows.
//
// A queue of waiters (of a futex word or a condition) orders all operations on it, like the kernel's lock on the
// bucket. It gives no happens-before: the man page promises none, and code that needs it reads an atomic. But a futex
// wait that comes after a wake (or another wait) of that word sees at least the values of the word that those callers
// saw; without that every futex protocol would be broken. Which waiter a wake reaches is a choice of the search.
#include <algorithm>
#include <utility>

#include "interleave/engine.h"

namespace rota::interleave {

// --- threads

int Engine::spawn(ThreadEntry entry, void* argument, Where where) {
  step();
  const int id = start(entry, argument);
  model_.start_thread(id, running_);
  record_event(kNoObject, false, false, -1);
  note_write();
  if (TraceEntry* const line = trace("start thread", kNoObject, where)) {
    line->other = id;
    line->object = "T" + std::to_string(id);
  }
  return id;
}

void Engine::join(int id, Where where) {
  step();
  Thread& me = self();
  me.operation = Operation{};
  me.where = where;
  if (thread(id).status != Status::kFinished) {
    me.joining = id;
    me.status = Status::kJoining;
    dispatch();
  }
  model_.join_thread(running_, id);
  record_event(kNoObject, false, false, -1);
  note_write();
  if (TraceEntry* const line = trace("join", kNoObject, where)) {
    line->other = id;
    line->object = "T" + std::to_string(id);
  }
}

// --- queues of waiters

ObjectId Engine::queue_of(ObjectId object) {
  if (objects_[object].queue == kNoObject) {
    const ObjectId queue = objects_.add_hidden(ObjectKind::kQueue);
    objects_[object].queue = queue;
    objects_[queue].queue = object;
  }
  return objects_[object].queue;
}

// Gives the caller's operation its position in the order of all operations on the queue.
// REQUIRES: committed to the memory model (it has its epoch).
void Engine::queue_operation(ObjectId id) {
  Object& queue = objects_[id];
  queue.accesses.push_back(static_cast<std::uint32_t>(events_.size()));
  ++queue.operations;
  model_.add_cause(running_, queue.cause);
  queue.cause.join(model_.cause(running_));
  queue.seen.join(model_.clock(running_));
}

// Sleeps until woken; false if the time ran out.
bool Engine::sleep_in(ObjectId id, bool timed) {
  Thread& me = self();
  objects_[id].waiters.push_back(running_);
  me.status = Status::kWaiting;
  me.timed = timed;
  me.timed_out = false;
  me.operation = {.kind = Kind::kQueue, .queue = id};
  dispatch();
  if (!me.timed_out) return true;
  step();
  if (me.timeouts_left > 0) --me.timeouts_left;
  report_races(id, true);
  model_.tick(running_);
  queue_operation(id);
  note_write();
  record_event(kNoObject, false, true, me.turn.node);
  std::vector<int>& waiters = objects_[id].waiters;
  waiters.erase(std::find(waiters.begin(), waiters.end(), running_));
  if (TraceEntry* const line = trace("time-out", objects_[id].queue, me.where)) line->queue_id = id;
  return false;
}

int Engine::wake_from(ObjectId id, int count) {
  report_races(id, true);
  model_.tick(running_);
  queue_operation(id);
  record_event(kNoObject, false, true, self().turn.node);
  int woken = 0;
  while (woken < count && !objects_[id].waiters.empty()) {
    std::vector<int>& waiters = objects_[id].waiters;
    const auto waiting = static_cast<std::uint32_t>(waiters.size());
    std::uint32_t pick = 0;
    if (waiting > static_cast<std::uint32_t>(count - woken)) pick = choose(waiting, (std::uint64_t{1} << waiting) - 1);
    const int who = waiters[pick];
    waiters.erase(waiters.begin() + static_cast<std::ptrdiff_t>(pick));
    // If its time had run out first, it would have missed this; no event of its own will show that.
    if (thread(who).timed && thread(who).timeouts_left > 0) search_->report_race(self().turn.node, who);
    thread(who).status = Status::kReady;
    model_.add_cause(who, model_.cause(running_));
    ++woken;
  }
  if (woken == 0) {
    note_read(id, objects_[id].operations, Value{});  // For a loop that tries again: nothing happened.
  } else {
    note_write();
  }
  return woken;
}

// --- futex

bool Engine::wait_on_value(const void* address, Value expected, bool timed, Where where) {
  const ObjectId id = find(ObjectKind::kAtomic, address, where);
  const ObjectId queue = queue_of(id);
  take_turn({.kind = Kind::kWait, .object = id, .queue = queue, .expected = expected, .may_fail = true}, where);
  check_access(id, where);
  const LocationId location = objects_[id].location;
  const Choice choice = choose_outcome();
  report_races(queue, true, &model_.at(location, choice.position).cause);
  const StoreId source = model_.commit_load(running_, location, choice.position, std::memory_order_relaxed);
  const Value value = model_.store(source).value;
  const bool spurious = !choice.success && value == expected;
  if (spurious) --self().spurious_left;
  objects_[id].accesses.push_back(static_cast<std::uint32_t>(events_.size()));
  queue_operation(queue);
  note_read(id, source, value);
  if (choice.success) note_write();
  record_event(kNoObject, false, true, self().turn.node);
  if (TraceEntry* const line = trace(timed ? "futex wait timed" : "futex wait", id, where)) {
    line->detail = "= " + format_value(value, objects_[id].bytes) +
                   (choice.success ? ": sleeps"
                    : spurious     ? ": returns for no reason"
                                   : ": returns");
    line->read = source;
    line->queue_id = queue;
    line->stale = choice.position + 1 < model_.store_count(location);
  }
  return choice.success ? sleep_in(queue, timed) : true;
}

int Engine::wake(const void* address, int count, Where where) {
  const ObjectId id = find(ObjectKind::kAtomic, address, where);
  const ObjectId queue = queue_of(id);
  take_turn({.kind = Kind::kQueue, .queue = queue}, where);
  check_access(id, where);
  const std::size_t line = trace_ != nullptr ? trace_->entries.size() : 0;
  if (TraceEntry* const entry = trace("futex wake", id, where)) entry->queue_id = queue;
  const int woken = wake_from(queue, count);
  if (trace_ != nullptr) trace_->entries[line].detail = "wakes " + std::to_string(woken);
  return woken;
}

// --- mutex

void Engine::lock(const void* address, Where where) {
  const ObjectId id = find(ObjectKind::kMutex, address, where);
  if (objects_[id].owner == running_) {
    fail(Failure::kDeadlock, "T" + std::to_string(running_) + " locks " + objects_.name_of(id) + ", which it holds");
  }
  take_turn({.kind = Kind::kLock, .object = id, .order = std::memory_order_acquire}, where);
  check_access(id, where);
  Value expected{};
  exchange(expected, Value{1, 0}, "lock", where);  // The turn came because the newest value is 0.
  objects_[id].owner = running_;
  ++self().locks_held;
}

bool Engine::try_lock(const void* address, Where where) {
  const ObjectId id = find(ObjectKind::kMutex, address, where);
  take_turn({.kind = Kind::kExchange, .object = id, .order = std::memory_order_acquire}, where);
  check_access(id, where);
  Value expected{};
  if (!exchange(expected, Value{1, 0}, "try_lock", where)) return false;
  objects_[id].owner = running_;
  ++self().locks_held;
  return true;
}

void Engine::release_mutex(ObjectId id, Where where) {
  if (objects_[id].owner != running_) {
    fail(Failure::kMisuse, "unlocks " + objects_.name_of(id) + ", which it does not hold");
  }
  objects_[id].owner = -1;
  --self().locks_held;
  const StoreId made = place_store(id, Value{}, std::memory_order_release);
  if (TraceEntry* const line = trace("unlock", id, where)) line->wrote = made;
}

void Engine::unlock(const void* address, Where where) {
  const ObjectId id = find(ObjectKind::kMutex, address, where);
  step();
  release_mutex(id, where);
}

// --- condition

bool Engine::wait_on_condition(const void* condition, const void* mutex, bool timed, Where where) {
  const ObjectId id = find(ObjectKind::kCondition, condition, where);
  const ObjectId mutex_id = find(ObjectKind::kMutex, mutex, where);
  const ObjectId queue = queue_of(id);
  take_turn({.kind = Kind::kQueue, .queue = queue}, where);
  check_access(id, where);
  const bool spurious = self().spurious_left > 0 && choose(2, 3) == 1;
  if (spurious) --self().spurious_left;
  report_races(queue, true);
  model_.tick(running_);
  queue_operation(queue);
  note_write();
  record_event(kNoObject, false, true, self().turn.node);
  if (TraceEntry* const line = trace(timed ? "condition wait timed" : "condition wait", id, where)) {
    line->detail = spurious ? "returns for no reason" : "sleeps";
    line->queue_id = queue;
  }
  release_mutex(mutex_id, where);  // One step with going to sleep: no other thread can run in between.
  const bool in_time = spurious || sleep_in(queue, timed);
  lock(mutex, where);
  return in_time;
}

void Engine::notify(const void* condition, int count, Where where) {
  const ObjectId id = find(ObjectKind::kCondition, condition, where);
  const ObjectId queue = queue_of(id);
  take_turn({.kind = Kind::kQueue, .queue = queue}, where);
  check_access(id, where);
  const std::size_t line = trace_ != nullptr ? trace_->entries.size() : 0;
  if (TraceEntry* const entry = trace("notify", id, where)) entry->queue_id = queue;
  const int woken = wake_from(queue, count);
  if (trace_ != nullptr) trace_->entries[line].detail = "wakes " + std::to_string(woken);
}

}  // namespace rota::interleave

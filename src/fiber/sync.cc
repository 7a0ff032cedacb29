// The locks. Each is a spin lock around a few words and a queue; waiting.h describes how a wait ends.
//
// Why the spin lock must never be skipped: the fast path of a wait (nothing to wait for) takes it, too. A task whose
// wait was ended may destroy the object at once; at that time the thread that ended the wait has released the lock,
// which is its last access to the object. Fibers are scheduled after that.
#include "rota/fiber/sync.h"

#include <mutex>

#include "fiber/waiting.h"
#include "rota/assert.h"
#include "rota/fiber/error.h"

namespace rota::fiber {

using detail::cancel_code;
using detail::deadline_of;
using detail::Nanoseconds;
using detail::register_current;
using detail::registered;
using detail::schedule;
using detail::schedule_all;
using detail::SpinLock;
using detail::ThreadWorker;
using detail::throw_cancelled;
using detail::throw_error;
using detail::wait_in;
using detail::Waiter;
using detail::waiting_worker;
using detail::WaitOutcome;
using detail::WaitQueue;
using detail::WakeReason;
using detail::Woken;

namespace {

[[noreturn]] void misuse(const char* message) { throw_error(ErrorCode::kFailedPrecondition, message); }

// Waits until ready(), or until the thread that ends the wait grants it (kDone). ready() is called under the lock; it
// takes what is waited for, if available.
template <class Ready>
WakeReason wait_until(SpinLock& guard, WaitQueue& queue, const std::chrono::nanoseconds* limit, const char* what,
                      Ready&& ready) {
  guard.lock();
  const bool at_once = ready();
  guard.unlock();
  if (at_once) return WakeReason::kDone;
  if (limit != nullptr && limit->count() <= 0) return WakeReason::kTimeout;
  ThreadWorker* worker = waiting_worker(what);
  const Nanoseconds deadline = deadline_of(worker->runtime, limit);
  if (!registered(worker)) register_current(worker);
  guard.lock();
  if (ready()) {
    guard.unlock();
    return WakeReason::kDone;
  }
  Waiter waiter;
  return wait_in(worker, guard, queue, waiter, deadline, what);
}

// True: done. False: the time ran out. Throws Cancelled.
bool done_or_throw(WakeReason reason) {
  if (reason == WakeReason::kCancelled) throw_cancelled();
  return reason == WakeReason::kDone;
}

// Of a wait without a limit.
Result<void> done_or_code(WakeReason reason) {
  if (reason == WakeReason::kCancelled) return cancel_code();
  return {};
}

// Ends all waits. REQUIRES: the lock is held. Releases it.
void release_all(SpinLock& guard, WaitQueue& queue) {
  Woken woken;
  while (Waiter* waiter = queue.take()) woken.add(waiter, WaitOutcome::kDone);
  guard.unlock();
  schedule_all(woken);
}

// Waiters have the object's address, and the thread that ended the last wait may still hold its lock briefly.
void check_unused(SpinLock& guard, const WaitQueue& queue, const char* what) {
  const std::lock_guard lock(guard);
  ROTA_ASSERT(queue.empty(), what, " was destroyed while a task waits for it");
}

}  // namespace

// ------------------------------------------------------------------------------------------------------------- Mutex

Mutex::~Mutex() {
  const std::lock_guard lock(guard_);
  ROTA_ASSERT(owner_.task == nullptr, "a mutex was destroyed while task ", owner_.id, " has it");
}

Mutex::Owner Mutex::owner_of(const detail::TaskRecord* task) { return {task, task->id}; }
Mutex::Owner Mutex::caller() { return owner_of(waiting_worker("a mutex")->fiber->task); }

WakeReason Mutex::acquire(const std::chrono::nanoseconds* limit) {
  const Owner self = caller();
  bool mine_already = false;
  const WakeReason reason = wait_until(guard_, waiting_, limit, "a mutex", [&] {
    mine_already = owner_ == self;
    if (owner_.task != nullptr) return mine_already;
    owner_ = self;
    return true;
  });
  if (mine_already) misuse("the task has already locked this mutex");
  return reason;
}

void Mutex::lock() { (void)done_or_throw(acquire(nullptr)); }
Result<void> Mutex::lock(std::nothrow_t) { return done_or_code(acquire(nullptr)); }
bool Mutex::try_lock() {
  const Owner self = caller();
  const std::lock_guard lock(guard_);
  if (owner_.task != nullptr) return false;
  owner_ = self;
  return true;
}
bool Mutex::try_lock_for(std::chrono::nanoseconds limit) { return done_or_throw(acquire(&limit)); }

void Mutex::unlock() {
  const Owner self = caller();
  guard_.lock();
  if (owner_ != self) {
    guard_.unlock();
    misuse("a mutex was unlocked by a task that has not locked it");
  }
  Waiter* next = waiting_.take();
  owner_ = next == nullptr ? Owner{} : owner_of(next->fiber->task);
  guard_.unlock();
  if (next != nullptr) schedule(next->fiber);
}

// --------------------------------------------------------------------------------------------------------- Semaphore

Semaphore::Semaphore(std::uint64_t permits, std::uint64_t maximum) : permits_(permits), maximum_(maximum) {
  if (permits > maximum)
    throw_error(ErrorCode::kInvalidArgument, "a semaphore must not start with more permits than its maximum");
}
Semaphore::~Semaphore() { check_unused(guard_, waiting_, "a semaphore"); }

WakeReason Semaphore::take(const std::chrono::nanoseconds* limit) {
  return wait_until(guard_, waiting_, limit, "a semaphore", [this] {
    if (permits_ == 0) return false;
    --permits_;
    return true;
  });
}
void Semaphore::acquire() { (void)done_or_throw(take(nullptr)); }
Result<void> Semaphore::acquire(std::nothrow_t) { return done_or_code(take(nullptr)); }
bool Semaphore::try_acquire() {
  constexpr std::chrono::nanoseconds kNow{0};
  return done_or_throw(take(&kNow));
}
bool Semaphore::try_acquire_for(std::chrono::nanoseconds limit) { return done_or_throw(take(&limit)); }

void Semaphore::release(std::uint64_t permits) {
  Woken woken;
  guard_.lock();
  if (permits > maximum_ - permits_) {
    guard_.unlock();
    misuse("a semaphore would have more permits than its maximum");
  }
  for (; permits > 0; --permits) {
    Waiter* waiter = waiting_.take();
    if (waiter == nullptr) break;
    woken.add(waiter, WaitOutcome::kDone);
  }
  permits_ += permits;
  guard_.unlock();
  schedule_all(woken);
}
std::uint64_t Semaphore::available() const {
  const std::lock_guard lock(guard_);
  return permits_;
}

// ------------------------------------------------------------------------------------------------------------- Event

Event::~Event() { check_unused(guard_, waiting_, "an event"); }

void Event::set() {
  guard_.lock();
  set_ = true;
  release_all(guard_, waiting_);
}
void Event::reset() {
  const std::lock_guard lock(guard_);
  set_ = false;
}
bool Event::is_set() const {
  const std::lock_guard lock(guard_);
  return set_;
}
WakeReason Event::await(const std::chrono::nanoseconds* limit) {
  return wait_until(guard_, waiting_, limit, "an event", [this] { return set_; });
}
void Event::wait() { (void)done_or_throw(await(nullptr)); }
Result<void> Event::wait(std::nothrow_t) { return done_or_code(await(nullptr)); }
bool Event::wait_for(std::chrono::nanoseconds limit) { return done_or_throw(await(&limit)); }

// --------------------------------------------------------------------------------------------------------- WaitGroup

WaitGroup::~WaitGroup() { check_unused(guard_, waiting_, "a wait group"); }

void WaitGroup::add(std::uint64_t count) {
  const std::lock_guard lock(guard_);
  if (count > UINT64_MAX - count_) misuse("the count of a wait group would overflow");
  count_ += count;
}
void WaitGroup::done(std::uint64_t count) {
  guard_.lock();
  if (count > count_) {
    guard_.unlock();
    misuse("done() was called for more than the wait group counts");
  }
  count_ -= count;
  if (count_ > 0) {
    guard_.unlock();
    return;
  }
  release_all(guard_, waiting_);
}
std::uint64_t WaitGroup::count() const {
  const std::lock_guard lock(guard_);
  return count_;
}
WakeReason WaitGroup::await(const std::chrono::nanoseconds* limit) {
  return wait_until(guard_, waiting_, limit, "a wait group", [this] { return count_ == 0; });
}
void WaitGroup::wait() { (void)done_or_throw(await(nullptr)); }
Result<void> WaitGroup::wait(std::nothrow_t) { return done_or_code(await(nullptr)); }
bool WaitGroup::wait_for(std::chrono::nanoseconds limit) { return done_or_throw(await(&limit)); }

}  // namespace rota::fiber

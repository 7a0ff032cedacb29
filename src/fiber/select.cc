// Select: performs one of several cases, chosen under the locks of all their channels.
//
// The locks are taken in the order of their addresses, so two selects, or a select and a plain operation, which takes
// one, cannot deadlock. While all are held, nothing at these channels changes: if some cases are possible, one of them
// is drawn and performed; if none is, the task is queued at all channels, and the locks are released after it has left
// its stack. From then on the claim on its fiber decides: every way to end the wait (a value, a close, the timeout, a
// cancellation) begins with claiming it, and exactly one claim succeeds. The claimer performs its case; the other
// waiters of this select stay queued, and are skipped by operations that find them, until the task removes them under
// the locks before it returns.
#include "rota/fiber/select.h"

#include <algorithm>
#include <array>
#include <vector>

#include "fiber/channel_ops.h"

namespace rota::fiber::detail {

namespace {

WaitQueue& queue_of(const SelectCase& it) { return it.send ? it.channel->senders : it.channel->receivers; }

// The channels of a select, each once, in the order of their addresses.
class Locks {
 public:
  Locks(const SelectCase* cases, std::size_t count) {
    ChannelCore** out = few_.data();
    if (count > few_.size()) {
      many_.resize(count);
      out = many_.data();
    }
    first_ = last_ = out;
    for (std::size_t i = 0; i < count; ++i) {
      if (cases[i].channel != nullptr) *last_++ = cases[i].channel;
    }
    std::sort(first_, last_, std::less<>());
    last_ = std::unique(first_, last_);
  }
  void lock() const {
    for (ChannelCore** at = first_; at != last_; ++at) (*at)->lock.lock();
  }
  void unlock() const {
    for (ChannelCore** at = first_; at != last_; ++at) (*at)->lock.unlock();
  }

 private:
  std::array<ChannelCore*, 8> few_{};
  std::vector<ChannelCore*> many_;
  ChannelCore** first_;
  ChannelCore** last_;
};

struct SelectWait {
  const Locks* locks;
  Fiber* fiber;
  Nanoseconds deadline;
  WakeTimer timer{};
  bool published = false;
};

bool publish_select(ThreadWorker* worker, void* argument) {
  auto* wait = static_cast<SelectWait*>(argument);
  wait->published = true;
  if (wait->deadline != kNever) wait->timer.arm(worker->runtime, wait->fiber, wait->deadline);
  wait->locks->unlock();
  return true;
}

// True if the case is possible. A waiter on the other side may turn out to be claimed: then it is not, and the waiter
// is removed.
bool looks_ready(const SelectCase& it) {
  const ChannelCore* channel = it.channel;
  if (channel == nullptr) return false;
  if (channel->closed) return true;
  if (it.send) return !channel->receivers.empty() || channel->buffer.size() < channel->capacity;
  return channel->buffer.size() > 0 || !channel->senders.empty();
}

// Draws one of the ready cases with equal probability. Returns its index, or kNoCase. REQUIRES: the locks are held.
std::size_t take_ready(ThreadWorker* worker, SelectCase* cases, std::size_t count, Woken& woken) {
  for (;;) {
    std::size_t ready = 0;
    for (std::size_t i = 0; i < count; ++i) ready += looks_ready(cases[i]) ? 1 : 0;
    if (ready == 0) return kNoCase;
    std::uint64_t skip = ready == 1 ? 0 : draw_fairly(worker, ready);
    std::size_t chosen = 0;
    for (;; ++chosen) {
      if (looks_ready(cases[chosen]) && skip-- == 0) break;
    }
    SelectCase& it = cases[chosen];
    const Attempt attempt = (it.send ? attempt_send : attempt_receive)(it.channel, it.value, woken);
    if (attempt == Attempt::kWait) continue;  // All waiters there were claimed by others, and are removed now.
    it.status = attempt == Attempt::kDone ? ChannelStatus::kDone : ChannelStatus::kClosed;
    return chosen;
  }
}

}  // namespace

std::size_t select_case(SelectCase* cases, std::size_t count, const std::chrono::nanoseconds* timeout, Leave leave) {
  ThreadWorker* worker = begin_operation(waiting_worker("a select"), leave);
  if (worker == nullptr) return kCancelledCase;
  RuntimeCore* runtime = worker->runtime;
  const Locks locks(cases, count);
  SelectWait wait{&locks, worker->fiber, kNever};
  if (timeout != nullptr && timeout->count() > 0) wait.deadline = deadline_of(runtime, timeout);
  for (;;) {
    Woken woken;
    std::size_t chosen = kNoCase;
    locks.lock();
    try {
      const HeldWhileLocked held(worker);
      chosen = take_ready(worker, cases, count, woken);
    } catch (...) {
      locks.unlock();
      schedule_all(woken);
      throw;
    }
    const bool late = timeout != nullptr && (timeout->count() <= 0 || wait.deadline <= runtime->now());
    if (chosen != kNoCase || late || !registered(worker)) {
      locks.unlock();
      schedule_all(woken);
      if (chosen != kNoCase || late) return chosen;
      register_current(worker);
      continue;
    }
    for (std::size_t i = 0; i < count; ++i) {
      SelectCase& it = cases[i];
      if (it.channel == nullptr) continue;
      it.waiter = {.fiber = worker->fiber, .value = it.value};
      queue_of(it).add(&it.waiter);
    }
    wait.published = false;
    wait.timer.armed = false;
    const WakeReason reason = park(worker, publish_select, &wait, true, "a select");
    wait.timer.disarm(runtime);
    if (wait.published) locks.lock();
    for (std::size_t i = 0; i < count; ++i) {
      SelectCase& it = cases[i];
      if (it.channel != nullptr && it.waiter.queued) queue_of(it).remove(&it.waiter);
      if (it.waiter.outcome != WaitOutcome::kNone) chosen = i;
    }
    locks.unlock();
    if (reason == WakeReason::kCancelled) {
      if (leave == Leave::kReturn) return kCancelledCase;
      throw_cancelled();
    }
    if (reason == WakeReason::kTimeout) return kNoCase;
    const WaitOutcome outcome = cases[chosen].waiter.outcome;
    if (outcome != WaitOutcome::kAgain) {
      cases[chosen].status = outcome == WaitOutcome::kDone ? ChannelStatus::kDone : ChannelStatus::kClosed;
      return chosen;
    }
    worker = current_worker();
  }
}

}  // namespace rota::fiber::detail

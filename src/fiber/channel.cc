// Sending and receiving: pays, tries, and waits in the channel's queue.
#include "rota/fiber/channel.h"

#include <mutex>

#include "fiber/channel_ops.h"
#include "rota/assert.h"

namespace rota::fiber::detail {

namespace {

using AttemptFunction = Attempt (*)(ChannelCore*, void*, Woken&);

// Tries under the lock. kWait: the lock is still held; otherwise it is released, and the woken fibers are scheduled.
template <AttemptFunction kTry>
[[gnu::always_inline]] inline Attempt try_once(const ThreadWorker* worker, ChannelCore* channel, void* value) {
  Woken woken;
  Attempt attempt{};
  channel->lock.lock();
  try {
    const HeldWhileLocked held(worker);
    attempt = kTry(channel, value, woken);
  } catch (...) {
    channel->lock.unlock();
    schedule_all(woken);
    throw;
  }
  if (attempt == Attempt::kWait) return attempt;  // No fiber was woken.
  channel->lock.unlock();
  schedule_all(woken);
  return attempt;
}

// Spinning before a wait: a task on another thread worker may be about to make the wait unnecessary, and a hand-over by
// a cache line costs a hundredth of one by parking. Only if this thread worker has nothing else to run, and the other
// one can run at the same time. It ends when the channel changes or after `spins` rounds, a few microseconds at most.
constexpr std::uint16_t kFewestSpins = 4;
constexpr std::uint16_t kMostSpins = 256;

bool may_spin(const ThreadWorker* worker, const ChannelCore* channel) {
  return !worker->solo && (worker->hooks & kHookDeterministic) == 0 && channel->capacity > 0 && worker->handoff == 0 &&
         worker->deque.peek() == 0 && !worker->runtime->crowded;
}

// REQUIRES: the lock is held. Releases it.
[[gnu::noinline]] void spin_for_change(ChannelCore* channel) {
  const std::uint32_t seen = channel->changes.load(std::memory_order_relaxed);
  const std::uint16_t spins = channel->spins.load(std::memory_order_relaxed);
  channel->lock.unlock();
  for (std::uint16_t round = 0; round < spins; ++round) {
    if (channel->changes.load(std::memory_order_relaxed) != seen) {
      if (spins < kMostSpins) channel->spins.store(static_cast<std::uint16_t>(spins * 2), std::memory_order_relaxed);
      return;
    }
    sync::cpu_pause();
  }
  if (spins > kFewestSpins) channel->spins.store(static_cast<std::uint16_t>(spins / 2), std::memory_order_relaxed);
}

// REQUIRES: attempt != kWait.
ChannelStatus status_of(Attempt attempt) {
  return attempt == Attempt::kDone ? ChannelStatus::kDone : ChannelStatus::kClosed;
}

template <AttemptFunction kTry>
ChannelStatus operate(ChannelCore* channel, WaitQueue ChannelCore::* queue, void* value,
                      const std::chrono::nanoseconds* timeout, const char* what, Leave leave) {
  ROTA_ASSERT(channel != nullptr, "the channel was moved from");
  ThreadWorker* worker = begin_operation(waiting_worker(what), leave);
  if (worker == nullptr) [[unlikely]]
    return ChannelStatus::kCancelled;
  Nanoseconds deadline = timeout == nullptr ? kNever : -1;
  bool spun = false;
  for (;;) {
    const Attempt attempt = try_once<kTry>(worker, channel, value);
    if (attempt != Attempt::kWait) return status_of(attempt);
    if (deadline < 0) deadline = deadline_of(worker->runtime, timeout);
    const bool late = timeout != nullptr && deadline <= worker->runtime->now();
    if (late || !registered(worker)) {
      channel->lock.unlock();
      if (late) return ChannelStatus::kTimeout;
      register_current(worker);
      continue;
    }
    if (!spun && may_spin(worker, channel)) {
      spun = true;
      spin_for_change(channel);
      continue;
    }
    Waiter waiter{.value = value};
    const WakeReason reason = wait_in(worker, channel->lock, channel->*queue, waiter, deadline, what);
    if (reason == WakeReason::kTimeout) return ChannelStatus::kTimeout;
    if (reason == WakeReason::kCancelled) {
      if (leave == Leave::kReturn) return ChannelStatus::kCancelled;
      throw_cancelled();
    }
    if (waiter.outcome == WaitOutcome::kDone) return ChannelStatus::kDone;
    if (waiter.outcome == WaitOutcome::kClosed) return ChannelStatus::kClosed;
    worker = current_worker();
  }
}

template <AttemptFunction kTry>
ChannelStatus operate_now(ChannelCore* channel, void* value) {
  ROTA_ASSERT(channel != nullptr, "the channel was moved from");
  ThreadWorker* worker = current_worker();
  if (is_metered(worker) && charge_channel_op(worker) != ErrorCode::kOk) throw_cancelled();
  const Attempt attempt = try_once<kTry>(current_worker(), channel, value);
  if (attempt != Attempt::kWait) return status_of(attempt);
  channel->lock.unlock();
  return ChannelStatus::kWouldBlock;
}

}  // namespace

ChannelCore* make_channel(const ValueOps& ops, std::size_t capacity) { return new ChannelCore(ops, capacity); }
ChannelCore* make_channel_unpermitted(const ValueOps& ops, std::size_t capacity) {
  return new ChannelCore(ops, capacity, ChannelPermit::kNotNeeded);
}

void share_channel(ChannelCore* channel) {
  // Relaxed: the caller has a reference.
  if (channel != nullptr) channel->references.fetch_add(1, std::memory_order_relaxed);
}

void drop_channel(ChannelCore* channel) {
  if (channel == nullptr) return;
  // acq_rel, partner: the other drops: the last one sees the effects of all others.
  if (channel->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  ROTA_ASSERT(channel->receivers.empty() && channel->senders.empty(),
              "the last handle of a channel was destroyed while a task waits at it");
  delete channel;
}

ChannelStatus channel_send(ChannelCore* channel, void* value, const std::chrono::nanoseconds* timeout, Leave leave) {
  return operate<attempt_send>(channel, &ChannelCore::senders, value, timeout, "a channel's send", leave);
}
ChannelStatus channel_receive(ChannelCore* channel, void* optional, const std::chrono::nanoseconds* timeout,
                              Leave leave) {
  return operate<attempt_receive>(channel, &ChannelCore::receivers, optional, timeout, "a channel's receive", leave);
}

ChannelStatus channel_await_close(ChannelCore* channel, const std::chrono::nanoseconds* timeout,
                                  const char* waits_for) {
  ThreadWorker* worker = waiting_worker(waits_for);
  if (cancelled_now(worker)) return channel_closed(channel) ? ChannelStatus::kClosed : ChannelStatus::kCancelled;
  if (!registered(worker)) register_current(worker);
  const Nanoseconds deadline = deadline_of(worker->runtime, timeout);
  channel->lock.lock();
  if (channel->closed || (timeout != nullptr && timeout->count() <= 0)) {
    const bool closed = channel->closed;
    channel->lock.unlock();
    return closed ? ChannelStatus::kClosed : ChannelStatus::kTimeout;
  }
  Waiter waiter;
  switch (wait_in(worker, channel->lock, channel->receivers, waiter, deadline, waits_for)) {
    case WakeReason::kTimeout:
      return ChannelStatus::kTimeout;
    case WakeReason::kCancelled:
      return ChannelStatus::kCancelled;
    default:
      return ChannelStatus::kClosed;
  }
}
ChannelStatus channel_try_send(ChannelCore* channel, void* value) { return operate_now<attempt_send>(channel, value); }
ChannelStatus channel_try_receive(ChannelCore* channel, void* optional) {
  return operate_now<attempt_receive>(channel, optional);
}

bool channel_close(ChannelCore* channel) {
  ROTA_ASSERT(channel != nullptr, "the channel was moved from");
  Woken woken;
  channel->lock.lock();
  const bool closed = attempt_close(channel, woken);
  channel->lock.unlock();
  schedule_all(woken);
  return closed;
}

bool channel_closed(ChannelCore* channel) {
  const std::lock_guard guard(channel->lock);
  return channel->closed;
}
std::size_t channel_size(ChannelCore* channel) {
  const std::lock_guard guard(channel->lock);
  return channel->buffer.size();
}
std::size_t channel_capacity(const ChannelCore* channel) { return channel->capacity; }

}  // namespace rota::fiber::detail

// The real channel, queues and claim word under the interleaving checker: a value that meets a cancellation, a second
// receiver or a close is delivered exactly once or refused. Contract: F-24, F-9.
//
// What stands in for the runtime: parking is a wait for `scheduled`, which is what schedule() sets.
#include <gtest/gtest.h>

#include <mutex>
#include <optional>

#include "fiber/channel_core.h"
#include "fiber/wait_word.h"
#include "interleave/interleave.h"

thread_local constinit rota::fiber::detail::ThreadWorker* rota_fiber_worker = nullptr;
extern "C" rota::fiber::detail::ThreadWorker* rota_fiber_worker_slow() noexcept { return nullptr; }

namespace rota::fiber::detail {

void ChannelPermit::acquire(std::size_t) {}
void ChannelPermit::release() {}

namespace {

using interleave::check;
using interleave::Execution;
using interleave::Result;

// Watched: handing it over must happen before its use.
struct Message {
  explicit Message(int v) : value(v) {}
  Message(Message&& other) noexcept : value(other.value.get()) {}
  sync::Plain<int> value;
};

struct Task : Fiber {
  sync::Atomic<int> scheduled{0};
};

void schedule_task(Fiber* fiber) { static_cast<Task*>(fiber)->scheduled.store(1, std::memory_order_release); }
void schedule_woken(const Woken& woken) {
  for (Waiter* waiter = woken.first(); waiter != nullptr;) {
    Waiter* next = waiter->next;
    schedule_task(waiter->fiber);
    waiter = next;
  }
}

enum class End { kDone, kClosed, kCancelled, kWouldBlock };

// As operate() in channel.cc does, with park() in between.
template <class Try>
End operate(ChannelCore& channel, WaitQueue& queue, Task& self, void* value, const Try& attempt) {
  Woken woken;
  channel.lock.lock();
  const Attempt tried = attempt(&channel, value, woken);
  if (tried != Attempt::kWait) {
    channel.lock.unlock();
    schedule_woken(woken);
    return tried == Attempt::kDone ? End::kDone : End::kClosed;
  }
  Waiter waiter{.fiber = &self, .value = value};
  queue.add(&waiter);
  begin_wait(self.claim, true);
  channel.lock.unlock();
  if (!commit_wait(self.claim, true, self.reason)) schedule_task(&self);
  while (self.scheduled.load(std::memory_order_acquire) == 0) sync::cpu_pause();
  self.claim.store(kRunning, std::memory_order_relaxed);
  if (self.reason == WakeReason::kDone) return waiter.outcome == WaitOutcome::kDone ? End::kDone : End::kClosed;
  const std::lock_guard guard(channel.lock);
  if (waiter.queued) queue.remove(&waiter);
  return End::kCancelled;
}
End receive(ChannelCore& channel, Task& self, std::optional<Message>& into) {
  return operate(channel, channel.receivers, self, &into, attempt_receive);
}
End send(ChannelCore& channel, Task& self, Message& message) {
  return operate(channel, channel.senders, self, &message, attempt_send);
}
End try_send(ChannelCore& channel, Message& message) {
  Woken woken;
  channel.lock.lock();
  const Attempt attempt = attempt_send(&channel, &message, woken);
  channel.lock.unlock();
  schedule_woken(woken);
  return attempt == Attempt::kDone ? End::kDone : attempt == Attempt::kClosed ? End::kClosed : End::kWouldBlock;
}
void cancel(Task& task) {
  if (cancel_wake(&task)) schedule_task(&task);
}
void close(ChannelCore& channel) {
  Woken woken;
  channel.lock.lock();
  attempt_close(&channel, woken);
  channel.lock.unlock();
  schedule_woken(woken);
}
void end_waits(ChannelCore& channel) {  // Ends the remaining waits, so that the execution ends.
  close(channel);
}

// A receiver that is cancelled while a value comes: it has the value, or the channel has, or the sender has kept it.
TEST(ChannelInterleave, AValueMeetsACancellation) {
  for (const std::size_t capacity : {0U, 1U}) {
    const Result result = check({.name = "a value meets a cancellation"}, [capacity](Execution& ex) {
      ChannelCore channel(kValueOps<Message>, capacity);
      Task receiver;
      std::optional<Message> into;
      Message message(7);
      End received{};
      End sent{};
      ex.run([&] { received = receive(channel, receiver, into); },
             [&] {
               sent = try_send(channel, message);
               cancel(receiver);
               end_waits(channel);
             });
      const bool arrived = into.has_value();
      ROTA_INTERLEAVE_ASSERT(arrived == (received == End::kDone));
      ROTA_INTERLEAVE_ASSERT(!arrived || into->value.get() == 7);
      const int copies = (arrived ? 1 : 0) + static_cast<int>(channel.buffer.size());
      ROTA_INTERLEAVE_ASSERT(copies == (sent == End::kDone ? 1 : 0));
      ROTA_INTERLEAVE_ASSERT(channel.receivers.empty());
    });
    EXPECT_TRUE(result.ok) << result.report;
    EXPECT_TRUE(result.exhaustive) << result.report;
  }
}

// The same with the canceller as a thread of its own. `claims`: whether it claims the fiber before it wakes it.
Result hand_over_and_cancellation(bool claims) {
  return check(
      {.name = "hand-over and cancellation", .preemption_bound = 3, .max_executions = 200'000}, [=](Execution& ex) {
        ChannelCore channel(kValueOps<Message>, 1);
        Task receiver;
        std::optional<Message> into;
        Message message(7);
        End received{};
        End sent{};
        ex.run([&] { received = receive(channel, receiver, into); }, [&] { sent = try_send(channel, message); },
               [&] {
                 if (claims) {
                   cancel(receiver);
                 } else if (receiver.claim.load() == kWaiting) {
                   receiver.reason = WakeReason::kCancelled;
                   schedule_task(&receiver);
                 }
               });
        ROTA_INTERLEAVE_ASSERT(sent == End::kDone);
        ROTA_INTERLEAVE_ASSERT(into.has_value() == (received == End::kDone));
        ROTA_INTERLEAVE_ASSERT((into.has_value() ? 1 : 0) + static_cast<int>(channel.buffer.size()) == 1);
        ROTA_INTERLEAVE_ASSERT(channel.receivers.empty());
      });
}
TEST(ChannelInterleave, AHandOverRacesWithACancellation) {
  const Result result = hand_over_and_cancellation(true);
  EXPECT_TRUE(result.ok) << result.report;
}
// Without the claim the value goes to one who has been told that it was cancelled: the checker says so.
TEST(ChannelInterleave, WithoutTheClaimTheValueIsLost) {
  const Result result = hand_over_and_cancellation(false);
  EXPECT_FALSE(result.ok);
}

// Two receivers, one of them cancelled: the other one gets the value.
TEST(ChannelInterleave, TheNextReceiverGetsIt) {
  const Result result =
      check({.name = "the next receiver", .preemption_bound = 2, .max_executions = 200'000}, [](Execution& ex) {
        ChannelCore channel(kValueOps<Message>, 0);
        Task first;
        Task second;
        Task sender;
        std::optional<Message> a;
        std::optional<Message> b;
        Message message(7);
        End ends[2]{};
        ex.run([&] { ends[0] = receive(channel, first, a); },
               [&] {
                 const End sent = send(channel, sender, message);
                 ROTA_INTERLEAVE_ASSERT(sent == End::kDone);
                 cancel(first);
                 end_waits(channel);
               },
               [&] { ends[1] = receive(channel, second, b); });
        ROTA_INTERLEAVE_ASSERT(a.has_value() != b.has_value());
        ROTA_INTERLEAVE_ASSERT(a.has_value() == (ends[0] == End::kDone) && b.has_value() == (ends[1] == End::kDone));
        ROTA_INTERLEAVE_ASSERT((a.has_value() ? a : b)->value.get() == 7);
      });
  EXPECT_TRUE(result.ok) << result.report;
}

// A send races with a close: what it said it sent arrives.
TEST(ChannelInterleave, ASendRacesWithAClose) {
  for (const std::size_t capacity : {0U, 1U}) {
    const Result result =
        check({.name = "send and close", .preemption_bound = 2, .max_executions = 200'000}, [capacity](Execution& ex) {
          ChannelCore channel(kValueOps<Message>, capacity);
          Task sender;
          Task receiver;
          std::optional<Message> into;
          Message message(7);
          End sent{};
          End received{};
          ex.run([&] { sent = send(channel, sender, message); }, [&] { received = receive(channel, receiver, into); },
                 [&] { close(channel); });
          ROTA_INTERLEAVE_ASSERT((received == End::kDone) == into.has_value());
          const int copies = (into.has_value() ? 1 : 0) + static_cast<int>(channel.buffer.size());
          ROTA_INTERLEAVE_ASSERT(copies == (sent == End::kDone ? 1 : 0));
        });
    EXPECT_TRUE(result.ok) << result.report;
  }
}

}  // namespace
}  // namespace rota::fiber::detail

// Waits that are left without an exception when the task is cancelled (F-9), and what state() says meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

// A wait that nothing ends but a cancellation, and that returns the code it ended with.
struct Wait {
  const char* name;
  std::function<ErrorCode()> wait;
  bool certain = true;  // False: what it waits for is cancelled as well, and may end first.
};

std::vector<Wait> all_waits() {
  return {
      {"receive", [] { return Channel<int>().receive(std::nothrow).code(); }},
      {"receive_for", [] { return Channel<int>().receive_for(1h, std::nothrow).code(); }},
      {"send", [] { return Channel<int>().send(1, std::nothrow).code(); }},
      {"send_for", [] { return Channel<int>().send_for(1, 1h, std::nothrow).code(); }},
      {"select",
       [] {
         const Channel<int> channel;
         return select(std::nothrow, on_receive(channel, [](std::optional<int>) {}), after(1h)).code();
       }},
      {"sleep", [] { return sleep_for(1h).code(); }},
      {"join",
       [] {
         Nursery scope;
         Task<void> task = scope.spawn([] { (void)sleep_for(1h); });
         return task.wait(std::nothrow).code();
       },
       false},
      {"get",
       [] {
         Nursery scope;
         Task<int> task = scope.spawn([] {
           (void)sleep_for(1h);
           return 1;
         });
         return task.get(std::nothrow).code();
       },
       false},
      {"mutex",
       [] {
         Mutex mutex;
         Event locked;
         Nursery scope;
         scope.launch([&] {
           (void)mutex.lock(std::nothrow);
           locked.set();
           (void)sleep_for(1h);
           mutex.unlock();
         });
         if (!locked.wait(std::nothrow).ok()) return ErrorCode::kCancelled;
         const ErrorCode code = mutex.lock(std::nothrow).code();
         if (code == ErrorCode::kOk) mutex.unlock();  // Its holder was cancelled first and has released it.
         (void)scope.close();
         return code;
       },
       false},
      {"semaphore", [] { return Semaphore(0).acquire(std::nothrow).code(); }},
      {"event", [] { return Event().wait(std::nothrow).code(); }},
      {"wait group", [] { return WaitGroup(1).wait(std::nothrow).code(); }},
      {"token", [] { return CancelToken().wait(std::nothrow).code(); }},
  };
}

// Contract: F-9. Each kind of wait returns Cancelled, and throws nothing, when its task is cancelled while it waits,
// and when it was cancelled before. Cancelled is the only class that a task here could let escape, and none does.
TEST(Nothrow, EveryWaitReturnsCancelled) {
  in_all_modes([] {
    for (const Wait& each : all_waits()) {
      Nursery scope;  // (No SCOPED_TRACE: it belongs to a thread, and this task changes threads.)
      std::atomic<bool> waiting = false;
      Task<ErrorCode> waits = scope.spawn([&each, &waiting] {
        waiting.store(true);
        return each.wait();
      });
      while (!waiting.load()) yield();
      // A task that joins another one in place is Running while the other one waits on its stack: hence the bound.
      for (int i = 0; i < 1000 && waits.state() != TaskState::kBlocked; ++i) yield();
      std::atomic<bool> begun = false;  // Then it is not cancelled in the queue.
      Task<ErrorCode> again = scope.spawn([&each, &begun] {
        begun.store(true);
        while (!is_cancelled()) yield();
        return each.wait();
      });
      while (!begun.load()) yield();
      scope.cancel();
      (void)scope.close();
      ASSERT_EQ(waits.state(), TaskState::kCompleted) << each.name << ": left by an exception";
      EXPECT_TRUE(waits.get() == ErrorCode::kCancelled || !each.certain) << each.name;
      ASSERT_EQ(again.state(), TaskState::kCompleted) << each.name << ": left by an exception";
      EXPECT_TRUE(again.get() == ErrorCode::kCancelled || !each.certain) << each.name;
    }
  });
}

// Contract: F-9. Without a cancellation these waits do what the others do.
TEST(Nothrow, TheyAlsoSucceed) {
  in_all_modes([] {
    with_scope([](Nursery& scope) {
      Channel<std::string> channel(1);
      EXPECT_TRUE(channel.send("one", std::nothrow).ok());
      EXPECT_EQ(channel.send_for("two", 1us, std::nothrow).code(), ErrorCode::kTimeout);
      EXPECT_EQ(channel.receive(std::nothrow).value(), "one");
      EXPECT_EQ(channel.receive_for(1us, std::nothrow).code(), ErrorCode::kTimeout);
      EXPECT_EQ(select(std::nothrow, on_send(channel, "three"), otherwise()).value(), 0U);
      channel.close();
      EXPECT_EQ(channel.send("four", std::nothrow).code(), ErrorCode::kClosed);
      EXPECT_EQ(channel.receive(std::nothrow).value(), "three");
      EXPECT_EQ(channel.receive(std::nothrow).code(), ErrorCode::kClosed);
      Mutex mutex;
      EXPECT_TRUE(mutex.lock(std::nothrow).ok());
      EXPECT_FALSE(mutex.try_lock());
      mutex.unlock();
      Semaphore seats(1);
      EXPECT_TRUE(seats.acquire(std::nothrow).ok());
      EXPECT_TRUE(WaitGroup(0).wait(std::nothrow).ok());
      Task<int> fine = scope.spawn([] { return 7; });
      EXPECT_TRUE(fine.wait(std::nothrow).ok());
      EXPECT_EQ(fine.get(std::nothrow).value(), 7);
      EXPECT_EQ(fine.get(std::nothrow).code(), ErrorCode::kFailedPrecondition);
    });
  });
}

// Contract: F-9, F-3. get(std::nothrow) reports how the task ended.
TEST(Nothrow, GetReportsTheOutcome) {
  Runtime runtime({.worker_count = 2});
  Task<int> failed = runtime.spawn([]() -> int { throw std::runtime_error("no such file"); });
  const Result<int> failure = failed.get(std::nothrow);
  EXPECT_EQ(failure.code(), ErrorCode::kInternal);
  EXPECT_EQ(failure.error().message, "no such file");
  Task<int> coded = runtime.spawn([]() -> int { throw FiberError(Error{ErrorCode::kNotFound, "nothing"}); });
  EXPECT_EQ(coded.get(std::nothrow).code(), ErrorCode::kNotFound);
  Task<void> cancelled = runtime.spawn([] { Event().wait(); });
  cancelled.cancel();
  EXPECT_EQ(cancelled.get(std::nothrow).code(), ErrorCode::kCancelled);
}

// Contract: F-9, F-11. A wait of a task that was cancelled because of its budget says so.
TEST(Nothrow, ReportsAnExhaustedBudget) {
  Runtime runtime({.worker_count = 1, .profile = Profile::kService});
  runtime.run([] {
    Nursery scope(NurseryOptions{.on_exhausted = OnExhausted::kCancel});
    Task<ErrorCode> task = scope.spawn(Grant{.budget = Budget{.ops = 1000, .channel_ops = 1}}, [] {
      Channel<int> channel(1);
      (void)channel.send(1);
      return channel.receive(std::nothrow).code();
    });
    EXPECT_EQ(task.get(), ErrorCode::kBudgetExhausted);
  });
}

// Contract: F-9. 10,000 tasks, each blocked on its own channel, all acknowledge a cancellation without an exception,
// and end as they decide.
TEST(Nothrow, TenThousandTasksLeaveTheirChannels) {
  static constexpr int kTasks = ROTA_TSAN ? 1'000 : 10'000;
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    std::atomic<int> started{0};
    std::atomic<int> acknowledged{0};
    Nursery scope;
    for (int i = 0; i < kTasks; ++i) {
      scope.launch([&] {
        const Channel<int> channel;
        started.fetch_add(1);
        if (channel.receive(std::nothrow).code() == ErrorCode::kCancelled) acknowledged.fetch_add(1);
      });
    }
    while (started.load() < kTasks) yield();
    scope.cancel();
    (void)scope.close();
    EXPECT_EQ(acknowledged.load(), kTasks);
  });
}

// Contract: F-9. Until it acknowledges, state() is Cancelling for every descendant of a cancelled nursery: blocked,
// ready, running, and below another task; seen by its parent, by another task, and by a thread.
TEST(CancellingState, OfEveryDescendant) {
  Runtime runtime({.worker_count = 2});
  std::vector<Task<void>> tasks(3);
  std::atomic<bool> deep_ready{false};
  std::atomic<bool> release{false};
  std::atomic<int> begun{0};  // A task that is still queued would end without running.
  Task<void> main = runtime.spawn([&] {
    Nursery scope;
    const auto linger = [&] {
      begun.fetch_add(1);
      while (!release.load()) yield();
    };
    tasks[0] = scope.spawn([&] {  // Blocks, is woken, and does not end.
      (void)Event().wait(std::nothrow);
      linger();
    });
    tasks[1] = scope.spawn(linger);  // Runs, and never asks.
    scope.launch([&] {
      Nursery inner;
      tasks[2] = inner.spawn(linger);
      deep_ready = true;
      (void)inner.close();
    });
    while (!deep_ready.load() || begun.load() < 2 || tasks[0].state() != TaskState::kBlocked) yield();
    for (const Task<void>& task : tasks) EXPECT_NE(task.state(), TaskState::kCancelling);
    scope.cancel();
    for (const Task<void>& task : tasks) EXPECT_EQ(task.state(), TaskState::kCancelling) << "seen by its parent";
    release.wait(false);
    (void)scope.close();
  });
  while (!deep_ready.load() || tasks[1].state() != TaskState::kCancelling) std::this_thread::yield();
  for (const Task<void>& task : tasks) EXPECT_EQ(task.state(), TaskState::kCancelling) << "seen by a thread";
  runtime.run([&tasks] {
    for (const Task<void>& task : tasks) EXPECT_EQ(task.state(), TaskState::kCancelling) << "seen by another task";
  });
  release = true;
  release.notify_all();
  main.get();
  for (const Task<void>& task : tasks) EXPECT_TRUE(is_terminal(task.state()));
}

}  // namespace
}  // namespace rota::fiber

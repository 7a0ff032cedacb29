// Faults are injected into the worker's loop, at each place where it can throw.
#include "fiber/panic.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "fiber/runtime_core.h"
#include "rota/fiber.h"

namespace rota::fiber::detail {
namespace {

using namespace std::chrono_literals;

constexpr FaultPoint kLoopPoints[] = {FaultPoint::kSearch, FaultPoint::kInHand, FaultPoint::kSeat, FaultPoint::kPoll};

// Lets the loops of all runtimes made while it lives throw at `point`, `times` times: first after `skip` times of
// passing, then every third time.
class Faults {
 public:
  explicit Faults(FaultPoint point, int times = 1, int skip = 0) {
    point_ = point;
    skip_ = skip;
    left_ = times;
    thrown_ = 0;
    g_fault_hook = [](ThreadWorker* /*worker*/, FaultPoint at) {
      if (at != point_ || left_.load() <= 0) return;
      if (skip_.fetch_sub(1) > 0) return;
      if (left_.fetch_sub(1) <= 0) return;
      {
        std::lock_guard guard(mutex_);
        died_ = std::this_thread::get_id();
      }
      skip_ = 2;
      ++thrown_;
      throw std::runtime_error("a fault, for a test");
    };
  }
  ~Faults() { g_fault_hook = nullptr; }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  static int thrown() { return thrown_; }
  static std::thread::id died() {
    std::lock_guard guard(mutex_);
    return died_;
  }

 private:
  static inline FaultPoint point_;
  static inline std::atomic<int> skip_, left_, thrown_;
  static inline std::mutex mutex_;
  static inline std::thread::id died_;
};

int fib(int n) {
  if (n < 2) return n;
  return with_scope([n](Nursery& s) {
    Task<int> a = s.spawn([n] { return fib(n - 1); });
    const int b = fib(n - 2);
    return a.get() + b;
  });
}

// A bit of everything that makes workers search, sleep and poll.
int work() {
  return with_scope([](Nursery& n) {
    Task<int> a = n.spawn([] { return fib(10); });
    Task<int> b = n.spawn([] {
      for (int i = 0; i < 5; ++i) {
        yield();
        (void)sleep_for(200us);  // Longer than a worker searches before it sleeps.
      }
      return 1;
    });
    return a.get() + b.get();
  });
}

// Contract: F-20. Wherever the loop fails, and however often, every task ends as it should and each fault is counted.
TEST(WorkerPanic, LosesNothing) {
  for (const FaultPoint point : kLoopPoints) {
    for (const std::size_t workers : {1U, 2U, 8U, 64U}) {
      const Faults faults(point, 5);
      Runtime runtime({.worker_count = workers});
      while (Faults::thrown() < 5) ASSERT_EQ(runtime.run(work), 56);
      for (int i = 0; i < 5; ++i) ASSERT_EQ(runtime.run(work), 56);
      runtime.shutdown();
      const Stats stats = runtime.stats();
      EXPECT_EQ(stats.worker_panics, 5U);
      EXPECT_EQ(stats.sum.spawned, stats.sum.completed);
    }
  }
}

// Contract: F-20. The thread is another one afterwards; the worker, its counters and its queue are the same.
TEST(WorkerPanic, ReplacesTheThread) {
  for (const FaultPoint point : kLoopPoints) {
    const Faults faults(point);
    Runtime runtime({.worker_count = 1});
    while (Faults::thrown() == 0) runtime.run(work);
    EXPECT_NE(runtime.run([] { return std::this_thread::get_id(); }), Faults::died());
    EXPECT_EQ(runtime.run([] { return current_worker()->index; }), 0U);
    EXPECT_EQ(runtime.stats().worker_panics, 1U);
  }
}

// Contract: F-20. What stood in the queue of a worker that died is run by its successor, each task once.
TEST(WorkerPanic, KeepsTheQueue) {
  constexpr int kTasks = 1000;
  for (const int skip : {0, 1, 7, 500}) {
    const Faults faults(FaultPoint::kFinish, 1, skip);
    Runtime runtime({.worker_count = 1});
    std::vector<int> runs(kTasks);
    runtime.run([&] {
      with_scope([&](Nursery& n) {
        for (int i = 0; i < kTasks; ++i) {
          n.launch([&runs, i] {
            ++runs[static_cast<std::size_t>(i)];
            yield();
          });
        }
      });
    });
    EXPECT_EQ(runs, std::vector<int>(kTasks, 1));
    runtime.shutdown();
    const Stats stats = runtime.stats();
    EXPECT_EQ(stats.worker_panics, 1U);
    EXPECT_EQ(stats.sum.completed, kTasks + 1U);
  }
}

// Contract: F-20, F-16. A task that the fault hits before its function runs has no outcome of its own: it fails with
// WorkerPanic, its closure is destroyed, and its nursery closes.
TEST(WorkerPanic, FailsATaskThatCouldNotRun) {
  const auto kept = std::make_shared<int>(1);
  for (const std::size_t workers : {1U, 2U}) {
    const Faults faults(FaultPoint::kStart, 1, 1);  // The second to start is the child.
    Runtime runtime({.worker_count = workers});
    ErrorCode code = ErrorCode::kOk;
    try {
      runtime.run([&] { with_scope([&](Nursery& n) { n.launch([kept] {}); }); });
    } catch (const FiberError& error) {
      code = error.code();
    }
    EXPECT_EQ(code, ErrorCode::kWorkerPanic);
    runtime.shutdown();
    EXPECT_EQ(runtime.stats().worker_panics, 1U);
  }
  EXPECT_EQ(kept.use_count(), 1);
}

// Contract: F-20, F-5. A failing task whose end is disturbed fails its nursery all the same; a result is not lost.
TEST(WorkerPanic, KeepsOutcomes) {
  for (const int skip : {0, 1, 2}) {
    const Faults faults(FaultPoint::kFinish, 1, skip);
    Runtime runtime({.worker_count = 2});
    EXPECT_THROW(runtime.run([] {
      with_scope([](Nursery& n) {
        n.launch([] { throw std::logic_error("its own"); });
        (void)sleep_for(1h);
      });
    }),
                 std::logic_error);
    EXPECT_EQ(runtime.run([] { return 7; }), 7);
    runtime.shutdown();
    EXPECT_EQ(runtime.stats().worker_panics, static_cast<std::uint64_t>(Faults::thrown()));
  }
}

// Contract: F-20, F-28. In deterministic mode faults are part of the order: the same seed and faults, the same hash.
TEST(WorkerPanic, IsDeterministic) {
  for (std::uint64_t seed = 0; seed < (ROTA_TSAN ? 20 : 100); ++seed) {
    std::map<std::uint64_t, int> hashes;
    for (int round = 0; round < 2; ++round) {
      const Faults faults(seed % 2 == 0 ? FaultPoint::kSearch : FaultPoint::kFinish, 3, static_cast<int>(seed % 11));
      Runtime runtime({.worker_count = 3, .deterministic_seed = seed});
      EXPECT_EQ(runtime.run(work), 56);
      EXPECT_EQ(runtime.stats().worker_panics, 3U);
      ++hashes[runtime.event_hash()];
    }
    EXPECT_EQ(hashes.size(), 1U);
  }
}

// Contract: F-20. Stopping and dying at the same time.
TEST(WorkerPanic, MayComeWhileTheRuntimeStops) {
  for (int round = 0; round < (ROTA_TSAN ? 12 : 50); ++round) {
    const Faults faults(kLoopPoints[round % 4], 20);
    Runtime runtime({.worker_count = 16});
    EXPECT_EQ(runtime.run([] { return 3; }), 3);
    runtime.shutdown();
  }
}

// Contract: F-20, F-31. A fault is in the trace; without a hook there is nothing to look at.
TEST(WorkerPanic, IsTracedAndOffByDefault) {
  {
    const Faults faults(FaultPoint::kSearch, 2);
    Runtime runtime({.worker_count = 2, .trace_events = 10'000});
    while (Faults::thrown() < 2) runtime.run(work);
    runtime.shutdown();
    std::ostringstream out;
    ASSERT_TRUE(write_trace(runtime, out).ok());
    EXPECT_NE(out.str().find("worker panic"), std::string::npos);
  }
  Runtime runtime({.worker_count = 1});
  runtime.shutdown();  // The thread worker writes its hooks when it starts.
  EXPECT_EQ(runtime.core()->fault, nullptr);
  EXPECT_EQ(runtime.core()->workers[0]->hooks, 0);
}

}  // namespace
}  // namespace rota::fiber::detail

// Threads, stacks, memory and queues that run out (F-17, F-19, F-22, F-23).
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "hostile.h"
#include "rota/flow.h"
#include "rota/janus.h"

#if !ROTA_ASAN && !ROTA_TSAN
namespace {
std::atomic<int> threads_left{-1};      // How many threads can be created; -1: as many as the system allows.
std::atomic<bool> refused_late{false};  // A thread is refused only when all others sleep.

// True if every thread of this program but the calling one sleeps, in a hundred looks in a row.
bool all_others_sleep() {
  const std::string self = std::to_string(gettid());
  for (int look = 0; look < 100; ++look) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      if (entry.path().filename() == self) continue;
      std::string stat;
      std::getline(std::ifstream(entry.path() / "stat"), stat);
      const std::size_t name_end = stat.rfind(')');
      if (name_end == std::string::npos || stat.compare(name_end, 3, ") S") != 0) return false;
    }
    sched_yield();
  }
  return true;
}
}  // namespace

// Replaces the system's function in this program.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) noexcept {
  int left = threads_left.load();
  while (left > 0 && !threads_left.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 0) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (refused_late && !all_others_sleep() && std::chrono::steady_clock::now() < limit) sched_yield();
    return EAGAIN;
  }
  static const auto system = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return system(thread, attributes, start, argument);
}
#endif

namespace hostile {
namespace {

#if !ROTA_ASAN && !ROTA_TSAN

// Contract: F-19. Of the threads of a runtime (one each for 4 thread workers, one for the time) each is in turn the
// first that cannot be created; those that already run end again. The scheduler of flows likewise.
TEST(Hostile, EachThreadInTurnFails) {
  for (int left = 0; left <= 4; ++left) {
    threads_left = left;
    const Result<std::unique_ptr<Runtime>> none = Runtime::create({.worker_count = 4});
    ASSERT_EQ(none.code(), ErrorCode::kResourceExhausted) << left;
    EXPECT_NE(none.error().message.find("threads"), std::string::npos) << none.error().message;
    EXPECT_EQ(threads_left, 0);
    threads_left = left;
    EXPECT_EQ(code_of([] { const Runtime runtime({.worker_count = 4}); }), ErrorCode::kResourceExhausted) << left;
    threads_left = left;
    EXPECT_EQ(rota::flow::create_thread_pool_scheduler({.workers = 4}).code(), ErrorCode::kResourceExhausted) << left;
  }
  threads_left = 0;
  EXPECT_EQ(rota::flow::create_simple_scheduler().code(), ErrorCode::kResourceExhausted);
  JanusSchedulerConfig from_c = janus_scheduler_config_default();
  from_c.worker_count = 4;
  EXPECT_EQ(janus_scheduler_create(from_c), nullptr);
  threads_left = -1;
  EXPECT_EQ(Runtime({.worker_count = 4}).run([] { return 42; }), 42);
}

// Contract: F-19. The same, so late that the thread workers that already run are asleep, one of them in epoll: they are
// woken, and end.
TEST(Hostile, AThreadFailsWhenTheOthersSleep) {
  refused_late = true;
  for (int left = 1; left <= 4; ++left) {
    threads_left = left;
    EXPECT_EQ(Runtime::create({.worker_count = 4, .spin_count = 0}).code(), ErrorCode::kResourceExhausted) << left;
  }
  refused_late = false;
  threads_left = -1;
}

// Contract: F-19, F-26. A helper thread that cannot be created is an error of blocking(), of files and of resolve();
// afterwards they work.
TEST(Hostile, NoHelperThread) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    threads_left = 0;
    EXPECT_EQ(blocking([] { return 1; }).code(), ErrorCode::kResourceExhausted);
    EXPECT_EQ(read_file("/dev/null").code(), ErrorCode::kResourceExhausted);
    EXPECT_EQ(resolve("localhost", 1).code(), ErrorCode::kResourceExhausted);
    threads_left = -1;
    EXPECT_EQ(blocking([] { return 1; }).value(), 1);
  });
}

// Contract: F-19. Threads that cannot be created are an error of the call that asked for them.
TEST(Hostile, NoThreadsLeft) {
  if (!NoMoreMemory::works()) GTEST_SKIP() << "the address space cannot be limited here";
  const NoMoreMemory limit;
  EXPECT_EQ(Runtime::create({.worker_count = 64}).code(), ErrorCode::kResourceExhausted);
  EXPECT_EQ(rota::flow::create_thread_pool_scheduler({.workers = 64}).code(), ErrorCode::kResourceExhausted);
  // One thread may still be possible, on the stack of one that has ended. In no case does it throw.
  const ErrorCode one = rota::flow::create_simple_scheduler().code();
  EXPECT_TRUE(one == ErrorCode::kResourceExhausted || one == ErrorCode::kOk);
  EXPECT_EQ(code_of([] { Runtime runtime({.worker_count = 64}); }), ErrorCode::kResourceExhausted);
}

// Contract: F-19. No helper thread is an error of blocking(); afterwards it works.
TEST(Hostile, NoHelpersLeft) {
  if (!NoMoreMemory::works()) GTEST_SKIP() << "the address space cannot be limited here";
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    {
      const NoMoreMemory limit;
      const ErrorCode code = blocking([] { return 1; }).code();
      EXPECT_TRUE(code == ErrorCode::kResourceExhausted || code == ErrorCode::kOk);  // As above.
    }
    EXPECT_EQ(blocking([] { return 1; }).value(), 1);
  });
}

// Contract: F-19. No memory for stacks ends the tasks that need one, and no others.
TEST(Hostile, NoStacksLeft) {
  if (!NoMoreMemory::works()) GTEST_SKIP() << "the address space cannot be limited here";
  Runtime runtime({.worker_count = 2, .stack_bytes = 1 << 20});
  runtime.run([] {
    Event open;
    Nursery nursery;
    std::vector<Task<ErrorCode>> tasks;
    tasks.reserve(2000);
    {
      const NoMoreMemory limit;
      for (int i = 0; i < 2000; ++i) {
        try {
          tasks.push_back(nursery.spawn([&] { return code_of([&] { open.wait(); }); }));
        } catch (const std::bad_alloc&) {  // Nor is there memory for more tasks.
        }
        yield();
      }
    }
    open.set();
    int waited = 0, refused = 0;
    for (Task<ErrorCode>& task : tasks) (task.get() == ErrorCode::kOk ? waited : refused) += 1;
    EXPECT_GT(waited, 0);
    EXPECT_GT(refused, 0);
  });
}

[[gnu::noinline]] int recurse(int depth) {  // NOLINT(misc-no-recursion)
  volatile char frame[512];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

[[gnu::noinline]] int large_frame(volatile int* seed) {
  volatile char frame[1 << 20];
  frame[0] = static_cast<char>(*seed);
  return frame[0] + frame[sizeof(frame) - 1];
}

// Contract: F-23, F-28. In deterministic mode, too, on the thread of the caller, an overflow ends its task only.
TEST(Hostile, OverflowsInDeterministicMode) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(code_of([&] { runtime.run([] { (void)recurse(0); }); }), ErrorCode::kStackOverflow);
    EXPECT_EQ(runtime.run([] { return 42; }), 42);
  }
}

// Overflows the stack in its destructor.
struct DeepEnd {
  DeepEnd() = default;
  DeepEnd(DeepEnd&& other) noexcept : armed(std::exchange(other.armed, false)) {}
  DeepEnd& operator=(DeepEnd&&) = delete;
  ~DeepEnd() {
    if (armed) (void)recurse(0);
  }
  bool armed = true;
};

// Contract: F-23. An overflow in user code that is no task's function: the destructor of a result that nobody takes, or
// of a closure that never ran. The scope is told, the process continues, on stacks of every size, with real threads and
// in deterministic mode.
TEST(Hostile, OverflowsInDestructors) {
  for (const std::size_t bytes : {8192U, 16384U, 65536U, 262144U}) {
    for (const bool deterministic : {false, true}) {
      SCOPED_TRACE(std::to_string(bytes) + (deterministic ? " deterministic" : ""));
      Config config{.worker_count = 2, .stack_bytes = bytes};
      if (deterministic) config.deterministic_seed = 1;
      Runtime runtime(config);
      EXPECT_EQ(code_of([&] {
                  runtime.run([] {
                    with_scope([](Nursery& nursery) {
                      nursery.launch([] {
                        yield();
                        return DeepEnd();
                      });
                    });
                  });
                }),
                ErrorCode::kStackOverflow);
      EXPECT_EQ(code_of([&] {
                  runtime.run([] {
                    with_scope([](Nursery& nursery) {
                      {
                        const Task<DeepEnd> dropped = nursery.spawn([] { return DeepEnd(); });
                      }
                      (void)sleep_for(1ms);
                    });
                  });
                }),
                ErrorCode::kStackOverflow);
      // Never ran: cancelled in the queue. The scope, or the task that drops the closure, is told.
      EXPECT_NE(code_of([&] {
                  runtime.run([] {
                    Nursery nursery;
                    nursery.launch([end = DeepEnd()] {});
                    nursery.cancel();
                    if (const Result<void> closed = nursery.close(); !closed.ok()) throw FiberError(closed.error());
                  });
                }),
                ErrorCode::kOk);
      EXPECT_EQ(runtime.run([] {
        Nursery nursery;
        const Task<void> held = nursery.spawn([end = DeepEnd()] {});
        nursery.cancel();
        (void)nursery.close();
        return held.state();
      }),
                TaskState::kFailed);
      EXPECT_EQ(runtime.run([] { return with_scope([](Nursery& n) { return n.spawn([] { return 5; }).get(); }); }), 5);
    }
  }
}

// Contract: F-23, F-8. An overflow in a callback ends that callback: the others run, the token's users are not kept
// waiting, and whoever cancels continues, be it a task, a thread worker without a task, or the timekeeper while every
// thread worker is busy.
TEST(Hostile, OverflowsInCallbacks) {
  for (const std::size_t bytes : {8192U, 16384U, 262144U}) {
    SCOPED_TRACE(bytes);
    Runtime runtime({.worker_count = 2, .stack_bytes = bytes});
    std::atomic<int> called{0};
    const auto register_both = [&called](CancelToken token) {
      (void)token.on_cancel([&called] {
        ++called;
        (void)recurse(0);
        called = 100;  // Not reached.
      });
      (void)token.on_cancel([&called] { ++called; });
    };
    const auto expect_both = [&called](const char* by) { EXPECT_EQ(called.exchange(0), 2) << by; };
    EXPECT_EQ(code_of([&] {  // By a task.
                runtime.run([&] {
                  CancelToken token;
                  register_both(token);
                  token.cancel();
                  expect_both("a task that cancels a token");
                  with_scope([&](Nursery& nursery) {
                    const Task<void> child = nursery.spawn([&] {
                      register_both(current_token());
                      (void)sleep_for(1h);
                    });
                    while (child.state() != TaskState::kBlocked) yield();
                    nursery.cancel();
                  });
                });
              }),
              ErrorCode::kCancelled);
    expect_both("a task that cancels a nursery");
    const auto overflow = [&called] {
      ++called;
      (void)recurse(0);
      called = 100;  // Not reached.
    };
    EXPECT_EQ(code_of([&] {  // By an idle thread worker.
                runtime.run([&] { at_deadline([] { (void)sleep_for(1h); }, overflow, [&called] { ++called; }); });
              }),
              ErrorCode::kOk);
    expect_both("an idle thread worker");
    runtime.run([&] {  // By the timekeeper.
      std::atomic<bool> over{false};
      with_scope([&](Nursery& outer) {
        outer.launch([&] {
          while (!over.load()) {
          }
        });
        at_deadline(
            [&called] {
              while (called.load() < 2) {
              }
            },
            overflow, [&called] { ++called; });
        over = true;
      });
    });
    expect_both("the timekeeper");
    EXPECT_EQ(runtime.run([] { return 5; }), 5);
  }
}

// Contract: F-23, F-4. Scopes with blocked children are open when the stack overflows, on a stack that is too small to
// close them on.
TEST(Hostile, OverflowsInScopesOnSmallStacks) {
  for (const std::size_t bytes : {8192U, 16384U, 65536U}) {
    SCOPED_TRACE(bytes);
    Runtime runtime({.worker_count = 2, .stack_bytes = bytes});
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> ended{0};
      const auto block = [&ended] {
        (void)sleep_for(1h);
        ++ended;
      };
      EXPECT_EQ(code_of([&] {
                  runtime.run([&] {
                    with_scope([&](Nursery& a) {
                      a.launch(block);
                      with_scope([&](Nursery& b) {
                        b.launch(block);
                        (void)sleep_for(100us);
                        (void)recurse(0);
                      });
                    });
                  });
                }),
                ErrorCode::kStackOverflow);
      EXPECT_LE(ended.load(), 2);
    }
    EXPECT_EQ(runtime.run([] { return 5; }), 5);
  }
}

// Contract: F-23. Overflows of every kind, with the option that the package propagates: the task ends, the neighbours
// and the process do not, and no stack is lost.
TEST(Hostile, Overflows) {
  Runtime runtime({.worker_count = 2, .stack_bytes = 65536});
  std::uint64_t live = 0;
  for (int round = 0; round < 200; ++round) {
    EXPECT_EQ(code_of([&] { (void)runtime.run([] { return recurse(0); }); }), ErrorCode::kStackOverflow);
    EXPECT_EQ(code_of([&] {
                (void)runtime.run([] {
                  volatile int seed = 1;
                  return large_frame(&seed);
                });
              }),
              ErrorCode::kStackOverflow);
    EXPECT_EQ(code_of([&] {
                runtime.run([] {
                  with_scope([](Nursery& nursery) {
                    nursery.launch([] { (void)sleep_for(1h); });
                    nursery.spawn([] { return recurse(0); }).get();
                  });
                });
              }),
              ErrorCode::kStackOverflow);
    EXPECT_EQ(runtime.run([] { return 1; }), 1);
    if (round == 10) live = runtime.stats().stacks_live;
  }
  EXPECT_LE(runtime.stats().stacks_live, live + 64);
}

#endif

// Contract: F-23. After a flood of tasks that waited, their stacks go back within seconds of the runtime's clock.
TEST(Hostile, AFloodLeavesNoStacks) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 1});
  runtime.run([&] {
    with_scope([](Nursery& nursery) {
      for (int i = 0; i < 3000; ++i) nursery.launch([] { (void)sleep_for(1ms); });
    });
    for (int i = 0; i < 50; ++i) (void)sleep_for(100ms);
    EXPECT_LT(runtime.stats().stacks_cached + runtime.stats().stacks_live, 300U);
  });
}

// Contract: F-19. Descriptors that cannot be had are an error of the call that creates the runtime, which needs two.
TEST(Hostile, NoDescriptorsLeft) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);  // The lowest number that is free.
  ASSERT_GE(next, 0);
  close(next);
  for (int left = 0; left < 2; ++left) {
    rlimit none = before;
    none.rlim_cur = static_cast<rlim_t>(next + left);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const Result<std::unique_ptr<Runtime>> made = Runtime::create({.worker_count = 1});
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_EQ(made.code(), ErrorCode::kResourceExhausted) << left;
    EXPECT_NE(made.error().message.find("descriptors"), std::string::npos) << made.error().message;
  }
  Runtime runtime({.worker_count = 1});
  EXPECT_EQ(runtime.run([] { return 42; }), 42);
}

// Contract: F-17. A full queue pushes back, and nothing is lost.
TEST(Hostile, AFullQueue) {
  Runtime runtime({.worker_count = 1, .global_queue_size = 4});
  Event go;
  Task<void> holds = runtime.spawn([&] { go.wait(); });
  std::atomic<int> ran{0};
  int accepted = 0, full = 0;
  for (int i = 0; i < 10'000; ++i) {
    Result<Task<void>> task = runtime.try_spawn([&] { ran += 1; });
    if (task.ok()) {
      ++accepted;
    } else {
      EXPECT_EQ(task.code(), ErrorCode::kQueueFull);
      ++full;
    }
  }
  runtime.run([&] { go.set(); });
  holds.get();
  runtime.shutdown();
  EXPECT_EQ(ran, accepted);
  EXPECT_EQ(accepted + full, 10'000);
}

// Contract: F-17, F-22. A million tasks that never wait need no more stacks than a few.
TEST(Hostile, AMillionTasks) {
  Runtime runtime({.worker_count = 2});
  constexpr int kTasks = kSanitized ? 20'000 : 1'000'000;
  std::atomic<int> ran{0};
  runtime.run([&] {
    with_scope([&](Nursery& nursery) {
      for (int i = 0; i < kTasks; ++i) nursery.launch([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    });
  });
  EXPECT_EQ(ran, kTasks);
  EXPECT_LT(runtime.stats().stacks_live, 200U);
}

// Contract: F-22. The smallest stack that may be asked for works, for tasks that need little.
TEST(Hostile, SmallStacks) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need more stack than that";
  Runtime runtime({.worker_count = 2, .stack_bytes = 8192});
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      for (int i = 0; i < 1000; ++i) nursery.launch([] { (void)sleep_for(1us); });
    });
  });
}

}  // namespace
}  // namespace hostile

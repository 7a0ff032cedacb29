// Who looks at the descriptors, and when: busy workers, sleeping workers, one and many.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>

#include "fiber/io_testing.h"
#include "fiber/reactor.h"
#include "rota/fiber/io.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;
using testing::read_text;
using testing::until_all_sleep;
using testing::until_blocked;

// Contract: F-26. Every worker sleeps; a byte from outside wakes the one that waits in epoll. Many times over.
TEST(IoPoll, NoticedWhileAllSleep) {
  for (const std::size_t workers : {1U, 2U, 64U}) {
    Runtime runtime({.worker_count = workers});
    Pipe pipe = make_pipe().value();
    Pipe back = make_pipe().value();
    auto reader = runtime.spawn([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(read_text(pipe.read_end, 1), "x");
        EXPECT_TRUE(back.write_end.write_all("y").ok());
      }
    });
    for (int i = 0; i < 20; ++i) {
      until_all_sleep(runtime);
      EXPECT_TRUE(pipe.write_end.write_all("x").ok());
      std::byte byte;
      while (!back.read_end.read_some(std::span(&byte, 1)).ok()) sched_yield();  // This thread may not wait in it.
    }
    reader.get();
  }
}

// Contract: F-26. The only worker always has something to do, namely tasks that yield to each other.
TEST(IoPoll, NoticedWhileTheOnlyWorkerYields) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    std::atomic<bool> read = false;
    with_scope([&](Nursery& n) {
      auto reader = n.spawn([&] {
        EXPECT_EQ(read_text(pipe.read_end, 1), "x");
        read = true;
      });
      until_blocked(reader);
      EXPECT_TRUE(pipe.write_end.write_all("x").ok());
      for (int i = 0; i < 3; ++i) {
        n.launch([&] {
          while (!read) yield();
        });
      }
    });
  });
}

// Two fibers that wake each other as they park: the worker goes from one to the other without passing its loop.
struct Relay {
  detail::SpinLock lock;
  detail::Fiber* waiting = nullptr;

  // Lets the other one run, and waits until it does the same.
  void pass() {
    detail::ThreadWorker* worker = detail::current_worker();
    lock.lock();
    detail::Fiber* other = std::exchange(waiting, worker->fiber);
    if (other != nullptr && detail::claim_wake(other, detail::WakeReason::kDone)) {
      detail::schedule(other);
    }
    detail::park(
        worker,
        [](detail::ThreadWorker*, void* relay) {
          static_cast<Relay*>(relay)->lock.unlock();
          return true;
        },
        this, false, "the relay");
  }
  void leave() {
    lock.lock();
    detail::Fiber* other = std::exchange(waiting, nullptr);
    lock.unlock();
    if (other != nullptr) detail::wake(other, detail::WakeReason::kDone);
  }
};

// Contract: F-26. The same, with tasks that hand over to each other directly.
TEST(IoPoll, NoticedWhileTheOnlyWorkerHandsOver) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    std::atomic<bool> read = false;
    Relay relay;
    with_scope([&](Nursery& n) {
      auto reader = n.spawn([&] {
        EXPECT_EQ(read_text(pipe.read_end, 1), "x");
        read = true;
      });
      until_blocked(reader);
      EXPECT_TRUE(pipe.write_end.write_all("x").ok());
      for (int i = 0; i < 2; ++i) {
        n.launch([&] {
          while (!read) relay.pass();
          relay.leave();
        });
      }
    });
  });
}

// Contract: F-26. One task keeps its worker for itself and never yields; another worker, which slept when the wait
// began, must look.
TEST(IoPoll, NoticedWhileATaskHogsItsWorker) {
  for (int round = 0; round < 20; ++round) {
    Runtime runtime({.worker_count = 2});
    Pipe pipe = make_pipe().value();
    until_all_sleep(runtime);
    runtime.run([&] {
      std::atomic<bool> read = false;
      with_scope([&](Nursery& n) {
        n.launch([&] {
          EXPECT_EQ(read_text(pipe.read_end, 1), "x");
          read = true;
        });
        n.launch([&] {
          while (!runtime.core()->reactor->active()) sched_yield();
          EXPECT_EQ(write(pipe.write_end.native(), "x", 1), 1);
          while (!read) sched_yield();
        });
      });
    });
  }
}

// Contract: F-26. Tasks that are always ready to read do not keep the others from running.
TEST(IoPoll, BusyReadersMakeWay) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Descriptor zero = Descriptor::adopt(open("/dev/zero", O_RDONLY | O_CLOEXEC)).value();
    std::atomic<bool> ran = false;
    with_scope([&](Nursery& n) {
      n.launch([&] {
        std::byte byte;
        while (!ran) ASSERT_TRUE(zero.read_some(std::span(&byte, 1)).ok());
      });
      n.launch([&] { ran = true; });
    });
  });
}

// Contract: F-26. A timer that is earlier than the one the poller sleeps for, and a task from outside, both reach it.
TEST(IoPoll, PollerIsWokenForOtherWork) {
  for (const std::size_t workers : {1U, 2U}) {
    Runtime runtime({.worker_count = workers});
    Pipe pipe = make_pipe().value();
    auto reader = runtime.spawn([&] { return pipe.read_end.wait_readable(1h).code(); });
    for (int i = 0; i < 50; ++i) {
      until_all_sleep(runtime);
      EXPECT_EQ(runtime.run([&] { return i; }), i);
      EXPECT_TRUE(runtime.run([] { return sleep_for(1us).ok(); }));
    }
    reader.cancel();
    EXPECT_EQ(reader.get(), ErrorCode::kCancelled);
  }
}

// Contract: F-26. Many short exchanges, each of which may end in a worker going to sleep: none gets stuck.
TEST(IoPoll, PingPong) {
  for (const std::size_t workers : {1U, 2U, 64U}) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      auto [left, right] = UnixStream::pair().value();
      with_scope([&, &left = left, &right = right](Nursery& n) {
        n.launch([&] {
          for (int i = 0; i < testing::rounds(3000); ++i) {
            ASSERT_EQ(read_text(right, 1), "a");
            ASSERT_TRUE(right.write_all("b").ok());
          }
        });
        for (int i = 0; i < testing::rounds(3000); ++i) {
          ASSERT_TRUE(left.write_all("a").ok());
          ASSERT_EQ(read_text(left, 1), "b");
        }
      });
    });
  }
}

// Contract: F-9, F-26. A runtime that ends while tasks wait for descriptors cancels them and leaves.
TEST(IoPoll, RuntimeEndsWithWaitingTasks) {
  for (const std::size_t workers : {1U, 2U, 64U}) {
    Pipe pipe = make_pipe().value();
    std::atomic<int> cancelled = 0;
    {
      Runtime runtime({.worker_count = workers});
      for (int i = 0; i < 20; ++i) {
        (void)runtime.spawn(
            [&] { cancelled += pipe.read_end.wait_readable().code() == ErrorCode::kCancelled ? 1 : 0; });
      }
      while (!runtime.core()->reactor->active()) sched_yield();
    }
    EXPECT_GT(cancelled, 0);  // Those that had not begun ended without running.
  }
}

}  // namespace
}  // namespace rota::fiber

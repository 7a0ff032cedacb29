// Descriptors: pipes and the like, from one task to another. Sockets have their own file.
#include "rota/fiber/io.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <optional>
#include <set>

#include "fiber/io_testing.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;
using testing::bytes_of;
using testing::fill;
using testing::read_text;
using testing::read_to_end;
using testing::until_blocked;

constexpr std::size_t kWorkerCounts[] = {1, 2, 64};

// Contract: F-26. One task reads what another writes, in either order, with fewer and more thread workers than cores.
TEST(Io, PipeCarriesBytesBetweenTasks) {
  for (const std::size_t workers : kWorkerCounts) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      Pipe pipe = make_pipe().value();
      with_scope([&](Nursery& n) {
        Task<std::string> reader = n.spawn([&] { return read_to_end(pipe.read_end); });
        until_blocked(reader);
        for (int i = 0; i < 1000; ++i) ASSERT_TRUE(pipe.write_end.write_all("0123456789").ok());
        ASSERT_TRUE(pipe.write_end.close().ok());
        const std::string text = reader.get();
        ASSERT_EQ(text.size(), 10000U);
        for (std::size_t i = 0; i < text.size(); ++i) ASSERT_EQ(text[i], static_cast<char>('0' + i % 10));
      });
    });
  }
}

// Contract: F-26. The end of a stream is 0 bytes for read_some() and an error with the count for read_exactly().
TEST(Io, EndOfStream) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    ASSERT_TRUE(pipe.write_end.write_all("abc").ok());
    ASSERT_TRUE(pipe.write_end.close().ok());
    std::array<std::byte, 10> buffer;
    const Result<void> read = pipe.read_end.read_exactly(buffer);
    ASSERT_EQ(read.code(), ErrorCode::kClosed);
    EXPECT_EQ(*read.error().detail("done_bytes"), "3");
    EXPECT_NE(read.error().message.find("3 of 10"), std::string::npos) << read.error().message;
    EXPECT_EQ(pipe.read_end.read_some(buffer).value(), 0U);
    EXPECT_EQ(pipe.read_end.read_some({}).value(), 0U);
  });
}

// Contract: F-26. Nobody reads any more: an error, never a signal, and none stays pending.
TEST(Io, NoSignalFromABrokenPipe) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    ASSERT_TRUE(pipe.read_end.close().ok());
    const Result<void> written = pipe.write_end.write_all("x");
    ASSERT_EQ(written.code(), ErrorCode::kClosed);
    EXPECT_EQ(*written.error().detail("errno"), "EPIPE");
    sigset_t pending;
    sigpending(&pending);
    EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
  });
}

// Contract: F-26. A deadline ends a read and a write that must wait, at its time by the virtual clock, and no earlier.
TEST(Io, DeadlineEndsAWait) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 7});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    std::byte buffer[1];
    const std::chrono::nanoseconds start = now();
    const Result<std::size_t> read = pipe.read_end.read_some(buffer, 3s);
    EXPECT_EQ(read.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_NE(read.error().message.find("read"), std::string::npos);
    EXPECT_EQ(now() - start, 3s);
    fill(pipe.write_end);
    EXPECT_EQ(pipe.write_end.write_some(bytes_of("x"), 2s).code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(pipe.write_end.wait_writable(2s).code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(now() - start, 7s);
  });
}

// Contract: F-26. The same by the real clock; and what is ready is taken even when the deadline is over.
TEST(Io, DeadlineByTheRealClock) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    std::byte buffer[1];
    EXPECT_EQ(pipe.read_end.read_some(buffer, 1ms).code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(pipe.read_end.wait_readable(0ns).code(), ErrorCode::kDeadlineExceeded);
    ASSERT_TRUE(pipe.write_end.write_all("x", 0ns).ok());
    EXPECT_EQ(pipe.read_end.read_some(buffer, 0ns).value(), 1U);
  });
}

// Contract: F-26. A write that a deadline interrupts says how much went through.
TEST(Io, InterruptedWriteSaysHowFarItGot) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    const std::string much(10'000'000, 'y');
    const Result<void> written = pipe.write_end.write_all(much, 1ms);
    ASSERT_EQ(written.code(), ErrorCode::kDeadlineExceeded);
    const std::size_t done = std::stoul(*written.error().detail("done_bytes"));
    EXPECT_GT(done, 0U);
    EXPECT_LT(done, much.size());
    EXPECT_EQ(read_text(pipe.read_end, done), much.substr(0, done));
  });
}

// Contract: F-9, F-26. A task that waits for a descriptor is woken with Cancelled, and the descriptor stays usable.
TEST(Io, CancelWakesAWait) {
  for (const std::size_t workers : kWorkerCounts) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      Pipe pipe = make_pipe().value();
      Pipe full = make_pipe().value();
      fill(full.write_end);
      with_scope([&](Nursery& n) {
        std::byte buffer[1];
        auto reader = n.spawn([&] { return pipe.read_end.read_some(buffer).code(); });
        auto timed = n.spawn([&] { return pipe.read_end.wait_readable(1h).code(); });
        auto writer = n.spawn([&] { return full.write_end.write_all("x").code(); });
        until_blocked(reader);
        until_blocked(timed);
        until_blocked(writer);
        reader.cancel();
        timed.cancel();
        writer.cancel();
        EXPECT_EQ(reader.get(), ErrorCode::kCancelled);
        EXPECT_EQ(timed.get(), ErrorCode::kCancelled);
        EXPECT_EQ(writer.get(), ErrorCode::kCancelled);
        ASSERT_TRUE(pipe.write_end.write_all("z").ok());
        EXPECT_EQ(read_text(pipe.read_end, 1), "z");
      });
    });
  }
}

// Contract: F-9. In a task that is cancelled already, I/O does not begin; closing works.
TEST(Io, CancelledTaskBeginsNoIo) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    ASSERT_TRUE(pipe.write_end.write_all("ready").ok());
    with_scope([&](Nursery& n) {
      std::atomic<bool> started = false;
      auto task = n.spawn([&] {
        started = true;
        while (!is_cancelled()) yield();
        std::byte buffer[5];
        const ErrorCode code = pipe.read_end.read_exactly(buffer).code();
        EXPECT_TRUE(pipe.write_end.close().ok());
        return code;
      });
      while (!started) yield();
      task.cancel();
      EXPECT_EQ(task.get(), ErrorCode::kCancelled);
    });
    EXPECT_EQ(read_to_end(pipe.read_end), "ready");
  });
}

// Contract: F-9, F-26. A scope's deadline interrupts the I/O in it.
TEST(Io, ScopeDeadlineInterruptsIo) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    std::optional<ErrorCode> code;  // Nothing if the deadline passed before the task started: then again.
    for (std::chrono::nanoseconds limit = 1ms; !code && limit < 1min; limit *= 2) {
      EXPECT_FALSE(
          with_deadline(limit, [&](Nursery& n) { n.launch([&] { code = pipe.read_end.wait_readable().code(); }); }));
    }
    EXPECT_EQ(code, ErrorCode::kCancelled);
  });
}

// Contract: F-26. Closing ends all waits of other tasks with Closed, and every later operation.
TEST(Io, CloseWakesAllWaiters) {
  for (const std::size_t workers : kWorkerCounts) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      Pipe pipe = make_pipe().value();
      with_scope([&](Nursery& n) {
        std::vector<Task<ErrorCode>> readers;
        for (int i = 0; i < 10; ++i) {
          readers.push_back(n.spawn([&] {
            std::byte buffer[1];
            return pipe.read_end.read_some(buffer, 1h).code();
          }));
        }
        for (const auto& reader : readers) until_blocked(reader);
        EXPECT_TRUE(pipe.read_end.is_open());
        EXPECT_GE(pipe.read_end.native(), 0);
        ASSERT_TRUE(pipe.read_end.close().ok());
        for (auto& reader : readers) EXPECT_EQ(reader.get(), ErrorCode::kClosed);
      });
      EXPECT_TRUE(pipe.read_end.close().ok());
      EXPECT_FALSE(pipe.read_end.is_open());
      EXPECT_EQ(pipe.read_end.native(), -1);
      EXPECT_EQ(pipe.read_end.wait_readable().code(), ErrorCode::kClosed);
    });
  }
}

// Contract: F-26. A descriptor that is none, or was moved away, is closed; it is not undefined behaviour.
TEST(Io, NoDescriptorIsClosed) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Descriptor none;
    EXPECT_EQ(none.write_all("x").code(), ErrorCode::kClosed);
    EXPECT_TRUE(none.close().ok());
    Pipe pipe = make_pipe().value();
    Descriptor moved = std::move(pipe.read_end);
    EXPECT_TRUE(moved.is_open());
    EXPECT_FALSE(pipe.read_end.is_open());  // NOLINT(bugprone-use-after-move): that is what is tested.
    EXPECT_EQ(Descriptor::adopt(-1).code(), ErrorCode::kClosed);
  });
}

// Contract: F-26. A task that waits when a descriptor is closed gets Closed, even if the number is reused at once, and
// data that arrives at the new descriptor of that number reaches the new descriptor's reader.
TEST(Io, NumberUsedAgain) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    int same = 0;
    for (int round = 0; round < 200; ++round) {
      Pipe old_pipe = make_pipe().value();
      with_scope([&](Nursery& n) {
        auto stale = n.spawn([&] {
          std::byte buffer[1];
          return old_pipe.read_end.read_some(buffer).code();
        });
        until_blocked(stale);
        const int number = old_pipe.read_end.native();
        ASSERT_TRUE(old_pipe.read_end.close().ok());
        Pipe new_pipe = make_pipe().value();
        same += new_pipe.read_end.native() == number ? 1 : 0;
        ASSERT_TRUE(new_pipe.write_end.write_all("n").ok());
        EXPECT_EQ(stale.get(), ErrorCode::kClosed);
        EXPECT_EQ(read_text(new_pipe.read_end, 1), "n");
      });
    }
    EXPECT_GT(same, 0);  // Otherwise this test tested nothing.
  });
}

// Contract: F-26. The same under stress: readers, writers, closers, cancellers and deadlines at once on descriptors
// whose numbers are reused all the time. Every byte that a reader sees is one that was written to its own pipe.
TEST(Io, StressCloseAgainstEverything) {
  for (const std::size_t workers : {2U, 64U}) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      with_scope([&](Nursery& n) {
        for (int lane = 0; lane < 8; ++lane) {
          n.launch([lane] {
            for (int round = 0; round < 100; ++round) {
              Pipe pipe = make_pipe().value();
              const auto mark = static_cast<std::byte>(lane * 16 + round % 16);
              with_scope([&](Nursery& inner) {
                ErrorCode read = ErrorCode::kCancelled;  // Also if it is cancelled before it runs.
                auto reader = inner.spawn([&] {
                  for (;;) {
                    std::byte buffer[64];
                    const Result<std::size_t> count = pipe.read_end.read_some(buffer, 1h);
                    read = count.code();
                    if (!count.ok() || *count == 0) return;
                    for (std::size_t i = 0; i < *count; ++i) EXPECT_EQ(buffer[i], mark);
                  }
                });
                auto timed = inner.spawn([&] { return pipe.read_end.wait_readable(50us).code(); });
                auto writer = inner.spawn([&] {
                  for (int i = 0; i < 20; ++i) {
                    if (const auto r = pipe.write_end.write_all(std::span(&mark, 1)); !r.ok()) return r.code();
                    if (i % 5 == 0) yield();
                  }
                  return ErrorCode::kOk;
                });
                for (int i = 0; i < round % 7; ++i) yield();
                if (round % 3 == 0) reader.cancel();
                EXPECT_TRUE(pipe.read_end.close().ok());
                reader.wait();
                EXPECT_TRUE(read == ErrorCode::kClosed || (read == ErrorCode::kCancelled && round % 3 == 0))
                    << to_string(read);
                const ErrorCode waited = timed.get();
                EXPECT_TRUE(waited == ErrorCode::kClosed || waited == ErrorCode::kOk ||
                            waited == ErrorCode::kDeadlineExceeded);
                const ErrorCode written = writer.get();
                EXPECT_TRUE(written == ErrorCode::kOk || written == ErrorCode::kClosed) << to_string(written);
              });
            }
          });
        }
      });
    });
  }
}

// Contract: F-26. Several tasks may read from one descriptor: each byte reaches one of them, and all of them return.
TEST(Io, SeveralReadersShareWhatArrives) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Pipe pipe = make_pipe().value();
    with_scope([&](Nursery& n) {
      std::vector<Task<int>> readers;
      for (int i = 0; i < 4; ++i) {
        readers.push_back(n.spawn([&] {
          int sum = 0;
          std::byte byte;
          while (pipe.read_end.read_some(std::span(&byte, 1)).value() == 1) sum += static_cast<int>(byte);
          return sum;
        }));
      }
      int sum = 0;
      for (int i = 0; i < 500; ++i) {
        const auto byte = static_cast<std::byte>(i % 200);
        sum += static_cast<int>(byte);
        ASSERT_TRUE(pipe.write_end.write_all(std::span(&byte, 1)).ok());
        if (i % 50 == 0) yield();
      }
      ASSERT_TRUE(pipe.write_end.close().ok());
      for (auto& reader : readers) sum -= reader.get();
      EXPECT_EQ(sum, 0);
    });
  });
}

// Contract: F-26. Other descriptors: an eventfd through wait_readable(), a file that is always ready.
TEST(Io, OtherDescriptors) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Descriptor event = Descriptor::adopt(eventfd(0, EFD_CLOEXEC)).value();
    with_scope([&](Nursery& n) {
      auto waiter = n.spawn([&] { return event.wait_readable().code(); });
      until_blocked(waiter);
      EXPECT_TRUE(event.wait_writable().ok());
      const std::uint64_t one = 1;
      EXPECT_EQ(write(event.native(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
      EXPECT_EQ(waiter.get(), ErrorCode::kOk);
    });
    Descriptor null = Descriptor::adopt(open("/dev/null", O_RDWR | O_CLOEXEC)).value();
    EXPECT_TRUE(null.wait_readable().ok());
    EXPECT_TRUE(null.write_all("x").ok());
    const int fd = null.release();
    EXPECT_FALSE(null.is_open());
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
  });
}

// Contract: F-26. Outside a task what is ready works, and what would wait is refused.
TEST(Io, OutsideTheRuntime) {
  Pipe pipe = make_pipe().value();
  std::byte buffer[1];
  EXPECT_EQ(pipe.read_end.read_some(buffer).code(), ErrorCode::kOutsideRuntime);
  EXPECT_TRUE(pipe.write_end.write_all("x").ok());
  EXPECT_EQ(pipe.read_end.read_some(buffer).value(), 1U);
}

// Contract: F-26. A descriptor may outlive the runtime it was used in and be used in another, but not be waited for in
// two at once.
TEST(Io, DescriptorAndRuntimes) {
  Pipe pipe = make_pipe().value();
  std::byte buffer[1];
  {
    Runtime first({.worker_count = 1});
    first.run([&] { EXPECT_EQ(pipe.read_end.read_some(buffer, 1us).code(), ErrorCode::kDeadlineExceeded); });
  }
  Runtime second({.worker_count = 1});
  Runtime third({.worker_count = 1});
  auto reader = second.spawn([&] { return pipe.read_end.read_some(buffer).value(); });
  while (reader.state() != TaskState::kBlocked) sched_yield();
  testing::until_all_sleep(second);
  third.run([&] {
    EXPECT_EQ(pipe.read_end.wait_readable(1h).code(), ErrorCode::kFailedPrecondition);
    EXPECT_TRUE(pipe.write_end.write_all("x").ok());
  });
  EXPECT_EQ(reader.get(), 1U);
  third.run([&] { EXPECT_EQ(pipe.read_end.wait_readable(1us).code(), ErrorCode::kDeadlineExceeded); });
}

// Contract: F-26, F-28. A random program over pipes, with deadlines, cancels and closes, runs the same way again with
// the same seed, and to its end with every seed.
TEST(Io, DeterministicSeeds) {
  const auto program = [](std::uint64_t seed) {
    Runtime runtime({.worker_count = 3, .deterministic_seed = seed});
    std::uint64_t read = 0;
    runtime.run([&] {
      Pipe pipes[3] = {make_pipe().value(), make_pipe().value(), make_pipe().value()};
      with_scope([&](Nursery& n) {
        std::vector<Task<void>> readers;
        for (int i = 0; i < 3; ++i) {
          readers.push_back(n.spawn([&, i] {
            std::byte buffer[7];
            for (;;) {
              const Result<std::size_t> count =
                  pipes[i].read_end.read_some(buffer, i == 2 ? Deadline(5us) : Deadline());
              if (!count.ok() || *count == 0) break;
              read += *count;
              (void)sleep_for(std::chrono::nanoseconds(*count * 100));
            }
          }));
          n.launch([&, i] {
            for (int k = 0; k < 20; ++k) {
              if (!pipes[i].write_end.write_all("abcde").ok()) return;
              if (k % 3 == i) (void)sleep_for(std::chrono::nanoseconds(k * 333));
            }
            (void)pipes[i].write_end.close();
          });
        }
        (void)sleep_for(2us);
        readers[1].cancel();
        (void)sleep_for(1us);
        (void)pipes[1].write_end.close();
      });
    });
    return std::pair(runtime.event_hash(), read);
  };
  std::set<std::uint64_t> hashes;
  const int seeds = testing::rounds(300);
  for (int seed = 0; seed < seeds; ++seed) {
    const auto first = program(static_cast<std::uint64_t>(seed));
    EXPECT_EQ(first, program(static_cast<std::uint64_t>(seed))) << "seed " << seed;
    EXPECT_GE(first.second, 100U);  // The undisturbed pipe's.
    hashes.insert(first.first);
  }
  EXPECT_GT(hashes.size(), static_cast<std::size_t>(seeds) * 9 / 10);
}

// Contract: F-29. A task that waits for a descriptor is not a deadlock: the outside may write to it.
TEST(Io, DeterministicModeWaitsForTheOutside) {
  Pipe pipe = make_pipe().value();
  sync::Thread outside([&] { EXPECT_TRUE(pipe.write_end.write_all("x").ok()); });
  Runtime runtime({.worker_count = 2, .deterministic_seed = 1});
  runtime.run([&] { EXPECT_EQ(read_text(pipe.read_end, 1), "x"); });
}

}  // namespace
}  // namespace rota::fiber

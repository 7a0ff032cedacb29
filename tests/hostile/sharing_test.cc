// Loops that leave no room for others, books that must balance, peers that close too early (F-11, F-21, F-26, F-27).
#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hostile.h"

namespace hostile {
namespace {

// Contract: F-11. Whatever a loop is made of, as long as it charges anything, it shares its only thread worker.
TEST(Hostile, EveryLoopOfChargesShares) {
  struct Loop {
    const char* name;
    std::function<void()> once;
  };
  Config config{.worker_count = 1, .profile = Profile::kService, .root_grant = Grant{.budget = Budget::unlimited()}};
  Runtime runtime(config);
  const Grant grant{.budget = Budget::unlimited()};
  runtime.run([&] {
    Channel<int> empty;
    Channel<int> full(1);
    (void)full.send(1);
    Channel<int> closed;
    closed.close();
    Pipe pipe = make_pipe().value();
    std::pmr::vector<char> unused;
    MeteredResource metered;
    const std::vector<Loop> loops{
        {"tick", [] { tick(); }},
        {"try_receive", [&] { (void)empty.try_receive(); }},
        {"try_send", [&] { (void)full.try_send(1); }},
        {"receive from closed", [&] { (void)closed.receive(); }},
        {"send to closed", [&] { (void)closed.send(1); }},
        {"receive_for nothing", [&] { (void)empty.receive_for(0ns); }},
        {"select with a default", [&] { select(on_receive(empty, [](std::optional<int>) {}), otherwise()); }},
        {"send and receive",
         [&] {
           (void)full.receive();
           (void)full.send(1);
         }},
        {"spawn and get", [] { with_scope([](Nursery& n) { (void)n.spawn([] { return 1; }).get(); }); }},
        {"launch", [] { with_scope([](Nursery& n) { n.launch([] {}); }); }},
        {"scope", [] { with_scope([](Nursery&) {}); }},
        {"deadline", [] { (void)with_deadline(1h, [](Nursery&) {}); }},
        {"both", [] { both([] {}, [] {}); }},
        {"yield", [] { yield(); }},
        {"allocation", [&] { metered.deallocate(metered.allocate(64), 64); }},
        {"write and read",
         [&] {
           (void)pipe.write_end.write_all("x");
           std::array<std::byte, 1> byte{};
           (void)pipe.read_end.read_some(byte);
         }},
    };
    for (const Loop& loop : loops) {
      bool stop = false;  // One thread worker: never written and read at once.
      with_scope([&](Nursery& nursery) {
        nursery.launch(grant, [&] {
          while (!stop) loop.once();
        });
        // Without a share of the thread worker, this never runs, and the test hangs.
        nursery.launch(grant, [&] { stop = true; });
      });
      EXPECT_TRUE(stop) << loop.name;
    }
  });
}

// Contract: F-21. However tasks end (well, by an exception, cancelled in the queue or while they wait, refused, by an
// overflow, forked and abandoned), each that was spawned is counted as completed, cancelled or failed, once.
TEST(Hostile, StatisticsBalance) {
  const auto whatever = [](const std::function<void()>& f) {
    try {
      f();
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
  };
  for (const Profile profile : {Profile::kOpen, Profile::kService}) {
    for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(4)}) {
      Runtime runtime({.worker_count = 2, .deterministic_seed = seed, .profile = profile});
      for (int round = 0; round < 30; ++round) {
        whatever([&] {
          runtime.run([&] {
            whatever([] { both([] { throw std::runtime_error("first"); }, [] {}); });
            whatever([] { both([] {}, [] { throw std::runtime_error("second"); }); });
            whatever([] { both([] { (void)sleep_for(1us); }, [] { (void)sleep_for(2us); }); });
            Nursery nursery;
            for (int i = 0; i < 20; ++i) {
              nursery.launch([] { (void)sleep_for(1h); });
              (void)nursery.spawn([] {});
              Task<void> dropped = nursery.spawn([] { (void)sleep_for(1us); });
              dropped.cancel();
              nursery.launch({.priority = i % 2 == 0 ? Priority::kHigh : Priority::kLow}, [] {});
            }
            yield();
            if (round % 3 == 0) nursery.launch([] { throw std::runtime_error("fails"); });
            if (round % 3 == 1) nursery.cancel();
            (void)nursery.try_spawn([] {});
            (void)with_deadline(1us, [](Nursery& n) { n.launch([] { (void)sleep_for(1h); }); });
            nursery.cancel();
            (void)nursery.close();
            (void)nursery.try_spawn([] {});  // Refused.
          });
        });
      }
      whatever([&] { runtime.run([] { throw 3; }); });
      runtime.shutdown();
      const WorkerStats sum = runtime.stats().sum;
      EXPECT_EQ(sum.spawned, sum.completed + sum.cancelled + sum.failed);
      EXPECT_GT(sum.failed, 0U);
      EXPECT_GT(sum.cancelled, 0U);
      const Stats stats = runtime.stats();
      WorkerStats added;
      for (const WorkerStats& worker : stats.workers) {
        added.completed += worker.completed;
        added.failed += worker.failed;
      }
      EXPECT_EQ(added.completed, sum.completed);
      EXPECT_EQ(added.failed, sum.failed);
    }
  }
}

// Contract: F-26. A descriptor is closed while other tasks wait for it in both directions: they are told, and a new
// descriptor with the same number has nothing to do with them.
TEST(Hostile, DescriptorsClosedUnderneath) {
  Runtime runtime({.worker_count = 2});
  for (int round = 0; round < 50; ++round) {
    runtime.run([&] {
      auto [near, far] = UnixStream::pair().value();
      std::vector<std::byte> many(1 << 20);
      with_scope([&](Nursery& nursery) {
        Task<ErrorCode> reads = nursery.spawn([&] {
          std::array<std::byte, 8> bytes{};
          return near.read_exactly(bytes).code();
        });
        Task<ErrorCode> writes = nursery.spawn([&] {
          for (;;) {
            if (Result<void> written = near.write_all(many); !written.ok()) return written.code();
          }
        });
        while (reads.state() != TaskState::kBlocked || writes.state() != TaskState::kBlocked) yield();
        (void)near.close();
        auto [other, other_far] = UnixStream::pair().value();  // Gets the number that became free.
        EXPECT_NE(reads.get(), ErrorCode::kOk);
        EXPECT_NE(writes.get(), ErrorCode::kOk);
        (void)other_far.write_all("12345678");
        std::array<std::byte, 8> bytes{};
        EXPECT_TRUE(other.read_exactly(bytes).ok());
      });
    });
  }
}

// Contract: F-27. Actors that stop themselves, stop each other, ask themselves, or fail while they are stopped; limits
// that are over before they begin.
TEST(Hostile, ActorsThatMeddle) {
  using Message = std::function<void()>;
  for (const std::size_t workers : {1, 2}) {
    Runtime runtime({.worker_count = workers, .profile = Profile::kCluster});
    runtime.run([] {
      std::atomic<int> handled{0};
      with_scope([&](Nursery& nursery) {
        ActorSupervisor supervisor(nursery, {.max_restarts = 1000});
        const auto make = [] { return [](Message message) { message(); }; };
        Actor<Message> one = supervisor.start<Message>("one", make);
        Actor<Message> two = supervisor.start<Message>("two", make, {.capacity = 0});
        // An ask whose time is over before it begins, and one of oneself, which cannot be answered.
        for (const std::chrono::nanoseconds limit : {std::chrono::nanoseconds::min(), -1ns, 0ns}) {
          std::optional<Reply<int>> kept;  // Not answered, and not dropped either.
          const auto never = [&kept](Reply<int> reply) {
            kept.emplace(std::move(reply));
            return Message([] {});
          };
          EXPECT_EQ(one.ask<int>(never, limit).code(), ErrorCode::kTimeout);
        }
        ErrorCode self = ErrorCode::kOk;
        Event asked;
        EXPECT_TRUE(one.tell([&] {
          self = one.ask<int>(
                        [](Reply<int> reply) {
                          auto shared = std::make_shared<Reply<int>>(std::move(reply));
                          return Message([shared] { shared->send(1); });
                        },
                        1ms)
                     .code();
          asked.set();
        }));
        asked.wait();
        EXPECT_EQ(self, ErrorCode::kTimeout);
        // It fails, restarts, and goes on.
        EXPECT_TRUE(one.tell([] { throw std::runtime_error("fails"); }));
        EXPECT_TRUE(one.tell([&] { ++handled; }));
        // Each stops the other and itself.
        EXPECT_TRUE(two.tell([&] {
          one.stop(StopMode::kDrain);
          two.stop(StopMode::kDrain);
          ++handled;
        }));
        while (handled < 2) yield();
        while (one.tell([] {})) yield();
        while (two.tell([] {})) yield();
        supervisor.stop();
      });
      EXPECT_EQ(handled, 2);
    });
  }
}

// Contract: F-12, F-23. A private pool gets everything back from tasks that end badly: that overflow, throw, are
// cancelled while they wait, in the queue, or exhausted.
TEST(Hostile, PoolsOfTasksThatEndBadly) {
  Runtime runtime({.worker_count = 2, .profile = Profile::kService});
  runtime.run({.budget = Budget::unlimited()}, [] {
    for (int kind = 0; kind < 5; ++kind) {
      NurseryOptions options;
      options.pool = Budget{.ops = 100'000, .memory = 1 << 20, .spawn_count = 100, .channel_ops = 100, .syscalls = 100};
      options.on_exhausted = OnExhausted::kWait;
      Nursery nursery(options);
      const PoolAudit before = nursery.audit();
      Channel<int> never;
      std::vector<Task<void>> tasks;
      for (int i = 0; i < 10; ++i) {
        const Grant grant{.budget =
                              Budget{.ops = 1000, .memory = 1000, .spawn_count = 2, .channel_ops = 5, .syscalls = 1}};
        auto spawned = nursery.try_spawn(grant, [&, kind] {
          tick(10);
          if (kind == 0) throw std::runtime_error("fails");
          if (kind == 1) (void)never.receive();
          if (kind == 2) {
            for (;;) tick(100);
          }
          if (kind == 3) (void)sleep_for(1h);
          if (kind == 4) (void)nursery.try_spawn(Grant{.budget = Budget{.ops = 10}}, [] { (void)sleep_for(1h); });
        });
        if (spawned.ok()) tasks.push_back(std::move(spawned.value()));
      }
      yield();
      nursery.cancel();
      for (const Task<void>& task : tasks) {
        while (!task.is_completed()) yield();
      }
      PoolAudit after = nursery.audit();
      while (after.grants > 0) {  // A grandchild, or one whose end is visible before its account is settled.
        yield();
        after = nursery.audit();
      }
      EXPECT_TRUE(after.balanced());
      EXPECT_EQ(after.total.ops, before.total.ops) << kind;
      EXPECT_EQ(after.rest.ops + after.spent.ops, before.total.ops) << kind;
      EXPECT_EQ(after.rest.spawn_count + after.spent.spawn_count, before.total.spawn_count) << kind;
      EXPECT_EQ(after.granted.ops, 0U) << kind;
      EXPECT_EQ(after.granted.memory, 0U) << kind;
    }
  });
}

}  // namespace
}  // namespace hostile

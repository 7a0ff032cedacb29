// Wrong use, failures of every kind, and many at once (F-1 to F-9, F-24 to F-29).
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "hostile.h"

namespace hostile {
namespace {

// Contract: F-3. Ten thousand tasks throw, some of them things that are no exceptions.
TEST(Hostile, EverythingThrows) {
  Runtime runtime({.worker_count = 2});
  int caught = 0;
  for (int i = 0; i < (kSanitized ? 500 : 10'000); ++i) {
    try {
      runtime.run([i] {
        if (i % 3 == 0) throw i;
        if (i % 3 == 1) throw std::string("text");
        with_scope([](Nursery& nursery) {
          nursery.launch([] { throw std::runtime_error("child"); });
          throw std::logic_error("body");
        });
      });
    } catch (...) {
      ++caught;
    }
  }
  EXPECT_EQ(caught, kSanitized ? 500 : 10'000);
  EXPECT_EQ(runtime.run([] { return 1; }), 1);
}

// Contract: F-4. A nursery that is closed, cancelled, or somebody else's refuses, and says so.
TEST(Hostile, NurseriesThatAreNotOpen) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Nursery closed;
    EXPECT_TRUE(closed.close().ok());
    EXPECT_EQ(code_of([&] { closed.launch([] {}); }), ErrorCode::kNurseryNotActive);
    EXPECT_EQ(closed.close().code(), ErrorCode::kFailedPrecondition);
    Nursery cancelled;
    cancelled.cancel();
    EXPECT_EQ(code_of([&] { cancelled.launch([] {}); }), ErrorCode::kNurseryNotActive);
    (void)cancelled.close();
    with_scope([](Nursery& mine) {
      EXPECT_EQ(mine.spawn([&mine] { return mine.close().code(); }).get(), ErrorCode::kFailedPrecondition);
      Nursery inner;
      EXPECT_EQ(mine.close().code(), ErrorCode::kFailedPrecondition);
    });
  });
}

// Not inlined: otherwise the compiler sees, and warns of, what must not happen with it.
[[gnu::noinline]] Task<int> no_task() { return {}; }

// Contract: F-2. Handles that are empty, moved from or consumed.
TEST(Hostile, EmptyHandles) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Task<int> none = no_task();
    EXPECT_EQ(code_of([&] { (void)none.get(); }), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(code_of([&] { none.wait(); }), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(code_of([&] { (void)none.poll(); }), ErrorCode::kFailedPrecondition);
    none.cancel();
    with_scope([](Nursery& nursery) {
      Task<int> task = nursery.spawn([] { return 1; });
      Task<int> moved = std::move(task);
      EXPECT_EQ(moved.get(), 1);
      EXPECT_EQ(code_of([&] { (void)moved.get(); }), ErrorCode::kFailedPrecondition);
      moved = no_task();
    });
  });
}

// Contract: F-25. Outside of tasks a wait that needs one is an error.
TEST(Hostile, OutsideOfTasks) {
  EXPECT_EQ(code_of([] { Nursery nursery; }), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(code_of([] { both([] {}, [] {}); }), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(code_of([] { (void)Channel<int>().receive(); }), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(blocking([] { return 1; }).code(), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(code_of([] { Event().wait(); }), ErrorCode::kOutsideRuntime);
}

// Contract: F-19. shutdown() where it would wait for itself.
TEST(Hostile, ShutdownFromInside) {
  Runtime runtime({.worker_count = 1});
  const auto stop = [&] { return code_of([&] { runtime.shutdown(); }); };
  EXPECT_EQ(runtime.run(stop), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(runtime.run([&] { return blocking(stop).code(); }), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(runtime.run([&] { return with_scope([&](Nursery& n) { return n.spawn(stop).get(); }); }),
            ErrorCode::kFailedPrecondition);
  runtime.shutdown();
  EXPECT_EQ(code_of([&] { (void)runtime.spawn([] {}); }), ErrorCode::kClosed);
}

// Contract: F-19. Each value out of range is refused with its name.
TEST(Hostile, Configurations) {
  const std::pair<const char*, Config> wrong[] = {{"worker_count", {.worker_count = 5000}},
                                                  {"local_queue_size", {.local_queue_size = 0}},
                                                  {"global_queue_size", {.global_queue_size = 0}},
                                                  {"spin_count", {.spin_count = 2'000'000'000}},
                                                  {"stack_bytes", {.stack_bytes = 4096}},
                                                  {"stack_bytes", {.stack_bytes = std::size_t{1} << 40}},
                                                  {"blocking_threads", {.blocking_threads = 0}},
                                                  {"profile", {.profile = static_cast<Profile>(77)}},
                                                  {"yield_interval", {.profile = Profile::kSovereign}}};
  for (const auto& [name, config] : wrong) {
    const Result<std::unique_ptr<Runtime>> made = Runtime::create(config);
    ASSERT_FALSE(made.ok()) << name;
    EXPECT_NE(made.error().message.find(name), std::string::npos) << made.error().message;
  }
}

// Contract: F-4, F-9. Scopes ten thousand deep, cancelled from above.
TEST(Hostile, DeepScopes) {
  Runtime runtime({.worker_count = 2, .stack_bytes = 1 << 16});
  struct Deep {
    static void dive(int depth, Event& bottom) {
      with_scope([&](Nursery& nursery) {
        nursery
            .spawn([&, depth] {
              if (depth > 0) return dive(depth - 1, bottom);
              bottom.set();
              (void)sleep_for(1h);
            })
            .get();
      });
    }
  };
  runtime.run([] {
    Event bottom;
    Nursery nursery;
    nursery.launch([&] { Deep::dive(kSanitized ? 200 : 3000, bottom); });
    bottom.wait();
    nursery.cancel();
    EXPECT_EQ(nursery.close().code(), ErrorCode::kCancelled);
  });
}

// Contract: F-2, F-9. Everybody cancels everybody.
TEST(Hostile, CancellationsFromAllSides) {
  Runtime runtime({.worker_count = 4});
  runtime.run([] {
    for (int round = 0; round < 20; ++round) {
      Nursery nursery;
      std::vector<Task<void>> victims;
      for (int i = 0; i < 50; ++i) victims.push_back(nursery.spawn([] { (void)sleep_for(1h); }));
      with_scope([&](Nursery& attackers) {
        for (int i = 0; i < 4; ++i) {
          attackers.launch([&] {
            for (const Task<void>& victim : victims) victim.cancel();
          });
        }
      });
      nursery.cancel();
      (void)nursery.close();
      for (const Task<void>& victim : victims) EXPECT_TRUE(victim.is_completed());
    }
  });
}

// Contract: F-24. A channel that both ends close while others send and receive loses and invents nothing.
TEST(Hostile, ChannelsClosedUnderneath) {
  Runtime runtime({.worker_count = 4});
  runtime.run([] {
    for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{100}}) {
      for (int round = 0; round < 20; ++round) {
        Channel<int> channel(capacity);
        std::atomic<int> sent{0}, received{0};
        with_scope([&](Nursery& nursery) {
          for (int i = 0; i < 4; ++i) {
            nursery.launch([&] {
              while (channel.send(1)) sent += 1;
            });
            nursery.launch([&] {
              while (channel.receive()) received += 1;
            });
          }
          while (received < 50) yield();
          for (int i = 0; i < 3; ++i) nursery.launch([&] { channel.close(); });
        });
        EXPECT_EQ(sent, received);
      }
    }
  });
}

// Contract: F-24. A select over channels that are closed, moved from or nobody's.
TEST(Hostile, SelectsOverNothing) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    Channel<int> closed;
    closed.close();
    Channel<int> moved;
    const Channel<int> keeps = std::move(moved);
    int got = 0;
    for (int i = 0; i < 10; ++i) {
      select(on_receive(closed, [&](std::optional<int> value) { got += value ? 100 : 1; }),
             on_receive(moved, [&](std::optional<int>) { got += 1000; }));  // NOLINT(bugprone-use-after-move)
    }
    EXPECT_EQ(got, 10);
    EXPECT_EQ(code_of([&] { select(on_send(closed, 1, [] {})); }), ErrorCode::kClosed);
  });
}

// Contract: F-26. One helper thread, a hundred calls, half of them cancelled while they wait for it.
TEST(Hostile, BlockingCallsQueueUp) {
  Runtime runtime({.worker_count = 2, .blocking_threads = 1});
  runtime.run([] {
    std::atomic<int> ran{0}, refused{0};
    Nursery kept;
    Nursery dropped;
    for (int i = 0; i < 100; ++i) {
      (i % 2 == 0 ? kept : dropped).launch([&] { (blocking([&] { ran += 1; }).ok() ? refused : ran) += 0; });
    }
    dropped.cancel();
    (void)dropped.close();
    EXPECT_TRUE(kept.close().ok());
    EXPECT_GE(ran, 50);
  });
}

// Contract: F-26. A peer that goes away is an error, never a signal.
TEST(Hostile, PeersThatDisappear) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    TcpListener listener = TcpListener::bind("127.0.0.1", 0).value();
    for (int round = 0; round < 20; ++round) {
      with_scope([&](Nursery& nursery) {
        nursery.launch([&] { (void)listener.accept(120s); });  // Accepts, and closes at once.
        TcpStream stream = TcpStream::connect("127.0.0.1", listener.local_address().port(), 120s).value();
        const std::string data(1 << 20, 'x');
        while (stream.write_all(data, 120s).ok()) {
        }
      });
    }
  });
}

// Contract: F-27. An actor that always fails is given up after its restarts, and its askers are told.
TEST(Hostile, AnActorThatAlwaysFails) {
  struct Fails {
    void receive(int) { throw std::runtime_error("again"); }
  };
  Runtime runtime({.worker_count = 2, .profile = Profile::kCluster});
  EXPECT_THROW(runtime.run([] {
    with_actors({.max_restarts = 3}, [](ActorSupervisor& actors) {
      Actor<int> actor = actors.start<int>("fails", [] { return Fails(); });
      while (actor.tell(1)) yield();
    });
  }),
               std::exception);
}

// Contract: F-29. A deadlock is reported, with who waits for what, and the runtime can be used again.
TEST(Hostile, DeadlocksAreNamed) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 5});
  for (int round = 0; round < 3; ++round) {
    try {
      runtime.run([] {
        Channel<int> a, b;
        with_scope([&](Nursery& nursery) {
          nursery.launch([&] { (void)a.receive(); });
          (void)b.receive();
        });
      });
      ADD_FAILURE() << "a deadlock went unnoticed";
    } catch (const FiberError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDeadlock);
      EXPECT_NE(std::string(error.what()).find("a channel's receive"), std::string::npos) << error.what();
      break;
    }
  }
}

// Contract: F-7. Handles, tokens and channels that outlive their runtime.
TEST(Hostile, WhatOutlivesTheRuntime) {
  Task<std::string> task;
  CancelToken token;
  Channel<std::string> channel(4);
  {
    Runtime runtime({.worker_count = 2});
    task = runtime.spawn([&] {
      token = current_token();
      (void)channel.send("kept");
      return std::string(1000, 'x');
    });
    task.wait();
  }
  EXPECT_EQ(task.get().size(), 1000U);
  EXPECT_FALSE(token.cancel() && token.cancel());
  EXPECT_EQ(channel.try_receive().value(), "kept");
}

// Contract: F-4. A destructor that waits while everything is being cancelled.
TEST(Hostile, DestructorsThatWork) {
  Runtime runtime({.worker_count = 2});
  std::atomic<int> destroyed{0};
  struct Busy {
    std::atomic<int>* count;
    ~Busy() {
      (void)code_of([] { (void)sleep_for(1us); });
      *count += 1;
    }
  };
  runtime.run([&] {
    for (int round = 0; round < 50; ++round) {
      Nursery nursery;
      for (int i = 0; i < 10; ++i) {
        nursery.launch([busy = std::make_unique<Busy>(&destroyed)] { (void)sleep_for(1h); });
      }
      if (round % 2 == 0) yield();
      nursery.cancel();
      (void)nursery.close();
    }
  });
  EXPECT_EQ(destroyed, 500);
}

// Contract: F-9. Everything is cancelled at once, and shut down from several threads.
TEST(Hostile, ShutdownFromEverywhere) {
  for (int round = 0; round < 10; ++round) {
    Runtime runtime({.worker_count = 2});
    std::vector<Task<void>> tasks;
    for (int i = 0; i < 20; ++i) tasks.push_back(runtime.spawn([] { (void)sleep_for(1h); }));
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        runtime.cancel_all();
        runtime.shutdown();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (Task<void>& task : tasks) EXPECT_TRUE(task.is_completed());
  }
}

}  // namespace
}  // namespace hostile

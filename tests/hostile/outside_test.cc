// Calls from where no task runs: plain threads, helper threads, callbacks and destructors that the runtime itself
// calls.
#include <atomic>
#include <cstddef>
#include <memory>
#include <memory_resource>
#include <thread>
#include <vector>

#include "hostile.h"

namespace hostile {
namespace {

struct Call {
  const char* name;
  ErrorCode plain;  // In a plain thread.
  ErrorCode (*call)();
  bool blocks = false;  // It blocks the thread; where the runtime needs the thread, it is OutsideRuntime instead.
};

// Everything that waits, opens a scope, or looks at the current task.
constexpr Call kCalls[] = {
    {"Nursery", ErrorCode::kOutsideRuntime, [] { return code_of([] { const Nursery nursery; }); }},
    {"with_scope", ErrorCode::kOutsideRuntime, [] { return code_of([] { with_scope([](Nursery&) {}); }); }},
    {"with_scope(options)", ErrorCode::kOutsideRuntime,
     [] { return code_of([] { with_scope(NurseryOptions{.pool = Reserve::all(5)}, [](Nursery&) {}); }); }},
    {"with_deadline", ErrorCode::kOutsideRuntime,
     [] { return code_of([] { (void)with_deadline(1s, [](Nursery&) {}); }); }},
    {"both", ErrorCode::kOutsideRuntime, [] { return code_of([] { both([] {}, [] {}); }); }},
    {"yield", ErrorCode::kOk, [] { return code_of([] { yield(); }); }},
    {"sleep_for", ErrorCode::kOk, [] { return sleep_for(1us).code(); }, true},
    {"sleep_until", ErrorCode::kOk, [] { return sleep_until(now() + 1us).code(); }, true},
    {"now", ErrorCode::kOk, [] { return code_of([] { (void)now(); }); }},
    {"wall_offset", ErrorCode::kOk, [] { return code_of([] { (void)wall_offset(); }); }},
    {"check_cancelled", ErrorCode::kOk, [] { return check_cancelled().code(); }},
    {"is_cancelled", ErrorCode::kOk, [] { return code_of([] { (void)is_cancelled(); }); }},
    {"current_token", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)current_token(); }); }},
    {"current_scope", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)current_scope(); }); }},
    {"current_priority", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)current_priority(); }); }},
    {"current_budget", ErrorCode::kOk, [] { return code_of([] { (void)current_budget(); }); }},
    {"recharge", ErrorCode::kOk, [] { return recharge({.ops = 1}).code(); }},
    {"tick", ErrorCode::kOk, [] { return code_of([] { tick(5000); }); }},
    {"MeterHold", ErrorCode::kOk, [] { return code_of([] { const MeterHold hold; }); }},
    {"MeteredResource", ErrorCode::kOk,
     [] {
       return code_of([] {
         MeteredResource resource;
         std::pmr::vector<int> numbers(100, 7, &resource);
       });
     }},
    {"receive", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)Channel<int>().receive(); }); }},
    {"receive(nothrow)", ErrorCode::kOutsideRuntime,
     [] { return code_of([] { (void)Channel<int>().receive(std::nothrow); }); }},
    {"receive_for", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)Channel<int>().receive_for(1s); }); }},
    {"send", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)Channel<int>().send(1); }); }},
    {"send_for", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)Channel<int>().send_for(1, 1s); }); }},
    {"try_receive", ErrorCode::kWouldBlock, [] { return Channel<int>().try_receive().code(); }},
    {"try_send", ErrorCode::kOk, [] { return Channel<int>(1).try_send(1).code(); }},
    {"send to a buffer", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)Channel<int>(1).send(1); }); }},
    {"select", ErrorCode::kOutsideRuntime,
     [] { return code_of([] { (void)select(on_receive(Channel<int>(), [](std::optional<int>) {}), after(1s)); }); }},
    {"select, otherwise", ErrorCode::kOutsideRuntime,
     [] { return code_of([] { (void)select(on_receive(Channel<int>(), [](std::optional<int>) {}), otherwise()); }); }},
    {"Mutex", ErrorCode::kOutsideRuntime,
     [] {
       return code_of([] {
         Mutex mutex;
         mutex.lock();
         mutex.unlock();
       });
     }},
    {"Mutex, try", ErrorCode::kOutsideRuntime,
     [] {
       return code_of([] {
         Mutex mutex;
         if (mutex.try_lock()) mutex.unlock();
       });
     }},
    {"Semaphore", ErrorCode::kOutsideRuntime, [] { return code_of([] { Semaphore(0).acquire(); }); }},
    {"Event", ErrorCode::kOutsideRuntime, [] { return code_of([] { Event().wait(); }); }},
    {"Event, for", ErrorCode::kOutsideRuntime, [] { return code_of([] { (void)Event().wait_for(1s); }); }},
    {"WaitGroup", ErrorCode::kOutsideRuntime, [] { return code_of([] { WaitGroup(1).wait(); }); }},
    {"CancelToken::wait_for", ErrorCode::kOk, [] { return code_of([] { (void)CancelToken().wait_for(1us); }); }, true},
    {"blocking", ErrorCode::kOutsideRuntime, [] { return blocking([] { return 1; }).code(); }},
    {"make_pipe and read", ErrorCode::kOutsideRuntime,
     [] {
       Result<Pipe> pipe = make_pipe();
       if (!pipe.ok()) return pipe.code();
       std::byte byte{};
       return pipe->read_end.read_some({&byte, 1}).code();
     }},
    {"connect", ErrorCode::kOutsideRuntime, [] { return TcpStream::connect("127.0.0.1", 1).code(); }},
    {"resolve", ErrorCode::kOutsideRuntime, [] { return resolve("localhost", 1).code(); }},
    {"read_file", ErrorCode::kOutsideRuntime, [] { return read_file("/dev/null").code(); }},
    {"with_actors", ErrorCode::kOutsideRuntime,
     [] { return code_of([] { with_actors(ActorOptions{}, [](ActorSupervisor&) {}); }); }},
};

// Contract: F-16, F-25. In a plain thread each call works, or says that it needs a task.
TEST(Hostile, CallsInPlainThreads) {
  for (const Call& call : kCalls) EXPECT_EQ(call.call(), call.plain) << call.name;
}

// Contract: F-14, F-25, F-26. In a helper thread as in a plain thread, in every profile.
TEST(Hostile, CallsInHelperThreads) {
  for (const Profile profile : {Profile::kOpen, Profile::kService}) {
    Runtime runtime({.worker_count = 1, .profile = profile});
    runtime.run([] {
      for (const Call& call : kCalls)
        EXPECT_EQ(*blocking([&] { return static_cast<int>(call.call()); }), static_cast<int>(call.plain)) << call.name;
    });
  }
}

// Makes every call on a thread that the runtime needs: as in a plain thread, but nothing blocks.
void call_everything() {
  for (const Call& call : kCalls) {
    EXPECT_EQ(call.call(), call.blocks ? ErrorCode::kOutsideRuntime : call.plain) << call.name;
  }
}

// Contract: F-8, F-14, F-25. In the callback of a token that a deadline cancels while every thread worker is busy.
TEST(Hostile, CallsInCallbacksOfDeadlines) {
  Runtime runtime({.worker_count = 1});
  std::atomic<int> called{0};
  runtime.run([&] {
    at_deadline(
        [] {
          while (check_cancelled().ok()) {
          }
        },
        [&] {
          call_everything();
          called += 1;
        });
  });
  EXPECT_EQ(called, 1);
}

// Contract: F-8, F-25. The same while every thread worker is idle.
TEST(Hostile, CallsInCallbacksOfIdleRuntimes) {
  Runtime runtime({.worker_count = 1});
  std::atomic<int> called{0};
  runtime.run([&] {
    at_deadline([] { (void)sleep_for(1h); },
                [&] {
                  call_everything();
                  called += 1;
                });
  });
  EXPECT_EQ(called, 1);
}

// Contract: F-2, F-8. Such a callback starts tasks, but cannot wait for them: they need the thread. Nor can it end the
// runtime.
TEST(Hostile, CallbacksThatWouldWaitForTheRuntime) {
  for (const std::size_t workers : {1, 2}) {
    for (const bool busy : {false, true}) {
      Runtime runtime({.worker_count = workers});
      std::atomic<int> ran{0};
      std::atomic<ErrorCode> waited{ErrorCode::kOk}, ended{ErrorCode::kOk};
      runtime.run([&] {
        at_deadline(
            [busy] {
              while (busy && check_cancelled().ok()) {
              }
              (void)sleep_for(1h);
            },
            [&] {
              waited = code_of([&] { runtime.run([&] { ran += 1; }); });
              ended = code_of([&] { runtime.shutdown(); });
            });
      });
      EXPECT_EQ(waited, ErrorCode::kOutsideRuntime);
      EXPECT_EQ(ended, ErrorCode::kFailedPrecondition);
      runtime.shutdown();
      EXPECT_EQ(ran, 1);
    }
  }
}

// Calls everything when it is destroyed. What the calls return depends on where that is: in a task that closes its
// scope or drops a handle everything works.
struct LateCaller {
  explicit LateCaller(std::atomic<int>* counter) : destroyed(counter) {}
  LateCaller(LateCaller&& other) noexcept : destroyed(std::exchange(other.destroyed, nullptr)) {}
  ~LateCaller() {
    if (destroyed == nullptr) return;
    for (const Call& call : kCalls) (void)call.call();
    *destroyed += 1;
  }
  std::atomic<int>* destroyed;
};

// Contract: F-9, F-25. In the destructors of closures that never ran, and of results that nobody took.
TEST(Hostile, CallsInDestructors) {
  for (const Profile profile : {Profile::kOpen, Profile::kService}) {
    std::atomic<int> destroyed{0};
    {
      Runtime runtime({.worker_count = 1, .profile = profile});
      runtime.run([&] {
        const Result<void> closed = [&] {
          Nursery nursery;
          for (int i = 0; i < 3; ++i) nursery.launch([late = LateCaller(&destroyed)] { ADD_FAILURE() << "it ran"; });
          nursery.cancel();
          return nursery.close();
        }();
        EXPECT_EQ(closed.code(), ErrorCode::kCancelled);
      });
      EXPECT_EQ(destroyed, 3);
      (void)runtime.spawn([&] { return std::make_unique<LateCaller>(&destroyed); });
      runtime.shutdown();  // Which lets it run; the destructor would cancel it.
    }
    EXPECT_EQ(destroyed, 4);
  }
}

// Contract: F-2, F-14. A result that a plain thread destroys after its runtime has ended.
TEST(Hostile, CallsInResultsThatOutliveTheRuntime) {
  std::atomic<int> destroyed{0};
  {
    Task<std::unique_ptr<LateCaller>> task;
    {
      Runtime runtime({.worker_count = 1});
      task = runtime.spawn([&] { return std::make_unique<LateCaller>(&destroyed); });
      runtime.shutdown();
    }
  }
  EXPECT_EQ(destroyed, 1);
}

}  // namespace
}  // namespace hostile

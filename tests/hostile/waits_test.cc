// Every kind of wait, ended in every way, and limits that are absurd (F-2, F-6, F-9, F-24, F-25, F-26).
#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hostile.h"

namespace hostile {
namespace {

using std::chrono::nanoseconds;

struct Wait {
  const char* name;
  std::function<void()> wait;  // In a task; waits for ever, or until the task is cancelled.
  bool simulated = true;       // Possible in deterministic mode.
};

// What the waits wait for. It outlives them.
struct Things {
  Things() {
    auto made = make_pipe();
    pipe = std::move(made.value());
    auto bound = TcpListener::bind();
    if (bound.ok()) listener = std::move(bound.value());
  }
  Channel<int> empty{0};
  Channel<int> full{1};
  Mutex mutex;
  Semaphore semaphore{0};
  Event event;
  WaitGroup group{1};
  CancelToken token;
  Pipe pipe;
  TcpListener listener;
};

std::vector<Wait> all_waits(Things& things, bool io) {
  std::vector<Wait> waits{
      {"receive", [&] { (void)things.empty.receive(); }},
      {"send", [&] { (void)things.empty.send(1); }},
      {"receive for", [&] { (void)things.empty.receive_for(1000h); }},
      {"receive nothrow", [&] { (void)things.empty.receive(std::nothrow); }},
      {"iterate",
       [&] {
         for (int& value : things.empty) (void)value;
       }},
      {"select", [&] { select(on_receive(things.empty, [](std::optional<int>) {}), on_send(things.empty, 1)); }},
      {"select with limit", [&] { select(on_receive(things.empty, [](std::optional<int>) {}), after(1000h)); }},
      {"sleep", [] { (void)sleep_for(1000h); }},
      {"sleep for ever", [] { (void)sleep_for(nanoseconds::max()); }},
      {"semaphore", [&] { things.semaphore.acquire(); }},
      {"semaphore for", [&] { (void)things.semaphore.try_acquire_for(1000h); }},
      {"event", [&] { things.event.wait(); }},
      {"event nothrow", [&] { (void)things.event.wait(std::nothrow); }},
      {"group", [&] { things.group.wait(); }},
      {"token", [&] { (void)things.token.wait(); }},
      {"token for", [&] { (void)things.token.wait_for(1000h); }},
      {"join",
       [] {
         with_scope([](Nursery& nursery) {
           Task<void> sleeper = nursery.spawn([] { (void)sleep_for(1000h); });
           sleeper.get();
         });
       }},
      {"join for",
       [] {
         with_scope([](Nursery& nursery) {
           Task<void> sleeper = nursery.spawn([] { (void)sleep_for(1000h); });
           (void)sleeper.wait_for(900h);
         });
       }},
      {"close", [] { with_scope([](Nursery& nursery) { nursery.launch([] { (void)sleep_for(1000h); }); }); }},
      {"both", [] { both([] { (void)sleep_for(1000h); }, [] { (void)sleep_for(1000h); }); }},
      {"a later deadline", [] { (void)with_deadline(900h, [](Nursery&) { (void)sleep_for(1000h); }); }},
      {"mutex",
       [&] {
         Event locked;
         with_scope([&](Nursery& nursery) {
           nursery.launch([&] {
             if (!things.mutex.lock(std::nothrow).ok()) return;
             locked.set();
             (void)sleep_for(1000h);
             things.mutex.unlock();
           });
           locked.wait();
           things.mutex.lock();
         });
       }},
  };
  if (!io) return waits;
  waits.push_back({"read",
                   [&] {
                     std::array<std::byte, 1> byte{};
                     (void)things.pipe.read_end.read_some(byte);
                   },
                   false});
  waits.push_back({"read with limit",
                   [&] {
                     std::array<std::byte, 1> byte{};
                     (void)things.pipe.read_end.read_some(byte, 1000h);
                   },
                   false});
  waits.push_back({"accept", [&] { (void)things.listener.accept(); }, false});
  return waits;
}

// Contract: F-9. Whatever a task waits for, each way to cancel it ends the wait: through its handle, through its
// nursery, by a deadline, by its sibling's failure, and by the end of the runtime.
TEST(Hostile, EveryWaitEndsInEveryWay) {
  for (const Profile profile : {Profile::kOpen, Profile::kService}) {
    for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(9)}) {
      for (const std::size_t workers : {1, 2}) {
        for (int way = 0; way < 5; ++way) {
          std::optional<Things> things(std::in_place);
          for (const Wait& wait : all_waits(*things, !seed.has_value())) {
            SCOPED_TRACE(std::string(wait.name) + ", way " + std::to_string(way));
            const Config config{.worker_count = workers,
                                .deterministic_seed = seed,
                                .profile = profile,
                                .root_grant = Grant{.budget = Budget::unlimited()}};
            Runtime runtime(config);
            const Grant grant{.budget = Budget::unlimited()};
            std::atomic<int> ended{0};
            std::atomic<int> begun{0};
            const auto waits = [&] {
              struct Count {
                ~Count() { ++*at; }
                std::atomic<int>* at;
              } count{&ended};
              ++begun;
              wait.wait();
            };
            if (way == 4) {
              if (seed.has_value()) continue;
              Task<void> task = runtime.spawn(grant, waits);
              while (begun == 0) std::this_thread::yield();
              runtime.cancel_all();
              runtime.shutdown();
              EXPECT_EQ(ended, 1);
              continue;
            }
            runtime.run([&] {
              if (way == 2) {
                // The deadline may pass before the task starts; then it ends without having run.
                (void)with_deadline(1ms, [&](Nursery& nursery) { nursery.launch(grant, waits); });
                EXPECT_EQ(ended, begun);
                return;
              }
              Nursery nursery;
              Task<void> task = nursery.spawn(grant, waits);
              while (begun == 0) yield();
              for (int i = 0; i < 10; ++i) yield();  // Likely it waits by now; it must end in any case.
              if (way == 0) task.cancel();
              if (way == 1) nursery.cancel();
              if (way == 3) nursery.launch([] { throw 1; });
              const TaskState state = task.state();
              // It may have acknowledged, and be about to end.
              EXPECT_TRUE(way == 3 || state == TaskState::kCancelling || state == TaskState::kCompleting ||
                          is_terminal(state))
                  << static_cast<int>(state);
              (void)nursery.close();
              EXPECT_EQ(ended, 1);
            });
          }
        }
      }
    }
  }
}

// Contract: F-6, F-24, F-25. Limits that are negative, zero, or longer than any clock: the first two never wait, and
// the last one never ends by itself.
TEST(Hostile, AbsurdLimits) {
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(9)}) {
    Runtime runtime({.worker_count = 2, .deterministic_seed = seed});
    runtime.run([] {
      for (const nanoseconds limit : {nanoseconds::min(), nanoseconds(-1), nanoseconds(0)}) {
        Channel<int> channel;
        EXPECT_EQ(channel.receive_for(limit).code(), ErrorCode::kTimeout);
        EXPECT_EQ(channel.send_for(1, limit).code(), ErrorCode::kTimeout);
        EXPECT_FALSE(CancelToken().wait_for(limit));
        EXPECT_FALSE(Event().wait_for(limit));
        EXPECT_FALSE(Semaphore(0).try_acquire_for(limit));
        WaitGroup group(1);
        EXPECT_FALSE(group.wait_for(limit));
        group.done();
        EXPECT_EQ(select(on_receive(channel, [](std::optional<int>) {}), after(limit)), 1U);
        (void)sleep_for(limit);
        EXPECT_FALSE(with_deadline(limit, [](Nursery&) { return 1; }).has_value());
        Event go;  // Outside of the body: it is destroyed before its children end.
        with_scope([&](Nursery& nursery) {
          Task<void> task = nursery.spawn([&] { go.wait(); });
          EXPECT_FALSE(task.wait_for(limit));
          go.set();
        });
      }
      for (const nanoseconds limit :
           {nanoseconds::max(), nanoseconds::max() - nanoseconds(1), nanoseconds(24h * 365 * 200)}) {
        // Each of these waits until a task that starts later ends it.
        const auto ended_by = [](auto wait, auto end) {
          return with_scope([&](Nursery& nursery) {
            auto waits = nursery.spawn(wait);
            while (waits.state() != TaskState::kBlocked) yield();
            end();
            return waits.get();
          });
        };
        Channel<int> channel;
        EXPECT_EQ(ended_by([&] { return channel.receive_for(limit).value(); }, [&] { (void)channel.send(4); }), 4);
        EXPECT_TRUE(ended_by([&] { return channel.send_for(1, limit).ok(); }, [&] { (void)channel.receive(); }));
        CancelToken token;
        EXPECT_TRUE(ended_by([&] { return token.wait_for(limit); }, [&] { token.cancel(); }));
        Event event;
        EXPECT_TRUE(ended_by([&] { return event.wait_for(limit); }, [&] { event.set(); }));
        Semaphore semaphore(0);
        EXPECT_TRUE(ended_by([&] { return semaphore.try_acquire_for(limit); }, [&] { semaphore.release(); }));
        WaitGroup group(1);
        EXPECT_TRUE(ended_by([&] { return group.wait_for(limit); }, [&] { group.done(); }));
        EXPECT_EQ(ended_by([&] { return select(on_receive(channel, [](std::optional<int>) {}), after(limit)); },
                           [&] { (void)channel.send(1); }),
                  0U);
        EXPECT_EQ(with_deadline(limit, [](Nursery& nursery) { return nursery.spawn([] { return 3; }).get(); }), 3);
        EXPECT_EQ(with_deadline(limit, [&](Nursery&) { return with_deadline(1h, [](Nursery&) { return 5; }); }), 5);
      }
    });
  }
}

// Contract: F-24. A select that could serve itself does not: a rendezvous needs another task. Values are neither lost
// nor duplicated when selects and plain operations of both kinds meet on the same channels and are cancelled.
TEST(Hostile, SelectsAgainstThemselves) {
  for (const std::optional<std::uint64_t> seed : {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(2)}) {
    Runtime runtime({.worker_count = 2, .deterministic_seed = seed});
    runtime.run([] {
      Channel<int> channel;
      int received = 0;
      EXPECT_EQ(select(on_send(channel, 1), on_receive(channel, [&](std::optional<int>) { ++received; }), after(2ms)),
                2U);
      EXPECT_EQ(received, 0);
      std::atomic<std::int64_t> in{0};
      std::atomic<std::int64_t> out{0};
      Channel<int> other(1);
      Nursery nursery;
      for (int i = 0; i < 8; ++i) {
        nursery.launch([&, i] {
          for (int round = 1; check_cancelled().ok(); ++round) {
            int got = 0;
            const int value = i * 100'000 + round;
            const auto take = [&](std::optional<int> taken) { got = taken.value_or(0); };
            try {
              const std::size_t which = select(on_send(channel, value), on_receive(channel, take),
                                               on_receive(other, take), on_send(other, value), after(50us));
              if (which == 0 || which == 3) in += value;
              out += got;
              yield();  // In this profile a loop that never waits shares its thread worker only if it says so.
            } catch (const Cancelled&) {
              EXPECT_EQ(got, 0) << "a select that was cancelled has done nothing";
              return;
            }
          }
        });
      }
      for (int i = 0; i < 200; ++i) {
        if (Result<int> value = other.receive_for(20us)) out += value.value();
        if (channel.send_for(7, 20us).ok()) in += 7;
      }
      nursery.cancel();
      (void)nursery.close();
      while (Result<int> value = other.try_receive()) out += value.value();
      EXPECT_EQ(in, out);
    });
  }
}

// Contract: F-2, F-9, F-29. A task that waits for itself, or two that wait for each other, can be cancelled; in
// deterministic mode they are reported.
TEST(Hostile, TasksThatWaitForThemselves) {
  for (int kind = 0; kind < 2; ++kind) {
    Runtime runtime({.worker_count = 1});
    runtime.run([&] {
      std::array<std::optional<Task<void>>, 2> tasks;
      Nursery nursery;
      Event go;
      for (std::size_t i = 0; i < 2; ++i) {
        tasks[i] = nursery.spawn([&, i] {
          go.wait();
          tasks[kind == 0 ? i : 1 - i]->get();
        });
      }
      yield();
      go.set();
      for (std::size_t i = 0; i < 2; ++i) {
        while (tasks[i]->state() != TaskState::kBlocked) yield();
      }
      nursery.cancel();
      EXPECT_EQ(nursery.close().code(), ErrorCode::kCancelled);
    });
  }
}

// Contract: F-4. Children spawn into the nurseries around them while these are being closed: each such task runs, or
// the spawn is refused, and none is left when the nursery has closed.
TEST(Hostile, SpawnsIntoClosingNurseries) {
  for (const std::size_t workers : {1, 2, 4}) {
    Runtime runtime({.worker_count = workers});
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> accepted{0};
      std::atomic<int> ran{0};
      std::atomic<int> refused{0};
      runtime.run([&] {
        Nursery outer;
        std::function<void(int)> grow = [&](int depth) {
          ++ran;
          with_scope([&](Nursery&) {
            for (int i = 0; depth > 0 && i < 3; ++i) {
              const bool fine = outer.try_spawn([&grow, depth] { grow(depth - 1); }).ok();
              ++(fine ? accepted : refused);
              if (i == 1) yield();
            }
          });
        };
        for (int i = 0; i < 4; ++i) {
          outer.launch([&grow] { grow(4); });
          ++accepted;
        }
        EXPECT_TRUE(outer.close().ok());
        const int after = ran;
        EXPECT_EQ(accepted, after);
        yield();
        EXPECT_EQ(ran, after) << "nothing outlives its nursery";
      });
    }
  }
}

}  // namespace
}  // namespace hostile

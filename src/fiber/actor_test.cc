// Actors: mailboxes, restarts and their rate, recharging, stopping (F-27).
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

template <class F>
void in_cluster(F&& body) {
  in_all_modes(body, 0, Profile::kCluster);
}
template <class F>
void in_virtual_cluster(F&& body) {
  in_all_modes(body, 1, Profile::kCluster);
}

template <class F>
std::pair<ErrorCode, std::string> thrown(F&& f) {
  try {
    f();
  } catch (const FiberError& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, error.what()};
  }
  return {ErrorCode::kOk, ""};
}

struct Add {
  int value;
};
struct Get {
  Reply<int> reply;
};
struct Fail {
  std::string what;
};
struct Ignore {
  Reply<int> reply;
};
using Message = std::variant<Add, Get, Fail, Ignore>;

struct Counter {
  int count = 0;
  void receive(Message message) {
    if (auto* add = std::get_if<Add>(&message)) count += add->value;
    if (auto* get = std::get_if<Get>(&message)) get->reply.send(count);
    if (auto* fail = std::get_if<Fail>(&message)) throw std::runtime_error(fail->what);
  }
};

Result<int> count_of(const Actor<Message>& actor, std::chrono::nanoseconds limit = 1h) {
  return actor.ask<int>([](Reply<int> reply) { return Get{std::move(reply)}; }, limit);
}

// Contract: F-27. Messages are handled one at a time, in the order of each sender; ask() brings the answer.
TEST(Actor, HandlesMessagesOneByOne) {
  in_cluster([] {
    with_actors({}, [](ActorSupervisor& actors) {
      const Actor<Message> counter = actors.start<Message>("counter", [] { return Counter(); });
      with_scope([&](Nursery& n) {
        for (int t = 0; t < 5; ++t) {
          n.launch([counter] {
            for (int i = 0; i < 40; ++i) EXPECT_TRUE(counter.tell(Add{1}));
          });
        }
      });
      EXPECT_EQ(count_of(counter).value(), 200);
      EXPECT_EQ(counter.name(), "counter");
      EXPECT_EQ(counter.restarts(), 0U);
    });
  });
}

// Contract: F-27. A function will do as well; the mailbox is a bounded channel that pushes back.
TEST(Actor, AMailboxPushesBack) {
  in_virtual_cluster([] {
    Event go;
    std::vector<int> seen;
    with_actors({}, [&](ActorSupervisor& actors) {
      const auto slow = actors.start<std::unique_ptr<int>>("slow",
                                                           [&] {
                                                             return [&](std::unique_ptr<int> value) {
                                                               go.wait();
                                                               seen.push_back(*value);
                                                             };
                                                           },
                                                           {.capacity = 2});
      EXPECT_TRUE(slow.tell(std::make_unique<int>(0)));
      (void)sleep_for(1ms);  // It has taken this one.
      EXPECT_TRUE(slow.try_tell(std::make_unique<int>(1)).ok());
      EXPECT_TRUE(slow.try_tell(std::make_unique<int>(2)).ok());
      EXPECT_EQ(slow.try_tell(std::make_unique<int>(3)).code(), ErrorCode::kWouldBlock);
      EXPECT_EQ(slow.tell_for(std::make_unique<int>(3), 10us).code(), ErrorCode::kTimeout);
      EXPECT_EQ(slow.mailbox().size(), 2U);
      go.set();
      EXPECT_TRUE(slow.tell(std::make_unique<int>(4)));
    });
    EXPECT_EQ(seen, (std::vector<int>{0, 1, 2, 4})) << "the end of the scope drains the mailbox";
  });
}

// Contract: F-27. An actor that fails restarts with a new state; the mailbox stays; the asker of the lost message is
// told.
TEST(Actor, IsRestartedWithItsMailbox) {
  in_cluster([] {
    int made = 0;
    with_actors({.max_restarts = 3}, [&](ActorSupervisor& actors) {
      const Actor<Message> other = actors.start<Message>("other", [] { return Counter(); });
      const Actor<Message> counter = actors.start<Message>("counter", [&made] {
        ++made;
        return Counter();
      });
      EXPECT_TRUE(other.tell(Add{7}));
      EXPECT_TRUE(counter.tell(Add{5}));
      EXPECT_TRUE(counter.tell(Fail{"first"}));
      EXPECT_TRUE(counter.tell(Add{1}));
      EXPECT_TRUE(counter.tell(Add{2}));
      EXPECT_EQ(count_of(counter).value(), 3) << "what came after the failure, without the state before it";
      EXPECT_EQ(counter.restarts(), 1U);
      EXPECT_EQ(made, 2);
      EXPECT_EQ(count_of(other).value(), 7) << "one for one: the other kept its state";
      EXPECT_EQ(other.restarts(), 0U);
      const Result<int> ignored = counter.ask<int>([](Reply<int> reply) { return Ignore{std::move(reply)}; }, 1h);
      EXPECT_EQ(ignored.code(), ErrorCode::kClosed) << "a question that is dropped has no answer";
    });
  });
}

#if (defined(__x86_64__) || defined(__aarch64__)) && !ROTA_ASAN && !ROTA_TSAN
[[gnu::noinline]] int for_ever(int depth) {  // NOLINT(misc-no-recursion)
  volatile char frame[256];
  frame[0] = static_cast<char>(depth);
  if (depth < 0) return 0;  // Never; the compiler does not know.
  return for_ever(depth + 1) + frame[0];
}

// Contract: F-27, F-23. An actor whose stack overflows, in the handler or the factory, also with a scope open, has
// failed like one that throws: it restarts with its mailbox, and the others do not notice. Beyond the rate the
// supervisor gives up and names the overflow.
TEST(Actor, IsRestartedAfterAnOverflow) {
  in_cluster([] {
    int made = 0;
    int handled = 0;
    with_actors({.max_restarts = 3}, [&](ActorSupervisor& actors) {
      const Actor<Message> other = actors.start<Message>("other", [] { return Counter(); });
      EXPECT_TRUE(other.tell(Add{7}));
      const Actor<int> deep = actors.start<int>("deep", [&] {
        if (++made == 2) (void)for_ever(0);
        return [&](int value) {
          if (value == 1) (void)for_ever(0);
          if (value == 2) {
            with_scope([](Nursery& n) {
              n.launch([] { (void)sleep_for(1h); });
              yield();
              (void)for_ever(0);
            });
          }
          ++handled;
        };
      });
      for (int value = 0; value < 5; ++value) EXPECT_TRUE(deep.tell(value));
      deep.stop();
      while (handled < 3) (void)sleep_for(10us);
      EXPECT_EQ(deep.restarts(), 3U);
      EXPECT_EQ(made, 4);
      EXPECT_EQ(count_of(other).value(), 7);
      EXPECT_EQ(other.restarts(), 0U);
    });
    EXPECT_EQ(handled, 3) << "0, 3 and 4";
    const auto [code, what] = thrown([] {
      with_actors({.max_restarts = 1}, [](ActorSupervisor& actors) {
        const Actor<int> deep = actors.start<int>("deep", [] { return [](int) { (void)for_ever(0); }; });
        for (int i = 0; i < 2; ++i) EXPECT_TRUE(deep.tell(i));
        (void)sleep_for(24h);
      });
    });
    EXPECT_EQ(code, ErrorCode::kResourceExhausted) << what;
    EXPECT_NE(what.find("StackOverflow"), std::string::npos) << what;
  });
}
#endif

// Contract: F-27. One for all: when one fails, all start again with new states.
TEST(Actor, AllAreRestartedTogether) {
  in_cluster([] {
    with_actors({.on_failure = OnFailure::kRestartAll, .max_restarts = 3}, [](ActorSupervisor& actors) {
      const Actor<Message> one = actors.start<Message>("one", [] { return Counter(); });
      const Actor<Message> two = actors.start<Message>("two", [] { return Counter(); });
      EXPECT_TRUE(one.tell(Add{1}));
      EXPECT_TRUE(two.tell(Add{2}));
      EXPECT_EQ(count_of(two).value(), 2);
      EXPECT_TRUE(one.tell(Fail{"x"}));
      while (two.restarts() == 0) (void)sleep_for(10us);
      EXPECT_EQ(count_of(two).value(), 0);
      EXPECT_EQ(count_of(one).value(), 0);
      EXPECT_EQ(one.restarts(), 1U);
      EXPECT_EQ(two.restarts(), 1U);
    });
  });
}

// Contract: F-27. Beyond the rate the supervisor gives up: all actors end, and the scope fails with a clear error.
TEST(Actor, GivesUpBeyondTheRate) {
  in_cluster([] {
    std::optional<Actor<Message>> kept;
    const auto [code, what] = thrown([&] {
      with_actors({.max_restarts = 2, .window = 1h}, [&](ActorSupervisor& actors) {
        const Actor<Message> counter = actors.start<Message>("counter", [] { return Counter(); });
        kept = actors.start<Message>("other", [] { return Counter(); });
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(counter.tell(Fail{"failure " + std::to_string(i)}));
        EXPECT_EQ(sleep_for(24h).code(), ErrorCode::kCancelled) << "the body, too, is cancelled";
      });
    });
    EXPECT_EQ(code, ErrorCode::kResourceExhausted);
    EXPECT_NE(what.find("'counter'"), std::string::npos) << what;
    EXPECT_NE(what.find("2 restarts"), std::string::npos) << what;
    EXPECT_NE(what.find("failure 2"), std::string::npos) << what;
    EXPECT_FALSE(kept->tell(Add{1})) << "its mailbox is closed";
    EXPECT_EQ(count_of(*kept).code(), ErrorCode::kClosed);
  });
}

// Contract: F-27. The rate counts within the window, on the runtime's clock: slow failures never reach the limit.
TEST(Actor, TheWindowMoves) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 4, .profile = Profile::kCluster});
  runtime.run([] {
    with_actors({.max_restarts = 2, .window = 1s}, [](ActorSupervisor& actors) {
      const Actor<Message> counter = actors.start<Message>("counter", [] { return Counter(); });
      for (std::uint64_t i = 0; i < 20; ++i) {
        EXPECT_TRUE(counter.tell(Fail{"slowly"}));
        (void)sleep_for(600ms);
        EXPECT_EQ(counter.restarts(), i + 1);
      }
    });
  });
}

// Contract: F-27. Without restarts the failure itself is what the scope fails with.
TEST(Actor, GivesUpAtOnceIfAsked) {
  in_cluster([] {
    const auto [code, what] = thrown([] {
      with_actors({.on_failure = OnFailure::kGiveUp}, [](ActorSupervisor& actors) {
        const Actor<Message> counter = actors.start<Message>("counter", [] { return Counter(); });
        EXPECT_TRUE(counter.tell(Fail{"the reason"}));
        (void)sleep_for(24h);
      });
    });
    EXPECT_EQ(code, ErrorCode::kInternal);
    EXPECT_EQ(what, "the reason");
  });
}

// Contract: F-27. A factory that throws is a failure like any other.
TEST(Actor, AFactoryMayFail) {
  in_cluster([] {
    int tries = 0;
    with_actors({.max_restarts = 3}, [&](ActorSupervisor& actors) {
      const Actor<Message> counter = actors.start<Message>("counter", [&tries] {
        if (++tries < 3) throw std::runtime_error("not yet");
        return Counter();
      });
      EXPECT_TRUE(counter.tell(Add{4}));
      EXPECT_EQ(count_of(counter).value(), 4);
      EXPECT_EQ(counter.restarts(), 2U);
    });
  });
}

// Contract: F-27, F-11. An actor that has run out of budget is recharged by its supervisor and keeps its state.
TEST(Actor, IsRechargedByItsSupervisor) {
  in_cluster([] {
    with_actors({.recharge = {.ops = 100, .channel_ops = 20}}, [](ActorSupervisor& actors) {
      const Actor<Message> counter = actors.start<Message>(
          "counter", [] { return Counter(); }, {.grant = Grant{.budget = Budget{.ops = 50, .channel_ops = 10}}});
      for (int i = 0; i < 200; ++i) EXPECT_TRUE(counter.tell(Add{1}));
      EXPECT_EQ(count_of(counter).value(), 200);
      EXPECT_EQ(counter.restarts(), 0U);
      EXPECT_GE(counter.recharges(), 8U);
    });
  });
}

// Contract: F-27, F-11. Or it is restarted, or the supervisor gives up when the pool is dry.
TEST(Actor, ExhaustionCanBeAFailure) {
  in_cluster([] {
    with_actors({.on_exhausted = OnActorExhausted::kFail, .max_restarts = 100}, [](ActorSupervisor& actors) {
      const Actor<Message> counter = actors.start<Message>(
          "counter", [] { return Counter(); }, {.grant = Grant{.budget = Budget{.ops = 50, .channel_ops = 10}}});
      for (int i = 0; i < 25; ++i) EXPECT_TRUE(counter.tell(Add{1}));
      EXPECT_LT(count_of(counter).value(), 25);
      EXPECT_GE(counter.restarts(), 2U);
      EXPECT_EQ(counter.recharges(), 0U);
    });
    const auto [code, what] = thrown([] {
      const NurseryOptions options{
          .pool = Reserve{100'000, 1'000'000, 100, 60, 100},
          .default_child = Budget{.ops = 10'000, .memory = 1000, .spawn_count = 10, .channel_ops = 20}};
      with_scope(options, [](Nursery& n) {
        // The supervisor draws its own budget from the pool, the actor a little of what is left.
        n.spawn(Grant{.budget = Budget{.ops = 10'000, .memory = 1000, .spawn_count = 50, .channel_ops = 20}}, [] {
           with_actors({.max_restarts = 1, .recharge = {.ops = 10, .channel_ops = 1000}}, [](ActorSupervisor& actors) {
             const Actor<Message> counter = actors.start<Message>(
                 "counter", [] { return Counter(); }, {.grant = Grant{.budget = Budget{.ops = 50, .channel_ops = 2}}});
             for (int i = 0; i < 8 && counter.tell(Add{1}); ++i) {
             }
             (void)sleep_for(24h);
           });
         }).get();
      });
    });
    EXPECT_EQ(code, ErrorCode::kResourceExhausted) << what;
  });
}

// Contract: F-27. stop() drains or drops; askers of dropped messages are told; nothing is started afterwards.
TEST(Actor, StopDrainsOrDrops) {
  in_cluster([] {
    Event go;
    sync::Atomic<int> handled{0};
    const auto make = [&] {
      return [&](Message) {
        handled.fetch_add(1);
        go.wait();
      };
    };
    with_actors({}, [&](ActorSupervisor& actors) {
      const Actor<Message> drops = actors.start<Message>("drops", make);
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(drops.tell(Add{1}));
      while (handled.load() == 0) (void)sleep_for(10us);
      with_scope([&](Nursery& n) {
        Task<Result<int>> asked = n.spawn([&] { return count_of(drops); });
        (void)sleep_for(1ms);
        drops.stop(StopMode::kDrop);  // The handler waits forever, so it is cancelled.
        EXPECT_EQ(asked.get().code(), ErrorCode::kClosed);
      });
      EXPECT_FALSE(drops.tell(Add{1}));
      EXPECT_EQ(handled.load(), 1);
      const Actor<Message> drains = actors.start<Message>("drains", make);
      for (int i = 0; i < 5; ++i) EXPECT_TRUE(drains.tell(Add{1}));
      drains.stop();
      EXPECT_EQ(drains.try_tell(Add{1}).code(), ErrorCode::kClosed);
      go.set();
      actors.stop();
      EXPECT_EQ(handled.load(), 6);
      EXPECT_EQ(thrown([&] { (void)actors.start<Message>("late", make); }).first, ErrorCode::kClosed);
    });
  });
}

// Contract: F-27. Structured concurrency: when the surrounding nursery is cancelled, or its body throws, the actors
// end, and later questions are refused. Tried at every moment of their lives.
TEST(Actor, EndsWithItsNursery) {
  in_cluster([] {
    for (int moment = 0; moment < 6; ++moment) {
      sync::Atomic<int> alive{0};
      struct State {
        sync::Atomic<int>* alive;
        explicit State(sync::Atomic<int>* counter) : alive(counter) { alive->fetch_add(1); }
        State(State&& other) noexcept : alive(std::exchange(other.alive, nullptr)) {}
        ~State() {
          if (alive != nullptr) alive->fetch_sub(1);
        }
        void receive(Message) { (void)sleep_for(24h); }
      };
      std::optional<Actor<Message>> kept;
      const auto [code, what] = thrown([&] {
        with_scope([&](Nursery& n) {
          ActorSupervisor actors(n, {});
          kept = actors.start<Message>("one", [&alive] { return State(&alive); });
          if (moment % 3 > 0) {
            EXPECT_TRUE(kept->tell(Add{1}));
          }
          if (moment % 3 > 1) (void)sleep_for(100us);
          if (moment < 3) throw std::runtime_error("the body");
          n.cancel();
        });
      });
      EXPECT_EQ(code, moment < 3 ? ErrorCode::kInternal : ErrorCode::kCancelled) << what;
      EXPECT_EQ(alive.load(), 0);
      EXPECT_EQ(kept->try_tell(Add{1}).code(), ErrorCode::kClosed);
      kept->stop(StopMode::kDrop);
    }
  });
}

// Contract: F-27. A limit on a question: Timeout; the late answer goes nowhere.
TEST(Actor, AskHasALimit) {
  in_cluster([] {
    Event go;                    // The answer to the first question waits until its asker has given up.
    std::vector<bool> accepted;  // What the actor is told of its answers; read when the actor has ended.
    with_actors({}, [&](ActorSupervisor& actors) {
      const Actor<Message> slow = actors.start<Message>("slow", [&] {
        return [&](Message message) {
          go.wait();
          if (auto* get = std::get_if<Get>(&message)) accepted.push_back(get->reply.send(1));
        };
      });
      EXPECT_EQ(count_of(slow, 100us).code(), ErrorCode::kTimeout);
      go.set();
      EXPECT_EQ(count_of(slow).value(), 1);
    });
    EXPECT_EQ(accepted, (std::vector<bool>{false, true}));
  });
}

// Contract: F-27, F-15. In `open` they work unmetered; in `core` starting one is an error, as spawning is.
TEST(Actor, OtherProfiles) {
  Runtime open({.worker_count = 2});
  EXPECT_EQ(open.run([] {
    return with_actors({}, [](ActorSupervisor& actors) {
      const Actor<Message> counter = actors.start<Message>("counter", [] { return Counter(); });
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(counter.tell(Add{1}));
      return count_of(counter).value();
    });
  }),
            100);
  Runtime core({.worker_count = 1, .profile = Profile::kCore});
  EXPECT_EQ(thrown([&core] { core.run([] { with_actors({}, [](ActorSupervisor&) {}); }); }).first,
            ErrorCode::kNurseryNotActive);
  Runtime sovereign({.worker_count = 1,
                     .profile = Profile::kSovereign,
                     .yield_interval = 1000,
                     .default_budget = Budget{.ops = 10'000, .channel_ops = 100}});
  sovereign.run(
      [] { EXPECT_EQ(thrown([] { with_actors({}, [](ActorSupervisor&) {}); }).first, ErrorCode::kCapabilityDenied); });
}

// Contract: F-27. Told from threads outside, on more workers than cores, with failures in between: every message is
// handled, but for those at which it failed.
TEST(Actor, UnderLoad) {
  Runtime runtime({.worker_count = 8, .profile = Profile::kCluster});
  sync::Atomic<int> handled{0};
  runtime.run([&handled] {
    with_actors({.max_restarts = 1000, .window = 1h}, [&](ActorSupervisor& actors) {
      constexpr int kMessages = ROTA_TSAN ? 200 : 1000;
      std::vector<Actor<int>> all;
      for (int i = 0; i < 4; ++i) {
        all.push_back(actors.start<int>("actor", [&handled] {
          return [&handled](int value) {
            handled.fetch_add(1);
            if (value % 50 == 49) throw std::runtime_error("now and then");
          };
        }));
      }
      with_scope([&](Nursery& n) {
        for (const auto& actor : all) {
          for (int t = 0; t < 3; ++t) {
            n.launch([actor] {
              for (int i = 0; i < kMessages; ++i) EXPECT_TRUE(actor.tell(i));
            });
          }
        }
      });
      actors.stop();
      EXPECT_EQ(handled.load(), 4 * 3 * kMessages);
      for (const auto& actor : all) EXPECT_EQ(actor.restarts(), 3U * kMessages / 50);
    });
  });
}

}  // namespace
}  // namespace rota::fiber

// Channels: order, closing, waiting, cancelling, and that every value arrives exactly once (F-24).
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

// Contract: F-24. A full channel makes its sender wait, an empty one its receiver; values keep their order.
TEST(Channel, KeepsTheOrderWithAnyCapacity) {
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{100}, SIZE_MAX}) {
    SCOPED_TRACE(capacity);
    in_all_modes([capacity] {
      Channel<int> channel(capacity);
      EXPECT_EQ(channel.capacity(), capacity);
      with_scope([&](Nursery& n) {
        n.launch([channel] {
          for (int i = 0; i < 300; ++i) EXPECT_TRUE(channel.send(i));
          channel.close();
        });
        int expected = 0;
        for (const int value : channel) {
          EXPECT_EQ(value, expected++);
          EXPECT_LE(channel.size(), capacity);
        }
        EXPECT_EQ(expected, 300);
      });
    });
  }
}

// Contract: F-24. A send without room has not happened before there is a receiver, or room.
TEST(Channel, ASendWaitsForRoom) {
  for (const std::size_t capacity : {0U, 1U, 3U}) {
    Runtime runtime({.worker_count = 2, .deterministic_seed = 5});
    runtime.run([capacity] {
      Channel<int> channel(capacity);
      std::size_t sent = 0;
      with_scope([&](Nursery& n) {
        n.launch([&] {
          for (int i = 0; i < 10; ++i) {
            ASSERT_TRUE(channel.send(i));
            ++sent;
          }
        });
        for (int i = 0; i < 10; ++i) {
          (void)sleep_for(1ms);  // Virtual: everything that can run has run.
          EXPECT_EQ(sent, std::min<std::size_t>(capacity + static_cast<std::size_t>(i), 10));
          EXPECT_EQ(channel.receive(), i);
        }
      });
    });
  }
}

// Contract: F-24. Values of a type that can only be moved; what was not sent is still the caller's.
TEST(Channel, MovesValuesAndKeepsWhatWasNotSent) {
  in_all_modes([] {
    Channel<std::unique_ptr<int>> channel(1);
    auto first = std::make_unique<int>(1);
    auto second = std::make_unique<int>(2);
    EXPECT_TRUE(channel.try_send(std::move(first)).ok());
    EXPECT_EQ(first, nullptr);
    EXPECT_EQ(channel.try_send(std::move(second)).code(), ErrorCode::kWouldBlock);
    EXPECT_EQ(channel.send_for(std::move(second), 1us).code(), ErrorCode::kTimeout);
    ASSERT_NE(second, nullptr);
    channel.close();
    EXPECT_EQ(channel.try_send(std::move(second)).code(), ErrorCode::kClosed);
    EXPECT_EQ(channel.send_for(std::move(second), 1us).code(), ErrorCode::kClosed);
    EXPECT_FALSE(channel.send(std::move(second)));
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(**channel.receive(), 1);
    EXPECT_FALSE(channel.receive().has_value());
  });
}

struct NoDefault {
  explicit NoDefault(int v) : value(v) {}
  NoDefault(NoDefault&&) = default;
  int value;
};
struct alignas(64) Aligned {
  std::uint64_t value;
};

// Values that have no default, or need to be aligned, or are larger than a chunk of the buffer.
TEST(Channel, TakesAnyMovableType) {
  in_all_modes([] {
    Channel<NoDefault> plain(2);
    EXPECT_TRUE(plain.send(NoDefault(7)));
    EXPECT_EQ(plain.try_receive().value().value, 7);
    auto aligned = Channel<Aligned>::unbounded();
    for (std::uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(aligned.send({i}));
    for (std::uint64_t i = 0; i < 100; ++i) {
      const std::optional<Aligned> value = aligned.receive();
      EXPECT_EQ(value->value, i);
    }
    Channel<std::array<int, 1000>> large(3);
    EXPECT_TRUE(large.send({1, 2, 3}));
    EXPECT_TRUE(large.send({4}));
    EXPECT_EQ((*large.receive())[2], 3);
    EXPECT_EQ((*large.receive())[0], 4);
  });
}

// Contract: F-24. try_ tells empty and full from closed, and does not wait.
TEST(Channel, TryTellsFullFromClosed) {
  in_all_modes([] {
    Channel<int> channel(2);
    EXPECT_EQ(channel.try_receive().code(), ErrorCode::kWouldBlock);
    EXPECT_TRUE(channel.try_send(1).ok());
    EXPECT_TRUE(channel.try_send(2).ok());
    EXPECT_EQ(channel.try_send(3).code(), ErrorCode::kWouldBlock);
    EXPECT_EQ(channel.size(), 2U);
    EXPECT_EQ(channel.try_receive().value(), 1);
    EXPECT_TRUE(channel.try_send(4).ok());
    EXPECT_FALSE(channel.is_closed());
    EXPECT_TRUE(channel.close());
    EXPECT_FALSE(channel.close());
    EXPECT_TRUE(channel.is_closed());
    EXPECT_EQ(channel.try_send(5).code(), ErrorCode::kClosed);
    EXPECT_EQ(channel.try_receive().value(), 2);
    EXPECT_EQ(channel.try_receive().value(), 4);
    EXPECT_EQ(channel.try_receive().code(), ErrorCode::kClosed);
    Channel<int> rendezvous;
    EXPECT_EQ(rendezvous.try_send(1).code(), ErrorCode::kWouldBlock);
    EXPECT_EQ(rendezvous.try_receive().code(), ErrorCode::kWouldBlock);
  });
}

// Contract: F-24. Closing ends every wait; receivers that come later drain the buffer first.
TEST(Channel, CloseEndsEveryWait) {
  in_all_modes([] {
    Channel<int> empty(1);
    Channel<int> full(1);
    EXPECT_TRUE(full.try_send(1).ok());
    sync::Atomic<int> ended{0};
    with_scope([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) {
        n.launch([&] {
          EXPECT_FALSE(empty.receive().has_value());
          ended.fetch_add(1);
        });
        n.launch([&] {
          EXPECT_FALSE(full.send(2));
          ended.fetch_add(1);
        });
      }
      (void)sleep_for(100us);
      EXPECT_EQ(ended.load(), 0);
      empty.close();
      full.close();
    });
    EXPECT_EQ(ended.load(), 10);
    EXPECT_EQ(full.receive(), 1);
    EXPECT_FALSE(full.receive().has_value());
  });
}

// Contract: F-24. A limit ends a wait, and the waiter is then not served any more.
TEST(Channel, LimitsEndWaits) {
  in_all_modes([] {
    Channel<int> channel;
    EXPECT_EQ(channel.receive_for(10us).code(), ErrorCode::kTimeout);
    EXPECT_EQ(channel.receive_for(0us).code(), ErrorCode::kTimeout);
    EXPECT_EQ(channel.receive_for(-1us).code(), ErrorCode::kTimeout);
    EXPECT_EQ(channel.send_for(1, 10us).code(), ErrorCode::kTimeout);
    EXPECT_EQ(channel.try_receive().code(), ErrorCode::kWouldBlock) << "the timed-out sender is gone";
    EXPECT_EQ(channel.try_send(1).code(), ErrorCode::kWouldBlock) << "the timed-out receiver is gone";
    with_scope([&](Nursery& n) {
      n.launch([&] { EXPECT_EQ(channel.receive_for(std::chrono::nanoseconds::max()).value(), 2); });
      EXPECT_TRUE(channel.send_for(2, 1h).ok());
    });
  });
}

// Contract: F-9, F-24. A task that is cancelled while it waits at a channel is woken; nothing was sent or received.
TEST(Channel, CancellationEndsWaits) {
  in_virtual_time([] {
    Channel<int> channel;
    sync::Atomic<int> cancelled{0};
    with_scope([&](Nursery& n) {
      const auto counted = [&cancelled](auto wait) {
        try {
          (void)wait();
        } catch (const Cancelled& error) {
          EXPECT_EQ(error.reason(), CancelReason::kExplicit);
          cancelled.fetch_add(1);
          throw;
        }
      };
      std::vector<Task<void>> tasks;
      tasks.push_back(n.spawn([&] { counted([&] { return channel.receive(); }); }));
      tasks.push_back(n.spawn([&] { counted([&] { return channel.receive_for(1h).ok(); }); }));
      (void)sleep_for(100us);
      for (auto& task : tasks) task.cancel();
      for (auto& task : tasks) task.wait();
      EXPECT_EQ(channel.try_send(1).code(), ErrorCode::kWouldBlock);
      tasks.clear();
      tasks.push_back(n.spawn([&] { counted([&] { return channel.send(1); }); }));
      tasks.push_back(n.spawn([&] { counted([&] { return channel.send_for(1, 1h).ok(); }); }));
      (void)sleep_for(100us);
      for (auto& task : tasks) task.cancel();
      for (auto& task : tasks) task.wait();
      EXPECT_EQ(channel.try_receive().code(), ErrorCode::kWouldBlock);
      for (auto& task : tasks) EXPECT_EQ(task.state(), TaskState::kCancelled);
    });
    EXPECT_EQ(cancelled.load(), 4);
  });
}

// Contract: F-9. A cancelled task gets no further value, even if one is there: a loop over a busy channel ends.
TEST(Channel, ACancelledTaskStopsEvenIfItNeedNotWait) {
  in_virtual_time([] {
    auto channel = Channel<int>::unbounded();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(channel.send(i));
    with_scope([&](Nursery& n) {
      Event go;
      Task<void> task = n.spawn([&] {
        EXPECT_EQ(code_thrown([&] { go.wait(); }), ErrorCode::kCancelled);
        EXPECT_EQ(code_thrown([&] { (void)channel.receive(); }), ErrorCode::kCancelled);
        EXPECT_EQ(code_thrown([&] { (void)channel.send(1); }), ErrorCode::kCancelled);
        EXPECT_EQ(code_thrown([&] { select(on_receive(channel, [](auto) {})); }), ErrorCode::kCancelled);
        EXPECT_TRUE(channel.try_send(10).ok()) << "what cannot wait still works, for cleaning up";
      });
      (void)sleep_for(10us);
      task.cancel();
      task.wait();
    });
    EXPECT_EQ(channel.size(), 11U);
  });
}

// Contract: F-24. Every value arrives exactly once, even if receivers are cancelled or time out meanwhile.
TEST(Channel, NothingIsLostWhenWaitsEndEarly) {
  for (const std::size_t capacity : {0U, 1U, 4U}) {
    in_all_modes([capacity] {
      Channel<int> channel(capacity);
      constexpr int kValues = 300;
      std::vector<sync::Atomic<int>> seen(kValues);
      sync::Atomic<int> next{0};
      sync::Atomic<int> sent{0};
      with_scope([&](Nursery& n) {
        for (int s = 0; s < 3; ++s) {
          n.launch([&, s] {
            for (int value = next.fetch_add(1); value < kValues; value = next.fetch_add(1)) {
              while (!channel.send_for(value, std::chrono::microseconds(1 + (value + s) % 7)).ok()) yield();
              if (sent.fetch_add(1) + 1 == kValues) channel.close();
            }
          });
        }
        for (int r = 0; r < 3; ++r) {
          n.launch([&, r] {
            for (int round = 0;; ++round) {
              if (round % 5 == r) {
                // A receiver that is cancelled: it has the value, or nobody has lost it.
                with_scope([&](Nursery& inner) {
                  Task<std::optional<int>> task = inner.spawn([&] { return channel.receive(); });
                  if (round % 2 == 0) yield();
                  task.cancel();
                  try {
                    if (const std::optional<int> value = task.get())
                      seen[static_cast<std::size_t>(*value)].fetch_add(1);
                  } catch (const Cancelled&) {
                  }
                });
                continue;
              }
              const Result<int> value = channel.receive_for(std::chrono::microseconds(round % 4));
              if (value.ok()) seen[static_cast<std::size_t>(value.value())].fetch_add(1);
              if (value.code() == ErrorCode::kClosed) return;
              yield();
            }
          });
        }
      });
      for (int i = 0; i < kValues; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)].load(), 1) << i;
    });
  }
}

// Contract: F-24. Many senders, many receivers: every value once, each sender's in order. On more workers than cores,
// and on one and two, where waits are short cuts.
TEST(Channel, ManyToManyOnManyWorkers) {
  constexpr int kSenders = 8;
  constexpr int kReceivers = 6;
  constexpr int kEach = ROTA_TSAN ? 500 : 3000;
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{16}, SIZE_MAX}) {
    for (const std::size_t workers : {1U, 2U, 10U}) {
      SCOPED_TRACE(std::to_string(capacity) + " on " + std::to_string(workers));
      Runtime runtime({.worker_count = workers});
      runtime.run([capacity] {
        Channel<std::pair<int, int>> channel(capacity);
        std::vector<sync::Atomic<int>> seen(kSenders * kEach);
        with_scope([&](Nursery& n) {
          WaitGroup senders(kSenders);
          for (int r = 0; r < kReceivers; ++r) {
            n.launch([&] {
              std::array<int, kSenders> last{};
              last.fill(-1);
              for (const auto& [sender, i] : channel) {
                EXPECT_GT(i, last[static_cast<std::size_t>(sender)]) << "a sender's values overtook each other";
                last[static_cast<std::size_t>(sender)] = i;
                seen[static_cast<std::size_t>(sender * kEach + i)].fetch_add(1);
              }
            });
          }
          for (int s = 0; s < kSenders; ++s) {
            n.launch([&, s] {
              for (int i = 0; i < kEach; ++i) EXPECT_TRUE(channel.send({s, i}));
              senders.done();
            });
          }
          senders.wait();
          channel.close();
        });
        int wrong = 0;
        for (const auto& count : seen) wrong += count.load() == 1 ? 0 : 1;
        EXPECT_EQ(wrong, 0);
      });
    }
  }
}

// Contract: F-24. Closing races with sends and receives: what send() said it sent is received, and nothing else.
TEST(Channel, CloseRaces) {
  for (int round = 0; round < (ROTA_TSAN ? 12 : 60); ++round) {
    Runtime runtime({.worker_count = 4});
    runtime.run([round] {
      Channel<int> channel(static_cast<std::size_t>(round % 3));
      sync::Atomic<int> sent{0};
      sync::Atomic<int> received{0};
      with_scope([&](Nursery& n) {
        for (int s = 0; s < 3; ++s) {
          n.launch([&] {
            while (channel.send(1)) sent.fetch_add(1);
          });
          n.launch([&] {
            while (channel.receive()) received.fetch_add(1);
          });
        }
        n.launch([&] {
          for (int i = 0; i < round * 5; ++i) yield();
          channel.close();
        });
      });
      EXPECT_EQ(sent.load(), received.load());
    });
  }
}

struct ThrowingMove {
  static inline sync::Atomic<int> alive{0};
  int value;
  int* countdown;  // A move throws when this comes to 0.
  ThrowingMove(int v, int* c) : value(v), countdown(c) { alive.fetch_add(1); }
  ThrowingMove(ThrowingMove&& other) : value(other.value), countdown(other.countdown) {
    if (--*countdown == 0) throw std::runtime_error("move");
    alive.fetch_add(1);
  }
  ~ThrowingMove() { alive.fetch_sub(1); }
};

// A move that throws, at every point at which the channel moves: the channel stays usable, and the value is with its
// sender or delivered.
TEST(Channel, SurvivesMovesThatThrow) {
  for (const std::size_t capacity : {0U, 1U, 2U}) {
    for (int fail_at = 1; fail_at <= 12; ++fail_at) {
      for (std::uint64_t seed = 1; seed <= kSeeds / 4; ++seed) {
        SCOPED_TRACE(std::to_string(capacity) + "/" + std::to_string(fail_at) + "/" + std::to_string(seed));
        Runtime runtime({.worker_count = 2, .deterministic_seed = seed});
        runtime.run([capacity, fail_at] {
          int countdown = fail_at;
          std::vector<int> received;
          int receive_errors = 0;
          {
            Channel<ThrowingMove> channel(capacity);
            with_scope([&](Nursery& n) {
              n.launch([&] {
                for (int i = 0; i < 4; ++i) {
                  ThrowingMove value(i, &countdown);
                  for (;;) {
                    try {
                      EXPECT_TRUE(channel.send(std::move(value)));
                      break;
                    } catch (const std::runtime_error&) {  // Still ours: once more.
                    }
                  }
                }
                channel.close();
              });
              for (;;) {
                try {
                  std::optional<ThrowingMove> value = channel.receive();
                  if (!value) break;
                  received.push_back(value->value);
                } catch (const std::runtime_error&) {
                  ++receive_errors;
                }
              }
            });
          }
          EXPECT_EQ(received, (std::vector<int>{0, 1, 2, 3}));
          EXPECT_LE(receive_errors, 1);
        });
        EXPECT_EQ(ThrowingMove::alive.load(), 0);
      }
    }
  }
}

// What is buffered when the last handle goes is destroyed with it, across chunks.
TEST(Channel, TheLastHandleDestroysWhatIsBuffered) {
  int countdown = 1'000'000;
  {
    auto channel = Channel<ThrowingMove>::unbounded();
    for (int i = 0; i < 500; ++i) EXPECT_TRUE(channel.try_send(ThrowingMove(i, &countdown)).ok());
    for (int i = 0; i < 130; ++i) EXPECT_EQ(channel.try_receive().value().value, i);
    Channel<ThrowingMove> copy = channel;
    EXPECT_EQ(copy, channel);
    channel = Channel<ThrowingMove>(1);
    EXPECT_EQ(copy.size(), 370U);
    EXPECT_EQ(ThrowingMove::alive.load(), 370);
  }
  EXPECT_EQ(ThrowingMove::alive.load(), 0);
}

// Contract: F-24. From threads outside: what does not wait works, what waits says that it needs a task.
TEST(Channel, OutsideTheRuntime) {
  Channel<int> channel(2);
  EXPECT_EQ(code_thrown([&] { (void)channel.send(1); }), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(code_thrown([&] { (void)channel.receive(); }), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(code_thrown([&] { select(on_receive(channel, [](auto) {}), otherwise()); }), ErrorCode::kOutsideRuntime);
  Runtime runtime({.worker_count = 2});
  constexpr int kValues = 2000;
  Task<std::int64_t> sum = runtime.spawn([channel] {
    std::int64_t total = 0;
    for (const int value : channel) total += value;
    return total;
  });
  std::vector<std::thread> threads;
  sync::Atomic<int> left{3};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([channel, &left] {
      for (int i = 1; i <= kValues; ++i) {
        while (!channel.try_send(i).ok()) std::this_thread::yield();
      }
      if (left.fetch_sub(1) == 1) channel.close();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum.get(), 3LL * kValues * (kValues + 1) / 2);
  Channel<int> back(1);
  Task<void> sender = runtime.spawn([back] {
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(back.send(i));
    back.close();
  });
  int next = 0;
  for (;;) {
    const Result<int> value = back.try_receive();
    if (value.ok()) {
      EXPECT_EQ(value.value(), next++);
    }
    if (value.code() == ErrorCode::kClosed) break;
  }
  EXPECT_EQ(next, 100);
}

// Contract: F-24. A channel that was made by the only worker of a runtime, whose lock costs that worker nothing, is
// used by threads outside and by another runtime in the middle of its traffic: every value arrives once.
TEST(Channel, SharedInTheMiddleOfItsTraffic) {
  for (int round = 0; round < (ROTA_TSAN ? 5 : 40); ++round) {
    Runtime one({.worker_count = 1});
    Runtime two({.worker_count = 1});
    const Channel<int> channel = one.run([round] { return Channel<int>(static_cast<std::size_t>(round % 3)); });
    sync::Atomic<std::int64_t> sent{0};
    sync::Atomic<std::int64_t> received{0};
    sync::Atomic<int> moved{0};
    constexpr int kEnough = 2000;
    const auto traffic = [&] {
      with_scope([&](Nursery& n) {
        n.launch([&] {
          for (int i = 1; channel.send(i); ++i) sent.fetch_add(i);
        });
        n.launch([&] {
          for (const int value : channel) {
            received.fetch_add(value);
            if (moved.fetch_add(1) == kEnough) channel.close();
          }
        });
      });
    };
    Task<void> owner = one.spawn(traffic);
    while (moved.load() < 100) std::this_thread::yield();
    Task<void> stranger = two.spawn(traffic);
    std::thread outside([&] {
      for (int i = 1; !channel.is_closed(); ++i) {
        if (channel.try_send(i).ok()) sent.fetch_add(i);
        if (const Result<int> value = channel.try_receive(); value.ok()) received.fetch_add(value.value());
      }
    });
    owner.get();
    stranger.get();
    outside.join();
    while (const Result<int> rest = channel.try_receive()) received.fetch_add(rest.value());
    EXPECT_EQ(sent.load(), received.load());
  }
}

// Contract: F-24. Two runtimes talk through one channel; each wakes the other's tasks.
TEST(Channel, BetweenTwoRuntimes) {
  Runtime one({.worker_count = 1});
  Runtime two({.worker_count = 1});
  Channel<int> ping;
  Channel<int> pong;
  Task<void> answer = two.spawn([=] {
    for (const int value : ping) EXPECT_TRUE(pong.send(value + 1));
    pong.close();
  });
  one.run([=] {
    for (int i = 0; i < 300; ++i) {
      EXPECT_TRUE(ping.send(i));
      EXPECT_EQ(pong.receive(), i + 1);
    }
    ping.close();
    EXPECT_FALSE(pong.receive().has_value());
  });
  answer.get();
}

// Contract: F-10, F-24. A metered operation costs one op and one channel operation; one that is out of them waits.
TEST(Channel, OperationsArePaidFor) {
  Runtime runtime({.worker_count = 1, .profile = Profile::kService});
  runtime.run([] {
    Channel<int> channel(4);
    const Budget before = current_budget();
    EXPECT_TRUE(channel.send(1));
    EXPECT_EQ(channel.receive(), 1);
    EXPECT_TRUE(channel.try_send(1).ok());
    select(on_receive(channel, [](auto) {}), otherwise());
    const Budget after = current_budget();
    EXPECT_EQ(before.channel_ops - after.channel_ops, 4);
    EXPECT_EQ(before.ops - after.ops, 4U);
    with_scope(NurseryOptions{.on_exhausted = OnExhausted::kCancel}, [&](Nursery& n) {
      Task<void> poor = n.spawn(Grant{.budget = Budget{.ops = 100, .channel_ops = 2}}, [&] {
        (void)channel.try_send(1);
        (void)channel.try_send(2);
        EXPECT_THROW((void)channel.send(3), BudgetExhausted);
        throw BudgetExhausted();
      });
      EXPECT_THROW(poor.get(), BudgetExhausted);
    });
    EXPECT_EQ(channel.size(), 2U);
  });
}

// Contract: F-14, F-24. A channel needs CapChannel where capabilities are asked for, and gives it back at its end.
TEST(Channel, NeedsItsCapability) {
  Runtime runtime({.worker_count = 1,
                   .profile = Profile::kSovereign,
                   .yield_interval = 1000,
                   .default_budget = Budget{.ops = 10'000, .channel_ops = 100}});
  runtime.run([] { EXPECT_EQ(code_thrown([] { Channel<int> channel; }), ErrorCode::kCapabilityDenied); });
  const Capabilities two{.channel = CapChannel{.max_buffer = 4, .max_channels = 2}};
  runtime.run(Grant{.capabilities = two}, [] {
    EXPECT_EQ(code_thrown([] { Channel<int> channel(5); }), ErrorCode::kCapabilityDenied);
    EXPECT_EQ(code_thrown([] { auto channel = Channel<int>::unbounded(); }), ErrorCode::kCapabilityDenied);
    std::optional<Channel<int>> one(4);
    const Channel<int> other(4);
    EXPECT_EQ(code_thrown([] { Channel<int> channel; }), ErrorCode::kCapabilityDenied);
    const Channel<int> copy = *one;
    one.reset();
    EXPECT_EQ(code_thrown([] { Channel<int> channel; }), ErrorCode::kCapabilityDenied) << "the copy is the channel";
    EXPECT_TRUE(copy.send(1));
  });
  runtime.run(Grant{.capabilities = two}, [] {
    for (int i = 0; i < 5; ++i) Channel<int> channel;
  });
}

// Contract: F-29. The report of a deadlock names the channel operations and locks that are waited for.
TEST(Channel, DeadlocksSayWhatIsWaitedFor) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 3});
  std::string report;
  try {
    runtime.run([] {
      Channel<int> channel;
      Channel<int> other;
      Mutex mutex;
      Semaphore semaphore(0);
      Event event;
      WaitGroup group(1);
      with_scope([&](Nursery& n) {
        n.launch([&] { (void)channel.receive(); });
        n.launch([&] { (void)other.send(1); });
        n.launch([&] { select(on_receive(channel, [](auto) {})); });
        n.launch([&] { semaphore.acquire(); });
        n.launch([&] { event.wait(); });
        n.launch([&] {
          const std::lock_guard lock(mutex);
          group.wait();
        });
        (void)sleep_for(1ms);
        n.launch([&] { mutex.lock(); });
      });
    });
    ADD_FAILURE() << "a deadlock went unnoticed";
  } catch (const FiberError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDeadlock);
    report = error.what();
  }
  for (const char* what :
       {"waits for a channel's receive", "waits for a channel's send", "waits for a select", "waits for a semaphore",
        "waits for an event", "waits for a wait group", "waits for a mutex"}) {
    EXPECT_NE(report.find(what), std::string::npos) << what << " in " << report;
  }
}

}  // namespace
}  // namespace rota::fiber

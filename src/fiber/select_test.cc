// Select: exactly one case, fairly chosen, also under closing, timeouts and cancellation (F-24).
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

// Contract: F-24. What can happen, happens; the handler gets the value; the position comes back.
TEST(Select, TakesWhatIsReady) {
  in_all_modes([] {
    Channel<int> numbers(1);
    Channel<std::string> words(1);
    int number = 0;
    bool sent = false;
    EXPECT_TRUE(numbers.send(5));
    EXPECT_EQ(select(on_receive(words, [](auto) { ADD_FAILURE(); }),
                     on_receive(numbers, [&](std::optional<int> value) { number = value.value_or(-1); })),
              1U);
    EXPECT_EQ(number, 5);
    EXPECT_EQ(select(on_receive(numbers, [](auto) { ADD_FAILURE(); }), on_send(words, "hello")), 1U);
    EXPECT_EQ(
        select(on_send(words, "full", [] { ADD_FAILURE(); }), on_send(numbers, 7, [&](bool done) { sent = done; })),
        1U);
    EXPECT_TRUE(sent);
    EXPECT_EQ(words.receive(), "hello");
    EXPECT_EQ(numbers.receive(), 7);
  });
}

// Contract: F-24. A default does not wait; a timeout waits as long as it says.
TEST(Select, DefaultAndTimeout) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 1});
  runtime.run([] {
    Channel<int> channel;
    bool ran = false;
    EXPECT_EQ(select(on_receive(channel, [](auto) { ADD_FAILURE(); }), otherwise([&] { ran = true; })), 1U);
    EXPECT_TRUE(ran);
    const auto start = now();
    EXPECT_EQ(select(after(10ms), on_send(channel, 1, [] { ADD_FAILURE(); })), 0U);
    EXPECT_EQ(now() - start, 10ms);
    EXPECT_EQ(select(on_receive(channel, [](auto) { ADD_FAILURE(); }), after(0ms)), 1U);
    EXPECT_EQ(now() - start, 10ms);
    EXPECT_EQ(channel.try_receive().code(), ErrorCode::kWouldBlock) << "what did not happen left nothing behind";
    with_scope([&](Nursery& n) {
      n.launch([&] {
        (void)sleep_for(5ms);
        EXPECT_TRUE(channel.send(3));
      });
      EXPECT_EQ(select(on_receive(channel, [](std::optional<int> value) { EXPECT_EQ(value, 3); }), after(1h)), 0U);
    });
    EXPECT_EQ(now() - start, 15ms) << "the timeout is gone with its select";
  });
}

// Contract: F-24. A closed channel is ready: no value, or not sent.
TEST(Select, ClosedChannels) {
  in_all_modes([] {
    Channel<int> channel(1);
    EXPECT_TRUE(channel.send(1));
    channel.close();
    const auto receive = [&channel] {
      std::optional<int> value;
      EXPECT_EQ(select(on_receive(channel, [&](std::optional<int> v) { value = v; })), 0U);
      return value;
    };
    EXPECT_EQ(receive(), 1);
    EXPECT_EQ(receive(), std::nullopt);
    select(on_send(channel, 2, [](bool sent) { EXPECT_FALSE(sent); }));
    try {
      select(on_send(channel, 2));
      ADD_FAILURE();
    } catch (const FiberError& error) {
      EXPECT_EQ(error.code(), ErrorCode::kClosed);
    }
    Channel<int> later;
    Channel<int> both;
    with_scope([&](Nursery& n) {
      n.launch([&] { select(on_receive(later, [](std::optional<int> value) { EXPECT_FALSE(value); })); });
      n.launch([&] {
        select(on_send(both, 1, [](bool sent) { EXPECT_FALSE(sent); }),
               on_receive(both, [](std::optional<int> value) { EXPECT_FALSE(value); }));
      });
      (void)sleep_for(50us);
      later.close();
      both.close();
    });
  });
}

// Contract: F-24. Of several that are ready each is equally likely; another seed draws another order, the same the
// same.
TEST(Select, IsFairByTheSeed) {
  const auto draws = [](std::optional<std::uint64_t> deterministic, std::uint64_t seed) {
    Runtime runtime({.worker_count = 1, .deterministic_seed = deterministic, .seed = seed});
    return runtime.run([] {
      std::array<Channel<int>, 3> channels{Channel<int>(1), Channel<int>(1), Channel<int>(1)};
      std::vector<std::size_t> order;
      const auto none = [](auto) {};
      for (const auto& channel : channels) EXPECT_TRUE(channel.send(0));
      for (int i = 0; i < 3000; ++i) {
        order.push_back(
            select(on_receive(channels[0], none), on_receive(channels[1], none), on_receive(channels[2], none)));
        EXPECT_TRUE(channels[order.back()].send(0));
      }
      return order;
    });
  };
  const auto check = [](const std::vector<std::size_t>& order) {
    for (std::size_t i = 0; i < 3; ++i) {
      // Expected 1000, standard deviation 26: 200 are more than seven of them.
      EXPECT_NEAR(static_cast<double>(std::count(order.begin(), order.end(), i)), 1000, 200);
    }
  };
  const auto real = draws(std::nullopt, 1);
  check(real);
  EXPECT_EQ(real, draws(std::nullopt, 1));
  EXPECT_NE(real, draws(std::nullopt, 2));
  const auto virtual_order = draws(1, 1);
  check(virtual_order);
  EXPECT_EQ(virtual_order, draws(1, 1));
  EXPECT_NE(virtual_order, draws(2, 1));
}

// Contract: F-24. Every select makes exactly one of its cases happen, when selects meet selects at the same channels.
TEST(Select, ExactlyOneCaseHappens) {
  constexpr int kTasks = 8;
  constexpr int kEach = ROTA_TSAN ? 300 : 1500;
  for (const std::size_t capacity : {0U, 1U}) {
    Runtime runtime({.worker_count = 9});
    runtime.run([capacity] {
      std::array<Channel<int>, 3> channels{Channel<int>(capacity), Channel<int>(capacity), Channel<int>(capacity)};
      sync::Atomic<std::int64_t> sent{0}, received{0};
      sync::Atomic<int> sends{0}, receives{0};
      WaitGroup busy(kTasks);
      with_scope([&](Nursery& n) {
        for (int t = 0; t < kTasks; ++t) {
          n.launch([&, t] {
            for (int i = 0; i < kEach; ++i) {
              const int value = t * kEach + i + 1;
              // In another order in each task, and with both directions on one channel.
              const auto& a = channels[static_cast<std::size_t>((t + i) % 3)];
              const auto& b = channels[static_cast<std::size_t>((t + 2 * i + 1) % 3)];
              int happened = 0;
              select(on_send(a, value,
                             [&] {
                               ++happened;
                               sent.fetch_add(value);
                               sends.fetch_add(1);
                             }),
                     on_receive(b,
                                [&](std::optional<int> v) {
                                  ++happened;
                                  received.fetch_add(v.value());
                                  receives.fetch_add(1);
                                }),
                     after(std::chrono::microseconds(50), [&] { ++happened; }));
              EXPECT_EQ(happened, 1);
            }
            busy.done();
          });
        }
        busy.wait();
        for (const auto& channel : channels) {
          while (Result<int> rest = channel.try_receive()) {
            received.fetch_add(rest.value());
            receives.fetch_add(1);
          }
        }
      });
      EXPECT_EQ(sends.load(), receives.load());
      EXPECT_EQ(sent.load(), received.load());
      EXPECT_GT(sends.load(), 0);
    });
  }
}

// Contract: F-9, F-24. A cancelled select has made nothing happen and waits nowhere any more.
TEST(Select, CancellationEndsIt) {
  in_all_modes([] {
    Channel<int> in;
    Channel<int> out;
    with_scope([&](Nursery& n) {
      Task<void> task = n.spawn([&] {
        select(on_receive(in, [](auto) { ADD_FAILURE(); }), on_send(out, 1, [] { ADD_FAILURE(); }), after(1h));
      });
      (void)sleep_for(50us);
      task.cancel();
      EXPECT_THROW(task.get(), Cancelled);
    });
    EXPECT_EQ(in.try_send(1).code(), ErrorCode::kWouldBlock);
    EXPECT_EQ(out.try_receive().code(), ErrorCode::kWouldBlock);
  });
}

// A value that only moves stays in its case until it is sent; a case with the channel was moved from never happens.
TEST(Select, MoveOnlyValuesAndCasesThatAreOff) {
  in_all_modes([] {
    Channel<std::unique_ptr<int>> channel(1);
    Channel<std::unique_ptr<int>> other(channel);
    const Channel<std::unique_ptr<int>> moved(std::move(other));
    // NOLINTNEXTLINE(bugprone-use-after-move): that is the point.
    EXPECT_EQ(select(on_receive(other, [](auto) { ADD_FAILURE(); }), on_send(channel, std::make_unique<int>(4))), 1U);
    select(on_receive(moved, [](std::optional<std::unique_ptr<int>> value) { EXPECT_EQ(**value, 4); }));
  });
}

// More cases than fit the frame, one channel several times.
TEST(Select, ManyCases) {
  in_all_modes([] {
    std::vector<Channel<int>> channels;
    for (int i = 0; i < 40; ++i) channels.emplace_back(1);
    std::vector<std::optional<int>> values(80);
    std::vector<detail::SelectCase> cases(80);
    with_scope([&](Nursery& n) {
      n.launch([&] {
        for (int i = 0; i < 20; ++i) EXPECT_TRUE(channels[static_cast<std::size_t>(i * 7 % 40)].send(i));
      });
      int sum = 0;
      for (int i = 0; i < 20; ++i) {
        for (std::size_t k = 0; k < 80; ++k) {
          values[k].reset();
          cases[k] = {.channel = channels[k % 40].core(), .value = &values[k]};
        }
        const std::size_t chosen = detail::select_case(cases.data(), cases.size(), nullptr);
        ASSERT_LT(chosen, 80U);
        EXPECT_EQ(cases[chosen].status, detail::ChannelStatus::kDone);
        sum += values[chosen].value();
      }
      EXPECT_EQ(sum, 190);
    });
  });
}

}  // namespace
}  // namespace rota::fiber

#include "bus/local.h"

#include <gtest/gtest.h>

#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::bus {
namespace {

using namespace std::chrono_literals;
using fiber::in_all_modes;
using fiber::in_virtual_time;

Assign assign(std::uint64_t task) { return Assign{.task = task, .attempt = 1}; }
std::uint64_t task_of(const ToWorker& message) { return std::get<Assign>(message).task; }
std::uint64_t task_of(const FromWorker& message) { return std::get<Report>(message).task; }

// Contract: U-1. Both directions keep their order, and say who sent it.
TEST(LocalBus, OrderBothWays) {
  in_all_modes([] {
    LocalBus bus(8);
    auto a = bus.connect("a").value();
    auto b = bus.connect("b").value();
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        for (std::uint64_t i = 0; i < 100; ++i) {
          ASSERT_TRUE(bus.host().send("a", assign(i)).ok());
          ASSERT_TRUE(bus.host().send("b", assign(1000 + i)).ok());
        }
      });
      const auto echo = [](WorkerEnd& end, std::uint64_t first) {
        for (std::uint64_t i = 0; i < 100; ++i) {
          const DeliveryToWorker delivery = end.receive(1h).value();
          ASSERT_EQ(task_of(delivery.message), first + i);
          ASSERT_TRUE(end.acknowledge(delivery.id).ok());
          ASSERT_TRUE(end.send(Report{.task = first + i}).ok());
        }
      };
      n.launch([&] { echo(*a, 0); });
      n.launch([&] { echo(*b, 1000); });
      std::uint64_t next_a = 0;
      std::uint64_t next_b = 1000;
      for (int i = 0; i < 200; ++i) {
        const DeliveryFromWorker delivery = bus.host().receive(1h).value();
        ASSERT_EQ(task_of(delivery.message), delivery.worker == "a" ? next_a++ : next_b++);
        ASSERT_TRUE(bus.host().acknowledge(delivery.id).ok());
      }
    });
  });
}

// Contract: U-1. What is not acknowledged comes again after a restart, in order, and then what is new.
TEST(LocalBus, UnacknowledgedComesAgain) {
  in_all_modes([] {
    LocalBus bus;
    auto end = bus.connect("w").value();
    for (std::uint64_t i = 1; i <= 4; ++i) {
      ASSERT_TRUE(bus.host().send("w", assign(i)).ok());
      ASSERT_TRUE(end->send(Report{.task = i}).ok());
    }
    // The worker takes three, acknowledges one, and is gone.
    std::uint64_t first = 0;
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const DeliveryToWorker delivery = end->receive(1s).value();
      if (i == 1) first = delivery.id;
    }
    ASSERT_TRUE(end->acknowledge(first).ok());
    end.reset();
    ASSERT_TRUE(bus.host().send("w", assign(5)).ok());  // While nobody is there.
    end = bus.connect("w").value();
    for (std::uint64_t i = 2; i <= 5; ++i) EXPECT_EQ(task_of(end->receive(1s)->message), i);
    // The same for the host.
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const DeliveryFromWorker delivery = bus.host().receive(1s).value();
      if (i == 2) {
        ASSERT_TRUE(bus.host().acknowledge(delivery.id).ok());
      }
    }
    ASSERT_TRUE(bus.host().rewind().ok());
    EXPECT_EQ(task_of(bus.host().receive(1s)->message), 3U);
    EXPECT_EQ(task_of(bus.host().receive(1s)->message), 4U);
  });
}

// Contract: U-1. Bounds: a sender waits for room, and one that acknowledges nothing is told so.
TEST(LocalBus, Bounds) {
  in_virtual_time([] {
    LocalBus bus(2);
    auto end = bus.connect("w").value();
    int sent = 0;  // Outlives the task that counts.
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        for (std::uint64_t i = 0; i < 4; ++i) {
          ASSERT_TRUE(bus.host().send("w", assign(i)).ok());
          ++sent;
        }
      });
      ASSERT_TRUE(fiber::sleep_for(1s).ok());
      EXPECT_EQ(sent, 2);
      ASSERT_TRUE(end->receive(1s).ok());
      const DeliveryToWorker second = end->receive(1s).value();
      EXPECT_EQ(end->receive(1s).code(), ErrorCode::kQueueFull);
      ASSERT_TRUE(end->acknowledge(second.id).ok());
      EXPECT_EQ(task_of(end->receive(1s)->message), 2U);
    });
  });
}

TEST(LocalBus, Errors) {
  in_all_modes([] {
    LocalBus bus;
    EXPECT_EQ(bus.host().send("nobody", assign(1)).code(), ErrorCode::kNotFound);
    auto end = bus.connect("w").value();
    EXPECT_EQ(bus.connect("w").code(), ErrorCode::kAlreadyExists);
    EXPECT_EQ(end->receive(1ms).code(), ErrorCode::kTimeout);
    ASSERT_TRUE(bus.host().send("w", assign(1)).ok());
    bus.close();
    EXPECT_EQ(task_of(end->receive(1s)->message), 1U);
    EXPECT_EQ(end->receive(1s).code(), ErrorCode::kClosed);
    EXPECT_EQ(end->send(Heartbeat{}).code(), ErrorCode::kClosed);
    EXPECT_EQ(bus.host().send("w", assign(2)).code(), ErrorCode::kClosed);
    EXPECT_EQ(bus.connect("x").code(), ErrorCode::kClosed);
  });
}

// Contract: U-1. A cancelled wait takes nothing.
TEST(LocalBus, Cancelled) {
  in_all_modes([] {
    LocalBus bus;
    auto end = bus.connect("w").value();
    fiber::with_scope([&](fiber::Nursery& n) {
      auto waiting = n.spawn([&] { return end->receive(1h).code(); });
      fiber::yield();
      waiting.cancel();
      waiting.wait();
    });
    ASSERT_TRUE(bus.host().send("w", assign(1)).ok());
    EXPECT_EQ(task_of(end->receive(1s)->message), 1U);
  });
}

}  // namespace
}  // namespace rota::bus

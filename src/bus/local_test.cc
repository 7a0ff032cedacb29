#include "bus/local.h"

#include <gtest/gtest.h>

#include "bus/conformance.h"
#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::bus {

struct LocalHome {
  static constexpr bool kVirtualTime = true;
  static constexpr bool kNewerWins = false;
  static constexpr bool kAcknowledgesAtOnce = true;
  explicit LocalHome(std::size_t capacity) : bus(capacity) {}
  HostEnd& host() { return bus.host(); }
  Result<std::unique_ptr<WorkerEnd>> connect(const std::string& worker) { return bus.connect(worker); }
  void close() { bus.close(); }
  LocalBus bus;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Local, BusConformance, LocalHome);

namespace {

using namespace std::chrono_literals;

model::Assign assign(std::uint64_t task) {
  model::Assign message;
  message.id = {model::TaskId(task), model::AttemptNumber(1)};
  return message;
}

// Contract: U-1. Messages sent before the bus is closed can still be received.
TEST(LocalBus, CloseKeepsMessages) {
  fiber::in_all_modes([] {
    LocalBus bus;
    auto end = bus.connect("w").value();
    ASSERT_TRUE(bus.host().send("w", assign(1)).ok());
    bus.close();
    EXPECT_EQ(std::get<model::Assign>(end->receive(1s)->message).id.task, model::TaskId(1));
    EXPECT_EQ(end->receive(1s).code(), ErrorCode::kClosed);
  });
}

// Contract: U-1. Bounds: a sender waits for room, and a receiver that acknowledges nothing gets QueueFull.
TEST(LocalBus, Bounds) {
  fiber::in_virtual_time([] {
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
      EXPECT_EQ(std::get<model::Assign>(end->receive(1s)->message).id.task, model::TaskId(2));
    });
  });
}

}  // namespace
}  // namespace rota::bus

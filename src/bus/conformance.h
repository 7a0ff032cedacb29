// The tests that every bus must pass (U-1), whatever carries its messages.
//
//   struct MyHome {                                            // default-constructed for each test
//     static constexpr bool kVirtualTime = true;               // it works in deterministic mode
//     explicit MyHome(std::size_t capacity);                   // of each queue
//     HostEnd& host();
//     Result<std::unique_ptr<WorkerEnd>> connect(const std::string& worker);
//     void close();
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, BusConformance, MyHome);
//
// Each test runs on real threads, and under several seeds in deterministic mode if the bus supports it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "bus/bus.h"
#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::bus {

template <class Home>
class BusConformance : public ::testing::Test {
 protected:
  static constexpr std::size_t kCapacity = 4096;

  // Runs body(home), each time with a new bus.
  template <class Body>
  void everywhere(Body&& body, std::size_t capacity = kCapacity) {
    const auto once = [&] {
      Home home(capacity);
      body(home);
    };
    if constexpr (Home::kVirtualTime) {
      fiber::in_all_modes(once);
    } else {
      fiber::Runtime runtime({.worker_count = 3});
      runtime.run(once);
    }
  }

  static model::Assign assign(std::uint64_t task) {
    model::Assign message;
    message.id = {model::TaskId(task), model::AttemptNumber(1)};
    return message;
  }
  static model::Report report(std::uint64_t task) {
    return {.id = {model::TaskId(task), model::AttemptNumber(1)}, .body = model::LogLine{"line"}};
  }
  static std::uint64_t task_of(const model::ToWorker& message) {
    return std::get<model::Assign>(message).id.task.value();
  }
  static std::uint64_t task_of(const model::FromWorker& message) {
    return std::get<model::Report>(message).id.task.value();
  }
};
TYPED_TEST_SUITE_P(BusConformance);

// Contract: U-1. Messages keep their order in both directions, and the host learns which worker sent a message.
TYPED_TEST_P(BusConformance, OrderBothWays) {
  using namespace std::chrono_literals;
  this->everywhere(
      [this](TypeParam& home) {
        auto a = home.connect("a").value();
        auto b = home.connect("b").value();
        fiber::with_scope([&](fiber::Nursery& n) {
          n.launch([&] {
            for (std::uint64_t i = 0; i < 100; ++i) {
              ASSERT_TRUE(home.host().send("a", this->assign(i)).ok());
              ASSERT_TRUE(home.host().send("b", this->assign(1000 + i)).ok());
            }
          });
          const auto echo = [this](WorkerEnd& end, std::uint64_t first) {
            for (std::uint64_t i = 0; i < 100; ++i) {
              const DeliveryToWorker delivery = end.receive(1h).value();
              ASSERT_EQ(this->task_of(delivery.message), first + i);
              ASSERT_TRUE(end.acknowledge(delivery.id).ok());
              ASSERT_TRUE(end.send(this->report(first + i)).ok());
            }
          };
          n.launch([&] { echo(*a, 0); });
          n.launch([&] { echo(*b, 1000); });
          std::uint64_t next_a = 0;
          std::uint64_t next_b = 1000;
          for (int i = 0; i < 200; ++i) {
            const DeliveryFromWorker delivery = home.host().receive(1h).value();
            ASSERT_EQ(this->task_of(delivery.message), delivery.worker == "a" ? next_a++ : next_b++);
            ASSERT_TRUE(home.host().acknowledge(delivery.id).ok());
          }
        });
      },
      8);
}

// Contract: U-1. Every kind of message arrives with all of its fields.
TYPED_TEST_P(BusConformance, EveryMessageArrivesWhole) {
  using namespace std::chrono_literals;
  this->everywhere([this](TypeParam& home) {
    auto end = home.connect("w").value();
    model::Assign assign = this->assign(7);
    assign.term = model::Term(3);
    assign.identity = {"w", "s", "{\"i\":1}", "s[1]"};
    assign.spec.type = "shell";
    assign.spec.program.emplace().arguments = {"cc", std::string("a\0b", 3)};
    assign.spec.inputs = R"({"x":[1]})";
    assign.resources.named = {{"licence", 2}};
    assign.merged = {{assign.id, "1"}, {{model::TaskId(8), model::AttemptNumber(2)}, "2"}};
    const model::AttemptId id = assign.id;
    const auto to_worker = [&](model::ToWorker message) {
      const std::string sent = model::encode_message(message);
      ASSERT_TRUE(home.host().send("w", std::move(message)).ok());
      EXPECT_EQ(model::encode_message(end->receive(1s)->message), sent);
    };
    to_worker(assign);
    to_worker(model::ControlAttempt{id, model::Term(3), model::AttemptAction::kPause});
    to_worker(model::AcknowledgeReport{id, model::Term(3)});
    to_worker(model::RegisterAgain{model::Term(4)});
    const auto to_host = [&](model::FromWorker message) {
      const std::string sent = model::encode_message(message);
      ASSERT_TRUE(end->send(std::move(message)).ok());
      EXPECT_EQ(model::encode_message(home.host().receive(1s)->message), sent);
    };
    model::Register hello{.incarnation = model::Incarnation(9), .caches = {{"model:m1", 5}}, .held = {id}};
    hello.worker.name = "w";
    hello.worker.resources.gpus = {{"a100", 1 << 30}};
    hello.worker.labels = {{"rack", "b7"}};
    to_host(hello);
    to_host(model::Heartbeat{model::Incarnation(9)});
    to_host(model::Leave{model::Incarnation(9)});
    model::AttemptOutcome outcome;
    outcome.end = model::AttemptEnd::kSucceeded;
    outcome.result = "{\"n\": 1}";
    outcome.started_ns = 1;
    outcome.ended_ns = 2;
    for (const model::ReportBody& body :
         {model::ReportBody(model::Started{5}), model::ReportBody(model::Progress{5, "x"}),
          model::ReportBody(model::Checkpoint{"{}"}), model::ReportBody(model::LogLine{"l"}),
          model::ReportBody(model::Cached{"model:m"}), model::ReportBody(model::Output{true, std::string("\0x", 2), 3}),
          model::ReportBody(model::Ended{outcome})}) {
      to_host(model::Report{id, model::Term(3), body});
    }
  });
}

// Contract: U-1. Messages that are not acknowledged are delivered again after a restart, in order, before new ones.
TYPED_TEST_P(BusConformance, UnacknowledgedMessagesAreRedelivered) {
  using namespace std::chrono_literals;
  this->everywhere([this](TypeParam& home) {
    auto end = home.connect("w").value();
    for (std::uint64_t i = 1; i <= 4; ++i) {
      ASSERT_TRUE(home.host().send("w", this->assign(i)).ok());
      ASSERT_TRUE(end->send(this->report(i)).ok());
    }
    // The worker takes three messages, acknowledges one, and disconnects.
    std::uint64_t first = 0;
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const DeliveryToWorker delivery = end->receive(1s).value();
      if (i == 1) first = delivery.id;
    }
    ASSERT_TRUE(end->acknowledge(first).ok());
    end.reset();
    ASSERT_TRUE(home.host().send("w", this->assign(5)).ok());  // While the worker is disconnected.
    end = home.connect("w").value();
    for (std::uint64_t i = 2; i <= 5; ++i) EXPECT_EQ(this->task_of(end->receive(1s)->message), i);
    // The same for the host.
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const DeliveryFromWorker delivery = home.host().receive(1s).value();
      if (i == 2) {
        ASSERT_TRUE(home.host().acknowledge(delivery.id).ok());
      }
    }
    ASSERT_TRUE(home.host().rewind().ok());
    EXPECT_EQ(this->task_of(home.host().receive(1s)->message), 3U);
    EXPECT_EQ(this->task_of(home.host().receive(1s)->message), 4U);
  });
}

// Contract: U-1. Acknowledging a message twice, or an id that was never given, changes nothing.
TYPED_TEST_P(BusConformance, AcknowledgingTwiceIsHarmless) {
  using namespace std::chrono_literals;
  this->everywhere([this](TypeParam& home) {
    auto end = home.connect("w").value();
    for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(end->send(this->report(i)).ok());
    const std::uint64_t first = home.host().receive(1s)->id;
    ASSERT_TRUE(home.host().acknowledge(first).ok());
    ASSERT_TRUE(home.host().acknowledge(first).ok());
    EXPECT_EQ(this->task_of(home.host().receive(1s)->message), 2U);
    ASSERT_TRUE(home.host().acknowledge(first).ok());
    ASSERT_TRUE(home.host().rewind().ok());
    ASSERT_TRUE(home.host().rewind().ok());
    EXPECT_EQ(this->task_of(home.host().receive(1s)->message), 2U);
    EXPECT_EQ(this->task_of(home.host().receive(1s)->message), 3U);
  });
}

// Contract: U-1. Unknown workers, duplicate names, time-outs and a closed bus have their error codes.
TYPED_TEST_P(BusConformance, Errors) {
  using namespace std::chrono_literals;
  this->everywhere([this](TypeParam& home) {
    EXPECT_EQ(home.host().send("nobody", this->assign(1)).code(), ErrorCode::kNotFound);
    auto end = home.connect("w").value();
    EXPECT_EQ(home.connect("w").code(), ErrorCode::kAlreadyExists);
    EXPECT_EQ(end->receive(1ms).code(), ErrorCode::kTimeout);
    EXPECT_EQ(home.host().receive(1ms).code(), ErrorCode::kTimeout);
    ASSERT_TRUE(home.host().send("w", this->assign(1)).ok());
    home.close();
    EXPECT_EQ(this->task_of(end->receive(1s)->message), 1U);
    EXPECT_EQ(end->receive(1s).code(), ErrorCode::kClosed);
    EXPECT_EQ(end->send(model::Heartbeat{}).code(), ErrorCode::kClosed);
    EXPECT_EQ(home.host().send("w", this->assign(2)).code(), ErrorCode::kClosed);
    EXPECT_EQ(home.connect("x").code(), ErrorCode::kClosed);
  });
}

// Contract: U-1. A cancelled receive() takes no message.
TYPED_TEST_P(BusConformance, CancelledReceiveTakesNothing) {
  using namespace std::chrono_literals;
  this->everywhere([this](TypeParam& home) {
    auto end = home.connect("w").value();
    fiber::with_scope([&](fiber::Nursery& n) {
      auto waiting = n.spawn([&] { return end->receive(1h).code(); });
      fiber::yield();
      waiting.cancel();
      waiting.wait();
    });
    ASSERT_TRUE(home.host().send("w", this->assign(1)).ok());
    EXPECT_EQ(this->task_of(end->receive(1s)->message), 1U);
  });
}

REGISTER_TYPED_TEST_SUITE_P(BusConformance, OrderBothWays, EveryMessageArrivesWhole,
                            UnacknowledgedMessagesAreRedelivered, AcknowledgingTwiceIsHarmless, Errors,
                            CancelledReceiveTakesNothing);

}  // namespace rota::bus

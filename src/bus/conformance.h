// The tests that every bus must pass (U-1), whatever carries its messages.
//
//   struct MyHome {                                            // constructed for each test, in a task
//     static constexpr bool kVirtualTime = true;               // it works in deterministic mode
//     static constexpr bool kNewerWins = false;                // of two workers with one name; false: it is refused
//     static constexpr bool kAcknowledgesAtOnce = true;        // false: a restart may come before an acknowledgement
//     static void set_up();                                    // optional: before the first test, in main's thread
//     static void tear_down();                                 // optional: after the last
//     explicit MyHome(std::size_t capacity);                   // of each queue
//     HostEnd& host();
//     Result<std::unique_ptr<WorkerEnd>> connect(const std::string& worker);
//     void close();                                            // all ends
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, BusConformance, MyHome);
//
// Each test runs on real threads, and under several seeds in deterministic mode if the bus supports it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/sync.h"
#include "bus/bus.h"
#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::bus {

template <class Home>
class BusConformance : public ::testing::Test {
 protected:
  static constexpr std::size_t kCapacity = 4096;
  // For what is expected to arrive.
  static constexpr std::chrono::seconds kSoon{120};

  static void SetUpTestSuite() {
    if constexpr (requires { Home::set_up(); }) Home::set_up();
  }
  static void TearDownTestSuite() {
    if constexpr (requires { Home::tear_down(); }) Home::tear_down();
  }

  // Runs body(home), each time with a new bus.
  template <class Body>
  void everywhere(Body&& body, std::size_t capacity = kCapacity) {
    const LogCapture quiet(LogLevel::kWarn);
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
              const DeliveryToWorker delivery = end.receive(this->kSoon).value();
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
            const DeliveryFromWorker delivery = home.host().receive(this->kSoon).value();
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
      EXPECT_EQ(model::encode_message(end->receive(this->kSoon)->message), sent);
    };
    to_worker(assign);
    to_worker(model::ControlAttempt{id, model::Term(3), model::AttemptAction::kPause, 7, model::Incarnation(9), 8});
    to_worker(model::AcknowledgeReport{id, model::Term(3), 7});
    to_worker(model::RegisterAgain{model::Term(4)});
    const auto to_host = [&](model::FromWorker message) {
      const std::string sent = model::encode_message(message);
      ASSERT_TRUE(end->send(std::move(message)).ok());
      EXPECT_EQ(model::encode_message(home.host().receive(this->kSoon)->message), sent);
    };
    model::Register hello{.incarnation = model::Incarnation(9), .caches = {{"model:m1", 5}}, .held = {{id, 7}}};
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
      to_host(model::Report{id, model::Term(3), body, 7});
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
      const DeliveryToWorker delivery = end->receive(this->kSoon).value();
      if (i == 1) first = delivery.id;
    }
    ASSERT_TRUE(end->acknowledge(first).ok());
    end.reset();
    ASSERT_TRUE(home.host().send("w", this->assign(5)).ok());  // While the worker is disconnected.
    end = home.connect("w").value();
    std::uint64_t task = this->task_of(end->receive(this->kSoon)->message);
    if (!TypeParam::kAcknowledgesAtOnce && task == 1) task = this->task_of(end->receive(this->kSoon)->message);
    EXPECT_EQ(task, 2U);
    for (std::uint64_t i = 3; i <= 5; ++i) EXPECT_EQ(this->task_of(end->receive(this->kSoon)->message), i);
    // The same for the host.
    for (std::uint64_t i = 1; i <= 3; ++i) {
      const DeliveryFromWorker delivery = home.host().receive(this->kSoon).value();
      if (i == 2) {
        ASSERT_TRUE(home.host().acknowledge(delivery.id).ok());
      }
    }
    ASSERT_TRUE(home.host().rewind().ok());
    EXPECT_EQ(this->task_of(home.host().receive(this->kSoon)->message), 3U);
    EXPECT_EQ(this->task_of(home.host().receive(this->kSoon)->message), 4U);
  });
}

// Contract: U-1. Acknowledging a message twice, or an id that was never given, changes nothing.
TYPED_TEST_P(BusConformance, AcknowledgingTwiceIsHarmless) {
  using namespace std::chrono_literals;
  this->everywhere([this](TypeParam& home) {
    auto end = home.connect("w").value();
    for (std::uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(end->send(this->report(i)).ok());
    const std::uint64_t first = home.host().receive(this->kSoon)->id;
    ASSERT_TRUE(home.host().acknowledge(first).ok());
    ASSERT_TRUE(home.host().acknowledge(first).ok());
    EXPECT_EQ(this->task_of(home.host().receive(this->kSoon)->message), 2U);
    ASSERT_TRUE(home.host().acknowledge(first).ok());
    ASSERT_TRUE(home.host().rewind().ok());
    ASSERT_TRUE(home.host().rewind().ok());
    EXPECT_EQ(this->task_of(home.host().receive(this->kSoon)->message), 2U);
    EXPECT_EQ(this->task_of(home.host().receive(this->kSoon)->message), 3U);
  });
}

// Contract: U-1. Unknown workers, time-outs and a closed bus have their error codes.
TYPED_TEST_P(BusConformance, Errors) {
  using namespace std::chrono_literals;
  this->everywhere([this](TypeParam& home) {
    EXPECT_EQ(home.host().send("nobody", this->assign(1)).code(), ErrorCode::kNotFound);
    auto end = home.connect("w").value();
    EXPECT_EQ(end->receive(1ms).code(), ErrorCode::kTimeout);
    EXPECT_EQ(home.host().receive(1ms).code(), ErrorCode::kTimeout);
    ASSERT_TRUE(home.host().send("w", this->assign(1)).ok());
    EXPECT_EQ(this->task_of(end->receive(this->kSoon)->message), 1U);
    home.close();
    EXPECT_EQ(end->receive(this->kSoon).code(), ErrorCode::kClosed);
    EXPECT_EQ(end->send(model::Heartbeat{}).code(), ErrorCode::kClosed);
    EXPECT_EQ(home.host().send("w", this->assign(2)).code(), ErrorCode::kClosed);
    EXPECT_EQ(home.connect("x").code(), ErrorCode::kClosed);
  });
}

// Contract: U-1. Of two workers with one name only one gets messages, and the other one is told.
TYPED_TEST_P(BusConformance, TwoWorkersWithOneName) {
  this->everywhere([this](TypeParam& home) {
    auto older = home.connect("w").value();
    auto newer = home.connect("w");
    if constexpr (TypeParam::kNewerWins) {
      const auto told = older->receive(this->kSoon);
      ASSERT_EQ(told.code(), ErrorCode::kClosed);
      EXPECT_NE(told.error().message.find("name"), std::string::npos) << told.error().message;
      EXPECT_EQ(older->send(model::Heartbeat{}).code(), ErrorCode::kClosed);
      older = std::move(*newer);
    } else {
      EXPECT_EQ(newer.code(), ErrorCode::kAlreadyExists);
    }
    ASSERT_TRUE(home.host().send("w", this->assign(1)).ok());
    EXPECT_EQ(this->task_of(older->receive(this->kSoon)->message), 1U);
    ASSERT_TRUE(older->send(this->report(2)).ok());
    EXPECT_EQ(this->task_of(home.host().receive(this->kSoon)->message), 2U);
  });
}

// Contract: U-1. A worker's name may contain any character, and no two names are confused.
TYPED_TEST_P(BusConformance, NamesWithAnyCharacter) {
  this->everywhere([this](TypeParam& home) {
    const std::vector<std::string> names = {"w",
                                            "W",
                                            "w*",
                                            "?",
                                            "[a-z]",
                                            "a b",
                                            "a:b",
                                            "a%3Ab",
                                            "a\nb",
                                            "\r\n$5\r\nhello",
                                            std::string("\0", 1),
                                            std::string("\0\0", 2),
                                            "\xff\xfe",
                                            "\xc3\xa4",
                                            "../x",
                                            "to:w",
                                            std::string(255, '*')};
    std::vector<std::unique_ptr<WorkerEnd>> ends;
    for (const std::string& name : names) ends.push_back(home.connect(name).value());
    for (std::size_t i = 0; i < names.size(); ++i) ASSERT_TRUE(home.host().send(names[i], this->assign(i + 1)).ok());
    std::set<std::string> heard;
    for (std::size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(this->task_of(ends[i]->receive(this->kSoon)->message), i + 1);
      ASSERT_TRUE(ends[i]->send(this->report(i + 1)).ok());
      const DeliveryFromWorker delivery = home.host().receive(this->kSoon).value();
      EXPECT_EQ(delivery.worker, names[this->task_of(delivery.message) - 1]);
      heard.insert(delivery.worker);
    }
    EXPECT_EQ(heard.size(), names.size());
  });
}

// Contract: U-1. Many workers at once: each gets its own messages, and the host hears all of them.
TYPED_TEST_P(BusConformance, ManyWorkers) {
  this->everywhere([this](TypeParam& home) {
    constexpr std::uint64_t kWorkers = 70;
    std::vector<std::unique_ptr<WorkerEnd>> ends;
    for (std::uint64_t i = 0; i < kWorkers; ++i) ends.push_back(home.connect("w" + std::to_string(i)).value());
    for (std::uint64_t i = 0; i < kWorkers; ++i) {
      ASSERT_TRUE(home.host().send("w" + std::to_string(i), this->assign(i)).ok());
      ASSERT_TRUE(ends[i]->send(this->report(i)).ok());
    }
    std::set<std::string> heard;
    for (std::uint64_t i = 0; i < kWorkers; ++i) {
      EXPECT_EQ(this->task_of(ends[i]->receive(this->kSoon)->message), i);
      const DeliveryFromWorker delivery = home.host().receive(this->kSoon).value();
      EXPECT_EQ(delivery.worker, "w" + std::to_string(this->task_of(delivery.message)));
      heard.insert(delivery.worker);
    }
    EXPECT_EQ(heard.size(), kWorkers);
  });
}

// Contract: U-1. Every queue is bounded: a sender waits while the receiver acknowledges nothing, in both directions,
// and a receiver that acknowledges nothing gets QueueFull. Nothing is lost by it.
TYPED_TEST_P(BusConformance, SendersWaitForRoom) {
  this->everywhere(
      [this](TypeParam& home) {
        static constexpr std::uint64_t kCount = 20;
        auto end = home.connect("w").value();
        sync::Atomic<std::uint64_t> to_worker{0};
        sync::Atomic<std::uint64_t> to_host{0};
        fiber::with_scope([&](fiber::Nursery& n) {
          n.launch([&] {
            for (std::uint64_t i = 0; i < kCount; ++i, to_worker.fetch_add(1)) {
              ASSERT_TRUE(home.host().send("w", this->assign(i)).ok());
            }
          });
          n.launch([&] {
            for (std::uint64_t i = 0; i < kCount; ++i, to_host.fetch_add(1)) {
              ASSERT_TRUE(end->send(this->report(i)).ok());
            }
          });
          const auto drain = [this](auto& receiver, const sync::Atomic<std::uint64_t>& sent) {
            std::uint64_t last = 0;
            for (std::uint64_t i = 0; i < 2; ++i) last = receiver.receive(this->kSoon)->id;
            EXPECT_EQ(receiver.receive(this->kSoon).code(), ErrorCode::kQueueFull);
            EXPECT_LE(sent.load(), 4U);  // Two that are held, and two in the queue.
            ASSERT_TRUE(receiver.acknowledge(last).ok());
            for (std::uint64_t i = 2; i < kCount; ++i) {
              const auto delivery = receiver.receive(this->kSoon).value();
              EXPECT_EQ(this->task_of(delivery.message), i);
              ASSERT_TRUE(receiver.acknowledge(delivery.id).ok());
            }
          };
          drain(*end, to_worker);
          drain(home.host(), to_host);
        });
      },
      2);
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
    EXPECT_EQ(this->task_of(end->receive(this->kSoon)->message), 1U);
  });
}

REGISTER_TYPED_TEST_SUITE_P(BusConformance, OrderBothWays, EveryMessageArrivesWhole,
                            UnacknowledgedMessagesAreRedelivered, AcknowledgingTwiceIsHarmless, Errors,
                            TwoWorkersWithOneName, NamesWithAnyCharacter, ManyWorkers, SendersWaitForRoom,
                            CancelledReceiveTakesNothing);

}  // namespace rota::bus

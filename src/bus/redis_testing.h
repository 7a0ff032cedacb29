// Shared by the tests of the Redis bus: a fleet on a server of their own, and raw commands beside it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "bus/redis_bus.h"
#include "bus/redis_names.h"
#include "bus/redis_server_testing.h"
#include "net/redis_connection.h"
#include "net/stream.h"
#include "rota/fiber.h"

namespace rota::bus {

inline constexpr std::chrono::seconds kSoon{120};  // For what is expected to happen.

inline model::Assign assign_of(std::uint64_t task) {
  model::Assign message;
  message.id = {model::TaskId(task), model::AttemptNumber(1)};
  return message;
}
inline model::Report report_of(std::uint64_t task) {
  return {.id = {model::TaskId(task), model::AttemptNumber(1)}, .body = model::LogLine{"line"}};
}
inline std::uint64_t task_of(const model::ToWorker& message) {
  return std::get<model::Assign>(message).id.task.value();
}
inline std::uint64_t task_of(const model::FromWorker& message) {
  return std::get<model::Report>(message).id.task.value();
}

// Options for tests under virtual time, and for those that wait for a server that does not answer: failures are noticed
// soon. On a busy machine also failures that are none: such a test must expect Unavailable at any time.
inline RedisBusOptions quick_options(net::RedisUrl url, std::string prefix = "rota") {
  using namespace std::chrono_literals;
  RedisBusOptions options;
  options.url = std::move(url);
  options.prefix = std::move(prefix);
  options.reply_within = 500ms;
  options.connect_within = 500ms;
  options.retry_most = 50ms;
  options.send_within = 60s;
  options.acknowledge_within = 50ms;
  options.probe_after = 200ms;
  options.rejoin_within = 0s;
  return options;
}

// Options for tests with a real server that answers, sooner or later: a slow answer is not a failure.
inline RedisBusOptions patient_options(net::RedisUrl url, std::string prefix = "rota") {
  RedisBusOptions options = quick_options(std::move(url), std::move(prefix));
  options.reply_within = kSoon;
  options.connect_within = kSoon;
  options.send_within = kSoon;
  return options;
}

// Waits for a condition that another task or process brings about.
template <class Condition>
[[nodiscard]] bool await(Condition&& condition) {
  const auto until = fiber::now() + kSoon;
  while (!condition()) {
    if (fiber::now() >= until || !fiber::sleep_for(std::chrono::milliseconds(1)).ok()) return false;
  }
  return true;
}

// As end.receive(), also while Redis cannot be reached for a while.
template <class End>
[[nodiscard]] auto receive_soon(End& end) -> decltype(end.receive(kSoon)) {
  const auto until = fiber::now() + kSoon;
  for (;;) {
    auto delivery = end.receive(kSoon);
    if (delivery.ok() || delivery.code() != ErrorCode::kUnavailable || fiber::now() >= until) return delivery;
    (void)fiber::sleep_for(std::chrono::milliseconds(1));
  }
}

// The ends of a bus for the conformance suite, which takes Unavailable for a failure: on a busy machine, Redis may be
// silent for longer than the host allows (RedisSession::kOverdue).
class PatientHostEnd final : public HostEnd {
 public:
  explicit PatientHostEnd(RedisHostEnd& end) : end_(end) {}
  Result<DeliveryFromWorker> receive(std::chrono::nanoseconds limit) override {
    const auto until = fiber::now() + kSoon;
    for (;;) {
      auto delivery = end_.receive(limit);
      if (delivery.code() != ErrorCode::kUnavailable || fiber::now() >= until) return delivery;
      ROTA_TRY(fiber::sleep_for(std::chrono::milliseconds(1)));
    }
  }
  Result<void> acknowledge(std::uint64_t id) override { return end_.acknowledge(id); }
  Result<void> send(const std::string& worker, model::ToWorker message) override {
    return end_.send(worker, std::move(message));
  }
  Result<void> rewind() override { return end_.rewind(); }
  void expect(const std::string& worker, bool expected) override { end_.expect(worker, expected); }

 private:
  RedisHostEnd& end_;
};

// Executes one command on a connection of its own.
inline std::unique_ptr<net::RedisConnection> connection_to(const net::RedisUrl& url) {
  net::RedisConnectOptions options;
  options.within = kSoon;
  return net::RedisConnection::open(net::real_network(), url, options).value();
}
inline net::RespValue command(const net::RedisUrl& url, std::initializer_list<std::string_view> arguments) {
  auto connection = connection_to(url);
  return connection->exchange_one(arguments, kSoon).value();
}
inline net::RespValue command(const net::RedisUrl& url, const std::vector<std::string>& arguments) {
  auto connection = connection_to(url);
  const std::vector<std::string_view> views(arguments.begin(), arguments.end());
  net::RespCommands commands;
  commands.add(views);
  return connection->exchange(commands, kSoon).value().front();
}

// Runs a test in a task, with a nursery for the ends of the bus.
template <class Body>
void in_runtime(Body&& body) {
  const LogCapture quiet(LogLevel::kWarn);
  fiber::Runtime runtime({.worker_count = 3});
  runtime.run([&] { fiber::with_scope([&](fiber::Nursery& nursery) { body(nursery); }); });
}

// Sends `count` messages each way while it receives them, and checks that each arrives once and in order. The host may
// get messages below `first` before, if that is allowed.
inline void exchange_messages(HostEnd& host, WorkerEnd& worker, const std::string& name, std::uint64_t first,
                              std::uint64_t count, bool older_allowed = false) {
  fiber::with_scope([&](fiber::Nursery& n) {
    n.launch([&] {
      for (std::uint64_t i = first; i < first + count; ++i) ASSERT_TRUE(host.send(name, assign_of(i)).ok());
    });
    n.launch([&] {
      for (std::uint64_t i = first; i < first + count; ++i) ASSERT_TRUE(worker.send(report_of(i)).ok());
    });
    n.launch([&] {
      for (std::uint64_t i = first; i < first + count; ++i) {
        const auto delivery = receive_soon(worker);
        ASSERT_TRUE(delivery.ok()) << delivery.error().to_string();
        ASSERT_EQ(task_of(delivery->message), i);
        ASSERT_TRUE(worker.acknowledge(delivery->id).ok());
      }
    });
    for (std::uint64_t i = first; i < first + count;) {
      const auto delivery = receive_soon(host);
      ASSERT_TRUE(delivery.ok()) << delivery.error().to_string();
      ASSERT_TRUE(host.acknowledge(delivery->id).ok());
      if (older_allowed && i == first && task_of(delivery->message) < first) continue;
      ASSERT_EQ(task_of(delivery->message), i);
      ++i;
    }
  });
}

}  // namespace rota::bus

// The simulated network: the conformance suite, the exact times, and every fault.
#include "net/sim_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fiber/testing.h"
#include "net/stream_conformance.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

using namespace std::chrono_literals;

// Connects from one node and listens on another.
class TwoNodes : public Network {
 public:
  explicit TwoNodes(SimNetworkOptions options) : sim(options), a(sim.node("a")), b(sim.node("b")) {}
  Result<std::unique_ptr<ByteStream>> connect(const Endpoint& endpoint, Deadline deadline) override {
    return a.connect(endpoint, deadline);
  }
  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override { return b.listen(endpoint); }

  SimNetwork sim;
  Network& a;
  Network& b;
};

struct Simulated {
  static constexpr std::uint64_t kSeeds = 10;
  static constexpr std::size_t kBulkBytes = 200'000;
  TwoNodes both{{.link = {.latency = 50us, .jitter = 30us}}};
  Network& network() { return both; }
  Endpoint endpoint() { return {.host = "b"}; }
  static Result<void> ready(ByteStream&) { return {}; }
};

// Slow, one byte at a time, and with little room.
struct Narrow {
  static constexpr std::uint64_t kSeeds = 10;
  static constexpr std::size_t kBulkBytes = 3'000;
  TwoNodes both{{.link = {.latency = 20us,
                          .jitter = 100us,
                          .bytes_per_second = 1'000'000,
                          .min_segment_bytes = 1,
                          .max_segment_bytes = 1},
                 .buffer_bytes = 500}};
  Network& network() { return both; }
  Endpoint endpoint() { return {.host = "b"}; }
  static Result<void> ready(ByteStream&) { return {}; }
};

// Within one node, over a Unix path.
struct Local {
  static constexpr std::uint64_t kSeeds = 10;
  static constexpr std::size_t kBulkBytes = 200'000;
  SimNetwork sim{};
  Network& network() { return sim.node("a"); }
  Endpoint endpoint() { return {.unix_path = "/run/s"}; }
  static Result<void> ready(ByteStream&) { return {}; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Simulated, StreamConformance, Simulated);
INSTANTIATE_TYPED_TEST_SUITE_P(Narrow, StreamConformance, Narrow);
INSTANTIATE_TYPED_TEST_SUITE_P(Local, StreamConformance, Local);

// Runs the body in virtual time with a connection from node a to node b.
struct Connected {
  SimNetwork& sim;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<ByteStream> client;  // On a.
  std::unique_ptr<ByteStream> server;  // On b.
  std::chrono::nanoseconds start;      // When both were connected.
};

void connected(const SimNetworkOptions& options, const std::function<void(Connected&)>& body) {
  fiber::in_virtual_time([&] {
    SimNetwork sim(options);
    Connected setup{sim, sim.node("b").listen({.host = "b", .port = 1}).value(), nullptr, nullptr, {}};
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { setup.server = setup.listener->accept({}).value(); });
      setup.client = sim.node("a").connect({.host = "b", .port = 1}, {}).value();
    });
    setup.start = fiber::now();
    body(setup);
  });
}

LinkOptions exact(std::chrono::nanoseconds latency) {
  return {.latency = latency, .min_segment_bytes = 1000, .max_segment_bytes = 1000};
}

std::string read_text(ByteStream& stream, std::size_t size) {
  std::string text(size, '\0');
  const Result<void> read = stream.read_exactly(text, {});
  EXPECT_TRUE(read.ok()) << text_of(read);
  return text;
}

ErrorCode read_code(ByteStream& stream, Deadline deadline = {}) {
  char byte = 0;
  const Result<std::size_t> read = stream.read_some({&byte, 1}, deadline);
  return read.code();
}

// Contract: S-1. Bytes arrive after exactly the latency, and a connection takes a round trip.
TEST(SimNetwork, Latency) {
  fiber::in_virtual_time([] {
    SimNetwork sim({.link = exact(3ms)});
    sim.set_link("b", "a", exact(5ms));
    auto listener = sim.node("b").listen({.host = "0.0.0.0", .port = 1}).value();
    const auto start = fiber::now();
    auto client = sim.node("a").connect({.host = "b", .port = 1}, {}).value();
    EXPECT_EQ(fiber::now() - start, 8ms);
    auto server = listener->accept({}).value();
    EXPECT_EQ(client->peer(), "b:1");
    EXPECT_EQ(server->peer().substr(0, 2), "a:");
    ASSERT_TRUE(client->write_all("x", {}).ok());
    EXPECT_EQ(fiber::now() - start, 8ms);
    EXPECT_EQ(read_text(*server, 1), "x");
    EXPECT_EQ(fiber::now() - start, 11ms);
    ASSERT_TRUE(server->write_all("y", {}).ok());
    EXPECT_EQ(read_text(*client, 1), "y");
    EXPECT_EQ(fiber::now() - start, 16ms);
    ASSERT_TRUE(client->shutdown_write({}).ok());
    EXPECT_EQ(read_code(*server), ErrorCode::kOk);
    EXPECT_EQ(fiber::now() - start, 19ms);
  });
}

// Contract: S-1. A slow line carries segments one after the other.
TEST(SimNetwork, Bandwidth) {
  LinkOptions link = exact(1ms);
  link.bytes_per_second = 100'000;  // 10 ms for a segment of 1,000 bytes.
  connected({.link = link}, [](Connected& s) {
    ASSERT_TRUE(s.client->write_all(std::string(3000, 'x'), {}).ok());
    std::string buffer(5000, '\0');
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(s.server->read_some(buffer, {}).value(), 1000U);  // One segment, whatever the buffer's size.
      EXPECT_EQ(fiber::now() - s.start, i * 10ms + 1ms);
    }
  });
}

// Contract: S-1. Jitter delays segments by different times within its bounds, and never changes their order.
TEST(SimNetwork, Jitter) {
  LinkOptions link = exact(1ms);
  link.jitter = 10ms;
  connected({.link = link}, [](Connected& s) {
    const std::string bytes = test_bytes(1, 50'000);
    ASSERT_TRUE(s.client->write_all(bytes, {}).ok());
    EXPECT_EQ(read_text(*s.server, 1000), bytes.substr(0, 1000));
    const auto first = fiber::now() - s.start;
    EXPECT_GE(first, 1ms);
    EXPECT_LE(first, 11ms);
    EXPECT_EQ(read_text(*s.server, 49'000), bytes.substr(1000));
    EXPECT_GT(fiber::now() - s.start, first);  // 50 draws: the largest is not the first, for the seed in use.
    EXPECT_LE(fiber::now() - s.start, 11ms);
  });
}

// Contract: S-1. A connection may carry one byte at a time.
TEST(SimNetwork, OneByteAtATime) {
  LinkOptions link = exact(1ms);
  link.one_byte_ppm = 1'000'000;
  connected({.link = link}, [](Connected& s) {
    ASSERT_TRUE(s.client->write_all("abc", {}).ok());
    char buffer[10];
    for (const char expected : {'a', 'b', 'c'}) {
      EXPECT_EQ(s.server->read_some(buffer, {}).value(), 1U);
      EXPECT_EQ(buffer[0], expected);
    }
  });
}

// Contract: S-1. A stalled segment arrives late, and those behind it wait for it.
TEST(SimNetwork, Stall) {
  LinkOptions link = exact(1ms);
  link.stall_ppm = 500'000;
  link.stall = 10s;
  connected({.link = link}, [](Connected& s) {
    const std::string bytes = test_bytes(2, 20'000);
    ASSERT_TRUE(s.client->write_all(bytes, {}).ok());
    EXPECT_EQ(read_text(*s.server, bytes.size()), bytes);
    EXPECT_GT(fiber::now() - s.start, 1s);  // 20 segments, half of them by up to 10 s.
    EXPECT_LE(fiber::now() - s.start, 10s + 1ms);
  });
}

// Contract: S-1. What is sent during a partition arrives after the heal; what was in flight arrives.
TEST(SimNetwork, PartitionAndHeal) {
  connected({.link = exact(1ms)}, [](Connected& s) {
    ASSERT_TRUE(s.client->write_all("in flight", {}).ok());
    s.sim.partition("a", "b");
    EXPECT_EQ(read_text(*s.server, 9), "in flight");
    ASSERT_TRUE(s.client->write_all("held", {}).ok());
    ASSERT_TRUE(s.client->shutdown_write({}).ok());
    ASSERT_TRUE(s.server->write_all("back", {}).ok());
    EXPECT_EQ(read_code(*s.server, 10s), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(read_code(*s.client, 10s), ErrorCode::kDeadlineExceeded);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto connect = n.spawn([&] { return s.sim.node("a").connect({.host = "b", .port = 1}, {}).code(); });
      ASSERT_TRUE(fiber::sleep_for(1s).ok());
      EXPECT_FALSE(connect.is_completed());
      s.sim.heal("a", "b");
      const auto healed = fiber::now();
      EXPECT_EQ(read_text(*s.server, 4), "held");
      EXPECT_GE(fiber::now() - healed, 1ms);
      EXPECT_LE(fiber::now() - healed, 201ms);
      EXPECT_EQ(read_code(*s.server), ErrorCode::kOk);  // The end.
      EXPECT_EQ(read_text(*s.client, 4), "back");
      EXPECT_EQ(connect.get(), ErrorCode::kOk);
    });
  });
}

// Contract: S-1. A partition in one direction lets the other one pass.
TEST(SimNetwork, OneWayPartition) {
  connected({.link = exact(1ms)}, [](Connected& s) {
    s.sim.partition_one_way("a", "b");
    ASSERT_TRUE(s.client->write_all("held", {}).ok());
    ASSERT_TRUE(s.server->write_all("back", {}).ok());
    EXPECT_EQ(read_text(*s.client, 4), "back");
    EXPECT_EQ(fiber::now() - s.start, 1ms);
    EXPECT_EQ(read_code(*s.server, 1s), ErrorCode::kDeadlineExceeded);
    // A connect needs both directions.
    EXPECT_EQ(s.sim.node("a").connect({.host = "b", .port = 1}, 1s).code(), ErrorCode::kDeadlineExceeded);
    auto listener = s.sim.node("a").listen({.host = "a", .port = 1}).value();
    EXPECT_EQ(s.sim.node("b").connect({.host = "a", .port = 1}, 1s).code(), ErrorCode::kDeadlineExceeded);
    s.sim.heal("b", "a");
    EXPECT_EQ(read_text(*s.server, 4), "held");
  });
}

// Contract: S-1. A connection that is cut for too long ends at both ends, exactly when keep-alive would give up, and
// stays ended after the heal. A short cut does not end it.
TEST(SimNetwork, GiveUp) {
  connected({.link = exact(1ms), .give_up = 60s}, [](Connected& s) {
    s.sim.partition_one_way("b", "a");
    ASSERT_TRUE(fiber::sleep_for(59s).ok());
    s.sim.heal("a", "b");
    s.sim.partition_one_way("a", "b");
    const auto cut = fiber::now();
    ASSERT_TRUE(s.client->write_all("held", {}).ok());
    char byte = 0;
    const Result<std::size_t> read = s.server->read_some({&byte, 1}, {});
    ASSERT_EQ(read.code(), ErrorCode::kClosed);
    EXPECT_EQ(read.error().message, "read from " + s.server->peer() + ": Connection timed out");
    EXPECT_EQ(fiber::now() - cut, 60s);
    EXPECT_EQ(s.client->write_all("x", {}).code(), ErrorCode::kClosed);
    ASSERT_TRUE(fiber::sleep_for(1s).ok());
    s.sim.heal_all();
    EXPECT_EQ(read_code(*s.client), ErrorCode::kClosed);
    EXPECT_EQ(read_code(*s.server), ErrorCode::kClosed);
    EXPECT_EQ(s.sim.stats().timeouts, 1U);
  });
  // Nobody looked while it was cut.
  connected({.link = exact(1ms), .give_up = 60s}, [](Connected& s) {
    s.sim.isolate("b");
    ASSERT_TRUE(fiber::sleep_for(61s).ok());
    s.sim.rejoin("b");
    EXPECT_EQ(read_code(*s.client), ErrorCode::kClosed);
  });
}

// Contract: S-1. An isolated node reaches nobody but itself.
TEST(SimNetwork, Isolate) {
  connected({.link = exact(1ms)}, [](Connected& s) {
    s.sim.isolate("b");
    EXPECT_TRUE(s.sim.node("b").connect({.host = "b", .port = 1}, 1s).ok());
    EXPECT_EQ(s.sim.node("c").connect({.host = "b", .port = 1}, 1s).code(), ErrorCode::kDeadlineExceeded);
    s.sim.rejoin("b");
    EXPECT_TRUE(s.sim.node("c").connect({.host = "b", .port = 1}, 1s).ok());
  });
}

// Contract: S-1. A half-open connection is silent in both directions; nobody is told until it is given up.
TEST(SimNetwork, HalfOpen) {
  connected({.link = exact(1ms), .buffer_bytes = 1000, .give_up = 60s}, [](Connected& s) {
    ASSERT_TRUE(s.client->write_all("in flight", {}).ok());
    EXPECT_EQ(s.sim.silence_all("b"), 1U);
    EXPECT_EQ(read_text(*s.server, 9), "in flight");
    ASSERT_TRUE(s.client->write_all("lost", {}).ok());
    ASSERT_TRUE(s.server->shutdown_write({}).ok());
    EXPECT_EQ(read_code(*s.client, 59s), ErrorCode::kDeadlineExceeded);
    s.sim.heal_all();  // There is nothing to heal.
    const Result<void> full = s.client->write_all(std::string(2000, 'x'), {});
    EXPECT_EQ(full.code(), ErrorCode::kClosed);
    EXPECT_EQ(fiber::now() - s.start, 60s);
    EXPECT_EQ(read_code(*s.server), ErrorCode::kClosed);
    EXPECT_TRUE(s.sim.node("a").connect({.host = "b", .port = 1}, 1s).ok());  // New ones are not affected.
  });
  LinkOptions link = exact(1ms);
  link.half_open_ppm = 1'000'000;
  connected({.link = link}, [](Connected& s) {
    ASSERT_TRUE(s.client->write_all("x", {}).ok());
    EXPECT_EQ(read_code(*s.server, 1s), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(s.sim.stats().drops, 1U);
  });
}

// Contract: S-1. A connect without an answer ends at its deadline, or is given up as Unavailable.
TEST(SimNetwork, DroppedConnect) {
  fiber::in_virtual_time([] {
    SimNetwork sim({.link = {.connect_drop_ppm = 1'000'000}, .give_up = 60s});
    auto listener = sim.node("b").listen({.host = "b", .port = 1}).value();
    const auto start = fiber::now();
    const auto late = sim.node("a").connect({.host = "b", .port = 1}, 3s);
    ASSERT_EQ(late.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(late.error().message, "connect to b:1: the deadline passed");
    EXPECT_EQ(fiber::now() - start, 3s);
    const auto given_up = sim.node("a").connect({.host = "b", .port = 1}, {});
    ASSERT_EQ(given_up.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(given_up.error().message, "connect to b:1: Connection timed out");
    EXPECT_EQ(fiber::now() - start, 63s);
    EXPECT_EQ(listener->accept(1s).code(), ErrorCode::kDeadlineExceeded);
  });
}

// Contract: S-1. Without a listener a connect is refused after a round trip; a name that no node has is Unavailable.
TEST(SimNetwork, Refused) {
  fiber::in_virtual_time([] {
    SimNetwork sim({.link = exact(2ms)});
    (void)sim.node("b");
    const auto start = fiber::now();
    const auto refused = sim.node("a").connect({.host = "b", .port = 1}, {});
    ASSERT_EQ(refused.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().message, "connect to b:1: Connection refused");
    EXPECT_EQ(fiber::now() - start, 4ms);
    EXPECT_EQ(sim.node("a").connect({.host = "nobody", .port = 1}, {}).code(), ErrorCode::kUnavailable);
    EXPECT_EQ(sim.node("a").connect({.host = "b", .port = 0}, {}).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(sim.node("a").listen({.host = "b", .port = 1}).code(), ErrorCode::kInvalidArgument);
    // A listener on the loopback address serves its own node only, and a Unix path belongs to its node.
    auto local = sim.node("b").listen({.host = "localhost", .port = 1}).value();
    auto path = sim.node("b").listen({.unix_path = "/s"}).value();
    EXPECT_EQ(sim.node("a").connect({.host = "b", .port = 1}, {}).code(), ErrorCode::kUnavailable);
    EXPECT_EQ(sim.node("a").connect({.unix_path = "/s"}, {}).code(), ErrorCode::kUnavailable);
    EXPECT_TRUE(sim.node("b").connect({.host = "127.0.0.1", .port = 1}, {}).ok());
    EXPECT_TRUE(sim.node("b").connect({.unix_path = "/s"}, {}).ok());
  });
}

// Contract: S-1. A listener that nobody accepts from takes `backlog` connections; the next one waits for its turn.
TEST(SimNetwork, Backlog) {
  fiber::in_virtual_time([] {
    SimNetwork sim({.backlog = 2});
    auto listener = sim.node("b").listen({.host = "b", .port = 1}).value();
    auto first = sim.node("a").connect({.host = "b", .port = 1}, {}).value();
    auto second = sim.node("a").connect({.host = "b", .port = 1}, {}).value();
    EXPECT_EQ(sim.node("a").connect({.host = "b", .port = 1}, 1s).code(), ErrorCode::kDeadlineExceeded);
    auto accepted = listener->accept({}).value();
    EXPECT_TRUE(sim.node("a").connect({.host = "b", .port = 1}, 1s).ok());
    // Those that were not accepted are reset when the listener goes.
    listener->close();
    EXPECT_EQ(read_code(*second), ErrorCode::kClosed);
    ASSERT_TRUE(accepted->write_all("x", {}).ok());
    EXPECT_EQ(read_text(*first, 1), "x");
  });
}

// Contract: S-1. A connection is reset in the middle of a message: the writer is told how far it got, the reader gets
// what left before, and then Closed.
TEST(SimNetwork, ResetInTheMiddle) {
  LinkOptions link = exact(1ms);
  link.reset_ppm = 100'000;
  std::size_t cut = 0;
  connected({.link = link}, [&](Connected& s) {
    const std::string bytes = test_bytes(3, 60'000);
    const Result<void> written = s.client->write_all(bytes, {});
    ASSERT_EQ(written.code(), ErrorCode::kClosed) << text_of(written);
    EXPECT_EQ(written.error().message, "write to b:1: Connection reset by peer");
    const std::size_t done = std::stoull(*written.error().detail("done_bytes"));
    ASSERT_LT(done, bytes.size());
    cut = done;
    EXPECT_EQ(read_text(*s.server, done), bytes.substr(0, done));
    char byte = 0;
    const Result<std::size_t> end = s.server->read_some({&byte, 1}, {});
    ASSERT_EQ(end.code(), ErrorCode::kClosed);
    EXPECT_EQ(end.error().message, "read from " + s.server->peer() + ": Connection reset by peer");
    EXPECT_EQ(s.server->write_all("x", {}).code(), ErrorCode::kClosed);
    EXPECT_EQ(read_code(*s.client), ErrorCode::kClosed);
    EXPECT_EQ(s.client->write_all("x", {}).code(), ErrorCode::kClosed);
  });
  EXPECT_NE(cut % 1000, 0U);  // Within a segment, for the seed in use.
}

// Contract: S-1. reset_all() ends the waits of both ends; bytes that had arrived are still read.
TEST(SimNetwork, ResetAll) {
  connected({.link = exact(1ms)}, [](Connected& s) {
    ASSERT_TRUE(s.client->write_all("arrived", {}).ok());
    ASSERT_TRUE(fiber::sleep_for(1ms).ok());
    ASSERT_TRUE(s.client->write_all("in flight", {}).ok());
    fiber::with_scope([&](fiber::Nursery& n) {
      auto waiting = n.spawn([&] { return read_code(*s.client); });
      ASSERT_TRUE(fiber::sleep_for(1us).ok());
      EXPECT_EQ(s.sim.reset("a", "c"), 0U);
      EXPECT_EQ(s.sim.reset_all("c"), 0U);
      EXPECT_EQ(s.sim.reset_all("a"), 1U);
      EXPECT_EQ(waiting.get(), ErrorCode::kClosed);
    });
    ASSERT_TRUE(fiber::sleep_for(1s).ok());  // What was in flight does not arrive any more.
    EXPECT_EQ(read_text(*s.server, 7), "arrived");
    EXPECT_EQ(read_code(*s.server), ErrorCode::kClosed);
    EXPECT_EQ(s.server->shutdown_write({}).code(), ErrorCode::kClosed);
  });
}

// Contract: S-1. A process that dies takes its connections and listeners with it, and may come back.
TEST(SimNetwork, Crash) {
  connected({.link = exact(1ms)}, [](Connected& s) {
    s.sim.crash("b");
    EXPECT_EQ(read_code(*s.client), ErrorCode::kClosed);
    EXPECT_EQ(s.listener->accept({}).code(), ErrorCode::kClosed);
    EXPECT_EQ(s.sim.node("a").connect({.host = "b", .port = 1}, {}).code(), ErrorCode::kUnavailable);
    auto again = s.sim.node("b").listen({.host = "b", .port = 1});
    ASSERT_TRUE(again.ok()) << text_of(again);
    EXPECT_TRUE(s.sim.node("a").connect({.host = "b", .port = 1}, {}).ok());
  });
}

// Contract: S-1. As with TCP, closing with unread bytes resets the peer, and bytes sent to a closed end reset their
// sender a round trip later; until then a write succeeds in vain.
TEST(SimNetwork, CloseResets) {
  connected({.link = exact(1ms)}, [](Connected& s) {
    ASSERT_TRUE(s.client->write_all("unread", {}).ok());
    ASSERT_TRUE(fiber::sleep_for(1ms).ok());
    s.server->close();
    EXPECT_EQ(read_code(*s.client), ErrorCode::kClosed);
    EXPECT_EQ(fiber::now() - s.start, 2ms);
  });
  connected({.link = exact(1ms)}, [](Connected& s) {
    s.server->close();
    char byte = 0;
    EXPECT_EQ(s.client->read_some({&byte, 1}, {}).value(), 0U);
    EXPECT_EQ(fiber::now() - s.start, 1ms);
    EXPECT_TRUE(s.client->write_all("in vain", {}).ok());
    ASSERT_TRUE(fiber::sleep_for(2ms - 1ns).ok());
    EXPECT_TRUE(s.client->write_all("in vain", {}).ok());
    ASSERT_TRUE(fiber::sleep_for(1ns).ok());
    EXPECT_EQ(s.client->write_all("x", {}).code(), ErrorCode::kClosed);
    EXPECT_EQ(s.client->read_some({&byte, 1}, {}).value(), 0U);  // The end stays an end.
  });
  // The reset cannot pass a partition: the peer waits.
  connected({.link = exact(1ms)}, [](Connected& s) {
    s.sim.partition("a", "b");
    s.server->close();
    EXPECT_EQ(read_code(*s.client, 10s), ErrorCode::kDeadlineExceeded);
    s.sim.heal("a", "b");
    char byte = 0;
    EXPECT_EQ(s.client->read_some({&byte, 1}, {}).value(), 0U);
  });
}

// Contract: S-1. A client that gives up while the answer is on its way leaves the server a connection that ends.
TEST(SimNetwork, ConnectGivesUpLate) {
  fiber::in_virtual_time([] {
    SimNetwork sim({.link = exact(2ms)});
    auto listener = sim.node("b").listen({.host = "b", .port = 1}).value();
    EXPECT_EQ(sim.node("a").connect({.host = "b", .port = 1}, 3ms).code(), ErrorCode::kDeadlineExceeded);
    auto server = listener->accept({}).value();
    char byte = 0;
    EXPECT_EQ(server->read_some({&byte, 1}, {}).value(), 0U);
  });
}

// Some clients and servers on several nodes with every fault, for some time. Returns the digest and what happened.
struct BusyRun {
  std::uint64_t digest = 0;
  std::chrono::nanoseconds end{};
  SimNetwork::Stats stats{};
};
BusyRun busy_run(std::uint64_t seed) {
  BusyRun run;
  fiber::Runtime runtime({.worker_count = 3, .deterministic_seed = 5});
  runtime.run([&] {
    SimNetwork sim({.seed = seed,
                    .link = {.latency = 1ms,
                             .jitter = 5ms,
                             .bytes_per_second = 10'000'000,
                             .max_segment_bytes = 700,
                             .connect_drop_ppm = 50'000,
                             .one_byte_ppm = 100'000,
                             .reset_ppm = 3'000,
                             .half_open_ppm = 1'000,
                             .stall_ppm = 10'000},
                    .buffer_bytes = 5'000,
                    .give_up = 20s});
    auto listener = sim.node("server").listen({.host = "server", .port = 1}).value();
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        fiber::with_scope([&](fiber::Nursery& sessions) {
          for (;;) {
            auto accepted = listener->accept({});
            if (!accepted.ok()) return;
            sessions.launch([s = std::shared_ptr<ByteStream>(std::move(*accepted))] {
              std::string buffer(900, '\0');
              for (;;) {
                const Result<std::size_t> count = s->read_some(buffer, {});
                if (!count.ok() || *count == 0) return;
                if (!s->write_all(std::string_view(buffer).substr(0, *count), 30s).ok()) return;
              }
            });
          }
        });
      });
      n.launch([&] {
        for (int i = 0; i < 20; ++i) {
          const std::string node = "client" + std::to_string(i % 3);
          (void)fiber::sleep_for(300ms);
          i % 2 == 0 ? sim.partition(node, "server") : sim.partition_one_way("server", node);
          (void)fiber::sleep_for(200ms);
          sim.heal(node, "server");
          if (i % 5 == 0) (void)sim.reset_all(node);
        }
      });
      fiber::with_scope([&](fiber::Nursery& clients) {
        for (int i = 0; i < 3; ++i) {
          clients.launch([&, i] {
            Network& network = sim.node("client" + std::to_string(i));
            for (std::uint64_t attempt = 0; attempt < 10; ++attempt) {
              auto stream = network.connect({.host = "server", .port = 1}, 2s);
              if (!stream.ok()) continue;
              const std::string bytes = test_bytes(attempt, 10'000);
              for (std::size_t at = 0; at < bytes.size(); at += 1'000) {
                std::string echo(1'000, '\0');
                if (!(*stream)->write_all(bytes.substr(at, 1'000), 5s).ok()) break;
                if (!(*stream)->read_exactly(echo, 5s).ok()) break;
                EXPECT_EQ(echo, bytes.substr(at, 1'000));  // Whatever happens, bytes are right or there is an error.
              }
            }
          });
        }
      });
      listener->close();
    });
    run = {sim.digest(), fiber::now(), sim.stats()};
  });
  return run;
}

// Contract: S-1. The same seed gives the same bytes at the same times, with every fault switched on; another does not.
TEST(SimNetwork, TheSeedDecidesEverything) {
  std::vector<std::uint64_t> digests;
  SimNetwork::Stats sum;
  for (std::uint64_t seed = 1; seed <= (ROTA_TSAN ? 3 : 10); ++seed) {
    const BusyRun first = busy_run(seed);
    const BusyRun second = busy_run(seed);
    EXPECT_EQ(first.digest, second.digest) << "seed " << seed;
    EXPECT_EQ(first.end, second.end) << "seed " << seed;
    digests.push_back(first.digest);
    sum.connections += first.stats.connections;
    sum.resets += first.stats.resets;
    sum.drops += first.stats.drops;
    sum.read_bytes += first.stats.read_bytes;
  }
  std::sort(digests.begin(), digests.end());
  EXPECT_EQ(std::unique(digests.begin(), digests.end()), digests.end());
  EXPECT_GT(sum.connections, 30U);
  EXPECT_GT(sum.resets, 10U);
  EXPECT_GT(sum.drops, 3U);
  EXPECT_GT(sum.read_bytes, 100'000U);
}

}  // namespace
}  // namespace rota::net

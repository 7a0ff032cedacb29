#include "net/grpc.h"

#include <gtest/gtest.h>

#include <optional>

#include "net/http2_testing.h"
#include "net/sim_network.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

using namespace std::chrono_literals;
using Kind = testing::TestReply::Kind;
using testing::TestHttp2Server;
using testing::TestReply;

std::string framed(std::string_view message) {
  std::string bytes;
  append_grpc_message(bytes, message);
  return bytes;
}
TestReply echo(const std::string& body) { return {.body = body}; }

// Two servers and a client on a simulated network, in virtual time.
class Peers {
 public:
  Peers(
      SimNetwork& sim, fiber::Nursery& nursery, const TestHttp2Server::Handler& first,
      const TestHttp2Server::Handler& second = [](auto&, auto& body) { return echo(body); })
      : sim_(sim),
        nursery_(nursery),
        a(sim.node("a").listen({.host = "a", .port = 1}).value(), first, nursery),
        b(sim.node("b").listen({.host = "b", .port = 1}).value(), second, nursery) {}
  GrpcOptions options() {
    GrpcOptions options;
    options.endpoints = {{.host = "a", .port = 1}, {.host = "b", .port = 1}};
    options.seed = 0;
    return options;
  }
  std::unique_ptr<GrpcClient> client() { return client(options()); }
  std::unique_ptr<GrpcClient> client(const GrpcOptions& options) {
    return std::make_unique<GrpcClient>(sim_.node("client"), options, nursery_);
  }
  ~Peers() {
    a.close();
    b.close();
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

 private:
  SimNetwork& sim_;
  fiber::Nursery& nursery_;

 public:
  TestHttp2Server a;
  TestHttp2Server b;
};

template <class Body>
void simulate(const TestHttp2Server::Handler& first, Body&& body) {
  SimNetwork sim({.seed = 5, .link = {.latency = 1ms, .jitter = 100us}});
  std::optional<Peers> peers;  // Outlives the tasks that use it.
  fiber::Runtime runtime({.worker_count = 1, .deterministic_seed = 9});
  runtime.run([&] {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      peers.emplace(sim, nursery, first);
      body(*peers, sim);
      peers->a.close();
      peers->b.close();
    });
  });
}

// Many calls share one connection, and answers larger than the window arrive whole.
TEST(Grpc, CallsShareAConnection) {
  const std::string large(std::size_t{9} << 20, 'x');
  simulate([&](auto& path, auto& body) { return path == "/large" ? echo(framed(large)) : echo(body); },
           [&](Peers& peers, SimNetwork& /*sim*/) {
             const auto client = peers.client();
             fiber::with_scope([&](fiber::Nursery& calls) {
               for (int i = 0; i < 200; ++i) {
                 calls.launch([&, i] {
                   const std::string text =
                       "call " + std::to_string(i) + std::string(static_cast<std::size_t>(i) * 50, 'y');
                   const auto answer = client->call("/echo", text, 60s);
                   ASSERT_TRUE(answer.ok()) << answer.error().to_string();
                   EXPECT_EQ(*answer, text);
                 });
               }
               calls.launch([&] { EXPECT_EQ(client->call("/large", "", 60s).value(), large); });
             });
             EXPECT_EQ(client->call("/echo", large, 60s).value(), large);
             EXPECT_EQ(peers.a.connections(), 1);
             EXPECT_EQ(peers.b.connections(), 0);
           });
}

// A status other than OK is an error with the server's sentence, also if it comes without a body.
TEST(Grpc, Statuses) {
  TestReply reply;
  simulate([&](auto&, auto&) { return reply; },
           [&](Peers& peers, SimNetwork& /*sim*/) {
             const auto client = peers.client();
             reply = {.kind = Kind::kTrailersOnly, .status = "5", .message = "no%20such key%21%zz"};
             const auto missing = client->call("/x", "", 60s);
             EXPECT_EQ(missing.code(), ErrorCode::kNotFound);
             EXPECT_NE(missing.error().message.find("no such key!%zz"), std::string::npos);
             EXPECT_EQ(*missing.error().detail("grpc"), "5");
             reply = {.body = framed("ignored"), .status = "8", .message = "full"};
             EXPECT_EQ(client->call("/x", "", 60s).code(), ErrorCode::kResourceExhausted);
             reply = {.body = framed("one") + framed("two")};
             EXPECT_EQ(client->call("/x", "", 60s).code(), ErrorCode::kCorrupt);
             EXPECT_EQ(peers.client()->call("/x", "", 60s).code(), ErrorCode::kCorrupt);
             reply = {.body = framed("cut short").substr(0, 7)};
             EXPECT_EQ(peers.client()->call("/x", "", 60s).code(), ErrorCode::kCorrupt);
             reply = {.body =
                          "\x01"
                          "aaaa"};
             EXPECT_EQ(peers.client()->call("/x", "", 60s).code(), ErrorCode::kUnsupported);
             reply = {.body = framed(""), .status = "not a number"};
             EXPECT_EQ(peers.client()->call("/x", "", 60s).code(), ErrorCode::kCorrupt);
           });
}

// The caller's deadline ends the wait and resets the stream; the connection stays. A server that is silent for
// reply_within is left.
TEST(Grpc, Deadlines) {
  simulate([&](auto& path, auto& body) { return path == "/silent" ? TestReply{.kind = Kind::kSilent} : echo(body); },
           [&](Peers& peers, SimNetwork& /*sim*/) {
             const auto client = peers.client();
             const auto begin = fiber::now();
             EXPECT_EQ(client->call("/silent", "", 1s).code(), ErrorCode::kDeadlineExceeded);
             EXPECT_LT(fiber::now() - begin, 1100ms);
             EXPECT_EQ(client->call("/echo", "x", 1s).value(), "x");
             EXPECT_EQ(peers.a.resets(), 1);
             EXPECT_EQ(peers.a.connections(), 1);
             const auto silent = client->call("/silent", "", 60s);
             EXPECT_EQ(silent.code(), ErrorCode::kUnavailable);
             EXPECT_EQ(silent.error().detail("executed"), nullptr);
             EXPECT_EQ(client->call("/echo", "y", 1s).value(), "y");
             EXPECT_EQ(peers.b.connections(), 1);
           });
}

// GOAWAY: the call in flight is answered, and the next one uses another connection.
TEST(Grpc, GoawayMeansReconnect) {
  simulate([](auto&, auto& body) { return TestReply{.kind = Kind::kGoaway, .body = body}; },
           [](Peers& peers, SimNetwork& /*sim*/) {
             const auto client = peers.client();
             for (int i = 1; i <= 3; ++i) {
               EXPECT_EQ(client->call("/echo", "x", 60s).value(), "x");
               EXPECT_EQ(peers.a.connections(), i);
             }
           });
}

// What certainly was not executed is repeated elsewhere; what may have been is reported.
TEST(Grpc, OnlyWhatWasNotExecutedIsRepeated) {
  Kind kind = Kind::kReset;
  int handled = 0;
  simulate(
      [&](auto&, auto&) {
        ++handled;
        return TestReply{.kind = kind};
      },
      [&](Peers& peers, SimNetwork& sim) {
        EXPECT_EQ(peers.client()->call("/echo", "refused", 60s).value(), "refused");  // REFUSED_STREAM: by b.
        for (const Kind fatal : {Kind::kHangUp, Kind::kGarbage}) {
          kind = fatal;
          handled = 0;
          const auto client = peers.client();
          const auto lost = client->call("/echo", "x", 60s);
          EXPECT_TRUE(lost.code() == ErrorCode::kUnavailable || lost.code() == ErrorCode::kCorrupt);
          EXPECT_EQ(lost.error().detail("executed"), nullptr);
          EXPECT_EQ(handled, 1);
          EXPECT_EQ(client->call("/echo", "y", 60s).value(), "y");  // By b.
        }
        sim.crash("a");
        EXPECT_EQ(peers.client()->call("/echo", "z", 60s).value(), "z");
        sim.crash("b");
        const auto nobody = peers.client()->call("/echo", "z", 2s);
        EXPECT_EQ(nobody.code(), ErrorCode::kUnavailable);
        EXPECT_EQ(*nobody.error().detail("executed"), "no");
      });
}

// A stream delivers messages as they come, survives deadlines, is kept alive by pings that are rare enough, and ends
// when its connection is silent.
TEST(Grpc, Streams) {
  simulate(
      [](auto& path, auto&) {
        return path == "/open" ? TestReply{.kind = Kind::kOpen, .body = framed("one") + framed("") + framed("three")}
                               : TestReply{.body = framed("last"), .status = "0"};
      },
      [](Peers& peers, SimNetwork& sim) {
        const auto client = peers.client();
        auto open = client->stream("/open", "", 60s).value();
        EXPECT_EQ(open->next(60s).value(), "one");
        EXPECT_EQ(open->next(60s).value(), "");
        EXPECT_EQ(open->next(60s).value(), "three");
        const auto begin = fiber::now();
        EXPECT_EQ(open->next(95s).code(), ErrorCode::kDeadlineExceeded);
        EXPECT_GE(peers.a.pings(), 5);
        EXPECT_LE(peers.a.pings(), (fiber::now() - begin) / 5s);
        auto ending = client->stream("/ends", "", 60s).value();
        EXPECT_EQ(ending->next(60s).value(), "last");
        EXPECT_FALSE(ending->next(60s).value().has_value());
        sim.silence_all("a");
        EXPECT_EQ(open->next(100s).code(), ErrorCode::kUnavailable);
        auto again = client->stream("/open", "", 60s);
        ASSERT_TRUE(again.ok());
      });
}

// Without an open stream no ping is sent.
TEST(Grpc, NoPingsWithoutStreams) {
  simulate([](auto&, auto& body) { return echo(body); },
           [](Peers& peers, SimNetwork& /*sim*/) {
             const auto client = peers.client();
             EXPECT_EQ(client->call("/echo", "x", 60s).value(), "x");
             ASSERT_TRUE(fiber::sleep_for(100s).ok());
             EXPECT_EQ(peers.a.pings(), 0);
             EXPECT_EQ(client->call("/echo", "y", 60s).value(), "y");
             EXPECT_EQ(peers.a.connections(), 1);
           });
}

// A stream that nobody reads holds a window's worth of bytes; others on the connection continue.
TEST(Grpc, ASlowReaderIsBounded) {
  const std::string large = framed(std::string(std::size_t{6} << 20, 'x'));
  simulate([&](auto& path, auto& body) { return path == "/large" ? echo(large) : echo(body); },
           [&](Peers& peers, SimNetwork& sim) {
             const auto client = peers.client();
             auto slow = client->stream("/large", "", 60s).value();
             ASSERT_TRUE(fiber::sleep_for(10s).ok());
             EXPECT_LT(sim.stats().read_bytes, std::size_t{5} << 20);
             EXPECT_EQ(client->call("/echo", "x", 60s).value(), "x");
             EXPECT_EQ(slow->next(60s).value()->size(), std::size_t{6} << 20);
           });
}

// A cancelled caller disturbs nobody; close() ends the waits of all.
TEST(Grpc, CancelAndClose) {
  simulate([&](auto& path, auto& body) { return path == "/silent" ? TestReply{.kind = Kind::kSilent} : echo(body); },
           [&](Peers& peers, SimNetwork& /*sim*/) {
             const auto client = peers.client();
             fiber::with_scope([&](fiber::Nursery& tasks) {
               auto waiting = tasks.spawn([&] { return client->call("/silent", "", 60s).code(); });
               EXPECT_EQ(client->call("/echo", "x", 60s).value(), "x");
               waiting.cancel();
               EXPECT_EQ(client->call("/echo", "y", 60s).value(), "y");
               EXPECT_EQ(peers.a.connections(), 1);
               auto closed = tasks.spawn([&] { return client->call("/silent", "", 60s).code(); });
               ASSERT_TRUE(fiber::sleep_for(1s).ok());
               client->close();
               EXPECT_EQ(closed.get(), ErrorCode::kClosed);
               EXPECT_EQ(client->call("/echo", "z", 60s).code(), ErrorCode::kClosed);
             });
           });
}

}  // namespace
}  // namespace rota::net

// The client against a stand-in for the server, over TCP and, under virtual time, over the simulated network. The tests
// of bus/ run it against a real server.
#include "net/redis_client.h"

#include <gtest/gtest.h>

#include "fiber/testing.h"
#include "net/fake_redis.h"
#include "net/sim_network.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

using namespace std::chrono_literals;

struct Server {
  explicit Server(fiber::Nursery& the_nursery, LinkOptions link = {})
      : sim({.link = link}), nursery(the_nursery), network(sim.node("client")) {
    fake = FakeRedis::start(sim.node("redis"), {.host = "redis", .port = 6379}, nursery).value();
    url = RedisUrl::parse("redis://redis").value();
  }
  SimNetwork sim;
  fiber::Nursery& nursery;
  Network& network;
  std::unique_ptr<FakeRedis> fake;
  RedisUrl url;
};

template <class Body>
void with_server(Body&& body, LinkOptions link = {}) {
  fiber::in_virtual_time([&] {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Server server(nursery, link);
      body(server);
      server.fake->close();
    });
  });
}

// Contract: U-1. Many tasks share a connection, and each gets its own replies, in order.
TEST(RedisClient, ManyTasksShareAConnection) {
  with_server([](Server& server) {
    RedisClient client(server.network, server.url, {}, server.nursery);
    fiber::with_scope([&](fiber::Nursery& n) {
      for (int task = 0; task < 20; ++task) {
        n.launch([&client, key = "k" + std::to_string(task)] {
          for (std::int64_t i = 1; i <= 5; ++i) {
            RespCommands commands;
            commands.add({"LPUSH", key, "x"});
            commands.add({"LLEN", key});
            const auto replies = client.call(std::move(commands));
            ASSERT_TRUE(replies.ok()) << replies.error().to_string();
            ASSERT_EQ(replies->size(), 2U);
            EXPECT_EQ((*replies)[0].integer, i);
            EXPECT_EQ((*replies)[1].integer, i);
          }
        });
      }
    });
    EXPECT_EQ(server.sim.stats().connections, 1U);
  });
}

// Contract: U-1. A call fails by its deadline, others do not notice; after a failure the client connects again.
TEST(RedisClient, DeadlinesAndReconnecting) {
  with_server([](Server& server) {
    RedisClient client(server.network, server.url, {.reply_within = 2s}, server.nursery);
    ASSERT_TRUE(client.call_one({"PING"}).ok());
    server.fake->set_paused(true);
    EXPECT_EQ(client.call_one({"PING"}, 10ms).code(), ErrorCode::kDeadlineExceeded);
    EXPECT_EQ(client.call_one({"PING"}).code(), ErrorCode::kUnavailable);
    server.fake->set_paused(false);
    server.fake->break_connections();
    for (int i = 0; i < 3 && !client.call_one({"PING"}).ok(); ++i) {
    }
    EXPECT_EQ(client.call_one({"PING"})->text, "PONG");
    EXPECT_EQ(client.call_one({"NONSENSE"}).code(), ErrorCode::kUnsupported);
    server.fake->set_out_of_memory(true);
    EXPECT_EQ(client.call_one({"LPUSH", "k", "v"}).code(), ErrorCode::kResourceExhausted);
    client.close();
    EXPECT_EQ(client.call_one({"PING"}).code(), ErrorCode::kClosed);
  });
}

// Contract: U-1. Replies that arrive byte by byte are the same replies; a call that is cancelled disturbs no other one.
TEST(RedisClient, OneByteAtATimeAndCancelledCalls) {
  with_server(
      [](Server& server) {
        RedisClient client(server.network, server.url, {}, server.nursery);
        ASSERT_TRUE(client.call_one({"SADD", "s", std::string(200, 'a'), "b"}).ok());
        fiber::with_scope([&](fiber::Nursery& n) {
          auto cancelled = n.spawn([&] { return client.call_one({"SMEMBERS", "s"}).code(); });
          n.launch([&] { EXPECT_EQ(client.call_one({"SMEMBERS", "s"})->items.size(), 2U); });
          fiber::yield();
          cancelled.cancel();
          cancelled.wait();
        });
        EXPECT_EQ(client.call_one({"SMEMBERS", "s"})->items.front().text, std::string(200, 'a'));
      },
      {.min_segment_bytes = 1, .max_segment_bytes = 1});
}

// Contract: U-1. Nobody listens, the name is unknown, or TLS is asked for and not configured: a sentence with the
// address.
TEST(RedisClient, UnreachableServers) {
  with_server([](Server& server) {
    const auto refused = [&](const char* url) {
      const auto opened = RedisConnection::open(server.network, RedisUrl::parse(url).value(), {.within = 1s});
      EXPECT_NE(opened.error().message.find("redis"), std::string::npos);
      EXPECT_EQ(opened.error().message.find("hunter2"), std::string::npos);
      return opened.code();
    };
    EXPECT_EQ(refused("redis://u:hunter2@redis:1"), ErrorCode::kUnavailable);
    EXPECT_EQ(refused("redis://u:hunter2@elsewhere"), ErrorCode::kUnavailable);
    EXPECT_EQ(refused("rediss://u:hunter2@redis"), ErrorCode::kUnsupported);
    server.sim.partition("client", "redis");
    EXPECT_EQ(refused("redis://u:hunter2@redis"), ErrorCode::kUnavailable);
  });
}

}  // namespace
}  // namespace rota::net

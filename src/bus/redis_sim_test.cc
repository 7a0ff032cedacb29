// Both ends of the Redis bus and a stand-in for Redis, under virtual time: the conformance suite, and random faults.
#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"
#include "bus/conformance.h"
#include "bus/redis_testing.h"
#include "fiber/testing.h"
#include "net/fake_redis.h"
#include "net/sim_network.h"

namespace rota::bus {

struct FakeRedisHome {
  static constexpr bool kVirtualTime = true;
  static constexpr bool kNewerWins = true;
  static constexpr bool kAcknowledgesAtOnce = false;

  explicit FakeRedisHome(std::size_t capacity) : options(quick_options(net::RedisUrl::parse("redis://redis").value())) {
    redis = net::FakeRedis::start(network.node("redis"), {.host = "redis", .port = 6379}, nursery).value();
    options.capacity = capacity;
    options.process = 1;
    end = RedisHostEnd::open(network.node("host"), options, nursery).value();
    EXPECT_TRUE(end->await_connected(kSoon).ok());
  }
  HostEnd& host() { return *end; }
  Result<std::unique_ptr<WorkerEnd>> connect(const std::string& worker) {
    if (closed) return ErrorCode::kClosed;
    RedisBusOptions own = options;
    own.process = ++processes;
    ROTA_TRY_ASSIGN(std::unique_ptr<RedisWorkerEnd> made,
                    RedisWorkerEnd::open(network.node("worker"), own, worker, nursery));
    ROTA_TRY(made->await_connected(kSoon));
    workers.push_back(made.get());
    return std::unique_ptr<WorkerEnd>(std::move(made));
  }
  void close() {
    closed = true;
    end->close();
    for (RedisWorkerEnd* worker : workers) worker->close();
  }
  net::SimNetwork network;
  fiber::Nursery nursery;
  RedisBusOptions options;
  std::unique_ptr<net::FakeRedis> redis;
  std::unique_ptr<RedisHostEnd> end;
  std::vector<RedisWorkerEnd*> workers;
  std::uint64_t processes = 1;
  bool closed = false;
};
INSTANTIATE_TYPED_TEST_SUITE_P(FakeRedis, BusConformance, FakeRedisHome);

namespace {

using namespace std::chrono_literals;

// What happens to Redis and to the network while messages are exchanged.
void disturb(net::FakeRedis& redis, net::SimNetwork& network, Prng& random) {
  switch (random.below(8)) {
    case 0:
      redis.restart_empty();
      break;
    case 1:
      redis.lose_everything();
      break;
    case 2:
      redis.remember();
      break;
    case 3:
      redis.fail_over();
      break;
    case 4:
      redis.set_out_of_memory(true);
      (void)fiber::sleep_for(std::chrono::milliseconds(random.below(300)));
      redis.set_out_of_memory(false);
      break;
    case 5:
      redis.set_paused(true);
      (void)fiber::sleep_for(std::chrono::milliseconds(random.below(3000)));
      redis.set_paused(false);
      break;
    case 6:
      network.isolate("redis");
      (void)fiber::sleep_for(std::chrono::milliseconds(random.below(3000)));
      network.rejoin("redis");
      break;
    default:
      network.reset_all(random.chance(1, 2) ? "host" : "worker");
  }
}

// Contract: U-1, S-1. Whatever happens to Redis and to the network, every message arrives exactly once and in order,
// over connections that deliver byte by byte and break in the middle of a message.
TEST(RedisSim, ExactlyOnceUnderFaults) {
  const LogCapture quiet(LogLevel::kWarn);
  constexpr std::uint64_t kRuns = ROTA_TSAN ? 5 : 60;
  for (std::uint64_t seed = 1; seed <= kRuns && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fiber::Runtime runtime({.deterministic_seed = seed});
    runtime.run([&] {
      fiber::with_scope([&](fiber::Nursery& nursery) {
        Prng random(seed);
        net::LinkOptions link{.latency = std::chrono::microseconds(random.below(2000)),
                              .min_segment_bytes = 1,
                              .max_segment_bytes = 1 + random.below(500)};
        if (random.chance(1, 2)) link.reset_ppm = 2000;
        net::SimNetwork network({.seed = seed, .link = link});
        auto redis = net::FakeRedis::start(network.node("redis"), {.host = "redis", .port = 6379}, nursery).value();
        RedisBusOptions options = quick_options(net::RedisUrl::parse("redis://redis").value());
        options.capacity = 1 + random.below(50);
        options.send_within = 10min;
        options.rejoin_within = 10min;
        options.process = 1;
        auto host = RedisHostEnd::open(network.node("host"), options, nursery).value();
        options.process = 2;
        auto worker = RedisWorkerEnd::open(network.node("worker"), options, "w", nursery).value();
        EXPECT_TRUE(worker->await_connected(kSoon).ok());
        exchange_messages(*host, *worker, "w", 0, 1);  // A process that has received nothing begins with what it sees.
        fiber::with_scope([&](fiber::Nursery& n) {
          auto faults = n.spawn([&] {
            while (fiber::sleep_for(std::chrono::milliseconds(random.below(100))).ok())
              disturb(*redis, network, random);
          });
          exchange_messages(*host, *worker, "w", 1, 300);
          faults.cancel();
        });
        host->close();
        worker->close();
        redis->close();
      });
    });
  }
}

// Contract: S-1. A seed reproduces a run to the byte.
TEST(RedisSim, ASeedReproducesTheBytes) {
  const auto digest_of = [](std::uint64_t seed) {
    const LogCapture quiet(LogLevel::kWarn);
    std::uint64_t digest = 0;
    fiber::Runtime runtime({.deterministic_seed = seed});
    runtime.run([&] {
      FakeRedisHome home(100);
      auto worker = home.connect("w").value();
      exchange_messages(home.host(), *worker, "w", 0, 50);
      home.redis->restart_empty();
      exchange_messages(home.host(), *worker, "w", 50, 50);
      digest = home.network.digest();
    });
    return digest;
  };
  const std::uint64_t first = digest_of(3);
  EXPECT_EQ(digest_of(3), first);
  EXPECT_NE(digest_of(4), first);
}

}  // namespace
}  // namespace rota::bus

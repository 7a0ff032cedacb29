// Both ends of the Redis bus and a stand-in for Redis, under virtual time: the conformance suite, and random faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
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

  static net::RedisUrl url() { return net::RedisUrl::parse("redis://redis").value(); }
  explicit FakeRedisHome(std::size_t capacity, RedisBusOptions of = quick_options(url())) : options(std::move(of)) {
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

// The conformance suite also runs in real time, where a thread that waits for a processor is not a failure of Redis.
struct ConformingHome : FakeRedisHome {
  explicit ConformingHome(std::size_t capacity) : FakeRedisHome(capacity, patient_options(url())) {}
  HostEnd& host() { return patient; }
  PatientHostEnd patient{*end};
};
INSTANTIATE_TYPED_TEST_SUITE_P(FakeRedis, BusConformance, ConformingHome);

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
  // ROTA_REDIS_SEEDS=FIRST-LAST: others than in the test run.
  const char* given = std::getenv("ROTA_REDIS_SEEDS");  // NOLINT(concurrency-mt-unsafe)
  std::uint64_t first = 1;
  std::uint64_t last = ROTA_TSAN ? 5 : 60;
  if (given != nullptr) {
    ASSERT_EQ(std::sscanf(given, "%" SCNu64 "-%" SCNu64, &first, &last), 2) << given;
  }
  for (std::uint64_t seed = first; seed <= last && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    fiber::Runtime runtime({.deterministic_seed = seed});
    runtime.run([&] {
      Prng random(seed);
      net::LinkOptions link{.latency = std::chrono::microseconds(random.below(2000)),
                            .min_segment_bytes = 1,
                            .max_segment_bytes = 1 + random.below(500)};
      // Of the small segments fewer are lost, or a batch of messages would never get through.
      if (random.chance(1, 2))
        link.reset_ppm = static_cast<std::uint32_t>(std::min<std::size_t>(2000, 200 * link.max_segment_bytes));
      net::SimNetwork network({.seed = seed, .link = link});
      fiber::with_scope([&](fiber::Nursery& nursery) {  // The tasks of both ends use the network until they end.
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

// Contract: U-1. What Redis keeps for a worker is removed when the host does not expect the worker and has not heard
// from it for long; not before, and not if the host expects it. A worker that was forgotten and is there after all
// loses nothing.
TEST(RedisSim, WorkersThatAreGoneLeaveNothingInRedis) {
  const LogCapture quiet(LogLevel::kWarn);
  fiber::Runtime runtime({.deterministic_seed = 5});
  runtime.run([] {
    FakeRedisHome home(100);
    const RedisKeys keys{home.options.prefix};
    auto connection = net::RedisConnection::open(home.network.node("test"), home.options.url).value();
    const auto streams_of = [&](std::string_view worker) {
      return connection->exchange_one({"EXISTS", keys.to(worker)}, kSoon)->integer +
             connection->exchange_one({"EXISTS", keys.from(worker)}, kSoon)->integer;
    };
    const auto known = [&] {
      std::set<std::string> names;
      const auto members = connection->exchange_one({"SMEMBERS", keys.workers()}, kSoon).value();
      for (const net::RespValue& name : members.items) names.insert(name.text);
      return names;
    };
    auto worker = home.connect("w").value();
    auto other = home.connect("other").value();
    exchange_messages(home.host(), *worker, "w", 0, 5);
    exchange_messages(home.host(), *other, "other", 0, 5);
    home.host().expect("other", true);
    worker.reset();
    ASSERT_TRUE(fiber::sleep_for(home.options.forget_after - 10s).ok());
    EXPECT_EQ(streams_of("w"), 2);
    ASSERT_TRUE(fiber::sleep_for(20s).ok());
    EXPECT_EQ(streams_of("w"), 0);
    EXPECT_EQ(streams_of("other"), 2);
    EXPECT_EQ(known(), std::set<std::string>{"other"});
    EXPECT_EQ(home.host().send("w", assign_of(1)).code(), ErrorCode::kNotFound);
    // Another process under the same name.
    worker = home.connect("w").value();
    ASSERT_TRUE(worker->send(report_of(10)).ok());
    EXPECT_EQ(task_of(receive_soon(home.host())->message), 10U);
    exchange_messages(home.host(), *worker, "w", 11, 5);
    // The same process, which was only silent.
    home.host().expect("other", false);
    ASSERT_TRUE(fiber::sleep_for(home.options.forget_after).ok());
    EXPECT_EQ(streams_of("other"), 0);
    ASSERT_TRUE(other->send(report_of(20)).ok());
    EXPECT_EQ(task_of(receive_soon(home.host())->message), 20U);
    exchange_messages(home.host(), *other, "other", 21, 20);
    EXPECT_EQ(streams_of("other"), 2);
  });
}

// Contract: U-1. Silence while Redis is away does not count; a sender that waits for room is told when its worker is
// forgotten; the next host forgets what its predecessor left behind.
TEST(RedisSim, ForgettingAndOutages) {
  const LogCapture quiet(LogLevel::kWarn);
  fiber::Runtime runtime({.deterministic_seed = 6});
  runtime.run([] {
    FakeRedisHome home(1);
    auto worker = home.connect("w").value();
    exchange_messages(home.host(), *worker, "w", 0, 1);
    ASSERT_TRUE(fiber::sleep_for(1s).ok());  // Everything is acknowledged.
    worker.reset();
    ASSERT_TRUE(home.host().send("w", assign_of(1)).ok());
    fiber::with_scope([&](fiber::Nursery& n) {
      auto waiting = n.spawn([&] { return home.host().send("w", assign_of(2)); });  // There is room for one message.
      home.network.isolate("redis");
      ASSERT_TRUE(fiber::sleep_for(2 * home.options.forget_after).ok());
      home.network.rejoin("redis");
      ASSERT_TRUE(fiber::sleep_for(10s).ok());
      EXPECT_FALSE(waiting.is_completed());
      ASSERT_TRUE(fiber::sleep_for(home.options.forget_after).ok());
      EXPECT_EQ(waiting.get().code(), ErrorCode::kNotFound);
    });
    // A host that is killed after its worker: nobody told it, or its successor.
    worker = home.connect("v").value();
    exchange_messages(home.host(), *worker, "v", 0, 1);
    worker.reset();
    home.end.reset();
    home.options.process = 99;
    home.end = RedisHostEnd::open(home.network.node("host"), home.options, home.nursery).value();
    ASSERT_TRUE(fiber::sleep_for(home.options.forget_after + 20s).ok());
    auto connection = net::RedisConnection::open(home.network.node("test"), home.options.url).value();
    const RedisKeys keys{home.options.prefix};
    for (const std::string& key : {keys.to("v"), keys.from("v"), keys.workers(), keys.to("w"), keys.from("w")}) {
      EXPECT_EQ(connection->exchange_one({"EXISTS", key}, kSoon)->integer, 0) << key;
    }
  });
}

// Contract: U-1. An entry that looks like one of another version, but is not the host's, does not end a worker: the
// host answers, and its entries can be read. Nor does it end the next process of that name.
TEST(RedisSim, AnEntryOfAnotherVersionThatIsNotTheHosts) {
  const LogCapture quiet(LogLevel::kError);
  fiber::Runtime runtime({.deterministic_seed = 7});
  runtime.run([] {
    FakeRedisHome home(100);
    const RedisKeys keys{home.options.prefix};
    auto connection = net::RedisConnection::open(home.network.node("test"), home.options.url).value();
    for (int life = 0; life < 2; ++life) {
      auto worker = home.connect("w").value();
      exchange_messages(home.host(), *worker, "w", 0, 5);
      ASSERT_FALSE(connection->exchange_one({"XADD", keys.to("w"), "*", "f", "zzz"}, kSoon)->is_error());
      ASSERT_TRUE(fiber::sleep_for(1min).ok());
      EXPECT_TRUE(static_cast<RedisWorkerEnd&>(*worker).ended().ok());
      exchange_messages(home.host(), *worker, "w", 5, 5);
      ASSERT_TRUE(fiber::sleep_for(1s).ok());  // Everything is acknowledged.
    }
  });
}

// Another process of the host, on the same Redis.
void replace_host(FakeRedisHome& home, std::uint64_t process) {
  home.end.reset();
  home.options.process = process;
  home.end = RedisHostEnd::open(home.network.node("host"), home.options, home.nursery).value();
}

// Contract: U-1, U-4. A worker hears that another process is the host now, before any message of it, so that it
// registers: the new one may know nothing.
TEST(RedisSim, AWorkerHearsOfANewHost) {
  const LogCapture quiet(LogLevel::kWarn);
  fiber::Runtime runtime({.deterministic_seed = 8});
  runtime.run([] {
    FakeRedisHome home(100);
    auto worker = home.connect("w").value();
    exchange_messages(home.host(), *worker, "w", 0, 5);
    ASSERT_TRUE(fiber::sleep_for(1s).ok());  // Everything is acknowledged.
    replace_host(home, 99);
    ASSERT_TRUE(home.host().send("w", assign_of(7)).ok());
    const auto news = worker->receive(kSoon);
    ASSERT_EQ(news.code(), ErrorCode::kUnavailable);
    EXPECT_NE(news.error().message.find("another process of the host has taken over"), std::string::npos);
    EXPECT_EQ(task_of(worker->receive(kSoon)->message), 7U);
  });
}

// Contract: U-1. Hosts that come and go and have nothing for a worker do not fill its inbox: it hears of each, and gets
// the messages of the last one; also if a message waits for its acknowledgement meanwhile.
TEST(RedisSim, ManyNewHostsLeaveRoomForMessages) {
  const LogCapture quiet(LogLevel::kWarn);
  fiber::Runtime runtime({.deterministic_seed = 12});
  runtime.run([] {
    FakeRedisHome home(3);
    auto worker = home.connect("w").value();
    exchange_messages(home.host(), *worker, "w", 0, 5);
    ASSERT_TRUE(fiber::sleep_for(1s).ok());  // Everything is acknowledged.
    const auto hear_of_host = [&](std::uint64_t process) {
      replace_host(home, process);
      EXPECT_EQ(worker->receive(kSoon).code(), ErrorCode::kUnavailable) << process;
    };
    for (std::uint64_t process = 100; process < 110; ++process) hear_of_host(process);
    ASSERT_TRUE(home.host().send("w", assign_of(7)).ok());
    const auto first = worker->receive(kSoon);
    ASSERT_EQ(task_of(first->message), 7U);
    hear_of_host(110);
    ASSERT_TRUE(worker->acknowledge(first->id).ok());
    for (std::uint64_t process = 111; process < 114; ++process) hear_of_host(process);
    ASSERT_TRUE(home.host().send("w", assign_of(8)).ok());
    EXPECT_EQ(task_of(worker->receive(kSoon)->message), 8U);
  });
}

// Contract: U-1. Two processes have one name, and the host hears of both at once: the older one, which the host never
// addressed, is told, and ends.
TEST(RedisSim, AReplacedWorkerThatWasNeverAddressedIsTold) {
  const LogCapture quiet(LogLevel::kError);
  fiber::Runtime runtime({.deterministic_seed = 9});
  runtime.run([] {
    FakeRedisHome home(100);
    home.end.reset();
    const auto older = home.connect("w").value();
    const auto newer = home.connect("w").value();
    replace_host(home, 99);
    const auto ended = [](const std::unique_ptr<WorkerEnd>& end) { return static_cast<RedisWorkerEnd&>(*end).ended(); };
    EXPECT_TRUE(await([&] { return !ended(older).ok(); }));
    EXPECT_NE(ended(older).error().message.find("another process has taken the name"), std::string::npos);
    EXPECT_TRUE(ended(newer).ok());
  });
}

// Contract: U-1, B-16. A worker that has waited in vain for room does not wait again with every message until it hears
// of its host: each wait would delay its heartbeat.
TEST(RedisSim, AStalledWorkerWaitsOnce) {
  const LogCapture quiet(LogLevel::kWarn);
  fiber::Runtime runtime({.deterministic_seed = 10});
  runtime.run([] {
    FakeRedisHome home(1);
    home.end.reset();
    const auto worker = home.connect("w").value();
    ASSERT_TRUE(worker->send(report_of(1)).ok());
    EXPECT_EQ(worker->send(report_of(2)).code(), ErrorCode::kUnavailable);
    const auto at = fiber::now();
    const Result<void> at_once = worker->send(report_of(3));
    EXPECT_EQ(at_once.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(at_once.error().message,
              "1 messages of this worker are not acknowledged by the host, and there is no room for more");
    EXPECT_EQ(fiber::now(), at);  // Virtual time.
    replace_host(home, 99);
    const auto heard = receive_soon(home.host());
    EXPECT_EQ(task_of(heard->message), 1U);
    ASSERT_TRUE(home.host().acknowledge(heard->id).ok());
    EXPECT_TRUE(await([&] { return worker->send(report_of(4)).ok(); }));
    EXPECT_EQ(task_of(receive_soon(home.host())->message), 4U);
  });
}

// Contract: U-1, B-16. Whoever may announce workers cannot fill the memory of the host: those beyond the bound are
// ignored, and one that is known already is not affected.
TEST(RedisSim, TooManyWorkers) {
  const LogCapture quiet(LogLevel::kError);
  fiber::Runtime runtime({.deterministic_seed = 11});
  runtime.run([] {
    FakeRedisHome home(100);
    home.options.most_workers = 3;
    replace_host(home, 99);
    const auto worker = home.connect("w").value();
    exchange_messages(home.host(), *worker, "w", 0, 5);
    const RedisKeys keys{home.options.prefix};
    auto connection = net::RedisConnection::open(home.network.node("test"), home.options.url).value();
    for (int i = 0; i < 100; ++i) {
      ASSERT_FALSE(connection->exchange_one({"LPUSH", keys.join(), "n" + std::to_string(i)}, kSoon)->is_error());
    }
    ASSERT_TRUE(await([&] { return connection->exchange_one({"EXISTS", keys.join()}, kSoon)->integer == 0; }));
    ASSERT_TRUE(fiber::sleep_for(1s).ok());
    EXPECT_EQ(connection->exchange_one({"SMEMBERS", keys.workers()}, kSoon)->items.size(), 3U);
    const auto late = home.connect("late").value();
    EXPECT_EQ(home.host().send("late", assign_of(1)).error().message,
              "the bus knows 3 workers already, and takes no more; 'late' is not among them");
    exchange_messages(home.host(), *worker, "w", 5, 5);
  });
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

#include "bus/redis_bus.h"

#include <gtest/gtest.h>

#include <set>

#include "base/log.h"
#include "bus/conformance.h"
#include "bus/redis_accounts.h"
#include "bus/redis_link.h"
#include "bus/redis_testing.h"

namespace rota::bus {

// The conformance suite runs against one real server; each test has a prefix of its own.
struct RedisHome {
  static constexpr bool kVirtualTime = false;
  static constexpr bool kNewerWins = true;
  static constexpr bool kAcknowledgesAtOnce = false;
  static inline std::unique_ptr<RedisServer> server;
  static inline int fleets = 0;
  static void set_up() { server = std::make_unique<RedisServer>(); }
  static void tear_down() { server.reset(); }

  explicit RedisHome(std::size_t capacity) : options(patient_options(server->url(), "t" + std::to_string(++fleets))) {
    options.capacity = capacity;
    end = RedisHostEnd::open(net::real_network(), options, nursery).value();
    EXPECT_TRUE(end->await_connected(kSoon).ok());
    patient.emplace(*end);
  }
  HostEnd& host() { return *patient; }
  Result<std::unique_ptr<WorkerEnd>> connect(const std::string& worker) {
    if (closed) return ErrorCode::kClosed;
    ROTA_TRY_ASSIGN(std::unique_ptr<RedisWorkerEnd> made,
                    RedisWorkerEnd::open(net::real_network(), options, worker, nursery));
    ROTA_TRY(made->await_connected(kSoon));
    workers.push_back(made.get());
    return std::unique_ptr<WorkerEnd>(std::move(made));
  }
  void close() {
    closed = true;
    end->close();
    for (RedisWorkerEnd* worker : workers) worker->close();
  }
  fiber::Nursery nursery;
  RedisBusOptions options;
  std::unique_ptr<RedisHostEnd> end;
  std::optional<PatientHostEnd> patient;
  std::vector<RedisWorkerEnd*> workers;
  bool closed = false;
};
INSTANTIATE_TYPED_TEST_SUITE_P(Redis, BusConformance, RedisHome);

namespace {

using namespace std::chrono_literals;

struct Fleet {
  Fleet(const net::RedisUrl& url, fiber::Nursery& the_nursery) : Fleet(patient_options(url), the_nursery) {}
  Fleet(RedisBusOptions of, fiber::Nursery& the_nursery) : options(std::move(of)), nursery(the_nursery) {
    options.process = 7;
    host = RedisHostEnd::open(net::real_network(), options, nursery).value();
    worker = connect("w", 42);
  }
  std::unique_ptr<RedisWorkerEnd> connect(const std::string& name, std::uint64_t process) {
    RedisBusOptions own = options;
    own.process = process;
    auto end = RedisWorkerEnd::open(net::real_network(), own, name, nursery).value();
    EXPECT_TRUE(end->await_connected(kSoon).ok());
    return end;
  }
  void exchange(std::uint64_t first, std::uint64_t count) { exchange_messages(*host, *worker, "w", first, count); }

  RedisBusOptions options;
  fiber::Nursery& nursery;
  std::unique_ptr<RedisHostEnd> host;
  std::unique_ptr<RedisWorkerEnd> worker;
};

// Contract: U-1. Redis is killed with kill -9 and restarted empty, twice, with messages under way in both directions:
// each arrives once and in order.
TEST(RedisBus, KilledAndRestartedEmpty) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 50);
    for (std::uint64_t round = 0; round < 2; ++round) {
      // Written, but neither received nor acknowledged: they are lost with the server.
      ASSERT_TRUE(fleet.host->send("w", assign_of(1)).ok());
      ASSERT_TRUE(fleet.worker->send(report_of(1)).ok());
      ASSERT_TRUE(fleet.host->flush(kSoon).ok());
      ASSERT_TRUE(fleet.worker->flush(kSoon).ok());
      server.kill();
      ASSERT_TRUE(fleet.host->send("w", assign_of(2)).ok());
      ASSERT_TRUE(fleet.worker->send(report_of(2)).ok());
      ASSERT_TRUE(await([&] { return fleet.host->status().code() == ErrorCode::kUnavailable; }));
      server.start();
      for (const std::uint64_t expected : {1U, 2U}) {
        const auto to_worker = receive_soon(*fleet.worker).value();
        EXPECT_EQ(task_of(to_worker.message), expected);
        ASSERT_TRUE(fleet.worker->acknowledge(to_worker.id).ok());
        const auto to_host = receive_soon(*fleet.host).value();
        EXPECT_EQ(task_of(to_host.message), expected);
        ASSERT_TRUE(fleet.host->acknowledge(to_host.id).ok());
      }
      fleet.exchange(100, 50);
      EXPECT_TRUE(await([&] { return fleet.host->status().ok(); }));
    }
  });
}

// Contract: U-1, H-5. Redis keeps the accounts of workers in its memory. After a restart without them, a worker asks
// for a new account, once although both of its connections are refused, and no message is lost.
TEST(RedisBus, AWorkerWhoseAccountIsForgottenGetsANewOne) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    const RedisBusOptions options = patient_options(server.url());
    RedisAccounts accounts(net::real_network(), options);
    std::uint64_t granted = 0;
    bool has_host = true;  // That could give an account.
    const auto grant = [&]() -> Result<net::RedisUrl> {
      if (!has_host) return Error{ErrorCode::kUnavailable, "the host is not there"};
      ++granted;
      ROTA_TRY_ASSIGN(const RedisAccount account, accounts.grant("w"));
      net::RedisUrl url = options.url;
      url.user = account.user;
      url.password = account.password;
      return url;
    };
    const auto host = RedisHostEnd::open(net::real_network(), options, nursery).value();
    RedisBusOptions own = options;
    own.process = 42;
    own.url = grant().value();
    own.new_account = grant;
    const auto worker = RedisWorkerEnd::open(net::real_network(), own, "w", nursery).value();
    ASSERT_TRUE(worker->await_connected(kSoon).ok());
    exchange_messages(*host, *worker, "w", 0, 20);
    for (std::uint64_t round = 1; round <= 2; ++round) {
      has_host = round == 1;
      server.kill();
      ASSERT_TRUE(worker->send(report_of(1)).ok());
      server.start();
      if (!has_host) {
        ASSERT_TRUE(await([&] { return worker->status().code() == ErrorCode::kUnauthenticated; }));
        has_host = true;
      }
      const auto report = receive_soon(*host).value();
      EXPECT_EQ(task_of(report.message), 1U);
      ASSERT_TRUE(host->acknowledge(report.id).ok());
      exchange_messages(*host, *worker, "w", 100, 20);
      EXPECT_EQ(granted, 1 + round);
    }
    worker->close();
    host->close();
  });
}

// Contract: U-1. The same without a broken connection: somebody empties the database.
TEST(RedisBus, EmptiedWhileConnected) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 10);
    // A worker that reads nothing: its message is lost while it is in Redis.
    server.pause();
    ASSERT_TRUE(fleet.host->send("w", assign_of(1)).ok());
    server.resume();
    ASSERT_FALSE(command(server.url(), {"FLUSHALL"}).is_error());
    EXPECT_EQ(task_of(receive_soon(*fleet.worker)->message), 1U);
    ASSERT_FALSE(command(server.url(), {"FLUSHALL"}).is_error());
    ASSERT_TRUE(fleet.worker->send(report_of(3)).ok());
    EXPECT_EQ(task_of(receive_soon(*fleet.host)->message), 3U);
  });
}

// Contract: U-1. Redis stands still for longer than every deadline, and then continues: both ends say that it does not
// answer, and nothing is lost or duplicated.
TEST(RedisBus, PausedForLongerThanDeadlines) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(quick_options(server.url()), nursery);
    fleet.exchange(0, 10);
    server.pause();
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { fleet.exchange(10, 100); });
      EXPECT_TRUE(await([&] {
        const Result<void> status = fleet.host->status();
        return status.code() == ErrorCode::kUnavailable && fleet.worker->status().code() == ErrorCode::kUnavailable;
      }));
      server.resume();
    });
    fleet.exchange(200, 10);
  });
}

// Contract: U-1. Redis is out of memory: both ends say so and wait, and continue when there is memory again.
TEST(RedisBus, OutOfMemory) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 10);
    ASSERT_FALSE(command(server.url(), {"CONFIG", "SET", "maxmemory", "1"}).is_error());  // No eviction by default.
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { fleet.exchange(10, 50); });
      EXPECT_TRUE(await([&] {
        return fleet.host->status().code() == ErrorCode::kResourceExhausted &&
               fleet.worker->status().code() == ErrorCode::kResourceExhausted;
      }));
      ASSERT_FALSE(command(server.url(), {"CONFIG", "SET", "maxmemory", "0"}).is_error());
    });
    fleet.exchange(100, 10);
  });
}

// Contract: U-1. A stale replica takes over: the streams end earlier than before. What is missing is written again, and
// what was received already is not received twice.
TEST(RedisBus, FailedOverToAStaleReplica) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 20);
    ASSERT_FALSE(command(server.url(), {"SAVE"}).is_error());  // What the replica has.
    fleet.exchange(20, 20);
    ASSERT_TRUE(fleet.host->send("w", assign_of(1)).ok());
    ASSERT_TRUE(fleet.worker->send(report_of(1)).ok());
    ASSERT_TRUE(fleet.host->flush(kSoon).ok());
    ASSERT_TRUE(fleet.worker->flush(kSoon).ok());
    server.kill();
    server.start();
    EXPECT_EQ(task_of(receive_soon(*fleet.worker)->message), 1U);
    EXPECT_EQ(task_of(receive_soon(*fleet.host)->message), 1U);
    fleet.exchange(40, 20);
  });
}

// Contract: U-1. A host that is restarted gets what its predecessor has not acknowledged, and reaches idle workers at
// once, although Redis was emptied as well.
TEST(RedisBus, TheHostRestarts) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 10);
    for (const bool emptied : {false, true}) {
      ASSERT_TRUE(fleet.worker->send(report_of(101)).ok());
      ASSERT_TRUE(fleet.worker->send(report_of(102)).ok());
      const auto first = receive_soon(*fleet.host).value();
      ASSERT_TRUE(receive_soon(*fleet.host).ok());
      ASSERT_TRUE(fleet.host->acknowledge(first.id).ok());
      if (emptied) server.kill();
      fleet.host.reset();
      if (emptied) server.start();
      fleet.options.process += 1;
      fleet.options.rejoin_within = 60s;
      fleet.host = RedisHostEnd::open(net::real_network(), fleet.options, nursery).value();
      ASSERT_TRUE(fleet.host->send("w", assign_of(5)).ok());
      EXPECT_EQ(task_of(receive_soon(*fleet.worker)->message), 5U);
      // Acknowledged messages that were not trimmed yet may come again.
      auto again = receive_soon(*fleet.host).value();
      while (task_of(again.message) < 102) again = receive_soon(*fleet.host).value();
      EXPECT_EQ(task_of(again.message), 102U);
      EXPECT_EQ(again.worker, "w");
      ASSERT_TRUE(fleet.host->acknowledge(again.id).ok());
    }
  });
}

// Contract: U-1. A second host on the same fleet takes over, and the first one is told in a sentence.
TEST(RedisBus, ASecondHostTakesOver) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 10);
    std::unique_ptr<RedisHostEnd> older = std::move(fleet.host);
    fleet.options.process = 8;
    fleet.host = RedisHostEnd::open(net::real_network(), fleet.options, nursery).value();
    const auto told = receive_soon(*older);
    ASSERT_EQ(told.code(), ErrorCode::kClosed);
    EXPECT_NE(told.error().message.find("another host"), std::string::npos) << told.error().message;
    EXPECT_EQ(older->ended().error().message, told.error().message);
    EXPECT_EQ(older->send("w", assign_of(1)).code(), ErrorCode::kClosed);
    // The new host may get again what the older one acknowledged last.
    exchange_messages(*fleet.host, *fleet.worker, "w", 10, 10, true);
  });
}

// Contract: U-1. Fleets with different prefixes do not see each other.
TEST(RedisBus, PrefixesSeparateFleets) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet one(server.url(), nursery);
    RedisBusOptions options = patient_options(server.url(), "other");
    auto host = RedisHostEnd::open(net::real_network(), options, nursery).value();
    auto worker = RedisWorkerEnd::open(net::real_network(), options, "w", nursery).value();
    ASSERT_TRUE(worker->await_connected(kSoon).ok());
    exchange_messages(*host, *worker, "w", 500, 10);
    one.exchange(0, 10);
    options.prefix = "a:b";
    EXPECT_EQ(RedisHostEnd::open(net::real_network(), options, nursery).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(RedisWorkerEnd::open(net::real_network(), quick_options(server.url()), std::string(10'000, 'x'), nursery)
                  .code(),
              ErrorCode::kInvalidArgument);
    EXPECT_EQ(RedisWorkerEnd::open(net::real_network(), quick_options(server.url()), "", nursery).code(),
              ErrorCode::kInvalidArgument);
  });
}

// Contract: U-1. Bytes that are no frame, frames that are cut at any byte, and ids that leave no room for others harm
// nobody: both ends ignore them with a line in the log, and the messages around them arrive.
TEST(RedisBus, GarbageInTheStreams) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    const LogCapture log(LogLevel::kError);
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 10);
    const RedisKeys keys{"rota"};
    const std::string frame = encode_frame({.from = 42, .to = 7, .messages = {model::encode_message(report_of(9))}});
    for (const std::string& key : {keys.to("w"), keys.from("w")}) {
      for (std::size_t size = 0; size < frame.size(); ++size) {
        EXPECT_FALSE(command(server.url(), {"XADD", key, "*", "f", frame.substr(0, size)}).is_error());
      }
      EXPECT_FALSE(command(server.url(), {"XADD", key, "*", "other", "field"}).is_error());
      EXPECT_FALSE(command(server.url(), {"XADD", key, "*", "f", frame, "more", ""}).is_error());
    }
    fleet.exchange(10, 20);
    EXPECT_TRUE(log.contains("worker=w")) << "the log does not name the worker";
    // The largest id: no entry can follow it.
    std::uint64_t first = 30;
    for (const std::string& key : {keys.from("w"), keys.to("w")}) {
      EXPECT_FALSE(
          command(server.url(), {"XADD", key, "18446744073709551615-18446744073709551615", "f", "x"}).is_error());
      fleet.exchange(first, 10);
      first += 10;
    }
    // Names in the list of announcements that are not allowed.
    EXPECT_FALSE(command(server.url(), {"LPUSH", keys.join(), "", std::string(5000, 'x')}).is_error());
    EXPECT_TRUE(await([&] { return command(server.url(), {"LLEN", keys.join()}).integer == 0; }));
    fleet.exchange(50, 10);
  });
}

// Contract: U-1. A message that is cut at any byte, in an entry that is whole, is logged by the host with the worker's
// name, and its sender is told which message it was; a task whose assignment is cut ends with a failure.
TEST(RedisBus, MessagesThatAreCut) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    const LogCapture log(LogLevel::kError);
    Fleet fleet(server.url(), nursery);
    const RedisKeys keys{"rota"};
    const std::string whole = model::encode_message(report_of(9));
    // A worker that consists of what this test writes.
    std::uint64_t number = 0;
    const auto write = [&](std::string message) {
      const std::string frame = encode_frame({.from = 44, .first = ++number, .messages = {std::move(message)}});
      ASSERT_FALSE(command(server.url(), {"XADD", keys.from("raw"), "*", "f", frame}).is_error());
      ASSERT_FALSE(command(server.url(), {"LPUSH", keys.join(), "raw"}).is_error());
    };
    const auto told_about = [&](std::uint64_t wanted) {
      const net::RespValue entries = command(server.url(), {"XRANGE", keys.to("raw"), "-", "+"});
      for (const net::RespValue& entry : entries.items) {
        const Result<Frame> frame = decode_frame(entry.items[1].items[1].text);
        if (!frame.ok() || frame->notice_number != wanted || frame->to != 44) continue;
        // The first byte is the version: without it, or with nothing after it, the message is not one of another
        // version.
        EXPECT_EQ(frame->notice, NoticeKind::kRefused);
        EXPECT_NE(frame->notice_text.find("could not read"), std::string::npos) << frame->notice_text;
        return true;
      }
      return false;
    };
    for (std::size_t size = 0; size < whole.size(); ++size) {
      write(whole.substr(0, size));
      ASSERT_TRUE(await([&] { return told_about(number); })) << "cut after " << size << " bytes";
    }
    EXPECT_TRUE(log.contains("worker=raw"));
    write(whole);
    const DeliveryFromWorker delivery = receive_soon(*fleet.host).value();
    EXPECT_EQ(delivery.worker, "raw");
    EXPECT_EQ(task_of(delivery.message), 9U);
    ASSERT_TRUE(fleet.host->acknowledge(delivery.id).ok());
    fleet.exchange(0, 10);
  });
}

// Contract: U-1. The ids of a stream jump ahead, because somebody wrote into it, and go back, because it is removed:
// the receiver has then read further than the sender's next ids. Nothing is lost or duplicated either way.
TEST(RedisBus, IdsThatGoBack) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 10);
    const RedisKeys keys{"rota"};
    // Of this version: one of another version ends the worker, if the host does not answer in time.
    const std::string damaged = encode_frame({.from = 42, .to = 7}).substr(0, 3);
    std::uint64_t first = 10;
    for (const std::string& key : {keys.to("w"), keys.from("w")}) {
      // In the year 2300.
      ASSERT_FALSE(command(server.url(), {"XADD", key, "10413792000000-0", "f", damaged}).is_error());
      fleet.exchange(first, 10);
      ASSERT_EQ(command(server.url(), {"DEL", key}).integer, 1);
      fleet.exchange(first + 10, 10);
      ASSERT_EQ(command(server.url(), {"DEL", keys.to("w"), keys.from("w")}).is_error(), false);
      fleet.exchange(first + 20, 10);
      first += 30;
    }
  });
}

// Contract: U-1. A message of another version is logged by the host with the worker's name, and the worker is told and
// ends; so it does if the host is of another version.
TEST(RedisBus, AnotherVersionGetsAClearAnswer) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    const LogCapture log(LogLevel::kError);
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 1);  // Its messages are numbered from 1.
    const RedisKeys keys{"rota"};
    const std::string newer = encode_frame({.from = 42, .to = 7, .first = 2, .messages = {"\x09 from the future"}});
    ASSERT_FALSE(command(server.url(), {"XADD", keys.from("w"), "*", "f", newer}).is_error());
    const auto told = receive_soon(*fleet.worker);
    ASSERT_EQ(told.code(), ErrorCode::kClosed);
    EXPECT_NE(told.error().message.find("version 9"), std::string::npos) << told.error().message;
    EXPECT_TRUE(log.contains("version 9"));
    EXPECT_TRUE(log.contains("worker=w"));
    EXPECT_EQ(fleet.worker->ended().error().message, told.error().message);

    // A host of another version: nothing that it writes can be read.
    fleet.host->close();
    fleet.worker = fleet.connect("v", 43);
    ASSERT_FALSE(command(server.url(), {"XADD", keys.to("v"), "*", "f", "\x09 a frame of the future"}).is_error());
    const auto refused = receive_soon(*fleet.worker);
    ASSERT_EQ(refused.code(), ErrorCode::kClosed);
    EXPECT_NE(refused.error().message.find("version 9"), std::string::npos) << refused.error().message;
  });
}

// Contract: U-1. A key of the fleet has another type, because somebody else wrote it: the host names it, removes it,
// and nothing is lost; a worker can still join.
TEST(RedisBus, KeysOfAnotherType) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    const LogCapture log(LogLevel::kWarn);
    Fleet fleet(server.url(), nursery);
    fleet.exchange(0, 10);
    const RedisKeys keys{"rota"};
    std::uint64_t first = 10;
    for (const std::string& key : {keys.to("w"), keys.from("w"), keys.wake(), keys.join(), keys.workers()}) {
      ASSERT_FALSE(command(server.url(), {"SET", key, "x"}).is_error());
      // What waits at the server does not notice.
      ASSERT_FALSE(command(server.url(), {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}).is_error());
      fleet.exchange(first, 10);
      ASSERT_TRUE(await([&] { return log.contains("key=" + key); }));
      auto newcomer = fleet.connect("new-" + std::to_string(first), first);
      ASSERT_TRUE(newcomer->send(report_of(1000)).ok());
      const auto delivery = receive_soon(*fleet.host).value();
      EXPECT_EQ(task_of(delivery.message), 1000U);
      ASSERT_TRUE(fleet.host->acknowledge(delivery.id).ok());
      first += 10;
    }
  });
}

// Contract: U-1, B-16. The host's account may not wait for announcements: the host says so, but not with every attempt,
// and still hears the workers that it knows, so that it would notice their death.
TEST(RedisBus, AnnouncementsAreForbidden) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    const LogCapture log(LogLevel::kInfo);
    const RedisKeys keys{"rota"};
    ASSERT_FALSE(command(server.url(), {"ACL", "SETUSER", "h", "on", ">p", "~rota:*", "+@all", "-blpop"}).is_error());
    ASSERT_FALSE(command(server.url(), {"SADD", keys.workers(), "w"}).is_error());
    Fleet fleet(server.url(), nursery);
    fleet.host->close();
    fleet.options.url = server.url("h", "p");
    fleet.options.process = 8;
    fleet.host = RedisHostEnd::open(net::real_network(), fleet.options, nursery).value();
    fleet.exchange(0, 10);
    const auto refused = [&] {
      const std::string stats = command(server.url(), {"INFO", "commandstats"}).text;
      const std::size_t at = stats.find("rejected_calls=", stats.find("cmdstat_blpop:"));
      return at == std::string::npos ? 0 : std::atoi(stats.c_str() + at + 15);
    };
    ASSERT_TRUE(await([&] { return refused() >= 10; }));
    ASSERT_TRUE(await([&] { return fleet.host->status().code() == ErrorCode::kPermissionDenied; }));
    // Not Unavailable, except while Redis is slow.
    EXPECT_TRUE(await([&] { return fleet.host->receive(1ms).code() == ErrorCode::kTimeout; }))
        << "it takes itself for deaf";
    fleet.exchange(10, 10);
    int lines = 0;
    for (const std::string& line : log.lines()) lines += line.find("blpop") != std::string::npos ? 1 : 0;
    EXPECT_GE(lines, 1);
    EXPECT_LE(lines, 2);
  });
}

// Contract: U-1. A task whose assignment the worker cannot read ends with a failure that says so.
TEST(RedisBus, AnAssignmentThatCannotBeReadFails) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    ASSERT_TRUE(fleet.host->send("w", assign_of(5)).ok());
    ASSERT_TRUE(receive_soon(*fleet.worker).ok());  // And not acknowledged.
    const std::string refusal = encode_frame(
        {.from = 42, .to = 7, .notice = NoticeKind::kRefused, .notice_number = 1, .notice_text = "no such field"});
    ASSERT_FALSE(command(server.url(), {"XADD", RedisKeys{"rota"}.from("w"), "*", "f", refusal}).is_error());
    const DeliveryFromWorker delivery = receive_soon(*fleet.host).value();
    const auto& report = std::get<model::Report>(delivery.message);
    EXPECT_EQ(report.id.task, model::TaskId(5));
    const auto& outcome = std::get<model::Ended>(report.body).outcome;
    EXPECT_EQ(outcome.end, model::AttemptEnd::kFailed);
    EXPECT_NE(outcome.message.find("no such field"), std::string::npos);
    EXPECT_NE(outcome.message.find("'w'"), std::string::npos);
    ASSERT_TRUE(fleet.host->acknowledge(delivery.id).ok());
  });
}

// Contract: U-1. A result of 100 MB ends its task with a failure that explains it; one below the limit arrives.
TEST(RedisBus, AResultThatIsTooLarge) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    const auto with_result = [](std::size_t bytes) {
      model::Ended ended;
      ended.outcome.end = model::AttemptEnd::kSucceeded;
      ended.outcome.result = std::string(bytes, '1');
      return model::Report{.id = {model::TaskId(3), model::AttemptNumber(1)}, .body = std::move(ended)};
    };
    const auto outcome = [&] {
      const DeliveryFromWorker delivery = receive_soon(*fleet.host).value();
      EXPECT_TRUE(fleet.host->acknowledge(delivery.id).ok());
      return std::get<model::Ended>(std::get<model::Report>(delivery.message).body).outcome;
    };
    ASSERT_TRUE(fleet.worker->send(with_result(15 << 20)).ok());
    EXPECT_EQ(outcome().result.size(), std::size_t{15} << 20);
    ASSERT_TRUE(fleet.worker->send(with_result(100 << 20)).ok());
    const model::AttemptOutcome refused = outcome();
    EXPECT_EQ(refused.end, model::AttemptEnd::kFailed);
    EXPECT_TRUE(refused.final);
    EXPECT_NE(refused.message.find("at most 16777216"), std::string::npos) << refused.message;
    model::Assign large = assign_of(1);
    large.spec.inputs = std::string(17 << 20, ' ');
    EXPECT_EQ(fleet.host->send("w", large).code(), ErrorCode::kTooLarge);
    fleet.exchange(0, 10);
  });
}

// Contract: U-4. While the host is away, a worker's messages are kept up to the bound; then send() fails instead of
// waiting, so that running tasks go on; when the host is back, the kept messages arrive.
TEST(RedisBus, AWorkerIsNotStoppedByAHostThatIsAway) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    Fleet fleet(server.url(), nursery);
    fleet.host->close();
    fleet.options.capacity = 10;
    fleet.options.send_within = 1ms;
    auto worker = fleet.connect("v", 43);
    std::uint64_t kept = 0;
    Result<void> sent;
    for (; kept < 100 && (sent = worker->send(report_of(kept))).ok(); ++kept) {
    }
    EXPECT_EQ(kept, 9U);
    EXPECT_EQ(sent.code(), ErrorCode::kUnavailable);
    EXPECT_TRUE(worker->send(model::Heartbeat{}).ok()) << "what is for live views only took all the room";
    EXPECT_EQ(worker->send(model::Heartbeat{}).code(), ErrorCode::kUnavailable);
    fleet.options.process = 8;
    fleet.host = RedisHostEnd::open(net::real_network(), fleet.options, nursery).value();
    for (std::uint64_t i = 0; i < kept; ++i) EXPECT_EQ(task_of(receive_soon(*fleet.host)->message), i);
  });
}

}  // namespace
}  // namespace rota::bus

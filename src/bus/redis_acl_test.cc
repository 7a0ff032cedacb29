// The rights of a worker's user in Redis (H-5), and what an account that is refused looks like.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/log.h"
#include "bus/redis_bus.h"
#include "bus/redis_names.h"
#include "bus/redis_testing.h"
#include "net/tls.h"
#include "net/tls_testing.h"

namespace rota::bus {
namespace {

using namespace std::chrono_literals;

void set_user(const net::RedisUrl& admin, const std::string& user, const std::string& password,
              const std::vector<std::string>& rules) {
  std::vector<std::string> arguments = {"ACL", "SETUSER", user};
  arguments.insert(arguments.end(), rules.begin(), rules.end());
  arguments.push_back(">" + password);
  const net::RespValue reply = command(admin, arguments);
  ASSERT_FALSE(reply.is_error()) << reply.text;
}

// Contract: H-5. With a user of its own a worker does its work, and can neither write its own inbox, nor read
// another's, nor send in another's name, nor disturb the announcements of others, nor do anything else in Redis. The
// names are such that a pattern of Redis would match another's key if they were not escaped.
TEST(RedisAcl, AWorkerCanDoItsWorkAndNothingElse) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    const std::string mine = "w*";
    const std::string other = "w1 with spaces\nand [brackets]";
    set_user(server.url(), "host", "h-secret", host_acl_rules("rota"));
    set_user(server.url(), "mine", "m-secret", worker_acl_rules("rota", mine));
    set_user(server.url(), "other", "o-secret", worker_acl_rules("rota", other));
    ASSERT_FALSE(command(server.url(), {"ACL", "SETUSER", "default", "resetkeys", "-@all", "+ping"}).is_error());

    auto host =
        RedisHostEnd::open(net::real_network(), patient_options(server.url("host", "h-secret")), nursery).value();
    ASSERT_TRUE(host->await_connected(kSoon).ok());
    const net::RedisUrl my_url = server.url("mine", "m-secret");
    auto worker = RedisWorkerEnd::open(net::real_network(), patient_options(my_url), mine, nursery).value();
    auto second =
        RedisWorkerEnd::open(net::real_network(), patient_options(server.url("other", "o-secret")), other, nursery)
            .value();
    ASSERT_TRUE(worker->await_connected(kSoon).ok()) << worker->status().error().message;
    ASSERT_TRUE(second->await_connected(kSoon).ok());
    exchange_messages(*host, *worker, mine, 0, 200);
    exchange_messages(*host, *second, other, 0, 200);

    const RedisKeys keys{"rota"};
    const auto denied = [&](const std::vector<std::string>& arguments) {
      const net::RespValue reply = command(my_url, arguments);
      EXPECT_TRUE(reply.is_error()) << arguments[0] << " " << arguments[1];
      EXPECT_EQ(net::redis_error(reply.text, "").code, ErrorCode::kPermissionDenied) << reply.text;
    };
    denied({"XADD", keys.to(mine), "*", "f", "x"});                   // Its own inbox.
    denied({"XREAD", "COUNT", "1", "STREAMS", keys.to(other), "0"});  // Another's inbox.
    denied({"XADD", keys.to(other), "*", "f", "x"});
    denied({"XADD", keys.from(other), "*", "f", "x"});  // In another's name.
    denied({"XREAD", "COUNT", "1", "STREAMS", keys.from(other), "0"});
    denied({"XADD", keys.join(), "*", "f", "x"});  // Others' announcements.
    denied({"LPOP", keys.join()});
    denied({"DEL", keys.join()});
    denied({"LPUSH", keys.from(mine), "x"});
    denied({"SADD", keys.workers(), "x"});
    denied({"XADD", keys.wake(), "*", "f", "x"});
    denied({"KEYS", "*"});
    denied({"CONFIG", "GET", "*"});
    denied({"ACL", "LIST"});
    denied({"FLUSHALL", "ASYNC"});
    denied({"EVAL", "return 1", "0"});
    denied({"SET", "x", "y"});
  });
}

// Contract: H-5. A wrong password, a missing one and a missing right are reported at once and by their codes, with what
// to do; no message and no log line contains a password.
TEST(RedisAcl, RefusedAccounts) {
  RedisServer server({"--requirepass", "hunter2"});
  in_runtime([&](fiber::Nursery& nursery) {
    const LogCapture log(LogLevel::kTrace);
    const auto refused = [&](const net::RedisUrl& url) {
      auto worker = RedisWorkerEnd::open(net::real_network(), patient_options(url), "w", nursery).value();
      auto host = RedisHostEnd::open(net::real_network(), patient_options(url), nursery).value();
      const Result<void> why = worker->await_connected(kSoon);
      EXPECT_EQ(host->await_connected(kSoon).code(), why.code());
      EXPECT_EQ(why.error().message.find("swordfish"), std::string::npos) << why.error().message;
      EXPECT_NE(why.error().message.find(std::to_string(server.port())), std::string::npos) << why.error().message;
      return why.code();
    };
    EXPECT_EQ(refused(server.url()), ErrorCode::kUnauthenticated);
    EXPECT_EQ(refused(server.url("", "swordfish")), ErrorCode::kUnauthenticated);
    EXPECT_EQ(refused(server.url("nobody", "swordfish")), ErrorCode::kUnauthenticated);
    const net::RedisUrl admin = server.url("", "hunter2");
    set_user(admin, "reader", "swordfish", {"reset", "on", "~*", "+ping", "+auth", "+xread"});
    EXPECT_EQ(refused(server.url("reader", "swordfish")), ErrorCode::kPermissionDenied);
    EXPECT_FALSE(log.contains("swordfish"));
    EXPECT_FALSE(log.contains("hunter2"));
    // Nobody listens.
    net::RedisUrl nowhere;
    nowhere.endpoint.unix_path = server.socket_path() + ".none";
    nowhere.endpoint.host.clear();
    auto worker = RedisWorkerEnd::open(net::real_network(), patient_options(nowhere), "w", nursery).value();
    // Its first attempt may take a while.
    EXPECT_TRUE(await([&] { return worker->status().error().message.find("not connected") == std::string::npos; }));
    const Result<void> unreachable = worker->await_connected(50ms);
    EXPECT_EQ(unreachable.code(), ErrorCode::kUnavailable);
    EXPECT_NE(unreachable.error().message.find("Check that it runs"), std::string::npos) << unreachable.error().message;
  });
}

// Contract: H-5. A password that is changed while both ends are connected: they reconnect with the old one when they
// must, are refused and say so; with the right one again they continue without a loss.
TEST(RedisAcl, ARevokedUserIsRefusedAndContinuesWhenRestored) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    set_user(server.url(), "mine", "one", worker_acl_rules("rota", "w"));
    auto host = RedisHostEnd::open(net::real_network(), patient_options(server.url()), nursery).value();
    auto worker =
        RedisWorkerEnd::open(net::real_network(), patient_options(server.url("mine", "one")), "w", nursery).value();
    ASSERT_TRUE(worker->await_connected(kSoon).ok());
    exchange_messages(*host, *worker, "w", 0, 10);
    ASSERT_FALSE(command(server.url(), {"ACL", "DELUSER", "mine"}).is_error());  // It also breaks its connections.
    ASSERT_TRUE(worker->send(report_of(77)).ok());
    EXPECT_TRUE(await([&] { return worker->status().code() == ErrorCode::kUnauthenticated; }));
    set_user(server.url(), "mine", "one", worker_acl_rules("rota", "w"));
    EXPECT_EQ(task_of(receive_soon(*host)->message), 77U);
  });
}

// Contract: U-1. The connection may be a Unix socket.
TEST(RedisAcl, UnixSocket) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    const net::RedisUrl url = net::RedisUrl::parse("redis+unix://" + server.socket_path() + "?db=1").value();
    auto host = RedisHostEnd::open(net::real_network(), patient_options(url), nursery).value();
    auto worker = RedisWorkerEnd::open(net::real_network(), patient_options(url), "w", nursery).value();
    ASSERT_TRUE(worker->await_connected(kSoon).ok());
    exchange_messages(*host, *worker, "w", 0, 10);
  });
}

// Contract: H-5. TLS to Redis: the server's certificate is checked, and a server with another CA is refused at once.
TEST(RedisAcl, Tls) {
  const net::testing::TestCa ca("the CA");
  const net::testing::Identity identity = ca.issue();
  std::string directory = (std::filesystem::temp_directory_path() / "rota-tls-XXXXXX").string();
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  std::ofstream(directory + "/ca.pem") << ca.pem();
  std::ofstream(directory + "/server.pem") << identity.certificate;
  std::ofstream(directory + "/key.pem") << identity.key;
  const net::ReservedPort tls_port;
  const std::uint16_t port = tls_port.number();
  RedisServer server({"--tls-port", std::to_string(port), "--tls-cert-file", directory + "/server.pem",
                      "--tls-key-file", directory + "/key.pem", "--tls-ca-cert-file", directory + "/ca.pem",
                      "--tls-auth-clients", "no"});
  std::filesystem::remove_all(directory);
  in_runtime([&](fiber::Nursery& nursery) {
    const net::RedisUrl url = net::RedisUrl::parse("rediss://127.0.0.1:" + std::to_string(port)).value();
    RedisBusOptions options = patient_options(url);
    options.tls = net::TlsContext::client({.ca = ca.source()}).value();
    auto host = RedisHostEnd::open(net::real_network(), options, nursery).value();
    auto worker = RedisWorkerEnd::open(net::real_network(), options, "w", nursery).value();
    ASSERT_TRUE(worker->await_connected(kSoon).ok()) << worker->status().error().message;
    exchange_messages(*host, *worker, "w", 0, 100);
    const net::testing::TestCa stranger("another CA");
    options.tls = net::TlsContext::client({.ca = stranger.source()}).value();
    auto refused = RedisWorkerEnd::open(net::real_network(), options, "v", nursery).value();
    EXPECT_EQ(refused->await_connected(kSoon).code(), ErrorCode::kUnauthenticated);
  });
}

// Contract: U-1. Two names never share a key, and keys contain no character of a pattern.
TEST(RedisNames, EscapingIsInjective) {
  std::set<std::string> keys;
  std::vector<std::string> names;
  for (int c = 0; c < 256; ++c) names.emplace_back(1, static_cast<char>(c));
  for (const char* name : {"%41", "%%", "%2541", "a:b", "a%3Ab", "a%3ab"}) names.emplace_back(name);
  for (const std::string& name : names) keys.insert(escape_name(name));
  EXPECT_EQ(keys.size(), names.size());
  for (const std::string& key : keys) EXPECT_EQ(key.find_first_of("*?[]\\: \n"), std::string::npos) << key;
}

}  // namespace
}  // namespace rota::bus

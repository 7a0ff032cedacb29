#include "net/resp.h"

#include <gtest/gtest.h>

#include "net/redis_connection.h"
#include "net/redis_url.h"

namespace rota::net {
namespace {

using Kind = RespValue::Kind;

std::vector<RespValue> read_in_pieces(std::string_view bytes, std::size_t piece) {
  RespReader reader;
  std::vector<RespValue> values;
  while (!bytes.empty()) {
    reader.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      Result<std::optional<RespValue>> value = reader.next();
      EXPECT_TRUE(value.ok());
      if (!value.ok() || !*value) break;
      values.push_back(std::move(**value));
    }
  }
  return values;
}

// Contract: U-1. Replies of every kind are read, however their bytes are cut; a command holds any bytes.
TEST(Resp, EveryKindInPiecesOfAnySize) {
  const RespValue nested{
      .kind = Kind::kArray,
      .items = {{.kind = Kind::kText, .text = std::string("a\0\r\nb", 5)},
                {.kind = Kind::kArray, .items = {{.kind = Kind::kInteger, .integer = -7}, {.kind = Kind::kNil}}},
                {.kind = Kind::kArray}}};
  const std::vector<RespValue> all = {{.kind = Kind::kStatus, .text = "OK"},
                                      {.kind = Kind::kError, .text = "OOM no memory"},
                                      {.kind = Kind::kInteger, .integer = INT64_MAX},
                                      {.kind = Kind::kText, .text = ""},
                                      nested,
                                      {.kind = Kind::kNil}};
  std::string bytes;
  for (const RespValue& value : all) append_reply(bytes, value);
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) EXPECT_EQ(read_in_pieces(bytes, piece), all) << piece;

  RespCommands commands;
  commands.add({"SET", std::string_view("k\r\n", 3), ""});
  EXPECT_EQ(commands.bytes(), "*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$0\r\n\r\n");
  EXPECT_EQ(commands.count(), 1U);
}

// Contract: H-5. A hostile server cannot make this process allocate without bound: announced sizes cost nothing, and
// what really arrives is bounded in bytes, values and depth.
TEST(Resp, HostileReplies) {
  const auto failure = [](const std::string& bytes, RespReader::Limits limits = {}) {
    RespReader reader(limits);
    reader.feed(bytes);
    Result<std::optional<RespValue>> value = reader.next();
    if (!value.ok()) {
      EXPECT_EQ(reader.next().code(), value.code());  // It stays unusable.
    }
    return value.code();
  };
  EXPECT_EQ(failure("*2147483647\r\n"), ErrorCode::kOk);  // Nothing is allocated for it.
  EXPECT_EQ(failure("$2147483647\r\nx"), ErrorCode::kOk);
  EXPECT_EQ(failure("*99999999999999999999\r\n"), ErrorCode::kCorrupt);
  EXPECT_EQ(failure("$-2\r\n"), ErrorCode::kCorrupt);
  EXPECT_EQ(failure("HTTP/1.1 400 Bad Request\r\n"), ErrorCode::kCorrupt);
  EXPECT_EQ(failure("\x15\x03\x01"), ErrorCode::kCorrupt);
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "*1\r\n";
  EXPECT_EQ(failure(deep), ErrorCode::kCorrupt);
  std::string many = "*1000\r\n";
  for (int i = 0; i < 1000; ++i) many += ":1\r\n";
  EXPECT_EQ(failure(many), ErrorCode::kOk);
  EXPECT_EQ(failure(many, {.reply_values = 500}), ErrorCode::kTooLarge);
  EXPECT_EQ(failure(many, {.reply_bytes = 100}), ErrorCode::kTooLarge);
  // The bound is that of one reply, not of a connection.
  RespReader reader({.reply_bytes = 100, .reply_values = 5});
  for (int i = 0; i < 100; ++i) {
    reader.feed("*2\r\n$3\r\nabc\r\n:1\r\n");
    ASSERT_TRUE(reader.next()->has_value());
  }
}

// Contract: U-1, H-5. Errors of Redis have codes that say what to do.
TEST(Resp, ErrorsOfRedis) {
  const auto code = [](const char* text) { return redis_error(text, "redis://h:1").code; };
  EXPECT_EQ(code("NOAUTH Authentication required."), ErrorCode::kUnauthenticated);
  EXPECT_EQ(code("WRONGPASS invalid username-password pair"), ErrorCode::kUnauthenticated);
  EXPECT_EQ(code("NOPERM this user has no permissions"), ErrorCode::kPermissionDenied);
  EXPECT_EQ(code("OOM command not allowed"), ErrorCode::kResourceExhausted);
  EXPECT_EQ(code("LOADING Redis is loading the dataset in memory"), ErrorCode::kUnavailable);
  EXPECT_EQ(code("READONLY You can't write against a read only replica."), ErrorCode::kUnavailable);
  EXPECT_EQ(code("MASTERDOWN Link with MASTER is down"), ErrorCode::kUnavailable);
  EXPECT_EQ(code("MISCONF Redis is configured to save RDB snapshots"), ErrorCode::kUnavailable);
  EXPECT_EQ(code("ERR max number of clients reached"), ErrorCode::kUnavailable);
  EXPECT_EQ(code("WRONGTYPE Operation against a key"), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(code("ERR unknown command 'xadd'"), ErrorCode::kUnsupported);
  EXPECT_EQ(code("ERR something else"), ErrorCode::kInternal);
  EXPECT_NE(redis_error("OOM x", "redis://h:1").message.find("redis://h:1"), std::string::npos);
}

// Contract: U-1. Every form of the URL; what is wrong is said without repeating the password.
TEST(RedisUrl, Forms) {
  const RedisUrl plain = RedisUrl::parse("redis://redis.example").value();
  EXPECT_EQ(plain.endpoint, (Endpoint{.host = "redis.example", .port = 6379}));
  EXPECT_FALSE(plain.tls);
  const RedisUrl full = RedisUrl::parse("rediss://us%65r:p%40ss%3A@10.0.0.7:7000/3").value();
  EXPECT_EQ(full.endpoint, (Endpoint{.host = "10.0.0.7", .port = 7000}));
  EXPECT_TRUE(full.tls);
  EXPECT_EQ(full.user, "user");
  EXPECT_EQ(full.password, "p@ss:");
  EXPECT_EQ(full.database, 3U);
  EXPECT_EQ(full.to_string(), "rediss://user@10.0.0.7:7000/3");
  const RedisUrl secret = RedisUrl::parse("redis://:hunter2@[::1]:6380").value();
  EXPECT_EQ(secret.user, "");
  EXPECT_EQ(secret.password, "hunter2");
  EXPECT_EQ(secret.endpoint, (Endpoint{.host = "::1", .port = 6380}));
  const RedisUrl socket = RedisUrl::parse("redis+unix://u:hunter2@/run/redis/r.sock?db=2").value();
  EXPECT_EQ(socket.endpoint.unix_path, "/run/redis/r.sock");
  EXPECT_EQ(socket.database, 2U);
  EXPECT_EQ(socket.password, "hunter2");
  EXPECT_EQ(socket.to_string(), "redis+unix://u@/run/redis/r.sock?db=2");
  for (const char* wrong :
       {"", "redis:", "http://u:hunter2@h", "redis://", "redis://u:hunter2@", "redis://u:hunter2@h:0",
        "redis://u:hunter2@h:99999", "redis://u:hunter2@h:x", "redis://u:hunter2@h/x", "redis://u:hunter2%4@h",
        "redis://u:hunter2%zz@h", "redis://u@h", "redis://u:hunter2@::1:7", "redis://u:hunter2@[::1",
        "redis://u:hunter2@[::1]7", "redis+unix://u:hunter2@host", "redis+unix:///s?x=1", "redis+unix:///s?db="}) {
    const Result<RedisUrl> url = RedisUrl::parse(wrong);
    ASSERT_EQ(url.code(), ErrorCode::kInvalidArgument) << wrong;
    EXPECT_EQ(url.error().message.find("hunter2"), std::string::npos) << url.error().message;
    EXPECT_NE(url.error().message.find("redis://"), std::string::npos) << url.error().message;
  }
}

// Contract: U-1. The pauses between attempts double up to the bound, with jitter that a seed reproduces.
TEST(Backoff, DoublesUpToTheBound) {
  using namespace std::chrono_literals;
  Backoff one(10ms, 100ms, 5);
  Backoff same(10ms, 100ms, 5);
  std::chrono::nanoseconds limit = 10ms;
  for (int i = 0; i < 10; ++i) {
    const auto pause = one.next();
    EXPECT_GE(pause, limit / 2);
    EXPECT_LE(pause, limit);
    EXPECT_EQ(pause, same.next());
    limit = std::min<std::chrono::nanoseconds>(2 * limit, 100ms);
  }
  one.reset();
  EXPECT_LE(one.next(), 10ms);
}

}  // namespace
}  // namespace rota::net

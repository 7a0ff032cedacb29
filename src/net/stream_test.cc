// The text form of endpoints.
#include "net/stream.h"

#include <gtest/gtest.h>

#include <string>

namespace rota::net {
namespace {

std::string long_name(const char* before, std::size_t size, const char* after) {
  std::string text = before;
  text.append(size, 'h');
  return text.append(after);
}

// Contract: F-26. Every form of an endpoint is read, and its text is read back as the same endpoint.
TEST(Endpoint, Parse) {
  struct Case {
    std::string text;
    Endpoint endpoint;
  };
  const Case cases[] = {
      {"127.0.0.1:6379", {.host = "127.0.0.1", .port = 6379}},
      {"redis.example:0", {.host = "redis.example", .port = 0}},
      {"my_host-2:65535", {.host = "my_host-2", .port = 65535}},
      {"[::1]:80", {.host = "::1", .port = 80}},
      {"[fe80::1%eth0]:80", {.host = "fe80::1%eth0", .port = 80}},
      {"[::ffff:10.0.0.1]:80", {.host = "::ffff:10.0.0.1", .port = 80}},
      {"unix:/run/redis.sock", {.unix_path = "/run/redis.sock"}},
      {"unix:relative path:1", {.unix_path = "relative path:1"}},
      {"unix:@abstract", {.unix_path = "@abstract"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const Result<Endpoint> parsed = Endpoint::parse(c.text);
    ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
    EXPECT_EQ(*parsed, c.endpoint);
    EXPECT_EQ(parsed->to_string(), c.text);
  }
  EXPECT_EQ(Endpoint::parse("h:0080").value().to_string(), "h:80");
}

// Contract: F-26. Text that is not an endpoint is refused with the reason, and shown without control characters.
TEST(Endpoint, ParseErrors) {
  struct Case {
    std::string text;
    std::string reason;  // A part of the sentence.
  };
  const Case cases[] = {
      {"", "the port is missing"},
      {"localhost", "the port is missing"},
      {":80", "the host is missing"},
      {"h:", "the port must be a number"},
      {"h:x", "the port must be a number"},
      {"h:-1", "the port must be a number"},
      {"h:+1", "the port must be a number"},
      {"h: 80", "the port must be a number"},
      {"h:65536", "the port must be a number"},
      {"h:99999999999999999999", "the port must be a number"},
      {"::1:80", "in brackets"},
      {"[::1:80", "']' after the IPv6 address is missing"},
      {"[::1]", "':PORT' must follow"},
      {"[::1]80", "':PORT' must follow"},
      {"[127.0.0.1]:80", "no IPv6 address between"},
      {"[]:80", "no IPv6 address between"},
      {"[::1%]:80", "no IPv6 address between"},
      {"[::1%a/b]:80", "no IPv6 address between"},
      {std::string("[::1\0]:80", 9), "no IPv6 address between"},
      {"a b:80", "the host must be a name"},
      {"redis://h:80", "in brackets"},
      {"//h:80", "the host must be a name"},
      {"user@h:80", "the host must be a name"},
      {std::string("h\0i:80", 6), "the host must be a name"},
      {long_name("", 254, ":80"), "the host must be a name"},
      {"unix:", "1 to 107 bytes"},
      {"unix:@", "a name must follow"},
      {long_name("unix:/", 107, ""), "1 to 107 bytes"},
      {std::string("unix:/a\0b", 9), "zero byte"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const Result<Endpoint> parsed = Endpoint::parse(c.text);
    ASSERT_EQ(parsed.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(parsed.error().message.find(c.reason), std::string::npos) << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("is not an endpoint"), std::string::npos) << parsed.error().message;
    EXPECT_EQ(parsed.error().message.find('\0'), std::string::npos) << parsed.error().message;
  }
}

}  // namespace
}  // namespace rota::net

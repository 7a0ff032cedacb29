#include "cli/remote_host.h"

#include <gtest/gtest.h>

namespace rota::cli {
namespace {

// C-2: a problem of the host becomes the error that a local host would have returned.
TEST(RemoteHost, ProblemsBecomeErrors) {
  net::HttpResponse response;
  response.status = 410;
  response.body = R"({"code": "Closed", "detail": "record 1 was compacted", "details": {"first": "6", "last": "9"}})";
  const Error error = problem_of(response);
  EXPECT_EQ(error.code, ErrorCode::kClosed);
  EXPECT_EQ(error.message, "record 1 was compacted");
  ASSERT_EQ(error.details.size(), 2U);
  EXPECT_EQ(*error.detail("first"), "6");
  response.body = "<html>proxy</html>";
  EXPECT_NE(problem_of(response).message.find("410 Gone: <html>"), std::string::npos);
  response.body = R"({"code": "FromTheFuture", "detail": 7})";
  EXPECT_EQ(problem_of(response).code, ErrorCode::kUnavailable);
}

TEST(RemoteHost, ContextFile) {
  const Result<HostContext> context =
      parse_context("# ours\nurl = https://a:1 \n\ntoken=rota_a_b\r\n ca = sha256:00\n");
  ASSERT_TRUE(context.ok()) << context.error().to_string();
  EXPECT_EQ(context->url, "https://a:1");
  EXPECT_EQ(context->token, "rota_a_b");
  EXPECT_EQ(context->ca, "sha256:00");
  EXPECT_EQ(parse_context("")->url, "");
  EXPECT_EQ(parse_context("url = a\ncolour = b\n").error().message.substr(0, 6), "line 2");
  EXPECT_EQ(parse_context("url\n").code(), ErrorCode::kParseError);
}

}  // namespace
}  // namespace rota::cli

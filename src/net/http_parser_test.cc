// The parser of HTTP requests: what it accepts, in whichever pieces it arrives, and what it refuses.
#include "net/http_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace rota::net {
namespace {

using Step = HttpRequestParser::Step;
constexpr std::size_t kHead = 1024;
constexpr std::uint64_t kBody = 64;

// The request in `bytes`, given in two pieces cut at `cut`; with the number of bytes that were not used.
Result<std::pair<HttpRequest, std::size_t>> parse(std::string_view bytes, std::size_t cut) {
  HttpRequestParser parser(kHead);
  std::size_t at = 0;
  std::size_t end = cut;
  for (;;) {
    std::size_t used = 0;
    ROTA_TRY_ASSIGN(const Step step, parser.put(bytes.substr(at, end - at), used));
    at += used;
    if (step == Step::kHead) ROTA_TRY(parser.limit_body(kBody));
    if (step == Step::kDone) return std::pair(parser.request(), bytes.size() - at);
    if (step == Step::kNeedMore) {
      if (end == bytes.size()) return ErrorCode::kClosed;
      end = bytes.size();
    }
  }
}

std::string status_of(std::string_view bytes) {
  const auto parsed = parse(bytes, bytes.size());
  if (parsed.ok()) return "accepted";
  const std::string* status = parsed.error().detail("status");
  return status == nullptr ? std::string(to_string(parsed.code())) : *status;
}

// Contract: H-6. Where the bytes are cut changes nothing, and what follows a request is not used.
TEST(HttpParser, AnyCut) {
  const std::string next = "GET /next HTTP/1.1\r\n";
  for (const std::string& request : std::vector<std::string>{
           "GET /v1/tasks?state=running&q=a%20b+c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n",
           "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
           "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nT: "
           "1\r\n\r\n",
       }) {
    const auto whole = parse(request + next, request.size() + next.size());
    ASSERT_TRUE(whole.ok()) << whole.error().to_string();
    EXPECT_EQ(whole->second, next.size());
    for (std::size_t cut = 0; cut <= request.size(); ++cut) {
      const auto parsed = parse(request + next, cut);
      ASSERT_TRUE(parsed.ok()) << cut << " " << parsed.error().to_string();
      EXPECT_EQ(parsed->first.body, whole->first.body) << cut;
      EXPECT_EQ(parsed->first.fields, whole->first.fields) << cut;
      EXPECT_EQ(parsed->first.query, whole->first.query) << cut;
      EXPECT_EQ(parsed->second, next.size()) << cut;
    }
    for (std::size_t end = 0; end < request.size(); ++end) {
      EXPECT_EQ(parse(request.substr(0, end), 0).code(), ErrorCode::kClosed) << end;
    }
  }
}

// The request in `bytes`, in pieces of this size. Closed if it is not complete.
Result<HttpRequest> parse_pieces(std::string_view bytes, std::size_t piece) {
  HttpRequestParser parser(kHead);
  std::string buffer;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    buffer.append(bytes.substr(at, piece));
    for (Step step = Step::kHead; step == Step::kHead;) {
      std::size_t used = 0;
      ROTA_TRY_ASSIGN(step, parser.put(buffer, used));
      buffer.erase(0, used);
      if (step == Step::kHead) ROTA_TRY(parser.limit_body(kBody));
      if (step == Step::kDone) return parser.request();
    }
  }
  return ErrorCode::kClosed;
}

// Byte by byte, as the slowest client sends them: every length of an incomplete part is tried.
TEST(HttpParser, ByteByByte) {
  const std::string head = "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::vector<std::pair<std::string, std::string>> table = {
      {"0\r\n\r\n", ""},         {"00\r\n\r\n", ""},           {"0;a=b\r\n\r\n", ""},
      {"0\r\nT: 1\r\n\r\n", ""}, {"1\r\na\r\n0\r\n\r\n", "a"}, {"1\r\na\r\n0\r\nT: 1\r\n\r\n", "a"},
  };
  for (const auto& [chunks, body] : table) {
    for (std::size_t piece = 1; piece < 8; ++piece) {
      const Result<HttpRequest> request = parse_pieces(head + chunks, piece);
      ASSERT_TRUE(request.ok()) << chunks << " in pieces of " << piece << ": " << request.error().to_string();
      EXPECT_EQ(request->body, body) << chunks << " in pieces of " << piece;
    }
    EXPECT_EQ(parse_pieces(head + chunks.substr(0, chunks.size() - 1), 1).code(), ErrorCode::kClosed) << chunks;
  }
}

// Contract: H-6. A head of exactly the bound is accepted, and one byte more is not, in whichever pieces it arrives;
// also if it has folded lines, whose white space is not part of any value.
TEST(HttpParser, TheBoundIsExact) {
  for (const std::string& fill : {std::string("a"), std::string("a\r\n\t\t")}) {
    for (const std::size_t size : {kHead - 1, kHead, kHead + 1}) {
      std::string head = "GET / HTTP/1.1\r\nHost: x\r\nA: " + fill;
      head += std::string(size - head.size() - 4, fill.size() == 1 ? 'b' : '\t') + "\r\n\r\n";
      ASSERT_EQ(head.size(), size);
      for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, kHead - 1, kHead, kHead + 1, 2 * kHead}) {
        const Result<HttpRequest> request = parse_pieces(head + "GET /next HTTP/1.1\r\n", piece);
        EXPECT_EQ(request.ok(), size <= kHead) << size << " bytes in pieces of " << piece;
        if (!request.ok()) {
          EXPECT_EQ(*request.error().detail("status"), "431") << request.error().to_string();
        }
      }
    }
  }
}

TEST(HttpParser, ARequestAsItIs) {
  const HttpRequest get =
      parse("GET /v1/a%2Fb/c%20d?state=running&q=a%20b+c&empty&=v HTTP/1.1\r\nHost: x\r\nX-Two: 1\r\nx-two: 2\r\n\r\n",
            9)
          ->first;
  EXPECT_EQ(get.method, "GET");
  EXPECT_EQ(get.path, "/v1/a%2Fb/c d");
  EXPECT_EQ(*get.parameter("q"), "a b c");
  EXPECT_EQ(*get.parameter("empty"), "");
  EXPECT_EQ(*get.parameter(""), "v");
  EXPECT_EQ(get.parameter("none"), nullptr);
  EXPECT_EQ(*get.field("x-two"), "1");
  EXPECT_EQ(parse("POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n"
                  "Host: evil\r\n\r\n",
                  0)
                ->first.fields.size(),
            2U)
      << "a trailer became a field";
}

// Contract: H-6. Each of these could be read as another request by a proxy in front, or is not HTTP.
TEST(HttpParser, Refuses) {
  const std::string host = "Host: x\r\n";
  const auto with = [&](const std::string& fields, const std::string& body = "") {
    return "POST / HTTP/1.1\r\n" + host + fields + "\r\n" + body;
  };
  EXPECT_EQ(status_of(with("Content-Length: 2\r\n", "ab")), "accepted");
  const std::string chunks = "1\r\na\r\n0\r\n\r\n";
  const std::vector<std::pair<std::string, std::string>> table = {
      {with("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", chunks), "400"},
      {with("Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", chunks), "400"},
      {with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunks), "400"},
      {with("Transfer-Encoding: gzip\r\n"), "501"},
      {with("Transfer-Encoding: xchunked\r\n"), "501"},
      {with("Transfer-Encoding: gzip, chunked\r\n", chunks), "501"},
      {with("Transfer-Encoding: chunked, identity\r\n"), "501"},
      {with("Transfer-Encoding:\x0b"
            "chunked\r\n"),
       "400"},
      {with("Transfer-Encoding : chunked\r\n", chunks), "400"},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, "400"},
      {with("Content-Length: 2\r\nContent-Length: 3\r\n", "abc"), "400"},
      {with("Content-Length: 2, 3\r\n", "abc"), "400"},
      {with("Content-Length: +2\r\n", "ab"), "400"},
      {with("Content-Length: -2\r\n", "ab"), "400"},
      {with("Content-Length: 0x2\r\n", "ab"), "400"},
      {with("Content-Length: 18446744073709551617\r\n", "a"), "400"},
      {with("Content-Length: 65\r\n"), "413"},
      {with("Transfer-Encoding: chunked\r\n", "41\r\n"), "413"},
      {with("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"), "400"},
      {with("Transfer-Encoding: chunked\r\n", "g\r\n"), "400"},
      {with("Transfer-Encoding: chunked\r\n", "1\r\nab\r\n0\r\n\r\n"), "400"},
      {with("Transfer-Encoding: chunked\r\n", "1\na\n0\n\nGET / HTTP/1.1\r\n"), "400"},
      {with("Transfer-Encoding: chunked\r\n", "0\r\nContent-Length: 5\r\n\r\n"), "400"},
      {"GET / HTTP/1.1\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\n" + host + host + "\r\n", "400"},
      {"GET / HTTP/1.1\nHost: x\n\n", "400"},
      {"GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n", "400"},
      {"GET / HTTP/1.1\r\nHost: x\r\nA: b" + std::string(1, '\0') + "c\r\n\r\n", "400"},
      {"GET / HTTP/2.0\r\n" + host + "\r\n", "400"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"},
      {"\x16\x03\x01\x02", "400"},  // TLS.
      {"GET http://x/ HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"CONNECT x:443 HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET /#f HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET /% HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET /%0 HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET /%zz HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET /%00 HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET /?a=%0d%0a HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET /%ff HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET  / HTTP/1.1\r\n" + host + "\r\n", "400"},
      {"GET /" + std::string(kHead, 'a') + " HTTP/1.1\r\n" + host + "\r\n", "431"},
      {"GET / HTTP/1.1\r\n" + host + "A: " + std::string(kHead, 'a'), "431"},
      {with("Transfer-Encoding: chunked\r\n", "1;" + std::string(2 * kHead, 'a')), "431"},
      {with("Transfer-Encoding: chunked\r\n", "0\r\nA: " + std::string(2 * kHead, 'a')), "431"},
  };
  for (const auto& [bytes, status] : table) EXPECT_EQ(status_of(bytes), status) << bytes;
  std::string many = "GET / HTTP/1.1\r\n" + host;
  for (std::size_t i = 0; i < HttpRequestParser::kMostFields; ++i) many += "A:\r\n";
  EXPECT_EQ(status_of(many + "\r\n"), "431");
  // Field by field, so that each one is read before the next arrives: the bound is for all of them.
  HttpRequestParser parser(kHead);
  std::size_t used = 0;
  ASSERT_TRUE(parser.put("GET / HTTP/1.1\r\n", used).ok());
  std::string rest;
  Result<Step> step = Step::kNeedMore;
  for (std::size_t i = 0; i < 2 * kHead && step.ok(); ++i) {
    rest += i % 16 == 0 ? "Name: value\r\n" : "";
    step = parser.put(rest, used);
    if (step.ok()) rest.erase(0, used);
  }
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(*step.error().detail("status"), "431");
}

// How a response in pieces of this size ends, if the connection is closed after them.
ErrorCode response_code(std::string_view bytes, std::size_t piece) {
  HttpResponseParser parser(kHead, false);
  std::string buffer;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    buffer.append(bytes.substr(at, piece));
    for (Step step = Step::kHead; step == Step::kHead;) {
      std::size_t used = 0;
      const Result<Step> result = parser.put(buffer, used);
      if (!result.ok()) return result.code();
      step = *result;
      buffer.erase(0, used);
      if (step == Step::kHead && !parser.limit_body(kBody).ok()) return ErrorCode::kTooLarge;
      if (step == Step::kDone) return ErrorCode::kOk;
    }
  }
  return parser.end().code();
}

// A response that is wrong and cut off has one error, in whichever pieces it arrives: Closed if the part that is cut
// off is all that is missing, so that the request is worth repeating, and Corrupt if a complete part is wrong.
TEST(HttpParser, PiecesDoNotChangeTheErrorOfAResponse) {
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::vector<std::pair<std::string, ErrorCode>> table = {
      {"", ErrorCode::kClosed},
      {"\r\n\r\n", ErrorCode::kCorrupt},
      {"HTTP/1.", ErrorCode::kClosed},
      {"HTTP/1.1 200 OK\r\nA: b\r\n", ErrorCode::kClosed},
      {"HTTP/1.1 2x0 OK\r\nA: b\r\n", ErrorCode::kClosed},
      {"HTTP/1.1 2x0 OK\r\nA: b\r\n\r\n", ErrorCode::kCorrupt},
      {"HTTP/1.9 200 OK\r\n\r\n", ErrorCode::kCorrupt},
      {"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", ErrorCode::kCorrupt},
      {"-ERR unknown command 'GET'\r\n", ErrorCode::kCorrupt},
      {"HTTPS", ErrorCode::kCorrupt},
      {"X", ErrorCode::kCorrupt},
      {"HTTP/1.1 200 " + std::string(kHead, 'a'), ErrorCode::kTooLarge},
      {chunked, ErrorCode::kClosed},
      {chunked + "zz", ErrorCode::kClosed},
      {chunked + "zz\r\n", ErrorCode::kCorrupt},
      {chunked + "1\rX", ErrorCode::kClosed},
      {chunked + "1\rX\r\n", ErrorCode::kCorrupt},
      {chunked + "1\r\na", ErrorCode::kClosed},
      {chunked + "1\r\naXX0\r", ErrorCode::kClosed},
      {chunked + "1\r\naXX0\r\n", ErrorCode::kCorrupt},
      {chunked + "0\r\nT : 1\r\n", ErrorCode::kClosed},
      {chunked + "0\r\nT : 1\r\n\r\n", ErrorCode::kCorrupt},
      {chunked + "1;" + std::string(2 * kHead, 'a'), ErrorCode::kTooLarge},
      {chunked + "1\r\na\r\n0\r\n\r\n", ErrorCode::kOk},
  };
  for (const auto& [bytes, code] : table) {
    for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, bytes.size() + 1}) {
      EXPECT_EQ(to_string(response_code(bytes, piece)), to_string(code)) << bytes << " in pieces of " << piece;
    }
  }
}

// A value of a handler cannot begin a line of its own.
TEST(Http, ResponseHead) {
  EXPECT_EQ(response_head(404, {{"A", "b\r\nSet-Cookie: x"}}), "HTTP/1.1 404 Not Found\r\nA: b  Set-Cookie: x\r\n\r\n");
}

}  // namespace
}  // namespace rota::net

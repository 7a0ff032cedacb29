// The only file that includes Boost.Beast, and of it only the parser.
#include "net/http_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <string>
#include <utility>

#include "rota/assert.h"

namespace rota::net {

namespace {

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;
using BeastView = boost::beast::string_view;

// The last chunk, "0\r\n\r\n". Once Beast has seen its "0\r\n", it asserts that it gets at least as much: a client that
// sends one byte more would end the process.
constexpr std::size_t kLeastLastChunk = 5;

std::string lower(BeastView text) {
  std::string out(text.data(), text.size());
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

Error refusal(int status, ErrorCode code, std::string sentence) {
  return Error{code, std::move(sentence)}.with("status", std::to_string(status));
}

Error head_too_large(std::size_t bound) {
  return refusal(431, ErrorCode::kTooLarge,
                 "the head of the request is larger than " + std::to_string(bound) + " bytes or has more than " +
                     std::to_string(HttpRequestParser::kMostFields) + " fields");
}

Error body_too_large(std::uint64_t bound) {
  return refusal(
      413, ErrorCode::kTooLarge,
      "the body of the request is larger than the " + std::to_string(bound) + " bytes that are accepted here");
}

}  // namespace

struct HttpRequestParser::Body final : http::basic_parser<true> {
  explicit Body(std::size_t the_bound) : bound(the_bound) {
    header_limit(UINT32_MAX);  // put() bounds the head: Beast's own limit depends on the pieces in which it arrives.
    body_limit(boost::none);
  }

  const std::size_t bound;
  std::size_t head_used = 0;  // Bytes of the head that Beast has taken.
  std::uint64_t most_body = 0;
  bool head_done = false;
  bool head_told = false;
  bool in_chunk_header = false;    // The header of a chunk, or the trailers, are not complete yet.
  std::optional<Error> problem{};  // Why one of the functions below set an error.
  HttpRequest request{};

  void stop(Error why, BeastError& error) {
    problem = std::move(why);
    error = make_error_code(http::error::bad_value);
  }

  void on_request_impl(http::verb, BeastView method, BeastView target, int version, BeastError&) override {
    request.method.assign(method.data(), method.size());
    request.target.assign(target.data(), target.size());
    request.http10 = version == 10;
  }
  void on_response_impl(int, BeastView, int, BeastError&) override { ROTA_ASSERT(false, "this parser reads requests"); }

  void on_field_impl(http::field, BeastView name, BeastView value, BeastError& error) override {
    if (head_done) return;  // A trailer.
    if (request.fields.size() == kMostFields) return stop(head_too_large(bound), error);
    // A zero byte or another control character in a value: some proxies end the value there, others do not.
    for (const char c : value) {
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) {
        return stop(refusal(400, ErrorCode::kInvalidArgument, "a header field contains a control character"), error);
      }
    }
    request.fields.push_back({lower(name), std::string(value.data(), value.size())});
  }

  void on_header_impl(BeastError& error) override {
    head_done = true;
    std::size_t hosts = 0;
    for (const HttpField& field : request.fields) {
      if (field.name == "host") ++hosts;
      if (field.name != "transfer-encoding") continue;
      if (request.http10) {
        return stop(refusal(400, ErrorCode::kInvalidArgument, "HTTP/1.0 has no Transfer-Encoding"), error);
      }
      if (lower(field.value) != "chunked") {
        return stop(refusal(501, ErrorCode::kUnsupported, "the only Transfer-Encoding that is supported is chunked"),
                    error);
      }
    }
    if (hosts > 1 || (hosts == 0 && !request.http10)) {
      return stop(refusal(400, ErrorCode::kInvalidArgument, "the request must have one Host field"), error);
    }
    if (Result<void> parsed = net::parse_target(request); !parsed.ok()) {
      stop(std::move(parsed).take_error().with("status", "400"), error);
    }
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}
  // Memory grows with what has arrived, not with what the client announces.
  std::size_t on_body_impl(BeastView bytes, BeastError&) override {
    request.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, BeastView, BeastError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView bytes, BeastError& error) override {
    return on_body_impl(bytes, error);
  }
  void on_finish_impl(BeastError&) override {}

  Error error_of(const BeastError& error) {
    if (problem) return *std::move(problem);
    if (error == http::error::header_limit) return head_too_large(bound);
    if (error == http::error::body_limit) return body_too_large(most_body);
    if (error == http::error::bad_version) {
      return refusal(400, ErrorCode::kInvalidArgument, "the request line must end with HTTP/1.1 or HTTP/1.0");
    }
    return refusal(400, ErrorCode::kInvalidArgument, "this is not a valid HTTP request: " + error.message());
  }
};

HttpRequestParser::HttpRequestParser(std::size_t head_bytes) : body_(std::make_unique<Body>(head_bytes)) {}
HttpRequestParser::~HttpRequestParser() = default;

Result<HttpRequestParser::Step> HttpRequestParser::put(std::string_view bytes, std::size_t& used) {
  Body& parser = *body_;
  used = 0;
  parser.eager(parser.head_told);  // Until the head is complete: not a byte of the body.
  for (;;) {
    if (parser.head_done && !parser.head_told) {
      parser.head_told = true;
      return Step::kHead;
    }
    if (parser.is_done()) return Step::kDone;
    // Beast is offered no more than the bound at a time: a head, the header of a chunk or trailers that are not
    // complete by then are too large, in whichever pieces they arrive.
    const bool in_head = !parser.head_done;
    const std::size_t most = in_head ? parser.bound - parser.head_used : parser.bound;
    const std::string_view rest = bytes.substr(used);
    const std::string_view slice = rest.substr(0, most);
    if (slice.empty() || (parser.in_chunk_header && slice.size() < kLeastLastChunk)) return Step::kNeedMore;
    BeastError error;
    const std::size_t taken = parser.put(boost::asio::const_buffer(slice.data(), slice.size()), error);
    used += taken;
    if (in_head) parser.head_used += taken;
    // After the head, Beast waits for nothing else: data is taken as it comes.
    parser.in_chunk_header = error == http::error::need_more && !in_head;
    if (error && error != http::error::need_more) return parser.error_of(error);
    if (!error) continue;
    if (slice.size() == most && (in_head || taken == 0)) return head_too_large(parser.bound);
    if (slice.size() == rest.size()) return Step::kNeedMore;
  }
}

Result<void> HttpRequestParser::limit_body(std::uint64_t bytes) {
  body_->most_body = bytes;
  body_->body_limit(bytes);
  if (const auto length = content_length(); length && *length > bytes) return body_too_large(bytes);
  return {};
}

bool HttpRequestParser::begun() const { return body_->got_some(); }
bool HttpRequestParser::keep_alive() const { return !body_->request.http10 && body_->keep_alive(); }
std::optional<std::uint64_t> HttpRequestParser::content_length() const {
  if (body_->chunked()) return std::nullopt;
  const boost::optional<std::uint64_t> length = body_->content_length();
  return length ? *length : 0;
}
HttpRequest& HttpRequestParser::request() { return body_->request; }

}  // namespace rota::net

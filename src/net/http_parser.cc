// The only file that includes Boost.Beast, and of it only the parser.
#include "net/http_parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <string>
#include <utility>
#include <vector>

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

// Errors of a request have the status to answer with; those of a response have none.
Error refusal(bool request, int status, ErrorCode code, std::string sentence) {
  Error error{code, std::move(sentence)};
  return request ? std::move(error).with("status", std::to_string(status)) : error;
}

std::string_view kind_of(bool request) { return request ? "request" : "response"; }

// Whether the bytes are the beginning of a response, or the other way round: a server that does not speak HTTP is
// recognised by its first bytes.
bool could_begin_response(std::string_view bytes) {
  constexpr std::string_view kBegin = "HTTP/1.";
  const std::size_t size = std::min(bytes.size(), kBegin.size());
  return bytes.substr(0, size) == kBegin.substr(0, size);
}

Error head_too_large(bool request, std::size_t bound) {
  return refusal(request, 431, ErrorCode::kTooLarge,
                 "the head of the " + std::string(kind_of(request)) + " is larger than " + std::to_string(bound) +
                     " bytes or has more than " + std::to_string(HttpRequestParser::kMostFields) + " fields");
}

Error body_too_large(bool request, std::uint64_t bound) {
  return refusal(request, 413, ErrorCode::kTooLarge,
                 "the body of the " + std::string(kind_of(request)) + " is larger than the " + std::to_string(bound) +
                     " bytes that are accepted here");
}

// What requests and responses have in common: bounds, fields, body, and how bytes are offered to Beast.
template <bool kIsRequest>
struct MessageParser : http::basic_parser<kIsRequest> {
  using Step = HttpRequestParser::Step;

  explicit MessageParser(std::size_t the_bound) : bound(the_bound) {
    this->header_limit(UINT32_MAX);  // put() bounds the head: Beast's own limit depends on the pieces it arrives in.
    this->body_limit(boost::none);
  }

  const std::size_t bound;
  std::size_t head_used = 0;  // Bytes of the head that Beast has taken.
  std::uint64_t most_body = 0;
  bool head_done = false;
  bool head_told = false;
  bool begun = false;              // A byte of the message has arrived.
  bool in_chunk_header = false;    // Beast has refused the header of a chunk, or the trailers, as not complete yet.
  bool any_chunk = false;          // The header of a chunk was read.
  std::uint64_t chunk_left = 0;    // Bytes of the chunk that are still to come.
  std::optional<Error> problem{};  // Why one of the functions below set an error.
  std::vector<HttpField> fields{};
  std::string body{};

  void stop(Error why, BeastError& error) {
    problem = std::move(why);
    error = make_error_code(http::error::bad_value);
  }
  // An error of the peer's message.
  void refuse(int status, ErrorCode code, std::string sentence, BeastError& error) {
    stop(refusal(kIsRequest, status, kIsRequest ? code : ErrorCode::kCorrupt, std::move(sentence)), error);
  }

  void on_field_impl(http::field, BeastView name, BeastView value, BeastError& error) override {
    if (head_done) return;  // A trailer.
    if (fields.size() == HttpRequestParser::kMostFields) return stop(head_too_large(kIsRequest, bound), error);
    // A zero byte or another control character in a value: some proxies end the value there, others do not.
    for (const char c : value) {
      if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f) {
        return refuse(400, ErrorCode::kInvalidArgument, "a header field contains a control character", error);
      }
    }
    fields.push_back({lower(name), std::string(value.data(), value.size())});
  }
  // Any Transfer-Encoding but "chunked" alone is refused.
  [[nodiscard]] bool check_encoding(bool http10, BeastError& error) {
    for (const HttpField& field : fields) {
      if (field.name != "transfer-encoding") continue;
      if (http10) {
        refuse(400, ErrorCode::kInvalidArgument, "HTTP/1.0 has no Transfer-Encoding", error);
        return false;
      }
      if (lower(field.value) != "chunked") {
        refuse(501, ErrorCode::kUnsupported, "the only Transfer-Encoding that is supported is chunked", error);
        return false;
      }
    }
    return true;
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}
  // Memory grows with what has arrived, not with what the peer announces.
  std::size_t on_body_impl(BeastView bytes, BeastError&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t size, BeastView, BeastError&) override {
    any_chunk = true;
    chunk_left = size;
  }
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView bytes, BeastError& error) override {
    chunk_left -= std::min<std::uint64_t>(chunk_left, bytes.size());
    return on_body_impl(bytes, error);
  }
  void on_finish_impl(BeastError&) override {}

  Error error_of(const BeastError& error) {
    if (problem) return *std::move(problem);
    if (error == http::error::header_limit) return head_too_large(kIsRequest, bound);
    if (error == http::error::body_limit) return body_too_large(kIsRequest, most_body);
    if (error == http::error::bad_version && kIsRequest) {
      return refusal(true, 400, ErrorCode::kInvalidArgument, "the request line must end with HTTP/1.1 or HTTP/1.0");
    }
    return refusal(kIsRequest, 400, kIsRequest ? ErrorCode::kInvalidArgument : ErrorCode::kCorrupt,
                   "this is not a valid HTTP " + std::string(kind_of(kIsRequest)) + ": " + error.message());
  }

  // Whether Beast may see these bytes. What it says about the beginning of a head or of a chunk's header depends on the
  // pieces in which that arrives, and so would the error of a message that is wrong and cut off. It therefore gets the
  // head of a response, and the line of a chunk's size, when they are complete. The head of a request is shown to it at
  // once: a client that does not speak HTTP is answered without waiting.
  [[nodiscard]] bool is_complete(std::string_view slice) const {
    if (!head_done) return kIsRequest || slice.find("\r\n\r\n") != std::string_view::npos;
    if (!this->chunked() || chunk_left > 0) return true;
    if (in_chunk_header && slice.size() < kLeastLastChunk) return false;
    return line_end(slice) != std::string_view::npos;
  }

  // Where the line of a chunk's size ends. The line end of the chunk before precedes it.
  [[nodiscard]] std::size_t line_end(std::string_view slice) const { return slice.find("\r\n", any_chunk ? 2 : 0); }
  // Beast goes on to the next chunk by itself: it gets no more than the one that it is at. If it waits for more after a
  // complete line, this is the last chunk, and everything belongs to it.
  [[nodiscard]] std::string_view one_chunk(std::string_view slice) const {
    if (!head_done || !this->chunked() || in_chunk_header) return slice;
    if (chunk_left > 0)
      return slice.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(chunk_left, slice.size())));
    return slice.substr(0, line_end(slice) + 2);
  }

  Result<Step> offer(std::string_view bytes, std::size_t& used) {
    used = 0;
    begun = begun || !bytes.empty();
    this->eager(head_told);  // Until the head is complete: not a byte of the body.
    for (;;) {
      if (head_done && !head_told) {
        head_told = true;
        return Step::kHead;
      }
      if (this->is_done()) return Step::kDone;
      // Beast is offered no more than the bound at a time: a head, the header of a chunk or trailers that are not
      // complete by then are too large, in whichever pieces they arrive.
      const bool in_head = !head_done;
      const std::size_t most = in_head ? bound - head_used : bound;
      const std::string_view rest = bytes.substr(used);
      std::string_view slice = rest.substr(0, most);
      if (slice.empty()) return Step::kNeedMore;
      if (!kIsRequest && in_head && !could_begin_response(slice)) {
        return error_of(make_error_code(http::error::bad_version));
      }
      if (!is_complete(slice)) {
        if (slice.size() == most) return head_too_large(kIsRequest, bound);
        return Step::kNeedMore;
      }
      slice = one_chunk(slice);
      BeastError error;
      const std::size_t taken = this->put(boost::asio::const_buffer(slice.data(), slice.size()), error);
      used += taken;
      if (in_head) head_used += taken;
      // After the head, Beast waits for nothing else: data is taken as it comes.
      in_chunk_header = error == http::error::need_more && !in_head;
      if (error && error != http::error::need_more) return error_of(error);
      if (!error) continue;
      if (slice.size() == most && (in_head || taken == 0)) return head_too_large(kIsRequest, bound);
      if (slice.size() == rest.size()) return Step::kNeedMore;
    }
  }

  Result<void> limit(std::uint64_t bytes) {
    most_body = bytes;
    this->body_limit(bytes);
    if (const auto length = announced(); length && *length > bytes) return body_too_large(kIsRequest, bytes);
    return {};
  }
  // The Content-Length, or 0 without one; none if the body is chunked.
  [[nodiscard]] std::optional<std::uint64_t> announced() const {
    if (this->chunked()) return std::nullopt;
    const boost::optional<std::uint64_t> length = this->content_length();
    return length ? *length : 0;
  }
};

}  // namespace

struct HttpRequestParser::Body final : MessageParser<true> {
  using MessageParser::MessageParser;
  HttpRequest request{};

  void on_request_impl(http::verb, BeastView method, BeastView target, int version, BeastError&) override {
    request.method.assign(method.data(), method.size());
    request.target.assign(target.data(), target.size());
    request.http10 = version == 10;
  }
  void on_response_impl(int, BeastView, int, BeastError&) override { ROTA_ASSERT(false, "this parser reads requests"); }

  void on_header_impl(BeastError& error) override {
    head_done = true;
    if (!check_encoding(request.http10, error)) return;
    const auto hosts =
        std::count_if(fields.begin(), fields.end(), [](const HttpField& field) { return field.name == "host"; });
    if (hosts > 1 || (hosts == 0 && !request.http10)) {
      return refuse(400, ErrorCode::kInvalidArgument, "the request must have one Host field", error);
    }
    request.fields = std::move(fields);
    if (Result<void> parsed = net::parse_target(request); !parsed.ok()) {
      stop(std::move(parsed).take_error().with("status", "400"), error);
    }
  }
};

HttpRequestParser::HttpRequestParser(std::size_t head_bytes) : body_(std::make_unique<Body>(head_bytes)) {}
HttpRequestParser::~HttpRequestParser() = default;

Result<HttpRequestParser::Step> HttpRequestParser::put(std::string_view bytes, std::size_t& used) {
  Result<Step> step = body_->offer(bytes, used);
  if (step.ok() && *step == Step::kDone) body_->request.body = std::move(body_->body);
  return step;
}

Result<void> HttpRequestParser::limit_body(std::uint64_t bytes) { return body_->limit(bytes); }
bool HttpRequestParser::begun() const { return body_->got_some(); }
bool HttpRequestParser::keep_alive() const { return !body_->request.http10 && body_->keep_alive(); }
std::optional<std::uint64_t> HttpRequestParser::content_length() const { return body_->announced(); }
HttpRequest& HttpRequestParser::request() { return body_->request; }

struct HttpResponseParser::Body final : MessageParser<false> {
  using MessageParser::MessageParser;
  HttpResponse response{};
  bool http10 = false;

  void on_request_impl(http::verb, BeastView, BeastView, int, BeastError&) override {
    ROTA_ASSERT(false, "this parser reads responses");
  }
  void on_response_impl(int status, BeastView, int version, BeastError&) override {
    response.status = status;
    http10 = version == 10;
  }
  void on_header_impl(BeastError& error) override {
    head_done = true;
    if (!check_encoding(http10, error)) return;
    response.fields = std::move(fields);
  }
};

HttpResponseParser::HttpResponseParser(std::size_t head_bytes, bool head_only)
    : body_(std::make_unique<Body>(head_bytes)) {
  body_->skip(head_only);
}
HttpResponseParser::~HttpResponseParser() = default;

Result<HttpResponseParser::Step> HttpResponseParser::put(std::string_view bytes, std::size_t& used) {
  return body_->offer(bytes, used);
}

Result<void> HttpResponseParser::end() {
  if (body_->is_done()) return {};
  BeastError error;
  if (body_->head_done) body_->put_eof(error);
  if (!body_->is_done() || error) {
    return Error{ErrorCode::kClosed, body_->begun ? "the connection was closed in the middle of a response"
                                                  : "the connection was closed without a response"};
  }
  return {};
}

Result<void> HttpResponseParser::limit_body(std::uint64_t bytes) { return body_->limit(bytes); }
void HttpResponseParser::unlimit_body() { body_->body_limit(boost::none); }
bool HttpResponseParser::begun() const { return body_->begun; }
bool HttpResponseParser::keep_alive() const { return !body_->http10 && body_->keep_alive() && !body_->need_eof(); }
HttpResponse& HttpResponseParser::response() { return body_->response; }
std::string HttpResponseParser::take_body() { return std::exchange(body_->body, {}); }

}  // namespace rota::net

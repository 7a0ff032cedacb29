#include "net/http_client.h"

#include <algorithm>
#include <utility>

#include "net/http_parser.h"

namespace rota::net {

namespace {

constexpr std::size_t kReadBytes = std::size_t{16} << 10;
constexpr int kMostInterim = 8;

bool may_repeat(const HttpClientRequest& request) {
  if (request.method == "GET" || request.method == "HEAD" || request.method == "PUT" || request.method == "DELETE") {
    return true;
  }
  return std::any_of(request.fields.begin(), request.fields.end(),
                     [](const HttpField& field) { return field.name == "Idempotency-Key"; });
}

}  // namespace

// One request and its response.
struct HttpClient::Exchange {
  bool head_only = false;
  Deadline deadline{};
  const Piece* piece = nullptr;  // If the body is a stream.
  std::chrono::nanoseconds silence{};
};

HttpClient::HttpClient(Network& network, Endpoint endpoint, HttpClientLimits limits)
    : network_(network), endpoint_(std::move(endpoint)), limits_(limits) {}
HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (stream_ != nullptr) stream_->close();
  stream_.reset();
  buffer_.clear();
}

Result<void> HttpClient::connect(Deadline deadline) {
  close();
  ROTA_TRY_ASSIGN(stream_, network_.connect(endpoint_, deadline));
  return {};
}

Result<HttpResponse> HttpClient::call(const HttpClientRequest& request, Deadline deadline) {
  return send(request, deadline, nullptr, {});
}

Result<HttpResponse> HttpClient::stream(const HttpClientRequest& request, Deadline head,
                                        std::chrono::nanoseconds silence, const Piece& piece) {
  return send(request, head, &piece, silence);
}

Result<HttpResponse> HttpClient::send(const HttpClientRequest& request, Deadline deadline, const Piece* piece,
                                      std::chrono::nanoseconds silence) {
  std::vector<HttpField> fields = request.fields;
  fields.insert(fields.begin(), {"Host", endpoint_.to_string()});
  if (!request.body.empty() || (request.method != "GET" && request.method != "HEAD")) {
    fields.push_back({"Content-Length", std::to_string(request.body.size())});
  }
  const std::string bytes = request_head(request.method, request.target, fields) + request.body;
  Exchange exchange{request.method == "HEAD", deadline, piece, silence};
  const bool kept = stream_ != nullptr;
  if (!kept) ROTA_TRY(connect(deadline));
  bool again = kept;
  for (;;) {
    bool begun = false;
    Result<void> written = stream_->write_all(bytes, deadline);
    // A server that refuses a request may answer and close before it has read the whole body: its answer counts.
    const bool broken = !written.ok() && written.code() != ErrorCode::kClosed;
    Result<HttpResponse> response =
        broken ? Result<HttpResponse>(std::move(written).take_error()) : receive(exchange, begun);
    if (response.ok()) return response;
    close();
    const bool lost =
        !begun && response.code() != ErrorCode::kDeadlineExceeded && response.code() != ErrorCode::kCancelled;
    if (!lost || !kept) return response;
    if (!may_repeat(request)) {
      return Error{ErrorCode::kUnavailable, "the connection to " + endpoint_.to_string() +
                                                " was lost before the response; whether the request was executed is "
                                                "not known"};
    }
    if (!std::exchange(again, false)) return response;
    ROTA_TRY(connect(deadline));
  }
}

Result<HttpResponse> HttpClient::receive(Exchange& exchange, bool& begun) {
  for (int interim = 0;; ++interim) {
    if (interim > kMostInterim) return Error{ErrorCode::kCorrupt, "the server sends interim responses without end"};
    HttpResponseParser parser(limits_.head_bytes, exchange.head_only);
    const Piece* piece = nullptr;
    Deadline deadline = exchange.deadline;
    for (bool done = false; !done;) {
      std::size_t used = 0;
      ROTA_TRY_ASSIGN(const HttpResponseParser::Step step, parser.put(buffer_, used));
      buffer_.erase(0, used);
      begun = begun || parser.begun();
      if (step == HttpResponseParser::Step::kHead) {
        if (exchange.piece != nullptr && parser.response().status >= 200 && parser.response().status < 300) {
          piece = exchange.piece;
          parser.unlimit_body();
        } else {
          ROTA_TRY(parser.limit_body(limits_.body_bytes));
        }
        continue;
      }
      done = step == HttpResponseParser::Step::kDone;
      if (piece != nullptr) {
        const std::string bytes = parser.take_body();
        if (!bytes.empty() && !(*piece)(bytes)) {
          HttpResponse response = std::move(parser.response());
          close();  // The rest is not read.
          return response;
        }
        if (exchange.silence.count() > 0) deadline = exchange.silence;
      }
      if (done) break;
      const std::size_t before = buffer_.size();
      buffer_.resize(before + kReadBytes);
      Result<std::size_t> count = stream_->read_some({buffer_.data() + before, kReadBytes}, deadline);
      buffer_.resize(before + (count.ok() ? *count : 0));
      if (!count.ok()) return std::move(count).take_error();
      if (*count == 0) {
        ROTA_TRY(parser.end());
        if (piece != nullptr) {
          if (const std::string bytes = parser.take_body(); !bytes.empty()) (void)(*piece)(bytes);
        }
        done = true;
      }
    }
    HttpResponse response = std::move(parser.response());
    if (response.status == 101) return Error{ErrorCode::kCorrupt, "the server wants to change the protocol"};
    if (response.status < 200) continue;  // 100, 103: the response itself follows.
    response.body = parser.take_body();
    // Bytes behind a response that nobody asked for: what they answer is not known.
    if (!parser.keep_alive() || !buffer_.empty()) close();
    return response;
  }
}

}  // namespace rota::net

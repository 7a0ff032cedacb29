#include "net/http_server.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "net/http_parser.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/time.h"

namespace rota::net {

namespace {

constexpr std::size_t kReadBytes = std::size_t{16} << 10;
constexpr std::size_t kMostLingerBytes = std::size_t{1} << 20;
constexpr std::chrono::milliseconds kAcceptAgainAfter{100};  // After an error, for example too many open files.
constexpr std::chrono::milliseconds kTurnAwayWithin{50};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kTooMany =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\nContent-Length: 34\r\n"
    "Connection: close\r\n\r\ntoo many connections; retry later\n";

void append_two_digits(std::string& out, std::int64_t number) {
  out.push_back(static_cast<char>('0' + number / 10));
  out.push_back(static_cast<char>('0' + number % 10));
}

// "Sun, 06 Nov 1994 08:49:37 GMT". Every response has one: gmtime_r() and snprintf() would take a lock and a
// microsecond.
std::string http_date(std::time_t time) {
  static constexpr std::array<std::string_view, 7> kDays{"Sun, ", "Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, "};
  static constexpr std::array<std::string_view, 12> kMonths{" Jan ", " Feb ", " Mar ", " Apr ", " May ", " Jun ",
                                                            " Jul ", " Aug ", " Sep ", " Oct ", " Nov ", " Dec "};
  const std::chrono::sys_seconds now{std::chrono::seconds(time)};
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::int64_t second = (now - day).count();
  std::string out(kDays[std::chrono::weekday(day).c_encoding()]);
  append_two_digits(out, static_cast<unsigned>(date.day()));
  out += kMonths[static_cast<unsigned>(date.month()) - 1];
  out += std::to_string(static_cast<int>(date.year()));
  for (const auto& [mark, number] : {std::pair{' ', second / 3600}, {':', second / 60 % 60}, {':', second % 60}}) {
    out.push_back(mark);
    append_two_digits(out, number);
  }
  return out += " GMT";
}

bool has_body(int status) { return status >= 200 && status != 204 && status != 304; }

// Each piece as one chunk; for HTTP/1.0, as it is.
class ChunkWriter final : public HttpBodyWriter {
 public:
  ChunkWriter(ByteStream& stream, bool chunked, std::chrono::nanoseconds limit)
      : stream_(stream), chunked_(chunked), limit_(limit) {}
  Result<void> write(std::string_view piece) override {
    if (piece.empty()) return {};  // An empty chunk would be the end.
    written_ += piece.size();
    if (!chunked_) return stream_.write_all(piece, limit_);
    std::array<char, 20> size{};
    const int digits = std::snprintf(size.data(), size.size(), "%zx\r\n", piece.size());
    std::string chunk;
    chunk.reserve(piece.size() + 24);
    chunk.append(size.data(), static_cast<std::size_t>(digits)).append(piece).append("\r\n");
    return stream_.write_all(chunk, limit_);
  }
  [[nodiscard]] std::uint64_t written() const { return written_; }

 private:
  ByteStream& stream_;
  const bool chunked_;
  const std::chrono::nanoseconds limit_;
  std::uint64_t written_ = 0;
};

}  // namespace

// One connection. Every function returns false if the connection must end.
struct HttpServer::Connection {
  HttpServer& server;
  ByteStream& stream;
  std::string buffer{};  // Received and not used yet.
  std::uint64_t served = 0;

  // Reads more bytes into the buffer. Nothing: the stream ended, or failed; `late`: the deadline passed.
  bool fill(Deadline deadline, bool& late) {
    const std::size_t before = buffer.size();
    buffer.resize(before + kReadBytes);
    const Result<std::size_t> count = stream.read_some({buffer.data() + before, kReadBytes}, deadline);
    buffer.resize(before + (count.ok() ? *count : 0));
    late = !count.ok() && count.code() == ErrorCode::kDeadlineExceeded;
    return count.ok() && *count > 0;
  }

  bool serve_one() {
    HttpRequestParser parser(server.limits_.head_bytes);
    if (!read_until(parser, HttpRequestParser::Step::kHead)) return false;
    server.requests_.fetch_add(1);
    HttpRequest& request = parser.request();
    request.peer = stream.peer();
    if (parser.content_length() != std::uint64_t{0}) {
      HttpHandler::Admission admission = admit(request);
      if (auto* refusal = std::get_if<HttpResponse>(&admission)) {
        // Where a body that was not read ends is not known for sure: nothing behind it is taken for a request.
        return respond(std::move(*refusal), request, false);
      }
      if (Result<void> small = parser.limit_body(std::get<std::uint64_t>(admission)); !small.ok()) {
        return refuse(small.error(), &request);
      }
    }
    if (const std::string* expect = request.field("expect"); expect != nullptr) {
      if (*expect != "100-continue") {
        return refuse(Error{ErrorCode::kUnsupported, "the only expectation that is supported is 100-continue"}.with(
                          "status", "417"),
                      &request);
      }
      if (!request.http10 && buffer.empty() && parser.content_length() != std::uint64_t{0} &&
          !stream.write_all(kContinue, server.limits_.write_time).ok()) {
        return false;
      }
    }
    if (!read_until(parser, HttpRequestParser::Step::kDone)) return false;
    return respond(handle(request), request, parser.keep_alive() && ++served < server.limits_.requests_per_connection);
  }

  // Reads and parses until the head, or the request, is complete.
  bool read_until(HttpRequestParser& parser, HttpRequestParser::Step goal) {
    const bool head = goal == HttpRequestParser::Step::kHead;
    const HttpLimits& limits = server.limits_;
    Deadline deadline = head ? Deadline(limits.idle) : Deadline(limits.body_time);
    bool begun = false;
    for (;;) {
      if (head && !begun && !buffer.empty()) {
        begun = true;
        deadline = limits.head_time;
      }
      // An empty line before a request line is ignored (RFC 9112, 2.2).
      while (head && !parser.begun() && buffer.starts_with("\r\n")) buffer.erase(0, 2);
      std::size_t used = 0;
      Result<HttpRequestParser::Step> step = HttpRequestParser::Step::kNeedMore;
      if (parser.begun() || buffer != "\r") step = parser.put(buffer, used);  // A single CR may begin an empty line.
      buffer.erase(0, used);
      if (!step.ok()) return refuse(step.error(), parser.begun() ? &parser.request() : nullptr);
      if (*step == goal) return true;
      if (*step == HttpRequestParser::Step::kDone) return true;  // Complete with its head.
      if (*step == HttpRequestParser::Step::kHead) continue;
      bool late = false;
      if (fill(deadline, late)) continue;
      if (late && (begun || !head)) {
        return refuse(Error{ErrorCode::kTimeout,
                            head ? "the head of the request took too long" : "the body of the request took too long"}
                          .with("status", "408"),
                      head ? nullptr : &parser.request());
      }
      return false;  // The client is gone, or said nothing for a long time.
    }
  }

  HttpHandler::Admission admit(const HttpRequest& request) {
    try {
      return server.handler_.admit(request);
    } catch (const fiber::Cancelled&) {
      throw;
    } catch (const std::exception& error) {
      return failure(request, error);
    }
  }
  HttpResponse handle(HttpRequest& request) {
    try {
      return server.handler_.handle(request);
    } catch (const fiber::Cancelled&) {
      throw;
    } catch (const std::exception& error) {
      return failure(request, error);
    }
  }
  HttpResponse failure(const HttpRequest& request, const std::exception& error) {
    ROTA_LOG(kError, "http request failed", {"method", request.method}, {"path", request.path}, {"why", error.what()});
    return server.handler_.refuse(500, Error{ErrorCode::kInternal,
                                             "the request failed because of a bug; the log of the "
                                             "host has the reason"});
  }

  // Answers an error that leaves the stream ambiguous, and ends the connection. `request`: if its head is known.
  bool refuse(const Error& error, const HttpRequest* request) {
    server.refused_.fetch_add(1);
    const std::string* status = error.detail("status");
    const HttpRequest none{};
    (void)respond(server.handler_.refuse(status == nullptr ? 400 : std::stoi(*status), error),
                  request == nullptr ? none : *request, false);
    return false;
  }

  bool respond(HttpResponse response, const HttpRequest& request, bool keep_alive) {
    const bool head_only = request.method == "HEAD";
    const bool streams = response.stream != nullptr && !head_only;
    if (streams && request.http10) keep_alive = false;
    std::vector<HttpField>& fields = response.fields;
    fields.push_back({"Date", http_date(server.wall_clock_ ? server.wall_clock_() : std::time(nullptr))});
    const bool chunked = streams && !request.http10 && !response.stream_bytes;
    if (response.stream != nullptr && response.stream_bytes) {
      fields.push_back({"Content-Length", std::to_string(*response.stream_bytes)});
    } else if (chunked) {
      fields.push_back({"Transfer-Encoding", "chunked"});
    } else if (!streams && has_body(response.status) && response.stream == nullptr) {
      fields.push_back({"Content-Length", std::to_string(response.body.size())});
    }
    if (!keep_alive) fields.push_back({"Connection", "close"});
    std::string bytes = response_head(response.status, fields);
    if (!streams && !head_only && has_body(response.status)) bytes += response.body;
    if (!stream.write_all(bytes, server.limits_.write_time).ok()) return false;
    if (streams) {
      // A stream may last for days: it does not keep what the request needed.
      std::string().swap(bytes);
      if (buffer.empty()) std::string().swap(buffer);
      ChunkWriter writer(stream, chunked, server.limits_.write_time);
      if (!run_stream(response, writer, request)) return false;
      // A body of another length than announced would be taken for a part of the next response.
      if (response.stream_bytes && writer.written() != *response.stream_bytes) return false;
      if (chunked && !stream.write_all("0\r\n\r\n", server.limits_.write_time).ok()) return false;
    }
    if (!keep_alive) end();
    return keep_alive;
  }

  static bool run_stream(const HttpResponse& response, HttpBodyWriter& writer, const HttpRequest& request) {
    try {
      return response.stream(writer);
    } catch (const fiber::Cancelled&) {
      throw;
    } catch (const std::exception& error) {
      ROTA_LOG(kError, "http stream failed", {"path", request.path}, {"why", error.what()});
      return false;
    }
  }

  // Ends this direction and reads what the client still sends, for a moment: closing with unread bytes would reset the
  // connection, and the client might never see the response.
  void end() {
    if (!stream.shutdown_write(server.limits_.linger).ok()) return;
    const Deadline deadline = server.limits_.linger;
    std::size_t dropped = 0;
    bool late = false;
    do {
      dropped += buffer.size();
      buffer.clear();
    } while (dropped < kMostLingerBytes && fill(deadline, late));
  }
};

void HttpServer::serve(ByteStream& stream) {
  Connection connection{*this, stream};
  while (connection.serve_one()) {
  }
  stream.close();
}

void HttpServer::serve_or_turn_away(ByteStream& stream, bool turn_away) {
  try {
    if (turn_away) {
      (void)stream.write_all(kTooMany, kTurnAwayWithin);
      (void)stream.shutdown_write(kTurnAwayWithin);
    } else {
      serve(stream);
    }
  } catch (const fiber::Cancelled&) {  // The server stops.
  } catch (const std::exception& error) {
    // A task that fails would end all others: one connection must not end the server.
    ROTA_LOG(kError, "http connection failed", {"peer", stream.peer()}, {"why", error.what()});
  }
  stream.close();
  open_.fetch_sub(1);
}

void HttpServer::run() {
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      for (;;) {
        Result<std::unique_ptr<ByteStream>> accepted = listener_.accept({});
        if (!accepted.ok()) {
          if (accepted.code() == ErrorCode::kClosed || accepted.code() == ErrorCode::kCancelled) break;
          ROTA_LOG(kWarn, "http listener", {"why", accepted.error().message});
          if (!fiber::sleep_for(kAcceptAgainAfter).ok()) break;
          continue;
        }
        accepted_.fetch_add(1);
        std::shared_ptr<ByteStream> stream = std::move(*accepted);
        const bool turn_away = open_.fetch_add(1) >= limits_.connections;
        if (turn_away) turned_away_.fetch_add(1);
        try {
          nursery.launch([this, turn_away, stream = std::move(stream)] { serve_or_turn_away(*stream, turn_away); });
        } catch (const fiber::FiberError& error) {
          // Memory for one more task is missing, or the server stops; the connection is closed.
          open_.fetch_sub(1);
          if (error.code() == ErrorCode::kNurseryNotActive) break;
          ROTA_LOG(kWarn, "http connection dropped", {"why", error.what()});
        }
      }
      nursery.cancel();  // Streams of events would keep the server forever.
    });
  } catch (const fiber::Cancelled&) {
  }
}

HttpStats HttpServer::stats() const {
  return {accepted_.load(), open_.load(), turned_away_.load(), requests_.load(), refused_.load()};
}

}  // namespace rota::net

// A connection that speaks HTTP/2 to one server and that many tasks share: calls, and responses that arrive piece by
// piece (server streams).
//
// Two tasks of the connection's own do all input and output, one for each direction; callers only wait. A caller that
// is cancelled or out of time therefore disturbs nobody else: its stream is reset.
//
//   call(), open() ── submit ──► Http2Session ──► the writer's task ──► ByteStream
//   call(), read() ◄── wake ──── Http2Session ◄── the reader's task ◄──
//
// A peer that says nothing for `ping_after` while streams are open gets a PING; if it is silent for `ping_within` more,
// the connection counts as broken. etcd disconnects clients that ping more often than every 5 s, or that ping without
// an open stream, so ping_after is at least 5 s.
//
// After GOAWAY, open streams continue, and accepts_requests() is false: connect again. A connection never heals.
// Errors of call(), open() and read():
//   Unavailable       the connection broke or the server reset the stream; the request was executed or not. With the
//                     detail "executed" = "no", it was not.
//   DeadlineExceeded  the request may still be executed.
//   TooLarge          the response is larger than `body_bytes`.
//   Cancelled, Closed
// Thread safety: every function from any task.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "net/http2_session.h"
#include "net/stream.h"
#include "rota/fiber/nursery.h"
#include "rota/result.h"

namespace rota::net {

struct Http2ClientOptions {
  Http2Options session{};
  std::size_t body_bytes = 64U << 20;  // Of the response to a call().
  std::chrono::nanoseconds ping_after = std::chrono::seconds(10);
  std::chrono::nanoseconds ping_within = std::chrono::seconds(10);
  std::chrono::nanoseconds write_within = std::chrono::seconds(30);
};

struct Http2Request {
  std::string path{};
  std::vector<HttpField> fields{};
  std::string body{};
};

struct Http2Response {
  int status = 0;
  std::vector<HttpField> fields{};  // Head, then trailers.
  std::string body{};

  [[nodiscard]] const std::string* field(std::string_view name) const;
};

namespace detail {
struct Http2Core;  // http2_client.cc
}

// The response to open(). One task reads it; the destructor resets the stream if it has not ended.
class Http2Stream {
 public:
  Http2Stream(std::shared_ptr<detail::Http2Core> core, std::int32_t id) : core_(std::move(core)), id_(id) {}
  ~Http2Stream();
  Http2Stream(const Http2Stream&) = delete;
  Http2Stream& operator=(const Http2Stream&) = delete;

  // The bytes that have arrived, at least one; empty at the end, after which response() has the trailers. A deadline
  // that passes loses nothing.
  Result<std::string> read(Deadline deadline);
  // Status and fields as far as they have arrived; no body.
  [[nodiscard]] Http2Response response();

 private:
  const std::shared_ptr<detail::Http2Core> core_;
  const std::int32_t id_;
};

class Http2Client {
 public:
  // Starts its tasks in the nursery, which outlives it.
  Http2Client(std::unique_ptr<ByteStream> stream, Http2ClientOptions options, fiber::Nursery& nursery);
  ~Http2Client();  // As close().
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  Result<Http2Response> call(Http2Request request, Deadline deadline);
  Result<std::unique_ptr<Http2Stream>> open(Http2Request request);
  [[nodiscard]] bool accepts_requests() const;
  // Calls and streams that wait get Closed. Idempotent; never waits.
  void close();

 private:
  const std::shared_ptr<detail::Http2Core> core_;
};

}  // namespace rota::net

// HttpServer: HTTP/1.1 over any Listener: TCP, TLS, or the simulated network.
//
//   ByteStream ──► HttpRequestParser ──► HttpHandler::admit(head) ──► body ──► HttpHandler::handle() ──► response
//                                              └── refusal: the body is never read
//
// Each connection is a task that serves one request after the other (keep-alive; pipelined requests wait in the
// client's buffers). A response is sent as a whole, or piece by piece (HttpResponse::stream: chunked, so that
// server-sent events work). `Expect: 100-continue` is answered after admit().
//
// Bounds (HttpLimits). Time: each phase of a request has its own limit, counted from its first byte, so that a client
// that sends one byte a second ends with 408. Size: head and body. Number: connections; one more is answered with 503
// and closed. A client that does not read its response is disconnected after `write_time`.
//
// After an error that makes the rest of the stream ambiguous (not HTTP, a body that was not read) the response says
// `Connection: close`; the server ends its direction, reads on for a moment so that the client can read the response,
// and closes. Bytes behind such a request are never taken for a request.
//
// Thread safety: run() once; stats() from any task. The handler is called by many tasks at the same time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <string>
#include <variant>

#include "base/sync.h"
#include "net/http.h"
#include "net/stream.h"
#include "rota/result.h"

namespace rota::net {

class HttpHandler {
 public:
  // The bound of the body that will be read, or the response that refuses the request.
  using Admission = std::variant<std::uint64_t, HttpResponse>;

  virtual ~HttpHandler() = default;
  // Sees the head of a request with a body, before the body is read: the place to check who asks, so that nobody else's
  // body is read. A request without a body comes to handle() at once.
  virtual Admission admit(const HttpRequest& head) = 0;
  // May wait. An exception becomes a 500.
  virtual HttpResponse handle(HttpRequest& request) = 0;
  // The response for an error that the server found itself.
  virtual HttpResponse refuse(int status, const Error& error) = 0;
};

struct HttpLimits {
  std::size_t connections = 1024;
  std::size_t head_bytes = 16U << 10;
  std::chrono::nanoseconds idle = std::chrono::seconds(60);        // Between two requests.
  std::chrono::nanoseconds head_time = std::chrono::seconds(10);   // From its first byte to the end of the head.
  std::chrono::nanoseconds body_time = std::chrono::seconds(60);   // For the whole body.
  std::chrono::nanoseconds write_time = std::chrono::seconds(30);  // Per response, or per piece of a stream.
  std::chrono::nanoseconds linger = std::chrono::seconds(1);       // After an error, until the connection is cut.
  std::uint64_t requests_per_connection = 100'000;
};

struct HttpStats {
  std::uint64_t connections = 0;  // Accepted so far.
  std::uint64_t open = 0;         // Now.
  std::uint64_t turned_away = 0;  // Because there were too many.
  std::uint64_t requests = 0;     // Complete heads.
  std::uint64_t refused = 0;      // Of the server itself: not HTTP, too large, too slow.
};

class HttpServer {
 public:
  // `wall_clock` is for the Date field; empty: the system's clock.
  // REQUIRES: the listener and the handler outlive it.
  HttpServer(Listener& listener, HttpHandler& handler, HttpLimits limits = {},
             std::function<std::time_t()> wall_clock = {})
      : listener_(listener), handler_(handler), limits_(limits), wall_clock_(std::move(wall_clock)) {}

  // Serves until the listener is closed or the task is cancelled; open connections are cut then.
  void run();
  // One connection, until it ends. For tests and fuzzers; run() calls it.
  void serve(ByteStream& stream);

  [[nodiscard]] HttpStats stats() const;

 private:
  struct Connection;
  void serve_or_turn_away(ByteStream& stream, bool turn_away);

  Listener& listener_;
  HttpHandler& handler_;
  const HttpLimits limits_;
  const std::function<std::time_t()> wall_clock_;
  sync::Atomic<std::uint64_t> accepted_{0};
  sync::Atomic<std::uint64_t> open_{0};
  sync::Atomic<std::uint64_t> turned_away_{0};
  sync::Atomic<std::uint64_t> requests_{0};
  sync::Atomic<std::uint64_t> refused_{0};
};

}  // namespace rota::net

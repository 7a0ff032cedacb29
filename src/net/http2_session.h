// The client's side of HTTP/2 as a state machine over libnghttp2's memory API: bytes in, bytes out, no I/O, no waiting.
//
//   Http2Session session({.authority = "etcd:2379"});
//   ROTA_TRY_ASSIGN(const std::int32_t id, session.submit("/path", fields, body));
//   stream->write_all(session.output(), ...);          // until output() is empty
//   ROTA_TRY(session.receive(bytes));                  // then look at take_touched() and find(id)
//
// Http2Client (http2_client.h) adds the connection and its tasks; the fuzzer drives this class directly.
//
// Flow control. Each stream and the connection receive up to `window_bytes` that nobody has consumed. The connection's
// window is given back at once, so that one slow stream does not stop the others; a stream's window is given back by
// consume(). Therefore a stream holds at most window_bytes, and a server that sends more than it may is disconnected.
// Bounds: head_bytes of fields per stream, window_bytes of body that was not consumed.
// Errors: Corrupt if the peer breaks the protocol; the session is then useless.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"
#include "rota/result.h"

namespace rota::net {

struct Http2Options {
  std::string scheme = "http";  // "https" over TLS.
  std::string authority{};      // "host:port".
  std::uint32_t window_bytes = 4U << 20;
  std::size_t head_bytes = 64U << 10;
};

// What a server has sent on one stream so far.
struct Http2Incoming {
  int status = 0;                   // Of the response; 0 before its head.
  std::vector<HttpField> fields{};  // Of the head and, behind them, of the trailers.
  std::string body{};               // Bytes that nobody has consumed.
  bool ended = false;               // Nothing more will arrive.
  bool complete = false;            // It ended normally.
  bool refused = false;             // The server says that it did nothing for this request.
  std::string reason{};             // If it did not end normally: "INTERNAL_ERROR".

  [[nodiscard]] const std::string* field(std::string_view name) const;
};

class Http2Session {
 public:
  explicit Http2Session(Http2Options options);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  // Queues a POST. Returns the stream's id. Unavailable if the server takes no more requests on this connection.
  Result<std::int32_t> submit(std::string_view path, const std::vector<HttpField>& fields, std::string body);
  // Processes bytes of the server. Corrupt: they break the protocol.
  Result<void> receive(std::string_view bytes);
  // The next bytes to send, about 64 KiB; empty if there are none now.
  [[nodiscard]] std::string output();

  // The streams on which something arrived since the last call.
  [[nodiscard]] std::vector<std::int32_t> take_touched();
  // Null after forget().
  [[nodiscard]] Http2Incoming* find(std::int32_t id);
  // The caller has taken this number of bytes from the stream's body: the server may send as many more.
  void consume(std::int32_t id, std::size_t bytes);
  // Drops what is known of the stream, and resets it if it has not ended.
  void forget(std::int32_t id);

  // Queues a PING; pongs() counts the answers.
  void ping();
  [[nodiscard]] std::uint64_t pongs() const;
  // False after GOAWAY, or when the ids are used up: connect again for new requests.
  [[nodiscard]] bool accepts_requests() const;
  [[nodiscard]] std::size_t open_streams() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rota::net

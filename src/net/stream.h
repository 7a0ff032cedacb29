// Bytes between machines: the interface that every client and server in Rota uses (DESIGN decision 9).
//
// TLS, RESP, HTTP and HTTP/2 see bytes only through ByteStream, and make and accept connections only through Network.
// There are two networks: the real one (real_network.cc: TCP and Unix sockets of fiber/) and a simulated one
// (sim_network.h: virtual time, latency, drops, resets). TlsStream (tls.h) is a ByteStream over another ByteStream. All
// of them pass the tests of stream_conformance.h.
//
// Every operation that may wait takes a Deadline, parks the calling task and is a cancellation point. Errors:
//   DeadlineExceeded  the deadline passed; the detail "done_bytes" is the number of bytes transferred by then.
//   Cancelled         the task, or a scope around it, is cancelled.
//   Closed            this end was closed, perhaps by another task while this one waited; or the peer is gone.
//   Unavailable       nobody listens at the address, or it cannot be reached.
//   others            of the operating system or of TLS.
// The sentence of an error names the operation and the peer: "read from 10.0.0.7:6379: Connection reset by peer".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "rota/fiber/io.h"
#include "rota/result.h"

namespace rota::net {

using fiber::Deadline;

// Where a server listens: a host name or numeric address with a port, or the path of a Unix socket.
struct Endpoint {
  std::string host{};       // "10.0.0.7", "::1", "redis.example"; empty for a Unix socket.
  std::uint16_t port = 0;   // When listening, 0 means a free port.
  std::string unix_path{};  // Empty for TCP.

  // "host:port", "[::1]:6379", "unix:/run/redis.sock". InvalidArgument with the reason otherwise.
  static Result<Endpoint> parse(std::string_view text);
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// A connected, ordered stream of bytes in both directions.
//
// Thread safety: at the same time one task may read, another may write, and any task may close(). Only one task may
// destroy the object, after the others have returned.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Reads at least one byte; 0 at the end of the stream (the peer ended its direction cleanly), or for an empty buffer.
  // A deadline that passed or a cancellation loses no bytes: the next read continues.
  virtual Result<std::size_t> read_some(std::span<char> buffer, Deadline deadline) = 0;
  // Writes everything, or fails: after an error of any kind the stream is unusable for writing, and every further
  // write_all() and shutdown_write() returns Closed, or the error that broke the stream. Waits while the peer does not
  // read and the buffers between are full. Success means that the bytes are on their way, not that the peer has them.
  virtual Result<void> write_all(std::string_view bytes, Deadline deadline) = 0;
  // Ends this direction (half-close): the peer reads the remaining bytes and then the end; reading here continues.
  // Idempotent. The task that writes calls it.
  virtual Result<void> shutdown_write(Deadline deadline) = 0;
  // Ends both directions at once, and the waits of other tasks with Closed. Idempotent; never waits. Bytes that this
  // end has not read are dropped. Without a shutdown_write() before it the peer reads the end, or Closed: TLS, for
  // example, tells an end from an interruption.
  virtual void close() = 0;
  // For messages and logs: "127.0.0.1:6379".
  [[nodiscard]] virtual std::string peer() const = 0;

  // Fills the buffer. Closed if the stream ends first.
  Result<void> read_exactly(std::span<char> buffer, Deadline deadline);
};

// Thread safety: several tasks may accept(); any task may close().
class Listener {
 public:
  virtual ~Listener() = default;
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  virtual Result<std::unique_ptr<ByteStream>> accept(Deadline deadline) = 0;
  // With the port that was chosen.
  [[nodiscard]] virtual Endpoint endpoint() const = 0;
  // Ends the waits of accept() with Closed. Idempotent.
  virtual void close() = 0;
};

// Thread safety: every function from any task.
class Network {
 public:
  virtual ~Network() = default;
  virtual Result<std::unique_ptr<ByteStream>> connect(const Endpoint& endpoint, Deadline deadline) = 0;
  virtual Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) = 0;
};

// The network of this machine.
[[nodiscard]] Network& real_network();

}  // namespace rota::net

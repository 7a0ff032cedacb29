// gRPC on HTTP/2, as far as a client of etcd needs it: the framing of messages, the status, and a client that connects
// to any of several servers, and again after a failure.
//
//   GrpcClient client(network, {.endpoints = {a, b, c}}, nursery);
//   Result<std::string> answer = client.call("/etcdserverpb.KV/Range", message, 5s);
//   auto stream = client.stream("/etcdserverpb.Watch/Watch", message, 5s);       // then stream->next(deadline)
//
// One connection serves all calls. When it breaks, announces its end (GOAWAY), does not answer within `reply_within`,
// or its server reports that it cannot serve (status Unavailable), the next call connects to the next endpoint.
// Attempts are spaced by a backoff once every endpoint has failed. A call whose request was never sent is repeated on
// another endpoint until its deadline; any other failure is returned, because the request may have been executed.
//
// A status other than OK is an Error with the sentence of the server and the detail "grpc", the number of the status:
//   1 Cancelled; 3 InvalidArgument; 4 DeadlineExceeded; 5 NotFound; 6 AlreadyExists; 7 PermissionDenied;
//   8 ResourceExhausted; 9 FailedPrecondition; 10 Conflict; 11 InvalidArgument; 12 Unsupported; 14 Unavailable;
//   15 DataLoss; 16 Unauthenticated; others Internal
// Thread safety: every function from any task; of a GrpcStream, one task at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http2_client.h"
#include "net/stream.h"
#include "rota/fiber/nursery.h"
#include "rota/result.h"

namespace rota::net {

// Appends the message with its prefix of five bytes.
void append_grpc_message(std::string& out, std::string_view message);

// Cuts a response's body into messages.
class GrpcReader {
 public:
  explicit GrpcReader(std::size_t message_bytes) : message_bytes_(message_bytes) {}
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole message; none if more bytes are needed. Corrupt, TooLarge, Unsupported (compressed).
  Result<std::optional<std::string>> next();
  // True between messages.
  [[nodiscard]] bool at_boundary() const { return at_ == buffer_.size(); }

 private:
  const std::size_t message_bytes_;
  std::string buffer_;
  std::size_t at_ = 0;
};

// The outcome that head and trailers of a finished response report.
Result<void> grpc_status(const Http2Response& response, std::string_view peer);

struct GrpcOptions {
  std::vector<Endpoint> endpoints{};  // At least one.
  bool tls = false;                   // The network encrypts (TlsNetwork with ALPN h2); only for the scheme.
  std::vector<HttpField> fields{};    // Sent with every request: {"authorization", token}.
  std::size_t message_bytes = 64U << 20;
  std::chrono::nanoseconds connect_within = std::chrono::seconds(3);
  std::chrono::nanoseconds reply_within = std::chrono::seconds(5);
  std::chrono::nanoseconds retry_after = std::chrono::milliseconds(20);
  std::chrono::nanoseconds retry_most = std::chrono::seconds(2);
  std::uint64_t seed = 1;  // Of the jitter, and of the endpoint that is tried first.
  Http2ClientOptions http2{};
};

class GrpcStream {
 public:
  GrpcStream(std::shared_ptr<Http2Client> client, std::unique_ptr<Http2Stream> stream, std::size_t message_bytes,
             std::string peer)
      : client_(std::move(client)), stream_(std::move(stream)), reader_(message_bytes), peer_(std::move(peer)) {}
  // The next message; none if the server ended the stream with status OK. A deadline that passes loses nothing.
  Result<std::optional<std::string>> next(Deadline deadline);

 private:
  std::shared_ptr<Http2Client> client_;  // Keeps the connection open.
  std::unique_ptr<Http2Stream> stream_;
  GrpcReader reader_;
  const std::string peer_;
};

class GrpcClient {
 public:
  // The network and the nursery outlive it.
  GrpcClient(Network& network, GrpcOptions options, fiber::Nursery& nursery);
  ~GrpcClient();  // As close().
  GrpcClient(const GrpcClient&) = delete;
  GrpcClient& operator=(const GrpcClient&) = delete;

  // One message each way. Unavailable: executed or not, unless the detail "executed" is "no".
  Result<std::string> call(std::string_view path, std::string_view message, Deadline deadline = {});
  // One message to the server, any number back.
  Result<std::unique_ptr<GrpcStream>> stream(std::string_view path, std::string_view message, Deadline deadline = {});
  // Idempotent; never waits.
  void close();

 private:
  struct Core;
  const std::shared_ptr<Core> core_;
};

}  // namespace rota::net

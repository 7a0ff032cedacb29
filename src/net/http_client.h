// HttpClient: HTTP/1.1 requests to one server, over any Network: TCP, TLS, or the simulated one.
//
//   HttpClient client(network, url.endpoint);
//   Result<HttpResponse> response = client.call({.method = "GET", .target = "/v1/version"}, 10s);
//   client.stream({.target = "/v1/events", ...}, 10s, 60s, [](std::string_view piece) { return use(piece); });
//
// The connection is kept and used again. If the server closed it meanwhile, a request that may be repeated (GET, HEAD,
// PUT, DELETE, or any with an Idempotency-Key) is sent once more on a new connection; another one ends with
// Unavailable, because nobody knows whether the server has executed it.
//
// Bounds: the head and the body of a response, the number of interim (1xx) responses, and the time: the deadline is for
// the request as a whole; a stream has one for its head, and a limit for each silence after it. Redirects are not
// followed: they would send a token to another server.
//
// Errors, beside those of stream.h: Corrupt (not HTTP), TooLarge, Closed (cut in the middle of a response),
// DeadlineExceeded, Unavailable. A status of 400 and more is a response, not an error.
//
// Thread safety: none; one request at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"
#include "net/stream.h"
#include "rota/result.h"

namespace rota::net {

struct HttpClientLimits {
  std::size_t head_bytes = 64U << 10;
  std::uint64_t body_bytes = std::uint64_t{64} << 20;  // Also of an error in place of a stream.
};

struct HttpClientRequest {
  std::string method = "GET";
  std::string target = "/";         // Encoded: percent_encode().
  std::vector<HttpField> fields{};  // Without Host, Content-Length and Connection.
  std::string body{};
};

class HttpClient {
 public:
  // Called with each piece of a stream's body; false ends the stream.
  using Piece = std::function<bool(std::string_view)>;

  // REQUIRES: the network outlives it.
  HttpClient(Network& network, Endpoint endpoint, HttpClientLimits limits = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  Result<HttpResponse> call(const HttpClientRequest& request, Deadline deadline);
  // The body of a response with a status below 300 goes to `piece`, and is unbounded; of others it is in the response.
  // DeadlineExceeded if nothing comes for longer than `silence`.
  Result<HttpResponse> stream(const HttpClientRequest& request, Deadline head, std::chrono::nanoseconds silence,
                              const Piece& piece);
  void close();

 private:
  struct Exchange;
  Result<void> connect(Deadline deadline);
  Result<HttpResponse> send(const HttpClientRequest& request, Deadline deadline, const Piece* piece,
                            std::chrono::nanoseconds silence);
  Result<HttpResponse> receive(Exchange& exchange, bool& begun);

  Network& network_;
  const Endpoint endpoint_;
  const HttpClientLimits limits_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;  // Received and not used yet.
};

}  // namespace rota::net

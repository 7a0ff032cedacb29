// HttpRequestParser and HttpResponseParser: turn bytes into requests and into responses. The grammar is Boost.Beast's
// (basic_parser), which only http_parser.cc includes; what Beast leaves to its user is decided here, mostly against
// request smuggling:
//   - a Transfer-Encoding other than "chunked" alone is refused (Beast would take the body for the next request), and
//   so
//     is any in HTTP/1.0; Beast refuses Content-Length beside Transfer-Encoding, and different Content-Lengths
//   - exactly one Host field; the head as a whole is within the bound, to the byte; at most kMostFields fields
//   - trailers are read within the same bound and dropped
//
//   HttpRequestParser parser(16 << 10);
//   for (;;) { parser.put(buffer, used); ... }          // kHead: decide, limit_body(); kDone: parser.request()
//
// One parser reads one message. Bytes after its end are not used.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "net/http.h"
#include "rota/result.h"

namespace rota::net {

class HttpRequestParser {
 public:
  static constexpr std::size_t kMostFields = 100;

  enum class Step : std::uint8_t {
    kNeedMore,  // Call put() again with what was not used, and more after it.
    kHead,      // The head is complete: once. The body follows; call limit_body() before the next put().
    kDone,      // The request is complete.
  };

  explicit HttpRequestParser(std::size_t head_bytes);
  ~HttpRequestParser();
  HttpRequestParser(const HttpRequestParser&) = delete;
  HttpRequestParser& operator=(const HttpRequestParser&) = delete;

  // Reads from the front of `bytes` and sets `used`. The error's detail "status" is the HTTP status to answer with; the
  // connection cannot be used further. REQUIRES: no error and no kDone before.
  Result<Step> put(std::string_view bytes, std::size_t& used);
  // TooLarge (413) if the client announced more; otherwise the bound for the rest.
  Result<void> limit_body(std::uint64_t bytes);

  [[nodiscard]] bool begun() const;                                   // A byte was read.
  [[nodiscard]] bool keep_alive() const;                              // After kHead: the client wants another request.
  [[nodiscard]] std::optional<std::uint64_t> content_length() const;  // After kHead; none if chunked.
  [[nodiscard]] HttpRequest& request();

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

// Reads a server's response. The same bounds and refusals; its errors are Corrupt or TooLarge.
class HttpResponseParser {
 public:
  using Step = HttpRequestParser::Step;

  // `head_only`: the response to a HEAD request, which has no body whatever it announces.
  HttpResponseParser(std::size_t head_bytes, bool head_only);
  ~HttpResponseParser();
  HttpResponseParser(const HttpResponseParser&) = delete;
  HttpResponseParser& operator=(const HttpResponseParser&) = delete;

  Result<Step> put(std::string_view bytes, std::size_t& used);
  // The stream has ended: ok if the response is complete, which one without a length is now. Closed otherwise.
  Result<void> end();
  Result<void> limit_body(std::uint64_t bytes);
  void unlimit_body();  // For a stream, whose pieces the caller takes as they come.

  [[nodiscard]] bool begun() const;
  [[nodiscard]] bool keep_alive() const;   // After kDone: the connection can carry another request.
  [[nodiscard]] HttpResponse& response();  // After kHead: status and fields, names in lower case.
  [[nodiscard]] std::string take_body();   // What has arrived of it since the last call.

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace rota::net

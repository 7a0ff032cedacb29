// HTTP/1.1 messages, as HttpServer (http_server.h) hands them to its handler and HttpClient (http_client.h) returns
// them.
//
//   HttpRequest request = ...;                         // GET /v1/tasks?state=running&limit=10
//   request.path == "/v1/tasks";  request.query == {{"state", "running"}, {"limit", "10"}}
//   request.field("accept")                            // null if the client sent none
//
// What a request guarantees once it reaches a handler: the target was an absolute path without control characters or
// bytes that are not UTF-8 after decoding; names of fields are in lower case; there is exactly one Host field (none is
// allowed in HTTP/1.0); the body is complete and within the bound that the handler gave.
//
// Thread safety: as of any value.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/result.h"

namespace rota::net {

struct HttpField {
  std::string name{};  // In lower case in a request.
  std::string value{};
  friend bool operator==(const HttpField&, const HttpField&) = default;
};

struct HttpRequest {
  std::string method{};
  std::string target{};  // As it was sent: "/v1/tasks?state=running".
  std::string path{};    // Decoded, and without the query. A '/' that was encoded as %2F stays encoded.
  std::vector<std::pair<std::string, std::string>> query{};  // Decoded, in order; names may repeat.
  std::vector<HttpField> fields{};
  std::string body{};
  std::string peer{};  // "127.0.0.1:51234"
  bool http10 = false;

  // The first field of this name (in lower case), or null.
  [[nodiscard]] const std::string* field(std::string_view name) const;
  // The first query parameter of this name, or null.
  [[nodiscard]] const std::string* parameter(std::string_view name) const;
};

// Writes the body of a response piece by piece. Each piece is sent at once.
//
// Thread safety: none; the handler's stream function owns it while it runs.
class HttpBodyWriter {
 public:
  virtual ~HttpBodyWriter() = default;
  // An error means that the client is gone, too slow (DeadlineExceeded), or that the server stops (Cancelled): return.
  virtual Result<void> write(std::string_view piece) = 0;
};

struct HttpResponse {
  int status = 200;
  std::vector<HttpField> fields{};  // Without Content-Length, Transfer-Encoding, Connection and Date.
  std::string body{};
  // If it is set, it writes the body, of any length, in place of `body`. It returns when the body is complete; false if
  // it is not, so that the connection is cut and the client can tell.
  std::function<bool(HttpBodyWriter&)> stream{};
  // How many bytes `stream` writes, if that is known: the response has a Content-Length, also as an answer to HEAD.
  std::optional<std::uint64_t> stream_bytes{};

  // The first field of this name, or null. Of a response that was received; its names are in lower case.
  [[nodiscard]] const std::string* field(std::string_view name) const;
};

// "Not Found"; "Unknown" for a status without a name.
[[nodiscard]] std::string_view http_reason(int status);

// Undoes %XX. InvalidArgument for an incomplete or wrong escape, a control character, or bytes that are not UTF-8.
// With `plus`, a '+' is a space (in queries). With `keep_slash`, %2F stays as it is (in paths).
[[nodiscard]] Result<std::string> percent_decode(std::string_view text, bool plus, bool keep_slash);
// Encodes everything but letters, digits and "-._~" as %XX: for a segment of a path, or a value of a query.
[[nodiscard]] std::string percent_encode(std::string_view text);
// Splits a target into path and query, and decodes both. InvalidArgument.
[[nodiscard]] Result<void> parse_target(HttpRequest& request);

// The head of a response: status line and fields, up to and including the empty line. A CR, LF or zero byte in a field
// is a bug of the handler and becomes a space: it must not begin a line of its own.
[[nodiscard]] std::string response_head(int status, const std::vector<HttpField>& fields);
// The same of a request.
[[nodiscard]] std::string request_head(std::string_view method, std::string_view target,
                                       const std::vector<HttpField>& fields);

}  // namespace rota::net

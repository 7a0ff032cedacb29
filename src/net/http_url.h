// The address of an HTTP server.
//
//   http://host[:port]         plain TCP; port 80 by default
//   https://host[:port]        over TLS; port 443
//
// A path, a query, or a user in the URL is refused: routes are chosen by the client, and secrets do not belong in URLs.
// Thread safety: as of any value.
#pragma once

#include <string>
#include <string_view>

#include "net/stream.h"
#include "rota/result.h"

namespace rota::net {

struct HttpUrl {
  Endpoint endpoint{};
  bool tls = false;

  // InvalidArgument with the reason and the right form. The text itself is not repeated: it may hold a password.
  static Result<HttpUrl> parse(std::string_view text);
  // "https://host:8443", with the port.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace rota::net

// The address of a Redis server, with the account to use there.
//
//   redis://[user[:password]@]host[:port][/database]       plain TCP; port 6379 by default
//   rediss://...                                           the same over TLS
//   redis+unix://[user[:password]@]/path[?db=database]     a Unix socket
//
// User and password are percent-decoded. `redis://:password@host` is the password of the default user.
// A password appears in no message and no log: to_string() and every error leave it out.
// Thread safety: as of any value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/stream.h"
#include "rota/result.h"

namespace rota::net {

struct RedisUrl {
  static constexpr std::uint16_t kPort = 6379;

  Endpoint endpoint{.host = "127.0.0.1", .port = kPort, .unix_path = {}};
  bool tls = false;
  std::string user{};      // Empty: the default user.
  std::string password{};  // Empty: no AUTH.
  std::uint32_t database = 0;

  // InvalidArgument with the reason and the right form; the text itself is not repeated, because it may hold a
  // password.
  static Result<RedisUrl> parse(std::string_view text);
  // "redis://user@host:6379/1": without the password.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace rota::net

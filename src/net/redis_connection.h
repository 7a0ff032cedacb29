// One connection to Redis, used by one task at a time: sends commands and reads as many replies.
//
// Commands that belong together are sent together (a pipeline); Redis executes them in order. After any error of the
// connection itself it is closed: open another one. An error that Redis replies is a value like any other reply;
// redis_error() turns it into an Error.
//
// Several tasks share a connection through RedisClient (redis_client.h). A command that blocks at the server (XREAD
// BLOCK, BLPOP) needs a connection of its own. Thread safety: exchange() from one task at a time; close() from any
// task.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"
#include "net/redis_url.h"
#include "net/resp.h"
#include "net/stream.h"
#include "rota/result.h"

namespace rota::net {

class TlsContext;

struct RedisConnectOptions {
  std::chrono::nanoseconds within = std::chrono::seconds(5);  // To connect, to authenticate and to select the database.
  RespReader::Limits limits{};
  std::shared_ptr<const TlsContext> tls{};  // A client's, for rediss://; null: rediss:// is Unsupported.
};

class RedisConnection {
 public:
  // Connects, authenticates, selects the database and pings. Unavailable, Unauthenticated, PermissionDenied,
  // DeadlineExceeded as Unavailable..., with a sentence that names the address and says what to do. Never the password.
  static Result<std::unique_ptr<RedisConnection>> open(Network& network, const RedisUrl& url,
                                                       const RedisConnectOptions& options = {});
  ~RedisConnection();

  // One reply for each command, in order. Unavailable: the connection broke, or there was no answer by the deadline;
  // the commands were executed or not. Cancelled. Closed: this end was closed.
  Result<std::vector<RespValue>> exchange(const RespCommands& commands, Deadline deadline);
  // The same for one command.
  Result<RespValue> exchange_one(std::initializer_list<std::string_view> arguments, Deadline deadline);
  void close();
  [[nodiscard]] bool is_usable() const { return usable_; }

 private:
  RedisConnection(std::unique_ptr<ByteStream> stream, std::string address, RespReader::Limits limits);
  Result<void> greet(const RedisUrl& url, Deadline deadline);
  Error broken(const Error& error, Deadline deadline);

  const std::unique_ptr<ByteStream> stream_;
  const std::string address_;
  RespReader reader_;
  std::vector<char> buffer_;
  bool usable_ = true;
};

// What an error reply means. `text` is the reply's: "NOPERM this user has no permissions to run the 'xadd' command".
//   NOAUTH, WRONGPASS                                    Unauthenticated
//   NOPERM                                               PermissionDenied
//   OOM                                                  ResourceExhausted
//   LOADING, MASTERDOWN, READONLY, MISCONF, BUSY...      Unavailable: the server cannot execute it now
//   WRONGTYPE                                            FailedPrecondition: the key belongs to something else
//   an unknown command                                   Unsupported
//   anything else                                        Internal
[[nodiscard]] Error redis_error(const std::string& text, std::string_view address);
// After such an error another connection is needed: this server will not execute commands, or not as this user.
[[nodiscard]] bool needs_reconnect(ErrorCode code);

// How long to wait before the next attempt: doubles from `first` up to `most`; drawn from the upper half of that, so
// that many clients of a server that failed do not return at the same moment.
class Backoff {
 public:
  Backoff(std::chrono::nanoseconds first, std::chrono::nanoseconds most, std::uint64_t seed)
      : first_(first), most_(most), next_(first), random_(seed) {}
  [[nodiscard]] std::chrono::nanoseconds next();
  void reset() { next_ = first_; }

 private:
  std::chrono::nanoseconds first_;
  std::chrono::nanoseconds most_;
  std::chrono::nanoseconds next_;
  Prng random_;
};

}  // namespace rota::net

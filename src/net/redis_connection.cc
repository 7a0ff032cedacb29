#include "net/redis_connection.h"

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "net/tls.h"
#include "rota/fiber/time.h"

namespace rota::net {

namespace {

constexpr std::size_t kBufferBytes = 64 * 1024;

Result<std::unique_ptr<ByteStream>> encrypt(std::unique_ptr<ByteStream> stream, const TlsContext& context,
                                            const std::string& host, Deadline deadline) {
  ROTA_TRY_ASSIGN(std::unique_ptr<TlsStream> tls, TlsStream::client(std::move(stream), context, host));
  ROTA_TRY(tls->handshake(deadline));
  return std::unique_ptr<ByteStream>(std::move(tls));
}

std::string_view code_word(std::string_view text) { return text.substr(0, text.find(' ')); }

}  // namespace

Error redis_error(const std::string& text, std::string_view address) {
  const std::string_view word = code_word(text);
  const std::string at = "Redis at " + std::string(address) + ": ";
  const std::string said = " (" + printable(text, 200) + ")";
  if (word == "NOAUTH" || word == "WRONGPASS") {
    return {ErrorCode::kUnauthenticated,
            at + "the user or the password is wrong or missing; give them in the URL, redis://user:password@host"};
  }
  if (word == "NOPERM") {
    return {ErrorCode::kPermissionDenied,
            at + "the user lacks a right" + said + "; see ACL GETUSER, and the rules in docs"};
  }
  if (word == "OOM") {
    return {ErrorCode::kResourceExhausted, at + "its memory is used up; raise maxmemory, or remove data" + said};
  }
  for (const std::string_view busy : {"LOADING", "MASTERDOWN", "READONLY", "MISCONF", "BUSY", "CLUSTERDOWN", "TRYAGAIN",
                                      "NOREPLICAS", "UNBLOCKED", "NOMASTERLINK"}) {
    if (word == busy) return {ErrorCode::kUnavailable, at + "it cannot execute commands now" + said};
  }
  if (text.starts_with("ERR max number of clients")) {
    return {ErrorCode::kUnavailable, at + "it has too many clients; raise maxclients" + said};
  }
  if (word == "WRONGTYPE") {
    return {ErrorCode::kFailedPrecondition,
            at + "a key is of another type, because something else uses it; choose another prefix" + said};
  }
  if (text.starts_with("ERR unknown command")) {
    return {ErrorCode::kUnsupported, at + "it lacks a command; version 7.0 or newer is needed" + said};
  }
  return {ErrorCode::kInternal, at + "it refused a command" + said};
}

bool needs_reconnect(ErrorCode code) { return code == ErrorCode::kUnauthenticated || code == ErrorCode::kUnavailable; }

std::chrono::nanoseconds Backoff::next() {
  const std::int64_t limit = next_.count();
  next_ = std::min(most_, next_ * 2);
  return std::chrono::nanoseconds(random_.between(limit / 2, limit));
}

RedisConnection::RedisConnection(std::unique_ptr<ByteStream> stream, std::string address, RespReader::Limits limits)
    : stream_(std::move(stream)), address_(std::move(address)), reader_(limits), buffer_(kBufferBytes) {}

RedisConnection::~RedisConnection() { stream_->close(); }

void RedisConnection::close() { stream_->close(); }

Result<std::unique_ptr<RedisConnection>> RedisConnection::open(Network& network, const RedisUrl& url,
                                                               const RedisConnectOptions& options) {
  const std::string address = url.to_string();
  const Deadline deadline = Deadline::after(options.within);
  Result<std::unique_ptr<ByteStream>> stream = network.connect(url.endpoint, deadline);
  if (stream.ok() && url.tls) {
    if (options.tls == nullptr) {
      return Error{ErrorCode::kUnsupported,
                   "cannot connect to Redis at " + address +
                       ": TLS needs the certificate of the CA that signed the server's (--redis-ca FILE)"};
    }
    stream = encrypt(std::move(*stream), *options.tls, url.endpoint.host, deadline);
  }
  if (!stream.ok()) {
    if (stream.code() == ErrorCode::kCancelled) return ErrorCode::kCancelled;
    // A certificate that is refused does not mend itself; anything else may.
    const bool lasting = stream.code() == ErrorCode::kUnauthenticated || stream.code() == ErrorCode::kUnsupported;
    return Error{lasting ? stream.code() : ErrorCode::kUnavailable,
                 "cannot connect to Redis at " + address + ": " + stream.error().message +
                     ". Check that it runs there and accepts connections"};
  }
  std::unique_ptr<RedisConnection> connection(
      new RedisConnection(std::move(*stream), address, options.limits));  // NOLINT: the constructor is private.
  ROTA_TRY(connection->greet(url, deadline));
  return connection;
}

Result<void> RedisConnection::greet(const RedisUrl& url, Deadline deadline) {
  RespCommands commands;
  const bool account = !url.password.empty();
  if (account && url.user.empty()) commands.add({"AUTH", url.password});
  if (account && !url.user.empty()) commands.add({"AUTH", url.user, url.password});
  if (url.database != 0) commands.add({"SELECT", std::to_string(url.database)});
  commands.add({"PING"});
  ROTA_TRY_ASSIGN(const std::vector<RespValue> replies, exchange(commands, deadline));
  for (std::size_t i = 0; i < replies.size(); ++i) {
    if (!replies[i].is_error()) continue;
    // A server may repeat the arguments in its error, and those of AUTH are secret.
    const bool secret = account && i == 0;
    const std::string text = secret ? std::string(code_word(replies[i].text)) : replies[i].text;
    Error error = redis_error(text, address_);
    if (secret && error.code == ErrorCode::kInternal) error = redis_error("WRONGPASS", address_);
    return error;
  }
  return {};
}

Error RedisConnection::broken(const Error& error, Deadline deadline) {
  usable_ = false;
  stream_->close();
  if (error.code == ErrorCode::kCancelled) return error;
  if (error.code == ErrorCode::kDeadlineExceeded || (!deadline.never() && fiber::now() >= deadline.time())) {
    return {ErrorCode::kUnavailable, "Redis at " + address_ + " did not answer in time"};
  }
  if (error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kTooLarge) {
    return {error.code, "Redis at " + address_ + ": " + error.message};
  }
  return {ErrorCode::kUnavailable, "the connection to Redis at " + address_ + " broke: " + error.message};
}

Result<std::vector<RespValue>> RedisConnection::exchange(const RespCommands& commands, Deadline deadline) {
  std::vector<RespValue> replies;
  if (commands.empty()) return replies;
  if (!usable_) return Error{ErrorCode::kUnavailable, "the connection to Redis at " + address_ + " is closed"};
  if (Result<void> sent = stream_->write_all(commands.bytes(), deadline); !sent.ok()) {
    return broken(sent.error(), deadline);
  }
  replies.reserve(commands.count());
  for (;;) {
    while (replies.size() < commands.count()) {
      Result<std::optional<RespValue>> reply = reader_.next();
      if (!reply.ok()) return broken(reply.error(), deadline);
      if (!*reply) break;
      replies.push_back(std::move(**reply));
    }
    if (replies.size() == commands.count()) return replies;
    const Result<std::size_t> size = stream_->read_some(buffer_, deadline);
    if (!size.ok()) return broken(size.error(), deadline);
    if (*size == 0) return broken({ErrorCode::kClosed, "Redis closed it"}, deadline);
    reader_.feed(std::string_view(buffer_.data(), *size));
  }
}

Result<RespValue> RedisConnection::exchange_one(std::initializer_list<std::string_view> arguments, Deadline deadline) {
  RespCommands commands;
  commands.add(arguments);
  ROTA_TRY_ASSIGN(std::vector<RespValue> replies, exchange(commands, deadline));
  return std::move(replies.front());
}

}  // namespace rota::net

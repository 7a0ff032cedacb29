#include "net/grpc.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/sync.h"
#include "fiber/condition.h"
#include "net/redis_connection.h"  // Backoff.
#include "rota/fiber/time.h"

namespace rota::net {

namespace {

constexpr std::size_t kPrefixBytes = 5;

ErrorCode code_of_status(int status) {
  switch (status) {
    case 1:
      return ErrorCode::kCancelled;
    case 3:
      return ErrorCode::kInvalidArgument;
    case 4:
      return ErrorCode::kDeadlineExceeded;
    case 5:
      return ErrorCode::kNotFound;
    case 6:
      return ErrorCode::kAlreadyExists;
    case 7:
      return ErrorCode::kPermissionDenied;
    case 8:
      return ErrorCode::kResourceExhausted;
    case 9:
      return ErrorCode::kFailedPrecondition;
    case 10:
      return ErrorCode::kConflict;
    case 11:
      return ErrorCode::kInvalidArgument;
    case 12:
      return ErrorCode::kUnsupported;
    case 14:
      return ErrorCode::kUnavailable;
    case 15:
      return ErrorCode::kDataLoss;
    case 16:
      return ErrorCode::kUnauthenticated;
    default:
      return ErrorCode::kInternal;
  }
}

// grpc-message is percent-encoded.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16).ptr == text.data() + i + 3) {
      plain.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

bool was_not_executed(const Error& error) {
  const std::string* executed = error.detail("executed");
  return executed != nullptr && *executed == "no";
}

}  // namespace

void append_grpc_message(std::string& out, std::string_view message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  const char prefix[kPrefixBytes] = {0, static_cast<char>(size >> 24), static_cast<char>(size >> 16),
                                     static_cast<char>(size >> 8), static_cast<char>(size)};
  out.append(prefix, kPrefixBytes).append(message);
}

Result<std::optional<std::string>> GrpcReader::next() {
  if (buffer_.size() - at_ < kPrefixBytes) return std::optional<std::string>();
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(buffer_[at_ + i])}; };
  if (byte(0) == 1) return Error{ErrorCode::kUnsupported, "the server sent a compressed message"};
  if (byte(0) != 0) return Error{ErrorCode::kCorrupt, "a gRPC message has a wrong prefix"};
  const std::size_t size = byte(1) << 24 | byte(2) << 16 | byte(3) << 8 | byte(4);
  if (size > message_bytes_) {
    return Error{ErrorCode::kTooLarge, "a gRPC message has " + std::to_string(size) + " bytes; the limit is " +
                                           std::to_string(message_bytes_)};
  }
  if (buffer_.size() - at_ - kPrefixBytes < size) return std::optional<std::string>();
  std::string message = buffer_.substr(at_ + kPrefixBytes, size);
  at_ += kPrefixBytes + size;
  if (at_ == buffer_.size() || at_ > (std::size_t{1} << 20)) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  return std::optional<std::string>(std::move(message));
}

Result<void> grpc_status(const Http2Response& response, std::string_view peer) {
  const std::string* text = response.field("grpc-status");
  if (text == nullptr) {
    if (response.status == 200) {
      return Error{ErrorCode::kCorrupt, std::string(peer) + " ended a response without grpc-status"};
    }
    // A proxy, or a server that does not speak gRPC.
    return Error{ErrorCode::kUnavailable, std::string(peer) + " answered with HTTP status " +
                                              std::to_string(response.status) +
                                              " and no gRPC status; is it the address of etcd?"};
  }
  int status = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), status);
  if (failed != std::errc() || end != text->data() + text->size()) {
    return Error{ErrorCode::kCorrupt, std::string(peer) + " sent a grpc-status that is not a number"};
  }
  if (status == 0) return {};
  const std::string* message = response.field("grpc-message");
  return Error{code_of_status(status),
               std::string(peer) + ": " + (message == nullptr ? "no reason given" : decoded(*message))}
      .with("grpc", std::to_string(status));
}

Result<std::optional<std::string>> GrpcStream::next(Deadline deadline) {
  for (;;) {
    ROTA_TRY_ASSIGN(std::optional<std::string> message, reader_.next());
    if (message) return message;
    ROTA_TRY_ASSIGN(const std::string bytes, stream_->read(deadline));
    if (!bytes.empty()) {
      reader_.feed(bytes);
      continue;
    }
    ROTA_TRY(grpc_status(stream_->response(), peer_));
    if (!reader_.at_boundary()) return Error{ErrorCode::kCorrupt, peer_ + " ended in the middle of a message"};
    return std::optional<std::string>();
  }
}

struct GrpcClient::Core {
  Core(Network& the_network, GrpcOptions the_options, fiber::Nursery& the_nursery)
      : network(the_network),
        options(std::move(the_options)),
        nursery(the_nursery),
        next_endpoint(options.seed % options.endpoints.size()),
        backoff(options.retry_after, options.retry_most, options.seed) {}

  struct Connection {
    std::shared_ptr<Http2Client> client{};
    std::string peer{};
  };

  Network& network;
  const GrpcOptions options;
  fiber::Nursery& nursery;

  sync::Mutex mutex;
  fiber::Condition changed;  // `connecting`, `connection`, `closed`.
  Connection connection ROTA_GUARDED_BY(mutex);
  std::size_t next_endpoint ROTA_GUARDED_BY(mutex);
  std::size_t failed_in_a_row ROTA_GUARDED_BY(mutex) = 0;
  Backoff backoff ROTA_GUARDED_BY(mutex);
  bool connecting ROTA_GUARDED_BY(mutex) = false;
  bool closed ROTA_GUARDED_BY(mutex) = false;

  Error closed_error() const { return Error{ErrorCode::kClosed, "the gRPC client is closed"}; }

  // The connection that serves now; makes one if there is none. One attempt: Unavailable if it fails.
  Result<Connection> acquire(Deadline deadline) ROTA_EXCLUDES(mutex) {
    const sync::MutexLock lock(mutex);
    for (;;) {
      if (closed) return closed_error();
      if (connection.client != nullptr && connection.client->accepts_requests()) return connection;
      if (!connecting) break;
      Result<void> waited = deadline.never() ? changed.wait(mutex, "a connection")
                                             : changed.wait_until(mutex, deadline.time(), "a connection");
      if (waited.code() == ErrorCode::kDeadlineExceeded) return unreachable("the deadline passed");
      ROTA_TRY(std::move(waited));
    }
    connecting = true;
    connection = {};
    const Endpoint endpoint = options.endpoints[next_endpoint];
    const std::chrono::nanoseconds pause = failed_in_a_row != 0 && failed_in_a_row % options.endpoints.size() == 0
                                               ? backoff.next()
                                               : std::chrono::nanoseconds(0);
    mutex.unlock();
    Result<Connection> made = connect(endpoint, pause, deadline);
    mutex.lock();
    connecting = false;
    changed.wake_all();
    if (made.ok() && closed) {
      made->client->close();
      return closed_error();
    }
    if (!made.ok()) {
      if (made.code() == ErrorCode::kCancelled) return made;
      next_endpoint = (next_endpoint + 1) % options.endpoints.size();
      ++failed_in_a_row;
      return unreachable(made.error().message);
    }
    connection = *made;
    return made;
  }

  [[nodiscard]] static Error unreachable(const std::string& why) {
    return Error{ErrorCode::kUnavailable, "no connection: " + why}.with("executed", "no");
  }

  Result<Connection> connect(const Endpoint& endpoint, std::chrono::nanoseconds pause, Deadline deadline) {
    if (pause.count() > 0) {
      ROTA_TRY(fiber::sleep_until(std::min(fiber::now() + pause, deadline.time())));
    }
    const Deadline within = Deadline::at(std::min(fiber::now() + options.connect_within, deadline.time()));
    ROTA_TRY_ASSIGN(std::unique_ptr<ByteStream> stream, network.connect(endpoint, within));
    Http2ClientOptions http2 = options.http2;
    http2.session.scheme = options.tls ? "https" : "http";
    http2.session.authority = endpoint.to_string();
    http2.body_bytes = options.message_bytes + kPrefixBytes;
    return Connection{std::make_shared<Http2Client>(std::move(stream), std::move(http2), nursery),
                      endpoint.to_string()};
  }

  // This connection is not used for further calls; its streams continue.
  void retire(const Connection& bad) ROTA_EXCLUDES(mutex) {
    const sync::MutexLock lock(mutex);
    if (connection.client != bad.client) return;
    connection = {};
    next_endpoint = (next_endpoint + 1) % options.endpoints.size();
    ++failed_in_a_row;
  }
  void succeeded() ROTA_EXCLUDES(mutex) {
    const sync::MutexLock lock(mutex);
    failed_in_a_row = 0;
    backoff.reset();
  }

  [[nodiscard]] Http2Request request_of(std::string_view path, std::string_view message) const {
    Http2Request request;
    request.path = path;
    request.fields = {{"te", "trailers"}, {"content-type", "application/grpc"}};
    request.fields.insert(request.fields.end(), options.fields.begin(), options.fields.end());
    append_grpc_message(request.body, message);
    return request;
  }

  Result<std::string> one_message(const Http2Response& response, const std::string& peer) const {
    ROTA_TRY(grpc_status(response, peer));
    GrpcReader reader(options.message_bytes);
    reader.feed(response.body);
    ROTA_TRY_ASSIGN(std::optional<std::string> message, reader.next());
    if (!message || !reader.at_boundary()) {
      return Error{ErrorCode::kCorrupt, peer + " did not answer with exactly one message"};
    }
    return std::move(*message);
  }
};

GrpcClient::GrpcClient(Network& network, GrpcOptions options, fiber::Nursery& nursery)
    : core_(std::make_shared<Core>(network, std::move(options), nursery)) {}

GrpcClient::~GrpcClient() { close(); }

void GrpcClient::close() {
  const sync::MutexLock lock(core_->mutex);
  core_->closed = true;
  if (core_->connection.client != nullptr) core_->connection.client->close();
  core_->connection = {};
  core_->changed.wake_all();
}

Result<std::string> GrpcClient::call(std::string_view path, std::string_view message, Deadline deadline) {
  Core& core = *core_;
  const Deadline until = Deadline::at(std::min(deadline.time(), fiber::now() + core.options.reply_within));
  for (;;) {
    Result<Core::Connection> connection = core.acquire(until);
    Result<std::string> answer = ErrorCode::kUnavailable;
    if (!connection.ok()) {
      answer = std::move(connection).take_error();
    } else {
      Result<Http2Response> response = connection->client->call(core.request_of(path, message), until);
      answer = response.ok() ? core.one_message(*response, connection->peer)
                             : Result<std::string>(std::move(response).take_error());
      if (answer.ok()) {
        core.succeeded();
        return answer;
      }
      const bool late = answer.code() == ErrorCode::kDeadlineExceeded && until.time() < deadline.time();
      if (late || answer.code() == ErrorCode::kUnavailable || answer.code() == ErrorCode::kCorrupt) {
        core.retire(*connection);
      }
      if (late) {
        return Error{ErrorCode::kUnavailable, connection->peer +
                                                  " did not answer in time; whether the request was "
                                                  "executed is not known"};
      }
    }
    const bool again = answer.code() == ErrorCode::kUnavailable && was_not_executed(answer.error());
    if (!again || fiber::now() >= until.time()) return answer;
  }
}

Result<std::unique_ptr<GrpcStream>> GrpcClient::stream(std::string_view path, std::string_view message,
                                                       Deadline deadline) {
  Core& core = *core_;
  const Deadline until = Deadline::at(std::min(deadline.time(), fiber::now() + core.options.reply_within));
  for (;;) {
    Result<Core::Connection> connection = core.acquire(until);
    if (connection.ok()) {
      Result<std::unique_ptr<Http2Stream>> stream = connection->client->open(core.request_of(path, message));
      if (stream.ok()) {
        return std::make_unique<GrpcStream>(connection->client, std::move(*stream), core.options.message_bytes,
                                            connection->peer);
      }
      core.retire(*connection);
      if (fiber::now() >= until.time()) return std::move(stream).take_error();
    } else if (connection.code() != ErrorCode::kUnavailable || fiber::now() >= until.time()) {
      return std::move(connection).take_error();
    }
  }
}

}  // namespace rota::net

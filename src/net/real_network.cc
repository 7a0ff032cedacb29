// The network of this machine: TCP with names resolved, and Unix sockets, on the sockets of fiber/.
//
// The sockets' errors become those of stream.h: whatever keeps connect() from reaching a listener is Unavailable (also
// a name that does not exist yet and a missing socket file, so that a client simply retries), and whatever ends an
// established connection is Closed. Every sentence names the operation and the peer.
//
// A connection whose peer machine vanished without a word ends by keep-alive probes after about a minute; without them
// a task that only reads would wait forever.
//
// Unix listeners. A file left behind by a killed process is replaced: bind() fails, no socket is bound to the file,
// so it is removed and bind() is tried once more. Two servers that start at the same moment on the same stale path may
// both see it stale; the one that binds last keeps the path. close() removes the file if it is still this listener's
// own.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/sync.h"
#include "net/stream.h"
#include "net/stream_error.h"
#include "rota/detail/sync.h"

namespace rota::net {

namespace {

// A connection is given up 30 s + 3 x 10 s after the last sign of its peer.
constexpr int kKeepAliveIdleS = 30;
constexpr int kKeepAliveIntervalS = 10;
constexpr int kKeepAliveProbes = 3;

// "read (descriptor 7, peer 10.0.0.1:80): Connection reset by peer" -> "read from 10.0.0.1:80: Connection reset by
// peer".
Error renamed(Error&& error, const std::string& operation) {
  const std::size_t colon = error.message.rfind(": ");
  const std::string reason = colon == std::string::npos ? error.message : error.message.substr(colon + 2);
  error.message = operation + ": " + reason;
  return std::move(error);
}

// An error of connect().
Error connect_error(Error&& error, const std::string& operation) {
  switch (error.code) {
    case ErrorCode::kDeadlineExceeded:
      return deadline_passed(operation);
    case ErrorCode::kClosed:    // Reset during the handshake.
    case ErrorCode::kNotFound:  // No such name, no such socket file.
    case ErrorCode::kIoError:
      error.code = ErrorCode::kUnavailable;
      break;
    case ErrorCode::kCancelled:
    case ErrorCode::kOutsideRuntime:
      return std::move(error);
    default:
      break;
  }
  return renamed(std::move(error), operation);
}

// An error of an established stream.
Error stream_error(Error&& error, const std::string& operation) {
  switch (error.code) {
    case ErrorCode::kDeadlineExceeded: {
      const std::string* done = error.detail("done_bytes");
      return deadline_passed(operation, done == nullptr ? 0 : std::stoull(*done));
    }
    case ErrorCode::kClosed:
      if (error.detail("errno") == nullptr) return closed_here(operation);
      break;
    case ErrorCode::kUnavailable:  // Keep-alive gave up, or a router says that the peer is unreachable.
      error.code = ErrorCode::kClosed;
      break;
    case ErrorCode::kCancelled:
    case ErrorCode::kOutsideRuntime:
      return std::move(error);
    default:
      break;
  }
  return renamed(std::move(error), operation);
}

void keep_alive(int fd) {
  const auto set = [fd](int level, int name, int value) { (void)setsockopt(fd, level, name, &value, sizeof value); };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalS);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}

// Thread safety: as ByteStream says; `write_failed_` belongs to the task that writes.
template <class Socket>
class RealStream final : public ByteStream {
 public:
  RealStream(Socket socket, std::string peer) : socket_(std::move(socket)), peer_(std::move(peer)) {
    if constexpr (std::is_same_v<Socket, fiber::TcpStream>) keep_alive(socket_.native());
  }

  Result<std::size_t> read_some(std::span<char> buffer, Deadline deadline) override {
    Result<std::size_t> count = socket_.read_some(std::as_writable_bytes(buffer), deadline);
    if (!count.ok()) [[unlikely]]
      return stream_error(std::move(count).take_error(), "read from " + peer_);
    return count;
  }
  Result<void> write_all(std::string_view bytes, Deadline deadline) override {
    if (write_failed_) [[unlikely]]
      return after_failed_write("write to " + peer_);
    Result<void> written = socket_.write_all(bytes, deadline);
    if (!written.ok()) [[unlikely]] {
      write_failed_ = true;
      return stream_error(std::move(written).take_error(), "write to " + peer_);
    }
    return written;
  }
  Result<void> shutdown_write(Deadline /*deadline*/) override {
    const std::string operation = "end the stream to " + peer_;
    // The peer would take an interrupted message for a complete one.
    if (write_failed_) return after_failed_write(operation);
    Result<void> ended = socket_.shutdown(fiber::Shutdown::kWrite);
    // Once both ends have ended their half, the system answers that the socket is not connected.
    if (!ended.ok() && ended_ && !closed_.load()) return {};
    if (!ended.ok()) return stream_error(std::move(ended).take_error(), operation);
    ended_ = true;
    return ended;
  }
  void close() override {
    closed_ = true;
    (void)socket_.close();
  }
  [[nodiscard]] std::string peer() const override { return peer_; }

 private:
  Socket socket_;
  const std::string peer_;
  bool write_failed_ = false;
  bool ended_ = false;  // By shutdown_write().
  sync::Atomic<bool> closed_{false};
};

class RealTcpListener final : public Listener {
 public:
  RealTcpListener(fiber::TcpListener listener, Endpoint endpoint)
      : listener_(std::move(listener)), endpoint_(std::move(endpoint)) {}

  Result<std::unique_ptr<ByteStream>> accept(Deadline deadline) override {
    for (;;) {
      Result<fiber::TcpStream> socket = listener_.accept(deadline);
      if (!socket.ok()) return stream_error(std::move(socket).take_error(), "accept on " + endpoint_.to_string());
      const fiber::Address peer = socket->peer_address();
      if (peer.size() == 0) continue;  // It was reset before it was accepted.
      return std::make_unique<RealStream<fiber::TcpStream>>(std::move(*socket), peer.to_string());
    }
  }
  [[nodiscard]] Endpoint endpoint() const override { return endpoint_; }
  void close() override { (void)listener_.close(); }

 private:
  fiber::TcpListener listener_;
  const Endpoint endpoint_;
};

// The identity of the file at `path`, or nothing. Names in the abstract namespace (@) have no file.
using FileId = std::pair<dev_t, ino_t>;
std::optional<FileId> file_at(const std::string& path) {
  struct stat status{};
  if (path.starts_with('@') || lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return std::nullopt;
  return FileId{status.st_dev, status.st_ino};
}

class RealUnixListener final : public Listener {
 public:
  RealUnixListener(fiber::UnixListener listener, std::string path)
      : listener_(std::move(listener)), path_(std::move(path)), file_(file_at(path_)) {}
  ~RealUnixListener() override { close(); }

  Result<std::unique_ptr<ByteStream>> accept(Deadline deadline) override {
    Result<fiber::UnixStream> socket = listener_.accept(deadline);
    if (!socket.ok()) return stream_error(std::move(socket).take_error(), "accept on unix:" + path_);
    return std::make_unique<RealStream<fiber::UnixStream>>(std::move(*socket), "a client of unix:" + path_);
  }
  [[nodiscard]] Endpoint endpoint() const override { return Endpoint{.unix_path = path_}; }
  void close() override {
    // Once: the file that another server makes later may have the number of the one that is removed here.
    if (closed_.exchange(true, std::memory_order_relaxed)) return;
    // Before the descriptor is closed, so that nobody finds a file to which nobody listens.
    if (file_.has_value() && file_at(path_) == file_) (void)unlink(path_.c_str());
    (void)listener_.close();
  }

 private:
  fiber::UnixListener listener_;
  const std::string path_;
  const std::optional<FileId> file_;
  sync::Atomic<bool> closed_{false};
};

class RealNetwork final : public Network {
 public:
  Result<std::unique_ptr<ByteStream>> connect(const Endpoint& endpoint, Deadline deadline) override {
    const std::string operation = "connect to " + endpoint.to_string();
    if (!endpoint.unix_path.empty()) {
      Result<fiber::UnixStream> socket = fiber::UnixStream::connect(endpoint.unix_path, deadline);
      if (!socket.ok()) return connect_error(std::move(socket).take_error(), operation);
      return std::make_unique<RealStream<fiber::UnixStream>>(std::move(*socket), endpoint.to_string());
    }
    if (endpoint.port == 0) {
      return Error{ErrorCode::kInvalidArgument, operation + ": the port must be a number from 1 to 65535"};
    }
    Result<fiber::TcpStream> socket = fiber::TcpStream::connect(endpoint.host, endpoint.port, deadline);
    if (!socket.ok()) return connect_error(std::move(socket).take_error(), operation);
    return std::make_unique<RealStream<fiber::TcpStream>>(std::move(*socket), endpoint.to_string());
  }

  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override {
    const std::string operation = "listen on " + endpoint.to_string();
    if (!endpoint.unix_path.empty()) return listen_unix(endpoint.unix_path, operation);
    Result<fiber::TcpListener> listener = fiber::TcpListener::bind(endpoint.host, endpoint.port);
    if (!listener.ok()) return renamed(std::move(listener).take_error(), operation);
    Endpoint bound = endpoint;
    bound.port = listener->local_address().port();
    return std::make_unique<RealTcpListener>(std::move(*listener), std::move(bound));
  }

 private:
  static Result<std::unique_ptr<Listener>> listen_unix(const std::string& path, const std::string& operation) {
    Result<fiber::UnixListener> listener = fiber::UnixListener::bind(path);
    if (listener.code() == ErrorCode::kAlreadyExists) {
      const std::optional<FileId> found = file_at(path);
      if (found.has_value() && is_stale(path) && file_at(path) == found) {
        (void)unlink(path.c_str());
        listener = fiber::UnixListener::bind(path);
      }
    }
    if (!listener.ok()) return renamed(std::move(listener).take_error(), operation);
    return std::make_unique<RealUnixListener>(std::move(*listener), path);
  }
  // True if no socket is bound to the file at `path`. A socket of another type asks, so that the listener does not get
  // a connection: the answer is "wrong type" if somebody listens.
  static bool is_stale(const std::string& path) {
    const Result<fiber::Address> address = fiber::Address::unix_path(path);
    const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (!address.ok() || fd < 0) return false;
    const int connected =
        ::connect(fd, static_cast<const sockaddr*>(address->data()), static_cast<socklen_t>(address->size()));
    const bool stale = connected != 0 && errno == ECONNREFUSED;
    ::close(fd);
    return stale;
  }
};

}  // namespace

Network& real_network() {
  static RealNetwork network;
  return network;
}

}  // namespace rota::net

// Stream sockets: TCP over IPv4 and IPv6, and Unix.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fiber/io_error.h"
#include "fiber/io_slot.h"
#include "rota/fiber/io.h"
#include "rota/fiber/time.h"

namespace rota::fiber {

using namespace detail;

namespace {

constexpr int kFlags = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

const sockaddr* pointer(const Address& address) { return static_cast<const sockaddr*>(address.data()); }
socklen_t length(const Address& address) { return static_cast<socklen_t>(address.size()); }

int set_option(int fd, int level, int name, int value) { return setsockopt(fd, level, name, &value, sizeof value); }

// getsockname() or getpeername(). No address if the socket is closed, or has no peer.
using NameFunction = int (*)(int, sockaddr*, socklen_t*);
Address name_of(IoSlot* slot, std::uint32_t generation, NameFunction function) {
  if (slot == nullptr || !begin_use(slot, generation)) return {};
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  const int named = function(slot->fd, reinterpret_cast<sockaddr*>(&storage), &size);
  end_use(slot);
  return named == 0 ? Address::native(&storage, std::min<std::size_t>(size, sizeof storage)) : Address{};
}

// connect(2), started once and then queried.
struct Connect {
  const Address* address;
  bool begun = false;
  int error = 0;  // The result. EAGAIN: a Unix listener's backlog is full.
};

std::int64_t attempt_connect(int fd, bool /*socket*/, void* argument) {
  auto* connect = static_cast<Connect*>(argument);
  if (!connect->begun) {
    connect->error = ::connect(fd, pointer(*connect->address), length(*connect->address)) == 0 ? 0 : errno;
    // An interrupted connect continues, like one that is in progress.
    connect->begun = connect->error == EINPROGRESS || connect->error == EINTR;
    return connect->begun ? -EAGAIN : 0;
  }
  pollfd entry{fd, POLLOUT, 0};
  const int ready = ::poll(&entry, 1, 0);
  if (ready < 0) return -errno;
  if (ready == 0) return -EAGAIN;
  socklen_t size = sizeof connect->error;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &connect->error, &size) == 0 ? 0 : -errno;
}

struct Accept {
  int fd = -1;
};

std::int64_t attempt_accept(int fd, bool /*socket*/, void* argument) {
  for (;;) {
    const int accepted = accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) {
      static_cast<Accept*>(argument)->fd = accepted;
      return 0;
    }
    if (errno != ECONNABORTED) return -errno;  // That peer left while it waited; take the next one.
  }
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------- streams

Result<Descriptor> Stream::connect_to(const Address& address, Deadline deadline) {
  const std::string what = "connect to " + address.to_string();
  const int fd = ::socket(address.family(), kFlags, 0);
  if (fd < 0) return os_error(errno, what);
  ROTA_TRY_ASSIGN(Descriptor descriptor, wrap(fd, true));
  Stream stream(std::move(descriptor));
  std::chrono::nanoseconds pause = std::chrono::microseconds(100);
  for (;;) {
    Connect connect{&address};
    Result<std::size_t> ended = stream.operate(Direction::kWrite, deadline, "connect", attempt_connect, &connect);
    if (!ended.ok()) {
      if (ended.code() == ErrorCode::kDeadlineExceeded) return deadline_error(what);
      return std::move(ended).take_failure();
    }
    if (connect.error == 0) return Descriptor(std::move(stream));
    if (connect.error != EAGAIN) return os_error(connect.error, what);
    // There is no event for room in a Unix listener's backlog, so this polls with short sleeps.
    if (current_worker() == nullptr) return outside_error(what);
    if (now() >= deadline.time()) return deadline_error(what);
    ROTA_TRY(sleep_until(std::min(now() + pause, deadline.time())));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(10));
  }
}

Result<void> Stream::shutdown(Shutdown how) {
  static constexpr int kHow[] = {SHUT_RD, SHUT_WR, SHUT_RDWR};
  if (slot_ == nullptr || !begin_use(slot_, generation_)) return closed_error("shutdown");
  const int error = ::shutdown(slot_->fd, kHow[static_cast<std::size_t>(how)]) == 0 ? 0 : errno;
  end_use(slot_);
  if (error != 0) return os_error(error, "shutdown");
  return {};
}

Address Stream::local_address() const { return name_of(slot_, generation_, getsockname); }
Address Stream::peer_address() const { return name_of(slot_, generation_, getpeername); }

Result<TcpStream> TcpStream::connect(const Address& address, Deadline deadline) {
  if (address.family() == AF_UNIX || address.size() == 0) {
    return Error{ErrorCode::kInvalidArgument, "TCP needs an IP address, not " + address.to_string()};
  }
  ROTA_TRY_ASSIGN(Descriptor descriptor, connect_to(address, deadline));
  TcpStream stream(std::move(descriptor));
  ROTA_TRY(stream.set_no_delay(true));
  return stream;
}

Result<TcpStream> TcpStream::connect(std::string_view host, std::uint16_t port, Deadline deadline) {
  ROTA_TRY_ASSIGN(const std::vector<Address> addresses, resolve(host, port, deadline));
  Result<TcpStream> stream = ErrorCode::kNotFound;  // resolve() finds at least one address.
  for (const Address& address : addresses) {
    stream = connect(address, deadline);
    if (stream.ok() || stream.code() == ErrorCode::kCancelled || stream.code() == ErrorCode::kDeadlineExceeded) break;
  }
  return stream;
}

Result<void> TcpStream::set_no_delay(bool on) {
  if (slot_ == nullptr || !begin_use(slot_, generation_)) return closed_error("set TCP_NODELAY");
  const int error = set_option(slot_->fd, IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0) == 0 ? 0 : errno;
  end_use(slot_);
  if (error != 0) return os_error(error, "set TCP_NODELAY");
  return {};
}

Result<UnixStream> UnixStream::connect(std::string_view path, Deadline deadline) {
  ROTA_TRY_ASSIGN(const Address address, Address::unix_path(path));
  ROTA_TRY_ASSIGN(Descriptor descriptor, connect_to(address, deadline));
  return UnixStream(std::move(descriptor));
}

Result<std::pair<UnixStream, UnixStream>> UnixStream::pair() {
  int ends[2];
  if (socketpair(AF_UNIX, kFlags, 0, ends) != 0) return os_error(errno, "create a pair of Unix sockets");
  Result<Descriptor> first = wrap(ends[0], true);
  Result<Descriptor> second = wrap(ends[1], true);
  if (!first.ok()) return std::move(first).take_failure();
  if (!second.ok()) return std::move(second).take_failure();
  return std::pair(UnixStream(std::move(*first)), UnixStream(std::move(*second)));
}

// -------------------------------------------------------------------------------------------------------- listeners

Result<Descriptor> Listener::bind_to(const Address& address, int backlog) {
  const std::string what = "listen on " + address.to_string();
  const int fd = ::socket(address.family(), kFlags, 0);
  if (fd < 0) return os_error(errno, what);
  ROTA_TRY_ASSIGN(Descriptor descriptor, wrap(fd, true));
  // A restarted server takes its port over although old connections linger. Not two at once: that needs SO_REUSEPORT.
  if (address.family() != AF_UNIX && set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) != 0) return os_error(errno, what);
  if (::bind(fd, pointer(address), length(address)) != 0) return os_error(errno, what);
  if (::listen(fd, backlog) != 0) return os_error(errno, what);
  return descriptor;
}

Result<Descriptor> Listener::accept_one(Deadline deadline) {
  Accept accept;
  ROTA_TRY(operate(Direction::kRead, deadline, "accept", attempt_accept, &accept));
  return wrap(accept.fd, true);
}

Address Listener::local_address() const { return name_of(slot_, generation_, getsockname); }

Result<TcpListener> TcpListener::bind(std::string_view host, std::uint16_t port, int backlog) {
  ROTA_TRY_ASSIGN(const std::vector<Address> addresses, resolve(host, port));
  ROTA_TRY_ASSIGN(Descriptor descriptor, bind_to(addresses.front(), backlog));
  return TcpListener(std::move(descriptor));
}

Result<TcpStream> TcpListener::accept(Deadline deadline) {
  ROTA_TRY_ASSIGN(Descriptor descriptor, accept_one(deadline));
  TcpStream stream(std::move(descriptor));
  ROTA_TRY(stream.set_no_delay(true));
  return stream;
}

Result<UnixListener> UnixListener::bind(std::string_view path, int backlog) {
  ROTA_TRY_ASSIGN(const Address address, Address::unix_path(path));
  ROTA_TRY_ASSIGN(Descriptor descriptor, bind_to(address, backlog));
  return UnixListener(std::move(descriptor));
}

Result<UnixStream> UnixListener::accept(Deadline deadline) {
  ROTA_TRY_ASSIGN(Descriptor descriptor, accept_one(deadline));
  return UnixStream(std::move(descriptor));
}

}  // namespace rota::fiber

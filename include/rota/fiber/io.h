// Sockets, pipes and other descriptors that wait as fibers wait: the task parks, the worker goes on (F-26).
//
//   TcpListener listener = TcpListener::bind("127.0.0.1", 0).value();
//   nursery.launch([&] {
//     for (;;) {
//       Result<TcpStream> stream = listener.accept();
//       if (!stream.ok()) return;                                    // closed, or cancelled
//       nursery.launch([s = std::move(*stream)]() mutable { serve(s); });
//     }
//   });
//   TcpStream stream = TcpStream::connect("localhost", listener.local_address().port(), 2s).value();
//
// Every operation tries first and waits only if it must. Where it may wait it takes a Deadline (none by default), and
// it is a cancellation point. Errors:
//   DeadlineExceeded  the deadline passed. What was transferred by then is in the detail "done_bytes".
//   Cancelled         the task, or something around it, is cancelled (F-9).
//   Closed            this end was closed, even by another task while this one waited; or the peer has gone.
//   OutsideRuntime    it would have to wait, and this thread runs no task.
//   others            the operating system's, with what was tried, its sentence, and the detail "errno" (ECONNREFUSED).
// A peer that has gone never raises SIGPIPE.
//
// Thread safety: one task may read, another write and a third close() the same object at the same time. Two readers are
// allowed, too, and share what arrives between them; that is of use for accept(). Constructing, moving and destroying
// are for one task alone, as with any object: to end another task's wait, close() it, do not destroy it.
//
// In deterministic mode descriptors are real: a peer in the same task tree over a pipe or a Unix socket is as
// reproducible as the rest, a peer elsewhere is not. Virtual time does not wait for the outside: when nothing can run
// and nothing is ready, it jumps to the next timer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/fiber/time.h"
#include "rota/result.h"

namespace rota::fiber {

namespace detail {
struct IoSlot;
enum class Direction : std::uint8_t;
}  // namespace detail

// When to give up. A duration counts from now: `stream.read_some(buffer, 5s)`. None by default.
class Deadline {
 public:
  constexpr Deadline() = default;
  template <class Rep, class Period>
  Deadline(std::chrono::duration<Rep, Period> within) {  // NOLINT(*-explicit-*)
    using std::chrono::duration_cast, std::chrono::nanoseconds;
    // More than 292 years is never.
    if (within < duration_cast<std::chrono::duration<Rep, Period>>(nanoseconds::max())) {
      at_ = after(duration_cast<nanoseconds>(within)).at_;
    }
  }

  // By the runtime's clock, now().
  static constexpr Deadline at(std::chrono::nanoseconds time) {
    Deadline deadline;
    deadline.at_ = time;
    return deadline;
  }
  static Deadline after(std::chrono::nanoseconds within);

  [[nodiscard]] constexpr std::chrono::nanoseconds time() const { return at_; }
  [[nodiscard]] constexpr bool never() const { return at_ == std::chrono::nanoseconds::max(); }

 private:
  std::chrono::nanoseconds at_ = std::chrono::nanoseconds::max();
};

// Where a socket is: an IPv4 or IPv6 address with a port, or a path of a Unix socket.
class Address {
 public:
  Address() = default;  // None: to_string() is "none".
  // A numeric address, "127.0.0.1" or "::1" ("fe80::1%eth0"); names are for resolve().
  static Result<Address> ip(std::string_view host, std::uint16_t port);
  // At most 107 bytes. A path that begins with '@' is in Linux's abstract name space and needs no file.
  static Result<Address> unix_path(std::string_view path);
  // From a sockaddr. REQUIRES: size <= 128.
  static Address native(const void* sockaddr, std::size_t size);

  [[nodiscard]] std::uint16_t port() const;     // 0 for a Unix socket.
  [[nodiscard]] std::string to_string() const;  // "127.0.0.1:80", "[::1]:80", "unix:/run/x".
  [[nodiscard]] const void* data() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] int family() const;  // AF_INET...
  bool operator==(const Address& other) const;

 private:
  alignas(8) std::byte bytes_[128] = {};  // A sockaddr_storage.
  std::uint32_t size_ = 0;
};

// All addresses of a host name, or of a numeric one, in the order to try them. A lookup runs on a helper thread (see
// blocking.h) and cannot be interrupted: a deadline is noticed when it has ended.
Result<std::vector<Address>> resolve(std::string_view host, std::uint16_t port, Deadline deadline = {});

// An open descriptor of any kind that poll() knows: the base of all below, and for pipes, terminals, eventfds as it is.
// Owns it: the destructor closes it.
class Descriptor {
 public:
  Descriptor() = default;  // None: every operation is Closed.
  // Takes over `fd` and makes it non-blocking, as seen by everybody who shares the open file. Closed if this fails.
  static Result<Descriptor> adopt(int fd);
  Descriptor(Descriptor&& other) noexcept
      : slot_(std::exchange(other.slot_, nullptr)), generation_(other.generation_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      drop();
      slot_ = std::exchange(other.slot_, nullptr);
      generation_ = other.generation_;
    }
    return *this;
  }
  ~Descriptor() { drop(); }

  // At least one byte into `buffer`; 0 at the end of the stream (or if the buffer is empty).
  Result<std::size_t> read_some(std::span<std::byte> buffer, Deadline deadline = {});
  // Fills the buffer. Closed if the stream ends before.
  Result<void> read_exactly(std::span<std::byte> buffer, Deadline deadline = {});
  // At least one byte of `bytes`; returns how many.
  Result<std::size_t> write_some(std::span<const std::byte> bytes, Deadline deadline = {});
  Result<void> write_all(std::span<const std::byte> bytes, Deadline deadline = {});
  Result<void> write_all(std::string_view text, Deadline deadline = {}) {
    return write_all(std::as_bytes(std::span(text.data(), text.size())), deadline);
  }

  // Until a read (write) would not block: there is data or space, or an end or an error to be told of.
  Result<void> wait_readable(Deadline deadline = {});
  Result<void> wait_writable(Deadline deadline = {});

  // Ends the waits of other tasks with Closed. Idempotent. A system call that another thread is in just now ends first.
  Result<void> close();
  [[nodiscard]] bool is_open() const;
  // The number, for ioctl() and setsockopt(); -1 if it is closed. It stays this object's.
  [[nodiscard]] int native() const;
  // Gives the number away: this object is closed then. Still non-blocking. REQUIRES: nobody else uses the object.
  int release();

 protected:
  friend class File;
  // REQUIRES: fd is open and non-blocking.
  static Result<Descriptor> wrap(int fd, bool socket);
  void drop() noexcept;

  // One attempt: a count, or -errno. EAGAIN makes operate() wait.
  using Attempt = std::int64_t (*)(int fd, bool socket, void* argument);
  Result<std::size_t> operate(detail::Direction direction, Deadline deadline, const char* what, Attempt attempt,
                              void* argument);
  detail::IoSlot* slot_ = nullptr;
  std::uint32_t generation_ = 0;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
};
Result<Pipe> make_pipe();

enum class Shutdown : std::uint8_t { kRead, kWrite, kBoth };

// A connected stream socket.
class Stream : public Descriptor {
 public:
  // kWrite: the peer reads to the end and then sees it; this end may go on reading.
  Result<void> shutdown(Shutdown how = Shutdown::kWrite);
  [[nodiscard]] Address local_address() const;
  [[nodiscard]] Address peer_address() const;

 protected:
  friend class Listener;
  static Result<Descriptor> connect_to(const Address& address, Deadline deadline);
  Stream() = default;
  explicit Stream(Descriptor&& descriptor) : Descriptor(std::move(descriptor)) {}
};

class TcpStream : public Stream {
 public:
  TcpStream() = default;
  explicit TcpStream(Descriptor&& descriptor) : Stream(std::move(descriptor)) {}
  // A name or a numeric address; each address that the name has is tried in turn. Small writes are sent at once
  // (TCP_NODELAY), unless set_no_delay(false).
  static Result<TcpStream> connect(std::string_view host, std::uint16_t port, Deadline deadline = {});
  static Result<TcpStream> connect(const Address& address, Deadline deadline = {});
  Result<void> set_no_delay(bool on);
};

class UnixStream : public Stream {
 public:
  UnixStream() = default;
  explicit UnixStream(Descriptor&& descriptor) : Stream(std::move(descriptor)) {}
  static Result<UnixStream> connect(std::string_view path, Deadline deadline = {});
  // Two that are connected to each other.
  static Result<std::pair<UnixStream, UnixStream>> pair();
};

// A listening stream socket. Several tasks may accept() from it.
class Listener : public Descriptor {
 public:
  [[nodiscard]] Address local_address() const;

 protected:
  static Result<Descriptor> bind_to(const Address& address, int backlog);
  Result<Descriptor> accept_one(Deadline deadline);
  Listener() = default;
  explicit Listener(Descriptor&& descriptor) : Descriptor(std::move(descriptor)) {}
};

inline constexpr int kBacklog = 4096;  // Connections that wait to be accepted; the system may have a lower limit.

class TcpListener : public Listener {
 public:
  TcpListener() = default;
  // Port 0: a free one; local_address() tells which. A name is resolved, and its first address is used.
  static Result<TcpListener> bind(std::string_view host = "127.0.0.1", std::uint16_t port = 0, int backlog = kBacklog);
  Result<TcpStream> accept(Deadline deadline = {});

 private:
  explicit TcpListener(Descriptor&& descriptor) : Listener(std::move(descriptor)) {}
};

class UnixListener : public Listener {
 public:
  UnixListener() = default;
  // Makes the file; it stays when the listener closes, as with bind(2).
  static Result<UnixListener> bind(std::string_view path, int backlog = kBacklog);
  Result<UnixStream> accept(Deadline deadline = {});

 private:
  explicit UnixListener(Descriptor&& descriptor) : Listener(std::move(descriptor)) {}
};

}  // namespace rota::fiber

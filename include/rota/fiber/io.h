// Sockets, pipes and other descriptors whose waits park the task instead of blocking the thread (F-26).
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
// Every operation tries first and waits only if necessary. An operation that may wait takes a Deadline (none by
// default) and is a cancellation point. Errors:
//   DeadlineExceeded  the deadline passed. The detail "done_bytes" is the number of bytes transferred by then.
//   Cancelled         the task, or a scope around it, is cancelled (F-9).
//   Closed            this end was closed, perhaps by another task while this one waited; or the peer is gone.
//   OutsideRuntime    the operation would have to wait, and the caller is not a task.
//   others            of the operating system, with the operation, its sentence, and the detail "errno" (ECONNREFUSED).
// A peer that is gone never causes SIGPIPE.
//
// Thread safety: at the same time one task may read, another write and a third close() the same object. Several readers
// are allowed and share the data between them, which is useful for accept(). Only one task may construct, move and
// destroy an object: to end another task's wait, call close() instead of destroying the object.
//
// In deterministic mode descriptors are real: communication with a peer in the same task tree, over a pipe or a Unix
// socket, is as reproducible as everything else; with a peer elsewhere it is not. Virtual time does not wait for the
// outside: when nothing can run and nothing is ready, it jumps to the next timer.
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

// The time at which an operation gives up. A duration counts from now: `stream.read_some(buffer, 5s)`. Default: never.
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

  // On the runtime's clock, now().
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

// The address of a socket: an IPv4 or IPv6 address with a port, or the path of a Unix socket.
class Address {
 public:
  Address() = default;  // No address: to_string() is "none".
  // A numeric address, "127.0.0.1" or "::1" ("fe80::1%eth0"). Use resolve() for names.
  static Result<Address> ip(std::string_view host, std::uint16_t port);
  // At most 107 bytes. A path that begins with '@' is in Linux's abstract namespace and needs no file.
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

// All addresses of a host name, or of a numeric address, in the order in which to try them. The lookup runs on a helper
// thread (blocking.h) and cannot be interrupted: an expired deadline is reported when the lookup has ended.
Result<std::vector<Address>> resolve(std::string_view host, std::uint16_t port, Deadline deadline = {});

// An open descriptor of any kind that poll() supports: the base class of the sockets below, and used directly for
// pipes, terminals and eventfds. It owns the descriptor: the destructor closes it.
class Descriptor {
 public:
  Descriptor() = default;  // No descriptor: every operation returns Closed.
  // Takes ownership of `fd` and makes it non-blocking for everyone who shares the open file. Closes it on failure.
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

  // Reads at least one byte into `buffer`; returns 0 at the end of the stream (or for an empty buffer).
  Result<std::size_t> read_some(std::span<std::byte> buffer, Deadline deadline = {});
  // Fills the buffer. Closed if the stream ends first.
  Result<void> read_exactly(std::span<std::byte> buffer, Deadline deadline = {});
  // Writes at least one byte of `bytes`; returns the number.
  Result<std::size_t> write_some(std::span<const std::byte> bytes, Deadline deadline = {});
  Result<void> write_all(std::span<const std::byte> bytes, Deadline deadline = {});
  Result<void> write_all(std::string_view text, Deadline deadline = {}) {
    return write_all(std::as_bytes(std::span(text.data(), text.size())), deadline);
  }

  // Wait until a read (or write) would not block: there is data or space, or an end or an error to report.
  Result<void> wait_readable(Deadline deadline = {});
  Result<void> wait_writable(Deadline deadline = {});

  // Ends the waits of other tasks with Closed. Idempotent. Waits for a system call that another thread is executing.
  Result<void> close();
  [[nodiscard]] bool is_open() const;
  // The descriptor's number, for ioctl() and setsockopt(); -1 if it is closed. This object keeps ownership.
  [[nodiscard]] int native() const;
  // Releases ownership of the descriptor, which stays non-blocking; this object is then closed. REQUIRES: nobody else
  // uses the object.
  int release();

 protected:
  friend class File;
  // REQUIRES: fd is open and non-blocking.
  static Result<Descriptor> wrap(int fd, bool socket);
  void drop() noexcept;

  // One attempt: returns a count, or -errno. EAGAIN makes operate() wait.
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
  // kWrite: the peer reads the remaining data and then the end; this end may continue to read.
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
  // A name or a numeric address; all addresses of the name are tried in turn. Small writes are sent at once
  // (TCP_NODELAY), unless set_no_delay(false) is called.
  static Result<TcpStream> connect(std::string_view host, std::uint16_t port, Deadline deadline = {});
  static Result<TcpStream> connect(const Address& address, Deadline deadline = {});
  Result<void> set_no_delay(bool on);
};

class UnixStream : public Stream {
 public:
  UnixStream() = default;
  explicit UnixStream(Descriptor&& descriptor) : Stream(std::move(descriptor)) {}
  static Result<UnixStream> connect(std::string_view path, Deadline deadline = {});
  // Two sockets that are connected to each other.
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
  // Port 0: a free port; local_address() tells which. A name is resolved, and its first address is used.
  static Result<TcpListener> bind(std::string_view host = "127.0.0.1", std::uint16_t port = 0, int backlog = kBacklog);
  Result<TcpStream> accept(Deadline deadline = {});

 private:
  explicit TcpListener(Descriptor&& descriptor) : Listener(std::move(descriptor)) {}
};

class UnixListener : public Listener {
 public:
  UnixListener() = default;
  // Creates the file, which stays when the listener closes, as with bind(2).
  static Result<UnixListener> bind(std::string_view path, int backlog = kBacklog);
  Result<UnixStream> accept(Deadline deadline = {});

 private:
  explicit UnixListener(Descriptor&& descriptor) : Listener(std::move(descriptor)) {}
};

}  // namespace rota::fiber

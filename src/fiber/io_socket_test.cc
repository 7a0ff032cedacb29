// Sockets over loopback and Unix paths.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "fiber/io_testing.h"
#include "rota/fiber/io.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;
using testing::bytes_of;
using testing::read_text;
using testing::read_to_end;
using testing::until_blocked;

struct Connected {
  TcpStream client;
  TcpStream server;
};

Connected connect_pair() {
  TcpListener listener = TcpListener::bind().value();
  Connected pair;
  with_scope([&](Nursery& n) {
    auto accepted = n.spawn([&] { return listener.accept().value(); });
    pair.client = TcpStream::connect(listener.local_address()).value();
    pair.server = accepted.get();
  });
  return pair;
}

// Sends back what comes until the end. Returns how much.
std::size_t echo(Stream& stream) {
  std::array<std::byte, 512> buffer;
  for (std::size_t total = 0;;) {
    const Result<std::size_t> count = stream.read_some(buffer);
    if (!count.ok() || *count == 0) return total;
    if (!stream.write_all(std::span(buffer).first(*count)).ok()) return total;
    total += *count;
  }
}

// A folder that goes with its content's owner.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/rota_io_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() {
    for (const std::string& file : files_) unlink(file.c_str());
    rmdir(path_.c_str());
  }
  std::string file(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

 private:
  std::string path_;
  std::vector<std::string> files_;
};

// Contract: F-26. An echo server and its clients over loopback, on one worker, on two, and on many more than cores.
TEST(IoSocket, EchoWithManyConnections) {
  constexpr int kClients = testing::rounds(200);
  constexpr int kMessages = 20;
  for (const std::size_t workers : {1U, 2U, 64U}) {
    Runtime runtime({.worker_count = workers});
    std::atomic<std::size_t> echoed = 0;
    runtime.run([&] {
      with_scope([&](Nursery& n) {
        TcpListener listener = TcpListener::bind().value();
        const Address address = listener.local_address();
        auto server = n.spawn([&] {
          with_scope([&](Nursery& sessions) {
            for (;;) {
              Result<TcpStream> stream = listener.accept();
              EXPECT_TRUE(stream.ok() || stream.code() == ErrorCode::kClosed) << to_string(stream.code());
              if (!stream.ok()) return;
              sessions.launch([&, s = std::move(*stream)]() mutable { echoed += echo(s); });
            }
          });
        });
        with_scope([&](Nursery& clients) {
          for (int c = 0; c < kClients; ++c) {
            clients.launch([&, c] {
              TcpStream stream = TcpStream::connect(address).value();
              for (int m = 0; m < kMessages; ++m) {
                const std::string text = "client " + std::to_string(c) + " message " + std::to_string(m);
                ASSERT_TRUE(stream.write_all(text).ok());
                ASSERT_EQ(read_text(stream, text.size()), text);
              }
            });
          }
        });
        ASSERT_TRUE(listener.close().ok());
        server.get();
      });
    });
    EXPECT_GT(echoed, static_cast<std::size_t>(kClients * kMessages * 18));
  }
}

// Contract: F-26. IPv6 works as IPv4 does, by its address and by name.
TEST(IoSocket, Ipv6) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Result<TcpListener> listener = TcpListener::bind("::1");
    if (!listener.ok()) return;  // A machine without IPv6.
    EXPECT_EQ(listener->local_address().to_string(), "[::1]:" + std::to_string(listener->local_address().port()));
    with_scope([&](Nursery& n) {
      n.launch([&] { EXPECT_EQ(read_to_end(*std::make_unique<TcpStream>(listener->accept().value())), "six"); });
      TcpStream stream = TcpStream::connect("::1", listener->local_address().port()).value();
      EXPECT_EQ(stream.peer_address(), listener->local_address());
      EXPECT_TRUE(stream.write_all("six").ok());
    });
  });
}

// Contract: F-26. The error of a refused connection says what was tried, where, and what the system said.
TEST(IoSocket, RefusedConnection) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    // A port that belongs to a socket that does not listen: nobody else can get it and listen there.
    const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in bound{};
    bound.sin_family = AF_INET;
    bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof bound;
    ASSERT_EQ(::bind(silent, reinterpret_cast<sockaddr*>(&bound), size), 0);
    ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&bound), &size), 0);
    const std::uint16_t port = ntohs(bound.sin_port);
    const Result<TcpStream> stream = TcpStream::connect("127.0.0.1", port, 120s);
    ::close(silent);
    ASSERT_EQ(stream.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(stream.error().message, "connect to 127.0.0.1:" + std::to_string(port) + ": Connection refused");
    EXPECT_EQ(*stream.error().detail("errno"), "ECONNREFUSED");
  });
}

// Contract: F-26. A port in use, an address that is none, a family that does not fit.
TEST(IoSocket, BindErrors) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    TcpListener listener = TcpListener::bind().value();
    const Result<TcpListener> again = TcpListener::bind("127.0.0.1", listener.local_address().port());
    ASSERT_EQ(again.code(), ErrorCode::kAlreadyExists);
    EXPECT_NE(again.error().message.find("listen on 127.0.0.1:"), std::string::npos) << again.error().message;
    EXPECT_EQ(TcpListener::bind("192.0.2.1").code(), ErrorCode::kInvalidArgument);  // Nobody's address.
    EXPECT_EQ(TcpStream::connect(Address::unix_path("/x").value()).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(TcpStream::connect(Address()).code(), ErrorCode::kInvalidArgument);
  });
}

// Fills the backlog of a listener that nobody accepts from; then a connection attempt must wait.
std::vector<TcpStream> fill_backlog(const Address& address) {
  std::vector<TcpStream> waiting;
  for (;;) {
    Result<TcpStream> stream = TcpStream::connect(address, 100ms);
    if (!stream.ok()) {
      EXPECT_EQ(stream.code(), ErrorCode::kDeadlineExceeded) << stream.error().to_string();
      return waiting;
    }
    waiting.push_back(std::move(*stream));
  }
}

// Contract: F-9, F-26. A connection that the listener has no room for ends by its deadline or by cancellation.
TEST(IoSocket, ConnectDeadlineAndCancel) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    TcpListener listener = TcpListener::bind("127.0.0.1", 0, 0).value();
    const Address address = listener.local_address();
    const std::vector<TcpStream> waiting = fill_backlog(address);
    const Result<TcpStream> late = TcpStream::connect(address, 5ms);
    ASSERT_EQ(late.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_NE(late.error().message.find("connect to " + address.to_string()), std::string::npos);
    with_scope([&](Nursery& n) {
      auto task = n.spawn([&] { return TcpStream::connect(address).code(); });
      until_blocked(task);
      task.cancel();
      EXPECT_EQ(task.get(), ErrorCode::kCancelled);
    });
  });
}

// Contract: F-9, F-26. accept(): its deadline, its cancellation, and a close by another task.
TEST(IoSocket, AcceptDeadlineCancelClose) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    TcpListener listener = TcpListener::bind().value();
    EXPECT_EQ(listener.accept(1ms).code(), ErrorCode::kDeadlineExceeded);
    with_scope([&](Nursery& n) {
      auto cancelled = n.spawn([&] { return listener.accept().code(); });
      auto closed = n.spawn([&] { return listener.accept().code(); });
      until_blocked(cancelled);
      until_blocked(closed);
      cancelled.cancel();
      EXPECT_EQ(cancelled.get(), ErrorCode::kCancelled);
      const std::uint16_t port = listener.local_address().port();
      ASSERT_TRUE(listener.close().ok());
      // Nobody is in a system call on it: the port is free at once.
      EXPECT_TRUE(TcpListener::bind("127.0.0.1", port).ok());
      EXPECT_EQ(closed.get(), ErrorCode::kClosed);
    });
  });
}

// Contract: F-26. Several tasks accept from one listener; each connection is taken once.
TEST(IoSocket, SeveralAcceptors) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    TcpListener listener = TcpListener::bind().value();
    std::atomic<int> accepted = 0;
    with_scope([&](Nursery& n) {
      for (int i = 0; i < 5; ++i) {
        n.launch([&] {
          while (Result<TcpStream> stream = listener.accept()) {
            ++accepted;
            EXPECT_TRUE(stream->write_all("x").ok());
          }
        });
      }
      with_scope([&](Nursery& clients) {
        for (int i = 0; i < 100; ++i) {
          clients.launch([&] {
            TcpStream stream = TcpStream::connect(listener.local_address()).value();
            EXPECT_EQ(read_to_end(stream), "x");
          });
        }
      });
      ASSERT_TRUE(listener.close().ok());
    });
    EXPECT_EQ(accepted, 100);
  });
}

// Contract: F-9, F-26. Reads and writes of a socket that must wait: deadline, cancel, close by another task.
TEST(IoSocket, ReadAndWriteDeadlineCancelClose) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Connected pair = connect_pair();
    std::array<std::byte, 1> buffer;
    EXPECT_EQ(pair.client.read_some(buffer, 1ms).code(), ErrorCode::kDeadlineExceeded);
    const std::string much(20'000'000, 'm');
    EXPECT_EQ(pair.client.write_all(much, 1ms).code(), ErrorCode::kDeadlineExceeded);
    with_scope([&](Nursery& n) {
      auto cancelled_read = n.spawn([&] { return pair.client.read_some(buffer).code(); });
      auto cancelled_write = n.spawn([&] { return pair.client.write_all(much).code(); });
      auto closed_read = n.spawn([&] {
        std::array<std::byte, 1> own;
        return pair.client.read_some(own).code();
      });
      auto closed_write = n.spawn([&] { return pair.client.write_all(much).code(); });
      until_blocked(cancelled_read);
      until_blocked(cancelled_write);
      until_blocked(closed_read);
      until_blocked(closed_write);
      cancelled_read.cancel();
      cancelled_write.cancel();
      EXPECT_EQ(cancelled_read.get(), ErrorCode::kCancelled);
      EXPECT_EQ(cancelled_write.get(), ErrorCode::kCancelled);
      ASSERT_TRUE(pair.client.close().ok());
      EXPECT_EQ(closed_read.get(), ErrorCode::kClosed);
      EXPECT_EQ(closed_write.get(), ErrorCode::kClosed);
    });
    EXPECT_EQ(pair.client.shutdown().code(), ErrorCode::kClosed);
    EXPECT_EQ(pair.client.local_address(), Address());
  });
}

// Contract: F-26. Half close: the peer sees the end and can still answer.
TEST(IoSocket, HalfClose) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Connected pair = connect_pair();
    with_scope([&](Nursery& n) {
      n.launch([&] {
        const std::string question = read_to_end(pair.server);
        EXPECT_TRUE(pair.server.write_all("answer to " + question).ok());
        EXPECT_TRUE(pair.server.shutdown(Shutdown::kBoth).ok());
      });
      ASSERT_TRUE(pair.client.write_all("question").ok());
      ASSERT_TRUE(pair.client.shutdown(Shutdown::kWrite).ok());
      EXPECT_EQ(read_to_end(pair.client), "answer to question");
      EXPECT_EQ(pair.client.write_all("more").code(), ErrorCode::kClosed);
    });
  });
}

// Contract: F-26. Megabytes both ways at once through small buffers: nearly every write is partial, nothing is lost or
// mixed up.
TEST(IoSocket, LargeTransfersBothWays) {
  for (const std::size_t workers : {1U, 2U, 64U}) {
    Runtime runtime({.worker_count = workers});
    runtime.run([] {
      Connected pair = connect_pair();
      const int small = 8192;
      for (const int fd : {pair.client.native(), pair.server.native()}) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
      }
      std::string data(3'000'000, '\0');
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761U >> 24);
      with_scope([&](Nursery& n) {
        for (TcpStream* stream : {&pair.client, &pair.server}) {
          n.launch([&, stream] {
            EXPECT_TRUE(stream->write_all(data).ok());
            EXPECT_TRUE(stream->shutdown().ok());
          });
          n.launch([&, stream] { EXPECT_TRUE(read_to_end(*stream) == data); });
        }
      });
    });
  }
}

// Contract: F-26. A peer that resets the connection is an error with its name, for the reader and for the writer.
TEST(IoSocket, ResetByPeer) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Connected pair = connect_pair();
    const linger now_and_hard{1, 0};
    setsockopt(pair.server.native(), SOL_SOCKET, SO_LINGER, &now_and_hard, sizeof now_and_hard);
    with_scope([&](Nursery& n) {
      auto reader = n.spawn([&]() -> std::string {
        std::byte byte;
        const Result<std::size_t> count = pair.client.read_some(std::span(&byte, 1));
        EXPECT_EQ(count.code(), ErrorCode::kClosed);
        return count.ok() ? "" : *count.error().detail("errno");
      });
      until_blocked(reader);
      ASSERT_TRUE(pair.server.close().ok());
      EXPECT_EQ(reader.get(), "ECONNRESET");
    });
    const Result<void> written = pair.client.write_all("x");
    ASSERT_EQ(written.code(), ErrorCode::kClosed);
    EXPECT_EQ(*written.error().detail("errno"), "EPIPE");
  });
}

// Contract: F-26. Unix sockets by path and by abstract name, and what goes wrong with them.
TEST(IoSocket, UnixSockets) {
  Folder folder;
  const std::string path = folder.file("socket");
  Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    for (const std::string& name : {path, "@rota-io-test-" + std::to_string(getpid())}) {
      EXPECT_NE(UnixStream::connect(name).code(), ErrorCode::kOk);
      UnixListener listener = UnixListener::bind(name).value();
      EXPECT_EQ(listener.local_address().to_string(), "unix:" + name);
      with_scope([&](Nursery& n) {
        n.launch([&] {
          UnixStream stream = listener.accept().value();
          echo(stream);
        });
        UnixStream stream = UnixStream::connect(name).value();
        EXPECT_EQ(stream.peer_address().to_string(), "unix:" + name);
        ASSERT_TRUE(stream.write_all("over there").ok());
        EXPECT_EQ(read_text(stream, 10), "over there");
      });
      EXPECT_EQ(UnixListener::bind(name).code(), ErrorCode::kAlreadyExists);
    }
    const Result<UnixStream> missing = UnixStream::connect(path + "/none");
    EXPECT_EQ(missing.code(), ErrorCode::kNotFound);
    EXPECT_NE(missing.error().message.find(path), std::string::npos);
    EXPECT_EQ(UnixStream::connect(std::string(200, 'x')).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(UnixStream::connect("").code(), ErrorCode::kInvalidArgument);
  });
}

// Contract: F-9, F-26. A Unix listener without room: the kernel has no event for it, but deadline, cancellation and
// patience work.
TEST(IoSocket, UnixBacklog) {
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    const std::string name = "@rota-io-backlog-" + std::to_string(getpid());
    UnixListener listener = UnixListener::bind(name, 0).value();
    std::vector<UnixStream> waiting;
    for (;;) {
      Result<UnixStream> stream = UnixStream::connect(name, 1ms);
      if (!stream.ok()) {
        ASSERT_EQ(stream.code(), ErrorCode::kDeadlineExceeded);
        break;
      }
      waiting.push_back(std::move(*stream));
    }
    with_scope([&](Nursery& n) {
      auto cancelled = n.spawn([&] { return UnixStream::connect(name).code(); });
      until_blocked(cancelled);
      cancelled.cancel();
      EXPECT_EQ(cancelled.get(), ErrorCode::kCancelled);
      auto patient = n.spawn([&] { return UnixStream::connect(name).code(); });
      until_blocked(patient);
      ASSERT_TRUE(listener.accept().ok());
      EXPECT_EQ(patient.get(), ErrorCode::kOk);
    });
  });
}

// Contract: F-26, F-28. Two tasks over a pair of Unix sockets are deterministic.
TEST(IoSocket, UnixPairIsDeterministic) {
  const auto program = [](std::uint64_t seed) {
    Runtime runtime({.worker_count = 4, .deterministic_seed = seed});
    runtime.run([] {
      auto [left, right] = UnixStream::pair().value();
      with_scope([&, &left = left, &right = right](Nursery& n) {
        n.launch([&] { EXPECT_EQ(echo(right), 500U); });
        for (int i = 0; i < 100; ++i) {
          ASSERT_TRUE(left.write_all("12345").ok());
          ASSERT_EQ(read_text(left, 5), "12345");
        }
        ASSERT_TRUE(left.close().ok());
      });
    });
    return runtime.event_hash();
  };
  for (int seed = 0; seed < testing::rounds(100); ++seed) {
    EXPECT_EQ(program(static_cast<std::uint64_t>(seed)), program(static_cast<std::uint64_t>(seed))) << "seed " << seed;
  }
  EXPECT_NE(program(1), program(2));
}

// Contract: F-26. Addresses: from text, to text, and refused with a sentence.
TEST(IoSocket, Addresses) {
  EXPECT_EQ(Address::ip("127.0.0.1", 80)->to_string(), "127.0.0.1:80");
  EXPECT_EQ(Address::ip("::1", 65535)->to_string(), "[::1]:65535");
  EXPECT_EQ(Address::ip("::1", 7)->port(), 7);
  EXPECT_EQ(Address::ip("127.0.0.1", 1).value(), Address::ip("127.0.0.1", 1).value());
  EXPECT_NE(Address::ip("127.0.0.1", 1).value(), Address::ip("127.0.0.1", 2).value());
  EXPECT_EQ(Address().to_string(), "none");
  EXPECT_EQ(Address().port(), 0);
  for (const char* bad : {"", "localhost", "127.0.0", "1.2.3.4.5", ":::1", "::1%nosuchinterface"}) {
    EXPECT_FALSE(Address::ip(bad, 1).ok()) << bad;
  }
}

// Contract: F-26. Names are looked up on a helper thread; one that is none is an error with its name.
TEST(IoSocket, Resolve) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    const Result<std::vector<Address>> addresses = resolve("localhost", 80);
    ASSERT_TRUE(addresses.ok()) << addresses.error().to_string();
    for (const Address& address : *addresses) EXPECT_EQ(address.port(), 80);
    TcpListener listener = TcpListener::bind("localhost").value();
    EXPECT_TRUE(TcpStream::connect("localhost", listener.local_address().port()).ok());
    const Result<std::vector<Address>> none = resolve("no such host", 1);
    ASSERT_FALSE(none.ok());
    EXPECT_NE(none.error().message.find("no such host"), std::string::npos);
  });
  EXPECT_EQ(resolve("localhost", 1).code(), ErrorCode::kOutsideRuntime);
}

}  // namespace
}  // namespace rota::fiber

// The network of this machine: the conformance suite over TCP and Unix sockets, and what only real sockets have.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>

#include "net/reserved_port_testing.h"
#include "net/stream.h"
#include "net/stream_conformance.h"
#include "rota/fiber.h"

namespace rota::net {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kSoon{120};  // For what does not depend on the time.

struct Tcp {
  static constexpr std::uint64_t kSeeds = 0;
  static constexpr std::size_t kBulkBytes = std::size_t{24} << 20;
  const ReservedPort port{};  // A listener gives it up and another one takes it.
  Network& network() { return real_network(); }
  Endpoint endpoint() { return {.host = "127.0.0.1", .port = port.number()}; }
  static Result<void> ready(ByteStream&) { return {}; }
};

// A folder that is removed with the socket in it.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/rota_net_XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() {
    unlink(socket().c_str());
    rmdir(path_.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string socket() const { return path_ + "/s"; }

 private:
  std::string path_;
};

struct Unix {
  static constexpr std::uint64_t kSeeds = 0;
  static constexpr std::size_t kBulkBytes = std::size_t{4} << 20;
  Folder folder;
  Network& network() { return real_network(); }
  Endpoint endpoint() { return {.unix_path = folder.socket()}; }
  static Result<void> ready(ByteStream&) { return {}; }
};

struct Abstract {
  static constexpr std::uint64_t kSeeds = 0;
  static constexpr std::size_t kBulkBytes = std::size_t{4} << 20;
  Network& network() { return real_network(); }
  Endpoint endpoint() { return {.unix_path = "@rota_net_test_" + std::to_string(getpid())}; }
  static Result<void> ready(ByteStream&) { return {}; }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, StreamConformance, Tcp);
INSTANTIATE_TYPED_TEST_SUITE_P(Unix, StreamConformance, Unix);
INSTANTIATE_TYPED_TEST_SUITE_P(Abstract, StreamConformance, Abstract);

void in_runtime(const std::function<void()>& body) {
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run(body);
}

bool exists(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0;
}

// Contract: F-26. A host name is resolved, both to listen and to connect, and the peer is named as the user wrote it.
TEST(RealNetwork, Names) {
  in_runtime([] {
    auto listener = real_network().listen({.host = "localhost"}).value();
    EXPECT_EQ(listener->endpoint().host, "localhost");
    auto client = real_network().connect(listener->endpoint(), kSoon);
    ASSERT_TRUE(client.ok()) << text_of(client);
    EXPECT_EQ((*client)->peer(), listener->endpoint().to_string());
    auto server = listener->accept(kSoon).value();
    EXPECT_TRUE(Endpoint::parse(server->peer()).ok()) << server->peer();  // The client's address, with its port.
  });
}

// Contract: F-26. What keeps a connection from being made is Unavailable with the place: the caller tries again.
TEST(RealNetwork, UnreachableEndpoints) {
  in_runtime([] {
    const auto unknown = real_network().connect({.host = "no-such-host.invalid", .port = 1}, kSoon);
    ASSERT_EQ(unknown.code(), ErrorCode::kUnavailable) << text_of(unknown);
    EXPECT_NE(unknown.error().message.find("connect to no-such-host.invalid:1: "), std::string::npos)
        << unknown.error().message;
    const auto no_file = real_network().connect({.unix_path = "/nowhere/s"}, kSoon);
    ASSERT_EQ(no_file.code(), ErrorCode::kUnavailable) << text_of(no_file);
    EXPECT_EQ(no_file.error().message, "connect to unix:/nowhere/s: No such file or directory");
    const auto no_port = real_network().connect({.host = "127.0.0.1", .port = 0}, kSoon);
    EXPECT_EQ(no_port.code(), ErrorCode::kInvalidArgument) << text_of(no_port);
  });
}

// Contract: F-26. A connect that nobody answers ends at its deadline, with the place.
TEST(RealNetwork, ConnectDeadline) {
  in_runtime([] {
    // A listener whose backlog is full answers no further connect.
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(fd, 0), 0);
    ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
    const Endpoint full{.host = "127.0.0.1", .port = ntohs(address.sin_port)};
    std::vector<std::unique_ptr<ByteStream>> streams;
    for (int i = 0; i < 100; ++i) {
      auto stream = real_network().connect(full, 50ms);
      if (!stream.ok()) {
        EXPECT_EQ(stream.code(), ErrorCode::kDeadlineExceeded) << text_of(stream);
        EXPECT_EQ(stream.error().message, "connect to " + full.to_string() + ": the deadline passed");
        break;
      }
      streams.push_back(std::move(*stream));
    }
    EXPECT_LT(streams.size(), 100U);
    ::close(fd);
  });
}

// Contract: F-26. A reset is Closed and names the operation and the peer; there is no SIGPIPE.
TEST(RealNetwork, Reset) {
  ASSERT_NE(signal(SIGPIPE, SIG_DFL), SIG_ERR);
  in_runtime([] {
    auto listener = real_network().listen({.host = "127.0.0.1"}).value();
    auto client = real_network().connect(listener->endpoint(), kSoon).value();
    auto server = listener->accept(kSoon).value();
    ASSERT_TRUE(client->write_all("never read", {}).ok());
    char byte = 0;
    ASSERT_EQ(server->read_some({&byte, 1}, {}).value(), 1U);
    server->close();  // With bytes that nobody read: TCP sends a reset.
    const auto read = client->read_some({&byte, 1}, {});
    ASSERT_EQ(read.code(), ErrorCode::kClosed) << text_of(read);
    EXPECT_EQ(read.error().message, "read from " + listener->endpoint().to_string() + ": Connection reset by peer");
    const auto written = client->write_all("x", {});
    ASSERT_EQ(written.code(), ErrorCode::kClosed) << text_of(written);
    EXPECT_EQ(written.error().message, "write to " + listener->endpoint().to_string() + ": Broken pipe");
  });
}

// Contract: F-26. The socket file of a killed server is replaced; that of a running one is not, and neither is a file
// of another kind.
TEST(RealNetwork, StaleSocketFile) {
  const Folder folder;
  const Endpoint endpoint{.unix_path = folder.socket()};
  in_runtime([&] {
    {
      fiber::UnixListener killed = fiber::UnixListener::bind(folder.socket()).value();
    }
    ASSERT_TRUE(exists(folder.socket()));
    auto listener = real_network().listen(endpoint);
    ASSERT_TRUE(listener.ok()) << text_of(listener);
    EXPECT_EQ(real_network().listen(endpoint).code(), ErrorCode::kAlreadyExists);
    EXPECT_TRUE(real_network().connect(endpoint, kSoon).ok());
    (*listener)->close();
    EXPECT_FALSE(exists(folder.socket()));
    ::close(open(folder.socket().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    EXPECT_EQ(real_network().listen(endpoint).code(), ErrorCode::kAlreadyExists);
    EXPECT_TRUE(exists(folder.socket()));
  });
}

// Contract: F-26. A listener removes only its own socket file, not that of a server that took its place.
TEST(RealNetwork, SocketFileOfAnotherServer) {
  const Folder folder;
  const Endpoint endpoint{.unix_path = folder.socket()};
  in_runtime([&] {
    auto first = real_network().listen(endpoint).value();
    ASSERT_EQ(rename(folder.socket().c_str(), (folder.socket() + "2").c_str()), 0);
    auto second = real_network().listen(endpoint).value();
    first->close();
    EXPECT_TRUE(exists(folder.socket()));
    EXPECT_TRUE(real_network().connect(endpoint, kSoon).ok());
    unlink((folder.socket() + "2").c_str());
  });
}

// Contract: F-26. An address that cannot be listened on is refused with the place.
TEST(RealNetwork, ListenErrors) {
  in_runtime([] {
    const auto foreign = real_network().listen({.host = "192.0.2.1"});  // Nobody's address.
    ASSERT_FALSE(foreign.ok());
    EXPECT_NE(foreign.error().message.find("listen on 192.0.2.1:0: "), std::string::npos) << foreign.error().message;
    const auto no_folder = real_network().listen({.unix_path = "/nowhere/s"});
    EXPECT_EQ(no_folder.code(), ErrorCode::kNotFound) << text_of(no_folder);
  });
}

// Contract: F-26. A connection is probed while it is idle, so that a machine that vanished is noticed.
TEST(RealNetwork, KeepAlive) {
  in_runtime([] {
    const auto sockets = [] {
      int count = 0;
      for (int fd = 0; fd < 1024; ++fd) {
        int on = 0;
        socklen_t size = sizeof on;
        if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) == 0 && on == 1) ++count;
      }
      return count;
    };
    const int before = sockets();
    auto listener = real_network().listen({.host = "127.0.0.1"}).value();
    auto client = real_network().connect(listener->endpoint(), kSoon).value();
    auto server = listener->accept(kSoon).value();
    EXPECT_EQ(sockets() - before, 2);
  });
}

}  // namespace
}  // namespace rota::net

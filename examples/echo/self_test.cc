// Goal: the server holds `connections` connections at once, each a task that is parked in its read, and answers each.
// Method: as many are real loopback connections as asked for and as the limit of open files allows, at two descriptors
// each. The rest are in-process: the same handler in a task of its own, parked on a channel instead of a socket.
#include "self_test.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "server.h"

namespace echo {

namespace {

constexpr std::chrono::seconds kPatience = 60s;  // How long an answer may take before it counts as missing.
constexpr std::uint32_t kSpareFiles = 64;        // Descriptors for everything but connections.
constexpr int kRounds = 3;

struct Ends {
  Channel<std::string> to;
  Channel<std::string> from;
};

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::uint64_t resident_bytes() {
  unsigned long long size = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr || std::fscanf(file, "%llu %llu", &size, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

// Raises the soft limit of open files to the hard limit, and returns it.
std::uint64_t open_files_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  return limit.rlim_cur;
}

class Stopwatch {
 public:
  double seconds() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(start_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Clients {
 public:
  // Opens all connections. Returns the first error.
  Result<void> connect(Server& server, std::uint32_t sockets, std::uint32_t channels) {
    ROTA_TRY_ASSIGN(const Address address, Address::ip("127.0.0.1", server.port()));
    for (std::uint32_t i = 0; i < sockets; ++i) {
      ROTA_TRY_ASSIGN(TcpStream stream, TcpStream::connect(address, kPatience));
      streams_.push_back(std::move(stream));
    }
    for (std::uint32_t i = 0; i < channels; ++i) {
      Ends ends{Channel<std::string>(1), Channel<std::string>(1)};
      server.attach(ChannelWire(ends.to, ends.from));
      ends_.push_back(std::move(ends));
    }
    return {};
  }

  // Sends a message to each, then reads an answer from each; returns how many answers equal the message.
  std::uint64_t round(int number) {
    const auto text = [number](std::size_t i) { return std::to_string(number) + ":" + std::to_string(i); };
    for (std::size_t i = 0; i < streams_.size(); ++i) (void)streams_[i].write_all(text(i), kPatience);
    for (std::size_t i = 0; i < ends_.size(); ++i) (void)ends_[i].to.send_for(text(i), kPatience);
    std::uint64_t right = 0;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      std::string answer(text(i).size(), '\0');
      const Result<void> got = streams_[i].read_exactly(std::as_writable_bytes(std::span(answer)), kPatience);
      if (got.ok() && answer == text(i)) ++right;
    }
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      const Result<std::string> answer = ends_[i].from.receive_for(kPatience);
      if (answer.ok() && *answer == text(i)) ++right;
    }
    return right;
  }

 private:
  std::vector<TcpStream> streams_;
  std::vector<Ends> ends_;
};

bool expect(bool right, const char* what) {
  std::printf("  %-3s %s\n", right ? "ok" : "NOT", what);
  return right;
}

// Runs body(server) beside a new server.
template <class F>
bool with_server(const Limits& limits, F&& body) {
  Server server(limits);
  if (const Result<void> bound = server.listen(0); !bound.ok()) {
    std::printf("  NOT listening: %s\n", bound.error().to_string().c_str());
    return false;
  }
  return with_scope([&](Nursery& nursery) {
    Task<void> serving = nursery.spawn(Grant{.budget = Budget::unlimited()}, [&server] { server.run(); });
    server.started().wait();
    const bool right = body(server);
    server.stop();
    serving.get();
    return right;
  });
}

bool hold_many(Runtime& runtime, std::uint32_t connections, std::uint32_t most_sockets) {
  const std::uint64_t files = open_files_limit();
  const std::uint64_t pairs = (std::max<std::uint64_t>(files, kSpareFiles) - kSpareFiles) / 2;
  const auto sockets = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::min(connections, most_sockets), pairs));
  const std::uint32_t channels = connections - sockets;
  std::printf("%u connections' worth of parked tasks:\n", connections);
  std::printf("  %u loopback TCP connections (%llu files may be open; each takes two)\n", sockets,
              static_cast<unsigned long long>(files));
  std::printf("  %u in-process connections (no file: a channel each way, the same handler)\n", channels);
  Clients clients;
  Stopwatch watch;
  // One seat more: the server holds one for the next connection that it accepts.
  const bool right = with_server({.idle = 600s, .clients = connections + 1}, [&](Server& server) {
    const std::uint64_t before = resident_bytes();
    if (const Result<void> opened = clients.connect(server, sockets, channels); !opened.ok()) {
      std::printf("  NOT opened: %s\n", opened.error().to_string().c_str());
      return false;
    }
    // When the first round is answered, each handler has started, and waits, or is about to wait, for the next message.
    std::uint64_t echoed = clients.round(0);
    const std::uint64_t held = server.open();
    const std::uint64_t stacks = runtime.stats().stacks_live;
    const std::uint64_t grown = resident_bytes() - before;
    std::printf("  %llu tasks held, %llu stacks, %.1f s to get there\n", static_cast<unsigned long long>(held),
                static_cast<unsigned long long>(stacks), watch.seconds());
    std::printf(
        "  %.0f MiB resident more than before: %.1f KiB per task, including both ends of its connection,"
        " excluding the kernel's socket buffers\n",
        mebibytes(grown), static_cast<double>(grown) / 1024 / connections);
    for (int i = 1; i < kRounds; ++i) echoed += clients.round(i);
    std::printf("  %llu echoes checked, %d per connection; the last %d rounds took %.1f s\n",
                static_cast<unsigned long long>(echoed), kRounds, kRounds - 1, watch.seconds());
    const bool all_held = expect(held == connections && stacks >= connections, "every connection was held at once");
    return expect(echoed == std::uint64_t{connections} * kRounds, "every echo was what was sent") && all_held;
  });
  std::printf("  stopped with all of them open in %.1f s\n", watch.seconds());
  return right;
}

// Is the connection at its end, rather than answered?
bool is_dropped(TcpStream& client) {
  std::byte byte;
  const Result<std::size_t> got = client.read_some(std::span(&byte, 1), kPatience);
  return got.ok() ? *got == 0 : got.code() == ErrorCode::kClosed;
}

bool drop_bad_ones() {
  constexpr std::uint16_t kBurst = 50;
  std::printf("Clients that misbehave:\n");
  return with_server({.idle = 1s, .burst = kBurst, .clients = 3}, [&](Server& server) {
    Result<TcpStream> idle = TcpStream::connect("127.0.0.1", server.port(), kPatience);
    Result<TcpStream> flood = TcpStream::connect("127.0.0.1", server.port(), kPatience);
    if (!idle.ok() || !flood.ok()) return expect(false, "two clients connect");
    // A client that waits for each answer gets `burst` of them in the first second, and is then out of budget. On a
    // machine so slow that a second passes first it gets more, but not forever.
    std::byte byte{};
    std::uint32_t answers = 0;
    while (answers < 1'000'000 && flood->write_all(std::span<const std::byte>(&byte, 1), kPatience).ok()) {
      const Result<std::size_t> got = flood->read_some(std::span(&byte, 1), kPatience);
      if (!got.ok() || *got == 0) break;
      ++answers;
    }
    std::printf("  a flood was answered %u times; its budget is for %u at once\n", answers, kBurst);
    const bool flooded = expect(answers >= kBurst && answers < 1'000'000, "a flood runs out of its budget");
    const bool silent = expect(is_dropped(*idle), "a silent client is dropped");
    Result<TcpStream> good = TcpStream::connect("127.0.0.1", server.port(), kPatience);
    std::string answer(5, '\0');
    const bool served = good.ok() && good->write_all("hello", kPatience).ok() &&
                        good->read_exactly(std::as_writable_bytes(std::span(answer)), kPatience).ok() &&
                        answer == "hello";
    const bool counted =
        expect(server.ended(End::kIdle) == 1 && server.ended(End::kFlooded) == 1, "the server counted one of each");
    return expect(served, "another client is served all the same") && flooded && silent && counted;
  });
}

}  // namespace

int self_test(Runtime& runtime, std::uint32_t connections, std::uint32_t most_sockets) {
  const bool held = runtime.run([&] { return hold_many(runtime, connections, most_sockets); });
  const bool dropped = runtime.run([] { return drop_bad_ones(); });
  const bool balanced = expect(runtime.audit().balanced(), "the books of all budgets balance");
  const bool right = held && dropped && balanced;
  std::printf("self-test: %s\n", right ? "all as it should be" : "FAILED");
  return right ? 0 : 1;
}

}  // namespace echo

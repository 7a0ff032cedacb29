// The echo server: one task per connection, and nothing that a client does harms another client.
//
// Every client is bounded:
//   silence   a client is dropped after Limits::idle, and so is one that does not read its answers.
//   floods    its task has a budget for `burst` echoes, refilled each second. If a client exceeds it, its task is
//             cancelled and the connection ends: OnExhausted::kCancel.
//   numbers   at most `clients` are served at a time; the rest wait in the listener's backlog.
// A connection is any type with read_some() and write_all() like a Descriptor's: a TcpStream, or a ChannelWire.
//
// Thread safety: run() in one task; everything else from any task.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "rota/fiber.h"

namespace echo {

using namespace rota::fiber;
using namespace std::chrono_literals;
using rota::ErrorCode;
using rota::Result;

struct Limits {
  std::chrono::nanoseconds idle = 60s;
  std::uint16_t burst = 1000;       // Echoes at once, and that many more each second. At most 30,000.
  std::uint32_t clients = 100'000;  // At a time, including the one that is accepted next.
};

enum class End : std::uint8_t { kLeft, kIdle, kFlooded, kStopped, kBroken };
inline constexpr int kEndCount = 5;

// A connection inside the process: one channel in each direction, with room for one message.
class ChannelWire {
 public:
  ChannelWire(Channel<std::string> in, Channel<std::string> out) : in_(std::move(in)), out_(std::move(out)) {}
  Result<std::size_t> read_some(std::span<std::byte> buffer, std::chrono::nanoseconds limit);
  Result<void> write_all(std::span<const std::byte> bytes, std::chrono::nanoseconds limit);

 private:
  Channel<std::string> in_;
  Channel<std::string> out_;
  std::string rest_;  // The remainder of a message that was larger than the buffer.
};

class Server {
 public:
  explicit Server(const Limits& limits) : limits_(limits), seats_(limits.clients) {}

  // Port 0: any free port; port() returns it.
  Result<void> listen(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const { return listener_.local_address().port(); }
  // Serves until stop(). In-process connections can be attached once started() is set.
  // REQUIRES: listen() succeeded.
  void run();
  Event& started() { return started_; }
  // Accepts no more connections, lets started echoes finish (for a second), and ends all connections.
  void stop() { stop_.set(); }

  // Serves a connection from inside the process; waits for a seat. Throws NurseryNotActive when the server has stopped.
  void attach(ChannelWire wire);

  [[nodiscard]] std::uint64_t open() const { return open_.load(); }
  [[nodiscard]] std::uint64_t echoes() const { return echoes_.load(); }
  [[nodiscard]] std::uint64_t ended(End how) const { return ended_[static_cast<std::size_t>(how)].load(); }

 private:
  static constexpr std::size_t kPieceBytes = 1024;

  void accept_all();
  template <class Wire>
  void launch(Wire wire);
  template <class Wire>
  End serve(Wire& wire);
  [[nodiscard]] Budget client_budget() const;
  [[nodiscard]] End end_of(ErrorCode code) const;

  const Limits limits_;
  Semaphore seats_;
  TcpListener listener_;
  Event started_;
  Event stop_;
  WaitGroup busy_;              // Connections between a read and the end of its echo.
  Nursery* clients_ = nullptr;  // Set before started_.
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> open_{0};
  std::atomic<std::uint64_t> echoes_{0};
  std::array<std::atomic<std::uint64_t>, kEndCount> ended_{};
};

}  // namespace echo

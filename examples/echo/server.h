// The echo server: a task a connection, and nothing that a client does harms another one.
//
// What a client may do is bounded on every side:
//   silence   it is dropped after Limits::idle, and so is one that does not take its answers.
//   floods    its task has a budget for `burst` echoes, filled up again each second. A client that wants more runs out,
//             its task is cancelled, and that is its end: OnExhausted::kCancel.
//   numbers   at most `clients` are served at a time; the rest wait in the listener's backlog.
// A connection is anything with read_some() and write_all() as a Descriptor has them: a TcpStream, or a ChannelWire.
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
  std::uint32_t clients = 100'000;  // At a time, the one that is accepted next included.
};

enum class End : std::uint8_t { kLeft, kIdle, kFlooded, kStopped, kBroken };
inline constexpr int kEndCount = 5;

// A connection inside the process: a channel each way, with room for one message.
class ChannelWire {
 public:
  ChannelWire(Channel<std::string> in, Channel<std::string> out) : in_(std::move(in)), out_(std::move(out)) {}
  Result<std::size_t> read_some(std::span<std::byte> buffer, std::chrono::nanoseconds limit);
  Result<void> write_all(std::span<const std::byte> bytes, std::chrono::nanoseconds limit);

 private:
  Channel<std::string> in_;
  Channel<std::string> out_;
  std::string rest_;  // Of a message that was larger than the buffer.
};

class Server {
 public:
  explicit Server(const Limits& limits) : limits_(limits), seats_(limits.clients) {}

  // Port 0: a free one; port() tells which.
  Result<void> listen(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const { return listener_.local_address().port(); }
  // Serves until stop(). In-process connections may be attached from when started() is set.
  // REQUIRES: listen() went well.
  void run();
  Event& started() { return started_; }
  // Accepts no more, lets those echoes finish that have begun (for a second), and ends all connections.
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

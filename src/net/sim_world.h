// The state of a simulated network and the rules by which bytes and faults travel. Used by sim_network.cc only.
//
// Times are computed when something is sent; there are no timers. A time of kHeld means that a partition, or a
// half-open connection, holds it back.
//
// Invariants:
//   (1) In a pipe, segments are in the order in which they were sent, their arrival times do not decrease, and every
//       segment after a held one is held.
//   (2) The sizes of the segments add up to the unread bytes. unread + lost_bytes <= buffer_bytes.
//   (3) No segment arrives at an end after its reset_at: reset_end() drops those.
//   (4) A connection is in World::live exactly as long as one of its ends is open.
// Thread safety: everything under World::mutex. Waiters wait on Connection::changed, Acceptor::changed or
// World::topology, and look at everything anew when they wake.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/prng.h"
#include "base/sync.h"
#include "fiber/condition.h"
#include "net/sim_network.h"

namespace rota::net::sim {

using Time = std::chrono::nanoseconds;  // Of the runtime's clock.
inline constexpr Time kHeld = Time::max();
// The sum, or kHeld if it is too large.
inline constexpr Time plus(Time time, Time more) { return more >= kHeld - time ? kHeld : time + more; }
inline constexpr Time kRetransmit = std::chrono::milliseconds(200);

// One direction of a connection.
struct Pipe {
  struct Segment {
    std::size_t bytes = 0;  // > 0.
    Time arrives{0};
  };
  explicit Pipe(std::uint64_t seed, std::uint64_t number) : random(Prng::stream(seed, number)) {}

  std::string unread{};  // From `head` on.
  std::size_t head = 0;
  std::size_t lost_bytes = 0;  // Sent to an end that is closed. They occupy the buffer until the reset comes back.
  std::deque<Segment> segments{};
  bool ended = false;  // By shutdown_write() or close() of the writing end.
  Time end_arrives = kHeld;
  bool reader_gone = false;
  bool one_byte = false;
  Time line_free{0};  // When the last byte has left.
  Time last_arrival{0};
  Prng random;

  [[nodiscard]] std::size_t unread_bytes() const { return unread.size() - head; }
};

struct End {
  bool closed = false;  // By this end's close().
  bool reset = false;   // A reset or time-out arrives at reset_at.
  Time reset_at = kHeld;
  bool timed_out = false;  // Why it is reset.
  std::string peer{};
};

// Pipe i is written by end i and read by end 1 - i. End 0 is the client's.
struct Connection {
  Connection(std::uint64_t seed, std::uint64_t a, std::uint64_t b) : pipe{Pipe(seed, a), Pipe(seed, b)} {}
  std::uint64_t number = 0;
  std::string node[2];
  Pipe pipe[2];
  End end[2];
  bool silent = false;  // Half-open.
  Time silent_since{0};
  bool expired = false;  // It was cut for longer than give_up.
  fiber::Condition changed;
};

// A listening socket.
struct Acceptor {
  std::string node;
  std::string key;  // In World::acceptors, with the node.
  bool loopback_only = false;
  bool closed = false;
  std::deque<std::shared_ptr<Connection>> pending;
  fiber::Condition changed;
};

struct World {
  explicit World(const SimNetworkOptions& o) : options(o) {}
  using Pair = std::pair<std::string, std::string>;

  const SimNetworkOptions options;
  sync::Mutex mutex;
  fiber::Condition topology;  // Partitions, heals and new room in a backlog.
  std::map<Pair, LinkOptions> links{};
  std::map<Pair, Time> cut{};  // Since when, by direction.
  std::map<std::string, Time> isolated{};
  std::map<std::string, std::uint16_t> nodes{};  // With the last port that was given away.
  std::map<Pair, std::uint64_t> connects{};      // The number of connections that were tried, by direction.
  std::map<Pair, std::shared_ptr<Acceptor>> acceptors{};
  std::map<std::uint64_t, std::shared_ptr<Connection>> live{};
  std::uint64_t last_number = 0;
  SimNetwork::Stats stats{};
  std::uint64_t digest = 0;

  [[nodiscard]] const LinkOptions& link(const std::string& from, const std::string& to) const ROTA_REQUIRES(mutex);
  [[nodiscard]] std::optional<Time> blocked_since(const std::string& from, const std::string& to) const
      ROTA_REQUIRES(mutex);
  [[nodiscard]] bool blocked(const Connection& c, int from) const ROTA_REQUIRES(mutex);
  // When the connection is given up, or kHeld.
  [[nodiscard]] Time dead_at(const Connection& c) const ROTA_REQUIRES(mutex);

  // A connection between the two nodes that is not established yet, with its generators.
  std::shared_ptr<Connection> make(const std::string& from, const std::string& to) ROTA_REQUIRES(mutex);
  // The latency and jitter of one crossing.
  Time crossing(Connection& c, int from) ROTA_REQUIRES(mutex);

  // Sends bytes from an end. False if a fault reset the connection; `sent` is the number that left before it.
  // REQUIRES: they fit into the buffer.
  bool send(Connection& c, int from, std::string_view bytes, Time now, std::size_t* sent) ROTA_REQUIRES(mutex);
  [[nodiscard]] std::size_t space(const Connection& c, int from) const ROTA_REQUIRES(mutex);
  // Takes what has arrived at an end into the buffer: the rest of one segment at most. 0: nothing has arrived.
  std::size_t receive(Connection& c, int at, std::span<char> buffer, Time now) ROTA_REQUIRES(mutex);
  void end_writing(Connection& c, int from, Time now) ROTA_REQUIRES(mutex);
  // `abort`: the peer is reset in any case.
  void close(Connection& c, int at, Time now, bool abort = false) ROTA_REQUIRES(mutex);
  void close(Acceptor& acceptor, Time now) ROTA_REQUIRES(mutex);

  // Ends the connection if it has been cut for too long. To be called before its state is looked at.
  void expire(Connection& c, Time now) ROTA_REQUIRES(mutex);
  // Sends what was held and is not any more. To be called after a heal.
  void release(Time now) ROTA_REQUIRES(mutex);
  void expire_all(Time now) ROTA_REQUIRES(mutex);
  // A fault: both ends learn of it at once.
  void reset_both(Connection& c, Time now) ROTA_REQUIRES(mutex);
  void silence(Connection& c, Time now) ROTA_REQUIRES(mutex);
  void note(std::uint64_t what, const Connection& c, int side, std::string_view bytes, Time now) ROTA_REQUIRES(mutex);

 private:
  [[nodiscard]] Time arrival(Connection& c, int from, std::size_t bytes, Time now) ROTA_REQUIRES(mutex);
  void reset_end(Connection& c, int at, Time when) ROTA_REQUIRES(mutex);
  void drop_after(Pipe& pipe, Time when) ROTA_REQUIRES(mutex);
};

}  // namespace rota::net::sim

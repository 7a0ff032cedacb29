// A simulated network between named nodes, on the clock of the fiber runtime (S-1).
//
//   SimNetwork sim({.seed = 7, .link = {.latency = 1ms, .jitter = 300us, .reset_ppm = 1000}});
//   auto listener = sim.node("host").listen({.host = "host", .port = 6379}).value();
//   auto stream = sim.node("w1").connect({.host = "host", .port = 6379}, 5s);      // in a task
//   sim.partition("host", "w1"); ... sim.heal("host", "w1");
//
// A node is a machine. Its name is its host name; "localhost" and "127.0.0.1" are the node itself, "0.0.0.0" listens
// for everybody. A Unix path belongs to its node.
//
// How bytes travel. Both directions of a connection are independent. What is written is cut into segments; each leaves
// when the line is free (bytes_per_second), and arrives after the latency and a random part of the jitter, never before
// an earlier segment. A read returns the rest of one segment at most, so that small segments exercise every parser. The
// bytes written and not read are bounded (buffer_bytes): a writer waits while the reader is slow.
//
// Faults behave as those of TCP do. Bytes are never lost or reordered within a stream, the connection fails instead:
//   partition   Bytes sent meanwhile wait, and arrive after the heal. Bytes in flight arrive. A connect() waits. A
//               connection that is cut for longer than give_up ends at both ends with Closed ("Connection timed out").
//   reset       Both ends get Closed, after the bytes that arrived before. In the middle of a segment if drawn
//   (reset_ppm). half-open   The connection is silent for ever, in both directions, and neither end is told; it ends by
//   give_up. drop        A connect() gets no answer, until its deadline or give_up.
// close() with unread bytes resets the peer, as TCP does; bytes sent to a closed end reset the sender a round trip
// later.
//
// Exactness: everything random is drawn from the seed, with one generator per direction of each connection, which is
// found by the two nodes and the number of the connection between them. In deterministic mode (virtual time) the same
// seed gives the same bytes at the same times; digest() tells whether two runs did.
//
// No task belongs to the network: times are computed when bytes are sent, and a task that waits sleeps until the next
// one.
//
// Bounds: buffer_bytes per direction, `backlog` connections per listener that were not accepted.
// Thread safety: every function from any task or thread. The streams and listeners may outlive the SimNetwork.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "net/stream.h"
#include "rota/clock.h"

namespace rota::net {

// One direction between two nodes. Probabilities are in parts per million.
struct LinkOptions {
  Duration latency = std::chrono::microseconds(100);
  Duration jitter{0};                  // Added to the latency: uniform from 0 to this.
  std::uint64_t bytes_per_second = 0;  // 0: unlimited.
  std::size_t min_segment_bytes = 1;   // A segment's size is uniform between these two. 1 and 1: one byte at a time.
  std::size_t max_segment_bytes = 16 << 10;
  std::uint32_t connect_drop_ppm = 0;  // Per connect(): it gets no answer.
  std::uint32_t one_byte_ppm = 0;      // Per connection and direction: it carries one byte at a time.
  std::uint32_t reset_ppm = 0;         // Per segment: the connection is reset in the middle of it.
  std::uint32_t half_open_ppm = 0;     // Per segment: the connection is silent from here on.
  std::uint32_t stall_ppm = 0;         // Per segment: it arrives late, by up to `stall`.
  Duration stall = std::chrono::seconds(5);
};

struct SimNetworkOptions {
  std::uint64_t seed = 1;
  LinkOptions link{};                                             // Between nodes that have no link of their own.
  LinkOptions loopback{.latency = std::chrono::microseconds(5)};  // Within a node.
  std::size_t buffer_bytes = 64 << 10;
  std::size_t backlog = 128;
  Duration give_up = std::chrono::seconds(60);  // As the keep-alive of real_network.cc. Duration::max(): never.
};

class SimNetwork {
 public:
  struct Stats {
    std::uint64_t connections = 0;  // Established.
    std::uint64_t resets = 0;       // Connections that were reset by a fault or by reset_all() and crash().
    std::uint64_t timeouts = 0;     // Connections and connects that ended by give_up.
    std::uint64_t drops = 0;        // Connects without an answer, and connections that became half-open.
    std::uint64_t sent_bytes = 0;
    std::uint64_t read_bytes = 0;
  };

  explicit SimNetwork(SimNetworkOptions options = {});
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;

  // The network as this node sees it; the node is created by its first use. Valid as long as the SimNetwork.
  Network& node(const std::string& name);
  // For what is sent and connected from now on, in one direction.
  void set_link(const std::string& from, const std::string& to, const LinkOptions& link);

  // Nothing passes between the two nodes, or in one direction only.
  void partition(const std::string& a, const std::string& b);
  void partition_one_way(const std::string& from, const std::string& to);
  // Nothing passes between the node and any other.
  void isolate(const std::string& node);
  // Both directions between the two; the isolation of the node; every partition and isolation.
  void heal(const std::string& a, const std::string& b);
  void rejoin(const std::string& node);
  void heal_all();

  // Resets every connection of the node, or between the two, at once. Returns the number.
  std::size_t reset_all(const std::string& node);
  std::size_t reset(const std::string& a, const std::string& b);
  // Makes every connection of the node half-open, as if the machine lost power. Returns the number.
  std::size_t silence_all(const std::string& node);
  // The process on the node dies: its connections are reset, its listeners are closed.
  void crash(const std::string& node);

  [[nodiscard]] Stats stats() const;
  // A hash of everything sent and read so far, with its time.
  [[nodiscard]] std::uint64_t digest() const;

 private:
  struct Nodes;
  std::unique_ptr<Nodes> nodes_;
};

}  // namespace rota::net

// Streams, listeners and nodes of a simulated network. How bytes travel is in sim_world.cc.
#include "net/sim_network.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "net/sim_world.h"
#include "net/stream_error.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/time.h"

namespace rota::net {

namespace {

using sim::Acceptor;
using sim::Connection;
using sim::End;
using sim::kHeld;
using sim::Pipe;
using sim::Time;
using sim::World;

constexpr std::uint16_t kFirstPort = 40'000;

Error timed_out(ErrorCode code, const std::string& operation) {
  return Error{code, operation + ": Connection timed out"}.with("errno", "ETIMEDOUT");
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "127.0.0.1" || host == "::1"; }
bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

std::string key_of(const Endpoint& endpoint) {
  return endpoint.unix_path.empty() ? "tcp:" + std::to_string(endpoint.port) : "unix:" + endpoint.unix_path;
}

class SimStream final : public ByteStream {
 public:
  SimStream(std::shared_ptr<World> world, std::shared_ptr<Connection> connection, int side)
      : world_(std::move(world)), connection_(std::move(connection)), side_(side), peer_(connection_->end[side].peer) {}
  ~SimStream() override { close(); }

  Result<std::size_t> read_some(std::span<char> buffer, Deadline deadline) override {
    if (buffer.empty()) return std::size_t{0};
    ROTA_TRY(fiber::check_cancelled());
    const sync::MutexLock lock(world_->mutex);
    Connection& c = *connection_;
    const Pipe& pipe = c.pipe[1 - side_];
    const End& end = c.end[side_];
    for (;;) {
      const Time now = fiber::now();
      if (end.closed) return closed_here("read from " + peer_);
      world_->expire(c, now);
      if (const std::size_t count = world_->receive(c, side_, buffer, now); count != 0) return count;
      const bool end_comes = pipe.segments.empty() && pipe.ended && pipe.end_arrives <= end.reset_at;
      if (end_comes && pipe.end_arrives <= now) return std::size_t{0};
      if (end.reset && end.reset_at <= now) return gone("read from " + peer_, end);
      if (now >= deadline.time()) return deadline_passed("read from " + peer_);
      Time next = std::min(deadline.time(), wakes_at());
      if (!pipe.segments.empty()) next = std::min(next, pipe.segments.front().arrives);
      if (end_comes) next = std::min(next, pipe.end_arrives);
      ROTA_TRY(wait_until(c.changed, next, "bytes from a simulated network"));
    }
  }

  Result<void> write_all(std::string_view bytes, Deadline deadline) override {
    Result<void> written = write(bytes, deadline);
    if (!written.ok()) write_failed_ = true;
    return written;
  }

  Result<void> shutdown_write(Deadline /*deadline*/) override {
    const std::string operation = "end the stream to " + peer_;
    const sync::MutexLock lock(world_->mutex);
    const Time now = fiber::now();
    const End& end = connection_->end[side_];
    world_->expire(*connection_, now);
    if (end.closed) return closed_here(operation);
    if (write_failed_) return after_failed_write(operation);
    if (connection_->pipe[side_].ended) return {};
    if (end.reset && end.reset_at <= now) return gone(operation, end);
    world_->end_writing(*connection_, side_, now);
    return {};
  }

  void close() override {
    const sync::MutexLock lock(world_->mutex);
    world_->close(*connection_, side_, fiber::now());
  }
  [[nodiscard]] std::string peer() const override { return peer_; }

 private:
  static Error gone(const std::string& operation, const End& end) {
    return end.timed_out ? timed_out(ErrorCode::kClosed, operation) : reset_by_peer(operation);
  }
  // When this end learns of a reset or time-out, as far as is known now.
  Time wakes_at() const ROTA_REQUIRES(world_->mutex) {
    const End& end = connection_->end[side_];
    return std::min(end.reset ? end.reset_at : kHeld, connection_->expired ? kHeld : world_->dead_at(*connection_));
  }
  // Success also if the time passed: the caller looks again.
  Result<void> wait_until(fiber::Condition& condition, Time time, const char* waits_for) ROTA_REQUIRES(world_->mutex) {
    Result<void> waited = condition.wait_until(world_->mutex, time, waits_for);
    if (waited.code() == ErrorCode::kDeadlineExceeded) return {};
    return waited;
  }

  Result<void> write(std::string_view bytes, Deadline deadline) {
    ROTA_TRY(fiber::check_cancelled());
    const std::string operation = "write to " + peer_;
    const sync::MutexLock lock(world_->mutex);
    Connection& c = *connection_;
    const End& end = c.end[side_];
    for (std::size_t done = 0;;) {
      const Time now = fiber::now();
      world_->expire(c, now);
      if (end.closed) return closed_here(operation);
      if (write_failed_) return after_failed_write(operation);
      if (c.pipe[side_].ended) return broken_pipe(operation);
      if (end.reset && end.reset_at <= now) return gone(operation, end);
      if (done == bytes.size()) return {};
      if (const std::size_t space = world_->space(c, side_); space != 0) {
        std::size_t sent = 0;
        const bool alive = world_->send(c, side_, bytes.substr(done, space), now, &sent);
        done += sent;
        if (!alive) return gone(operation, end).with("done_bytes", std::to_string(done));
        continue;
      }
      if (now >= deadline.time()) return deadline_passed(operation, done);
      ROTA_TRY(wait_until(c.changed, std::min(deadline.time(), wakes_at()), "room in a simulated network"));
    }
  }

  const std::shared_ptr<World> world_;
  const std::shared_ptr<Connection> connection_;
  const int side_;
  const std::string peer_;
  bool write_failed_ = false;  // Belongs to the task that writes.
};

class SimListener final : public Listener {
 public:
  SimListener(std::shared_ptr<World> world, std::shared_ptr<Acceptor> acceptor, Endpoint endpoint)
      : world_(std::move(world)), acceptor_(std::move(acceptor)), endpoint_(std::move(endpoint)) {}
  ~SimListener() override { close(); }

  Result<std::unique_ptr<ByteStream>> accept(Deadline deadline) override {
    ROTA_TRY(fiber::check_cancelled());
    const sync::MutexLock lock(world_->mutex);
    for (;;) {
      if (acceptor_->closed) return closed_here("accept on " + endpoint_.to_string());
      if (!acceptor_->pending.empty()) {
        std::shared_ptr<Connection> c = std::move(acceptor_->pending.front());
        acceptor_->pending.pop_front();
        world_->topology.wake_all();  // There is room in the backlog.
        return std::make_unique<SimStream>(world_, std::move(c), 1);
      }
      if (fiber::now() >= deadline.time()) return deadline_passed("accept on " + endpoint_.to_string());
      Result<void> waited =
          acceptor_->changed.wait_until(world_->mutex, deadline.time(), "a connection of a simulated network");
      if (waited.code() == ErrorCode::kCancelled) return std::move(waited).take_failure();
    }
  }
  [[nodiscard]] Endpoint endpoint() const override { return endpoint_; }
  void close() override {
    const sync::MutexLock lock(world_->mutex);
    world_->close(*acceptor_, fiber::now());
  }

 private:
  const std::shared_ptr<World> world_;
  const std::shared_ptr<Acceptor> acceptor_;
  const Endpoint endpoint_;
};

class SimNode final : public Network {
 public:
  SimNode(std::shared_ptr<World> world, std::string name) : world_(std::move(world)), name_(std::move(name)) {}

  Result<std::unique_ptr<ByteStream>> connect(const Endpoint& endpoint, Deadline deadline) override {
    const std::string operation = "connect to " + endpoint.to_string();
    ROTA_TRY(fiber::check_cancelled());
    if (endpoint.unix_path.empty() && endpoint.port == 0) {
      return Error{ErrorCode::kInvalidArgument, operation + ": the port must be a number from 1 to 65535"};
    }
    const bool here = !endpoint.unix_path.empty() || is_loopback(endpoint.host) || endpoint.host == name_;
    const sync::MutexLock lock(world_->mutex);
    const std::string& target = here ? name_ : endpoint.host;
    if (!world_->nodes.contains(target)) {
      return Error{ErrorCode::kUnavailable, operation + ": no node of the simulated network has this name"};
    }
    std::shared_ptr<Connection> c = world_->make(name_, target);
    Attempt attempt{c.get(), operation, deadline, sim::plus(fiber::now(), world_->options.give_up)};
    ROTA_TRY(reach(attempt, key_of(endpoint), here));
    c->end[0].peer = endpoint.to_string();
    c->end[1].peer = endpoint.unix_path.empty() ? name_ + ":" + std::to_string(++world_->nodes[name_])
                                                : "a client of " + endpoint.to_string();
    world_->live.emplace(c->number, c);
    world_->stats.connections += 1;
    attempt.acceptor->pending.push_back(c);
    attempt.acceptor->changed.wake_all();
    // The listener's answer comes back. If it does not in time, the server is left with a connection that ends.
    if (Result<void> answered = cross(attempt, 1); !answered.ok()) {
      world_->close(*c, 0, fiber::now());
      return std::move(answered).take_failure();
    }
    return std::make_unique<SimStream>(world_, std::move(c), 0);
  }

  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override {
    const std::string& host = endpoint.host;
    if (endpoint.unix_path.empty() && host != name_ && !is_loopback(host) && !is_any(host)) {
      return Error{ErrorCode::kInvalidArgument,
                   "listen on " + endpoint.to_string() + ": Cannot assign requested address; this is node " + name_}
          .with("errno", "EADDRNOTAVAIL");
    }
    const sync::MutexLock lock(world_->mutex);
    Endpoint bound = endpoint;
    if (endpoint.unix_path.empty() && endpoint.port == 0) {
      do {
        bound.port = ++world_->nodes[name_];
      } while (world_->acceptors.contains({name_, key_of(bound)}));
    }
    auto acceptor = std::make_shared<Acceptor>();
    acceptor->node = name_;
    acceptor->key = key_of(bound);
    acceptor->loopback_only = is_loopback(host);
    if (!world_->acceptors.emplace(World::Pair(name_, acceptor->key), acceptor).second) {
      return Error{ErrorCode::kAlreadyExists, "listen on " + bound.to_string() + ": Address already in use"}.with(
          "errno", "EADDRINUSE");
    }
    return std::make_unique<SimListener>(world_, std::move(acceptor), std::move(bound));
  }

 private:
  // A connect() in progress.
  struct Attempt {
    Connection* c;
    const std::string& operation;
    const Deadline deadline;
    const Time gives_up;
    std::shared_ptr<Acceptor> acceptor{};  // The listener that was found.
  };

  // Waits until the clock is `time`, or something about the network changed.
  Result<void> wait(const Attempt& attempt, Time time) ROTA_REQUIRES(world_->mutex) {
    const Time now = fiber::now();
    if (now >= attempt.deadline.time()) return deadline_passed(attempt.operation);
    if (now >= attempt.gives_up) {
      world_->stats.timeouts += 1;
      return timed_out(ErrorCode::kUnavailable, attempt.operation);
    }
    const Time next = std::min({time, attempt.deadline.time(), attempt.gives_up});
    Result<void> waited = world_->topology.wait_until(world_->mutex, next, "a connection of a simulated network");
    if (waited.code() == ErrorCode::kCancelled) return waited;
    return {};
  }
  Result<void> sleep(const Attempt& attempt, Time duration) ROTA_REQUIRES(world_->mutex) {
    const Time until = fiber::now() + duration;
    while (fiber::now() < until) ROTA_TRY(wait(attempt, until));
    return {};
  }
  // A packet of the handshake crosses the network; it is sent again while it cannot.
  Result<void> cross(const Attempt& attempt, int from) ROTA_REQUIRES(world_->mutex) {
    while (world_->blocked(*attempt.c, from)) ROTA_TRY(wait(attempt, kHeld));
    return sleep(attempt, world_->crossing(*attempt.c, from));
  }
  // Finds the listener, or is refused.
  Result<void> reach(Attempt& attempt, const std::string& key, bool here) ROTA_REQUIRES(world_->mutex) {
    Connection& c = *attempt.c;
    if (const std::uint32_t ppm = world_->link(c.node[0], c.node[1]).connect_drop_ppm;
        ppm != 0 && c.pipe[0].random.chance(ppm, 1'000'000)) {
      world_->stats.drops += 1;
      for (;;) ROTA_TRY(wait(attempt, kHeld));
    }
    for (;;) {
      ROTA_TRY(cross(attempt, 0));
      const auto found = world_->acceptors.find({c.node[1], key});
      if (found == world_->acceptors.end() || (found->second->loopback_only && !here)) {
        ROTA_TRY(cross(attempt, 1));
        return refused(attempt.operation);
      }
      if (found->second->pending.size() < world_->options.backlog) {
        attempt.acceptor = found->second;
        return {};
      }
      ROTA_TRY(sleep(attempt, sim::kRetransmit));
    }
  }

  const std::shared_ptr<World> world_;
  const std::string name_;
};

}  // namespace

struct SimNetwork::Nodes {
  explicit Nodes(const SimNetworkOptions& options) : world(std::make_shared<World>(options)) {}
  const std::shared_ptr<World> world;
  std::map<std::string, std::unique_ptr<SimNode>> by_name{};  // Under the world's mutex.
};

namespace {

// Changes where bytes may pass: what was cut for too long ends first, and what was held is sent afterwards.
template <class Change>
void change_topology(World& world, Change&& change) {
  const sync::MutexLock lock(world.mutex);
  const Time now = fiber::now();
  world.expire_all(now);
  change(now);
  world.release(now);
}

// Does something to every connection for which `chosen` holds. Returns the number.
template <class Chosen>
std::size_t for_connections(World& world, Chosen&& chosen, void (World::*action)(Connection&, Time)) {
  const sync::MutexLock lock(world.mutex);
  const Time now = fiber::now();
  std::size_t count = 0;
  for (const auto& [number, c] : world.live) {
    if (!chosen(*c)) continue;
    (world.*action)(*c, now);
    count += 1;
  }
  return count;
}

auto at_node(const std::string& node) {
  return [&node](const Connection& c) { return c.node[0] == node || c.node[1] == node; };
}

}  // namespace

SimNetwork::SimNetwork(SimNetworkOptions options) : nodes_(std::make_unique<Nodes>(options)) {}
SimNetwork::~SimNetwork() = default;

Network& SimNetwork::node(const std::string& name) {
  World& world = *nodes_->world;
  const sync::MutexLock lock(world.mutex);
  std::unique_ptr<SimNode>& node = nodes_->by_name[name];
  if (node == nullptr) {
    node = std::make_unique<SimNode>(nodes_->world, name);
    world.nodes.emplace(name, kFirstPort);
  }
  return *node;
}

void SimNetwork::set_link(const std::string& from, const std::string& to, const LinkOptions& link) {
  const sync::MutexLock lock(nodes_->world->mutex);
  nodes_->world->links[{from, to}] = link;
}

void SimNetwork::partition(const std::string& a, const std::string& b) {
  partition_one_way(a, b);
  partition_one_way(b, a);
}

void SimNetwork::partition_one_way(const std::string& from, const std::string& to) {
  World& world = *nodes_->world;
  change_topology(world, [&](Time now) { world.cut.emplace(World::Pair(from, to), now); });
}

void SimNetwork::isolate(const std::string& node) {
  World& world = *nodes_->world;
  change_topology(world, [&](Time now) { world.isolated.emplace(node, now); });
}

void SimNetwork::heal(const std::string& a, const std::string& b) {
  World& world = *nodes_->world;
  change_topology(world, [&](Time /*now*/) {
    world.cut.erase({a, b});
    world.cut.erase({b, a});
  });
}

void SimNetwork::rejoin(const std::string& node) {
  World& world = *nodes_->world;
  change_topology(world, [&](Time /*now*/) { world.isolated.erase(node); });
}

void SimNetwork::heal_all() {
  World& world = *nodes_->world;
  change_topology(world, [&](Time /*now*/) {
    world.cut.clear();
    world.isolated.clear();
  });
}

std::size_t SimNetwork::reset_all(const std::string& node) {
  return for_connections(*nodes_->world, at_node(node), &World::reset_both);
}

std::size_t SimNetwork::reset(const std::string& a, const std::string& b) {
  const auto between = [&](const Connection& c) {
    return (c.node[0] == a && c.node[1] == b) || (c.node[0] == b && c.node[1] == a);
  };
  return for_connections(*nodes_->world, between, &World::reset_both);
}

std::size_t SimNetwork::silence_all(const std::string& node) {
  return for_connections(*nodes_->world, at_node(node), &World::silence);
}

void SimNetwork::crash(const std::string& node) {
  World& world = *nodes_->world;
  {
    const sync::MutexLock lock(world.mutex);
    std::vector<std::shared_ptr<Acceptor>> dead;
    for (const auto& [place, acceptor] : world.acceptors) {
      if (place.first == node) dead.push_back(acceptor);
    }
    for (const std::shared_ptr<Acceptor>& acceptor : dead) world.close(*acceptor, fiber::now());
  }
  (void)reset_all(node);
}

SimNetwork::Stats SimNetwork::stats() const {
  const sync::MutexLock lock(nodes_->world->mutex);
  return nodes_->world->stats;
}

std::uint64_t SimNetwork::digest() const {
  const sync::MutexLock lock(nodes_->world->mutex);
  return nodes_->world->digest;
}

}  // namespace rota::net

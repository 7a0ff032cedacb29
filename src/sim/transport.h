// What lies between the simulated host and its workers: the in-process bus with faults (sim_bus.h), or the Redis bus
// over a simulated network of bytes (sim_redis.h).
//
// Thread safety: none; a simulation has one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "bus/bus.h"
#include "rota/result.h"
#include "sim/scenario.h"

namespace rota::sim {

// Called when the host passes a point; true: it crashes here.
using CrashCheck = std::function<bool(CrashPoint)>;

// One process's part in the network: whether it is alive, and whether it reaches its bus.
struct Peer {
  bool dead = false;
  std::uint64_t unreachable = 0;  // Faults that make its bus return errors now.
  // In sim_bus.h: messages of this process with a number in [first, second) are lost; drawn when it dies. By pipe.
  std::map<const void*, std::pair<std::uint64_t, std::uint64_t>> lost{};
  // In sim_redis.h: its node in the network, and what ends its tasks.
  std::string node{};
  std::function<void()> close{};
};

class Transport {
 public:
  virtual ~Transport() = default;
  // The host's end for one life. One life at a time uses it.
  virtual std::unique_ptr<bus::HostEnd> host(std::shared_ptr<Peer> peer, CrashCheck crashes) = 0;
  virtual Result<std::unique_ptr<bus::WorkerEnd>> worker(std::size_t index, std::uint32_t life,
                                                         std::shared_ptr<Peer> peer) = 0;
  // A process dies: its messages that are under way may be lost. Idempotent.
  virtual void die(Peer& peer) = 0;
  // Blocks or opens one direction; blocks add up.
  virtual void block(std::size_t worker, bool to_worker, bool blocked) = 0;
  // Something happens to the server in between, if there is one.
  virtual void disturb(const Fault& fault) = 0;
  // While it is full, every send returns an error; calls with true add up.
  virtual void set_full(bool full) = 0;
  virtual void heal() = 0;
  virtual void close() = 0;
};

}  // namespace rota::sim

// The Redis bus (bus/redis_bus.h) over a simulated network and a stand-in for Redis (net/fake_redis.h): faults at the
// level of bytes (S-1, layer b).
//
// Every process has a node of its own in the network; each life has another one, so that nothing of a dead process
// arrives later. Connections break in the middle of a message, carry one byte at a time, become half-open or are
// partitioned; Redis is restarted empty, paused, out of memory, or fails over to a stale replica.
//
// Thread safety: none; a simulation has one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bus/redis_bus.h"
#include "net/fake_redis.h"
#include "net/sim_network.h"
#include "rota/fiber/nursery.h"
#include "sim/scenario.h"
#include "sim/transport.h"
#include "sim/witness.h"

namespace rota::sim {

class SimRedis final : public Transport {
 public:
  // REQUIRES: witness and nursery outlive it.
  SimRedis(const Scenario& scenario, Witness& witness, fiber::Nursery& nursery);
  ~SimRedis() override;

  std::unique_ptr<bus::HostEnd> host(std::shared_ptr<Peer> peer, CrashCheck crashes) override;
  Result<std::unique_ptr<bus::WorkerEnd>> worker(std::size_t index, std::uint32_t life,
                                                 std::shared_ptr<Peer> peer) override;
  void die(Peer& peer) override;
  void block(std::size_t worker, bool to_worker, bool blocked) override;
  void disturb(const Fault& fault) override;
  void set_full(bool full) override;
  void heal() override;
  void close() override;

 private:
  class Host;
  class Worker;
  [[nodiscard]] bus::RedisBusOptions options();
  // Nothing of what the node sends or gets is disturbed any more.
  void calm(const std::string& node);

  const Scenario& scenario_;
  Witness& witness_;
  fiber::Nursery& nursery_;
  net::SimNetwork network_;
  std::unique_ptr<net::FakeRedis> redis_;
  std::vector<std::string> nodes_;  // The current one of each worker.
  std::uint64_t processes_ = 0;
  std::uint64_t host_nodes_ = 0;
  bool calm_ = false;
};

}  // namespace rota::sim

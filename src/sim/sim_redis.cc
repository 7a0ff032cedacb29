#include "sim/sim_redis.h"

#include <algorithm>
#include <utility>

#include "base/sim_hooks.h"
#include "net/redis_url.h"
#include "rota/fiber/time.h"

namespace rota::sim {

namespace {

using namespace std::chrono_literals;

net::SimNetworkOptions network_options(const Scenario& scenario) {
  const Noise& noise = scenario.noise;
  net::SimNetworkOptions options;
  options.seed = scenario.seed;
  options.link.latency = std::chrono::microseconds(std::max<std::int64_t>(noise.delay_us / 4, 1));
  options.link.jitter = std::chrono::microseconds(noise.delay_us / 4);
  options.link.stall_ppm = static_cast<std::uint32_t>(noise.stall_permille * 100);
  options.link.stall = 2s;
  options.link.reset_ppm = static_cast<std::uint32_t>(noise.error_permille * 30);
  options.link.half_open_ppm = static_cast<std::uint32_t>(noise.receive_error_permille * 10);
  options.link.one_byte_ppm = static_cast<std::uint32_t>(noise.duplicate_permille * 500);
  options.give_up = 5s;
  return options;
}

}  // namespace

class SimRedis::Host final : public bus::HostEnd {
 public:
  Host(SimRedis& redis, std::unique_ptr<bus::RedisHostEnd> end, std::shared_ptr<Peer> peer, CrashCheck crashes)
      : redis_(redis), end_(std::move(end)), peer_(std::move(peer)), crashes_(std::move(crashes)) {}

  Result<bus::DeliveryFromWorker> receive(nanoseconds limit) override {
    if (peer_->dead) return ErrorCode::kCancelled;
    Result<bus::DeliveryFromWorker> delivery = end_->receive(limit);
    if (peer_->dead) return ErrorCode::kCancelled;
    if (delivery.ok()) {
      ++redis_.witness_.messages;
    }
    return delivery;
  }
  Result<void> acknowledge(std::uint64_t id) override {
    if (peer_->dead) return ErrorCode::kClosed;
    return end_->acknowledge(id);
  }
  Result<void> send(const std::string& worker, model::ToWorker message) override {
    if (peer_->dead || (crashes_ && crashes_(CrashPoint::kBetweenEffects))) return ErrorCode::kClosed;
    ++redis_.witness_.messages;
    return end_->send(worker, std::move(message));
  }
  Result<void> rewind() override {
    if (peer_->dead) return ErrorCode::kClosed;
    return end_->rewind();
  }
  void expect(const std::string& worker, bool expected) override {
    if (!peer_->dead) end_->expect(worker, expected);
  }

 private:
  SimRedis& redis_;
  const std::unique_ptr<bus::RedisHostEnd> end_;
  const std::shared_ptr<Peer> peer_;
  const CrashCheck crashes_;
};

class SimRedis::Worker final : public bus::WorkerEnd {
 public:
  Worker(SimRedis& redis, std::unique_ptr<bus::RedisWorkerEnd> end, WorkerLifeId where, std::shared_ptr<Peer> peer)
      : redis_(redis), end_(std::move(end)), where_(where), peer_(std::move(peer)) {}

  Result<bus::DeliveryToWorker> receive(nanoseconds limit) override {
    if (peer_->dead) return ErrorCode::kCancelled;
    Result<bus::DeliveryToWorker> delivery = end_->receive(limit);
    if (peer_->dead) return ErrorCode::kCancelled;
    if (delivery.ok()) redis_.witness_.deliveries.push_back({where_, fiber::now(), delivery->message});
    return delivery;
  }
  Result<void> acknowledge(std::uint64_t id) override {
    if (peer_->dead) return ErrorCode::kClosed;
    return end_->acknowledge(id);
  }
  Result<void> send(model::FromWorker message) override {
    if (peer_->dead) return ErrorCode::kClosed;
    ++redis_.witness_.messages;
    const auto* report = std::get_if<model::Report>(&message);
    if (report != nullptr && report->is_final()) redis_.witness_.final_reports.push_back({fiber::now(), report->id});
    return end_->send(std::move(message));
  }

 private:
  SimRedis& redis_;
  const std::unique_ptr<bus::RedisWorkerEnd> end_;
  const WorkerLifeId where_;
  const std::shared_ptr<Peer> peer_;
};

SimRedis::SimRedis(const Scenario& scenario, Witness& witness, fiber::Nursery& nursery)
    : scenario_(scenario), witness_(witness), nursery_(nursery), network_(network_options(scenario)) {
  redis_ = net::FakeRedis::start(network_.node("redis"), {.host = "redis", .port = 6379}, nursery).value();
  nodes_.resize(scenario.workers.size());
}

SimRedis::~SimRedis() = default;

bus::RedisBusOptions SimRedis::options() {
  bus::RedisBusOptions options;
  options.url = net::RedisUrl::parse("redis://redis").value();
  options.process = ++processes_;
  options.capacity = static_cast<std::size_t>(std::max<std::int64_t>(scenario_.settings.bus_capacity, 4));
  options.reply_within = 1s;
  options.connect_within = 1s;
  options.retry_most = 200ms;
  options.send_within = 2s;
  options.acknowledge_within = 100ms;
  options.probe_after = 500ms;
  options.rejoin_within = 3s;
  return options;
}

std::unique_ptr<bus::HostEnd> SimRedis::host(std::shared_ptr<Peer> peer, CrashCheck crashes) {
  peer->node = "host-" + std::to_string(++host_nodes_);
  if (calm_) calm(peer->node);
  std::unique_ptr<bus::RedisHostEnd> end =
      bus::RedisHostEnd::open(network_.node(peer->node), options(), nursery_).value();
  peer->close = [raw = end.get()] { raw->close(); };
  return std::make_unique<Host>(*this, std::move(end), std::move(peer), std::move(crashes));
}

Result<std::unique_ptr<bus::WorkerEnd>> SimRedis::worker(std::size_t index, std::uint32_t life,
                                                         std::shared_ptr<Peer> peer) {
  const std::string& name = scenario_.workers[index].name;
  peer->node = nodes_[index] = name + "-" + std::to_string(life);
  if (calm_) calm(peer->node);
  ROTA_TRY_ASSIGN(std::unique_ptr<bus::RedisWorkerEnd> end,
                  bus::RedisWorkerEnd::open(network_.node(peer->node), options(), name, nursery_));
  peer->close = [raw = end.get()] { raw->close(); };
  return std::unique_ptr<bus::WorkerEnd>(
      std::make_unique<Worker>(*this, std::move(end), WorkerLifeId{index, life}, std::move(peer)));
}

// Bytes that are in flight arrive; nothing is sent any more.
void SimRedis::die(Peer& peer) {
  if (std::exchange(peer.dead, true)) return;
  network_.crash(peer.node);
  network_.isolate(peer.node);
  if (peer.close) peer.close();
  peer.close = nullptr;
}

void SimRedis::block(std::size_t worker, bool to_worker, bool blocked) {
  const std::string& node = nodes_[worker];
  if (node.empty()) return;
  if (!blocked) return network_.heal("redis", node);
  network_.partition_one_way(to_worker ? "redis" : node, to_worker ? node : "redis");
}

void SimRedis::disturb(const Fault& fault) {
  switch (fault.count % 7) {
    case 0:
      ROTA_SOMETIMES("redis: restarted empty");
      return redis_->restart_empty();
    case 1:
      ROTA_SOMETIMES("redis: everything lost");
      return redis_->lose_everything();
    case 2:
      redis_->remember();
      (void)fiber::sleep_for(std::chrono::milliseconds(fault.for_ms % 1000));
      ROTA_SOMETIMES("redis: failed over to a stale replica");
      return redis_->fail_over();
    case 3:
      set_full(true);
      (void)fiber::sleep_for(std::chrono::milliseconds(fault.for_ms % 5000));
      return set_full(false);
    case 4:
      ROTA_SOMETIMES("redis: paused");
      redis_->set_paused(true);
      (void)fiber::sleep_for(std::chrono::milliseconds(fault.for_ms % 5000));
      return redis_->set_paused(false);
    case 5:
      ROTA_SOMETIMES("redis: connections broken");
      return redis_->break_connections();
    default:
      network_.isolate("redis");
      (void)fiber::sleep_for(std::chrono::milliseconds(fault.for_ms % 5000));
      return network_.rejoin("redis");
  }
}

void SimRedis::set_full(bool full) {
  ROTA_SOMETIMES("redis: out of memory");
  redis_->set_out_of_memory(full);
}

void SimRedis::calm(const std::string& node) {
  network_.set_link("redis", node, {});
  network_.set_link(node, "redis", {});
}

void SimRedis::heal() {
  calm_ = true;
  redis_->set_out_of_memory(false);
  redis_->set_paused(false);
  network_.rejoin("redis");
  for (const std::string& node : nodes_) {
    if (node.empty()) continue;
    network_.heal("redis", node);
    calm(node);
  }
  calm("host-" + std::to_string(host_nodes_));
}

void SimRedis::close() { redis_->close(); }

}  // namespace rota::sim

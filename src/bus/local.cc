#include "bus/local.h"

#include <utility>

#include "base/json_text.h"

namespace rota::bus {

class LocalBus::Host : public HostEnd {
 public:
  explicit Host(LocalBus* bus) : bus_(bus) {}
  Result<DeliveryFromWorker> receive(std::chrono::nanoseconds limit) override {
    ROTA_TRY_ASSIGN(auto delivery, bus_->to_host_.receive(limit));
    return DeliveryFromWorker{delivery.id, std::move(delivery.message.worker), std::move(delivery.message.message)};
  }
  Result<void> acknowledge(std::uint64_t id) override {
    bus_->to_host_.acknowledge(id);
    return {};
  }
  Result<void> send(const std::string& worker, model::ToWorker message) override {
    const std::shared_ptr<Lane> lane = bus_->find(worker);
    if (lane == nullptr) {
      return Error{ErrorCode::kNotFound,
                   "no worker named '" + printable(worker) + "' has ever been connected to this bus"};
    }
    return lane->queue.send(std::move(message));
  }
  Result<void> rewind() override {
    bus_->to_host_.rewind();
    return {};
  }

 private:
  LocalBus* bus_;
};

class LocalBus::Worker : public WorkerEnd {
 public:
  Worker(LocalBus* bus, std::string name, std::shared_ptr<Lane> lane)
      : bus_(bus), name_(std::move(name)), lane_(std::move(lane)) {}
  ~Worker() override {
    const sync::MutexLock lock(bus_->mutex_);
    lane_->connected = false;
  }
  Result<DeliveryToWorker> receive(std::chrono::nanoseconds limit) override {
    ROTA_TRY_ASSIGN(auto delivery, lane_->queue.receive(limit));
    return DeliveryToWorker{delivery.id, std::move(delivery.message)};
  }
  Result<void> acknowledge(std::uint64_t id) override {
    lane_->queue.acknowledge(id);
    return {};
  }
  Result<void> send(model::FromWorker message) override { return bus_->to_host_.send({name_, std::move(message)}); }

 private:
  LocalBus* bus_;
  const std::string name_;
  const std::shared_ptr<Lane> lane_;
};

LocalBus::LocalBus(std::size_t capacity)
    : capacity_(capacity), to_host_(capacity), host_(std::make_unique<Host>(this)) {}
LocalBus::~LocalBus() = default;

HostEnd& LocalBus::host() { return *host_; }

std::shared_ptr<LocalBus::Lane> LocalBus::find(const std::string& worker) {
  const sync::MutexLock lock(mutex_);
  const auto found = lanes_.find(worker);
  return found == lanes_.end() ? nullptr : found->second;
}

Result<std::unique_ptr<WorkerEnd>> LocalBus::connect(const std::string& worker) {
  const sync::MutexLock lock(mutex_);
  if (closed_) return ErrorCode::kClosed;
  std::shared_ptr<Lane>& lane = lanes_[worker];
  if (lane == nullptr) lane = std::make_shared<Lane>(capacity_);
  if (lane->connected) {
    return Error{ErrorCode::kAlreadyExists,
                 "a worker named '" + printable(worker) + "' is connected already; give this worker another name"};
  }
  lane->connected = true;
  lane->queue.rewind();
  return std::unique_ptr<WorkerEnd>(std::make_unique<Worker>(this, worker, lane));
}

void LocalBus::close() {
  const sync::MutexLock lock(mutex_);
  closed_ = true;
  to_host_.close();
  for (auto& [name, lane] : lanes_) lane->queue.close();
}

}  // namespace rota::bus

#include "sim/sim_bus.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/sim_hooks.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::sim {

namespace {
constexpr nanoseconds kErrorAfter = std::chrono::milliseconds(5);  // Before a call fails because of an outage.
constexpr std::uint64_t kStallMostMs = 5000;
constexpr std::int64_t kLatePermille = 500;  // Of the messages that a dead host has left behind.

// Wakes a worker that waits for a message when the bus was restarted. No host sends it.
bool is_sentinel(const model::ToWorker& message) {
  const auto* again = std::get_if<model::RegisterAgain>(&message);
  return again != nullptr && again->term.is_none();
}
}  // namespace

class SimBus::Host final : public bus::HostEnd {
 public:
  Host(SimBus& bus, std::shared_ptr<Peer> peer, CrashCheck crashes)
      : bus_(bus), peer_(std::move(peer)), crashes_(std::move(crashes)) {}

  Result<bus::DeliveryFromWorker> receive(nanoseconds limit) override {
    if (peer_->dead) return ErrorCode::kCancelled;
    if (peer_->unreachable > 0 || bus_.chance("host receive", bus_.noise_.receive_error_permille)) {
      ROTA_SOMETIMES("bus: the host cannot receive");
      ROTA_TRY(fiber::sleep_for(std::min(limit, kErrorAfter)));
      return ErrorCode::kUnavailable;
    }
    for (;;) {
      Result<bus::DeliveryFromWorker> delivery = bus_.bus_.host().receive(limit);
      if (peer_->dead) return ErrorCode::kCancelled;
      if (!delivery.ok()) return delivery;
      if (delivery->id <= bus_.host_lost_id_) {
        (void)bus_.bus_.host().acknowledge(delivery->id);  // A lost message takes no room. All before it are lost, too.
        continue;
      }
      const auto* report = std::get_if<model::Report>(&delivery->message);
      const bool is_final = report != nullptr && report->is_final();
      bus_.taken_[delivery->id] = {fiber::now(), is_final, is_final ? report->id : model::AttemptId()};
      return delivery;
    }
  }
  Result<void> acknowledge(std::uint64_t id) override {
    if (peer_->dead) return ErrorCode::kClosed;
    if (peer_->unreachable > 0) return ErrorCode::kUnavailable;
    for (auto taken = bus_.taken_.begin(); taken != bus_.taken_.end() && taken->first <= id;) {
      if (taken->second.is_final) bus_.witness_.acknowledged.push_back({fiber::now(), taken->second.report});
      taken = bus_.taken_.erase(taken);
    }
    return bus_.bus_.host().acknowledge(id);
  }
  Result<void> send(const std::string& worker, model::ToWorker message) override {
    if (peer_->dead || (crashes_ && crashes_(CrashPoint::kBetweenEffects))) return ErrorCode::kClosed;
    if (peer_->unreachable > 0 || bus_.full_ > 0) {
      if (bus_.full_ > 0) ROTA_SOMETIMES("bus: a send finds the bus full");
      ROTA_TRY(fiber::sleep_for(kErrorAfter));
      return ErrorCode::kUnavailable;
    }
    const auto found = bus_.by_name_.find(worker);
    if (found == bus_.by_name_.end() || !bus_.links_[found->second]->known) return ErrorCode::kNotFound;
    if (const auto* assign = std::get_if<model::Assign>(&message);
        assign != nullptr && bus_.assigned_.emplace(worker, assign->id, assign->term.value()).second) {
      bus_.witness_.assignments.push_back({worker, assign->id, assign->term.value(), assign->resources.gpus > 0});
    }
    const Result<void> sent = bus_.put(bus_.links_[found->second]->to_worker, std::move(message), peer_);
    if (std::exchange(bus_.lose_next_, false)) bus_.lose_everything();
    return sent;
  }
  Result<void> rewind() override {
    if (peer_->dead) return ErrorCode::kClosed;
    return bus_.bus_.host().rewind();
  }

 private:
  SimBus& bus_;
  const std::shared_ptr<Peer> peer_;
  const CrashCheck crashes_;
};

class SimBus::Worker final : public bus::WorkerEnd {
 public:
  Worker(SimBus& bus, Link& link, WorkerLifeId where, std::shared_ptr<Peer> peer)
      : bus_(bus), link_(link), where_(where), peer_(std::move(peer)) {}

  Result<bus::DeliveryToWorker> receive(nanoseconds limit) override {
    if (peer_->dead) return ErrorCode::kCancelled;
    if (peer_->unreachable > 0 || bus_.chance("worker receive", bus_.noise_.receive_error_permille)) {
      ROTA_SOMETIMES("bus: a worker cannot receive");
      ROTA_TRY(fiber::sleep_for(std::min(limit, kErrorAfter)));
      return ErrorCode::kUnavailable;
    }
    if (owed_ > 0) (void)link_.end->acknowledge(std::exchange(owed_, 0));
    for (;;) {
      Result<bus::DeliveryToWorker> delivery = link_.end->receive(limit);
      if (peer_->dead) return ErrorCode::kCancelled;
      if (!delivery.ok()) return delivery;
      if (delivery->id <= link_.lost_id) {
        (void)link_.end->acknowledge(delivery->id);
        if (!is_sentinel(delivery->message)) continue;
        ROTA_SOMETIMES("bus: a worker notices that the bus was restarted");
        return ErrorCode::kUnavailable;
      }
      bus_.witness_.deliveries.push_back({where_, fiber::now(), delivery->message});
      return delivery;
    }
  }
  Result<void> acknowledge(std::uint64_t id) override {
    if (peer_->dead) return ErrorCode::kClosed;
    if (peer_->unreachable > 0) {
      owed_ = id;  // The worker does not try again: its end of a bus does, once it is connected.
      return ErrorCode::kUnavailable;
    }
    owed_ = 0;
    return link_.end->acknowledge(id);
  }
  Result<void> send(model::FromWorker message) override {
    if (peer_->dead) return ErrorCode::kClosed;
    if (peer_->unreachable > 0 || bus_.full_ > 0) {
      if (bus_.full_ > 0) ROTA_SOMETIMES("bus: a send finds the bus full");
      ROTA_TRY(fiber::sleep_for(kErrorAfter));
      return ErrorCode::kUnavailable;
    }
    const auto* report = std::get_if<model::Report>(&message);
    if (report != nullptr && report->is_final()) bus_.witness_.final_reports.push_back({fiber::now(), report->id});
    return bus_.put(link_.to_host, std::move(message), peer_);
  }

 private:
  SimBus& bus_;
  Link& link_;
  const WorkerLifeId where_;
  const std::shared_ptr<Peer> peer_;
  std::uint64_t owed_ = 0;  // An acknowledgement that did not reach the bus.
};

SimBus::SimBus(const Scenario& scenario, const Noise& noise, Witness& witness, fiber::Nursery& nursery)
    : seed_(scenario.seed),
      noise_(noise),
      witness_(witness),
      nursery_(nursery),
      bus_(static_cast<std::size_t>(scenario.settings.bus_capacity)) {
  for (std::size_t i = 0; i < scenario.workers.size(); ++i) {
    by_name_.emplace(scenario.workers[i].name, i);
    Link& link = *links_.emplace_back(std::make_unique<Link>(static_cast<std::size_t>(scenario.settings.bus_capacity)));
    nursery.launch([this, &link, name = scenario.workers[i].name] {
      carry<model::ToWorker>(link.to_worker, [this, &link, name](model::ToWorker message) {
        if (bus_.host().send(name, std::move(message)).ok()) ++link.to_worker.entered;
      });
    });
    nursery.launch([this, &link] {
      carry<model::FromWorker>(link.to_host, [this, &link](model::FromWorker message) {
        // The end of LocalBus belongs to the name: messages of a life that has ended still arrive.
        if (link.end != nullptr && link.end->send(std::move(message)).ok()) ++host_entered_;
      });
    });
  }
}

SimBus::~SimBus() = default;

std::unique_ptr<bus::HostEnd> SimBus::host(std::shared_ptr<Peer> peer, CrashCheck crashes) {
  return std::make_unique<Host>(*this, std::move(peer), std::move(crashes));
}

Result<std::unique_ptr<bus::WorkerEnd>> SimBus::worker(std::size_t index, std::uint32_t life,
                                                       std::shared_ptr<Peer> peer) {
  Link& link = *links_[index];
  for (const auto& [name, at] : by_name_) {
    if (at != index) continue;
    link.end.reset();  // What the earlier life did not acknowledge is delivered again.
    ROTA_TRY_ASSIGN(link.end, bus_.connect(name));
  }
  link.known = true;
  return std::unique_ptr<bus::WorkerEnd>(
      std::make_unique<Worker>(*this, link, WorkerLifeId{index, life}, std::move(peer)));
}

template <class T>
Result<void> SimBus::put(Pipe<T>& pipe, T message, const std::shared_ptr<Peer>& sender) {
  ++witness_.messages;
  const bool fails = chance("send error", noise_.error_permille);
  if (fails && chance("not sent", 500)) {
    ROTA_SOMETIMES("bus: a send fails");
    return ErrorCode::kUnavailable;
  }
  nanoseconds delay =
      std::chrono::microseconds(1 + draw_now("delay") % (2 * static_cast<std::uint64_t>(noise_.delay_us)));
  if (chance("stall", noise_.stall_permille)) {
    ROTA_SOMETIMES("bus: a message is stalled");
    delay += std::chrono::milliseconds(draw_now("stall for") % kStallMostMs);
  }
  pipe.last_due = std::max(pipe.last_due, fiber::now() + delay);  // In order.
  Item<T> item{std::move(message), pipe.last_due, ++pipe.sent, sender};
  try {
    if (!pipe.items.send(std::move(item))) return ErrorCode::kClosed;
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  if (fails) {
    ROTA_SOMETIMES("bus: a send fails and the message arrives");
    return ErrorCode::kUnavailable;
  }
  return {};
}

void SimBus::note_late(const model::FromWorker& message) {
  if (std::holds_alternative<model::Register>(message)) witness_.late_registration = fiber::now();
}

template <class T>
void SimBus::carry(Pipe<T>& pipe, const std::function<void(T)>& deliver) {
  const auto again_later = [&](const Item<T>& item) {
    const nanoseconds later = std::chrono::milliseconds(draw_now("duplicate after") % 3000);
    // A task of its own, so that the copy arrives after messages that were sent later.
    nursery_.launch([this, &pipe, copy = item.message, number = item.number, later, deliver]() mutable {
      if (!fiber::sleep_for(later).ok()) return;
      try {
        pipe.open.wait();
        if (number <= pipe.lost) return;
        ROTA_SOMETIMES("bus: a message arrives twice, or late");
        note_late(copy);
        deliver(std::move(copy));
      } catch (const fiber::Cancelled&) {
      }
    });
  };
  try {
    while (std::optional<Item<T>> item = pipe.items.receive()) {
      if (item->due > fiber::now()) (void)hurry_.wait_for(item->due - fiber::now());
      pipe.open.wait();
      pipe.delivered = item->number;
      if (item->number <= pipe.lost) {
        ROTA_SOMETIMES("bus: a message is lost with the bus");
        continue;
      }
      if (const auto lost = item->sender->lost.find(&pipe); lost != item->sender->lost.end() &&
                                                            item->number >= lost->second.first &&
                                                            item->number < lost->second.second) {
        ROTA_SOMETIMES("bus: a message is lost with its sender");
        // Or it was only slow: it arrives when the next host has long been speaking, and must not count any more.
        if (std::is_same_v<T, model::ToWorker> && noise_.duplicate_permille > 0 && chance("late", kLatePermille)) {
          if (chance("overtaken", 500)) {
            pipe.overtaken.push_back(std::move(*item));
          } else {
            again_later(*item);
          }
        }
        continue;
      }
      if (chance("duplicate", noise_.duplicate_permille)) again_later(*item);
      deliver(std::move(item->message));
      if (pipe.overtaken.empty() || pipe.overtaken.front().sender == item->sender) continue;
      for (Item<T>& late : std::exchange(pipe.overtaken, {})) {
        if (late.number <= pipe.lost) continue;
        ROTA_SOMETIMES("bus: a message of a dead host is overtaken by the next host's");
        deliver(std::move(late.message));
      }
    }
  } catch (const fiber::Cancelled&) {
  }
}

template <class T>
void SimBus::lose_tail(Pipe<T>& pipe, Peer& peer) {
  if (pipe.sent == pipe.delivered) return;
  const std::uint64_t from = pipe.delivered + 1 + draw_now("lost from") % (pipe.sent - pipe.delivered + 1);
  peer.lost[&pipe] = {from, pipe.sent + 1};
}

void SimBus::die(Peer& peer) {
  peer.dead = true;
  for (const std::unique_ptr<Link>& link : links_) {
    lose_tail(link->to_worker, peer);
    lose_tail(link->to_host, peer);
  }
}

void SimBus::block(std::size_t worker, bool to_worker, bool blocked) {
  const auto change = [blocked](auto& pipe) {
    pipe.blocks = blocked ? pipe.blocks + 1 : pipe.blocks - std::min<std::uint64_t>(pipe.blocks, 1);
    if (pipe.blocks == 0) {
      pipe.open.set();
    } else {
      pipe.open.reset();
    }
  };
  if (to_worker) {
    change(links_[worker]->to_worker);
  } else {
    change(links_[worker]->to_host);
  }
}

void SimBus::disturb(const Fault& fault) {
  if (fault.count % 2 == 0) return lose_everything();
  lose_next_ = true;
}

void SimBus::lose_everything() {
  host_lost_id_ = host_entered_;
  taken_.erase(taken_.begin(), taken_.upper_bound(host_lost_id_));
  for (const auto& [name, index] : by_name_) {
    Link& link = *links_[index];
    link.to_worker.lost = link.to_worker.sent;
    link.to_host.lost = link.to_host.sent;
    if (!link.known) continue;
    // Its id follows those of the messages before it.
    nursery_.launch([this, &link, name] {
      if (bus_.host().send(name, model::RegisterAgain{}).ok()) link.lost_id = ++link.to_worker.entered;
    });
  }
}

void SimBus::set_full(bool full) { full_ = full ? full_ + 1 : full_ - std::min<std::uint64_t>(full_, 1); }

void SimBus::heal() {
  hurry_.set();
  full_ = 0;
  lose_next_ = false;
  for (const std::unique_ptr<Link>& link : links_) {
    link->to_worker.blocks = link->to_host.blocks = 0;
    link->to_worker.open.set();
    link->to_host.open.set();
  }
}

void SimBus::close() {
  // A host that runs acknowledges what it has handled. What was taken in the last moments may still be on its way.
  for (const auto& [id, taken] : taken_) {
    if (witness_.ended - taken.at < std::chrono::seconds(1)) continue;
    witness_.never_acknowledged.push_back("message " + std::to_string(id) + ", taken at " +
                                          std::to_string(taken.at.count() / 1'000'000) + " ms");
  }
  heal();
  bus_.close();
  for (const std::unique_ptr<Link>& link : links_) {
    link->to_worker.items.close();
    link->to_host.items.close();
  }
}

}  // namespace rota::sim

// The in-process bus (bus/local.h) with a network in between that delays, duplicates and loses, and with partitions
// (S-1).
//
//   HostEnd.send ──► pipe (one per worker) ── delay, partition ──► LocalBus ──► WorkerEnd.receive
//   HostEnd.receive ◄── LocalBus ◄── delay, partition ── pipe (one per worker) ◄── WorkerEnd.send
//
// The faults are those that bus.h allows. A live sender's messages arrive at least once and, the first time, in order.
// A message may arrive a second time, later. A send may return an error, and then the message arrives or not. When a
// process dies, a drawn part of what it has sent and what has not arrived yet is lost, or, of a host, arrives much
// later, or just after the first message of the next host. While its bus is unreachable, a process gets errors.
//
// Thread safety: none; a simulation has one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "bus/bus.h"
#include "bus/local.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/sync.h"
#include "sim/scenario.h"
#include "sim/transport.h"
#include "sim/witness.h"

namespace rota::sim {

class SimBus final : public Transport {
 public:
  // REQUIRES: noise, witness and nursery outlive it. Carriers run in the nursery until close().
  SimBus(const Scenario& scenario, const Noise& noise, Witness& witness, fiber::Nursery& nursery);
  ~SimBus() override;

  std::unique_ptr<bus::HostEnd> host(std::shared_ptr<Peer> peer, CrashCheck crashes) override;
  Result<std::unique_ptr<bus::WorkerEnd>> worker(std::size_t index, std::uint32_t life,
                                                 std::shared_ptr<Peer> peer) override;
  void die(Peer& peer) override;
  void block(std::size_t worker, bool to_worker, bool blocked) override;
  // Everything that is under way is lost, as when a server in between restarts empty: now, or when the host has sent
  // its next message. The workers' ends return an error once, also those that wait.
  void disturb(const Fault& fault) override;
  void set_full(bool full) override;
  void heal() override;
  void close() override;

 private:
  template <class T>
  struct Item {
    T message;
    nanoseconds due{0};
    std::uint64_t number = 0;
    std::shared_ptr<Peer> sender;
  };
  template <class T>
  struct Pipe {
    explicit Pipe(std::size_t capacity) : items(capacity) {}
    fiber::Channel<Item<T>> items;
    std::uint64_t sent = 0;  // Numbers of messages.
    std::uint64_t delivered = 0;
    std::uint64_t lost = 0;     // Messages up to this number were lost.
    std::uint64_t entered = 0;  // Messages that have arrived in the queue of LocalBus.
    nanoseconds last_due{0};
    std::uint64_t blocks = 0;
    fiber::Event open{true};
    std::vector<Item<T>> overtaken{};  // Of a host that is dead: they arrive after the first message of the next one.
  };
  struct Link {
    explicit Link(std::size_t capacity) : to_worker(capacity), to_host(capacity) {}
    Pipe<model::ToWorker> to_worker;
    Pipe<model::FromWorker> to_host;
    std::unique_ptr<bus::WorkerEnd> end{};  // Of LocalBus; kept until the next life: what was sent still arrives.
    bool known = false;                     // A worker has been connected under this name.
    std::uint64_t lost_id = 0;              // What LocalBus had for the worker up to this id was lost.
  };
  class Host;
  class Worker;

  void lose_everything();
  template <class T>
  Result<void> put(Pipe<T>& pipe, T message, const std::shared_ptr<Peer>& sender);
  // A copy of the message arrives now, after others that were sent later.
  void note_late(const model::FromWorker& message);
  void note_late(const model::ToWorker&) {}
  // Moves messages from a pipe to where deliver() puts them.
  template <class T>
  void carry(Pipe<T>& pipe, const std::function<void(T)>& deliver);
  template <class T>
  void lose_tail(Pipe<T>& pipe, Peer& peer);
  [[nodiscard]] std::uint64_t draw_now(std::string_view what) { return draw(seed_, what, ++draws_); }
  [[nodiscard]] bool chance(std::string_view what, std::int64_t permille) {
    return permille > 0 && draw_now(what) % 1000 < static_cast<std::uint64_t>(permille);
  }

  const std::uint64_t seed_;
  const Noise& noise_;
  Witness& witness_;
  fiber::Nursery& nursery_;
  bus::LocalBus bus_;
  fiber::Event hurry_;                        // Set when the faults have ended: nothing is delayed any more.
  std::vector<std::unique_ptr<Link>> links_;  // By worker.
  std::map<std::string, std::size_t> by_name_;
  std::uint64_t draws_ = 0;
  bool lose_next_ = false;          // The next message of the host is lost, with everything before it.
  std::uint64_t full_ = 0;          // Faults because of which nothing can be sent now.
  std::uint64_t host_entered_ = 0;  // As Pipe::entered and Link::lost_id, for the queue that all workers share.
  std::uint64_t host_lost_id_ = 0;
  struct Taken {
    nanoseconds at{0};
    bool is_final = false;
    model::AttemptId report{};
  };
  std::map<std::uint64_t, Taken> taken_;  // Deliveries to hosts that no host has acknowledged yet, by id.
  std::set<std::tuple<std::string, model::AttemptId, std::uint64_t>> assigned_;  // In Witness::assignments.
};

}  // namespace rota::sim

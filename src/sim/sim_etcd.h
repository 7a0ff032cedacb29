// The replicated ledger (ledger/etcd_ledger.h) on a stand-in for etcd (ledger/fake_store.h) under the real host (S-1,
// layer b).
//
// Every life of a host has a client of its own, opens the ledger, campaigns and leads. Calls are lost, executed without
// an answer, or executed late; leases end early, so that a leader that still works is deposed; the store is out of
// space. A dead host's client executes nothing any more, apart from what is under way.
//
// An observer without faults follows the log and stores each record on the world's SimDisk at the instant at which it
// becomes part of the log: that is what the checkers call durable. A leader learns it later, because a call takes time.
//
// Thread safety: none; a simulation has one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ledger/etcd_ledger.h"
#include "ledger/fake_store.h"
#include "rota/fiber/nursery.h"
#include "sim/scenario.h"
#include "sim/sim_ledger.h"

namespace rota::sim {

class SimEtcd {
 public:
  // REQUIRES: noise, disk and nursery outlive it.
  SimEtcd(const Noise& noise, SimDisk& disk, fiber::Nursery& nursery) : noise_(noise), disk_(disk), nursery_(nursery) {}

  // The task of the observer; until it is cancelled.
  void observe();
  [[nodiscard]] std::unique_ptr<LifeLedger> life(std::uint64_t number, CrashCheck crashes);
  void heal() { store_.set_no_space(false); }

 private:
  class Life;

  const Noise& noise_;
  SimDisk& disk_;
  fiber::Nursery& nursery_;
  ledger::kv::FakeStore store_;
  std::map<std::string, std::uint64_t> written_by_;  // The life that submitted a record, by its bytes.
};

}  // namespace rota::sim

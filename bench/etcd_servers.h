// The etcd servers of the rows about the replicated ledger (P-19): three on loopback, their data on the disk, for as
// long as this object lives. Make it in main's thread: the servers die with the thread that starts them.
#pragma once

#include <memory>

#include "ledger/etcd_server_testing.h"
#include "ledger/etcd_store.h"
#include "net/stream.h"
#include "rota/fiber/nursery.h"

namespace bench {

class EtcdServers {
 public:
  // The store's tasks run in the nursery.
  [[nodiscard]] std::unique_ptr<rota::ledger::kv::Store> connect(rota::fiber::Nursery& nursery) const {
    return std::make_unique<rota::ledger::kv::EtcdStore>(rota::net::real_network(), cluster_.client_options(), nursery);
  }

 private:
  rota::ledger::kv::EtcdCluster cluster_{{.on_disk = true}};
};

}  // namespace bench

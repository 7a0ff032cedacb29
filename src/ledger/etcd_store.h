// EtcdStore: kv::Store on an etcd cluster (version 3.4 or newer), through its gRPC interface.
//
// Connects to any of the endpoints, and to the next one when a member fails, is cut off from the others ("no leader")
// or does not answer (net/grpc.h). A request that certainly was not sent is repeated until the deadline; other failures
// are returned, and the caller resolves them.
// Thread safety: as kv::Store.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/kv_store.h"
#include "net/grpc.h"
#include "rota/fiber/nursery.h"

namespace rota::ledger::kv {

class EtcdStore final : public Store {
 public:
  // The network and the nursery, in which the tasks of the connection run, outlive it. For TLS the network is a
  // net::TlsNetwork whose context offers the protocol "h2", and options.tls is set.
  EtcdStore(net::Network& network, net::GrpcOptions options, fiber::Nursery& nursery);
  ~EtcdStore() override;

  Result<RangeResult> range(const RangeRequest& request, Deadline deadline) override;
  Result<TxnResult> txn(const Txn& txn, Deadline deadline) override;
  Result<Lease> lease_grant(std::chrono::seconds ttl, Deadline deadline) override;
  Result<void> lease_keep(std::int64_t lease, Deadline deadline) override;
  Result<void> lease_revoke(std::int64_t lease, Deadline deadline) override;
  Result<std::unique_ptr<Watch>> watch(const KeyRange& range, std::int64_t revision, Deadline deadline) override;
  Result<void> compact(std::int64_t revision, Deadline deadline) override;
  // Calls and watches that wait get Closed. Idempotent; never waits.
  void close();

 private:
  Result<std::string> call(std::string_view path, std::string_view message, Deadline deadline);
  const std::shared_ptr<net::GrpcClient> client_;
};

// "http://10.0.0.1:2379,http://10.0.0.2:2379": endpoints and whether they use TLS. InvalidArgument if one is wrong, or
// some use TLS and others do not.
Result<net::GrpcOptions> parse_etcd_urls(std::string_view urls);

}  // namespace rota::ledger::kv

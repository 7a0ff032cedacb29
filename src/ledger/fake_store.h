// FakeStore: kv::Store in memory, on the runtime's clock, with faults; for tests and simulations.
//
// Revisions, transactions, leases, watches and compaction follow etcd's rules (kv_conformance.h runs against both).
// Several clients share one FakeStore, each through a client() of its own, as hosts share a cluster; a client can be
// cut off or given a fault plan without disturbing the others.
//
// No task belongs to it: leases end when somebody looks at the store after their time, and a waiting watch wakes up at
// the end of the next lease.
// Thread safety: every function from any task.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "ledger/kv_store.h"

namespace rota::ledger::kv {

// What happens to one call.
enum class Fault : std::uint8_t {
  kNone,
  kLost,        // Unavailable; the call was not executed.
  kUnanswered,  // Unavailable; the call was executed.
  kLate,        // Unavailable; a transaction is executed before the client's next call but one.
};

enum class CallKind : std::uint8_t { kRange, kTxn, kLeaseGrant, kLeaseKeep, kLeaseRevoke, kWatch, kCompact };

class FakeStore {
 public:
  FakeStore();
  ~FakeStore();
  FakeStore(const FakeStore&) = delete;
  FakeStore& operator=(const FakeStore&) = delete;

  // Consulted before each call of a client. It may wait and use other clients: so another host acts between two steps.
  using Plan = std::function<Fault(CallKind kind, const Txn* txn)>;
  // A client's view of the store. It may outlive the FakeStore. `latency` passes before and after each call.
  [[nodiscard]] std::unique_ptr<Store> client(Plan plan = {}, std::chrono::nanoseconds latency = {});

  // Every lease ends now, as after a long pause of its owner.
  void expire_leases();
  // Removes the whole history: watches that lag behind, and reads at older revisions, get is_compacted().
  void compact_all();
  // While set, changes that need space are refused with NoSpace.
  void set_no_space(bool on);
  // While set, every call waits and then returns Unavailable without being executed.
  void set_down(bool on);

  struct Stats {
    std::int64_t revision = 0;
    std::size_t keys = 0;
    std::size_t old_versions = 0;   // Kept beside the newest ones until compact().
    std::uint64_t txns = 0;         // Executed.
    std::int64_t most_deleted = 0;  // Keys that one transaction deleted at most.
  };
  [[nodiscard]] Stats stats() const;

 private:
  friend class FakeClient;
  friend class FakeWatch;
  struct World;
  const std::shared_ptr<World> world_;
};

}  // namespace rota::ledger::kv

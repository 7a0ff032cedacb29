// ReplicatedLedger: the log that several hosts share, as one of them sees it for as long as it lives (L-3).
//
//   auto ledger = ReplicatedLedger::open(store, {.name = "https://a:7070"}, nursery, deadline);
//   for (;;) {
//     const auto term = (*ledger)->lead();     // waits; meanwhile the log is followed: wait_beyond(), read()
//     ...append until wait_deposed() returns or an append fails...
//     (*ledger)->follow();                     // a follower again
//   }
//
// An EtcdLedger leads at most once and refuses every change afterwards. This object replaces it by a new one at the end
// of each term, so that those who read the log need not know about terms. Reads continue during the change.
//
// Thread safety: as Ledger. lead(), follow() and raise_terms() from one task at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/sync.h"
#include "ledger/etcd_ledger.h"
#include "ledger/kv_store.h"
#include "ledger/ledger.h"
#include "rota/fiber/nursery.h"

namespace rota::ledger {

class ReplicatedLedger final : public Ledger {
 public:
  // Errors as EtcdLedger::open(). The store and the nursery outlive it.
  static Result<std::unique_ptr<ReplicatedLedger>> open(kv::Store& store, EtcdLedgerOptions options,
                                                        fiber::Nursery& nursery, kv::Deadline deadline);
  ~ReplicatedLedger() override;

  // Waits until this host leads, however long that takes, and returns the term. An unreachable store is only a reason
  // to wait. Corrupt, Unsupported, PermissionDenied and the like as the store answers; Cancelled; Closed.
  Result<std::uint64_t> lead();
  // Waits until this host does not lead any more, and returns why; Closed if the ledger was closed.
  Error wait_deposed();
  // Gives up the leadership, if this host has it, and follows. Waits until the store can be reached; Cancelled.
  Result<void> follow();
  // As EtcdLedger::raise_terms(). The caller follows and leads again to get a higher term.
  Result<void> raise_terms(std::uint64_t term);
  [[nodiscard]] bool is_leading() const;
  // Leads, and has renewed its lease in time.
  [[nodiscard]] bool holds_lease() const;
  // The address of the leader as far as it is known; empty: there is none.
  [[nodiscard]] std::string leader() const;
  // What a client gets that asks this host for a decision while it does not lead: NotLeader, with the detail "leader".
  [[nodiscard]] Error not_leader() const;
  // Waits until last_index() is above `index`. Cancelled; Closed; other errors while the store is unreachable.
  Result<void> wait_beyond(std::uint64_t index);

  Result<void> submit(std::span<const RecordBytes> records) override;
  Result<void> wait_durable(std::uint64_t index) override;
  Result<std::vector<RecordBytes>> read(std::uint64_t from, std::size_t max_records) override;
  [[nodiscard]] std::uint64_t first_index() const override;
  [[nodiscard]] std::uint64_t last_index() const override;
  [[nodiscard]] std::uint64_t submitted_index() const override;
  [[nodiscard]] Result<void> check_writable() const override;
  Result<void> save_snapshot(Snapshot snapshot) override;
  Result<std::optional<Snapshot>> latest_snapshot() override;
  Result<void> compact(std::uint64_t up_to) override;
  Result<void> backup(const std::string& path) override;
  Result<void> close() override;

 private:
  ReplicatedLedger(kv::Store& store, EtcdLedgerOptions options, fiber::Nursery& nursery,
                   std::unique_ptr<EtcdLedger> first);
  [[nodiscard]] std::shared_ptr<EtcdLedger> current() const;
  // Calls read(ledger) again if the ledger was replaced meanwhile.
  template <class Read>
  auto reading(Read&& read);

  kv::Store& store_;
  const EtcdLedgerOptions options_;
  fiber::Nursery& nursery_;
  mutable sync::Mutex mutex_;
  std::shared_ptr<EtcdLedger> current_ ROTA_GUARDED_BY(mutex_);
  bool leading_ ROTA_GUARDED_BY(mutex_) = false;  // From the return of lead() to the call of follow().
  bool closed_ ROTA_GUARDED_BY(mutex_) = false;
};

}  // namespace rota::ledger

// EtcdLedger: the log in a replicated key-value store, with one leader that writes and any number of followers (L-3).
//
//   auto ledger = EtcdLedger::open(store, {.name = "host-a:8080"}, nursery);   // a follower: reads, waits for the tail
//   ROTA_TRY_ASSIGN(std::uint64_t term, ledger->campaign(deadline));          // waits until it leads
//   ledger->append(...);                                                      // until it is deposed
//
// The protocol. etcd_format.h lists the keys. `leader` is attached to a lease, so it disappears when its owner falls
// silent. To campaign is one transaction: if create_revision(leader) = 0, put leader. The revision at which it succeeds
// becomes create_revision(leader); it is the leader's *term*. Every change that a leader makes is a transaction that
// compares create_revision(leader) with its term. An append also compares mod_revision(head) with the one that the
// leader wrote or read last, and puts the batch `log/<first>` and the new `head` together. One append is in flight at
// a time; records that are submitted meanwhile form the next batch (at most 128 records or 512 KiB).
//
// Why it is correct.
//   (A) Terms are unique and increase: each is the revision of a different transaction, and revisions only grow. Two
//       hosts that start together cannot both create the key.
//   (B) Once another host leads, or the key is gone, no change of an older leader can be applied, however late it
//       arrives: its comparison fails, because create_revision(leader) never takes an old value again. Leases, clocks
//       and watches are not part of this argument; they only decide how soon somebody takes over.
//   (C) The log has no gaps and nothing is overwritten: a batch at last + 1 is put only together with head, and only if
//       head is still the one that says `last`. Within a term only one task appends; between terms see (B), and a new
//       leader reads head after its own campaign, hence after the last append of any older leader.
//   (D) An unanswered append is resolved by sending the same transaction again. If that succeeds, the first one had no
//       effect and never will, because head has moved. If it fails while leader is still ours, then head moved, and
//       only our first attempt can have moved it: it was applied (the value of head is compared as well). If it fails
//       because leader is not ours, the batch is looked up by its key: only its own bytes, which contain the term,
//       count as applied. Reading head alone would not do: the first attempt may still be under way.
//   (E) Records above a request's limit are written as pieces first, each by a fenced transaction that may be repeated,
//       and become part of the log by the append of a batch that refers to them. Pieces that no batch refers to belong
//       to appends that never happened; the next leader removes them before it appends. Snapshots likewise:
//       `snapshot` is moved by one fenced transaction after all pieces are there.
//   (F) Compaction first moves `base`, by a fenced transaction, and then deletes whole batches, 100 keys at a time, and
//       the store's own history. A reader that misses a batch reads base again: it is either compacted or damage.
//   (G) A follower applies what `head` says, which changes only together with the log. If its watch lost changes
//       because the history was compacted, it reads the keys again.
//
// The term that campaign() returns is create_revision(leader) + `terms`, a number that the first leader of a log writes
// and that only a leader changes (raise_terms()). It makes terms continue those of a log that was copied from another
// store, or restored from a backup, whose revisions begin again at a lower number. (A) holds for the sum within a
// store: a change of `terms` is fenced, never lowers it, and takes effect with the next campaign.
//
// After a failed append, or once deposed, the object refuses every change for good (NotLeader, with the new leader's
// name if it is known); reading continues. Open another one to follow or to lead again. While the store cannot be
// reached, an append waits and is resolved when it is back. NoSpace (the store's quota) fails the object as a full disk
// does.
//
// Guarantee (1) of Ledger holds as long as a majority of the store's members keep their disks.
// Bounds: pending_bytes_max of submitted records; snapshot_bytes_max (256 MiB), because etcd holds everything in
// memory; cache_bytes of the newest records; one number per batch in the store. Thread safety: as Ledger. The tasks of
// the ledger run in the nursery, which, like the store, outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ledger/kv_store.h"
#include "ledger/ledger.h"
#include "rota/fiber/nursery.h"

namespace rota::ledger {

struct EtcdLedgerOptions {
  std::string prefix = "rota/";  // Of all keys; several ledgers can share a store.
  std::string name{};            // What others learn as the leader's name: the address of its HTTP interface.
  // Terms begin above this number if the log in the store does not say yet where its terms begin: the last term of a
  // log that was copied, or the wall time in milliseconds, so that terms increase even if the whole log was lost.
  std::uint64_t terms_above = 0;
  // Without a sign of life for so long, the leader is deposed. etcd raises it to 1.5 times its election timeout.
  std::chrono::seconds lease{5};
  std::size_t group_records = 128;
  std::size_t group_bytes = 512U << 10;
  std::size_t piece_bytes = std::size_t{1} << 20;  // A larger record is written in pieces.
  std::size_t trim_keys = 100;                     // Per transaction: etcd serves nobody else during a long deletion.
  std::size_t pending_bytes_max = std::size_t{64} << 20;
  std::size_t snapshot_bytes_max = std::size_t{256} << 20;
  std::size_t cache_bytes = std::size_t{8} << 20;
  std::chrono::nanoseconds call_within = std::chrono::seconds(5);
  std::chrono::nanoseconds retry_after = std::chrono::milliseconds(10);
  std::chrono::nanoseconds retry_most = std::chrono::seconds(1);
  std::chrono::nanoseconds close_within = std::chrono::seconds(10);  // To write what was submitted, in close().
};

namespace detail {
struct EtcdState;  // etcd_state.h
}

class EtcdLedger final : public Ledger {
 public:
  // Reads the state of the log and follows it. InvalidArgument; Unavailable if the store cannot be reached by the
  // deadline; Corrupt, Unsupported as the values in the store. Called in a task of the nursery's runtime.
  static Result<std::unique_ptr<EtcdLedger>> open(kv::Store& store, EtcdLedgerOptions options, fiber::Nursery& nursery,
                                                  kv::Deadline deadline = std::chrono::seconds(10));
  // Calls close() and logs an error.
  ~EtcdLedger() override;
  // Says in the store that the log under this prefix is being filled with a copy of another one, or that the copy is
  // complete. Meanwhile open() and campaign() refuse the log with FailedPrecondition: a copy that was interrupted would
  // pass for the whole log.
  static Result<void> mark_copy(kv::Store& store, const std::string& prefix, bool complete, kv::Deadline deadline);

  // Makes the terms of all later campaigns greater than `term`; this leader keeps its own. Errors as an append.
  Result<void> raise_terms(std::uint64_t term);
  // Waits until this ledger leads, and returns its term. From then on it accepts records. NotLeader, with the detail
  // "leader", if another one leads until the deadline. FailedPrecondition if it has led before. A campaign that is
  // cancelled or out of time leaves nothing behind but a lease that ends by itself.
  Result<std::uint64_t> campaign(kv::Deadline deadline);
  // 0 before the campaign.
  [[nodiscard]] std::uint64_t term() const;
  // False before the campaign, after a failure, and when the lease was not renewed for as long as it lasts: then
  // another host may lead. For information only: argument (B) does not depend on clocks.
  [[nodiscard]] bool holds_lease() const;
  // The name of the leader as far as this follower knows; empty if there is none.
  [[nodiscard]] std::string leader() const;
  // Waits until last_index() is above `index`: a follower reads records as they arrive. DeadlineExceeded; Closed.
  Result<void> wait_beyond(std::uint64_t index, kv::Deadline deadline);
  // Waits until this ledger has failed or was deposed, and returns why; Closed if it was closed instead.
  Error wait_failure();

  Result<void> submit(std::span<const RecordBytes> records) override;
  Result<void> wait_durable(std::uint64_t index) override;
  Result<std::vector<RecordBytes>> read(std::uint64_t from, std::size_t max_records) override;
  [[nodiscard]] std::uint64_t first_index() const override;
  [[nodiscard]] std::uint64_t last_index() const override;
  [[nodiscard]] std::uint64_t submitted_index() const override;
  // Unavailable while the store does not answer. A leader notices within its lease, a follower within twice that time.
  [[nodiscard]] Result<void> check_writable() const override;
  Result<void> save_snapshot(Snapshot snapshot) override;
  Result<std::optional<Snapshot>> latest_snapshot() override;
  Result<void> compact(std::uint64_t up_to) override;
  // Unsupported: etcd has its own (`etcdctl snapshot save`).
  Result<void> backup(const std::string& path) override;
  // Writes what was submitted, gives up the leadership at once, and ends the tasks.
  Result<void> close() override;

 private:
  explicit EtcdLedger(std::shared_ptr<detail::EtcdState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::EtcdState> state_;
};

}  // namespace rota::ledger

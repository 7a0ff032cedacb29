// Follower: a copy of the brain's state that follows the durable log (H-6, DESIGN decision 10). It answers readers and
// encodes snapshots, so that neither takes time from the decider.
//
//   releaser ── durable records ──► [ queue ] ──► run(): applies them to its own state ──► readers: read(), wait_for()
//                    ledger ──── what the queue had no room for ──►                    └─► save(): snapshots,
//                    compaction
//
// The releaser never waits for the follower: records for which the queue has no room are read from the ledger. A slow
// reader therefore delays the follower and other readers, and nothing else.
//
// Every read says which record it reflects. A client that was told of record n asks for "at least n" and sees its own
// change. read_past() shows the state as it was after an earlier record, as far back as the ledger goes.
//
// The follower checks the hashes of each record as recovery does. If its state differs from what the decider wrote, the
// log could not be recovered either: run() returns Corrupt, and the host stops.
//
// Thread safety: offer() from one task at a time; run() and save() once each; everything else from any task.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/hash.h"
#include "base/sync.h"
#include "base/time_histogram.h"
#include "fleet/brain.h"
#include "fleet/record.h"
#include "fleet/usage.h"
#include "host/recovery.h"
#include "ledger/ledger.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/sync.h"
#include "rota/result.h"

namespace rota::host {

class Follower {
 public:
  // Must not wait: it is called while the state is locked.
  using Look = std::function<void(const fleet::State&)>;

  struct Options {
    std::uint64_t snapshot_every = 0;  // Records; 0: never.
    bool compact = true;               // Remove the records that a snapshot covers.
    std::size_t queue = 64;            // Batches of records.
    bool replicated = false;           // Other hosts write the ledger, too; it may be unreachable for a while.
  };
  // REQUIRES: the ledger outlives it.
  Follower(ledger::Ledger& ledger, Options options);

  // --- For the host ---
  // Hands over durable records, in the order of the log. `chain` is the log's chain after the last of them.
  void offer(std::vector<fleet::Record> records, const Hash128& chain);
  // There are more records in the ledger, which another host has written.
  void read_on();
  // Snapshots are saved by the host that leads; initially by every one whose ledger is its own.
  void set_saving(bool on) { may_save_.store(on); }
  // A copy of the state after the last record that is applied.
  Result<Recovered> copy();
  // Builds the state from the ledger and follows until close(); then ok. Corrupt if a record does not fit.
  Result<void> run();
  // Saves the snapshots that run() makes, until close().
  void save();
  void close();

  // --- For readers ---
  // The last record that is applied.
  [[nodiscard]] std::uint64_t index() const { return index_.load(); }
  // Returns when record `index` is applied. Timeout, Cancelled; Closed when the host stops before.
  Result<void> wait_for(std::uint64_t index, std::chrono::nanoseconds limit);
  // Calls look(state) with the state after some record at or after `index`, and returns that record's index.
  // Errors as wait_for().
  Result<std::uint64_t> read(const Look& look, std::uint64_t index = 0,
                             std::chrono::nanoseconds limit = std::chrono::seconds(10));
  // Calls look(state) with the state as it was after record `index`. NotFound if there is no such record yet, or if the
  // records that lead to it were compacted. Takes the time to apply the records since the last snapshot before it.
  Result<void> read_past(std::uint64_t index, const Look& look);
  // What the workers have cost and used since this host started, up to `wall_ns`. It never decreases.
  [[nodiscard]] fleet::Usage usage(std::int64_t wall_ns);
  // From ready to assigned, of first attempts since then.
  [[nodiscard]] TimeHistogram::Reading waits() const { return waits_.read(); }

 private:
  struct Item {
    std::vector<fleet::Record> records{};  // Empty: look at `missed_`.
    Hash128 chain{};
  };
  Result<void> follow_all();
  Result<void> follow(Item item);
  Result<void> catch_up(std::uint64_t index);
  // Records up to `index`, without the lock of the state. Repeated while a replicated ledger cannot be reached.
  Result<std::vector<ledger::RecordBytes>> read_records(std::uint64_t from, std::uint64_t index);
  // The state from the ledger's snapshot and records, likewise.
  Result<void> start_over();
  void advance(std::uint64_t index);
  void make_snapshot(std::uint64_t before);
  void measure(const fleet::Record& record);
  void end(const Result<void>& result);

  ledger::Ledger& ledger_;
  const Options options_;
  fiber::Channel<Item> queue_;
  const std::uint64_t first_;  // The ledger's last record at the start: nothing is shown before it is applied.
  fiber::Channel<ledger::Snapshot> snapshots_{1};
  sync::Atomic<bool> missed_{false};  // Records did not fit into the queue.
  sync::Atomic<bool> saving_{false};
  sync::Atomic<bool> may_save_{true};
  sync::Atomic<std::uint64_t> index_{0};
  fiber::Mutex state_mutex_;
  Recovered copy_;           // Under state_mutex_; run() reads it without, because it alone changes it.
  fleet::UsageMeter usage_;  // Under state_mutex_.
  fleet::Usage shown_;       // Likewise: the largest totals that usage() has returned.
  TimeHistogram waits_;

  fiber::Mutex past_mutex_;
  std::optional<Recovered> past_;  // Under past_mutex_: the state of the last read_past(), for the next one.

  sync::Mutex mutex_;
  std::multimap<std::uint64_t, std::shared_ptr<fiber::Event>> waiting_ ROTA_GUARDED_BY(mutex_);
  bool ended_ ROTA_GUARDED_BY(mutex_) = false;
};

}  // namespace rota::host

// MemoryLedger: the log in this process's memory, for tests, simulations, and runs that need no recovery.
//
// A submitted record counts as durable at once; it lives as long as the object. Nothing waits, so it works the same in
// a fiber, in deterministic mode and on a plain thread.
//
// Invariant, under mutex_: records_ are base_ + 1, base_ + 2, ..., and snapshot_ is at least base_.
// Bounds: none of its own; compaction keeps it small.
// Thread safety: as Ledger.
#pragma once

#include <deque>

#include "base/sync.h"
#include "ledger/ledger.h"

namespace rota::ledger {

class MemoryLedger final : public Ledger {
 public:
  Result<void> submit(std::span<const RecordBytes> records) override ROTA_EXCLUDES(mutex_);
  Result<void> wait_durable(std::uint64_t index) override ROTA_EXCLUDES(mutex_);
  Result<std::vector<RecordBytes>> read(std::uint64_t from, std::size_t max_records) override ROTA_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t first_index() const override ROTA_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t last_index() const override ROTA_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t submitted_index() const override { return last_index(); }
  Result<void> save_snapshot(Snapshot snapshot) override ROTA_EXCLUDES(mutex_);
  Result<std::optional<Snapshot>> latest_snapshot() override ROTA_EXCLUDES(mutex_);
  Result<void> compact(std::uint64_t up_to) override ROTA_EXCLUDES(mutex_);
  // Unsupported, because there is no file.
  Result<void> backup(const std::string& path) override;
  Result<void> close() override ROTA_EXCLUDES(mutex_);

 private:
  [[nodiscard]] std::uint64_t last() const ROTA_REQUIRES(mutex_) { return base_ + records_.size(); }
  [[nodiscard]] std::uint64_t latest() const ROTA_REQUIRES(mutex_) { return snapshot_ ? snapshot_->index : 0; }

  mutable sync::Mutex mutex_;
  std::uint64_t base_ ROTA_GUARDED_BY(mutex_) = 0;  // Records up to this index are compacted.
  std::deque<std::string> records_ ROTA_GUARDED_BY(mutex_);
  std::optional<Snapshot> snapshot_ ROTA_GUARDED_BY(mutex_);
  bool closed_ ROTA_GUARDED_BY(mutex_) = false;
};

}  // namespace rota::ledger

// ViewLedger: a ledger's file for reading only, even while another process writes it. Nothing is changed.
//
// Thread safety: as Ledger.
#pragma once

#include <string>
#include <utility>

#include "base/sync.h"
#include "ledger/disk_reader.h"
#include "ledger/ledger.h"

namespace rota::cli {

class ViewLedger final : public ledger::Ledger {
 public:
  explicit ViewLedger(ledger::DiskReader reader) : reader_(std::move(reader)) {}

  Result<void> submit(std::span<const ledger::RecordBytes>) override { return refusal(); }
  Result<void> wait_durable(std::uint64_t) override { return refusal(); }
  Result<std::vector<ledger::RecordBytes>> read(std::uint64_t from, std::size_t max_records) override {
    const sync::MutexLock lock(mutex_);
    return reader_.read(from, max_records);
  }
  [[nodiscard]] std::uint64_t first_index() const override {
    const sync::MutexLock lock(mutex_);
    return reader_.first_index();
  }
  [[nodiscard]] std::uint64_t last_index() const override {
    const sync::MutexLock lock(mutex_);
    return reader_.last_index();
  }
  [[nodiscard]] std::uint64_t submitted_index() const override { return last_index(); }
  Result<void> save_snapshot(ledger::Snapshot) override { return refusal(); }
  Result<std::optional<ledger::Snapshot>> latest_snapshot() override {
    const sync::MutexLock lock(mutex_);
    return reader_.latest_snapshot();
  }
  Result<void> compact(std::uint64_t) override { return refusal(); }
  Result<void> backup(const std::string&) override { return refusal(); }
  Result<void> close() override { return {}; }

 private:
  static Error refusal() { return Error{ErrorCode::kFailedPrecondition, "this ledger is only read"}; }

  mutable sync::Mutex mutex_;
  ledger::DiskReader reader_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::cli

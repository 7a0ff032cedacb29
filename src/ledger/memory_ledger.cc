#include "ledger/memory_ledger.h"

namespace rota::ledger {

Result<void> MemoryLedger::submit(std::span<const RecordBytes> records) {
  const sync::MutexLock lock(mutex_);
  if (closed_) return detail::closed_error();
  ROTA_TRY(detail::check_submit(records, last()));
  for (const RecordBytes& record : records) records_.push_back(record.bytes);
  return {};
}

Result<void> MemoryLedger::wait_durable(std::uint64_t index) {
  const sync::MutexLock lock(mutex_);
  return detail::check_wait(index, last());
}

Result<std::vector<RecordBytes>> MemoryLedger::read(std::uint64_t from, std::size_t max_records) {
  const sync::MutexLock lock(mutex_);
  if (closed_) return detail::closed_error();
  ROTA_TRY(detail::check_read(from, base_ + 1));
  std::vector<RecordBytes> found;
  std::size_t bytes = 0;
  for (std::uint64_t index = from; index <= last() && found.size() < max_records; ++index) {
    const std::string& record = records_[index - base_ - 1];
    bytes += record.size();
    if (bytes > kMaxReadBytes && !found.empty()) break;
    found.push_back({index, record});
  }
  return found;
}

std::uint64_t MemoryLedger::first_index() const {
  const sync::MutexLock lock(mutex_);
  return base_ + 1;
}

std::uint64_t MemoryLedger::last_index() const {
  const sync::MutexLock lock(mutex_);
  return last();
}

Result<void> MemoryLedger::save_snapshot(Snapshot snapshot) {
  const sync::MutexLock lock(mutex_);
  if (closed_) return detail::closed_error();
  ROTA_TRY(detail::check_snapshot(snapshot, latest(), last()));
  snapshot_ = std::move(snapshot);
  return {};
}

Result<std::optional<Snapshot>> MemoryLedger::latest_snapshot() {
  const sync::MutexLock lock(mutex_);
  if (closed_) return detail::closed_error();
  return snapshot_;
}

Result<void> MemoryLedger::compact(std::uint64_t up_to) {
  const sync::MutexLock lock(mutex_);
  if (closed_) return detail::closed_error();
  ROTA_TRY(detail::check_compact(up_to, latest()));
  for (; base_ < up_to; ++base_) records_.pop_front();
  return {};
}

Result<void> MemoryLedger::backup(const std::string& path) {
  return Error{ErrorCode::kUnsupported,
               "cannot back up to " + path + ": this ledger is only in memory; use a ledger on disk"};
}

Result<void> MemoryLedger::close() {
  const sync::MutexLock lock(mutex_);
  closed_ = true;
  return {};
}

}  // namespace rota::ledger

#include "sim/sim_ledger.h"

#include <algorithm>
#include <utility>

#include "base/sim_hooks.h"
#include "fleet/stored_record.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::sim {

void SimDisk::store(const ledger::RecordBytes& record, std::uint64_t life) {
  const Result<void> stored = durable_->submit({&record, 1});
  ROTA_ASSERT(stored.ok(), "the simulated disk gets its records in order");
  StoredRecord& kept = witness_.log.emplace_back();
  kept.bytes = record.bytes;
  kept.durable_at = fiber::now();
  kept.host_life = life;
  if (Result<fleet::Record> decoded = fleet::decode_stored_record(record.bytes); decoded.ok()) {
    kept.record = std::move(*decoded);
    if (on_record) on_record(kept.record);
  } else {
    witness_.troubles.push_back("record " + std::to_string(record.index) + " cannot be decoded");
  }
}

void SimDisk::pass(nanoseconds time) {
  if (healed_) {
    (void)fiber::sleep_for(time);
  } else {
    (void)hurry_.wait_for(time);
  }
}

void SimDisk::heal() {
  healed_ = true;
  hurry_.set();
}

Result<void> SimLedger::usable() const {
  if (dead_) return ErrorCode::kClosed;
  return failure_;
}

void SimLedger::store_prefix(std::size_t count) {
  for (; count > 0 && !pending_.empty(); --count) {
    disk_.store(pending_.front(), options_.life);
    pending_.pop_front();
  }
}

void SimLedger::write_all() {
  try {
    while (!dead_ && failure_.ok()) {
      more_.wait();
      more_.reset();
      if (pending_.empty()) continue;
      // The group is what waits now; what arrives during the sync belongs to the next one.
      const std::size_t group = pending_.size();
      const Noise& noise = *options_.noise;
      std::int64_t sync_us =
          1 + static_cast<std::int64_t>(draw_now("sync") % (2 * static_cast<std::uint64_t>(noise.sync_us)));
      if (draw_now("slow sync") % 1000 < static_cast<std::uint64_t>(noise.slow_sync_permille)) {
        ROTA_SOMETIMES("disk: slow sync");
        sync_us *= 100;
      }
      disk_.pass(std::chrono::microseconds(sync_us));
      if (dead_) return;
      const bool fails = std::exchange(break_next_, false) ||
                         draw_now("sync error") % 10'000 < static_cast<std::uint64_t>(noise.sync_error_per_10000);
      if (fails) {
        ROTA_SOMETIMES("disk: sync failed");
        store_prefix(draw_now("broken prefix") % (group + 1));
        failure_ = Error{ErrorCode::kIoError, "the simulated disk failed"};
      } else {
        store_prefix(group);
      }
      if (!pending_.empty()) more_.set();
      advanced_.set();
      advanced_.reset();
    }
  } catch (const fiber::Cancelled&) {
  }
}

void SimLedger::kill() {
  if (std::exchange(dead_, true)) return;
  if (!pending_.empty() && failure_.ok()) {
    const std::size_t kept = draw_now("torn") % (pending_.size() + 1);
    if (kept > 0) ROTA_SOMETIMES("disk: a record that was not durable survives a crash");
    if (kept < pending_.size()) ROTA_SOMETIMES("disk: torn tail cut");
    store_prefix(kept);
  }
  pending_.clear();
  advanced_.set();
  more_.set();
}

Result<void> SimLedger::submit(std::span<const ledger::RecordBytes> records) {
  ROTA_TRY(usable());
  if (crash(CrashPoint::kBeforeSubmit)) return ErrorCode::kClosed;
  ROTA_TRY(ledger::detail::check_submit(records, submitted_index()));
  const bool full = static_cast<std::int64_t>(pending_.size()) >= options_.queue;
  if (full ||
      (!pending_.empty() && draw_now("full") % 1000 < static_cast<std::uint64_t>(options_.noise->full_permille))) {
    ROTA_SOMETIMES("disk: queue full");
    return ErrorCode::kQueueFull;
  }
  pending_.insert(pending_.end(), records.begin(), records.end());
  more_.set();
  if (crash(CrashPoint::kAfterSubmit)) return ErrorCode::kClosed;
  return {};
}

Result<void> SimLedger::wait_durable(std::uint64_t index) {
  ROTA_TRY(usable());
  ROTA_TRY(ledger::detail::check_wait(index, submitted_index()));
  while (last_index() < index) {
    ROTA_TRY(advanced_.wait(std::nothrow));
    if (last_index() >= index) break;
    ROTA_TRY(usable());
  }
  ROTA_TRY(dead_ ? Result<void>(ErrorCode::kClosed) : Result<void>());
  if (crash(CrashPoint::kAfterDurable)) return ErrorCode::kClosed;
  return {};
}

Result<std::vector<ledger::RecordBytes>> SimLedger::read(std::uint64_t from, std::size_t max_records) {
  if (dead_) return ErrorCode::kClosed;
  if (crash(CrashPoint::kInRecovery)) return ErrorCode::kClosed;
  return disk_.durable().read(from, max_records);
}

Result<void> SimLedger::save_snapshot(ledger::Snapshot snapshot) {
  ROTA_TRY(usable());
  if (crash(CrashPoint::kInSnapshot)) return ErrorCode::kClosed;
  (void)fiber::sleep_for(std::chrono::microseconds(1 + draw_now("snapshot") % 5000));
  ROTA_TRY(usable());
  ROTA_SOMETIMES("disk: snapshot saved");
  return disk_.durable().save_snapshot(std::move(snapshot));
}

Result<std::optional<ledger::Snapshot>> SimLedger::latest_snapshot() {
  if (dead_) return ErrorCode::kClosed;
  return disk_.durable().latest_snapshot();
}

Result<void> SimLedger::compact(std::uint64_t up_to) {
  ROTA_TRY(usable());
  if (crash(CrashPoint::kInCompaction)) return ErrorCode::kClosed;
  ROTA_SOMETIMES("disk: records compacted");
  return disk_.durable().compact(up_to);
}

}  // namespace rota::sim

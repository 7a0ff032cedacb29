// DiskLedger: the log in an SQLite file, with group commit (L-2).
//
//   submit() ──► queue ──┐                   ┌── wait_durable(), save_snapshot(), compact(): fibers and threads
//                        ▼                   ▼
//                 the writer's role ──► durable, changed
//                        ▲
//   save_snapshot(), compact() ──► chores, one step per round
//
// The holder of the writer's role takes all queued records, commits them as one transaction, wakes the waiters, does
// one step of the oldest chore, and checks the queue again. Therefore the records that arrive during one sync form the
// next group, no timer is involved, and a long snapshot or compaction delays a record by one step only. With
// Writer::kThread the ledger's thread always has the role; with kInPlace a waiting caller takes it if it is free.
//
// Reading uses its own connection, which sees committed transactions; results are limited to the durable records.
//
// Invariants, under DiskState's mutex:
//   (1) durable <= submitted; the queue and the group that is being written are durable + 1 ... submitted
//   (2) only the thread that has set `writing` touches the store
//   (3) after a failure nothing is written any more, and `durable` does not change
//   (4) the thread sleeps only while has_work() is false and `stopping` is not set; both change under the mutex, and
//   each
//       such change notifies `work`
// Bounds: pending_bytes_max bounds the queue (submit() is refused); each chore has a caller that waits for it.
// Thread safety: as Ledger.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ledger/disk_options.h"
#include "ledger/ledger.h"

namespace rota::ledger {

namespace detail {
struct DiskState;  // disk_ledger.cc
}

class DiskLedger final : public Ledger {
 public:
  // Creates the file if there is none. Recovers: checks every record, removes a torn tail, refuses a damaged file.
  //   Conflict     another process has it open; the message says which
  //   Corrupt      with the position: the details have index, and offset if it is in the write-ahead log
  //   DataLoss     the end of the file is missing
  //   Unsupported  the file has a newer format
  //   and errors of the system: NotFound, PermissionDenied, NoSpace, IoError
  static Result<std::unique_ptr<DiskLedger>> open(const DiskOptions& options);
  // Calls close() and logs an error. Blocks its thread.
  ~DiskLedger() override;

  Result<void> submit(std::span<const RecordBytes> records) override;
  Result<void> wait_durable(std::uint64_t index) override;
  Result<std::vector<RecordBytes>> read(std::uint64_t from, std::size_t max_records) override;
  [[nodiscard]] std::uint64_t first_index() const override;
  [[nodiscard]] std::uint64_t last_index() const override;
  [[nodiscard]] std::uint64_t submitted_index() const override;
  Result<void> save_snapshot(Snapshot snapshot) override;
  Result<std::optional<Snapshot>> latest_snapshot() override;
  Result<void> compact(std::uint64_t up_to) override;
  Result<void> backup(const std::string& path) override;
  Result<void> close() override;

  [[nodiscard]] const Recovery& recovery() const;

  struct Stats {
    std::uint64_t groups = 0;         // Transactions that contained records.
    std::uint64_t records = 0;        // Records in those transactions.
    std::uint64_t largest_group = 0;  // In records.
    std::uint64_t checkpoints = 0;
  };
  [[nodiscard]] Stats stats() const;

 private:
  explicit DiskLedger(const DiskOptions& options);
  Result<void> start();
  Result<void> end();

  const std::unique_ptr<detail::DiskState> state_;
};

}  // namespace rota::ledger

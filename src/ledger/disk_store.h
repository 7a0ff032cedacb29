// DiskStore: writes to a ledger's file. DiskLedger decides what is written and when, and wakes the waiters.
//
// Every change is an SQLite transaction in WAL mode; with Durability::kFull it is on the disk when the call returns.
//
// Checkpoints: SQLite's automatic ones are off, because they would run inside a commit, before it is acknowledged. The
// store copies the log into the main file when maintain() finds it long enough. The transaction right before carries
// the mark (the last index), so the main file always says how far it must reach (disk_format.h, (2)).
//
// After any error the store must not be used: SQLite's view and the disk may differ, and a second sync after a failed
// one may report success for pages that the system has dropped. The store writes nothing more, not even when it is
// destroyed. The next open() takes the log as it is on the disk, writes its contents into the main file, and syncs
// that.
//
// Thread safety: none; one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/disk_format.h"
#include "ledger/disk_options.h"
#include "ledger/sqlite_handle.h"
#include "ledger/wal_tail.h"

namespace rota::ledger::detail {

// Records that become durable together, in one block of memory.
struct Batch {
  std::uint64_t first = 0;        // Index of the first record.
  std::string bytes;              // The bytes of all records.
  std::vector<std::size_t> ends;  // The end of each record in `bytes`.

  [[nodiscard]] bool empty() const { return ends.empty(); }
  void add(std::string_view record) {
    bytes += record;
    ends.push_back(bytes.size());
  }
};

class DiskStore {
 public:
  // Creates the file, or recovers its contents.
  static Result<std::unique_ptr<DiskStore>> open(const DiskOptions& options);
  // Writes nothing if close() was not called.
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  // REQUIRES: batch.first follows the last record.
  Result<void> append(const Batch& batch);
  // Does the work that is due after a commit has been acknowledged: a checkpoint.
  Result<void> maintain();

  // A snapshot is written in pieces: begin, add..., finish. It counts from finish on; the previous one is gone then,
  // except for its pieces, which remove_garbage() removes one per call. True: there are more pieces to remove.
  Result<void> begin_snapshot();
  Result<void> add_piece(std::string_view bytes);
  Result<void> finish_snapshot(const Snapshot& snapshot);
  Result<bool> remove_garbage();
  // Removes some records up to `up_to`. True: there are more.
  Result<bool> remove_records(std::uint64_t up_to);

  // Copies everything into the main file and closes it.
  Result<void> close();

  [[nodiscard]] const Recovery& recovery() const { return recovery_; }
  [[nodiscard]] std::uint64_t first_index() const { return meta_.base + 1; }
  [[nodiscard]] std::uint64_t last_index() const { return last_; }
  [[nodiscard]] std::uint64_t checkpoints() const { return checkpoints_; }

 private:
  explicit DiskStore(const DiskOptions& options) : options_(options) {}
  Result<void> start();
  Result<void> make_file();
  Result<void> set_up();
  Result<void> recover(const WalTail& tail);
  // Runs body in a transaction, which carries the mark if a checkpoint is due after it.
  template <class Body>
  Result<void> transact(Body&& body);
  // True: the whole log is in the main file.
  Result<bool> checkpoint(bool truncate);

  const DiskOptions options_;
  std::unique_ptr<Connection> connection_;
  Statement begin_, commit_, insert_;
  Meta meta_;  // As written to the file.
  std::uint64_t last_ = 0;
  std::uint64_t log_pages_ = 0;  // Pages in the WAL now.
  bool due_ = false;             // The last transaction carried the mark.
  std::uint64_t checkpoints_ = 0;
  std::uint64_t first_piece_ = 0, pieces_ = 0;  // Of the snapshot that is being written.
  Recovery recovery_;
};

}  // namespace rota::ledger::detail

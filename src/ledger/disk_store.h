// DiskStore: the one who writes to a ledger's file. DiskLedger decides what and when, and who hears of it.
//
// Every change is a transaction of SQLite's in WAL mode; with Durability::kFull it is on the disk when the call
// returns.
//
// Checkpoints. SQLite's own are off: they would run inside a commit, before it is acknowledged. The store brings the
// log into the main file when maintain() finds it long enough. The transaction right before that carries the mark (the
// last index), so that the main file always says how far it must reach (disk_format.h, (2)).
//
// After any error the store is of no more use: what SQLite believes and what the disk has may differ, and a second sync
// after a failed one may claim success for pages that the system has dropped. It then writes nothing more, not even at
// its end. The next open() takes the log as it is on the disk, writes what it holds into the main file anew, and syncs
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

// Records that become durable together, in one piece of memory.
struct Batch {
  std::uint64_t first = 0;        // Index of the first record.
  std::string bytes;              // Of all records.
  std::vector<std::size_t> ends;  // Where each one ends in `bytes`.

  [[nodiscard]] bool empty() const { return ends.empty(); }
  void add(std::string_view record) {
    bytes += record;
    ends.push_back(bytes.size());
  }
};

class DiskStore {
 public:
  // Makes the file, or recovers what it holds.
  static Result<std::unique_ptr<DiskStore>> open(const DiskOptions& options);
  // Without close(): writes nothing.
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  // REQUIRES: batch.first follows the last record.
  Result<void> append(const Batch& batch);
  // What is due after a commit, once that has been acknowledged: a checkpoint.
  Result<void> maintain();

  // A snapshot comes in pieces: begin, add..., finish; it counts from finish on, and the one before is gone then,
  // except for its pieces, which remove_garbage() removes one a call. True: there is more to remove.
  Result<void> begin_snapshot();
  Result<void> add_piece(std::string_view bytes);
  Result<void> finish_snapshot(const Snapshot& snapshot);
  Result<bool> remove_garbage();
  // Removes some records up to `up_to`. True: there are more of them.
  Result<bool> remove_records(std::uint64_t up_to);

  // Brings everything into the main file and closes it.
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
  // Runs body in a transaction, with the mark if a checkpoint is due after it.
  template <class Body>
  Result<void> transact(Body&& body);
  // True: the whole log is in the main file.
  Result<bool> checkpoint(bool truncate);

  const DiskOptions options_;
  std::unique_ptr<Connection> connection_;
  Statement begin_, commit_, insert_;
  Meta meta_;  // As written.
  std::uint64_t last_ = 0;
  std::uint64_t log_pages_ = 0;  // In the WAL now.
  bool due_ = false;             // The last transaction carried the mark.
  std::uint64_t checkpoints_ = 0;
  std::uint64_t first_piece_ = 0, pieces_ = 0;  // Of the snapshot that is being written.
  Recovery recovery_;
};

}  // namespace rota::ledger::detail

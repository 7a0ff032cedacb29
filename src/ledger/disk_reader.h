// DiskReader: reads a ledger's file, whether or not another process writes it at the same time.
//
//   ROTA_TRY_ASSIGN(DiskReader reader, DiskReader::open(path));
//   ROTA_TRY_ASSIGN(auto records, reader.read(reader.first_index(), 1000));
//   ...
//   ROTA_TRY(reader.refresh());                 // last_index() is the last committed record again
//
// Every call opens the file, reads in one short transaction and closes it; nothing is held between calls. Therefore a
// writer that starts or ends waits for a reader for milliseconds at most (it would wait a second), and a reader does
// not prevent checkpoints.
//
// Nothing is written, and no lock of the ledger is taken. There are three ways to read an SQLite file in WAL mode:
//   - There is a non-empty log (-wal): SQLite reads it, with the index beside it (-shm) opened read-only. If nobody has
//     the file open, SQLite builds the index in memory. The reader sees committed transactions, which in a ledger with
//     full durability are synced.
//   - There is no log: everything is in the main file, which is read as immutable, since otherwise SQLite would create
//     an empty log and an index and leave them behind. If the file changed meanwhile, because a writer opened it, the
//     result is discarded and the read is repeated.
//   - There is a log and no index: the ledger was copied after a crash. SQLite creates the index, which stays; this
//     needs a writable folder.
//
// Each record is checked as it is read; Corrupt carries its index. A log (-wal) that is damaged in the middle is
// refused as in DiskLedger::open().
//
// A process that writes a ledger must read it with Ledger::read(): SQLite keeps one index per process and file, and an
// index opened read-only cannot serve a writer in the same process.
//
// Thread safety: none; one owner. Blocks its thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ledger/ledger.h"
#include "rota/result.h"

namespace rota::ledger {

namespace detail {
class Connection;
}

class DiskReader {
 public:
  // Errors: NotFound, PermissionDenied, IoError; InvalidArgument for a database that is not a ledger; Unsupported for a
  // newer format; Corrupt and DataLoss as in DiskLedger::open(). A file whose writer has not created the tables yet is
  // an empty ledger.
  static Result<DiskReader> open(const std::string& path);

  // The process, program and machine that have the ledger open for writing; none if there is no writer.
  static Result<std::optional<std::string>> writer_of(const std::string& path);

  // As of open() or the latest refresh().
  [[nodiscard]] std::uint64_t first_index() const { return first_; }
  [[nodiscard]] std::uint64_t last_index() const { return last_; }
  [[nodiscard]] std::uint64_t snapshot_index() const { return snapshot_; }  // 0: none.
  Result<void> refresh();

  // Like Ledger::read(): at most `max_records` and about kMaxReadBytes, none beyond last_index(). NotFound if they were
  // compacted meanwhile.
  Result<std::vector<RecordBytes>> read(std::uint64_t from, std::size_t max_records);
  Result<std::optional<Snapshot>> latest_snapshot();
  // Like Ledger::backup(): a durable, checked copy of one moment at `path`, as a single file.
  Result<void> back_up(const std::string& path);

 private:
  explicit DiskReader(std::string path) : path_(std::move(path)) {}
  // Runs `body` in a read transaction, and again if the result must be discarded.
  Result<void> look(const std::function<Result<void>(detail::Connection&)>& body) const;
  Result<void> check_log() const;

  std::string path_;
  std::uint64_t first_ = 1;
  std::uint64_t last_ = 0;
  std::uint64_t snapshot_ = 0;
};

}  // namespace rota::ledger

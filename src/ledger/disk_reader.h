// DiskReader: a ledger's file, read while another process writes it, or while nobody does.
//
//   ROTA_TRY_ASSIGN(DiskReader reader, DiskReader::open(path));
//   ROTA_TRY_ASSIGN(auto records, reader.read(reader.first_index(), 1000));
//   ...
//   ROTA_TRY(reader.refresh());                 // last_index() is now what is committed now
//
// Every call opens the file, reads in one short transaction and closes it again; nothing is held between two calls. So
// a writer that ends, or one that starts, waits for a reader for milliseconds at most (it would wait a second), and
// what a checkpoint may bring into the main file is not held up.
//
// Nothing is written and no lock of the ledger is taken. There are three ways to read an SQLite file in WAL mode:
//   - There is a log with something in it (-wal): SQLite's, with the index beside it (-shm) for reading only. If nobody
//     has the file open, SQLite makes the index anew in its memory. It sees what is committed, and in a ledger with
//     full durability that is synced.
//   - There is none: all is in the main file, which is then read as one that does not change: SQLite would make an
//     empty log and an index otherwise, and leave them. If the file did change meanwhile, because somebody opened it,
//     what was read does not count, and it is read again.
//   - There is a log and no index: a ledger that was copied after a crash. SQLite makes the index, and it stays: this
//     needs a folder that can be written to.
//
// A record is checked as it is read; Corrupt has its index. A log (-wal) that is damaged in the middle is refused as
// DiskLedger::open() refuses it.
//
// Not for a process that writes the same ledger, which has Ledger::read(): SQLite has one index a process and file, and
// one that was opened for reading only is of no use to a writer beside it.
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
  // NotFound, PermissionDenied, IoError; InvalidArgument for a database that is no ledger; Unsupported for one of a
  // newer format; Corrupt and DataLoss as DiskLedger::open(). A file in which its writer has not made the tables yet is
  // an empty ledger.
  static Result<DiskReader> open(const std::string& path);

  // Who has the ledger open for writing: process, program and machine. None: nobody.
  static Result<std::optional<std::string>> writer_of(const std::string& path);

  // As of open() or the last refresh().
  [[nodiscard]] std::uint64_t first_index() const { return first_; }
  [[nodiscard]] std::uint64_t last_index() const { return last_; }
  [[nodiscard]] std::uint64_t snapshot_index() const { return snapshot_; }  // 0: none.
  Result<void> refresh();

  // As Ledger::read(): at most `max_records` and about kMaxReadBytes, none beyond last_index(). NotFound if they were
  // compacted meanwhile.
  Result<std::vector<Record>> read(std::uint64_t from, std::size_t max_records);
  Result<std::optional<Snapshot>> latest_snapshot();

 private:
  explicit DiskReader(std::string path) : path_(std::move(path)) {}
  // Runs `body` in a transaction that reads; again, if what it read does not count.
  Result<void> look(const std::function<Result<void>(detail::Connection&)>& body) const;
  Result<void> check_log() const;

  std::string path_;
  std::uint64_t first_ = 1;
  std::uint64_t last_ = 0;
  std::uint64_t snapshot_ = 0;
};

}  // namespace rota::ledger

// The contents of a ledger's file, and how they are created and checked. README.md shows the format as a table.
//
// Every stored object has its own checksum: XXH3 of its bytes, seeded with its index, so that a misplaced record is
// detected as well as a changed one.
//
// Invariants of an intact file (check_file()):
//   (1) the records are meta.base + 1, meta.base + 2, ... without a gap, and each has its checksum
//   (2) the last record is at least meta.mark: records that a checkpoint copied into the main file are still there
//   (3) there is at most one snapshot, at or after meta.base, with its checksum; after a compaction there is one
//
// Thread safety: none; a Connection belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "ledger/ledger.h"
#include "ledger/sqlite_handle.h"
#include "ledger/wal_tail.h"

namespace rota::ledger::detail {

inline constexpr std::uint32_t kApplicationId = 0x526f7461;  // "Rota", where file(1) and SQLite look for it.
inline constexpr std::uint32_t kFormatVersion = 1;

[[nodiscard]] std::uint64_t checksum(std::uint64_t index, std::string_view bytes) noexcept;

// The single row of the table meta.
struct Meta {
  std::uint64_t base = 0;  // Records up to this index are compacted.
  std::uint64_t mark = 0;  // The last record at the time of the latest checkpoint.
  bool relaxed = false;    // The last writer did not sync each transaction.
  [[nodiscard]] std::uint64_t sum() const noexcept;
};

// Describes the single snapshot.
struct SnapshotRow {
  std::uint64_t index = 0;
  std::uint64_t first_piece = 0;
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
};

// Corrupt if the file exists and has no bytes: a ledger gets its name when it is complete, so its contents were lost.
Result<void> refuse_empty(const std::string& path);

// True: a ledger that this version can read. False: the file is still empty. Errors: InvalidArgument for a database
// that is not a ledger, Unsupported for a newer format, Corrupt if it is not a database.
Result<bool> check_identity(Connection& connection);
// Creates the tables in one transaction.
Result<void> create_tables(Connection& connection, bool relaxed);

Result<Meta> read_meta(Connection& connection);
Result<void> write_meta(Connection& connection, const Meta& meta);
Result<std::optional<SnapshotRow>> find_snapshot(Connection& connection);
Result<std::optional<Snapshot>> read_snapshot(Connection& connection);

// Calls visit(index, bytes) for each record from `from` to `to`, in order, until it returns false. Corrupt, with the
// index and what was expected, if a record is missing or differs from what was written.
Result<void> scan_records(Connection& connection, std::uint64_t from, std::uint64_t to,
                          const std::function<bool(std::uint64_t, std::string_view)>& visit);

struct FileContents {
  Meta meta;
  std::uint64_t last_index = 0;
  std::uint64_t snapshot_index = 0;
};
// Reads everything and checks the invariants. REQUIRES: check_identity() was true.
Result<FileContents> check_file(Connection& connection);

// Corrupt, with index and offset, if the write-ahead log is damaged in a part that its writer had synced.
Result<void> refuse_damage(Connection& connection, const WalTail& tail, const Meta& meta);

}  // namespace rota::ledger::detail

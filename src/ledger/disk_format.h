// What a ledger's file holds, and how it is made and checked. README.md has the format as a table.
//
// Every stored thing has a checksum of its own: XXH3 of its bytes, seeded with its index, so that a record that stands
// in another's place is found as well as one that has changed.
//
// Invariants of a sound file (check_file()):
//   (1) the records are meta.base + 1, meta.base + 2, ... without a gap, and each has its checksum
//   (2) the last record is at least meta.mark: what a checkpoint brought into the main file is still there
//   (3) there is at most one snapshot, at or after meta.base, with its checksum; with records compacted there is one
//
// Thread safety: none; a Connection belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "ledger/ledger.h"
#include "ledger/sqlite_handle.h"
#include "ledger/wal_tail.h"

namespace rota::ledger::detail {

inline constexpr std::uint32_t kApplicationId = 0x526f7461;  // "Rota"; where file(1) and SQLite look for it.
inline constexpr std::uint32_t kFormatVersion = 1;

[[nodiscard]] std::uint64_t checksum(std::uint64_t index, std::string_view bytes) noexcept;

// The one row of the table meta.
struct Meta {
  std::uint64_t base = 0;  // Records up to here are compacted away.
  std::uint64_t mark = 0;  // The last record when the log was last brought into the main file.
  bool relaxed = false;    // Whoever wrote last did not sync each transaction.
  [[nodiscard]] std::uint64_t sum() const noexcept;
};

// Where the one snapshot is.
struct SnapshotRow {
  std::uint64_t index = 0;
  std::uint64_t first_piece = 0;
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
};

// True: this is a ledger that we can read. False: there is nothing in the file yet. InvalidArgument if it is a database
// of somebody else's, Unsupported if it is of a newer format, Corrupt if it is no database.
Result<bool> check_identity(Connection& connection);
// The tables, in a transaction.
Result<void> create_tables(Connection& connection, bool relaxed);

Result<Meta> read_meta(Connection& connection);
Result<void> write_meta(Connection& connection, const Meta& meta);
Result<std::optional<SnapshotRow>> find_snapshot(Connection& connection);
Result<std::optional<Snapshot>> read_snapshot(Connection& connection);

// Calls visit(index, bytes) for each record from `from` to `to`, in order, until it returns false. Corrupt if one is
// missing or is not what was written: with its index, and what was expected.
Result<void> scan_records(Connection& connection, std::uint64_t from, std::uint64_t to,
                          const std::function<bool(std::uint64_t, std::string_view)>& visit);

struct FileContents {
  Meta meta;
  std::uint64_t last_index = 0;
  std::uint64_t snapshot_index = 0;
};
// Reads everything and holds it against the invariants. REQUIRES: check_identity() was true.
Result<FileContents> check_file(Connection& connection);

// Corrupt, with index and offset, if the write-ahead log is damaged where whoever wrote it had synced it.
Result<void> refuse_damage(Connection& connection, const WalTail& tail, const Meta& meta);

}  // namespace rota::ledger::detail

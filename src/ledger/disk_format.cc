#include "ledger/disk_format.h"

#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "base/hash.h"

namespace rota::ledger::detail {

namespace {

std::string hex(std::uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) text[i] = kDigits[value & 15];
  return text;
}

Error corrupt(const Connection& connection, const std::string& sentence) {
  return Error{ErrorCode::kCorrupt,
               connection.path() + ": " + sentence + ". The ledger was not opened or changed; restore a backup"};
}
Error corrupt_record(const Connection& connection, std::uint64_t index, const std::string& sentence) {
  return corrupt(connection, sentence).with("index", std::to_string(index));
}

}  // namespace

std::uint64_t checksum(std::uint64_t index, std::string_view bytes) noexcept {
  return hash64(bytes, kHashSeed ^ index);
}

std::uint64_t Meta::sum() const noexcept { return Hasher().add(base).add(mark).add(relaxed).finish64(); }

Result<void> refuse_empty(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0 || found.st_size != 0) return {};
  return Error{ErrorCode::kCorrupt, path +
                                        " has no bytes: what it held is lost. Restore a backup, or delete the file " +
                                        "to start again without it"};
}

Result<bool> check_identity(Connection& connection) {
  ROTA_TRY_ASSIGN(const std::uint64_t tables, connection.number("SELECT count(*) FROM sqlite_schema"));
  ROTA_TRY_ASSIGN(const std::uint64_t application, connection.number("PRAGMA application_id"));
  ROTA_TRY_ASSIGN(const std::uint64_t version, connection.number("PRAGMA user_version"));
  if (tables == 0 && application == 0) return false;
  if (application != kApplicationId) {
    return Error{ErrorCode::kInvalidArgument,
                 connection.path() + ": is an SQLite database, but not a Rota ledger; choose another path"};
  }
  if (version == 0 || version > kFormatVersion) {
    return Error{ErrorCode::kUnsupported, connection.path() + ": is a ledger of format " + std::to_string(version) +
                                              "; this version of Rota reads format " + std::to_string(kFormatVersion) +
                                              ". Use the version that wrote it, or a newer one"}
        .with("format", std::to_string(version));
  }
  return true;
}

Result<void> create_tables(Connection& connection, bool relaxed) {
  return connection.transaction([&]() -> Result<void> {
    ROTA_TRY(connection.execute(
        "CREATE TABLE meta(one INTEGER PRIMARY KEY CHECK(one = 1), base INTEGER NOT NULL, mark INTEGER NOT NULL,"
        " relaxed INTEGER NOT NULL, sum INTEGER NOT NULL);"
        "CREATE TABLE records(idx INTEGER PRIMARY KEY, sum INTEGER NOT NULL, bytes BLOB NOT NULL);"
        "CREATE TABLE snapshots(idx INTEGER PRIMARY KEY, first_piece INTEGER NOT NULL, pieces INTEGER NOT NULL,"
        " bytes INTEGER NOT NULL, sum INTEGER NOT NULL);"
        "CREATE TABLE pieces(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);"));
    ROTA_TRY(connection.execute(("PRAGMA application_id = " + std::to_string(kApplicationId)).c_str()));
    ROTA_TRY(connection.execute(("PRAGMA user_version = " + std::to_string(kFormatVersion)).c_str()));
    return write_meta(connection, {.relaxed = relaxed});
  });
}

Result<Meta> read_meta(Connection& connection) {
  ROTA_TRY_ASSIGN(Statement row, connection.prepare("SELECT base, mark, relaxed, sum FROM meta"));
  ROTA_TRY_ASSIGN(const bool there, row.step());
  if (!there) return corrupt(connection, "the row of the table meta is missing");
  const Meta meta{row.number(0), row.number(1), row.number(2) != 0};
  if (row.number(3) != meta.sum()) {
    return corrupt(connection, "the table meta has the checksum " + hex(row.number(3)) + " where its contents have " +
                                   hex(meta.sum()));
  }
  return meta;
}

Result<void> write_meta(Connection& connection, const Meta& meta) {
  ROTA_TRY_ASSIGN(Statement row, connection.prepare("REPLACE INTO meta(one, base, mark, relaxed, sum)"
                                                    " VALUES(1, ?1, ?2, ?3, ?4)"));
  return row.bind(1, meta.base).bind(2, meta.mark).bind(3, meta.relaxed ? 1U : 0U).bind(4, meta.sum()).run();
}

Result<std::optional<SnapshotRow>> find_snapshot(Connection& connection) {
  ROTA_TRY_ASSIGN(Statement row,
                  connection.prepare("SELECT idx, first_piece, pieces, bytes, sum FROM snapshots ORDER BY idx DESC"));
  ROTA_TRY_ASSIGN(const bool there, row.step());
  if (!there) return std::optional<SnapshotRow>();
  return std::optional(SnapshotRow{row.number(0), row.number(1), row.number(2), row.number(3), row.number(4)});
}

Result<std::optional<Snapshot>> read_snapshot(Connection& connection) {
  ROTA_TRY_ASSIGN(const std::optional<SnapshotRow> found, find_snapshot(connection));
  if (!found) return std::optional<Snapshot>();
  Snapshot snapshot{found->index};
  snapshot.bytes.reserve(std::min<std::uint64_t>(found->bytes, kMaxSnapshotBytes));
  ROTA_TRY_ASSIGN(Statement piece, connection.prepare("SELECT bytes FROM pieces WHERE id >= ?1 ORDER BY id LIMIT ?2"));
  piece.bind(1, found->first_piece).bind(2, found->pieces);
  for (;;) {
    ROTA_TRY_ASSIGN(const bool more, piece.step());
    if (!more) break;
    snapshot.bytes += piece.bytes(0);
  }
  if (const std::uint64_t sum = checksum(found->index, snapshot.bytes); sum != found->sum) {
    return corrupt_record(connection, found->index,
                          "the snapshot of record " + std::to_string(found->index) + " has " +
                              std::to_string(snapshot.bytes.size()) + " bytes with the checksum " + hex(sum) +
                              "; expected " + std::to_string(found->bytes) + " with " + hex(found->sum));
  }
  return std::optional(std::move(snapshot));
}

Result<void> scan_records(Connection& connection, std::uint64_t from, std::uint64_t to,
                          const std::function<bool(std::uint64_t, std::string_view)>& visit) {
  ROTA_TRY_ASSIGN(Statement row, connection.prepare("SELECT idx, sum, bytes FROM records"
                                                    " WHERE idx BETWEEN ?1 AND ?2 ORDER BY idx"));
  row.bind(1, from).bind(2, to);
  for (std::uint64_t expected = from;; ++expected) {
    Result<bool> more = row.step();
    if (more.code() == ErrorCode::kCorrupt) {  // SQLite found the page damaged.
      return corrupt_record(
          connection, expected,
          "the page with record " + std::to_string(expected) + " is damaged: " + more.error().message);
    }
    if (!more.ok()) return std::move(more).take_failure();
    if (!*more) return {};
    const std::uint64_t index = row.number(0);
    const std::string_view bytes = row.bytes(2);
    if (index != expected) {
      return corrupt_record(connection, expected,
                            "record " + std::to_string(expected) + " is missing; record " + std::to_string(index) +
                                " stands where it was expected");
    }
    if (const std::uint64_t sum = checksum(index, bytes); sum != row.number(1)) [[unlikely]] {
      return corrupt_record(connection, index,
                            "record " + std::to_string(index) + " is damaged: its " + std::to_string(bytes.size()) +
                                " bytes have the checksum " + hex(sum) + "; expected " + hex(row.number(1)));
    }
    if (!visit(index, bytes)) return {};
  }
}

Result<FileContents> check_file(Connection& connection) {
  FileContents contents;
  ROTA_TRY_ASSIGN(contents.meta, read_meta(connection));
  const std::uint64_t base = contents.meta.base;
  ROTA_TRY_ASSIGN(const std::uint64_t before,
                  connection.number("SELECT count(*) FROM (SELECT 1 FROM records WHERE idx <= " + std::to_string(base) +
                                    " LIMIT 1)"));
  if (before != 0) {
    return corrupt(connection, "it contains records up to " + std::to_string(base) + ", which were compacted");
  }
  contents.last_index = base;
  ROTA_TRY(scan_records(connection, base + 1, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
                        [&](std::uint64_t index, std::string_view) {
                          contents.last_index = index;
                          return true;
                        }));
  if (contents.last_index < contents.meta.mark) {
    Error lost = corrupt_record(connection, contents.last_index + 1,
                                "the last record is " + std::to_string(contents.last_index) + "; records up to " +
                                    std::to_string(contents.meta.mark) + " were acknowledged and are missing");
    lost.code = ErrorCode::kDataLoss;
    return lost;
  }
  ROTA_TRY_ASSIGN(const std::optional<Snapshot> snapshot, read_snapshot(connection));
  contents.snapshot_index = snapshot ? snapshot->index : 0;
  if (contents.snapshot_index < base || contents.snapshot_index > contents.last_index) {
    return corrupt(connection, "records up to " + std::to_string(base) + " were compacted and the last record is " +
                                   std::to_string(contents.last_index) + ", but the snapshot is of record " +
                                   std::to_string(contents.snapshot_index));
  }
  return contents;
}

Result<void> refuse_damage(Connection& connection, const WalTail& tail, const Meta& meta) {
  // A relaxed writer did not sync its transactions in order, so several of them may be torn.
  if (!tail.header_damaged && (!tail.middle_damaged || meta.relaxed)) return {};
  const std::string path = connection.path() + "-wal";
  const std::string what =
      tail.header_damaged ? "its header is damaged: the checksum is wrong, and what follows it is not in the main file"
                          : "frame " + std::to_string(tail.bad_frame) + ", at byte " + std::to_string(tail.damage_at) +
                                ", is damaged: its checksum is wrong, and later transactions follow it";
  std::string last = "no record";
  std::uint64_t expected = 1;
  if (Result<std::uint64_t> found = connection.number("SELECT ifnull(max(idx), 0) FROM records"); found.ok()) {
    expected = std::max(*found, meta.base) + 1;
    last = "record " + std::to_string(expected - 1);
  }
  return Error{ErrorCode::kCorrupt, path + ": " + what + ". The last record before it is " + last +
                                        "; expected at least record " + std::to_string(expected) +
                                        " after it. The ledger was not opened or changed; restore a backup"}
      .with("index", std::to_string(expected))
      .with("offset", std::to_string(tail.header_damaged ? 0 : tail.damage_at));
}

}  // namespace rota::ledger::detail

#include "ledger/disk_store.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "base/os_error.h"

namespace rota::ledger::detail {

namespace {

constexpr int kMostCheckpoints = 5;  // Attempts during recovery, while another program reads.

std::string text(std::uint64_t number) { return std::to_string(number); }

// Called by SQLite after each commit with the number of pages in the log.
int note_pages(void* pages, sqlite3* /*database*/, const char* /*name*/, int count) {
  *static_cast<std::uint64_t*>(pages) = static_cast<std::uint64_t>(count);
  return SQLITE_OK;
}

void checkpoint_at_close(const Connection& connection, bool on) {
  sqlite3_db_config(connection.raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on ? 0 : 1, nullptr);
}

bool empty_file(const std::string& path) {
  struct stat found{};
  return ::stat(path.c_str(), &found) != 0 || found.st_size == 0;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------------------- open

Result<std::unique_ptr<DiskStore>> DiskStore::open(const DiskOptions& options) {
  std::unique_ptr<DiskStore> store(new DiskStore(options));
  ROTA_TRY(store->start());
  return store;
}

DiskStore::~DiskStore() = default;

// Nothing is written before everything has been checked.
Result<void> DiskStore::start() {
  ROTA_TRY_ASSIGN(const WalTail tail, read_wal_tail(options_.path + "-wal", options_.path));
  if (tail.transactions > 0 && empty_file(options_.path)) {
    // SQLite would consider the log stray and remove it.
    return Error{ErrorCode::kCorrupt, options_.path + " is empty or missing, but " + options_.path +
                                          "-wal is not: the main file is lost. Restore a backup, or move both away"};
  }
  // make_file() gives a file its name when it is complete, so nothing that Rota does leaves an empty one.
  ROTA_TRY(refuse_empty(options_.path));
  if (empty_file(options_.path)) {
    if (tail.header_damaged || tail.middle_damaged) {
      ROTA_TRY_ASSIGN(const std::unique_ptr<Connection> lost,
                      Connection::open(options_.path, Connection::Mode::kCreate, options_.vfs));
      return refuse_damage(*lost, tail, {});
    }
    ROTA_TRY(make_file());
    recovery_.created = true;
  }
  ROTA_TRY_ASSIGN(connection_, Connection::open(options_.path, Connection::Mode::kWrite, options_.vfs));
  checkpoint_at_close(*connection_, false);
  ROTA_TRY_ASSIGN(const bool ours, check_identity(*connection_));
  if (!ours) {
    return Error{ErrorCode::kInvalidArgument,
                 options_.path + ": is a database without tables, not a Rota ledger; choose another path"};
  }
  if (recovery_.created) {
    ROTA_TRY_ASSIGN(meta_, read_meta(*connection_));
    ROTA_TRY(set_up());
  } else {
    ROTA_TRY(recover(tail));
  }
  const bool relaxed = options_.durability == Durability::kRelaxed;
  ROTA_TRY_ASSIGN(begin_, connection_->prepare("BEGIN IMMEDIATE"));
  ROTA_TRY_ASSIGN(commit_, connection_->prepare("COMMIT"));
  ROTA_TRY_ASSIGN(insert_, connection_->prepare("INSERT INTO records(idx, sum, bytes) VALUES(?1, ?2, ?3)"));
  if (meta_.relaxed != relaxed) {
    // In the main file before the first transaction that is not synced, so that the next open() knows how to read the
    // log.
    meta_.relaxed = relaxed;
    ROTA_TRY(transact([&] { return write_meta(*connection_, meta_); }));
    ROTA_TRY(checkpoint(true));
  }
  for (bool more = true; more;) {
    ROTA_TRY_ASSIGN(more, remove_garbage());
  }
  if (relaxed) ROTA_TRY(connection_->execute("PRAGMA synchronous = NORMAL"));
  recovery_.first_index = first_index();
  recovery_.last_index = last_;
  return {};
}

// Created under another name and renamed, so that there is a complete ledger or none, for one sync. The first sync of
// the write-ahead log, for which SQLite syncs the folder, makes the name durable, too.
Result<void> DiskStore::make_file() {
  const std::string made = options_.path + "-new";
  for (const char* suffix : {"", "-journal"}) ::unlink((made + suffix).c_str());  // Left by a crash.
  {
    ROTA_TRY_ASSIGN(const std::unique_ptr<Connection> connection,
                    Connection::open(made, Connection::Mode::kCreate, options_.vfs));
    ROTA_TRY(connection->execute("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF"));
    ROTA_TRY(create_tables(*connection, options_.durability == Durability::kRelaxed));
    ROTA_TRY(connection->mark_write_ahead());
  }
  // The log has the environment of every task. SQLite gives its other files the mode of this one.
  if (::chmod(made.c_str(), 0600) != 0) return os_error(errno, "chmod " + made);
  if (options_.rename(made.c_str(), options_.path.c_str()) != 0) {
    return os_error(errno, "rename " + made + " to " + options_.path);
  }
  return {};
}

Result<void> DiskStore::set_up() {
  ROTA_TRY(
      connection_->execute("PRAGMA secure_delete = OFF; PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL;"
                           "PRAGMA wal_autocheckpoint = 0"));
  sqlite3_wal_hook(connection_->raw(), note_pages, &log_pages_);
  return {};
}

Result<void> DiskStore::recover(const WalTail& tail) {
  ROTA_TRY_ASSIGN(const Meta meta, read_meta(*connection_));
  ROTA_TRY(refuse_damage(*connection_, tail, meta));
  ROTA_TRY_ASSIGN(const FileContents contents, check_file(*connection_));
  meta_ = contents.meta;
  last_ = contents.last_index;
  recovery_.snapshot_index = contents.snapshot_index;
  recovery_.torn_bytes = tail.torn_bytes;
  ROTA_TRY(set_up());
  // The recovered records are written again and synced before they count: after a failed sync the system may show bytes
  // that the disk does not have. This also removes the torn tail.
  // Readers (disk_reader.h) hold the file for moments only; each attempt waits up to a second for them.
  bool all = false;
  for (int tries = 0; tries < kMostCheckpoints && !all; ++tries) {
    ROTA_TRY_ASSIGN(all, checkpoint(true));
  }
  if (!all) {
    return Error{ErrorCode::kFailedPrecondition,
                 options_.path + ": another program is reading it; stop that program before opening the ledger"};
  }
  if (tail.torn_bytes > 0) {
    ROTA_LOG(kWarn, "removed a torn tail from the ledger; it was never acknowledged", {"path", options_.path},
             {"bytes", tail.torn_bytes}, {"last_record", last_});
  }
  return {};
}

// ------------------------------------------------------------------------------------------------------------- writing

template <class Body>
Result<void> DiskStore::transact(Body&& body) {
  // No rollback on a failure: the store must not be used any more, and closing the connection rolls back.
  due_ = log_pages_ >= options_.checkpoint_pages;
  ROTA_TRY(begin_.run());
  ROTA_TRY(body());
  if (due_) {
    meta_.mark = last_;
    ROTA_TRY(write_meta(*connection_, meta_));
  }
  return commit_.run();
}

Result<void> DiskStore::append(const Batch& batch) {
  ROTA_ASSERT(batch.first == last_ + 1, "records from ", batch.first, " after record ", last_);
  return transact([&]() -> Result<void> {
    std::size_t begin = 0;
    for (const std::size_t end : batch.ends) {
      const std::string_view record = std::string_view(batch.bytes).substr(begin, end - begin);
      const std::uint64_t index = last_ + 1;
      ROTA_TRY(insert_.bind(1, index).bind(2, checksum(index, record)).bind(3, record).run());
      last_ = index;
      begin = end;
    }
    return {};
  });
}

Result<void> DiskStore::maintain() {
  if (!due_) return {};
  due_ = false;
  ROTA_TRY_ASSIGN(const bool all, checkpoint(false));
  if (all) log_pages_ = 0;  // The next commit starts at the front. Otherwise a reader prevents it; try again soon.
  return {};
}

Result<bool> DiskStore::checkpoint(bool truncate) {
  int log = 0, done = 0;
  const int status = sqlite3_wal_checkpoint_v2(
      connection_->raw(), nullptr, truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, &log, &done);
  if (status == SQLITE_BUSY) return false;
  if (status != SQLITE_OK) return connection_->error("checkpoint");
  ++checkpoints_;
  return log == done;
}

Result<void> DiskStore::begin_snapshot() {
  ROTA_TRY_ASSIGN(first_piece_, connection_->number("SELECT ifnull(max(id), 0) + 1 FROM pieces"));
  pieces_ = 0;
  return {};
}

Result<void> DiskStore::add_piece(std::string_view bytes) {
  return transact([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(Statement piece, connection_->prepare("INSERT INTO pieces(id, bytes) VALUES(?1, ?2)"));
    ROTA_TRY(piece.bind(1, first_piece_ + pieces_).bind(2, bytes).run());
    ++pieces_;
    return {};
  });
}

Result<void> DiskStore::finish_snapshot(const Snapshot& snapshot) {
  return transact([&]() -> Result<void> {
    ROTA_TRY(connection_->execute("DELETE FROM snapshots"));
    ROTA_TRY_ASSIGN(Statement row, connection_->prepare("INSERT INTO snapshots(idx, first_piece, pieces, bytes, sum)"
                                                        " VALUES(?1, ?2, ?3, ?4, ?5)"));
    return row.bind(1, snapshot.index)
        .bind(2, first_piece_)
        .bind(3, pieces_)
        .bind(4, snapshot.bytes.size())
        .bind(5, checksum(snapshot.index, snapshot.bytes))
        .run();
  });
}

Result<bool> DiskStore::remove_garbage() {
  ROTA_TRY_ASSIGN(const std::optional<SnapshotRow> kept, find_snapshot(*connection_));
  const std::uint64_t begin = kept ? kept->first_piece : 1;
  const std::uint64_t end = kept ? begin + kept->pieces : 1;
  ROTA_TRY_ASSIGN(const std::uint64_t garbage,
                  connection_->number("SELECT ifnull(max(id), 0) FROM (SELECT id FROM pieces WHERE id < " +
                                      text(begin) + " OR id >= " + text(end) + " LIMIT 1)"));
  if (garbage == 0) return false;
  ROTA_TRY(transact([&] { return connection_->execute(("DELETE FROM pieces WHERE id = " + text(garbage)).c_str()); }));
  return true;
}

Result<bool> DiskStore::remove_records(std::uint64_t up_to) {
  if (up_to <= meta_.base) return false;
  const std::uint64_t now = std::min(up_to, meta_.base + options_.compact_records);
  ROTA_TRY(transact([&]() -> Result<void> {
    ROTA_TRY(connection_->execute(("DELETE FROM records WHERE idx <= " + text(now)).c_str()));
    meta_.base = now;
    return write_meta(*connection_, meta_);
  }));
  return now < up_to;
}

Result<void> DiskStore::close() {
  if (meta_.mark != last_) {
    ROTA_TRY(transact([&] {
      meta_.mark = last_;
      return write_meta(*connection_, meta_);
    }));
  }
  // With full durability the log is already synced; in a relaxed ledger this is the sync.
  ROTA_TRY_ASSIGN(const bool all, checkpoint(true));
  for (Statement* statement : {&begin_, &commit_, &insert_}) *statement = Statement();
  checkpoint_at_close(*connection_, all);  // Removes the empty log.
  connection_.reset();
  return {};
}

}  // namespace rota::ledger::detail

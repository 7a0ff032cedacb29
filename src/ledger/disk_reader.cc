#include "ledger/disk_reader.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/os_error.h"
#include "ledger/disk_backup.h"
#include "ledger/disk_format.h"
#include "ledger/file_lock.h"
#include "ledger/sqlite_handle.h"
#include "ledger/wal_tail.h"

namespace rota::ledger {

using detail::Connection;

namespace {

// How often a read is repeated because a writer started, ended or was in the middle of an operation. Each of these
// takes milliseconds; at either bound the last error is returned. A single look may take SQLite ten seconds, when it
// waits for a writer that is not there.
constexpr int kMostLooks = 200;
constexpr std::chrono::seconds kMostTime{10};
constexpr ::useconds_t kPauseUs = 5000;

// Identifies a version of a file: an equal stamp before and after means that nobody wrote to it.
struct Stamp {
  bool there = false;
  ino_t inode = 0;
  off_t bytes = 0;
  std::int64_t changed_ns = 0;
  bool operator==(const Stamp&) const = default;
};

Stamp stamp_of(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {true, found.st_ino, found.st_size, found.st_mtim.tv_sec * 1'000'000'000LL + found.st_mtim.tv_nsec};
}

// A writer is just creating, recovering or removing the files beside the main file.
bool is_passing(const Error& error) {
  for (const ErrorDetail& detail : error.details) {
    if (detail.key != "sqlite") continue;
    const int status = std::stoi(detail.value);
    return (status & 0xff) == SQLITE_BUSY || (status & 0xff) == SQLITE_PROTOCOL || (status & 0xff) == SQLITE_CANTOPEN ||
           status == SQLITE_READONLY_CANTINIT || status == SQLITE_READONLY_RECOVERY;
  }
  return false;
}

Result<void> look_once(const std::string& path, std::string_view parameters,
                       const std::function<Result<void>(Connection&)>& body) {
  ROTA_TRY_ASSIGN(const std::unique_ptr<Connection> connection, Connection::open_with(path, parameters, nullptr));
  // This connection must never checkpoint: the log belongs to the writer.
  sqlite3_db_config(connection->raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return connection->transaction([&] { return body(*connection); });
}

}  // namespace

Result<void> DiskReader::look(const std::function<Result<void>(Connection&)>& body) const {
  const std::string log = path_ + "-wal";
  Result<void> done;
  const auto give_up_at = std::chrono::steady_clock::now() + kMostTime;
  for (int looks = 0; looks < kMostLooks; ++looks) {
    if (looks > 0) {
      if (!done.ok() && std::chrono::steady_clock::now() >= give_up_at) return done;
      ::usleep(kPauseUs);
    }
    const Stamp main_before = stamp_of(path_);
    if (!main_before.there) {
      if (::access(path_.c_str(), R_OK) != 0) return os_error(errno, "read " + path_);
      continue;
    }
    const Stamp log_before = stamp_of(log);
    bool ignored = log_before.bytes == 0;
    if (!ignored) {
      // A log without a header, or with nothing else, because its writer was killed right then. A reader would wait for
      // a writer that recovers such a log. Without a writer nobody does, and there is nothing in it.
      ROTA_TRY_ASSIGN(const bool has_header, detail::has_wal_header(log));
      if (!has_header || log_before.bytes <= static_cast<off_t>(detail::kWalHeaderBytes)) {
        ROTA_TRY_ASSIGN(const std::optional<std::string> writer, writer_of(path_));
        ignored = !writer;
      }
    }
    if (ignored) {
      done = look_once(path_, "mode=ro&immutable=1", body);
      // A checkpoint changes the main file only while a log exists, and the log is removed only afterwards.
      const Stamp log_now = stamp_of(log);
      if (log_now == log_before && stamp_of(path_) == main_before) return done;
      continue;
    }
    const bool has_index = stamp_of(path_ + "-shm").there;
    done = look_once(path_, has_index ? "mode=ro&readonly_shm=1" : "mode=ro", body);
    if (!done.ok() && done.code() == ErrorCode::kPermissionDenied && !has_index) {
      return std::move(done).take_error().with(
          "cause", "its log (-wal) has no index (-shm) beside it; copy both files to a folder that can be written to");
    }
    if (done.ok() || !is_passing(done.error())) return done;
  }
  if (done.ok()) {  // Every read succeeded, and every time the file had changed.
    return Error{ErrorCode::kUnavailable, path_ + ": other processes keep opening and closing it; try again"};
  }
  return done;
}

// Only for a log that nobody writes: a half-written one looks damaged.
Result<void> DiskReader::check_log() const {
  ROTA_TRY_ASSIGN(const std::optional<std::string> writer, writer_of(path_));
  if (writer) return {};
  ROTA_TRY_ASSIGN(const detail::WalTail tail, detail::read_wal_tail(path_ + "-wal", path_));
  if (!tail.header_damaged && !tail.middle_damaged) return {};
  Result<void> sound = look([&](Connection& connection) -> Result<void> {
    ROTA_TRY_ASSIGN(const bool there, detail::check_identity(connection));
    detail::Meta meta;
    if (there) {
      ROTA_TRY_ASSIGN(meta, detail::read_meta(connection));
    }
    return detail::refuse_damage(connection, tail, meta);
  });
  if (sound.ok()) return {};
  // A process that has opened it since has checked it as well, or has written meanwhile.
  ROTA_TRY_ASSIGN(const std::optional<std::string> now, writer_of(path_));
  return now ? Result<void>() : std::move(sound);
}

Result<DiskReader> DiskReader::open(const std::string& path) {
  ROTA_TRY(detail::refuse_empty(path));
  DiskReader reader(path);
  ROTA_TRY(reader.check_log());
  ROTA_TRY(reader.refresh());
  return reader;
}

Result<std::optional<std::string>> DiskReader::writer_of(const std::string& path) {
  return detail::FileLock::holder(path + "-lock");
}

Result<void> DiskReader::refresh() {
  return look([this](Connection& connection) -> Result<void> {
    first_ = 1;
    last_ = snapshot_ = 0;
    ROTA_TRY_ASSIGN(const bool there, detail::check_identity(connection));
    if (!there) return {};
    ROTA_TRY_ASSIGN(const detail::Meta meta, detail::read_meta(connection));
    ROTA_TRY_ASSIGN(const std::uint64_t last, connection.number("SELECT ifnull(max(idx), 0) FROM records"));
    ROTA_TRY_ASSIGN(const std::optional<detail::SnapshotRow> snapshot, detail::find_snapshot(connection));
    first_ = meta.base + 1;
    last_ = std::max(last, meta.base);
    snapshot_ = snapshot ? snapshot->index : 0;
    if (last_ < meta.mark) {
      return Error{ErrorCode::kDataLoss, path_ + ": the last record is " + std::to_string(last_) + "; records up to " +
                                             std::to_string(meta.mark) +
                                             " were acknowledged and are missing. Restore a backup"}
          .with("index", std::to_string(last_ + 1));
    }
    return {};
  });
}

Result<std::vector<RecordBytes>> DiskReader::read(std::uint64_t from, std::size_t max_records) {
  std::vector<RecordBytes> records;
  ROTA_TRY(look([&](Connection& connection) -> Result<void> {
    records.clear();
    if (last_ == 0 || max_records == 0) return {};
    ROTA_TRY_ASSIGN(const detail::Meta meta, detail::read_meta(connection));
    ROTA_TRY(detail::check_read(from, meta.base + 1));
    std::size_t bytes = 0;
    return detail::scan_records(connection, from, last_, [&](std::uint64_t index, std::string_view record) {
      bytes += record.size();
      if (!records.empty() && bytes > kMaxReadBytes) return false;
      records.push_back({index, std::string(record)});
      return records.size() < max_records;
    });
  }));
  return records;
}

Result<std::optional<Snapshot>> DiskReader::latest_snapshot() {
  std::optional<Snapshot> snapshot;
  ROTA_TRY(look([&](Connection& connection) -> Result<void> {
    snapshot.reset();
    if (last_ == 0) return {};
    ROTA_TRY_ASSIGN(snapshot, detail::read_snapshot(connection));
    return {};
  }));
  return snapshot;
}

Result<void> DiskReader::back_up(const std::string& path) {
  return detail::write_backup(path, &std::rename, [this](const std::string& partial) {
    return look([&partial](Connection& connection) { return detail::copy_ledger(connection, partial, nullptr); });
  });
}

}  // namespace rota::ledger

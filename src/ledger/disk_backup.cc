#include "ledger/disk_backup.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/os_error.h"
#include "ledger/disk_format.h"
#include "ledger/sqlite_handle.h"

namespace rota::ledger::detail {

namespace {

Result<void> sync_folder_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return os_error(errno, "open " + folder);
  const int status = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (status != 0) return os_error(error, "sync " + folder);
  return {};
}

void remove_with_companions(const std::string& path) {
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) ::unlink((path + suffix).c_str());
}

}  // namespace

Result<void> copy_ledger(Connection& from, const std::string& path, const char* vfs) {
  remove_with_companions(path);
  // SQLite takes an empty file for a new database, and keeps its mode.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return os_error(errno, "create " + path);
  ::close(fd);
  ROTA_TRY_ASSIGN(const std::unique_ptr<Connection> to, Connection::open(path, Connection::Mode::kCreate, vfs));
  ROTA_TRY(to->execute("PRAGMA synchronous = FULL"));
  sqlite3_backup* copy = sqlite3_backup_init(to->raw(), "main", from.raw(), "main");
  if (copy == nullptr) return to->error("backup");
  const int status = sqlite3_backup_step(copy, -1);
  if (sqlite3_backup_finish(copy) != SQLITE_OK || status != SQLITE_DONE) return to->error("backup");
  // A single file, without a log beside it.
  ROTA_TRY(to->execute("PRAGMA journal_mode = DELETE"));
  // A backup counts only if it has been read back.
  ROTA_TRY_ASSIGN(const FileContents contents, check_file(*to));
  (void)contents;
  return {};
}

Result<void> back_up(const DiskOptions& options, const std::string& path) {
  return write_backup(path, options.rename, [&](const std::string& partial) -> Result<void> {
    ROTA_TRY_ASSIGN(const std::unique_ptr<Connection> from,
                    Connection::open(options.path, Connection::Mode::kRead, options.vfs));
    // This connection must never checkpoint: the log belongs to the writer.
    sqlite3_db_config(from->raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    return copy_ledger(*from, partial, options.vfs);
  });
}

Result<void> write_backup(const std::string& path, int (*rename)(const char* from, const char* to),
                          const std::function<Result<void>(const std::string& partial)>& copy) {
  struct stat found{};
  if (path.empty()) return Error{ErrorCode::kInvalidArgument, "a backup needs a path"};
  if (::lstat(path.c_str(), &found) == 0) {
    return Error{ErrorCode::kAlreadyExists, "cannot back up to " + path + ": it already exists; choose another path"};
  }
  const std::string partial = path + ".partial";
  Result<void> done = copy(partial);
  if (done.ok() && rename(partial.c_str(), path.c_str()) != 0) {
    done = os_error(errno, "rename " + partial + " to " + path);
  }
  if (done.ok()) {
    done = sync_folder_of(path);
    if (!done.ok()) ::unlink(path.c_str());
  }
  if (!done.ok()) {
    remove_with_companions(partial);
    return std::move(done).take_error().in("backup to " + path);
  }
  return {};
}

}  // namespace rota::ledger::detail

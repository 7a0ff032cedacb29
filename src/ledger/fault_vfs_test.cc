// The VFS of fault_vfs.h, and tests of the properties that the fault tests rely on.
#include "ledger/fault_vfs.h"

#include <sqlite3.h>

#include <cstring>
#include <filesystem>

#include "base/prng.h"
#include "ledger/disk_testing.h"
#include "ledger/sqlite_handle.h"

namespace rota::ledger {

namespace {

constexpr std::size_t kSectorBytes = 512;

// The file that SQLite sees; it wraps the real one.
struct FaultFile {
  sqlite3_file base;
  FaultVfs* vfs;
  std::string* path;
  [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

FaultFile* of(sqlite3_file* file) { return reinterpret_cast<FaultFile*>(file); }
FaultVfs* of(sqlite3_vfs* vfs) { return static_cast<FaultVfs*>(vfs->pAppData); }

int x_close(sqlite3_file* file) {
  const int status = of(file)->real()->pMethods->xClose(of(file)->real());
  delete of(file)->path;
  return status;
}
int x_read(sqlite3_file* file, void* bytes, int size, sqlite3_int64 offset) {
  return of(file)->real()->pMethods->xRead(of(file)->real(), bytes, size, offset);
}
int x_write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  sqlite3_file* real = of(file)->real();
  const Fault fault = of(file)->vfs->next("xWrite", *of(file)->path);
  if (fault == Fault::kNone) return real->pMethods->xWrite(real, bytes, size, offset);
  if (fault != Fault::kError && size > 1) (void)real->pMethods->xWrite(real, bytes, size / 2, offset);
  return fault == Fault::kNoSpace ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}
int x_truncate(sqlite3_file* file, sqlite3_int64 size) {
  if (of(file)->vfs->next("xTruncate", *of(file)->path) != Fault::kNone) return SQLITE_IOERR_TRUNCATE;
  return of(file)->real()->pMethods->xTruncate(of(file)->real(), size);
}
int x_sync(sqlite3_file* file, int flags) {
  of(file)->vfs->pass_hold();
  if (of(file)->vfs->next("xSync", *of(file)->path) != Fault::kNone) return SQLITE_IOERR_FSYNC;
  const int status = of(file)->real()->pMethods->xSync(of(file)->real(), flags);
  if (status == SQLITE_OK) of(file)->vfs->synced(*of(file)->path);
  return status;
}
int x_file_size(sqlite3_file* file, sqlite3_int64* size) {
  return of(file)->real()->pMethods->xFileSize(of(file)->real(), size);
}
int x_lock(sqlite3_file* file, int lock) { return of(file)->real()->pMethods->xLock(of(file)->real(), lock); }
int x_unlock(sqlite3_file* file, int lock) { return of(file)->real()->pMethods->xUnlock(of(file)->real(), lock); }
int x_check_reserved(sqlite3_file* file, int* out) {
  return of(file)->real()->pMethods->xCheckReservedLock(of(file)->real(), out);
}
int x_control(sqlite3_file* file, int op, void* argument) {
  return of(file)->real()->pMethods->xFileControl(of(file)->real(), op, argument);
}
int x_sector_size(sqlite3_file* file) { return of(file)->real()->pMethods->xSectorSize(of(file)->real()); }
int x_characteristics(sqlite3_file* file) {
  return of(file)->real()->pMethods->xDeviceCharacteristics(of(file)->real());
}
int x_shm_map(sqlite3_file* file, int page, int size, int extend, void volatile** out) {
  return of(file)->real()->pMethods->xShmMap(of(file)->real(), page, size, extend, out);
}
int x_shm_lock(sqlite3_file* file, int offset, int n, int flags) {
  return of(file)->real()->pMethods->xShmLock(of(file)->real(), offset, n, flags);
}
void x_shm_barrier(sqlite3_file* file) { of(file)->real()->pMethods->xShmBarrier(of(file)->real()); }
int x_shm_unmap(sqlite3_file* file, int remove) {
  return of(file)->real()->pMethods->xShmUnmap(of(file)->real(), remove);
}

constexpr sqlite3_io_methods kMethods = {
    2,           x_close,          x_read,    x_write,       x_truncate,        x_sync,    x_file_size, x_lock,
    x_unlock,    x_check_reserved, x_control, x_sector_size, x_characteristics, x_shm_map, x_shm_lock,  x_shm_barrier,
    x_shm_unmap, nullptr,          nullptr};

int x_open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  FaultVfs* self = of(vfs);
  file->pMethods = nullptr;
  const std::string name = path == nullptr ? "" : path;
  if ((flags & SQLITE_OPEN_CREATE) != 0 && self->next("xOpen", name) != Fault::kNone) return SQLITE_CANTOPEN;
  const int status = self->real()->xOpen(self->real(), path, of(file)->real(), flags, out_flags);
  if (status != SQLITE_OK) return status;
  of(file)->vfs = self;
  of(file)->path = new std::string(name);
  file->pMethods = &kMethods;
  return SQLITE_OK;
}
int x_delete(sqlite3_vfs* vfs, const char* path, int sync_folder) {
  FaultVfs* self = of(vfs);
  if (self->next("xDelete", path) != Fault::kNone) return SQLITE_IOERR_DELETE;
  const int status = self->real()->xDelete(self->real(), path, sync_folder);
  if (status == SQLITE_OK) self->deleted(path);
  return status;
}
int x_access(sqlite3_vfs* vfs, const char* path, int flags, int* out) {
  return of(vfs)->real()->xAccess(of(vfs)->real(), path, flags, out);
}
int x_full_path(sqlite3_vfs* vfs, const char* path, int size, char* out) {
  return of(vfs)->real()->xFullPathname(of(vfs)->real(), path, size, out);
}

}  // namespace

FaultVfs::FaultVfs() : real_(sqlite3_vfs_find(nullptr)), vfs_(std::make_unique<sqlite3_vfs>(*real_)) {
  name_ = "fault" + std::to_string(reinterpret_cast<std::uintptr_t>(this));
  vfs_->zName = name_.c_str();
  vfs_->pAppData = this;
  vfs_->pNext = nullptr;
  vfs_->szOsFile = static_cast<int>(sizeof(FaultFile)) + real_->szOsFile;
  vfs_->xOpen = x_open;
  vfs_->xDelete = x_delete;
  vfs_->xAccess = x_access;
  vfs_->xFullPathname = x_full_path;
  EXPECT_EQ(sqlite3_vfs_register(vfs_.get(), 0), SQLITE_OK);
}

FaultVfs::~FaultVfs() { sqlite3_vfs_unregister(vfs_.get()); }

void FaultVfs::arm(FaultPlan plan) {
  const sync::MutexLock lock(mutex_);
  plan_ = plan;
  calls_ = 0;
  dead_ = false;
  fired_at_.clear();
}

std::uint64_t FaultVfs::calls() const {
  const sync::MutexLock lock(mutex_);
  return calls_;
}

std::uint64_t FaultVfs::syncs() const {
  const sync::MutexLock lock(mutex_);
  return syncs_;
}

void FaultVfs::hold_syncs(bool hold) {
  const sync::MutexLock lock(mutex_);
  hold_ = hold;
  hold_changed_.notify_all();
}

void FaultVfs::await_held() {
  const sync::MutexLock lock(mutex_);
  while (!held_) hold_changed_.wait(mutex_);
}

void FaultVfs::pass_hold() {
  const sync::MutexLock lock(mutex_);
  held_ = hold_;
  hold_changed_.notify_all();
  while (hold_) hold_changed_.wait(mutex_);
  held_ = false;
}

std::string FaultVfs::fired_at() const {
  const sync::MutexLock lock(mutex_);
  return fired_at_;
}

Fault FaultVfs::next(const char* call, const std::string& path) {
  const sync::MutexLock lock(mutex_);
  if (dead_) return Fault::kError;
  if (++calls_ != plan_.at) return Fault::kNone;
  fired_at_ = std::string(call) + " " + std::filesystem::path(path).filename().string();
  dead_ = plan_.kind == Fault::kDead;
  return plan_.kind;
}

void FaultVfs::synced(const std::string& path) {
  std::string bytes = file_bytes(path);
  const sync::MutexLock lock(mutex_);
  disk_[path] = std::move(bytes);
  ++syncs_;
}

void FaultVfs::deleted(const std::string& path) {
  const sync::MutexLock lock(mutex_);
  disk_.erase(path);
}

void FaultVfs::power_cut(const std::string& from, const std::string& to, std::uint64_t seed) const {
  const sync::MutexLock lock(mutex_);
  Prng random(seed);
  for (const char* suffix : {"", "-wal", "-journal", "-shm"}) std::filesystem::remove(to + suffix);
  for (const char* suffix : {"", "-wal", "-journal"}) {
    if (!std::filesystem::exists(from + suffix)) continue;
    auto found = disk_.find(from + suffix);
    if (found == disk_.end() && *suffix == '\0')
      found = disk_.find(from + "-new");  // A ledger is made under this name.
    std::string bytes = found == disk_.end() ? "" : found->second;
    if (seed != 0) {
      const std::string written = file_bytes(from + suffix);
      if (random.below(2) == 0) bytes.resize(written.size());  // The size is one of the two as well.
      for (std::size_t at = 0; at < std::min(bytes.size(), written.size()); at += kSectorBytes) {
        const std::size_t size = std::min({kSectorBytes, bytes.size() - at, written.size() - at});
        if (random.below(2) == 0) bytes.replace(at, size, written, at, size);
      }
    }
    write_file(to + suffix, bytes);
  }
}

namespace {

// Exactly the requested call fails; a half-done write is half done; unsynced data is gone after a power cut.
TEST(FaultVfs, FailsWhereItIsTold) {
  const TestFolder folder;
  FaultVfs vfs;
  using detail::Connection;
  const std::string path = folder / "file";
  const std::unique_ptr<Connection> connection = Connection::open(path, Connection::Mode::kCreate, vfs.name()).value();
  ASSERT_TRUE(connection->execute("PRAGMA journal_mode = WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)").ok());
  vfs.power_cut(path, folder / "synced", 0);
  EXPECT_EQ(file_bytes(folder / "synced"), file_bytes(path));
  EXPECT_EQ(file_bytes(folder / "synced-wal"), file_bytes(path + "-wal"));

  const std::string before = file_bytes(path + "-wal");
  vfs.arm({.at = 2, .kind = Fault::kShort});  // A frame's header, its page, the sync.
  EXPECT_EQ(connection->execute("INSERT INTO t VALUES(2)").code(), ErrorCode::kIoError);
  EXPECT_EQ(vfs.fired_at(), "xWrite file-wal");
  EXPECT_EQ(file_bytes(path + "-wal").size(), before.size() + 24 + 2048);
  vfs.power_cut(path, folder / "synced", 0);
  EXPECT_EQ(file_bytes(folder / "synced-wal"), before);

  vfs.arm({.at = 3, .kind = Fault::kError});
  EXPECT_EQ(connection->execute("INSERT INTO t VALUES(2)").code(), ErrorCode::kIoError);
  EXPECT_EQ(vfs.fired_at(), "xSync file-wal");
  vfs.arm({.at = 1, .kind = Fault::kNoSpace});
  EXPECT_EQ(connection->execute("INSERT INTO t VALUES(2)").code(), ErrorCode::kNoSpace);
  vfs.arm({.at = 1, .kind = Fault::kDead});
  EXPECT_FALSE(connection->execute("INSERT INTO t VALUES(2)").ok());
  EXPECT_FALSE(connection->execute("INSERT INTO t VALUES(2)").ok());
  vfs.arm({});
  EXPECT_TRUE(connection->execute("INSERT INTO t VALUES(2)").ok());
  EXPECT_EQ(*connection->number("SELECT count(*) FROM t"), 2U);
}

}  // namespace
}  // namespace rota::ledger

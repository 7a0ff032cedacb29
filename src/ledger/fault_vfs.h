// An SQLite VFS for tests, between the ledger and the system: it counts the calls that change a file, makes one of them
// fail, and computes what a power cut would leave.
//
//   FaultVfs vfs;                                  // registered under vfs.name() while it lives
//   vfs.arm({.at = 7, .kind = Fault::kShort});     // the seventh call from now on
//   ... use a ledger with options.vfs = vfs.name() ...
//   vfs.power_cut(path, copy, 0);                  // what the disk holds if the power goes now
//
// Counted are xWrite, xSync, xTruncate, xDelete, and xOpen of a file that may be created. All other calls, including
// shared memory and locks, are passed to the system's VFS.
//
// The model of the disk: for each file the bytes as of its last xSync. A power cut leaves these, plus none or any of
// the sectors that were written since. Names are durable at once, because SQLite does not sync folders through the VFS.
//
// Thread safety: all functions; the calls of several connections are counted in one order.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/sync.h"

struct sqlite3_vfs;

namespace rota::ledger {

enum class Fault : std::uint8_t {
  kNone,
  kError,    // Nothing is done; an input/output error is returned.
  kNoSpace,  // Half of a write is done, then the disk is full. Other calls: as kError.
  kShort,    // Half of a write is done, then an input/output error. Other calls: as kError.
  kDead,     // Half of a write is done; from then on every call fails and does nothing, as if the process had died.
};

struct FaultPlan {
  std::uint64_t at = 0;  // The number of the call, from 1; 0: never.
  Fault kind = Fault::kNone;
};

class FaultVfs {
 public:
  FaultVfs();
  ~FaultVfs();
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;

  [[nodiscard]] const char* name() const { return name_.c_str(); }
  // Starts counting from 0 again.
  void arm(FaultPlan plan);
  [[nodiscard]] std::uint64_t calls() const;
  [[nodiscard]] std::uint64_t syncs() const;  // Successful ones, since the beginning.
  // While held, a sync waits. await_held() returns when a sync waits.
  void hold_syncs(bool hold);
  void await_held();
  // The call that failed, such as "xSync ledger-wal"; empty if none did.
  [[nodiscard]] std::string fired_at() const;

  // Writes to `to` what a power cut now would leave of the ledger at `from`. Seed 0: each file as of its last sync.
  // Otherwise the seed decides for each sector written since whether it is there.
  void power_cut(const std::string& from, const std::string& to, std::uint64_t seed) const;

  // Counts a call and returns what to do about it. This and the functions below are for the VFS itself.
  Fault next(const char* call, const std::string& path);
  void pass_hold();
  void synced(const std::string& path);
  void deleted(const std::string& path);
  [[nodiscard]] sqlite3_vfs* real() const { return real_; }

 private:
  std::string name_;
  sqlite3_vfs* real_ = nullptr;
  std::unique_ptr<sqlite3_vfs> vfs_;
  mutable sync::Mutex mutex_;
  FaultPlan plan_ ROTA_GUARDED_BY(mutex_);
  std::uint64_t calls_ ROTA_GUARDED_BY(mutex_) = 0;
  bool dead_ ROTA_GUARDED_BY(mutex_) = false;
  std::uint64_t syncs_ ROTA_GUARDED_BY(mutex_) = 0;
  bool hold_ ROTA_GUARDED_BY(mutex_) = false;
  bool held_ ROTA_GUARDED_BY(mutex_) = false;
  sync::CondVar hold_changed_;
  std::string fired_at_ ROTA_GUARDED_BY(mutex_);
  std::map<std::string, std::string> disk_ ROTA_GUARDED_BY(mutex_);  // Path to bytes at the last sync.
};

}  // namespace rota::ledger

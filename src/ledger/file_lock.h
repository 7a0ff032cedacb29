// FileLock: ensures that one process at a time has a ledger open.
//
// A file beside the ledger is locked with flock() and contains the name of the holder. The system releases the lock
// when the process ends, in whatever way; the file stays, and its contents are then ignored. Two openings by one
// process exclude each other, too.
//
// If a process is killed while it starts a child, the child keeps the lock until it executes its program. take() waits
// for that if the process named in the file no longer exists.
//
// holder() takes a shared lock for a moment, which does not make it an owner: take() distinguishes the two, since it
// could share the lock with a caller of holder(), and tries again.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "rota/result.h"

namespace rota::ledger::detail {

class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileLock();

  // Conflict if the lock is taken, with the holder's process, program and machine.
  static Result<FileLock> take(const std::string& path, const std::string& what);
  // The process, program and machine that hold the lock; none if it is free. Changes nothing.
  static Result<std::optional<std::string>> holder(const std::string& path);

 private:
  int fd_ = -1;
};

}  // namespace rota::ledger::detail

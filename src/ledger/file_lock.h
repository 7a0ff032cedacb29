// FileLock: one process at a time has a ledger open.
//
// A file beside the ledger is locked with flock() and says who has it. The system releases the lock when the process
// ends, however it ends; the file stays, and what it says then is old and believed by nobody. Two openings by one
// process exclude each other too.
//
// A process that is killed while it starts another leaves the lock with that one until it executes its program. take()
// waits for it, if the one whose name is in the file is gone.
//
// Whoever only asks (holder()) has a shared lock for that moment. It is no owner: take() tells the two apart, since it
// could share the lock with one who asks, and tries again.
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

  // Conflict if it is taken, with the holder's process, program and machine.
  static Result<FileLock> take(const std::string& path, const std::string& what);
  // Who has it now: process, program and machine. None: nobody. Makes and changes nothing.
  static Result<std::optional<std::string>> holder(const std::string& path);

 private:
  int fd_ = -1;
};

}  // namespace rota::ledger::detail

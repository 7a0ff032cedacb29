#include "ledger/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "base/os_error.h"

namespace rota::ledger::detail {

namespace {

// "process 4711 (rota) on host".
std::string who_am_i() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "process " + std::to_string(::getpid()) + " (" + program_invocation_short_name + ") on " + host.data();
}

// Attempts of take() while other processes call holder(), each of which has the lock for microseconds. At the bound it
// is a conflict.
constexpr int kMostTries = 1000;
constexpr ::useconds_t kPauseUs = 100;

// If the holder was killed while it started a child, the child has the lock until it executes its program, which takes
// milliseconds on a busy machine. At the bound it is a conflict.
constexpr int kMostWaits = 2000;
constexpr ::useconds_t kWaitUs = 1000;

// True if the holder was a process of this machine that no longer exists.
bool is_gone(const std::string& who) {
  constexpr std::string_view kBefore = "process ";
  const std::string me = who_am_i();
  const std::string_view host = std::string_view(me).substr(me.rfind(") on "));
  if (!who.starts_with(kBefore) || !who.ends_with(host)) return false;
  const int pid = std::atoi(who.c_str() + kBefore.size());
  return pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH;
}

std::string name_in(int fd) {
  std::array<char, 512> text;
  const ssize_t size = ::pread(fd, text.data(), text.size(), 0);
  // The holder takes the lock before it writes its name.
  return size <= 0 ? "another process" : std::string(text.data(), static_cast<std::size_t>(size));
}

}  // namespace

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<FileLock> FileLock::take(const std::string& path, const std::string& what) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.fd_ < 0) return os_error(errno, "open " + path);
  int waits = 0;
  for (int tries = 0; ::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0;) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return os_error(errno, "lock " + path);
    if (++tries < kMostTries && ::flock(lock.fd_, LOCK_SH | LOCK_NB) == 0) {
      // Released before the pause: two callers that want the lock must not wait for each other's share.
      (void)::flock(lock.fd_, LOCK_UN);
      ::usleep(kPauseUs);
      continue;
    }
    const std::string who = name_in(lock.fd_);
    if (is_gone(who) && ++waits < kMostWaits) {
      ::usleep(kWaitUs);
      continue;
    }
    return Error{ErrorCode::kConflict, what + " is in use by " + who + "; only one process at a time can open it"}
        .with("holder", who)
        .with("lock", path);
  }
  // For people only; a full disk must not prevent the start.
  const std::string me = who_am_i();
  if (::ftruncate(lock.fd_, 0) == 0) (void)!::pwrite(lock.fd_, me.data(), me.size(), 0);
  return lock;
}

Result<std::optional<std::string>> FileLock::holder(const std::string& path) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (lock.fd_ < 0) {
    if (errno == ENOENT) return std::optional<std::string>();
    return os_error(errno, "open " + path);
  }
  while (::flock(lock.fd_, LOCK_SH | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return os_error(errno, "lock " + path);
    return std::optional(name_in(lock.fd_));
  }
  return std::optional<std::string>();  // Closing the file releases the shared lock.
}

}  // namespace rota::ledger::detail

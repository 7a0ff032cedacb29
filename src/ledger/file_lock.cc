#include "ledger/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "fiber/io_error.h"

namespace rota::ledger::detail {

namespace {

// "process 4711 (rota) on host".
std::string who_am_i() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return "process " + std::to_string(::getpid()) + " (" + program_invocation_short_name + ") on " + host.data();
}

// Tries of take() while others only ask who has it; each of those has it for microseconds. At the bound it is a
// conflict: somebody asks without an end.
constexpr int kMostTries = 1000;
constexpr ::useconds_t kPauseUs = 100;

// A child that the holder was starting when it was killed has the lock, too, until it executes its program: for
// milliseconds on a busy machine. At the bound it is a conflict.
constexpr int kMostWaits = 2000;
constexpr ::useconds_t kWaitUs = 1000;

// Of this machine, and not alive any more?
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
  // The holder has the lock before it has written its name.
  return size <= 0 ? "another process" : std::string(text.data(), static_cast<std::size_t>(size));
}

}  // namespace

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<FileLock> FileLock::take(const std::string& path, const std::string& what) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock.fd_ < 0) return fiber::detail::os_error(errno, "open " + path);
  int waits = 0;
  for (int tries = 0; ::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0;) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return fiber::detail::os_error(errno, "lock " + path);
    if (++tries < kMostTries && ::flock(lock.fd_, LOCK_SH | LOCK_NB) == 0) {
      // Given back before the pause: two who want it must not wait for each other's share.
      (void)::flock(lock.fd_, LOCK_UN);
      ::usleep(kPauseUs);
      continue;
    }
    const std::string who = name_in(lock.fd_);
    if (is_gone(who) && ++waits < kMostWaits) {
      ::usleep(kWaitUs);
      continue;
    }
    return Error{ErrorCode::kConflict, what + " is in use by " + who + "; one process at a time has it open"}
        .with("holder", who)
        .with("lock", path);
  }
  // For people only: a full disk here is no reason not to start.
  const std::string me = who_am_i();
  if (::ftruncate(lock.fd_, 0) == 0) (void)!::pwrite(lock.fd_, me.data(), me.size(), 0);
  return lock;
}

Result<std::optional<std::string>> FileLock::holder(const std::string& path) {
  FileLock lock;
  lock.fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (lock.fd_ < 0) {
    if (errno == ENOENT) return std::optional<std::string>();
    return fiber::detail::os_error(errno, "open " + path);
  }
  while (::flock(lock.fd_, LOCK_SH | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return fiber::detail::os_error(errno, "lock " + path);
    return std::optional(name_in(lock.fd_));
  }
  return std::optional<std::string>();  // Closing the file gives the share back.
}

}  // namespace rota::ledger::detail

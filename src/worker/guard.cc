#include "worker/guard.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "worker/guard_protocol.h"
#include "worker/owned_fd.h"

extern "C" {
extern const char rota_guard_image[];
extern const char rota_guard_image_end[];
}

namespace rota::worker {
namespace {

Error system_error(const std::string& what, int error) {
  return Error{ErrorCode::kIoError, what + ": " + std::generic_category().message(error)};
}

// A file in memory with the guard's program. Not deleted by anybody, as it has no name.
Result<int> guard_file() {
  OwnedFd file(::memfd_create("rota-guard", MFD_CLOEXEC));
  if (file.fd < 0) return system_error("making the guard's program", errno);
  const char* at = rota_guard_image;
  while (at < rota_guard_image_end) {
    const ssize_t written = ::write(file.fd, at, static_cast<std::size_t>(rota_guard_image_end - at));
    if (written <= 0) return system_error("making the guard's program", errno);
    at += written;
  }
  return file.release();
}

Result<pid_t> spawn_guard(int socket) {
  ROTA_TRY_ASSIGN(const int number, guard_file());
  const OwnedFd file(number);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // The socket first: it may be any number, even one of those that follow.
  posix_spawn_file_actions_adddup2(&actions, socket, 3);
  for (int fd = 0; fd < 3; ++fd) posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  // A session of its own: what a terminal sends to the worker (Ctrl-C) is the worker's to handle. All signals as they
  // were made: what this program ignores, commands shall not.
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  const std::string path = "/proc/self/fd/" + std::to_string(file.fd);
  std::string name = "rota-guard";
  std::string worker = std::to_string(::getpid());
  char* arguments[] = {name.data(), worker.data(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, path.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return system_error("starting the guard from memory, which needs /proc and vm.memfd_noexec below 2", error);
  }
  return pid;
}

}  // namespace

Guard::~Guard() { stop(); }

void Guard::stop() {
  socket_ = {};
  if (pid_ == 0) return;
  // It goes when its last command is dead. Whoever it leaves behind as a zombie is reaped here if that is soon, and by
  // init when this process ends.
  int status = 0;
  (void)::waitpid(pid_, &status, WNOHANG);
  pid_ = 0;
}

Result<void> Guard::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("the guard's socket", errno);
  const OwnedFd theirs(ends[1]);
  ROTA_TRY_ASSIGN(socket_, fiber::Descriptor::adopt(ends[0]));
  ROTA_TRY_ASSIGN(pid_, spawn_guard(theirs.fd));
  return {};
}

Result<fiber::Descriptor> Guard::open_command(int out, int err, int progress) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_error("a command's socket", errno);
  const OwnedFd theirs(ends[1]);
  ROTA_TRY_ASSIGN(fiber::Descriptor ours, fiber::Descriptor::adopt(ends[0]));

  char byte = 0;
  iovec piece{&byte, 1};
  const int fds[guard::kFdCount] = {theirs.fd, out, err, progress};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(header), fds, sizeof fds);

  const std::lock_guard lock(mutex_);
  for (int attempt = 0;;) {
    if (!socket_.is_open()) ROTA_TRY(start());
    if (::sendmsg(socket_.native(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) return ours;
    const int error = errno;
    if (error == EAGAIN || error == ETOOMANYREFS) {
      // Full, or more descriptors are under way than this user may have: the guard is behind.
      ROTA_TRY(error == EAGAIN ? socket_.wait_writable() : fiber::sleep_for(std::chrono::milliseconds(1)));
    } else if ((error == EPIPE || error == ECONNRESET) && ++attempt < 3) {
      stop();  // It was killed. Its commands are dead; this one gets a new guard.
    } else if (error != EINTR) {
      return system_error("handing a command to the guard", error);
    }
  }
}

}  // namespace rota::worker

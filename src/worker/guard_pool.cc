#include "worker/guard_pool.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "rota/fiber/blocking.h"
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

// A file in memory with the guard's program. It has no name, so nothing can delete it.
Result<int> make_guard_file() {
  OwnedFd file(::memfd_create("rota-guard", MFD_CLOEXEC));
  if (file.fd < 0) return system_error("cannot write the guard's program to memory", errno);
  const char* at = rota_guard_image;
  while (at < rota_guard_image_end) {
    const ssize_t written = ::write(file.fd, at, static_cast<std::size_t>(rota_guard_image_end - at));
    if (written <= 0) return system_error("cannot write the guard's program to memory", errno);
    at += written;
  }
  return file.release();
}

// Made once, and open until the process ends.
Result<int> guard_file() {
  static const Result<int> file = make_guard_file();
  return file;
}

// The soft limit of open files that this process was started with: programs get it, too.
std::uint64_t inherited_open_files() {
  static const std::uint64_t soft = [] {
    rlimit files{};
    return ::getrlimit(RLIMIT_NOFILE, &files) == 0 ? static_cast<std::uint64_t>(files.rlim_cur) : std::uint64_t{1024};
  }();
  return soft;
}

Result<pid_t> spawn_guard(int socket, std::string run) {
  ROTA_TRY_ASSIGN(const int file, guard_file());
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  // The socket first: its number may be one of those that are opened next.
  posix_spawn_file_actions_adddup2(&actions, socket, 3);
  for (int fd = 0; fd < 3; ++fd) posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  // A session of its own, so that a signal from the terminal (Ctrl-C) reaches only the worker. All signals get their
  // default action, so that programs do not inherit which signals this process ignores.
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  std::string name = "rota-guard";
  std::string worker = std::to_string(::getpid());
  std::string open_files = std::to_string(inherited_open_files());
  char* arguments[] = {name.data(), worker.data(), run.data(), open_files.data(), nullptr};
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, path.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return system_error("cannot start the guard from memory, which needs /proc and vm.memfd_noexec below 2", error);
  }
  return pid;
}

bool environment_has(const std::string& path, const std::string& text) {
  std::ifstream file(path, std::ios::binary);
  const std::string environment{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return environment.find(text) != std::string::npos;
}

// Makes one pass over all processes and returns how many it killed. It opens a descriptor of the process before it
// reads the environment again, so that the process id cannot have been reused in between.
int kill_by_environment(const std::string& text) {
  int killed = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const int pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    if (!environment_has(entry.path() / "environ", text)) continue;
    const OwnedFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (process.fd < 0 || !environment_has(entry.path() / "environ", text)) continue;
    if (::syscall(SYS_pidfd_send_signal, process.fd, SIGKILL, nullptr, 0) == 0) ++killed;
  }
  return killed;
}

}  // namespace

std::uint64_t raise_open_files() {
  constexpr rlim_t kWanted = 65'536;
  (void)inherited_open_files();  // Before it changes.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 1024;
  if (files.rlim_cur < kWanted && files.rlim_cur < files.rlim_max) {
    const rlimit more{std::min(kWanted, files.rlim_max), files.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &more) == 0) files = more;
  }
  return files.rlim_cur;
}

Result<void> GuardPool::bury(const std::string& run) {
  return fiber::blocking([&run] {
    // The next pass finds processes that were forked meanwhile. The bound is for processes that cannot die (a hung
    // disk).
    const std::string text = std::string(guard::kRunVariable) + run + ".";
    for (int pass = 0; pass < 100 && kill_by_environment(text) > 0; ++pass) ::usleep(1000);
  });
}

GuardPool::GuardPool(std::size_t guards) {
  const std::size_t wanted =
      guards != 0 ? guards : static_cast<std::size_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));
  for (std::size_t i = 0; i < std::clamp<std::size_t>(wanted, 1, kGuardsMost); ++i) {
    guards_.push_back(std::make_unique<One>());
  }
}

GuardPool::~GuardPool() {
  for (const auto& one : guards_) one->stop();
}

std::vector<std::int32_t> GuardPool::pids() const {
  std::vector<std::int32_t> result;
  for (const auto& one : guards_) {
    if (one->pid != 0) result.push_back(one->pid);
  }
  return result;
}

void GuardPool::One::stop() {
  socket = {};
  if (pid == 0) return;
  // The guard exits when its last program is dead. It is reaped here if that has happened already, and otherwise by
  // init when this process ends.
  int status = 0;
  (void)::waitpid(pid, &status, WNOHANG);
  pid = 0;
}

Result<void> GuardPool::One::start() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("cannot make a socket for the guard", errno);
  const OwnedFd theirs(ends[1]);
  ROTA_TRY_ASSIGN(socket, fiber::Descriptor::adopt(ends[0]));
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);  // With the process id, a name that no other guard has had.
  run = std::to_string(::getpid()) + "-" + std::to_string(time.tv_sec) + "-" + std::to_string(time.tv_nsec);
  ROTA_TRY_ASSIGN(pid, spawn_guard(theirs.fd, run));
  return {};
}

Result<void> GuardPool::start_one() {
  One& one = *guards_.front();
  const std::lock_guard lock(one.mutex);
  if (one.socket.is_open()) return {};
  return one.start();
}

Result<GuardPool::Opened> GuardPool::open_program(int out, int err, int progress, std::string_view request) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error("cannot make a socket for a program", errno);
  const OwnedFd theirs(ends[1]);
  ROTA_TRY_ASSIGN(fiber::Descriptor ours, fiber::Descriptor::adopt(ends[0]));

  const ssize_t size = ::send(ends[0], request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  const std::size_t sent = size < 0 ? 0 : static_cast<std::size_t>(size);

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

  // Relaxed: the counter orders no other memory.
  One& one = *guards_[turn_.fetch_add(1, std::memory_order_relaxed) % guards_.size()];
  const std::lock_guard lock(one.mutex);
  for (int attempt = 0;;) {
    if (!one.socket.is_open()) ROTA_TRY(one.start());
    if (::sendmsg(one.socket.native(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
      return Opened{std::move(ours), one.run, sent};
    const int error = errno;
    if (error == EAGAIN || error == ETOOMANYREFS) {
      // The socket is full, or this user has too many descriptors in flight: wait until the guard has caught up.
      ROTA_TRY(error == EAGAIN ? one.socket.wait_writable() : fiber::sleep_for(std::chrono::milliseconds(1)));
    } else if ((error == EPIPE || error == ECONNRESET) && ++attempt < 3) {
      one.stop();  // The guard was killed, and its programs with it. This program gets a new guard.
    } else if (error != EINTR) {
      return system_error("cannot hand a program to the guard", error);
    }
  }
}

}  // namespace rota::worker

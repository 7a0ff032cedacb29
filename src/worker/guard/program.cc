#include "worker/guard/program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace rota::worker::guard {

bool parse_request(const StartHeader& header, const std::string& payload, Request* request) {
  if (header.magic != kMagic || payload.size() != header.payload_bytes) return false;
  if (header.argument_count == 0) return false;
  std::size_t at = 0;
  const auto next = [&](std::string* out) {
    const std::size_t end = payload.find('\0', at);
    if (end == std::string::npos) return false;
    out->assign(payload, at, end - at);
    at = end + 1;
    return true;
  };
  request->header = header;
  if (!next(&request->directory) || !next(&request->cgroup)) return false;
  std::string text;
  for (std::uint32_t i = 0; i < header.argument_count; ++i) {
    if (!next(&text)) return false;
    request->arguments.push_back(text);
  }
  for (std::uint32_t i = 0; i < header.environment_count; ++i) {
    if (!next(&text)) return false;
    request->environment.push_back(text);
  }
  return at == payload.size();
}

namespace {

bool write_text(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

}  // namespace

int Cgroup::make(const std::string& parent, const std::string& name, const StartHeader& header) {
  std::string path = parent + "/" + name;
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return errno;
  const int fd = ::open((path + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    ::rmdir(path.c_str());
    return error;
  }
  path_ = std::move(path);
  procs_fd_ = fd;
  if (header.memory_bytes != 0) {
    limits_memory_ = write_text(path_ + "/memory.max", std::to_string(header.memory_bytes));
    if (limits_memory_) {
      write_text(path_ + "/memory.swap.max", "0");   // Otherwise the limit would only move memory to the disk.
      write_text(path_ + "/memory.oom.group", "1");  // Kill the whole group, not one process that others wait for.
    }
  }
  return 0;
}

void Cgroup::close_procs() {
  if (procs_fd_ >= 0) ::close(procs_fd_);
  procs_fd_ = -1;
}

bool Cgroup::killed_for_memory() const {
  if (!limits_memory_) return false;
  const int fd = ::open((path_ + "/memory.events").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[1024];
  const ssize_t size = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (size <= 0) return false;
  text[size] = '\0';
  const char* found = std::strstr(text, "\noom_kill ");
  return found != nullptr && std::strtoull(found + 10, nullptr, 10) > 0;
}

void Cgroup::kill() const {
  if (is_open()) write_text(path_ + "/cgroup.kill", "1");
}

bool Cgroup::remove() {
  if (!is_open()) return true;
  close_procs();
  if (::rmdir(path_.c_str()) != 0 && errno == EBUSY) return false;
  path_.clear();
  return true;
}

namespace {

// How the child tells its parent about a failed start, in the memory that they share after vfork().
struct Trouble {
  Stage stage;
  int error;
};

rlimit g_inherited_files{};  // The limits that the guard was started with; programs get them.

// Everything that the child needs, prepared before it exists: after vfork() it may only make system calls.
struct Prepared {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  std::vector<std::string> paths;  // Candidates for execve(), in order.
  const char* directory = nullptr;
  int cgroup_fd = -1;
  ChildFds fds;
  const StartHeader* header = nullptr;
  bool memory_by_rlimit = false;
  rlimit open_files{};  // Of the child.
  pid_t guard = 0;
};

[[noreturn]] void give_up(Trouble* trouble, Stage stage, int error) {
  trouble->stage = stage;
  trouble->error = error;
  ::_exit(127);
}

// Sets a limit, but not above the current hard limit.
bool set_limit(int which, std::uint64_t soft, std::uint64_t hard) {
  rlimit now{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(which), &now) != 0) return false;
  const rlimit wanted{std::min<rlim_t>(soft, now.rlim_max), std::min<rlim_t>(hard, now.rlim_max)};
  return ::setrlimit(static_cast<__rlimit_resource_t>(which), &wanted) == 0;
}

[[noreturn, gnu::noinline]] void become(const Prepared& p, Trouble* trouble) {
  const StartHeader& h = *p.header;
  if (::setpgid(0, 0) != 0) give_up(trouble, Stage::kGroup, errno);
  // The guard has one thread, so this signal is sent when the guard dies and in no other case.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != p.guard) ::_exit(127);
  if (p.cgroup_fd >= 0 && ::write(p.cgroup_fd, "0", 1) != 1) give_up(trouble, Stage::kCgroup, errno);
  // SIGXCPU first; KILL after five more seconds of processor time, for programs that ignore it.
  bool limited = h.cpu_seconds == 0 || set_limit(RLIMIT_CPU, h.cpu_seconds, h.cpu_seconds + 5);
  if (p.memory_by_rlimit) limited = limited && set_limit(RLIMIT_AS, h.memory_bytes, h.memory_bytes);
  if (h.processes != 0) limited = limited && set_limit(RLIMIT_NPROC, h.processes, h.processes);
  if (::dup2(p.fds.null, 0) < 0 || ::dup2(p.fds.out, 1) < 0 || ::dup2(p.fds.err, 2) < 0 ||
      ::dup2(p.fds.progress, kProgressFd) < 0) {
    give_up(trouble, Stage::kDescriptors, errno);
  }
  limited = limited && set_limit(RLIMIT_NOFILE, p.open_files.rlim_cur, p.open_files.rlim_max);
  if (!limited) give_up(trouble, Stage::kLimits, errno);
  if (*p.directory != '\0' && ::chdir(p.directory) != 0) give_up(trouble, Stage::kDirectory, errno);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  int error = ENOENT;
  for (const std::string& path : p.paths) {
    ::execve(path.c_str(), p.arguments.data(), p.environment.data());
    // As a shell does: a missing file is looked for in the next directory, and a file that may not be executed is
    // reported only if no other one is found.
    if (errno == EACCES) {
      error = EACCES;
    } else if (errno != ENOENT && errno != ENOTDIR) {
      error = errno;
      break;
    }
  }
  give_up(trouble, Stage::kExec, error);
}

// vfork() returns twice in the same memory, so the frame that it returns to contains nothing but these two calls.
[[gnu::noinline]] pid_t spawn(const Prepared& prepared, Trouble* trouble) {
  const pid_t pid = ::vfork();
  if (pid == 0) become(prepared, trouble);
  return pid;
}

std::vector<std::string> paths_of(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) return {program};
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : environment) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  std::vector<std::string> result;
  while (!program.empty()) {
    const std::size_t end = path.find(':');
    const std::string_view folder = path.substr(0, end);
    result.push_back((folder.empty() ? "." : std::string(folder)) + "/" + program);
    if (end == std::string_view::npos) break;
    path.remove_prefix(end + 1);
  }
  return result;
}

}  // namespace

void take_open_files(const char* inherited) {
  ::getrlimit(RLIMIT_NOFILE, &g_inherited_files);
  if (inherited != nullptr) {
    const rlim_t soft = std::strtoull(inherited, nullptr, 10);
    if (soft > 0) g_inherited_files.rlim_cur = std::min(soft, g_inherited_files.rlim_max);
  }
  const rlimit all{g_inherited_files.rlim_max, g_inherited_files.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &all);
}

StartResult start_child(const Request& request, const Cgroup& cgroup, const ChildFds& fds) {
  Prepared prepared;
  for (const std::string& text : request.arguments) prepared.arguments.push_back(const_cast<char*>(text.c_str()));
  prepared.arguments.push_back(nullptr);
  for (const std::string& text : request.environment) prepared.environment.push_back(const_cast<char*>(text.c_str()));
  prepared.environment.push_back(nullptr);
  prepared.paths = paths_of(request.arguments.front(), request.environment);
  prepared.directory = request.directory.c_str();
  prepared.cgroup_fd = cgroup.procs_fd();
  prepared.fds = fds;
  prepared.header = &request.header;
  prepared.memory_by_rlimit = request.header.memory_bytes != 0 && !cgroup.limits_memory();
  prepared.open_files = g_inherited_files;
  if (request.header.open_files != 0) {
    prepared.open_files = {request.header.open_files, request.header.open_files};
  }
  prepared.guard = ::getpid();
  static Trouble trouble;
  trouble = {};
  const pid_t pid = spawn(prepared, &trouble);
  if (pid < 0) return {-1, Stage::kProcess, errno};
  if (trouble.stage != Stage::kNone) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return {-1, trouble.stage, trouble.error};
  }
  return {pid, Stage::kNone, 0};
}

}  // namespace rota::worker::guard

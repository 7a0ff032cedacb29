// The guard: a small process that starts programs for a worker, and outlives the worker just long enough to kill them.
//
//   rota-guard WORKER_PID RUN     descriptor 3 is the socket to the worker (guard_protocol.h); RUN names this guard
//
// Why this is a separate process: a worker that is killed with KILL cannot clean up, so another process must. The guard
// is the parent of every program and a subreaper. Therefore every process that a program starts, however often it forks
// and even if it calls setsid(), remains a descendant of the guard. The guard is small, so that starting a process
// costs the same whether the worker uses a megabyte or a hundred gigabytes.
//
// What the guard promises:
//   (1) A program's group is killed when its socket closes, and everything is killed when the worker ends.
//   (2) When a program ends, all processes that it left behind are killed: its group at once, and processes outside the
//       group by $ROTA_RUN in their environment. A process that left the group *and* cleared its environment is killed
//       when no program runs, or when the worker ends.
//   (3) When the guard itself is killed, every program dies with it (PR_SET_PDEATHSIG; the guard has one thread, so the
//       signal means the death of the process). The worker then finds the remaining processes by $ROTA_RUN.
// Not covered: processes that another service starts for a program (systemd-run, at, a container engine), and processes
// that the guard may not signal because they changed their user.
//
// Process ids are safe from reuse: a program stays a zombie until its group has been signalled.
#include <dirent.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "worker/guard/program.h"

namespace rota::worker::guard {
namespace {

constexpr std::uint64_t kNever = UINT64_MAX;

std::uint64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}
std::uint64_t now_ms() { return now_ns() / 1'000'000; }
std::uint64_t later(std::uint64_t now, std::uint64_t by) { return by > kNever - now ? kNever : now + by; }

// A program, from the arrival of its socket to its reaping.
struct Running {
  std::uint64_t serial = 0;
  int socket = -1;  // -1: the worker has closed it.
  ChildFds fds;     // Until the start.
  std::string input;
  std::unique_ptr<Request> standing_by;  // Until it starts.
  Ticket ticket;
  std::uint64_t held_cpu_millis = 0;
  std::uint64_t held_memory_bytes = 0;
  bool pause_at_start = false;
  pid_t pid = 0;  // 0: not started.
  std::uint64_t started_ns = 0;
  std::uint32_t flags = 0;
  std::uint64_t grace_ms = 0;
  std::uint64_t timeout_at = kNever;
  std::uint64_t kill_at = kNever;
  std::uint64_t paused_since = 0;  // 0: not paused.
  Cgroup cgroup;
  bool terminated = false;
  bool over = false;  // Erased at the end of the round.
};

class Guard {
 public:
  Guard(int worker_socket, pid_t worker, const char* run)
      : worker_socket_(worker_socket), worker_(worker), run_prefix_(std::string(kRunVariable) + run + ".") {}

  int run() {
    if (!prepare()) return 1;
    while (!worker_gone_) round();
    kill_everything();
    return 0;
  }

 private:
  bool prepare() {
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    children_fd_ = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    null_fd_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const int worker_fd = static_cast<int>(::syscall(SYS_pidfd_open, worker_, 0));
    if (::getppid() != worker_) return false;            // The worker is dead already.
    if (worker_fd >= 0) watch(worker_fd, &worker_tag_);  // The socket may live on in a fork of the worker.
    watch(children_fd_, &children_tag_);
    watch(worker_socket_, &socket_tag_);
    children_path_ = "/proc/self/task/" + std::to_string(::getpid()) + "/children";
    return children_fd_ >= 0 && null_fd_ >= 0 && epoll_ >= 0;
  }

  void watch(int fd, void* tag) const {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = tag;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }

  void round() {
    epoll_event events[64];
    const int count = ::epoll_wait(epoll_, events, 64, milliseconds_to_wait());
    for (int i = 0; i < count; ++i) {
      void* tag = events[i].data.ptr;
      if (tag == &worker_tag_) {
        worker_gone_ = true;
      } else if (tag == &socket_tag_) {
        accept_programs();
      } else if (tag == &children_tag_) {
        reap();
      } else {
        read_socket(static_cast<Running*>(tag));
      }
    }
    fire_timers();
    std::erase_if(all_, [](const std::unique_ptr<Running>& r) { return r->over; });
    std::erase_if(dying_cgroups_, [](Cgroup& cgroup) { return cgroup.remove(); });
  }

  [[nodiscard]] int milliseconds_to_wait() const {
    std::uint64_t first = dying_cgroups_.empty() ? kNever : now_ms() + 20;
    for (const auto& r : all_) {
      first = std::min(first, r->kill_at);
      if (r->paused_since == 0) first = std::min(first, r->timeout_at);
    }
    if (first == kNever) return -1;
    const std::uint64_t now = now_ms();
    return first <= now ? 0 : static_cast<int>(std::min<std::uint64_t>(first - now, 1'000'000));
  }

  void fire_timers() {
    const std::uint64_t now = now_ms();
    for (const auto& r : all_) {
      if (r->over || r->pid == 0) continue;
      if (r->paused_since == 0 && r->timeout_at <= now) {
        r->timeout_at = kNever;
        r->flags |= kFlagTimedOut;
        terminate(r.get(), r->grace_ms);
      }
      if (r->kill_at <= now) {
        r->kill_at = kNever;
        r->flags |= kFlagForced;
        kill_program(r.get());
      }
    }
  }

  // TERM now, KILL after the grace period; without one, KILL now. A second request may shorten the period, never
  // prolong it.
  static void terminate(Running* r, std::uint64_t grace_ms) {
    r->terminated = true;
    if (grace_ms == 0) return kill_program(r);
    r->kill_at = std::min(r->kill_at, later(now_ms(), grace_ms));
    ::kill(-r->pid, SIGTERM);
    ::kill(-r->pid, SIGCONT);  // A stopped process does not handle TERM.
    r->paused_since = 0;
  }
  static void kill_program(Running* r) {
    ::kill(-r->pid, SIGKILL);
    r->cgroup.kill();
  }

  void accept_programs() {
    for (int i = 0; i < 64; ++i) {
      char byte = 0;
      iovec piece{&byte, 1};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFdCount)];
      msghdr message{};
      message.msg_iov = &piece;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      const ssize_t size = ::recvmsg(worker_socket_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
      if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
        worker_gone_ = true;
        return;
      }
      if (size < 0) return;
      const cmsghdr* header = CMSG_FIRSTHDR(&message);
      // Fewer descriptors arrive when the guard has reached its limit; closing them tells the worker.
      int fds[kFdCount];
      const std::size_t bytes = header == nullptr ? 0 : header->cmsg_len - CMSG_LEN(0);
      std::memcpy(fds, header == nullptr ? control : reinterpret_cast<const char*>(CMSG_DATA(header)),
                  std::min(bytes, sizeof fds));
      if (bytes != sizeof fds) {
        for (std::size_t k = 0; k < bytes / sizeof(int); ++k) ::close(fds[k]);
        continue;
      }
      auto r = std::make_unique<Running>();
      r->serial = ++last_serial_;
      r->socket = fds[0];
      r->fds = {null_fd_, fds[1], fds[2], fds[3]};
      watch(r->socket, r.get());
      all_.push_back(std::move(r));
      read_socket(all_.back().get());  // The request has arrived already, unless it is very long.
    }
  }

  void read_socket(Running* r) {
    char buffer[65536];
    while (r->socket >= 0 && !r->over) {
      const ssize_t size = ::recv(r->socket, buffer, sizeof buffer, MSG_DONTWAIT);
      if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (size <= 0) return worker_closed(r);
      r->input.append(buffer, static_cast<std::size_t>(size));
      if (r->pid == 0 && r->standing_by == nullptr) take_request(r);
      if (!r->over && (r->pid != 0 || r->standing_by != nullptr)) obey(r);
    }
  }

  void worker_closed(Running* r) {
    ::close(r->socket);
    r->socket = -1;
    if (r->pid == 0) {
      std::erase(standing_by_, r);
      close_child_fds(r);
      r->over = true;
    } else {
      kill_program(r);
    }
  }

  static void close_child_fds(Running* r) {
    for (int* fd : {&r->fds.out, &r->fds.err, &r->fds.progress}) {
      if (*fd >= 0) ::close(*fd);
      *fd = -1;
    }
  }

  void take_request(Running* r) {
    StartHeader header;
    if (r->input.size() < sizeof header) return;
    std::memcpy(&header, r->input.data(), sizeof header);
    if (header.magic != kMagic || header.payload_bytes > kPayloadMost) return fail(r, Stage::kRequest, EINVAL);
    const std::size_t whole = sizeof header + header.payload_bytes;
    if (r->input.size() < whole) return;
    auto request = std::make_unique<Request>();
    if (!parse_request(header, r->input.substr(sizeof header, header.payload_bytes), request.get())) {
      return fail(r, Stage::kRequest, EINVAL);
    }
    r->input.erase(0, whole);
    r->ticket = header.ticket;
    r->held_cpu_millis = header.held_cpu_millis;
    r->held_memory_bytes = header.held_memory_bytes;
    if (header.stand_by == 0) return start(r, *request);
    r->standing_by = std::move(request);
    standing_by_.push_back(r);
  }

  void start_standing_by(Running* r) {
    const std::unique_ptr<Request> request = std::exchange(r->standing_by, nullptr);
    std::erase(standing_by_, r);
    start(r, *request);
    if (!r->over && r->pause_at_start) pause(r);
  }

  // The program that may start in the place of one that has ended; null: none.
  [[nodiscard]] Running* next_after(const Running& ended) const {
    if (standing_by_.empty()) return nullptr;
    Running* first = standing_by_.front();
    const bool fits =
        first->held_cpu_millis <= ended.held_cpu_millis && first->held_memory_bytes <= ended.held_memory_bytes;
    return fits ? first : nullptr;
  }

  void start(Running* r, Request& request) {
    const StartHeader& header = request.header;
    request.environment.push_back(run_prefix_ + std::to_string(r->serial));
    if (!request.cgroup.empty()) {
      const std::string name = "rota-" + std::to_string(::getpid()) + "-" + std::to_string(r->serial);
      if (const int error = r->cgroup.make(request.cgroup, name, header); error != 0) {
        return fail(r, Stage::kCgroup, error);
      }
    }
    r->started_ns = now_ns();
    const StartResult started = start_child(request, r->cgroup, r->fds);
    r->cgroup.close_procs();
    if (started.pid < 0) return fail(r, started.stage, started.error);
    close_child_fds(r);
    r->pid = started.pid;
    by_pid_.emplace(r->pid, r);
    by_serial_.emplace(r->serial, r);
    r->grace_ms = header.grace_ms;
    if (header.timeout_ms != 0) r->timeout_at = later(now_ms(), header.timeout_ms);
    if (header.tell_start != 0) {
      send(r, {.kind = ReplyKind::kStarted, .flags = r->flags, .pid = r->pid, .started_ns = r->started_ns});
    }
  }

  void fail(Running* r, Stage stage, int error) {
    send(r, {.kind = ReplyKind::kFailed, .stage = stage, .error = error});
    close_child_fds(r);
    ::close(r->socket);
    r->socket = -1;
    if (!r->cgroup.remove()) dying_cgroups_.push_back(r->cgroup);
    r->over = true;
  }

  void obey(Running* r) {
    Control control;
    std::size_t at = 0;
    for (; r->input.size() - at >= sizeof control; at += sizeof control) {
      std::memcpy(&control, r->input.data() + at, sizeof control);
      if (r->standing_by != nullptr) {  // There is no process yet.
        if (control.kind == ControlKind::kTerminate) {
          std::erase(standing_by_, r);
          return fail(r, Stage::kStandBy, ECANCELED);
        }
        if (control.kind == ControlKind::kGo) {
          start_standing_by(r);
          if (r->over) return;
        } else {
          r->pause_at_start = control.kind == ControlKind::kPause;
        }
      } else if (control.kind == ControlKind::kTerminate) {
        terminate(r, control.grace_ms);
      } else if (control.kind == ControlKind::kPause && r->paused_since == 0 && r->kill_at == kNever) {
        // A program that was terminated is not paused: it would never end.
        pause(r);
      } else if (control.kind == ControlKind::kResume && r->paused_since != 0) {
        // Paused time does not count against the timeout.
        r->timeout_at = later(r->timeout_at, now_ms() - r->paused_since);
        r->paused_since = 0;
        ::kill(-r->pid, SIGCONT);
      }
    }
    r->input.erase(0, at);
  }

  static void pause(Running* r) {
    r->paused_since = now_ms();
    ::kill(-r->pid, SIGSTOP);
  }

  // The socket's buffer has room for both replies, and nothing else is written to it.
  static void send(const Running* r, const Reply& reply) {
    if (r->socket >= 0) (void)::send(r->socket, &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  void reap() {
    signalfd_siginfo info[16];
    while (::read(children_fd_, info, sizeof info) > 0) {
    }
    for (;;) {
      siginfo_t child{};
      if (::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 || child.si_pid == 0) return;
      const auto found = by_pid_.find(child.si_pid);
      if (found != by_pid_.end()) {
        end(found->second);
      } else {
        ::waitpid(child.si_pid, nullptr, 0);
        sweep();  // Its children are children of the guard now.
      }
    }
  }

  void end(Running* r) {
    by_pid_.erase(r->pid);
    by_serial_.erase(r->serial);
    Reply reply{.kind = ReplyKind::kEnded, .pid = r->pid, .started_ns = r->started_ns, .ended_ns = now_ns()};
    reply.strays = sweep(r->pid);
    if (r->terminated) reply.strays = 0;  // They are not left behind, they only end later.
    kill_program(r);                      // The rest of the group, while the zombie still holds its number.
    rusage usage{};
    ::wait4(r->pid, &reply.status, 0, &usage);
    if (r->cgroup.killed_for_memory()) r->flags |= kFlagMemory;
    if (!r->cgroup.remove()) dying_cgroups_.push_back(r->cgroup);
    reply.flags = r->flags;
    const auto microseconds = [](const timeval& t) {
      return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(t.tv_usec);
    };
    reply.user_us = microseconds(usage.ru_utime);
    reply.system_us = microseconds(usage.ru_stime);
    reply.max_rss_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    Running* next = worker_gone_ ? nullptr : next_after(*r);
    if (next != nullptr) reply.next = next->ticket;
    send(r, reply);
    if (r->socket >= 0) ::close(r->socket);
    r->socket = -1;
    r->over = true;
    if (next != nullptr) start_standing_by(next);
  }

  [[nodiscard]] static std::string read_whole(const std::string& path) {
    std::string text;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return text;
    char buffer[16384];
    for (ssize_t size = 0; (size = ::read(fd, buffer, sizeof buffer)) > 0 && text.size() < (1U << 22);) {
      text.append(buffer, static_cast<std::size_t>(size));
    }
    ::close(fd);
    return text;
  }

  // The guard's own children: programs, and processes that programs left behind.
  [[nodiscard]] std::vector<pid_t> children() const {
    std::vector<pid_t> result;
    const std::string text = read_whole(children_path_);
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
      pid_t pid = 0;
      const auto [next, error] = std::from_chars(at, end, pid);
      if (error == std::errc()) result.push_back(pid);
      at = std::max(next, at) + 1;
    }
    return result;
  }

  // Decided by the environment of the process.
  [[nodiscard]] bool belongs_to_a_running_program(pid_t pid) const {
    const std::string environment = read_whole("/proc/" + std::to_string(pid) + "/environ");
    const std::size_t at = environment.find(run_prefix_);
    if (at == std::string::npos) return !by_pid_.empty();  // Its program is not known; if none runs, it has none.
    std::uint64_t serial = 0;
    const char* number = environment.data() + at + run_prefix_.size();
    std::from_chars(number, environment.data() + environment.size(), serial);
    return by_serial_.contains(serial);
  }

  // Kills children that belong to no running program, and returns their number. Their own children become children of
  // the guard when they die, and the next sweep finds them.
  std::uint32_t sweep(pid_t except = 0) {
    std::uint32_t killed = 0;
    for (const pid_t pid : children()) {
      if (pid == except || by_pid_.contains(pid) || belongs_to_a_running_program(pid)) continue;
      if (::kill(pid, SIGKILL) == 0) ++killed;
    }
    return killed;
  }

  // Kills until no descendant is left.
  void kill_everything() {
    for (const auto& r : all_) {
      if (r->pid != 0 && !r->over) kill_program(r.get());
    }
    do {
      for (const pid_t pid : children()) {
        ::kill(-pid, SIGKILL);  // If it leads a group: the members of the group are descendants, too.
        ::kill(pid, SIGKILL);
      }
    } while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR);
    for (const auto& r : all_) (void)r->cgroup.remove();
    for (Cgroup& cgroup : dying_cgroups_) (void)cgroup.remove();
  }

  const int worker_socket_;
  const pid_t worker_;
  const std::string run_prefix_;
  int children_fd_ = -1;
  int null_fd_ = -1;
  int epoll_ = -1;
  char worker_tag_ = 0, socket_tag_ = 0, children_tag_ = 0;
  bool worker_gone_ = false;
  std::uint64_t last_serial_ = 0;
  std::string children_path_;
  std::vector<std::unique_ptr<Running>> all_;
  std::deque<Running*> standing_by_;                       // In the order of arrival.
  std::unordered_map<pid_t, Running*> by_pid_;             // Started and not reaped.
  std::unordered_map<std::uint64_t, Running*> by_serial_;  // The same.
  std::vector<Cgroup> dying_cgroups_;
};

int guard_main(int argument_count, char** arguments) {
  if (argument_count != 4) return 2;
  const pid_t worker = std::atoi(arguments[1]);
  // Descriptors 0 to 3 are /dev/null, so that no descriptor that the worker hands over is one of them. The child can
  // then make its own with dup2() in any order.
  ::close_range(4, ~0U, 0);
  const int socket = ::fcntl(3, F_DUPFD_CLOEXEC, 4);
  if (socket < 0 || ::dup2(0, 3) < 0) return 2;
  take_open_files(arguments[3]);
  return Guard(socket, worker, arguments[2]).run();
}

}  // namespace
}  // namespace rota::worker::guard

int main(int argument_count, char** arguments) { return rota::worker::guard::guard_main(argument_count, arguments); }

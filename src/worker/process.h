// One command as a process: started, waited for, told to end, stopped and continued (U-3).
//
//   Guard guard;
//   ROTA_TRY_ASSIGN(auto process, Process::start(guard, spec, pipes));     // an error says why it could not start
//   Outcome outcome = process->wait();                                     // parks the task
//
// The command runs in a process group of its own; ending, stopping and continuing mean the group. When its first
// process has ended, the command has ended: what it left behind is killed and counted.
//
// Limits. `timeout` is wall time in which the command was not paused: TERM, then KILL after the grace. Processor time
// is of each process (RLIMIT_CPU). Memory is of all processes together where there is a cgroup to be had (memory.max),
// and otherwise the address space of each process (RLIMIT_AS): then an allocation fails, and what the program makes of
// this is its own outcome. `processes` counts all processes of the user, and root has no such limit (RLIMIT_NPROC).
//
// Thread safety: one task may wait() while others terminate(), pause() and resume(). Destroying kills what still runs,
// without waiting for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rota/fiber/io.h"
#include "rota/result.h"
#include "worker/guard.h"
#include "worker/guard_protocol.h"

namespace rota::worker {

// 0 is no limit.
struct ProcessLimits {
  std::chrono::milliseconds timeout{0};
  std::chrono::seconds cpu_time{0};
  std::uint64_t memory_bytes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t processes = 0;
  std::uint64_t cpu_millis = 0;  // Thousandths of a processor; only where there is a cgroup.
};

struct ProcessSpec {
  std::vector<std::string> arguments;    // The program first: a path, or a name to look for in the environment's PATH.
  std::vector<std::string> environment;  // All of it, as NAME=value.
  std::string directory{};               // Empty: the worker's.
  ProcessLimits limits{};
  std::chrono::milliseconds grace{5000};  // When the timeout ends it.
  // It stands by (guard_protocol.h): it starts in the place of one that ends, or with go(). It needs a ticket then.
  bool stand_by = false;
  std::uint64_t ticket = 0;
  std::uint64_t demand_cpu_millis = 0;
  std::uint64_t demand_memory_bytes = 0;
  std::string cgroup{};  // A cgroup v2 directory that may be written to; empty: none. See cgroup.h.
};
// Arguments for text that a shell shall run.
[[nodiscard]] std::vector<std::string> shell_arguments(std::string text);

// Where the command writes. The descriptors stay the caller's; the command has copies.
struct ProcessPipes {
  int out = -1;
  int err = -1;
  int progress = -1;  // Its descriptor guard::kProgressFd.
};

struct Outcome {
  enum class Kind : std::uint8_t {
    kExited,     // `code`
    kSignalled,  // `code` is the signal
    kTimedOut,
    kOutOfMemory,  // Its cgroup was over its limit. Told only where there is a cgroup.
    kOutOfCpu,     // Processor time.
    kLost,         // The guard died, and the command with it.
  };
  Kind kind = Kind::kLost;
  int code = 0;
  bool forced = false;       // TERM was not enough.
  std::uint32_t strays = 0;  // Processes that it left behind, as far as they were seen, and that were killed.
  std::chrono::microseconds user_time{0};
  std::chrono::microseconds system_time{0};
  std::uint64_t max_rss_bytes = 0;  // Of the largest process among the command and those it waited for.
  std::uint64_t next = 0;           // The ticket of the one that has started in its place; 0: none.

  [[nodiscard]] bool success() const { return kind == Kind::kExited && code == 0; }
  // "exit status 3", "killed by signal 9 (Killed)", "ran longer than 2s; it ignored TERM and was killed".
  [[nodiscard]] std::string describe(const ProcessSpec& spec) const;
};

class Process {
 public:
  // NotFound, PermissionDenied, InvalidArgument... with a sentence that names the program or the directory.
  static Result<std::unique_ptr<Process>> start(Guard& guard, const ProcessSpec& spec, const ProcessPipes& pipes);
  // The same without waiting for the start: that it failed is what wait() returns, and pid() is 0. A wake-up less.
  static Result<std::unique_ptr<Process>> launch(Guard& guard, const ProcessSpec& spec, const ProcessPipes& pipes);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Until it has ended. Cancelled if the task is cancelled: it may be called again, or the object be destroyed. Any
  // other error says why it did not start.
  Result<Outcome> wait();

  // TERM to the group, and KILL when the grace is over; 0 is KILL at once. It has ended when wait() returns.
  void terminate(std::chrono::milliseconds grace);
  void pause();
  void resume();
  // Starts one that stands by; nothing for others.
  void go();

  // Readable when wait() need not wait; for those who wait for several things.
  [[nodiscard]] int native() const { return socket_.native(); }
  [[nodiscard]] std::int32_t pid() const { return pid_; }
  // Is its memory limit that of a cgroup?
  [[nodiscard]] bool cgroup_memory() const { return (flags_ & guard::kFlagCgroupMemory) != 0; }

 private:
  explicit Process(Guard::Opened&& opened) : socket_(std::move(opened.socket)), run_(std::move(opened.run)) {}
  static Result<std::unique_ptr<Process>> request(Guard& guard, const ProcessSpec& spec, const ProcessPipes& pipes,
                                                  bool tell_start);
  [[nodiscard]] Error start_error(const guard::Reply& reply) const;
  void command(const guard::Command& command);

  fiber::Descriptor socket_;
  std::string run_;
  ProcessSpec spec_;  // Of a start that may still fail: the names that its error tells. No environment but PATH.
  std::int32_t pid_ = 0;
  std::uint32_t flags_ = 0;
};

}  // namespace rota::worker

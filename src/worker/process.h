// One program as a process: start, wait, terminate, pause and resume (U-3).
//
//   GuardPool guards;
//   ROTA_TRY_ASSIGN(auto process, Process::start(guards, spec, pipes));     // an error says why it could not start
//   ProcessEnd end = process->wait();                                       // parks the task
//
// The program runs in a process group of its own; terminate(), pause() and resume() act on the group. The program has
// ended when its first process has ended: processes that it left behind are then killed and counted.
//
// Limits. `timeout` is wall time during which the program was not paused: TERM, then KILL after the grace period.
// Processor time is counted per process (RLIMIT_CPU). Memory is counted for all processes together if there is a cgroup
// (memory.max), and otherwise as the address space of each process (RLIMIT_AS): then an allocation fails, and the
// program decides what this means. `processes` counts all processes of the user, and has no effect on root
// (RLIMIT_NPROC).
//
// Thread safety: one task may wait() while others terminate(), pause() and resume(). Destroying the object kills the
// program if it still runs, without waiting for its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/message.h"
#include "model/task_spec.h"
#include "rota/fiber/io.h"
#include "rota/model/resources.h"
#include "rota/result.h"
#include "worker/guard_pool.h"
#include "worker/guard_protocol.h"

namespace rota::worker {

struct ProcessSpec {
  std::vector<std::string> arguments;    // The program first: a path, or a name that is looked up in PATH.
  std::vector<std::string> environment;  // All of it, as NAME=value.
  std::string directory{};               // Empty: the worker's.
  model::ProgramLimits limits{};
  std::chrono::milliseconds timeout{0};   // 0: none.
  std::chrono::milliseconds grace{5000};  // Between TERM and KILL after the timeout.
  // Stand by (guard_protocol.h): start in the place of a program that ends, or with go(). `id` must be given then.
  bool stand_by = false;
  model::AttemptId id{};
  model::Amounts held{};  // What the task holds, for the programs that stand by. Named resources are not compared.
  std::string cgroup{};   // A cgroup v2 directory that may be written to; empty: none. See cgroup.h.
};
// The arguments that run `text` in a shell.
[[nodiscard]] std::vector<std::string> shell_arguments(std::string text);

// The pipes that the program writes into. The caller keeps its descriptors; the program has copies.
struct ProcessPipes {
  int out = -1;
  int err = -1;
  int progress = -1;  // Descriptor guard::kProgressFd of the program.
};

struct ProcessEnd {
  enum class Kind : std::uint8_t {
    kExited,     // `code`
    kSignalled,  // `code` is the signal
    kTimedOut,
    kOutOfMemory,  // Its cgroup exceeded its limit. Reported only if there is a cgroup.
    kOutOfCpu,     // Processor time.
    kLost,         // The guard died, and the program with it.
  };
  Kind kind = Kind::kLost;
  int code = 0;
  bool forced = false;       // It ignored TERM and was killed.
  std::uint32_t strays = 0;  // Processes that it left behind, as far as they were seen, and that were killed.
  // Times of the fiber runtime's clock. The start of a program that was lost is not known: 0.
  std::chrono::nanoseconds started_at{0};
  std::chrono::nanoseconds ended_at{0};
  std::chrono::microseconds user_time{0};
  std::chrono::microseconds system_time{0};
  std::int64_t max_rss_bytes = 0;  // Of the largest process among the program and those that it waited for.
  model::AttemptId next{};         // The attempt that stood by and has started in its place, if any.

  [[nodiscard]] bool success() const { return kind == Kind::kExited && code == 0; }
  // "exit status 3", "killed by signal 9 (Killed)", "ran longer than 2s; it ignored TERM and was killed".
  [[nodiscard]] std::string describe(const ProcessSpec& spec) const;
};

class Process {
 public:
  // NotFound, PermissionDenied, InvalidArgument... with a sentence that names the program or the directory.
  static Result<std::unique_ptr<Process>> start(GuardPool& guards, const ProcessSpec& spec, const ProcessPipes& pipes);
  // Does not wait for the start, which saves a wake-up: wait() returns the error if the start failed, and pid() is 0
  // until then.
  static Result<std::unique_ptr<Process>> launch(GuardPool& guards, const ProcessSpec& spec, const ProcessPipes& pipes);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits for the end. Cancelled if the task is cancelled: wait() may then be called again, or the object destroyed.
  // Any other error says why the program did not start.
  Result<ProcessEnd> wait();

  // TERM to the group, and KILL after the grace period; 0 is KILL at once. The program has ended when wait() returns.
  void terminate(std::chrono::milliseconds grace);
  void pause();
  void resume();
  // Starts a program that stands by; nothing for others.
  void go();

  // A descriptor that is readable when wait() need not wait; for callers that wait for several things.
  [[nodiscard]] int native() const { return socket_.native(); }
  [[nodiscard]] std::int32_t pid() const { return pid_; }

 private:
  explicit Process(GuardPool::Opened&& opened) : socket_(std::move(opened.socket)), run_(std::move(opened.run)) {}
  static Result<std::unique_ptr<Process>> request(GuardPool& guards, const ProcessSpec& spec, const ProcessPipes& pipes,
                                                  bool tell_start);
  [[nodiscard]] Error start_error(const guard::Reply& reply) const;
  void control(const guard::Control& control);

  fiber::Descriptor socket_;
  std::string run_;
  ProcessSpec spec_;  // Only what the error of a failed start mentions: program, directory, cgroup and PATH.
  std::int32_t pid_ = 0;
};

}  // namespace rota::worker

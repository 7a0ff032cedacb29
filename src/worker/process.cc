#include "worker/process.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <ctime>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "base/units.h"
#include "rota/fiber/time.h"

namespace rota::worker {

using guard::Control;
using guard::ControlKind;
using guard::Reply;
using guard::ReplyKind;
using guard::Stage;
using guard::StartHeader;

std::vector<std::string> shell_arguments(std::string text) { return {"/bin/sh", "-c", std::move(text)}; }

namespace {

std::uint64_t not_negative(std::int64_t number) { return number < 0 ? 0 : static_cast<std::uint64_t>(number); }

// A time of the guard (CLOCK_MONOTONIC) on the fiber runtime's clock.
std::chrono::nanoseconds fiber_time(std::uint64_t guard_ns) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now_ns = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  return fiber::now() - std::chrono::nanoseconds(now_ns - static_cast<std::int64_t>(guard_ns));
}

Result<std::string> encode(const ProcessSpec& spec, bool tell_start) {
  if (spec.arguments.empty() || spec.arguments.front().empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "there is no program to run: the list of arguments must begin with the name of a program"};
  }
  StartHeader header;
  std::string payload;
  const auto add = [&](const std::string& text) {
    payload += text;
    payload += '\0';
    return text.find('\0') == std::string::npos;
  };
  bool clean = add(spec.directory) && add(spec.cgroup);
  for (const std::string& text : spec.arguments) clean = add(text) && clean;
  for (const std::string& text : spec.environment) clean = add(text) && clean;
  if (!clean) {
    return Error{ErrorCode::kInvalidArgument,
                 "an argument, the environment or the directory contains a zero byte, which a process cannot be given; "
                 "pass such data in a file"};
  }
  if (payload.size() > guard::kPayloadMost) {
    return Error{ErrorCode::kTooLarge, "arguments and environment are " + std::to_string(payload.size()) +
                                           " bytes long; at most " + std::to_string(guard::kPayloadMost) +
                                           " are possible; pass large inputs in a file"};
  }
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  header.argument_count = static_cast<std::uint32_t>(spec.arguments.size());
  header.environment_count = static_cast<std::uint32_t>(spec.environment.size());
  // The system counts whole seconds; rounding up never turns a limit into none.
  header.cpu_seconds = (not_negative(spec.limits.cpu_time_ms) + 999) / 1000;
  header.memory_bytes = not_negative(spec.limits.memory_bytes);
  header.open_files = not_negative(spec.limits.open_files);
  header.processes = not_negative(spec.limits.processes);
  header.timeout_ms = not_negative(spec.timeout.count());
  header.grace_ms = not_negative(spec.grace.count());
  header.stand_by = spec.stand_by ? 1 : 0;
  header.ticket = {spec.id.task.value(), spec.id.attempt.value()};
  header.held_cpu_millis = not_negative(spec.held.cpu_millis);
  header.held_memory_bytes = not_negative(spec.held.memory_bytes);
  header.tell_start = tell_start ? 1 : 0;
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes + payload;
}

std::string_view path_of(const ProcessSpec& spec) {
  std::string_view path = "";
  for (const std::string& entry : spec.environment) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  return path;
}

// Why the program itself could not be executed.
Error exec_error(const ProcessSpec& spec, int error) {
  const std::string& program = spec.arguments.front();
  const std::string name = "'" + printable(program, 200) + "'";
  const bool by_path = program.find('/') == std::string::npos;
  if (error == ENOENT && by_path) {
    return Error{ErrorCode::kNotFound, "there is no program " + name + " in PATH (" + printable(path_of(spec), 300) +
                                           "); write its full path, or install it on this worker"};
  }
  if (error == ENOENT) {
    std::string full = program;
    if (!program.starts_with('/') && !spec.directory.empty()) full = spec.directory + "/" + program;
    struct stat status{};
    const bool there = ::stat(full.c_str(), &status) == 0;
    return Error{ErrorCode::kNotFound,
                 there ? name + " exists, but the interpreter in its first line (#!) or its loader does not"
                       : "there is no file " + name + " on this worker"};
  }
  if (error == EACCES) {
    return Error{ErrorCode::kPermissionDenied,
                 name + " may not be executed; check that it is a program and that its x bit is set"};
  }
  if (error == ENOEXEC) {
    return Error{
        ErrorCode::kInvalidArgument,
        name + " is not a program that this machine can execute; a script needs a first line such as #!/bin/sh"};
  }
  if (error == E2BIG) {
    return Error{ErrorCode::kTooLarge, "arguments and environment of " + name +
                                           " are longer than the system accepts; pass large inputs in a file"};
  }
  return Error{ErrorCode::kIoError, name + " cannot be executed: " + std::generic_category().message(error)};
}

Error describe_start(const ProcessSpec& spec, const Reply& reply) {
  const std::string why = std::generic_category().message(reply.error);
  const auto make = [&]() -> Error {
    switch (reply.stage) {
      case Stage::kExec:
        return exec_error(spec, reply.error);
      case Stage::kDirectory:
        return Error{reply.error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInvalidArgument,
                     "cannot work in the directory '" + printable(spec.directory, 200) + "': " + why};
      case Stage::kProcess:
        return Error{ErrorCode::kResourceExhausted, "the system cannot start another process: " + why};
      case Stage::kCgroup:
        return Error{ErrorCode::kIoError, "cannot make a cgroup below '" + printable(spec.cgroup, 200) + "': " + why};
      case Stage::kStandBy:
        return Error{ErrorCode::kFailedPrecondition, "it was terminated before it started"};
      case Stage::kLimits:
        return Error{ErrorCode::kInvalidArgument, "its limits cannot be set: " + why};
      default:
        return Error{ErrorCode::kIoError, "the process cannot be set up: " + why};
    }
  };
  return make().in("could not start").with("errno", std::to_string(reply.error));
}

Error guard_died() {
  return Error{ErrorCode::kUnavailable,
               "the guard process that runs this worker's programs was killed, and the program with it"};
}

}  // namespace

Error Process::start_error(const Reply& reply) const { return describe_start(spec_, reply); }

Result<std::unique_ptr<Process>> Process::request(GuardPool& guards, const ProcessSpec& spec, const ProcessPipes& pipes,
                                                  bool tell_start) {
  ROTA_TRY_ASSIGN(const std::string request, encode(spec, tell_start));
  ROTA_TRY_ASSIGN(GuardPool::Opened opened, guards.open_program(pipes.out, pipes.err, pipes.progress, request));
  const std::string_view rest = std::string_view(request).substr(opened.sent);
  std::unique_ptr<Process> process(new Process(std::move(opened)));
  process->spec_.arguments = {spec.arguments.front()};
  process->spec_.directory = spec.directory;
  process->spec_.cgroup = spec.cgroup;
  process->spec_.environment = {"PATH=" + std::string(path_of(spec))};
  // Closed: the guard refused the program or is dead. wait() finds out which.
  if (Result<void> sent = process->socket_.write_all(rest); !sent.ok() && sent.code() != ErrorCode::kClosed) {
    return std::move(sent).take_error();
  }
  return process;
}

Result<std::unique_ptr<Process>> Process::launch(GuardPool& guards, const ProcessSpec& spec,
                                                 const ProcessPipes& pipes) {
  return request(guards, spec, pipes, false);
}

Result<std::unique_ptr<Process>> Process::start(GuardPool& guards, const ProcessSpec& spec, const ProcessPipes& pipes) {
  ROTA_TRY_ASSIGN(std::unique_ptr<Process> process, request(guards, spec, pipes, true));
  Reply reply;
  const Result<void> read = process->socket_.read_exactly(std::as_writable_bytes(std::span(&reply, 1)));
  if (!read.ok()) {
    if (read.code() == ErrorCode::kCancelled) return read.error();
    return guard_died();
  }
  if (reply.kind == ReplyKind::kFailed) return process->start_error(reply);
  process->pid_ = reply.pid;
  return process;
}

Result<ProcessEnd> Process::wait() {
  Reply reply;
  const Result<void> read = socket_.read_exactly(std::as_writable_bytes(std::span(&reply, 1)));
  ProcessEnd end;
  if (!read.ok()) {
    // A cancelled wait has read nothing, because a reply arrives whole.
    if (read.code() == ErrorCode::kCancelled) return read.error();
    ROTA_TRY(GuardPool::bury(run_));
    end.ended_at = fiber::now();
    return end;
  }
  if (reply.kind == ReplyKind::kFailed) return start_error(reply);
  pid_ = reply.pid;
  end.forced = (reply.flags & guard::kFlagForced) != 0;
  end.strays = reply.strays;
  end.user_time = std::chrono::microseconds(reply.user_us);
  end.system_time = std::chrono::microseconds(reply.system_us);
  end.max_rss_bytes = static_cast<std::int64_t>(reply.max_rss_bytes);
  end.started_at = fiber_time(reply.started_ns);
  end.ended_at = fiber_time(reply.ended_ns);
  end.next = {model::TaskId(reply.next.task), model::AttemptNumber(static_cast<std::uint32_t>(reply.next.attempt))};
  if (WIFSIGNALED(reply.status)) {
    end.kind = WTERMSIG(reply.status) == SIGXCPU ? ProcessEnd::Kind::kOutOfCpu : ProcessEnd::Kind::kSignalled;
    end.code = WTERMSIG(reply.status);
  } else {
    end.kind = ProcessEnd::Kind::kExited;
    end.code = WEXITSTATUS(reply.status);
  }
  if ((reply.flags & guard::kFlagMemory) != 0) end.kind = ProcessEnd::Kind::kOutOfMemory;
  if ((reply.flags & guard::kFlagTimedOut) != 0) end.kind = ProcessEnd::Kind::kTimedOut;
  return end;
}

void Process::control(const Control& control) {
  // If this fails, the program has ended or the guard is dead: wait() finds out.
  (void)socket_.write_all(std::string_view(reinterpret_cast<const char*>(&control), sizeof control));
}
void Process::terminate(std::chrono::milliseconds grace) {
  control({.kind = ControlKind::kTerminate, .grace_ms = not_negative(grace.count())});
}
void Process::pause() { control({.kind = ControlKind::kPause}); }
void Process::resume() { control({.kind = ControlKind::kResume}); }
void Process::go() { control({.kind = ControlKind::kGo}); }

std::string ProcessEnd::describe(const ProcessSpec& spec) const {
  std::string text;
  switch (kind) {
    case Kind::kExited:
      text = "exit status " + std::to_string(code);
      break;
    case Kind::kSignalled:
      text = "killed by signal " + std::to_string(code) + " (" + ::strsignal(code) + ")";
      break;
    case Kind::kTimedOut:
      text = "ran longer than its limit of " + format_duration(spec.timeout);
      break;
    case Kind::kOutOfMemory:
      text =
          "used more memory than its limit of " + format_bytes({static_cast<std::uint64_t>(spec.limits.memory_bytes)});
      break;
    case Kind::kOutOfCpu:
      text = "used more processor time than its limit of " +
             format_duration(std::chrono::milliseconds(spec.limits.cpu_time_ms));
      break;
    case Kind::kLost:
      text = guard_died().message;
      break;
  }
  if (forced) text += "; it ignored TERM and was killed";
  const bool by_rlimit = kind == Kind::kExited || kind == Kind::kSignalled;
  if (by_rlimit && !success() && spec.limits.memory_bytes != 0) {
    text += "; its memory limit was " + format_bytes({static_cast<std::uint64_t>(spec.limits.memory_bytes)});
  }
  if (strays != 0)
    text += "; it left " + std::to_string(strays) +
            (strays == 1 ? " process behind, which was killed" : " processes behind, which were killed");
  return text;
}

}  // namespace rota::worker

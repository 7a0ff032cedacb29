#include "worker/process.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "base/units.h"

namespace rota::worker {

using guard::Command;
using guard::CommandKind;
using guard::Reply;
using guard::ReplyKind;
using guard::Stage;
using guard::StartHeader;

std::vector<std::string> shell_arguments(std::string text) { return {"/bin/sh", "-c", std::move(text)}; }

namespace {

// Nobody's grace or timeout is 300 million years; and the guard adds to it.
std::uint64_t count_of(std::chrono::milliseconds duration) {
  return duration.count() < 0 ? 0 : static_cast<std::uint64_t>(duration.count());
}

Result<std::string> encode(const ProcessSpec& spec, bool tell_start) {
  if (spec.arguments.empty() || spec.arguments.front().empty()) {
    return Error{ErrorCode::kInvalidArgument, "there is no program to run: the list of arguments must begin with one"};
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
                 "an argument, the environment or the directory has a zero byte in it, which no process can be given"};
  }
  if (payload.size() > guard::kPayloadMost) {
    return Error{ErrorCode::kTooLarge, "arguments and environment are " + std::to_string(payload.size()) +
                                           " bytes; at most " + std::to_string(guard::kPayloadMost) +
                                           " are possible; pass large inputs in a file"};
  }
  header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  header.argument_count = static_cast<std::uint32_t>(spec.arguments.size());
  header.environment_count = static_cast<std::uint32_t>(spec.environment.size());
  header.cpu_seconds = count_of(spec.limits.cpu_time) / 1000;
  header.memory_bytes = spec.limits.memory_bytes;
  header.open_files = spec.limits.open_files;
  header.processes = spec.limits.processes;
  header.timeout_ms = count_of(spec.limits.timeout);
  header.grace_ms = count_of(spec.grace);
  header.cpu_millis = spec.limits.cpu_millis;
  header.stand_by = spec.stand_by ? 1 : 0;
  header.ticket = spec.ticket;
  header.demand_cpu_millis = spec.demand_cpu_millis;
  header.demand_memory_bytes = spec.demand_memory_bytes;
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
                                           "); write its full path or install it on this worker"};
  }
  if (error == ENOENT) {
    std::string full = program;
    if (!program.starts_with('/') && !spec.directory.empty()) full = spec.directory + "/" + program;
    struct stat status{};
    const bool there = ::stat(full.c_str(), &status) == 0;
    return Error{ErrorCode::kNotFound,
                 there ? name + " is there, but the interpreter in its first line (#!) or its loader is not"
                       : "there is no file " + name + " on this worker"};
  }
  if (error == EACCES) {
    return Error{ErrorCode::kPermissionDenied, name + " may not be executed; is it a program, and is its x bit set?"};
  }
  if (error == ENOEXEC) {
    return Error{ErrorCode::kInvalidArgument,
                 name + " is no program of this machine; a script needs a first line such as #!/bin/sh"};
  }
  if (error == E2BIG) {
    return Error{ErrorCode::kTooLarge, "arguments and environment of " + name +
                                           " are more than the system takes; pass large inputs in a file"};
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
        return Error{ErrorCode::kResourceExhausted, "the system starts no more processes: " + why};
      case Stage::kCgroup:
        return Error{ErrorCode::kIoError, "no cgroup below '" + printable(spec.cgroup, 200) + "': " + why};
      case Stage::kStandBy:
        return Error{ErrorCode::kFailedPrecondition, "it was told to end before it began"};
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
               "the guard that runs this worker's commands was killed, and the command with it"};
}

}  // namespace

Error Process::start_error(const Reply& reply) const { return describe_start(spec_, reply); }

Result<std::unique_ptr<Process>> Process::request(Guard& guard, const ProcessSpec& spec, const ProcessPipes& pipes,
                                                  bool tell_start) {
  ROTA_TRY_ASSIGN(const std::string request, encode(spec, tell_start));
  ROTA_TRY_ASSIGN(Guard::Opened opened, guard.open_command(pipes.out, pipes.err, pipes.progress, request));
  const std::string_view rest = std::string_view(request).substr(opened.sent);
  std::unique_ptr<Process> process(new Process(std::move(opened)));
  process->spec_.arguments = {spec.arguments.front()};
  process->spec_.directory = spec.directory;
  process->spec_.cgroup = spec.cgroup;
  process->spec_.environment = {"PATH=" + std::string(path_of(spec))};
  // Closed: the guard refused it or is dead. What it said, or its silence, tells which.
  if (Result<void> sent = process->socket_.write_all(rest); !sent.ok() && sent.code() != ErrorCode::kClosed) {
    return std::move(sent).take_error();
  }
  return process;
}

Result<std::unique_ptr<Process>> Process::launch(Guard& guard, const ProcessSpec& spec, const ProcessPipes& pipes) {
  return request(guard, spec, pipes, false);
}

Result<std::unique_ptr<Process>> Process::start(Guard& guard, const ProcessSpec& spec, const ProcessPipes& pipes) {
  ROTA_TRY_ASSIGN(std::unique_ptr<Process> process, request(guard, spec, pipes, true));
  Reply reply;
  const Result<void> read = process->socket_.read_exactly(std::as_writable_bytes(std::span(&reply, 1)));
  if (!read.ok()) {
    if (read.code() == ErrorCode::kCancelled) return read.error();
    return guard_died();
  }
  if (reply.kind == ReplyKind::kFailed) return process->start_error(reply);
  process->pid_ = reply.pid;
  process->flags_ = reply.flags;
  return process;
}

Result<Outcome> Process::wait() {
  Reply reply;
  const Result<void> read = socket_.read_exactly(std::as_writable_bytes(std::span(&reply, 1)));
  Outcome outcome;
  if (!read.ok()) {
    // A cancelled wait has taken nothing: a reply arrives whole.
    if (read.code() == ErrorCode::kCancelled) return read.error();
    ROTA_TRY(Guard::bury(run_));
    return outcome;
  }
  if (reply.kind == ReplyKind::kFailed) return start_error(reply);
  pid_ = reply.pid;
  flags_ = reply.flags;
  outcome.forced = (reply.flags & guard::kFlagForced) != 0;
  outcome.strays = reply.strays;
  outcome.user_time = std::chrono::microseconds(reply.user_us);
  outcome.system_time = std::chrono::microseconds(reply.system_us);
  outcome.max_rss_bytes = reply.max_rss_bytes;
  outcome.next = reply.next;
  if (WIFSIGNALED(reply.status)) {
    outcome.kind = WTERMSIG(reply.status) == SIGXCPU ? Outcome::Kind::kOutOfCpu : Outcome::Kind::kSignalled;
    outcome.code = WTERMSIG(reply.status);
  } else {
    outcome.kind = Outcome::Kind::kExited;
    outcome.code = WEXITSTATUS(reply.status);
  }
  if ((reply.flags & guard::kFlagMemory) != 0) outcome.kind = Outcome::Kind::kOutOfMemory;
  if ((reply.flags & guard::kFlagTimedOut) != 0) outcome.kind = Outcome::Kind::kTimedOut;
  return outcome;
}

void Process::command(const Command& command) {
  // If it cannot be said, the command has ended or the guard is dead: wait() tells.
  (void)socket_.write_all(std::string_view(reinterpret_cast<const char*>(&command), sizeof command));
}
void Process::terminate(std::chrono::milliseconds grace) {
  command({.kind = CommandKind::kTerminate, .grace_ms = count_of(grace)});
}
void Process::pause() { command({.kind = CommandKind::kPause}); }
void Process::resume() { command({.kind = CommandKind::kResume}); }
void Process::go() { command({.kind = CommandKind::kGo}); }

std::string Outcome::describe(const ProcessSpec& spec) const {
  std::string text;
  switch (kind) {
    case Kind::kExited:
      text = "exit status " + std::to_string(code);
      break;
    case Kind::kSignalled:
      text = "killed by signal " + std::to_string(code) + " (" + ::strsignal(code) + ")";
      break;
    case Kind::kTimedOut:
      text = "ran longer than its limit of " + format_duration(spec.limits.timeout);
      break;
    case Kind::kOutOfMemory:
      text = "used more memory than its limit of " + format_bytes({spec.limits.memory_bytes});
      break;
    case Kind::kOutOfCpu:
      text = "used more processor time than its limit of " + format_duration(spec.limits.cpu_time);
      break;
    case Kind::kLost:
      text = guard_died().message;
      break;
  }
  if (forced) text += "; it ignored TERM and was killed";
  const bool by_rlimit = kind == Kind::kExited || kind == Kind::kSignalled;
  if (by_rlimit && !success() && spec.limits.memory_bytes != 0) {
    text += "; its memory limit was " + format_bytes({spec.limits.memory_bytes});
  }
  if (strays != 0) text += "; it left " + std::to_string(strays) + " processes behind, which were killed";
  return text;
}

}  // namespace rota::worker

#include "worker/command.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <optional>
#include <span>

#include "base/json_text.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/file.h"
#include "worker/output_stream.h"
#include "worker/owned_fd.h"
#include "worker/poll_set.h"

namespace rota::worker {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

constexpr std::size_t kVariableMost = 64 * 1024;  // Of JSON in a variable; the system takes 128 KiB.
constexpr milliseconds kFlushAfter{200};          // What a worker that is killed may lose of a command's output.
constexpr milliseconds kDrainFor{500};            // For output after the end, if somebody who escaped holds the pipe.
constexpr std::uint32_t kBadLinesTold = 10;
constexpr std::string_view kResultSuffix = ".result.json";
constexpr std::string_view kInputsSuffix = ".inputs.json";
constexpr std::string_view kCheckpointSuffix = ".checkpoint.json";

enum Tag : unsigned { kOut, kErr, kLines, kProcess };

}  // namespace

// The pipes of a command, and what comes out of them.
struct CommandRun::Streams {
  Streams(std::string path, std::uint64_t limit) : kept(std::move(path), limit) {}

  CommandPipe pipes[3];  // By tag.
  KeptOutput kept;
  LastLine last_out;
  LastLine last_err;
  LineReader lines;
};

CommandRun::CommandRun(Guard& guard, const CommandPlace& place, CommandRequest request, CommandEvents& events)
    : guard_(guard), place_(place), request_(std::move(request)), events_(events) {}
CommandRun::~CommandRun() = default;

std::string CommandRun::path_of(std::string_view suffix) const {
  return place_.directory + "/" + std::to_string(request_.task) + "-" + std::to_string(request_.attempt) +
         std::string(suffix);
}

// Small JSON is in the variable, larger in a file that NAME_FILE names.
Result<void> CommandRun::variable_or_file(const std::string& name, const std::string& json,
                                          std::map<std::string, std::string, std::less<>>* environment) const {
  if (json.size() <= kVariableMost) {
    (*environment)[name] = json;
    return {};
  }
  std::string path = path_of(name == "ROTA_INPUTS" ? kInputsSuffix : kCheckpointSuffix);
  ROTA_TRY(fiber::write_file(path, json));
  (*environment)[name + "_FILE"] = std::move(path);
  return {};
}

Result<ProcessSpec> CommandRun::process_spec() const {
  const TaskSpec& spec = request_.spec;
  ProcessSpec process;
  if (spec.shell.empty() && spec.arguments.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the specification has no \"run\": there is no command to run"};
  }
  process.arguments = spec.shell.empty() ? spec.arguments : shell_arguments(spec.shell);
  process.directory = spec.directory;
  process.cgroup = place_.cgroup;
  process.grace = spec.grace_ms ? milliseconds(*spec.grace_ms) : place_.grace;
  process.stand_by = request_.stand_by;
  process.ticket = request_.task;
  process.demand_cpu_millis = request_.cpu_millis;
  process.demand_memory_bytes = request_.memory_bytes;
  process.limits.timeout = milliseconds(spec.timeout_ms.value_or(0));
  // Whole seconds are what the system counts; a limit is never rounded to none.
  process.limits.cpu_time = std::chrono::ceil<std::chrono::seconds>(milliseconds(spec.cpu_time_ms));
  process.limits.memory_bytes = spec.memory_bytes;
  process.limits.open_files = spec.open_files;
  process.limits.processes = spec.processes;

  std::map<std::string, std::string, std::less<>> environment;  // What this task has of its own.
  for (const auto& [name, value] : spec.environment) environment.insert_or_assign(name, value);
  for (const auto& [name, value] : request_.variables) environment.insert_or_assign(name, value);
  environment["ROTA_TASK"] = std::to_string(request_.task);
  environment["ROTA_ATTEMPT"] = std::to_string(request_.attempt);
  environment["ROTA_RESULT"] = path_of(kResultSuffix);
  environment["ROTA_FD"] = std::to_string(guard::kProgressFd);
  if (request_.cpu_millis != 0) environment["ROTA_CPUS"] = std::to_string((request_.cpu_millis + 999) / 1000);
  if (request_.memory_bytes != 0) environment["ROTA_MEMORY_BYTES"] = std::to_string(request_.memory_bytes);
  ROTA_TRY(variable_or_file("ROTA_INPUTS", spec.inputs, &environment));
  if (!spec.checkpoint.empty()) ROTA_TRY(variable_or_file("ROTA_CHECKPOINT", spec.checkpoint, &environment));
  process.environment.reserve(place_.environment.size() + environment.size());
  for (const std::string& entry : place_.environment) {
    // Ours are of this task alone, even if this worker is itself a task's command.
    if (entry.starts_with("ROTA_")) continue;
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos && !environment.contains(std::string_view(entry).substr(0, equals))) {
      process.environment.push_back(entry);
    }
  }
  for (const auto& [name, value] : environment) process.environment.push_back(name + "=" + value);
  return process;
}

Result<void> CommandRun::launch(const ProcessSpec& spec, Streams& streams) {
  ::unlink(path_of(kResultSuffix).c_str());  // Of an earlier life of this worker.
  for (CommandPipe& pipe : streams.pipes) {
    ROTA_TRY_ASSIGN(pipe, CommandPipe::make());
  }
  ROTA_TRY_ASSIGN(std::unique_ptr<Process> process,
                  Process::launch(guard_, spec,
                                  {streams.pipes[kOut].write_end.fd, streams.pipes[kErr].write_end.fd,
                                   streams.pipes[kLines].write_end.fd}));
  for (CommandPipe& pipe : streams.pipes) pipe.write_end.reset();
  const std::lock_guard lock(mutex_);
  process_ = std::move(process);
  // What was said before there was a process.
  if (paused_) process_->pause();
  if (gone_ && spec.stand_by) process_->go();
  if (terminated_) process_->terminate(terminate_grace_);
  return {};
}

// Serves the command until it has ended and its pipes are at their end.
Result<Outcome> CommandRun::serve(Streams& streams) {
  ROTA_TRY_ASSIGN(PollSet set, PollSet::make());
  for (const unsigned tag : {kOut, kErr, kLines}) ROTA_TRY(set.add(streams.pipes[tag].read_end.native(), tag));
  ROTA_TRY(set.add(process_->native(), kProcess));
  const auto line = [this](Result<Line> l) { take_line(std::move(l)); };
  std::optional<Result<Outcome>> outcome;
  int open_pipes = 3;
  nanoseconds drain_until = nanoseconds::max();
  nanoseconds flush_at = nanoseconds::max();
  std::optional<OutputStream> stream;
  if (place_.stream_output) {
    stream.emplace([this](bool from_stderr, std::string bytes, std::uint64_t dropped) {
      events_.on_output(from_stderr, std::move(bytes), dropped);
    });
  }
  char buffer[16 * 1024];
  while (!outcome || open_pipes > 0) {
    nanoseconds next = std::min(drain_until, flush_at);
    if (progress_new_) next = std::min(next, progress_at_ + kProgressEvery);
    if (stream) next = std::min(next, stream->due());
    const Result<unsigned> waited = set.wait(fiber::Deadline::at(next));
    if (!waited.ok() && waited.code() != ErrorCode::kDeadlineExceeded) return waited.error();
    const unsigned ready = waited.ok() ? *waited : 0;
    for (const unsigned tag : {kOut, kErr, kLines}) {
      if ((ready & (1U << tag)) == 0) continue;
      const int fd = streams.pipes[tag].read_end.native();
      const ssize_t size = ::read(fd, buffer, sizeof buffer);
      if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (size <= 0) {
        set.remove(fd);
        streams.pipes[tag].read_end = {};
        --open_pipes;
        continue;
      }
      const std::string_view bytes(buffer, static_cast<std::size_t>(size));
      if (tag == kLines) {
        streams.lines.feed(bytes, line);
      } else {
        (tag == kOut ? streams.last_out : streams.last_err).feed(bytes);
        streams.kept.append(bytes);
        if (stream) stream->feed(tag == kErr, bytes, fiber::now());
      }
    }
    const nanoseconds now = fiber::now();
    if ((ready & (1U << kProcess)) != 0) {
      outcome = process_->wait();
      if (outcome->code() == ErrorCode::kCancelled) return outcome->error();
      set.remove(process_->native());
      drain_until = now + kDrainFor;
    }
    if (stream) stream->tell_due(now);
    if (flush_at <= now) streams.kept.flush();
    if (!streams.kept.is_dirty()) {
      flush_at = nanoseconds::max();
    } else if (flush_at == nanoseconds::max()) {
      flush_at = now + kFlushAfter;
    }
    report_progress(false);
    if (drain_until <= now) break;
    ROTA_TRY(fiber::check_cancelled());  // One that writes without pause is always ready.
  }
  if (stream) stream->finish();
  streams.lines.finish(line);
  report_progress(true);
  return std::move(*outcome);
}

void CommandRun::report_progress(bool last) {
  if (!progress_new_) return;
  const nanoseconds now = fiber::now();
  if (!last && now < progress_at_ + kProgressEvery) return;
  progress_at_ = now;
  progress_new_ = false;
  events_.on_progress(permille_, progress_text_);
}

void CommandRun::take_line(Result<Line> line) {
  if (!line.ok()) {
    // Told of, up to a bound: a program that writes something else there would fill the log with it.
    if (++bad_lines_ <= kBadLinesTold) events_.on_log(line.error().message);
    if (bad_lines_ == kBadLinesTold) events_.on_log("on $ROTA_FD: further bad lines are not told of");
    return;
  }
  switch (line->kind) {
    case Line::Kind::kProgress:
      permille_ = line->permille;
      progress_text_ = std::move(line->text);
      progress_new_ = true;
      break;
    case Line::Kind::kCheckpoint:
      events_.on_checkpoint(line->text);
      break;
    case Line::Kind::kCheckpointFile:
      events_.on_checkpoint("{\"file\":" + json_string(line->text) + "}");
      break;
    case Line::Kind::kLog:
      events_.on_log(line->text);
      break;
    case Line::Kind::kCache:
      events_.on_cache(line->text, line->name);
      break;
  }
}

Result<std::string> CommandRun::read_result(const LastLine& last_line, bool* file_found) const {
  const std::string path = path_of(kResultSuffix);
  // Not blocking, even if the command made a pipe of it.
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  *file_found = file.fd >= 0 || errno != ENOENT;
  struct stat status{};
  if (file.fd >= 0 && ::fstat(file.fd, &status) == 0 && status.st_size > 0) {
    if (!S_ISREG(status.st_mode)) return Error{ErrorCode::kInvalidArgument, "$ROTA_RESULT is no regular file"};
    if (static_cast<std::uint64_t>(status.st_size) > place_.result_bytes) {
      return Error{ErrorCode::kTooLarge,
                   "the result in $ROTA_RESULT has " + std::to_string(status.st_size) + " bytes; at most " +
                       std::to_string(place_.result_bytes) +
                       " are allowed. Write large results to a file of your own and return its path"};
    }
    ROTA_TRY_ASSIGN(std::string text, fiber::read_file(path, place_.result_bytes));
    if (Result<void> valid = check_json(text); !valid.ok()) {
      return std::move(valid).take_error().in("the result in $ROTA_RESULT");
    }
    return text;
  }
  if (file.fd < 0 && *file_found) {
    return Error{ErrorCode::kInvalidArgument, "$ROTA_RESULT cannot be read; it must be a regular file with JSON in it"};
  }
  const std::string_view last = last_line.line();
  if (last.empty()) return std::string("null");
  return check_json(last).ok() ? std::string(last) : json_string(last);
}

Result<CommandEnd> CommandRun::run() {
  ROTA_TRY_ASSIGN(const ProcessSpec spec, process_spec());
  Streams streams(path_of(".log"), request_.spec.output_bytes.value_or(place_.output_bytes));
  ROTA_TRY(launch(spec, streams));
  Result<Outcome> outcome = serve(streams);
  CommandEnd end;
  end.output = streams.kept.finish();
  if (end.output.total_bytes != 0) end.log_path = path_of(".log");
  if (!outcome.ok()) return std::move(outcome).take_error();
  end.outcome = *outcome;
  end.success = outcome->success();
  if (!end.success || outcome->strays != 0) end.message = outcome->describe(spec);
  bool result_file = true;
  if (end.success) {
    Result<std::string> result = read_result(streams.last_out, &result_file);
    if (result.ok()) {
      end.result = std::move(*result);
    } else {
      end.success = false;
      end.message = result.error().message;
    }
  } else if (const std::string_view words = streams.last_err.line(); !words.empty()) {
    end.message += "; its last words: " + printable(words, 200);
  }
  if (!end.output.written.ok()) {
    events_.on_log("its output could not be kept: " + end.output.written.error().message);
    end.log_path.clear();
  }
  // Only what may be there: most tasks have none of them.
  if (result_file) ::unlink(path_of(kResultSuffix).c_str());
  if (request_.spec.inputs.size() > kVariableMost) ::unlink(path_of(kInputsSuffix).c_str());
  if (request_.spec.checkpoint.size() > kVariableMost) ::unlink(path_of(kCheckpointSuffix).c_str());
  return end;
}

void CommandRun::terminate(milliseconds grace) {
  const std::lock_guard lock(mutex_);
  terminated_ = true;
  terminate_grace_ = grace;
  if (process_ != nullptr) process_->terminate(grace);
}

void CommandRun::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
  if (process_ != nullptr) process_->pause();
}

void CommandRun::go() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  if (process_ != nullptr) process_->go();
}

void CommandRun::resume() {
  const std::lock_guard lock(mutex_);
  paused_ = false;
  if (process_ != nullptr) process_->resume();
}

}  // namespace rota::worker

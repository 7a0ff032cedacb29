#include "worker/program.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <optional>
#include <span>

#include "base/json_text.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/file.h"
#include "rota/fiber/time.h"
#include "worker/line_reports.h"
#include "worker/output_stream.h"
#include "worker/owned_fd.h"
#include "worker/poll_set.h"
#include "worker/task_check.h"

namespace rota::worker {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

namespace {

constexpr std::size_t kVariableMost = 64 * 1024;  // JSON in a variable; the system accepts 128 KiB.
constexpr milliseconds kFlushAfter{200};          // How much output, in time, may be lost when a worker is killed.
constexpr milliseconds kDrainFor{500};            // How long output is read after the end if a process holds the pipe.
// After a full buffer of lines: parsing must not take all of the worker's time.
constexpr milliseconds kLinesPause{50};
// A shortage of processes or descriptors is not a failure of the task: it waits for the end of other programs.
constexpr std::chrono::minutes kShortageMost{10};
constexpr milliseconds kShortagePause{20};
constexpr milliseconds kShortagePauseMost{1000};
constexpr std::string_view kResultSuffix = ".result.json";
constexpr std::string_view kWholeSuffixes[2] = {".out", ".err"};  // By tag.
constexpr std::uint64_t kNoBound = std::uint64_t{1} << 62;
constexpr std::string_view kInputsSuffix = ".inputs.json";
constexpr std::string_view kCheckpointSuffix = ".checkpoint.json";

enum Tag : unsigned { kOut, kErr, kLines, kProcess };

// "0,3": the numbers of the devices.
std::string device_list(model::DeviceSet devices) {
  std::string list;
  for (unsigned i = 0; i < model::kMostDevices; ++i) {
    if ((devices >> i & 1) != 0) list += (list.empty() ? "" : ",") + std::to_string(i);
  }
  return list;
}

}  // namespace

namespace {

// Masks what a program says on $ROTA_FD: escapes in its JSON may hide a value from the masking of its bytes.
class MaskedEvents final : public ProgramEvents {
 public:
  MaskedEvents(ProgramEvents& events, const SecretMask& mask) : events_(events), mask_(mask) {}
  void on_progress(std::uint32_t permille, const std::string& message) override {
    events_.on_progress(permille, mask_.masked(message));
  }
  void on_checkpoint(const std::string& json) override { events_.on_checkpoint(mask_.masked_json(json)); }
  void on_log(const std::string& text) override { events_.on_log(mask_.masked(text)); }
  void on_cached(const std::string& item) override { events_.on_cached(mask_.masked(item)); }
  void on_output(bool from_stderr, std::string bytes, std::uint64_t dropped_bytes) override {
    events_.on_output(from_stderr, std::move(bytes), dropped_bytes);  // Masked as a stream.
  }

 private:
  ProgramEvents& events_;
  const SecretMask& mask_;
};

}  // namespace

// The pipes of a program, and what is read from them.
struct ProgramRun::Streams {
  static constexpr std::size_t kErrorBytes = 4096;  // Of the last line of stderr, for the failure's message.

  Streams(std::string path, std::uint64_t limit, std::size_t result_bytes, const SecretMask& mask)
      : masks{StreamMask(mask), StreamMask(mask), StreamMask(mask)},
        kept(std::move(path), limit),
        last_out(result_bytes),
        last_err(kErrorBytes) {}

  ProgramPipe pipes[3];  // By tag.
  StreamMask masks[3];   // By tag.
  KeptOutput kept;
  std::vector<KeptOutput> whole;  // By tag; empty: only `kept`.
  LastLine last_out;
  LastLine last_err;
  LineReader lines;

  void keep(unsigned tag, std::string_view bytes) {
    kept.append(bytes);
    if (!whole.empty()) whole[tag].append(bytes);
  }
  void flush() {
    kept.flush();
    for (KeptOutput& output : whole) output.flush();
  }
  [[nodiscard]] bool is_dirty() const {
    return kept.is_dirty() ||
           std::any_of(whole.begin(), whole.end(), [](const KeptOutput& output) { return output.is_dirty(); });
  }
};

ProgramRun::ProgramRun(GuardPool& guards, const ProgramPlace& place, ProgramRequest request, ProgramEvents& events)
    : guards_(guards),
      place_(place),
      request_(std::move(request)),
      grace_(request_.spec.program && request_.spec.program->grace_ms ? milliseconds(*request_.spec.program->grace_ms)
                                                                      : place.grace),
      events_(events) {}
ProgramRun::~ProgramRun() = default;

std::string ProgramRun::path_of(std::string_view suffix) const {
  return place_.directory + "/" + std::to_string(request_.id.task.value()) + "-" +
         std::to_string(request_.id.attempt.value()) + std::string(suffix);
}

// Small JSON is passed in the variable NAME; larger JSON in a file, whose path is in NAME_FILE.
Result<void> ProgramRun::variable_or_file(const std::string& name, const std::string& json,
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

Result<std::vector<model::Variable>> ProgramRun::find_secrets() const {
  std::vector<model::Variable> values;
  if (!request_.spec.program) return values;
  const Secrets none{SecretSources{}};
  const Secrets& secrets = place_.secrets != nullptr ? *place_.secrets : none;
  for (const model::SecretVariable& variable : request_.spec.program->secrets) {
    ROTA_TRY_ASSIGN(std::string value, secrets.find(variable, request_.id));
    values.push_back({variable.name, std::move(value)});
  }
  return values;
}

Result<ProcessSpec> ProgramRun::process_spec(const std::vector<model::Variable>& secrets) const {
  if (!request_.spec.program) {
    return Error{ErrorCode::kInvalidArgument, "the task has no program; give the stage a `run`"};
  }
  const model::ProgramSpec& program = *request_.spec.program;
  ProcessSpec process;
  process.arguments = program.shell.empty() ? program.arguments : shell_arguments(program.shell);
  process.directory = program.directory;
  process.cgroup = place_.cgroup;
  process.grace = grace_;
  process.stand_by = request_.stand_by;
  process.id = request_.id;
  process.held = request_.resources;
  process.timeout = milliseconds(request_.spec.timeout_ms);
  process.limits = program.limits;

  std::map<std::string, std::string, std::less<>> environment;  // The variables of this task.
  for (const auto& [name, value] : program.environment) environment.insert_or_assign(name, value);
  for (const auto& [name, value] : secrets) environment.insert_or_assign(name, value);
  if (place_.has_devices) environment.insert_or_assign("CUDA_VISIBLE_DEVICES", device_list(request_.resources.devices));
  environment["ROTA_TASK"] = std::to_string(request_.id.task.value());
  environment["ROTA_ATTEMPT"] = std::to_string(request_.id.attempt.value());
  environment["ROTA_RESULT"] = path_of(kResultSuffix);
  environment["ROTA_FD"] = std::to_string(guard::kProgressFd);
  const model::ResourceUse& held = request_.resources;
  if (held.cpu_millis != 0) environment["ROTA_CPUS"] = std::to_string((held.cpu_millis + 999) / 1000);
  if (held.memory_bytes != 0) environment["ROTA_MEMORY_BYTES"] = std::to_string(held.memory_bytes);
  ROTA_TRY(variable_or_file("ROTA_INPUTS", request_.spec.inputs, &environment));
  if (!request_.spec.checkpoint.empty()) {
    ROTA_TRY(variable_or_file("ROTA_CHECKPOINT", request_.spec.checkpoint, &environment));
  }
  process.environment.reserve(place_.environment.size() + environment.size());
  for (const std::string& entry : place_.environment) {
    // ROTA_ variables describe this task only, even if this worker itself runs as a task's program.
    if (entry.starts_with("ROTA_")) continue;
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos && !environment.contains(std::string_view(entry).substr(0, equals))) {
      process.environment.push_back(entry);
    }
  }
  for (const auto& [name, value] : environment) process.environment.push_back(name + "=" + value);
  return process;
}

Result<void> ProgramRun::launch(const ProcessSpec& spec, Streams& streams) {
  ::unlink(path_of(kResultSuffix).c_str());  // It may be left from an earlier life of this worker.
  for (ProgramPipe& pipe : streams.pipes) {
    ROTA_TRY_ASSIGN(pipe, ProgramPipe::make());
  }
  ROTA_TRY_ASSIGN(std::unique_ptr<Process> process,
                  Process::launch(guards_, spec,
                                  {streams.pipes[kOut].write_end.fd, streams.pipes[kErr].write_end.fd,
                                   streams.pipes[kLines].write_end.fd}));
  for (ProgramPipe& pipe : streams.pipes) pipe.write_end.reset();
  const std::lock_guard lock(mutex_);
  process_ = std::move(process);
  // Requests that came before there was a process.
  if (paused_) process_->pause();
  if (go_requested_ && spec.stand_by) process_->go();
  if (terminate_requested_) process_->terminate(grace_);
  return {};
}

// Serves the program until it has ended and its pipes are closed.
Result<ProcessEnd> ProgramRun::serve(Streams& streams, PollSet& set, ProgramEvents& events) {
  ROTA_TRY(set.add(process_->native(), kProcess));
  LineReports reports(events);
  const auto line = [&reports](Result<Line> l) { reports.take(std::move(l), fiber::now()); };
  std::optional<Result<ProcessEnd>> end;
  int open_pipes = 3;
  nanoseconds drain_until = nanoseconds::max();
  nanoseconds flush_at = nanoseconds::max();
  nanoseconds lines_at = nanoseconds::max();  // When lines are read again.
  std::optional<OutputStream> stream;
  if (place_.stream_output) {
    stream.emplace([&events](bool from_stderr, std::string bytes, std::uint64_t dropped) {
      events.on_output(from_stderr, std::move(bytes), dropped);
    });
  }
  // What is done with the bytes of a pipe, after the secrets in them were masked.
  const StreamMask::Sink sinks[3] = {[&](std::string_view bytes) {
                                       streams.last_out.feed(bytes);
                                       streams.keep(kOut, bytes);
                                       if (stream) stream->feed(false, bytes, fiber::now());
                                     },
                                     [&](std::string_view bytes) {
                                       streams.last_err.feed(bytes);
                                       streams.keep(kErr, bytes);
                                       if (stream) stream->feed(true, bytes, fiber::now());
                                     },
                                     [&](std::string_view bytes) { streams.lines.feed(bytes, line); }};
  char buffer[16 * 1024];
  while (!end || open_pipes > 0) {
    nanoseconds next = std::min({drain_until, flush_at, lines_at, reports.due()});
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
      streams.masks[tag].feed(bytes, sinks[tag]);
      if (tag == kLines && bytes.size() == sizeof buffer && !end) {
        set.remove(fd);
        lines_at = fiber::now() + kLinesPause;
      }
    }
    const nanoseconds now = fiber::now();
    if ((ready & (1U << kProcess)) != 0) {
      end = process_->wait();
      if (end->code() == ErrorCode::kCancelled) return end->error();
      set.remove(process_->native());
      drain_until = now + kDrainFor;
    }
    if (lines_at <= now || (end && lines_at != nanoseconds::max())) {
      lines_at = nanoseconds::max();
      ROTA_TRY(set.add(streams.pipes[kLines].read_end.native(), kLines));
    }
    if (stream) stream->send_due(now);
    if (flush_at <= now) streams.flush();
    if (!streams.is_dirty()) {
      flush_at = nanoseconds::max();
    } else if (flush_at == nanoseconds::max()) {
      flush_at = now + kFlushAfter;
    }
    reports.send_due(now);
    if (drain_until <= now) break;
    // A program that writes without a pause is always ready: other tasks, like the heartbeat, must run, too.
    fiber::yield();
    ROTA_TRY(fiber::check_cancelled());
  }
  for (const unsigned tag : {kOut, kErr, kLines}) streams.masks[tag].finish(sinks[tag]);
  if (stream) stream->finish();
  streams.lines.finish(line);
  reports.finish();
  return std::move(*end);
}

Result<std::string> ProgramRun::read_result(const LastLine& last_line, const SecretMask& mask, bool* file_found) const {
  const std::string path = path_of(kResultSuffix);
  // Without blocking, even if the program made it a pipe.
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  *file_found = file.fd >= 0 || errno != ENOENT;
  struct stat status{};
  if (file.fd >= 0 && ::fstat(file.fd, &status) == 0 && status.st_size > 0) {
    if (!S_ISREG(status.st_mode))
      return Error{ErrorCode::kInvalidArgument, "$ROTA_RESULT is not a regular file; write the result to a plain file"};
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
    return mask.empty() ? std::move(text) : mask.masked_json(text);
  }
  if (file.fd < 0 && *file_found) {
    return Error{ErrorCode::kInvalidArgument, "$ROTA_RESULT cannot be read; it must be a regular file with JSON in it"};
  }
  if (last_line.too_long()) {
    return Error{ErrorCode::kTooLarge, "the last line of its output, which is the task's result, has more than " +
                                           std::to_string(place_.result_bytes) +
                                           " bytes. Print a shorter line at the end, or write a large result to a " +
                                           "file of your own and print its path"};
  }
  const std::string_view last = last_line.line();
  if (last.empty()) return std::string("null");
  if (!check_json(last).ok()) {
    if (!is_utf8(last)) {
      events_.on_log(
          "the last line of its output, which is its result, is not UTF-8: the result has U+FFFD in the place of such "
          "bytes");
    }
    return json_string(last);
  }
  return mask.empty() ? std::string(last) : mask.masked_json(last);
}

void ProgramRun::describe(const ProcessEnd& end, const ProcessSpec& spec, model::AttemptOutcome* outcome) const {
  const bool start_known = end.started_at != nanoseconds(0);
  const nanoseconds started = start_known ? end.started_at : request_.stand_by ? end.ended_at : requested_at_;
  outcome->started_ns = request_.clock.at(started);
  outcome->ended_ns = request_.clock.at(end.ended_at);
  outcome->cpu_us = (end.user_time + end.system_time).count();
  outcome->max_rss_bytes = end.max_rss_bytes;
  if (end.kind == ProcessEnd::Kind::kTimedOut) outcome->failure = model::FailureKind::kTimeout;
  if (end.kind == ProcessEnd::Kind::kOutOfMemory) outcome->failure = model::FailureKind::kMemory;
  if (!end.success() || end.strays != 0) outcome->message = end.describe(spec);
}

Result<AttemptResult> ProgramRun::run() {
  ROTA_TRY_ASSIGN(const std::vector<model::Variable> secrets, find_secrets());
  ROTA_TRY_ASSIGN(const ProcessSpec spec, process_spec(secrets));
  std::vector<std::string> values;
  for (const model::Variable& secret : secrets) values.push_back(secret.value);
  const SecretMask mask(values);
  MaskedEvents masked_events(events_, mask);
  ProgramEvents& events = mask.empty() ? events_ : masked_events;
  const std::int64_t output_bytes = request_.spec.program->limits.output_bytes;
  Streams streams(path_of(".log"), output_bytes > 0 ? static_cast<std::uint64_t>(output_bytes) : place_.output_bytes,
                  place_.result_bytes, mask);
  for (const std::string_view suffix : kWholeSuffixes) {
    if (!place_.whole_output) continue;
    ::unlink(path_of(suffix).c_str());  // It may be left from an earlier life of this worker.
    streams.whole.emplace_back(path_of(suffix), kNoBound);
  }
  // Everything that can fail for lack of room comes before the program starts: it must not run twice.
  ROTA_TRY_ASSIGN(PollSet set, PollSet::make());
  ROTA_TRY(launch(spec, streams));
  for (const unsigned tag : {kOut, kErr, kLines}) ROTA_TRY(set.add(streams.pipes[tag].read_end.native(), tag));
  const Result<ProcessEnd> end = serve(streams, set, events);
  const KeptOutput::Summary output = streams.kept.finish();
  Result<void> whole;
  for (KeptOutput& each : streams.whole) {
    if (KeptOutput::Summary summary = each.finish(); whole.ok()) whole = std::move(summary.written);
  }
  if (!end.ok()) return end.error();
  AttemptResult result;
  result.next = end->next;
  model::AttemptOutcome& outcome = result.outcome;
  describe(*end, spec, &outcome);
  bool result_file = true;
  if (!whole.ok()) {
    outcome.message = "its output could not be kept, and is not complete: " + whole.error().message +
                      (end->success() ? "" : "; " + outcome.message);
  } else if (end->success()) {
    Result<std::string> value =
        place_.whole_output ? std::string("null") : read_result(streams.last_out, mask, &result_file);
    if (value.ok()) {
      outcome.end = model::AttemptEnd::kSucceeded;
      outcome.result = std::move(*value);
    } else {
      outcome.message = value.error().message;
    }
  } else if (const std::string_view words = streams.last_err.line(); !words.empty()) {
    outcome.message += "; its last words: " + printable(words, 200);
  }
  if (!mask.empty()) outcome.message = mask.masked(outcome.message);
  if (!output.written.ok()) {
    events_.on_log("its output could not be kept: " + output.written.error().message);
  } else if (output.total_bytes != 0) {
    outcome.log_path = path_of(".log");
  }
  remove_files(result_file);
  return result;
}

Result<AttemptResult> ProgramRun::run_when_possible() {
  const nanoseconds until = fiber::now() + kShortageMost;
  for (milliseconds pause = kShortagePause;; pause = std::min(pause * 2, kShortagePauseMost)) {
    Result<AttemptResult> result = run();
    if (result.ok() || result.code() != ErrorCode::kResourceExhausted || fiber::now() >= until) return result;
    {
      const std::lock_guard lock(mutex_);
      process_.reset();
      if (terminate_requested_) return result;
    }
    if (pause == kShortagePause) events_.on_log("waiting for the machine: " + result.error().message);
    ROTA_TRY(fiber::sleep_for(pause));
  }
}

// Programs that stand by leave half of the room to those that run: a program starts in the place of one that ends, so
// one that could not start must not wait for them. A program without room stands by without a process, until go().
Result<void> ProgramRun::take_room() {
  if (request_.stand_by && place_.room->available() <= place_.room_permits / 2) {
    ROTA_TRY(started_.wait(std::nothrow));
  }
  return place_.room->acquire(std::nothrow);
}

Result<AttemptResult> ProgramRun::wait() {
  requested_at_ = fiber::now();
  if (place_.room != nullptr) ROTA_TRY(take_room());
  Result<AttemptResult> result = run_when_possible();
  if (place_.room != nullptr) place_.room->release();
  if (result.ok() || result.code() == ErrorCode::kCancelled) return result;
  // It could not start. A program that was terminated while it stood by has no times: it never tried.
  AttemptResult failed;
  failed.outcome.message = result.error().message;
  if (result.code() != ErrorCode::kFailedPrecondition) {
    const nanoseconds now = fiber::now();
    failed.outcome.started_ns = request_.clock.at(request_.stand_by ? now : requested_at_);
    failed.outcome.ended_ns = request_.clock.at(now);
  }
  return failed;
}

// Removes only files that may exist: most tasks have none of them.
void ProgramRun::remove_files(bool result_file) const {
  if (result_file) ::unlink(path_of(kResultSuffix).c_str());
  if (request_.spec.inputs.size() > kVariableMost) ::unlink(path_of(kInputsSuffix).c_str());
  if (request_.spec.checkpoint.size() > kVariableMost) ::unlink(path_of(kCheckpointSuffix).c_str());
}

void ProgramRun::terminate() {
  const std::lock_guard lock(mutex_);
  terminate_requested_ = true;
  started_.set();
  if (process_ != nullptr) process_->terminate(grace_);
}

void ProgramRun::pause() {
  const std::lock_guard lock(mutex_);
  paused_ = true;
  if (process_ != nullptr) process_->pause();
}

void ProgramRun::resume() {
  const std::lock_guard lock(mutex_);
  paused_ = false;
  if (process_ != nullptr) process_->resume();
}

void ProgramRun::go() {
  const std::lock_guard lock(mutex_);
  go_requested_ = true;
  started_.set();
  if (process_ != nullptr) process_->go();
}

}  // namespace rota::worker

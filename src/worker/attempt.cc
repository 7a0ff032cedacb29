#include "worker/attempt.h"

#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "rota/fiber/blocking.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::worker {

using model::AttemptAction;
using model::AttemptEnd;
using model::AttemptOutcome;

// ------------------------------------------------------------------------------------------------------- any attempt

const std::string& Attempt::refusal() const {
  static const std::string none;
  return none;
}

std::int64_t Attempt::wall_ns() const { return host_.clock().at(fiber::now()); }

AttemptOutcome Attempt::stopped_before_start() const {
  AttemptOutcome outcome;
  outcome.end = stop_reason() == StopReason::kPreempted ? AttemptEnd::kPreempted : AttemptEnd::kCancelled;
  outcome.message = "before it started";
  return outcome;
}

AttemptResult Attempt::run() {
  if (stop_reason() != StopReason::kNone) return {.outcome = stopped_before_start()};
  AttemptResult result = uses_files() ? run_with_files() : assign_.spec.cache ? run_or_reuse() : run_spec();
  // An attempt that succeeded although it was told to stop has succeeded.
  AttemptOutcome& outcome = result.outcome;
  if (outcome.end == AttemptEnd::kFailed && stop_reason() != StopReason::kNone) {
    outcome.end = stop_reason() == StopReason::kPreempted ? AttemptEnd::kPreempted : AttemptEnd::kCancelled;
  }
  return result;
}

std::function<bool()> Attempt::stopped() const {
  return [this, token = fiber::current_token()] { return stop_reason() != StopReason::kNone || token.is_cancelled(); };
}

AttemptResult Attempt::run_with_files() {
  TaskFiles* const files = host_.files();
  AttemptResult result;
  AttemptOutcome& outcome = result.outcome;
  const auto failed = [&](const Error& error) {
    if (error.code == ErrorCode::kCancelled && fiber::is_cancelled()) {
      throw fiber::Cancelled(fiber::CancelReason::kParent);
    }
    outcome.end = AttemptEnd::kFailed;
    outcome.result.clear();
    outcome.message = error.message;
    // Until somebody makes room, another attempt would run in vain.
    outcome.final = error.code == ErrorCode::kNoSpace;
  };
  if (files == nullptr) {
    failed(
        {ErrorCode::kUnsupported,
         "the stage has outputs or fetch, and this worker has no store for files; join the fleet with --host, or give "
         "the worker a folder that all machines share with --files DIR"});
    return result;
  }
  const model::FilesSpec spec = *assign_.spec.files;
  const std::string directory =
      spec.directory.empty() && assign_.spec.program ? assign_.spec.program->directory : spec.directory;
  if (const Result<void> fetched = files->fetch(assign_.files, directory, stopped()); !fetched.ok()) {
    failed(fetched.error());
    return result;
  }
  for (const model::StoredFile& file : assign_.files) host_.note_cached(TaskFiles::item_of(file));
  result = assign_.spec.cache ? run_or_reuse() : run_spec();
  if (outcome.end != AttemptEnd::kSucceeded || spec.outputs.empty()) return result;
  Result<std::vector<model::StoredFile>> stored = files->store(spec.outputs, directory, stopped());
  if (stored.ok()) {
    for (const model::StoredFile& file : *stored) host_.note_cached(TaskFiles::item_of(file));
    outcome.outputs = std::move(*stored);
  } else {
    failed(stored.error());
  }
  return result;
}

AttemptResult Attempt::run_or_reuse() {
  ResultCache* const cache = host_.cache();
  const std::int64_t asked_ns = wall_ns();
  std::optional<CacheCheck> check;
  CacheCheck::Verdict verdict{.note = "runs: this worker keeps no results"};
  const std::function<bool()> stop = stopped();
  if (!assign_.merged.empty()) {
    verdict.note = "runs: it was merged with other tasks";
  } else if (cache != nullptr) {
    check.emplace(*cache, assign_.identity, assign_.spec, assign_.files);
    Result<CacheCheck::Verdict> asked = fiber::blocking([&] { return check->begin(stop); });
    if (!asked.ok() && asked.code() == ErrorCode::kCancelled) throw fiber::Cancelled(fiber::CancelReason::kParent);
    verdict = asked.ok()
                  ? std::move(*asked)
                  : CacheCheck::Verdict{.note = "runs: earlier results cannot be read: " + asked.error().message};
    if (!asked.ok()) check.reset();
  }
  AttemptResult result;
  AttemptOutcome& outcome = result.outcome;
  if (stop_reason() != StopReason::kNone) {
    outcome = stopped_before_start();
  } else if (verdict.hit) {
    outcome.end = AttemptEnd::kSucceeded;
    outcome.result = std::move(verdict.result);
    outcome.reused = true;
    outcome.started_ns = asked_ns;
    outcome.ended_ns = wall_ns();
  } else {
    report(model::LogLine{verdict.note});
    result = run_spec();
  }
  outcome.cache_note = std::move(verdict.note);
  if (outcome.end == AttemptEnd::kSucceeded && !outcome.reused && check) {
    // If the attempt is told to stop now, it has still succeeded, but its files are not read to their end.
    const Result<std::string> not_kept = fiber::blocking([&] { return check->end(outcome.result, stop); });
    const std::string why = not_kept.ok() ? *not_kept : "not kept: " + not_kept.error().message;
    if (!why.empty()) {
      report(model::LogLine{why});
      outcome.cache_note += "; " + why;
    }
  }
  return result;
}

bool Attempt::take_in_order(const model::ControlAttempt& control) {
  if (control.term == control_term_ && control.decided_in < control_decided_in_) return false;
  control_term_ = control.term;
  control_decided_in_ = control.decided_in;
  return true;
}

void Attempt::control(AttemptAction action) {
  if (action == AttemptAction::kCancel || action == AttemptAction::kPreempt) {
    // A preemption may become a cancellation, but a cancellation stays one.
    StopReason expected = StopReason::kNone;
    const bool cancel = action == AttemptAction::kCancel;
    if (!stop_.compare_exchange_strong(expected, cancel ? StopReason::kCancelled : StopReason::kPreempted) && cancel) {
      stop_.store(StopReason::kCancelled, std::memory_order_release);
    }
  }
  do_control(action);
}

void Attempt::report(model::ReportBody body) const {
  host_.report({.id = id(), .term = term(), .body = std::move(body), .assigned_ns = assign_.assigned_ns});
}

std::string Attempt::merged_inputs() const {
  std::string text = "[";
  for (const model::MergedTask& member : assign_.merged) {
    if (text.size() > 1) text += ',';
    text += member.inputs.empty() ? "null" : member.inputs;
  }
  return text + "]";
}

AttemptResult KeptAttempt::run_spec() {
  AttemptResult result;
  AttemptOutcome& outcome = result.outcome;
  outcome.end = AttemptEnd::kSucceeded;
  outcome.result = std::move(kept_.result);
  outcome.cache_note = std::move(kept_.note);
  outcome.outputs = std::move(kept_.outputs);
  outcome.reused = true;
  outcome.started_ns = outcome.ended_ns = wall_ns();
  return result;
}

// ---------------------------------------------------------------------------------------------------------- programs

namespace {

// The executor compares processors and memory only. A kept result is looked up, and files are fetched, when the task's
// turn has come.
bool may_stand_by(const model::Assign& assign, const Executor& executor) {
  const model::ResourceUse& use = assign.resources;
  return executor.has_stand_by() && use.gpus == 0 && use.devices == 0 && use.named.empty() && !assign.spec.cache &&
         !assign.spec.files;
}

}  // namespace

ProgramAttempt::ProgramAttempt(AttemptHost& host, model::Assign assign, Executor& executor)
    : Attempt(host, std::move(assign)), executor_(executor), can_stand_by_(may_stand_by(assign_, executor)) {}

AttemptResult ProgramAttempt::run_spec() {
  ProgramRequest request{.id = assign_.id,
                         .spec = std::move(assign_.spec),
                         .resources = assign_.resources,
                         .stand_by = stand_by_,
                         .clock = host_.clock()};
  if (!assign_.merged.empty()) request.spec.inputs = merged_inputs();
  ProgramHandle* program = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ProgramEvents& events = *this;
    program_ = executor_.start(std::move(request), events);
    program = program_.get();
    if (paused_) program->pause();
    if (go_requested_) program->go();
    if (stop_reason() != StopReason::kNone) program->terminate();
  }
  Result<AttemptResult> ended = program->wait();
  if (!ended.ok()) {
    if (ended.code() == ErrorCode::kCancelled) throw fiber::Cancelled(fiber::CancelReason::kParent);
    AttemptResult failed;
    failed.outcome.message = ended.error().message;
    return failed;
  }
  return std::move(*ended);
}

void ProgramAttempt::go() {
  const std::lock_guard lock(mutex_);
  go_requested_ = true;
  if (program_ != nullptr) program_->go();
}

void ProgramAttempt::do_control(AttemptAction action) {
  const std::lock_guard lock(mutex_);
  if (action == AttemptAction::kPause || action == AttemptAction::kResume) paused_ = action == AttemptAction::kPause;
  if (program_ == nullptr) return;
  if (action == AttemptAction::kPause) {
    program_->pause();
  } else if (action == AttemptAction::kResume) {
    program_->resume();
  } else {
    program_->terminate();
  }
}

void ProgramAttempt::on_progress(std::uint32_t permille, const std::string& message) {
  report(model::Progress{permille, message});
}
void ProgramAttempt::on_checkpoint(const std::string& json) { report(model::Checkpoint{json}); }
void ProgramAttempt::on_log(const std::string& text) { report(model::LogLine{text}); }
void ProgramAttempt::on_cached(const std::string& item) { report(model::Cached{item}); }
void ProgramAttempt::on_output(bool from_stderr, std::string bytes, std::uint64_t dropped_bytes) {
  if (dropped_bytes > 0) {
    bytes.insert(0, "\n[rota: " + std::to_string(dropped_bytes) + " bytes of output were not kept]\n");
  }
  const std::uint64_t position = std::exchange(sent_bytes_, sent_bytes_ + bytes.size());
  report(model::Output{from_stderr, std::move(bytes), dropped_bytes, position});
}

}  // namespace rota::worker

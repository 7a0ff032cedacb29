#include "worker/attempt.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "base/units.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/time.h"

namespace rota::worker {

using bus::Report;
using bus::ReportKind;
using bus::StopKind;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// ------------------------------------------------------------------------------------------------------- any attempt

AttemptEnd Attempt::run() {
  const auto stopped = [this](std::string text) {
    const bool preempted = stop_reason() == StopReason::kPreempted;
    return AttemptEnd{.kind = preempted ? ReportKind::kPreempted : ReportKind::kCancelled, .text = std::move(text)};
  };
  if (stop_reason() != StopReason::kNone) return stopped("before it began");
  Result<TaskSpec> spec = parse_task_spec(assign_.spec);
  if (!spec.ok()) return {.text = std::move(spec).take_error().in("the task's specification").message};
  AttemptEnd end = run_or_reuse(std::move(*spec));
  // What succeeded although it was told to end has succeeded.
  if (end.kind == ReportKind::kFailed && stop_reason() != StopReason::kNone) {
    end.kind = stopped("").kind;
  }
  return end;
}

AttemptEnd Attempt::run_or_reuse(TaskSpec spec) {
  if (!spec.cache) return run_spec(std::move(spec));
  ResultCache* const cache = host_.cache();
  std::optional<CacheCheck> check;
  CacheCheck::Verdict verdict{.note = "runs: this worker keeps no results"};
  // It is asked on a helper's thread; both are one atomic's value.
  const std::function<bool()> stopped = [this, token = fiber::current_token()] {
    return stop_reason() != StopReason::kNone || token.is_cancelled();
  };
  if (!assign_.children.empty()) {
    verdict.note = "runs: it was merged with others";
  } else if (cache != nullptr) {
    check.emplace(*cache, assign_, spec);
    Result<CacheCheck::Verdict> asked = fiber::blocking([&] { return check->begin(stopped); });
    if (!asked.ok() && asked.code() == ErrorCode::kCancelled) throw fiber::Cancelled(fiber::CancelReason::kParent);
    verdict = asked.ok()
                  ? std::move(*asked)
                  : CacheCheck::Verdict{.note = "runs: earlier results cannot be looked at: " + asked.error().message};
    if (!asked.ok()) check.reset();
  }
  if (stop_reason() != StopReason::kNone) return {.text = "before it began"};
  if (verdict.hit) {
    return {.kind = ReportKind::kSucceeded,
            .json = std::move(verdict.result),
            .cached = true,
            .note = std::move(verdict.note)};
  }
  report({.kind = ReportKind::kLog, .text = verdict.note});
  AttemptEnd end = run_spec(std::move(spec));
  end.note = std::move(verdict.note);
  if (end.kind == ReportKind::kSucceeded && check) {
    // Told to stop after it succeeded, it has succeeded; only that nobody waits for the files to be read.
    const Result<std::string> not_kept = fiber::blocking([&] { return check->end(end.json, stopped); });
    const std::string why = not_kept.ok() ? *not_kept : "not kept: " + not_kept.error().message;
    if (!why.empty()) {
      report({.kind = ReportKind::kLog, .text = why});
      end.note += "; " + why;
    }
  }
  return end;
}

void Attempt::stop(StopKind kind) {
  if (kind == StopKind::kCancel || kind == StopKind::kPreempt) {
    // A preemption may become a cancellation, not the other way round.
    StopReason expected = StopReason::kNone;
    const bool cancel = kind == StopKind::kCancel;
    if (!stop_.compare_exchange_strong(expected, cancel ? StopReason::kCancelled : StopReason::kPreempted) && cancel) {
      stop_.store(StopReason::kCancelled, std::memory_order_release);
    }
  }
  do_stop(kind);
}

void Attempt::report(Report report) const {
  report.task = assign_.task;
  report.attempt = assign_.attempt;
  report.term = term();
  host_.report(std::move(report));
}

std::string Attempt::merged_inputs() const {
  std::string text = "[";
  for (const bus::ChildTask& child : assign_.children) {
    if (text.size() > 1) text += ',';
    text += child.inputs.empty() ? "null" : child.inputs;
  }
  return text + "]";
}

// ---------------------------------------------------------------------------------------------------------- commands

CommandAttempt::CommandAttempt(AttemptHost& host, bus::Assign assign, Guard& guard, const CommandPlace& place,
                               std::uint32_t gpus)
    : Attempt(host, std::move(assign)), guard_(guard), place_(place), gpus_(gpus) {}

AttemptEnd CommandAttempt::run_spec(TaskSpec spec) {
  const milliseconds grace = spec.grace_ms ? milliseconds(*spec.grace_ms) : place_.grace;
  CommandRequest request{.task = assign_.task,
                         .attempt = assign_.attempt,
                         .spec = std::move(spec),
                         .cpu_millis = assign_.cpu_millis,
                         .memory_bytes = assign_.memory_bytes,
                         .stand_by = stand_by_};
  if (!assign_.children.empty()) request.spec.inputs = merged_inputs();
  if (gpus_ != 0) {
    // Also when it gets none: then it shall see none.
    std::string devices;
    for (std::uint32_t i = 0; i < 64; ++i) {
      if ((assign_.gpu_mask >> i & 1) != 0) devices += (devices.empty() ? "" : ",") + std::to_string(i);
    }
    request.variables.emplace_back("CUDA_VISIBLE_DEVICES", std::move(devices));
  }
  CommandRun* run = nullptr;
  {
    const std::lock_guard lock(mutex_);
    CommandEvents& events = *this;
    run_ = std::make_unique<CommandRun>(guard_, place_, std::move(request), events);
    grace_ = grace;
    run = run_.get();
    if (paused_) run->pause();
    if (gone_) run->go();
    if (stop_reason() != StopReason::kNone) run->terminate(grace);
  }
  Result<CommandEnd> ended = run->run();
  if (!ended.ok()) {
    if (ended.code() == ErrorCode::kCancelled) throw fiber::Cancelled(fiber::CancelReason::kParent);
    return {.text = ended.error().message};
  }
  AttemptEnd end;
  end.kind = ended->success ? ReportKind::kSucceeded : ReportKind::kFailed;
  if (ended->outcome.kind == Outcome::Kind::kTimedOut) end.cause = bus::FailureCause::kTimeout;
  if (ended->outcome.kind == Outcome::Kind::kOutOfMemory) end.cause = bus::FailureCause::kMemory;
  end.text = std::move(ended->message);
  if (ended->success) end.json = std::move(ended->result);
  end.log_path = std::move(ended->log_path);
  end.cpu_us = static_cast<std::uint64_t>((ended->outcome.user_time + ended->outcome.system_time).count());
  end.max_rss_bytes = ended->outcome.max_rss_bytes;
  end.next = ended->outcome.next;
  return end;
}

void CommandAttempt::go() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  if (run_ != nullptr) run_->go();
}

void CommandAttempt::do_stop(StopKind kind) {
  const std::lock_guard lock(mutex_);
  if (kind == StopKind::kPause || kind == StopKind::kResume) paused_ = kind == StopKind::kPause;
  if (run_ == nullptr) return;
  if (kind == StopKind::kPause) {
    run_->pause();
  } else if (kind == StopKind::kResume) {
    run_->resume();
  } else {
    run_->terminate(grace_);
  }
}

void CommandAttempt::on_progress(std::uint32_t permille, const std::string& message) {
  report({.kind = ReportKind::kProgress, .permille = permille, .text = message});
}
void CommandAttempt::on_checkpoint(const std::string& json) { report({.kind = ReportKind::kCheckpoint, .json = json}); }
void CommandAttempt::on_log(const std::string& text) { report({.kind = ReportKind::kLog, .text = text}); }
void CommandAttempt::on_cache(const std::string& kind, const std::string& name) {
  report({.kind = ReportKind::kCache, .text = kind, .json = name});
}

void CommandAttempt::on_output(bool from_stderr, std::string bytes, std::uint64_t dropped_bytes) {
  report({.kind = ReportKind::kOutput,
          .text = std::move(bytes),
          .from_stderr = from_stderr,
          .dropped_bytes = dropped_bytes});
}

// ---------------------------------------------------------------------------------------------------------- handlers

HandlerAttempt::HandlerAttempt(AttemptHost& host, bus::Assign assign, const TaskHandler& handler)
    : Attempt(host, std::move(assign)), handler_(handler) {}
HandlerAttempt::~HandlerAttempt() = default;

std::shared_ptr<fiber::Task<void>> HandlerAttempt::task() {
  const sync::MutexLock lock(task_mutex_);
  return task_;
}

AttemptEnd HandlerAttempt::run_spec(TaskSpec spec) {
  inputs_ = std::move(spec.inputs);
  last_checkpoint_ = std::move(spec.checkpoint);
  for (const bus::ChildTask& child : assign_.children) merged_.push_back(child.inputs);
  if (!merged_.empty()) inputs_ = merged_inputs();
  AttemptEnd end;
  // Nothing escapes from the task: a failure of the handler is a value here, not the nursery's.
  const auto body = [this, &end] {
    token_ = fiber::current_token();
    try {
      TaskContext context(this);
      pause_point();
      end.json = handler_(context);
      end.kind = ReportKind::kSucceeded;
      if (Result<void> valid = check_json(end.json); !valid.ok()) {
        end = {.text = std::move(valid).take_error().in("the handler's result").message};
      }
    } catch (const fiber::Cancelled& error) {
      end = {.text = error.what()};
    } catch (const std::exception& error) {
      end = {.text = error.what()};
    } catch (...) {
      end = {.text = "the handler threw something that is no std::exception"};
    }
  };
  bool late = false;
  fiber::with_scope([&](fiber::Nursery& nursery) {
    const auto running = std::make_shared<fiber::Task<void>>(nursery.spawn(body));
    {
      const sync::MutexLock lock(task_mutex_);
      task_ = running;
    }
    // Said before there was a task to be cancelled. Said after: do_stop() finds the task.
    if (stop_reason() != StopReason::kNone) running->cancel();
    if (spec.timeout_ms && *spec.timeout_ms != 0 && !running->wait_for(milliseconds(*spec.timeout_ms))) {
      late = true;
      running->cancel();
      going_.set();
    }
    running->wait();
  });
  {
    const sync::MutexLock lock(task_mutex_);
    task_.reset();
  }
  if (fiber::is_cancelled()) throw fiber::Cancelled(fiber::CancelReason::kParent);
  if (late && end.kind != ReportKind::kSucceeded) {
    end.text = "ran longer than its limit of " + format_duration(milliseconds(*spec.timeout_ms));
  }
  Report progress;
  {
    const sync::MutexLock lock(progress_mutex_);
    if (std::exchange(progress_waits_, false)) progress = std::move(progress_);
  }
  if (progress.kind == ReportKind::kProgress) report(std::move(progress));
  return end;
}

void HandlerAttempt::do_stop(StopKind kind) {
  if (kind == StopKind::kPause) {
    if (stop_reason() == StopReason::kNone) going_.reset();
    return;
  }
  going_.set();
  if (kind == StopKind::kResume) return;
  // Not under the lock: cancelling calls what others have put on the token.
  if (const std::shared_ptr<fiber::Task<void>> running = task()) running->cancel();
}

void HandlerAttempt::pause_point() { going_.wait(); }

}  // namespace rota::worker

// ---------------------------------------------------------------------------------------------- what the handler sees

namespace rota {

using bus::Report;
using bus::ReportKind;

std::uint64_t TaskContext::task() const { return attempt_->assign().task; }
std::uint32_t TaskContext::attempt() const { return attempt_->assign().attempt; }
const std::string& TaskContext::inputs() const { return attempt_->inputs_; }
const std::vector<std::string>& TaskContext::merged_inputs() const { return attempt_->merged_; }
const std::string& TaskContext::last_checkpoint() const { return attempt_->last_checkpoint_; }
fiber::CancelToken TaskContext::cancel_token() const {
  fiber::CancelToken token = attempt_->token_;
  // A task that is cancelled may be awake before its token knows of it; whoever asks after that shall not be told no.
  if (attempt_->stop_reason() != StopReason::kNone || fiber::is_cancelled()) (void)token.cancel();
  return token;
}
StopReason TaskContext::stop_reason() const { return attempt_->stop_reason(); }

void TaskContext::progress(double percent, std::string_view message) {
  attempt_->pause_point();
  const double bounded = std::isnan(percent) ? 0.0 : std::clamp(percent, 0.0, 100.0);
  Report report{.kind = ReportKind::kProgress,
                .permille = static_cast<std::uint32_t>(std::lround(bounded * 10)),
                .text = std::string(message)};
  {
    const sync::MutexLock lock(attempt_->progress_mutex_);
    const std::chrono::nanoseconds now = fiber::now();
    const bool soon =
        attempt_->progress_at_.count() >= 0 && now < attempt_->progress_at_ + worker::CommandRun::kProgressEvery;
    attempt_->progress_waits_ = soon;
    if (soon) {
      attempt_->progress_ = std::move(report);
      return;
    }
    attempt_->progress_at_ = now;
  }
  attempt_->report(std::move(report));
}

void TaskContext::checkpoint(std::string_view json) {
  attempt_->pause_point();
  if (Result<void> valid = worker::check_json(json); !valid.ok()) {
    throw fiber::FiberError(std::move(valid).take_error().in("a checkpoint"));
  }
  attempt_->report({.kind = ReportKind::kCheckpoint, .json = std::string(json)});
}

void TaskContext::log(std::string_view text) {
  attempt_->pause_point();
  attempt_->report({.kind = ReportKind::kLog, .text = std::string(text)});
}

void TaskContext::cache(std::string_view kind, std::string_view name) {
  attempt_->pause_point();
  attempt_->report({.kind = ReportKind::kCache, .text = std::string(kind), .json = std::string(name)});
}

}  // namespace rota

#include "worker/handler_attempt.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include "base/units.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/time.h"
#include "worker/task_check.h"

namespace rota::worker {

using model::AttemptAction;
using model::AttemptEnd;
using model::AttemptOutcome;
using std::chrono::milliseconds;

HandlerAttempt::HandlerAttempt(AttemptHost& host, model::Assign assign, const TaskHandler& handler)
    : Attempt(host, std::move(assign)), handler_(handler) {}
HandlerAttempt::~HandlerAttempt() = default;

std::shared_ptr<fiber::Task<void>> HandlerAttempt::task() {
  const sync::MutexLock lock(task_mutex_);
  return task_;
}

void HandlerAttempt::call(AttemptOutcome* outcome) {
  token_ = fiber::current_token();
  try {
    TaskContext context(this);
    pause_point();
    outcome->started_ns = wall_ns();
    outcome->result = handler_(context);
    if (Result<void> valid = check_json(outcome->result); valid.ok()) {
      outcome->end = AttemptEnd::kSucceeded;
    } else {
      outcome->message = std::move(valid).take_error().in("the handler's result").message;
    }
  } catch (const std::exception& error) {  // Cancelled is one, too.
    outcome->message = error.what();
  } catch (...) {
    outcome->message = "the handler threw an object that is not a std::exception";
  }
  if (outcome->end != AttemptEnd::kSucceeded) outcome->result.clear();
  if (outcome->started_ns != 0) outcome->ended_ns = wall_ns();
}

AttemptResult HandlerAttempt::run_spec() {
  for (const model::MergedTask& member : assign_.merged) merged_.push_back(member.inputs);
  if (!merged_.empty()) assign_.spec.inputs = merged_inputs();
  const std::int64_t timeout_ms = assign_.spec.timeout_ms;
  AttemptResult result;
  AttemptOutcome& outcome = result.outcome;
  bool late = false;
  fiber::with_scope([&](fiber::Nursery& nursery) {
    const auto running = std::make_shared<fiber::Task<void>>(nursery.spawn([&] { call(&outcome); }));
    {
      const sync::MutexLock lock(task_mutex_);
      task_ = running;
    }
    // A stop that came before there was a task to cancel. Later ones find the task in do_control().
    if (stop_reason() != StopReason::kNone) running->cancel();
    if (timeout_ms != 0 && !running->wait_for(milliseconds(timeout_ms))) {
      late = true;
      running->cancel();
      unpaused_.set();
    }
    running->wait();
  });
  {
    const sync::MutexLock lock(task_mutex_);
    task_.reset();
  }
  if (fiber::is_cancelled()) throw fiber::Cancelled(fiber::CancelReason::kParent);
  if (late && outcome.end != AttemptEnd::kSucceeded) {
    outcome.failure = model::FailureKind::kTimeout;
    outcome.message = "ran longer than its limit of " + format_duration(milliseconds(timeout_ms));
  }
  send_kept_progress();
  return result;
}

void HandlerAttempt::do_control(AttemptAction action) {
  if (action == AttemptAction::kPause) {
    if (stop_reason() == StopReason::kNone) unpaused_.reset();
    return;
  }
  unpaused_.set();
  if (action == AttemptAction::kResume) return;
  // Not under the lock: cancelling calls functions that others have registered with the token.
  if (const std::shared_ptr<fiber::Task<void>> running = task()) running->cancel();
}

void HandlerAttempt::pause_point() { unpaused_.wait(); }

void HandlerAttempt::send_progress(model::Progress progress) {
  {
    const sync::MutexLock lock(progress_mutex_);
    const std::chrono::nanoseconds now = fiber::now();
    progress_kept_ = progress_at_.count() >= 0 && now < progress_at_ + Executor::kProgressEvery;
    if (progress_kept_) {
      progress_ = std::move(progress);
      return;
    }
    progress_at_ = now;
  }
  report(std::move(progress));
}

void HandlerAttempt::send_kept_progress() {
  model::Progress progress;
  {
    const sync::MutexLock lock(progress_mutex_);
    if (!std::exchange(progress_kept_, false)) return;
    progress = std::move(progress_);
  }
  report(std::move(progress));
}

}  // namespace rota::worker

// ------------------------------------------------------------------------------------------------ the handler's view

namespace rota {

model::TaskId TaskContext::task() const { return attempt_->id().task; }
model::AttemptNumber TaskContext::attempt() const { return attempt_->id().attempt; }
const std::string& TaskContext::inputs() const { return attempt_->assign_.spec.inputs; }
const std::vector<std::string>& TaskContext::merged_inputs() const { return attempt_->merged_; }
const std::string& TaskContext::last_checkpoint() const { return attempt_->assign_.spec.checkpoint; }
const std::vector<model::StoredFile>& TaskContext::fetched_files() const { return attempt_->assign_.files; }
fiber::CancelToken TaskContext::cancel_token() const {
  fiber::CancelToken token = attempt_->token_;
  // A cancelled task may wake up before its token is cancelled; a caller that asks after that must see it cancelled.
  if (attempt_->stop_reason() != StopReason::kNone || fiber::is_cancelled()) (void)token.cancel();
  return token;
}
StopReason TaskContext::stop_reason() const { return attempt_->stop_reason(); }

void TaskContext::progress(double percent, std::string_view message) {
  attempt_->pause_point();
  const double bounded = std::isnan(percent) ? 0.0 : std::clamp(percent, 0.0, 100.0);
  attempt_->send_progress({static_cast<std::uint32_t>(std::lround(bounded * 10)), std::string(message)});
}

void TaskContext::checkpoint(std::string_view json) {
  attempt_->pause_point();
  if (Result<void> valid = worker::check_json(json); !valid.ok()) {
    throw fiber::FiberError(std::move(valid).take_error().in("a checkpoint"));
  }
  attempt_->report(model::Checkpoint{std::string(json)});
}

void TaskContext::log(std::string_view text) {
  attempt_->pause_point();
  attempt_->report(model::LogLine{std::string(text)});
}

void TaskContext::cache(std::string_view kind, std::string_view name) {
  attempt_->pause_point();
  attempt_->report(model::Cached{std::string(kind) + ":" + std::string(name)});
}

}  // namespace rota

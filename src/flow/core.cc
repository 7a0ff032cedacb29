#include "flow/core.h"

#include <algorithm>
#include <exception>

#include "rota/assert.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::flow::detail {

Executor::~Executor() = default;

Core::Core(const SchedulerConfig& config, std::uint64_t max_running, std::shared_ptr<ILogger> logger)
    : config_(config),
      max_running_(max_running),
      logger_(logger != nullptr ? std::move(logger) : default_logger()),
      roster_({.budget = config.budget, .aging = config.aging, .pause = config.pause}),
      slices_(config.trace_slices) {}

namespace {
constexpr const char* kWaitsFor = "a task of a scheduler";
}  // namespace

// ------------------------------------------------------------------------------------------------- collect and perform
void Core::note_end(Entry& e, Effects& effects) {
  for (const std::shared_ptr<EndWaiter>& waiter : e.waiters) {
    if (roster_.state(e.ref) != TaskState::kSucceeded) waiter->error = e.error;
    effects.batons.emplace_back(waiter, &waiter->baton);
  }
  e.waiters.clear();
  if (e.descriptor.keep) return;
  e.end = next_end_++;
  ended_ += 1;
  ends_.push_back({e.ref, e.end});
}

namespace {
void open_pause(Entry& e, const std::optional<TaskError>& outcome, std::vector<std::shared_ptr<fiber::Baton>>& batons) {
  for (const std::shared_ptr<PauseWaiter>& waiter : e.pause_waiters) {
    waiter->outcome = outcome;
    batons.emplace_back(waiter, &waiter->baton);
  }
  e.pause_waiters.clear();
}
}  // namespace

void Core::note_changes(Moment now, Effects& effects) {
  for (const graph::Change& change : roster_.changes()) {
    Entry& e = entry(change.task);
    if (graph::is_terminal(change.from)) not_ended(e);
    if (change.from == TaskState::kReady) e.queue_wait_ns += now.ns - e.ready_since.ns;
    if (change.from == TaskState::kRunning) {
      e.run_ns += now.ns - e.running_since.ns;
      if (e.slice_from) {
        slices_.add(slice_of(e, change.to, now));
        e.slice_from.reset();
      }
    }
    switch (change.to) {
      case TaskState::kReady:
        e.ready = e.ready_since = now;
        break;
      case TaskState::kRunning:
        e.running_since = now;
        break;
      case TaskState::kPaused:
        open_pause(e, std::nullopt, effects.batons);
        break;
      case TaskState::kSucceeded:
      case TaskState::kFailed:
      case TaskState::kCancelled:
        e.ended = now;
        if (change.to == TaskState::kCancelled) e.error = cancel_error(e);
        open_pause(e,
                   change.to == TaskState::kCancelled
                       ? e.error
                       : TaskError{ErrorCode::kFailedPrecondition,
                                   "'" + e.descriptor.task_id + "' ended before it reached a checkpoint"},
                   effects.batons);
        // Not for a failure that is retried at once: its task is not terminal when the changes are read.
        if (graph::is_terminal(roster_.state(change.task))) note_end(e, effects);
        break;
      default:
        break;
    }
    if (observer_) {
      events_.push_back({{.task_id = e.descriptor.task_id,
                          .from = change.from,
                          .to = change.to,
                          .ends = graph::is_terminal(change.to) && graph::is_terminal(roster_.state(change.task)),
                          .progress = e.progress,
                          .at = std::chrono::nanoseconds(now.ns)},
                         entries_[change.task.value() - 1]});
    }
  }
  for (const TaskRef ref : roster_.stops()) {
    Entry& e = entry(ref);
    e.attention.store(true, std::memory_order_relaxed);  // A reader that sees it takes the lock.
    e.told_to_stop = true;
    e.stoppers += 1;
    effects.stops.push_back({entries_[ref.value() - 1], e.scope, e.token});
    if (e.parked != nullptr) effects.batons.push_back(std::exchange(e.parked, nullptr));
    const TaskError why = cancel_error(e);
    if (roster_.cause(ref) == graph::CancelCause::kPauseTimeout) effects.warnings.push_back(why.message);
    open_pause(e, why, effects.batons);
  }
  roster_.clear_effects();
}

void Core::collect(Moment now, Effects& effects) {
  roster_.advance(now);  // Every caller checks the clock, because in a pool that is always busy nobody else does.
  note_changes(now, effects);
  while (roster_.order().held().tasks < max_running_) {
    const Roster::Picked picked = roster_.pick(now);
    if (!picked) break;
    Entry& e = entry(picked.task);
    note_changes(now, effects);
    if (picked.resumes) {
      effects.batons.push_back(std::exchange(e.parked, nullptr));
    } else {
      e.started = now;
      effects.starts.push_back(&e);
    }
  }
  if (roster_.live() == 0) {
    std::move(idle_waiters_.begin(), idle_waiters_.end(), std::back_inserter(effects.batons));
    idle_waiters_.clear();
  }
  if (const Moment due = roster_.next_due(); due != Moment::never() && (armed_.empty() || due < *armed_.begin())) {
    effects.wake = due;
    armed_.insert(due);
  }
  if (config_.max_ended_tasks > 0) forget_oldest(config_.max_ended_tasks, effects);
  remove_forgotten(effects);  // Last: tasks have other numbers afterwards.
}

void Core::perform(Effects& effects) {
  if (effects.wake != Moment::never()) executor_->wake_at(effects.wake);
  for (Entry* e : effects.starts) executor_->start(*e);
  for (Stop& stop : effects.stops) {
    if (stop.token) stop.token->cancel();
    if (stop.scope != nullptr) stop.scope->cancel();
    std::shared_ptr<fiber::Baton> last;
    {
      sync::MutexLock lock(mutex_);
      if (--stop.entry->stoppers == 0) last = std::exchange(stop.entry->stopped, nullptr);
    }
    if (last != nullptr) last->post();
  }
  for (const std::shared_ptr<fiber::Baton>& baton : effects.batons) baton->post();
  for (const std::string& warning : effects.warnings) log(ILogger::Level::kWarning, warning);
  if (observer_) deliver();
}

void Core::log(ILogger::Level level, std::string_view message) const {
  try {
    logger_->log(level, message);
  } catch (...) {  // The caller cannot do anything about a broken logger.
  }
}

namespace {
std::string observer_threw(const TaskEvent& event, std::string_view what) {
  std::string text = "an observer threw at an event of task '";
  return text.append(event.task_id).append("': ").append(what);
}
}  // namespace

void Core::deliver() {
  std::deque<QueuedEvent> batch;
  std::vector<std::shared_ptr<fiber::Baton>> flushed;
  for (bool first = true;; first = false) {
    {
      sync::MutexLock lock(mutex_);
      if (first && delivering_) return;  // The thread that delivers takes these events as well.
      delivering_ = !events_.empty();
      batch = std::exchange(events_, {});
      if (!delivering_) flushed = std::exchange(flush_waiters_, {});
    }
    for (const auto& [event, keep] : batch) {
      try {
        observer_(event);
      } catch (const std::exception& error) {  // The next event is delivered anyway.
        log(ILogger::Level::kError, observer_threw(event, error.what()));
      } catch (...) {
        log(ILogger::Level::kError, observer_threw(event, "an object that is not a std::exception"));
      }
    }
    if (batch.empty()) break;
  }
  for (const std::shared_ptr<fiber::Baton>& baton : flushed) baton->post();
}

void Core::flush_events() {
  deliver();
  std::shared_ptr<fiber::Baton> baton;
  {
    sync::MutexLock lock(mutex_);
    if (!delivering_) return;
    baton = flush_waiters_.emplace_back(std::make_shared<fiber::Baton>());
  }
  if (!baton->wait("the observer")) throw fiber::Cancelled(fiber::CancelReason::kParent);
}

// ------------------------------------------------------------------------------------------------------------ commands
Result<TaskRef> Core::find(std::string_view id) const {
  const TaskRef ref = roster_.dag().find(id);
  if (ref.is_none()) {
    return Error{ErrorCode::kNotFound, "there is no task '" + std::string(id) + "'" +
                                           (forgotten_ > 0 ? "; it may have ended and been forgotten" : "")}
        .with("task", std::string(id));
  }
  return ref;
}

Result<void> Core::submit_all(std::vector<IScheduler::Submission> tasks) {
  for (const auto& [descriptor, stage] : tasks) {
    if (!stage) {
      return Error{ErrorCode::kInvalidArgument, "task '" + descriptor.task_id + "' has no stage to run"}.with(
          "task", descriptor.task_id);
    }
  }
  std::vector<graph::TaskSpec> specs;
  std::vector<std::vector<std::string_view>> needs(tasks.size());
  specs.reserve(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const TaskDescriptor& descriptor = tasks[i].first;
    needs[i].assign(descriptor.deps.begin(), descriptor.deps.end());
    specs.push_back({.name = descriptor.task_id,
                     .needs = needs[i],
                     .priority = descriptor.priority,
                     .demand = descriptor.resource_demand,
                     .retry = descriptor.retry});
  }
  Effects effects;
  {
    sync::MutexLock lock(mutex_);
    if (closed_) return Error{ErrorCode::kClosed, "the scheduler is closing and takes no more tasks"};
    const Moment now = executor_->now();
    ROTA_TRY(roster_.submit_all(specs, now));
    for (auto& [descriptor, stage] : tasks) {
      Entry& e = *entries_.emplace_back(std::make_shared<Entry>());
      e.ref = TaskRef(static_cast<std::uint32_t>(entries_.size()));
      e.descriptor = std::move(descriptor);
      if (e.descriptor.trace_id.empty()) e.descriptor.trace_id = e.descriptor.task_id;
      e.descriptor.paused_from.reset();
      e.stage = std::move(stage);
      e.submitted = now;
    }
    collect(now, effects);
  }
  perform(effects);
  return {};
}

Result<void> Core::pause(std::string_view id) {
  Effects effects;
  std::shared_ptr<PauseWaiter> waiter;
  {
    sync::MutexLock lock(mutex_);
    ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
    const Moment now = executor_->now();
    ROTA_TRY_ASSIGN(const Roster::Pausing pausing, roster_.pause(ref, now));
    if (pausing == Roster::Pausing::kPending) {
      Entry& e = entry(ref);
      e.attention.store(true, std::memory_order_relaxed);  // A reader that sees it takes the lock.
      waiter = e.pause_waiters.emplace_back(std::make_shared<PauseWaiter>());
    }
    collect(now, effects);
  }
  perform(effects);
  if (waiter == nullptr) return {};
  // A plain thread checks the clock itself: the executor's threads may all be busy with stages that never yield.
  const auto limit = std::chrono::milliseconds(config_.pause.timeout_ms);
  while (!fiber::in_task() && waiter->baton.wait_for(limit, kWaitsFor) == fiber::Baton::End::kTimeout) look_at_clock();
  if (!waiter->baton.wait(kWaitsFor)) {
    return Error{ErrorCode::kCancelled, "the caller was cancelled while it waited for the pause"};
  }
  if (waiter->outcome) return *waiter->outcome;
  return {};
}

Result<void> Core::resume(std::string_view id) {
  Effects effects;
  {
    sync::MutexLock lock(mutex_);
    ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
    const Moment now = executor_->now();
    ROTA_TRY(roster_.resume(ref, now));
    open_pause(entry(ref),
               TaskError{ErrorCode::kConflict, "'" + std::string(id) + "' was resumed before it was paused"},
               effects.batons);
    collect(now, effects);
  }
  perform(effects);
  return {};
}

Result<void> Core::cancel(std::string_view id) {
  Effects effects;
  {
    sync::MutexLock lock(mutex_);
    ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
    const Moment now = executor_->now();
    ROTA_TRY(roster_.cancel(ref, now));
    collect(now, effects);
  }
  perform(effects);
  return {};
}

Result<void> Core::retry(std::string_view id) {
  Effects effects;
  {
    sync::MutexLock lock(mutex_);
    ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
    const Moment now = executor_->now();
    ROTA_TRY(roster_.retry(ref, now));
    collect(now, effects);
  }
  perform(effects);
  return {};
}

void Core::tick(Moment due) {
  {
    sync::MutexLock lock(mutex_);
    armed_.erase(due);
  }
  look_at_clock();
}

void Core::look_at_clock() {
  Effects effects;
  {
    sync::MutexLock lock(mutex_);
    collect(executor_->now(), effects);
  }
  perform(effects);
}

Result<void> Core::wait(std::string_view id) {
  std::shared_ptr<EndWaiter> waiter;
  {
    sync::MutexLock lock(mutex_);
    ROTA_TRY_ASSIGN(const TaskRef ref, find(id));
    Entry& e = entry(ref);
    if (const TaskState state = roster_.state(ref); graph::is_terminal(state)) {
      if (state == TaskState::kSucceeded) return {};
      return *e.error;
    }
    waiter = e.waiters.emplace_back(std::make_shared<EndWaiter>());
  }
  if (!waiter->baton.wait(kWaitsFor)) {
    return Error{ErrorCode::kCancelled, "the caller was cancelled while it waited for a task"};
  }
  if (waiter->error) return *std::move(waiter->error);
  return {};
}

void Core::wait_all() {
  for (;;) {
    std::shared_ptr<fiber::Baton> baton;
    {
      sync::MutexLock lock(mutex_);
      if (roster_.live() == 0) return;
      baton = idle_waiters_.emplace_back(std::make_shared<fiber::Baton>());
    }
    if (!baton->wait("the tasks of a scheduler")) throw fiber::Cancelled(fiber::CancelReason::kParent);
  }
}

void Core::observe(Observer observer) {
  sync::MutexLock lock(mutex_);
  ROTA_ASSERT(entries_.empty(), "an observer comes before the first task");
  if (observer_) {
    observer_ = [first = std::move(observer_), second = std::move(observer)](const TaskEvent& event) {
      first(event);
      second(event);
    };
  } else {
    observer_ = std::move(observer);
  }
}

void Core::close() {
  Effects effects;
  {
    sync::MutexLock lock(mutex_);
    closed_ = true;
    const Moment now = executor_->now();
    for (const std::shared_ptr<Entry>& e : entries_) {
      if (!graph::is_terminal(roster_.state(e->ref))) (void)roster_.cancel(e->ref, now);
    }
    collect(now, effects);
  }
  perform(effects);
  // Even if the caller is being cancelled: the running tasks must end before the scheduler is destroyed.
  for (;;) {
    try {
      wait_all();
      break;
    } catch (const fiber::Cancelled&) {
      fiber::yield();
    }
  }
  executor_->shut_down();
}

// ------------------------------------------------------------------------------------------------------------- running
// Runs the task, and then further ones as long as the executor allows it.
void Core::run(Entry& first) {
  Entry* next = &first;
  for (int n = 1; next != nullptr; ++n) next = run_one(*next, n < kChain && executor_->may_chain());
}

Result<void> Core::call_stage(Entry& e, StageContext& context) {
  const auto failed = [&](std::string what) {
    return Error{ErrorCode::kInternal, "the stage threw: " + std::move(what)}.with("task", e.descriptor.task_id);
  };
  try {
    return executor_->call(*this, e, [&] { return e.stage(context); });
  } catch (const fiber::FiberError& error) {
    return error.error();
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("an object that is not a std::exception");
  }
}

Entry* Core::run_one(Entry& e, bool may_go_on) {
  std::vector<std::shared_ptr<const Values>> given;
  std::uint32_t attempt = 0;
  bool stop = false;
  {
    sync::MutexLock lock(mutex_);
    attempt = roster_.attempts(e.ref);
    stop = roster_.is_stopping(e.ref);  // Cancelled after it was chosen and before it started.
    e.worker = executor_->worker();
    if (slices_.on()) e.slice_from = executor_->now();
    e.progress = 0;
    e.note.clear();
    e.attention.store(stop || roster_.pause_pending(e.ref), std::memory_order_relaxed);
    // The latest edge comes first, so for equal names the later dependency wins.
    for (const TaskRef parent : roster_.dag().parents(e.ref)) {
      if (entry(parent).outputs != nullptr) given.push_back(entry(parent).outputs);
    }
  }
  StageContext context(*this, e, attempt, std::move(given));
  Result<void> result = stop ? Result<void>(ErrorCode::kCancelled) : call_stage(e, context);
  Effects effects;
  Entry* next = nullptr;
  {
    sync::MutexLock lock(mutex_);
    e.token.reset();
    e.told_to_stop = false;
    const Moment now = executor_->now();
    if (result.ok()) {
      e.progress = 1;
      e.error.reset();
      if (context.outputs_.size() > 0 && !roster_.is_stopping(e.ref)) {
        e.outputs = std::make_shared<const Values>(std::move(context.outputs_));
      }
    } else {
      e.error = std::move(result).take_error();
    }
    roster_.finish(e.ref, result.ok(), now);
    collect(now, effects);
    if (may_go_on && !effects.starts.empty()) {
      next = effects.starts.front();
      effects.starts.erase(effects.starts.begin());
    }
  }
  perform(effects);
  return next;
}

void Core::enter(Entry& e, fiber::Nursery* scope) {
  bool stop = false;
  {
    sync::MutexLock lock(mutex_);
    e.scope = scope;
    stop = e.told_to_stop;  // It was told to stop before there was a scope to cancel.
  }
  if (stop) scope->cancel();
}

// After this nobody touches the scope.
void Core::leave(Entry& e) {
  for (;;) {
    std::shared_ptr<fiber::Baton> baton;
    {
      sync::MutexLock lock(mutex_);
      e.scope = nullptr;
      if (e.stoppers == 0) return;
      if (e.stopped == nullptr) e.stopped = std::make_shared<fiber::Baton>();
      baton = e.stopped;
    }
    baton->wait_uncancellable("the cancellation of a stage");
  }
}

void Core::progress(Entry& e, double fraction, std::string_view note) {
  {
    sync::MutexLock lock(mutex_);
    e.progress = std::clamp(fraction, 0.0, 1.0);
    e.note = note;
    if (observer_) {
      events_.push_back({{.task_id = e.descriptor.task_id,
                          .from = TaskState::kRunning,
                          .to = TaskState::kRunning,
                          .progress = e.progress,
                          .note = e.note,
                          .at = std::chrono::nanoseconds(executor_->now().ns)},
                         entries_[e.ref.value() - 1]});
    }
  }
  if (observer_) deliver();
  checkpoint(e);
}

void Core::checkpoint(Entry& e) {
  while (e.attention.load(std::memory_order_relaxed)) {  // Partner: the lock below.
    Effects effects;
    std::shared_ptr<fiber::Baton> baton;
    Roster::Checkpoint answer{};
    {
      sync::MutexLock lock(mutex_);
      answer = roster_.checkpoint(e.ref);
      if (answer != Roster::Checkpoint::kStop) e.attention.store(false, std::memory_order_relaxed);
      if (answer == Roster::Checkpoint::kPark) {
        baton = e.parked = std::make_shared<fiber::Baton>();
        collect(executor_->now(), effects);
      }
    }
    if (answer == Roster::Checkpoint::kContinue) return;
    if (answer == Roster::Checkpoint::kStop) throw fiber::Cancelled(fiber::CancelReason::kExplicit);
    executor_->will_park();
    perform(effects);
    // The next round finds out whether it continues, stops or pauses again.
    if (!baton->wait("the end of a pause")) interrupted(e);
    if (config_.trace_slices > 0) went_on(e);
  }
}

// A parked body runs again, perhaps on another thread, which starts a new slice.
void Core::went_on(Entry& e) {
  sync::MutexLock lock(mutex_);
  if (roster_.state(e.ref) != TaskState::kRunning) return;
  e.worker = executor_->worker();
  e.slice_from = executor_->now();
}

// The runtime around a parked stage was cancelled, which cancels the task.
void Core::interrupted(Entry& e) {
  Effects effects;
  {
    sync::MutexLock lock(mutex_);
    const Moment now = executor_->now();
    (void)roster_.cancel(e.ref, now);
    collect(now, effects);
  }
  perform(effects);
}

fiber::CancelToken Core::token(Entry& e) {
  bool stop = false;
  std::optional<fiber::CancelToken> token;
  {
    sync::MutexLock lock(mutex_);
    if (!e.token) e.token.emplace();
    token = e.token;
    stop = e.told_to_stop;
  }
  if (stop) token->cancel();
  return *token;
}

}  // namespace rota::flow::detail

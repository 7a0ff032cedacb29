// Workflows on top of a scheduler.
//
// A workflow is registered, with all its tasks counted in `live`, before they are submitted, so no event can come too
// early. Events arrive one at a time and in order (IScheduler::observe), so exactly one of them brings `live` to 0; the
// thread that delivers it reports the end. `report` prevents a second report.
//
// The tasks of a workflow have TaskDescriptor::keep, so that the scheduler knows them until the workflow is forgotten,
// whatever its own bound is.
#include "rota/flow/engine.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/sync.h"
#include "fiber/baton.h"
#include "rota/fiber/error.h"

namespace rota::flow {

std::string_view to_string(WorkflowOutcome outcome) {
  switch (outcome) {
    case WorkflowOutcome::kSucceeded:
      return "Succeeded";
    case WorkflowOutcome::kFailed:
      return "Failed";
    case WorkflowOutcome::kCancelled:
      return "Cancelled";
  }
  return "?";
}

namespace {

constexpr std::uint32_t kWhole = 1'000'000'000;  // The progress of a task that has ended.

using Report = std::shared_ptr<const WorkflowReport>;

// A caller that waits for the end of a workflow, which may be forgotten when the caller runs again.
struct EndWaiter {
  fiber::Baton baton;
  Report report;  // Written before the baton is posted.
};

struct Running {
  std::vector<std::string> tasks;                           // Their ids in the scheduler.
  std::unordered_map<std::string_view, std::size_t> index;  // Of `tasks`, whose strings do not move.
  std::vector<TaskState> states;     // Of the latest events; terminal only if the task has ended.
  std::vector<std::uint32_t> parts;  // The progress of each task, in parts of kWhole.
  std::uint64_t parts_sum = 0;  // The sum of `parts`, exact, so that an event costs the same for any number of tasks.
  WorkflowEngine::OnEnd on_end;
  std::uint32_t live = 0, running = 0, failed = 0;
  std::string first_lost;  // The first task that failed or was cancelled.
  Report report;           // Set once. Null: its end was not reported yet.
  std::uint64_t end = 0;   // Its key in `ended`.
  std::vector<std::shared_ptr<EndWaiter>> waiters;
};

Error unknown(std::string_view id) {
  return Error{ErrorCode::kNotFound, "there is no workflow '" + std::string(id) + "'"};
}

// A command to a task that has ended meanwhile, or was forgotten, has nothing to do.
Result<void> unless_ended(Result<void> done) {
  const bool ended = done.code() == ErrorCode::kFailedPrecondition || done.code() == ErrorCode::kNotFound;
  return ended ? Result<void>() : done;
}

}  // namespace

struct WorkflowEngine::State {
  State(OnProgress progress, std::size_t most) : on_progress(std::move(progress)), max_ended(most) {}

  const OnProgress on_progress;
  const std::size_t max_ended;
  mutable sync::Mutex mutex;
  // Invariant: `ended` has the workflows whose end was reported.
  std::map<std::string, Running, std::less<>> workflows ROTA_GUARDED_BY(mutex);
  std::uint64_t next ROTA_GUARDED_BY(mutex) = 1;
  std::map<std::uint64_t, std::string> ended ROTA_GUARDED_BY(mutex);  // Ids, in the order of the ends.
  std::uint64_t next_end ROTA_GUARDED_BY(mutex) = 1;
  std::unique_ptr<IScheduler> scheduler;  // Destroyed first, because its last events use the members above.

  void on_event(const TaskEvent& event);
  void report_end(const std::string& id, std::chrono::nanoseconds at);
  [[nodiscard]] TaskInfo info_of(const std::string& task, TaskState last) const;
  [[nodiscard]] Result<void> forget(std::string_view id);
  void forget_beyond_bound();
  [[nodiscard]] WorkflowProgress progress_of(std::string_view id, const Running& w) const;
  [[nodiscard]] Result<std::vector<std::string>> tasks_of(std::string_view id) const;
};

WorkflowProgress WorkflowEngine::State::progress_of(std::string_view id, const Running& w) const {
  const auto count = static_cast<std::uint32_t>(w.tasks.size());
  return {.id = std::string(id),
          .tasks = count,
          .ended = count - w.live,
          .running = w.running,
          .failed = w.failed,
          .fraction = static_cast<double>(w.parts_sum) / kWhole / static_cast<double>(count)};
}

void WorkflowEngine::State::on_event(const TaskEvent& event) {
  const std::string_view id = event.task_id.substr(0, event.task_id.find('/'));
  WorkflowProgress now;
  bool last = false;
  {
    sync::MutexLock lock(mutex);
    const auto at = workflows.find(id);
    if (at == workflows.end()) return;  // A task that was submitted without the engine.
    Running& w = at->second;
    const auto task = w.index.find(event.task_id);
    if (task == w.index.end()) return;
    const std::size_t i = task->second;
    w.parts_sum -= w.parts[i];
    w.parts[i] = event.ends ? kWhole : static_cast<std::uint32_t>(std::lround(event.progress * kWhole));
    w.parts_sum += w.parts[i];
    if (event.from != event.to) {
      w.running += event.to == TaskState::kRunning ? 1 : 0;
      w.running -= event.from == TaskState::kRunning ? 1 : 0;
      const bool had_ended = graph::is_terminal(w.states[i]);
      if (event.ends || !graph::is_terminal(event.to)) w.states[i] = event.to;
      if (had_ended && !graph::is_terminal(event.to)) {  // Retried by hand.
        w.live += 1;
        w.failed -= event.from == TaskState::kFailed ? 1 : 0;
      }
      if (event.ends) {
        w.live -= 1;
        w.failed += event.to == TaskState::kFailed ? 1 : 0;
        if (event.to != TaskState::kSucceeded && w.first_lost.empty()) w.first_lost = event.task_id;
        last = w.live == 0 && w.report == nullptr;
      }
    }
    now = progress_of(at->first, w);
  }
  if (on_progress) on_progress(now);
  if (last) report_end(std::string(id), event.at);
}

// Events are delivered one at a time, so this is never called concurrently.
void WorkflowEngine::State::report_end(const std::string& id, std::chrono::nanoseconds at) {
  std::vector<std::string> tasks;
  std::vector<TaskState> states;
  std::string first_lost;
  {
    sync::MutexLock lock(mutex);
    const Running& w = workflows.find(id)->second;
    tasks = w.tasks;
    states = w.states;
    first_lost = w.first_lost;
  }
  const auto whole = std::make_shared<WorkflowReport>();
  WorkflowReport& report = *whole;
  report.id = id;
  report.tasks.reserve(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::string& task = tasks[i];
    TaskInfo info = info_of(task, states[i]);
    if (info.state == TaskState::kFailed) {
      report.outcome = WorkflowOutcome::kFailed;
    } else if (info.state == TaskState::kCancelled && report.outcome == WorkflowOutcome::kSucceeded) {
      report.outcome = WorkflowOutcome::kCancelled;
    }
    if (task == first_lost && info.error) report.error = info.error;
    report.tasks.push_back(std::move(info));
  }
  report.started = report.tasks.front().submitted;
  report.ended = at;
  std::vector<std::shared_ptr<EndWaiter>> waiters;
  OnEnd on_end;
  {
    sync::MutexLock lock(mutex);
    Running& w = workflows.find(id)->second;
    w.report = whole;
    w.end = next_end++;
    ended.emplace(w.end, id);
    waiters = std::exchange(w.waiters, {});
    on_end = std::exchange(w.on_end, nullptr);
  }
  if (on_end) {
    try {
      on_end(report);
    } catch (...) {  // There is nobody to report it to; waiting callers are woken anyway.
    }
  }
  // on_end may have had the workflow forgotten.
  for (const std::shared_ptr<EndWaiter>& waiter : waiters) {
    waiter->report = whole;
    waiter->baton.post();
  }
  forget_beyond_bound();
}

// A task of a workflow. The scheduler knows it, unless a user had it forgotten by its name.
TaskInfo WorkflowEngine::State::info_of(const std::string& task, TaskState last) const {
  if (Result<TaskInfo> info = scheduler->info(task); info.ok()) return *std::move(info);
  TaskInfo info;
  info.descriptor.task_id = task;
  info.state = last;
  return info;
}

Result<void> WorkflowEngine::State::forget(std::string_view id) {
  std::vector<std::string> tasks;
  {
    sync::MutexLock lock(mutex);
    const auto at = workflows.find(id);
    if (at == workflows.end()) return unknown(id);
    if (at->second.report == nullptr || at->second.live > 0) {
      return Error{ErrorCode::kFailedPrecondition,
                   "the workflow '" + std::string(id) + "' has not ended and cannot be forgotten"};
    }
    ended.erase(at->second.end);
    tasks = std::move(at->second.tasks);
    workflows.erase(at);
  }
  for (const std::string& task : tasks) (void)scheduler->forget(task);  // It may be forgotten already.
  return {};
}

// A workflow of which a task was retried, and has not ended again, counts as the latest.
void WorkflowEngine::State::forget_beyond_bound() {
  if (max_ended == 0) return;
  std::vector<std::string> oldest;
  {
    sync::MutexLock lock(mutex);
    for (std::size_t surplus = ended.size() - std::min(ended.size(), max_ended); surplus > 0; --surplus) {
      auto first = ended.extract(ended.begin());
      Running& w = workflows.find(first.mapped())->second;
      if (w.live == 0) oldest.push_back(first.mapped());
      w.end = first.key() = next_end++;
      ended.insert(std::move(first));
    }
  }
  for (const std::string& id : oldest) (void)forget(id);
}

WorkflowEngine::WorkflowEngine(std::unique_ptr<IScheduler> scheduler, OnProgress on_progress, std::size_t max_ended)
    : state_(std::make_unique<State>(std::move(on_progress), max_ended)) {
  state_->scheduler = std::move(scheduler);
  state_->scheduler->observe([state = state_.get()](const TaskEvent& event) { state->on_event(event); });
}

WorkflowEngine::~WorkflowEngine() {
  std::vector<std::string> ids;
  {
    sync::MutexLock lock(state_->mutex);
    for (const auto& [id, workflow] : state_->workflows) {
      if (workflow.report == nullptr) ids.push_back(id);
    }
  }
  for (const std::string& id : ids) (void)cancel(id);
  for (const std::string& id : ids) (void)wait(id);
  // The scheduler is destroyed here, while the members that its observer uses still exist.
  state_->scheduler.reset();
}

Result<std::string> WorkflowEngine::start_workflow(Workflow workflow, OnEnd on_end) {
  if (workflow.name.empty() || workflow.name.find('/') != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "the workflow name '" + workflow.name + "' is not valid: it must not be empty or contain '/'"};
  }
  if (workflow.stages.empty()) {
    return Error{ErrorCode::kInvalidArgument, "the workflow '" + workflow.name + "' has no stages"};
  }
  std::string id;
  std::vector<IScheduler::Submission> tasks;
  {
    sync::MutexLock lock(state_->mutex);
    id = workflow.name + "-" + std::to_string(state_->next++);
    Running running;
    for (WorkflowStage& stage : workflow.stages) {
      TaskDescriptor task{.task_id = stage.id.empty() ? std::string() : id + "/" + stage.id,
                          .trace_id = workflow.trace_id.empty() ? id : workflow.trace_id,
                          .priority = stage.priority,
                          .resource_demand = stage.resource_demand,
                          .retry = stage.retry,
                          .keep = true};
      for (const std::string& dep : stage.deps) task.deps.push_back(id + "/" + dep);
      running.tasks.push_back(task.task_id);
      tasks.emplace_back(std::move(task), std::move(stage.run));
    }
    running.live = static_cast<std::uint32_t>(tasks.size());
    running.states.assign(tasks.size(), TaskState::kQueued);
    running.parts.assign(tasks.size(), 0);
    running.index.reserve(tasks.size());
    for (std::size_t i = 0; i < running.tasks.size(); ++i) running.index.emplace(running.tasks[i], i);
    running.on_end = std::move(on_end);
    state_->workflows.emplace(id, std::move(running));
  }
  if (Result<void> accepted = state_->scheduler->submit_all(std::move(tasks)); !accepted.ok()) {
    sync::MutexLock lock(state_->mutex);
    state_->workflows.erase(id);
    return std::move(accepted).take_failure();
  }
  return id;
}

Result<std::vector<std::string>> WorkflowEngine::State::tasks_of(std::string_view id) const {
  sync::MutexLock lock(mutex);
  const auto at = workflows.find(id);
  if (at == workflows.end()) return unknown(id);
  return at->second.tasks;
}

Result<void> WorkflowEngine::pause(std::string_view workflow_id) {
  ROTA_TRY_ASSIGN(const std::vector<std::string> tasks, state_->tasks_of(workflow_id));
  Result<void> first;
  const auto each = [&](bool running) {
    for (const std::string& task : tasks) {
      const Result<TaskState> state = state_->scheduler->state(task);
      if (!state.ok() || graph::is_terminal(*state) || (*state == TaskState::kRunning) != running) continue;
      Result<void> paused = state_->scheduler->pause(task);
      if (!unless_ended(paused).ok() && first.ok()) first = std::move(paused);
    }
  };
  each(false);  // First the tasks that could start meanwhile.
  each(true);
  each(false);
  return first;
}

Result<void> WorkflowEngine::resume(std::string_view workflow_id) {
  ROTA_TRY_ASSIGN(const std::vector<std::string> tasks, state_->tasks_of(workflow_id));
  for (const std::string& task : tasks) {
    ROTA_TRY(unless_ended(state_->scheduler->resume(task)));
  }
  return {};
}

Result<void> WorkflowEngine::cancel(std::string_view workflow_id) {
  ROTA_TRY_ASSIGN(const std::vector<std::string> tasks, state_->tasks_of(workflow_id));
  for (const std::string& task : tasks) {
    ROTA_TRY(unless_ended(state_->scheduler->cancel(task)));
  }
  return {};
}

Result<WorkflowReport> WorkflowEngine::wait(std::string_view workflow_id) {
  std::shared_ptr<EndWaiter> waiter;
  {
    sync::MutexLock lock(state_->mutex);
    const auto at = state_->workflows.find(workflow_id);
    if (at == state_->workflows.end()) return unknown(workflow_id);
    if (at->second.report != nullptr) return *at->second.report;
    waiter = at->second.waiters.emplace_back(std::make_shared<EndWaiter>());
  }
  if (!waiter->baton.wait("a workflow")) {
    return Error{ErrorCode::kCancelled, "the caller was cancelled while it waited for a workflow"};
  }
  return *waiter->report;
}

Result<void> WorkflowEngine::forget(std::string_view workflow_id) { return state_->forget(workflow_id); }

Result<WorkflowProgress> WorkflowEngine::progress(std::string_view workflow_id) const {
  sync::MutexLock lock(state_->mutex);
  const auto at = state_->workflows.find(workflow_id);
  if (at == state_->workflows.end()) return unknown(workflow_id);
  return state_->progress_of(at->first, at->second);
}

IScheduler& WorkflowEngine::scheduler() { return *state_->scheduler; }

}  // namespace rota::flow

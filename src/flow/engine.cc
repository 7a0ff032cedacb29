// Workflows on top of a scheduler.
//
// A workflow is registered, with all its tasks counted in `live`, before they are submitted, so no event can come too
// early. Events arrive one at a time and in order (IScheduler::observe), so exactly one of them brings `live` to 0; the
// thread that delivers it reports the end. `reported` prevents a second report.
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

struct Running {
  std::vector<std::string> tasks;                           // Their ids in the scheduler.
  std::unordered_map<std::string_view, std::size_t> index;  // Of `tasks`, whose strings do not move.
  std::vector<char> ended;
  std::vector<std::uint32_t> parts;  // The progress of each task, in parts of kWhole.
  std::uint64_t parts_sum = 0;  // The sum of `parts`, exact, so that an event costs the same for any number of tasks.
  WorkflowEngine::OnEnd on_end;
  std::uint32_t live = 0, running = 0, failed = 0;
  std::string first_lost;  // The first task that failed or was cancelled.
  bool reported = false;   // `report` is set and does not change any more.
  WorkflowReport report;
  std::vector<std::shared_ptr<fiber::Baton>> waiters;
};

}  // namespace

struct WorkflowEngine::State {
  explicit State(OnProgress progress) : on_progress(std::move(progress)) {}

  const OnProgress on_progress;
  mutable sync::Mutex mutex;
  std::map<std::string, Running, std::less<>> workflows ROTA_GUARDED_BY(mutex);
  std::uint64_t next ROTA_GUARDED_BY(mutex) = 1;
  std::unique_ptr<IScheduler> scheduler;  // Destroyed first, because its last events use the members above.

  void on_event(const TaskEvent& event);
  void report_end(const std::string& id, std::chrono::nanoseconds at);
  [[nodiscard]] WorkflowProgress progress_of(std::string_view id, const Running& w) const;
  [[nodiscard]] Result<std::vector<std::string>> tasks_of(std::string_view id) const;
};

WorkflowProgress WorkflowEngine::State::progress_of(std::string_view id, const Running& w) const {
  const auto count = static_cast<std::uint32_t>(w.tasks.size());
  return {.id = id,
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
      if (w.ended[i] != 0 && !graph::is_terminal(event.to)) {  // Retried by hand.
        w.ended[i] = 0;
        w.live += 1;
        w.failed -= event.from == TaskState::kFailed ? 1 : 0;
      }
      if (event.ends) {
        w.ended[i] = 1;
        w.live -= 1;
        w.failed += event.to == TaskState::kFailed ? 1 : 0;
        if (event.to != TaskState::kSucceeded && w.first_lost.empty()) w.first_lost = event.task_id;
        last = w.live == 0 && !w.reported;
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
  std::string first_lost;
  {
    sync::MutexLock lock(mutex);
    tasks = workflows.find(id)->second.tasks;
    first_lost = workflows.find(id)->second.first_lost;
  }
  WorkflowReport report{.id = id, .outcome = WorkflowOutcome::kSucceeded, .error = {}, .tasks = {}};
  for (const std::string& task : tasks) {
    TaskInfo info = *scheduler->info(task);
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
  std::vector<std::shared_ptr<fiber::Baton>> waiters;
  OnEnd on_end;
  {
    sync::MutexLock lock(mutex);
    Running& w = workflows.find(id)->second;
    w.report = report;
    w.reported = true;
    on_end = std::exchange(w.on_end, nullptr);
  }
  if (on_end) {
    try {
      on_end(report);
    } catch (...) {  // There is nobody to report it to; waiting callers are woken anyway.
    }
  }
  {
    sync::MutexLock lock(mutex);
    waiters = std::exchange(workflows.find(id)->second.waiters, {});
  }
  for (const std::shared_ptr<fiber::Baton>& baton : waiters) baton->post();
}

WorkflowEngine::WorkflowEngine(std::unique_ptr<IScheduler> scheduler, OnProgress on_progress)
    : state_(std::make_unique<State>(std::move(on_progress))) {
  state_->scheduler = std::move(scheduler);
  state_->scheduler->observe([state = state_.get()](const TaskEvent& event) { state->on_event(event); });
}

WorkflowEngine::~WorkflowEngine() {
  std::vector<std::string> ids;
  {
    sync::MutexLock lock(state_->mutex);
    for (const auto& [id, workflow] : state_->workflows) {
      if (!workflow.reported) ids.push_back(id);
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
                          .retry = stage.retry};
      for (const std::string& dep : stage.deps) task.deps.push_back(id + "/" + dep);
      running.tasks.push_back(task.task_id);
      tasks.emplace_back(std::move(task), std::move(stage.run));
    }
    running.live = static_cast<std::uint32_t>(tasks.size());
    running.ended.assign(tasks.size(), 0);
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
  if (at == workflows.end()) return Error{ErrorCode::kNotFound, "there is no workflow '" + std::string(id) + "'"};
  return at->second.tasks;
}

Result<void> WorkflowEngine::pause(std::string_view workflow_id) {
  ROTA_TRY_ASSIGN(const std::vector<std::string> tasks, state_->tasks_of(workflow_id));
  Result<void> first;
  const auto each = [&](bool running) {
    for (const std::string& task : tasks) {
      const TaskState state = *state_->scheduler->state(task);
      if (graph::is_terminal(state) || (state == TaskState::kRunning) != running) continue;
      Result<void> paused = state_->scheduler->pause(task);
      // A task that ended meanwhile needs no pause.
      if (!paused.ok() && paused.code() != ErrorCode::kFailedPrecondition && first.ok()) first = std::move(paused);
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
    if (Result<void> resumed = state_->scheduler->resume(task);
        !resumed.ok() && resumed.code() != ErrorCode::kFailedPrecondition) {
      return resumed;
    }
  }
  return {};
}

Result<void> WorkflowEngine::cancel(std::string_view workflow_id) {
  ROTA_TRY_ASSIGN(const std::vector<std::string> tasks, state_->tasks_of(workflow_id));
  for (const std::string& task : tasks) {
    if (Result<void> cancelled = state_->scheduler->cancel(task);
        !cancelled.ok() && cancelled.code() != ErrorCode::kFailedPrecondition) {
      return cancelled;
    }
  }
  return {};
}

Result<WorkflowReport> WorkflowEngine::wait(std::string_view workflow_id) {
  for (;;) {
    std::shared_ptr<fiber::Baton> baton;
    {
      sync::MutexLock lock(state_->mutex);
      const auto at = state_->workflows.find(workflow_id);
      if (at == state_->workflows.end()) {
        return Error{ErrorCode::kNotFound, "there is no workflow '" + std::string(workflow_id) + "'"};
      }
      if (at->second.reported) return at->second.report;
      baton = at->second.waiters.emplace_back(std::make_shared<fiber::Baton>());
    }
    if (!baton->wait("a workflow")) {
      return Error{ErrorCode::kCancelled, "the caller was cancelled while it waited for a workflow"};
    }
  }
}

Result<WorkflowProgress> WorkflowEngine::progress(std::string_view workflow_id) const {
  sync::MutexLock lock(state_->mutex);
  const auto at = state_->workflows.find(workflow_id);
  if (at == state_->workflows.end()) {
    return Error{ErrorCode::kNotFound, "there is no workflow '" + std::string(workflow_id) + "'"};
  }
  return state_->progress_of(at->first, at->second);
}

IScheduler& WorkflowEngine::scheduler() { return *state_->scheduler; }

}  // namespace rota::flow

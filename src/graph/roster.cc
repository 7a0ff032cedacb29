#include "rota/graph/roster.h"

#include <algorithm>
#include <set>
#include <string>

#include "rota/assert.h"

namespace rota::graph {

std::string_view to_string(CancelCause cause) {
  switch (cause) {
    case CancelCause::kNone:
      return "None";
    case CancelCause::kRequest:
      return "Request";
    case CancelCause::kDependency:
      return "Dependency";
    case CancelCause::kPauseTimeout:
      return "PauseTimeout";
  }
  return "?";
}

Roster::Roster(const RosterConfig& config) : config_(config), order_(config.budget, config.aging, &dag_) {}

// ------------------------------------------------------------------------------------------------------------- submit
Result<void> Roster::validate(const TaskSpec& task) const {
  if (task.name.empty()) return Error{ErrorCode::kInvalidArgument, "a task needs an id that is not empty"};
  const auto in_task = [&](Error error) {
    return std::move(error).in("task '" + std::string(task.name) + "'").with("task", std::string(task.name));
  };
  if (task.retry.max_attempts == 0) {
    return in_task({ErrorCode::kInvalidArgument, "max_attempts is 0, so the task would never run; give at least 1"});
  }
  if (Result<void> fits = check(task.demand, config_.budget); !fits.ok()) return in_task(std::move(fits).take_error());
  return {};
}

Result<TaskRef> Roster::submit(const TaskSpec& task, Moment now) { return submit_all({&task, 1}, now); }

Result<TaskRef> Roster::submit_all(std::span<const TaskSpec> specs, Moment now) {
  std::vector<Dag::NewTask> tasks;
  tasks.reserve(specs.size());
  for (const TaskSpec& spec : specs) {
    ROTA_TRY(validate(spec));
    tasks.push_back({spec.name, spec.needs});
  }
  ROTA_TRY_ASSIGN(const TaskRef first, dag_.add_all(tasks));
  tasks_.resize(dag_.size());
  counts_[static_cast<std::size_t>(TaskState::kQueued)] += static_cast<std::uint32_t>(specs.size());
  for (std::uint32_t i = 0; i < specs.size(); ++i) {
    const TaskRef task(first.value() + i);
    order_.declare(task, specs[i].priority, specs[i].demand);
    at(task).retry = specs[i].retry;
    at(task).tries_left = specs[i].retry.max_attempts;
    // Successes are counted here and failures are handled below, when every counter is up to date.
    for (const TaskRef parent : dag_.parents(task)) {
      at(task).unmet += state(parent) == TaskState::kSucceeded ? 0 : 1;
      at(parent).needed_by += 1;
    }
  }
  for (std::uint32_t i = 0; i < specs.size(); ++i) accept(TaskRef(first.value() + i), now);
  return first;
}

void Roster::accept(TaskRef task, Moment now) {
  if (is_terminal(state(task))) return;  // A task of the same submission that it needs was cancelled.
  for (const TaskRef parent : dag_.parents(task)) {
    const Task& before = at(parent);
    if (before.state != TaskState::kFailed && before.state != TaskState::kCancelled && !before.stopping) continue;
    stop(task, CancelCause::kDependency, before.root, now);
    return;
  }
  if (at(task).unmet == 0) make_ready(task, now);
}

// ------------------------------------------------------------------------------------------------------------ changes
void Roster::move(TaskRef ref, TaskState to) {
  Task& task = at(ref);
  ROTA_ASSERT(legal_transition(task.state, to), "task ", ref, " from ", to_string(task.state), " to ", to_string(to));
  counts_[static_cast<std::size_t>(task.state)] -= 1;
  counts_[static_cast<std::size_t>(to)] += 1;
  changes_.push_back({ref, task.state, to});
  task.state = to;
}

void Roster::make_ready(TaskRef task, Moment now) {
  move(task, TaskState::kReady);
  order_.push(task, now);
}

// `task` waits for one thing less.
void Roster::met(TaskRef ref, Moment now) {
  Task& task = at(ref);
  ROTA_ASSERT(task.unmet > 0, "task ", ref);
  task.unmet -= 1;
  if (task.unmet == 0 && task.state == TaskState::kQueued) make_ready(ref, now);
}

// `task` has succeeded or is forgotten: it will not read the outputs of its predecessors again.
void Roster::needs_nothing(TaskRef task) {
  for (const TaskRef parent : dag_.parents(task)) {
    ROTA_ASSERT(at(parent).needed_by > 0, "task ", parent);
    at(parent).needed_by -= 1;
    if (is_removable(parent)) removable_ += 1;
  }
}

void Roster::release(TaskRef ref) {
  Task& task = at(ref);
  if (task.holds) order_.release(ref);
  task.holds = false;
}

// Cancels a task that is neither terminal nor stopping, and all its descendants.
void Roster::stop(TaskRef ref, CancelCause cause, TaskRef root, Moment now) {
  Task& task = at(ref);
  task.cause = cause;
  task.root = root;
  task.pause_pending = false;
  task.timer += 1;
  if (task.state == TaskState::kReady) order_.remove(ref, now);
  if (!task.started) {
    move(ref, TaskState::kCancelled);
  } else {
    task.stopping = true;
    if (task.state != TaskState::kRunning) move(ref, TaskState::kRunning);  // It was parked, and now unwinds.
    stops_.push_back(ref);
  }
  cascade(ref);
}

// Cancels every descendant of `root` that is not terminal (G-6). Such a task has never run, because a predecessor has
// not succeeded. A terminal descendant has already cancelled its own descendants. Iterative: a chain may be a million
// tasks deep.
void Roster::cascade(TaskRef from) {
  const TaskRef root = at(from).root;
  stack_.assign(1, from);
  while (!stack_.empty()) {
    const TaskRef ref = stack_.back();
    stack_.pop_back();
    for (const TaskRef child : dag_.children(ref)) {
      Task& task = at(child);
      if (is_terminal(task.state)) continue;
      ROTA_ASSERT(!task.started && task.state != TaskState::kReady, "task ", child, " did not wait for ", ref);
      task.cause = CancelCause::kDependency;
      task.root = root;
      task.timer += 1;
      move(child, TaskState::kCancelled);
      stack_.push_back(child);
    }
  }
}

// ----------------------------------------------------------------------------------------------------------- commands
namespace {
Error not_allowed(const Dag& dag, TaskRef task, std::string_view what) {
  return Error{ErrorCode::kFailedPrecondition, dag.label(task) + " " + std::string(what)}.with(
      "task", std::string(dag.name(task)));
}
}  // namespace

Result<Roster::Pausing> Roster::pause(TaskRef ref, Moment now) {
  Task& task = at(ref);
  if (is_terminal(task.state)) return not_allowed(dag_, ref, "has ended and cannot be paused");
  if (task.stopping) return not_allowed(dag_, ref, "is being cancelled and cannot be paused");
  switch (task.state) {
    case TaskState::kPaused:
      return Pausing::kDone;
    case TaskState::kRunning:
      if (!task.pause_pending) {
        task.pause_pending = true;
        arm(ref, now.after(config_.pause.timeout_ms * kNsPerMs));
      }
      return Pausing::kPending;
    case TaskState::kReady:
      order_.remove(ref, now);
      [[fallthrough]];
    default:
      move(ref, TaskState::kPaused);
      return Pausing::kDone;
  }
}

Result<void> Roster::resume(TaskRef ref, Moment now) {
  Task& task = at(ref);
  if (task.pause_pending) {
    task.pause_pending = false;
    task.timer += 1;
    return {};
  }
  if (task.state != TaskState::kPaused) return not_allowed(dag_, ref, "is not paused");
  if (task.unmet > 0) {
    move(ref, TaskState::kQueued);
  } else {
    make_ready(ref, now);  // If it had started, it continues when it gets its slots.
  }
  return {};
}

Result<void> Roster::cancel(TaskRef ref, Moment now) {
  const Task& task = at(ref);
  if (task.state == TaskState::kCancelled || task.stopping) return {};
  if (is_terminal(task.state)) return not_allowed(dag_, ref, "has ended and cannot be cancelled");
  stop(ref, CancelCause::kRequest, ref, now);
  return {};
}

Result<void> Roster::retry(TaskRef ref, Moment now) {
  Task& task = at(ref);
  if (task.state != TaskState::kFailed) return not_allowed(dag_, ref, "has not failed, so there is nothing to retry");
  task.tries_left = 1;
  task.root = TaskRef::none();
  move(ref, TaskState::kQueued);
  make_ready(ref, now);
  revive(ref);
  return {};
}

// Queues the descendants of `root` again that were cancelled because of it, unless another predecessor is Failed or
// Cancelled, or the descendant is forgotten, which then becomes the cause. In topological order, so that predecessors
// are decided first.
void Roster::revive(TaskRef root) {
  std::vector<TaskRef> behind{root};
  std::set<std::uint32_t> seen;  // Not a flag for every task: the cost is that of the descendants.
  for (std::size_t i = 0; i < behind.size(); ++i) {
    for (const TaskRef child : dag_.children(behind[i])) {
      if (at(child).cause != CancelCause::kDependency) continue;
      if (seen.insert(child.value()).second) behind.push_back(child);
    }
  }
  std::sort(behind.begin() + 1, behind.end(), [this](TaskRef a, TaskRef b) { return dag_.order(a) < dag_.order(b); });
  for (std::size_t i = 1; i < behind.size(); ++i) {
    Task& task = at(behind[i]);
    TaskRef cause = TaskRef::none();
    for (const TaskRef parent : dag_.parents(behind[i])) {
      const Task& before = at(parent);
      if (before.state == TaskState::kFailed || before.state == TaskState::kCancelled || before.stopping) {
        cause = before.root;
      }
    }
    // A forgotten task stays Cancelled; what is behind it was lost because of it.
    if (task.forgotten && cause.is_none()) cause = behind[i];
    task.root = cause;
    if (!cause.is_none()) continue;
    task.cause = CancelCause::kNone;
    move(behind[i], TaskState::kQueued);
  }
}

// --------------------------------------------------------------------------------------------------------- forgetting
Result<void> Roster::forget(TaskRef ref) {
  Task& task = at(ref);
  ROTA_ASSERT(!task.forgotten, "task ", ref);
  if (!is_terminal(task.state)) return not_allowed(dag_, ref, "has not ended and cannot be forgotten");
  dag_.free_name(ref);
  task.forgotten = true;
  if (is_removable(ref)) removable_ += 1;
  if (task.state != TaskState::kSucceeded) needs_nothing(ref);
  return {};
}

std::vector<bool> Roster::compact() {
  ROTA_ASSERT(changes_.empty() && stops_.empty(), "the effects refer to tasks by their old numbers");
  std::vector<bool> keep(tasks_.size());
  std::vector<std::uint32_t> number(tasks_.size(), 0);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    const TaskRef ref(i + 1);
    keep[i] = !is_removable(ref);
    if (keep[i]) {
      number[i] = kept++;
      continue;
    }
    counts_[static_cast<std::size_t>(tasks_[i].state)] -= 1;
    if (tasks_[i].state == TaskState::kSucceeded) continue;
    // Such a task has no successors but forgotten ones, which are Cancelled and not revived.
    for (const TaskRef child : dag_.children(ref)) at(child).unmet -= 1;
  }
  settle_roots(keep);
  std::vector<Task> tasks;
  tasks.reserve(kept);
  for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
    if (!keep[i]) continue;
    Task& task = tasks.emplace_back(tasks_[i]);
    if (!task.root.is_none()) task.root = TaskRef(number[task.root.value() - 1] + 1);
  }
  std::erase_if(timers_, [this](const Timer& t) { return tasks_[t.task].timer != t.timer; });
  for (Timer& timer : timers_) timer.task = number[timer.task];
  std::make_heap(timers_.begin(), timers_.end());
  tasks_ = std::move(tasks);
  removable_ = 0;
  dag_.compact(keep);
  order_.compact(keep);
  return keep;
}

// A task whose root cause is removed, or is connected to it by removed tasks only, is lost because of the first task on
// that path that is kept. In topological order, so that the roots of predecessors are settled first.
void Roster::settle_roots(const std::vector<bool>& keep) {
  std::vector<TaskRef> in_order(tasks_.size());
  for (std::uint32_t i = 1; i <= tasks_.size(); ++i) in_order[dag_.order(TaskRef(i))] = TaskRef(i);
  for (const TaskRef ref : in_order) {
    Task& task = at(ref);
    if (task.cause != CancelCause::kDependency || !keep[ref.value() - 1]) continue;
    TaskRef root = ref;
    for (const TaskRef parent : dag_.parents(ref)) {
      const Task& before = at(parent);
      const bool lost = before.state == TaskState::kFailed || before.state == TaskState::kCancelled || before.stopping;
      if (!lost || !keep[parent.value() - 1]) continue;
      if (root == ref || before.root == task.root) root = before.root;
    }
    task.root = root;
  }
}

void Roster::set_priority(TaskRef task, std::int32_t priority) { order_.set_priority(task, priority); }

// ------------------------------------------------------------------------------------------------------------ reports
Roster::Picked Roster::pick(Moment now) {
  const TaskRef ref = order_.pick(now);
  if (ref.is_none()) return {};
  Task& task = at(ref);
  move(ref, TaskState::kRunning);
  task.holds = true;
  if (task.started) return {ref, true};
  task.started = true;
  task.attempts += 1;
  return {ref, false};
}

void Roster::finish(TaskRef ref, bool success, Moment now) {
  Task& task = at(ref);
  ROTA_ASSERT(task.state == TaskState::kRunning, "task ", ref, " is ", to_string(task.state));
  release(ref);
  task.started = false;
  task.pause_pending = false;
  task.timer += 1;
  if (task.stopping) {
    task.stopping = false;
    move(ref, TaskState::kCancelled);  // Its descendants were cancelled with the request.
    return;
  }
  if (success) {
    move(ref, TaskState::kSucceeded);
    needs_nothing(ref);
    for (const TaskRef child : dag_.children(ref)) {
      // A child may already be Cancelled, by a request or because of another predecessor; its counter is kept anyway.
      met(child, now);
    }
    return;
  }
  move(ref, TaskState::kFailed);
  task.tries_left -= 1;
  if (task.tries_left > 0) {
    move(ref, TaskState::kQueued);
    task.unmet += 1;
    task.backoff = true;
    const std::int64_t backoff = backoff_ns(task);
    if (backoff > 0) {
      arm(ref, now.after(backoff));
    } else {
      task.backoff = false;
      met(ref, now);
    }
    return;
  }
  task.root = ref;
  cascade(ref);
}

std::int64_t Roster::backoff_ns(const Task& task) {
  const std::uint64_t doubled = std::uint64_t{task.retry.backoff_ms} << std::min(task.attempts - 1, 31U);
  return static_cast<std::int64_t>(std::min<std::uint64_t>(doubled, task.retry.backoff_max_ms)) * kNsPerMs;
}

Roster::Checkpoint Roster::checkpoint(TaskRef ref) {
  Task& task = at(ref);
  ROTA_ASSERT(task.state == TaskState::kRunning, "task ", ref, " is ", to_string(task.state));
  if (task.stopping) return Checkpoint::kStop;
  if (!task.pause_pending) return Checkpoint::kContinue;
  task.pause_pending = false;
  task.timer += 1;
  release(ref);
  move(ref, TaskState::kPaused);
  return Checkpoint::kPark;
}

// ------------------------------------------------------------------------------------------------------------- timers
// A task has at most one timer: for its backoff or for its pause.
void Roster::arm(TaskRef ref, Moment due) {
  timers_.push_back({due, ref.value() - 1, ++at(ref).timer});
  std::push_heap(timers_.begin(), timers_.end());
  settle_timers();
}

void Roster::settle_timers() {
  while (!timers_.empty() && tasks_[timers_.front().task].timer != timers_.front().timer) {
    std::pop_heap(timers_.begin(), timers_.end());
    timers_.pop_back();
  }
  if (timers_.size() > 2 * tasks_.size() + 16) {
    std::erase_if(timers_, [this](const Timer& t) { return tasks_[t.task].timer != t.timer; });
    std::make_heap(timers_.begin(), timers_.end());
  }
}

Moment Roster::next_due() const { return timers_.empty() ? Moment::never() : timers_.front().due; }

void Roster::advance(Moment now) {
  settle_timers();
  while (!timers_.empty() && timers_.front().due <= now) {
    const TaskRef ref(timers_.front().task + 1);
    Task& task = at(ref);
    task.timer += 1;
    settle_timers();
    if (task.backoff) {
      task.backoff = false;
      met(ref, now);
    } else {
      stop(ref, CancelCause::kPauseTimeout, ref, now);
    }
  }
}

// ------------------------------------------------------------------------------------------------------------ looking
std::optional<TaskState> Roster::paused_from(TaskRef ref) const {
  const Task& task = at(ref);
  if (task.state != TaskState::kPaused) return std::nullopt;
  if (task.started) return TaskState::kRunning;
  return task.unmet > 0 ? TaskState::kQueued : TaskState::kReady;
}

std::uint32_t Roster::live() const {
  return count(TaskState::kQueued) + count(TaskState::kReady) + count(TaskState::kRunning) + count(TaskState::kPaused);
}

void Roster::check_invariants() const {
  dag_.check_invariants();
  order_.check_invariants();
  std::array<std::uint32_t, kTaskStateCount> counts{};
  std::uint32_t removable = 0;
  ResourcesHeld held;
  for (std::uint32_t i = 1; i <= dag_.size(); ++i) {
    const TaskRef ref(i);
    const Task& task = at(ref);
    counts[static_cast<std::size_t>(task.state)] += 1;
    std::uint32_t unmet = task.backoff ? 1 : 0;
    bool lost = false;
    for (const TaskRef parent : dag_.parents(ref)) {
      unmet += state(parent) == TaskState::kSucceeded ? 0 : 1;
      lost |= state(parent) == TaskState::kFailed || state(parent) == TaskState::kCancelled;
    }
    ROTA_ASSERT(unmet == task.unmet, "task ", ref, " waits for ", unmet, ", not ", task.unmet);
    ROTA_ASSERT(task.state != TaskState::kQueued || unmet > 0, "task ", ref);
    ROTA_ASSERT((task.state != TaskState::kReady && task.state != TaskState::kRunning) || unmet == 0, "task ", ref);
    ROTA_ASSERT((task.state == TaskState::kReady) == order_.is_ready(ref), "task ", ref);
    ROTA_ASSERT(!task.holds || task.state == TaskState::kRunning, "task ", ref);
    ROTA_ASSERT(!task.started || !is_terminal(task.state), "task ", ref);
    ROTA_ASSERT(!lost || task.state == TaskState::kCancelled, "task ", ref, " behind one that is lost");
    ROTA_ASSERT((task.state == TaskState::kCancelled || task.stopping) == (task.cause != CancelCause::kNone));
    if (task.holds) held.take(order_.demand(ref));
    std::uint32_t needed_by = 0;
    for (const TaskRef child : dag_.children(ref)) {
      needed_by += state(child) == TaskState::kSucceeded || is_forgotten(child) ? 0 : 1;
    }
    ROTA_ASSERT(needed_by == task.needed_by, "task ", ref, " is needed by ", needed_by, ", not ", task.needed_by);
    ROTA_ASSERT(!task.forgotten || is_terminal(task.state), "task ", ref);
    removable += is_removable(ref) ? 1 : 0;
  }
  ROTA_ASSERT(counts == counts_);
  ROTA_ASSERT(removable == removable_, "removable=", removable, " counted=", removable_);
  ROTA_ASSERT(held.tasks == order_.held().tasks && held.cpu_slots == order_.held().cpu_slots &&
              held.ram_mb == order_.held().ram_mb && held.vram_mb == order_.held().vram_mb);
}

}  // namespace rota::graph

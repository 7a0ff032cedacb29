// How events change policy, users, workers and workflows.
#include "fleet/state.h"

#include <algorithm>
#include <utility>

#include "fleet/codec.h"
#include "fleet/dispatch_mode.h"
#include "rota/assert.h"
#include "rota/graph/ready_order.h"

namespace rota::fleet {

namespace {
template <class T>
const T& body(const Command& cause) {
  const T* command = std::get_if<T>(&cause);
  ROTA_ASSERT(command != nullptr, "the event belongs to another command", T::kName);
  return *command;
}
}  // namespace

State::State() : policy_hash_(hash_fields(globals_.policy)) {}
State::State(State&&) noexcept = default;
State& State::operator=(State&&) noexcept = default;
State::~State() = default;

std::string Workflow::name_of(const Task& task) const {
  const StageState& stage = stages[task.stage];
  const std::string& name = spec.stages[task.stage].name;
  if (is_withdrawn(task)) return name + "[withdrawn]";
  if (stage.count == 1) return name;
  return name + "[" + std::to_string(stage.number(static_cast<std::uint32_t>(&task - tasks.data()))) + "]";
}

std::string_view to_string(WorkerStatus status) {
  switch (status) {
    case WorkerStatus::kIdle:
      return "idle";
    case WorkerStatus::kBusy:
      return "busy";
    case WorkerStatus::kOverloaded:
      return "overloaded";
    case WorkerStatus::kDraining:
      return "draining";
    case WorkerStatus::kUnreachable:
      return "unreachable";
    case WorkerStatus::kDisabled:
      return "disabled";
    case WorkerStatus::kLeft:
      return "left";
  }
  return "?";
}

WorkerStatus Worker::status(std::int64_t max_queue) const {
  if (left) return WorkerStatus::kLeft;
  if (!reachable) return WorkerStatus::kUnreachable;
  if (disabled_by_hand || disabled_elastic) return WorkerStatus::kDisabled;
  if (draining) return WorkerStatus::kDraining;
  if (refusing) return WorkerStatus::kOverloaded;
  if (executions.empty()) return WorkerStatus::kIdle;
  return used.cpu_millis >= spec.resources.cpu_millis && queued >= max_queue ? WorkerStatus::kOverloaded
                                                                             : WorkerStatus::kBusy;
}

// --- Reading ---

const Worker* State::find_worker(std::string_view name) const {
  const auto found = worker_names_.find(name);
  return found == worker_names_.end() ? nullptr : find(found->second);
}
const Workflow* State::find_key(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : find(found->second);
}
Workflow& State::workflow_at(WorkflowId id) {
  Workflow* workflow = lookup(id);
  ROTA_ASSERT(workflow != nullptr, "no such workflow", id);
  return *workflow;
}

std::int64_t effective_priority(const State& state, const Task& task) {
  const Policy& policy = state.policy();
  return graph::aged_priority(task.priority, state.time_ns() - task.since_ns,
                              policy.aging_interval_ms * graph::kNsPerMs, policy.aging_boost);
}

std::int64_t dominant_share(const State& state, const User& user) {
  constexpr std::int64_t kScale = 1'000'000;
  const auto& kinds = state.placement().kinds();
  std::int64_t gpus = 1;
  for (const Kind& kind : kinds) gpus += kind.taking * static_cast<std::int64_t>(kind.spec.resources.gpus.size());
  std::int64_t share = user.used.gpus * kScale / gpus;
  for (const AmountKind& amount : kAmountKinds) {
    const int shift = amount.unit == AmountUnit::kBytes ? 20 : 0;  // In MiB, so that the product does not overflow.
    std::int64_t all = 1;
    for (const Kind& kind : kinds) all += kind.taking * (kind.spec.resources.*amount.member >> shift);
    share = std::max(share, (user.used.*amount.member >> shift) * kScale / all);
  }
  return share / user.weight;
}

// --- The hash ---

Hash128 State::hash_of_task(TaskId id, const Task& task) {
  Hasher hasher;
  hasher.add(std::uint8_t{1}).add(id.value());
  hasher.add(static_cast<std::uint64_t>(task.state) | static_cast<std::uint64_t>(task.paused_from) << 8 |
             static_cast<std::uint64_t>(task.stop) << 16 | static_cast<std::uint64_t>(task.skipped) << 24 |
             static_cast<std::uint64_t>(task.at_worker) << 25 | static_cast<std::uint64_t>(task.stopping) << 26 |
             static_cast<std::uint64_t>(task.deferred) << 27 | static_cast<std::uint64_t>(task.alone) << 28 |
             static_cast<std::uint64_t>(task.stage) << 32);
  hasher.add(static_cast<std::uint64_t>(task.attempt.value()) | static_cast<std::uint64_t>(task.spent) << 32);
  hasher.add(static_cast<std::uint64_t>(task.worker.value()) |
             static_cast<std::uint64_t>(static_cast<std::uint32_t>(task.priority)) << 32);
  hasher.add(task.since_ns).add(task.assigned_ns).add(task.started_ns).add(task.ended_ns).add(task.assigned_in);
  if (task.path_ms != 0) hasher.add(task.path_ms);
  if (task.extra != nullptr) hasher.add(hash_fields(*task.extra));
  return hasher.finish128();
}
Hash128 State::hash_of_workflow(const Workflow& workflow) {
  const WorkflowData& data = workflow;
  return rota::hash_of(std::uint8_t{2}, hash_fields(data), workflow.spec_hash, workflow.tails_hash);
}
Hash128 State::hash_of_worker(const Worker& worker) {
  static const Hash128 kNoCaches = SetHash().value();
  Hasher hasher;
  hasher.add(std::uint8_t{3}).add(worker.id).add(worker.spec_hash);
  hasher.add(worker.reachable).add(worker.draining).add(worker.left).add(worker.disabled_by_hand);
  hasher.add(worker.disabled_elastic).add(worker.enabled_by_hand).add(worker.refusing).add(worker.refused_ns);
  hasher.add(worker.registered_in);
  hasher.add(worker.execution_set.value()).add(worker.caches.empty() ? kNoCaches : worker.cache_set.value());
  hasher.add(worker.owner).add(worker.seen_ns);
  hasher.add(worker.idle_since_ns).add(worker.toggled_ns).add(worker.gone_ns).add(worker.slot).add(worker.lives);
  return hasher.finish128();
}
Hash128 State::hash_of_user(const User& user) {
  const UserData& data = user;
  return rota::hash_of(std::uint8_t{4}, hash_fields(data));
}

Hash128 State::hash() const {
  Hasher hasher;
  hasher.add(set_.value()).add(policy_hash_).add(globals_.now_ns).add(globals_.last_workflow).add(globals_.last_worker);
  hasher.add(globals_.last_assigned).add(globals_.elastic_polled_ns);
  if (!globals_.type_owner.empty()) hasher.add(type_owner_set_.value());
  if (!globals_.schedules.empty()) hasher.add(schedule_set_.value());
  hasher.add(globals_.run_times.hash());
  return hasher.finish128();
}

Workflow& State::edit(WorkflowId id) {
  Workflow& workflow = workflow_at(id);
  if (!workflow.dirty) {
    workflow.dirty = true;
    set_.remove(workflow.hash);
    dirty_workflows_.push_back(id);
  }
  return workflow;
}
Task& State::edit(Workflow& workflow, Task& task) {
  if (!task.dirty) {
    task.dirty = true;
    set_.remove(task.hash);
    dirty_tasks_.push_back(workflow.id_of(task));
  }
  return task;
}
Worker& State::edit(WorkerId id) {
  Worker* worker = lookup(id);
  ROTA_ASSERT(worker != nullptr, "no such worker", id);
  if (!worker->dirty) {
    worker->dirty = true;
    set_.remove(worker->hash);
    dirty_workers_.push_back(id);
  }
  return *worker;
}
User& State::edit_user(std::uint32_t index) {
  User& user = users_[index];
  if (!user.dirty) {
    user.dirty = true;
    set_.remove(user.hash);
    dirty_users_.push_back(index);
  }
  return user;
}
TaskExtra& State::extra(Task& task) {
  if (task.extra == nullptr) task.extra = std::make_unique<TaskExtra>();
  return *task.extra;
}

void State::begin(std::uint64_t index, std::int64_t logical, std::int64_t wall_ns, const Command& command) {
  record_ = index;
  globals_.index = index;
  globals_.logical = logical;
  globals_.now_ns = std::max(globals_.now_ns, wall_ns);
  placement_.expire_caches(*this);
  fired_.clear();
  if (std::holds_alternative<Tick>(command)) placement_.take_due_timers(*this, fired_);
}

std::vector<Timer> State::take_due_timers() {
  std::vector<Timer> fired;
  placement_.take_due_timers(*this, fired);
  return fired;
}

void State::end() {
  placement_.rest();
  placement_.reset_fired_timers(*this);
  // An entity that this record has removed is not found, and needs no hash.
  for (const TaskId id : dirty_tasks_) {
    Task* task = lookup(id);
    if (task == nullptr) continue;
    task->dirty = false;
    task->hash = hash_of_task(id, *task);
    set_.add(task->hash);
  }
  for (const WorkflowId id : dirty_workflows_) {
    Workflow* workflow = lookup(id);
    if (workflow == nullptr) continue;
    workflow->dirty = false;
    workflow->hash = hash_of_workflow(*workflow);
    set_.add(workflow->hash);
  }
  for (const WorkerId id : dirty_workers_) {
    Worker* worker = lookup(id);
    if (worker == nullptr) continue;
    worker->dirty = false;
    worker->hash = hash_of_worker(*worker);
    set_.add(worker->hash);
  }
  for (const std::uint32_t index : dirty_users_) {
    User& user = users_[index];
    user.dirty = false;
    user.hash = hash_of_user(user);
    set_.add(user.hash);
  }
  // A large submission must not leave a large empty list behind.
  constexpr std::size_t kMostKept = 4096;
  if (dirty_tasks_.capacity() > kMostKept) std::vector<TaskId>().swap(dirty_tasks_);
  dirty_tasks_.clear();
  dirty_workflows_.clear();
  dirty_workers_.clear();
  dirty_users_.clear();
}

void State::forget_record(std::uint64_t index, std::int64_t logical, std::int64_t now_ns) {
  ROTA_ASSERT(dirty_tasks_.empty() && dirty_workers_.empty() && dirty_workflows_.empty(), "nothing was applied");
  placement_.rest();
  placement_.reset_fired_timers(*this);
  globals_.index = index;
  globals_.logical = logical;
  globals_.now_ns = now_ns;
}

std::int64_t State::next_due_ns() const { return placement_.next_due_ns(); }

void State::apply(const Event& event, const Command& cause) {
  std::visit([&](const auto& e) { on(e, cause); }, event);
  if (!slots_to_fill_.empty()) fill_slots();
}

// --- Policy and users ---

void State::on(const PolicyChanged&, const Command& cause) {
  globals_.policy = body<SetPolicy>(cause).policy;
  policy_hash_ = hash_fields(globals_.policy);
  globals_.elastic_polled_ns = time_ns();  // The coordinator first acts one interval from now.
  split_held_resources();
  const Binding binding = dispatch_rules(*this).binding;
  if (binding != Binding::kType) {
    globals_.type_owner.clear();
    type_owner_set_ = SetHash();
  }
  if (binding != Binding::kWorkflow) {
    each_worker([&](const Worker& worker) {
      if (!worker.owner.is_none()) edit(worker.id).owner = WorkflowId();
    });
    each_workflow([&](const Workflow& workflow) {
      if (!workflow.bound.is_none()) edit(workflow.id).bound = WorkerId();
    });
  }
  rebuild();
  for (const auto& workflow : workflows_) {
    if (workflow == nullptr || workflow->outcome != Outcome::kRunning) continue;
    if (policy().order == Order::kCriticalPath) rank(*workflow);
  }
}

// Which of the named resources that executions hold belong to the whole fleet depends on the policy.
void State::split_held_resources() {
  fleet_used_ = Amounts();
  for (const auto& worker : workers_) {
    if (worker == nullptr || worker->executions.empty()) continue;
    edit(worker->id);
    worker->used = ResourceUse();
    worker->execution_set = SetHash();
    for (Execution& execution : worker->executions) {
      execution.held.Amounts::add(execution.fleet);
      execution.fleet = take_fleet_names(policy(), execution.held);
      fleet_used_.add(execution.fleet);
      if (!execution.queued) worker->used.add(execution.held);
      worker->execution_set.add(hash_fields(execution));
    }
  }
}

std::uint32_t State::user_index(const std::string& name) {
  const auto [place, fresh] = user_names_.try_emplace(name, static_cast<std::uint32_t>(users_.size()));
  if (fresh) {
    User& user = users_.emplace_back();
    user.name = name;
    user.dirty = true;
    dirty_users_.push_back(place->second);
  }
  return place->second;
}

void State::on(const QuotaChanged&, const Command& cause) {
  const auto& quota = body<SetQuota>(cause);
  User& user = edit_user(user_index(quota.user));
  user.weight = quota.weight;
  user.limits = quota.limits;
  placement_.limits_changed(user_index(quota.user));
}

// --- Schedules ---

void State::on(const ScheduleSet&, const Command& cause) {
  const ScheduleSpec& spec = body<SetSchedule>(cause).schedule;
  const auto [place, fresh] = globals_.schedules.try_emplace(spec.name);
  Schedule& schedule = place->second;
  if (!fresh) schedule_set_.remove(hash_fields(schedule));
  schedule.spec = spec;
  schedule.last_ns = std::max(schedule.last_ns, time_ns());
  if (spec.overlap != OverlapRule::kQueue) schedule.queued.clear();
  schedule_set_.add(hash_fields(schedule));
}

void State::on(const ScheduleChanged&, const Command& cause) {
  const auto& command = body<ChangeSchedule>(cause);
  const auto place = globals_.schedules.find(command.name);
  ROTA_ASSERT(place != globals_.schedules.end(), "no such schedule");
  Schedule& schedule = place->second;
  schedule_set_.remove(hash_fields(schedule));
  if (command.change == ScheduleChange::kRemove) {
    globals_.schedules.erase(place);
    return;
  }
  schedule.paused = command.change == ScheduleChange::kPause;
  schedule.last_ns = std::max(schedule.last_ns, time_ns());
  schedule_set_.add(hash_fields(schedule));
}

void State::on(const ScheduleFired& e, const Command& cause) {
  const auto& command = body<SubmitWorkflow>(cause);
  const auto place = globals_.schedules.find(command.schedule);
  ROTA_ASSERT(place != globals_.schedules.end(), "no such schedule");
  Schedule& schedule = place->second;
  schedule_set_.remove(hash_fields(schedule));
  schedule.last_ns = std::max(schedule.last_ns, command.nominal_ns);
  if (e.outcome == FiringOutcome::kQueued) {
    schedule.queued.push_back(command.nominal_ns);
  } else if (!schedule.queued.empty() && schedule.queued.front() == command.nominal_ns) {
    schedule.queued.erase(schedule.queued.begin());
  }
  std::erase_if(schedule.runs, [this](WorkflowId id) {
    const Workflow* workflow = find(id);
    return workflow == nullptr || workflow->outcome != Outcome::kRunning;
  });
  if (e.outcome == FiringOutcome::kStarted) {
    schedule.runs.push_back(e.workflow);
    ++schedule.fired;
  }
  schedule_set_.add(hash_fields(schedule));
}

// --- Workers ---

void State::on(const WorkerRegistered& e, const Command& cause) {
  const auto& command = body<RegisterWorker>(cause);
  if (find(e.worker) == nullptr) {
    ROTA_ASSERT(e.worker.value() == workers_.size() + 1, "worker ids are consecutive");
    Worker& fresh = *workers_.emplace_back(std::make_unique<Worker>());
    fresh.id = e.worker;
    fresh.spec = command.worker;
    fresh.spec_hash = hash_fields(fresh.spec);
    fresh.dirty = true;
    dirty_workers_.push_back(e.worker);
    globals_.last_worker = e.worker;
    worker_names_[fresh.spec.name] = e.worker;
    placement_.add_worker(*this, fresh, false);
  }
  Worker& worker = edit(e.worker);
  ROTA_ASSERT(worker.executions.empty(), "its tasks were requeued before");
  worker.reachable = true;
  worker.draining = worker.left = worker.refusing = false;
  worker.registered_in = record_;
  if (command.incarnation != worker.incarnation()) {
    if (worker.lives.size() >= WorkerData::kMostLives) worker.lives.erase(worker.lives.begin());
    worker.lives.push_back(command.incarnation);
  }
  worker.seen_ns = worker.idle_since_ns = time_ns();
  for (const CacheItem& cache : command.caches) touch_cache(worker, cache.item, cache.used_ns);
  placement_.fleet_changed(*this);
  placement_.update_worker(*this, worker);
  live_workers_ = 0;
  each_worker([&](const Worker& each) { live_workers_ += each.live() ? 1 : 0; });
  reindex_sticky_tasks();
}

void State::on(const WorkersSeen& e, const Command&) {
  for (const WorkerId id : e.workers) edit(id).seen_ns = time_ns();
}

void State::on(const WorkerChanged& e, const Command&) {
  Worker& worker = edit(e.worker);
  const bool was_live = worker.live();
  switch (e.change) {
    case WorkerChange::kDraining:
      worker.draining = true;
      break;
    case WorkerChange::kLeft:
      ROTA_ASSERT(worker.executions.empty());
      worker.left = true;
      break;
    case WorkerChange::kUnreachable:
      worker.reachable = false;
      break;
    case WorkerChange::kBack:
      worker.reachable = true;
      worker.seen_ns = worker.idle_since_ns = time_ns();
      break;
    case WorkerChange::kDisabledByHand:
      worker.disabled_by_hand = true;
      worker.enabled_by_hand = false;
      break;
    case WorkerChange::kEnabledByHand:
    case WorkerChange::kAutomatic:
      worker.disabled_by_hand = worker.disabled_elastic = false;
      worker.enabled_by_hand = e.change == WorkerChange::kEnabledByHand;
      worker.idle_since_ns = time_ns();
      break;
    case WorkerChange::kRefusing:
      worker.refusing = true;
      worker.refused_ns = time_ns();
      placement_.set_timer(
          {time_ns() + policy().undeliverable_backoff_ms * graph::kNsPerMs, Timer::Kind::kRefusal, e.worker.value()});
      break;
    case WorkerChange::kAccepting:
      worker.refusing = false;
      break;
    case WorkerChange::kDisabledElastic:
      worker.disabled_elastic = true;
      worker.toggled_ns = time_ns();
      break;
    case WorkerChange::kEnabledElastic:
      worker.disabled_elastic = false;
      worker.toggled_ns = worker.idle_since_ns = time_ns();
      break;
  }
  // What the time depends on must be the same in a state that is restored: it moves only with the events that set
  // timers from it.
  if (!worker.live() && (was_live || e.change == WorkerChange::kUnreachable)) {
    worker.gone_ns = time_ns();
    placement_.note_gone(worker, time_ns());
  }
  if (!worker.enabled()) {
    for (const TaskId id : std::vector<TaskId>(worker.reserved)) {
      Workflow& workflow = workflow_at(id.workflow());
      reserve(workflow, workflow.tasks[id.index()], WorkerId());
    }
  }
  if (e.change == WorkerChange::kUnreachable) {
    placement_.set_timer(
        {time_ns() + policy().retention_ms * graph::kNsPerMs, Timer::Kind::kForgetWorker, e.worker.value()});
  }
  if (e.change == WorkerChange::kDraining && worker.executions.empty()) placement_.add_to_leave(e.worker);
  placement_.fleet_changed(*this);
  placement_.update_worker(*this, worker);
  live_workers_ = 0;
  each_worker([&](const Worker& each) { live_workers_ += each.live() ? 1 : 0; });
  reindex_sticky_tasks();
  if (e.change == WorkerChange::kLeft) {
    placement_.forget_worker(*this, worker);
    const auto name = worker_names_.find(worker.spec.name);
    if (name != worker_names_.end() && name->second == e.worker) worker_names_.erase(name);
    workers_[e.worker.value() - 1].reset();  // edit() has subtracted it from the hash.
  }
}

void State::reindex_sticky_tasks() {
  for (const auto& workflow : workflows_) {
    if (workflow == nullptr || workflow->outcome != Outcome::kRunning) continue;
    const auto sticky = [](const TemplateInfo& info) { return info.sticky != TemplateInfo::kNoStage; };
    if (std::none_of(workflow->templates.begin(), workflow->templates.end(), sticky)) continue;
    for (Task& task : workflow->tasks) {
      if (task.shape == kNoShape || !sticky(workflow->info_of(task))) continue;
      if (PlacementIndex::key_of(*this, *workflow, task) == placement_.shape(task.shape).key) continue;
      placement_.remove(*this, *workflow, task);
      placement_.push(*this, *workflow, task);
    }
  }
}

// Forgets items of the worker that have expired, and the least recently used ones above the bound. The item at `fresh`
// is not in the set of hashes yet; true if it was forgotten itself.
bool State::drop_caches(Worker& worker, std::size_t fresh) {
  const std::int64_t ttl_ns = policy().cache_ttl_ms * graph::kNsPerMs;
  const std::string own = worker.caches[fresh].item;
  const auto drop = [&](std::vector<CacheItem>::iterator at) {
    if (at->item != own) worker.cache_set.remove(hash_fields(*at));
    placement_.cache_dropped(worker, at->item);
    return worker.caches.erase(at);
  };
  for (auto at = worker.caches.begin(); at != worker.caches.end();) {
    at = at->used_ns + ttl_ns <= time_ns() ? drop(at) : at + 1;
  }
  while (worker.caches.size() > WorkerData::kMostCaches) {
    drop(std::min_element(worker.caches.begin(), worker.caches.end(),
                          [](const CacheItem& a, const CacheItem& b) { return a.used_ns < b.used_ns; }));
  }
  return std::none_of(worker.caches.begin(), worker.caches.end(),
                      [&](const CacheItem& cache) { return cache.item == own; });
}

// `used_ns` is 0 if the time is not known: then it counts as used now.
void State::touch_cache(Worker& worker, const std::string& item, std::int64_t used_ns) {
  const std::int64_t used = used_ns == 0 ? time_ns() : std::min(used_ns, time_ns());
  auto place = std::lower_bound(worker.caches.begin(), worker.caches.end(), item,
                                [](const CacheItem& cache, const std::string& name) { return cache.item < name; });
  if (place == worker.caches.end() || place->item != item) {
    place = worker.caches.insert(place, CacheItem{item, used});
    if (const std::size_t at = static_cast<std::size_t>(place - worker.caches.begin()); drop_caches(worker, at)) return;
    place = std::lower_bound(worker.caches.begin(), worker.caches.end(), item,
                             [](const CacheItem& cache, const std::string& name) { return cache.item < name; });
  } else {
    worker.cache_set.remove(hash_fields(*place));
    place->used_ns = std::max(place->used_ns, used);
  }
  worker.cache_set.add(hash_fields(*place));
  placement_.cache_used(*this, worker, item, place->used_ns);
}

void State::on(const CachesReported& e, const Command& cause) {
  Worker& worker = edit(e.worker);
  if (const auto* again = std::get_if<RegisterWorker>(&cause)) {
    for (const CacheItem& cache : again->caches) touch_cache(worker, cache.item, cache.used_ns);
  } else {
    for (const std::string& item : body<ReportCaches>(cause).items) touch_cache(worker, item, time_ns());
  }
}

// --- Workflows ---

void State::on(const WorkflowAccepted& e, const Command& cause) {
  const auto& command = body<SubmitWorkflow>(cause);
  ROTA_ASSERT(e.workflow.value() == kept_from_ + workflows_.size(), "workflow ids are consecutive");
  if (!plan_) {  // The record is applied without having been decided here.
    Result<WorkflowPlan> planned = plan_workflow(command.workflow);
    ROTA_ASSERT(planned.ok(), "an accepted workflow has no fault");
    plan_ = std::move(*planned);
  }
  WorkflowPlan plan = *std::exchange(plan_, std::nullopt);
  Workflow& workflow = *workflows_.emplace_back(std::make_unique<Workflow>());
  workflow.id = globals_.last_workflow = e.workflow;
  workflow.key = command.key;
  workflow.spec = command.workflow;
  workflow.spec_hash = hash_fields(workflow.spec);
  workflow.priority = workflow.spec.priority;
  workflow.submitted_ns = time_ns();
  workflow.accepted_in = record_;
  workflow.user = user_index(workflow.spec.user);
  workflow.dag = std::move(plan.dag);
  workflow.stages = std::move(plan.stages);
  workflow.templates = std::move(plan.templates);
  workflow.finally = std::move(plan.finally);
  workflow.main.open = plan.main_tasks;
  workflow.links = std::move(plan.links);
  for (std::uint32_t s = 0; s < workflow.stages.size(); ++s) {
    if (workflow.spec.stages[s].parallel > 0) workflow.slots.emplace(s, StageSlots());
  }
  workflow.dirty = true;
  dirty_workflows_.push_back(e.workflow);
  if (!workflow.key.empty()) keys_[workflow.key] = e.workflow;
  workflow.tasks.resize(plan.tasks);
  workflow.unfinished = plan.tasks;
  unfinished_ += plan.tasks;
  dirty_tasks_.reserve(plan.tasks);
  for (std::uint32_t i = 0; i < workflow.stages.size(); ++i) {
    const StageState& stage = workflow.stages[i];
    const auto priority = static_cast<std::int32_t>(workflow.priority + workflow.spec.stages[i].priority);
    for (const std::uint32_t t : stage.tasks()) {
      Task& task = workflow.tasks[t];
      task.stage = i;
      task.priority = priority;
      task.dirty = true;
      dirty_tasks_.push_back(TaskId(workflow.id, t));
    }
  }
  set_deadline(workflow);
  if (policy().order == Order::kCriticalPath) rank(workflow);
  for (std::uint32_t i = 0; i < workflow.stages.size(); ++i) {
    if (workflow.stages[i].waits == 0) needs_met(workflow, i);
  }
}

void State::become_ready(Workflow& workflow, Task& task) {
  move(workflow, task, TaskState::kReady);
  if (task.extra != nullptr) task.extra->due_ns = 0;
  if (task.since_ns == 0) task.since_ns = time_ns();
  if (policy().order == Order::kCriticalPath) task.path_ms = path_of(workflow, task);
  placement_.push(*this, workflow, task);
}

void State::move(Workflow& workflow, Task& task, TaskState to) {
  const bool again =
      (task.state == TaskState::kSucceeded || task.state == TaskState::kReady) && to == TaskState::kQueued;
  ROTA_ASSERT(graph::legal_transition(task.state, to) || (again && workflow.stages[task.stage].repeats),
              "a task goes from", graph::to_string(task.state), "to", graph::to_string(to));
  const TaskState from = task.state;
  const bool used_slot = uses_slot(task);
  const bool was = graph::is_terminal(task.state);
  const bool is = graph::is_terminal(to);
  const bool ran = task.state == TaskState::kRunning;
  task.state = to;
  if (ran != (to == TaskState::kRunning)) workflow.running += ran ? ~0U : 1U;
  if (workflow.spec.stages[task.stage].parallel > 0) slots_changed(workflow, task, used_slot, uses_slot(task));
  if (was == is) return;
  Workflow& edited = edit(workflow.id);
  if (is) {
    task.ended_ns = time_ns();
    --edited.unfinished;
    --unfinished_;
    if (edited.unfinished == 0) placement_.add_to_end(workflow.id);
    task_ended(edited, task);
  } else {
    task.started_ns = task.ended_ns = 0;
    ++edited.unfinished;
    ++unfinished_;
    // A deadline that passed when there was nothing left to stop has had no effect; the retry moves it, too.
    const bool over = edited.outcome != Outcome::kRunning || edited.stopped != StopCause::kNone ||
                      (edited.deadline_ns != 0 && edited.deadline_ns <= time_ns());
    edited.outcome = Outcome::kRunning;
    edited.ended_ns = 0;
    edited.stopped = StopCause::kNone;
    if (over) set_deadline(edited);
    task_reopened(edited, task, from);
  }
}

void State::on(const WorkflowEnded& e, const Command&) {
  Workflow& workflow = edit(e.workflow);
  ROTA_ASSERT(workflow.unfinished == 0);
  workflow.outcome = e.outcome;
  workflow.ended_ns = time_ns();
  placement_.release_templates(workflow);
  if (!workflow.bound.is_none()) {
    const WorkerId bound = std::exchange(workflow.bound, WorkerId());
    if (find(bound) != nullptr && at(bound).owner == e.workflow) {
      Worker& worker = edit(bound);
      worker.owner = WorkflowId();
      placement_.update_worker(*this, worker);
    }
    placement_.update_workflow(*this, e.workflow);
  }
  placement_.set_timer(
      {time_ns() + policy().retention_ms * graph::kNsPerMs, Timer::Kind::kForgetWorkflow, e.workflow.value()});
}

void State::on(const WorkflowStopped& e, const Command&) { edit(e.workflow).stopped = e.cause; }

void State::on(const WorkflowForgotten& e, const Command&) {
  Workflow& workflow = edit(e.workflow);
  ROTA_ASSERT(workflow.outcome != Outcome::kRunning);
  for (Task& task : workflow.tasks) edit(workflow, task);  // Subtracts it from the hash.
  if (!workflow.key.empty()) keys_.erase(workflow.key);
  workflows_[e.workflow.value() - kept_from_].reset();
  std::uint64_t forgotten = first_workflow_ - kept_from_;
  while (forgotten < workflows_.size() && workflows_[forgotten] == nullptr) ++forgotten;
  first_workflow_ = kept_from_ + forgotten;
  if (forgotten < 64 || 2 * forgotten < workflows_.size()) return;
  workflows_.erase(workflows_.begin(), workflows_.begin() + static_cast<std::ptrdiff_t>(forgotten));
  kept_from_ = first_workflow_;
}

void State::bind_type(const std::string& type, WorkerId worker) {
  globals_.type_owner.emplace(type, worker);
  type_owner_set_.add(rota::hash_of(type, worker));
}

void State::unbind_type(const std::string& type) {
  const auto found = globals_.type_owner.find(type);
  if (found == globals_.type_owner.end()) return;
  type_owner_set_.remove(rota::hash_of(type, found->second));
  globals_.type_owner.erase(found);
}

void State::on(const BindingDropped& e, const Command&) {
  if (!e.workflow.is_none()) {
    Workflow& workflow = edit(e.workflow);
    const Worker* worker = find(workflow.bound);
    workflow.bound = WorkerId();
    if (worker != nullptr) {
      edit(worker->id).owner = WorkflowId();
      placement_.update_worker(*this, *worker);
    }
    placement_.update_workflow(*this, e.workflow);
  } else {
    unbind_type(e.type);
    placement_.update_type(*this, e.type);
  }
}

void State::on(const RoomReserved& e, const Command&) {
  Workflow& workflow = workflow_at(e.task.workflow());
  Task& task = edit(e.task);
  ROTA_ASSERT(task.state == TaskState::kReady, "room is kept for a ready task");
  reserve(workflow, task, e.worker);
}

void State::reserve(Workflow& workflow, Task& task, WorkerId to) {
  const TaskId id = workflow.id_of(task);
  const WorkerId from = task.reserved();
  if (from == to) return;
  const bool ready = task.shape != kNoShape;
  if (ready) placement_.remove(*this, workflow, task);
  extra(edit(workflow, task)).reserved = to;
  if (Worker* worker = lookup(from); worker != nullptr) {
    std::erase(worker->reserved, id);
    placement_.update_worker(*this, *worker);
  }
  if (to.is_none()) {
    reserving_.erase(id);
  } else {
    reserving_.insert(id);
    Worker* worker = lookup(to);
    ROTA_ASSERT(worker != nullptr, "a worker that exists keeps the room");
    worker->reserved.insert(std::lower_bound(worker->reserved.begin(), worker->reserved.end(), id), id);
    placement_.update_worker(*this, *worker);
  }
  if (ready) placement_.push(*this, workflow, task);
}

void State::on(const RecallRequested& e, const Command&) {
  Task& task = edit(e.task);
  ROTA_ASSERT(task.at_worker, "a task in the queue of its worker is recalled");
  task.stop = StopReason::kRecall;
  // The queue takes longer than was expected: those that stay in it count as the longest ones from now on, so that it
  // takes no more than one task per slot until it moves. Otherwise the task could be queued there again at once, and be
  // recalled again: with fair shares it is ahead of others while it is not assigned.
  Worker& worker = edit(task.worker);
  std::uint32_t left = worker.slots();
  for (Execution& execution : worker.executions) {
    if (!execution.queued || left == 0) continue;
    --left;
    worker.execution_set.remove(hash_fields(execution));
    worker.queued_ns -= execution.expected_ns;
    execution.expected_ns = policy().queue_most_ms * graph::kNsPerMs;
    worker.queued_ns += execution.expected_ns;
    worker.execution_set.add(hash_fields(execution));
  }
  placement_.update_worker(*this, worker);
}

void State::on(const ElasticPolled&, const Command&) {
  globals_.elastic_polled_ns = time_ns();
  placement_.set_timer({time_ns() + policy().elastic.poll_ms * graph::kNsPerMs, Timer::Kind::kElastic, 0});
}

}  // namespace rota::fleet

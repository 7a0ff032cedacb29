#include "sim/log_rules.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace rota::sim {

using model::TaskId;

namespace {

bool is_over(LogRules::Life life) { return life != LogRules::Life::kWaits && life != LogRules::Life::kAssigned; }
bool let_pass(LogRules::Life life) { return life == LogRules::Life::kSucceeded || life == LogRules::Life::kSkipped; }

bool has_all(const auto& have, const auto& want) {
  return std::all_of(want.begin(), want.end(),
                     [&](const auto& one) { return std::find(have.begin(), have.end(), one) != have.end(); });
}

// These spend an attempt.
bool spends(fleet::RequeueReason reason) {
  using R = fleet::RequeueReason;
  return reason == R::kFailed || reason == R::kWorkerLost || reason == R::kKilledForMemory || reason == R::kTimedOut;
}

}  // namespace

void LogRules::broken(std::string checker, std::string what) {
  if (violations_.size() >= 20) return;
  violations_.push_back({std::move(checker), "record " + std::to_string(index_) + ": " + std::move(what)});
}

const LogRules::WorkflowFacts* LogRules::find(model::WorkflowId id) const {
  const auto found = workflows_.find(id);
  return found == workflows_.end() ? nullptr : &found->second;
}

const LogRules::TaskFacts* LogRules::find(TaskId id) const {
  const WorkflowFacts* workflow = find(id.workflow());
  return workflow == nullptr || id.index() >= workflow->tasks.size() ? nullptr : &workflow->tasks[id.index()];
}

LogRules::TaskFacts* LogRules::task(TaskId id) { return const_cast<TaskFacts*>(find(id)); }

const model::TaskTemplate& LogRules::use_of(TaskId id) const {
  const WorkflowFacts& workflow = workflows_.at(id.workflow());
  const model::Stage& stage = workflow.spec.stages[workflow.tasks[id.index()].stage];
  return workflow.spec.templates[static_cast<std::size_t>(stage.use)];
}

void LogRules::see(const fleet::Record& record) {
  index_ = record.index;
  gone_.clear();
  if (const auto* quota = std::get_if<fleet::SetQuota>(&record.command)) quotas_[quota->user] = quota->limits;
  for (const fleet::Event& event : record.events) on(event, record);
  check_gangs(record);
  check_gone(record);
  check_stops(record);
  check_bindings();
}

void LogRules::on(const fleet::Event& event, const fleet::Record& record) {
  if (const auto* it = std::get_if<fleet::WorkflowAccepted>(&event)) return accept(*it, record);
  if (const auto* it = std::get_if<fleet::WorkerRegistered>(&event)) return register_worker(*it, record);
  if (const auto* it = std::get_if<fleet::WorkerChanged>(&event)) return change(*it);
  if (const auto* it = std::get_if<fleet::TaskAssigned>(&event)) return assign(*it, record);
  if (const auto* it = std::get_if<fleet::TaskStarted>(&event)) return start(*it);
  if (const auto* it = std::get_if<fleet::TaskRequeued>(&event)) return requeue(*it, record);
  if (const auto* it = std::get_if<fleet::TaskSucceeded>(&event)) return end(it->task, Life::kSucceeded, record);
  if (const auto* it = std::get_if<fleet::TaskFailed>(&event)) {
    check_unplaceable(*it);
    return end(it->task, Life::kFailed, record);
  }
  if (const auto* it = std::get_if<fleet::TaskCancelled>(&event)) {
    check_cancel(*it, record);
    return end(it->task, Life::kCancelled, record);
  }
  if (const auto* it = std::get_if<fleet::TaskSkipped>(&event)) {
    check_skip(it->task);
    return end(it->task, Life::kSkipped, record);
  }
  if (const auto* it = std::get_if<fleet::WorkflowStopped>(&event)) return stop(*it, record);
  if (const auto* it = std::get_if<fleet::StageExpanded>(&event)) return expand(*it);
  if (const auto* it = std::get_if<fleet::StageCollapsed>(&event)) return collapse(*it, record);
  if (const auto* it = std::get_if<fleet::BindingDropped>(&event)) return unbind(*it);
  if (std::holds_alternative<fleet::PolicyChanged>(event)) {
    if (const auto* set = std::get_if<fleet::SetPolicy>(&record.command)) policy_ = set->policy;
    if (policy_.mode != fleet::DispatchMode::kStaticWorker) bound_.clear();
    if (policy_.mode != fleet::DispatchMode::kFixedPipeline) type_bound_.clear();
  } else if (const auto* paused = std::get_if<fleet::TaskPaused>(&event)) {
    TaskFacts* facts = task(paused->task);
    if (facts == nullptr || is_over(facts->life) || facts->paused) {
      return broken("pause", "a task is paused that cannot be: " + paused->task.to_string());
    }
    if (facts->stopping) broken("pause", "a task is paused that was told to stop: " + paused->task.to_string());
    facts->paused = true;
  } else if (const auto* stop = std::get_if<fleet::StopRequested>(&event)) {
    // A recalled task waits at its worker and may start there nevertheless.
    if (TaskFacts* facts = task(stop->task); facts != nullptr && stop->reason != fleet::StopReason::kRecall) {
      facts->stopping = true;
    }
  } else if (const auto* resumed = std::get_if<fleet::TaskResumed>(&event)) {
    TaskFacts* facts = task(resumed->task);
    if (facts == nullptr || !facts->paused) {
      return broken("pause", "a task is resumed that is not paused: " + resumed->task.to_string());
    }
    facts->paused = false;
  } else if (const auto* ended = std::get_if<fleet::WorkflowEnded>(&event)) {
    const auto found = workflows_.find(ended->workflow);
    if (found == workflows_.end() || found->second.ended) {
      return broken("ends_once", ended->workflow.to_string() + " ends twice, or was never accepted");
    }
    found->second.ended = true;
    check_items(ended->workflow);
    bound_.erase(ended->workflow);
    bool all_over = true;
    bool all_good = true;
    for (const TaskFacts& facts : found->second.tasks) {
      all_over = all_over && is_over(facts.life);
      all_good = all_good && let_pass(facts.life);
    }
    if (!all_over) broken("ends_once", ended->workflow.to_string() + " ends before its tasks");
    if (all_good != (ended->outcome == fleet::Outcome::kSucceeded)) {
      broken("ends_once", ended->workflow.to_string() + " ends as " + std::string(to_string(ended->outcome)) +
                              ", which its tasks contradict");
    }
  } else if (const auto* forgotten = std::get_if<fleet::WorkflowForgotten>(&event)) {
    const auto found = workflows_.find(forgotten->workflow);
    if (found != workflows_.end() && !found->second.ended) {
      broken("ends_once", forgotten->workflow.to_string() + " is forgotten before it ended");
    }
    workflows_.erase(forgotten->workflow);
  }
}

void LogRules::accept(const fleet::WorkflowAccepted& event, const fleet::Record& record) {
  const auto* submit = std::get_if<fleet::SubmitWorkflow>(&record.command);
  if (submit == nullptr) return broken("told", "a workflow is accepted that nobody submitted");
  if (!submit->key.empty() && !keys_.insert(submit->key).second) {
    // A key may be used again when its workflow was forgotten.
    for (const auto& [id, facts] : workflows_) {
      if (facts.accepted_in != 0 && facts.spec.name == submit->workflow.name) {
        broken("one_per_key", "the key '" + submit->key + "' is accepted twice");
        break;
      }
    }
  }
  check_backpressure();
  WorkflowFacts& workflow = workflows_[event.workflow];
  workflow.spec = submit->workflow;
  workflow.accepted_in = record.index;
  workflow.plan = StagePlan(workflow.spec);
  if (workflow.spec.deadline_ms > 0) workflow.deadline_ns = record.wall_ns + workflow.spec.deadline_ms * 1'000'000;
  for (std::uint32_t t = 0; t < workflow.plan.tasks(); ++t) {
    workflow.tasks.emplace_back().stage = workflow.plan.stage_of(t);
  }
}

void LogRules::register_worker(const fleet::WorkerRegistered& event, const fleet::Record& record) {
  const auto* command = std::get_if<fleet::RegisterWorker>(&record.command);
  if (command == nullptr) return broken("workers", "a worker is registered that did not ask for it");
  WorkerFacts& worker = workers_[event.worker.value()];
  const bool restarted = worker.incarnation != 0 && worker.incarnation != command->incarnation.value();
  // Once the worker counts as lost, whichever process says that it is there is the worker.
  if (worker.reachable && worker.earlier.contains(command->incarnation.value())) {
    broken("workers", "a late registration of an earlier life of " + command->worker.name + " counts");
  }
  if (restarted) worker.earlier.insert(worker.incarnation);
  worker.earlier.erase(command->incarnation.value());
  worker.spec = command->worker;
  worker.changed_in = record.index;
  worker.incarnation = command->incarnation.value();
  worker.reachable = true;
  worker.left = worker.draining = false;
  if (restarted) gone_.push_back(event.worker.value());
}

void LogRules::change(const fleet::WorkerChanged& event) {
  const auto found = workers_.find(event.worker.value());
  if (found == workers_.end()) return broken("workers", "an unknown worker changes");
  WorkerFacts& worker = found->second;
  worker.changed_in = index_;
  using C = fleet::WorkerChange;
  switch (event.change) {
    case C::kDraining:
      worker.draining = true;
      break;
    case C::kLeft:
      worker.left = true;
      break;
    case C::kUnreachable:
      worker.reachable = false;
      gone_.push_back(event.worker.value());
      break;
    case C::kBack:
      worker.reachable = true;
      break;
    case C::kDisabledByHand:
    case C::kDisabledElastic:
      worker.disabled = true;
      break;
    case C::kEnabledByHand:
    case C::kEnabledElastic:
    case C::kAutomatic:
      worker.disabled = false;
      break;
    case C::kRefusing:
      worker.refusing = true;
      break;
    case C::kAccepting:
      worker.refusing = false;
      break;
  }
}

void LogRules::check_task(TaskId id, std::uint32_t attempt, const fleet::Record& record) {
  const TaskFacts* facts = find(id);
  if (facts == nullptr) return broken("assigned", "an unknown task is assigned: " + id.to_string());
  const std::string name = id.to_string() + " attempt " + std::to_string(attempt);
  if (facts->life == Life::kAssigned)
    broken("assigned", name + " is assigned while attempt " + std::to_string(facts->attempt) + " runs");
  if (is_over(facts->life)) broken("ends_once", name + " is assigned although the task has ended");
  if (facts->paused) broken("pause", name + " is assigned although the task is paused");
  if (attempt != facts->attempt + 1) broken("assigned", name + " follows attempt " + std::to_string(facts->attempt));
  if (facts->not_before_ns > record.wall_ns) broken("backoff", name + " is assigned before its backoff is over");
  if (facts->spent >= use_of(id).retry.max_attempts) {
    broken("attempts", name + " is assigned although " + std::to_string(facts->spent) + " attempts are spent");
  }
  const WorkflowFacts& workflow = workflows_.at(id.workflow());
  if (workflow.ended) broken("ends_once", name + " is assigned although its workflow has ended");
  check_needs(id, name);
}

// A task fails for want of a worker only if no worker could run it, and with it the other tasks of its workflow.
void LogRules::check_unplaceable(const fleet::TaskFailed& event) {
  const auto found = workflows_.find(event.task.workflow());
  if (event.kind != fleet::FailureKind::kUnplaceable || found == workflows_.end() || round_robin()) return;
  for (const auto& [id, worker] : workers_) {
    const bool takes_tasks = worker.reachable && !worker.left && !worker.draining && !worker.disabled &&
                             !worker.refusing && worker.changed_in != index_;
    const bool able = std::all_of(
        found->second.spec.templates.begin(), found->second.spec.templates.end(), [&](const model::TaskTemplate& use) {
          const model::Resources& have = worker.spec.resources;
          return (use.spec.program ? worker.spec.programs
                                   : has_all(worker.spec.handlers, std::vector{use.spec.type})) &&
                 (use.pinned.empty() || use.pinned == worker.spec.name) &&
                 (use.needs.zone.empty() || use.needs.zone == worker.spec.zone) &&
                 has_all(worker.spec.capabilities, use.needs.capabilities) &&
                 has_all(worker.spec.labels, use.needs.labels) && use.needs.cpu_millis <= have.cpu_millis &&
                 use.needs.memory_bytes <= have.memory_bytes && !use.gang &&
                 use.needs.gpu.count <= static_cast<std::int64_t>(have.gpus.size());
        });
    if (takes_tasks && able && task(event.task)->memory_bytes == 0) {
      return broken("placement",
                    event.task.to_string() + " fails for want of a worker, and " + worker.spec.name + " could run it");
    }
  }
}

void LogRules::check_worker(const fleet::TaskAssigned& event) {
  const std::string name = event.task.to_string();
  const auto found = workers_.find(event.worker.value());
  if (found == workers_.end()) return broken("workers", name + " is assigned to an unknown worker");
  const WorkerFacts& worker = found->second;
  const std::string to = name + " is assigned to " + worker.spec.name;
  if (!worker.reachable || worker.left) broken("workers", to + ", which is gone");
  if (worker.draining) broken("workers", to + ", which takes no more tasks");
  if (worker.disabled) broken("workers", to + ", which is disabled");
  if (worker.refusing) broken("workers", to + ", which an assignment did not reach just now");
  const model::TaskTemplate& use = use_of(event.task);
  const bool able = use.spec.program ? worker.spec.programs : has_all(worker.spec.handlers, std::vector{use.spec.type});
  if (!able) broken("placement", to + ", which cannot run its type");
  if (round_robin()) return;  // This mode looks at nothing else.
  if (!use.pinned.empty() && use.pinned != worker.spec.name) broken("placement", to + ", and is pinned elsewhere");
  if (!use.needs.zone.empty() && use.needs.zone != worker.spec.zone) broken("placement", to + " in another zone");
  if (!has_all(worker.spec.capabilities, use.needs.capabilities)) broken("placement", to + " without a capability");
  if (!has_all(worker.spec.labels, use.needs.labels)) broken("placement", to + " without a label");
}

// Quotas and named resources of the whole fleet, after the assignment.
void LogRules::check_limits(TaskId id) {
  const std::string user = workflows_.at(id.workflow()).spec.user;
  const auto quota = quotas_.find(user);
  std::int64_t tasks = 0;
  std::map<std::string, std::int64_t> named;
  for (const auto& [worker, ids] : assigned_) {
    for (const TaskId each : ids) {
      if (workflows_.at(each.workflow()).spec.user == user) ++tasks;
      if (task(each)->lead != each) continue;  // A merged execution holds one share.
      for (const model::NamedAmount& amount : use_of(each).needs.named) named[amount.name] += amount.count;
    }
  }
  if (quota != quotas_.end() && quota->second.tasks > 0 && tasks > quota->second.tasks) {
    broken("quota", "user " + user + " runs " + std::to_string(tasks) + " tasks, and may run " +
                        std::to_string(quota->second.tasks));
  }
  if (round_robin()) return;
  for (const model::NamedAmount& amount : policy_.fleet) {
    if (named[amount.name] > amount.count)
      broken("fleet_resource", "more than there is of '" + amount.name + "' is in use");
  }
}

void LogRules::assign(const fleet::TaskAssigned& event, const fleet::Record& record) {
  std::vector<model::AttemptId> tasks = event.members;
  tasks.insert(tasks.begin(), {event.task, event.attempt});
  if (tasks.size() > 1 && !use_of(event.task).mergeable)
    broken("merge", event.task.to_string() + " must not be merged");
  if (static_cast<std::int64_t>(tasks.size()) > std::max<std::int64_t>(policy_.merge_most, 1)) {
    broken("merge", std::to_string(tasks.size()) + " tasks are merged");
  }
  check_worker(event);
  for (const model::AttemptId& id : tasks) {
    check_task(id.task, id.attempt.value(), record);
    TaskFacts* facts = task(id.task);
    if (facts == nullptr) return;
    facts->life = Life::kAssigned;
    facts->attempt = id.attempt.value();
    facts->worker = event.worker.value();
    facts->queued = event.queued;
    facts->devices = event.devices;
    facts->lead = event.task;
    facts->merged = tasks.size() > 1;
    facts->stopping = false;
    facts->not_before_ns = 0;
    assigned_[facts->worker].insert(id.task);
  }
  check_limits(event.task);
  bind(event);
  if (event.queued) {
    std::int64_t queued = 0;
    for (const TaskId id : assigned_[event.worker.value()]) {
      if (task(id)->queued && task(id)->lead == id) ++queued;
    }
    if (queued > policy_.max_queue_per_worker) {
      broken("placement", std::to_string(queued) + " tasks wait at one worker");
    }
  } else {
    check_room(event.worker.value(), event.task.to_string());
  }
}

void LogRules::start(const fleet::TaskStarted& event) {
  TaskFacts* facts = task(event.task);
  if (facts == nullptr || facts->life != Life::kAssigned || !facts->queued) {
    return broken("assigned", event.task.to_string() + " starts, and did not wait at a worker");
  }
  const std::uint32_t worker = facts->worker;
  const TaskId lead = facts->lead;
  for (const TaskId id : assigned_[worker]) {
    if (task(id)->lead != lead) continue;
    task(id)->queued = false;
    task(id)->devices = event.devices;
  }
  check_room(worker, event.task.to_string());
}

void LogRules::check_room(std::uint32_t id, const std::string& why) {
  if (round_robin()) return;
  const WorkerFacts& worker = workers_[id];
  std::int64_t cpu = 0;
  std::int64_t memory = 0;
  fleet::DeviceSet devices = 0;
  std::set<TaskId> counted;
  for (const TaskId each : assigned_[id]) {
    const TaskFacts& facts = *task(each);
    if (facts.queued || !counted.insert(facts.lead).second) continue;
    const model::TaskTemplate& use = use_of(each);
    cpu += use.needs.cpu_millis;
    memory += facts.memory_bytes > 0 ? facts.memory_bytes : use.needs.memory_bytes;
    if ((devices & facts.devices) != 0) broken("resources", why + " gets a device that is in use");
    if (std::popcount(facts.devices) != use.needs.gpu.count)
      broken("resources", why + " gets another number of devices");
    devices |= facts.devices;
  }
  if (cpu > worker.spec.resources.cpu_millis || memory > worker.spec.resources.memory_bytes) {
    broken("resources", why + " does not fit on " + worker.spec.name);
  }
}

void LogRules::end(TaskId id, Life life, const fleet::Record& record) {
  TaskFacts* facts = task(id);
  if (facts == nullptr) return broken("ends_once", "an unknown task ends: " + id.to_string());
  if (is_over(facts->life)) return broken("ends_once", id.to_string() + " ends a second time");
  const auto* report = std::get_if<fleet::ReportEnded>(&record.command);
  if (life == Life::kSucceeded) {
    const bool right = report != nullptr && report->task == id && report->attempt.value() == facts->attempt &&
                       report->outcome.end == model::AttemptEnd::kSucceeded && facts->life == Life::kAssigned;
    if (!right) broken("fence", id.to_string() + " succeeds without a report of its current attempt");
    if (report != nullptr) facts->result = report->outcome.result;
  }
  if (life == Life::kFailed && report != nullptr && report->task == id && !report->outcome.final &&
      report->outcome.end == model::AttemptEnd::kFailed && facts->spent + 1 < use_of(id).retry.max_attempts) {
    broken("attempts", id.to_string() + " fails although it has another attempt");
  }
  if (life == Life::kFailed && report != nullptr && report->task == id && report->attempt.value() != facts->attempt) {
    broken("fence", id.to_string() + " fails because of a report of another attempt");
  }
  if (life == Life::kFailed && report != nullptr && report->task == id && report->outcome.batch && facts->merged &&
      !facts->stopping) {
    broken("merge", id.to_string() + " fails because of a batch, without having run alone");
  }
  if (facts->life == Life::kAssigned) assigned_[facts->worker].erase(id);
  facts->life = life;
  facts->paused = facts->stopping = false;
}

void LogRules::requeue(const fleet::TaskRequeued& event, const fleet::Record& record) {
  TaskFacts* facts = task(event.task);
  if (facts == nullptr) return broken("ends_once", "an unknown task is requeued: " + event.task.to_string());
  using R = fleet::RequeueReason;
  const auto* report = std::get_if<fleet::ReportEnded>(&record.command);
  if (report != nullptr && report->task == event.task && report->attempt.value() != facts->attempt) {
    broken("fence", event.task.to_string() + " is requeued because of a report of another attempt");
  }
  if (event.reason == R::kRetried) {
    WorkflowFacts& workflow = workflows_[event.task.workflow()];
    // A stage that waits for the end of others runs again when one of these is retried.
    const bool again = workflow.plan.repeats[facts->stage] && facts->life != Life::kAssigned;
    if (facts->life != Life::kFailed && facts->life != Life::kCancelled && !again) {
      broken("ends_once", event.task.to_string() + " is retried, and has not failed");
    }
    facts->spent = 0;
    reopen(workflow, record);
  } else if (event.reason == R::kStickyWorkerBusy) {
    if (facts->life != Life::kWaits)
      broken("assigned", event.task.to_string() + " waits for a worker, and does not wait");
    return;
  } else if (facts->life != Life::kAssigned) {
    broken("ends_once", event.task.to_string() + " is requeued, and was not assigned");
  }
  if (report != nullptr && report->task == event.task && report->outcome.batch && facts->merged && !facts->stopping &&
      spends(event.reason)) {
    broken("merge", event.task.to_string() + " spends an attempt because of a batch");
  }
  if (spends(event.reason) && use_of(event.task).gang) check_gang_stops(event, record);
  if (facts->life == Life::kAssigned) assigned_[facts->worker].erase(event.task);
  facts->stopping = false;
  if (spends(event.reason)) ++facts->spent;
  facts->life = Life::kWaits;
  facts->not_before_ns = event.not_before_ns;
  if (event.memory_bytes > 0) facts->memory_bytes = event.memory_bytes;
}

// The tasks of a gang start together or not at all.
void LogRules::check_gangs(const fleet::Record& record) {
  std::set<std::pair<model::WorkflowId, std::uint32_t>> gangs;
  for (const fleet::Event& event : record.events) {
    const auto* assigned = std::get_if<fleet::TaskAssigned>(&event);
    if (assigned == nullptr || find(assigned->task) == nullptr || !use_of(assigned->task).gang) continue;
    gangs.emplace(assigned->task.workflow(), find(assigned->task)->stage);
  }
  for (const auto& [id, stage] : gangs) {
    for (const TaskFacts& facts : workflows_.at(id).tasks) {
      if (facts.stage != stage || facts.life == Life::kSucceeded || facts.life == Life::kAssigned) continue;
      broken("gang", "a part of the gang " + workflows_.at(id).spec.stages[stage].name + " of " + id.to_string() +
                         " was assigned");
      break;
    }
  }
}

// A task of a gang is to run again: the others of the gang that run are told to stop, in the same record.
void LogRules::check_gang_stops(const fleet::TaskRequeued& event, const fleet::Record& record) {
  const WorkflowFacts& workflow = workflows_.at(event.task.workflow());
  const std::uint32_t stage = workflow.tasks[event.task.index()].stage;
  for (std::uint32_t t = 0; t < workflow.tasks.size(); ++t) {
    const TaskFacts& facts = workflow.tasks[t];
    const TaskId id(event.task.workflow(), t);
    if (id == event.task || facts.stage != stage || facts.life != Life::kAssigned || facts.stopping) continue;
    const bool dealt_with = std::any_of(record.events.begin(), record.events.end(), [&](const fleet::Event& each) {
      if (const auto* stop = std::get_if<fleet::StopRequested>(&each)) return stop->task == id;
      if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&each)) return requeued->task == id;
      if (const auto* failed = std::get_if<fleet::TaskFailed>(&each)) return failed->task == id;
      if (const auto* cancelled = std::get_if<fleet::TaskCancelled>(&each)) return cancelled->task == id;
      return false;
    });
    if (!dealt_with) broken("gang", id.to_string() + " runs on although a task of its gang has to start again");
  }
}

// A fleet that has as many unfinished tasks as its workers may have accepts no workflow.
void LogRules::check_backpressure() {
  std::int64_t unfinished = 0;
  for (const auto& [id, workflow] : workflows_) {
    for (const TaskFacts& facts : workflow.tasks) unfinished += is_over(facts.life) ? 0 : 1;
  }
  std::int64_t workers = 0;
  for (const auto& [id, worker] : workers_) workers += worker.reachable && !worker.left ? 1 : 0;
  if (unfinished > 0 && unfinished >= workers * policy_.backlog_per_worker && policy_.reject_threshold <= fleet::kOne) {
    broken("backpressure",
           "a workflow is accepted by a fleet with " + std::to_string(unfinished) + " unfinished tasks");
  }
}

// A worker that is lost or restarted has no tasks after the record that says so, except those of the same record.
void LogRules::check_gone(const fleet::Record& record) {
  for (const std::uint32_t worker : gone_) {
    for (const TaskId id : assigned_[worker]) {
      const bool fresh = std::any_of(record.events.begin(), record.events.end(), [&](const fleet::Event& event) {
        const auto* assigned = std::get_if<fleet::TaskAssigned>(&event);
        if (assigned == nullptr) return false;
        return assigned->task == task(id)->lead;
      });
      if (!fresh) broken("lost", id.to_string() + " stays with a worker that is gone");
    }
  }
}

void LogRules::finish(bool must_have_ended) {
  if (!must_have_ended) return;
  for (const auto& [id, workflow] : workflows_) {
    if (workflow.ended) continue;
    std::string tasks;
    for (std::uint32_t t = 0; t < workflow.tasks.size() && tasks.size() < 120; ++t) {
      if (!is_over(workflow.tasks[t].life)) {
        tasks += (tasks.empty() ? "" : ", ") + TaskId(id, t).to_string() +
                 (workflow.tasks[t].life == Life::kAssigned ? " (assigned)" : " (waits)");
      }
    }
    broken("liveness", id.to_string() + " has not ended: " + tasks);
  }
}

}  // namespace rota::sim

// Encodes the state's data, and rebuilds the placement index from it (B-21).
//
//   state    = globals, kinds, workers, users, first workflow, workflows (an optional each: null once forgotten)
//   workflow = data, spec, tasks (data and an optional extra each)
//
// What can be derived is left out: counters of stages, the graph, references of templates, sums of held resources, and
// the placement index.
#include <algorithm>
#include <optional>
#include <utility>

#include "fleet/codec.h"
#include "fleet/state.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {

struct TypeOwner {
  std::string type{};
  WorkerId worker{};
  ROTA_FIELDS(type, worker)
};
struct GlobalsImage {
  Policy policy{};
  std::uint64_t index = 0;
  std::int64_t logical = 0;
  std::int64_t now_ns = 0;
  WorkflowId last_workflow{};
  WorkerId last_worker{};
  WorkerId last_assigned{};
  std::int64_t elastic_polled_ns = 0;
  std::vector<TypeOwner> type_owner{};
  RunTimes::Image run_times{};
  std::vector<Schedule> schedules{};
  ROTA_FIELDS(policy, index, logical, now_ns, last_workflow, last_worker, last_assigned, elastic_polled_ns, type_owner,
              run_times, schedules)
};

Error damaged(const std::string& what) { return Error{ErrorCode::kCorrupt, "the snapshot is damaged: " + what}; }

// The tasks that fan-outs created come after the `planned` ones; each tells its stage. Those of the latest expansion of
// a stage are the last ones that name it; others before them were withdrawn. False if they are not those of the items.
bool place_expanded(Workflow& workflow, std::uint32_t planned) {
  for (std::uint32_t s = 0; s < workflow.stages.size(); ++s) {
    const Stage& spec = workflow.spec.stages[s];
    StageState& stage = workflow.stages[s];
    if (spec.fan_out && !spec.items.empty()) {
      stage.count = stage.unfinished = stage.open = static_cast<std::uint32_t>(spec.items.size());
    }
  }
  std::vector<std::uint32_t> missing(workflow.stages.size());  // Tasks of the latest expansion.
  for (std::uint32_t s = 0; s < workflow.stages.size(); ++s) {
    if (workflow.spec.stages[s].fan_out) missing[s] = workflow.stages[s].count - 1;
  }
  for (auto t = static_cast<std::uint32_t>(workflow.tasks.size()); t > planned;) {
    const std::uint32_t s = workflow.tasks[--t].stage;
    if (!workflow.spec.stages[s].fan_out) return false;
    if (missing[s] == 0) continue;
    for (; missing[s] > 1; --missing[s]) {
      if (--t < planned || workflow.tasks[t].stage != s) return false;
    }
    missing[s] = 0;
    workflow.stages[s].more = t;
  }
  if (std::any_of(missing.begin(), missing.end(), [](std::uint32_t left) { return left > 0; })) return false;
  for (const Task& task : workflow.tasks) {
    if (workflow.is_withdrawn(task) && !(task.state == TaskState::kSucceeded && task.skipped)) return false;
  }
  for (ItemLink& link : workflow.links) {
    if (link.resolved || !workflow.items_known(link.parent) || !workflow.items_known(link.child)) continue;
    if (!resolve_link(workflow.spec, link).ok()) return false;
  }
  return true;
}

}  // namespace

std::string State::encode() const {
  std::string bytes;
  Encoder out(bytes);
  GlobalsImage globals{globals_.policy,
                       globals_.index,
                       globals_.logical,
                       globals_.now_ns,
                       globals_.last_workflow,
                       globals_.last_worker,
                       globals_.last_assigned,
                       globals_.elastic_polled_ns,
                       {},
                       globals_.run_times.image(),
                       {}};
  for (const auto& [name, schedule] : globals_.schedules) globals.schedules.push_back(schedule);
  for (const auto& [type, worker] : globals_.type_owner) globals.type_owner.push_back({type, worker});
  out.add(globals);
  out.add(static_cast<std::uint64_t>(placement_.kinds().size()));
  for (const Kind& kind : placement_.kinds()) out.add(static_cast<const KindData&>(kind));
  out.add(static_cast<std::uint64_t>(workers_.size()));
  for (const auto& worker : workers_) {
    out.add(worker != nullptr);
    if (worker != nullptr) out.add(static_cast<const WorkerData&>(*worker));
  }
  out.add(static_cast<std::uint64_t>(users_.size()));
  for (const User& user : users_) out.add(static_cast<const UserData&>(user));
  out.add(first_workflow_);
  const std::uint64_t forgotten = first_workflow_ - kept_from_;
  out.add(static_cast<std::uint64_t>(workflows_.size()) - forgotten);
  for (std::uint64_t i = forgotten; i < workflows_.size(); ++i) {
    const auto& workflow = workflows_[i];
    out.add(workflow != nullptr);
    if (workflow == nullptr) continue;
    out.add(static_cast<const WorkflowData&>(*workflow));
    out.add(workflow->spec);
    out.add(workflow->user);
    out.add(workflow->tails);
    out.add(static_cast<std::uint64_t>(workflow->tasks.size()));
    for (const Task& task : workflow->tasks) {
      out.add(static_cast<const TaskData&>(task));
      out.add(task.extra != nullptr);
      if (task.extra != nullptr) out.add(*task.extra);
    }
  }
  out.flush();
  return bytes;
}

Result<State> State::decode(std::string_view bytes) {
  Decoder in(bytes);
  State state;
  GlobalsImage globals;
  std::uint64_t count = 0;
  if (!in.read(globals) || !in.read(count)) return in.error();
  state.globals_.policy = globals.policy;
  state.globals_.index = globals.index;
  state.globals_.logical = globals.logical;
  state.globals_.now_ns = globals.now_ns;
  state.globals_.last_workflow = globals.last_workflow;
  state.globals_.last_worker = globals.last_worker;
  state.globals_.last_assigned = globals.last_assigned;
  state.globals_.elastic_polled_ns = globals.elastic_polled_ns;
  for (const TypeOwner& owner : globals.type_owner) {
    state.unbind_type(owner.type);
    state.bind_type(owner.type, owner.worker);
  }
  state.globals_.run_times = RunTimes::from(globals.run_times);
  for (Schedule& schedule : globals.schedules) {
    state.schedule_set_.add(hash_fields(schedule));
    std::string name = schedule.spec.name;
    if (!state.globals_.schedules.emplace(std::move(name), std::move(schedule)).second) {
      return damaged("two schedules have the same name");
    }
  }
  state.policy_hash_ = hash_fields(state.globals_.policy);

  std::vector<KindData> kinds;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (!in.read(kinds.emplace_back())) return in.error();
  }
  state.placement_.restore_kinds(std::move(kinds));

  if (!in.read(count)) return in.error();
  for (std::uint64_t i = 0; i < count; ++i) {
    bool there = false;
    if (!in.read(there)) return in.error();
    auto& worker = state.workers_.emplace_back();
    if (!there) continue;
    worker = std::make_unique<Worker>();
    if (!in.read(static_cast<WorkerData&>(*worker))) return in.error();
    if (worker->id.value() != i + 1) return damaged("a worker has the id of another one");
    worker->spec_hash = hash_fields(worker->spec);
    for (const Execution& execution : worker->executions) {
      worker->execution_set.add(hash_fields(execution));
      if (execution.queued) {
        ++worker->queued;
        worker->queued_ns += execution.expected_ns;
      } else {
        worker->used.add(execution.held);
      }
    }
    for (const CacheItem& cache : worker->caches) worker->cache_set.add(hash_fields(cache));
    state.worker_names_[worker->spec.name] = worker->id;
    worker->hash = hash_of_worker(*worker);
    state.set_.add(worker->hash);
  }

  if (!in.read(count)) return in.error();
  for (std::uint64_t i = 0; i < count; ++i) {
    User& user = state.users_.emplace_back();
    if (!in.read(static_cast<UserData&>(user))) return in.error();
    state.user_names_[user.name] = static_cast<std::uint32_t>(i);
    user.hash = hash_of_user(user);
    state.set_.add(user.hash);
  }
  if (!in.read(state.first_workflow_) || !in.read(count)) return in.error();
  state.kept_from_ = state.first_workflow_;
  for (std::uint64_t i = 0; i < count; ++i) {
    bool there = false;
    if (!in.read(there)) return in.error();
    auto& place = state.workflows_.emplace_back();
    if (!there) continue;
    place = std::make_unique<Workflow>();
    Workflow& workflow = *place;
    std::uint64_t tasks = 0;
    if (!in.read(static_cast<WorkflowData&>(workflow)) || !in.read(workflow.spec) || !in.read(workflow.user) ||
        !in.read(workflow.tails) || !in.read(tasks)) {
      return in.error();
    }
    ROTA_TRY_ASSIGN(WorkflowPlan plan, plan_workflow(workflow.spec));
    if (workflow.id.value() != state.first_workflow_ + i || plan.tasks > tasks ||
        workflow.user >= state.users_.size()) {
      return damaged("the parts of a workflow do not match");
    }
    if (!workflow.tails.empty()) {
      if (workflow.tails.size() != plan.stages.size()) return damaged("a workflow has paths of other stages");
      workflow.tails_hash = rota::hash_of(workflow.tails);
    }
    workflow.spec_hash = hash_fields(workflow.spec);
    workflow.dag = std::move(plan.dag);
    workflow.stages = std::move(plan.stages);
    workflow.templates = std::move(plan.templates);
    workflow.finally = std::move(plan.finally);
    workflow.links = std::move(plan.links);
    workflow.tasks.resize(tasks);
    for (Task& task : workflow.tasks) {
      bool more = false;
      if (!in.read(static_cast<TaskData&>(task)) || !in.read(more)) return in.error();
      if (more && !in.read(extra(task))) return in.error();
      if (task.stage >= workflow.stages.size()) return damaged("a task is in no stage");
      task.hash = hash_of_task(workflow.id_of(task), task);
      state.set_.add(task.hash);
      if (task.state == TaskState::kRunning) ++workflow.running;
      if (!graph::is_terminal(task.state)) ++state.unfinished_;
    }
    if (!place_expanded(workflow, plan.tasks)) return damaged("the tasks of a fan-out do not match its items");
    state.count_stages(workflow);
    if (!workflow.key.empty()) state.keys_[workflow.key] = workflow.id;
    workflow.hash = hash_of_workflow(workflow);
    state.set_.add(workflow.hash);
  }
  if (!in.finish()) return in.error();
  for (const auto& worker : state.workers_) {
    if (worker == nullptr) continue;
    for (const Execution& execution : worker->executions) {
      state.fleet_used_.add(execution.fleet);
      for (const TaskId member : execution.members) {
        if (state.find(member) == nullptr) return damaged("an execution has a task that does not exist");
        execution.count_in(state.users_[state.at(member.workflow()).user].used);
      }
    }
  }
  state.rebuild();
  state.placement_.rest();
  return state;
}

void State::rebuild() {
  constexpr std::int64_t kNs = graph::kNsPerMs;
  placement_.clear();
  live_workers_ = 0;
  for (const auto& worker : workers_) {
    if (worker == nullptr) continue;
    placement_.add_worker(*this, *worker, true);
    live_workers_ += worker->live() ? 1 : 0;
    worker->reserved.clear();
    worker->recall_due_ns = 0;
    if (worker->queued > 0) placement_.add_to_promote(worker->id);
    if (worker->refusing) {
      placement_.set_timer(
          {worker->refused_ns + policy().undeliverable_backoff_ms * kNs, Timer::Kind::kRefusal, worker->id.value()});
    }
    if (!worker->reachable) {
      placement_.set_timer(
          {worker->gone_ns + policy().retention_ms * kNs, Timer::Kind::kForgetWorker, worker->id.value()});
    }
  }
  reserving_.clear();
  for (const auto& workflow : workflows_) {
    if (workflow == nullptr) continue;
    for (const Task& task : workflow->tasks) {
      if (task.state != TaskState::kReady || task.reserved().is_none()) continue;
      Worker* worker = lookup(task.reserved());
      ROTA_ASSERT(worker != nullptr, "a worker that exists keeps the room");
      worker->reserved.push_back(workflow->id_of(task));
      reserving_.insert(workflow->id_of(task));
    }
  }
  placement_.fleet_changed(*this);
  std::vector<std::pair<std::int64_t, TaskId>> ready;
  for (const auto& workflow : workflows_) {
    if (workflow == nullptr) continue;
    for (TemplateInfo& info : workflow->templates) info.shape = kNoShape;
    if (workflow->outcome != Outcome::kRunning) {
      placement_.set_timer(
          {workflow->ended_ns + policy().retention_ms * kNs, Timer::Kind::kForgetWorkflow, workflow->id.value()});
    }
    if (workflow->outcome == Outcome::kRunning && workflow->deadline_ns > 0) {
      placement_.set_timer({workflow->deadline_ns, Timer::Kind::kDeadline, workflow->id.value()});
    }
    for (Task& task : workflow->tasks) {
      task.shape = kNoShape;
      if (task.state == TaskState::kReady) ready.emplace_back(task.since_ns, workflow->id_of(task));
      if (task.state == TaskState::kQueued && task.due_ns() > 0) {
        placement_.set_timer({task.due_ns(), Timer::Kind::kBackoff, workflow->id_of(task).value()});
      }
    }
  }
  std::sort(ready.begin(), ready.end());
  for (const auto& [since, id] : ready) {
    Workflow& workflow = workflow_at(id.workflow());
    placement_.push(*this, workflow, workflow.tasks[id.index()]);
  }
  for (const auto& worker : workers_) {
    if (worker == nullptr) continue;
    placement_.update_worker(*this, *worker);
    placement_.set_recall_timer(*this, *worker);
  }
  if (policy().elastic.enable) {
    placement_.set_timer({globals_.elastic_polled_ns + policy().elastic.poll_ms * kNs, Timer::Kind::kElastic, 0});
  }
}

}  // namespace rota::fleet

// The adversarial test: random commands against the brain, with every decision compared with the naive rules.
//
// After every event: a task starts only where it may, within its user's quota and the fleet's resources, never before
// one of higher priority that could start as well, and never while it is paused; a preemption stops as few tasks as
// possible, none that was ahead when it was assigned, and nobody takes the room from the task that it is for. After
// every record: no ready task waits that could start; bindings lead to workers that take tasks; a brain that is
// restored from the snapshot before the record decides it the same way; a follower has the same state. At the end: once
// changes stop, everything that can run starts within a bound (B-23), and a second brain that decides all commands
// again writes the same bytes.
//
// 300 seeds; ROTA_ADVERSARY_SEEDS=100000 runs more, from ROTA_ADVERSARY_FIRST on; ROTA_ADVERSARY_TRACE=1 prints all
// records.
#include "fleet/adversary_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/sanitizers.h"
#include "fleet/codec.h"
#include "fleet/explain.h"
#include "fleet/naive_rules_test.h"
#include "fleet/record.h"
#include "fleet/text.h"

namespace rota::fleet {
namespace {

constexpr std::uint64_t kSeeds = kUnderAsan ? 15 : 300;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

bool is_ready(const Task& task) { return task.state == TaskState::kReady; }

// Follows the events one by one in a state of its own, and compares them with the naive rules.
class Checker {
 public:
  void see(const Record& record) {
    see_command(record.command);
    spent_before_ = batch_failed(record.command);
    caused_by(record);
    state_.begin(record.index, record.logical, record.wall_ns, record.command);
    active_least_.reset();
    for (const Event& event : record.events) {
      before(event);
      state_.apply(event, record.command);
      after(event);
      if (::testing::Test::HasFailure()) return;
    }
    state_.placement().drop_stale(state_);
    state_.end();
    blames_nobody(record);
    warned_of(record);
    minimum_active();
    at_rest(record);
  }
  [[nodiscard]] const State& state() const { return state_; }

 private:
  void see_command(const Command& command) {
    instant_ = std::visit([](const auto& c) { return std::string(c.kName); }, command);
    if (const auto* control = std::get_if<Control>(&command); control != nullptr && control->action != Action::kPause) {
      // What a user resumes, cancels or retries is no longer paused.
      std::erase_if(paused_, [&](TaskId id) {
        return control->task.is_none() ? id.workflow() == control->workflow : id == control->task;
      });
    }
    if (const auto* toggle = std::get_if<SetWorkerEnabled>(&command)) {
      if (toggle->enabled && toggle->held) {
        held_.insert(toggle->worker);
      } else {
        held_.erase(toggle->worker);
      }
    }
    if (const auto* registered = std::get_if<RegisterWorker>(&command)) {
      std::erase_if(again_, [&](const auto& entry) { return std::get<1>(entry.first) == registered->worker.name; });
      const Worker* known = state_.find_worker(registered->worker.name);
      if (known == nullptr || known->spec != registered->worker) held_.erase(registered->worker.name);
    }
  }

  // The task and its spent attempts, if the command reports the failure of a whole merged execution.
  [[nodiscard]] std::optional<std::pair<TaskId, std::uint32_t>> batch_failed(const Command& command) const {
    const auto* report = std::get_if<ReportEnded>(&command);
    if (report == nullptr || report->outcome.end != AttemptEnd::kFailed || !report->outcome.batch) return std::nullopt;
    const Task* task = state_.find(report->task);
    if (task == nullptr || task->attempt != report->attempt || task->stopping) return std::nullopt;
    const Worker* worker = state_.find(task->worker);
    if (worker == nullptr) return std::nullopt;
    for (const Execution& execution : worker->executions) {
      if (execution.has(report->task) && execution.members.size() > 1) return std::pair(report->task, task->spent);
    }
    return std::nullopt;
  }
  void blames_nobody(const Record& record) const {
    if (!spent_before_ || record.events.empty()) return;
    const Task& task = state_.at(spent_before_->first);
    EXPECT_EQ(task.spent, spent_before_->second) << "B-12: it pays for another: " << spent_before_->first.to_string();
    EXPECT_FALSE(graph::is_terminal(task.state)) << "B-12: it fails for another: " << spent_before_->first.to_string();
  }

  // B-2: the parent of a report is the record that assigned the attempt.
  void caused_by(const Record& record) const {
    TaskId task;
    if (const auto* ended = std::get_if<ReportEnded>(&record.command)) task = ended->task;
    if (const auto* saved = std::get_if<ReportCheckpoint>(&record.command)) task = saved->task;
    if (const auto* refused = std::get_if<ReportUndeliverable>(&record.command)) task = refused->task;
    if (task.is_none()) return;
    EXPECT_EQ(record.parent, assigned_in_.at(task)) << "B-2: the parent of " << record.index;
  }

  // B-17: the coordinator restores the minimum, as far as there are workers that it may enable.
  void minimum_active() const {
    if (!active_least_) return;
    std::int64_t active = 0;
    state_.each_worker([&](const Worker& worker) { active += worker.enabled() ? 1 : 0; });
    EXPECT_GE(active, *active_least_) << "B-17: fewer workers are active than the coordinator has to keep";
  }

  // B-18: exactly the stages that no live worker could ever run are reported. Gangs are not compared. With
  // static_worker, a stage is reported if no live worker could run the whole workflow.
  void warned_of(const Record& record) const {
    std::set<std::uint32_t> warned;
    WorkflowId id;
    for (const Event& event : record.events) {
      if (const auto* accepted = std::get_if<WorkflowAccepted>(&event)) id = accepted->workflow;
      if (const auto* warning = std::get_if<PlacementWarned>(&event)) warned.insert(warning->stage);
    }
    if (id.is_none()) return;
    const Workflow& workflow = state_.at(id);
    if (state_.policy().mode == DispatchMode::kStaticWorker && !naive::feasible_as_a_whole(state_, workflow)) {
      EXPECT_FALSE(warned.empty()) << "B-18: no worker can run all of " << id.to_string();
    }
    for (std::uint32_t i = 0; i < workflow.stages.size(); ++i) {
      if (workflow.template_of(workflow.tasks[workflow.stages[i].first]).gang) continue;
      if (!naive::feasible(state_, workflow, i, false)) {
        EXPECT_TRUE(warned.contains(i)) << "B-18: nobody can run stage " << i << " of " << id.to_string();
      }
      if (naive::feasible(state_, workflow, i, true)) {
        EXPECT_FALSE(warned.contains(i)) << "B-18: somebody can run stage " << i << " of " << id.to_string();
      }
    }
  }

  void before(const Event& event) {
    if (std::holds_alternative<ElasticPolled>(event)) active_least_ = naive::active_after_poll(state_);
    if (const auto* assigned = std::get_if<TaskAssigned>(&event)) return assignment(*assigned);
    if (const auto* stop = std::get_if<StopRequested>(&event);
        stop != nullptr && stop->reason == StopReason::kPreempt) {
      preemption(*stop);
    }
    if (const auto* recall = std::get_if<RecallRequested>(&event)) recalling(*recall);
    if (const auto* failed = std::get_if<TaskFailed>(&event);
        failed != nullptr && failed->kind == FailureKind::kUnplaceable) {
      nobody_could_run(failed->task);
    }
    if (const auto* changed = std::get_if<WorkerChanged>(&event)) {
      const Worker& worker = state_.at(changed->worker);
      EXPECT_FALSE(changed->change == WorkerChange::kDisabledElastic && held_.contains(worker.spec.name))
          << "B-17: an operator enabled " << worker.spec.name;
      EXPECT_FALSE(changed->change == WorkerChange::kEnabledElastic && worker.disabled_by_hand &&
                   state_.policy().elastic.enable)
          << "B-17: an operator disabled " << worker.spec.name;
    }
  }

  // B-7, B-14: a task fails as unplaceable only if no worker could ever run it, to whatever worker it was bound.
  void nobody_could_run(TaskId id) const {
    const Workflow& workflow = state_.at(id.workflow());
    const Task& task = workflow.tasks[id.index()];
    if (workflow.template_of(task).gang || !naive::fleet_has(state_, naive::needs_of(workflow, task))) return;
    state_.each_worker([&](const Worker& worker) {
      EXPECT_FALSE(naive::eligible(worker) && naive::could_ever_run(state_, worker, workflow, task))
          << "B-14: " << worker.spec.name << " could run " << id.to_string();
    });
  }

  void assignment(const TaskAssigned& assigned) {
    const Workflow& workflow = state_.at(assigned.task.workflow());
    const Task& task = workflow.tasks[assigned.task.index()];
    const Worker& worker = state_.at(assigned.worker);
    const std::string what = assigned.task.to_string() + " on " + worker.spec.name;
    EXPECT_TRUE(naive::may_run(state_, worker, workflow, task)) << "it may not run there: " << what;
    EXPECT_TRUE(naive::quota_allows(state_, workflow, task)) << "B-22: over its quota: " << what;
    EXPECT_TRUE(naive::fleet_allows(state_, naive::needs_of(workflow, task))) << "B-5: over the fleet: " << what;
    if (!assigned.queued && !naive::round_robin(state_)) {
      ResourceUse used;
      for (const Execution& execution : worker.executions) {
        if (!execution.queued) used.add(execution.held);
      }
      EXPECT_TRUE(naive::has_room(state_, worker, naive::needs_of(workflow, task), used)) << "B-6: no room: " << what;
    }
    EXPECT_TRUE(!naive::round_robin(state_) || worker.executions.empty()) << "B-7: it is not idle: " << what;
    std::set<TaskId> starts{assigned.task};
    for (const AttemptId& member : assigned.members) {
      starts.insert(member.task);
      const Workflow& of = state_.at(member.task.workflow());
      EXPECT_TRUE(mergeable_with(workflow, task, of, of.tasks[member.task.index()])) << "B-12: " << what;
    }
    nobody_left_behind(workflow, task, starts, what);
    reasoning(assigned, workflow, task, what);
    for (const TaskId id : starts) EXPECT_FALSE(paused_.contains(id)) << "B-19: it is paused: " << id.to_string();
    // B-23: nothing is decided over and over at one instant.
    const std::tuple key(assigned.task, worker.spec.name, state_.time_ns(), task.spent);
    EXPECT_LE(++again_[key], 3) << "again and again: " << what;
    if (workflow.template_of(task).gang) return;
    // B-4: no task starts before a higher one that could start as well.
    const std::int64_t priority = effective_priority(state_, task);
    state_.each_workflow([&](const Workflow& other) {
      for (const Task& higher : other.tasks) {
        if (!is_ready(higher) || other.template_of(higher).gang || starts.contains(other.id_of(higher))) continue;
        if (!goes_before(higher, task, priority)) continue;
        EXPECT_FALSE(naive::could_start_somewhere(state_, other, higher))
            << "B-4: " << what << " before " << other.id_of(higher).to_string();
        // B-4: nor while one that is ahead has waited for so long that it should have reserved a worker.
        const WorkerId only = naive::single_worker(state_, other, higher);
        if (!only.is_none() && only != assigned.worker) continue;  // It is not overtaken there.
        EXPECT_FALSE(effective_priority(state_, higher) > priority && naive::should_reserve(state_, other, higher))
            << "B-4: " << what << " overtakes " << other.id_of(higher).to_string();
      }
    });
  }

  void reasoning(const TaskAssigned& assigned, const Workflow& workflow, const Task& task, const std::string& what) {
    // B-9, H-2: the score is recorded, also with a single candidate.
    const Reasoning& why = assigned.reasoning;
    EXPECT_GT(why.throughput, 0) << "B-9: without a score: " << what;
    EXPECT_EQ(why.score, (why.lambda * why.throughput - (kOne - why.lambda) * why.cost) / kOne + why.jitter) << what;
    const Worker& worker = state_.at(assigned.worker);
    if (assigned.queued) {
      EXPECT_TRUE(naive::queue_has_room(state_, worker)) << "B-4: its queue is long: " << what;
    }
    if (!state_.policy().prefer_locality || naive::round_robin(state_) || workflow.template_of(task).gang) return;
    const Worker* near = naive::where_parent_ran(state_, workflow, task);
    if (near == nullptr || assigned.queued || !naive::could_start(state_, *near, workflow, task)) return;
    EXPECT_EQ(assigned.worker, near->id) << "prefer_locality: its parent ran on " << near->spec.name << ": " << what;
  }

  // B-4: a higher priority; B-25: with equal ones, a longer path, where no other rule comes in between.
  [[nodiscard]] bool goes_before(const Task& one, const Task& other, std::int64_t priority) const {
    const Policy& policy = state_.policy();
    if (effective_priority(state_, one) != priority) return effective_priority(state_, one) > priority;
    return policy.order == Order::kCriticalPath && !policy.fair_share && !policy.prefer_started &&
           one.path_ms > other.path_ms;
  }

  // B-4: only tasks that wait in the queue of their worker are recalled, for one that is ahead of them.
  void recalling(const RecallRequested& recall) const {
    const Task& task = state_.at(recall.task);
    const Task& ahead = state_.at(recall.for_task);
    EXPECT_TRUE(task.at_worker && !task.recalled()) << "B-4: " << recall.task.to_string() << " is not queued";
    EXPECT_GE(effective_priority(state_, ahead), effective_priority(state_, task))
        << "B-4: " << recall.for_task.to_string() << " is not ahead of " << recall.task.to_string();
    std::uint32_t before = 0;
    for (const Execution& execution : state_.at(task.worker).executions) {
      if (execution.has(recall.task)) break;
      before += execution.queued ? 1 : 0;
    }
    EXPECT_GE(before, state_.at(task.worker).slots()) << "B-4: one per slot stays: " << recall.task.to_string();
  }

  // B-12: tasks that differ only in data run as one execution, up to the bound.
  void nobody_left_behind(const Workflow& workflow, const Task& task, const std::set<TaskId>& starts,
                          const std::string& what) {
    const Policy& policy = state_.policy();
    if (!policy.merge || policy.mode != DispatchMode::kAdaptive ||
        starts.size() >= static_cast<std::size_t>(policy.merge_most)) {
      return;
    }
    const auto joins = [](const Task& one) {
      return one.spent == 0 && !one.alone && one.reserved().is_none() &&
             (one.extra == nullptr || one.extra->checkpoint.empty());
    };
    if (!joins(task)) return;
    state_.each_workflow([&](const Workflow& of) {
      for (const Task& other : of.tasks) {
        if (!is_ready(other) || starts.contains(of.id_of(other)) || !joins(other)) continue;
        if (!mergeable_with(workflow, task, of, other) || !state_.users()[of.user].limits.limits_nothing()) continue;
        if (naive::sticky_worker(state_, workflow, task) != naive::sticky_worker(state_, of, other)) continue;
        ADD_FAILURE() << "B-12: " << of.id_of(other).to_string() << " could join " << what;
      }
    });
  }

  static bool mergeable_with(const Workflow& a_of, const Task& a, const Workflow& b_of, const Task& b) {
    TaskTemplate x = a_of.template_of(a);
    TaskTemplate y = b_of.template_of(b);
    const bool program = x.spec.program.has_value();
    x.spec.inputs = y.spec.inputs;
    x.condition = y.condition;
    return x == y && x.mergeable && !x.gang && (!program || x.spec.program->batch) && a.spent == 0 && b.spent == 0;
  }

  void preemption(const StopRequested& stop) {
    const Workflow& workflow = state_.at(stop.for_task.workflow());
    const Task& task = workflow.tasks[stop.for_task.index()];
    const Task& victim = state_.at(stop.task);
    const Worker& where = state_.at(victim.worker);
    const std::string what = stop.task.to_string() + " for " + stop.for_task.to_string();
    EXPECT_TRUE(naive::may_run(state_, where, workflow, task)) << "B-22: it may not run there: " << what;
    EXPECT_LT(victim.priority, task.priority) << what;
    EXPECT_TRUE(naive::may_stop(state_, task, victim)) << "B-23: it was ahead when it was assigned: " << what;
    EXPECT_TRUE(state_.at(stop.task.workflow()).template_of(victim).preemptible) << what;
    ++victims_[stop.for_task];
    // One victim more than a single other one: there was no single one that would have been enough.
    const bool too_many = victims_[stop.for_task] == 2 && one_is_enough(where, workflow, task);
    EXPECT_FALSE(too_many) << "B-22: more than needed: " << what;
  }

  // B-4: nothing waits in the queue of the worker that should have been recalled for the task.
  void recalled_for(const Workflow& workflow, const Task& task) const {
    if (!naive::quota_allows(state_, workflow, task) || !naive::fleet_allows(state_, naive::needs_of(workflow, task)))
      return;
    state_.each_worker([&](const Worker& worker) {
      const TaskId late = naive::should_be_recalled(state_, worker, effective_priority(state_, task));
      if (late.is_none() || !naive::may_run(state_, worker, workflow, task)) return;
      ADD_FAILURE() << "B-4: " << late.to_string() << " is not recalled for " << workflow.id_of(task).to_string();
    });
  }

  // Whether stopping one task alone would have made room on this worker, before the stops of this record.
  bool one_is_enough(const Worker& worker, const Workflow& workflow, const Task& task) const {
    if (naive::round_robin(state_) || worker.reserved.size() > 1) return false;
    ResourceUse used;
    for (const Execution& execution : worker.executions) used.add(execution.held);
    for (const Execution& execution : worker.executions) {
      const Task& victim = state_.at(execution.members.front());
      const bool stopped_before = victim.stopping && !stopped_now_.contains(execution.members.front());
      if (stopped_before) used.subtract(execution.held);
    }
    return std::any_of(worker.executions.begin(), worker.executions.end(), [&](const Execution& execution) {
      const TaskId id = execution.members.front();
      const Task& victim = state_.at(id);
      if (execution.members.size() != 1 || victim.priority >= task.priority || victim.state != TaskState::kRunning ||
          (victim.stopping && !stopped_now_.contains(id)) || !naive::may_stop(state_, task, victim) ||
          !state_.at(id.workflow()).template_of(victim).preemptible) {
        return false;
      }
      ResourceUse less = used;
      less.subtract(execution.held);
      return naive::has_room(state_, worker, naive::needs_of(workflow, task), less);
    });
  }

  void after(const Event& event) {
    if (const auto* assigned = std::get_if<TaskAssigned>(&event)) {
      const Worker& worker = state_.at(assigned->worker);
      assigned_in_[assigned->task] = state_.globals().index;
      for (const AttemptId& member : assigned->members) assigned_in_[member.task] = state_.globals().index;
      std::set<std::uint32_t> users{state_.at(assigned->task.workflow()).user};
      for (const AttemptId& member : assigned->members) users.insert(state_.at(member.task.workflow()).user);
      for (const std::uint32_t user : users) {
        EXPECT_TRUE(naive::within_quota(state_, user, naive::used_by(state_, user)))
            << "B-22: the quota of " << state_.users()[user].name;
      }
      for (const auto& [reserving, where] : kept_) {
        if (where == worker.id && is_ready(state_.at(reserving))) still_fits(worker, reserving);
      }
    } else if (const auto* paused = std::get_if<TaskPaused>(&event)) {
      paused_.insert(paused->task);
    } else if (const auto* stop = std::get_if<StopRequested>(&event)) {
      stopped_now_.insert(stop->task);
      if (stop->reason == StopReason::kPreempt) kept_[stop->for_task] = state_.at(stop->task).worker;
    } else if (const auto* room = std::get_if<RoomReserved>(&event); room != nullptr && room->worker.is_none()) {
      kept_.erase(room->task);
    }
    // Room is kept for a task while it is ready, at a worker that takes tasks.
    std::erase_if(kept_, [&](const auto& entry) {
      const Task* task = state_.find(entry.first);
      const Worker* worker = state_.find(entry.second);
      return task == nullptr || !is_ready(*task) || worker == nullptr || !worker->enabled();
    });
  }

  // B-22: the room that was made for a task is still there for it.
  void still_fits(const Worker& worker, TaskId id) const {
    const Workflow& workflow = state_.at(id.workflow());
    if (naive::round_robin(state_)) {
      EXPECT_TRUE(worker.executions.size() <= 1) << "the room of " << id.to_string() << " was taken";
      return;
    }
    ResourceUse used;
    for (const Execution& execution : worker.executions) {
      const auto stops = [&](TaskId member) { return state_.at(member).stopping; };
      if (!std::all_of(execution.members.begin(), execution.members.end(), stops)) used.add(execution.held);
    }
    EXPECT_TRUE(naive::has_room(state_, worker, naive::needs_of(workflow, workflow.tasks[id.index()]), used))
        << "B-22: the room of " << id.to_string() << " on " << worker.spec.name << " was taken";
  }

  void at_rest(const Record& record) {
    victims_.clear();
    stopped_now_.clear();
    if (record.wall_ns != last_ns_) again_.clear();
    last_ns_ = record.wall_ns;
    state_.each_workflow([&](const Workflow& workflow) {
      for (const Task& task : workflow.tasks) {
        if (graph::is_terminal(task.state)) paused_.erase(workflow.id_of(task));
        if (!is_ready(task) || workflow.template_of(task).gang) continue;
        EXPECT_FALSE(naive::could_start_somewhere(state_, workflow, task))
            << "it could start, and waits: " << workflow.id_of(task).to_string();
        recalled_for(workflow, task);
      }
      if (!workflow.bound.is_none()) bound_to(workflow.bound);
    });
    for (const auto& [type, worker] : state_.globals().type_owner) bound_to(worker);
    if (state_.policy().elastic.enable) return;
    state_.each_worker([&](const Worker& worker) {
      EXPECT_FALSE(worker.disabled_elastic) << "B-17: the coordinator is off: " << worker.spec.name;
    });
  }

  void bound_to(WorkerId id) const {
    const Worker* worker = state_.find(id);
    ASSERT_NE(worker, nullptr) << "B-7: bound to a worker that is gone";
    EXPECT_TRUE(worker->enabled()) << "B-7: bound to " << worker->spec.name << ", which takes no tasks";
  }

  State state_;
  std::string instant_;
  std::set<TaskId> paused_;                      // By a user, and not resumed.
  std::set<std::string> held_;                   // Workers that an operator enabled.
  std::map<TaskId, std::uint64_t> assigned_in_;  // The record that assigned its latest attempt.
  std::map<TaskId, int> victims_;
  std::set<TaskId> stopped_now_;
  std::map<TaskId, WorkerId> kept_;  // For whom tasks were stopped where.
  std::optional<std::pair<TaskId, std::uint32_t>> spent_before_;
  std::map<std::tuple<TaskId, std::string, std::int64_t, std::uint32_t>, int> again_;  // Without a failure in between.
  std::optional<std::int64_t> active_least_;  // Workers that are enabled at least after the coordinator has acted.
  std::int64_t last_ns_ = 0;
};

class Match {
 public:
  explicit Match(std::uint64_t seed) : adversary_(seed) {}

  void play(int steps) {
    for (int i = 0; i < steps && going(); ++i) {
      execute(adversary_.next(brain_));
      answer_refusals();
    }
    if (going()) settle_down();
    if (going()) decide_again();
  }

 private:
  static bool going() { return !::testing::Test::HasFailure(); }

  void execute(Command command) {
    // A brain that knows only the snapshot decides the same, whether anything follows from the command or not.
    Result<Brain> restored = Brain::restore(brain_.snapshot());
    ASSERT_TRUE(restored.ok()) << restored.error().message;
    const Hash128 hash = brain_.hash();
    const std::int64_t now = std::max(adversary_.now_ns(), latest_ns_);
    latest_ns_ = now;
    Record twin;
    const Result<void> again = restored->execute(Command(command), now, twin);
    const std::string text = to_text(command);
    Result<Record> record = brain_.execute(std::move(command), adversary_.now_ns());
    ASSERT_EQ(again.ok(), record.ok()) << text;
    if (!record.ok() || record->index == 0) {
      EXPECT_EQ(brain_.hash(), hash) << "refused, and yet it changed something: " << text;
      EXPECT_EQ(twin.events.size(), 0U) << "B-21: after a restore something follows from " << text;
      return;
    }
    std::string bytes;
    chain_ = encode_record(*record, chain_, bytes);
    std::string theirs;
    Hash128 before = chains_.empty() ? first_chain() : chains_.back();
    twin.term = record->term;
    encode_record(twin, before, theirs);
    EXPECT_EQ(bytes, theirs) << "B-21: after a restore it is decided otherwise: " << text << events_of(*record)
                             << "\n  and after the restore" << events_of(twin);
    chains_.push_back(chain_);
    if (std::getenv("ROTA_ADVERSARY_TRACE") != nullptr) {
      std::fprintf(stderr, "%llu %s%s\n", static_cast<unsigned long long>(record->index), text.c_str(),
                   events_of(*record).c_str());
    }
    brain_.check_invariants();
    checker_.see(*record);
    EXPECT_EQ(checker_.state().hash(), brain_.hash()) << "a follower differs: " << text;
    if (!going()) ADD_FAILURE() << "at record " << record->index << ": " << text << events_of(*record);
    log_.push_back(std::move(*record));
  }

  static std::string events_of(const Record& record) {
    std::string text;
    for (const Event& event : record.events) text += "\n    " + to_text(event);
    return text;
  }

  // Workers that refuse do so at once, at the same instant.
  void answer_refusals() {
    for (int round = 0; round < 200 && going(); ++round) {
      TaskId given;
      brain_.state().each_worker([&](const Worker& worker) {
        if (given.is_none() && adversary_.refuses(worker.spec.name) && !worker.executions.empty()) {
          given = worker.executions.front().members.front();
        }
      });
      if (given.is_none()) return;
      ASSERT_LT(round, 150) << "B-23: assigned and refused again and again at one instant";
      execute(ReportUndeliverable{given, brain_.state().at(given).attempt});
    }
  }

  // B-23. Nothing changes any more, and workers answer well. The bound: each round ends all that runs, so that there
  // are at most as many rounds with running tasks as tasks; without running tasks only timers are waited for.
  void settle_down() {
    adversary_.stop_refusing();
    const Policy& policy = brain_.state().policy();
    const std::int64_t waits_ms = policy.no_worker_grace_ms + 2 * policy.elastic.poll_ms + policy.elastic.cooldown_ms +
                                  policy.undeliverable_backoff_ms + 60'000;
    const std::uint64_t bound = 4 * brain_.state().unfinished_tasks() + 20;
    std::uint64_t rounds = 0;
    std::int64_t idle_ms = 0;
    give_back_recalled();
    while (rounds < bound && idle_ms < waits_ms && going()) {
      adversary_.pass(1'000);
      execute(adversary_.everyone_alive());
      execute(Tick());
      if (!going()) return;
      std::vector<std::pair<TaskId, AttemptNumber>> running;
      brain_.state().each_worker([&](const Worker& worker) {
        for (const Execution& execution : worker.executions) {
          if (execution.queued) continue;
          for (const TaskId id : execution.members) {
            if (brain_.state().at(id).state == TaskState::kRunning)
              running.emplace_back(id, brain_.state().at(id).attempt);
          }
        }
      });
      if (running.empty()) {
        // Nothing happens until the next timer.
        const std::int64_t wait_ms = (brain_.next_due_ns() - adversary_.now_ns()) / 1'000'000;
        if (wait_ms > waits_ms) break;
        idle_ms += 1'000 + std::max<std::int64_t>(wait_ms, 0);
        adversary_.pass(std::max<std::int64_t>(wait_ms, 0));
        continue;
      }
      ++rounds;
      for (const auto& [id, attempt] : running) {
        ReportEnded report{id, attempt, {}};
        if (brain_.state().at(id).attempt != attempt) continue;
        report.outcome.end = brain_.state().at(id).stopping ? AttemptEnd::kCancelled : AttemptEnd::kSucceeded;
        report.outcome.started_ns = adversary_.now_ns();
        report.outcome.result = "{\"n\":7}";
        execute(std::move(report));
        if (!going()) return;
      }
    }
    brain_.state().each_workflow([&](const Workflow& workflow) {
      for (const Task& task : workflow.tasks) {
        if (!is_ready(task)) continue;
        EXPECT_FALSE(naive::could_start_one_day(brain_.state(), workflow, task) && !blocked_by_paused(workflow, task))
            << "B-23: it never starts: " << workflow.id_of(task).to_string();
      }
    });
    if (!going()) ADD_FAILURE() << state_text();
  }

  // Workers give back what was recalled and has not started.
  void give_back_recalled() {
    std::vector<std::pair<TaskId, AttemptNumber>> recalled;
    brain_.state().each_worker([&](const Worker& worker) {
      for (const Execution& execution : worker.executions) {
        const TaskId id = execution.members.front();
        if (execution.queued && brain_.state().at(id).recalled())
          recalled.emplace_back(id, brain_.state().at(id).attempt);
      }
    });
    for (const auto& [id, attempt] : recalled) {
      ReportEnded report{id, attempt, {}};
      report.outcome.end = AttemptEnd::kPreempted;
      execute(std::move(report));
      if (!going()) return;
    }
  }

  // A paused task that runs keeps what it holds, and so does one that its gang waits for.
  [[nodiscard]] bool blocked_by_paused(const Workflow& workflow, const Task& task) const {
    bool held = false;
    brain_.state().each_worker([&](const Worker& worker) { held = held || !worker.executions.empty(); });
    if (held) return true;
    // A workflow owns its worker until its last task ends, also while that is paused (B-7).
    bool owned = false;
    brain_.state().each_worker(
        [&](const Worker& worker) { owned = owned || (!worker.owner.is_none() && worker.owner != workflow.id); });
    if (owned) return true;
    if (!workflow.template_of(task).gang) return false;
    const StageState& stage = workflow.stages[task.stage];
    for (const std::uint32_t t : stage.tasks()) {
      if (workflow.tasks[t].state != TaskState::kReady && workflow.tasks[t].state != TaskState::kSucceeded) return true;
    }
    return false;
  }

  [[nodiscard]] std::string state_text() const {
    std::string text = "mode " + std::string(to_string(brain_.state().policy().mode));
    brain_.state().each_worker([&](const Worker& worker) {
      text += "\n  " + worker.spec.name + " " + std::string(to_string(worker.status(0))) + " runs " +
              std::to_string(worker.executions.size()) + " " + to_text(worker.spec.resources);
    });
    brain_.state().each_workflow([&](const Workflow& workflow) {
      for (const Task& task : workflow.tasks) {
        if (graph::is_terminal(task.state)) continue;
        text += "\n  " + workflow.id_of(task).to_string() + " " + std::string(graph::to_string(task.state)) +
                " needs " + to_text(workflow.template_of(task).needs);
        if (is_ready(task)) text += ": " + explain(brain_.state(), workflow.id_of(task))->sentence;
      }
    });
    return text;
  }

  void decide_again() {
    Brain second;
    for (const Record& record : log_) {
      const Result<void> same = second.verify(record);
      ASSERT_TRUE(same.ok()) << "B-1: " << same.error().message;
    }
    EXPECT_EQ(second.hash(), brain_.hash());
  }

  Adversary adversary_;
  Brain brain_;
  Checker checker_;
  std::vector<Record> log_;
  std::vector<Hash128> chains_;
  Hash128 chain_ = first_chain();
  std::int64_t latest_ns_ = 0;
};

// Contract: B-9. Equal workers get even shares of tasks that all of them could take.
void even_shares(std::uint64_t seed) {
  Prng prng(seed);
  const std::uint64_t workers = 2 + prng.below(150);
  Brain brain;
  Policy policy;
  policy.selection = prng.chance(1, 2) ? Selection::kScore : Selection::kRandom;
  ASSERT_TRUE(brain.execute(SetPolicy{policy}, 1).ok());
  for (std::uint64_t i = 0; i < workers; ++i) {
    WorkerSpec spec;
    spec.name = Adversary::name_of(i);
    ASSERT_TRUE(brain.execute(RegisterWorker{spec, {}, {}}, 1).ok());
  }
  SubmitWorkflow submit;
  TaskTemplate& use = submit.workflow.templates.emplace_back();
  use.spec.program = ProgramSpec{.shell = "true"};
  use.needs.cpu_millis = 0;
  Stage& stage = submit.workflow.stages.emplace_back();
  stage.name = "s";
  stage.items.assign(20 * workers, "{}");
  std::map<WorkerId, double> counts;
  const Record record = brain.execute(submit, 1).value();
  for (const Event& event : record.events) {
    if (const auto* assigned = std::get_if<TaskAssigned>(&event)) ++counts[assigned->worker];
  }
  double sum = static_cast<double>(workers - counts.size()) * 20;
  for (const auto& [worker, count] : counts) sum += (count - 20) * (count - 20) / 20;
  const auto degrees = static_cast<double>(workers - 1);
  EXPECT_LT(sum, degrees + 5 * std::sqrt(2 * degrees) + 15) << workers << " equal workers";
}

// Contract: B-1, B-4 to B-7, B-11, B-12, B-14, B-17, B-19, B-21 to B-23.
TEST(Adversary, NothingBreaks) {
  const std::uint64_t first = number_from("ROTA_ADVERSARY_FIRST", 1);
  const std::uint64_t count = number_from("ROTA_ADVERSARY_SEEDS", kSeeds);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Match(seed).play(120);
    if (seed % 20 == 0) even_shares(seed);
    if (HasFailure()) return;
  }
}

// Contract: B-1, B-4, B-23. Seeds of longer runs that found a defect:
// 9992, 57847, 16103: bindings that were released in an order that depended on the history, and room that was kept
// where
//   its task could not start, because the worker belonged to another workflow;
// 12135, 22702: a worker that waited for a task that another one got took a later one like it, not the next one in the
//   order (scenarios/ready_order_many.txt);
// 11032: a task that had aged was started and preempted in one record, again and again (preemption_order.txt);
// 216: with a grace period of 0, a task failed before its binding to a worker that could not run it was released.
TEST(Adversary, WhatFailedOnce) {
  for (const std::uint64_t seed : {9992U, 57847U, 16103U, 12135U, 22702U, 11032U, 216U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Match(seed).play(120);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace rota::fleet

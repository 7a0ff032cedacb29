// State: everything that the brain knows, as a function of the events that were applied.
//
// The state has two parts. Its *data* (the structs with ROTA_FIELDS) is what a snapshot contains and what the state's
// hash covers. Its *placement index* (placement_index.h) is derived from the data. Decisions depend on the data alone:
// an index that is rebuilt from a snapshot leads to the same decisions.
//
// Cost: applying an event touches only what the event names. The state's hash is a sum over entities. It is updated
// incrementally: the old hash of an entity is subtracted when a record first changes it, and the new one is added when
// the record ends.
//
// Invariants: see check_invariants() in invariants.cc.
// Thread safety: none; one owner.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "fleet/command.h"
#include "fleet/event.h"
#include "fleet/placement_index.h"
#include "fleet/plan.h"
#include "fleet/run_times.h"
#include "rota/assert.h"
#include "rota/graph/dag.h"
#include "rota/graph/task.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::fleet {

using graph::TaskState;

// It counts for Stage::parallel.
template <class AnyTask>
[[nodiscard]] bool uses_slot(const AnyTask& task) {
  return task.state == TaskState::kReady || task.state == TaskState::kRunning ||
         (task.state == TaskState::kPaused && task.paused_from == TaskState::kRunning);
}

// It is in an execution.
template <class AnyTask>
[[nodiscard]] bool runs(const AnyTask& task) {
  return task.state == TaskState::kRunning ||
         (task.state == TaskState::kPaused && task.paused_from == TaskState::kRunning);
}

// Rare fields, allocated on demand.
struct TaskExtra {
  std::string result{};      // JSON; empty is null.
  std::string checkpoint{};  // JSON; empty is null.
  std::string message{};     // Of the last failure.
  FailureKind kind = FailureKind::kError;
  TaskId root{};                      // The task whose failure or cancellation ended this one; none: its own.
  std::vector<WorkerId> failed_on{};  // Sorted.
  std::int64_t memory_bytes = 0;      // Requested instead of the template's, after it was killed for memory; 0: not.
  std::int64_t due_ns = 0;            // It waits until then for its next attempt; 0: it does not.
  bool reused = false;                // Its result is that of an earlier success (`cache`).
  std::string cache_note{};           // Why its last attempt was run or not, if its stage has `cache`.
  WorkerId reserved{};                // Room is kept for it there while it is ready (B-22); none: nowhere.
  std::vector<model::StoredFile> outputs{};  // Its files, which are stored (U-6).
  ROTA_FIELDS(result, checkpoint, message, kind, root, failed_on, memory_bytes, due_ns, reused, cache_note, reserved,
              outputs)
};

// Times are wall times. Those of an attempt are as its worker reported them, bounded by what the brain knows:
// assigned_ns <= started_ns <= ended_ns <= time of the record.
struct TaskData {
  TaskState state = TaskState::kQueued;
  TaskState paused_from = TaskState::kQueued;
  bool skipped = false;    // kSucceeded without having run.
  bool at_worker = false;  // Assigned, and waits there for resources.
  bool stopping = false;   // Its worker was told to stop it; `stop` says why.
  bool deferred = false;   // It was recorded that it waits for its parent's worker.
  bool alone = false;      // An execution into which it was merged failed as a whole: it is not merged again.
  StopReason stop = StopReason::kCancel;  // kRecall without `stopping`: see recalled().
  std::uint32_t stage = 0;
  AttemptNumber attempt{};    // Of the latest assignment. Fences reports.
  std::uint32_t spent = 0;    // Attempts that count against max_attempts.
  WorkerId worker{};          // Where it runs, or ran last.
  std::int64_t since_ns = 0;  // Ready since; kept when it is requeued, so that it keeps its place in the order.
  std::int64_t assigned_ns = 0;
  std::int64_t started_ns =
      0;                      // Of the attempt that ended it; 0: the attempt did not start, or its worker did not say.
  std::int64_t ended_ns = 0;  // Set while it is terminal.
  std::uint64_t assigned_in = 0;  // The index of the record with the latest assignment.
  std::int32_t priority = 0;
  // Order::kCriticalPath: from its start to the end of its workflow, as it was known when the task became ready.
  std::uint32_t path_ms = 0;
  ROTA_FIELDS(state, paused_from, skipped, at_worker, stopping, deferred, alone, stop, stage, attempt, spent, worker,
              since_ns, assigned_ns, started_ns, ended_ns, assigned_in, priority, path_ms)

  // Its worker was asked to give it back if it has not started there.
  [[nodiscard]] bool recalled() const { return !stopping && stop == StopReason::kRecall; }
};

struct Task : TaskData {
  ShapeRef shape = kNoShape;  // PlacementIndex.
  std::uint32_t stamp = 0;    // PlacementIndex: which entry of the ready queues is the valid one.
  std::unique_ptr<TaskExtra> extra{};
  Hash128 hash{};  // As it is in the state's hash.
  bool dirty = false;

  // When its next attempt is due; 0: it does not wait for one.
  [[nodiscard]] std::int64_t due_ns() const { return extra == nullptr ? 0 : extra->due_ns; }
  // The worker that keeps room for it; none if none does.
  [[nodiscard]] WorkerId reserved() const { return extra == nullptr ? WorkerId() : extra->reserved; }
};

struct WorkflowData {
  WorkflowId id{};
  std::string key{};
  std::int64_t priority = 0;
  Outcome outcome = Outcome::kRunning;
  bool started = false;  // One of its tasks was assigned.
  WorkerId bound{};      // Binding::kWorkflow: the worker that runs all of it.
  std::int64_t submitted_ns = 0;
  std::int64_t ended_ns = 0;
  std::uint32_t unfinished = 0;          // Tasks that are not terminal.
  std::uint64_t accepted_in = 0;         // The index of the record that accepted it.
  StopCause stopped = StopCause::kNone;  // Why it ends early, if it does. A retry clears it.
  std::int64_t deadline_ns = 0;          // When it is stopped if it has not ended; 0: never. A retry moves it.
  ROTA_FIELDS(id, key, priority, outcome, started, bound, submitted_ns, ended_ns, unfinished, accepted_in, stopped,
              deadline_ns)
};

// How far the stages are that are not of `finally`.
struct MainTasks {
  std::uint32_t open = 0;       // Tasks that have not ended,
  std::uint32_t failed = 0;     // have failed
  std::uint32_t cancelled = 0;  // or were cancelled.
  // How they have ended. REQUIRES: open == 0.
  [[nodiscard]] Outcome outcome() const {
    return failed > 0 ? Outcome::kFailed : cancelled > 0 ? Outcome::kCancelled : Outcome::kSucceeded;
  }
  bool operator==(const MainTasks&) const = default;
};

struct Workflow : WorkflowData {
  WorkflowSpec spec{};
  Hash128 spec_hash{};
  graph::Dag dag{};  // Of stages; a stage's number is its TaskRef - 1.
  std::vector<StageState> stages{};
  std::vector<Task> tasks{};
  std::vector<TemplateInfo> templates{};
  // Order::kCriticalPath: by stage, the longest path from its end to the end of the workflow. Data: it depends on what
  // was known when it was computed.
  std::vector<std::int64_t> tails{};
  Hash128 tails_hash{};
  std::uint32_t user = 0;  // In State::users().
  std::uint32_t running = 0;
  std::vector<std::uint32_t> finally{};  // The stages of `finally`.
  MainTasks main{};
  std::map<std::uint32_t, StageSlots> slots{};  // Of the stages with `parallel`.
  std::vector<ItemLink> links{};                // By child.
  Hash128 hash{};
  bool dirty = false;

  [[nodiscard]] const TaskTemplate& template_of(const Task& task) const {
    return spec.templates[static_cast<std::size_t>(spec.stages[task.stage].use)];
  }
  [[nodiscard]] const TemplateInfo& info_of(const Task& task) const {
    return templates[static_cast<std::size_t>(spec.stages[task.stage].use)];
  }
  [[nodiscard]] TaskId id_of(const Task& task) const { return {id, static_cast<std::uint32_t>(&task - tasks.data())}; }
  // "train", or "train[3]" in a stage of several tasks.
  [[nodiscard]] std::string name_of(const Task& task) const;
  // The stage runs after what has ended before it (Stage::when). REQUIRES: its StageState::waits is 0.
  [[nodiscard]] bool applies(std::uint32_t stage) const;
  // The link between the stages, if `child` needs `parent` by item; otherwise null.
  [[nodiscard]] const ItemLink* link_of(std::uint32_t child, std::uint32_t parent) const;
  // A task with the same values, of a stage that its stage needs by item, has not succeeded.
  [[nodiscard]] bool waits_for_items(const Task& task) const;
  // The link by which the task needs a counterpart that does not exist; null: there is none.
  [[nodiscard]] const ItemLink* unmatched(const Task& task) const;
  // The task stands for all tasks of its stage, whose items are not known yet (fan_out.cc).
  [[nodiscard]] bool is_placeholder(const Task& task) const;
  [[nodiscard]] bool items_known(std::uint32_t stage) const;
  // It belongs to an earlier expansion of its stage, which was expanded again, or will be. It counts for nothing.
  [[nodiscard]] bool is_withdrawn(const Task& task) const {
    return !stages[task.stage].has(static_cast<std::uint32_t>(&task - tasks.data()));
  }
};

// One execution at a worker: a task, or several that were merged.
struct Execution {
  // The task that was chosen. It may have ended, and even run again elsewhere, while other members still run.
  TaskId lead{};
  std::vector<TaskId> members{};  // Those that have not ended, in the order of the assignment. Not empty.
  ResourceUse held{};             // While it is queued: what it will hold, without devices.
  Amounts fleet{};                // Named resources of the whole fleet (Policy::fleet), held from the assignment on.
  bool queued = false;            // Holds nothing of its worker yet.
  bool merged = false;            // It began with several members.
  // What it adds to the time that the queue of its worker is expected to take: at most Policy::queue_most_ms. 0: it was
  // not queued.
  std::int64_t expected_ns = 0;
  ROTA_FIELDS(lead, members, held, fleet, queued, merged, expected_ns)

  // Each of its members counts in the quota of its user for what the execution holds of its worker and of the fleet.
  void count_in(FleetUse& used) const {
    used.add(held);
    if (!fleet.named.empty()) used.Amounts::add(fleet);
  }
  void count_out(FleetUse& used) const {
    used.subtract(held);
    if (!fleet.named.empty()) used.Amounts::subtract(fleet);
  }
  [[nodiscard]] bool has(TaskId task) const { return std::find(members.begin(), members.end(), task) != members.end(); }
};

enum class WorkerStatus : std::uint8_t { kIdle, kBusy, kOverloaded, kDraining, kUnreachable, kDisabled, kLeft };
std::string_view to_string(WorkerStatus status);

struct WorkerData {
  WorkerId id{};
  WorkerSpec spec{};
  bool reachable = true;
  bool draining = false;
  bool left = false;
  bool disabled_by_hand = false;
  bool enabled_by_hand = false;  // The elastic coordinator leaves it enabled.
  bool disabled_elastic = false;
  bool refusing = false;                // An assignment did not reach it: it gets no task until the backoff is over.
  std::vector<Execution> executions{};  // In the order of their assignment.
  std::vector<CacheItem> caches{};      // By item.
  WorkflowId owner{};                   // Binding::kWorkflow: the workflow that it works for.
  std::int64_t seen_ns = 0;             // When it registered or came back; the host knows when it was last heard from.
  std::int64_t idle_since_ns = 0;
  std::int64_t toggled_ns = 0;      // When the elastic coordinator last enabled or disabled it; 0: never.
  std::int64_t gone_ns = 0;         // When it began to drain, became unreachable or left; the latest of these.
  std::int64_t refused_ns = 0;      // When it last became `refusing`.
  std::uint64_t registered_in = 0;  // The index of the record of its latest registration.
  std::uint32_t slot = 0;           // Its place among the workers of its kind.
  // Its latest incarnations, the present one last; empty if it never gave one. A message of an earlier incarnation may
  // still be in flight and must not be taken for a restart. Incarnations are compared for equality only: a clock that
  // is set back may make a later one smaller.
  std::vector<Incarnation> lives{};
  ROTA_FIELDS(id, spec, reachable, draining, left, disabled_by_hand, enabled_by_hand, disabled_elastic, refusing,
              executions, caches, owner, seen_ns, idle_since_ns, toggled_ns, gone_ns, refused_ns, registered_in, slot,
              lives)

  static constexpr std::size_t kMostCaches = 1024;

  static constexpr std::size_t kMostLives = 8;
  // Its present incarnation; none if it never gave one.
  [[nodiscard]] Incarnation incarnation() const { return lives.empty() ? Incarnation() : lives.back(); }
  // True if this is its present incarnation.
  [[nodiscard]] bool lives_as(Incarnation incarnation) const {
    return !incarnation.is_none() && !lives.empty() && lives.back() == incarnation;
  }
  // True if this is its present incarnation or one of the latest before it.
  [[nodiscard]] bool lived_as(Incarnation incarnation) const {
    return !incarnation.is_none() && std::find(lives.begin(), lives.end(), incarnation) != lives.end();
  }
};

struct Worker : WorkerData {
  std::uint32_t kind = 0;          // PlacementIndex.
  ResourceUse used{};              // The sum over the executions that are not queued.
  std::uint32_t queued = 0;        // Executions that are queued.
  std::int64_t queued_ns = 0;      // The sum of what these are expected to take.
  std::int64_t recall_due_ns = 0;  // PlacementIndex: when its timer for a recall is due; 0: none is set.
  Hash128 spec_hash{};
  std::vector<TaskId> reserved{};  // Ready tasks for which it keeps room. Sorted.
  SetHash execution_set{};         // Sums of hashes, so that a change of one element costs one hash.
  SetHash cache_set{};
  Hash128 hash{};
  bool dirty = false;

  // It takes a task if that fits. Draining, disabled, unreachable and refusing workers take none.
  [[nodiscard]] bool takes_tasks() const { return enabled() && !refusing; }
  // It takes tasks, or will when its backoff is over.
  [[nodiscard]] bool enabled() const { return live() && !disabled_by_hand && !disabled_elastic; }
  // It takes tasks, or would if it were enabled.
  [[nodiscard]] bool live() const { return reachable && !draining && !left; }
  // It takes tasks, or may take some without an operator's help: the coordinator may enable it.
  [[nodiscard]] bool eligible() const { return live() && !disabled_by_hand; }
  [[nodiscard]] WorkerStatus status(std::int64_t max_queue) const;
  [[nodiscard]] std::uint32_t depth() const { return static_cast<std::uint32_t>(executions.size()); }
  // Executions that run at once there now: at least one.
  [[nodiscard]] std::uint32_t slots() const { return std::max(1U, depth() - queued); }
  // Its queue takes one task more: one per slot, or as many as are expected to be finished in `most_ns`.
  [[nodiscard]] bool queue_open(std::int64_t most_count, std::int64_t most_ns) const {
    return queued < most_count && queued_ns < most_ns * static_cast<std::int64_t>(slots());
  }
};

struct UserData {
  std::string name{};
  std::int64_t weight = 1;
  FleetUse limits{};
  ROTA_FIELDS(name, weight, limits)
};
struct User : UserData {
  // The sum over the user's tasks that are assigned: also those that are queued at a worker, and those that were merged
  // into an execution, each as if it ran alone (B-22).
  FleetUse used{};
  Hash128 hash{};
  bool dirty = false;
};

// What belongs to no other entity.
struct Globals {
  Policy policy{};
  std::uint64_t index = 0;   // The last record's.
  std::int64_t logical = 0;  // The last record's.
  std::int64_t now_ns = 0;   // The latest wall time; never goes back.
  WorkflowId last_workflow{};
  WorkerId last_worker{};
  WorkerId last_assigned{};  // For round robin.
  std::int64_t elastic_polled_ns = 0;
  std::map<std::string, WorkerId> type_owner{};  // Binding::kType: the worker of each type.
  RunTimes run_times{};
  std::map<std::string, Schedule> schedules{};
};

// Selection::kCustom: chooses one of `candidates` (in the order of their ids, at least two) for the task. It must be
// pure, and the same function when the log is verified: it is part of the program, not of the state.
class State;
using Selector = WorkerId (*)(const State& state, TaskId task, const std::vector<WorkerId>& candidates);

class State {
 public:
  State();
  State(State&&) noexcept;
  State& operator=(State&&) noexcept;
  ~State();

  // --- Reading ---
  [[nodiscard]] const Globals& globals() const { return globals_; }
  [[nodiscard]] const Policy& policy() const { return globals_.policy; }
  [[nodiscard]] std::int64_t time_ns() const { return globals_.now_ns; }
  [[nodiscard]] const Workflow* find(WorkflowId id) const { return lookup(id); }
  [[nodiscard]] const Task* find(TaskId id) const { return lookup(id); }
  [[nodiscard]] const Worker* find(WorkerId id) const { return lookup(id); }
  [[nodiscard]] const Worker* find_worker(std::string_view name) const;
  [[nodiscard]] const Workflow* find_key(std::string_view key) const;
  // REQUIRES: it exists.
  [[nodiscard]] const Workflow& at(WorkflowId id) const {
    const Workflow* workflow = lookup(id);
    ROTA_ASSERT(workflow != nullptr, "no such workflow", id);
    return *workflow;
  }
  [[nodiscard]] const Task& at(TaskId id) const {
    const Task* task = lookup(id);
    ROTA_ASSERT(task != nullptr, "no such task", id.to_string());
    return *task;
  }
  [[nodiscard]] const Worker& at(WorkerId id) const {
    const Worker* worker = lookup(id);
    ROTA_ASSERT(worker != nullptr, "no such worker", id);
    return *worker;
  }
  [[nodiscard]] const std::vector<User>& users() const { return users_; }
  // Calls f for each one that exists, in the order of ids.
  template <class F>
  void each_worker(F&& f) const {
    for (const auto& worker : workers_) {
      if (worker != nullptr) f(*worker);
    }
  }
  template <class F>
  void each_workflow(F&& f) const {
    for (const auto& workflow : workflows_) {
      if (workflow != nullptr) f(*workflow);
    }
  }
  [[nodiscard]] const PlacementIndex& placement() const { return placement_; }
  [[nodiscard]] PlacementIndex& placement() { return placement_; }
  [[nodiscard]] Selector selector() const { return selector_; }
  void use_selector(Selector pure) { selector_ = pure; }
  [[nodiscard]] std::uint64_t unfinished_tasks() const { return unfinished_; }
  [[nodiscard]] std::uint64_t ready_tasks() const { return placement_.ready_tasks(); }
  [[nodiscard]] std::uint32_t live_workers() const { return live_workers_; }
  // What the executions hold of the named resources of the whole fleet.
  [[nodiscard]] const Amounts& fleet_used() const { return fleet_used_; }
  // Ready tasks for which a worker keeps room.
  [[nodiscard]] const std::set<TaskId>& reserving() const { return reserving_; }
  // How long the task is expected to run on a mean worker: by earlier runs of the same task, of its type, or by its
  // hint; none if nothing is known (B-25).
  [[nodiscard]] std::optional<std::int64_t> known_run_ns(const Workflow& workflow, const Task& task) const;
  // The hash of the data. Valid between records.
  [[nodiscard]] Hash128 hash() const;

  // --- Changing ---
  // Begins a record and advances the time. For a Tick, timers that are due are moved to fired().
  void begin(std::uint64_t index, std::int64_t logical, std::int64_t wall_ns, const Command& command);
  // The plan of the workflow that the next WorkflowAccepted accepts. Without it, apply() plans the workflow itself.
  void use_plan(WorkflowPlan plan) { plan_ = std::move(plan); }
  // An event of a record cannot be refused: what the decision guaranteed is asserted.
  void apply(const Event& event, const Command& cause);
  void end();
  // Ends a record without events: the state is as it was before begin().
  void forget_record(std::uint64_t index, std::int64_t logical, std::int64_t now_ns);
  // The timers that were due when the record's Tick began.
  [[nodiscard]] const std::vector<Timer>& fired() const { return fired_; }
  // Those that have become due since.
  [[nodiscard]] std::vector<Timer> take_due_timers();
  [[nodiscard]] std::int64_t next_due_ns() const;

  // --- Snapshots (snapshot.cc) ---
  [[nodiscard]] std::string encode() const;
  static Result<State> decode(std::string_view bytes);

  // Aborts with a message if an invariant is violated. Visits everything: for tests.
  void check_invariants() const;

 private:
  friend class PlacementIndex;

  void on(const PolicyChanged&, const Command&);
  void on(const WorkerRegistered&, const Command&);
  void on(const WorkersSeen&, const Command&);
  void on(const WorkerChanged&, const Command&);
  void on(const CachesReported&, const Command&);
  void on(const WorkflowAccepted&, const Command&);
  void on(const PlacementWarned&, const Command&) {}
  void on(const TaskReadied&, const Command&);
  void on(const TaskSkipped&, const Command&);
  void on(const TaskAssigned&, const Command&);
  void on(const TaskStarted&, const Command&);
  void on(const TaskSucceeded&, const Command&);
  void on(const TaskFailed&, const Command&);
  void on(const TaskRequeued&, const Command&);
  void on(const TaskCancelled&, const Command&);
  void on(const TaskPaused&, const Command&);
  void on(const TaskResumed&, const Command&);
  void on(const StopRequested&, const Command&);
  void on(const CheckpointSaved&, const Command&);
  void on(const PriorityChanged&, const Command&);
  void on(const QuotaChanged&, const Command&);
  void on(const BindingDropped&, const Command&);
  void on(const RoomReserved&, const Command&);
  void on(const RecallRequested&, const Command&);
  void on(const WorkflowEnded&, const Command&);
  void on(const WorkflowForgotten&, const Command&);
  void on(const ElasticPolled&, const Command&);
  void on(const WorkflowStopped&, const Command&);
  void on(const StageExpanded&, const Command&);
  void on(const StageCollapsed&, const Command&);
  void on(const ScheduleSet&, const Command&);
  void on(const ScheduleChanged&, const Command&);
  void on(const ScheduleFired&, const Command&);

  // The entity, or null. A decision looks entities up about a hundred times. An id that is below the first one wraps
  // around to a number that is too large.
  [[nodiscard]] Workflow* lookup(WorkflowId id) const {
    const std::uint64_t place = id.value() - kept_from_;
    return place < workflows_.size() ? workflows_[place].get() : nullptr;
  }
  [[nodiscard]] Worker* lookup(WorkerId id) const {
    const std::uint32_t place = id.value() - 1;
    return place < workers_.size() ? workers_[place].get() : nullptr;
  }
  [[nodiscard]] Task* lookup(TaskId id) const {
    Workflow* workflow = lookup(id.workflow());
    return workflow == nullptr || id.index() >= workflow->tasks.size() ? nullptr : &workflow->tasks[id.index()];
  }
  // To change what the hash does not cover. REQUIRES: it exists.
  [[nodiscard]] Workflow& workflow_at(WorkflowId id);
  // To change anything: the entity leaves the hash until the record ends.
  Workflow& edit(WorkflowId id);
  Task& edit(TaskId id);
  Task& edit(Workflow& workflow, Task& task);
  Worker& edit(WorkerId id);
  User& edit_user(std::uint32_t index);
  static TaskExtra& extra(Task& task);
  [[nodiscard]] static Hash128 hash_of_task(TaskId id, const Task& task);
  [[nodiscard]] static Hash128 hash_of_workflow(const Workflow& workflow);
  [[nodiscard]] static Hash128 hash_of_worker(const Worker& worker);
  [[nodiscard]] static Hash128 hash_of_user(const User& user);

  void move(Workflow& workflow, Task& task, TaskState to);
  void become_ready(Workflow& workflow, Task& task);
  // state_stages.cc
  void count_stages(Workflow& workflow) const;
  void needs_met(Workflow& workflow, std::uint32_t stage);  // Its StageState::waits is 0.
  void stage_task_done(Workflow& workflow, Task& task);
  void task_ended(Workflow& workflow, const Task& task);
  void task_reopened(Workflow& workflow, const Task& task, TaskState from);
  void less_to_wait_for(Workflow& workflow, std::uint32_t stage);
  void link_done(Workflow& workflow, const Task& task);
  void ready_or_examined(Workflow& workflow, Task& task);
  void ready_again(Workflow& workflow, Task& task);
  void start_waiting(Workflow& workflow, Task& task);
  void slots_changed(Workflow& workflow, const Task& task, bool used, bool uses);
  void fill_slots();
  void set_deadline(Workflow& workflow);
  // fan_out.cc
  void become_placeholder(Workflow& workflow, Task& task);
  void withdraw(Workflow& workflow, Task& task);
  void resolve_links(Workflow& workflow, std::uint32_t stage);
  static void count_link(const Workflow& workflow, ItemLink& link);
  // Keeps what the attempt's outcome says beyond its end, if the record is the task's own report.
  void keep_outcome(Task& task, TaskId id, const Command& cause);
  // The task ended or is requeued. When it is the last of its execution, what that held is given back.
  void leave_execution(Workflow& workflow, Task& task);
  // Keeps room for a ready task at another worker than before; none: nowhere.
  void reserve(Workflow& workflow, Task& task, WorkerId worker);
  // state_rank.cc
  void learn(const Workflow& workflow, const Task& task, const Command& cause);
  [[nodiscard]] std::uint32_t path_of(const Workflow& workflow, const Task& task) const;
  void rank(Workflow& workflow);
  void rank_again(Workflow& workflow);
  void touch_cache(Worker& worker, const std::string& item, std::int64_t used_ns);
  bool drop_caches(Worker& worker, std::size_t fresh);
  // A worker came or went: ready tasks that are sticky to it have another shape now.
  void reindex_sticky_tasks();
  void split_held_resources();
  // Makes the placement index from the data.
  void rebuild();
  std::uint32_t user_index(const std::string& name);
  // Binding::kType. The type belongs to nobody before; it is the worker's then, or nobody's again.
  void bind_type(const std::string& type, WorkerId worker);
  void unbind_type(const std::string& type);

  Globals globals_;
  // workflows_[i] has the id kept_from_ + i; null: it was forgotten. At most half of them, and a few, are forgotten
  // ones before the first that is not.
  std::vector<std::unique_ptr<Workflow>> workflows_;
  std::uint64_t kept_from_ = 1;
  std::uint64_t first_workflow_ = 1;  // All before it were forgotten.
  std::map<std::string, WorkflowId, std::less<>> keys_;
  std::vector<std::unique_ptr<Worker>> workers_;  // workers_[i] has the id i + 1; null: it left.
  std::map<std::string, WorkerId, std::less<>> worker_names_;
  std::vector<User> users_;
  std::map<std::string, std::uint32_t, std::less<>> user_names_;
  std::uint64_t unfinished_ = 0;
  std::uint32_t live_workers_ = 0;
  Amounts fleet_used_;
  std::set<TaskId> reserving_;

  SetHash set_;
  SetHash type_owner_set_;
  SetHash schedule_set_;
  Hash128 policy_hash_;
  std::vector<TaskId> dirty_tasks_;
  std::vector<WorkflowId> dirty_workflows_;
  std::vector<WorkerId> dirty_workers_;
  std::vector<std::uint32_t> dirty_users_;
  std::vector<Timer> fired_;
  std::optional<WorkflowPlan> plan_;
  std::set<std::pair<WorkflowId, std::uint32_t>> slots_to_fill_;  // Stages with `parallel`. Empty between events.
  std::uint64_t record_ = 0;                                      // The index of the record that is being applied.
  PlacementIndex placement_;
  Selector selector_ = nullptr;
};

// priority + floor(wait / aging interval) * aging boost, at the state's time (B-4).
[[nodiscard]] std::int64_t effective_priority(const State& state, const Task& task);

// The part of the fleet that the user's tasks hold, divided by the user's weight: the largest part of any kind of
// resource (B-22). Named resources do not count.
[[nodiscard]] std::int64_t dominant_share(const State& state, const User& user);

}  // namespace rota::fleet

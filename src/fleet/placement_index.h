// PlacementIndex: which tasks are ready, in which order, and which workers could take them. It is derived from the
// state's data, so that a choice need not look at every task and every worker.
//
//   kind   Workers whose specs are equal but for their names. They have the same score: a choice by score looks at
//          kinds, not at workers.
//   shape  Tasks that the same workers could take. For each shape the index keeps, as bits, which workers could start
//          one of its tasks now; a worker that changes is compared with each shape. Shapes that no worker could take
//          now are not looked at, so that a task that cannot be placed blocks none behind it.
//   class  Ready tasks of one shape, one priority and one user. Their order (ready since, id) does not change with
//          time, so that only the heads of classes compete.
//
// A choice costs O(classes of open shapes + kinds + candidates of one kind / 64), a change of a worker O(shapes).
//
// The numbers of kinds, shapes and classes depend on the history of the process. No choice may depend on them: an index
// that is rebuilt from a snapshot must lead to the same decisions.
//
// Thread safety: none.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "fleet/policy.h"
#include "model/workflow_spec.h"
#include "rota/model/ids.h"

namespace rota::fleet {

class State;
struct Task;
struct Workflow;
struct Worker;

using ShapeRef = std::uint32_t;
inline constexpr ShapeRef kNoShape = ~0U;

// Something to be decided at a time, unless the state has changed by then.
struct Timer {
  enum class Kind : std::uint8_t { kBackoff, kGrace, kElastic, kForgetWorkflow, kForgetWorker, kRefusal };
  std::int64_t due_ns = 0;
  Kind kind = Kind::kBackoff;
  std::uint64_t id = 0;  // Of the worker, task, shape or workflow.
  friend auto operator<=>(const Timer&, const Timer&) = default;
};

// Workers whose specs are equal but for their names. Kinds are never removed. A snapshot contains them, because the
// slots of workers depend on the order of registrations.
struct KindData {
  WorkerSpec spec{};  // The name is empty.
  std::uint32_t next_slot = 0;
  std::int64_t gone_ns = 0;  // When a worker of it last became unreachable or left.
  ROTA_FIELDS(spec, next_slot, gone_ns)
};
struct Kind : KindData {
  std::vector<WorkerId> members{};     // By slot; none: the worker was forgotten.
  std::uint32_t taking = 0;            // Workers that take tasks.
  std::uint32_t enabled = 0;           // Workers that take tasks, and refusing ones.
  std::uint32_t live = 0;              // Workers that take tasks, and disabled ones.
  std::int64_t throughput = 0;         // By the formula of docs/brain.md.
  std::int64_t throughput_scaled = 0;  // To [0, kOne] by the fleet's maximum.
  std::int64_t cost_scaled = 0;        // To [0, kOne] by the fleet's maximum.
  std::uint64_t salt = 0;              // For the jitter.
};

// Everything that decides which workers could take a task. A field is empty where its rule does not apply.
struct ShapeKey {
  Requirements needs{};
  std::string handler{};  // needed_handler()
  Category category = Category::kOther;
  std::string type{};                  // Binding::kType
  std::vector<std::string> context{};  // Context reuse, or the affinity selection.
  Hash128 merge{};                     // TemplateInfo::merge, if the task may be merged.
  WorkerId only{};                     // The worker with the weights of its parent (B-11).
  std::string pinned{};
  std::vector<WorkerId> excluded{};  // Workers on which it failed. Sorted.
  WorkflowId workflow{};             // Binding::kWorkflow, gangs.
  std::uint32_t gang = 0;            // Of a gang: its stage + 1.
  TaskId reserves{};                 // The task itself, if a worker keeps room for it.
  Amounts fleet{};                   // Named resources of the whole fleet; `needs` has the others.
  Amounts unchecked{};               // What it asks for and the mode does not check; its user's quota counts it.
  std::int64_t unchecked_gpus = 0;
  friend auto operator<=>(const ShapeKey&, const ShapeKey&) = default;
};

struct ReadyEntry {
  std::int64_t since_ns;
  TaskId task;
  std::uint32_t stamp;
  friend auto operator<=>(const ReadyEntry&, const ReadyEntry&) = default;
};

struct ClassKey {
  std::int32_t priority = 0;
  std::uint32_t user = 0;
  WorkflowId workflow{};  // Policy::prefer_started.
  friend auto operator<=>(const ClassKey&, const ClassKey&) = default;
};

// Ready tasks in the order (since, task). Nearly all arrive in this order and stand in `queue`; the others are
// stragglers. Entries of tasks that are no longer ready stay until drop_stale_entries().
struct ReadyClass {
  std::deque<ReadyEntry> queue{};
  std::set<ReadyEntry> stragglers{};
  std::uint32_t live = 0;  // Entries of tasks that are ready.

  [[nodiscard]] const ReadyEntry* head() const {
    if (queue.empty()) return stragglers.empty() ? nullptr : &*stragglers.begin();
    return stragglers.empty() || queue.front() < *stragglers.begin() ? &queue.front() : &*stragglers.begin();
  }
};

// Which workers of one kind could take tasks of one shape.
struct Fit {
  bool possible = false;    // An idle worker of the kind could run one.
  DeviceSet devices = 0;    // Those that meet the request.
  std::uint32_t start = 0;  // Bits in `start_mask`.
  std::uint32_t queue = 0;
  std::vector<std::uint64_t> start_mask{};  // By slot: could start one now.
  std::vector<std::uint64_t> queue_mask{};  // By slot: has room in its queue for one.
};

// The workers that have a cached item.
struct CacheHolders {
  std::vector<std::vector<std::uint64_t>> mask{};  // By kind and slot.
};

struct Shape {
  ShapeKey key{};
  std::uint32_t uses = 0;      // Templates and ready tasks that refer to it; 0: it is kept for reuse for a while.
  bool unused = false;         // It is in the list of shapes without uses.
  std::uint32_t ready = 0;     // Ready tasks.
  std::uint32_t start = 0;     // Workers that could start one now.
  std::uint32_t queue = 0;     // Workers that have room for one in their queues.
  std::uint32_t live = 0;      // Live workers that could ever run one.
  bool spare_excluded = true;  // One of these did not fail it: workers on which it failed are left out.
  std::vector<Fit> fits{};     // By kind.
  std::map<ClassKey, ReadyClass> classes{};
  std::vector<const CacheHolders*> holders{};  // Of key.context.
  std::uint32_t open_at = kNoShape;            // In the list of open shapes.
  std::int64_t grace_ns = 0;                   // When its grace timer is due; 0: none is set.
};

class PlacementIndex {
 public:
  // --- Reading ---
  [[nodiscard]] const std::vector<Kind>& kinds() const { return kinds_; }
  [[nodiscard]] const Shape& shape(ShapeRef ref) const { return *shapes_[ref]; }
  // Shapes with a ready task and a worker that could take it now.
  [[nodiscard]] const std::vector<ShapeRef>& open_shapes() const { return open_; }
  [[nodiscard]] std::uint64_t ready_tasks() const { return ready_; }
  template <class F>
  void each_shape(F&& f) const {
    for (ShapeRef i = 0; i < shapes_.size(); ++i) {
      if (shapes_[i] != nullptr) f(i, *shapes_[i]);
    }
  }
  // How many tasks with this key would fit at once on the live workers if these were idle.
  [[nodiscard]] std::int64_t room_for(const State& state, const ShapeKey& key) const;
  // The key of the shape that a task has under the policy in force.
  [[nodiscard]] static ShapeKey key_of(const State& state, const Workflow& workflow, const Task& task);
  // Lists of what the next steps of a decision must look at.
  [[nodiscard]] const std::deque<TaskId>& to_examine() const { return to_examine_; }
  [[nodiscard]] const std::deque<WorkerId>& to_promote() const { return to_promote_; }
  [[nodiscard]] const std::deque<TaskId>& to_defer() const { return to_defer_; }
  [[nodiscard]] const std::deque<WorkflowId>& to_end() const { return to_end_; }
  [[nodiscard]] const std::deque<WorkerId>& to_leave() const { return to_leave_; }
  // Shapes with ready tasks that no live worker could run, perhaps because of their binding.
  [[nodiscard]] const std::deque<ShapeRef>& to_unbind() const { return to_unbind_; }
  // True if all tasks for which the worker keeps room, but for one, would fit beside `used` once those that were told
  // to stop have stopped. `used` includes what these hold.
  [[nodiscard]] static bool keeps_room(const State& state, const Worker& worker, ResourceUse used, TaskId except = {});
  // True if the worker could ever run tasks of the shape while it takes tasks: its hardware, the task's restrictions
  // and the dispatch mode allow it.
  [[nodiscard]] static bool permits(const State& state, const Shape& shape, const Worker& worker);
  [[nodiscard]] std::int64_t next_due_ns() const;

  // --- Changing; called by State alone ---
  void clear();
  std::uint32_t intern_kind(const WorkerSpec& spec);  // The kind's number; a new kind is added.
  void restore_kinds(std::vector<KindData> kinds);
  void add_worker(const State& state, Worker& worker, bool restored);
  void forget_worker(const State& state, Worker& worker);
  // Its free resources, its queue or its owner changed.
  void update_worker(const State& state, const Worker& worker);
  // A worker registered, left, or became able or unable to take tasks.
  void fleet_changed(State& state);
  void update_shape(const State& state, Shape& shape);
  // The binding of a workflow or of a type changed.
  void update_workflow(const State& state, WorkflowId workflow);
  void update_type(const State& state, const std::string& type);

  void push(State& state, Workflow& workflow, Task& task);
  // REQUIRES: the task was pushed and is no longer ready.
  void remove(State& state, Workflow& workflow, Task& task);
  void release_templates(Workflow& workflow);

  void cache_dropped(const Worker& worker, const std::string& item);
  void cache_used(const State& state, const Worker& worker, const std::string& item, std::int64_t used_ns);
  void expire_caches(const State& state);

  void set_timer(Timer timer);
  void set_grace_timer(const State& state, ShapeRef ref);
  void take_due_timers(const State& state, std::vector<Timer>& fired);
  void reset_grace_timers(const State& state);
  void scale_scores();
  void note_gone(const Worker& worker, std::int64_t now_ns);

  void add_to_examine(TaskId task) { to_examine_.push_back(task); }
  void add_to_promote(WorkerId worker) { to_promote_.push_back(worker); }
  void add_to_end(WorkflowId workflow) { to_end_.push_back(workflow); }
  void add_to_leave(WorkerId worker) { to_leave_.push_back(worker); }
  void pop_to_examine(TaskId task);
  void pop_to_promote();
  void pop_to_defer() { to_defer_.pop_front(); }
  void pop_to_end() { to_end_.pop_front(); }
  void pop_to_leave() { to_leave_.pop_front(); }
  void pop_to_unbind() { to_unbind_.pop_front(); }
  // Removes from the fronts of the lists what needs no look any more.
  void drop_stale(const State& state);

  void check_invariants(const State& state) const;

 private:
  static constexpr std::size_t kUnusedShapes = 64;
  ShapeRef intern(const State& state, const ShapeKey& key);
  void release(ShapeRef ref);
  void update_fit(const State& state, Shape& shape, const Worker& worker);
  void init_fit(Shape& shape, std::uint32_t kind) const;
  void count_live(const State& state, Shape& shape) const;
  void update_open(ShapeRef ref);
  static void drop_stale_entries(const State& state, ReadyClass& ready);
  static ClassKey class_of(const State& state, const Workflow& workflow, const Task& task);

  std::vector<Kind> kinds_;
  std::map<WorkerSpec, std::uint32_t> kind_index_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  std::vector<ShapeRef> free_shapes_;
  // Oldest first, at most kUnusedShapes. They are kept because a new shape is compared with every worker.
  std::deque<ShapeRef> unused_shapes_;
  std::map<ShapeKey, ShapeRef> shape_index_;
  std::vector<ShapeRef> open_;
  std::uint64_t ready_ = 0;
  std::map<std::string, CacheHolders, std::less<>> holders_;
  struct Expiry {
    std::int64_t due_ns;
    WorkerId worker;
    std::string item;
    friend auto operator<=>(const Expiry&, const Expiry&) = default;
  };
  std::set<Expiry> expiries_;
  std::set<Timer> timers_;
  std::vector<ShapeRef> fired_graces_;
  std::deque<TaskId> to_examine_;
  std::deque<WorkerId> to_promote_;
  std::deque<TaskId> to_defer_;
  std::deque<WorkflowId> to_end_;
  std::deque<WorkerId> to_leave_;
  std::deque<ShapeRef> to_unbind_;
};

}  // namespace rota::fleet

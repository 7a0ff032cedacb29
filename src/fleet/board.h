// Board: who is ready, in which order, and who could take what. Derived from the state's data, so that a choice need
// not look at every task and every worker.
//
// Three ideas:
//   kind   workers that describe themselves alike. They have the same score, so that a choice by score looks at kinds.
//   shape  tasks that the same workers could take. For each shape the board keeps, as bits, which workers could start
//   one
//          of its tasks now; a worker that changes is compared with each shape. Shapes that nobody could take now are
//          not looked at: a task that cannot be placed blocks nobody behind it.
//   class  ready tasks of one shape, one priority and one user: among them the order is (ready since, id), whatever the
//          time. Only the heads of classes compete.
// So a choice costs O(open shapes' classes + kinds + candidates of one kind / 64), and a change of a worker O(shapes).
//
// Numbers of kinds, shapes and classes are an accident of history. No choice may depend on them.
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

// Something that happens when time has come, unless things have changed by then.
struct Timer {
  enum class Kind : std::uint8_t { kHeartbeat, kBackoff, kGrace, kElastic, kForgetWorkflow, kForgetWorker };
  std::int64_t due_ns = 0;
  Kind kind = Kind::kHeartbeat;
  std::uint64_t id = 0;  // Of the worker, task, shape or workflow.
  friend auto operator<=>(const Timer&, const Timer&) = default;
};

// Workers with equal specs but for their names. Kept for ever: a snapshot has them, because slots are chosen by
// history.
struct KindData {
  WorkerSpec spec{};  // The name is empty.
  std::uint32_t next_slot = 0;
  std::int64_t gone_ns = 0;  // When a worker of it last became unreachable or left.
  ROTA_FIELDS(spec, next_slot, gone_ns)
};
struct Kind : KindData {
  std::vector<WorkerId> members{};  // By slot; none where a worker was forgotten.
  std::uint32_t taking = 0;         // Workers that take tasks.
  std::uint32_t live = 0;           // Workers that are live: those that take tasks, and disabled ones.
  std::int64_t throughput = 0;      // By the formula of docs/brain.md; then scaled to [0, kOne] by the fleet's maximum.
  std::int64_t throughput_scaled = 0;
  std::int64_t cost_scaled = 0;
  std::uint64_t salt = 0;  // For the jitter.
};

struct ShapeKey {
  Requirements needs{};
  std::string handler{};  // needed_handler()
  Category category = Category::kOther;
  std::string type{};                  // fixed_pipeline
  std::vector<std::string> context{};  // context reuse
  Hash128 merge{};                     // Its template, if it may be merged.
  WorkerId only{};                     // Sticky.
  std::string pinned{};
  std::vector<WorkerId> excluded{};  // Where it failed.
  WorkflowId workflow{};             // static_worker, gangs
  std::uint32_t gang = 0;            // Stage + 1 of the gang, or 0.
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
  WorkflowId workflow{};  // prefer_started
  friend auto operator<=>(const ClassKey&, const ClassKey&) = default;
};

// In order (since, task): `run` holds what came in that order, `side` the rest.
struct ReadyClass {
  std::deque<ReadyEntry> run{};
  std::set<ReadyEntry> side{};
  std::uint32_t live = 0;

  [[nodiscard]] const ReadyEntry* head() const {
    if (run.empty()) return side.empty() ? nullptr : &*side.begin();
    return side.empty() || run.front() < *side.begin() ? &run.front() : &*side.begin();
  }
};

// What a shape's tasks could have of one kind.
struct Fit {
  bool possible = false;    // A worker of it with nothing to do could run one.
  DeviceSet devices = 0;    // Those that meet the request.
  std::uint32_t start = 0;  // Bits in `start_mask`.
  std::uint32_t queue = 0;
  std::vector<std::uint64_t> start_mask{};  // By slot: could start one now.
  std::vector<std::uint64_t> queue_mask{};  // By slot: has room in its queue for one.
};

struct CacheHolders {
  std::vector<std::vector<std::uint64_t>> mask{};  // By kind and slot.
};

struct Shape {
  ShapeKey key{};
  std::uint32_t uses = 0;   // Templates and ready tasks that know its number; 0: kept for the next one, for a while.
  bool unused = false;      // In the list of those.
  std::uint32_t ready = 0;  // Ready tasks.
  std::uint32_t start = 0;  // Workers that could start one now; then those with room in their queues.
  std::uint32_t queue = 0;
  std::uint32_t live = 0;      // Live workers that could ever run one, and did not fail it.
  bool spare_excluded = true;  // There is one, so that workers that failed it are left out.
  std::vector<Fit> fits{};     // By kind.
  std::map<ClassKey, ReadyClass> classes{};
  std::vector<const CacheHolders*> holders{};  // Of key.context.
  std::uint32_t open_at = kNoShape;            // In the list of open shapes.
  std::int64_t grace_ns = 0;                   // A grace timer is set for then.
};

class Board {
 public:
  // --- Reading ---
  [[nodiscard]] const std::vector<Kind>& kinds() const { return kinds_; }
  [[nodiscard]] const Shape& shape(ShapeRef ref) const { return *shapes_[ref]; }
  // Shapes with a ready task and a worker that could take it.
  [[nodiscard]] const std::vector<ShapeRef>& open() const { return open_; }
  [[nodiscard]] std::uint64_t ready() const { return ready_; }
  template <class F>
  void each_shape(F&& f) const {
    for (ShapeRef i = 0; i < shapes_.size(); ++i) {
      if (shapes_[i] != nullptr) f(i, *shapes_[i]);
    }
  }
  // How many tasks with this key would fit at once on the live workers if these had nothing else to do.
  [[nodiscard]] std::int64_t room_for(const State& state, const ShapeKey& key) const;
  // The dispatch mode gives all tasks of the key to one worker.
  [[nodiscard]] static bool one_worker_only(const State& state) {
    return state_mode(state) == DispatchMode::kStaticWorker || state_mode(state) == DispatchMode::kFixedPipeline;
  }
  // The shape that a task would have now; the rules of the policy in force.
  [[nodiscard]] static ShapeKey key_of(const State& state, const Workflow& workflow, const Task& task);
  // Lists that decisions start from.
  [[nodiscard]] const std::deque<TaskId>& to_examine() const { return to_examine_; }
  [[nodiscard]] const std::deque<WorkerId>& to_promote() const { return to_promote_; }
  [[nodiscard]] const std::deque<TaskId>& to_defer() const { return to_defer_; }
  [[nodiscard]] const std::deque<WorkflowId>& to_end() const { return to_end_; }
  [[nodiscard]] const std::deque<WorkerId>& to_leave() const { return to_leave_; }
  [[nodiscard]] std::int64_t next_due_ns() const;

  // --- Changing; by State alone ---
  void clear();
  std::uint32_t kind_of(const WorkerSpec& spec);  // Made if it is new.
  void restore_kinds(std::vector<KindData> kinds);
  void add_worker(const State& state, Worker& worker, bool restored);
  void forget_worker(const State& state, Worker& worker);
  // Its free resources, its queue or its owner changed.
  void refit(const State& state, const Worker& worker);
  // It became, or is no longer, live, taking tasks, reachable...
  void fleet_changed(State& state);
  void shape_refit(const State& state, Shape& shape);
  // Shapes of one workflow (static_worker) or type (fixed_pipeline) look again at who may take them.
  void refit_workflow(const State& state, WorkflowId workflow);
  void refit_type(const State& state, const std::string& type);

  void push(State& state, Workflow& workflow, Task& task);
  void remove(State& state, Workflow& workflow, Task& task);  // REQUIRES: pushed, and not ready any more.
  void release_templates(Workflow& workflow);

  void hint(const State& state, const Worker& worker, const std::string& item, std::int64_t used_ns);
  void expire_hints(const State& state);

  void arm(Timer timer);
  void arm_grace(const State& state, ShapeRef ref);
  void take_due(const State& state, std::vector<Timer>& fired);
  void rearm_graces(const State& state);
  void rescale(const State& state);
  void worker_gone(const Worker& worker, std::int64_t now_ns);

  void want_examined(TaskId task) { to_examine_.push_back(task); }
  void want_promoted(WorkerId worker) { to_promote_.push_back(worker); }
  void want_ended(WorkflowId workflow) { to_end_.push_back(workflow); }
  void want_left(WorkerId worker) { to_leave_.push_back(worker); }
  void drop_examined(TaskId task);
  void drop_promoted();
  void drop_deferred() { to_defer_.pop_front(); }
  void drop_ended() { to_end_.pop_front(); }
  void drop_left() { to_leave_.pop_front(); }
  void prune(const State& state);  // Takes from the fronts of the lists what is no longer meant.

  void check_invariants(const State& state) const;

 private:
  static constexpr std::size_t kUnusedShapes = 64;
  ShapeRef intern(const State& state, const ShapeKey& key);
  void release(ShapeRef ref);
  void set_bit(Shape& shape, Fit& fit, std::vector<std::uint64_t>& mask, std::uint32_t& count, std::uint32_t& total,
               std::uint32_t slot, bool on);
  void fit_worker(const State& state, Shape& shape, const Worker& worker);
  void fit_kind(Shape& shape, std::uint32_t kind) const;
  void count_live(const State& state, Shape& shape) const;
  void update_open(ShapeRef ref);
  // The dispatch mode lets this worker take the shape's tasks now; or once it is free of other workflows.
  [[nodiscard]] static DispatchMode state_mode(const State& state);
  [[nodiscard]] static bool mode_allows(const State& state, const ShapeKey& key, const Worker& worker);
  [[nodiscard]] static bool mode_could_allow(const State& state, const ShapeKey& key, const Worker& worker);
  static void prune_class(const State& state, Shape& shape, ReadyClass& ready);
  static ClassKey class_of(const State& state, const Workflow& workflow, const Task& task);

  std::vector<Kind> kinds_;
  std::map<WorkerSpec, std::uint32_t> kind_index_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  std::vector<ShapeRef> free_shapes_;
  std::deque<ShapeRef> unused_shapes_;  // Oldest first; at most kUnusedShapes. A new one has to look at every worker.
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
  std::vector<ShapeRef> regrace_;
  std::deque<TaskId> to_examine_;
  std::deque<WorkerId> to_promote_;
  std::deque<TaskId> to_defer_;
  std::deque<WorkflowId> to_end_;
  std::deque<WorkerId> to_leave_;
};

}  // namespace rota::fleet

// PlacementIndex: which tasks are ready, in which order, and which workers could take them. It is derived from the
// state's data, so that a choice need not look at every task and every worker.
//
//   kind   Workers whose specs are equal but for their names. They have the same score: a choice by score looks at
//          kinds, not at workers.
//   shape  Tasks that the same workers could take. A shape whose tasks can go to one worker only (pinned, sticky, bound
//          by the dispatch mode) is found by that worker; the others are in one tree.
//   class  Ready tasks of one shape, one priority and one user. Their order (ready since, id) does not change with
//          time, so that only the heads of classes compete. With Order::kCriticalPath, also of one ready time.
//
// Between two records no task waits that could start. So what a decision must look at follows from what has changed
// since: a worker that changed is offered the first class in the order that fits it (OrderTree), and a shape that got a
// task, or a limit of which was raised, is compared with the workers that have room. These are few in a busy fleet; in
// an idle one they are kept as bits by shape (`Fit`), which are brought up to date when they are needed.
//
// Cost of a decision: O(log classes) for what was found, plus what does not fit although its place in the tree says it
// might. Not included: a user whose quota is exhausted (each of the user's classes ahead is passed over), gangs (all
// ready ones are tried), fair shares (the classes are compared one by one), workers that come and go (all shapes).
//
// The numbers of kinds, shapes and classes depend on the history of the process. No choice may depend on them: an index
// that is rebuilt from a snapshot must lead to the same decisions.
//
// Thread safety: none.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "fleet/order_tree.h"
#include "fleet/placement_index_types.h"
#include "fleet/policy.h"
#include "model/workflow_spec.h"
#include "rota/model/ids.h"

namespace rota::fleet {

class State;
struct Task;
struct Workflow;
struct Worker;

// Something to be decided at a time, unless the state has changed by then.
struct Timer {
  enum class Kind : std::uint8_t {
    kBackoff,
    kGrace,
    kElastic,
    kForgetWorkflow,
    kForgetWorker,
    kRefusal,
    kRecall,
    kDeadline
  };
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
  std::uint32_t eligible = 0;          // Workers that take tasks, or may without an operator's help.
  std::int64_t throughput = 0;         // By the formula of docs/brain.md.
  std::int64_t throughput_scaled = 0;  // To [0, kOne] by the fleet's maximum.
  std::int64_t cost_scaled = 0;        // To [0, kOne] by the fleet's maximum.
  std::uint64_t salt = 0;              // For the jitter.
};

// Everything that decides which workers could take a task. A field is empty where its rule does not apply.
struct ShapeKey {
  Requirements needs{};
  std::string handler{};  // needed_handler()
  std::string type{};     // Binding::kType
  WorkerId only{};        // The worker with the weights of its parent (B-11).
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

// Ready tasks in the order (path, since, task). Nearly all arrive in this order and stand in `queue`; the others are
// stragglers. Entries of tasks that are no longer ready stay until drop_stale_entries().
struct ReadyClass {
  std::deque<ReadyEntry> queue{};
  std::set<ReadyEntry> stragglers{};
  std::uint32_t live = 0;  // Entries of tasks that are ready.
  // Where the class is in the tree of its home, and in that of its shape.
  std::uint32_t at_home = 0;
  std::uint32_t in_shape = 0;

  [[nodiscard]] const ReadyEntry* head() const {
    if (queue.empty()) return stragglers.empty() ? nullptr : &*stragglers.begin();
    return stragglers.empty() || queue.front() < *stragglers.begin() ? &queue.front() : &*stragglers.begin();
  }
};

// Which workers of one kind could take tasks of one shape. The masks are empty until they are needed.
struct Fit {
  bool possible = false;                    // An idle worker of the kind could run one.
  DeviceSet devices = 0;                    // Those that meet the request.
  std::vector<std::uint64_t> start_mask{};  // By slot: could start one now.
  std::vector<std::uint64_t> queue_mask{};  // By slot: has room in its queue for one.
};

// The workers that have a cached item.
struct CacheHolders {
  std::vector<std::vector<std::uint64_t>> mask{};  // By kind and slot.
};

struct Shape {
  static constexpr std::uint64_t kNever = ~0ULL;
  ShapeKey key{};
  std::uint32_t uses = 0;      // Templates and ready tasks that refer to it; 0: it is kept for reuse for a while.
  bool unused = false;         // It is in the list of shapes without uses.
  std::uint32_t ready = 0;     // Ready tasks.
  std::uint32_t live = 0;      // Live workers that could ever run one.
  bool spare_excluded = true;  // One of these did not fail it: workers on which it failed are left out.
  bool one_worker = false;     // Its tasks can go to `home` only.
  WorkerId home{};             // one_worker: none if that worker is not there.
  std::vector<Fit> fits{};     // By kind.
  std::uint32_t start = 0;     // Bits in the masks, as of `synced`.
  std::uint32_t queue = 0;
  std::uint64_t synced = kNever;  // How many changes of workers the masks include.
  std::map<ClassKey, ReadyClass> classes{};
  OrderTree order{};                        // Of the classes.
  std::uint32_t open_at = kNoShape;         // In the list of shapes to look at.
  bool fresh = false;                       // Any worker may be able to take its tasks, not only those that changed.
  bool offered = false;                     // offer_workers() has just found a worker that takes one of its tasks.
  std::vector<WorkerId> waiting_workers{};  // Workers whose first choice it was, while it is in that list.
  std::int64_t grace_ns = 0;                // When its grace timer is due; 0: none is set.

  // The dispatch mode has bound it to `home`. False also if its tasks can go to one worker only for another reason.
  [[nodiscard]] bool bound() const { return one_worker && key.only.is_none() && key.pinned.empty(); }
};

// Some workers of one kind, as bits.
struct WorkerWord {
  std::size_t kind = 0;
  std::size_t word = 0;
  std::uint64_t bits = 0;
};
// The workers that could take a task of a shape now: those that could start it, or, if there are none, those that have
// room in their queues.
struct Takers {
  WorkerId only{};                  // The one worker that was looked at; then there are no words.
  std::vector<WorkerWord> words{};  // By kind and word.
  std::uint32_t count = 0;
  bool queued = false;
};

class PlacementIndex {
 public:
  // --- Reading ---
  [[nodiscard]] const std::vector<Kind>& kinds() const { return kinds_; }
  [[nodiscard]] const Shape& shape(ShapeRef ref) const { return *shapes_[ref]; }
  // The workers that could take a task of the shape now. REQUIRES: it is ready, in the list of open shapes or a gang.
  [[nodiscard]] Takers takers(const State& state, ShapeRef ref) const;
  [[nodiscard]] bool has_takers(const State& state, ShapeRef ref) const;
  // The same right after offer_workers(), which has found a taker of some shapes already.
  [[nodiscard]] bool has_takers_after_offer(const State& state, ShapeRef ref) {
    return std::exchange(shapes_[ref]->offered, false) || has_takers(state, ref);
  }
  // True if some worker could take a task of the shape now. Looks at all: for explanations and tests.
  [[nodiscard]] static bool any_could_take(const State& state, const Shape& shape);
  // Shapes with ready tasks that may have become startable since the last record. place() empties the list.
  [[nodiscard]] const std::vector<ShapeRef>& open_shapes() const { return open_; }
  [[nodiscard]] const std::set<ShapeRef>& gangs() const { return gangs_; }
  // True if a worker changed since the last record.
  [[nodiscard]] bool workers_changed() const { return !touched_.empty(); }
  [[nodiscard]] bool has_workers_to_offer() const { return !to_offer_.empty(); }
  // Finds for each worker that changed what it could take first, of the classes that several workers could take and of
  // those that it alone could take, and opens their shapes. `limited(item)`: its user or the fleet has no room for it.
  template <class Limited>
  void offer_workers(const State& state, Limited&& limited) {
    while (!to_offer_.empty()) {
      const WorkerId id = to_offer_.back();
      to_offer_.pop_back();
      const Worker* worker = find_worker(state, id);
      if (worker == nullptr) continue;
      const auto accept = [&](const OrderTree::Item& item) {
        const Taking taking = could_take_now(state, *shapes_[item.shape], *worker);
        return (taking.start || taking.queue) && !limited(item);
      };
      const Room room = room_at(state, *worker);
      const auto offer = [&](const OrderTree& tree) {
        const OrderTree::Item* item = first_of(state, tree, room, nullptr, accept);
        if (item == nullptr) return;
        open(item->shape, false);
        shapes_[item->shape]->offered = true;
        shapes_[item->shape]->waiting_workers.push_back(id);
      };
      // A worker that belongs to a workflow takes nothing of others, and the classes of its own workflow are at home.
      if (!owned(*worker)) offer(tree_);
      if (const auto home = homes_.find(id); home != homes_.end()) offer(home->second);
    }
  }
  // A task with the place `from` has started, and one with the place `to` is to start next. A worker that changed, and
  // whose first choice was the former, may have its next choice between the two: opens what is there. True if it opened
  // a shape.
  bool open_between(const State& state, const OrderTree::Item& from, const OrderTree::Item& to);
  // No worker takes a task of the shape now: workers whose first choice it was are offered something else.
  void close(ShapeRef ref);
  // The first class of the shape for which accept(item) is true; null if there is none.
  template <class Accept>
  [[nodiscard]] const OrderTree::Item* first_in(const State& state, const Shape& shape, Accept&& accept) const {
    return first_of(state, shape.order, kAnyRoom, nullptr, accept);
  }
  // The first class before `limit` of all that are not bound to one worker, and of those that are bound to `worker`.
  template <class Accept>
  [[nodiscard]] const OrderTree::Item* first_before(const State& state, const OrderTree::Item& limit, WorkerId worker,
                                                    Accept&& accept) const {
    const OrderTree::Item* best = first_of(state, tree_, kAnyRoom, &limit, accept);
    if (const auto found = homes_.find(worker); found != homes_.end()) {
      const OrderTree::Item* other = first_of(state, found->second, kAnyRoom, best == nullptr ? &limit : best, accept);
      if (other != nullptr) best = other;
    }
    return best;
  }
  // The merged execution that the task may join; none if it runs alone.
  [[nodiscard]] static Hash128 merge_of(const State& state, const Workflow& workflow, const Task& task);
  // Nothing is left to do: forgets what has changed.
  void rest();
  [[nodiscard]] std::vector<const CacheHolders*> holders_of(const std::vector<std::string>& items) const;
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
  // True if a task with the request `by` may start beside the tasks for which the worker keeps room, but for one: of
  // each resource that it takes, enough is left for these once those that were told to stop have stopped. `used` is
  // what is held once it has started.
  [[nodiscard]] static bool keeps_room(const State& state, const Worker& worker, const ResourceRequest& by,
                                       ResourceUse used, TaskId except = {});
  // True if the worker could ever run tasks of the shape while it takes tasks: its hardware, the task's restrictions
  // and the dispatch mode allow it.
  [[nodiscard]] static bool permits(const State& state, const Shape& shape, const Worker& worker);
  [[nodiscard]] std::int64_t next_due_ns() const;
  // Workers with more than one queued execution per slot.
  [[nodiscard]] const std::set<WorkerId>& deep_workers() const { return deep_; }
  // When the first task in the queue of the worker has waited for too long. REQUIRES: the queue is not empty.
  [[nodiscard]] static std::int64_t recall_due_ns(const State& state, const Worker& worker);

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
  // What limits the user, or the resources of the fleet, may have become less.
  void limits_changed(std::uint32_t user);
  void fleet_resources_changed();
  // A workflow has started: Policy::prefer_started.
  void workflow_started(State& state, WorkflowId workflow);
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
  // Sets a timer for when the queue of the worker may be recalled, unless one is set.
  void set_recall_timer(const State& state, Worker& worker);
  void take_due_timers(State& state, std::vector<Timer>& fired);
  void reset_fired_timers(State& state);
  void scale_scores();
  void note_gone(const Worker& worker, std::int64_t now_ns);

  void add_to_examine(TaskId task) { to_examine_.push_back(task); }
  void add_to_promote(WorkerId worker) { to_promote_.push_back(worker); }
  void add_to_end(WorkflowId workflow) { to_end_.push_back(workflow); }
  void add_to_leave(WorkerId worker) { to_leave_.push_back(worker); }
  void pop_to_examine(TaskId task);
  // The task was examined, and may be examined again: if it is still the next one, because the record is applied
  // without having been decided here, it is removed.
  void examined(const State& state, TaskId task);
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
  static constexpr Room kAnyRoom{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::max(),
                                 std::numeric_limits<std::int64_t>::max()};
  static constexpr std::size_t kFewWorkers = 64;
  struct Taking {
    bool start = false;
    bool queue = false;
  };
  ShapeRef intern(const State& state, const ShapeKey& key);
  void release(ShapeRef ref);
  [[nodiscard]] static Taking could_take_now(const State& state, const Shape& shape, const Worker& worker);
  void init_fit(Shape& shape, std::uint32_t kind) const;
  void count_live(const State& state, Shape& shape) const;
  void shape_changed(const State& state, ShapeRef ref);
  void find_home(const State& state, ShapeRef ref);
  void sync(const State& state, Shape& shape) const;
  void open(ShapeRef ref, bool fresh);
  void add_item(const State& state, ShapeRef ref, const ClassKey& key, ReadyClass& ready);
  void remove_item(Shape& shape, ReadyClass& ready);
  [[nodiscard]] OrderTree& home_of(const Shape& shape) { return shape.one_worker ? homes_[shape.home] : tree_; }
  [[nodiscard]] static const Worker* find_worker(const State& state, WorkerId id);
  // True if `a` is before `b` in the ready order, whatever their phases.
  [[nodiscard]] static bool goes_first(const State& state, const OrderTree::Item& a, const OrderTree::Item& b);
  [[nodiscard]] static std::int64_t phase_now(const State& state);
  [[nodiscard]] static bool compares_one_by_one(const State& state);
  [[nodiscard]] static Room room_at(const State& state, const Worker& worker);
  [[nodiscard]] static bool owned(const Worker& worker);

  // The key with which an item of a group (`passed`) would be at the place of `item`.
  [[nodiscard]] static OrderKey key_in_group(const State& state, const OrderTree::Item& item, bool passed);

  // The first item of the tree that is before `limit` (null: none), needs no more than `room`, and is accepted.
  template <class Accept>
  [[nodiscard]] static const OrderTree::Item* first_of(const State& state, const OrderTree& tree, const Room& room,
                                                       const OrderTree::Item* limit, Accept&& accept) {
    if (!tree.may_fit(room)) return nullptr;
    if (const OrderTree::Item* item = tree.only_item(); item != nullptr) {
      return (limit == nullptr || goes_first(state, *item, *limit)) && accept(*item) ? item : nullptr;
    }
    const OrderTree::Item* best = nullptr;
    if (compares_one_by_one(state)) {
      tree.each([&](const OrderTree::Item& item) {
        const OrderTree::Item* against = best == nullptr ? limit : best;
        if (against != nullptr && !goes_first(state, item, *against)) return;
        if (item.needs.within(room) && accept(item)) best = &item;
      });
      return best;
    }
    const std::int64_t phase = phase_now(state);
    for (const bool passed : {true, false}) {
      const OrderTree::Item* against = best == nullptr ? limit : best;
      OrderKey key;
      if (against != nullptr) key = key_in_group(state, *against, passed);
      const OrderTree::Ref found = tree.first(passed, phase, room, against == nullptr ? nullptr : &key, accept);
      if (found != OrderTree::kNone) best = &tree.item(found);
    }
    return best;
  }
  static void drop_stale_entries(const State& state, ReadyClass& ready);
  static ClassKey class_of(const State& state, const Workflow& workflow, const Task& task);

  std::vector<Kind> kinds_;
  std::map<WorkerSpec, std::uint32_t> kind_index_;
  std::vector<std::unique_ptr<Shape>> shapes_;
  std::vector<ShapeRef> free_shapes_;
  // Oldest first, at most kUnusedShapes. They are kept because a new shape is compared with every worker.
  std::deque<ShapeRef> unused_shapes_;
  std::map<ShapeKey, ShapeRef> shape_index_;
  std::map<WorkflowId, std::set<ShapeRef>> workflow_shapes_;                // By key.workflow.
  std::map<std::string, std::set<ShapeRef>> type_shapes_;                   // By key.type.
  std::map<std::uint32_t, std::map<ShapeRef, std::uint32_t>> user_shapes_;  // Classes, by user and shape.
  std::set<ShapeRef> fleet_shapes_;      // Ready ones that need resources of the fleet.
  std::set<ShapeRef> gangs_;             // Ready ones.
  OrderTree tree_;                       // Of classes that several workers could take.
  std::map<WorkerId, OrderTree> homes_;  // Of those that one worker could take, by that.
  std::vector<ShapeRef> open_;
  std::vector<WorkerId> touched_;         // Workers that changed since the last record.
  std::vector<WorkerId> to_offer_;        // Of these, those that may take something.
  std::vector<std::uint8_t> marks_;       // By worker: kTouched, kHasRoom.
  std::vector<std::uint64_t> with_room_;  // By worker, as bits: it may start or queue something.
  std::size_t with_room_count_ = 0;
  struct Change {
    WorkerId worker;
    std::uint32_t kind;
    std::uint32_t slot;
  };
  std::deque<Change> changes_;        // The latest changes of workers, at most twice as many as there are workers.
  std::uint64_t changes_before_ = 0;  // How many are no longer kept.
  mutable std::uint64_t latest_sync_ = 0;
  std::size_t workers_ = 0;  // That were added, for the bound of changes_.
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
  std::vector<WorkerId> fired_recalls_;
  std::set<WorkerId> deep_;  // Workers with more than one queued execution per slot.
  std::deque<TaskId> to_examine_;
  std::deque<WorkerId> to_promote_;
  std::deque<TaskId> to_defer_;
  std::deque<WorkflowId> to_end_;
  std::deque<WorkerId> to_leave_;
  std::deque<ShapeRef> to_unbind_;
};

}  // namespace rota::fleet

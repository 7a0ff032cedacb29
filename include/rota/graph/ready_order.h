// ReadyOrder: decides which ready task runs next and counts the resources that running tasks hold (G-4, G-5).
//
// The rule: among the ready tasks that fit the free resources, choose the one with the highest effective priority
//     base + floor((now - ready_since) in ms / interval_ms) * boost,
// then the earliest ready_since, then the first by name (by number, where tasks have no names). Exception: the oldest
// ready task (earliest ready_since, then first made ready) gets a reservation 3 intervals after it became the oldest;
// from then on nothing else starts before it. The tasks that run at that time end, and when nothing runs, every task
// fits. Therefore a task waits, once it is the oldest, at most 3 intervals plus the longest running task; and
// reservations let at most one task per 3 intervals overtake the priorities, which still count under a long queue.
//
// How this works without a scan of all ready tasks:
//   - Tasks with the same base priority and the same demand form a class. Inside a class the order by ready_since and
//     name does not depend on the time, so a class is a heap, and only the heads of the classes compete.
//   - An effective priority changes when an interval is complete. The classes of one demand are the leaves of a
//     tournament tree. Each node stores its winner and the time at which an effective priority below it next changes;
//     a choice replays only the parts that have changed by then.
//   - A demand that does not fit is skipped with all its classes.
// A choice costs O(demands + log tasks), amortised over at most one O(classes) replay per interval.
//
// A removed task stays in heap and queue until it reaches the front, or until removed tasks outnumber the others.
//
// Invariants (check_invariants()): held() is the sum of the demands of picked tasks; the head of a class is not
// removed. Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "rota/graph/dag.h"
#include "rota/graph/resources.h"
#include "rota/graph/task.h"

namespace rota::graph {

class ReadyOrder {
 public:
  static constexpr std::int64_t kReservationIntervals = 3;

  // `names` breaks the last ties; it may be null, and must outlive this object. REQUIRES: both pass check().
  ReadyOrder(const ResourceBudget& budget, const AgingPolicy& aging, const Dag* names);

  // Sets the task's priority and demand. Must be called before its first push(), and may be called again while the task
  // is not ready. REQUIRES: check(demand, budget).
  void declare(TaskRef task, std::int32_t priority, const ResourceDemand& demand);
  // The task is ready from `now` on. REQUIRES: declared, not ready.
  // Times passed here and below never decrease; a smaller one counts as the latest one.
  void push(TaskRef task, Moment now);
  // The task is not ready any more. REQUIRES: ready.
  void remove(TaskRef task, Moment now);
  // Changes the base priority. A ready task keeps its ready_since.
  void set_priority(TaskRef task, std::int32_t priority);
  // Removes the next task and takes its resources; returns none() if no task may start now.
  TaskRef pick(Moment now);
  // Returns the resources that pick() took for the task.
  void release(TaskRef task);
  // Removes the tasks whose `keep` is false and numbers the others anew, in the same order, as Dag::compact() does; the
  // names must have been compacted before. Classes that no task is left in are removed as well. REQUIRES: a task that
  // is removed is not ready and holds nothing.
  void compact(const std::vector<bool>& keep);

  // As long as nothing is pushed or released, the passage of time does not make another task startable: a caller that
  // picked until nothing was left needs no timer.
  [[nodiscard]] bool is_ready(TaskRef task) const { return entry(task).ready; }
  [[nodiscard]] Moment ready_since(TaskRef task) const { return entry(task).since; }
  [[nodiscard]] std::int32_t priority(TaskRef task) const { return classes_[entry(task).klass].priority; }
  [[nodiscard]] const ResourceDemand& demand(TaskRef task) const {
    return demands_[classes_[entry(task).klass].demand].demand;
  }
  [[nodiscard]] std::int64_t effective_priority(TaskRef task, Moment now) const;
  [[nodiscard]] std::size_t size() const { return live_; }
  [[nodiscard]] const ResourcesHeld& held() const { return held_; }
  [[nodiscard]] const ResourceBudget& budget() const { return budget_; }
  // The task that nothing may overtake now, or none().
  [[nodiscard]] TaskRef reserved(Moment now);

  // How often a choice skipped a demand because CPU slots, or memory, were missing.
  struct Hits {
    std::uint64_t cpu = 0;
    std::uint64_t memory = 0;
  };
  [[nodiscard]] const Hits& hits() const { return hits_; }

  void check_invariants() const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Entry {  // One per task.
    Moment since;
    std::uint64_t tie = 0;  // The first bytes of the name, or the number: decides most ties.
    std::uint32_t klass = kNone;
    std::uint32_t stamp = 0;  // Identifies the valid Waiting in the class's heap.
    std::uint32_t turn = 0;   // Identifies the valid Turn in the queue.
    bool ready = false;
  };
  struct Waiting {  // An entry of a class's heap.
    Moment since;
    std::uint64_t tie;
    std::uint32_t task;
    std::uint32_t stamp;
  };
  struct Turn {  // An entry of the queue of all ready tasks, ordered by ready_since.
    std::uint32_t task;
    std::uint32_t turn;
  };
  struct Class {
    std::int32_t priority;
    std::uint32_t demand;
    std::uint32_t leaf;      // Index in its demand's tree.
    std::uint32_t dead = 0;  // Removed entries that are still in the heap.
    std::vector<Waiting> heap{};
    // Effective priority of the head, as of the latest replay.
    std::int64_t effective = 0;
  };
  struct Node {
    std::uint32_t winner = kNone;      // A class.
    Moment changes = Moment::never();  // When the next effective priority below changes.
  };
  struct Demand {
    ResourceDemand demand;
    std::vector<std::uint32_t> classes{};  // By leaf.
    std::vector<Node> tree{};              // [1] is the root; the leaves are the second half.
    std::size_t live = 0;
  };

  [[nodiscard]] const Entry& entry(TaskRef task) const { return entries_[task.value() - 1]; }
  [[nodiscard]] std::uint32_t class_of(std::int32_t priority, const ResourceDemand& demand);
  [[nodiscard]] bool before(const Waiting& a, const Waiting& b) const;
  [[nodiscard]] bool head_before(std::uint32_t a, std::uint32_t b) const;
  void insert(std::uint32_t task);
  void drop(std::uint32_t task);
  void settle_head(Class& klass);
  void refresh_leaf(Demand& demand, std::uint32_t leaf);
  void merge(Demand& demand, std::size_t node) const;
  void climb(Demand& demand, std::uint32_t leaf);
  void replay(Demand& demand, std::size_t node);
  void settle_oldest();
  void advance(Moment now) {
    if (now > now_) now_ = now;
  }
  TaskRef take(std::uint32_t task);

  const ResourceBudget budget_;
  const std::int64_t interval_ns_;
  const std::int64_t boost_;
  const Dag* const names_;
  std::vector<Entry> entries_;
  std::vector<Class> classes_;
  std::vector<Demand> demands_;
  std::map<ResourceDemand, std::uint32_t> demand_index_;
  std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> class_index_;
  std::deque<Turn> queue_;
  std::uint32_t oldest_ = kNone;  // The task at the front of the queue; oldest_from_ says since when.
  std::uint32_t oldest_turn_ = 0;
  Moment oldest_from_;
  std::size_t live_ = 0;
  Moment now_;
  ResourcesHeld held_;
  Hits hits_;
};

// base + floor(wait / interval) * boost, clamped to the range of the type.
[[nodiscard]] std::int64_t aged_priority(std::int32_t base, std::int64_t wait_ns, std::int64_t interval_ns,
                                         std::int64_t boost);

}  // namespace rota::graph

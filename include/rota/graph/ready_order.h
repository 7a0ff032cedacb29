// ReadyOrder: which ready task runs next, and who holds which resources (G-4, G-5).
//
// The rule, exactly. Of the ready tasks that fit the resources now, the one with the highest effective priority
//     base + floor((now - ready_since) in ms / interval_ms) * boost,
// then the earliest ready_since, then the first by name (by number, where tasks have no names). But the oldest ready
// task (earliest ready_since, then first made ready) gets a reservation 3 intervals after it became the oldest: from
// then on nothing else starts before it. What runs at that time ends, and when nothing runs, every task fits. So no
// task waits longer, once it is the oldest, than 3 intervals and the longest running task; and at most one task in
// 3 intervals overtakes the order by it, so that priorities still mean something under a long queue.
//
// How, without looking at every ready task:
//   - Tasks of one base priority and one demand form a class. Inside a class the order is by ready_since and name,
//     whatever the time: a heap. Only the heads of the classes compete.
//   - An effective priority changes when an interval is full. The classes of one demand are the leaves of a tournament
//     tree whose nodes know their winner and when the first effective priority below them changes; a choice replays
//     only what has changed by then.
//   - Demands that do not fit are passed over as a whole.
// A choice costs O(demands + log tasks), amortised over at most one O(classes) replay an interval.
//
// Removed tasks stay in heap and queue until they come up, or until they are more than those that are alive.
//
// Invariants (check_invariants()): the sum of the demands of picked tasks is what is held; a class's head is alive.
// Thread safety: none.
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

  // `names` breaks the last ties, and may be null; it outlives this. REQUIRES: check() of both.
  ReadyOrder(const ResourceBudget& budget, const AgingPolicy& aging, const Dag* names);

  // Says what `task` is like. Must come before its first push(); may come again while it is not ready.
  // REQUIRES: check(demand, budget).
  void declare(TaskRef task, std::int32_t priority, const ResourceDemand& demand);
  // The task waits for its turn from now on. REQUIRES: declared, not ready.
  // All times that are given, here and below, never go back; an earlier one is taken for the latest.
  void push(TaskRef task, Moment now);
  // It does so no more. REQUIRES: ready.
  void remove(TaskRef task, Moment now);
  // Changes the base priority of a ready task, which keeps its ready_since, or of another.
  void set_priority(TaskRef task, std::int32_t priority);
  // Takes the next task out, with its resources; none if none may start now.
  TaskRef pick(Moment now);
  // Gives back what pick() took for it.
  void release(TaskRef task);

  // While nothing is pushed or released, time alone makes nothing startable that was not: who has picked until there is
  // none need not ask again by a timer.
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
  // The task that nothing may overtake now, or none.
  [[nodiscard]] TaskRef reserved(Moment now);

  // How often a choice passed a demand over for want of CPU slots, and of memory.
  struct Hits {
    std::uint64_t cpu = 0;
    std::uint64_t memory = 0;
  };
  [[nodiscard]] const Hits& hits() const { return hits_; }

  void check_invariants() const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Entry {  // One a task.
    Moment since;
    std::uint64_t tie = 0;  // The first bytes of the name, or the number: orders most ties by itself.
    std::uint32_t klass = kNone;
    std::uint32_t stamp = 0;  // Which Waiting of the class is the valid one.
    std::uint32_t turn = 0;   // Which Turn of the queue is the valid one.
    bool ready = false;
  };
  struct Waiting {  // In a class's heap.
    Moment since;
    std::uint64_t tie;
    std::uint32_t task;
    std::uint32_t stamp;
  };
  struct Turn {  // In the queue of all ready tasks, by ready_since.
    std::uint32_t task;
    std::uint32_t turn;
  };
  struct Class {
    std::int32_t priority;
    std::uint32_t demand;
    std::uint32_t leaf;      // In its demand's tree.
    std::uint32_t dead = 0;  // Entries of the heap that were removed.
    std::vector<Waiting> heap{};
    // Of the head, as of the latest replay:
    std::int64_t effective = 0;
  };
  struct Node {
    std::uint32_t winner = kNone;      // A class.
    Moment changes = Moment::never();  // When the first effective priority below changes.
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
  std::uint32_t oldest_ = kNone;  // The task at the front of the queue, and since when it is there.
  std::uint32_t oldest_turn_ = 0;
  Moment oldest_from_;
  std::size_t live_ = 0;
  Moment now_;
  ResourcesHeld held_;
  Hits hits_;
};

// base + floor(wait / interval) * boost, at the ends of the range where it would overflow.
[[nodiscard]] std::int64_t aged_priority(std::int32_t base, std::int64_t wait_ns, std::int64_t interval_ns,
                                         std::int64_t boost);

}  // namespace rota::graph

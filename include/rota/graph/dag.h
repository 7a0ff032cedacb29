// Dag: the dependency graph of tasks.
//
// Each task gets a dense TaskRef, in the order of arrival. The graph never contains a cycle: the tasks are kept in a
// topological order, and a call that would make every such order impossible is refused; its message names the cycle. A
// task that arrives together with its predecessors goes to the end of the order at no cost; an edge that contradicts
// the current order moves only the tasks between its two ends (Pearce and Kelly's algorithm).
//
// A refused call changes nothing.
//
// Invariants (check_invariants()):
//   (1) order_ and by_order_ are inverse permutations of the tasks
//   (2) each edge goes from a lower to a higher place in the order
// An edge that is added twice is stored twice, on both sides; code that counts edges down counts it twice.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "rota/graph/names.h"
#include "rota/graph/task.h"
#include "rota/result.h"

namespace rota::graph {

class Dag {
  static constexpr std::uint32_t kNoEdge = ~std::uint32_t{0};
  struct Edge {
    std::uint32_t from, to;
    std::uint32_t next_child;   // The next edge with the same `from`.
    std::uint32_t next_parent;  // The next edge with the same `to`.
  };

 public:
  struct NewTask {
    std::string_view name{};                    // Unique, or empty.
    std::span<const std::string_view> needs{};  // Predecessors by name: existing tasks, or tasks of the same call.
  };

  // Adds one task whose predecessors exist. Errors: AlreadyExists, NotFound (a predecessor), InvalidArgument (it needs
  // itself).
  Result<TaskRef> add(const NewTask& task);
  // Adds a task without a name. REQUIRES: the predecessors exist.
  TaskRef add(std::span<const TaskRef> needs);
  // Adds all tasks, given in any order, or none. Returns the first; the others follow it. InvalidArgument names a
  // cycle.
  Result<TaskRef> add_all(std::span<const NewTask> tasks);
  // Makes `to` wait for `from` as well. InvalidArgument if `from` already waits for `to`.
  Result<void> link(TaskRef from, TaskRef to);
  // Removes every task from number `size` on. REQUIRES: link() was not called since they were added.
  void truncate(std::uint32_t size);
  // The task is not found by its name any more, and another task may get the name.
  void free_name(TaskRef task);
  // Removes the tasks whose `keep` is false, with their edges, and numbers the others anew, in the same order. A task
  // whose name is free loses it. REQUIRES: keep.size() == size().
  void compact(const std::vector<bool>& keep);

  // Returns none() if there is no such task.
  [[nodiscard]] TaskRef find(std::string_view name) const;
  [[nodiscard]] std::string_view name(TaskRef task) const { return names_.at(task.value() - 1); }
  // The name in quotes, or "task 7", for messages.
  [[nodiscard]] std::string label(TaskRef task) const;
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(nodes_.size()); }
  [[nodiscard]] bool has(TaskRef task) const { return !task.is_none() && task.value() <= size(); }
  [[nodiscard]] std::size_t edges() const { return edges_.size(); }

  // A range of TaskRefs.
  template <bool kChildren>
  class Neighbours {
   public:
    class iterator {
     public:
      using value_type = TaskRef;
      using difference_type = std::ptrdiff_t;
      iterator() = default;
      iterator(const Edge* edges, std::uint32_t at) : edges_(edges), at_(at) {}
      TaskRef operator*() const { return TaskRef((kChildren ? edges_[at_].to : edges_[at_].from) + 1); }
      iterator& operator++() {
        at_ = kChildren ? edges_[at_].next_child : edges_[at_].next_parent;
        return *this;
      }
      iterator operator++(int) {
        iterator old = *this;
        ++*this;
        return old;
      }
      friend bool operator==(iterator a, iterator b) { return a.at_ == b.at_; }

     private:
      const Edge* edges_ = nullptr;
      std::uint32_t at_ = kNoEdge;
    };
    Neighbours(const Edge* edges, std::uint32_t first) : edges_(edges), first_(first) {}
    [[nodiscard]] iterator begin() const { return iterator(edges_, first_); }
    [[nodiscard]] iterator end() const { return iterator(edges_, kNoEdge); }

   private:
    const Edge* edges_;
    std::uint32_t first_;
  };
  // Direct successors and predecessors, latest edge first. Valid until the graph changes.
  [[nodiscard]] Neighbours<true> children(TaskRef task) const { return {edges_.data(), node(task).first_child}; }
  [[nodiscard]] Neighbours<false> parents(TaskRef task) const { return {edges_.data(), node(task).first_parent}; }
  [[nodiscard]] std::uint32_t parent_count(TaskRef task) const { return node(task).parents; }
  // The task's position in a topological order, from 0; link() may change it.
  [[nodiscard]] std::uint32_t order(TaskRef task) const { return order_[task.value() - 1]; }

  void check_invariants() const;

 private:
  struct Node {
    std::uint32_t first_child = kNoEdge;
    std::uint32_t first_parent = kNoEdge;
    std::uint32_t parents = 0;
  };
  [[nodiscard]] const Node& node(TaskRef task) const { return nodes_[task.value() - 1]; }
  void push_node();
  void push_edge(std::uint32_t from, std::uint32_t to);
  Result<void> connect(std::uint32_t first, std::span<const NewTask> tasks);
  bool place(std::uint32_t first);
  [[nodiscard]] Error cycle_among(std::uint32_t first) const;
  [[nodiscard]] Error cycle_error(std::span<const std::uint32_t> path) const;
  bool forward(std::uint32_t start, std::uint32_t target, std::vector<std::uint32_t>& found);
  void backward(std::uint32_t start, std::uint32_t lowest, std::vector<std::uint32_t>& found);
  void next_stamp();

  Names names_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::vector<std::uint32_t> order_, by_order_;
  // For each task: the number of the last search that visited it, and the task from which it was reached.
  std::vector<std::uint32_t> seen_, from_;
  std::uint32_t stamp_ = 0;
};

}  // namespace rota::graph

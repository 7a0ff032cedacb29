#include "rota/graph/dag.h"

#include <algorithm>
#include <string>
#include <utility>

#include "rota/assert.h"

namespace rota::graph {

std::string Dag::label(TaskRef task) const {
  const std::string_view text = name(task);
  return text.empty() ? "task " + std::to_string(task.value()) : "'" + std::string(text) + "'";
}

TaskRef Dag::find(std::string_view name) const {
  const std::uint32_t number = names_.find(name);
  return number == Names::kNone ? TaskRef::none() : TaskRef(number + 1);
}

void Dag::push_node() {
  nodes_.push_back({});
  order_.push_back(static_cast<std::uint32_t>(by_order_.size()));
  by_order_.push_back(static_cast<std::uint32_t>(nodes_.size() - 1));
  seen_.push_back(0);
  from_.push_back(0);
}

void Dag::push_edge(std::uint32_t from, std::uint32_t to) {
  ROTA_ASSERT(edges_.size() < kNoEdge, "too many edges");
  const auto edge = static_cast<std::uint32_t>(edges_.size());
  edges_.push_back({from, to, nodes_[from].first_child, nodes_[to].first_parent});
  nodes_[from].first_child = edge;
  nodes_[to].first_parent = edge;
  nodes_[to].parents += 1;
}

TaskRef Dag::add(std::span<const TaskRef> needs) {
  names_.add({});
  push_node();
  for (const TaskRef need : needs) {
    ROTA_ASSERT(has(need) && need.value() < size(), "no such predecessor: ", need);
    push_edge(need.value() - 1, size() - 1);
  }
  return TaskRef(size());
}

Result<TaskRef> Dag::add(const NewTask& task) { return add_all({&task, 1}); }

Result<TaskRef> Dag::add_all(std::span<const NewTask> tasks) {
  const std::uint32_t first = size();
  Result<void> added = connect(first, tasks);
  if (added.ok() && !place(first)) added = cycle_among(first);
  if (!added.ok()) {
    truncate(first);
    return std::move(added).take_failure();
  }
  return TaskRef(first + 1);
}

// Adds nodes and edges. If it fails, some of them stay for the caller to remove; the new nodes have no order yet.
Result<void> Dag::connect(std::uint32_t first, std::span<const NewTask> tasks) {
  for (const NewTask& task : tasks) {
    if (!names_.add(task.name)) {
      const bool here = names_.find(task.name) >= first;
      return Error{ErrorCode::kAlreadyExists,
                   "task '" + std::string(task.name) +
                       (here ? "' appears twice in the submission; give each task its own name"
                             : "' already exists; choose another name")}
          .with("task", std::string(task.name));
    }
    push_node();
  }
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const std::string_view need : tasks[i].needs) {
      const std::uint32_t from = names_.find(need);
      const std::uint32_t to = first + static_cast<std::uint32_t>(i);
      if (from == Names::kNone) {
        return Error{ErrorCode::kNotFound, label(TaskRef(to + 1)) + " needs '" + std::string(need) +
                                               "', which does not exist; submit it first or in the same submission"}
            .with("task", std::string(tasks[i].name))
            .with("dependency", std::string(need));
      }
      push_edge(from, to);
    }
  }
  return {};
}

// Places the tasks from `first` on at the end of the order: each after its predecessors, otherwise in the order of
// arrival. False if that is impossible.
bool Dag::place(std::uint32_t first) {
  // Usually every task comes after its predecessors, and the positions that push_node() gave are right.
  bool in_order = true;
  for (std::uint32_t to = first; to < size() && in_order; ++to) {
    for (std::uint32_t e = nodes_[to].first_parent; e != kNoEdge; e = edges_[e].next_parent) {
      in_order &= edges_[e].from < to;
    }
  }
  if (in_order) return true;
  std::vector<std::uint32_t> waits(size() - first, 0);
  for (std::uint32_t to = first; to < size(); ++to) {
    for (std::uint32_t e = nodes_[to].first_parent; e != kNoEdge; e = edges_[e].next_parent) {
      waits[to - first] += edges_[e].from >= first ? 1 : 0;
    }
  }
  std::uint32_t placed = first, looked = first;
  const auto put = [&](std::uint32_t task) {
    order_[task] = placed;
    by_order_[placed++] = task;
  };
  for (std::uint32_t task = first; task < size(); ++task) {
    if (waits[task - first] == 0) put(task);
  }
  while (looked < placed) {
    for (std::uint32_t e = nodes_[by_order_[looked++]].first_child; e != kNoEdge; e = edges_[e].next_child) {
      if (--waits[edges_[e].to - first] == 0) put(edges_[e].to);
    }
  }
  if (placed == size()) return true;
  for (std::uint32_t task = first; task < size(); ++task) seen_[task] = waits[task - first] == 0 ? 0 : ~0U;
  return false;
}

// Finds a cycle among the tasks that place() could not place. Each of them waits for another of them, so a walk from a
// task to one of its predecessors must return. place() has marked them with ~0 in seen_.
Error Dag::cycle_among(std::uint32_t first) const {
  std::uint32_t at = first;
  while (seen_[at] != ~0U) ++at;
  std::vector<std::uint32_t> step(size() - first, 0);  // At which step the walk visited the task, from 1.
  std::vector<std::uint32_t> path;
  while (step[at - first] == 0) {
    path.push_back(at);
    step[at - first] = static_cast<std::uint32_t>(path.size());
    std::uint32_t e = nodes_[at].first_parent;
    while (edges_[e].from < first || seen_[edges_[e].from] != ~0U) e = edges_[e].next_parent;
    at = edges_[e].from;
  }
  path.erase(path.begin(), path.begin() + step[at - first] - 1);
  std::reverse(path.begin(), path.end());  // From "waits for" to "comes before".
  return cycle_error(path);
}

Error Dag::cycle_error(std::span<const std::uint32_t> path) const {
  constexpr std::size_t kShown = 16;  // The two ends of a long cycle are enough.
  std::string text = "a dependency cycle, in which no task could ever start: ";
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path.size() > kShown && i == kShown / 2) {
      text += "... (" + std::to_string(path.size() - kShown) + " more) -> ";
      i = path.size() - kShown / 2;
    }
    text += label(TaskRef(path[i] + 1)) + " -> ";
  }
  text += label(TaskRef(path.front() + 1));
  return Error{ErrorCode::kInvalidArgument, std::move(text)}.with("reason", "cycle");
}

void Dag::truncate(std::uint32_t size) {
  ROTA_ASSERT(size <= this->size());
  // The edges of a task that arrived with its predecessors are the latest ones.
  while (!edges_.empty() && edges_.back().to >= size) {
    const Edge edge = edges_.back();
    nodes_[edge.from].first_child = edge.next_child;
    nodes_[edge.to].first_parent = edge.next_parent;
    nodes_[edge.to].parents -= 1;
    edges_.pop_back();
  }
  names_.truncate(size);
  nodes_.resize(size);
  order_.resize(size);
  by_order_.resize(size);
  seen_.resize(size);
  from_.resize(size);
}

void Dag::free_name(TaskRef task) { names_.free(task.value() - 1); }

void Dag::compact(const std::vector<bool>& keep) {
  std::vector<std::uint32_t> number(size(), 0);  // The new numbers.
  Dag kept;
  for (std::uint32_t i = 0; i < size(); ++i) {
    if (!keep[i]) continue;
    number[i] = kept.size();
    const std::string_view text = names_.at(i);
    kept.names_.add(names_.find(text) == i ? text : std::string_view());
    kept.push_node();
  }
  std::uint32_t place = 0;
  for (const std::uint32_t task : by_order_) {
    if (!keep[task]) continue;
    kept.order_[number[task]] = place;
    kept.by_order_[place++] = number[task];
  }
  // In the old order, so that every list of neighbours keeps its order.
  for (const Edge& edge : edges_) {
    if (keep[edge.from] && keep[edge.to]) kept.push_edge(number[edge.from], number[edge.to]);
  }
  *this = std::move(kept);
}

void Dag::next_stamp() {
  if (++stamp_ == ~0U) {
    std::fill(seen_.begin(), seen_.end(), 0);
    stamp_ = 1;
  }
}

// Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs" (2006): if `from` stands after
// `to`, only tasks between the two positions are affected. The tasks that `to` reaches must come after the tasks that
// reach `from`; each group keeps its own order, and both share the positions that they had.
Result<void> Dag::link(TaskRef from_ref, TaskRef to_ref) {
  ROTA_ASSERT(has(from_ref) && has(to_ref), "no such task");
  const std::uint32_t from = from_ref.value() - 1, to = to_ref.value() - 1;
  if (from == to) return cycle_error({&from, 1});
  if (order_[from] > order_[to]) {
    std::vector<std::uint32_t> after, before;
    next_stamp();
    if (forward(to, from, after)) {
      std::vector<std::uint32_t> path;
      for (std::uint32_t at = from; at != to; at = from_[at]) path.push_back(at);
      path.push_back(to);
      std::reverse(path.begin(), path.end());
      return cycle_error(path);
    }
    backward(from, order_[to], before);
    const auto by_place = [this](std::uint32_t a, std::uint32_t b) { return order_[a] < order_[b]; };
    std::sort(after.begin(), after.end(), by_place);
    std::sort(before.begin(), before.end(), by_place);
    std::vector<std::uint32_t> places;
    before.insert(before.end(), after.begin(), after.end());
    for (const std::uint32_t task : before) places.push_back(order_[task]);
    std::sort(places.begin(), places.end());
    for (std::size_t i = 0; i < before.size(); ++i) {
      order_[before[i]] = places[i];
      by_order_[places[i]] = before[i];
    }
  }
  push_edge(from, to);
  return {};
}

// Collects the tasks that `start` reaches, up to the position of `target`. True if `target` is one of them; from_ then
// leads back.
bool Dag::forward(std::uint32_t start, std::uint32_t target, std::vector<std::uint32_t>& found) {
  found.push_back(start);
  seen_[start] = stamp_;
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::uint32_t e = nodes_[found[i]].first_child; e != kNoEdge; e = edges_[e].next_child) {
      const std::uint32_t next = edges_[e].to;
      if (order_[next] > order_[target] || seen_[next] == stamp_) continue;
      seen_[next] = stamp_;
      from_[next] = found[i];
      if (next == target) return true;
      found.push_back(next);
    }
  }
  return false;
}

void Dag::backward(std::uint32_t start, std::uint32_t lowest, std::vector<std::uint32_t>& found) {
  found.push_back(start);
  seen_[start] = stamp_;
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::uint32_t e = nodes_[found[i]].first_parent; e != kNoEdge; e = edges_[e].next_parent) {
      const std::uint32_t next = edges_[e].from;
      if (order_[next] < lowest || seen_[next] == stamp_) continue;
      seen_[next] = stamp_;
      found.push_back(next);
    }
  }
}

void Dag::check_invariants() const {
  ROTA_ASSERT(order_.size() == nodes_.size() && by_order_.size() == nodes_.size() && names_.size() == nodes_.size());
  for (std::uint32_t i = 0; i < size(); ++i) ROTA_ASSERT(by_order_[order_[i]] == i, "task ", i);
  std::vector<std::uint32_t> parents(size(), 0);
  for (const Edge& edge : edges_) {
    ROTA_ASSERT(order_[edge.from] < order_[edge.to], "edge ", edge.from, " to ", edge.to);
    parents[edge.to] += 1;
  }
  for (std::uint32_t i = 0; i < size(); ++i) ROTA_ASSERT(parents[i] == nodes_[i].parents, "task ", i);
}

}  // namespace rota::graph

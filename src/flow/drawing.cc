#include "flow/drawing.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string_view>

#include "rota/flow/picture.h"

namespace rota::flow {

namespace detail {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

// At most three decimals, which is enough for a reader.
std::string time_text(std::int64_t ns) {
  struct Unit {
    std::int64_t ns;
    const char* name;
  };
  static constexpr std::array<Unit, 3> kUnits{{{1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}}};
  for (const Unit& unit : kUnits) {
    if (ns < unit.ns) continue;
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.3f", static_cast<double>(ns) / static_cast<double>(unit.ns));
    std::string text = digits;
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text + " " + unit.name;
  }
  return std::to_string(ns) + " ns";
}

// The lines below the name; empty without a run.
std::string run_text(const Drawing::Task& task, std::string_view new_line) {
  std::string text;
  if (task.state && *task.state != graph::TaskState::kSucceeded) {
    text.append(new_line).append(graph::to_string(*task.state));
  }
  if (task.run_ns) text.append(new_line).append(time_text(*task.run_ns));
  return text;
}

// Marks the tasks and edges on the critical path: for each task its successor on the path, or kNone.
struct Marks {
  std::vector<char> on;
  std::vector<std::uint32_t> next;
  explicit Marks(const Drawing& drawing) : on(drawing.tasks.size(), 0), next(drawing.tasks.size(), kNone) {
    const std::vector<std::uint32_t> path = critical_path(drawing);
    for (std::size_t i = 0; i < path.size(); ++i) {
      on[path[i]] = 1;
      if (i + 1 < path.size()) next[path[i]] = path[i + 1];
    }
  }
  [[nodiscard]] bool on_path(const Drawing::Edge& edge) const { return next[edge.from] == edge.to; }
};

}  // namespace

std::vector<std::uint32_t> critical_path(const Drawing& drawing) {
  const std::size_t count = drawing.tasks.size();
  std::vector<std::uint32_t> starts(count + 1, 0), waits(count, 0), targets(drawing.edges.size());
  for (const Drawing::Edge& edge : drawing.edges) {
    starts[edge.from] += 1;
    waits[edge.to] += 1;
  }
  std::uint32_t sum = 0;
  for (std::uint32_t& start : starts) sum = start += sum;
  for (std::size_t e = drawing.edges.size(); e-- > 0;) targets[--starts[drawing.edges[e].from]] = drawing.edges[e].to;

  // In topological order: the longest chain that ends with each task.
  std::vector<std::uint32_t> order, before(count, kNone);
  std::vector<std::int64_t> longest(count, -1);  // -1: no task on it ran.
  for (std::uint32_t i = 0; i < count; ++i) {
    if (waits[i] == 0) order.push_back(i);
  }
  std::uint32_t last = kNone;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const std::uint32_t at = order[k];
    const std::optional<std::int64_t>& run_ns = drawing.tasks[at].run_ns;
    if (run_ns) {
      longest[at] = std::max<std::int64_t>(longest[at], 0) + *run_ns;
      // ">=": a successor that took no time belongs to the path as well.
      if (last == kNone || longest[at] >= longest[last]) last = at;
    }
    for (std::uint32_t e = starts[at]; e < starts[at + 1]; ++e) {
      const std::uint32_t to = targets[e];
      if (run_ns && longest[at] > longest[to]) {
        longest[to] = longest[at];
        before[to] = at;
      }
      if (--waits[to] == 0) order.push_back(to);
    }
  }
  std::vector<std::uint32_t> path;
  for (; last != kNone; last = before[last]) path.push_back(last);
  std::reverse(path.begin(), path.end());
  return path;
}

std::string graphviz(const Drawing& drawing) {
  static constexpr std::string_view kMarked = "color=red, penwidth=2";
  const Marks marks(drawing);
  std::string text = "digraph flow {\n";
  for (std::uint32_t i = 0; i < drawing.tasks.size(); ++i) {
    std::string quoted;
    for (const char c : drawing.tasks[i].name) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    text += "  n" + std::to_string(i) + " [label=\"" + quoted + run_text(drawing.tasks[i], "\\n") + '"';
    if (marks.on[i] != 0) text.append(", ").append(kMarked);
    text += "];\n";
  }
  for (const Drawing::Edge& edge : drawing.edges) {
    text += "  n" + std::to_string(edge.from) + " -> n" + std::to_string(edge.to);
    if (marks.on_path(edge)) text.append(" [").append(kMarked).append("]");
    text += ";\n";
  }
  return text + "}\n";
}

std::string mermaid(const Drawing& drawing) {
  const Marks marks(drawing);
  std::string text = "flowchart LR\n";
  bool marked = false;
  for (std::uint32_t i = 0; i < drawing.tasks.size(); ++i) {
    std::string quoted;
    for (const char c : drawing.tasks[i].name) quoted += c == '"' ? std::string("#quot;") : std::string(1, c);
    text += "  n" + std::to_string(i) + "[\"" + quoted + run_text(drawing.tasks[i], "<br/>") + "\"]";
    if (marks.on[i] != 0) text += ":::critical";
    text += '\n';
    marked |= marks.on[i] != 0;
  }
  for (const Drawing::Edge& edge : drawing.edges) {
    text += "  n" + std::to_string(edge.from) + (marks.on_path(edge) ? " ==> n" : " --> n") + std::to_string(edge.to);
    text += '\n';
  }
  if (marked) text += "  classDef critical stroke:#d00,stroke-width:3px\n";
  return text;
}

namespace {

Drawing drawing_of(std::span<const TaskInfo> run) {
  Drawing drawing;
  std::map<std::string_view, std::uint32_t> index;
  for (const TaskInfo& info : run) {
    index.emplace(info.descriptor.task_id, static_cast<std::uint32_t>(drawing.tasks.size()));
    Drawing::Task& task = drawing.tasks.emplace_back(Drawing::Task{.name = info.descriptor.task_id});
    task.state = info.state;
    if (info.attempts > 0) task.run_ns = info.run_time.count();
  }
  for (std::uint32_t i = 0; i < run.size(); ++i) {
    for (const std::string& dep : run[i].descriptor.deps) {
      if (const auto at = index.find(dep); at != index.end()) drawing.edges.push_back({at->second, i});
    }
  }
  return drawing;
}

}  // namespace
}  // namespace detail

std::string graphviz(std::span<const TaskInfo> run) { return detail::graphviz(detail::drawing_of(run)); }
std::string mermaid(std::span<const TaskInfo> run) { return detail::mermaid(detail::drawing_of(run)); }

std::vector<std::string> critical_path(std::span<const TaskInfo> run) {
  std::vector<std::string> ids;
  for (const std::uint32_t i : detail::critical_path(detail::drawing_of(run))) {
    ids.push_back(run[i].descriptor.task_id);
  }
  return ids;
}

}  // namespace rota::flow

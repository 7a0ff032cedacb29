// The input of a picture of a graph, independent of who ran it: names, edges, and the times of a run.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rota/graph/task.h"

namespace rota::flow::detail {

struct Drawing {
  struct Task {
    std::string name;
    // About a run, if there was one.
    std::optional<graph::TaskState> state{};
    std::optional<std::int64_t> run_ns{};  // Set if the task ran.
  };
  struct Edge {
    std::uint32_t from, to;
  };
  std::vector<Task> tasks;
  std::vector<Edge> edges;
};

// The chain of dependencies with the longest sum of run times, from first task to last. Empty if nothing ran.
// Deterministic for ties. Tasks on a cycle, or behind one, are ignored.
[[nodiscard]] std::vector<std::uint32_t> critical_path(const Drawing& drawing);
[[nodiscard]] std::string graphviz(const Drawing& drawing);
[[nodiscard]] std::string mermaid(const Drawing& drawing);

}  // namespace rota::flow::detail

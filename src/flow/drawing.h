// What a picture of a graph is made from, whoever ran it: names, edges, and what is known of a run.
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
    // Of a run, if there was one.
    std::optional<graph::TaskState> state{};
    std::optional<std::int64_t> run_ns{};  // If it ran.
  };
  struct Edge {
    std::uint32_t from, to;
  };
  std::vector<Task> tasks;
  std::vector<Edge> edges;
};

// The chain whose run times have the longest sum, from its first task to its last. Empty if nothing ran. Of equal ones
// the same each time. What is on a cycle, or behind one, is left out.
[[nodiscard]] std::vector<std::uint32_t> critical_path(const Drawing& drawing);
[[nodiscard]] std::string graphviz(const Drawing& drawing);
[[nodiscard]] std::string mermaid(const Drawing& drawing);

}  // namespace rota::flow::detail

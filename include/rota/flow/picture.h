// Pictures of a run: the graph with each task's time, and the critical path marked, from what report() says.
//
//   scheduler->wait_all();
//   std::ofstream("run.dot") << graphviz(scheduler->report());     // or engine.wait(id)->tasks
//
// The critical path is the chain of dependencies whose run times have the longest sum: no number of workers makes the
// run shorter than it. Tasks that did not run are not on it. Dependencies on tasks that are not in the report are left
// out.
//
// Thread safety: functions without state.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rota/flow/scheduler.h"

namespace rota::flow {

// For Graphviz, and for Markdown pages.
[[nodiscard]] std::string graphviz(std::span<const TaskInfo> run);
[[nodiscard]] std::string mermaid(std::span<const TaskInfo> run);
// The ids of the tasks on it, from the first to the last.
[[nodiscard]] std::vector<std::string> critical_path(std::span<const TaskInfo> run);

}  // namespace rota::flow

// Draws a run: the graph with each task's time and the critical path, from the tasks that report() returns.
//
//   scheduler->wait_all();
//   std::ofstream("run.dot") << graphviz(scheduler->report());     // or engine.wait(id)->tasks
//
// The critical path is the chain of dependencies with the longest sum of run times: with any number of workers the run
// takes at least that long. Tasks that did not run are not part of it. Dependencies on tasks that are not in the report
// are ignored.
//
// Thread safety: functions without state.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rota/flow/scheduler.h"

namespace rota::flow {

// Text for Graphviz, and for Markdown pages.
[[nodiscard]] std::string graphviz(std::span<const TaskInfo> run);
[[nodiscard]] std::string mermaid(std::span<const TaskInfo> run);
// The ids of the tasks on the critical path, from first to last.
[[nodiscard]] std::vector<std::string> critical_path(std::span<const TaskInfo> run);

}  // namespace rota::flow

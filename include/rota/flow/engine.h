// WorkflowEngine: starts, observes and ends a graph of stages as one named workflow (G-1, G-9).
//
//   WorkflowEngine engine(std::move(scheduler));
//   Result<std::string> id =
//       engine.start_workflow({.name = "film", .stages = {...}}, [](const WorkflowReport& end) {...});
//   Result<WorkflowReport> report = engine.wait(*id);
//
// A workflow ends when the last of its tasks is terminal: as Failed if a task failed, otherwise as Cancelled if a task
// was cancelled, otherwise as Succeeded. Its end is reported exactly once, even if tasks are retried by hand
// afterwards.
//
// Thread safety: everything may be called from any thread. on_end runs on the thread that ended the last task or
// started the workflow; it must not wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rota/flow/scheduler.h"

namespace rota::flow {

struct WorkflowStage {
  std::string id;  // Unique within the workflow.
  Stage run;
  std::vector<std::string> deps{};  // Ids within the workflow.
  std::int32_t priority = 0;
  ResourceDemand resource_demand{};
  RetryPolicy retry{};
};

struct Workflow {
  std::string name;  // Without a slash. The workflow's id is the name and a number.
  std::vector<WorkflowStage> stages;
  std::string trace_id{};  // For all its stages; the workflow's id if empty.
};

enum class WorkflowOutcome : std::uint8_t { kSucceeded, kFailed, kCancelled };
std::string_view to_string(WorkflowOutcome outcome);

struct WorkflowReport {
  std::string id;
  WorkflowOutcome outcome = WorkflowOutcome::kSucceeded;
  std::optional<TaskError> error;  // Of the first task that failed or was cancelled.
  std::vector<TaskInfo> tasks;     // In the order of the stages; the ids are "<workflow>/<stage>".
  std::chrono::nanoseconds started{0}, ended{0};
};

struct WorkflowProgress {
  std::string id;
  std::uint32_t tasks = 0, ended = 0, running = 0, failed = 0;
  double fraction = 0;  // The mean of the tasks' progress; a task that has ended counts as 1.
};

class WorkflowEngine {
 public:
  using OnEnd = std::function<void(const WorkflowReport&)>;
  using OnProgress = std::function<void(const WorkflowProgress&)>;

  // REQUIRES: nothing was submitted to the scheduler yet. `on_progress`, if given, is called for every event, one at a
  // time. When more than `max_ended` workflows have ended, the one that ended first is forgotten; 0: none is.
  explicit WorkflowEngine(std::unique_ptr<IScheduler> scheduler, OnProgress on_progress = {},
                          std::size_t max_ended = 0);
  // Cancels the workflows that have not ended and reports their ends before it returns.
  ~WorkflowEngine();
  WorkflowEngine(const WorkflowEngine&) = delete;
  WorkflowEngine& operator=(const WorkflowEngine&) = delete;

  // Returns the workflow's id. If it is refused, with an error of IScheduler::submit_all() or InvalidArgument for a bad
  // name or an empty list of stages, no task is submitted and nothing is reported.
  Result<std::string> start_workflow(Workflow workflow, OnEnd on_end = {});

  // Each applies to every task of the workflow whose state allows it. Pausing waits for the running tasks, one after
  // the other; the first error is returned.
  Result<void> pause(std::string_view workflow_id);
  Result<void> resume(std::string_view workflow_id);
  Result<void> cancel(std::string_view workflow_id);

  // Forgets a workflow that has ended, and its tasks: their ids are unknown from now on. FailedPrecondition if its end
  // has not been reported, or a task of it runs again.
  Result<void> forget(std::string_view workflow_id);

  // Waits until the workflow has ended.
  Result<WorkflowReport> wait(std::string_view workflow_id);
  [[nodiscard]] Result<WorkflowProgress> progress(std::string_view workflow_id) const;
  [[nodiscard]] IScheduler& scheduler();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rota::flow

// WorkflowEngine: a graph of stages under one name, started, watched and ended as one (G-1, G-9).
//
//   WorkflowEngine engine(std::move(scheduler));
//   Result<std::string> id = engine.start_workflow({.name = "film", .stages = {...}}, [](const WorkflowReport& end)
//   {...}); Result<WorkflowReport> report = engine.wait(*id);
//
// A workflow ends when the last of its tasks is terminal: Failed if one has failed, otherwise Cancelled if one was
// cancelled, otherwise Succeeded. Its end is reported once, however fast its stages are, and whatever is retried by
// hand afterwards.
//
// Thread safety: everything may be called from any thread. on_end runs on whatever thread ended the last task, or on
// the one that started the workflow; it must not wait.
#pragma once

#include <chrono>
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
  std::string id;  // Within the workflow.
  Stage run;
  std::vector<std::string> deps{};  // Ids within the workflow.
  std::int32_t priority = 0;
  ResourceDemand resource_demand{};
  RetryPolicy retry{};
};

struct Workflow {
  std::string name;  // Without a slash. The workflow's id is this and a number.
  std::vector<WorkflowStage> stages;
  std::string trace_id{};  // Of all its stages; the workflow's id if empty.
};

enum class WorkflowOutcome : std::uint8_t { kSucceeded, kFailed, kCancelled };
std::string_view to_string(WorkflowOutcome outcome);

struct WorkflowReport {
  std::string id;
  WorkflowOutcome outcome = WorkflowOutcome::kSucceeded;
  std::optional<TaskError> error;  // Of the first task that failed, or was cancelled.
  std::vector<TaskInfo> tasks;     // In the order of the stages; the ids are "<workflow>/<stage>".
  std::chrono::nanoseconds started{0}, ended{0};
};

struct WorkflowProgress {
  std::string_view id;
  std::uint32_t tasks = 0, ended = 0, running = 0, failed = 0;
  double fraction = 0;  // The mean of the tasks' progress; a task that has ended counts as 1.
};

class WorkflowEngine {
 public:
  using OnEnd = std::function<void(const WorkflowReport&)>;
  using OnProgress = std::function<void(const WorkflowProgress&)>;

  // REQUIRES: nothing was submitted to the scheduler yet. `on_progress`, if given, hears of every event, one after the
  // other.
  explicit WorkflowEngine(std::unique_ptr<IScheduler> scheduler, OnProgress on_progress = {});
  // Cancels what has not ended; each end is reported before this returns.
  ~WorkflowEngine();
  WorkflowEngine(const WorkflowEngine&) = delete;
  WorkflowEngine& operator=(const WorkflowEngine&) = delete;

  // The workflow's id. Refused as a whole, with what IScheduler::submit_all() says, or InvalidArgument for a bad name
  // or no stages; nothing is reported then.
  Result<std::string> start_workflow(Workflow workflow, OnEnd on_end = {});

  // Each is given to every task of the workflow that it makes sense for. Pausing waits for the running tasks, one after
  // the other; the first error is returned.
  Result<void> pause(std::string_view workflow_id);
  Result<void> resume(std::string_view workflow_id);
  Result<void> cancel(std::string_view workflow_id);

  // Waits for the end.
  Result<WorkflowReport> wait(std::string_view workflow_id);
  [[nodiscard]] Result<WorkflowProgress> progress(std::string_view workflow_id) const;
  [[nodiscard]] IScheduler& scheduler();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rota::flow

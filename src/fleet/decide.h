// Decision: the events that follow from a command in a state.
//
// Pure: a function of the state and the command. Each event is applied as soon as it is decided, so that the next
// choice of the same command sees it: two tasks that become ready at once do not both get the last free worker.
//
// A command is refused before its first event, or not at all.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fleet/command.h"
#include "fleet/event.h"
#include "fleet/state.h"
#include "rota/result.h"

namespace rota::fleet {

struct Choice;
struct Head;

class Decision {
 public:
  // REQUIRES: state.begin() for the command.
  Decision(State& state, const Command& command, Events& events) : state_(state), command_(command), events_(events) {}

  // Decides the events of the command itself. An error refuses the command; then nothing has changed.
  Result<void> run();
  // Decides all that follows from the new state (assignments, ends of workflows, ...), until nothing is left to do.
  void settle();

 private:
  Result<void> on(const SetPolicy& command);
  Result<void> on(const Tick& command);
  Result<void> on(const RegisterWorker& command);
  Result<void> on(const Heartbeats& command);
  Result<void> on(const DrainWorker& command);
  Result<void> on(const WorkerLost& command);
  Result<void> on(const SetWorkerEnabled& command);
  Result<void> on(const ReportCaches& command);
  Result<void> on(const SubmitWorkflow& command);
  Result<void> on(const Control& command);
  Result<void> on(const SetPriority& command);
  Result<void> on(const SetQuota& command);
  Result<void> on(const ReportEnded& command);
  Result<void> on(const ReportCheckpoint& command);
  Result<void> on(const ReportUndeliverable& command);
  Result<void> on(const ForgetWorkflow& command);
  Result<void> on(const SetSchedule& command);
  Result<void> on(const ChangeSchedule& command);
  Result<bool> fires(const SubmitWorkflow& command);

  // Records an event and applies it.
  template <class One>
  void emit(One&& event) {
    state_.apply(events_.emplace_back(std::forward<One>(event)), command_);
  }

  // decide_report.cc
  Result<const Task*> reported(TaskId id, AttemptNumber attempt);
  void resume_if_paused(TaskId id);
  void succeeded(const ReportEnded& report);
  void end_attempt(TaskId id, FailureKind kind, const std::string& message, bool final, bool batch = false);
  void fail(TaskId id, FailureKind kind, const std::string& message);
  void cascade(TaskId root);
  [[nodiscard]] std::vector<bool> spared_by_item(const Workflow& workflow, TaskId root,
                                                 std::vector<std::uint32_t> reached) const;
  void stop_gang(TaskId id);
  void stopped(TaskId id);
  void cancel(TaskId id, TaskId root);
  void worker_gone(WorkerId id);
  // The worker takes no more tasks: workflows and types that are bound to it are bound to none.
  void drop_bindings(WorkerId id);
  // The worker sent a message and still has its tasks.
  void heard_from(const Worker& worker);

  // decide_control.cc
  void control(const Workflow& workflow, TaskId id, Action action);
  [[nodiscard]] static std::vector<std::uint32_t> stages_in_order(const Workflow& workflow);
  Result<void> check_retry(const Workflow& workflow, TaskId id) const;
  void retry(const Workflow& workflow, TaskId id);
  void stop_workflow(const Workflow& workflow, StopCause cause, TaskId failed = TaskId());
  [[nodiscard]] bool stoppable(const Workflow& workflow) const;
  [[nodiscard]] TaskId broken_need(const Workflow& workflow, std::uint32_t stage) const;
  [[nodiscard]] TaskId broken_fan_out(const Workflow& workflow, std::uint32_t stage) const;
  [[nodiscard]] TaskId broken_item(const Workflow& workflow, const Task& task) const;

  // decide_timer.cc
  void fire(const Timer& timer);
  void fire_graces(const std::vector<ShapeRef>& shapes);
  [[nodiscard]] std::string unplaceable(const ShapeKey& key) const;
  void poll_elastic();

  // settle.cc
  bool promote();
  bool unbind();
  bool release_room();
  bool examine();
  void expand(TaskId id);  // fan_out.cc
  bool place();
  const OrderTree::Item* next_to_place();
  const OrderTree::Item* first_open();
  bool place_gang(ShapeRef shape, TaskId any);
  void assign(TaskId id, const Choice& choice);
  bool defer();
  bool preempt();
  bool end_workflow();
  bool recall();
  bool leave();
  // settle_bounds.cc
  bool reserve_ahead_of(const OrderTree::Item& next, WorkerId where);
  bool recall_at(const Worker& worker);
  // True if so many more tasks with this key would exceed the user's quota or the resources of the fleet.
  [[nodiscard]] bool over_limit(const User& user, const ShapeKey& key, std::int64_t tasks = 1) const;

  State& state_;
  const Command& command_;
  Events& events_;
  std::optional<OrderTree::Item> placed_;  // The place of the task that was assigned last. Its class may be gone.
};

// kNotFound: "no worker is called 'x'; did you mean 'y'?"
[[nodiscard]] Error no_worker_called(const State& state, std::string_view name);

}  // namespace rota::fleet

// Commands about schedules, and the firing of one (schedule.h).
#include <algorithm>

#include "fleet/decide.h"
#include "fleet/plan.h"

namespace rota::fleet {

namespace {

constexpr std::size_t kMostName = 128;
constexpr std::size_t kMostText = 256;

Error no_schedule(const std::string& name) {
  return Error{ErrorCode::kNotFound, "there is no schedule '" + name + "'"};
}

}  // namespace

Result<void> Decision::on(const SetSchedule& command) {
  const ScheduleSpec& spec = command.schedule;
  if (spec.name.empty() || spec.name.size() > kMostName) {
    return Error{ErrorCode::kInvalidArgument, "the name of a schedule has 1 to 128 bytes"};
  }
  // Names are shown in terminals and in logs.
  if (std::any_of(spec.name.begin(), spec.name.end(),
                  [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; })) {
    return Error{ErrorCode::kInvalidArgument, "the name of a schedule must not contain control characters"};
  }
  if (spec.cron.empty() || spec.cron.size() > kMostText || spec.zone.empty() || spec.zone.size() > kMostText) {
    return Error{ErrorCode::kInvalidArgument, "the schedule '" + spec.name + "' has no cron expression or time zone"};
  }
  const auto& schedules = state_.globals().schedules;
  if (schedules.size() >= kMostSchedules && !schedules.contains(spec.name)) {
    return Error{ErrorCode::kOverloaded, "there are " + std::to_string(kMostSchedules) + " schedules; remove some"};
  }
  ROTA_TRY(plan_workflow(spec.workflow));
  emit(ScheduleSet());
  return {};
}

Result<void> Decision::on(const ChangeSchedule& command) {
  const auto found = state_.globals().schedules.find(command.name);
  if (found == state_.globals().schedules.end()) return no_schedule(command.name);
  const bool paused = found->second.paused;
  const bool nothing = command.change == ScheduleChange::kPause    ? paused
                       : command.change == ScheduleChange::kResume ? !paused
                                                                   : false;
  if (!nothing) emit(ScheduleChanged());
  return {};
}

// Whether the workflow of this firing is to be submitted now. Otherwise the event says what happened instead.
Result<bool> Decision::fires(const SubmitWorkflow& command) {
  const auto found = state_.globals().schedules.find(command.schedule);
  if (found == state_.globals().schedules.end()) return no_schedule(command.schedule);
  const Schedule& schedule = found->second;
  if (schedule.paused) {
    return Error{ErrorCode::kFailedPrecondition, "the schedule '" + command.schedule + "' is paused"};
  }
  const bool waited = !schedule.queued.empty() && schedule.queued.front() == command.nominal_ns;
  if (!waited && command.nominal_ns <= schedule.last_ns) {
    return Error{ErrorCode::kAlreadyExists, "the schedule '" + command.schedule + "' has fired for this time"};
  }
  std::vector<WorkflowId> running;
  for (const WorkflowId id : schedule.runs) {
    const Workflow* workflow = state_.find(id);
    if (workflow != nullptr && workflow->outcome == Outcome::kRunning) running.push_back(id);
  }
  // Those that wait come first.
  const bool must_wait = !running.empty() || (!schedule.queued.empty() && !waited);
  if (!must_wait) return true;
  switch (schedule.spec.overlap) {
    case OverlapRule::kAllow:
      return true;
    case OverlapRule::kSkip:
      emit(ScheduleFired{FiringOutcome::kSkipped, WorkflowId()});
      return false;
    case OverlapRule::kQueue:
      if (waited) return Error{ErrorCode::kFailedPrecondition, "an earlier workflow of the schedule still runs"};
      emit(ScheduleFired{schedule.queued.size() < kMostQueuedFirings ? FiringOutcome::kQueued : FiringOutcome::kSkipped,
                         WorkflowId()});
      return false;
    case OverlapRule::kReplace:
      break;
  }
  for (const WorkflowId id : running) ROTA_TRY(on(Control{Action::kCancel, id, TaskId()}));
  return true;
}

}  // namespace rota::fleet

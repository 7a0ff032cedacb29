#include "cli/timeline.h"

#include <algorithm>
#include <utility>

#include "fleet/explain.h"
#include "fleet/figures.h"

namespace rota::cli {

void Timeline::add(const fleet::TaskAssigned& event, model::TaskId task, model::AttemptNumber attempt,
                   const fleet::Record& record, const fleet::State& state) {
  Attempt made;
  made.task = task;
  made.attempt = attempt;
  made.worker = event.worker;
  made.log_task = event.task;
  made.log_attempt = event.attempt;
  made.assigned_ns = made.ready_ns = record.wall_ns;
  made.why = fleet::explain_assignment(event, state);
  // If this record has also removed the workflow, its tasks have no names any more.
  if (const fleet::Task* found = state.find(task)) {
    made.ready_ns = std::min(found->since_ns, record.wall_ns);
    made.name = state.at(task.workflow()).name_of(*found);
  }
  by_task_[task].push_back(attempts_.size());
  attempts_.push_back(std::move(made));
}

void Timeline::end(model::TaskId task, const fleet::Record& record, std::string how, std::string message) {
  const auto found = by_task_.find(task);
  if (found == by_task_.end()) return;
  Attempt& attempt = attempts_[found->second.back()];
  if (attempt.ended_ns != 0) return;  // No attempt was running.
  attempt.ended_ns = record.wall_ns;
  attempt.end = std::move(how);
  attempt.message = std::move(message);
  const auto* report = std::get_if<fleet::ReportEnded>(&record.command);
  if (report == nullptr || report->task != task) return;
  attempt.started_ns = 0;
  if (report->outcome.started_ns == 0) return;
  const auto [started_ns, ended_ns] = report->outcome.times_within(attempt.assigned_ns, record.wall_ns);
  attempt.started_ns = started_ns;
  attempt.ended_ns = ended_ns;
}

std::string Timeline::worker_name(model::WorkerId worker) const {
  const auto found = worker_names_.find(worker);
  return found == worker_names_.end() ? worker.to_string() : found->second;
}

void Timeline::see(const fleet::Record& record, const fleet::State& state) {
  if (first_ns_ == 0) first_ns_ = record.wall_ns;
  last_ns_ = record.wall_ns;
  const auto* reported = std::get_if<fleet::ReportEnded>(&record.command);
  for (const fleet::Event& event : record.events) {
    if (const auto* registered = std::get_if<fleet::WorkerRegistered>(&event)) {
      if (const fleet::Worker* worker = state.find(registered->worker)) worker_names_[worker->id] = worker->spec.name;
    }
    if (const auto* assigned = std::get_if<fleet::TaskAssigned>(&event)) {
      add(*assigned, assigned->task, assigned->attempt, record, state);
      for (const model::AttemptId& member : assigned->members)
        add(*assigned, member.task, member.attempt, record, state);
    }
    fleet::each_begun(event, state, [&](model::TaskId task, model::AttemptNumber) {
      const auto found = by_task_.find(task);
      if (found == by_task_.end()) return;  // It was assigned before the first record of this log.
      Attempt& attempt = attempts_[found->second.back()];
      if (attempt.started_ns == 0 && attempt.ended_ns == 0) attempt.started_ns = record.wall_ns;
    });
    if (const auto* succeeded = std::get_if<fleet::TaskSucceeded>(&event)) {
      end(succeeded->task, record, "succeeded");
    } else if (const auto* failed = std::get_if<fleet::TaskFailed>(&event)) {
      end(failed->task, record, "failed", failed->message);
    } else if (const auto* cancelled = std::get_if<fleet::TaskCancelled>(&event)) {
      end(cancelled->task, record, "cancelled");
    } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
      const bool said = reported != nullptr && reported->task == requeued->task;
      end(requeued->task, record, "requeued: " + std::string(fleet::to_string(requeued->reason)),
          said ? reported->outcome.message : "");
    }
  }
  const Ready now{record.wall_ns, static_cast<std::int64_t>(state.ready_tasks())};
  if (!ready_.empty() && ready_.back().count == now.count) return;
  if (!ready_.empty() && ready_.back().at_ns == now.at_ns) ready_.pop_back();
  ready_.push_back(now);
}

const Attempt* Timeline::find(model::TaskId task, model::AttemptNumber number) const {
  const auto found = by_task_.find(task);
  if (found == by_task_.end()) return nullptr;
  if (number.is_none()) return &attempts_[found->second.back()];
  for (const std::size_t i : found->second) {
    if (attempts_[i].attempt == number) return &attempts_[i];
  }
  return nullptr;
}

Result<void> read_more(LogSource& source, RunLog& log) {
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, source.next());
    if (record == nullptr) return {};
    ROTA_TRY(log.brain.apply(*record));
    log.timeline.see(*record, log.brain.state());
  }
}

Result<RunLog> read_log(LogSource& source, ProgressLine& progress) {
  RunLog log;
  ROTA_TRY_ASSIGN(log.brain, source.begin());
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, source.next());
    if (record == nullptr) return log;
    ROTA_TRY(log.brain.apply(*record));
    log.timeline.see(*record, log.brain.state());
    if (record->index % 4096 == 0) progress.show("reading " + std::to_string(source.permille() / 10) + " %");
  }
}

model::WorkflowId latest_workflow(const fleet::State& state) {
  model::WorkflowId latest;
  state.each_workflow([&](const fleet::Workflow& workflow) { latest = workflow.id; });
  return latest;
}

}  // namespace rota::cli

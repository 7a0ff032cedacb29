#include "host/attempt_log.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "fleet/event.h"

namespace rota::host {

void AttemptLog::see(const fleet::Record& record) {
  const sync::MutexLock lock(mutex_);
  for (const fleet::Event& event : record.events) {
    if (const auto* assigned_to = std::get_if<fleet::TaskAssigned>(&event)) {
      assigned(record, assigned_to->task, assigned_to->attempt, assigned_to->worker);
      for (const fleet::AttemptId& member : assigned_to->members) {
        assigned(record, member.task, member.attempt, assigned_to->worker);
      }
    } else if (const auto* succeeded = std::get_if<fleet::TaskSucceeded>(&event)) {
      ended(record, succeeded->task, "succeeded", "");
    } else if (const auto* failed = std::get_if<fleet::TaskFailed>(&event)) {
      ended(record, failed->task, to_string(failed->kind), failed->message);
    } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
      ended(record, requeued->task, to_string(requeued->reason), "");
    } else if (const auto* cancelled = std::get_if<fleet::TaskCancelled>(&event)) {
      ended(record, cancelled->task, "cancelled", "");
    } else if (const auto* forgotten = std::get_if<fleet::WorkflowForgotten>(&event)) {
      forget(forgotten->workflow);
    }
  }
}

std::vector<AttemptLog::Attempt> AttemptLog::of(model::TaskId task, std::uint64_t at) {
  const sync::MutexLock lock(mutex_);
  std::vector<Attempt> attempts;
  const auto workflow = workflows_.find(task.workflow());
  if (workflow == workflows_.end()) return attempts;
  const auto known = workflow->second.find(task.index());
  if (known == workflow->second.end()) return attempts;
  for (const Attempt& attempt : known->second) {
    if (attempt.assigned_in > at) break;
    Attempt& copy = attempts.emplace_back(attempt);
    if (copy.ended_in <= at) continue;
    copy.started_ns = 0;
    copy.ended_ns = 0;
    copy.ended_in = 0;
    copy.end.clear();
    copy.message.clear();
  }
  return attempts;
}

void AttemptLog::assigned(const fleet::Record& record, model::TaskId task, model::AttemptNumber number,
                          model::WorkerId worker) {
  if (count_ == kMost) forget(workflows_.begin()->first);
  workflows_[task.workflow()][task.index()].push_back(
      {.number = number, .worker = worker, .assigned_ns = record.wall_ns, .assigned_in = record.index});
  ++count_;
}

void AttemptLog::ended(const fleet::Record& record, model::TaskId task, std::string_view end,
                       std::string_view message) {
  const auto workflow = workflows_.find(task.workflow());
  if (workflow == workflows_.end()) return;
  const auto known = workflow->second.find(task.index());
  if (known == workflow->second.end()) return;
  Attempt& attempt = known->second.back();
  if (attempt.ended_in != 0) return;  // It had ended: now the task did, without another attempt.
  attempt.ended_ns = record.wall_ns;
  attempt.ended_in = record.index;
  attempt.end = end;
  attempt.message = message.substr(0, kMostMessage);
  const auto* report = std::get_if<fleet::ReportEnded>(&record.command);
  if (report == nullptr || report->task != task || report->attempt != attempt.number) return;
  const std::int64_t took_ns = report->outcome.ended_ns - report->outcome.started_ns;
  if (report->outcome.started_ns > 0 && took_ns >= 0) {
    attempt.started_ns = std::max(attempt.ended_ns - took_ns, attempt.assigned_ns);
  }
  if (attempt.message.empty()) attempt.message = report->outcome.message.substr(0, kMostMessage);
}

void AttemptLog::forget(model::WorkflowId workflow) {
  const auto known = workflows_.find(workflow);
  if (known == workflows_.end()) return;
  for (const auto& [task, attempts] : known->second) count_ -= attempts.size();
  workflows_.erase(known);
}

}  // namespace rota::host

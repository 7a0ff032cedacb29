#include "sim/sim_work.h"

#include <charconv>
#include <stdexcept>
#include <utility>

#include "base/sim_hooks.h"
#include "model/json.h"
#include "rota/fiber/error.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"

namespace rota::sim {

namespace {

std::int64_t number_in(const std::string& object, std::string_view name) {
  const std::string_view text = model::json_member(object, name);
  std::int64_t value = 0;
  if (text.data() != nullptr) std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Lets time pass. Throws Cancelled.
void pass(nanoseconds time) {
  fiber::Event never;
  (void)never.wait_for(time);
}

}  // namespace

SimWork::Plan SimWork::plan(const model::AttemptId& id, const std::string& inputs, std::size_t merged) const {
  Plan plan;
  const std::uint64_t task = id.task.value();
  const std::uint64_t attempt = id.attempt.value();
  const std::int64_t mean_us = number_in(inputs, "ms") * 1000;
  const std::uint64_t factor = 500 + draw(seed_, "duration", task, attempt) % 1000;  // Thousandths.
  plan.lasts = std::chrono::microseconds(mean_us * static_cast<std::int64_t>(factor) / 1000 * slowness_);
  plan.fails = draw(seed_, "failure", task, attempt) % 100 < static_cast<std::uint64_t>(number_in(inputs, "fail"));
  plan.checkpoints = draw(seed_, "checkpoint", task, attempt) % 4 == 0;
  // Another execution of the same attempt would return another text.
  const auto text = [&](std::size_t i) {
    const std::uint64_t nonce =
        draw(seed_, "result", where_.worker << 32 | where_.life, static_cast<std::uint64_t>(fiber::now().count()), i);
    return "\"" + id.task.to_string() + "/" + std::to_string(attempt) + "#" + std::to_string(nonce) + "\"";
  };
  if (merged == 0) {
    plan.result = text(0);
  } else {
    plan.result = "[";
    for (std::size_t i = 0; i < merged; ++i) plan.result += (i == 0 ? "" : ",") + text(i);
    plan.result += "]";
  }
  return plan;
}

// The worker's own accounting of resources begins with what the assignment said that the task holds.
std::size_t SimWork::note_start(const model::AttemptId& id, const std::string& inputs) {
  Execution& execution = witness_.executions.emplace_back();
  execution.where = where_;
  execution.id = id;
  execution.inputs = inputs;
  execution.started = fiber::now();
  for (auto delivery = witness_.deliveries.rbegin(); delivery != witness_.deliveries.rend(); ++delivery) {
    const auto* assign = std::get_if<model::Assign>(&delivery->message);
    if (assign == nullptr || assign->id != id || delivery->where != where_) continue;
    execution.held = assign->resources;
    for (const model::MergedTask& member : assign->merged) execution.members.push_back(member.id);
    break;
  }
  running_[id] = witness_.executions.size() - 1;
  return witness_.executions.size() - 1;
}

void SimWork::note_end(std::size_t at, ExecutionEnd end, const std::string& result) {
  Execution& execution = witness_.executions[at];
  if (dead_ || execution.end != ExecutionEnd::kRuns) return;
  execution.end = end;
  execution.ended = fiber::now();
  execution.result = result;
  running_.erase(execution.id);
}

void SimWork::kill() {
  for (const auto& [id, at] : running_) {
    witness_.executions[at].end = ExecutionEnd::kKilled;
    witness_.executions[at].ended = fiber::now();
  }
  running_.clear();
  dead_ = true;
}

worker::testing::FakeExecutor::Behave SimWork::behaviour() {
  return [this](const worker::ProgramRequest& request) {
    const Plan plan = this->plan(request.id, request.spec.inputs, 0);
    worker::testing::FakeProgram program;
    program.runs_for = plan.lasts;
    program.end = plan.fails ? model::AttemptEnd::kFailed : model::AttemptEnd::kSucceeded;
    program.message = plan.fails ? "it was drawn to fail" : "";
    program.result = plan.result;
    return program;
  };
}

void SimWork::on_start(const worker::ProgramRequest& request) {
  if (!dead_) note_start(request.id, request.spec.inputs);
}

void SimWork::on_end(const worker::ProgramRequest& request, const model::AttemptOutcome* outcome) {
  const auto found = running_.find(request.id);
  if (found == running_.end()) return;
  const bool succeeded = outcome != nullptr && outcome->end == model::AttemptEnd::kSucceeded;
  const bool stopped = outcome == nullptr || outcome->message == "killed";
  note_end(found->second,
           succeeded ? ExecutionEnd::kSucceeded : (stopped ? ExecutionEnd::kStopped : ExecutionEnd::kFailed),
           succeeded ? outcome->result : std::string());
}

TaskHandler SimWork::handler() {
  return [this](TaskContext& task) -> std::string {
    const model::AttemptId id{task.task(), task.attempt()};
    const std::vector<std::string>& merged = task.merged_inputs();
    const std::size_t at = note_start(id, task.inputs());
    const Plan plan = this->plan(id, merged.empty() ? task.inputs() : merged.front(), merged.size());
    try {
      if (plan.checkpoints) {
        pass(plan.lasts / 2);
        task.checkpoint("\"" + id.task.to_string() + "/" + std::to_string(id.attempt.value()) + "\"");
        pass(plan.lasts / 2);
      } else {
        pass(plan.lasts);
      }
      task.progress(100);
    } catch (...) {
      note_end(at, ExecutionEnd::kStopped, {});
      if (task.stop_reason() != StopReason::kNone) ROTA_SOMETIMES("a handler is told to stop");
      throw;
    }
    note_end(at, plan.fails ? ExecutionEnd::kFailed : ExecutionEnd::kSucceeded, plan.fails ? "" : plan.result);
    if (plan.fails) throw std::runtime_error("it was drawn to fail");
    return plan.result;
  };
}

}  // namespace rota::sim

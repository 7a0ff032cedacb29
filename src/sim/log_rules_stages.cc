// The rules of stages and of the end of a workflow: needs, `each`, `when`, `finally`, `parallel`, `deadline` and
// `fail_fast` (Y-3 to Y-5), and the bindings of the dispatch modes (B-7).
#include <algorithm>

#include "sim/log_rules.h"

namespace rota::sim {

using model::TaskId;

namespace {

bool is_over(LogRules::Life life) { return life != LogRules::Life::kWaits && life != LogRules::Life::kAssigned; }
bool let_pass(LogRules::Life life) { return life == LogRules::Life::kSucceeded || life == LogRules::Life::kSkipped; }

}  // namespace

// Whether the `when` of the stage holds, now that everything has ended that it waits for.
bool LogRules::applies(const WorkflowFacts& workflow, std::uint32_t stage) {
  const model::Stage& own = workflow.spec.stages[stage];
  bool all_good = true;
  for (const TaskFacts& facts : workflow.tasks) {
    const bool counts = own.finally ? !workflow.spec.stages[facts.stage].finally
                                    : std::find(own.needs.begin(), own.needs.end(), facts.stage) != own.needs.end();
    if (counts) all_good = all_good && let_pass(facts.life);
  }
  if (own.when == model::When::kAlways) return true;
  if (own.when == model::When::kFailure) return !all_good;
  return !own.finally || all_good;  // Outside of `finally` it is cancelled instead.
}

void LogRules::check_needs(TaskId id, const std::string& name) {
  const WorkflowFacts& workflow = workflows_.at(id.workflow());
  const std::uint32_t stage = workflow.tasks[id.index()].stage;
  const model::Stage& own = workflow.spec.stages[stage];
  for (const std::uint32_t need : own.needs) {
    for (const std::uint32_t t : workflow.plan.needed(workflow.spec, id.index(), need)) {
      const Life life = workflow.tasks[t].life;
      if (own.waits_for_end() ? is_over(life) : let_pass(life)) continue;
      return broken("dependencies", name + " is assigned before " + TaskId(id.workflow(), t).to_string() +
                                        (own.waits_for_end() ? " has ended" : " has succeeded"));
    }
  }
  for (std::uint32_t t = 0; own.finally && t < workflow.tasks.size(); ++t) {
    if (workflow.spec.stages[workflow.tasks[t].stage].finally || is_over(workflow.tasks[t].life)) continue;
    return broken("finally", name + " is assigned before " + TaskId(id.workflow(), t).to_string() + " has ended");
  }
  if (!applies(workflow, stage)) broken("when", name + " is assigned although the `when` of its stage does not hold");
  const bool spared = own.finally || (workflow.stopped == fleet::StopCause::kFailFast && own.waits_for_end());
  if (workflow.stopped != fleet::StopCause::kNone && !spared) {
    broken("stopped", name + " is assigned although its workflow was stopped");
  }
  if (own.parallel == 0) return;
  const auto others = std::count_if(workflow.tasks.begin(), workflow.tasks.end(), [&](const TaskFacts& facts) {
    return facts.stage == stage && facts.life == Life::kAssigned;
  });
  if (others >= own.parallel) {
    broken("parallel", name + " is assigned while " + std::to_string(others) + " tasks of its stage run, and only " +
                           std::to_string(own.parallel) + " may");
  }
}

void LogRules::check_skip(TaskId id) {
  const TaskFacts* facts = find(id);
  if (facts == nullptr || !use_of(id).condition.empty()) return;
  const WorkflowFacts& workflow = workflows_.at(id.workflow());
  const model::Stage& own = workflow.spec.stages[facts->stage];
  if (own.fan_out && own.items.empty() && items_now(workflow, facts->stage).empty()) return;  // Over nothing.
  if (applies(workflow, facts->stage)) {
    broken("when", id.to_string() + " is skipped although the `when` of its stage holds");
  }
}

void LogRules::check_cancel(const fleet::TaskCancelled& event, const fleet::Record& record) {
  const TaskFacts* facts = find(event.task);
  if (facts == nullptr) return;
  const model::Stage& stage = workflows_.at(event.task.workflow()).spec.stages[facts->stage];
  const TaskFacts* root = find(event.parent_task_id);
  const bool same_gang = root != nullptr && root->stage == facts->stage;  // Without it the gang cannot run.
  if (event.dependency_failure && stage.waits_for_end() && !same_gang) {
    broken("when", event.task.to_string() + " waits for the end of others, and is cancelled because one failed");
  }
  const bool stops = std::any_of(record.events.begin(), record.events.end(), [&](const fleet::Event& each) {
    const auto* stopped = std::get_if<fleet::WorkflowStopped>(&each);
    return stopped != nullptr && stopped->workflow == event.task.workflow();
  });
  if (stage.finally && stops && !same_gang) {
    broken("finally", event.task.to_string() + " of `finally` is cancelled with its workflow");
  }
}

void LogRules::stop(const fleet::WorkflowStopped& event, const fleet::Record& record) {
  const auto found = workflows_.find(event.workflow);
  if (found == workflows_.end()) return broken("stopped", "an unknown workflow is stopped");
  WorkflowFacts& workflow = found->second;
  const std::string name = event.workflow.to_string();
  using C = fleet::StopCause;
  if (event.cause == C::kDeadline && (workflow.deadline_ns == 0 || record.wall_ns < workflow.deadline_ns)) {
    broken("deadline", name + " is stopped before its deadline");
  }
  if (event.cause == C::kFailFast) {
    const TaskFacts* failed = find(event.task);
    if (!workflow.spec.fail_fast || failed == nullptr || failed->life != Life::kFailed) {
      broken("fail_fast", name + " is stopped because of a failure, without `fail_fast` or without one");
    }
  }
  workflow.stopped = event.cause;
}

// A task of the workflow is retried.
void LogRules::reopen(WorkflowFacts& workflow, const fleet::Record& record) {
  const bool late = workflow.deadline_ns > 0 && workflow.deadline_ns <= record.wall_ns;
  const bool over = workflow.ended || workflow.stopped != fleet::StopCause::kNone || late;
  workflow.ended = false;
  workflow.stopped = fleet::StopCause::kNone;
  if (over && workflow.deadline_ns > 0) workflow.deadline_ns = record.wall_ns + workflow.spec.deadline_ms * 1'000'000;
}

// The items of a fan-out over the results of a stage with several tasks, as draw_scenario() draws it: one for each, and
// null for a task that has no result; with a second list, which is empty, none.
std::vector<std::string> LogRules::items_now(const WorkflowFacts& workflow, std::uint32_t stage) {
  const model::MatrixList& list = workflow.spec.stages[stage].fan_out->lists.front();
  std::vector<std::string> items;
  if (workflow.spec.stages[stage].fan_out->lists.size() > 1) return items;  // The second list is empty.
  for (std::uint32_t s = 0; s < workflow.spec.stages.size(); ++s) {
    if (list.values != "${" + workflow.spec.stages[s].name + ".result}") continue;
    for (const std::uint32_t t : workflow.plan.of_stage[s]) {
      const TaskFacts& facts = workflow.tasks[t];
      const bool has_result = facts.life == Life::kSucceeded && !facts.result.empty();
      items.push_back("{\"" + list.name + "\":" + (has_result ? facts.result : "null") + "}");
    }
  }
  return items;
}

void LogRules::expand(const fleet::StageExpanded& event) {
  const auto found = workflows_.find(event.workflow);
  if (found == workflows_.end()) return broken("fan_out", "a stage of an unknown workflow is expanded");
  WorkflowFacts& workflow = found->second;
  model::Stage& stage = workflow.spec.stages[event.stage];
  const TaskId first(event.workflow, workflow.plan.of_stage[event.stage].front());
  if (!stage.fan_out || !stage.items.empty()) return broken("fan_out", stage.name + " is expanded, and has its items");
  check_needs(first, stage.name);
  if (event.items.empty() || items_now(workflow, event.stage) != event.items) {
    broken("fan_out", first.to_string() + " is expanded to other items than the results are");
  }
  stage.items = event.items;
  workflow.plan.expand(event.stage, event.items.size());
  while (workflow.tasks.size() < workflow.plan.tasks()) workflow.tasks.emplace_back().stage = event.stage;
}

// What it comes after is retried: the first task waits again, the others are over.
void LogRules::collapse(const fleet::StageCollapsed& event, const fleet::Record& record) {
  const auto found = workflows_.find(event.workflow);
  if (found == workflows_.end()) return broken("fan_out", "a stage of an unknown workflow is collapsed");
  WorkflowFacts& workflow = found->second;
  model::Stage& stage = workflow.spec.stages[event.stage];
  if (!stage.fan_out || stage.items.empty() || !workflow.plan.repeats[event.stage]) {
    return broken("fan_out", stage.name + " is collapsed, and has no items");
  }
  const auto* control = std::get_if<fleet::Control>(&record.command);
  if (control == nullptr || control->action != fleet::Action::kRetry) {
    broken("fan_out", stage.name + " is collapsed, and nobody retried anything");
  }
  bool paused = false;
  for (const std::uint32_t t : workflow.plan.of_stage[event.stage]) {
    TaskFacts& facts = workflow.tasks[t];
    if (facts.life == Life::kAssigned) broken("fan_out", stage.name + " is collapsed while a task of it runs");
    paused = paused || facts.paused;
    facts.paused = false;
    facts.life = Life::kSkipped;
  }
  TaskFacts& first = workflow.tasks[workflow.plan.of_stage[event.stage].front()];
  const std::uint32_t attempt = first.attempt;
  first = TaskFacts();
  first.stage = event.stage;
  first.attempt = attempt;
  first.paused = paused;
  stage.items.clear();
  workflow.plan.collapse(event.stage);
  reopen(workflow, record);
}

// A fan-out that has succeeded ran over the results that there are at the end.
void LogRules::check_items(model::WorkflowId id) {
  const WorkflowFacts& workflow = workflows_.at(id);
  for (std::uint32_t s = 0; s < workflow.spec.stages.size(); ++s) {
    const model::Stage& stage = workflow.spec.stages[s];
    if (!stage.fan_out || stage.items.empty()) continue;
    const std::vector<std::uint32_t>& tasks = workflow.plan.of_stage[s];
    const bool good = std::all_of(tasks.begin(), tasks.end(),
                                  [&](std::uint32_t t) { return workflow.tasks[t].life == Life::kSucceeded; });
    if (good && items_now(workflow, s) != stage.items) {
      broken("fan_out", stage.name + " of " + id.to_string() + " ran over results that were replaced since");
    }
  }
}

// After each record: what a stopped workflow, a failure and a deadline must have led to.
void LogRules::check_stops(const fleet::Record& record) {
  for (const fleet::Event& event : record.events) {
    if (const auto* failed = std::get_if<fleet::TaskFailed>(&event)) {
      const TaskFacts* facts = find(failed->task);
      if (facts == nullptr) continue;
      const WorkflowFacts& workflow = workflows_.at(failed->task.workflow());
      if (workflow.spec.fail_fast && !workflow.spec.stages[facts->stage].finally &&
          workflow.stopped == fleet::StopCause::kNone) {
        broken("fail_fast", failed->task.to_string() + " failed, and the others run on");
      }
    }
    const auto* stopped = std::get_if<fleet::WorkflowStopped>(&event);
    if (stopped == nullptr || workflows_.count(stopped->workflow) == 0) continue;
    const WorkflowFacts& workflow = workflows_.at(stopped->workflow);
    for (std::uint32_t t = 0; t < workflow.tasks.size(); ++t) {
      const TaskFacts& facts = workflow.tasks[t];
      const model::Stage& stage = workflow.spec.stages[facts.stage];
      if (stage.finally || (stopped->cause == fleet::StopCause::kFailFast && stage.waits_for_end())) continue;
      if (is_over(facts.life) || (facts.life == Life::kAssigned && facts.stopping)) continue;
      broken("stopped", TaskId(stopped->workflow, t).to_string() + " goes on although its workflow was stopped");
      break;
    }
  }
  if (!std::holds_alternative<fleet::Tick>(record.command)) return;
  for (const auto& [id, workflow] : workflows_) {
    if (workflow.ended || workflow.stopped != fleet::StopCause::kNone || workflow.deadline_ns == 0 ||
        workflow.deadline_ns > record.wall_ns) {
      continue;
    }
    // A task that has been told to stop, for instance by a client, needs no deadline.
    const bool open = std::any_of(workflow.tasks.begin(), workflow.tasks.end(), [&](const TaskFacts& facts) {
      const bool stops = facts.life == Life::kAssigned && facts.stopping;
      return !workflow.spec.stages[facts.stage].finally && !is_over(facts.life) && !stops;
    });
    if (open) broken("deadline", id.to_string() + " runs on after its deadline");
  }
}

// -------------------------------------------------------------------------------------------------------- bindings

// static_worker: a workflow has one worker, which has no other workflow. fixed_pipeline: a type has one worker.
void LogRules::bind(const fleet::TaskAssigned& event) {
  const std::uint32_t worker = event.worker.value();
  const std::string name = event.task.to_string();
  if (policy_.mode == fleet::DispatchMode::kStaticWorker) {
    const auto [bound, is_new] = bound_.try_emplace(event.task.workflow(), worker);
    if (bound->second != worker) broken("binding", name + " is assigned to another worker than its workflow has");
    for (const auto& [workflow, its] : bound_) {
      if (workflow != event.task.workflow() && its == worker) {
        broken("binding", name + " is assigned to the worker of " + workflow.to_string());
      }
    }
  } else if (policy_.mode == fleet::DispatchMode::kFixedPipeline) {
    const auto [bound, is_new] = type_bound_.try_emplace(use_of(event.task).spec.type, worker);
    if (bound->second != worker) broken("binding", name + " is assigned to another worker than its type has");
  }
}

void LogRules::unbind(const fleet::BindingDropped& event) {
  const bool was_bound =
      event.workflow.is_none() ? type_bound_.erase(event.type) > 0 : bound_.erase(event.workflow) > 0;
  if (!was_bound) broken("binding", "a binding is dropped that does not exist");
}

// A worker that takes no more tasks has lost what was bound to it.
void LogRules::check_bindings() {
  const auto useless = [&](std::uint32_t id) {
    const auto found = workers_.find(id);
    if (found == workers_.end() || found->second.changed_in != index_) return false;
    return !found->second.reachable || found->second.draining || found->second.left;
  };
  for (const auto& [workflow, worker] : bound_) {
    if (useless(worker)) broken("binding", workflow.to_string() + " stays bound to a worker that takes no more tasks");
  }
  for (const auto& [type, worker] : type_bound_) {
    if (useless(worker)) broken("binding", "type '" + type + "' stays bound to a worker that takes no more tasks");
  }
}

}  // namespace rota::sim

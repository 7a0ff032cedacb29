#include "fleet/plan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "fleet/check.h"
#include "fleet/codec.h"
#include "model/json.h"
#include "model/matrix.h"

namespace rota::fleet {

namespace {

constexpr std::int64_t kMostMs = kMostAmount / 1'000'000;
constexpr std::int64_t kMostPriority = 1'000'000'000;
constexpr std::int64_t kMostDeadlineMs = 1'000LL * 3600 * 24 * 365 * 100;  // A hundred years.

Error invalid(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message)}; }

Result<void> check_numbers(const TaskTemplate& use) {
  ROTA_TRY(amounts_in_range("", use.needs));
  ROTA_TRY(in_range("gpu.count", use.needs.gpu.count, 0, kMostDevices));
  ROTA_TRY(in_range("gpu.memory in bytes", use.needs.gpu.memory_bytes, 0, kMostAmount));
  ROTA_TRY(in_range("max_attempts", use.retry.max_attempts, 1, 1'000'000));
  ROTA_TRY(in_range("retry.backoff in ms", use.retry.backoff_ms, 0, kMostMs));
  ROTA_TRY(in_range("retry.backoff_factor in thousandths", use.retry.backoff_factor_permille, 1000, 1'000'000));
  ROTA_TRY(in_range("retry.backoff_most in ms", use.retry.backoff_most_ms, 0, kMostMs));
  ROTA_TRY(in_range("retry.memory_factor in thousandths", use.retry.memory_factor_permille, 0, 1'000'000));
  ROTA_TRY(in_range("timeout in ms", use.spec.timeout_ms, 0, kMostAmount));
  return {};
}

// A task runs a program or a handler; a program is a text for the shell or a list of arguments.
Result<void> check_executable(const TaskSpec& spec) {
  if (!spec.program) {
    if (spec.type.empty()) return invalid("it has neither a program nor the type of a handler");
    return {};
  }
  if (spec.program->shell.empty() == spec.program->arguments.empty()) {
    return invalid("a program is either a text for the shell or a list of arguments");
  }
  return {};
}

// A hash of everything that tasks must have in common to run as one execution (B-12). They may differ in their data
// (inputs and items), and in the condition, which is evaluated before.
Hash128 merge_hash(const TaskTemplate& use) {
  if (!use.mergeable) return {};
  TaskTemplate common = use;
  common.spec.inputs.clear();
  common.condition.clear();
  return hash_fields(common);
}

// A program that accepts a batch gets the values of all its tasks in the inputs. A reference anywhere else in it would
// have the value of one task for all of them.
Result<void> check_batch(const TaskTemplate& use) {
  if (!use.spec.program || !use.spec.program->batch) return {};
  TaskSpec without_data = use.spec;
  without_data.inputs = "{}";
  ROTA_TRY_ASSIGN(const std::vector<ReferenceUse> uses, find_references(without_data));
  if (uses.empty()) return {};
  return invalid("a program that accepts a batch gets its values in the inputs, but " + uses.front().reference.text +
                 " is outside of them");
}

// Files of one task alone: which of the tasks that run as one makes them, or needs them, would not be known. A path
// with references is checked by the worker, when it is known.
Result<void> check_files(const TaskTemplate& use) {
  if (!use.spec.files) return {};
  if (use.mergeable) return invalid("tasks with outputs or fetch are not merged");
  for (const std::string& path : use.spec.files->outputs) {
    if (path.find("${") == std::string::npos && !model::is_inside(path)) {
      return invalid("the output '" + path + "' is not inside of the task's directory");
    }
  }
  for (const model::FetchSpec& fetch : use.spec.files->fetch) {
    if (!fetch.to.empty() && !model::is_inside(fetch.to)) {
      return invalid("the folder '" + fetch.to + "' of fetch is not inside of the task's directory");
    }
  }
  return {};
}

// The stage that a use refers to; none for the task's own things.
std::uint32_t stage_of(const graph::Dag& dag, const ReferenceUse& use) {
  const graph::TaskRef ref = is_reserved_root(use.reference.root) ? graph::TaskRef() : dag.find(use.reference.root);
  return ref.is_none() ? TemplateInfo::kNoStage : ref.value() - 1;
}

Result<void> check_references(const Stage& stage, const std::vector<ReferenceUse>& uses, const graph::Dag& names) {
  for (const ReferenceUse& use : uses) {
    if (is_reserved_root(use.reference.root)) {
      if (use.reference.root == "matrix" && !stage.has_items()) {
        return invalid("stage '" + stage.name + "' refers to " + use.reference.text + ", but it has no items");
      }
      if (use.reference.root == "workflow" && is_about_end(use.reference) && !stage.finally) {
        return invalid("stage '" + stage.name + "' refers to " + use.reference.text +
                       ", which is known only in stages of finally");
      }
      continue;
    }
    if (stage_of(names, use) == TemplateInfo::kNoStage) {
      return Error{ErrorCode::kNotFound, "stage '" + stage.name + "' refers to " + use.reference.text +
                                             ", but the workflow has no stage '" + use.reference.root + "'"};
    }
  }
  return {};
}

// The results that the matrix of the stage names.
Result<std::vector<ReferenceUse>> check_fan_out(const Stage& stage, const TaskTemplate& use) {
  std::vector<ReferenceUse> uses;
  if (!stage.fan_out) return uses;
  const auto wrong = [&](std::string message) {
    return Error{ErrorCode::kInvalidArgument, "the matrix of stage '" + stage.name + "' " + std::move(message)};
  };
  if (use.gang) return wrong("names results, so its tasks cannot start together");
  if (stage.fan_out->lists.empty()) return wrong("has no lists");
  for (const MatrixList& list : stage.fan_out->lists) {
    if (!list.is_reference()) {
      if (json_validate(list.values).ok() && json_kind(list.values) == JsonKind::kArray) continue;
      return wrong("has '" + list.name + "', which is not a JSON array");
    }
    Result<Reference> reference = parse_reference(list.values);
    if (!reference.ok()) return std::move(reference).take_error().in("stage '" + stage.name + "'");
    if (reference->text != list.values || is_reserved_root(reference->root)) {
      return wrong("has '" + list.name + "', which is not one reference to a result");
    }
    uses.push_back({std::move(*reference), "matrix." + list.name, 0});
  }
  for (const std::vector<std::string>* entries : {&stage.fan_out->include, &stage.fan_out->exclude}) {
    for (const std::string& entry : *entries) ROTA_TRY(matrix_entry(entry));
  }
  return uses;
}

// True if the value, or the part of it that is meant, may not exist.
bool may_lead_nowhere(const Reference& reference) {
  if (is_about_end(reference)) return reference.path.size() > 1;
  return !is_reserved_root(reference.root) || reference.root == "matrix" || reference.path.size() > 1;
}

Result<void> check_rules(const WorkflowSpec& spec, const Stage& stage, std::uint32_t tasks) {
  ROTA_TRY(in_range("parallel of stage '" + stage.name + "'", stage.parallel, 0, kMostAmount));
  if (stage.parallel > 0 && stage.parallel < tasks && spec.templates[static_cast<std::size_t>(stage.use)].gang) {
    return invalid("the tasks of stage '" + stage.name + "' start together, so parallel cannot be less than " +
                   std::to_string(tasks));
  }
  if (!stage.left_out.empty() &&
      (stage.fan_out || stage.left_out.back() >= tasks || spec.templates[static_cast<std::size_t>(stage.use)].gang ||
       std::adjacent_find(stage.left_out.begin(), stage.left_out.end(), std::greater_equal<>()) !=
           stage.left_out.end())) {
    return invalid("stage '" + stage.name + "' leaves out tasks that it does not have");
  }
  std::vector<std::uint32_t> seen;
  for (const ItemNeed& need : stage.each) {
    if (std::find(stage.needs.begin(), stage.needs.end(), need.stage) == stage.needs.end() || need.names.empty() ||
        std::find(seen.begin(), seen.end(), need.stage) != seen.end()) {
      return invalid("stage '" + stage.name +
                     "' has `each` for a stage that it does not need, twice, or without names");
    }
    if (stage.fan_out) {
      for (const MatrixList& list : stage.fan_out->lists) {
        if (!list.values.starts_with("${" + spec.stages[need.stage].name + ".")) continue;
        return invalid("the matrix of stage '" + stage.name + "' is a result of stage '" +
                       spec.stages[need.stage].name + "', which it needs by item; it must wait for all of it");
      }
    }
    if (stage.waits_for_end()) {
      return invalid("stage '" + stage.name +
                     "' waits for the end of stages; `each` is for those that wait for success");
    }
    seen.push_back(need.stage);
  }
  return {};
}

// A stage that waits for the end of others may run again when they are retried, and with it what needs it.
void mark_repeating(const WorkflowSpec& spec, WorkflowPlan& plan) {
  std::vector<std::uint32_t> reached;
  for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
    if (!spec.stages[s].waits_for_end()) continue;
    plan.stages[s].repeats = true;
    reached.push_back(s);
  }
  while (!reached.empty()) {
    const std::uint32_t s = reached.back();
    reached.pop_back();
    for (const graph::TaskRef child : plan.dag.children(graph::TaskRef(s + 1))) {
      if (std::exchange(plan.stages[child.value() - 1].repeats, true)) continue;
      reached.push_back(child.value() - 1);
    }
  }
}

}  // namespace

Result<WorkflowPlan> plan_workflow(const WorkflowSpec& spec) {
  WorkflowPlan plan;
  if (spec.stages.empty()) return invalid("the workflow has no stages");
  ROTA_TRY(in_range("the workflow's priority", spec.priority, -kMostPriority, kMostPriority));
  ROTA_TRY(in_range("the workflow's deadline in ms", spec.deadline_ms, 0, kMostDeadlineMs));

  // Names first, so that references can be looked up.
  graph::Dag names;
  for (const Stage& stage : spec.stages) {
    if (stage.name.empty()) return invalid("a stage has no name");
    if (is_reserved_root(stage.name))
      return invalid("a stage may not be called '" + stage.name + "': references use it");
    ROTA_TRY(names.add({.name = stage.name}));
  }

  std::vector<std::vector<ReferenceUse>> uses;  // By template: of its specification and of its condition.
  for (std::size_t t = 0; t < spec.templates.size(); ++t) {
    const TaskTemplate& use = spec.templates[t];
    TemplateInfo& info = plan.templates.emplace_back();
    const auto named = [&](Error error) {
      for (const Stage& stage : spec.stages) {
        if (stage.use == static_cast<std::int64_t>(t)) return std::move(error).in("stage '" + stage.name + "'");
      }
      return std::move(error).in("a template that no stage uses");
    };
    if (Result<void> numbers = check_numbers(use); !numbers.ok()) return named(std::move(numbers).take_error());
    if (Result<void> fine = check_executable(use.spec); !fine.ok()) return named(std::move(fine).take_error());
    if (Result<void> fine = check_batch(use); !fine.ok()) return named(std::move(fine).take_error());
    if (Result<void> fine = check_files(use); !fine.ok()) return named(std::move(fine).take_error());
    Result<std::vector<ReferenceUse>> found = find_references(use.spec);
    if (!found.ok()) return named(std::move(found).take_error());
    info.references = std::move(*found);
    std::vector<ReferenceUse>& all = uses.emplace_back(info.references);
    if (!use.condition.empty()) {
      Result<std::vector<ReferenceUse>> more = check_condition(use.condition);
      if (!more.ok()) return named(std::move(more).take_error().in("condition"));
      all.insert(all.end(), more->begin(), more->end());
    }
    info.merge = merge_hash(use);
    info.work = key_of_work(use.spec);
    info.mergeable = use.mergeable && !use.gang && (!use.spec.program || use.spec.program->batch);
    info.examine = !use.condition.empty();
    for (const ReferenceUse& each : all) {
      if (may_lead_nowhere(each.reference)) info.examine = true;
      const std::uint32_t stage = stage_of(names, each);
      if (stage != TemplateInfo::kNoStage && info.sticky == TemplateInfo::kNoStage && hands_on_weights(each)) {
        info.sticky = stage;
      }
    }
    for (std::size_t f = 0; use.spec.files && f < use.spec.files->fetch.size(); ++f) {
      const std::string& stage = use.spec.files->fetch[f].stage;
      all.push_back({.reference = {.text = "fetch: " + stage, .root = stage}, .under = "fetch"});
    }
  }

  // A reference is a need: the value of a stage that has not ended is waited for.
  std::vector<std::vector<std::string_view>> needs(spec.stages.size());
  std::vector<graph::Dag::NewTask> tasks(spec.stages.size());
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < spec.stages.size(); ++i) {
    const Stage& stage = spec.stages[i];
    if (stage.use < 0 || static_cast<std::size_t>(stage.use) >= spec.templates.size()) {
      return invalid("stage '" + stage.name + "' has no template");
    }
    std::vector<ReferenceUse> lists;
    ROTA_TRY_ASSIGN(lists, check_fan_out(stage, spec.templates[static_cast<std::size_t>(stage.use)]));
    const std::vector<ReferenceUse>& own = uses[static_cast<std::size_t>(stage.use)];
    if (!lists.empty()) lists.insert(lists.end(), own.begin(), own.end());
    const std::vector<ReferenceUse>& references = lists.empty() ? own : lists;
    ROTA_TRY(in_range("the priority of stage '" + stage.name + "'", stage.priority, -kMostPriority, kMostPriority));
    ROTA_TRY(check_references(stage, references, names));
    std::vector<std::uint32_t> all = stage.needs;
    for (const ReferenceUse& use : references) {
      const std::uint32_t other = stage_of(names, use);
      if (other == TemplateInfo::kNoStage) continue;
      // When a stage of finally starts, the other stages have ended.
      if (stage.finally && !spec.stages[other].finally) continue;
      all.push_back(other);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const std::uint32_t need : all) {
      if (need >= spec.stages.size()) return invalid("stage '" + stage.name + "' needs a stage that is not there");
      if (spec.stages[need].finally != stage.finally) {
        return invalid("stage '" + stage.name + "' and stage '" + spec.stages[need].name +
                       "', which it needs, are not both in finally");
      }
      needs[i].push_back(spec.stages[need].name);
    }
    for (const std::string& item : stage.items) {
      if (json_validate(item).ok() && json_kind(item) == JsonKind::kObject) continue;
      return invalid("an item of stage '" + stage.name + "' is not a JSON object: " + item.substr(0, 80));
    }
    tasks[i] = {stage.name, needs[i]};
    StageState& state = plan.stages.emplace_back();
    state.first = static_cast<std::uint32_t>(count);
    state.more = state.first + 1;
    state.count = state.unfinished =
        stage.fan_out ? 1 : std::max<std::uint32_t>(1, static_cast<std::uint32_t>(stage.items.size()));
    state.open = state.count;
    ROTA_TRY(check_rules(spec, stage, state.count));
    state.waits = static_cast<std::uint32_t>(all.size() - stage.each.size()) + (stage.finally ? 1 : 0);
    count += state.count;
    if (stage.finally) {
      plan.finally.push_back(static_cast<std::uint32_t>(i));
    } else {
      plan.main_tasks += state.count;
    }
    if (count > TaskId::kMostTasks) {
      return Error{ErrorCode::kTooLarge, "the workflow has more than " + std::to_string(TaskId::kMostTasks) + " tasks"};
    }
  }
  plan.tasks = static_cast<std::uint32_t>(count);
  if (plan.main_tasks == 0) return invalid("the workflow has no stages but those of finally");
  ROTA_TRY(plan.dag.add_all(tasks));
  mark_repeating(spec, plan);
  ROTA_TRY_ASSIGN(plan.links, link_items(spec));
  return plan;
}

}  // namespace rota::fleet

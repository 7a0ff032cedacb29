#include "cli/cache_plan.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/json_text.h"
#include "cli/load.h"
#include "model/message.h"
#include "model/reference.h"
#include "worker/result_cache.h"

namespace rota::cli {

namespace {

// The results that are known, by task.
using Results = std::map<std::uint32_t, std::string>;

// The values of a task's references, as far as they are known before the run.
class PlanScope : public model::ReferenceScope {
 public:
  PlanScope(const model::WorkflowSpec& spec, const std::vector<std::uint32_t>& firsts, const Results& results,
            std::size_t stage, std::size_t item)
      : spec_(spec), firsts_(firsts), results_(results), stage_(stage), item_(item) {}

  [[nodiscard]] std::string task_name() const {
    const model::Stage& stage = spec_.stages[stage_];
    return tasks_of(stage) == 1 ? stage.name : stage.name + "[" + std::to_string(item_) + "]";
  }

  Result<std::string_view> value(std::string_view root, std::string_view member) override {
    const model::Stage& stage = spec_.stages[stage_];
    if (root == "matrix") return stage.items.empty() ? std::string_view("{}") : std::string_view(stage.items[item_]);
    text_.clear();
    if (root == "task") {
      if (member == "name") append_json_string(text_, task_name());
      if (member == "attempt") text_ = "1";
      if (member == "index") text_ = std::to_string(item_);
      if (member == "checkpoint") text_ = "null";
      return std::string_view(text_);
    }
    if (root == "workflow") {
      if (member != "name") return unknown();
      append_json_string(text_, spec_.name);
      return std::string_view(text_);
    }
    return result_of(stage, root, member);
  }

 private:
  static Error unknown() { return Error{ErrorCode::kWouldBlock, "not known before the run"}; }

  Result<std::string_view> result_of(const model::Stage& stage, std::string_view root, std::string_view member) {
    const auto source = std::find_if(spec_.stages.begin(), spec_.stages.end(),
                                     [&](const model::Stage& each) { return each.name == root; });
    if (source == spec_.stages.end() || source->fan_out || member != "result") return unknown();
    const auto number = static_cast<std::uint32_t>(source - spec_.stages.begin());
    for (const model::ItemNeed& each : stage.each) {
      if (each.stage == number) return unknown();
    }
    for (std::uint32_t t = firsts_[number]; t < firsts_[number] + tasks_of(*source); ++t) {
      const auto known = results_.find(t);
      if (known == results_.end()) return unknown();
      text_ += (text_.empty() ? "" : ",") + known->second;
    }
    if (source->has_items()) text_ = "[" + text_ + "]";
    return std::string_view(text_);
  }

  const model::WorkflowSpec& spec_;
  const std::vector<std::uint32_t>& firsts_;
  const Results& results_;
  const std::size_t stage_;
  const std::size_t item_;
  std::string text_;
};

class CachePlan {
 public:
  CachePlan(std::vector<StagePlan>& plans, const Past& past, const model::WorkflowSpec& spec,
            const std::string& directory)
      : plans_(plans), past_(past), spec_(spec), cache_(directory) {
    std::uint32_t first = 0;
    for (const model::Stage& stage : spec.stages) {
      firsts_.push_back(first);
      first += static_cast<std::uint32_t>(tasks_of(stage));
    }
    for (const auto& [task, kept] : past.own) results_.emplace(task, kept.result);
  }

  // Each stage after everything that it needs.
  void run() {
    std::vector<std::size_t> waits;
    std::vector<std::vector<std::size_t>> children(spec_.stages.size());
    std::vector<std::size_t> ready;
    for (std::size_t s = 0; s < spec_.stages.size(); ++s) {
      waits.push_back(spec_.stages[s].needs.size());
      for (const std::uint32_t need : spec_.stages[s].needs) children[need].push_back(s);
      if (waits[s] == 0) ready.push_back(s);
    }
    for (std::size_t i = 0; i < ready.size(); ++i) {
      visit(ready[i]);
      for (const std::size_t child : children[ready[i]]) {
        if (--waits[child] == 0) ready.push_back(child);
      }
    }
  }

 private:
  void visit(std::size_t s) {
    const model::TaskSpec& task = spec_.templates[static_cast<std::size_t>(spec_.stages[s].use)].spec;
    if (task.cache) return look_at(s);
    for (std::uint32_t t = firsts_[s]; t < firsts_[s] + tasks_of(spec_.stages[s]); ++t) {
      if (const auto kept = past_.kept.find(t); kept != past_.kept.end()) results_.emplace(t, kept->second.result);
    }
  }

  void look_at(std::size_t s) {
    const model::Stage& stage = spec_.stages[s];
    StagePlan& plan = plans_[s];
    if (past_.untold) return;
    // What an earlier run came to is not kept for these tasks: the cache decides.
    if (!past_.resumes()) plan.kept = 0;
    if (stage.fan_out) {
      plan.maybe = plan.tasks - std::min(plan.tasks, plan.kept);
      return;
    }
    bool told = false;
    for (std::size_t i = 0; i < tasks_of(stage); ++i) {
      const std::uint32_t index = firsts_[s] + static_cast<std::uint32_t>(i);
      if (past_.own.contains(index) || stage.leaves_out(static_cast<std::uint32_t>(i))) continue;
      const std::optional<worker::CacheCheck::Verdict> verdict = ask(s, i);
      if (!verdict) {
        ++plan.maybe;
      } else if (verdict->hit) {
        ++plan.cached;
        if (plan.note.empty()) plan.note = verdict->note;
        results_.insert_or_assign(index, verdict->result);
      } else if (!std::exchange(told, true)) {
        constexpr std::string_view kRuns = "runs: ";
        plan.why = verdict->note.starts_with(kRuns) ? verdict->note.substr(kRuns.size()) : verdict->note;
      }
    }
  }

  // None if it is not known before the run.
  std::optional<worker::CacheCheck::Verdict> ask(std::size_t s, std::size_t i) {
    const model::Stage& stage = spec_.stages[s];
    const model::TaskTemplate& use = spec_.templates[static_cast<std::size_t>(stage.use)];
    if (use.spec.files && !use.spec.files->fetch.empty()) return std::nullopt;
    PlanScope scope(spec_, firsts_, results_, s, i);
    // If it does not hold, the task is skipped.
    if (!use.condition.empty()) {
      const Result<bool> holds = model::evaluate_condition(use.condition, scope);
      if (!holds.ok() || !*holds) return std::nullopt;
    }
    const Result<model::TaskSpec> spec = model::resolve_references(use.spec, scope);
    if (!spec.ok()) return std::nullopt;
    const model::TaskIdentity identity{.workflow = spec_.name,
                                       .stage = stage.name,
                                       .item = stage.items.empty() ? std::string() : stage.items[i],
                                       .name = scope.task_name()};
    return worker::CacheCheck(cache_, identity, *spec).look([] { return false; });
  }

  std::vector<StagePlan>& plans_;
  const Past& past_;
  const model::WorkflowSpec& spec_;
  worker::ResultCache cache_;
  std::vector<std::uint32_t> firsts_;  // By stage: its first task.
  Results results_;
};

}  // namespace

void look_into_cache(std::vector<StagePlan>& plans, const Past& past, const model::WorkflowSpec& spec,
                     const std::string& directory) {
  const auto is_cached = [](const model::TaskTemplate& use) { return use.spec.cache.has_value(); };
  if (std::none_of(spec.templates.begin(), spec.templates.end(), is_cached)) return;
  CachePlan(plans, past, spec, directory).run();
}

}  // namespace rota::cli

#include "cli/run_past.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "cli/format.h"
#include "cli/load.h"
#include "fleet/codec.h"
#include "fleet/state.h"
#include "model/json.h"
#include "model/reference.h"
#include "worker/fingerprint.h"

namespace rota::cli {

namespace {

constexpr std::size_t kMostNamed = 6;  // Stages that a message names.

// What decides whether two tasks do the same: not how often, how long or where.
model::TaskSpec definition_of(const model::TaskTemplate& use) {
  model::TaskSpec spec = use.spec;
  spec.timeout_ms = 0;
  spec.cache.reset();
  if (spec.program) {
    spec.program->limits = {};
    spec.program->grace_ms.reset();
  }
  return spec;
}

// What a task's texts say about the task itself that neither its definition nor its item determines.
struct SelfReferences {
  bool position = false;  // ${task.index}, or ${task.name}, which has it in brackets.
  bool workflow = false;  // ${workflow.name}
};

SelfReferences self_references_of(const model::TaskTemplate& use) {
  SelfReferences self;
  const auto note = [&](const Result<std::vector<model::ReferenceUse>>& uses) {
    if (!uses.ok()) return;  // The file was checked.
    for (const model::ReferenceUse& each : *uses) {
      const std::string member = each.reference.path.empty() ? std::string() : each.reference.path.front().name;
      self.position = self.position || (each.reference.root == "task" && (member == "index" || member == "name"));
      self.workflow = self.workflow || (each.reference.root == "workflow" && member == "name");
    }
  };
  note(model::find_references(use.spec));
  if (!use.condition.empty()) note(model::check_condition(use.condition));
  return self;
}

// The identities of a workflow's stages and tasks.
class Identities {
 public:
  explicit Identities(const model::WorkflowSpec& spec) : spec_(spec) {
    own_.reserve(spec.templates.size());
    for (const model::TaskTemplate& use : spec.templates) {
      const SelfReferences self = self_references_of(use);
      Hasher own;
      own.add(model::hash_fields(definition_of(use))).add(use.condition);
      if (self.workflow) own.add(spec.name);
      own_.push_back(own.finish128());
      positions_.push_back(self.position);
    }
    std::uint32_t task = 0;
    for (const model::Stage& stage : spec.stages) {
      first_.push_back(task);
      task += static_cast<std::uint32_t>(tasks_of(stage));
    }
    tasks_ = task;
    base_.resize(spec.stages.size());
    whole_.resize(spec.stages.size());
    visit_in_order();
  }

  [[nodiscard]] std::uint32_t tasks() const { return tasks_; }
  [[nodiscard]] std::uint32_t first(std::size_t stage) const { return first_[stage]; }
  // Without the items.
  [[nodiscard]] const Hash128& base(std::size_t stage) const { return base_[stage]; }
  // With all items.
  [[nodiscard]] const Hash128& whole(std::size_t stage) const { return whole_[stage]; }
  [[nodiscard]] Hash128 own(std::size_t stage) const { return own_[static_cast<std::size_t>(spec_.stages[stage].use)]; }
  [[nodiscard]] Hash128 task(std::size_t stage, std::size_t item) const {
    const std::vector<std::string>& items = spec_.stages[stage].items;
    Hasher hasher;
    hasher.add(base_[stage]).add(items.empty() ? std::string_view() : std::string_view(items[item]));
    if (!items.empty() && positions_[static_cast<std::size_t>(spec_.stages[stage].use)]) hasher.add(item);
    return hasher.finish128();
  }
  // The stages, each after all that it needs.
  [[nodiscard]] const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  // Each stage after all that it needs.
  void visit_in_order() {
    const std::size_t stages = spec_.stages.size();
    std::vector<std::size_t> waits(stages);
    std::vector<std::vector<std::uint32_t>> children(stages);
    std::vector<std::uint32_t>& ready = order_;
    for (std::uint32_t s = 0; s < stages; ++s) {
      waits[s] = spec_.stages[s].needs.size();
      for (const std::uint32_t need : spec_.stages[s].needs) children[need].push_back(s);
      if (waits[s] == 0) ready.push_back(s);
    }
    for (std::size_t i = 0; i < ready.size(); ++i) {
      const std::uint32_t s = ready[i];
      visit(s);
      for (const std::uint32_t child : children[s]) {
        if (--waits[child] == 0) ready.push_back(child);
      }
    }
  }
  void visit(std::uint32_t s) {
    const model::Stage& stage = spec_.stages[s];
    std::vector<std::pair<std::string_view, Hash128>> needs;  // By name: their order in the file does not matter.
    for (const std::uint32_t need : stage.needs) needs.emplace_back(spec_.stages[need].name, needed(stage, need));
    std::sort(needs.begin(), needs.end());
    Hasher base;
    base.add(stage.name).add(own(s)).add(static_cast<std::uint8_t>(stage.when)).add(stage.finally);
    for (const auto& [name, whole] : needs) base.add(name).add(whole);
    if (stage.fan_out) base.add(model::hash_fields(*stage.fan_out));
    base_[s] = base.finish128();
    Hasher whole;
    whole.add(base_[s]);
    // The items of a fan-out follow from the results that it names.
    for (std::size_t i = 0; !stage.fan_out && i < stage.items.size(); ++i) whole.add(stage.items[i]);
    whole_[s] = whole.finish128();
  }

  // What the stage needs of another one. By item, with all values of the other's matrix, a task needs its counterpart
  // alone, and that is determined by the task's own item, unless the other one has equal items, or tells its tasks
  // their positions.
  [[nodiscard]] Hash128 needed(const model::Stage& stage, std::uint32_t need) const {
    for (const model::ItemNeed& each : stage.each) {
      if (each.stage != need) continue;
      const model::Stage& other = spec_.stages[need];
      const bool single =
          other.item_names().size() == each.names.size() && !positions_[static_cast<std::size_t>(other.use)] &&
          std::set<std::string_view>(other.items.begin(), other.items.end()).size() == other.items.size();
      Hasher hasher;
      hasher.add(single ? base_[need] : whole_[need]);
      for (const std::string& name : each.names) hasher.add(name);
      return hasher.finish128();
    }
    return whole_[need];
  }

  const model::WorkflowSpec& spec_;
  std::vector<Hash128> own_;     // By template.
  std::vector<bool> positions_;  // By template: its tasks refer to their positions.
  std::vector<std::uint32_t> first_;
  std::vector<Hash128> base_;
  std::vector<Hash128> whole_;
  std::vector<std::uint32_t> order_;
  std::uint32_t tasks_ = 0;
};

bool has_mark(const std::string& key, char mark) {
  const std::size_t hash = key.rfind('#');
  return hash != std::string::npos && key.find(mark, hash) != std::string::npos;
}

// An earlier run, prepared for looking up its tasks.
class EarlierRun {
 public:
  // `witness`: its results are not kept, but show where those of a later partial run come from.
  EarlierRun(const fleet::Workflow& workflow, bool witness)
      : workflow_(workflow),
        identities_(workflow.spec),
        forced_(has_mark(workflow.key, 'f') || has_mark(workflow.key, 'p')),
        witness_(witness),
        sound_(workflow.spec.stages.size(), true) {
    for (std::uint32_t s = 0; s < workflow.spec.stages.size(); ++s) stages_.emplace(workflow.spec.stages[s].name, s);
  }

  [[nodiscard]] const fleet::Workflow& workflow() const { return workflow_; }
  [[nodiscard]] const fleet::Task& task(std::uint32_t stage, std::size_t item) const {
    return workflow_.tasks[workflow_.stages[stage].task(static_cast<std::uint32_t>(item))];
  }
  [[nodiscard]] const Identities& identities() const { return identities_; }
  // Unchanged tasks may have been made to run in it.
  [[nodiscard]] bool forced() const { return forced_; }
  [[nodiscard]] std::optional<std::uint32_t> stage(std::string_view name) const {
    const auto found = stages_.find(name);
    return found == stages_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] bool is_witness() const { return witness_; }
  // The results of this stage are those of the definitions in this run. In a partial run they need not be: --only uses
  // the latest result of what it does not run, also if that has changed.
  [[nodiscard]] bool is_sound(std::uint32_t stage) const { return sound_[stage]; }
  // Finds out which stages are sound, after the same for all `older` runs.
  void judge(std::span<EarlierRun> older) {
    if (!has_mark(workflow_.key, 'p')) return;
    for (const std::uint32_t s : identities_.order()) {
      const model::Stage& stage = workflow_.spec.stages[s];
      sound_[s] = std::all_of(stage.needs.begin(), stage.needs.end(), [&](std::uint32_t need) { return sound_[need]; });
      for (std::size_t i = 0; sound_[s] && i < tasks_of(stage); ++i) {
        const fleet::Task& own = task(s, i);
        if (own.extra == nullptr || !own.extra->reused) continue;
        sound_[s] = std::any_of(older.begin(), older.end(), [&](EarlierRun& run) { return run.shows(*this, s, i); });
      }
    }
  }
  // The position in the stage of the task with the item items[at]; the same position is preferred. Of equal items, each
  // belongs to another task. REQUIRES: `items` outlives this object.
  [[nodiscard]] std::optional<std::size_t> item(std::uint32_t s, const std::vector<std::string>& items,
                                                std::size_t at) {
    const std::vector<std::string>& own = workflow_.spec.stages[s].items;
    if (items.empty() || own.empty())
      return items.empty() && own.empty() ? std::optional<std::size_t>(0) : std::nullopt;
    auto [found, fresh] = items_.try_emplace({s, &items});
    if (fresh) found->second = match(own, items);
    return found->second[at];
  }

 private:
  using Positions = std::vector<std::optional<std::size_t>>;
  // For each of `items`, the position of its counterpart in `own`.
  static Positions match(const std::vector<std::string>& own, const std::vector<std::string>& items) {
    Positions positions(items.size());
    std::unordered_map<std::string_view, std::vector<std::size_t>> left;  // From the last to the first.
    for (std::size_t i = own.size(); i-- > 0;) {
      if (i < items.size() && own[i] == items[i]) {
        positions[i] = i;
      } else {
        left[own[i]].push_back(i);
      }
    }
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto found = positions[i] ? left.end() : left.find(items[i]);
      if (found == left.end() || found->second.empty()) continue;
      positions[i] = found->second.back();
      found->second.pop_back();
    }
    return positions;
  }

  // Whether the task of `later` succeeded here with the same identity.
  [[nodiscard]] bool shows(const EarlierRun& later, std::uint32_t s, std::size_t i) {
    const model::Stage& stage = later.workflow_.spec.stages[s];
    const std::optional<std::uint32_t> own = this->stage(stage.name);
    if (!own || !sound_[*own]) return false;
    const std::optional<std::size_t> at = item(*own, stage.items, i);
    if (!at || task(*own, *at).state != graph::TaskState::kSucceeded || task(*own, *at).skipped) return false;
    return identities_.task(*own, *at) == later.identities_.task(s, i);
  }

  const fleet::Workflow& workflow_;
  Identities identities_;
  const bool forced_;
  const bool witness_;
  std::vector<bool> sound_;  // By stage.
  std::unordered_map<std::string_view, std::uint32_t> stages_;
  std::map<std::pair<std::uint32_t, const std::vector<std::string>*>, Positions> items_;  // On demand.
};

// The outputs of the task are damaged or gone.
bool has_lost_files(const PastQuery& query, const fleet::Task& task) {
  return query.is_stored && task.extra != nullptr && !task.extra->outputs.empty() &&
         !query.is_stored(task.extra->outputs);
}

KeptResult kept_of(const fleet::Task& task, model::WorkflowId from) {
  KeptResult kept;
  kept.result = task.extra == nullptr || task.extra->result.empty() ? "null" : task.extra->result;
  kept.note = "unchanged since " + from.to_string();
  if (task.extra != nullptr) kept.outputs = task.extra->outputs;
  return kept;
}

// Finds the results to keep, and why the others are not kept.
class Keeper {
 public:
  Keeper(const PastQuery& query, std::vector<EarlierRun>& runs, Past& past)
      : query_(query), runs_(runs), past_(past), now_(*query.spec) {}

  void run() {
    const std::vector<model::Stage>& stages = query_.spec->stages;
    settled_.assign(stages.size(), false);
    std::vector<bool> done_before(stages.size());  // One of its tasks was done, and runs again.
    for (const std::uint32_t s : now_.order()) {
      std::size_t settled = 0;
      if (stages[s].fan_out) {
        done_before[s] = look_at_items(s, settled);
        continue;
      }
      for (std::size_t i = 0; i < tasks_of(stages[s]); ++i) done_before[s] = look(s, i, settled) || done_before[s];
      settled_[s] = settled == tasks_of(stages[s]);
    }
    for (std::uint32_t s = 0; s < stages.size(); ++s) {
      if (done_before[s]) past_.changed.push_back({stages[s].name, why(s)});
    }
  }

 private:
  // What a stage that waits for the end of others does depends on how they end. It is as before only if nothing that it
  // needs runs again; and only then are the stages after it.
  [[nodiscard]] bool comes_again(std::uint32_t s) const {
    const model::Stage& stage = query_.spec->stages[s];
    if (stage.finally) return true;
    for (const std::uint32_t need : stage.needs) {
      if (stage.when != model::When::kSuccess && !settled_[need]) return true;
      if (query_.spec->stages[need].when != model::When::kSuccess && !settled_[need]) return true;
      if (comes_again_.contains(need)) return true;
    }
    return false;
  }
  [[nodiscard]] Choice choice_of(std::uint32_t index) const {
    return query_.choices.empty() ? Choice::kNormal : query_.choices[index];
  }

  // True if the task succeeded in an earlier run and its result is not kept, because something changed. `settled`
  // counts tasks that end as before without being run: their results are kept, or they are skipped.
  bool look(std::uint32_t s, std::size_t i, std::size_t& settled) {
    const std::uint32_t index = now_.first(s) + static_cast<std::uint32_t>(i);
    const Choice choice = choice_of(index);
    if (choice == Choice::kRun || choice == Choice::kLeaveOut) return false;
    const model::Stage& stage = query_.spec->stages[s];
    const bool again = choice != Choice::kKeep && comes_again(s);
    if (again) comes_again_.insert(s);
    const Hash128 identity = now_.task(s, i);
    for (EarlierRun& run : runs_) {
      const std::optional<std::uint32_t> old = run.stage(stage.name);
      if (!old || run.is_witness() || run.workflow().spec.stages[*old].fan_out) continue;
      if (choice != Choice::kKeep && !run.is_sound(*old)) continue;
      const std::optional<std::size_t> item = run.item(*old, stage.items, i);
      if (!item) continue;
      const fleet::Task& task = run.task(*old, *item);
      const bool succeeded = task.state == graph::TaskState::kSucceeded && !task.skipped;
      const bool equal = run.identities().task(*old, *item) == identity;
      if (succeeded && ((equal && !again) || choice == Choice::kKeep) && has_lost_files(query_, task)) {
        if (choice == Choice::kKeep) continue;
        lose(s);
        return true;
      }
      // Nothing that it needs has failed this time.
      if (succeeded && stage.when == model::When::kFailure && choice != Choice::kKeep && !again) return false;
      if (succeeded && ((equal && !again) || choice == Choice::kKeep)) {
        keep(index, task, run.workflow().id);
        ++settled;
        return false;
      }
      if (choice == Choice::kKeep) continue;
      if (succeeded) return !stage.finally;
      if (task.skipped && equal && !again &&
          !run.workflow().spec.stages[*old].leaves_out(static_cast<std::uint32_t>(*item))) {
        ++settled;
        return false;
      }
      if (task.attempt.value() > 0 && (!equal || run.forced())) return false;
    }
    if (choice == Choice::kKeep) {
      past_.missing.push_back(stage.items.size() < 2 ? stage.name : stage.name + "[" + std::to_string(i) + "]");
    }
    return false;
  }

  // The same for a stage whose items are not known yet: results are kept by item.
  bool look_at_items(std::uint32_t s, std::size_t& settled) {
    const model::Stage& stage = query_.spec->stages[s];
    const Choice choice = choice_of(now_.first(s));
    if (choice == Choice::kRun) return false;
    const bool again = choice != Choice::kKeep && comes_again(s);
    if (again) comes_again_.insert(s);
    bool changed = false;
    bool found = false;
    std::set<std::string> closed;  // Items of later runs: their results are kept, or not those of an equal task.
    for (const EarlierRun& run : runs_) {
      const std::optional<std::uint32_t> old = run.stage(stage.name);
      if (!old || run.is_witness() || !run.workflow().spec.stages[*old].fan_out) continue;
      if (choice != Choice::kKeep && !run.is_sound(*old)) continue;
      const bool equal = run.identities().base(*old) == now_.base(s);
      const std::vector<std::string>& items = run.workflow().spec.stages[*old].items;
      const std::size_t before = settled;
      std::set<std::string> here;
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (closed.contains(items[i])) continue;
        const fleet::Task& task = run.task(*old, i);
        const bool succeeded = task.state == graph::TaskState::kSucceeded && !task.skipped;
        const bool kept = succeeded && ((equal && !again) || choice == Choice::kKeep);
        if (kept && has_lost_files(query_, task)) {
          lose(s);
          changed = true;
          here.insert(items[i]);
        } else if (kept) {
          past_.kept_items[stage.name][items[i]].push_back(kept_of(task, run.workflow().id));
          ++settled;
          here.insert(items[i]);
        } else if (succeeded) {
          changed = changed || !stage.finally;
          here.insert(items[i]);
        } else if (choice != Choice::kKeep && task.attempt.value() > 0 && (!equal || run.forced())) {
          here.insert(items[i]);
        }
      }
      closed.merge(here);
      const bool empty = items.empty() && run.task(*old, 0).skipped && equal && !again;
      if (!std::exchange(found, true)) settled_[s] = empty || (!items.empty() && settled - before == items.size());
      if (choice == Choice::kKeep && (settled > 0 || empty)) return false;
    }
    if (choice == Choice::kKeep) past_.missing.push_back(stage.name);
    return changed;
  }

  // The files that a task of the stage has stored are gone: it runs again, and so does everything that needs it.
  void lose(std::uint32_t s) {
    lost_.insert(s);
    comes_again_.insert(s);
  }

  void keep(std::uint32_t index, const fleet::Task& task, model::WorkflowId from) {
    past_.kept.emplace(index, kept_of(task, from));
  }

  // Why a stage that was done before runs again.
  std::string why(std::uint32_t s) const {
    const model::Stage& stage = query_.spec->stages[s];
    if (lost_.contains(s)) return "files that it stored are gone";
    for (const EarlierRun& run : runs_) {
      const std::optional<std::uint32_t> old = run.stage(stage.name);
      if (!old || run.is_witness() || !run.is_sound(*old)) continue;
      const model::WorkflowSpec& before = run.workflow().spec;
      const model::TaskTemplate& use = query_.spec->templates[static_cast<std::size_t>(stage.use)];
      const model::TaskTemplate& was = before.templates[static_cast<std::size_t>(before.stages[*old].use)];
      if (run.identities().own(*old) != now_.own(s)) {
        const std::string text =
            worker::differences(worker::parts_of(definition_of(was)), worker::parts_of(definition_of(use)));
        if (!text.empty()) return text;
        return was.condition != use.condition ? "the condition changed" : "it changed";
      }
      for (const std::uint32_t need : stage.needs) {
        const std::string& name = query_.spec->stages[need].name;
        const std::optional<std::uint32_t> there = run.stage(name);
        if (!there || run.identities().whole(*there) != now_.whole(need)) return "needs " + name;
      }
      if (run.identities().base(*old) != now_.base(s)) return "the stages that it needs changed";
      if (stage.when != model::When::kSuccess) return "when: " + std::string(to_string(stage.when));
      for (const std::uint32_t need : stage.needs) {
        if (!settled_[need]) return "needs " + query_.spec->stages[need].name;
      }
    }
    return "it changed";
  }

  const PastQuery& query_;
  std::vector<EarlierRun>& runs_;
  Past& past_;
  const Identities now_;
  std::vector<bool> settled_;  // By stage: it ends as before, and no task of it is run.
  // Stages that run again because of what a stage with `when` does, or because stored files are gone.
  std::set<std::uint32_t> comes_again_;
  std::set<std::uint32_t> lost_;  // Stages of which stored files are gone.
};

// The mean run time of each stage's tasks in the latest run in which one of them succeeded; a few runs are searched.
std::vector<std::int64_t> expected_times(const std::vector<const fleet::Workflow*>& all,
                                         const model::WorkflowSpec& spec) {
  constexpr std::size_t kMostRuns = 5;
  std::vector<std::int64_t> expected(spec.stages.size());
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (std::size_t s = 0; s < spec.stages.size(); ++s) numbers.emplace(spec.stages[s].name, s);
  std::size_t seen = 0;
  for (auto run = all.rbegin(); run != all.rend() && seen < kMostRuns; ++run, ++seen) {
    const fleet::Workflow& workflow = **run;
    std::vector<std::int64_t> sum(workflow.spec.stages.size());
    std::vector<std::int64_t> count(workflow.spec.stages.size());
    for (const fleet::Task& task : workflow.tasks) {
      const bool kept = task.extra != nullptr && task.extra->reused;
      if (task.state != graph::TaskState::kSucceeded || task.started_ns == 0 || kept) continue;
      sum[task.stage] += task.ended_ns - task.started_ns;
      ++count[task.stage];
    }
    for (std::size_t s = 0; s < sum.size(); ++s) {
      const auto number = count[s] == 0 ? numbers.end() : numbers.find(workflow.spec.stages[s].name);
      if (number == numbers.end() || expected[number->second] != 0) continue;
      expected[number->second] = std::max<std::int64_t>(sum[s] / count[s], 1);
    }
  }
  return expected;
}

}  // namespace

std::vector<Hash128> task_identities(const model::WorkflowSpec& spec) {
  const Identities identities(spec);
  std::vector<Hash128> all;
  all.reserve(identities.tasks());
  for (std::size_t s = 0; s < spec.stages.size(); ++s) {
    for (std::size_t i = 0; i < tasks_of(spec.stages[s]); ++i) all.push_back(identities.task(s, i));
  }
  return all;
}

std::vector<Expanded> expanded_of(const fleet::Workflow& workflow) {
  std::vector<Expanded> all;
  std::uint32_t t = 0;
  while (t < workflow.tasks.size()) {
    const std::uint32_t stage = workflow.tasks[t].stage;
    const fleet::StageState& own = workflow.stages[stage];
    const std::uint32_t from = t++;
    if (workflow.is_withdrawn(workflow.tasks[from])) {
      while (t < workflow.tasks.size() && workflow.tasks[t].stage == stage && !own.has(t)) ++t;
      all.emplace_back(stage, std::vector<std::string>(t - from + 1, "{}"));
      all.emplace_back(stage, std::vector<std::string>());
    } else if (workflow.spec.stages[stage].fan_out && own.count > 1 && from == own.more) {
      t = from + own.count - 1;
      all.emplace_back(stage, workflow.spec.stages[stage].items);
    }
  }
  for (std::uint32_t stage = 0; stage < workflow.stages.size(); ++stage) {
    const model::Stage& spec = workflow.spec.stages[stage];
    if (spec.fan_out && spec.items.size() == 1) all.emplace_back(stage, spec.items);
  }
  return all;
}

std::string run_key(const PastQuery& query, std::uint64_t number) {
  return query.content + "#" + std::to_string(number) + (query.fresh ? "f" : "") + (query.partial ? "p" : "");
}

namespace {

// By stage: a retry of the workflow runs all of its tasks again, because something that they come after is not done.
std::vector<bool> repeated_by_retry(const fleet::Workflow& workflow) {
  std::vector<std::uint32_t> stages(workflow.stages.size());
  for (std::uint32_t s = 0; s < stages.size(); ++s) stages[workflow.dag.order(graph::TaskRef(s + 1))] = s;
  std::stable_partition(stages.begin(), stages.end(), [&](auto s) { return !workflow.spec.stages[s].finally; });
  std::vector<bool> again(stages.size());
  bool main_open = false;
  for (const std::uint32_t s : stages) {
    const auto parents = workflow.dag.parents(graph::TaskRef(s + 1));
    const auto is_open = [&](graph::TaskRef parent) {
      return workflow.stages[parent.value() - 1].unfinished > 0 || again[parent.value() - 1];
    };
    again[s] = workflow.stages[s].repeats &&
               ((workflow.spec.stages[s].finally && main_open) || std::any_of(parents.begin(), parents.end(), is_open));
    main_open = main_open || (!workflow.spec.stages[s].finally && (workflow.stages[s].unfinished > 0 || again[s]));
  }
  return again;
}

// How many results are kept of a stage whose items are not known yet.
std::size_t kept_of_items(const Past& past, const std::string& stage) {
  const auto items = past.kept_items.find(stage);
  if (items == past.kept_items.end()) return 0;
  std::size_t count = 0;
  for (const auto& [item, results] : items->second) count += results.size();
  return count;
}

// A task that is not done fetches files that are damaged or gone.
template <class IsDone>
bool needs_lost_files(const fleet::Workflow& workflow, const PastQuery& query, const IsDone& is_done) {
  std::set<std::uint32_t> sources;
  for (const fleet::Task& task : workflow.tasks) {
    const model::TaskSpec& spec = workflow.template_of(task).spec;
    if (!spec.files || spec.files->fetch.empty() || is_done(task) || workflow.is_withdrawn(task)) continue;
    for (const model::FetchSpec& fetch : spec.files->fetch) {
      if (const graph::TaskRef ref = workflow.dag.find(fetch.stage); !ref.is_none()) sources.insert(ref.value() - 1);
    }
  }
  return std::any_of(workflow.tasks.begin(), workflow.tasks.end(), [&](const fleet::Task& task) {
    return sources.contains(task.stage) && is_done(task) && has_lost_files(query, task);
  });
}

}  // namespace

Past read_past(const fleet::State& state, const PastQuery& query) {
  Past past;
  std::vector<const fleet::Workflow*> all;
  state.each_workflow([&](const fleet::Workflow& workflow) {
    all.push_back(&workflow);
    if (workflow.key.starts_with(query.content + "#")) {
      const std::uint64_t number = std::strtoull(workflow.key.c_str() + query.content.size() + 1, nullptr, 10);
      past.runs = std::max(past.runs, number);
    }
  });
  std::vector<EarlierRun> runs;
  if (all.empty()) {
    if (!query.choices.empty()) Keeper(query, runs, past).run();
    return past;
  }
  const fleet::Workflow& latest = *all.back();
  past.latest = latest.id;
  past.key = latest.key;
  past.outcome = latest.outcome;
  past.same = latest.key.starts_with(query.content + "#") && has_mark(latest.key, 'p') == query.partial;
  past.tasks = static_cast<std::size_t>(std::count_if(
      latest.tasks.begin(), latest.tasks.end(), [&](const fleet::Task& task) { return !latest.is_withdrawn(task); }));
  past.stopped = latest.stopped != fleet::StopCause::kNone;
  // After a second Ctrl-C, `finally` has not started: it is left out, as the user wanted.
  const auto began = [&](const fleet::Task& task) {
    return latest.spec.stages[task.stage].finally && task.since_ns != 0 && task.assigned_ns >= task.since_ns;
  };
  past.finishing = latest.outcome == fleet::Outcome::kRunning && past.stopped && latest.main.open == 0 &&
                   std::any_of(latest.tasks.begin(), latest.tasks.end(), began);
  // A process that was killed may have left tasks that had failed: the user had no part in that, and wants them
  // retried.
  const bool broken = std::any_of(latest.tasks.begin(), latest.tasks.end(), [&](const fleet::Task& task) {
    return (task.state == graph::TaskState::kFailed || task.state == graph::TaskState::kCancelled) &&
           !latest.is_withdrawn(task);
  });
  past.retries = latest.outcome != fleet::Outcome::kRunning || past.stopped || broken;
  const std::vector<bool> again = repeated_by_retry(latest);
  const auto is_done = [&](const fleet::Task& task) {
    return task.state == graph::TaskState::kSucceeded && !(past.retries && again[task.stage]) &&
           !latest.is_withdrawn(task);
  };
  past.untold = past.same && !query.fresh && past.outcome == fleet::Outcome::kSucceeded && past.key != query.told &&
                query.now_ns - latest.ended_ns < kUntoldForNs;
  past.lost = past.resumes() && !query.fresh && needs_lost_files(latest, query, is_done);
  past.same = past.same && !past.lost;
  for (const fleet::Task& task : latest.tasks) past.succeeded += is_done(task) ? 1U : 0U;
  for (const fleet::Workflow* each : all) {
    const bool resumed = each == &latest && past.same && !query.fresh;
    if (each->outcome == fleet::Outcome::kRunning && !resumed) past.unfinished.push_back(each->id);
  }
  past.expected_ns = expected_times(all, *query.spec);
  if (query.fresh) return past;
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    // A run that was stopped during `finally` may have succeeded after that; nobody has seen its success.
    const bool success = (*each)->outcome == fleet::Outcome::kSucceeded && !has_mark((*each)->key, 'p') &&
                         (*each)->stopped == fleet::StopCause::kNone;
    if (success && !query.reuse_success && !query.reuse_all) {
      if (!runs.empty()) runs.emplace_back(**each, true);
      break;
    }
    runs.emplace_back(**each, false);
    if (success && !query.reuse_all) break;
    if (has_mark((*each)->key, 'f')) break;
  }
  for (std::size_t i = runs.size(); i-- > 0;) runs[i].judge(std::span(runs).subspan(i + 1));
  if (past.same) {
    past.expanded = expanded_of(latest);
    past.done.assign(latest.spec.stages.size(), 0);
    for (const fleet::Task& task : latest.tasks) {
      past.done[task.stage] += is_done(task) ? 1U : 0U;
    }
  }
  if (query.results && past.resumes()) {
    for (std::uint32_t t = 0; t < latest.tasks.size(); ++t) {
      if (is_done(latest.tasks[t])) past.own.emplace(t, kept_of(latest.tasks[t], latest.id));
    }
  }
  // A run that is resumed without any earlier one has nothing to keep but its own results.
  if (query.choices.empty() && !query.reuse_all && (runs.empty() || (runs.size() == 1 && past.same))) return past;
  Keeper(query, runs, past).run();
  return past;
}

Result<void> check_missing(const Past& past) {
  if (past.missing.empty()) return {};
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(past.missing.size(), 5); ++i) {
    names += (i == 0 ? "" : ", ") + past.missing[i];
  }
  if (past.missing.size() > 5) names += " and " + std::to_string(past.missing.size() - 5) + " more";
  return Error{ErrorCode::kFailedPrecondition,
               "no earlier run has a result of " + names + "; run them first, for example with --until"};
}

std::vector<StagePlan> plan_of(const Past& past, const PastQuery& query) {
  std::vector<StagePlan> plans;
  std::uint32_t first = 0;
  const std::vector<model::Stage>& stages = query.spec->stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    StagePlan plan;
    const std::size_t planned = tasks_of(stages[s]);
    plan.tasks = planned;
    for (std::uint32_t t = first; t < first + planned; ++t) plan.kept += past.kept.contains(t) ? 1U : 0U;
    plan.kept += kept_of_items(past, stages[s].name);
    plan.open_ended = stages[s].fan_out.has_value();
    for (const auto& [stage, items] : past.expanded) {
      if (stage != s || !(past.resumes() || past.untold)) continue;
      plan.tasks = items.empty() ? planned : items.size();
      plan.open_ended = items.empty();
    }
    if ((past.resumes() || past.untold) && s < past.done.size()) plan.kept = std::max(plan.kept, past.done[s]);
    const auto changed = std::find_if(past.changed.begin(), past.changed.end(),
                                      [&](const StageNews& news) { return news.stage == stages[s].name; });
    const bool chosen = !query.choices.empty() && query.choices[first] == Choice::kRun;
    plan.why = chosen                                 ? "chosen"
               : changed != past.changed.end()        ? changed->why
               : past.latest.is_none()                ? "no earlier run"
               : query.fresh                          ? "--fresh"
               : past.resumes() || !past.kept.empty() ? "not done yet"
                                                      : "a new run";
    plans.push_back(std::move(plan));
    first += static_cast<std::uint32_t>(planned);
  }
  return plans;
}

std::string edit_sentence(const Past& past, const model::WorkflowSpec& spec) {
  const auto join = [](const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t i = 0; i < std::min(words.size(), kMostNamed); ++i) text += (i == 0 ? "" : ", ") + words[i];
    if (words.size() > kMostNamed) text += " and " + std::to_string(words.size() - kMostNamed) + " more";
    return text;
  };
  std::vector<std::string> kept;
  std::size_t results = past.kept.size();
  std::uint32_t first = 0;
  for (const model::Stage& stage : spec.stages) {
    const auto count = static_cast<std::uint32_t>(tasks_of(stage));
    if (const std::size_t items = kept_of_items(past, stage.name); items > 0) {
      kept.push_back(stage.name + " (" + counted(items, "item") + ")");
      results += items;
    }
    const auto here =
        static_cast<std::size_t>(std::distance(past.kept.lower_bound(first), past.kept.lower_bound(first + count)));
    if (here > 0) {
      kept.push_back(stage.name +
                     (here == count ? "" : " (" + std::to_string(here) + " of " + std::to_string(count) + ")"));
    }
    first += count;
  }
  std::string text;
  if (!kept.empty()) {
    text = "keeping " + counted(results, "result") + " of " + counted(first, "task") + ": " + join(kept);
  }
  std::vector<std::string> again;
  for (const StageNews& news : past.changed) again.push_back(news.stage + " (" + news.why + ")");
  if (!again.empty()) text += (text.empty() ? "running again: " : "; running again: ") + join(again);
  return text;
}

}  // namespace rota::cli

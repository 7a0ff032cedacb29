#include "cli/selection.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/nearest.h"
#include "cli/load.h"
#include "model/json.h"

namespace rota::cli {

namespace {

struct Named {
  std::uint32_t stage = 0;
  std::optional<std::size_t> item{};  // None: the whole stage.
};

Result<Named> find(const model::WorkflowSpec& spec, const std::string& option, const std::string& word) {
  std::string name = word;
  std::optional<std::size_t> item;
  bool unreadable = false;  // What stands in the brackets is not a number.
  if (const std::size_t bracket = word.find('['); bracket != std::string::npos && word.ends_with(']')) {
    std::size_t number = 0;
    const char* end = word.data() + word.size() - 1;
    const auto parsed = std::from_chars(word.data() + bracket + 1, end, number);
    name = word.substr(0, bracket);
    item = number;
    unreadable = parsed.ec != std::errc() || parsed.ptr != end;
  }
  std::vector<std::string> names;
  for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
    if (spec.stages[s].name == name) {
      if (item && spec.stages[s].fan_out) {
        return Error{ErrorCode::kInvalidArgument, option + " " + printable(word) +
                                                      ": the tasks of the stage are known when the results are that "
                                                      "its matrix names; choose the whole stage"};
      }
      if (unreadable) {
        return Error{ErrorCode::kInvalidArgument,
                     option + " '" + printable(word) + "': write the number of a task in the brackets, counted from 0"};
      }
      if (item && *item >= std::max<std::size_t>(spec.stages[s].items.size(), 1)) {
        return Error{ErrorCode::kInvalidArgument,
                     option + " " + printable(word) + ": the stage has " +
                         std::to_string(std::max<std::size_t>(spec.stages[s].items.size(), 1)) +
                         " tasks, counted from 0"};
      }
      if (spec.stages[s].items.size() < 2) item.reset();
      return Named{s, item};
    }
    names.push_back(spec.stages[s].name);
  }
  const std::string_view near = nearest(name, names);
  std::string known;
  for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 20); ++i) known += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > 20) known += ", ...";
  return Error{ErrorCode::kInvalidArgument, option + " '" + printable(word) + "': the workflow has no such stage" +
                                                (near.empty() ? "." : "; did you mean '" + std::string(near) + "'?") +
                                                " Its stages are " + known};
}

// With --only, tasks that are neither chosen nor needed by one that is chosen are left out: the others of a stage of
// which one is chosen, and of a stage that it needs by item, those with other values (Y-3).
void leave_out(model::WorkflowSpec& spec, const std::vector<bool>& kept, std::vector<std::vector<Choice>>& choices) {
  std::vector<std::vector<bool>> needed(spec.stages.size());
  for (std::size_t s = 0; s < needed.size(); ++s) {
    for (const Choice choice : choices[s]) needed[s].push_back(choice == Choice::kRun);
  }
  const auto values = [](const std::string& item, const model::ItemNeed& need) {
    std::string text;
    for (const std::string& name : need.names) text.append(model::json_member(item, name)).append("\n");
    return text;
  };
  // A stage may stand in the file before those that it needs: until nothing changes any more.
  for (bool changed = true; changed;) {
    changed = false;
    for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
      const model::Stage& stage = spec.stages[s];
      if (!kept[s] || std::find(needed[s].begin(), needed[s].end(), true) == needed[s].end()) continue;
      for (const std::uint32_t need : stage.needs) {
        const auto each = std::find_if(stage.each.begin(), stage.each.end(),
                                       [&](const model::ItemNeed& item) { return item.stage == need; });
        const bool by_item = each != stage.each.end() && !stage.fan_out && !spec.stages[need].fan_out;
        std::set<std::string> wanted;
        for (std::size_t i = 0; by_item && i < needed[s].size(); ++i) {
          if (needed[s][i]) wanted.insert(values(stage.items[i], *each));
        }
        for (std::size_t i = 0; i < needed[need].size(); ++i) {
          if (needed[need][i] || (by_item && !wanted.contains(values(spec.stages[need].items[i], *each)))) continue;
          needed[need][i] = changed = true;
        }
      }
    }
  }
  for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
    if (!kept[s] || spec.stages[s].fan_out) continue;
    for (std::uint32_t i = 0; i < needed[s].size(); ++i) {
      if (needed[s][i]) continue;
      choices[s][i] = Choice::kLeaveOut;
      spec.stages[s].left_out.push_back(i);
    }
  }
}

// All stages that are reached from those that are marked.
void spread(std::vector<bool>& marked, const std::vector<std::vector<std::uint32_t>>& next) {
  std::vector<std::uint32_t> open;
  for (std::uint32_t s = 0; s < marked.size(); ++s) {
    if (marked[s]) open.push_back(s);
  }
  while (!open.empty()) {
    const std::uint32_t s = open.back();
    open.pop_back();
    for (const std::uint32_t other : next[s]) {
      if (marked[other]) continue;
      marked[other] = true;
      open.push_back(other);
    }
  }
}

void remove_stages(model::WorkflowSpec& spec, const std::vector<bool>& kept) {
  std::vector<std::uint32_t> number(spec.stages.size());
  std::vector<model::Stage> stages;
  for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
    if (!kept[s]) continue;
    number[s] = static_cast<std::uint32_t>(stages.size());
    stages.push_back(std::move(spec.stages[s]));
  }
  for (model::Stage& stage : stages) {
    for (std::uint32_t& need : stage.needs) need = number[need];
    for (model::ItemNeed& need : stage.each) need.stage = number[need.stage];
  }
  spec.stages = std::move(stages);
}

}  // namespace

std::string Selection::text() const {
  std::string text;
  const auto add = [&](const char* word, const std::vector<std::string>& names) {
    for (const std::string& name : names) text += std::string(word) + " " + name + "\n";
  };
  add("only", only);
  add("from", from);
  add("until", until);
  return text;
}

Result<std::vector<Choice>> apply(const Selection& selection, model::WorkflowSpec& spec) {
  const std::size_t stages = spec.stages.size();
  std::vector<std::vector<std::uint32_t>> parents(stages);
  std::vector<std::vector<std::uint32_t>> children(stages);
  for (std::uint32_t s = 0; s < stages; ++s) {
    parents[s] = spec.stages[s].needs;
    for (const std::uint32_t need : parents[s]) children[need].push_back(s);
  }
  std::vector<bool> kept(stages, selection.until.empty() && selection.only.empty());
  std::vector<std::vector<Choice>> choices(stages);
  for (std::size_t s = 0; s < stages; ++s) {
    choices[s].assign(tasks_of(spec.stages[s]), selection.only.empty() ? Choice::kNormal : Choice::kKeep);
  }
  for (const std::string& word : selection.until) {
    ROTA_TRY_ASSIGN(const Named named, find(spec, "--until", word));
    kept[named.stage] = true;
  }
  for (const std::string& word : selection.only) {
    ROTA_TRY_ASSIGN(const Named named, find(spec, "--only", word));
    kept[named.stage] = true;
    if (named.item) {
      choices[named.stage][*named.item] = Choice::kRun;
    } else {
      std::fill(choices[named.stage].begin(), choices[named.stage].end(), Choice::kRun);
    }
  }
  for (std::size_t s = 0; s < stages && !selection.only.empty(); ++s) {
    if (!kept[s] || !spec.stages[s].finally) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "--only " + spec.stages[s].name + ": a stage of finally runs only at the end of the other stages"};
  }
  for (std::size_t s = 0; s < stages && !selection.until.empty(); ++s) {
    if (!kept[s] || !spec.stages[s].finally) continue;
    return Error{ErrorCode::kInvalidArgument,
                 "--until " + spec.stages[s].name + ": a stage of finally comes after all others; leave --until out"};
  }
  spread(kept, parents);
  if (!selection.only.empty()) leave_out(spec, kept, choices);
  std::vector<bool> again(stages);
  for (const std::string& word : selection.from) {
    ROTA_TRY_ASSIGN(const Named named, find(spec, "--from", word));
    if (!kept[named.stage]) {
      return Error{ErrorCode::kInvalidArgument, "--from " + printable(word) + ": with --until, this stage is not run"};
    }
    again[named.stage] = true;
  }
  spread(again, children);
  std::vector<Choice> out;
  for (std::size_t s = 0; s < stages; ++s) {
    if (!kept[s]) continue;
    if (again[s]) std::fill(choices[s].begin(), choices[s].end(), Choice::kRun);
    out.insert(out.end(), choices[s].begin(), choices[s].end());
  }
  remove_stages(spec, kept);
  return out;
}

}  // namespace rota::cli

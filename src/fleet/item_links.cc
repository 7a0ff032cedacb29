// Per-item dependencies (Y-3): which tasks of two stages belong together.
//
// A link is resolved when the items of both stages are known: at submission, or, for a stage whose matrix is a result
// (Y-2), when it is expanded. Until then its children wait.
#include <map>
#include <string>
#include <utility>

#include "fleet/plan.h"
#include "fleet/state.h"
#include "model/json.h"

namespace rota::fleet {

namespace {

// The values of the names in the item, as one text; an error if one is missing.
Result<std::string> values_of(const Stage& stage, const std::string& item, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    const std::string_view value = json_member(item, name);
    if (value.data() == nullptr) {
      return Error{ErrorCode::kInvalidArgument,
                   "an item of stage '" + stage.name + "' has no '" + name + "', which `each` names"};
    }
    ROTA_TRY_ASSIGN(const std::string written, json_minify(value));
    text += written + "\n";  // No JSON that is written without spaces contains a line end.
  }
  return text;
}

const ItemNeed& need_of(const WorkflowSpec& spec, const ItemLink& link) {
  const std::vector<ItemNeed>& all = spec.stages[link.child].each;
  return *std::find_if(all.begin(), all.end(), [&](const ItemNeed& need) { return need.stage == link.parent; });
}

}  // namespace

Result<void> resolve_link(const WorkflowSpec& spec, ItemLink& link) {
  const Stage& child = spec.stages[link.child];
  const Stage& parent = spec.stages[link.parent];
  const ItemNeed& need = need_of(spec, link);
  const bool written = !child.fan_out && !parent.fan_out;  // Both matrices are in the file.
  link = {.parent = link.parent, .child = link.child, .resolved = true, .single = true};
  std::map<std::string, std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < parent.items.size(); ++i) {
    ROTA_TRY_ASSIGN(std::string key, values_of(parent, parent.items[i], need.names));
    const auto [found, fresh] = numbers.emplace(std::move(key), static_cast<std::uint32_t>(link.groups.size()));
    if (fresh) link.groups.emplace_back();
    ItemLink::Group& group = link.groups[found->second];
    group.parents.push_back(i);
    ++group.unfinished;
    link.single = link.single && group.parents.size() == 1;
    link.parent_group.push_back(found->second);
  }
  for (std::uint32_t i = 0; i < child.items.size(); ++i) {
    ROTA_TRY_ASSIGN(std::string key, values_of(child, child.items[i], need.names));
    const auto found = numbers.find(key);
    if (found == numbers.end()) {
      if (written) {
        return Error{ErrorCode::kInvalidArgument, "stage '" + child.name + "': no task of stage '" + parent.name +
                                                      "' has the values of " + child.items[i].substr(0, 80)};
      }
      link.child_group.push_back(ItemLink::kNoGroup);
      continue;
    }
    link.groups[found->second].children.push_back(i);
    link.child_group.push_back(found->second);
  }
  return {};
}

Result<std::vector<ItemLink>> link_items(const WorkflowSpec& spec) {
  std::vector<ItemLink> links;
  for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
    for (const ItemNeed& need : spec.stages[s].each) {
      const Stage& child = spec.stages[s];
      const Stage& parent = spec.stages[need.stage];
      if (!child.has_items() || !parent.has_items()) {
        return Error{ErrorCode::kInvalidArgument, "stage '" + child.name + "' needs stage '" + parent.name +
                                                      "' by item, but one of them has no items"};
      }
      for (const Stage* stage : {&child, &parent}) {
        if (!stage->fan_out) continue;
        const std::vector<std::string> known = stage->fan_out->names();
        for (const std::string& name : need.names) {
          if (std::find(known.begin(), known.end(), name) != known.end()) continue;
          return Error{ErrorCode::kInvalidArgument,
                       "the items of stage '" + stage->name + "' have no '" + name + "', which `each` names"};
        }
      }
      ItemLink& link = links.emplace_back();
      link.parent = need.stage;
      link.child = s;
      if (child.items.empty() || parent.items.empty()) continue;  // Not known yet.
      ROTA_TRY(resolve_link(spec, link));
    }
  }
  return links;
}

const ItemLink* Workflow::link_of(std::uint32_t child, std::uint32_t parent) const {
  for (const ItemLink& link : links) {
    if (link.child == child && link.parent == parent) return &link;
  }
  return nullptr;
}

bool Workflow::waits_for_items(const Task& task) const {
  if (links.empty() || is_placeholder(task)) return false;
  const std::uint32_t number = stages[task.stage].number(static_cast<std::uint32_t>(&task - tasks.data()));
  for (const ItemLink& link : links) {
    if (link.child != task.stage) continue;
    if (!link.resolved) return true;
    const std::uint32_t group = link.child_group[number];
    if (group != ItemLink::kNoGroup && link.groups[group].unfinished > 0) return true;
  }
  return false;
}

const ItemLink* Workflow::unmatched(const Task& task) const {
  if (links.empty() || is_placeholder(task)) return nullptr;
  const std::uint32_t number = stages[task.stage].number(static_cast<std::uint32_t>(&task - tasks.data()));
  for (const ItemLink& link : links) {
    if (link.child == task.stage && link.resolved && link.child_group[number] == ItemLink::kNoGroup) return &link;
  }
  return nullptr;
}

bool Workflow::is_placeholder(const Task& task) const {
  const Stage& stage = spec.stages[task.stage];
  return stage.fan_out && stage.items.empty();
}

bool Workflow::items_known(std::uint32_t stage) const {
  const Stage& own = spec.stages[stage];
  return !own.fan_out || !own.items.empty() || tasks[stages[stage].first].state == TaskState::kSucceeded;
}

}  // namespace rota::fleet

// Reading `needs`: names of stages, or {stage, each} for dependencies by item. See workflow/stage_graph.h.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "model/json.h"
#include "workflow/stage_graph.h"

namespace rota::workflow {
namespace {

std::string in_quotes(std::string_view name) { return "'" + printable(name, 40) + "'"; }

class NeedsReader {
 public:
  NeedsReader(Reading& reading, const StageDraft& draft, const StagePlace& place, const StageNames& names)
      : reading_(reading), draft_(draft), place_(place), names_(names) {}

  Needs run() {
    if (draft_.needs == nullptr) {
      if (place_.in_order && !place_.first) out_.stages.push_back(place_.number - 1);
      return std::move(out_);
    }
    const Node& needs = *draft_.needs;
    if (needs.kind == Node::Kind::kList) {
      for (std::size_t i = 0; i < Document::size(needs); ++i) item(reading_.document.item(needs, i));
    } else if (needs.kind == Node::Kind::kMap || !reading_.document.is_null(needs)) {
      item(needs);
    } else {
      reading_.wrong(needs, "needs is " + reading_.found(needs) +
                                "; it must be a stage's name or a list of them, [] if it needs none");
    }
    std::sort(out_.stages.begin(), out_.stages.end());
    out_.stages.erase(std::unique(out_.stages.begin(), out_.stages.end()), out_.stages.end());
    std::sort(out_.each.begin(), out_.each.end(),
              [](const PlacedItemNeed& a, const PlacedItemNeed& b) { return a.need.stage < b.need.stage; });
    return std::move(out_);
  }

 private:
  void item(const Node& node) {
    if (node.kind == Node::Kind::kMap) return by_item(node);
    if (node.kind != Node::Kind::kScalar) {
      reading_.wrong(node, "an item of needs is " + reading_.found(node) +
                               "; it must be a stage's name, or a mapping with stage and each");
      return;
    }
    if (const std::optional<std::uint32_t> need = find(node, reading_.text(node))) add(node, *need, false);
  }

  void by_item(const Node& node) {
    const Fields fields(reading_, node, keys().need);
    std::string name;
    PlacedItemNeed each;
    each.at = node.at;
    const bool named = fields.text("stage", name);
    if (!named && reading_.document.find(node, "stage") == nullptr) {
      reading_.wrong(node, "an item of needs has no stage; write it like {stage: map, each: [sample]}");
    }
    const bool given = fields.texts("each", each.need.names);
    if (given && each.need.names.empty())
      reading_.wrong(*fields.find("each"), "each is empty; name values of the matrix");
    if (!named) return;
    const std::optional<std::uint32_t> need = find(*fields.find("stage"), name);
    if (!need) return;
    add(*fields.find("stage"), *need, given);
    if (!given || each.need.names.empty()) return;
    if (draft_.finally || draft_.when != model::When::kSuccess) {
      reading_.wrong(*fields.find("each"),
                     "each is for stages that wait for success, not for those with when or in finally");
      return;
    }
    each.need.stage = *need;
    out_.each.push_back(std::move(each));
  }

  std::optional<std::uint32_t> find(const Node& node, std::string_view name) {
    const std::optional<std::uint32_t> need = names_.find(name);
    if (!need) {
      reading_.wrong(node, "needs a stage " + in_quotes(name) + " that does not exist" + names_.suggest(name));
    } else if (*need == place_.number) {
      reading_.wrong(node, "the stage " + in_quotes(name) + " needs itself");
    } else if (place_.in_finally(*need) && !place_.in_finally(place_.number)) {
      reading_.wrong(node, "needs the stage " + in_quotes(name) + ", which is in finally and runs after all others");
    } else if (!place_.in_finally(*need) && place_.in_finally(place_.number)) {
      reading_.wrong(node, "needs the stage " + in_quotes(name) +
                               ", but a stage of finally starts when all stages outside of finally have ended; leave "
                               "it out");
    } else {
      return need;
    }
    return std::nullopt;
  }

  // A stage may be named twice, but not once with and once without `each`.
  void add(const Node& node, std::uint32_t need, bool by_item) {
    const auto is_it = [&](const PlacedItemNeed& each) { return each.need.stage == need; };
    const bool before = std::find(out_.stages.begin(), out_.stages.end(), need) != out_.stages.end();
    if (before && (by_item || std::any_of(out_.each.begin(), out_.each.end(), is_it))) {
      reading_.wrong(node, "the stage " + in_quotes(names_.all()[need]) + " is needed twice, with each and without it");
    }
    out_.stages.push_back(need);
  }

  Reading& reading_;
  const StageDraft& draft_;
  const StagePlace& place_;
  const StageNames& names_;
  Needs out_{};
};

// The values of the names in an item, as one text.
std::string values_of(const std::string& item, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(model::json_member(item, name)).append("\n");
  return text;
}

// Reports the first of the names that the stage's matrix does not have.
bool has_names(Problems& problems, const model::Stage& stage, const PlacedItemNeed& each) {
  const std::vector<std::string> known = stage.item_names();
  if (known.empty()) {
    problems.add(each.at, "each compares values of the matrix, but the stage " + in_quotes(stage.name) + " has none");
    return false;
  }
  for (const std::string& name : each.need.names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
    problems.add(each.at, "each has " + in_quotes(name) + ", which the matrix of the stage " + in_quotes(stage.name) +
                              " does not have (it has " + printable(list) + ")" + did_you_mean(name, known));
    return false;
  }
  return true;
}

}  // namespace

Needs read_needs(Reading& reading, const StageDraft& draft, const StagePlace& place, const StageNames& names) {
  return NeedsReader(reading, draft, place, names).run();
}

void check_item_needs(Problems& problems, const model::WorkflowSpec& spec, std::uint32_t stage,
                      const std::vector<PlacedItemNeed>& needs) {
  const model::Stage& own = spec.stages[stage];
  for (const PlacedItemNeed& each : needs) {
    const model::Stage& parent = spec.stages[each.need.stage];
    if (!has_names(problems, parent, each) || !has_names(problems, own, each)) continue;
    if (parent.fan_out || own.fan_out) continue;  // Their items are not known yet.
    std::set<std::string> there;
    for (const std::string& item : parent.items) there.insert(values_of(item, each.need.names));
    for (const std::string& item : own.items) {
      if (there.contains(values_of(item, each.need.names))) continue;
      problems.add(each.at, "no task of the stage " + in_quotes(parent.name) + " has the values of " +
                                printable(item, 80) + " for each; the task would wait for nothing");
      break;
    }
  }
}

}  // namespace rota::workflow

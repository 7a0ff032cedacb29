// Finds tasks by name, and writes explanations as JSON.
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "base/nearest.h"
#include "fleet/explain.h"
#include "fleet/explain_words.h"

namespace rota::fleet {

namespace {

// "train[2]" is "train" and 2; a name without a number has none.
struct StageName {
  std::string_view stage;
  std::optional<std::uint32_t> index;
};
StageName split_index(std::string_view name) {
  const std::size_t open = name.rfind('[');
  if (open == std::string_view::npos || !name.ends_with(']')) return {name, std::nullopt};
  std::uint32_t index = 0;
  const char* end = name.data() + name.size() - 1;
  const auto [stopped, error] = std::from_chars(name.data() + open + 1, end, index);
  if (error != std::errc() || stopped != end || stopped == name.data() + open + 1) return {name, std::nullopt};
  return {name.substr(0, open), index};
}

}  // namespace

std::string_view to_string(ExplainReason reason) {
  switch (reason) {
    case ExplainReason::kNeeds:
      return "needs";
    case ExplainReason::kPaused:
      return "paused";
    case ExplainReason::kBackoff:
      return "backoff";
    case ExplainReason::kParallel:
      return "parallel";
    case ExplainReason::kFleetResource:
      return "fleet_resource";
    case ExplainReason::kQuota:
      return "quota";
    case ExplainReason::kUnplaceable:
      return "unplaceable";
    case ExplainReason::kGangIncomplete:
      return "gang_incomplete";
    case ExplainReason::kGangRoom:
      return "gang_room";
    case ExplainReason::kStickyWorker:
      return "sticky_worker";
    case ExplainReason::kPinnedWorker:
      return "pinned_worker";
    case ExplainReason::kWorkflowWorker:
      return "workflow_worker";
    case ExplainReason::kTypeWorker:
      return "type_worker";
    case ExplainReason::kNoRoom:
      return "no_room";
    case ExplainReason::kTurn:
      return "turn";
    case ExplainReason::kQueuedAtWorker:
      return "queued_at_worker";
    case ExplainReason::kRunning:
      return "running";
    case ExplainReason::kStopping:
      return "stopping";
    case ExplainReason::kSucceeded:
      return "succeeded";
    case ExplainReason::kSkipped:
      return "skipped";
    case ExplainReason::kFailed:
      return "failed";
    case ExplainReason::kCancelled:
      return "cancelled";
  }
  return "?";
}

const std::string* Explanation::fact(std::string_view key) const {
  for (const Fact& each : facts) {
    if (each.key == key) return &each.value;
  }
  return nullptr;
}

Result<TaskId> find_task(const State& state, std::string_view name) {
  if (const std::optional<TaskId> id = TaskId::parse(name)) {
    if (state.find(*id) != nullptr) return *id;
    return Error{ErrorCode::kNotFound, "there is no task " + id->to_string()};
  }
  // The name of a workflow may contain a slash; that of a stage does not.
  const std::size_t slash = name.rfind('/');
  const std::string_view of = slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
  const std::string_view task = slash == std::string_view::npos ? name : name.substr(slash + 1);
  const StageName wanted = split_index(task);
  std::vector<std::string> known;
  std::optional<Error> unfit;
  TaskId found;
  bool workflow_found = false;
  state.each_workflow([&](const Workflow& workflow) {
    if (slash != std::string_view::npos && workflow.spec.name != of && workflow.id.to_string() != of) return;
    workflow_found = true;
    for (std::size_t s = 0; s < workflow.spec.stages.size(); ++s) {
      const std::string& stage = workflow.spec.stages[s].name;
      if (stage != wanted.stage && stage != task) {
        if (known.size() < 1000) known.push_back(stage);
        continue;
      }
      const StageState& range = workflow.stages[s];
      const bool whole = stage == task;
      const std::uint32_t index = whole ? 0 : wanted.index.value_or(0);
      if (index < range.count && (range.count == 1 || !whole)) {
        found = TaskId(workflow.id, range.task(index));
        continue;
      }
      unfit = Error{ErrorCode::kInvalidArgument, "stage '" + printable(stage) + "' of " + workflow.id.to_string() +
                                                     " has " + counted(range.count, "task") + "; name one of " +
                                                     printable(stage) + "[0] to " + printable(stage) + "[" +
                                                     std::to_string(range.count - 1) + "]"};
    }
  });
  if (!found.is_none()) return found;
  if (unfit) return std::move(*unfit);
  if (slash != std::string_view::npos && !workflow_found) {
    return Error{ErrorCode::kNotFound, "there is no workflow '" + printable(of) + "'"};
  }
  std::string message = "there is no task '" + printable(name) + "'";
  if (const std::string_view near = nearest(wanted.stage, known); !near.empty()) {
    message += "; did you mean '" + printable(near) + "'?";
  } else {
    message += "; name it like wf-1.3, train[2] or nightly/train";
  }
  return Error{ErrorCode::kNotFound, std::move(message)};
}

std::string to_json(const Explanation& explanation) {
  std::string out = "{\"task\":";
  const auto text = [&](std::string_view key, std::string_view value) {
    out.append(",\"").append(key).append("\":");
    append_json_string(out, value);
  };
  append_json_string(out, explanation.task.to_string());
  text("name", explanation.name);
  text("workflow", explanation.workflow);
  text("state", graph::to_string(explanation.state));
  text("reason", to_string(explanation.reason));
  out += ",\"at_ns\":" + std::to_string(explanation.at_ns);
  text("sentence", explanation.sentence);
  out += ",\"facts\":{";
  const auto value_of = [&](const Fact& fact) {
    if (fact.text) {
      append_json_string(out, fact.value);
    } else {
      out += fact.value;
    }
  };
  const std::vector<Fact>& facts = explanation.facts;
  bool first = true;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const auto same = [&](const Fact& other) { return other.key == facts[i].key; };
    const auto begin = facts.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::any_of(facts.begin(), begin, same)) continue;  // The array of the first one contains it.
    if (!first) out += ',';
    first = false;
    append_json_string(out, facts[i].key);
    out += ':';
    if (std::none_of(begin + 1, facts.end(), same)) {
      value_of(facts[i]);
      continue;
    }
    char before = '[';
    for (auto each = begin; each != facts.end(); ++each) {
      if (!same(*each)) continue;
      out += before;
      value_of(*each);
      before = ',';
    }
    out += ']';
  }
  return out + "}}";
}

}  // namespace rota::fleet

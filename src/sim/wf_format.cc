#include "sim/wf_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "model/json.h"

namespace rota::sim {

namespace {

using model::json_kind;
using model::json_member;
using model::JsonKind;

constexpr std::size_t kTasksMost = 1'000'000;
constexpr double kSecondsMost = 1e9;

std::string_view object_in(std::string_view object, std::string_view name) {
  const std::string_view member = json_member(object, name);
  return member.data() != nullptr && json_kind(member) == JsonKind::kObject ? member : std::string_view();
}

std::vector<std::string_view> array_in(std::string_view object, std::string_view name) {
  const std::string_view member = json_member(object, name);
  if (member.data() == nullptr || json_kind(member) != JsonKind::kArray) return {};
  return model::json_elements(member);
}

std::string text_in(std::string_view object, std::string_view name) {
  const std::string_view member = json_member(object, name);
  if (member.data() == nullptr || json_kind(member) != JsonKind::kString) return {};
  return model::json_unescape(member);
}

// A number, or `otherwise` if there is none.
Result<double> number_in(std::string_view object, std::string_view name, double otherwise, const std::string& task) {
  const std::string_view member = json_member(object, name);
  if (member.data() == nullptr || json_kind(member) == JsonKind::kNull) return otherwise;
  double value = 0;
  const auto [end, status] = std::from_chars(member.data(), member.data() + member.size(), value);
  if (status != std::errc() || end != member.data() + member.size() || !std::isfinite(value) || value < 0) {
    return Error{ErrorCode::kInvalidArgument, "task '" + printable(task, 60) + "': " + std::string(name) +
                                                  " should be a number that is not negative, not " +
                                                  printable(member, 40)};
  }
  return value;
}

struct Measured {
  double seconds = 0;
  double cores = 1;
  double memory_bytes = 0;
  std::string program{};
};

Result<std::map<std::string, Measured>> measured_tasks(std::string_view execution) {
  std::map<std::string, Measured> all;
  for (const std::string_view task : array_in(execution, "tasks")) {
    const std::string id = text_in(task, "id");
    Measured measured;
    ROTA_TRY_ASSIGN(measured.seconds, number_in(task, "runtimeInSeconds", 0, id));
    ROTA_TRY_ASSIGN(measured.cores, number_in(task, "coreCount", 1, id));
    ROTA_TRY_ASSIGN(measured.memory_bytes, number_in(task, "memoryInBytes", 0, id));
    if (measured.seconds > kSecondsMost) {
      return Error{ErrorCode::kInvalidArgument, "task '" + printable(id, 60) + "': runtimeInSeconds is above 1e9"};
    }
    if (const std::string_view command = object_in(task, "command"); command.data() != nullptr) {
      measured.program = text_in(command, "program");
    }
    all[id] = std::move(measured);
  }
  return all;
}

}  // namespace

bool is_wf_format(std::string_view text) {
  if (!model::json_validate(text).ok() || json_kind(text) != JsonKind::kObject) return false;
  return json_member(text, "schemaVersion").data() != nullptr && object_in(text, "workflow").data() != nullptr;
}

Result<Trace> read_wf_format(std::string_view text) {
  ROTA_TRY(model::json_validate(text));
  const std::string_view workflow =
      json_kind(text) == JsonKind::kObject ? object_in(text, "workflow") : std::string_view();
  const std::string_view specification = workflow.data() == nullptr ? workflow : object_in(workflow, "specification");
  if (specification.data() == nullptr) {
    return Error{ErrorCode::kUnsupported,
                 "this is not WfFormat 1.5: there is no workflow.specification; older files can be converted with the "
                 "tools of WfCommons"};
  }
  const std::string_view execution = object_in(workflow, "execution");
  std::map<std::string, Measured> measured;
  Trace trace;
  if (execution.data() != nullptr) {
    ROTA_TRY_ASSIGN(measured, measured_tasks(execution));
    ROTA_TRY_ASSIGN(const double makespan, number_in(execution, "makespanInSeconds", 0, "the execution"));
    trace.makespan_ns = static_cast<std::int64_t>(std::min(makespan, kSecondsMost) * 1e9);
  }
  const std::vector<std::string_view> tasks = array_in(specification, "tasks");
  if (tasks.empty()) return Error{ErrorCode::kInvalidArgument, "the trace has no tasks"};
  if (tasks.size() > kTasksMost) {
    return Error{ErrorCode::kTooLarge, "the trace has " + std::to_string(tasks.size()) + " tasks; at most " +
                                           std::to_string(kTasksMost) + " are allowed"};
  }
  std::map<std::string, std::uint32_t> number;
  for (const std::string_view task : tasks) {
    const std::string id = text_in(task, "id");
    if (id.empty()) return Error{ErrorCode::kInvalidArgument, "a task of the trace has no id"};
    if (!number.emplace(id, static_cast<std::uint32_t>(number.size())).second) {
      return Error{ErrorCode::kInvalidArgument, "the trace has two tasks with the id '" + printable(id, 60) + "'"};
    }
  }
  trace.workflow.name = text_in(text, "name");
  trace.durations.otherwise_ns = 1'000'000'000;
  std::map<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>, std::int64_t> templates;
  for (const std::string_view task : tasks) {
    const std::string id = text_in(task, "id");
    const Measured& facts = measured[id];
    model::Stage& stage = trace.workflow.stages.emplace_back();
    stage.name = id;
    for (const std::string_view parent : array_in(task, "parents")) {
      const std::string name = json_kind(parent) == JsonKind::kString ? model::json_unescape(parent) : std::string();
      const auto found = number.find(name);
      if (found == number.end()) {
        return Error{ErrorCode::kInvalidArgument, "task '" + printable(id, 60) + "' has the parent '" +
                                                      printable(name, 60) + "', which is not a task"};
      }
      stage.needs.push_back(found->second);
    }
    const auto cpu = static_cast<std::int64_t>(std::clamp(facts.cores, 1.0, 1e6) * 1000);
    const auto memory = static_cast<std::int64_t>(std::min(facts.memory_bytes, 1e15));
    const std::string type = facts.program.empty() ? "task" : facts.program;
    const auto [use, is_new] =
        templates.try_emplace({type, {cpu, memory}}, static_cast<std::int64_t>(trace.workflow.templates.size()));
    if (is_new) {
      model::TaskTemplate& made = trace.workflow.templates.emplace_back();
      made.spec.type = type;
      made.spec.program.emplace().shell = "simulated";
      made.needs.cpu_millis = cpu;
      made.needs.memory_bytes = memory;
    }
    stage.use = use->second;
    trace.durations.samples_ns[id] = {std::max<std::int64_t>(static_cast<std::int64_t>(facts.seconds * 1e9), 1)};
  }
  return trace;
}

}  // namespace rota::sim

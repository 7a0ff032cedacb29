#include "model/workflow_spec.h"

#include <algorithm>

#include "model/json.h"

namespace rota::model {

namespace {

template <class T, class Wanted>
bool has(const std::vector<T>& list, const Wanted& wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

bool has_handler(const WorkerSpec& worker, std::string_view handler) {
  return handler.empty() ? worker.programs : has(worker.handlers, handler);
}

}  // namespace

bool meets(const WorkerSpec& worker, const Requirements& needs, std::string_view handler) {
  return worker.resources.can_run(needs) && has_handler(worker, handler) &&
         (needs.zone.empty() || worker.zone == needs.zone) &&
         std::all_of(needs.capabilities.begin(), needs.capabilities.end(),
                     [&](const std::string& want) { return has(worker.capabilities, want); }) &&
         std::all_of(needs.labels.begin(), needs.labels.end(),
                     [&](const Label& want) { return has(worker.labels, want); });
}

std::vector<std::string> FanOut::names() const {
  std::vector<std::string> names;
  for (const MatrixList& list : lists) names.push_back(list.name);
  for (const std::string& entry : include) {
    for (const auto& member : json_members(entry)) {
      if (std::find(names.begin(), names.end(), member.first) == names.end()) names.push_back(member.first);
    }
  }
  return names;
}

std::vector<std::string> Stage::item_names() const {
  if (fan_out) return fan_out->names();
  std::vector<std::string> names;
  if (items.empty()) return names;
  for (const auto& member : json_members(items.front())) names.push_back(member.first);
  return names;
}

std::vector<std::vector<std::uint32_t>> drawn_needs(const WorkflowSpec& spec) {
  std::vector<std::vector<std::uint32_t>> needs;
  std::vector<bool> needed(spec.stages.size());
  for (const Stage& stage : spec.stages) {
    needs.push_back(stage.needs);
    for (const std::uint32_t need : stage.needs) needed[need] = true;
  }
  std::vector<std::uint32_t> ends;
  for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
    if (!spec.stages[s].finally && !needed[s]) ends.push_back(s);
  }
  for (std::uint32_t s = 0; s < spec.stages.size(); ++s) {
    if (spec.stages[s].finally && needs[s].empty()) needs[s] = ends;
  }
  return needs;
}

std::vector<std::string> unmet_requirements(const WorkerSpec& worker, const Requirements& needs,
                                            std::string_view handler) {
  std::vector<std::string> all;
  if (!has_handler(worker, handler)) {
    all.push_back(handler.empty() ? "programs: a worker that runs programs needed"
                                  : "handler: '" + std::string(handler) + "' needed");
  }
  for (std::string& text : worker.resources.unmet(needs)) all.push_back(std::move(text));
  if (!needs.zone.empty() && worker.zone != needs.zone) {
    all.push_back("zone: '" + needs.zone + "' needed, '" + worker.zone + "' available");
  }
  for (const std::string& want : needs.capabilities) {
    if (!has(worker.capabilities, want)) all.push_back("capability: '" + want + "' needed");
  }
  for (const Label& want : needs.labels) {
    if (!has(worker.labels, want)) all.push_back("label: " + want.key + "=" + want.value + " needed");
  }
  return all;
}

}  // namespace rota::model

#include "model/workflow_spec.h"

#include <algorithm>

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

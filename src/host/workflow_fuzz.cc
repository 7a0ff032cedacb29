// libFuzzer: no file may crash the readers, and what they accept is what they promise the brain.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fleet/state.h"
#include "model/json.h"
#include "model/reference.h"
#include "rota/assert.h"
#include "workflow/fleet_file.h"
#include "workflow/workflow.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rota;  // NOLINT
  const workflow::Source source{"f.yaml", std::string(reinterpret_cast<const char*>(data), size), "/d"};
  const workflow::WorkflowFile file = workflow::read_workflow(source);
  for (const workflow::Problem& problem : file.problems) ROTA_ASSERT(!problem.message.empty());
  if (file.ok()) {
    const auto count = static_cast<std::int64_t>(file.spec.templates.size());
    ROTA_ASSERT(file.stages.size() == file.spec.stages.size() && !file.spec.stages.empty());
    const auto plan = fleet::plan_workflow(file.spec);
    ROTA_ASSERT(plan.ok(), "the brain refused what was accepted", plan.error().message);
    for (const model::TaskTemplate& use : file.spec.templates) {
      ROTA_ASSERT(*model::json_minify(use.spec.inputs) == use.spec.inputs, "not canonical", use.spec.inputs);
      const auto uses = model::find_references(use.spec);
      ROTA_ASSERT(uses.ok(), "a wrong reference was accepted", use.spec.inputs);
      for (const auto& each : *uses) {
        bool found = model::is_reserved_root(each.reference.root);
        for (const model::Stage& stage : file.spec.stages) found = found || stage.name == each.reference.root;
        ROTA_ASSERT(found, "an unknown stage was accepted", each.reference.text);
      }
      ROTA_ASSERT(use.condition.empty() || model::check_condition(use.condition).ok());
    }
    for (std::size_t i = 0; i < file.spec.stages.size(); ++i) {
      const model::Stage& stage = file.spec.stages[i];
      ROTA_ASSERT(stage.use >= 0 && stage.use < count);
      for (const std::uint32_t need : stage.needs) ROTA_ASSERT(need != i && need < file.spec.stages.size());
      for (const std::string& item : stage.items) ROTA_ASSERT(*model::json_minify(item) == item, "not canonical", item);
    }
  }
  const workflow::FleetFile fleet = workflow::read_fleet(source);
  ROTA_ASSERT(!fleet.ok() || !fleet.workers.empty());
  return 0;
}

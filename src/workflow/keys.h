// Every key that a file may have, by place. The readers reject all others; a test compares the schemas
// (schema/*.json) and docs/workflows.md with these lists.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rota::workflow {

struct KeySet {
  std::string_view what;           // "a stage": as in "unknown key 'x' in a stage".
  std::string_view schema;         // Its definition in the schema, or "" for the file itself.
  std::vector<std::string> names;  // In the order in which people should read them.
};

struct Keys {
  // workflow.schema.json
  KeySet workflow, metadata, spec, stage, graph_stage, resources, hardware, gpu, retry, limits, context, cache, fetch,
      param, need, secret;
  // fleet.schema.json
  KeySet fleet, worker;
};

[[nodiscard]] const Keys& keys();
[[nodiscard]] std::vector<const KeySet*> workflow_key_sets();
[[nodiscard]] std::vector<const KeySet*> fleet_key_sets();
[[nodiscard]] std::vector<const KeySet*> all_key_sets();

}  // namespace rota::workflow

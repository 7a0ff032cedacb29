// Every key that a file may have. See workflow/keys.h.
#include "workflow/keys.h"

#include "rota/model/resources.h"

namespace rota::workflow {
namespace {

const std::vector<std::string> kStage = {"use",       "type",       "run",      "handler",      "inputs",   "env",
                                         "env_file",  "secrets",    "dir",      "parallel",     "needs",    "when",
                                         "condition", "matrix",     "replicas", "max_attempts", "retry",    "timeout",
                                         "priority",  "resources",  "limits",   "context",      "category", "merge",
                                         "batch",     "checkpoint", "cache",    "outputs",      "fetch",    "expect"};

std::vector<std::string> named_stage() {
  std::vector<std::string> names = kStage;
  names.insert(names.begin(), "name");
  return names;
}

// The kinds of resources with a key of their own, between `before` and `after`.
std::vector<std::string> with_amounts(std::vector<std::string> before, const std::vector<std::string>& after) {
  for (const model::AmountKind& kind : model::kAmountKinds) before.emplace_back(kind.name);
  before.insert(before.end(), after.begin(), after.end());
  return before;
}

Keys make_keys() {
  return {
      .workflow = {"a workflow", "", {"apiVersion", "kind", "metadata", "spec"}},
      .metadata = {"metadata", "metadata", {"name"}},
      .spec = {"spec",
               "spec",
               {"stages", "graph", "finally", "params", "templates", "include", "priority", "resources", "env",
                "env_file", "secrets", "dir", "max_attempts", "retry", "timeout", "deadline", "fail_fast"}},
      .stage = {"a stage", "stage", named_stage()},
      .graph_stage = {"a stage of a graph", "graphStage", kStage},
      .resources = {"resources", "resources", {"hardware", "named", "zone", "capabilities", "labels", "worker"}},
      .hardware = {"hardware", "hardware", with_amounts({}, {"gpu"})},
      .gpu = {"gpu", "gpu", {"count", "type", "memory"}},
      .retry = {"retry", "retry", {"backoff", "factor", "max_backoff", "memory_factor"}},
      .limits = {"limits", "limits", {"memory", "cpu_time", "open_files", "processes"}},
      .context = {"context", "context", {"models", "datasets"}},
      .cache = {"cache", "cacheFiles", {"files", "outputs"}},
      .fetch = {"an item of fetch", "fetch", {"stage", "to"}},
      .param = {"a parameter", "param", {"type", "default", "choices", "description"}},
      .need = {"an item of needs", "need", {"stage", "each"}},
      .secret = {"a secret", "secret", {"secret", "version"}},
      .fleet = {"a fleet", "", {"apiVersion", "kind", "workers", "named"}},
      .worker = {"a worker", "worker",
                 with_amounts({"name", "count"}, {"gpu", "named", "zone", "cost_per_hour", "power_watts", "labels",
                                                  "capabilities", "endpoint"})},
  };
}

}  // namespace

const Keys& keys() {
  static const Keys all = make_keys();
  return all;
}

std::vector<const KeySet*> workflow_key_sets() {
  const Keys& k = keys();
  return {&k.workflow, &k.metadata, &k.spec,    &k.stage, &k.graph_stage, &k.resources, &k.hardware, &k.gpu,
          &k.retry,    &k.limits,   &k.context, &k.cache, &k.fetch,       &k.param,     &k.need,     &k.secret};
}

std::vector<const KeySet*> fleet_key_sets() { return {&keys().fleet, &keys().worker, &keys().gpu}; }

std::vector<const KeySet*> all_key_sets() {
  std::vector<const KeySet*> all = workflow_key_sets();
  for (const KeySet* set : fleet_key_sets()) all.push_back(set);
  return all;
}

}  // namespace rota::workflow

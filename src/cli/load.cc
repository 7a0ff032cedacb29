#include "cli/load.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/hash.h"
#include "workflow/workflow.h"

namespace rota::cli {

Result<Loaded> load_workflow(const std::string& path) {
  ROTA_TRY_ASSIGN(workflow::Source source, workflow::read_source(path));
  workflow::WorkflowFile file = workflow::read_workflow(source);
  if (!file.ok()) return workflow::to_error(source.path, file.problems);
  Loaded loaded;
  loaded.spec = std::move(file.spec);
  loaded.content = hash128(source.text).to_string();
  std::error_code error;
  loaded.path = std::filesystem::canonical(path, error).string();
  if (error) return Error{ErrorCode::kNotFound, path + ": " + error.message()};
  return loaded;
}

std::size_t count_tasks(const model::WorkflowSpec& spec) {
  std::size_t count = 0;
  for (const model::Stage& stage : spec.stages) count += std::max<std::size_t>(stage.items.size(), 1);
  return count;
}

std::vector<std::string> task_names(const model::WorkflowSpec& spec) {
  std::vector<std::string> names;
  for (const model::Stage& stage : spec.stages) {
    if (stage.items.size() < 2) names.push_back(stage.name);
    for (std::size_t i = 0; stage.items.size() > 1 && i < stage.items.size(); ++i) {
      names.push_back(stage.name + "[" + std::to_string(i) + "]");
    }
  }
  return names;
}

}  // namespace rota::cli

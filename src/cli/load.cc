#include "cli/load.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/json_text.h"
#include "model/codec.h"
#include "worker/task_check.h"
#include "workflow/workflow.h"

namespace rota::cli {

namespace {

constexpr std::size_t kMostInput = std::size_t{16} << 20;

Result<workflow::Source> read_input(const std::string& path) {
  if (path != "-") return workflow::read_source(path);
  workflow::Source source;
  source.path = "stdin";
  source.reads_files = true;
  std::error_code error;
  source.directory = std::filesystem::current_path(error).string();
  std::array<char, 1 << 16> block{};
  while (source.text.size() <= kMostInput) {
    const std::size_t size = std::fread(block.data(), 1, block.size(), stdin);
    if (size == 0) break;
    source.text.append(block.data(), size);
  }
  if (std::ferror(stdin) != 0) return Error{ErrorCode::kIoError, "the standard input cannot be read"};
  if (source.text.size() > kMostInput) return Error{ErrorCode::kTooLarge, "the workflow has more than 16 MiB"};
  return source;
}

Result<std::vector<workflow::GivenParam>> given_params(const ParamOptions& options) {
  std::vector<workflow::GivenParam> given;
  if (!options.file.empty()) {
    ROTA_TRY_ASSIGN(const workflow::Source source, workflow::read_source(options.file));
    ROTA_TRY_ASSIGN(given, workflow::read_params(source.path, source.text));
  }
  for (const std::string& word : options.set) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Error{ErrorCode::kInvalidArgument, "--set '" + printable(word) + "': write NAME=VALUE"};
    }
    if (!worker::is_utf8(word)) {
      return Error{ErrorCode::kInvalidArgument,
                   "--set '" + printable(word) + "': the value is not UTF-8 text, and would reach the tasks changed"};
    }
    given.push_back({word.substr(0, equals), word.substr(equals + 1), "--set " + printable(word, 100)});
  }
  return given;
}

}  // namespace

std::vector<Option> param_options(ParamOptions* to) {
  return {
      texts("--set", "NAME=VALUE", &to->set, "the value of a parameter of the workflow; may be given several times"),
      text("--params", "FILE", &to->file, "a YAML or JSON file with values of parameters; --set overrides it")};
}

Result<Loaded> load_workflow(const std::string& path, const ParamOptions& params) {
  ROTA_TRY_ASSIGN(workflow::Source source, read_input(path));
  ROTA_TRY_ASSIGN(source.params, given_params(params));
  workflow::WorkflowFile file = workflow::read_workflow(source);
  if (!file.ok()) return workflow::to_error(source.path, file.problems);
  Loaded loaded;
  loaded.spec = std::move(file.spec);
  loaded.content = model::hash_fields(loaded.spec).to_string();
  // Where the file is named, which is where its programs run, not where a link to it leads.
  loaded.path = (std::filesystem::path(source.directory) / std::filesystem::path(source.path).filename()).string();
  return loaded;
}

std::size_t count_tasks(const model::WorkflowSpec& spec) {
  std::size_t count = 0;
  for (const model::Stage& stage : spec.stages) count += tasks_of(stage);
  return count;
}

std::size_t tasks_of(const model::Stage& stage) {
  return stage.fan_out ? 1 : std::max<std::size_t>(stage.items.size(), 1);
}

std::vector<std::string> task_names(const model::WorkflowSpec& spec) {
  std::vector<std::string> names;
  for (const model::Stage& stage : spec.stages) {
    const std::size_t tasks = tasks_of(stage);
    if (tasks < 2) names.push_back(stage.name);
    for (std::size_t i = 0; tasks > 1 && i < tasks; ++i) {
      names.push_back(stage.name + "[" + std::to_string(i) + "]");
    }
  }
  return names;
}

}  // namespace rota::cli

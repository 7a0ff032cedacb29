// `rota graph FILE`: the stages of a workflow and their dependencies.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/load.h"
#include "cli/output.h"
#include "cli/subcommands.h"

namespace rota::cli {

Subcommand graph_subcommand() {
  struct Options {
    std::string file;
    ParamOptions params;
    GraphFormat format = GraphFormat::kText;
  };
  const std::vector<std::pair<std::string, GraphFormat>> formats{{"text", GraphFormat::kText},
                                                                 {"mermaid", GraphFormat::kMermaid},
                                                                 {"dot", GraphFormat::kDot},
                                                                 {"json", GraphFormat::kJson}};
  auto options = std::make_shared<Options>();
  Subcommand graph{
      .name = "graph",
      .meaning = "Print the stages of a workflow and their dependencies",
      .positionals = {workflow_file(&options->file)},
      .options = {choice("--format", formats, &options->format, "the format of the graph")},
      .json = "the same as --format json",
      .examples = {"rota graph nightly.yaml", "rota graph nightly.yaml --format dot | dot -Tsvg > nightly.svg"},
      .run = [options](Output& output) -> Result<int> {
        ROTA_TRY_ASSIGN(const Loaded loaded, load_workflow(options->file, options->params));
        output.graph(loaded.spec, options->format);
        return 0;
      }};
  const std::vector<Option> params = param_options(&options->params);
  graph.options.insert(graph.options.end(), params.begin(), params.end());
  return graph;
}

}  // namespace rota::cli

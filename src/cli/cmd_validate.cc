#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/load.h"

namespace rota::cli {

void add_validate(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("validate", "Check a workflow file and run nothing");
  auto file = std::make_shared<std::string>();
  verb->add_option("FILE", *file, "the workflow, YAML or JSON")->required();
  verb->callback([&exit, file] {
    Result<Loaded> loaded = load_workflow(*file);
    if (!loaded.ok()) {
      exit.status = report(loaded.error());
      return;
    }
    std::printf("%s: '%s' is fine: %zu stages, %zu tasks\n", file->c_str(), loaded->spec.name.c_str(),
                loaded->spec.stages.size(), count_tasks(loaded->spec));
    exit.status = 0;
  });
}

}  // namespace rota::cli

// `rota validate FILE`: checks a workflow file.
#include <memory>
#include <string>

#include "cli/load.h"
#include "cli/output.h"
#include "cli/subcommands.h"

namespace rota::cli {

Subcommand validate_subcommand() {
  auto file = std::make_shared<std::string>();
  return {.name = "validate",
          .meaning = "Check a workflow file without running it",
          .positionals = {workflow_file(file.get())},
          .json = "print one JSON object",
          .footer = "All problems of the file are listed, each with its line and column.",
          .examples = {"rota validate nightly.yaml"},
          .run = [file](Output& output) -> Result<int> {
            const Result<Loaded> loaded = load_workflow(*file);
            output.validation(*file, loaded);
            return loaded.ok() ? 0 : exit_status(loaded.code());
          }};
}

}  // namespace rota::cli

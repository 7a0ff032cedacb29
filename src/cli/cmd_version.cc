// `rota version`
#include "cli/output.h"
#include "cli/subcommands.h"
#include "rota/version.h"

namespace rota::cli {

Subcommand version_subcommand() {
  return {.name = "version",
          .meaning = "Print the version of Rota",
          .json = "print one JSON object",
          .examples = {"rota version"},
          .run = [](Output& output) -> Result<int> {
            output.version(library_version_text());
            return 0;
          }};
}

}  // namespace rota::cli

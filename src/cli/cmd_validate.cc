// `rota validate FILE`: checks a workflow file.
#include <memory>
#include <string>
#include <vector>

#include "cli/load.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "fleet/feasibility.h"
#include "workflow/fleet_file.h"

namespace rota::cli {

Subcommand validate_subcommand() {
  auto file = std::make_shared<std::string>();
  auto workers = std::make_shared<std::string>();
  auto params = std::make_shared<ParamOptions>();
  Subcommand validate{.name = "validate",
                      .meaning = "Check a workflow file without running it",
                      .positionals = {workflow_file(file.get())},
                      .options = {text("--workers", "FILE", workers.get(),
                                       "a fleet file: also report the stages that none of its workers could ever run")},
                      .json = "print one JSON object",
                      .footer = "All problems of the file are listed, each with its line and column.",
                      .examples = {"rota validate nightly.yaml", "rota validate nightly.yaml --workers fleet.yaml"},
                      .run = [file, workers, params](Output& output) -> Result<int> {
                        const Result<Loaded> loaded = load_workflow(*file, *params);
                        output.validation(*file, loaded);
                        if (loaded.ok() && !workers->empty()) {
                          ROTA_TRY_ASSIGN(const workflow::Source source, workflow::read_source(*workers));
                          const workflow::FleetFile fleet = workflow::read_fleet(source);
                          if (!fleet.ok()) return workflow::to_error(source.path, fleet.problems);
                          fleet::Policy policy;
                          policy.fleet = fleet.named;
                          ROTA_TRY_ASSIGN(const std::vector<std::string> warnings,
                                          fleet::infeasible_on(loaded->spec, fleet.workers, policy));
                          for (const std::string& warning : warnings)
                            output.note("warning: no worker can run " + warning);
                        }
                        return loaded.ok() ? 0 : exit_status(loaded.code());
                      }};
  const std::vector<Option> options = param_options(params.get());
  validate.options.insert(validate.options.begin(), options.begin(), options.end());
  return validate;
}

}  // namespace rota::cli

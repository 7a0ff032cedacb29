// `rota simulate FILE --fleet FLEET`: what a fleet would do with a workflow.
#include <memory>
#include <string>

#include "cli/output.h"
#include "cli/simulate.h"
#include "cli/subcommands.h"

namespace rota::cli {

Subcommand simulate_subcommand() {
  auto options = std::make_shared<SimulateOptions>();
  return {
      .name = "simulate",
      .meaning = "Predict makespan, cost and utilisation of a workflow on a fleet, for each dispatch mode",
      .positionals = {workflow_file(&options->file)},
      .options =
          {texts("--fleet", "FILE", &options->fleets,
                 "the file that describes the fleet; given again as +2xNAME, also with two more workers like NAME"),
           texts("--policy", "POLICY", &options->policies,
                 "compare these policies instead of the dispatch modes: mode=adaptive,prefer_locality=true"),
           number("--runs", &options->runs, 1, 100'000, "how many runs with other durations; default: 20"),
           text("--from-log", "WHERE", &options->from_log, "take the durations of the stages from the log of a run"),
           texts("--duration", "TIME", &options->durations,
                 "how long a task takes: 90s, or STAGE=2h for one stage; default: 60s"),
           text("--spread", "PERCENT", &options->spread, "how much a duration varies, up and down; default: 20%"),
           text("--spot", "RATE", &options->spot,
                "each worker is taken away with this probability, 5%/h, and is replaced five minutes later"),
           texts("--fail", "W@TIME", &options->failures, "worker W is lost at this time: w2@30m"),
           number("--items", &options->items, 1, 100'000,
                  "how many tasks a stage has whose matrix is a result; default: 10"),
           number("--seed", &options->seed, 0, 1'000'000'000, "another one gives other draws; default: 1"),
           text("--trace", "FILE", &options->trace,
                "write the log of the first run; rota trace, rota status and rota explain read it")},
      .json = "print one JSON object",
      .footer =
          "FILE is a workflow file, or a trace in WfFormat 1.5 (WfCommons). The brain decides as in a host; workers "
          "are\n"
          "durations: a task takes as long on any worker, and messages take no time. Results are not known, so\n"
          "conditions count as true. Waits are given for a sample of the tasks, by the reason when they became ready.",
      .examples = {"rota simulate nightly.yaml --fleet fleet.yaml",
                   "rota simulate nightly.yaml --fleet fleet.yaml --from-log nightly.yaml --fleet +2xgpu",
                   "rota simulate montage.json --fleet fleet.yaml --spot 5%/h --runs 200 --json"},
      .run = [options](Output& output) -> Result<int> {
        ROTA_TRY_ASSIGN(const Simulated simulated, simulate(*options));
        output.simulated(simulated);
        return 0;
      }};
}

}  // namespace rota::cli

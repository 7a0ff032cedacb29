// `rota workers [WHERE]`: the workers of a host, from its log. `rota workers drain | enable | disable | elastic NAME`
// controls one.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/log_source.h"
#include "cli/named_control.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/subcommands.h"
#include "fleet/brain.h"
#include "fleet/state.h"

namespace rota::cli {

namespace {

Result<int> workers(const std::string& where, Output& output) {
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(where, &note));
  output.note(note);
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  ROTA_TRY_ASSIGN(const fleet::Brain brain, log->read_all());
  std::vector<WorkerLine> lines;
  const fleet::State& state = brain.state();
  state.each_worker([&](const fleet::Worker& worker) {
    WorkerLine line;
    line.name = worker.spec.name;
    line.status = std::string(to_string(worker.status(state.policy().max_queue_per_worker)));
    line.resources = model::to_text(worker.spec.resources);
    line.zone = worker.spec.zone;
    line.cost_microdollars_per_hour = worker.spec.cost_microdollars_per_hour;
    line.tasks = worker.executions.size() - worker.queued;
    line.queued = worker.queued;
    lines.push_back(std::move(line));
  });
  output.workers(lines);
  return 0;
}

std::optional<fleet::Command> command_of(const std::string& action, const std::string& name) {
  if (action == "drain") return fleet::DrainWorker{name};
  if (action == "enable") return fleet::SetWorkerEnabled{name, true, true};
  if (action == "disable") return fleet::SetWorkerEnabled{name, false, true};
  if (action == "elastic") return fleet::SetWorkerEnabled{name, true, false};
  return std::nullopt;
}

}  // namespace

Subcommand workers_subcommand() {
  auto options = std::make_shared<NamedOptions>();
  return {
      .name = "workers",
      .meaning = "List the workers of a host, or drain, enable or disable one",
      .positionals = {where(&options->first),
                      positional("NAME", &options->name,
                                 "the worker, after drain, enable, disable or elastic in place of WHERE")},
      .options = with_host(&options->host, {}),
      .json = "print one JSON object",
      .footer =
          "drain: the worker gets no more tasks, and leaves when it has none. disable: it gets no more tasks. \n"
          "enable: it gets tasks again, and the elastic coordinator leaves it alone. elastic: it is enabled, and left "
          "to the\nelastic coordinator from now on.",
      .examples = {"rota workers /var/lib/rota", "rota workers drain gpu-3 --host https://rota.example:7070"},
      .run = [options](Output& output) {
        return list_or_control({.word = "worker",
                                .actions = "drain, enable, disable and elastic",
                                .list = workers,
                                .command_of = command_of},
                               *options, output);
      }};
}

}  // namespace rota::cli

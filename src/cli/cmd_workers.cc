// `rota workers [WHERE]`: the workers of a host, from its log.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/log_source.h"
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
  ROTA_TRY_ASSIGN(fleet::Brain brain, log->begin());
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, log->next());
    if (record == nullptr) break;
    ROTA_TRY(brain.apply(*record));
  }
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

}  // namespace

Subcommand workers_subcommand() {
  auto place = std::make_shared<std::string>();
  return {.name = "workers",
          .meaning = "List the workers of a host: what they have, what they run, whether they are reachable",
          .positionals = {where(place.get())},
          .json = "print one JSON object",
          .examples = {"rota workers /var/lib/rota"},
          .run = [place](Output& output) { return workers(*place, output); }};
}

}  // namespace rota::cli

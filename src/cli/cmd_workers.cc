// `rota workers [WHERE]`: the workers of a host, from its log. `rota workers drain | enable | disable | elastic NAME`
// controls one.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "cli/control_client.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/remote_host.h"
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

struct WorkersOptions {
  std::string first;  // WHERE, "list", or what is done with the worker.
  std::string name;
  std::string host;
};

std::optional<fleet::Command> command_of(const std::string& action, const std::string& name) {
  if (action == "drain") return fleet::DrainWorker{name};
  if (action == "enable") return fleet::SetWorkerEnabled{name, true, true};
  if (action == "disable") return fleet::SetWorkerEnabled{name, false, true};
  if (action == "elastic") return fleet::SetWorkerEnabled{name, true, false};
  return std::nullopt;
}

Result<int> list_or_control(const WorkersOptions& options, Output& output) {
  const std::optional<fleet::Command> command = command_of(options.first, options.name);
  if (!command) {
    const bool listed = options.first == "list";
    if (!options.name.empty() && !listed) {
      return Error{ErrorCode::kInvalidArgument, "'" + printable(options.first) +
                                                    "' is not something to do with a worker; there are drain, enable, "
                                                    "disable and elastic"};
    }
    std::string where = listed ? options.name : options.first;
    return workers(where.empty() ? options.host : where, output);
  }
  if (options.name.empty()) {
    return Error{ErrorCode::kInvalidArgument, "which worker? `rota workers` lists them"};
  }
  ROTA_TRY_ASSIGN(const std::string target, host_target(options.host));
  ROTA_TRY_ASSIGN(const host::ControlAnswer answer, ask_host(target, host::Execute{*command}));
  output.controlled(options.first, options.name, answer.index);
  return 0;
}

}  // namespace

Subcommand workers_subcommand() {
  auto options = std::make_shared<WorkersOptions>();
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
      .run = [options](Output& output) { return list_or_control(*options, output); }};
}

}  // namespace rota::cli

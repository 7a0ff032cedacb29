// `rota schedules [WHERE]`: the schedules of a host, from its log. `rota schedules pause | resume | remove NAME`
// changes one (H-7).
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
#include "host/http_views.h"
#include "host/scheduler.h"
#include "rota/clock.h"

namespace rota::cli {

namespace {

constexpr std::size_t kShownFirings = 3;

ScheduleLine line_of(const fleet::State& state, const fleet::Schedule& schedule, std::int64_t now_ns) {
  ScheduleLine line;
  line.name = schedule.spec.name;
  line.cron = schedule.spec.cron;
  line.zone = schedule.spec.zone;
  line.missed = to_string(schedule.spec.missed);
  line.overlap = to_string(schedule.spec.overlap);
  line.user = schedule.spec.workflow.user;
  line.paused = schedule.paused;
  line.fired = schedule.fired;
  line.queued = schedule.queued.size();
  for (const model::WorkflowId id : schedule.runs) {
    const fleet::Workflow* workflow = state.find(id);
    if (workflow != nullptr && workflow->outcome == fleet::Outcome::kRunning) line.running.push_back(id.to_string());
  }
  for (const std::int64_t time :
       host::next_firings(line.cron, line.zone, now_ns, schedule.paused ? 0 : kShownFirings)) {
    line.next.push_back(host::to_rfc3339(time).substr(0, 19) + "Z");
  }
  return line;
}

Result<int> list(const std::string& where, Output& output) {
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(where, &note));
  output.note(note);
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  ROTA_TRY_ASSIGN(const fleet::Brain brain, log->read_all());
  const fleet::State& state = brain.state();
  std::vector<ScheduleLine> lines;
  const std::int64_t now_ns = system_clock().wall().time_since_epoch().count();
  for (const auto& [name, schedule] : state.globals().schedules) lines.push_back(line_of(state, schedule, now_ns));
  output.schedules(lines);
  return 0;
}

std::optional<fleet::Command> command_of(const std::string& action, const std::string& name) {
  if (action == "pause") return fleet::ChangeSchedule{name, fleet::ScheduleChange::kPause};
  if (action == "resume") return fleet::ChangeSchedule{name, fleet::ScheduleChange::kResume};
  if (action == "remove") return fleet::ChangeSchedule{name, fleet::ScheduleChange::kRemove};
  return std::nullopt;
}

}  // namespace

Subcommand schedules_subcommand() {
  auto options = std::make_shared<NamedOptions>();
  return {.name = "schedules",
          .meaning = "List the schedules of a host, or pause, resume or remove one",
          .positionals = {where(&options->first),
                          positional("NAME", &options->name,
                                     "the schedule, after pause, resume or remove in place of WHERE")},
          .options = with_host(&options->host, {}),
          .json = "print one JSON object",
          .footer =
              "`rota submit FILE --cron CRON` makes a schedule. Times that pass while it is paused are left out. "
              "Workflows that\na schedule has started continue when it is paused or removed.",
          .examples = {"rota schedules /var/lib/rota", "rota schedules pause nightly --host https://rota.example:7070"},
          .run = [options](Output& output) {
            return list_or_control(
                {.word = "schedule", .actions = "pause, resume and remove", .list = list, .command_of = command_of},
                *options, output);
          }};
}

}  // namespace rota::cli

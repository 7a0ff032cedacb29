// Handlers for schedules (H-7).
#include <algorithm>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "base/secret_file.h"
#include "host/http_reading.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "host/http_writing.h"
#include "host/scheduler.h"
#include "rota/fiber/blocking.h"

namespace rota::host {

namespace {

constexpr std::size_t kShownFirings = 3;

// Without the next times.
ScheduleView schedule_view(const fleet::State& state, const fleet::Schedule& schedule) {
  ScheduleView view;
  view.name = schedule.spec.name;
  view.cron = schedule.spec.cron;
  view.tz = schedule.spec.zone;
  view.missed = to_string(schedule.spec.missed);
  view.overlap = to_string(schedule.spec.overlap);
  view.user = schedule.spec.workflow.user;
  view.workflow = schedule.spec.workflow.name;
  view.paused = schedule.paused;
  view.fired = schedule.fired;
  view.queued = schedule.queued.size();
  for (const model::WorkflowId id : schedule.runs) {
    const fleet::Workflow* workflow = state.find(id);
    if (workflow != nullptr && workflow->outcome == fleet::Outcome::kRunning) view.running.push_back(id.to_string());
  }
  return view;
}

// Reads files: not while the state is locked.
void add_next(ScheduleView& view, std::int64_t now_ns) {
  if (view.paused) return;
  for (const std::int64_t time : next_firings(view.cron, view.tz, now_ns, kShownFirings)) view.next.push_back({time});
}

// NotFound; PermissionDenied for a schedule of somebody else.
Result<void> check_owner(HttpCall& call, const std::string& name, bool must_exist) {
  Result<void> allowed;
  ROTA_TRY(call.services.host.follower().read([&](const fleet::State& state) {
    const auto found = state.globals().schedules.find(name);
    if (found == state.globals().schedules.end()) {
      if (must_exist) allowed = no_such("schedule", name);
    } else if (call.who->role != Role::kAdmin && found->second.spec.workflow.user != call.who->user) {
      allowed = Error{ErrorCode::kPermissionDenied,
                      "the schedule '" + printable(name) + "' belongs to '" + found->second.spec.workflow.user + "'"};
    }
  }));
  return allowed;
}

template <class Enum>
void choose(const HttpCall& call, std::string_view parameter, Enum& out) {
  const std::optional<std::string> given = call.text(parameter);
  for (std::size_t i = 0; given && i < model::enumerator_count<Enum>; ++i) {
    if (enum_names(Enum{})[i] == *given) out = static_cast<Enum>(i);
  }
}

Result<net::HttpResponse> change(HttpCall& call, fleet::ScheduleChange what) {
  ROTA_TRY(check_owner(call, call.path[0], true));
  ROTA_TRY(execute(call, fleet::ChangeSchedule{call.path[0], what}));
  return done(call);
}

}  // namespace

namespace routes {

Result<net::HttpResponse> list_schedules(HttpCall& call) {
  SchedulePage page;
  ROTA_TRY_ASSIGN(page.index, read_state(call, [&](const fleet::State& state) {
                    for (const auto& [name, schedule] : state.globals().schedules) {
                      page.items.push_back(schedule_view(state, schedule));
                    }
                  }));
  ROTA_TRY(fiber::blocking([&]() -> Result<void> {
    for (ScheduleView& view : page.items) add_next(view, call.services.wall_ns());
    return {};
  }));
  return state_response(to_view_json(page), page.index);
}

Result<net::HttpResponse> set_schedule(HttpCall& call) {
  ROTA_TRY_ASSIGN(workflow::WorkflowFile file, read_body(call));
  if (!file.ok()) return file_problem(file);
  fleet::ScheduleSpec spec;
  spec.name = call.text("name").value_or(file.spec.name);
  spec.cron = call.text("cron").value_or("");
  spec.zone = call.text("tz").value_or("UTC");
  choose(call, "missed", spec.missed);
  choose(call, "overlap", spec.overlap);
  if (!is_secret_name(spec.name)) {
    return Error{
        ErrorCode::kInvalidArgument,
        "the name of a schedule has 1 to 128 letters, digits, '.', '_' and '-'; found '" + printable(spec.name) + "'"};
  }
  ROTA_TRY(fiber::blocking([&] { return check_schedule(spec.cron, spec.zone); }));
  ROTA_TRY(check_owner(call, spec.name, false));
  file.spec.user = call.who->user;
  spec.workflow = std::move(file.spec);
  const std::string name = spec.name;
  ROTA_TRY(execute(call, fleet::SetSchedule{std::move(spec)}));
  ScheduleView view;
  ROTA_TRY(call.services.host.follower().read([&](const fleet::State& state) {
    const auto found = state.globals().schedules.find(name);
    if (found != state.globals().schedules.end()) view = schedule_view(state, found->second);
  }));
  ROTA_TRY(fiber::blocking([&]() -> Result<void> {
    add_next(view, call.services.wall_ns());
    return {};
  }));
  return json_response(201, to_view_json(view));
}

Result<net::HttpResponse> pause_schedule(HttpCall& call) { return change(call, fleet::ScheduleChange::kPause); }
Result<net::HttpResponse> resume_schedule(HttpCall& call) { return change(call, fleet::ScheduleChange::kResume); }
Result<net::HttpResponse> remove_schedule(HttpCall& call) { return change(call, fleet::ScheduleChange::kRemove); }

}  // namespace routes

}  // namespace rota::host

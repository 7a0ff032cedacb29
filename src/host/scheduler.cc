#include "host/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>

#include "base/json_text.h"
#include "base/log.h"
#include "host/follower.h"
#include "rota/clock.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

constexpr std::chrono::seconds kLookEvery{1};
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::string_view kFiringKeys = "schedule/";
constexpr std::size_t kMostTimes = 1'000;  // Parsed schedules that are kept.

std::int64_t floor_seconds(std::int64_t ns) { return ns / kSecond - (ns % kSecond < 0 ? 1 : 0); }

bool has_running(const fleet::State& state, const fleet::Schedule& schedule) {
  return std::any_of(schedule.runs.begin(), schedule.runs.end(), [&](model::WorkflowId id) {
    const fleet::Workflow* workflow = state.find(id);
    return workflow != nullptr && workflow->outcome == fleet::Outcome::kRunning;
  });
}

}  // namespace

Result<void> check_schedule(const std::string& cron, const std::string& zone) {
  ROTA_TRY(Cron::parse(cron));
  ROTA_TRY(TimeZone::load(zone));
  return {};
}

std::vector<std::int64_t> next_firings(const std::string& cron, const std::string& zone, std::int64_t after_ns,
                                       std::size_t count) {
  std::vector<std::int64_t> times;
  const Result<Cron> parsed = Cron::parse(cron);
  const Result<TimeZone> place = TimeZone::load(zone);
  if (!parsed.ok() || !place.ok()) return times;
  std::optional<std::int64_t> at = floor_seconds(after_ns);
  while (times.size() < count) {
    at = parsed->next(*at, *place);
    if (!at) break;
    times.push_back(*at * kSecond);
  }
  return times;
}

std::vector<std::int64_t> due_times(const Cron& cron, const TimeZone& zone, fleet::MissedRule missed,
                                    std::int64_t last_s, std::int64_t now_s) {
  std::vector<std::int64_t> times = cron.between(last_s, now_s, zone, fleet::kMostQueuedFirings);
  if (missed == fleet::MissedRule::kLast && times.size() > 1) times.erase(times.begin(), times.end() - 1);
  if (missed == fleet::MissedRule::kSkip) {
    std::erase_if(times, [&](std::int64_t time) { return now_s - time > kLateSeconds; });
  }
  return times;
}

std::string firing_key(const std::string& schedule, std::int64_t nominal_s) {
  const CivilTime time = civil_of_seconds(nominal_s);
  char text[64];
  (void)std::snprintf(text, sizeof text, "%04lld-%02d-%02dT%02d:%02d:00Z", static_cast<long long>(time.year),
                      time.month, time.day, time.hour, time.minute);
  return std::string(kFiringKeys) + schedule + "/" + text;
}

Result<void> check_client_key(std::string_view key) {
  if (!key.starts_with(kFiringKeys)) return {};
  return Error{ErrorCode::kInvalidArgument, "the key '" + printable(key) + "' begins with '" +
                                                std::string(kFiringKeys) +
                                                "', like the keys of workflows that schedules start; use another key"};
}

Scheduler::Scheduler(Host& host, std::function<std::int64_t()> wall_ns)
    : host_(host), wall_ns_(wall_ns ? std::move(wall_ns) : std::function<std::int64_t()>([] {
        return system_clock().wall().time_since_epoch().count();
      })) {}

const Scheduler::Times& Scheduler::times_of(const fleet::ScheduleSpec& spec) {
  if (times_.size() >= kMostTimes) times_.clear();
  const auto known = times_.find({spec.cron, spec.zone});
  if (known != times_.end()) return known->second;
  Times times{Cron::parse(spec.cron), TimeZone::load(spec.zone)};
  if (!times.cron.ok() || !times.zone.ok()) {
    const Error& error = times.cron.ok() ? times.zone.error() : times.cron.error();
    ROTA_LOG(kError, "a schedule cannot fire", {"schedule", spec.name}, {"why", error.message});
  }
  return times_.emplace(std::pair(spec.cron, spec.zone), std::move(times)).first->second;
}

void Scheduler::find_due(const fleet::State& state, std::int64_t now_s, std::vector<Due>& due) {
  for (const auto& [name, schedule] : state.globals().schedules) {
    if (schedule.paused) continue;
    Due found{.name = name};
    if (!schedule.queued.empty() && !has_running(state, schedule)) {
      found.nominal_s.push_back(floor_seconds(schedule.queued.front()));
    }
    const Times& times = times_of(schedule.spec);
    if (times.cron.ok() && times.zone.ok()) {
      std::int64_t last_s = floor_seconds(schedule.last_ns);
      if (const auto sent = sent_.find(name); sent != sent_.end()) last_s = std::max(last_s, sent->second);
      const std::vector<std::int64_t> fresh = due_times(*times.cron, *times.zone, schedule.spec.missed, last_s, now_s);
      found.nominal_s.insert(found.nominal_s.end(), fresh.begin(), fresh.end());
    }
    if (found.nominal_s.empty()) continue;
    found.workflow = schedule.spec.workflow;
    due.push_back(std::move(found));
  }
}

bool Scheduler::fire(const Due& due, std::int64_t nominal_s) {
  const Result<fleet::Events> fired =
      host_.execute(fleet::SubmitWorkflow{firing_key(due.name, nominal_s), due.workflow, due.name, nominal_s * kSecond},
                    {.user = due.workflow.user, .token = {}, .request = "schedule " + due.name});
  if (!fired.ok()) {
    if (fired.code() == ErrorCode::kAlreadyExists || fired.code() == ErrorCode::kNotFound) return true;
    ROTA_LOG(kWarn, "a schedule could not fire; trying again", {"schedule", due.name},
             {"for", firing_key(due.name, nominal_s)}, {"why", fired.error().message});
    return false;
  }
  for (const fleet::Event& event : *fired) {
    const auto* outcome = std::get_if<fleet::ScheduleFired>(&event);
    if (outcome == nullptr) continue;
    ROTA_LOG(kInfo, "a schedule was due", {"schedule", due.name}, {"for", firing_key(due.name, nominal_s)},
             {"outcome", to_string(outcome->outcome)},
             {"workflow", outcome->workflow.is_none() ? "-" : outcome->workflow.to_string()});
  }
  return true;
}

Result<void> Scheduler::look() {
  if (!host_.check_leads().ok()) return {};  // The host that leads does it.
  const std::int64_t now_s = floor_seconds(wall_ns_());
  std::vector<Due> due;
  ROTA_TRY(host_.follower().read([&](const fleet::State& state) {
    std::erase_if(sent_, [&](const auto& sent) { return !state.globals().schedules.contains(sent.first); });
    find_due(state, now_s, due);
  }));
  for (const Due& each : due) {
    for (const std::int64_t nominal_s : each.nominal_s) {
      if (!fire(each, nominal_s)) break;  // The others in order, later.
      std::int64_t& sent = sent_[each.name];
      sent = std::max(sent, nominal_s);
    }
  }
  return {};
}

void Scheduler::run() {
  for (;;) {
    const Result<void> looked = look();
    if (looked.code() == ErrorCode::kClosed || looked.code() == ErrorCode::kCancelled) return;
    if (!fiber::sleep_for(kLookEvery).ok()) return;
  }
}

}  // namespace rota::host

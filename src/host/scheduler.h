// Scheduler: submits the workflows of schedules when they are due (H-7).
//
// Every second it compares the schedules of the durable state with the clock and sends the brain a command for each
// nominal time that is due. The brain deals with a nominal time once, so it does no harm that this one sends a command
// again: after a restart, a kill, a change of the leader or a clock that was set back.
//
// A nominal time is missed if it is more than a minute old when it is seen: the host did not run, or it could not
// submit (fleet/schedule.h has the rules). Times that pass while a schedule is paused are not missed, they are left
// out.
//
// Thread safety: run() from one task.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fleet/schedule.h"
#include "fleet/state.h"
#include "host/cron.h"
#include "host/host.h"
#include "host/time_zone.h"
#include "rota/result.h"

namespace rota::host {

inline constexpr std::int64_t kLateSeconds = 60;

// InvalidArgument if the host could never compute when the schedule is due.
[[nodiscard]] Result<void> check_schedule(const std::string& cron, const std::string& zone);
// The next `count` times at which it is due, in nanoseconds. Empty if the schedule cannot be read here.
// Reads a file.
[[nodiscard]] std::vector<std::int64_t> next_firings(const std::string& cron, const std::string& zone,
                                                     std::int64_t after_ns, std::size_t count);
// The nominal times that are to be sent at `now_s`, by the rule for missed ones. All are after `last_s`.
[[nodiscard]] std::vector<std::int64_t> due_times(const Cron& cron, const TimeZone& zone, fleet::MissedRule missed,
                                                  std::int64_t last_s, std::int64_t now_s);
// "schedule/nightly/2026-11-18T03:00:00Z": the key of the workflow for a nominal time.
[[nodiscard]] std::string firing_key(const std::string& schedule, std::int64_t nominal_s);
// InvalidArgument if the key of a client's submission is one that a schedule could use: a client that took it would
// suppress that firing.
[[nodiscard]] Result<void> check_client_key(std::string_view key);

class Scheduler {
 public:
  // REQUIRES: the host has a follower and outlives it. `wall_ns` empty: the system's clock.
  explicit Scheduler(Host& host, std::function<std::int64_t()> wall_ns = {});

  // Until the task is cancelled or the host has stopped.
  void run();
  // Sends what is due now. Closed when the host has stopped.
  Result<void> look();

 private:
  struct Due {
    std::string name{};
    std::vector<std::int64_t> nominal_s{};
    model::WorkflowSpec workflow{};
  };
  struct Times {
    Result<Cron> cron;
    Result<TimeZone> zone;
  };
  const Times& times_of(const fleet::ScheduleSpec& spec);
  void find_due(const fleet::State& state, std::int64_t now_s, std::vector<Due>& due);
  // False: try again later.
  bool fire(const Due& due, std::int64_t nominal_s);

  Host& host_;
  const std::function<std::int64_t()> wall_ns_;
  std::map<std::pair<std::string, std::string>, Times> times_{};  // By cron and zone.
  std::map<std::string, std::int64_t> sent_{};                    // The last nominal time that was dealt with, by name.
};

}  // namespace rota::host

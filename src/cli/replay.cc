#include "cli/replay.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/json_text.h"
#include "cli/log_source.h"
#include "cli/policy_text.h"
#include "cli/progress_line.h"
#include "fleet/brain.h"
#include "fleet/text.h"
#include "fleet/what_if.h"

namespace rota::cli {

namespace {

// Adds what a person needs to see why the two decisions differ: the command, and the policy at that time.
Error with_causes(Error error, const fleet::Record& record, const fleet::State& state) {
  const std::string policy = fleet::fields_to_text(state.policy());
  return std::move(error)
      .with("command", printable(fleet::to_text(record.command), 2000))
      .with("policy", policy.empty() ? "the default policy" : policy)
      .with("cause",
            "the state before this record was the same, so this version of Rota decides differently from the version "
            "that wrote the log; --no-verify accepts the decisions of the log");
}

// Reads the log to its end, and verifies each record if that is wanted.
Result<void> read_past(LogSource& log, const Place& place, ProgressLine& progress, Replay& result, fleet::Past& past) {
  ROTA_TRY_ASSIGN(fleet::Brain brain, log.begin());
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, log.next());
    if (record == nullptr) break;
    Result<void> same = result.verified ? brain.verify(*record) : brain.apply(*record);
    if (!same.ok()) {
      Error error = std::move(same).take_error();
      if (error.code != ErrorCode::kConflict) return std::move(error).in(place.log);
      return with_causes(std::move(error), *record, brain.state());
    }
    if (result.compacted == 0) past.see(*record, brain.state());
    if (++result.records % 4096 == 0) progress.show("verifying " + std::to_string(log.permille() / 10) + " %");
  }
  result.hash = brain.hash().to_string();
  if (result.compacted == 0) result.courses.push_back({"as it happened", "", past.figures(brain.state())});
  return {};
}

}  // namespace

Result<std::vector<std::string>> check_policies(const std::vector<std::string>& policies) {
  std::vector<std::string> changes;
  for (const std::string& text : policies) {
    Result<std::string> fields = policy_fields(text);
    const Result<fleet::Figures> tried =
        fields.ok() ? fleet::what_if(fleet::Past(), *fields) : Result<fleet::Figures>(fields.error());
    if (!tried.ok()) return Error(tried.error()).in("--policy " + printable(text));
    changes.push_back(std::move(*fields));
  }
  return changes;
}

Result<std::vector<fleet::FleetChange>> check_fleet(const std::vector<std::string>& fleet) {
  std::vector<fleet::FleetChange> changes;
  for (const std::string& text : fleet) {
    std::string fields = text;
    std::replace(fields.begin(), fields.end(), ',', ' ');
    Result<fleet::FleetChange> change = fleet::parse_fleet_change(fields);
    if (!change.ok()) return std::move(change).take_error().in("--fleet " + printable(text));
    changes.push_back(std::move(*change));
  }
  return changes;
}

Result<Replay> replay_log(const Place& place, const ReplayOptions& options, const std::vector<std::string>& changes,
                          bool progress) {
  ROTA_TRY_ASSIGN(const std::vector<fleet::FleetChange> fleet, check_fleet(options.fleet));
  const bool others_wanted = !changes.empty() || !fleet.empty();
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  Replay result;
  result.verified = !options.no_verify;
  result.compacted = log->compacted();
  if (result.compacted > 0 && others_wanted) {
    return Error{ErrorCode::kFailedPrecondition,
                 "'" + place.log + "' starts at record " + std::to_string(result.compacted + 1) +
                     ": the records before it were compacted, and --policy and --fleet need all of them. Without "
                     "them the log is verified from its snapshot on"};
  }
  ProgressLine line(progress);
  fleet::Past past;
  ROTA_TRY(read_past(*log, place, line, result, past));
  if (result.compacted > 0 || !others_wanted) return result;
  // The log may end while tasks run, but a course is computed to its end. Therefore the log's own policy is computed to
  // its end as well: that course can be compared with the others.
  std::vector<std::pair<std::string, std::string>> others{{"same policy", ""}};
  for (std::size_t i = 0; i < changes.size(); ++i) others.emplace_back(options.policies[i], changes[i]);
  if (changes.empty()) others.emplace_back("other fleet", "");
  for (const auto& [name, change] : others) {
    const auto show = [&, what = name](std::uint64_t decisions) {
      line.show(what + ": " + std::to_string(decisions) + " decisions of about " + std::to_string(result.records));
    };
    const bool is_other = result.courses.size() > 1;
    Result<fleet::Figures> figures =
        fleet::what_if(past, change, is_other ? fleet : std::vector<fleet::FleetChange>(), show);
    if (!figures.ok()) {
      return std::move(figures).take_error().in(change.empty() ? "--fleet" : "--policy " + printable(name));
    }
    result.courses.push_back({name, change, *figures});
  }
  return result;
}

}  // namespace rota::cli

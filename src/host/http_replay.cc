// The handler that computes what another policy or another fleet would have done with the log (S-3, W-1).
//
// It runs on a helper thread beside the host's own, one at a time, and reads the ledger; the brain is not asked.
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fleet/brain.h"
#include "fleet/stored_record.h"
#include "fleet/what_if.h"
#include "host/http_reading.h"
#include "model/json.h"
#include "rota/fiber/blocking.h"

namespace rota::host {

namespace {

constexpr std::uint64_t kMostRecords = 300'000;
constexpr std::size_t kBuckets = 240;
constexpr std::uint64_t kPage = 256;
constexpr std::size_t kMostChanges = 200;  // Of the fleet.

// How many tasks run and wait, as time passes.
class Course {
 public:
  void see(const fleet::Record& record, const fleet::State& state) {
    for (const fleet::Event& event : record.events) {
      fleet::each_begun(event, state, [&](model::TaskId id, model::AttemptNumber) { running_.insert(id); });
      std::visit(
          [&](const auto& each) {
            using E = std::decay_t<decltype(each)>;
            if constexpr (std::is_same_v<E, fleet::TaskSucceeded> || std::is_same_v<E, fleet::TaskFailed> ||
                          std::is_same_v<E, fleet::TaskRequeued> || std::is_same_v<E, fleet::TaskCancelled>) {
              running_.erase(each.task);
            } else if constexpr (std::is_same_v<E, fleet::WorkflowAccepted>) {
              if (begin_ns_ == 0) begin_ns_ = record.wall_ns;
            }
          },
          event);
    }
    if (begin_ns_ == 0) return;
    samples_.push_back({record.wall_ns - begin_ns_, static_cast<std::int64_t>(running_.size()),
                        static_cast<std::int64_t>(state.ready_tasks())});
  }
  [[nodiscard]] std::int64_t length_ns() const { return samples_.empty() ? 0 : samples_.back().ns; }
  // The mean of each bucket, in thousandths.
  void write(std::int64_t bucket_ns, CourseView& view) const {
    view.running.assign(kBuckets, 0);
    view.ready.assign(kBuckets, 0);
    for (std::size_t i = 0; i + 1 < samples_.size(); ++i) {
      std::int64_t from = samples_[i].ns;
      const std::int64_t to = samples_[i + 1].ns;
      while (from < to) {
        const auto bucket = static_cast<std::size_t>(from / bucket_ns);
        if (bucket >= kBuckets) break;
        const std::int64_t end = std::min(to, (from / bucket_ns + 1) * bucket_ns);
        view.running[bucket] += samples_[i].running * (end - from);
        view.ready[bucket] += samples_[i].ready * (end - from);
        from = end;
      }
    }
    for (std::vector<std::int64_t>* values : {&view.running, &view.ready}) {
      for (std::int64_t& value : *values) value /= std::max<std::int64_t>(bucket_ns / 1000, 1);
    }
  }

 private:
  struct Sample {
    std::int64_t ns;
    std::int64_t running;
    std::int64_t ready;
  };
  std::set<model::TaskId> running_;
  std::vector<Sample> samples_;
  std::int64_t begin_ns_ = 0;
};

struct Wanted {
  std::string policy{};
  std::vector<fleet::FleetChange> fleet{};
};

Result<Wanted> wanted_in(std::string_view body) {
  const Error wrong{ErrorCode::kInvalidArgument,
                    "the body must be {\"policy\": \"name=value ...\", \"fleet\": [\"worker=NAME count=2 ...\", ...]}"};
  if (!model::json_validate(body).ok() || model::json_kind(body) != model::JsonKind::kObject) return wrong;
  Wanted wanted;
  for (const auto& [name, value] : model::json_members(body)) {
    if (name == "policy" && model::json_kind(value) == model::JsonKind::kString) {
      wanted.policy = model::json_unescape(value);
    } else if (name == "fleet" && model::json_kind(value) == model::JsonKind::kArray) {
      for (const std::string_view each : model::json_elements(value)) {
        if (model::json_kind(each) != model::JsonKind::kString || wanted.fleet.size() == kMostChanges) return wrong;
        Result<fleet::FleetChange> change = fleet::parse_fleet_change(model::json_unescape(each));
        if (!change.ok()) return Error(change.error()).in("fleet");
        wanted.fleet.push_back(std::move(*change));
      }
    } else {
      return wrong;
    }
  }
  return wanted;
}

Result<ReplayView> compute(LogTail& tail, std::uint64_t last, const Wanted& wanted) {
  fleet::Past past;
  fleet::Brain brain;
  ReplayView view;
  std::vector<Course> courses(1);
  for (std::uint64_t next = 1; next <= last;) {
    ROTA_TRY_ASSIGN(const std::vector<fleet::Record> page, tail.records(next, std::min(last, next + kPage - 1)));
    if (page.empty()) break;
    for (const fleet::Record& record : page) {
      ROTA_TRY(brain.apply(record));
      past.see(record, brain.state());
      courses[0].see(record, brain.state());
      ++view.records;
    }
    next += page.size();
  }
  view.courses.push_back({.name = "as it happened", .figures = {to_json(past.figures(brain.state()))}});
  // A log may end while tasks run; a simulation does not. So the log's own course is simulated to its end as well.
  const bool other = !wanted.policy.empty() || !wanted.fleet.empty();
  const std::string name = wanted.policy.empty() ? "other fleet" : "other policy";
  for (const Wanted& each : other ? std::vector<Wanted>{Wanted{}, wanted} : std::vector<Wanted>{Wanted{}}) {
    Course& course = courses.emplace_back();
    const auto see = [&](const fleet::Record& record, const fleet::State& state) { course.see(record, state); };
    ROTA_TRY_ASSIGN(const fleet::Figures figures, fleet::what_if(past, each.policy, each.fleet, {}, see));
    view.courses.push_back(
        {.name = courses.size() == 2 ? "same policy" : name, .policy = each.policy, .figures = {to_json(figures)}});
  }
  std::int64_t longest_ns = 0;
  for (const Course& course : courses) longest_ns = std::max(longest_ns, course.length_ns());
  const std::int64_t bucket_ns =
      std::max<std::int64_t>(longest_ns / static_cast<std::int64_t>(kBuckets) + 1, 1'000'000);
  view.bucket_ms = static_cast<std::uint64_t>(bucket_ns / 1'000'000);
  for (std::size_t i = 0; i < courses.size(); ++i) courses[i].write(bucket_ns, view.courses[i]);
  return view;
}

}  // namespace

namespace routes {

Result<net::HttpResponse> replay(HttpCall& call) {
  ROTA_TRY_ASSIGN(const Wanted wanted, wanted_in(call.request.body));
  // A mistake in the policy is found before the log is read.
  if (Result<fleet::Figures> tried = fleet::what_if(fleet::Past(), wanted.policy); !tried.ok()) {
    Error error = std::move(tried).take_error();
    error.code = ErrorCode::kInvalidArgument;
    return error;
  }
  const std::uint64_t last = call.services.host.follower().index();
  if (call.services.tail.first_index() > 1) {
    return Error{ErrorCode::kFailedPrecondition,
                 "the log begins at record " + std::to_string(call.services.tail.first_index()) +
                     ": the records before it were compacted, and a replay needs all of them"};
  }
  if (last > kMostRecords) {
    return Error{ErrorCode::kFailedPrecondition, "the log has " + std::to_string(last) + " records, and at most " +
                                                     std::to_string(kMostRecords) +
                                                     " are replayed here; `rota replay` reads a longer one"};
  }
  if (call.services.replaying.exchange(true)) {
    return Error{ErrorCode::kOverloaded, "another replay is being computed; try again when it is done"};
  }
  Result<ReplayView> view = fiber::blocking([&] { return compute(call.services.tail, last, wanted); });
  call.services.replaying.store(false);
  ROTA_TRY(view);
  return json_response(200, to_view_json(*view));
}

}  // namespace routes

}  // namespace rota::host

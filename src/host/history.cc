#include "host/history.h"

#include <algorithm>

#include "fleet/explain.h"
#include "fleet/state.h"
#include "host/recovery.h"

namespace rota::host {

namespace {

using fleet::ExplainReason;
using fleet::State;
using fleet::Task;
using fleet::TaskState;
using fleet::Workflow;
using model::TaskId;

constexpr std::uint64_t kPage = 256;
constexpr std::size_t kMostCounted = 1'000'000;
constexpr auto kOther = static_cast<std::int64_t>(ExplainReason::kRunning) + 1;

std::int64_t kind(ExplainReason reason) { return static_cast<std::int64_t>(reason); }

class PointMaker {
 public:
  explicit PointMaker(const State& state) : state_(state) {}

  void add(const Workflow& workflow, bool by_stage) {
    counted_ += workflow.tasks.size();
    if (counted_ > kMostCounted) return;
    for (const Task& task : workflow.tasks) {
      const std::int64_t lane = by_stage ? task.stage : 0;
      if (lane >= static_cast<std::int64_t>(History::kMostLanes)) continue;
      switch (task.state) {
        case TaskState::kQueued:
          ++counts_[{lane, kind(task.due_ns() > 0 ? ExplainReason::kBackoff : ExplainReason::kNeeds)}];
          break;
        case TaskState::kPaused:
          ++counts_[{lane, kind(ExplainReason::kPaused)}];
          break;
        case TaskState::kRunning:
          ++counts_[{lane, kind(ExplainReason::kRunning)}];
          break;
        case TaskState::kReady: {
          // Tasks of one shape wait for the same reason.
          Group& group = ready_[{lane, task.shape}];
          if (group.tasks++ == 0) group.example = workflow.id_of(task);
          break;
        }
        default:
          break;
      }
    }
  }

  History::Point finish(std::uint64_t index) {
    std::vector<std::pair<std::int64_t, Group>> groups;  // With their lanes; the largest first.
    for (const auto& [key, group] : ready_) groups.emplace_back(key.first, group);
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.second.tasks > b.second.tasks; });
    for (std::size_t i = 0; i < groups.size(); ++i) {
      std::int64_t reason = kOther;
      if (i < History::kMostExplained) {
        const Result<fleet::Explanation> why =
            fleet::explain(state_, groups[i].second.example, nullptr, state_.time_ns());
        if (why.ok()) reason = kind(why->reason);
      }
      counts_[{groups[i].first, reason}] += groups[i].second.tasks;
    }
    History::Point point{index, state_.time_ns(), {}};
    for (const auto& [key, tasks] : counts_) {
      point.values.insert(point.values.end(), {key.first, key.second, tasks});
    }
    return point;
  }

 private:
  struct Group {
    std::int64_t tasks = 0;
    TaskId example{};
  };
  const State& state_;
  std::size_t counted_ = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts_;  // By lane and kind.
  std::map<std::pair<std::int64_t, fleet::ShapeRef>, Group> ready_;
};

History::Point point_of(const State& state, std::uint64_t index, model::WorkflowId only) {
  PointMaker maker(state);
  if (!only.is_none()) {
    if (const Workflow* workflow = state.find(only); workflow != nullptr) maker.add(*workflow, true);
  } else {
    state.each_workflow([&](const Workflow& workflow) {
      if (workflow.outcome == fleet::Outcome::kRunning) maker.add(workflow, false);
    });
  }
  return maker.finish(index);
}

}  // namespace

const std::vector<std::string>& History::kinds() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (std::int64_t i = 0; i < kOther; ++i) made.emplace_back(to_string(static_cast<ExplainReason>(i)));
    made.emplace_back("other");
    return made;
  }();
  return names;
}

// At the first record if all are kept and not too many, otherwise at the last snapshot.
Result<void> History::begin(LogTail& tail, ledger::Ledger& ledger, std::uint64_t last, Reader& reader) {
  reader = Reader{};
  if (tail.first_index() > 1 || last > kMostRecords) {
    ROTA_TRY_ASSIGN(std::optional<ledger::Snapshot> snapshot, ledger.latest_snapshot());
    if (snapshot && snapshot->index <= last) {
      ROTA_TRY_ASSIGN(Recovered start, decode_snapshot(*snapshot));
      reader.brain = std::move(start.brain);
      reader.index = snapshot->index;
    } else if (tail.first_index() > 1) {
      return Error{ErrorCode::kClosed, "the records before " + std::to_string(tail.first_index()) +
                                           " were compacted, and there is no snapshot to begin with"};
    }
  }
  reader.begun = true;
  return {};
}

Result<void> History::advance(LogTail& tail, std::uint64_t index, Reader& reader) {
  while (reader.index < index) {
    const std::uint64_t next = reader.index + 1;
    ROTA_TRY_ASSIGN(const std::vector<fleet::Record> page, tail.records(next, std::min(index, next + kPage - 1)));
    if (page.empty()) return Error{ErrorCode::kNotFound, "there is no record " + std::to_string(next) + " yet"};
    for (const fleet::Record& record : page) {
      ROTA_TRY(reader.brain.apply(record));
      reader.index = record.index;
    }
  }
  return {};
}

Result<std::vector<History::Point>> History::read(LogTail& tail, ledger::Ledger& ledger, const Query& query) {
  std::vector<Point> points;
  const std::uint64_t first = std::max<std::uint64_t>(query.first, 1);
  if (query.last < first) return points;
  std::uint64_t stride = 1;
  while ((query.last - first) / stride >= std::max<std::size_t>(query.most, 1)) stride *= 2;
  std::vector<std::uint64_t> wanted{first};
  for (std::uint64_t at = (first / stride + 1) * stride; at < query.last; at += stride) wanted.push_back(at);
  if (query.last > first) wanted.push_back(query.last);

  Reader& reader = readers_[query.workflow.is_none() ? 0 : 1];
  if (known_.size() > kMostKept) known_.clear();
  for (const std::uint64_t at : wanted) {
    const std::pair<model::WorkflowId, std::uint64_t> key{query.workflow, at};
    auto known = known_.find(key);
    if (known == known_.end()) {
      if (!reader.begun || reader.index > at) ROTA_TRY(begin(tail, ledger, query.last, reader));
      if (reader.index > at) continue;  // Before the snapshot.
      if (Result<void> advanced = advance(tail, at, reader); !advanced.ok()) {
        reader = Reader{};
        return std::move(advanced).take_error();
      }
      known = known_.emplace(key, point_of(reader.brain.state(), at, query.workflow)).first;
    }
    points.push_back(known->second);
  }
  return points;
}

}  // namespace rota::host

// Handlers for the picture of one workflow: its graph, its timeline, and the attempts of a task (W-1).
//
// What they return is bounded by the size of a screen, not by the number of tasks: a graph has its stages and one
// letter per task; a timeline has a bucket per pixel as soon as more tasks are visible than a person can tell apart.
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fleet/state.h"
#include "host/attempt_log.h"
#include "host/http_reading.h"

namespace rota::host {

namespace {

using fleet::State;
using fleet::Task;
using fleet::TaskState;
using fleet::Workflow;
using model::TaskId;
using model::WorkflowId;

constexpr std::size_t kMostSpans = 4000;
constexpr std::size_t kMostLanes = 200;  // The last of them has what the others have no room for.
constexpr std::uint64_t kDefaultPixels = 1000;
constexpr std::int64_t kMicrosecond = 1000;

// The letters of Graph.tasks; the position is the code of a state in a timeline.
constexpr std::string_view kLetters = "qrapskfc";
std::size_t code_of(const Task& task) {
  switch (task.state) {
    case TaskState::kQueued:
      return 0;
    case TaskState::kReady:
      return 1;
    case TaskState::kRunning:
      return 2;
    case TaskState::kPaused:
      return 3;
    case TaskState::kSucceeded:
      return task.skipped ? 5 : 4;
    case TaskState::kFailed:
      return 6;
    case TaskState::kCancelled:
      return 7;
  }
  return 0;
}
// Which state a bucket shows if it has several: the one that most needs attention.
constexpr std::array<int, 8> kUrgency = {1, 2, 5, 4, 3, 0, 7, 6};

Result<const Workflow*> find_workflow(const State& state, const std::string& name) {
  const std::optional<WorkflowId> id = WorkflowId::parse(name);
  const Workflow* workflow = id ? state.find(*id) : nullptr;
  if (workflow == nullptr) return no_such("workflow", name);
  return workflow;
}

// The time up to which a running task has run: now, or the time of a past state.
std::int64_t time_of(const HttpCall& call, const State& state) {
  return call.integer("at") ? state.time_ns() : std::max(state.time_ns(), call.services.wall_ns());
}

std::int64_t began_ns(const Task& task) { return task.started_ns > 0 ? task.started_ns : task.assigned_ns; }

GraphStageView stage_view(const Workflow& workflow, std::size_t number, std::int64_t now_ns, std::string* letters) {
  const model::Stage& spec = workflow.spec.stages[number];
  const fleet::StageState& range = workflow.stages[number];
  GraphStageView view;
  view.name = spec.name;
  view.needs.assign(spec.needs.begin(), spec.needs.end());
  view.first = range.first;
  view.more = range.more;
  view.tasks = range.count;
  std::int64_t last_ns = 0;
  bool all_ended = true;
  const auto earliest = [](Time& time, std::int64_t ns) {
    if (ns > 0 && (time.ns == 0 || ns < time.ns)) time.ns = ns;
  };
  for (const std::uint32_t i : range.tasks()) {
    const Task& task = workflow.tasks[i];
    count_state(view.states, task);
    if (letters != nullptr) (*letters)[i] = kLetters[code_of(task)];
    earliest(view.ready, task.since_ns);
    earliest(view.started, began_ns(task));
    all_ended = all_ended && task.ended_ns > 0;
    if (task.assigned_ns == 0) continue;
    const std::int64_t end_ns = task.ended_ns > 0 ? task.ended_ns : now_ns;
    const auto took_us = static_cast<std::uint64_t>(std::max<std::int64_t>(end_ns - began_ns(task), 0) / kMicrosecond);
    view.run_microseconds = std::max(view.run_microseconds, took_us);
    if (end_ns > last_ns || (end_ns == last_ns && task.state == TaskState::kRunning)) {
      last_ns = end_ns;
      view.last = i;
    }
  }
  if (all_ended) view.ended = {last_ns};
  return view;
}

// Adds up how much of each bucket spans cover.
class Buckets {
 public:
  Buckets(std::int64_t from_ns, std::int64_t to_ns, std::size_t count)
      : from_ns_(from_ns), width_ns_(std::max<std::int64_t>((to_ns - from_ns) / static_cast<std::int64_t>(count), 1)) {
    covered_ns_.resize(count);
    code_.resize(count);
  }
  void add(std::int64_t begin_ns, std::int64_t end_ns, std::size_t code) {
    const std::int64_t most = width_ns_ * static_cast<std::int64_t>(covered_ns_.size());
    const std::int64_t begin = std::clamp<std::int64_t>(begin_ns - from_ns_, 0, most);
    const std::int64_t end = std::clamp<std::int64_t>(end_ns - from_ns_, begin, most);
    // A task of no length is shown as well.
    for (std::int64_t b = begin / width_ns_; b <= (end > begin ? end - 1 : end) / width_ns_; ++b) {
      const auto at = static_cast<std::size_t>(b);
      if (at >= covered_ns_.size()) break;
      const std::int64_t inside = std::min(end, (b + 1) * width_ns_) - std::max(begin, b * width_ns_);
      covered_ns_[at] += std::max<std::int64_t>(inside, width_ns_ / 8 + 1);
      if (kUrgency[code] >= kUrgency[code_[at]]) code_[at] = static_cast<std::uint8_t>(code);
    }
  }
  [[nodiscard]] std::vector<std::int64_t> triples() const {
    std::vector<std::int64_t> flat;
    for (std::size_t i = 0; i < covered_ns_.size(); ++i) {
      if (covered_ns_[i] == 0) continue;
      flat.insert(flat.end(), {static_cast<std::int64_t>(i),
                               std::max<std::int64_t>(covered_ns_[i] / (width_ns_ / 1000 + 1), 1), code_[i]});
    }
    return flat;
  }

 private:
  std::int64_t from_ns_;
  std::int64_t width_ns_;
  std::vector<std::int64_t> covered_ns_;
  std::vector<std::uint8_t> code_;
};

class TimelineMaker {
 public:
  TimelineMaker(const HttpCall& call, const State& state, const Workflow& workflow, TimelineView& view)
      : state_(state), workflow_(workflow), view_(view), attempts_(call.services.tail.attempts()) {
    now_ns_ = workflow.ended_ns > 0 ? workflow.ended_ns : time_of(call, state);
    by_stage_ = call.text("lanes").value_or("worker") == "stage";
    const auto offset = [&](std::string_view name, std::int64_t otherwise) {
      const std::optional<std::uint64_t> us = call.integer(name);
      return us ? workflow.submitted_ns + static_cast<std::int64_t>(*us) * kMicrosecond : otherwise;
    };
    from_ns_ = offset("from", workflow.submitted_ns);
    to_ns_ = std::max(offset("to", now_ns_), from_ns_ + 1000);
    view.id = workflow.id.to_string();
    view.from = {from_ns_};
    view.to = {to_ns_};
    view.time = {now_ns_};
    view.px = std::max<std::uint64_t>(call.integer("px").value_or(kDefaultPixels), 1);
  }

  void run() {
    std::size_t visible = 0;
    for (const Task& task : workflow_.tasks) visible += is_visible(task) ? 1 : 0;
    const bool exact = visible <= kMostSpans;
    std::vector<Buckets> busy;
    std::vector<Buckets> waiting;
    for (const Task& task : workflow_.tasks) {
      if (!is_visible(task)) continue;
      const std::size_t lane = lane_of(task);
      ++view_.lanes[lane].tasks;
      if (exact) {
        add_spans(task, lane);
        continue;
      }
      while (busy.size() < view_.lanes.size()) {
        busy.emplace_back(from_ns_, to_ns_, static_cast<std::size_t>(view_.px));
        waiting.emplace_back(from_ns_, to_ns_, static_cast<std::size_t>(view_.px));
      }
      const std::int64_t begin_ns = began_ns(task);
      if (begin_ns > 0) busy[lane].add(begin_ns, end_of(task), code_of(task));
      if (task.since_ns > 0) waiting[lane].add(task.since_ns, begin_ns > 0 ? begin_ns : end_of(task), 1);
    }
    for (std::size_t i = 0; i < busy.size(); ++i) {
      view_.lanes[i].busy = busy[i].triples();
      view_.lanes[i].waiting = waiting[i].triples();
    }
  }

 private:
  [[nodiscard]] std::int64_t end_of(const Task& task) const { return task.ended_ns > 0 ? task.ended_ns : now_ns_; }
  [[nodiscard]] bool is_visible(const Task& task) const {
    if (!by_stage_ && task.worker.is_none()) return false;  // It has no lane yet.
    return task.since_ns > 0 && task.since_ns <= to_ns_ && end_of(task) >= from_ns_;
  }
  std::size_t lane_of(const Task& task) {
    const std::uint64_t key = by_stage_ ? task.stage : task.worker.value();
    const auto known = std::find(keys_.begin(), keys_.end(), key);
    if (known != keys_.end()) return std::min(static_cast<std::size_t>(known - keys_.begin()), kMostLanes - 1);
    if (keys_.size() >= kMostLanes) return kMostLanes - 1;
    keys_.push_back(key);
    TimelineLaneView& lane = view_.lanes.emplace_back();
    if (keys_.size() == kMostLanes) {
      lane.name = "others";
    } else if (by_stage_) {
      lane.name = workflow_.spec.stages[task.stage].name;
    } else {
      const fleet::Worker* worker = state_.find(task.worker);
      lane.name = worker == nullptr ? task.worker.to_string() : worker->spec.name;
    }
    return keys_.size() - 1;
  }
  [[nodiscard]] std::int64_t offset(std::int64_t ns) const { return ns > 0 ? (ns - from_ns_) / kMicrosecond : -1; }
  void add_spans(const Task& task, std::size_t lane) {
    const TaskId id = workflow_.id_of(task);
    const auto index = static_cast<std::int64_t>(id.index());
    // Earlier attempts that failed, in the lane of the present one if their worker has none.
    // A task that waits has none: its last attempt is an earlier one as well.
    const bool waits = task.state == TaskState::kQueued || task.state == TaskState::kReady ||
                       (task.state == TaskState::kPaused && task.worker.is_none());
    std::int64_t since_ns = task.since_ns;
    for (const AttemptLog::Attempt& attempt : attempts_.of(id, state_.globals().index)) {
      if (attempt.number.value() >= task.attempt.value() + (waits ? 1 : 0) || attempt.ended_ns == 0) continue;
      since_ns =
          std::max(since_ns, attempt.ended_ns);  // It is ready since its first attempt, but waits since its last.
      view_.spans.push_back({index, static_cast<std::int64_t>(lane), static_cast<std::int64_t>(attempt.number.value()),
                             6, offset(attempt.assigned_ns), offset(attempt.assigned_ns), offset(attempt.assigned_ns),
                             offset(attempt.ended_ns)});
    }
    view_.spans.push_back({index, static_cast<std::int64_t>(lane), static_cast<std::int64_t>(task.attempt.value()),
                           static_cast<std::int64_t>(code_of(task)), offset(since_ns),
                           waits ? -1 : offset(task.assigned_ns), waits ? -1 : offset(began_ns(task)),
                           offset(end_of(task))});
  }

  const State& state_;
  const Workflow& workflow_;
  TimelineView& view_;
  AttemptLog& attempts_;
  std::int64_t now_ns_ = 0;
  std::int64_t from_ns_ = 0;
  std::int64_t to_ns_ = 0;
  bool by_stage_ = false;
  std::vector<std::uint64_t> keys_;
};

}  // namespace

namespace routes {

Result<net::HttpResponse> get_graph(HttpCall& call) {
  return answer_shared<GraphView>(call, [&](const State& state, GraphView& view) -> Result<void> {
    ROTA_TRY_ASSIGN(const Workflow* workflow, find_workflow(state, call.path[0]));
    view.id = workflow->id.to_string();
    view.name = workflow->spec.name;
    view.outcome = to_string(workflow->outcome);
    view.submitted = {workflow->submitted_ns};
    view.ended = {workflow->ended_ns};
    view.time = {time_of(call, state)};
    const bool tasks = call.text("level").value_or("stage") == "task";
    if (tasks) view.tasks.resize(workflow->tasks.size(), kLetters[0]);
    for (std::size_t i = 0; i < workflow->stages.size(); ++i) {
      view.stages.push_back(stage_view(*workflow, i, view.time.ns, tasks ? &view.tasks : nullptr));
    }
    return {};
  });
}

Result<net::HttpResponse> get_timeline(HttpCall& call) {
  if (const auto from = call.integer("from"), to = call.integer("to"); from && to && *to < *from) {
    return Error{ErrorCode::kInvalidArgument, "the timeline would end (to=" + std::to_string(*to) +
                                                  ") before it begins (from=" + std::to_string(*from) +
                                                  "); both are microseconds after the submission"}
        .with("parameter", "to");
  }
  return answer_shared<TimelineView>(call, [&](const State& state, TimelineView& view) -> Result<void> {
    ROTA_TRY_ASSIGN(const Workflow* workflow, find_workflow(state, call.path[0]));
    TimelineMaker(call, state, *workflow, view).run();
    return {};
  });
}

Result<net::HttpResponse> list_attempts(HttpCall& call) {
  return answer<AttemptPage>(call, [&](const State& state, AttemptPage& page) -> Result<void> {
    ROTA_TRY_ASSIGN(const Task* task, find_task(state, call.path[0]));
    const TaskId id = *TaskId::parse(call.path[0]);
    for (const AttemptLog::Attempt& attempt : call.services.tail.attempts().of(id, state.globals().index)) {
      const fleet::Worker* worker = state.find(attempt.worker);
      page.items.push_back({attempt.number.value(),
                            worker == nullptr ? attempt.worker.to_string() : worker->spec.name,
                            {attempt.assigned_ns},
                            {attempt.started_ns},
                            {attempt.ended_ns},
                            attempt.end,
                            attempt.message,
                            attempt.assigned_in,
                            attempt.ended_in});
    }
    page.complete = page.items.size() >= task->attempt.value();
    return {};
  });
}

}  // namespace routes

}  // namespace rota::host

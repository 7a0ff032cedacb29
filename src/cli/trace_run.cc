#include "cli/trace_run.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/json_writer.h"
#include "base/trace_events.h"

namespace rota::cli {

namespace {

// If a stage of thousands of tasks needs another such stage, each of its tasks has one arrow, from the task that ended
// last. Beyond this limit no more arrows are drawn; the argument "needs" of a slice still has the dependency.
constexpr std::size_t kMostArrows = 50'000;

// The members of a JSON object without its braces, as TraceEvents takes them.
template <class Write>
std::string members(Write&& write) {
  std::string object;
  JsonWriter json(object);
  json.begin_object();
  write(json);
  json.end_object();
  return object.substr(1, object.size() - 2);
}

// The shortest slice: one without a length could not be seen.
constexpr std::int64_t kLeastSliceNs = 1000;

struct Placed {
  const Attempt* attempt = nullptr;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t track = 0;

  [[nodiscard]] std::int64_t drawn_end_ns() const { return std::max(end_ns, begin_ns + kLeastSliceNs); }
};

class Writer {
 public:
  Writer(const RunLog& log, model::WorkflowId workflow, std::ostream& out)
      : log_(log), state_(log.brain.state()), only_(workflow), trace_(out) {}

  std::size_t run() {
    choose();
    place();
    std::string process = "rota";
    const fleet::Workflow* workflow = state_.find(only_);
    if (workflow != nullptr) process = workflow->spec.name + " (" + only_.to_string() + ")";
    const std::string other = members([&](JsonWriter& json) {
      json.field("slices", slices_.size()).field("from_wall_ns", origin_ns_);
      if (workflow != nullptr) json.field("workflow", only_.to_string());
    });
    trace_.begin(other, process);
    tracks();
    for (const Placed& each : slices_) slice(each);
    for (const Placed& each : slices_) arrows(each);
    counters();
    trace_.end();
    return slices_.size();
  }

 private:
  // Attempts that started, in the order of their start.
  void choose() {
    const fleet::Workflow* workflow = state_.find(only_);
    origin_ns_ = workflow != nullptr ? workflow->submitted_ns : log_.timeline.first_ns();
    for (const Attempt& attempt : log_.timeline.attempts()) {
      if (!only_.is_none() && attempt.task.workflow() != only_) continue;
      if (attempt.started_ns == 0) continue;
      const std::int64_t end_ns = attempt.ended_ns != 0 ? attempt.ended_ns : log_.timeline.last_ns();
      origin_ns_ = std::min(origin_ns_, attempt.started_ns);
      slices_.push_back({&attempt, attempt.started_ns, std::max(end_ns, attempt.started_ns), 0});
    }
    // Attempts with the same start are sorted by their assignment, which is their order in the timeline's vector.
    std::sort(slices_.begin(), slices_.end(), [](const Placed& a, const Placed& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.attempt < b.attempt;
    });
  }

  void place() {
    std::map<model::WorkerId, TraceLanes> lanes;
    for (Placed& each : slices_) each.track = lanes[each.attempt->worker].place(each.begin_ns, each.drawn_end_ns());
    std::uint32_t next = 0;
    for (const auto& [worker, used] : lanes) {
      first_[worker] = next;
      count_[worker] = used.count();
      next += used.count();
    }
    for (Placed& each : slices_) each.track += first_[each.attempt->worker];
    for (const Placed& each : slices_) {
      const Attempt& attempt = *each.attempt;
      if (const fleet::Task* task = state_.find(attempt.task)) {
        const Placed*& last = last_of_stage_[{attempt.task.workflow(), task->stage}];
        if (last == nullptr || each.end_ns >= last->end_ns) last = &each;
      }
    }
  }

  void tracks() {
    for (const auto& [worker, first] : first_) {
      const std::string name = log_.timeline.worker_name(worker);
      for (std::uint32_t i = 0; i < count_[worker]; ++i) {
        trace_.track(first + i, i == 0 ? name : name + " (" + std::to_string(i + 1) + ")");
      }
    }
  }

  void slice(const Placed& each) {
    const Attempt& attempt = *each.attempt;
    const std::string arguments = members([&](JsonWriter& json) {
      json.field("task", attempt.task.to_string())
          .field("attempt", attempt.attempt.value())
          .field("outcome", attempt.ended_ns == 0 ? std::string("running") : attempt.end)
          .field("wait_ns", std::max<std::int64_t>(attempt.started_ns - attempt.ready_ns, 0))
          .field("why", attempt.why);
      if (!attempt.message.empty()) json.field("message", attempt.message);
      const fleet::Task* task = state_.find(attempt.task);
      if (task == nullptr) return;
      const model::WorkflowSpec& spec = state_.at(attempt.task.workflow()).spec;
      json.key("needs").begin_array();
      for (const std::uint32_t need : spec.stages[task->stage].needs) json.value(spec.stages[need].name);
      json.end_array();
    });
    trace_.slice(each.track, each.begin_ns - origin_ns_, each.drawn_end_ns() - origin_ns_, attempt.name, arguments);
  }

  // Arrows to the first attempt of a task, from the task that ended last in each stage that it needs.
  void arrows(const Placed& each) {
    const Attempt& attempt = *each.attempt;
    const fleet::Task* task = state_.find(attempt.task);
    if (task == nullptr || attempt.attempt != model::AttemptNumber(1)) return;
    for (const std::uint32_t need : state_.at(attempt.task.workflow()).spec.stages[task->stage].needs) {
      const auto found = last_of_stage_.find({attempt.task.workflow(), need});
      // In a retried run, the earlier task may have run again later.
      if (found == last_of_stage_.end() || found->second->end_ns > each.begin_ns) continue;
      if (++arrows_ > kMostArrows) return;
      const Placed& from = *found->second;
      // The arrow starts within its slice, at the last nanosecond.
      trace_.arrow(arrows_, "needs", from.track, std::max(from.end_ns - 1, from.begin_ns) - origin_ns_, each.track,
                   each.begin_ns - origin_ns_);
    }
  }

  void counters() {
    std::int64_t until_ns = std::numeric_limits<std::int64_t>::max();
    if (const fleet::Workflow* workflow = state_.find(only_); workflow != nullptr && workflow->ended_ns != 0) {
      until_ns = workflow->ended_ns;
    }
    std::int64_t at_origin = 0;  // The number of ready tasks when the run began.
    for (const Timeline::Ready& ready : log_.timeline.ready()) {
      if (ready.at_ns <= origin_ns_) at_origin = ready.count;
    }
    trace_.counter("ready tasks", 0, at_origin);
    for (const Timeline::Ready& ready : log_.timeline.ready()) {
      if (ready.at_ns <= origin_ns_ || ready.at_ns > until_ns) continue;
      trace_.counter("ready tasks", ready.at_ns - origin_ns_, ready.count);
    }
    std::map<std::int64_t, std::int64_t> changes;  // By time.
    for (const Placed& each : slices_) {
      ++changes[each.begin_ns];
      if (each.attempt->ended_ns != 0) --changes[each.end_ns];
    }
    std::int64_t running = 0;
    for (const auto& [at_ns, change] : changes) {
      running += change;
      trace_.counter("running tasks", at_ns - origin_ns_, running);
    }
  }

  const RunLog& log_;
  const fleet::State& state_;
  const model::WorkflowId only_;
  TraceEvents trace_;
  std::int64_t origin_ns_ = 0;
  std::vector<Placed> slices_;
  std::map<model::WorkerId, std::uint32_t> first_;  // The first track of each worker.
  std::map<model::WorkerId, std::uint32_t> count_;
  std::map<std::pair<model::WorkflowId, std::uint32_t>, const Placed*> last_of_stage_;
  std::size_t arrows_ = 0;
};

}  // namespace

std::size_t write_trace(const RunLog& log, model::WorkflowId workflow, std::ostream& out) {
  return Writer(log, workflow, out).run();
}

}  // namespace rota::cli

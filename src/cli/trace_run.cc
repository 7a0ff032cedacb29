#include "cli/trace_run.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/trace_events.h"

namespace rota::cli {

namespace {

// A stage of thousands that needs a stage of thousands has one arrow for each of its tasks, from the last that ended;
// at the bound there are no more, and "needs" among the arguments still says it.
constexpr std::size_t kMostArrows = 50'000;

struct Placed {
  const Attempt* attempt = nullptr;
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::uint32_t track = 0;
};

class Writer {
 public:
  Writer(const RunLog& log, model::WorkflowId workflow, std::ostream& out)
      : log_(log), state_(log.brain.state()), only_(workflow), trace_(out) {}

  std::size_t run() {
    choose();
    place();
    std::string other =
        "\"slices\":" + std::to_string(slices_.size()) + ",\"from_wall_ns\":" + std::to_string(origin_ns_);
    std::string process = "rota";
    if (const fleet::Workflow* workflow = state_.find(only_)) {
      process = workflow->spec.name + " (" + only_.to_string() + ")";
      other += ",\"workflow\":\"" + only_.to_string() + "\"";
    }
    trace_.begin(other, process);
    tracks();
    for (const Placed& each : slices_) slice(each);
    for (const Placed& each : slices_) arrows(each);
    counters();
    trace_.end();
    return slices_.size();
  }

 private:
  // Attempts that had room at a worker, in the order in which they began.
  void choose() {
    const fleet::Workflow* workflow = state_.find(only_);
    origin_ns_ = workflow != nullptr ? workflow->submitted_ns : log_.timeline.first_ns();
    for (const Attempt& attempt : log_.timeline.attempts()) {
      if (!only_.is_none() && attempt.task.workflow() != only_) continue;
      if (attempt.begun_ns == 0) continue;
      const std::int64_t end_ns = attempt.ended_ns != 0 ? attempt.ended_ns : log_.timeline.last_ns();
      origin_ns_ = std::min(origin_ns_, attempt.begun_ns);
      slices_.push_back({&attempt, attempt.begun_ns, std::max(end_ns, attempt.begun_ns), 0});
    }
    // Those that began together in the order of their assignment: they are elements of one vector.
    std::sort(slices_.begin(), slices_.end(), [](const Placed& a, const Placed& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.attempt < b.attempt;
    });
  }

  void place() {
    std::map<model::WorkerId, TraceLanes> lanes;
    for (Placed& each : slices_) each.track = lanes[each.attempt->worker].place(each.begin_ns, each.end_ns);
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
      const fleet::Worker* known = state_.find(worker);
      const std::string name = known == nullptr ? worker.to_string() : known->spec.name;
      for (std::uint32_t i = 0; i < count_[worker]; ++i) {
        trace_.track(first + i, i == 0 ? name : name + " (" + std::to_string(i + 1) + ")");
      }
    }
  }

  void slice(const Placed& each) {
    const Attempt& attempt = *each.attempt;
    std::string arguments = "\"task\":\"" + attempt.task.to_string() +
                            "\",\"attempt\":" + std::to_string(attempt.attempt) + ",\"outcome\":";
    append_json_string(arguments, attempt.ended_ns == 0 ? "running" : attempt.end);
    arguments += ",\"wait_ns\":" + std::to_string(std::max<std::int64_t>(attempt.begun_ns - attempt.ready_ns, 0));
    arguments += ",\"why\":";
    append_json_string(arguments, attempt.why);
    if (!attempt.message.empty()) {
      arguments += ",\"message\":";
      append_json_string(arguments, attempt.message);
    }
    if (const fleet::Task* task = state_.find(attempt.task)) {
      const model::WorkflowSpec& spec = state_.at(attempt.task.workflow()).spec;
      arguments += ",\"needs\":[";
      for (const std::uint32_t need : spec.stages[task->stage].needs) {
        if (arguments.back() != '[') arguments += ',';
        append_json_string(arguments, spec.stages[need].name);
      }
      arguments += ']';
    }
    trace_.slice(each.track, each.begin_ns - origin_ns_, each.end_ns - origin_ns_, attempt.name, arguments);
  }

  // To a task's first attempt, from the task that was the last to end of each stage that it needs.
  void arrows(const Placed& each) {
    const Attempt& attempt = *each.attempt;
    const fleet::Task* task = state_.find(attempt.task);
    if (task == nullptr || attempt.attempt != 1) return;
    for (const std::uint32_t need : state_.at(attempt.task.workflow()).spec.stages[task->stage].needs) {
      const auto found = last_of_stage_.find({attempt.task.workflow(), need});
      // Of a run that was retried the one before may have run again, later.
      if (found == last_of_stage_.end() || found->second->end_ns > each.begin_ns) continue;
      if (++arrows_ > kMostArrows) return;
      const Placed& from = *found->second;
      // Within the slice that it comes from: its last nanosecond.
      trace_.arrow(arrows_, "needs", from.track, std::max(from.end_ns - 1, from.begin_ns) - origin_ns_, each.track,
                   each.begin_ns - origin_ns_);
    }
  }

  void counters() {
    std::int64_t until_ns = std::numeric_limits<std::int64_t>::max();
    if (const fleet::Workflow* workflow = state_.find(only_); workflow != nullptr && workflow->ended_ns != 0) {
      until_ns = workflow->ended_ns;
    }
    for (const Timeline::Load& load : log_.timeline.loads()) {
      if (load.at_ns < origin_ns_ || load.at_ns > until_ns) continue;
      trace_.counter("ready tasks", load.at_ns - origin_ns_, load.ready);
      trace_.counter("running tasks", load.at_ns - origin_ns_, load.running);
    }
  }

  const RunLog& log_;
  const fleet::State& state_;
  const model::WorkflowId only_;
  TraceEvents trace_;
  std::int64_t origin_ns_ = 0;
  std::vector<Placed> slices_;
  std::map<model::WorkerId, std::uint32_t> first_;  // Of its tracks.
  std::map<model::WorkerId, std::uint32_t> count_;
  std::map<std::pair<model::WorkflowId, std::uint32_t>, const Placed*> last_of_stage_;
  std::size_t arrows_ = 0;
};

}  // namespace

std::size_t write_trace(const RunLog& log, model::WorkflowId workflow, std::ostream& out) {
  return Writer(log, workflow, out).run();
}

}  // namespace rota::cli

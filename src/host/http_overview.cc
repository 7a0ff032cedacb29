// The handler for what the whole fleet does at one moment: how many tasks wait and why, and what needs a person (W-1).
//
// It reads the follower's copy. Its cost is bounded: it counts kMostCounted tasks, and explains one task of each of the
// kMostGroups largest groups of ready tasks; tasks of one shape wait for the same reason.
#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fleet/explain.h"
#include "fleet/state.h"
#include "host/http_reading.h"

namespace rota::host {

namespace {

using fleet::State;
using fleet::Task;
using fleet::TaskState;
using fleet::Worker;
using fleet::Workflow;
using model::TaskId;

constexpr std::size_t kMostCounted = 1'000'000;
constexpr std::size_t kMostGroups = 8;
constexpr std::size_t kMostAttention = 50;
constexpr std::size_t kMostFailed = 10;
constexpr std::int64_t kFailedForNs = std::int64_t{24} * 3600 * 1'000'000'000;  // How long a failed workflow is shown.

class OverviewMaker {
 public:
  OverviewMaker(const State& state, std::int64_t now_ns, OverviewView& view)
      : state_(state), now_ns_(now_ns), view_(view) {}

  void run() {
    view_.time = {state_.time_ns()};
    view_.index = state_.globals().index;
    view_.ready = state_.ready_tasks();
    count_workers();
    state_.each_workflow([&](const Workflow& workflow) { count(workflow); });
    ready_groups();
    for (auto workflow = failed_.rbegin(); workflow != failed_.rend(); ++workflow) attention_to_failed(**workflow);
    if (backoff_.tasks > 0) view_.waiting.push_back(explained(backoff_));
    if (paused_.tasks > 0) view_.waiting.push_back(explained(paused_));
    if (needs_.tasks > 0) view_.waiting.push_back(explained(needs_));
  }

 private:
  struct Group {
    std::uint64_t tasks = 0;
    TaskId example{};
    std::int64_t oldest_ns = 0;
  };

  void attention(std::string_view kind, std::string subject, std::string text) {
    if (view_.attention.size() < kMostAttention) {
      view_.attention.push_back({std::string(kind), std::move(subject), std::move(text)});
    }
  }
  static void add(Group& group, TaskId task, std::int64_t since_ns) {
    if (group.tasks++ == 0) group.example = task;
    if (since_ns > 0 && (group.oldest_ns == 0 || since_ns < group.oldest_ns)) group.oldest_ns = since_ns;
  }
  [[nodiscard]] WaitGroupView explained(const Group& group) const {
    WaitGroupView view{.tasks = group.tasks, .example = group.example.to_string(), .oldest = {group.oldest_ns}};
    if (const Result<fleet::Explanation> why = fleet::explain(state_, group.example, nullptr, now_ns_); why.ok()) {
      view.reason = to_string(why->reason);
      view.sentence = why->sentence;
    }
    return view;
  }

  void count_workers() {
    state_.each_worker([&](const Worker& worker) {
      if (worker.left) return;
      WorkerCountsView& counts = view_.workers;
      ++counts.all;
      if (worker.enabled()) {
        ++counts.usable;
        counts.cpu_millis += worker.spec.resources.cpu_millis;
        counts.memory_bytes += worker.spec.resources.memory_bytes;
      }
      counts.cpu_millis_used += worker.used.cpu_millis;
      counts.memory_bytes_used += worker.used.memory_bytes;
      if (!worker.reachable) {
        ++counts.unreachable;
        attention("worker", worker.spec.name, "is unreachable: its heartbeats are missing");
      } else if (worker.draining) {
        ++counts.draining;
      } else if (worker.disabled_by_hand || worker.disabled_elastic) {
        ++counts.disabled;
      }
    });
  }

  void count(const Workflow& workflow) {
    if (workflow.outcome == fleet::Outcome::kFailed && now_ns_ - workflow.ended_ns < kFailedForNs) {
      failed_.push_back(&workflow);
      if (failed_.size() > kMostFailed) failed_.pop_front();
    }
    if (workflow.outcome != fleet::Outcome::kRunning) return;
    ++view_.workflows_running;
    counted_ += workflow.tasks.size();
    if (counted_ > kMostCounted) {
      view_.complete = false;
      return;
    }
    for (const Task& task : workflow.tasks) {
      if (workflow.is_withdrawn(task)) continue;
      count_state(view_.states, task);
      const TaskId id = workflow.id_of(task);
      if (task.state == TaskState::kQueued) add(task.due_ns() > 0 ? backoff_ : needs_, id, task.since_ns);
      if (task.state == TaskState::kPaused) {
        add(paused_, id, task.since_ns);
        if (paused_.tasks <= 5)
          attention("paused", id.to_string(), workflow.name_of(task) + " is paused until it is resumed");
      }
      if (task.state == TaskState::kFailed) {
        attention("failed", id.to_string(),
                  workflow.name_of(task) + " failed" +
                      (task.extra == nullptr ? "" : ": " + task.extra->message.substr(0, 300)));
      }
    }
  }

  // A workflow that failed waits for a person, who retries or removes it.
  void attention_to_failed(const Workflow& workflow) {
    std::string text = workflow.spec.name + " failed";
    for (const Task& task : workflow.tasks) {
      if (task.state != TaskState::kFailed) continue;
      text += " in " + workflow.name_of(task);
      if (task.extra != nullptr && !task.extra->message.empty()) text += ": " + task.extra->message.substr(0, 300);
      break;
    }
    attention("workflow", workflow.id.to_string(), std::move(text));
  }

  void ready_groups() {
    std::vector<Group> groups;
    std::vector<std::int64_t> since;
    state_.placement().each_shape([&](fleet::ShapeRef, const fleet::Shape& shape) {
      Group group;
      const auto look = [&](const fleet::ReadyEntry& entry) {
        const Task* task = state_.find(entry.task);
        if (task == nullptr || task->state != TaskState::kReady || task->stamp != entry.stamp) return;
        add(group, entry.task, task->since_ns);
        if (since.size() < kMostCounted) since.push_back(task->since_ns);
      };
      for (const auto& [key, ready] : shape.classes) {
        for (const fleet::ReadyEntry& entry : ready.queue) look(entry);
        for (const fleet::ReadyEntry& entry : ready.stragglers) look(entry);
      }
      if (group.tasks > 0) groups.push_back(group);
    });
    std::sort(since.begin(), since.end());
    const auto waited_ms = [&](std::size_t percent) -> std::uint64_t {
      if (since.empty()) return 0;
      const std::int64_t ns = since[(since.size() - 1) * (100 - percent) / 100];
      return static_cast<std::uint64_t>(std::max<std::int64_t>(now_ns_ - ns, 0) / 1'000'000);
    };
    view_.wait_p50_ms = waited_ms(50);
    view_.wait_p95_ms = waited_ms(95);
    view_.wait_most_ms = waited_ms(100);
    std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.tasks > b.tasks; });
    std::uint64_t more = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (i >= kMostGroups) {
        more += groups[i].tasks;
        continue;
      }
      WaitGroupView view = explained(groups[i]);
      if (view.reason == "unplaceable") attention("unplaceable", view.example, view.sentence);
      view_.waiting.push_back(std::move(view));
    }
    if (more > 0) view_.waiting.push_back({.reason = "other", .tasks = more});
  }

  const State& state_;
  const std::int64_t now_ns_;
  OverviewView& view_;
  std::size_t counted_ = 0;
  std::deque<const Workflow*> failed_;  // The last ones.
  Group needs_;
  Group backoff_;
  Group paused_;
};

}  // namespace

namespace routes {

Result<net::HttpResponse> get_overview(HttpCall& call) {
  return answer_shared<OverviewView>(call, [&](const State& state, OverviewView& view) -> Result<void> {
    view.first_index = call.services.tail.first_index();
    OverviewMaker(state, call.integer("at") ? state.time_ns() : call.services.wall_ns(), view).run();
    return {};
  });
}

}  // namespace routes

}  // namespace rota::host

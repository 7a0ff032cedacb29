// How long tasks are expected to run, and how far each is from the end of its workflow (B-25).
#include <algorithm>
#include <bit>
#include <limits>

#include "fleet/codec.h"
#include "fleet/state.h"

namespace rota::fleet {

namespace {

// Of work that nothing is known about. With nothing else known, a path is as long as it has hops.
constexpr std::int64_t kUnknownNs = 1'000'000'000;
constexpr std::int64_t kMostPathNs = std::int64_t{1} << 60;

}  // namespace

std::optional<std::int64_t> State::known_run_ns(const Workflow& workflow, const Task& task) const {
  if (!globals_.run_times.empty()) {
    const Stage& stage = workflow.spec.stages[task.stage];
    const auto at = workflow.stages[task.stage].number(static_cast<std::uint32_t>(&task - workflow.tasks.data()));
    const std::string_view item = at < stage.items.size() ? std::string_view(stage.items[at]) : std::string_view();
    if (const auto same = globals_.run_times.find(key_of_task(workflow.spec.name, stage.name, item))) return same;
    if (const auto work = globals_.run_times.find(workflow.info_of(task).work)) return work;
  }
  const std::int64_t hint = workflow.template_of(task).expect_ms;
  if (hint > 0) return hint * graph::kNsPerMs;
  return std::nullopt;
}

void State::learn(const Workflow& workflow, const Task& task, const Command& cause) {
  const bool ranks = policy().order == Order::kCriticalPath;
  if (!ranks && policy().max_queue_per_worker == 0) return;  // Nothing would use it.
  const auto* report = std::get_if<ReportEnded>(&cause);
  if (report == nullptr || report->outcome.reused || task.started_ns == 0) return;
  const std::int64_t ran_ns = task.ended_ns - task.started_ns;
  RunTimes& times = globals_.run_times;
  if (!ranks) {
    times.learn(workflow.info_of(task).work, ran_ns);
    return;
  }
  // Times are those of a mean worker: what ran on a slow kind of worker counts for less.
  std::int64_t slowness = 1000;
  if (const Worker* worker = find(task.worker); worker != nullptr && placement_.kinds().size() > 1) {
    const RunKey kind = key_of_kind(placement_.kinds()[worker->kind].salt);
    const std::optional<std::int64_t> expected = known_run_ns(workflow, task);
    if (expected)
      times.learn(kind, std::clamp<std::int64_t>(ran_ns / std::max<std::int64_t>(*expected / 1000, 1), 10, 100'000));
    slowness = times.find(kind).value_or(1000);
  }
  const std::int64_t normal_ns = ran_ns / slowness * 1000 + ran_ns % slowness * 1000 / slowness;
  const Stage& stage = workflow.spec.stages[task.stage];
  const auto at = workflow.stages[task.stage].number(static_cast<std::uint32_t>(&task - workflow.tasks.data()));
  const std::string_view item = at < stage.items.size() ? std::string_view(stage.items[at]) : std::string_view();
  times.learn(key_of_task(workflow.spec.name, stage.name, item), normal_ns);
  times.learn(workflow.info_of(task).work, normal_ns);
}

std::uint32_t State::path_of(const Workflow& workflow, const Task& task) const {
  if (workflow.tails.empty()) return 0;
  const std::int64_t own_ns = std::min(kMostPathNs, known_run_ns(workflow, task).value_or(kUnknownNs));
  const std::int64_t path_ms = (own_ns + workflow.tails[task.stage]) / graph::kNsPerMs;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(path_ms, std::numeric_limits<std::uint32_t>::max()));
}

// The tail of a stage: the longest path from its end to the end of the workflow.
void State::rank(Workflow& workflow) {
  std::vector<std::uint32_t> order(workflow.stages.size());
  for (std::uint32_t s = 0; s < order.size(); ++s) order[workflow.dag.order(graph::TaskRef(s + 1))] = s;
  std::vector<std::int64_t> tails(order.size());
  std::vector<std::int64_t> from_start(order.size());
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const StageState& stage = workflow.stages[*at];
    for (const graph::TaskRef child : workflow.dag.children(graph::TaskRef(*at + 1))) {
      tails[*at] = std::max(tails[*at], from_start[child.value() - 1]);
    }
    std::int64_t longest = 0;
    for (const std::uint32_t t : stage.tasks()) {
      longest = std::max(longest, known_run_ns(workflow, workflow.tasks[t]).value_or(kUnknownNs));
    }
    from_start[*at] = std::min(kMostPathNs, tails[*at] + longest);
  }
  const bool moved = tails != workflow.tails;
  Workflow& edited = moved ? edit(workflow.id) : workflow;
  if (moved) {
    edited.tails = std::move(tails);
    edited.tails_hash = rota::hash_of(edited.tails);
  }
  // Also with the same tails: the expected run times of the ready tasks themselves may have changed.
  for (Task& task : edited.tasks) {
    if (task.state != TaskState::kReady) continue;
    const std::uint32_t path_ms = path_of(edited, task);
    if (path_ms == task.path_ms) continue;
    const bool pushed = task.shape != kNoShape;
    if (pushed) placement_.remove(*this, edited, task);
    edit(edited, task).path_ms = path_ms;
    if (pushed) placement_.push(*this, edited, task);
  }
}

// What was learned from its first tasks changes the paths of the others: they are computed again after 1, 2, 4, 8, ...
// tasks, so that a large workflow costs little.
void State::rank_again(Workflow& workflow) {
  if (policy().order != Order::kCriticalPath) return;
  const std::size_t done = workflow.tasks.size() - workflow.unfinished;
  if (workflow.unfinished > 0 && std::has_single_bit(done)) rank(workflow);
}

}  // namespace rota::fleet

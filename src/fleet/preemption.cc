// Which tasks make room for one of higher priority (B-22).
//
// The fewest possible are stopped, on one worker where the task may run. To find the fewest, sets of candidates are
// tried by their size: all sets of one, then of two, and so on, up to a bound on the number of sets that are tried.
// Beyond the bound the candidates are taken in the order of their priorities, and those that turn out not to be needed
// are left running.
#include <algorithm>
#include <limits>

#include "fleet/dispatch_mode.h"
#include "fleet/placement.h"
#include "rota/graph/ready_order.h"

namespace rota::fleet {

namespace {

constexpr int kMostSets = 2'000;

struct Victim {
  std::int32_t priority;
  const Execution* execution;
};

// The victim was ahead of the task in the ready order when it was assigned: its turn was first, because it had waited
// for longer. To stop it would undo that decision, again and again at one instant (B-4, B-23). A task that became ready
// later is compared by its priority alone: what runs does not age.
bool was_ahead(const State& state, const Task& victim, const Task& task) {
  if (task.since_ns > victim.assigned_ns) return false;
  const Policy& policy = state.policy();
  const auto then = [&](const Task& one) {
    return graph::aged_priority(one.priority, victim.assigned_ns - one.since_ns,
                                policy.aging_interval_ms * graph::kNsPerMs, policy.aging_boost);
  };
  return then(victim) >= then(task);
}

class Search {
 public:
  Search(const Worker& worker, const Requirements& needs, bool alone, ResourceUse used, std::vector<Victim> victims,
         std::size_t running)
      : resources_(worker.spec.resources),
        needs_(needs),
        suitable_(resources_.suitable_devices(needs.gpu)),
        alone_(alone),
        running_(running),
        used_(std::move(used)),
        victims_(std::move(victims)) {}

  [[nodiscard]] bool fits_without_any() { return fits(0); }

  // The smallest set after which the task fits; empty if there is none. Among sets of one size, the one whose highest
  // priority is the lowest: candidates are tried in that order.
  std::vector<Victim> smallest() {
    if (!fits_without(victims_)) return {};
    for (std::size_t size = 1; size < victims_.size(); ++size) {
      std::vector<Victim> set;
      if (extend(set, victims_.size(), size)) return set;
      if (tried_ >= kMostSets) return greedy();
    }
    return victims_;
  }

 private:
  [[nodiscard]] bool fits(std::size_t stopped) const {
    if (alone_) return stopped >= running_;
    return resources_.fits(needs_, used_, suitable_);
  }
  [[nodiscard]] bool fits_without(const std::vector<Victim>& set) {
    for (const Victim& victim : set) used_.subtract(victim.execution->held);
    const bool fit = fits(set.size());
    for (const Victim& victim : set) used_.add(victim.execution->held);
    return fit;
  }
  // Adds `more` of the candidates before `end`.
  bool extend(std::vector<Victim>& set, std::size_t end, std::size_t more) {
    if (more == 0) return ++tried_ <= kMostSets && fits_without(set);
    for (std::size_t i = more - 1; i < end && tried_ < kMostSets; ++i) {
      set.push_back(victims_[i]);
      if (extend(set, i, more - 1)) return true;
      set.pop_back();
    }
    return false;
  }
  std::vector<Victim> greedy() {
    std::vector<Victim> set;
    for (const Victim& victim : victims_) {
      if (fits_without(set)) break;
      set.push_back(victim);
    }
    for (std::size_t i = set.size(); i > 0; --i) {  // The highest priorities first: they run on if they can.
      std::vector<Victim> fewer = set;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i - 1));
      if (fits_without(fewer)) set = std::move(fewer);
    }
    return set;
  }

  const Resources& resources_;
  const Requirements& needs_;
  const DeviceSet suitable_;
  const bool alone_;           // A worker runs one task at a time.
  const std::size_t running_;  // Executions that do not stop already.
  ResourceUse used_;
  const std::vector<Victim> victims_;
  int tried_ = 0;
};

}  // namespace

Victims choose_victims(const State& state, TaskId id) {
  const Task& task = state.at(id);
  const Shape& shape = state.placement().shape(task.shape);
  const ShapeKey& key = shape.key;
  Victims best;
  std::int64_t best_priority = std::numeric_limits<std::int64_t>::max();
  bool waits = false;                            // Enough tasks stop already on some worker: it need not stop more.
  state.each_worker([&](const Worker& worker) {  // Visits every worker: preemption is rare.
    if (waits || !worker.takes_tasks() || worker.queued > 0 || works_for_another(state, key, worker) ||
        !PlacementIndex::permits(state, shape, worker)) {
      return;
    }
    ResourceUse used = worker.used;
    std::size_t stopping = 0;
    std::vector<Victim> victims;
    for (const Execution& execution : worker.executions) {
      const auto stops = [&](TaskId member) { return state.at(member).stopping; };
      if (std::all_of(execution.members.begin(), execution.members.end(), stops)) {
        used.subtract(execution.held);
        ++stopping;
        continue;
      }
      const TaskId running = execution.members.front();
      const Task& victim = state.at(running);
      if (execution.members.size() == 1 && victim.state == TaskState::kRunning && victim.priority < task.priority &&
          state.at(running.workflow()).template_of(victim).preemptible && !was_ahead(state, victim, task)) {
        victims.push_back({victim.priority, &execution});
      }
    }
    // What is kept for others is not free.
    for (const TaskId other : worker.reserved) {
      const ShapeKey& reserving = state.placement().shape(state.at(other).shape).key;
      if (!worker.spec.resources.fits(reserving.needs, used)) return;
      used.add(worker.spec.resources.allot(reserving.needs, used));
    }
    std::sort(victims.begin(), victims.end(), [](const Victim& a, const Victim& b) {
      return a.priority != b.priority ? a.priority < b.priority
                                      : a.execution->members.front() > b.execution->members.front();
    });
    const bool alone = dispatch_rules(state).one_task_per_worker;
    if (alone && !worker.reserved.empty()) return;
    Search search(worker, key.needs, alone, std::move(used), std::move(victims), worker.depth() - stopping);
    if (search.fits_without_any()) {
      waits = true;
      return;
    }
    const std::vector<Victim> chosen = search.smallest();
    if (chosen.empty()) return;
    std::int64_t highest = std::numeric_limits<std::int64_t>::min();
    for (const Victim& victim : chosen) highest = std::max<std::int64_t>(highest, victim.priority);
    if (!best.tasks.empty() &&
        (chosen.size() > best.tasks.size() || (chosen.size() == best.tasks.size() && highest >= best_priority))) {
      return;
    }
    best = {worker.id, {}};
    best_priority = highest;
    for (const Victim& victim : chosen) best.tasks.push_back(victim.execution->members.front());
  });
  return waits ? Victims() : best;
}

}  // namespace rota::fleet

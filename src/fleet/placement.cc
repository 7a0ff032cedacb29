// Chooses one of the workers that could take a task.
#include "fleet/placement.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "fleet/dispatch_mode.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {

constexpr std::size_t kMostHits = 16;  // Matching items beyond this number are not counted.

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
// A number for task and worker that breaks ties. Its upper bits depend on the worker's group of 64, the lower ones on
// the worker: the greatest of n is found among the workers of the best of n / 64 groups.
constexpr int kMemberBits = 54;
std::uint64_t group_tie(std::uint64_t task, const Kind& kind, std::uint32_t group) {
  return mix(task ^ (kind.salt + group * 0x9e3779b97f4a7c15U)) >> kMemberBits;
}
std::uint64_t full_tie(std::uint64_t group, std::uint64_t task, WorkerId worker) {
  return group << kMemberBits | mix(task + worker.value() * 0x9e3779b97f4a7c15U) >> (64 - kMemberBits);
}

// The candidates for a task of one shape, as bits by kind and slot.
class Candidates {
 public:
  Candidates(const State& state, const Shape& shape, bool queue) : kinds_(state.placement().kinds()) {
    masks_.reserve(kinds_.size());
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const Fit& fit = shape.fits[i];
      masks_.push_back((queue ? fit.queue : fit.start) == 0 ? nullptr : queue ? &fit.queue_mask : &fit.start_mask);
    }
  }

  // f(kind, word number, bits)
  template <class F>
  void each_word(F&& f) const {
    for (std::size_t k = 0; k < masks_.size(); ++k) {
      if (masks_[k] == nullptr) continue;
      for (std::size_t w = 0; w < masks_[k]->size(); ++w) {
        std::uint64_t bits = (*masks_[k])[w];
        if (bits != 0 && hits_ > 0) bits = with_hits(k, w, bits);
        if (bits != 0) f(k, w, bits);
      }
    }
  }
  // f(worker)
  template <class F>
  void each(F&& f) const {
    each_word([&](std::size_t k, std::size_t w, std::uint64_t bits) {
      for (; bits != 0; bits &= bits - 1) {
        f(kinds_[k].members[w * 64 + static_cast<std::size_t>(std::countr_zero(bits))]);
      }
    });
  }

  // Keeps the candidates with the most matching items (B-10), and returns how many items these have.
  std::uint32_t keep_best_hits(const Shape& shape) {
    if (shape.holders.empty()) return 0;
    holders_ = &shape.holders;
    for (hits_ = std::min(shape.holders.size(), kMostHits); hits_ > 0; --hits_) {
      bool any = false;
      each_word([&](std::size_t, std::size_t, std::uint64_t) { any = true; });
      if (any) break;
    }
    return static_cast<std::uint32_t>(hits_);
  }

 private:
  // Those of `bits` that have at least hits_ of the items.
  [[nodiscard]] std::uint64_t with_hits(std::size_t k, std::size_t w, std::uint64_t bits) const {
    std::array<std::uint64_t, kMostHits + 1> at_least{};
    at_least[0] = bits;
    for (const CacheHolders* holders : *holders_) {
      if (k >= holders->mask.size() || w >= holders->mask[k].size()) continue;
      for (std::size_t n = hits_; n > 0; --n) at_least[n] |= at_least[n - 1] & holders->mask[k][w];
    }
    return at_least[hits_];
  }

  const std::vector<Kind>& kinds_;
  std::vector<const std::vector<std::uint64_t>*> masks_;
  const std::vector<const CacheHolders*>* holders_ = nullptr;
  std::size_t hits_ = 0;
};

struct Best {
  std::int64_t score = std::numeric_limits<std::int64_t>::min();  // With the jitter.
  std::uint64_t tie = 0;
  WorkerId worker{};
  std::size_t kind = 0;
};

// The best by score and jitter: the same as comparing score_of() + jitter_of() of all candidates.
Best best_by_score(const State& state, TaskId task, Category category, const Candidates& candidates, bool score) {
  const Policy& policy = state.policy();
  const auto& kinds = state.placement().kinds();
  const std::uint64_t seed = mix(task.value());
  Best best;
  std::size_t at_kind = ~std::size_t{0};
  std::int64_t base = 0;
  std::uint64_t best_group = 0;  // Of the present kind.
  bool any_group = false;
  candidates.each_word([&](std::size_t k, std::size_t w, std::uint64_t bits) {
    if (k != at_kind) {
      at_kind = k;
      base = score ? score_of(policy, category, kinds[k]) : 0;
      any_group = false;
    }
    if (base + policy.jitter < best.score) return;
    const std::uint64_t group = group_tie(seed, kinds[k], static_cast<std::uint32_t>(w));
    if (any_group && group < best_group) return;
    best_group = group;
    any_group = true;
    for (; bits != 0; bits &= bits - 1) {
      const WorkerId worker = kinds[k].members[w * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
      const std::uint64_t tie = full_tie(group, seed, worker);
      const std::int64_t total = base + (score ? jitter_of(policy, tie) : 0);
      if (total > best.score ||
          (total == best.score && (tie > best.tie || (tie == best.tie && worker < best.worker)))) {
        best = {total, tie, worker, k};
      }
    }
  });
  return best;
}

WorkerId least_loaded(const State& state, const Candidates& candidates) {
  const Worker* best = nullptr;
  candidates.each([&](WorkerId id) {
    const Worker& worker = state.at(id);
    if (best == nullptr || worker.depth() < best->depth() || (worker.depth() == best->depth() && id < best->id))
      best = &worker;
  });
  return best->id;
}

WorkerId next_after(WorkerId last, const Candidates& candidates) {
  WorkerId first;
  WorkerId after;
  candidates.each([&](WorkerId id) {
    if (first.is_none() || id < first) first = id;
    if (id > last && (after.is_none() || id < after)) after = id;
  });
  return after.is_none() ? first : after;
}

// The worker of the first stage that the task needs, whose output it reads.
const Worker* where_before(const State& state, TaskId id) {
  const Workflow& workflow = state.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  std::uint32_t first = ~0U;
  for (const graph::TaskRef parent : workflow.dag.parents(graph::TaskRef(task.stage + 1))) {
    first = std::min(first, parent.value() - 1);
  }
  if (first == ~0U) return nullptr;
  return state.find(workflow.tasks[workflow.stages[first].first].worker);
}

void by_affinity(const State& state, TaskId id, Candidates& candidates, const Shape& shape, Choice& choice) {
  choice.reasoning.why = Why::kAffinity;
  choice.reasoning.reuse_hits = candidates.keep_best_hits(shape);
  if (choice.reasoning.reuse_hits > 0) {
    choice.reasoning.affinity = Affinity::kDataLocality;
    choice.worker = least_loaded(state, candidates);
    return;
  }
  const Worker* before = where_before(state, id);
  WorkerId same_zone;
  bool there = false;
  if (before != nullptr) {
    candidates.each([&](WorkerId worker) {
      there = there || worker == before->id;
      const bool near = !before->spec.zone.empty() && state.at(worker).spec.zone == before->spec.zone;
      if (near && (same_zone.is_none() || worker < same_zone)) same_zone = worker;
    });
  }
  if (there) {
    choice.reasoning.affinity = Affinity::kPreviouslyExecuted;
    choice.worker = before->id;
  } else if (!same_zone.is_none()) {
    choice.reasoning.affinity = Affinity::kSameZone;
    choice.worker = same_zone;
  } else {
    choice.reasoning.why = Why::kLeastLoaded;
    choice.worker = least_loaded(state, candidates);
    choice.reasoning.queue_depth = state.at(choice.worker).depth();
  }
}

void by_selection(const State& state, TaskId id, const Shape& shape, Candidates& candidates, Choice& choice) {
  const Policy& policy = state.policy();
  const auto& kinds = state.placement().kinds();
  Reasoning& why = choice.reasoning;
  switch (dispatch_rules(state).selection.value_or(policy.selection)) {
    case Selection::kScore: {
      if (policy.context_reuse) why.reuse_hits = candidates.keep_best_hits(shape);
      const Best best = best_by_score(state, id, shape.key.category, candidates, true);
      choice.worker = best.worker;
      why.why = Why::kScore;
      why.lambda = lambda_of(policy, shape.key.category);
      why.throughput = kinds[best.kind].throughput_scaled;
      why.cost = kinds[best.kind].cost_scaled;
      why.jitter = jitter_of(policy, best.tie);
      why.score = best.score;
      return;
    }
    case Selection::kFirstFit:
      why.why = Why::kFirstFit;
      choice.worker = next_after(WorkerId(), candidates);
      return;
    case Selection::kMinSatisfying: {
      const Worker* best = nullptr;
      candidates.each_word([&](std::size_t k, std::size_t w, std::uint64_t bits) {
        const Worker& worker = state.at(kinds[k].members[w * 64 + static_cast<std::size_t>(std::countr_zero(bits))]);
        const std::int64_t most = best == nullptr ? 0 : kinds[best->kind].throughput;
        if (best == nullptr || kinds[k].throughput < most || (kinds[k].throughput == most && worker.id < best->id))
          best = &worker;
      });
      choice.worker = best->id;
      why.why = Why::kResourceFit;
      why.available = best->spec.resources.cpu_millis - best->used.cpu_millis;
      why.required = shape.key.needs.cpu_millis;
      return;
    }
    case Selection::kRoundRobin:
      why.why = Why::kRoundRobin;
      choice.worker = next_after(state.globals().last_assigned, candidates);
      return;
    case Selection::kLeastLoaded:
      why.why = Why::kLeastLoaded;
      choice.worker = least_loaded(state, candidates);
      why.queue_depth = state.at(choice.worker).depth();
      return;
    case Selection::kRandom:
      why.why = Why::kRandom;
      choice.worker = best_by_score(state, id, shape.key.category, candidates, false).worker;
      return;
    case Selection::kCustom: {
      std::vector<WorkerId> all;
      candidates.each([&](WorkerId worker) { all.push_back(worker); });
      std::sort(all.begin(), all.end());
      ROTA_ASSERT(state.selector() != nullptr, "Brain::use_selector() comes first");
      why.why = Why::kCustom;
      choice.worker = state.selector()(state, id, all);
      ROTA_ASSERT(std::binary_search(all.begin(), all.end(), choice.worker), "a selector takes one of the candidates");
      return;
    }
    case Selection::kAffinity:
      by_affinity(state, id, candidates, shape, choice);
      return;
  }
}

}  // namespace

std::int64_t lambda_of(const Policy& policy, Category category) {
  switch (category) {
    case Category::kInference:
      return policy.lambda_inference;
    case Category::kTraining:
      return policy.lambda_training;
    case Category::kOther:
      break;
  }
  return policy.lambda_other;
}

std::int64_t score_of(const Policy& policy, Category category, const Kind& kind) {
  const std::int64_t lambda = lambda_of(policy, category);
  return (lambda * kind.throughput_scaled - (kOne - lambda) * kind.cost_scaled) / kOne;
}

std::int64_t jitter_of(const Policy& policy, std::uint64_t tie) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(tie) * static_cast<std::uint64_t>(policy.jitter) >> 64);
}

Choice choose_worker(const State& state, TaskId id) {
  const Task& task = state.at(id);
  const Shape& shape = state.placement().shape(task.shape);
  Choice choice;
  choice.queued = shape.start == 0;
  Candidates candidates(state, shape, choice.queued);
  const std::uint32_t count = choice.queued ? shape.queue : shape.start;
  ROTA_ASSERT(count > 0, "an open shape");
  if (count == 1) {
    candidates.each([&](WorkerId worker) { choice.worker = worker; });
    choice.reasoning.why = Why::kOnlyWorkerAvailable;
  } else if (choice.queued) {
    choice.worker = least_loaded(state, candidates);
    choice.reasoning.why = Why::kLeastLoaded;
    choice.reasoning.queue_depth = state.at(choice.worker).depth();
  } else {
    by_selection(state, id, shape, candidates, choice);
  }
  if (!shape.key.only.is_none()) choice.reasoning.why = Why::kSticky;
  if (!shape.key.pinned.empty() || !bound_worker(state, shape.key).is_none()) choice.reasoning.why = Why::kPinned;
  choice.reasoning.candidates = count;
  const Worker& worker = state.at(choice.worker);
  if (!choice.queued && shape.key.needs.gpu.count > 0) {
    choice.devices = worker.spec.resources.allot(shape.key.needs, worker.used).devices;
  }
  return choice;
}

std::vector<Choice> choose_gang(const State& state, ShapeRef ref, const std::vector<TaskId>& tasks) {
  const Shape& shape = state.placement().shape(ref);
  const Policy& policy = state.policy();
  const DispatchRules& rules = dispatch_rules(state);
  const auto& kinds = state.placement().kinds();
  struct Place {
    std::int64_t score;
    const Worker* worker;
  };
  std::vector<Place> places;  // All candidates: a gang is packed onto the best workers.
  Candidates(state, shape, false).each([&](WorkerId id) {
    const Worker& worker = state.at(id);
    places.push_back({score_of(policy, shape.key.category, kinds[worker.kind]), &worker});
  });
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return a.score != b.score ? a.score > b.score : a.worker->id < b.worker->id;
  });
  std::vector<Choice> choices;
  const Requirements& needs = shape.key.needs;
  for (const Place& place : places) {
    const Worker& worker = *place.worker;
    ResourceUse used = worker.used;
    const DeviceSet suitable = shape.fits[worker.kind].devices;
    while (choices.size() < tasks.size() && worker.spec.resources.fits(needs, used, suitable)) {
      const ResourceUse held = worker.spec.resources.allot(needs, used);
      used.add(held);
      Choice& choice = choices.emplace_back();
      choice.worker = worker.id;
      choice.devices = held.devices;
      choice.reasoning.candidates = static_cast<std::uint32_t>(places.size());
      if (places.size() > 1) {
        choice.reasoning.why = Why::kScore;
        choice.reasoning.score = place.score;
        choice.reasoning.lambda = lambda_of(policy, shape.key.category);
        choice.reasoning.throughput = kinds[worker.kind].throughput_scaled;
        choice.reasoning.cost = kinds[worker.kind].cost_scaled;
      }
      if (rules.one_task_per_worker) break;
    }
    if (choices.size() == tasks.size()) return choices;
    if (rules.binding != Binding::kNone) choices.clear();
  }
  return {};
}

std::vector<TaskId> choose_victims(const State& state, TaskId id) {
  const Workflow& workflow = state.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  const ShapeKey& key = state.placement().shape(task.shape).key;
  std::vector<TaskId> best;
  std::int64_t best_priority = std::numeric_limits<std::int64_t>::max();
  state.each_worker([&](const Worker& worker) {  // Visits every worker: preemption is rare.
    if (!worker.takes_tasks() || worker.queued > 0 || !meets(worker.spec, key.needs, key.handler)) return;
    if ((!key.only.is_none() && key.only != worker.id) || (!key.pinned.empty() && key.pinned != worker.spec.name))
      return;
    struct Victim {
      std::int32_t priority;
      const Execution* execution;
    };
    std::vector<Victim> victims;
    for (const Execution& execution : worker.executions) {
      const TaskId running = execution.members.front();
      const Task& victim = state.at(running);
      if (execution.members.size() == 1 && victim.state == TaskState::kRunning && !victim.stopping &&
          victim.priority < task.priority && state.at(running.workflow()).template_of(victim).preemptible) {
        victims.push_back({victim.priority, &execution});
      }
    }
    std::sort(victims.begin(), victims.end(), [](const Victim& a, const Victim& b) {
      return a.priority != b.priority ? a.priority < b.priority
                                      : a.execution->members.front() > b.execution->members.front();
    });
    ResourceUse used = worker.used;
    const DeviceSet suitable = worker.spec.resources.suitable_devices(key.needs.gpu);
    std::vector<TaskId> chosen;
    std::int64_t highest = std::numeric_limits<std::int64_t>::min();
    const auto fits = [&] { return worker.spec.resources.fits(key.needs, used, suitable); };
    for (const Victim& victim : victims) {
      if (fits()) break;
      used.subtract(victim.execution->held);
      chosen.push_back(victim.execution->members.front());
      highest = victim.priority;
    }
    if (!fits() || chosen.empty()) return;
    if (best.empty() || chosen.size() < best.size() || (chosen.size() == best.size() && highest < best_priority)) {
      best = std::move(chosen);
      best_priority = highest;
    }
  });
  return best;
}

}  // namespace rota::fleet

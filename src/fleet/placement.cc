// Chooses one of the workers that could take a task.
#include "fleet/placement.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "fleet/dispatch_mode.h"
#include "fleet/draw.h"
#include "fleet/input_files.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {

constexpr std::size_t kMostHits = 16;  // Matching items beyond this number are not counted.

// The candidates for a task, as bits by kind and slot.
class Candidates {
 public:
  Candidates(const State& state, Takers takers) : kinds_(state.placement().kinds()), words_(std::move(takers.words)) {
    if (takers.only.is_none()) return;
    const Worker& worker = state.at(takers.only);
    words_.push_back({worker.kind, worker.slot / 64, 1ULL << worker.slot % 64});
  }

  // f(kind, word number, bits)
  template <class F>
  void each_word(F&& f) const {
    for (const WorkerWord& word : words_) f(word.kind, word.word, word.bits);
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

  // Keeps the candidates of the kinds for which `keep` is true.
  template <class Keep>
  void keep_kinds(Keep&& keep) {
    std::erase_if(words_, [&](const WorkerWord& word) { return !keep(word.kind); });
  }
  // Keeps the candidates in this zone, if there are any. Workers of one kind are in one zone.
  void keep_zone(const std::string& zone) {
    const auto there = [&](std::size_t k) { return kinds_[k].spec.zone == zone; };
    if (std::any_of(words_.begin(), words_.end(), [&](const WorkerWord& word) { return there(word.kind); })) {
      keep_kinds(there);
    }
  }
  [[nodiscard]] bool has(const Worker& worker) const {
    return std::any_of(words_.begin(), words_.end(), [&](const WorkerWord& word) {
      return word.kind == worker.kind && word.word == worker.slot / 64 && (word.bits >> worker.slot % 64 & 1U) != 0;
    });
  }

  // Keeps the candidates with the most matching items (B-10), and returns how many items these have.
  std::uint32_t keep_best_hits(const std::vector<const CacheHolders*>& holders) {
    for (std::size_t hits = std::min(holders.size(), kMostHits); hits > 0; --hits) {
      std::vector<WorkerWord> with;
      for (const WorkerWord& word : words_) {
        if (const std::uint64_t bits = with_hits(word, holders, hits); bits != 0) {
          with.push_back({word.kind, word.word, bits});
        }
      }
      if (with.empty()) continue;
      words_ = std::move(with);
      return static_cast<std::uint32_t>(hits);
    }
    return 0;
  }

 private:
  // Those of the workers that have at least `hits` of the items.
  [[nodiscard]] static std::uint64_t with_hits(const WorkerWord& word, const std::vector<const CacheHolders*>& all,
                                               std::size_t hits) {
    std::array<std::uint64_t, kMostHits + 1> at_least{};
    at_least[0] = word.bits;
    for (const CacheHolders* holders : all) {
      if (word.kind >= holders->mask.size() || word.word >= holders->mask[word.kind].size()) continue;
      for (std::size_t n = hits; n > 0; --n) at_least[n] |= at_least[n - 1] & holders->mask[word.kind][word.word];
    }
    return at_least[hits];
  }

  const std::vector<Kind>& kinds_;
  std::vector<WorkerWord> words_;
};

// What of the template decides the choice.
struct Preference {
  Category category = Category::kOther;
  std::vector<const CacheHolders*> holders{};
};
Preference preference_of(const State& state, TaskId id) {
  const Workflow& workflow = state.at(id.workflow());
  const TaskTemplate& use = workflow.template_of(workflow.tasks[id.index()]);
  const DispatchRules& rules = dispatch_rules(state);
  Preference found;
  if (rules.checks_requirements) found.category = use.category;
  const bool context = state.policy().context_reuse || state.policy().selection == Selection::kAffinity;
  if (rules.uses_context && context) {
    if (!use.context.empty()) found.holders = state.placement().holders_of(use.context);
    if (use.spec.files) {
      const std::vector<const CacheHolders*> files = state.placement().holders_of(wanted_files(state, id));
      found.holders.insert(found.holders.end(), files.begin(), files.end());
    }
  }
  return found;
}

// Where the bit with `rank` bits below it is. REQUIRES: the word has more bits than that.
std::size_t place_of_bit(std::uint64_t word, std::uint64_t rank) {
  for (; rank > 0; --rank) word &= word - 1;
  return static_cast<std::size_t>(std::countr_zero(word));
}

// The candidates of one kind.
struct Group {
  std::size_t kind = 0;
  std::uint64_t count = 0;
};

std::vector<Group> groups_of(const Candidates& candidates) {
  std::vector<Group> groups;
  candidates.each_word([&](std::size_t k, std::size_t, std::uint64_t bits) {
    if (groups.empty() || groups.back().kind != k) groups.push_back({k, 0});
    groups.back().count += static_cast<std::uint64_t>(std::popcount(bits));
  });
  return groups;
}

// The candidate with this rank among those of the kinds for which `of_kind` is true. Slots are data of the state, so
// that the order does not depend on the history of the index.
template <class OfKind>
WorkerId candidate_at(const State& state, const Candidates& candidates, std::uint64_t rank, OfKind&& of_kind) {
  WorkerId found;
  candidates.each_word([&](std::size_t k, std::size_t w, std::uint64_t bits) {
    if (!found.is_none() || !of_kind(k)) return;
    const auto here = static_cast<std::uint64_t>(std::popcount(bits));
    if (rank >= here) {
      rank -= here;
      return;
    }
    found = state.placement().kinds()[k].members[w * 64 + place_of_bit(bits, rank)];
  });
  return found;
}

// A number for one attempt at a task: a retry draws again.
std::uint64_t seed_of(const State& state, TaskId task) {
  return mix(task.value() * 0x9e3779b97f4a7c15U + state.at(task).attempt.value());
}

WorkerId drawn_at_random(const State& state, TaskId task, const Candidates& candidates) {
  std::uint64_t count = 0;
  for (const Group& group : groups_of(candidates)) count += group.count;
  const std::uint64_t rank = draw_below(mix(seed_of(state, task) + 1), count);
  return candidate_at(state, candidates, rank, [](std::size_t) { return true; });
}

struct Best {
  std::int64_t score = std::numeric_limits<std::int64_t>::min();  // With the jitter.
  std::int64_t jitter = 0;
  WorkerId worker{};
  std::size_t kind = 0;
};

// The best by score and jitter. Each candidate has a jitter of its own, evenly spread and independent of the others:
// the largest of each kind is drawn, and then one of the workers of the best kind, each with the same chance.
Best best_by_score(const State& state, TaskId task, Category category, const Candidates& candidates) {
  const Policy& policy = state.policy();
  const auto& kinds = state.placement().kinds();
  const std::uint64_t seed = seed_of(state, task);
  const std::vector<Group> groups = groups_of(candidates);
  std::int64_t most = std::numeric_limits<std::int64_t>::min();
  for (const Group& group : groups) most = std::max(most, score_of(policy, category, kinds[group.kind]));
  Best best;
  std::uint64_t count = 0;
  for (const Group& group : groups) {
    const std::int64_t base = score_of(policy, category, kinds[group.kind]);
    if (base < most && base + policy.jitter <= most) continue;
    const std::uint64_t uniform = mix(seed ^ kinds[group.kind].salt);
    const std::int64_t jitter = jitter_of(policy, groups.size() == 1 ? uniform : largest_of(uniform, group.count));
    if (base + jitter < best.score || (base + jitter == best.score && kinds[group.kind].salt > kinds[best.kind].salt))
      continue;
    best = {base + jitter, jitter, {}, group.kind};
    count = group.count;
  }
  const std::uint64_t rank = draw_below(mix(seed + 1), count);
  best.worker = candidate_at(state, candidates, rank, [&](std::size_t k) { return k == best.kind; });
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

void by_affinity(const State& state, TaskId id, Candidates& candidates, const Preference& wants, Choice& choice) {
  choice.reasoning.why = Why::kAffinity;
  choice.reasoning.reuse_hits = candidates.keep_best_hits(wants.holders);
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

// Policy::prefer_locality: the worker where the task's first predecessor ran, if it is a candidate. Otherwise only the
// candidates of that worker's zone compete, if there are any, and the selection decides.
bool by_locality(const State& state, TaskId id, Candidates& candidates, Choice& choice) {
  if (!state.policy().prefer_locality || dispatch_rules(state).selection) return false;
  const Worker* before = where_before(state, id);
  if (before == nullptr) return false;
  if (candidates.has(*before)) {
    choice.worker = before->id;
    choice.reasoning.why = Why::kAffinity;
    choice.reasoning.affinity = Affinity::kPreviouslyExecuted;
    return true;
  }
  if (!before->spec.zone.empty()) candidates.keep_zone(before->spec.zone);
  return false;
}

std::int64_t slowness_of(const State& state, const Kind& kind) {
  return state.globals().run_times.find(key_of_kind(kind.salt)).value_or(1000);
}

// Order::kCriticalPath: only the kinds compete that are expected to finish the task first; kinds whose times differ by
// less than a twentieth count as equal (B-25). True if others were left out.
bool keep_fastest(const State& state, Candidates& candidates) {
  const auto& kinds = state.placement().kinds();
  if (state.policy().order != Order::kCriticalPath || kinds.size() < 2 || state.globals().run_times.empty()) {
    return false;
  }
  std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
  std::int64_t slowest = 0;
  std::size_t last = kinds.size();
  candidates.each_word([&](std::size_t k, std::size_t, std::uint64_t) {
    if (k == std::exchange(last, k)) return;
    fastest = std::min(fastest, slowness_of(state, kinds[k]));
    slowest = std::max(slowest, slowness_of(state, kinds[k]));
  });
  const std::int64_t most = fastest + fastest / 20;
  if (slowest <= most) return false;
  candidates.keep_kinds([&](std::size_t k) { return slowness_of(state, kinds[k]) <= most; });
  return true;
}

// What the order by critical path knew about the task, for explanations.
void add_times(const State& state, TaskId id, Choice& choice) {
  if (state.policy().order != Order::kCriticalPath) return;
  const Workflow& workflow = state.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  choice.reasoning.path_ms = task.path_ms;
  const std::optional<std::int64_t> run_ns = state.known_run_ns(workflow, task);
  const Kind& kind = state.placement().kinds()[state.at(choice.worker).kind];
  if (run_ns) choice.reasoning.run_ms = *run_ns / 1000 * slowness_of(state, kind) / graph::kNsPerMs;
}

// The score of the chosen worker, whatever decided (H-2).
void add_score(const State& state, Category category, Choice& choice) {
  const Kind& kind = state.placement().kinds()[state.at(choice.worker).kind];
  Reasoning& why = choice.reasoning;
  why.lambda = lambda_of(state.policy(), category);
  why.throughput = kind.throughput_scaled;
  why.cost = kind.cost_scaled;
  why.score = score_of(state.policy(), category, kind) + why.jitter;
}

void by_selection(const State& state, TaskId id, const Shape& shape, const Preference& wants, Candidates& candidates,
                  Choice& choice) {
  const Policy& policy = state.policy();
  const auto& kinds = state.placement().kinds();
  Reasoning& why = choice.reasoning;
  switch (dispatch_rules(state).selection.value_or(policy.selection)) {
    case Selection::kScore: {
      if (policy.context_reuse) why.reuse_hits = candidates.keep_best_hits(wants.holders);
      const bool fastest = keep_fastest(state, candidates);
      const Best best = best_by_score(state, id, wants.category, candidates);
      choice.worker = best.worker;
      why.why = fastest ? Why::kFinish : Why::kScore;
      why.jitter = best.jitter;
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
      choice.worker = drawn_at_random(state, id, candidates);
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
      by_affinity(state, id, candidates, wants, choice);
      return;
  }
}

// One of several candidates, or the only one.
void among(const State& state, TaskId id, const Shape& shape, const Preference& wants, Takers takers, Choice& choice) {
  const std::uint32_t count = takers.count;
  Candidates candidates(state, std::move(takers));
  if (count == 1) {
    candidates.each([&](WorkerId worker) { choice.worker = worker; });
    choice.reasoning.why = Why::kOnlyWorkerAvailable;
    if (state.policy().context_reuse) choice.reasoning.reuse_hits = candidates.keep_best_hits(wants.holders);
  } else if (choice.queued) {
    choice.worker = least_loaded(state, candidates);
    choice.reasoning.why = Why::kLeastLoaded;
    choice.reasoning.queue_depth = state.at(choice.worker).depth();
  } else if (!by_locality(state, id, candidates, choice)) {
    by_selection(state, id, shape, wants, candidates, choice);
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
  Takers takers = state.placement().takers(state, task.shape);
  choice.queued = takers.queued;
  const std::uint32_t count = takers.count;
  ROTA_ASSERT(count > 0, "an open shape");
  const Preference wants = preference_of(state, id);
  if (!takers.only.is_none() && wants.holders.empty()) {
    choice.worker = takers.only;
  } else {
    among(state, id, shape, wants, std::move(takers), choice);
  }
  add_score(state, wants.category, choice);
  add_times(state, id, choice);
  // Only in modes without bindings are tasks sticky.
  if (shape.one_worker) {
    const bool sticky = !shape.key.only.is_none() && shape.key.pinned.empty();
    choice.reasoning.why = sticky ? Why::kSticky : Why::kPinned;
  }
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
  const Category category = preference_of(state, tasks.front()).category;
  std::vector<Place> places;  // All candidates: a gang is packed onto the best workers.
  Takers takers = state.placement().takers(state, ref);
  if (takers.queued) return {};
  Candidates(state, std::move(takers)).each([&](WorkerId id) {
    const Worker& worker = state.at(id);
    places.push_back({score_of(policy, category, kinds[worker.kind]), &worker});
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
      if (!worker.reserved.empty() && !PlacementIndex::keeps_room(state, worker, needs, used)) break;
      Choice& choice = choices.emplace_back();
      choice.worker = worker.id;
      choice.devices = held.devices;
      choice.reasoning.candidates = static_cast<std::uint32_t>(places.size());
      if (places.size() > 1) choice.reasoning.why = Why::kScore;
      add_score(state, category, choice);
      if (rules.one_task_per_worker) break;
    }
    if (choices.size() == tasks.size()) return choices;
    if (rules.binding != Binding::kNone) choices.clear();
  }
  return {};
}

}  // namespace rota::fleet

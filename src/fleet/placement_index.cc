// Kinds, shapes, and which workers could take their tasks.
#include "fleet/placement_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "fleet/codec.h"
#include "fleet/dispatch_mode.h"
#include "fleet/state.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

bool test(const std::vector<std::uint64_t>& mask, std::uint32_t slot) {
  return (mask[slot / 64] >> slot % 64 & 1U) != 0;
}

// Sets the bit of a worker, and counts it.
void set_bit(std::vector<std::uint64_t>& mask, std::uint32_t slot, bool on, std::uint32_t& count) {
  std::uint64_t& word = mask[slot / 64];
  const std::uint64_t bit = 1ULL << slot % 64;
  if (((word & bit) != 0) == on) return;
  word ^= bit;
  count += on ? 1U : ~0U;
}

constexpr std::uint8_t kTouched = 1;

// True if those for which the worker keeps room still fit when a task with this key has started there.
bool leaves_reserved_room(const State& state, const Worker& worker, const ShapeKey& key) {
  if (worker.reserved.empty() || (worker.reserved.size() == 1 && worker.reserved.front() == key.reserves)) return true;
  if (dispatch_rules(state).one_task_per_worker) return false;
  const Resources& resources = worker.spec.resources;
  if (!resources.fits(key.needs, worker.used)) return false;
  ResourceUse used = worker.used;
  used.add(resources.allot(key.needs, worker.used));
  return PlacementIndex::keeps_room(state, worker, key.needs, std::move(used), key.reserves);
}

bool queue_open(const State& state, const Worker& worker) {
  const Policy& policy = state.policy();
  return worker.queue_open(policy.max_queue_per_worker, policy.queue_most_ms * graph::kNsPerMs);
}

// The cores that a task may need at most that the worker, which takes tasks, starts or queues now.
std::int64_t cpu_to_give(const State& state, const Worker& worker) {
  return worker.spec.resources.cpu_millis - (queue_open(state, worker) ? 0 : worker.used.cpu_millis);
}

// docs/brain.md, "Score": thousandths of a core, with other hardware converted to cores.
std::int64_t throughput_of(const WorkerSpec& spec) {
  std::int64_t sum = spec.resources.cpu_millis + spec.resources.memory_bytes / kGiB * 125;
  for (const Device& gpu : spec.resources.gpus) sum += 8000 + gpu.memory_bytes / kGiB * 500;
  return sum;
}

}  // namespace

void PlacementIndex::clear() {
  // Kinds are data and stay.
  for (Kind& kind : kinds_) {
    kind.members.assign(kind.next_slot, WorkerId());
    kind.taking = kind.enabled = kind.live = kind.eligible = 0;
  }
  shapes_.clear();
  workflow_shapes_.clear();
  type_shapes_.clear();
  user_shapes_.clear();
  fleet_shapes_.clear();
  gangs_.clear();
  tree_ = OrderTree();
  homes_.clear();
  touched_.clear();
  to_offer_.clear();
  marks_.clear();
  with_room_.clear();
  with_room_count_ = 0;
  changes_.clear();
  changes_before_ = latest_sync_ = 0;
  workers_ = 0;
  free_shapes_.clear();
  unused_shapes_.clear();
  shape_index_.clear();
  open_.clear();
  ready_ = 0;
  holders_.clear();
  expiries_.clear();
  timers_.clear();
  fired_graces_.clear();
  fired_recalls_.clear();
  deep_.clear();
  to_examine_.clear();
  to_promote_.clear();
  to_defer_.clear();
  to_end_.clear();
  to_leave_.clear();
  to_unbind_.clear();
}

std::uint32_t PlacementIndex::intern_kind(const WorkerSpec& spec) {
  WorkerSpec nameless = spec;
  nameless.name.clear();
  nameless.endpoint.clear();
  const auto found = kind_index_.find(nameless);
  if (found != kind_index_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(kinds_.size());
  Kind& kind = kinds_.emplace_back();
  kind.spec = nameless;
  kind.throughput = throughput_of(spec);
  kind.salt = hash_fields(nameless).low;
  kind_index_.emplace(std::move(nameless), number);
  for (const auto& shape : shapes_) {
    if (shape == nullptr) continue;
    shape->fits.emplace_back();
    init_fit(*shape, number);
  }
  return number;
}

void PlacementIndex::restore_kinds(std::vector<KindData> kinds) {
  kinds_.clear();
  kind_index_.clear();
  for (KindData& data : kinds) {
    Kind& kind = kinds_[intern_kind(data.spec)];
    kind.next_slot = data.next_slot;
    kind.gone_ns = data.gone_ns;
    kind.members.assign(kind.next_slot, WorkerId());
  }
}

void PlacementIndex::add_worker(const State& state, Worker& worker, bool restored) {
  worker.kind = intern_kind(worker.spec);
  Kind& kind = kinds_[worker.kind];
  if (!restored) {
    worker.slot = kind.next_slot++;
    kind.members.emplace_back();
  }
  kind.members[worker.slot] = worker.id;
  ++workers_;
  for (const auto& shape : shapes_) {
    if (shape == nullptr || shape->synced == Shape::kNever) continue;
    Fit& fit = shape->fits[worker.kind];
    fit.start_mask.resize(kind.members.size() / 64 + 1);
    fit.queue_mask.resize(kind.members.size() / 64 + 1);
  }
  for (const CacheItem& cache : worker.caches) cache_used(state, worker, cache.item, cache.used_ns);
}

void PlacementIndex::forget_worker(const State& state, Worker& worker) {
  update_worker(state, worker);  // It takes no tasks: this clears all its bits.
  kinds_[worker.kind].members[worker.slot] = WorkerId();
  deep_.erase(worker.id);
  for (auto& [item, holders] : holders_) {
    if (worker.kind >= holders.mask.size()) continue;
    auto& mask = holders.mask[worker.kind];
    if (worker.slot / 64 < mask.size()) mask[worker.slot / 64] &= ~(1ULL << worker.slot % 64);
  }
}

void PlacementIndex::init_fit(Shape& shape, std::uint32_t number) const {
  const Kind& kind = kinds_[number];
  Fit& fit = shape.fits[number];
  fit.possible = meets(kind.spec, shape.key.needs, shape.key.handler);
  fit.devices = kind.spec.resources.suitable_devices(shape.key.needs.gpu);
  shape.synced = Shape::kNever;
}

bool PlacementIndex::permits(const State& state, const Shape& shape, const Worker& worker) {
  const ShapeKey& key = shape.key;
  if (!shape.fits[worker.kind].possible) return false;
  if (shape.spare_excluded && std::binary_search(key.excluded.begin(), key.excluded.end(), worker.id)) return false;
  const Binding binding = dispatch_rules(state).binding;
  if (binding == Binding::kNone && !shape.one_worker) return true;
  if (!key.only.is_none() || !key.pinned.empty()) {
    return (key.only.is_none() || key.only == worker.id) && (key.pinned.empty() || key.pinned == worker.spec.name) &&
           could_take(state, key, worker);
  }
  // The home of a bound shape is where it is bound, and a type that is not bound belongs to nobody: neither need be
  // looked up.
  if (shape.bound()) return shape.home == worker.id;
  return binding == Binding::kType || could_take(state, key, worker);
}

bool PlacementIndex::keeps_room(const State& state, const Worker& worker, const ResourceRequest& by, ResourceUse used,
                                TaskId except) {
  for (const Execution& execution : worker.executions) {
    const auto stops = [&](TaskId member) { return state.at(member).stopping; };
    if (!execution.queued && std::all_of(execution.members.begin(), execution.members.end(), stops)) {
      used.subtract(execution.held);
    }
  }
  const Resources& resources = worker.spec.resources;
  return std::all_of(worker.reserved.begin(), worker.reserved.end(), [&](TaskId id) {
    if (id == except) return true;
    const Workflow& workflow = state.at(id.workflow());
    const Task& task = workflow.tasks[id.index()];
    ResourceRequest request = workflow.template_of(task).needs;
    if (task.extra->memory_bytes > 0) request.memory_bytes = task.extra->memory_bytes;
    take_fleet_names(state.policy(), request);
    // A task that needs no device does not wait for one that waits for a device.
    if (by.cpu_millis == 0) request.cpu_millis = 0;
    if (by.memory_bytes == 0) request.memory_bytes = 0;
    if (by.gpu.count == 0) request.gpu.count = 0;
    std::erase_if(request.named, [&](const NamedAmount& entry) { return by.count_of(entry.name) == 0; });
    if (!resources.fits(request, used)) return false;
    used.add(resources.allot(request, used));
    return true;
  });
}

PlacementIndex::Taking PlacementIndex::could_take_now(const State& state, const Shape& shape, const Worker& worker) {
  const ShapeKey& key = shape.key;
  if (!worker.takes_tasks()) return {};
  const auto permitted = [&] { return !works_for_another(state, key, worker) && permits(state, shape, worker); };
  if (dispatch_rules(state).one_task_per_worker) {
    return {worker.executions.empty() && permitted() && leaves_reserved_room(state, worker, key), false};
  }
  // No task overtakes those that wait at the worker already, and none takes room that is kept for another. What most
  // workers of a busy fleet fail comes first.
  const Resources& have = worker.spec.resources;
  const bool fits = worker.queued == 0 &&
                    (key.needs.gpu.count == 0 ? have.Amounts::fits(key.needs, worker.used)
                                              : have.fits(key.needs, worker.used, shape.fits[worker.kind].devices));
  const bool open = key.gang == 0 && worker.reserved.empty() && queue_open(state, worker);
  if ((!fits && !open) || !permitted()) return {};
  const bool start = fits && (worker.reserved.empty() || leaves_reserved_room(state, worker, key));
  return {start, !start && open};
}

const Worker* PlacementIndex::find_worker(const State& state, WorkerId id) { return state.find(id); }
bool PlacementIndex::owned(const Worker& worker) { return !worker.owner.is_none(); }

bool PlacementIndex::any_could_take(const State& state, const Shape& shape) {
  bool found = false;
  state.each_worker([&](const Worker& worker) {
    if (found) return;
    const Taking taking = could_take_now(state, shape, worker);
    found = taking.start || taking.queue;
  });
  return found;
}

// What a task may need at most that the worker starts or queues now.
Room PlacementIndex::room_at(const State& state, const Worker& worker) {
  if (!worker.takes_tasks()) return {-1, -1, -1};
  if (dispatch_rules(state).one_task_per_worker) return kAnyRoom;
  const Resources& have = worker.spec.resources;
  if (queue_open(state, worker)) {
    return {have.cpu_millis, have.memory_bytes, static_cast<std::int64_t>(have.gpus.size())};
  }
  return {have.cpu_millis - worker.used.cpu_millis, have.memory_bytes - worker.used.memory_bytes,
          static_cast<std::int64_t>(have.gpus.size()) -
              (worker.used.devices == 0 ? 0 : std::popcount(worker.used.devices))};
}

void PlacementIndex::update_worker(const State& state, const Worker& worker) {
  if (worker.queued > worker.slots()) {
    deep_.insert(worker.id);
  } else if (!deep_.empty()) {
    deep_.erase(worker.id);
  }
  const std::size_t at = worker.id.value();
  if (marks_.size() <= at) {
    marks_.resize(at + 1);
    with_room_.resize(at / 64 + 1);
  }
  if ((marks_[at] & kTouched) == 0) {
    marks_[at] |= kTouched;
    touched_.push_back(worker.id);
  }
  if (to_offer_.empty() || to_offer_.back() != worker.id) to_offer_.push_back(worker.id);
  const bool has_room =
      worker.takes_tasks() &&
      (dispatch_rules(state).one_task_per_worker ? worker.executions.empty() : cpu_to_give(state, worker) > 0);
  if (const std::uint64_t bit = 1ULL << at % 64; ((with_room_[at / 64] & bit) != 0) != has_room) {
    with_room_[at / 64] ^= bit;
    with_room_count_ += has_room ? 1 : ~std::size_t{0};
  }
  // A shape that is brought up to date after the last change need not see the same worker twice.
  if (changes_.empty() || changes_.back().worker != worker.id || latest_sync_ == changes_before_ + changes_.size()) {
    changes_.push_back({worker.id, worker.kind, worker.slot});
    if (changes_.size() > 2 * workers_ + 64) {
      changes_.pop_front();
      ++changes_before_;
    }
  }
}

// Brings the masks up to date.
void PlacementIndex::sync(const State& state, Shape& shape) const {
  const std::uint64_t now = changes_before_ + changes_.size();
  const auto set = [&](std::uint32_t kind, std::uint32_t slot, Taking taking) {
    set_bit(shape.fits[kind].start_mask, slot, taking.start, shape.start);
    set_bit(shape.fits[kind].queue_mask, slot, taking.queue, shape.queue);
  };
  if (shape.synced == Shape::kNever || shape.synced < changes_before_ || now - shape.synced > workers_) {
    shape.start = shape.queue = 0;
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      shape.fits[k].start_mask.assign(kinds_[k].members.size() / 64 + 1, 0);
      shape.fits[k].queue_mask.assign(kinds_[k].members.size() / 64 + 1, 0);
    }
    state.each_worker(
        [&](const Worker& worker) { set(worker.kind, worker.slot, could_take_now(state, shape, worker)); });
  } else {
    for (std::uint64_t i = shape.synced - changes_before_; i < changes_.size(); ++i) {
      const Change& change = changes_[i];
      const Worker* worker = state.find(change.worker);
      set(change.kind, change.slot, worker == nullptr ? Taking() : could_take_now(state, shape, *worker));
    }
  }
  shape.synced = latest_sync_ = now;
}

Takers PlacementIndex::takers(const State& state, ShapeRef ref) const {
  Shape& shape = *shapes_[ref];
  Takers found;
  const bool few_changed = !shape.fresh && shape.key.gang == 0 && touched_.size() <= kFewWorkers;
  const bool few_have_room =
      with_room_count_ <= kFewWorkers && (shape.key.needs.cpu_millis > 0 || dispatch_rules(state).one_task_per_worker);
  if (shape.one_worker || (few_changed && touched_.size() == 1)) {
    const Worker* worker = state.find(shape.one_worker ? shape.home : touched_.front());
    const Taking taking = worker == nullptr ? Taking() : could_take_now(state, shape, *worker);
    found.queued = !taking.start;
    if (!taking.start && !taking.queue) return found;
    found.only = worker->id;
    found.count = 1;
    return found;
  }
  if (few_changed || few_have_room) {
    std::vector<const Worker*> start;
    std::vector<const Worker*> queue;
    const auto look = [&](const Worker* worker) {
      if (worker == nullptr) return;
      const Taking taking = could_take_now(state, shape, *worker);
      if (taking.start) start.push_back(worker);
      if (taking.queue) queue.push_back(worker);
    };
    if (few_changed) {
      for (const WorkerId id : touched_) look(state.find(id));
    } else {
      for (std::size_t w = 0; w < with_room_.size(); ++w) {
        for (std::uint64_t bits = with_room_[w]; bits != 0; bits &= bits - 1) {
          look(state.find(
              WorkerId(static_cast<std::uint32_t>(w * 64 + static_cast<std::size_t>(std::countr_zero(bits))))));
        }
      }
    }
    found.queued = start.empty();
    std::vector<const Worker*>& chosen = start.empty() ? queue : start;
    std::sort(chosen.begin(), chosen.end(), [](const Worker* a, const Worker* b) {
      return a->kind != b->kind ? a->kind < b->kind : a->slot < b->slot;
    });
    for (const Worker* worker : chosen) {
      if (found.words.empty() || found.words.back().kind != worker->kind ||
          found.words.back().word != worker->slot / 64) {
        found.words.push_back({worker->kind, worker->slot / 64, 0});
      }
      found.words.back().bits |= 1ULL << worker->slot % 64;
    }
    found.count = static_cast<std::uint32_t>(chosen.size());
    return found;
  }
  sync(state, shape);
  found.queued = shape.start == 0;
  found.count = found.queued ? shape.queue : shape.start;
  if (found.count == 0) return found;
  for (std::size_t k = 0; k < shape.fits.size(); ++k) {
    const auto& mask = found.queued ? shape.fits[k].queue_mask : shape.fits[k].start_mask;
    for (std::size_t w = 0; w < mask.size(); ++w) {
      if (mask[w] != 0) found.words.push_back({k, w, mask[w]});
    }
  }
  return found;
}

bool PlacementIndex::has_takers(const State& state, ShapeRef ref) const {
  Shape& shape = *shapes_[ref];
  const bool few_changed = !shape.fresh && touched_.size() <= kFewWorkers;
  const auto takes = [&](WorkerId id) {
    const Worker* worker = state.find(id);
    if (worker == nullptr) return false;
    const Taking taking = could_take_now(state, shape, *worker);
    return taking.start || taking.queue;
  };
  if (shape.one_worker) return takes(shape.home);
  if (few_changed) return std::any_of(touched_.begin(), touched_.end(), takes);
  const bool few_have_room =
      with_room_count_ <= kFewWorkers && (shape.key.needs.cpu_millis > 0 || dispatch_rules(state).one_task_per_worker);
  if (few_have_room) return with_room_count_ > 0 && takers(state, ref).count > 0;
  sync(state, shape);
  return shape.start > 0 || shape.queue > 0;
}

void PlacementIndex::open(ShapeRef ref, bool fresh) {
  Shape& shape = *shapes_[ref];
  if (shape.key.gang != 0) return;  // All ready gangs are tried.
  shape.fresh = shape.fresh || fresh;
  if (shape.open_at != kNoShape) return;
  shape.open_at = static_cast<std::uint32_t>(open_.size());
  open_.push_back(ref);
}

void PlacementIndex::close(ShapeRef ref) {
  Shape& shape = *shapes_[ref];
  const ShapeRef last = open_.back();
  open_[shape.open_at] = last;
  shapes_[last]->open_at = shape.open_at;
  open_.pop_back();
  shape.open_at = kNoShape;
  shape.fresh = shape.offered = false;
  to_offer_.insert(to_offer_.end(), shape.waiting_workers.begin(), shape.waiting_workers.end());
  shape.waiting_workers.clear();
}

void PlacementIndex::rest() {
  while (!open_.empty()) close(open_.back());
  to_offer_.clear();
  for (const WorkerId id : touched_) marks_[id.value()] &= static_cast<std::uint8_t>(~kTouched);
  touched_.clear();
}

void PlacementIndex::limits_changed(std::uint32_t user) {
  const auto found = user_shapes_.find(user);
  if (found == user_shapes_.end()) return;
  for (const auto& [ref, classes] : found->second) open(ref, true);
}
void PlacementIndex::fleet_resources_changed() {
  for (const ShapeRef ref : fleet_shapes_) open(ref, true);
}

std::int64_t PlacementIndex::room_for(const State& state, const ShapeKey& key) const {
  const DispatchRules& rules = dispatch_rules(state);
  const auto room_of = [&](const WorkerSpec& spec) -> std::int64_t {
    if (!meets(spec, key.needs, key.handler)) return 0;
    return rules.one_task_per_worker ? 1 : std::min<std::int64_t>(spec.resources.count(key.needs), TaskId::kMostTasks);
  };
  std::int64_t room = 0;
  if (rules.binding != Binding::kNone) {
    state.each_worker([&](const Worker& worker) {
      if (worker.live() && could_take(state, key, worker)) room = std::max(room, room_of(worker.spec));
    });
  } else {
    for (const Kind& kind : kinds_) room += room_of(kind.spec) * kind.live;
  }
  return room;
}

void PlacementIndex::count_live(const State& state, Shape& shape) const {
  shape.live = 0;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (shape.fits[i].possible) shape.live += kinds_[i].live;
  }
  const ShapeKey& key = shape.key;
  const auto& excluded = key.excluded;
  const auto possible = [&](const Worker* worker) {
    return worker != nullptr && shape.fits[worker->kind].possible && could_take(state, key, *worker) &&
           (key.pinned.empty() || key.pinned == worker->spec.name);
  };
  // A task that is bound to a worker waits for that one alone.
  const bool one = one_worker(state, key);
  std::int64_t eligible = 0;
  if (one) {
    const Worker* worker = state.find(only_worker(state, key));
    shape.live = possible(worker) && worker->live() ? 1 : 0;
    eligible = possible(worker) && worker->eligible() ? 1 : 0;
  } else {
    // Whether a worker could take it depends on its kind alone, unless a task of its workflow is pinned.
    const Workflow* workflow = dispatch_rules(state).binding == Binding::kWorkflow ? state.find(key.workflow) : nullptr;
    const auto pinned = [](const TaskTemplate& use) { return !use.pinned.empty(); };
    const bool by_name =
        workflow != nullptr && std::any_of(workflow->spec.templates.begin(), workflow->spec.templates.end(), pinned);
    shape.live = 0;
    if (by_name) {
      state.each_worker([&](const Worker& worker) {
        if (!possible(&worker)) return;
        shape.live += worker.live() ? 1 : 0;
        eligible += worker.eligible() ? 1 : 0;
      });
    } else {
      for (std::size_t i = 0; i < kinds_.size(); ++i) {
        if (!shape.fits[i].possible) continue;
        if (workflow != nullptr && !could_run_all(state, kinds_[i].spec, workflow->spec)) continue;
        shape.live += kinds_[i].live;
        eligible += kinds_[i].eligible;
      }
    }
  }
  // A worker on which it failed is left out while another one is eligible (B-14): a worker that an operator disabled is
  // not.
  for (const WorkerId id : excluded) {
    const Worker* worker = state.find(id);
    if (possible(worker) && worker->eligible()) --eligible;
  }
  if (shape.key.gang != 0) {
    const Workflow* workflow = state.find(shape.key.workflow);
    const std::uint32_t count = workflow == nullptr ? 0 : workflow->stages[shape.key.gang - 1].count;
    if (room_for(state, shape.key) < count) shape.live = 0;
  }
  Amounts fleet;
  fleet.named = state.policy().fleet;
  if (!fleet.fits(shape.key.fleet, Amounts())) shape.live = 0;
  shape.spare_excluded = !excluded.empty() && eligible > 0;
}

// Which workers could take its tasks has changed.
void PlacementIndex::shape_changed(const State& state, ShapeRef ref) {
  Shape& shape = *shapes_[ref];
  count_live(state, shape);
  shape.synced = Shape::kNever;
  find_home(state, ref);
  if (shape.ready > 0) open(ref, true);
}

void PlacementIndex::find_home(const State& state, ShapeRef ref) {
  Shape& shape = *shapes_[ref];
  const bool one = one_worker(state, shape.key);
  const WorkerId home = one ? only_worker(state, shape.key) : WorkerId();
  if (one == shape.one_worker && home == shape.home) return;
  for (auto& [key, ready] : shape.classes) remove_item(shape, ready);
  shape.one_worker = one;
  shape.home = home;
  for (auto& [key, ready] : shape.classes) add_item(state, ref, key, ready);
}

void PlacementIndex::fleet_changed(State& state) {
  for (Kind& kind : kinds_) kind.taking = kind.enabled = kind.live = kind.eligible = 0;
  state.each_worker([&](const Worker& worker) {
    kinds_[worker.kind].taking += worker.takes_tasks() ? 1 : 0;
    kinds_[worker.kind].enabled += worker.enabled() ? 1 : 0;
    kinds_[worker.kind].live += worker.live() ? 1 : 0;
    kinds_[worker.kind].eligible += worker.eligible() ? 1 : 0;
  });
  scale_scores();
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr) continue;
    Shape& shape = *shapes_[i];
    const bool spared = shape.spare_excluded;
    count_live(state, shape);
    if (!shape.key.pinned.empty()) find_home(state, i);
    if (spared != shape.spare_excluded) shape_changed(state, i);
    set_grace_timer(state, i);
  }
}

void PlacementIndex::note_gone(const Worker& worker, std::int64_t now_ns) { kinds_[worker.kind].gone_ns = now_ns; }

void PlacementIndex::scale_scores() {
  std::int64_t most_throughput = 1;
  std::int64_t most_cost = 1;
  for (const Kind& kind : kinds_) {
    if (kind.taking == 0) continue;
    most_throughput = std::max(most_throughput, kind.throughput);
    most_cost = std::max(most_cost, kind.spec.cost_microdollars_per_hour);
  }
  for (Kind& kind : kinds_) {
    kind.throughput_scaled = kind.throughput * kOne / most_throughput;
    kind.cost_scaled = kind.spec.cost_microdollars_per_hour * kOne / most_cost;
  }
}

void PlacementIndex::update_workflow(const State& state, WorkflowId workflow) {
  const auto found = workflow_shapes_.find(workflow);
  if (found == workflow_shapes_.end()) return;
  for (const ShapeRef ref : found->second) {
    shape_changed(state, ref);
    set_grace_timer(state, ref);
  }
}

void PlacementIndex::update_type(const State& state, const std::string& type) {
  const auto found = type_shapes_.find(type);
  if (found == type_shapes_.end()) return;
  for (const ShapeRef ref : found->second) {
    shape_changed(state, ref);
    set_grace_timer(state, ref);
  }
}

ShapeKey PlacementIndex::key_of(const State& state, const Workflow& workflow, const Task& task) {
  const Policy& policy = state.policy();
  const TaskTemplate& use = workflow.template_of(task);
  const TemplateInfo& info = workflow.info_of(task);
  ShapeKey key;
  if (use.gang) {
    key.gang = task.stage + 1;
    key.workflow = workflow.id;
  }
  key.handler = needed_handler(use.spec);
  if (!task.reserved().is_none()) key.reserves = workflow.id_of(task);
  const DispatchRules& rules = dispatch_rules(state);
  key.needs = checked_requirements(state, use);
  if (!rules.checks_requirements) {
    key.unchecked = use.needs;
    if (task.extra != nullptr && task.extra->memory_bytes > 0) key.unchecked.memory_bytes = task.extra->memory_bytes;
    key.unchecked_gpus = use.needs.gpu.count;
    return key;
  }
  key.fleet = take_fleet_names(policy, key.needs);
  std::sort(key.needs.capabilities.begin(), key.needs.capabilities.end());
  std::sort(key.needs.labels.begin(), key.needs.labels.end());
  key.pinned = use.pinned;
  // A gang is placed as a whole, wherever one of its tasks failed before.
  if (task.extra != nullptr && !use.gang) {
    if (task.extra->memory_bytes > 0) key.needs.memory_bytes = task.extra->memory_bytes;
    key.excluded = task.extra->failed_on;
  }
  add_binding(state, workflow, use, key);
  if (!rules.uses_context) return key;
  if (policy.stickiness && info.sticky != TemplateInfo::kNoStage && key.excluded.empty() && !use.gang) {
    const StageState& parent = workflow.stages[info.sticky];
    const StageState& own = workflow.stages[task.stage];
    const auto index = own.number(static_cast<std::uint32_t>(&task - workflow.tasks.data()));
    const Task* source = nullptr;
    if (parent.count == 1) source = &workflow.tasks[parent.first];
    if (parent.count == own.count && parent.count > 1) source = &workflow.tasks[parent.task(index)];
    const Worker* worker = source != nullptr && !source->skipped ? state.find(source->worker) : nullptr;
    // A worker that takes no tasks now, or to which the task is not pinned, would be waited for in vain.
    const bool pinned_elsewhere = worker != nullptr && !key.pinned.empty() && key.pinned != worker->spec.name;
    if (worker != nullptr && worker->enabled() && !pinned_elsewhere && meets(worker->spec, key.needs, key.handler)) {
      key.only = worker->id;
    }
  }
  return key;
}

ShapeRef PlacementIndex::intern(const State& state, const ShapeKey& key) {
  const auto [place, fresh] = shape_index_.try_emplace(key, kNoShape);
  if (!fresh) return place->second;
  ShapeRef ref;
  if (free_shapes_.empty()) {
    ref = static_cast<ShapeRef>(shapes_.size());
    shapes_.emplace_back();
  } else {
    ref = free_shapes_.back();
    free_shapes_.pop_back();
  }
  place->second = ref;
  shapes_[ref] = std::make_unique<Shape>();
  Shape& shape = *shapes_[ref];
  shape.key = key;
  shape.fits.resize(kinds_.size());
  for (std::uint32_t i = 0; i < kinds_.size(); ++i) init_fit(shape, i);
  if (!key.workflow.is_none()) workflow_shapes_[key.workflow].insert(ref);
  if (!key.type.empty()) type_shapes_[key.type].insert(ref);
  count_live(state, shape);
  find_home(state, ref);
  return ref;
}

void PlacementIndex::release(ShapeRef ref) {
  Shape& shape = *shapes_[ref];
  ROTA_ASSERT(shape.uses > 0);
  if (--shape.uses > 0) return;
  ROTA_ASSERT(shape.ready == 0);
  if (shape.unused) return;
  shape.unused = true;
  unused_shapes_.push_back(ref);
  while (unused_shapes_.size() > kUnusedShapes) {
    const ShapeRef oldest = unused_shapes_.front();
    unused_shapes_.pop_front();
    shapes_[oldest]->unused = false;
    if (shapes_[oldest]->uses > 0) continue;  // It came back into use.
    const ShapeKey& key = shapes_[oldest]->key;
    const auto forget = [oldest](auto& map, const auto& name) {
      const auto found = map.find(name);
      if (found == map.end()) return;
      found->second.erase(oldest);
      if (found->second.empty()) map.erase(found);
    };
    if (!key.workflow.is_none()) forget(workflow_shapes_, key.workflow);
    if (!key.type.empty()) forget(type_shapes_, key.type);
    if (shapes_[oldest]->open_at != kNoShape) close(oldest);
    shape_index_.erase(key);
    shapes_[oldest].reset();
    free_shapes_.push_back(oldest);
  }
}

void PlacementIndex::release_templates(Workflow& workflow) {
  for (TemplateInfo& info : workflow.templates) {
    if (info.shape != kNoShape) release(std::exchange(info.shape, kNoShape));
  }
}

std::vector<const CacheHolders*> PlacementIndex::holders_of(const std::vector<std::string>& items) const {
  static const CacheHolders kNobody;
  std::vector<const CacheHolders*> holders;
  for (const std::string& item : items) {
    const auto found = holders_.find(item);
    holders.push_back(found == holders_.end() ? &kNobody : &found->second);
  }
  return holders;
}

void PlacementIndex::cache_dropped(const Worker& worker, const std::string& item) {
  const auto holders = holders_.find(item);
  if (holders == holders_.end() || worker.kind >= holders->second.mask.size()) return;
  auto& mask = holders->second.mask[worker.kind];
  if (worker.slot / 64 < mask.size()) mask[worker.slot / 64] &= ~(1ULL << worker.slot % 64);
}

void PlacementIndex::cache_used(const State& state, const Worker& worker, const std::string& item,
                                std::int64_t used_ns) {
  const std::int64_t due = used_ns + state.policy().cache_ttl_ms * graph::kNsPerMs;
  if (due <= state.time_ns()) return;
  CacheHolders& holders = holders_[item];
  if (holders.mask.size() <= worker.kind) holders.mask.resize(worker.kind + 1);
  auto& mask = holders.mask[worker.kind];
  if (mask.size() <= worker.slot / 64) mask.resize(worker.slot / 64 + 1);
  if (test(mask, worker.slot)) return;  // expire_caches() will set a new expiry.
  mask[worker.slot / 64] |= 1ULL << worker.slot % 64;
  expiries_.insert({due, worker.id, item});
}

void PlacementIndex::expire_caches(const State& state) {
  while (!expiries_.empty() && expiries_.begin()->due_ns <= state.time_ns()) {
    Expiry expiry = std::move(expiries_.extract(expiries_.begin()).value());
    const Worker* worker = state.find(expiry.worker);
    if (worker == nullptr) continue;
    auto& mask = holders_[expiry.item].mask[worker->kind];
    mask[worker->slot / 64] &= ~(1ULL << worker->slot % 64);
    for (const CacheItem& found : worker->caches) {
      if (found.item == expiry.item) cache_used(state, *worker, found.item, found.used_ns);
    }
  }
}

}  // namespace rota::fleet

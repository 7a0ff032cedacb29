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
void set_bit(std::vector<std::uint64_t>& mask, std::uint32_t slot, bool on, std::uint32_t& of_kind,
             std::uint32_t& of_shape) {
  std::uint64_t& word = mask[slot / 64];
  const std::uint64_t bit = 1ULL << slot % 64;
  if (((word & bit) != 0) == on) return;
  word ^= bit;
  of_kind += on ? 1U : ~0U;
  of_shape += on ? 1U : ~0U;
}

// True if those for which the worker keeps room still fit when a task with this key has started there.
bool leaves_reserved_room(const State& state, const Worker& worker, const ShapeKey& key) {
  if (worker.reserved.empty() || (worker.reserved.size() == 1 && worker.reserved.front() == key.reserves)) return true;
  if (dispatch_rules(state).one_task_per_worker) return false;
  const Resources& resources = worker.spec.resources;
  if (!resources.fits(key.needs, worker.used)) return false;
  ResourceUse used = worker.used;
  used.add(resources.allot(key.needs, worker.used));
  return PlacementIndex::keeps_room(state, worker, std::move(used), key.reserves);
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
    kind.taking = kind.enabled = kind.live = 0;
  }
  shapes_.clear();
  free_shapes_.clear();
  unused_shapes_.clear();
  shape_index_.clear();
  open_.clear();
  ready_ = 0;
  holders_.clear();
  expiries_.clear();
  timers_.clear();
  fired_graces_.clear();
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
  for (const auto& shape : shapes_) {
    if (shape == nullptr) continue;
    Fit& fit = shape->fits[worker.kind];
    fit.start_mask.resize(kind.members.size() / 64 + 1);
    fit.queue_mask.resize(kind.members.size() / 64 + 1);
  }
  for (const CacheItem& cache : worker.caches) cache_used(state, worker, cache.item, cache.used_ns);
}

void PlacementIndex::forget_worker(const State& state, Worker& worker) {
  update_worker(state, worker);  // It takes no tasks: this clears all its bits.
  kinds_[worker.kind].members[worker.slot] = WorkerId();
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
  fit.start_mask.assign(kind.members.size() / 64 + 1, 0);
  fit.queue_mask.assign(kind.members.size() / 64 + 1, 0);
}

bool PlacementIndex::permits(const State& state, const Shape& shape, const Worker& worker) {
  const ShapeKey& key = shape.key;
  return shape.fits[worker.kind].possible && (key.only.is_none() || key.only == worker.id) &&
         (key.pinned.empty() || key.pinned == worker.spec.name) &&
         (!shape.spare_excluded || !std::binary_search(key.excluded.begin(), key.excluded.end(), worker.id)) &&
         could_take(state, key, worker);
}

bool PlacementIndex::keeps_room(const State& state, const Worker& worker, ResourceUse used, TaskId except) {
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
    if (!resources.fits(request, used)) return false;
    used.add(resources.allot(request, used));
    return true;
  });
}

void PlacementIndex::update_fit(const State& state, Shape& shape, const Worker& worker) {
  Fit& fit = shape.fits[worker.kind];
  const ShapeKey& key = shape.key;
  const DispatchRules& rules = dispatch_rules(state);
  bool start = false;
  bool queue = false;
  if (worker.takes_tasks() && !works_for_another(state, key, worker) && permits(state, shape, worker)) {
    if (rules.one_task_per_worker) {
      start = worker.executions.empty() && leaves_reserved_room(state, worker, key);
    } else {
      // No task overtakes those that wait at the worker already, and none takes room that is kept for another.
      start = worker.queued == 0 && worker.spec.resources.fits(key.needs, worker.used, fit.devices) &&
              leaves_reserved_room(state, worker, key);
      queue = !start && key.gang == 0 && worker.reserved.empty() && worker.queued < state.policy().max_queue_per_worker;
    }
  }
  set_bit(fit.start_mask, worker.slot, start, fit.start, shape.start);
  set_bit(fit.queue_mask, worker.slot, queue, fit.queue, shape.queue);
}

void PlacementIndex::update_worker(const State& state, const Worker& worker) {
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr) continue;
    update_fit(state, *shapes_[i], worker);
    update_open(i);
  }
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
  // A task that is bound to a worker waits for that one alone.
  if (dispatch_rules(state).binding != Binding::kNone) {
    shape.live = 0;
    state.each_worker([&](const Worker& worker) {
      if (!worker.live() || !shape.fits[worker.kind].possible) return;
      shape.live += could_take(state, shape.key, worker) ? 1 : 0;
    });
  }
  if (!shape.key.pinned.empty()) {
    const Worker* worker = state.find_worker(shape.key.pinned);
    const bool able = worker != nullptr && worker->live() && shape.fits[worker->kind].possible;
    shape.live = able && could_take(state, shape.key, *worker) ? 1 : 0;
  }
  // A worker on which it failed is left out while another one is eligible (B-14): a worker that an operator disabled is
  // not.
  std::uint32_t others = 0;
  if (!shape.key.excluded.empty()) {
    state.each_worker([&](const Worker& worker) {
      if (!worker.eligible() || !shape.fits[worker.kind].possible || !could_take(state, shape.key, worker)) return;
      if (!shape.key.pinned.empty() && shape.key.pinned != worker.spec.name) return;
      others += std::binary_search(shape.key.excluded.begin(), shape.key.excluded.end(), worker.id) ? 0U : 1U;
    });
  }
  if (shape.key.gang != 0) {
    const Workflow* workflow = state.find(shape.key.workflow);
    const std::uint32_t count = workflow == nullptr ? 0 : workflow->stages[shape.key.gang - 1].count;
    if (room_for(state, shape.key) < count) shape.live = 0;
  }
  Amounts fleet;
  fleet.named = state.policy().fleet;
  if (!fleet.fits(shape.key.fleet, Amounts())) shape.live = 0;
  shape.spare_excluded = others > 0;
}

void PlacementIndex::update_shape(const State& state, Shape& shape) {
  count_live(state, shape);
  state.each_worker([&](const Worker& worker) { update_fit(state, shape, worker); });
}

void PlacementIndex::fleet_changed(State& state) {
  for (Kind& kind : kinds_) kind.taking = kind.enabled = kind.live = 0;
  state.each_worker([&](const Worker& worker) {
    kinds_[worker.kind].taking += worker.takes_tasks() ? 1 : 0;
    kinds_[worker.kind].enabled += worker.enabled() ? 1 : 0;
    kinds_[worker.kind].live += worker.live() ? 1 : 0;
  });
  scale_scores();
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr) continue;
    Shape& shape = *shapes_[i];
    const bool spared = shape.spare_excluded;
    count_live(state, shape);
    if (spared != shape.spare_excluded) {
      state.each_worker([&](const Worker& worker) { update_fit(state, shape, worker); });
      update_open(i);
    }
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
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr || shapes_[i]->key.workflow != workflow) continue;
    update_shape(state, *shapes_[i]);
    update_open(i);
    set_grace_timer(state, i);
  }
}

void PlacementIndex::update_type(const State& state, const std::string& type) {
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr || shapes_[i]->key.type != type) continue;
    update_shape(state, *shapes_[i]);
    update_open(i);
    set_grace_timer(state, i);
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
  key.category = use.category;
  key.pinned = use.pinned;
  // A gang is placed as a whole, wherever one of its tasks failed before.
  if (task.extra != nullptr && !use.gang) {
    if (task.extra->memory_bytes > 0) key.needs.memory_bytes = task.extra->memory_bytes;
    key.excluded = task.extra->failed_on;
  }
  add_binding(state, workflow, use, key);
  if (!rules.uses_context) return key;
  if (policy.context_reuse || policy.selection == Selection::kAffinity) key.context = use.context;
  // A task that failed, or whose execution failed as a whole, is not merged: it might make the whole execution fail.
  // Nor is one that continues from a checkpoint of its own.
  const bool continues = task.extra != nullptr && !task.extra->checkpoint.empty();
  if (policy.merge && info.mergeable && task.spent == 0 && !task.alone && !continues && key.reserves.is_none()) {
    key.merge = info.merge;
  }
  if (policy.stickiness && info.sticky != TemplateInfo::kNoStage && key.excluded.empty() && !use.gang) {
    const StageState& parent = workflow.stages[info.sticky];
    const StageState& own = workflow.stages[task.stage];
    const auto index = static_cast<std::uint32_t>(&task - workflow.tasks.data()) - own.first;
    const Task* source = nullptr;
    if (parent.count == 1) source = &workflow.tasks[parent.first];
    if (parent.count == own.count && parent.count > 1) source = &workflow.tasks[parent.first + index];
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
  for (const std::string& item : key.context) shape.holders.push_back(&holders_[item]);
  update_shape(state, shape);
  return ref;
}

void PlacementIndex::release(ShapeRef ref) {
  Shape& shape = *shapes_[ref];
  ROTA_ASSERT(shape.uses > 0);
  if (--shape.uses > 0) return;
  ROTA_ASSERT(shape.ready == 0 && shape.open_at == kNoShape);
  if (shape.unused) return;
  shape.unused = true;
  unused_shapes_.push_back(ref);
  while (unused_shapes_.size() > kUnusedShapes) {
    const ShapeRef oldest = unused_shapes_.front();
    unused_shapes_.pop_front();
    shapes_[oldest]->unused = false;
    if (shapes_[oldest]->uses > 0) continue;  // It came back into use.
    shape_index_.erase(shapes_[oldest]->key);
    shapes_[oldest].reset();
    free_shapes_.push_back(oldest);
  }
}

void PlacementIndex::release_templates(Workflow& workflow) {
  for (TemplateInfo& info : workflow.templates) {
    if (info.shape != kNoShape) release(std::exchange(info.shape, kNoShape));
  }
}

void PlacementIndex::update_open(ShapeRef ref) {
  Shape& shape = *shapes_[ref];
  const bool open = shape.ready > 0 && (shape.start > 0 || shape.queue > 0);
  if (open == (shape.open_at != kNoShape)) return;
  if (open) {
    shape.open_at = static_cast<std::uint32_t>(open_.size());
    open_.push_back(ref);
  } else {
    const ShapeRef last = open_.back();
    open_[shape.open_at] = last;
    shapes_[last]->open_at = shape.open_at;
    open_.pop_back();
    shape.open_at = kNoShape;
  }
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

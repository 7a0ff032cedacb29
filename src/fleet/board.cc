// Kinds, shapes, and which worker could take what.
#include "fleet/board.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "fleet/state.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

bool test(const std::vector<std::uint64_t>& mask, std::uint32_t slot) {
  return (mask[slot / 64] >> slot % 64 & 1U) != 0;
}

// docs/brain.md, "Score": thousandths of a core, and what other hardware is worth in cores.
std::int64_t throughput_of(const WorkerSpec& spec) {
  std::int64_t sum = spec.resources.cpu_millis + spec.resources.memory_bytes / kGiB * 125;
  for (const Device& gpu : spec.resources.gpus) sum += 8000 + gpu.memory_bytes / kGiB * 500;
  return sum;
}

}  // namespace

void Board::clear() {
  // Kinds are data: their slots were chosen by history.
  for (Kind& kind : kinds_) {
    kind.members.assign(kind.next_slot, WorkerId());
    kind.taking = kind.live = 0;
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
  regrace_.clear();
  to_examine_.clear();
  to_promote_.clear();
  to_defer_.clear();
  to_end_.clear();
  to_leave_.clear();
}

std::uint32_t Board::kind_of(const WorkerSpec& spec) {
  WorkerSpec nameless = spec;
  nameless.name.clear();
  const auto found = kind_index_.find(nameless);
  if (found != kind_index_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(kinds_.size());
  Kind& kind = kinds_.emplace_back();
  kind.spec = nameless;
  kind.throughput = throughput_of(spec);
  Hasher salt;
  salt.add(spec.resources.cpu_millis).add(spec.resources.memory_bytes).add(spec.zone);
  salt.add(spec.cost_microdollars_per_hour);
  for (const Device& gpu : spec.resources.gpus) salt.add(gpu.model).add(gpu.memory_bytes);
  kind.salt = salt.finish64();
  kind_index_.emplace(std::move(nameless), number);
  for (const auto& shape : shapes_) {
    if (shape == nullptr) continue;
    shape->fits.emplace_back();
    fit_kind(*shape, number);
  }
  return number;
}

void Board::restore_kinds(std::vector<KindData> kinds) {
  kinds_.clear();
  kind_index_.clear();
  for (KindData& data : kinds) {
    Kind& kind = kinds_[kind_of(data.spec)];
    kind.next_slot = data.next_slot;
    kind.gone_ns = data.gone_ns;
    kind.members.assign(kind.next_slot, WorkerId());
  }
}

void Board::add_worker(const State& state, Worker& worker, bool restored) {
  worker.kind = kind_of(worker.spec);
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
  for (const CacheItem& cache : worker.caches) hint(state, worker, cache.item, cache.used_ns);
}

void Board::forget_worker(const State& state, Worker& worker) {
  refit(state, worker);  // It takes no tasks: all its bits go.
  kinds_[worker.kind].members[worker.slot] = WorkerId();
  for (auto& [item, holders] : holders_) {
    if (worker.kind >= holders.mask.size()) continue;
    auto& mask = holders.mask[worker.kind];
    if (worker.slot / 64 < mask.size()) mask[worker.slot / 64] &= ~(1ULL << worker.slot % 64);
  }
}

void Board::fit_kind(Shape& shape, std::uint32_t number) const {
  const Kind& kind = kinds_[number];
  Fit& fit = shape.fits[number];
  fit.possible = meets(kind.spec, shape.key.needs, shape.key.handler);
  fit.devices = kind.spec.resources.suitable_devices(shape.key.needs.gpu);
  fit.start_mask.assign(kind.members.size() / 64 + 1, 0);
  fit.queue_mask.assign(kind.members.size() / 64 + 1, 0);
}

void Board::set_bit(Shape& shape, Fit& fit, std::vector<std::uint64_t>& mask, std::uint32_t& count,
                    std::uint32_t& total, std::uint32_t slot, bool on) {
  static_cast<void>(shape);
  static_cast<void>(fit);
  std::uint64_t& word = mask[slot / 64];
  const std::uint64_t bit = 1ULL << slot % 64;
  if (((word & bit) != 0) == on) return;
  word ^= bit;
  if (on) {
    ++count;
    ++total;
  } else {
    --count;
    --total;
  }
}

bool Board::mode_could_allow(const State& state, const ShapeKey& key, const Worker& worker) {
  switch (state.policy().mode) {
    case DispatchMode::kStaticWorker: {
      const Workflow* workflow = state.find(key.workflow);
      if (workflow == nullptr) return false;
      if (!workflow->bound.is_none()) return workflow->bound == worker.id;
      // It gets all of the workflow: it must be able to run all of it.
      return std::all_of(
          workflow->spec.templates.begin(), workflow->spec.templates.end(),
          [&](const TaskTemplate& use) { return meets(worker.spec, use.needs, needed_handler(use.spec)); });
    }
    case DispatchMode::kFixedPipeline: {
      const auto owner = state.globals().type_owner.find(key.type);
      return owner == state.globals().type_owner.end() || owner->second == worker.id;
    }
    case DispatchMode::kAdaptive:
    case DispatchMode::kStaticRoundRobin:
      break;
  }
  return true;
}

bool Board::mode_allows(const State& state, const ShapeKey& key, const Worker& worker) {
  if (state.policy().mode == DispatchMode::kStaticWorker && !worker.owner.is_none() && worker.owner != key.workflow)
    return false;
  return mode_could_allow(state, key, worker);
}

void Board::fit_worker(const State& state, Shape& shape, const Worker& worker) {
  Fit& fit = shape.fits[worker.kind];
  const Policy& policy = state.policy();
  const ShapeKey& key = shape.key;
  bool start = false;
  bool queue = false;
  const bool unchecked = policy.mode == DispatchMode::kStaticRoundRobin;
  if (worker.takes_tasks() && fit.possible && (key.only.is_none() || key.only == worker.id) &&
      (key.pinned.empty() || key.pinned == worker.spec.name) &&
      (!shape.spare_excluded || !std::binary_search(key.excluded.begin(), key.excluded.end(), worker.id))) {
    const bool allowed = mode_allows(state, key, worker);
    if (unchecked) {
      start = worker.executions.empty();
    } else if (allowed) {
      // Nobody overtakes what waits at the worker already.
      start = worker.queued == 0 && worker.spec.resources.fits(key.needs, worker.used, fit.devices);
      queue = !start && key.gang == 0 && worker.queued < policy.max_queue_per_worker;
    }
  }
  set_bit(shape, fit, fit.start_mask, fit.start, shape.start, worker.slot, start);
  set_bit(shape, fit, fit.queue_mask, fit.queue, shape.queue, worker.slot, queue);
}

void Board::refit(const State& state, const Worker& worker) {
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr) continue;
    fit_worker(state, *shapes_[i], worker);
    update_open(i);
  }
}

DispatchMode Board::state_mode(const State& state) { return state.policy().mode; }

std::int64_t Board::room_for(const State& state, const ShapeKey& key) const {
  const bool unchecked = state.policy().mode == DispatchMode::kStaticRoundRobin;
  const auto room_of = [&](const WorkerSpec& spec) -> std::int64_t {
    if (!meets(spec, key.needs, key.handler)) return 0;
    return unchecked ? 1 : std::min<std::int64_t>(spec.resources.count(key.needs), TaskId::kMostTasks);
  };
  std::int64_t sum = 0;
  if (one_worker_only(state)) {
    state.each_worker([&](const Worker& worker) {
      if (worker.live() && mode_could_allow(state, key, worker)) sum = std::max(sum, room_of(worker.spec));
    });
  } else {
    for (const Kind& kind : kinds_) sum += room_of(kind.spec) * kind.live;
  }
  return sum;
}

void Board::count_live(const State& state, Shape& shape) const {
  shape.live = 0;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (shape.fits[i].possible) shape.live += kinds_[i].live;
  }
  // Who is bound to a worker waits for that one alone.
  if (one_worker_only(state)) {
    shape.live = 0;
    state.each_worker([&](const Worker& worker) {
      if (!worker.live() || !shape.fits[worker.kind].possible) return;
      shape.live += mode_could_allow(state, shape.key, worker) ? 1 : 0;
    });
  }
  if (!shape.key.pinned.empty()) {
    const Worker* worker = state.find_worker(shape.key.pinned);
    shape.live = worker != nullptr && worker->live() && shape.fits[worker->kind].possible ? 1 : 0;
  }
  std::uint32_t left_out = 0;
  for (const WorkerId id : shape.key.excluded) {
    const Worker* worker = state.find(id);
    if (worker == nullptr || !worker->live() || !shape.fits[worker->kind].possible) continue;
    if (shape.key.pinned.empty() || shape.key.pinned == worker->spec.name) ++left_out;
  }
  if (shape.key.gang != 0) {
    const Workflow* workflow = state.find(shape.key.workflow);
    const std::uint32_t count = workflow == nullptr ? 0 : workflow->stages[shape.key.gang - 1].count;
    if (room_for(state, shape.key) < count) shape.live = 0;
  }
  shape.spare_excluded = shape.live > left_out;
}

void Board::shape_refit(const State& state, Shape& shape) {
  count_live(state, shape);
  state.each_worker([&](const Worker& worker) { fit_worker(state, shape, worker); });
}

void Board::fleet_changed(State& state) {
  for (Kind& kind : kinds_) kind.taking = kind.live = 0;
  state.each_worker([&](const Worker& worker) {
    kinds_[worker.kind].taking += worker.takes_tasks() ? 1 : 0;
    kinds_[worker.kind].live += worker.live() ? 1 : 0;
  });
  rescale(state);
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr) continue;
    Shape& shape = *shapes_[i];
    const bool spared = shape.spare_excluded;
    count_live(state, shape);
    if (spared != shape.spare_excluded) {
      state.each_worker([&](const Worker& worker) { fit_worker(state, shape, worker); });
      update_open(i);
    }
    arm_grace(state, i);
  }
}

void Board::worker_gone(const Worker& worker, std::int64_t now_ns) { kinds_[worker.kind].gone_ns = now_ns; }

void Board::rescale(const State& state) {
  static_cast<void>(state);
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

void Board::refit_workflow(const State& state, WorkflowId workflow) {
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr || shapes_[i]->key.workflow != workflow) continue;
    shape_refit(state, *shapes_[i]);
    update_open(i);
    arm_grace(state, i);
  }
}

void Board::refit_type(const State& state, const std::string& type) {
  for (ShapeRef i = 0; i < shapes_.size(); ++i) {
    if (shapes_[i] == nullptr || shapes_[i]->key.type != type) continue;
    shape_refit(state, *shapes_[i]);
    update_open(i);
    arm_grace(state, i);
  }
}

ShapeKey Board::key_of(const State& state, const Workflow& workflow, const Task& task) {
  const Policy& policy = state.policy();
  const TaskTemplate& use = workflow.template_of(task);
  const TemplateInfo& info = workflow.info_of(task);
  ShapeKey key;
  if (use.gang) {
    key.gang = task.stage + 1;
    key.workflow = workflow.id;
  }
  key.handler = needed_handler(use.spec);
  if (policy.mode == DispatchMode::kStaticRoundRobin) {  // Requirements are not checked.
    key.needs.cpu_millis = 0;
    return key;
  }
  key.needs = use.needs;
  std::sort(key.needs.capabilities.begin(), key.needs.capabilities.end());
  std::sort(key.needs.labels.begin(), key.needs.labels.end());
  key.category = use.category;
  key.pinned = use.pinned;
  // A gang is placed as one: where one of its tasks failed says nothing about where the others may go.
  if (task.extra != nullptr && !use.gang) {
    if (task.extra->memory_bytes > 0) key.needs.memory_bytes = task.extra->memory_bytes;
    key.excluded = task.extra->failed_on;
  }
  if (policy.mode == DispatchMode::kStaticWorker) key.workflow = workflow.id;
  if (policy.mode == DispatchMode::kFixedPipeline) key.type = use.spec.type;
  if (policy.mode != DispatchMode::kAdaptive) return key;
  if (policy.context_reuse || policy.selection == Selection::kAffinity) key.context = use.context;
  // One that failed rides alone: it may be what fails.
  if (policy.merge && use.mergeable && !use.gang && task.spent == 0) key.merge = info.hash;
  if (policy.stickiness && info.sticky != ~0U && key.excluded.empty() && !use.gang) {
    const StageState& parent = workflow.stages[info.sticky];
    const StageState& own = workflow.stages[task.stage];
    const auto index = static_cast<std::uint32_t>(&task - workflow.tasks.data()) - own.first;
    const Task* source = nullptr;
    if (parent.count == 1) source = &workflow.tasks[parent.first];
    if (parent.count == own.count && parent.count > 1) source = &workflow.tasks[parent.first + index];
    const Worker* worker = source != nullptr && !source->skipped ? state.find(source->worker) : nullptr;
    if (worker != nullptr && worker->live() && meets(worker->spec, key.needs, key.handler)) key.only = worker->id;
  }
  return key;
}

ShapeRef Board::intern(const State& state, const ShapeKey& key) {
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
  for (std::uint32_t i = 0; i < kinds_.size(); ++i) fit_kind(shape, i);
  for (const std::string& item : key.context) shape.holders.push_back(&holders_[item]);
  shape_refit(state, shape);
  return ref;
}

void Board::release(ShapeRef ref) {
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

void Board::release_templates(Workflow& workflow) {
  for (TemplateInfo& info : workflow.templates) {
    if (info.shape != kNoShape) release(std::exchange(info.shape, kNoShape));
  }
}

void Board::update_open(ShapeRef ref) {
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

void Board::hint(const State& state, const Worker& worker, const std::string& item, std::int64_t used_ns) {
  const std::int64_t due = used_ns + state.policy().cache_ttl_ms * graph::kNsPerMs;
  if (due <= state.time_ns()) return;
  CacheHolders& holders = holders_[item];
  if (holders.mask.size() <= worker.kind) holders.mask.resize(worker.kind + 1);
  auto& mask = holders.mask[worker.kind];
  if (mask.size() <= worker.slot / 64) mask.resize(worker.slot / 64 + 1);
  if (test(mask, worker.slot)) return;  // Its expiry looks again when it comes.
  mask[worker.slot / 64] |= 1ULL << worker.slot % 64;
  expiries_.insert({due, worker.id, item});
}

void Board::expire_hints(const State& state) {
  while (!expiries_.empty() && expiries_.begin()->due_ns <= state.time_ns()) {
    Expiry expiry = std::move(expiries_.extract(expiries_.begin()).value());
    const Worker* worker = state.find(expiry.worker);
    if (worker == nullptr) continue;
    auto& mask = holders_[expiry.item].mask[worker->kind];
    mask[worker->slot / 64] &= ~(1ULL << worker->slot % 64);
    for (const CacheItem& found : worker->caches) {
      if (found.item == expiry.item) hint(state, *worker, found.item, found.used_ns);
    }
  }
}

}  // namespace rota::fleet

#include "rota/graph/ready_order.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "rota/assert.h"

namespace rota::graph {

namespace {
// The first eight bytes of the name, as a number that orders like the name.
std::uint64_t prefix_of(std::string_view name) {
  std::uint64_t prefix = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    prefix = prefix << 8 | (i < name.size() ? static_cast<unsigned char>(name[i]) : 0U);
  }
  return prefix;
}
}  // namespace

std::int64_t aged_priority(std::int32_t base, std::int64_t wait_ns, std::int64_t interval_ns, std::int64_t boost) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(wait_ns / interval_ns, boost, &result) ||
      __builtin_add_overflow(result, std::int64_t{base}, &result)) {
    return std::numeric_limits<std::int64_t>::max();
  }
  return result;
}

ReadyOrder::ReadyOrder(const ResourceBudget& budget, const AgingPolicy& aging, const Dag* names)
    : budget_(budget), interval_ns_(aging.interval_ms * kNsPerMs), boost_(aging.boost), names_(names) {
  ROTA_ASSERT(check(budget).ok() && check(aging).ok());
}

// ------------------------------------------------------------------------------------------------------------ classes
std::uint32_t ReadyOrder::class_of(std::int32_t priority, const ResourceDemand& demand) {
  const auto [demand_at, new_demand] = demand_index_.try_emplace(demand, static_cast<std::uint32_t>(demands_.size()));
  if (new_demand) demands_.push_back({.demand = demand});
  const auto [class_at, new_class] =
      class_index_.try_emplace({demand_at->second, priority}, static_cast<std::uint32_t>(classes_.size()));
  if (new_class) {
    Demand& group = demands_[demand_at->second];
    const auto leaf = static_cast<std::uint32_t>(group.classes.size());
    classes_.push_back({.priority = priority, .demand = demand_at->second, .leaf = leaf});
    group.classes.push_back(class_at->second);
    if (group.tree.size() < 2 * group.classes.size()) {  // Twice the leaves; the existing ones are replayed.
      group.tree.assign(std::max<std::size_t>(2, 2 * group.tree.size()), Node{});
      for (std::uint32_t i = 0; i < group.classes.size(); ++i) refresh_leaf(group, i);
      for (std::size_t node = group.tree.size() / 2; node-- > 1;) merge(group, node);
    }
  }
  return class_at->second;
}

void ReadyOrder::declare(TaskRef task, std::int32_t priority, const ResourceDemand& demand) {
  if (entries_.size() < task.value()) entries_.resize(task.value());
  Entry& entry = entries_[task.value() - 1];
  ROTA_ASSERT(!entry.ready, "task ", task, " is ready");
  entry.klass = class_of(priority, demand);
  entry.tie = names_ == nullptr ? task.value() : prefix_of(names_->name(task));
}

bool ReadyOrder::before(const Waiting& a, const Waiting& b) const {
  if (a.since != b.since) return a.since < b.since;
  if (a.tie != b.tie) return a.tie < b.tie;
  if (names_ != nullptr) {
    const int order = names_->name(TaskRef(a.task + 1)).compare(names_->name(TaskRef(b.task + 1)));
    if (order != 0) return order < 0;
  }
  return a.task < b.task;
}

// REQUIRES: both have a head.
bool ReadyOrder::head_before(std::uint32_t a, std::uint32_t b) const {
  if (classes_[a].effective != classes_[b].effective) return classes_[a].effective > classes_[b].effective;
  return before(classes_[a].heap.front(), classes_[b].heap.front());
}

// --------------------------------------------------------------------------------------------------------------- tree
// The effective priority of the leaf's head, and when it next changes.
void ReadyOrder::refresh_leaf(Demand& demand, std::uint32_t leaf) {
  Node& node = demand.tree[demand.tree.size() / 2 + leaf];
  Class& klass = classes_[demand.classes[leaf]];
  if (klass.heap.empty()) {
    node = Node{};
    return;
  }
  const Moment since = klass.heap.front().since;
  const std::int64_t wait = now_.ns - since.ns;
  klass.effective = aged_priority(klass.priority, wait, interval_ns_, boost_);
  node = {demand.classes[leaf], boost_ == 0 ? Moment::never() : now_.after(interval_ns_ - wait % interval_ns_)};
}

void ReadyOrder::merge(Demand& demand, std::size_t node) const {
  const Node& a = demand.tree[2 * node];
  const Node& b = demand.tree[2 * node + 1];
  const bool first = b.winner == kNone || (a.winner != kNone && head_before(a.winner, b.winner));
  demand.tree[node] = {first ? a.winner : b.winner, std::min(a.changes, b.changes)};
}

void ReadyOrder::climb(Demand& demand, std::uint32_t leaf) {
  refresh_leaf(demand, leaf);
  for (std::size_t node = (demand.tree.size() / 2 + leaf) / 2; node >= 1; node /= 2) merge(demand, node);
}

// Replays the parts below `node` that have changed. The depth is at most that of the tree: 32.
void ReadyOrder::replay(Demand& demand, std::size_t node) {
  if (demand.tree[node].changes > now_) return;
  if (const std::size_t leaves = demand.tree.size() / 2; node >= leaves) {
    refresh_leaf(demand, static_cast<std::uint32_t>(node - leaves));
    return;
  }
  replay(demand, 2 * node);
  replay(demand, 2 * node + 1);
  merge(demand, node);
}

// -------------------------------------------------------------------------------------------------------- in and out
void ReadyOrder::insert(std::uint32_t task) {
  Entry& entry = entries_[task];
  Class& klass = classes_[entry.klass];
  const auto later = [this](const Waiting& a, const Waiting& b) { return before(b, a); };
  klass.heap.push_back({entry.since, entry.tie, task, ++entry.stamp});
  std::push_heap(klass.heap.begin(), klass.heap.end(), later);
  Demand& demand = demands_[klass.demand];
  demand.live += 1;
  if (klass.heap.front().task == task) climb(demand, klass.leaf);
}

void ReadyOrder::drop(std::uint32_t task) {
  Entry& entry = entries_[task];
  Class& klass = classes_[entry.klass];
  Demand& demand = demands_[klass.demand];
  demand.live -= 1;
  klass.dead += 1;
  const bool was_head = klass.heap.front().task == task && klass.heap.front().stamp == entry.stamp;
  ++entry.stamp;
  if (was_head) {
    settle_head(klass);
    climb(demand, klass.leaf);
  } else if (klass.dead > klass.heap.size() / 2 + 16) {
    std::erase_if(klass.heap, [this](const Waiting& w) { return entries_[w.task].stamp != w.stamp; });
    std::make_heap(klass.heap.begin(), klass.heap.end(),
                   [this](const Waiting& a, const Waiting& b) { return before(b, a); });
    klass.dead = 0;
  }
}

// Drops removed entries until the head of the heap is a ready task.
void ReadyOrder::settle_head(Class& klass) {
  const auto later = [this](const Waiting& a, const Waiting& b) { return before(b, a); };
  while (!klass.heap.empty() && entries_[klass.heap.front().task].stamp != klass.heap.front().stamp) {
    std::pop_heap(klass.heap.begin(), klass.heap.end(), later);
    klass.heap.pop_back();
    klass.dead -= 1;
  }
}

void ReadyOrder::push(TaskRef ref, Moment now) {
  advance(now);
  const std::uint32_t task = ref.value() - 1;
  Entry& entry = entries_[task];
  ROTA_ASSERT(entry.klass != kNone && !entry.ready, "task ", ref, " was not declared, or is ready already");
  entry.ready = true;
  entry.since = now_;
  live_ += 1;
  queue_.push_back({task, ++entry.turn});
  insert(task);
  settle_oldest();
}

void ReadyOrder::remove(TaskRef ref, Moment now) {
  advance(now);
  const std::uint32_t task = ref.value() - 1;
  ROTA_ASSERT(entries_[task].ready, "task ", ref, " is not ready");
  drop(task);
  entries_[task].ready = false;
  ++entries_[task].turn;
  live_ -= 1;
  settle_oldest();
}

void ReadyOrder::set_priority(TaskRef ref, std::int32_t priority) {
  const std::uint32_t task = ref.value() - 1;
  Entry& entry = entries_[task];
  const bool ready = entry.ready;
  if (ready) drop(task);
  entry.klass = class_of(priority, demands_[classes_[entry.klass].demand].demand);
  if (ready) insert(task);
}

// Finds the oldest ready task. If it was not the oldest before, it is from now on.
void ReadyOrder::settle_oldest() {
  while (!queue_.empty() && entries_[queue_.front().task].turn != queue_.front().turn) queue_.pop_front();
  if (queue_.size() > 2 * live_ + 16) {
    std::erase_if(queue_, [this](const Turn& t) { return entries_[t.task].turn != t.turn; });
  }
  if (queue_.empty()) {
    oldest_ = kNone;
  } else if (oldest_ != queue_.front().task || oldest_turn_ != queue_.front().turn) {
    oldest_ = queue_.front().task;
    oldest_turn_ = queue_.front().turn;
    oldest_from_ = now_;
  }
}

TaskRef ReadyOrder::reserved(Moment now) {
  advance(now);
  const bool due = oldest_ != kNone && now_ >= oldest_from_.after(kReservationIntervals * interval_ns_);
  return due ? TaskRef(oldest_ + 1) : TaskRef::none();
}

TaskRef ReadyOrder::pick(Moment now) {
  advance(now);
  if (live_ == 0) return TaskRef::none();
  const auto fits = [this](const Demand& demand) {
    const ResourcesHeld::Fit fit = held_.fit(demand.demand, budget_);
    hits_.cpu += fit == ResourcesHeld::Fit::kNoCpu ? 1 : 0;
    hits_.memory += fit == ResourcesHeld::Fit::kNoMemory ? 1 : 0;
    return fit == ResourcesHeld::Fit::kFits;
  };
  if (const TaskRef first = reserved(now_); !first.is_none()) {
    return fits(demands_[classes_[entry(first).klass].demand]) ? take(oldest_) : TaskRef::none();
  }
  if (held_.cpu_slots == budget_.cpu_slots_hard) {  // Every task needs a CPU slot.
    hits_.cpu += 1;
    return TaskRef::none();
  }
  std::uint32_t best = kNone;
  for (Demand& demand : demands_) {
    if (demand.live == 0 || !fits(demand)) continue;
    replay(demand, 1);
    const std::uint32_t winner = demand.tree[1].winner;
    if (best == kNone || head_before(winner, best)) best = winner;
  }
  return best == kNone ? TaskRef::none() : take(classes_[best].heap.front().task);
}

TaskRef ReadyOrder::take(std::uint32_t task) {
  const TaskRef ref(task + 1);
  held_.take(demand(ref));
  remove(ref, now_);
  return ref;
}

void ReadyOrder::release(TaskRef task) { held_.give_back(demand(task)); }

void ReadyOrder::compact(const std::vector<bool>& keep) {
  const std::vector<Entry> entries = std::exchange(entries_, {});
  const std::vector<Class> classes = std::exchange(classes_, {});
  const std::vector<Demand> demands = std::exchange(demands_, {});
  const std::deque<Turn> queue = std::exchange(queue_, {});
  demand_index_.clear();
  class_index_.clear();
  std::vector<std::uint32_t> number(entries.size(), kNone);
  for (std::uint32_t i = 0; i < entries.size(); ++i) {
    ROTA_ASSERT(keep[i] || !entries[i].ready, "task ", i + 1, " is ready");
    if (!keep[i]) continue;
    number[i] = static_cast<std::uint32_t>(entries_.size());
    Entry entry = entries[i];
    if (names_ == nullptr) entry.tie = number[i] + 1;
    if (entry.klass != kNone) {
      const Class& klass = classes[entry.klass];
      entry.klass = class_of(klass.priority, demands[klass.demand].demand);
    }
    entries_.push_back(entry);
    if (!entry.ready) continue;
    classes_[entry.klass].heap.push_back({entry.since, entry.tie, number[i], entry.stamp});
    demands_[classes_[entry.klass].demand].live += 1;
  }
  for (Class& klass : classes_) {
    std::make_heap(klass.heap.begin(), klass.heap.end(),
                   [this](const Waiting& a, const Waiting& b) { return before(b, a); });
  }
  for (Demand& demand : demands_) {
    for (std::uint32_t leaf = 0; leaf < demand.classes.size(); ++leaf) refresh_leaf(demand, leaf);
    for (std::size_t node = demand.tree.size() / 2; node-- > 1;) merge(demand, node);
  }
  for (const Turn& turn : queue) {
    if (entries[turn.task].turn == turn.turn) queue_.push_back({number[turn.task], turn.turn});
  }
  if (oldest_ != kNone) oldest_ = number[oldest_];
}

std::int64_t ReadyOrder::effective_priority(TaskRef task, Moment now) const {
  return aged_priority(priority(task), std::max(now, now_).ns - entry(task).since.ns, interval_ns_, boost_);
}

void ReadyOrder::check_invariants() const {
  ROTA_ASSERT(held_.cpu_slots <= budget_.cpu_slots_hard);
  ROTA_ASSERT(held_.tasks != 0 || (held_.cpu_slots == 0 && held_.ram_mb == 0 && held_.vram_mb == 0));
  std::size_t ready = 0, in_heaps = 0, in_demands = 0;
  for (const Entry& entry : entries_) ready += entry.ready ? 1 : 0;
  for (const Class& klass : classes_) {
    std::size_t dead = 0;
    for (const Waiting& w : klass.heap) dead += entries_[w.task].stamp != w.stamp ? 1 : 0;
    ROTA_ASSERT(dead == klass.dead, "dead=", dead, " counted=", klass.dead);
    ROTA_ASSERT(klass.heap.empty() || entries_[klass.heap.front().task].stamp == klass.heap.front().stamp);
    in_heaps += klass.heap.size() - dead;
  }
  for (const Demand& demand : demands_) in_demands += demand.live;
  ROTA_ASSERT(ready == live_ && in_heaps == live_ && in_demands == live_, "ready=", ready, " live=", live_);
  ROTA_ASSERT((live_ == 0) == (oldest_ == kNone));
}

}  // namespace rota::graph

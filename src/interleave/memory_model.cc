#include "interleave/memory_model.h"

#include <utility>

namespace rota::interleave {

void MemoryModel::reset() {
  threads_[0] = ThreadState{};
  location_count_ = 0;
  store_total_ = 0;
  fences_.clear();
  sc_count_ = 0;
}

// --- threads

Epoch MemoryModel::tick(int thread) {
  ThreadState& self = state(thread);
  const Epoch epoch = ++self.view.clock[thread];
  self.cause[thread] = epoch;
  return epoch;
}

void MemoryModel::start_thread(int child, int parent) {
  tick(parent);
  ThreadState& self = state(child);
  self = ThreadState{};
  // [thread.thread.constr]: the completion of the constructor synchronizes with the start of the new thread.
  self.view = state(parent).view;
  self.cause = state(parent).cause;
}

void MemoryModel::join_thread(int waiter, int finished) {
  tick(waiter);
  state(waiter).view.join(state(finished).view);
  state(waiter).cause.join(state(finished).cause);
}

// --- locations

StoreId MemoryModel::new_store() {
  if (store_total_ == stores_.size()) stores_.emplace_back();
  return static_cast<StoreId>(store_total_++);
}

LocationId MemoryModel::create(int thread, Value initial, std::uint32_t event) {
  if (location_count_ == locations_.size()) locations_.emplace_back();
  const auto id = static_cast<LocationId>(location_count_++);
  Location& location = locations_[id];
  location.order.clear();
  location.last_access = Clock{};
  location.creator = thread;
  location.created = touch(thread, location);
  // Initialisation is not atomic: it is not an event of S and carries no message. A reader must be ordered after it
  // anyway (constructed_for).
  Store first;
  first.value = initial;
  first.thread = thread;
  first.epoch = location.created;
  first.event = event;
  first.cause = state(thread).cause;
  first.seen.note(thread, location.created);
  insert(location, 0, std::move(first));
  return id;
}

Epoch MemoryModel::touch(int thread, Location& location) {
  const Epoch epoch = tick(thread);
  location.last_access[thread] = epoch;
  return epoch;
}

bool MemoryModel::constructed_for(int thread, LocationId location) const {
  return clock(thread).covers(locations_[location].creator, locations_[location].created);
}

bool MemoryModel::quiet_for(int thread, LocationId location) const {
  const Clock& mine = clock(thread);
  const Clock& theirs = locations_[location].last_access;
  for (int t = 0; t < kMaxThreads; ++t) {
    if (mine[t] < theirs[t]) return false;
  }
  return true;
}

StoreId MemoryModel::insert(Location& location, std::uint32_t position, Store store) {
  store.position = position;
  store.number = static_cast<std::uint32_t>(location.order.size());
  const StoreId id = new_store();
  stores_[id] = std::move(store);
  location.order.insert(location.order.begin() + position, id);
  for (std::size_t p = position + 1; p < location.order.size(); ++p) ++stores_[location.order[p]].position;
  return id;
}

// --- coherence and atomicity

// The last store, in modification order, that happens before the holder of `clock` or was read by something that
// does. There is one at position 0: the initialisation.
std::uint32_t MemoryModel::floor(const Location& location, const Clock& clock) const {
  auto position = static_cast<std::uint32_t>(location.order.size());
  while (position > 1 && !stores_[location.order[position - 1]].seen.happened_before(clock)) --position;
  return position - 1;
}

void MemoryModel::readable(int thread, LocationId id, std::memory_order order, const Clock* also_seen,
                           std::vector<std::uint32_t>& positions) const {
  const Location& location = locations_[id];
  positions.clear();
  std::uint32_t lowest = floor(location, clock(thread));
  if (also_seen != nullptr) {
    const std::uint32_t other = floor(location, *also_seen);
    if (other > lowest) lowest = other;
  }
  for (auto p = static_cast<std::uint32_t>(location.order.size()); p-- > lowest;) {
    if (sc_allows(thread, location, load_rank(p), is_seq_cst(order))) positions.push_back(p);
  }
}

void MemoryModel::modifiable(int thread, LocationId id, std::memory_order order,
                             std::vector<std::uint32_t>& positions) const {
  const Location& location = locations_[id];
  positions.clear();
  const std::uint32_t lowest = floor(location, clock(thread));
  for (auto p = static_cast<std::uint32_t>(location.order.size()); p-- > lowest;) {
    if (stores_[location.order[p]].taken) continue;
    if (sc_allows(thread, location, modify_rank(p), is_seq_cst(order))) positions.push_back(p);
  }
}

void MemoryModel::placeable(int thread, LocationId id, std::memory_order order,
                            std::vector<std::uint32_t>& positions) const {
  const Location& location = locations_[id];
  positions.clear();
  const std::uint32_t lowest = floor(location, clock(thread));
  for (auto p = static_cast<std::uint32_t>(location.order.size()); p > lowest; --p) {
    if (stores_[location.order[p - 1]].taken) continue;
    if (sc_allows(thread, location, store_rank(p), is_seq_cst(order))) positions.push_back(p);
  }
}

// --- the order S

void MemoryModel::close(ScSet& set) const {
  ScSet all = set;
  set.for_each([&](int event) { all.add_all(before_[index(event)]); });
  set = all;
}

ScSet MemoryModel::fences_before(int thread) const {
  ScSet set;
  for (const ScFence& fence : fences_) {
    if (clock(thread).covers(fence.thread, fence.epoch)) set.add(fence.event);
  }
  return set;
}

ScSet MemoryModel::sources(int thread, int sc_event) const {
  ScSet set = fences_before(thread);
  if (sc_event >= 0) set.add(sc_event);
  return set;
}

// All that must precede a new seq_cst event: by rule (1), and by rule (2) with the event as B and Y.
ScSet MemoryModel::predecessors(int thread, const Location& location, Rank rank) const {
  ScSet set = state(thread).view.strong;
  for (std::uint32_t p = 0; p < rank.writes_before; ++p) {
    const Store& earlier = stores_[location.order[p]];
    set.add_all(earlier.write_sources);
    if (p < rank.reads_before) set.add_all(earlier.read_sources);
  }
  close(set);
  return set;
}

ScSet MemoryModel::sources_closed(int thread, const Location& location, Rank rank, bool seq_cst) const {
  ScSet set = fences_before(thread);
  close(set);
  if (seq_cst) set.add_all(predecessors(thread, location, rank));
  return set;
}

ScSet MemoryModel::targets(const Location& location, Rank rank) const {
  ScSet set;
  for (std::size_t p = rank.after_from; p < location.order.size(); ++p) {
    const Store& later = stores_[location.order[p]];
    if (later.sc_event >= 0) set.add(later.sc_event);
    set.add_all(later.sc_reads);
    for (const ScFence& fence : fences_) {
      if (later.seen.happened_before(fence.clock)) set.add(fence.event);
    }
  }
  return set;
}

// Adding "every source before every target" makes a cycle iff some target already precedes some source. A cycle
// through several of the new pairs contains such a target too, so one look is enough.
bool MemoryModel::sc_allows(int thread, const Location& location, Rank rank, bool seq_cst) const {
  if (sc_count_ == 0 || rank.after_from == location.order.size()) return true;
  if (!seq_cst && fences_.empty()) return true;
  const ScSet later = targets(location, rank);
  return later.empty() || !sources_closed(thread, location, rank, seq_cst).intersects(later);
}

int MemoryModel::sc_commit(int thread, const Location& location, Rank rank, bool seq_cst) {
  if (!seq_cst && (fences_.empty() || rank.after_from == location.order.size())) return -1;
  ScSet earlier = sources_closed(thread, location, rank, seq_cst);
  int event = -1;
  if (seq_cst) {
    event = sc_count_++;
    before_[index(event)] = predecessors(thread, location, rank);
  }
  const ScSet later = targets(location, rank);
  if (later.empty()) return event;
  if (event >= 0) earlier.add(event);
  for (int e = 0; e < sc_count_; ++e) {
    ScSet& preceding = before_[index(e)];
    if (e != event && (later.contains(e) || preceding.intersects(later))) preceding.add_all(earlier);
  }
  return event;
}

// --- commits

StoreId MemoryModel::commit_load(int thread, LocationId id, std::uint32_t position, std::memory_order order) {
  Location& location = locations_[id];
  ThreadState& self = state(thread);
  const Epoch epoch = touch(thread, location);
  const StoreId source_id = location.order[position];
  Store& source = stores_[source_id];
  self.cause.join(source.cause);
  const int event = sc_commit(thread, location, load_rank(position), is_seq_cst(order));
  if (event >= 0 || !fences_.empty()) source.read_sources.add_all(sources(thread, event));
  if (is_acquire(order)) {
    self.view.join(source.message);
  } else {
    self.pending_acquire.join(source.message);
  }
  source.seen.note(thread, epoch);
  if (event >= 0) {
    source.sc_reads.add(event);
    self.view.strong.add(event);
  }
  return source_id;
}

StoreId MemoryModel::commit_store(int thread, LocationId id, std::uint32_t position, Value value,
                                  std::memory_order order, std::uint32_t event) {
  Location& location = locations_[id];
  ThreadState& self = state(thread);
  Store made;
  made.value = value;
  made.thread = thread;
  made.epoch = touch(thread, location);
  made.event = event;
  made.cause = self.cause;
  made.seen.note(thread, made.epoch);
  made.message = is_release(order) ? self.view : self.release_fence;
  made.sc_event = sc_commit(thread, location, store_rank(position), is_seq_cst(order));
  if (made.sc_event >= 0 || !fences_.empty()) made.write_sources = sources(thread, made.sc_event);
  if (made.sc_event >= 0) self.view.strong.add(made.sc_event);
  return insert(location, position, std::move(made));
}

StoreId MemoryModel::commit_modify(int thread, LocationId id, std::uint32_t position, Value value,
                                   std::memory_order order, std::uint32_t event) {
  Location& location = locations_[id];
  ThreadState& self = state(thread);
  const Epoch epoch = touch(thread, location);
  Store& source = stores_[location.order[position]];
  source.taken = true;
  self.cause.join(source.cause);
  Store made;
  made.sc_event = sc_commit(thread, location, modify_rank(position), is_seq_cst(order));
  if (made.sc_event >= 0 || !fences_.empty()) made.write_sources = sources(thread, made.sc_event);
  if (is_acquire(order)) {
    self.view.join(source.message);
  } else {
    self.pending_acquire.join(source.message);
  }
  made.value = value;
  made.thread = thread;
  made.epoch = epoch;
  made.event = event;
  made.cause = self.cause;
  made.seen.note(thread, epoch);
  // A read-modify-write continues the release sequence of what it read, whatever its own order.
  made.message = is_release(order) ? self.view : self.release_fence;
  made.message.join(source.message);
  if (made.sc_event >= 0) self.view.strong.add(made.sc_event);
  return insert(location, position + 1, std::move(made));
}

void MemoryModel::commit_fence(int thread, std::memory_order order) {
  ThreadState& self = state(thread);
  const Epoch epoch = tick(thread);
  ScSet preceding = self.view.strong;  // Rule (1): what the fence itself acquires does not strongly precede it.
  if (is_acquire(order)) self.view.join(self.pending_acquire);
  if (is_release(order)) self.release_fence = self.view;
  if (!is_seq_cst(order)) return;
  // Rule (2) with the fence as Y: B is anything that happens before it; per location the last one says it all.
  for (std::size_t i = 0; i < location_count_; ++i) {
    const Location& location = locations_[i];
    const std::uint32_t last = floor(location, self.view.clock);
    for (std::uint32_t p = 0; p <= last; ++p) {
      const Store& earlier = stores_[location.order[p]];
      preceding.add_all(earlier.write_sources);
      if (p < last) preceding.add_all(earlier.read_sources);
    }
  }
  close(preceding);
  const int event = sc_count_++;
  before_[index(event)] = preceding;
  fences_.push_back({event, thread, epoch, self.view.clock});
  self.view.strong.add(event);
}

}  // namespace rota::interleave

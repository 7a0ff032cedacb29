// What loads, stores, read-modify-writes, fences and plain accesses do.
#include <utility>

#include "interleave/engine.h"

namespace rota::interleave {
namespace {

std::string with_order(const char* what, std::memory_order order) { return std::string(what) + " " + name_of(order); }

constexpr std::size_t kMaxOutcomes = 64;

std::uint64_t all_of(std::size_t count) {
  return count == kMaxOutcomes ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
}

std::string at_place(Where where) {
  if (where.file == nullptr) return "";
  const std::string file = where.file;
  return " (" + file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line) + ")";
}

}  // namespace

// --- objects

ObjectId Engine::find(ObjectKind kind, const void* address, Where where) {
  const ObjectId id = objects_.find(kind, address);
  if (id == kNoObject) {
    fail(Failure::kMisuse, "uses an object that was not constructed in this execution" + at_place(where));
  }
  check_access(id, where);
  return id;
}

// REQUIRES: called again after take_turn(): the object may have been destroyed meanwhile.
void Engine::check_access(ObjectId id, Where where) {
  const Object& object = objects_[id];
  if (object.dead) fail(Failure::kMisuse, "uses " + objects_.name_of(id) + " after its destruction" + at_place(where));
  const bool has_location = object.kind == ObjectKind::kAtomic || object.kind == ObjectKind::kMutex;
  if (has_location && !model_.constructed_for(running_, object.location)) {
    fail(Failure::kDataRace, "uses " + objects_.name_of(id) +
                                 " and nothing orders that after its construction by another thread" + at_place(where));
  }
}

void Engine::construct(ObjectKind kind, const void* address, Value initial, std::size_t bytes) {
  const ObjectId id = objects_.add(kind, address);
  objects_[id].bytes = static_cast<std::uint8_t>(bytes);
  const bool has_location = kind == ObjectKind::kAtomic || kind == ObjectKind::kMutex;
  if (kind == ObjectKind::kPlain) {
    objects_[id].writer = running_;
    objects_[id].written = model_.plain_epoch(running_);
  }
  TraceEntry* const entry = trace("construct", id, Where{});
  if (has_location) {
    const auto event = static_cast<std::uint32_t>(trace_ != nullptr ? trace_->entries.size() - 1 : 0);
    objects_[id].location = model_.create(running_, initial, event);
    if (entry != nullptr) {
      entry->wrote = model_.order_of(objects_[id].location)[0];
      entry->detail = "= " + format_value(initial, bytes);
      trace_->makers.resize(entry->wrote + 1, event);
    }
  } else {
    model_.tick(running_);
  }
}

void Engine::destroy(ObjectKind kind, const void* address) {
  const ObjectId id = objects_.find(kind, address);
  if (id == kNoObject || objects_[id].dead) fail(Failure::kMisuse, "destroys an object that does not live");
  Object& object = objects_[id];
  const std::string name = objects_.name_of(id);
  if (kind == ObjectKind::kPlain) plain_write(address, Where{});
  if (object.owner >= 0) fail(Failure::kMisuse, "destroys " + name + " while it is locked");
  if (object.queue != kNoObject && !objects_[object.queue].waiters.empty()) {
    fail(Failure::kMisuse, "destroys " + name + " while a thread waits on it");
  }
  const bool has_location = kind == ObjectKind::kAtomic || kind == ObjectKind::kMutex;
  if (has_location && !model_.quiet_for(running_, object.location)) {
    fail(Failure::kDataRace, "destroys " + name + " and nothing orders that after another thread's last use");
  }
  object.dead = true;
  trace("destroy", id, Where{});
}

void Engine::name(const void* address, const char* text) {
  for (const ObjectKind kind : {ObjectKind::kAtomic, ObjectKind::kPlain, ObjectKind::kMutex, ObjectKind::kCondition}) {
    const ObjectId id = objects_.find(kind, address);
    if (id == kNoObject) continue;
    objects_[id].name = text;
    if (trace_ == nullptr) continue;
    for (TraceEntry& entry : trace_->entries) {
      if (entry.id == id) entry.object = text;
    }
  }
}

std::vector<Value> Engine::modification_order(const void* address) {
  const ObjectId id = find(ObjectKind::kAtomic, address, Where{});
  std::vector<Value> values;
  for (const StoreId store : model_.order_of(objects_[id].location)) values.push_back(model_.store(store).value);
  return values;
}

// The entry of the event that is about to happen, or null when no trace is wanted.
TraceEntry* Engine::trace(const char* what, ObjectId object, Where where) {
  if (trace_ == nullptr) return nullptr;
  TraceEntry entry;
  entry.thread = running_;
  entry.what = what;
  entry.id = object;
  entry.where = where;
  if (object != kNoObject) entry.object = objects_.name_of(object);
  trace_->entries.push_back(std::move(entry));
  return &trace_->entries.back();
}

// --- choosing

// The plainest outcome (newest store) comes first.
void Engine::collect_choices(int id) {
  const Thread& t = thread(id);
  const Operation& operation = t.operation;
  choices_.clear();
  if (operation.object == kNoObject) return;
  const LocationId location = objects_[operation.object].location;
  switch (operation.kind) {
    case Kind::kLoad:
      model_.readable(id, location, operation.order, nullptr, positions_);
      for (const std::uint32_t position : positions_) choices_.push_back({position, true});
      return;
    case Kind::kModify:
      model_.modifiable(id, location, operation.order, positions_);
      for (const std::uint32_t position : positions_) choices_.push_back({position, true});
      return;
    case Kind::kExchange:
    case Kind::kLock: {
      // A compare-exchange that succeeds is a read-modify-write; one that fails is a load, which may read an old
      // value. Reading the expected value from a store that another read-modify-write has taken is neither.
      model_.modifiable(id, location, operation.order, positions_);
      model_.readable(id, location, operation.failure, nullptr, more_positions_);
      std::size_t m = 0;
      std::size_t r = 0;
      for (std::uint32_t position = model_.store_count(location); position-- > 0;) {
        const bool modifiable = m < positions_.size() && positions_[m] == position && ++m != 0;
        const bool readable = r < more_positions_.size() && more_positions_[r] == position && ++r != 0;
        const bool equal = model_.at(location, position).value == operation.expected;
        if (equal ? modifiable : readable && operation.kind != Kind::kLock) choices_.push_back({position, equal});
      }
      break;
    }
    case Kind::kWait:
      // The kernel's comparison is a load; it knows what earlier operations on the queue knew of the word.
      model_.readable(id, location, operation.order, &objects_[operation.queue].seen, more_positions_);
      for (const std::uint32_t position : more_positions_) {
        choices_.push_back({position, model_.at(location, position).value == operation.expected});
      }
      break;
    case Kind::kQueue:
      return;
  }
  if (operation.may_fail && t.spurious_left > 0) {
    for (const std::uint32_t position : more_positions_) {
      if (model_.at(location, position).value == operation.expected) choices_.push_back({position, false});
    }
  }
}

bool Engine::is_fresh(const Operation& operation, const Choice& choice, const Progress& since) const {
  const bool queue_moved = operation.queue != kNoObject && objects_[operation.queue].operations > since.queue;
  return queue_moved || model_.at(objects_[operation.object].location, choice.position).number >= since.stores;
}

bool Engine::has_fresh_outcome(int id, const Progress& since) {
  const Operation& operation = thread(id).operation;
  if (operation.object == kNoObject) return objects_[operation.queue].operations > since.queue;
  collect_choices(id);
  for (const Choice& choice : choices_) {
    if (is_fresh(operation, choice, since)) return true;
  }
  return false;
}

Engine::Choice Engine::choose_outcome() {
  collect_choices(running_);
  std::size_t count = choices_.size();
  if (count > kMaxOutcomes) {
    count = kMaxOutcomes;
    outcome_.candidates_cut = true;
  }
  std::uint64_t allowed = all_of(count);
  const Thread& me = self();
  if (me.turn.only_fresh) {
    allowed = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_fresh(me.operation, choices_[i], me.turn.since)) allowed |= std::uint64_t{1} << i;
    }
    if (allowed == 0) {
      search_->mark_redundant();
      allowed = all_of(count);
    }
  }
  return choices_[choose(static_cast<std::uint32_t>(count), allowed)];
}

void Engine::make_room_for_sc(std::memory_order order) {
  if (is_seq_cst(order) && !model_.has_sc_room()) {
    fail(Failure::kLimit, "more than " + std::to_string(kMaxScEvents) + " seq_cst operations in one execution");
  }
}

// --- atomics

Value Engine::load(const void* address, std::memory_order order, Where where) {
  const ObjectId id = find(ObjectKind::kAtomic, address, where);
  take_turn({.kind = Kind::kLoad, .object = id, .order = order}, where);
  check_access(id, where);
  make_room_for_sc(order);
  const LocationId location = objects_[id].location;
  const std::uint32_t position = choose_outcome().position;
  const StoreId source = model_.commit_load(running_, location, position, order);
  record_event(id, true, false, self().turn.node);
  const Value value = model_.store(source).value;
  note_read(id, source, value);
  if (TraceEntry* const entry = trace("load", id, where)) {
    entry->what = with_order("load", order);
    entry->detail = "= " + format_value(value, objects_[id].bytes);
    entry->read = source;
    entry->stale = position + 1 < model_.store_count(location);
  }
  return value;
}

// Makes a store where the search wants it, and returns its id.
StoreId Engine::place_store(ObjectId id, Value value, std::memory_order order) {
  const LocationId location = objects_[id].location;
  model_.placeable(running_, location, order, positions_);
  std::size_t count = positions_.size();
  if (count > kMaxOutcomes) {
    count = kMaxOutcomes;
    outcome_.candidates_cut = true;
  }
  const std::uint32_t pick = choose(static_cast<std::uint32_t>(count), all_of(count));
  report_races(id, true);
  const auto event = static_cast<std::uint32_t>(trace_ != nullptr ? trace_->entries.size() : 0);
  const StoreId made = model_.commit_store(running_, location, positions_[pick], value, order, event);
  record_event(id, false, false, -1);
  note_write();
  if (trace_ != nullptr) trace_->makers.resize(made + 1, event);
  return made;
}

void Engine::store(const void* address, Value value, std::memory_order order, Where where) {
  const ObjectId id = find(ObjectKind::kAtomic, address, where);
  step();
  make_room_for_sc(order);
  const StoreId made = place_store(id, value, order);
  if (TraceEntry* const entry = trace("store", id, where)) {
    entry->what = with_order("store", order);
    entry->detail = "= " + format_value(value, objects_[id].bytes);
    entry->wrote = made;
  }
}

Value Engine::modify(const void* address, std::memory_order order, Modify apply, const void* context, const char* what,
                     Where where) {
  const ObjectId id = find(ObjectKind::kAtomic, address, where);
  take_turn({.kind = Kind::kModify, .object = id, .order = order}, where);
  check_access(id, where);
  make_room_for_sc(order);
  const LocationId location = objects_[id].location;
  const std::uint32_t position = choose_outcome().position;
  const StoreId source = model_.order_of(location)[position];
  const Value old_value = model_.store(source).value;
  const Value new_value = apply(old_value, context);
  report_races(id, true, &model_.store(source).cause);
  const auto event = static_cast<std::uint32_t>(trace_ != nullptr ? trace_->entries.size() : 0);
  const StoreId made = model_.commit_modify(running_, location, position, new_value, order, event);
  record_event(id, true, true, self().turn.node);
  note_read(id, source, old_value);
  if (!(new_value == old_value)) note_write();
  if (TraceEntry* const entry = trace(what, id, where)) {
    const std::size_t bytes = objects_[id].bytes;
    entry->what = with_order(what, order);
    entry->detail = format_value(old_value, bytes) + " -> " + format_value(new_value, bytes);
    entry->read = source;
    entry->wrote = made;
    entry->stale = position + 2 < model_.store_count(location);
    trace_->makers.resize(made + 1, event);
  }
  return old_value;
}

bool Engine::compare_exchange(const void* address, Value& expected, Value desired, std::memory_order success,
                              std::memory_order failure, bool weak, Where where) {
  const ObjectId id = find(ObjectKind::kAtomic, address, where);
  take_turn({.kind = Kind::kExchange,
             .object = id,
             .order = success,
             .failure = failure,
             .expected = expected,
             .may_fail = weak},
            where);
  check_access(id, where);
  make_room_for_sc(success);
  make_room_for_sc(failure);
  return exchange(expected, desired, weak ? "cas_weak" : "cas", where);
}

// Carries out the compare-exchange at which the running thread has its turn.
bool Engine::exchange(Value& expected, Value desired, const char* what, Where where) {
  const Operation operation = self().operation;
  const ObjectId id = operation.object;
  const LocationId location = objects_[id].location;
  const Choice choice = choose_outcome();
  const StoreId source = model_.order_of(location)[choice.position];
  const Value old_value = model_.store(source).value;
  if (!choice.success && old_value == expected) --self().spurious_left;
  report_races(id, choice.success, &model_.store(source).cause);
  const auto event = static_cast<std::uint32_t>(trace_ != nullptr ? trace_->entries.size() : 0);
  StoreId made = kNoStore;
  if (choice.success) {
    made = model_.commit_modify(running_, location, choice.position, desired, operation.order, event);
  } else {
    model_.commit_load(running_, location, choice.position, operation.failure);
  }
  record_event(id, true, choice.success, self().turn.node);
  note_read(id, source, old_value);
  if (choice.success && !(desired == old_value)) note_write();
  if (TraceEntry* const entry = trace(what, id, where)) {
    const std::size_t bytes = objects_[id].bytes;
    entry->what = with_order(what, choice.success ? operation.order : operation.failure);
    entry->detail = choice.success ? format_value(old_value, bytes) + " -> " + format_value(desired, bytes)
                                   : "= " + format_value(old_value, bytes) + ", wanted " +
                                         format_value(expected, bytes) + ": fails";
    entry->read = source;
    entry->wrote = made;
    entry->stale = choice.position + (choice.success ? 2 : 1) < model_.store_count(location);
    if (choice.success) trace_->makers.resize(made + 1, event);
  }
  if (!choice.success) expected = old_value;
  return choice.success;
}

void Engine::fence(std::memory_order order, Where where) {
  step();
  make_room_for_sc(order);
  model_.commit_fence(running_, order);
  record_event(kNoObject, false, false, -1);
  if (TraceEntry* const entry = trace("fence", kNoObject, where)) entry->what = with_order("fence", order);
}

// --- plain variables

// Two accesses race if one writes and neither happens before the other. Clocks tell in whatever order they run, so
// no scheduling choice is needed for them.
void Engine::plain_read(const void* address, Where where) {
  const ObjectId id = find(ObjectKind::kPlain, address, where);
  step();
  Object& cell = objects_[id];
  if (TraceEntry* const entry = trace("read", id, where)) entry->plain = true;
  if (!model_.clock(running_).covers(cell.writer, cell.written) && cell.writer != running_) {
    fail(Failure::kDataRace, "data race on " + objects_.name_of(id) + ": reads it" + at_place(where) +
                                 " without being ordered after the write by T" + std::to_string(cell.writer) +
                                 at_place(cell.write_where));
  }
  cell.reads[running_] = model_.plain_epoch(running_);
  cell.read_where[static_cast<std::size_t>(running_)] = where;
}

void Engine::plain_write(const void* address, Where where) {
  const ObjectId id = find(ObjectKind::kPlain, address, where);
  step();
  Object& cell = objects_[id];
  if (TraceEntry* const entry = trace("write", id, where)) entry->plain = true;
  const Clock& mine = model_.clock(running_);
  for (int t = 0; t < kMaxThreads; ++t) {
    if (t == running_) continue;
    const bool write_races = t == cell.writer && !mine.covers(t, cell.written);
    if (!write_races && mine.covers(t, cell.reads[t])) continue;
    fail(Failure::kDataRace,
         "data race on " + objects_.name_of(id) + ": writes it" + at_place(where) +
             " without being ordered after the " + (write_races ? "write" : "read") + " by T" + std::to_string(t) +
             at_place(write_races ? cell.write_where : cell.read_where[static_cast<std::size_t>(t)]));
  }
  cell.writer = running_;
  cell.written = model_.plain_epoch(running_);
  cell.write_where = where;
  note_write();
}

}  // namespace rota::interleave

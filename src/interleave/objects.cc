#include "interleave/objects.h"

#include <algorithm>
#include <cstddef>

namespace rota::interleave {

void Object::reset() {
  dead = false;
  bytes = 0;
  name = nullptr;
  queue = kNoObject;
  accesses.clear();
  owner = -1;
  if (kind == ObjectKind::kPlain) {
    writer = -1;
    written = 0;
    write_where = Where{};
    reads = Clock{};
  }
  if (kind == ObjectKind::kQueue) {
    waiters.clear();
    operations = 0;
    seen = Clock{};
    cause = Clock{};
  }
}

ObjectTable::ObjectTable() : slots_(1024) {}

void ObjectTable::reset() {
  count_ = 0;
  used_slots_ = 0;
  ++generation_;
  std::fill(std::begin(ordinals_), std::end(ordinals_), std::uint16_t{0});
}

std::uintptr_t ObjectTable::key_of(ObjectKind kind, const void* address) {
  // Two objects of different kinds may begin at one address (a Plain struct whose first member is an Atomic).
  return reinterpret_cast<std::uintptr_t>(address) * 8 + static_cast<std::uintptr_t>(kind);
}

// The slot that holds `key`, or the free one where it belongs.
std::size_t ObjectTable::slot_of(std::uintptr_t key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = (key * std::uint64_t{0x9e3779b97f4a7c15} >> 32) & mask;
  while (slots_[slot].generation == generation_ && slots_[slot].key != key) slot = (slot + 1) & mask;
  return slot;
}

void ObjectTable::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.generation == generation_) slots_[slot_of(slot.key)] = slot;
  }
}

ObjectId ObjectTable::add_hidden(ObjectKind kind) {
  if (count_ == objects_.size()) objects_.emplace_back();
  const auto id = static_cast<ObjectId>(count_++);
  Object& object = objects_[id];
  object.kind = kind;
  object.address = nullptr;
  object.ordinal = ordinals_[static_cast<std::size_t>(kind)]++;
  object.reset();
  return id;
}

ObjectId ObjectTable::add(ObjectKind kind, const void* address) {
  const ObjectId id = add_hidden(kind);
  objects_[id].address = address;
  if (used_slots_ * 2 >= slots_.size()) grow();
  Slot& slot = slots_[slot_of(key_of(kind, address))];
  if (slot.generation != generation_) ++used_slots_;
  slot = {key_of(kind, address), generation_, id};
  return id;
}

ObjectId ObjectTable::find(ObjectKind kind, const void* address) const {
  const Slot& slot = slots_[slot_of(key_of(kind, address))];
  return slot.generation == generation_ ? slot.object : kNoObject;
}

std::string ObjectTable::name_of(ObjectId id) const {
  const Object& object = objects_[id];
  if (object.name != nullptr) return object.name;
  const std::string number = std::to_string(object.ordinal);
  switch (object.kind) {
    case ObjectKind::kAtomic:
      return "atomic" + number;
    case ObjectKind::kPlain:
      return "plain" + number;
    case ObjectKind::kMutex:
      return "mutex" + number;
    case ObjectKind::kCondition:
      return "condition" + number;
    case ObjectKind::kQueue:
      return object.queue != kNoObject ? name_of(object.queue) : "queue" + number;
  }
  return "?";
}

}  // namespace rota::interleave

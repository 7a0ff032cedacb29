#include "rota/graph/names.h"

#include <utility>

#include "base/hash.h"
#include "rota/assert.h"

namespace rota::graph {

namespace {
std::uint32_t hash_of(std::string_view name) { return static_cast<std::uint32_t>(hash64(name)); }
}  // namespace

// The slot that holds `name`, or the empty slot where it would be inserted. REQUIRES: there are slots.
std::size_t Names::slot_of(std::string_view name, std::uint32_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash & mask;
  while (slots_[i].number != kNone && (slots_[i].hash != hash || at(slots_[i].number) != name)) i = (i + 1) & mask;
  return i;
}

std::uint32_t Names::find(std::string_view name) const {
  if (name.empty() || slots_.empty()) return kNone;
  return slots_[slot_of(name, hash_of(name))].number;
}

bool Names::add(std::string_view name) {
  ROTA_ASSERT(size() < kNone - 1, "too many names");
  if (!name.empty()) {
    if (2 * (std::size_t{filled_} + 1) > slots_.size()) grow();
    const std::uint32_t hash = hash_of(name);
    Slot& slot = slots_[slot_of(name, hash)];
    if (slot.number != kNone) return false;
    slot = {size(), hash};
    ++filled_;
  }
  text_.append(name);
  starts_.push_back(text_.size());
  return true;
}

void Names::truncate(std::uint32_t size) {
  for (std::uint32_t number = this->size(); number-- > size;) free(number);
  starts_.resize(std::size_t{size} + 1);
  text_.resize(starts_.back());
}

void Names::free(std::uint32_t number) {
  const std::string_view name = at(number);
  if (name.empty()) return;
  const std::size_t slot = slot_of(name, hash_of(name));
  if (slots_[slot].number != number) return;  // It was freed before, and the name may belong to another number.
  vacate(slot);
  --filled_;
}

// Empties the slot, and moves the names behind it forward that would not be found any more.
void Names::vacate(std::size_t slot) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = (slot + 1) & mask; slots_[i].number != kNone; i = (i + 1) & mask) {
    const std::size_t home = slots_[i].hash & mask;
    if (((i - home) & mask) < ((i - slot) & mask)) continue;  // Its search begins behind the slot.
    slots_[slot] = slots_[i];
    slot = i;
  }
  slots_[slot] = Slot{};
}

void Names::grow() {
  const std::vector<Slot> old = std::exchange(slots_, {});
  slots_.assign(old.empty() ? 16 : 2 * old.size(), Slot{});
  for (const Slot& slot : old) {
    if (slot.number != kNone) slots_[slot_of(at(slot.number), slot.hash)] = slot;
  }
}

}  // namespace rota::graph

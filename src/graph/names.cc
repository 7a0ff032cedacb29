#include "rota/graph/names.h"

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
  for (std::uint32_t number = this->size(); number-- > size;) {
    const std::string_view name = at(number);
    if (name.empty()) continue;
    slots_[slot_of(name, hash_of(name))] = Slot{};
    --filled_;
  }
  starts_.resize(std::size_t{size} + 1);
  text_.resize(starts_.back());
}

void Names::grow() {
  slots_.assign(slots_.empty() ? 16 : 2 * slots_.size(), Slot{});
  for (std::uint32_t number = 0; number < size(); ++number) {
    const std::string_view name = at(number);
    if (name.empty()) continue;
    const std::uint32_t hash = hash_of(name);
    slots_[slot_of(name, hash)] = {number, hash};
  }
}

}  // namespace rota::graph

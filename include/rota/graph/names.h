// Interned names: each text is stored once and numbered from 0, in the order of arrival.
//
// The newest names can be removed again, so that a refused submission leaves no trace, and a single name can be freed.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rota::graph {

class Names {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // The number of `name`, or kNone.
  [[nodiscard]] std::uint32_t find(std::string_view name) const;
  // Gives `name` the next number and returns true; false if it already has one. The empty name may be added many times
  // and is never found: it stands for a task without a name.
  bool add(std::string_view name);
  [[nodiscard]] std::string_view at(std::uint32_t number) const {
    return std::string_view(text_).substr(starts_[number], starts_[number + 1] - starts_[number]);
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(starts_.size() - 1); }
  // Removes all names from number `size` on. REQUIRES: size <= size().
  void truncate(std::uint32_t size);
  // The name is not found any more and may be added again, with a new number; at(number) does not change.
  void free(std::uint32_t number);

 private:
  struct Slot {
    std::uint32_t number = kNone;
    std::uint32_t hash = 0;
  };
  [[nodiscard]] std::size_t slot_of(std::string_view name, std::uint32_t hash) const;
  void vacate(std::size_t slot);
  void grow();

  std::string text_;                      // All names, concatenated.
  std::vector<std::uint64_t> starts_{0};  // Start of each name, and the end of the last.
  // Open addressing with linear probing; the size is a power of two, at most half full. No empty slot lies between the
  // slot at which the search for a name begins and the slot that holds it; vacate() preserves this.
  std::vector<Slot> slots_;
  std::uint32_t filled_ = 0;
};

}  // namespace rota::graph

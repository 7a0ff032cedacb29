// Interned names: each text once, numbered from 0 in the order of its coming.
//
// Newer names can be taken back, so that a refused submission leaves no trace.
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
  // Gives `name` the next number and returns true; false if it has one already. The empty name can be had many times
  // and is never found: it is what a task without a name is called.
  bool add(std::string_view name);
  [[nodiscard]] std::string_view at(std::uint32_t number) const {
    return std::string_view(text_).substr(starts_[number], starts_[number + 1] - starts_[number]);
  }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(starts_.size() - 1); }
  // Takes back all names from number `size` on. REQUIRES: size <= size().
  void truncate(std::uint32_t size);

 private:
  struct Slot {
    std::uint32_t number = kNone;
    std::uint32_t hash = 0;
  };
  [[nodiscard]] std::size_t slot_of(std::string_view name, std::uint32_t hash) const;
  void grow();

  std::string text_;                      // All names, one after the other.
  std::vector<std::uint64_t> starts_{0};  // Where each begins; one more at the end.
  // Open addressing with linear probing; a power of two, at most half full. Names leave in the reverse order of their
  // coming, so that an emptied slot never stands in the way of a name that was put behind it: grow() puts them in again
  // in the order of their numbers, too.
  std::vector<Slot> slots_;
  std::uint32_t filled_ = 0;
};

}  // namespace rota::graph

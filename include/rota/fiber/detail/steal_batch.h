// How many items a thief takes at a time, and for how long it rests in between.
//
// Stealing costs both sides cache misses, more than a short task is worth. A thief that took tasks which were over in
// less than kShortTaskNs each, of a victim that had more, takes twice as many the next time, kMaxItems at most, and
// first rests for kRest times the time that these took, kMaxRestNs at most. A thief whose tasks were longer, or whose
// victim had no more, takes one at a time, and does not rest.
//
// Invariants: 1 ≤ size_ ≤ kMaxItems; taken_ is 0, or begin() has set begun_.
// Thread safety: none; it belongs to one thread worker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace rota::fiber::detail {

class StealBatch {
 public:
  static constexpr std::int64_t kShortTaskNs = 500;
  static constexpr std::uint32_t kMaxItems = 64;
  static constexpr std::int64_t kRest = 8;
  static constexpr std::int64_t kMaxRestNs = 50'000;  // About the cost of a wake-up.

  // The first item of a batch was taken from a victim that has more.
  void begin(std::int64_t now) {
    taken_ = 1;
    begun_ = now;
  }
  // Whether the batch may have another item, if the thief has room for `room` items without allocating memory.
  [[nodiscard]] bool wants_more(std::size_t room) const { return taken_ < std::min<std::size_t>(size_, room); }
  void took_another() { ++taken_; }

  // The thief has run what it took, and has nothing to do: until when it rests. `now` if it does not.
  [[nodiscard]] std::int64_t end(std::int64_t now) {
    if (taken_ == 0) return now;
    const std::int64_t lasted = now - begun_;
    const bool were_short = lasted < kShortTaskNs * taken_;
    taken_ = 0;
    size_ = were_short ? std::min(size_ * 2, kMaxItems) : 1;
    return were_short ? now + std::min(lasted * kRest, kMaxRestNs) : now;
  }
  // Whether end() has anything to say; reading the clock costs more than a look at this.
  [[nodiscard]] bool begun() const { return taken_ != 0; }

 private:
  std::uint32_t size_ = 1;
  std::uint32_t taken_ = 0;  // Of the last batch, if it is still to be judged.
  std::int64_t begun_ = 0;
};

}  // namespace rota::fiber::detail

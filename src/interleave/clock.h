// Vector clocks, and small sets of seq_cst events, for the interleaving checker.
//
// Epoch n of a thread is its n-th event (1, 2, ...). A clock C covers an event (thread, epoch) when
// C[thread] >= epoch; every event happens before whatever holds a clock that covers it.
// Thread safety: none; the checker is single-threaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rota::interleave {

inline constexpr int kMaxThreads = 8;     // The body itself is thread 0.
inline constexpr int kMaxScEvents = 256;  // seq_cst operations and fences in one execution.

using Epoch = std::uint32_t;
inline constexpr Epoch kNever = 0xffffffff;
using ThreadMask = std::uint32_t;

constexpr ThreadMask mask_of(int thread) { return ThreadMask{1} << thread; }

struct Clock {
  std::array<Epoch, kMaxThreads> at{};

  Epoch operator[](int thread) const { return at[static_cast<std::size_t>(thread)]; }
  Epoch& operator[](int thread) { return at[static_cast<std::size_t>(thread)]; }
  bool covers(int thread, Epoch epoch) const { return (*this)[thread] >= epoch; }
  void join(const Clock& other) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = at[i] < other.at[i] ? other.at[i] : at[i];
  }
};

// For each thread the first epoch at which it did something (kNever: not yet).
struct FirstSeen {
  std::array<Epoch, kMaxThreads> at;

  FirstSeen() { at.fill(kNever); }
  void note(int thread, Epoch epoch) {
    Epoch& first = at[static_cast<std::size_t>(thread)];
    if (epoch < first) first = epoch;
  }
  // Did any of it happen before the holder of `clock`?
  bool happened_before(const Clock& clock) const {
    bool any = false;
    for (std::size_t i = 0; i < at.size(); ++i) any |= at[i] <= clock.at[i];
    return any;
  }
};

// A set of seq_cst events, by their number.
class ScSet {
 public:
  void add(int event) { words_[word(event)] |= bit(event); }
  bool contains(int event) const { return (words_[word(event)] & bit(event)) != 0; }
  void add_all(const ScSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  bool intersects(const ScSet& other) const {
    std::uint64_t common = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) common |= words_[i] & other.words_[i];
    return common != 0;
  }
  bool empty() const {
    std::uint64_t any = 0;
    for (const std::uint64_t w : words_) any |= w;
    return any == 0;
  }
  template <class F>
  void for_each(F&& visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t left = words_[i]; left != 0; left &= left - 1) {
        visit(static_cast<int>(i * 64) + __builtin_ctzll(left));
      }
    }
  }

 private:
  static std::size_t word(int event) { return static_cast<std::size_t>(event) / 64; }
  static std::uint64_t bit(int event) { return std::uint64_t{1} << (event % 64); }
  std::array<std::uint64_t, kMaxScEvents / 64> words_{};
};

// What a thread knows, and what a release hands to the acquire that reads it.
struct View {
  Clock clock;   // Events that happen before.
  ScSet strong;  // seq_cst events that *strongly* happen before whatever follows (see memory_model.h).

  void join(const View& other) {
    clock.join(other.clock);
    strong.add_all(other.strong);
  }
};

}  // namespace rota::interleave

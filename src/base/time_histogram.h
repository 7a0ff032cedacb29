// TimeHistogram: how often something took how long, in fixed buckets; for metrics (H-2).
//
// Thread safety: add() and read() from any thread. A read that overlaps with add() may show some of its parts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/sync.h"

namespace rota {

class TimeHistogram {
 public:
  // The upper bounds of the buckets, each included; longer times are in none of them.
  static constexpr std::array<std::int64_t, 11> kBoundsNs = {
      1'000,         10'000,         100'000,         1'000'000,         10'000'000,        100'000'000,
      1'000'000'000, 10'000'000'000, 100'000'000'000, 1'000'000'000'000, 10'000'000'000'000};

  void add(std::int64_t ns) {
    if (ns < 0) ns = 0;
    std::size_t bucket = 0;
    while (bucket < kBoundsNs.size() && ns > kBoundsNs[bucket]) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(static_cast<std::uint64_t>(ns), std::memory_order_relaxed);
  }

  struct Reading {
    std::array<std::uint64_t, kBoundsNs.size() + 1> counts{};  // The last one: longer than every bound.
    std::uint64_t sum_ns = 0;
  };
  [[nodiscard]] Reading read() const {
    Reading reading;
    for (std::size_t i = 0; i < counts_.size(); ++i) reading.counts[i] = counts_[i].load(std::memory_order_relaxed);
    reading.sum_ns = sum_ns_.load(std::memory_order_relaxed);
    return reading;
  }

 private:
  std::array<sync::Atomic<std::uint64_t>, kBoundsNs.size() + 1> counts_{};
  sync::Atomic<std::uint64_t> sum_ns_{0};
};

}  // namespace rota

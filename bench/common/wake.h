// P-9: from a push on one thread to the first instruction of the task on another.
//
// The pusher stays busy from push to start, so that only another worker can run the task. `awake`: it pushes again as
// soon as the last task has started, while the other worker still looks for work. `parked`: it is busy for kParkedGapNs
// in between, longer than any runtime here spins.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/bench.h"

namespace bench {

inline constexpr std::uint64_t kParkedGapNs = 2'000'000;
inline constexpr std::uint64_t kWakeAwakeSamples = 20'000;
inline constexpr std::uint64_t kWakeParkedSamples = 300;

struct WakeSlot {
  alignas(64) std::atomic<std::uint64_t> started_ns{0};
  void on_start() { started_ns.store(now_ns(), std::memory_order_release); }
};

// `push` starts a task elsewhere that calls slot.on_start() first. Called on the thread that is to push; returns p50
// and p99 in ns. The first tenth of the samples warms up and is dropped.
template <typename Push>
Figures measure_wake(WakeSlot& slot, std::uint64_t samples, std::uint64_t gap_ns, const Push& push) {
  std::vector<double> latencies;
  const std::uint64_t dropped = samples / 10 + 1;
  for (std::uint64_t i = 0; i < samples + dropped; ++i) {
    if (gap_ns > 0) spin_for_ns(gap_ns);
    slot.started_ns.store(0, std::memory_order_relaxed);
    const std::uint64_t pushed_ns = now_ns();
    push();
    std::uint64_t started_ns;
    while ((started_ns = slot.started_ns.load(std::memory_order_acquire)) == 0) spin_pause();
    if (i >= dropped) latencies.push_back(static_cast<double>(started_ns) - static_cast<double>(pushed_ns));
  }
  std::fprintf(stderr, "result %zu\n", latencies.size());
  return {percentile(latencies, 0.5), percentile(latencies, 0.99)};
}

}  // namespace bench

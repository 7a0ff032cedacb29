// The recorded slices of a run, and the file for ui.perfetto.dev and chrome://tracing.
//
// A slice is a period in which a task ran on a worker: an attempt, or the part of one between two pauses. A stage that
// waits as a fiber keeps its slice while other tasks run on its worker, but slices of one track must not overlap.
// Therefore each worker has as many tracks as slices overlap on it at once.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "rota/graph/task.h"
#include "rota/result.h"

namespace rota::flow::detail {

struct Slice {
  std::uint32_t task = 0;
  std::uint32_t worker = 0;  // The worker on which it began.
  std::uint32_t attempt = 1;
  graph::TaskState state = graph::TaskState::kRunning;  // The state in which it ended.
  std::int64_t begin_ns = 0, end_ns = 0;
};

// Keeps the latest slices. At the bound the oldest is dropped and counted.
class SliceLog {
 public:
  explicit SliceLog(std::size_t most) : most_(most) {}
  [[nodiscard]] bool on() const { return most_ > 0; }
  void add(const Slice& slice) {
    if (slices_.size() == most_) {
      slices_.pop_front();
      dropped_ += 1;
    }
    slices_.push_back(slice);
  }
  // The tasks were numbered anew: numbers[old] is the new number, or kGone, whose slices are dropped.
  static constexpr std::uint32_t kGone = ~std::uint32_t{0};
  void renumber(const std::vector<std::uint32_t>& numbers) {
    dropped_ += std::erase_if(slices_, [&](const Slice& slice) { return numbers[slice.task] == kGone; });
    for (Slice& slice : slices_) slice.task = numbers[slice.task];
  }
  [[nodiscard]] std::vector<Slice> slices() const { return {slices_.begin(), slices_.end()}; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  const std::size_t most_;
  std::deque<Slice> slices_;
  std::uint64_t dropped_ = 0;
};

// Writes the trace. Slices of one task must be in the order of their ends. There are at least `workers` workers. Times
// in the file start at the first slice. IoError.
Result<void> write_slices(const std::vector<Slice>& recorded, std::uint64_t dropped, std::uint32_t workers,
                          const std::function<std::string(std::uint32_t task)>& name, std::ostream& out);

}  // namespace rota::flow::detail

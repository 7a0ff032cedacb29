// What was recorded of a run, and its file for ui.perfetto.dev and chrome://tracing.
//
// A slice is one stretch of a task on a worker: an attempt, or a part of one between pauses. A stage that waits as a
// fiber keeps its slice, and others run on its worker meanwhile; slices of one track must not overlap. So each worker
// has a track, and one more for as many slices as overlap there at once.
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
  std::uint32_t worker = 0;  // Where it began.
  std::uint32_t attempt = 1;
  graph::TaskState state = graph::TaskState::kRunning;  // What it ended as.
  std::int64_t begin_ns = 0, end_ns = 0;
};

// The latest slices; at the bound the oldest goes, and is counted.
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
  [[nodiscard]] std::vector<Slice> slices() const { return {slices_.begin(), slices_.end()}; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  const std::size_t most_;
  std::deque<Slice> slices_;
  std::uint64_t dropped_ = 0;
};

// Slices of one task are in the order of their ends. Workers have the numbers below `workers`, if not more. Times in
// the file count from the first slice. IoError.
Result<void> write_slices(const std::vector<Slice>& recorded, std::uint64_t dropped, std::uint32_t workers,
                          const std::function<std::string(std::uint32_t task)>& name, std::ostream& out);

}  // namespace rota::flow::detail

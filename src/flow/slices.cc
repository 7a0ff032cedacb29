// See flow/slices.h.
#include "flow/slices.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "base/json_writer.h"
#include "base/trace_events.h"

namespace rota::flow::detail {

namespace {

// Ordered by begin; slices of one task with equal begins stay in the order of their ends.
std::vector<Slice> in_order(const std::vector<Slice>& recorded) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  order.reserve(recorded.size());
  for (std::size_t i = 0; i < recorded.size(); ++i) order.emplace_back(recorded[i].begin_ns, i);
  std::sort(order.begin(), order.end());
  std::vector<Slice> slices;
  slices.reserve(recorded.size());
  for (const auto& [begin_ns, i] : order) slices.push_back(recorded[i]);
  return slices;
}

}  // namespace

Result<void> write_slices(const std::vector<Slice>& recorded, std::uint64_t dropped, std::uint32_t workers,
                          const std::function<std::string(std::uint32_t task)>& name, std::ostream& out) {
  const std::vector<Slice> slices = in_order(recorded);
  const std::int64_t origin_ns = slices.empty() ? 0 : slices.front().begin_ns;
  for (const Slice& slice : slices) workers = std::max(workers, slice.worker + 1);
  std::vector<TraceLanes> lanes(workers);
  std::vector<std::uint32_t> placed;
  placed.reserve(slices.size());
  for (const Slice& slice : slices) placed.push_back(lanes[slice.worker].place(slice.begin_ns, slice.end_ns));

  TraceEvents trace(out);
  trace.begin([&](JsonWriter& data) { data.field("slices", slices.size()).field("dropped", dropped); }, "rota");
  std::vector<std::uint32_t> first;  // Each worker's first track.
  std::uint32_t next = 0;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    first.push_back(next);
    for (std::uint32_t i = 0; i < lanes[worker].count(); ++i, ++next) {
      const std::string lane = i == 0 ? "" : " (" + std::to_string(i + 1) + ")";
      trace.track(next, "worker " + std::to_string(worker) + lane);
    }
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    trace.slice(first[slice.worker] + placed[i], slice.begin_ns - origin_ns, slice.end_ns - origin_ns, name(slice.task),
                [&](JsonWriter& arguments) {
                  arguments.field("state", graph::to_string(slice.state)).field("attempt", slice.attempt);
                });
  }
  trace.end();
  if (!out) return Error{ErrorCode::kIoError, "the trace could not be written"};
  return {};
}

}  // namespace rota::flow::detail

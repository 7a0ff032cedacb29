#include "flow/slices.h"

#include <algorithm>
#include <ostream>
#include <queue>
#include <set>
#include <utility>

#include "base/json_text.h"

namespace rota::flow::detail {

namespace {

// Gives each slice of a worker the lowest track of that worker that is free when it begins.
class Tracks {
 public:
  std::uint32_t place(const Slice& slice) {
    while (!busy_.empty() && busy_.top().first <= slice.begin_ns) {
      free_.insert(busy_.top().second);
      busy_.pop();
    }
    std::uint32_t track = count_;
    if (free_.empty()) {
      count_ += 1;
    } else {
      track = free_.extract(free_.begin()).value();
    }
    busy_.emplace(slice.end_ns, track);
    return track;
  }
  [[nodiscard]] std::uint32_t count() const { return std::max(count_, 1U); }

 private:
  using Busy = std::pair<std::int64_t, std::uint32_t>;  // Until when, which.
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy_;
  std::set<std::uint32_t> free_;
  std::uint32_t count_ = 0;
};

// By when they began; of equal ones, those of one task in the order of their ends.
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

// Microseconds, with the nanoseconds as decimals: exact, unlike a double.
std::string micros(std::int64_t ns) {
  std::string rest = std::to_string(ns % 1000);
  rest.insert(0, 3 - rest.size(), '0');
  return std::to_string(ns / 1000) + "." + rest;
}

std::string json(std::string_view text) {
  std::string quoted;
  append_json_string(quoted, text);
  return quoted;
}

}  // namespace

Result<void> write_slices(const std::vector<Slice>& recorded, std::uint64_t dropped, std::uint32_t workers,
                          const std::function<std::string(std::uint32_t task)>& name, std::ostream& out) {
  const std::vector<Slice> slices = in_order(recorded);
  const std::int64_t origin_ns = slices.empty() ? 0 : slices.front().begin_ns;
  for (const Slice& slice : slices) workers = std::max(workers, slice.worker + 1);
  std::vector<Tracks> tracks(workers);
  std::vector<std::uint32_t> placed;
  placed.reserve(slices.size());
  for (const Slice& slice : slices) placed.push_back(tracks[slice.worker].place(slice));

  out << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"slices\":" << slices.size() << ",\"dropped\":" << dropped
      << "},\"traceEvents\":[\n"
      << R"({"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"rota"}})";
  std::vector<std::uint32_t> first;  // Of each worker.
  std::uint32_t next = 0;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    first.push_back(next);
    for (std::uint32_t i = 0; i < tracks[worker].count(); ++i, ++next) {
      out << ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":" << next << R"(,"name":"thread_name","args":{"name":"worker )"
          << worker;
      if (i > 0) out << " (" << i + 1 << ")";
      out << "\"}}";
    }
  }
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    out << ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":" << first[slice.worker] + placed[i]
        << ",\"ts\":" << micros(slice.begin_ns - origin_ns) << ",\"dur\":" << micros(slice.end_ns - slice.begin_ns)
        << ",\"name\":" << json(name(slice.task)) << ",\"args\":{\"state\":" << json(graph::to_string(slice.state))
        << ",\"attempt\":" << slice.attempt << "}}";
  }
  out << "\n]}\n";
  out.flush();
  if (!out) return Error{ErrorCode::kIoError, "the trace could not be written"};
  return {};
}

}  // namespace rota::flow::detail

// A file for ui.perfetto.dev and chrome://tracing: slices on tracks, arrows between them, counters.
// https://perfetto.dev/docs/getting-started/other-formats
//
//   TraceEvents trace(out);
//   trace.begin("\"slices\":1", "rota");
//   trace.track(0, "worker 0");
//   trace.slice(0, begin_ns, end_ns, "train", "\"attempt\":1");
//   trace.end();
//
// Arguments are members of a JSON object without its braces; json_text.h quotes strings.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rota {

class TraceEvents {
 public:
  explicit TraceEvents(std::ostream& out) : out_(out) {}

  void begin(std::string_view other_data, std::string_view process);
  void track(std::uint32_t track, std::string_view name);
  void slice(std::uint32_t track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
             std::string_view arguments);
  // From within a slice of one track to within a slice of another; `id` is the arrow's own.
  void arrow(std::uint64_t id, std::string_view name, std::uint32_t from_track, std::int64_t from_ns,
             std::uint32_t to_track, std::int64_t to_ns);
  void counter(std::string_view name, std::int64_t at_ns, std::int64_t value);
  void end();

 private:
  void open(char phase, std::uint32_t track);
  void time(std::string_view key, std::int64_t ns);

  std::ostream& out_;
};

// Slices of one track must not overlap: gives each the lowest lane that is free when it begins.
// REQUIRES: slices come in the order in which they begin.
class TraceLanes {
 public:
  std::uint32_t place(std::int64_t begin_ns, std::int64_t end_ns);
  // At least one.
  [[nodiscard]] std::uint32_t count() const { return count_ == 0 ? 1 : count_; }

 private:
  using Busy = std::pair<std::int64_t, std::uint32_t>;  // Until when, which.
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy_;
  std::set<std::uint32_t> free_;
  std::uint32_t count_ = 0;
};

}  // namespace rota

// Writes a trace file for ui.perfetto.dev and chrome://tracing: slices on tracks, arrows between them, counters.
// Format: https://perfetto.dev/docs/getting-started/other-formats
//
//   TraceEvents trace(out);
//   trace.begin([](JsonWriter& data) { data.field("slices", 1); }, "rota");
//   trace.track(0, "worker 0");
//   trace.slice(0, begin_ns, end_ns, "train", [](JsonWriter& arguments) { arguments.field("attempt", 1); });
//   trace.end();
//
// Each event is one line of the file. Times are exact: microseconds with three decimals, never a double.
//
// Thread safety: none.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <queue>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"

namespace rota {

class TraceEvents {
 public:
  explicit TraceEvents(std::ostream& out) : out_(out) {}

  // `other_data` and `arguments` write the members of a JSON object.
  template <std::invocable<JsonWriter&> Members>
  void begin(const Members& other_data, std::string_view process) {
    begin_with(object_of(other_data), process);
  }
  template <std::invocable<JsonWriter&> Members>
  void slice(std::uint32_t track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
             const Members& arguments) {
    slice_with(track, begin_ns, end_ns, name, object_of(arguments));
  }
  // The same with the members as text, without the braces around them.
  void begin(std::string_view other_data, std::string_view process);
  void slice(std::uint32_t track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
             std::string_view arguments);
  void track(std::uint32_t track, std::string_view name);
  // An arrow from a slice of one track to a slice of another; `id` must be unique among the arrows.
  void arrow(std::uint64_t id, std::string_view name, std::uint32_t from_track, std::int64_t from_ns,
             std::uint32_t to_track, std::int64_t to_ns);
  void counter(std::string_view name, std::int64_t at_ns, std::int64_t value);
  void end();

 private:
  template <class Members>
  static std::string object_of(const Members& members) {
    std::string object;
    JsonWriter json(object);
    json.begin_object();
    members(json);
    json.end_object();
    return object;
  }
  void begin_with(std::string_view object, std::string_view process);
  void slice_with(std::uint32_t track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
                  std::string_view object);
  template <class Members>
  void event(char phase, std::uint32_t track, const Members& members);

  std::ostream& out_;
  std::string line_;  // A member so that its memory is reused.
};

// Distributes slices over lanes, because slices of one track must not overlap: each gets the lowest lane that is free
// when it begins. REQUIRES: slices are placed in the order in which they begin.
class TraceLanes {
 public:
  std::uint32_t place(std::int64_t begin_ns, std::int64_t end_ns);
  // At least one.
  [[nodiscard]] std::uint32_t count() const { return count_ == 0 ? 1 : count_; }

 private:
  using Busy = std::pair<std::int64_t, std::uint32_t>;  // The end of a slice, and its lane.
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy_;
  std::set<std::uint32_t> free_;
  std::uint32_t count_ = 0;
};

}  // namespace rota

// The events of a trace file, one per line. See base/trace_events.h.
#include "base/trace_events.h"

#include <ostream>

namespace rota {

namespace {

// Microseconds with the nanoseconds as decimals. Exact, unlike a double.
std::string microseconds(std::int64_t ns) {
  std::string decimals = std::to_string(ns % 1000);
  decimals.insert(0, 3 - decimals.size(), '0');
  return std::to_string(ns / 1000) + "." + decimals;
}

void name_argument(JsonWriter& json, std::string_view name) {
  json.key("args").begin_object().field("name", name).end_object();
}

}  // namespace

// Writes the line of one event, without the comma that separates it from the line before.
template <class Members>
void TraceEvents::event(char phase, std::uint32_t track, const Members& members) {
  line_.clear();
  JsonWriter json(line_);
  json.begin_object().field("ph", std::string_view(&phase, 1)).field("pid", 1).field("tid", track);
  members(json);
  json.end_object();
  out_ << line_;
}

void TraceEvents::begin(std::string_view other_data, std::string_view process) {
  begin_with("{" + std::string(other_data) + "}", process);
}

void TraceEvents::begin_with(std::string_view object, std::string_view process) {
  out_ << R"({"displayTimeUnit":"ns","otherData":)" << object << ",\"traceEvents\":[\n";
  event('M', 0, [&](JsonWriter& json) {
    json.field("name", "process_name");
    name_argument(json, process);
  });
}

void TraceEvents::track(std::uint32_t track, std::string_view name) {
  out_ << ",\n";
  event('M', track, [&](JsonWriter& json) {
    json.field("name", "thread_name");
    name_argument(json, name);
  });
}

void TraceEvents::slice(std::uint32_t track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
                        std::string_view arguments) {
  slice_with(track, begin_ns, end_ns, name, "{" + std::string(arguments) + "}");
}

void TraceEvents::slice_with(std::uint32_t track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
                             std::string_view object) {
  out_ << ",\n";
  event('X', track, [&](JsonWriter& json) {
    json.raw_field("ts", microseconds(begin_ns)).raw_field("dur", microseconds(end_ns - begin_ns));
    json.field("name", name).raw_field("args", object);
  });
}

void TraceEvents::arrow(std::uint64_t id, std::string_view name, std::uint32_t from_track, std::int64_t from_ns,
                        std::uint32_t to_track, std::int64_t to_ns) {
  for (const bool first : {true, false}) {
    out_ << ",\n";
    event(first ? 's' : 'f', first ? from_track : to_track, [&](JsonWriter& json) {
      json.raw_field("ts", microseconds(first ? from_ns : to_ns));
      json.field("cat", "cause").field("name", name).field("id", id);
      if (!first) json.field("bp", "e");
    });
  }
}

void TraceEvents::counter(std::string_view name, std::int64_t at_ns, std::int64_t value) {
  out_ << ",\n";
  event('C', 0, [&](JsonWriter& json) {
    json.raw_field("ts", microseconds(at_ns)).field("name", name);
    json.key("args").begin_object().field("tasks", value).end_object();
  });
}

void TraceEvents::end() {
  out_ << "\n]}\n";
  out_.flush();
}

std::uint32_t TraceLanes::place(std::int64_t begin_ns, std::int64_t end_ns) {
  while (!busy_.empty() && busy_.top().first <= begin_ns) {
    free_.insert(busy_.top().second);
    busy_.pop();
  }
  std::uint32_t lane = count_;
  if (free_.empty()) {
    count_ += 1;
  } else {
    lane = free_.extract(free_.begin()).value();
  }
  busy_.emplace(end_ns, lane);
  return lane;
}

}  // namespace rota

#include "base/trace_events.h"

#include <ostream>

#include "base/json_text.h"

namespace rota {

namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

void TraceEvents::begin(std::string_view other_data, std::string_view process) {
  out_ << "{\"displayTimeUnit\":\"ns\",\"otherData\":{" << other_data << "},\"traceEvents\":[\n"
       << R"({"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":)" << quoted(process) << "}}";
}

void TraceEvents::open(char phase, std::uint32_t track) {
  out_ << ",\n{\"ph\":\"" << phase << "\",\"pid\":1,\"tid\":" << track;
}

// Microseconds, with the nanoseconds as decimals: exact, unlike a double.
void TraceEvents::time(std::string_view key, std::int64_t ns) {
  std::string rest = std::to_string(ns % 1000);
  rest.insert(0, 3 - rest.size(), '0');
  out_ << ",\"" << key << "\":" << ns / 1000 << '.' << rest;
}

void TraceEvents::track(std::uint32_t track, std::string_view name) {
  open('M', track);
  out_ << R"(,"name":"thread_name","args":{"name":)" << quoted(name) << "}}";
}

void TraceEvents::slice(std::uint32_t track, std::int64_t begin_ns, std::int64_t end_ns, std::string_view name,
                        std::string_view arguments) {
  open('X', track);
  time("ts", begin_ns);
  time("dur", end_ns - begin_ns);
  out_ << ",\"name\":" << quoted(name) << ",\"args\":{" << arguments << "}}";
}

void TraceEvents::arrow(std::uint64_t id, std::string_view name, std::uint32_t from_track, std::int64_t from_ns,
                        std::uint32_t to_track, std::int64_t to_ns) {
  for (const bool first : {true, false}) {
    open(first ? 's' : 'f', first ? from_track : to_track);
    time("ts", first ? from_ns : to_ns);
    out_ << ",\"cat\":\"cause\",\"name\":" << quoted(name) << ",\"id\":" << id << (first ? "}" : ",\"bp\":\"e\"}");
  }
}

void TraceEvents::counter(std::string_view name, std::int64_t at_ns, std::int64_t value) {
  open('C', 0);
  time("ts", at_ns);
  out_ << ",\"name\":" << quoted(name) << ",\"args\":{\"tasks\":" << value << "}}";
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

// Writes runtime events as Chrome trace JSON, which Perfetto reads:
// https://perfetto.dev/docs/getting-started/other-formats
//
// Slices nest within a track. A stack that parks removes all its slices from its track (the task that blocked, its open
// scopes, the tasks below it that joined it) and adds them to another track when it resumes. Therefore the writer keeps
// the list of open slices of each stack.
#include <string_view>
#include <unordered_map>

#include "base/json_writer.h"
#include "fiber/trace.h"

namespace rota::fiber::detail {

namespace {

constexpr std::uint64_t kOutside = 0xffff;  // The upper part of the id of a task that was spawned from outside.

// A task's name: the thread worker that spawned it, and a number counted by that thread worker.
std::string task_name(std::uint64_t id) {
  const std::uint64_t worker = id >> 48;
  const std::string number = std::to_string(id & 0xffffffffffff);
  return worker == kOutside ? "out." + number : std::to_string(worker) + "." + number;
}

// Microseconds with the nanoseconds as decimals. Exact, unlike a double.
std::string microseconds(std::uint64_t ns) {
  std::string text = std::to_string(ns / 1000) + ".000";
  std::uint64_t rest = ns % 1000;
  for (std::size_t i = text.size(); rest > 0; rest /= 10) text[--i] = static_cast<char>('0' + rest % 10);
  return text;
}

// Writes the file, one event per line.
class EventWriter {
 public:
  explicit EventWriter(std::ostream& out) : out_(out) {}

  void header(const Trace::Snapshot& snapshot, std::uint32_t tracks) {
    std::string data;
    JsonWriter(data)
        .begin_object()
        .field("events", snapshot.events.size())
        .field("dropped", snapshot.dropped)
        .end_object();
    out_ << R"({"displayTimeUnit":"ns","otherData":)" << data << ",\"traceEvents\":[\n";
    metadata(0, "process_name", "rota");
    for (std::uint32_t track = 0; track < tracks; ++track) {
      out_ << ",\n";
      metadata(track, "thread_name", track + 1 == tracks ? "outside" : "worker " + std::to_string(track));
    }
  }
  void footer() { out_ << "\n]}\n"; }

  // `phase` B, E or i, with one argument if `key` is not empty.
  void event(char phase, const TraceEvent& at, std::string_view name, std::string_view key = {},
             std::string_view value = {}) {
    line(phase, at, [&](JsonWriter& json) {
      if (!name.empty()) json.field("name", name);
      if (phase == 'i') json.field("s", "t");
      if (!key.empty()) json.key("args").begin_object().field(key, value).end_object();
    });
  }
  // One end of an arrow: `s` where it starts, `f` where it finishes.
  void arrow(char phase, const TraceEvent& at, std::uint64_t id, std::string_view name) {
    line(phase, at, [&](JsonWriter& json) {
      json.field("cat", "cause").field("name", name);
      if (phase == 'f') json.field("bp", "e");
      json.field("id", id);
    });
  }

 private:
  void metadata(std::uint32_t track, std::string_view kind, std::string_view name) {
    line_.clear();
    JsonWriter(line_)
        .begin_object()
        .field("ph", "M")
        .field("pid", 1)
        .field("tid", track)
        .field("name", kind)
        .key("args")
        .begin_object()
        .field("name", name)
        .end_object()
        .end_object();
    out_ << line_;
  }
  template <class Members>
  void line(char phase, const TraceEvent& at, const Members& members) {
    line_.clear();
    {
      JsonWriter json(line_);
      json.begin_object().field("ph", std::string_view(&phase, 1)).field("pid", 1).field("tid", at.track);
      json.raw_field("ts", microseconds(static_cast<std::uint64_t>(at.at)));
      members(json);
      json.end_object();
    }
    out_ << ",\n" << line_;
  }

  std::ostream& out_;
  std::string line_;  // A member so that its memory is reused.
};

// The open slices of one stack, outermost first.
struct OpenStack {
  struct Slice {
    bool is_scope;
    std::uint64_t id;
  };
  std::vector<Slice> slices;
  bool parked = false;
  std::uint32_t track = 0;  // The track of its open slices, unless it is parked.
};

class Slices {
 public:
  explicit Slices(EventWriter& json) : json_(json) {}

  void start(const TraceEvent& event) {
    OpenStack& stack = stacks_[event.fiber];
    if (stack.parked) {
      stack.parked = false;
      stack.track = event.track;
      for (const OpenStack::Slice& slice : stack.slices) open(event, slice);
    } else {
      push(event, stack, {false, event.id});
    }
    if (const auto cause = causes_.find(event.id); cause != causes_.end()) {
      json_.arrow('f', event, cause->second.number, cause->second.name);
      causes_.erase(cause);
    }
  }
  void block(const TraceEvent& event) {
    OpenStack& stack = stacks_[event.fiber];
    for (std::size_t i = stack.slices.size(); i-- > 0;) {
      const bool innermost = i + 1 == stack.slices.size();
      json_.event('E', event, {}, innermost ? "waits for" : "",
                  innermost && event.waits_for != nullptr ? event.waits_for : "");
    }
    stack.parked = true;
  }
  void open_scope(const TraceEvent& event) { push(event, stacks_[event.fiber], {true, event.id}); }
  void close_scope(const TraceEvent& event) { close(event, {true, event.id}, "", ""); }
  // False if the task has no slice, because it never ran or its start is older than the trace.
  bool complete(const TraceEvent& event, std::string_view outcome) {
    return close(event, {false, event.id}, "outcome", outcome);
  }
  // `event` causes the next start of its task.
  void cause(const TraceEvent& event, std::string_view name) {
    json_.arrow('s', event, event.sequence, name);
    causes_[event.id] = {event.sequence, name};
  }
  // Closes the slices that are still open, at the last event's time.
  void finish(TraceEvent last) {
    // By track, not by address, so that the same trace gives the same file.
    std::unordered_map<std::uint32_t, std::size_t> open_on;
    std::uint32_t tracks = 0;
    for (const auto& [fiber, stack] : stacks_) {
      if (stack.parked || stack.slices.empty()) continue;
      open_on[stack.track] += stack.slices.size();
      tracks = std::max(tracks, stack.track + 1);
    }
    for (last.track = 0; last.track < tracks; ++last.track) {
      for (std::size_t i = 0; i < open_on[last.track]; ++i) json_.event('E', last, {});
    }
  }

 private:
  struct Cause {
    std::uint64_t number;
    std::string_view name;
  };

  void open(const TraceEvent& event, const OpenStack::Slice& slice) {
    json_.event('B', event, (slice.is_scope ? "scope of " : "task ") + task_name(slice.id));
  }
  void push(const TraceEvent& event, OpenStack& stack, OpenStack::Slice slice) {
    stack.track = event.track;
    stack.slices.push_back(slice);
    open(event, slice);
  }
  // Closes `slice` and the slices that are still open inside it (a scope that an exception left).
  bool close(const TraceEvent& event, OpenStack::Slice slice, std::string_view key, std::string_view value) {
    const auto found = stacks_.find(event.fiber);
    if (found == stacks_.end()) return false;
    std::vector<OpenStack::Slice>& slices = found->second.slices;
    std::size_t at = slices.size();
    while (at > 0 && (slices[at - 1].is_scope != slice.is_scope || slices[at - 1].id != slice.id)) --at;
    if (at == 0) return false;
    while (slices.size() > at) {
      json_.event('E', event, {});
      slices.pop_back();
    }
    json_.event('E', event, {}, key, value);
    slices.pop_back();
    return true;
  }

  EventWriter& json_;
  std::unordered_map<const Fiber*, OpenStack> stacks_;
  std::unordered_map<std::uint64_t, Cause> causes_;
};

}  // namespace

void write_json(const Trace::Snapshot& snapshot, std::uint32_t tracks, std::ostream& out) {
  EventWriter json(out);
  Slices slices(json);
  json.header(snapshot, tracks);
  for (const TraceEvent& event : snapshot.events) {
    switch (event.what) {
      case TaskEvent::kSpawn:
        json.event('i', event, "spawn", "task", task_name(event.id));
        slices.cause(event, "spawn");
        break;
      case TaskEvent::kWake:
        json.event('i', event, "wake", "task", task_name(event.id));
        slices.cause(event, "wake");
        break;
      case TaskEvent::kStart:
        slices.start(event);
        break;
      case TaskEvent::kBlock:
        slices.block(event);
        break;
      case TaskEvent::kComplete: {
        const std::string_view outcome = to_string(static_cast<TaskState>(event.detail));
        if (!slices.complete(event, outcome)) {
          json.event('i', event, "end of " + task_name(event.id), "outcome", outcome);
        }
        break;
      }
      case TaskEvent::kScope:
        slices.open_scope(event);
        break;
      case TaskEvent::kScopeEnd:
        slices.close_scope(event);
        break;
      case TaskEvent::kSteal:
        json.event('i', event, "steal", "task", task_name(event.id));
        break;
      case TaskEvent::kCancel:
        json.event('i', event, "cancel", "reason", to_string(static_cast<CancelReason>(event.detail)));
        break;
      case TaskEvent::kDeadline:
        json.event('i', event, "deadline", "scope of", task_name(event.id));
        break;
      case TaskEvent::kTimer:
        json.event('i', event, "clock");
        break;
      case TaskEvent::kPanic:
        json.event('i', event, "worker panic");
        break;
    }
  }
  if (!snapshot.events.empty()) slices.finish(snapshot.events.back());
  json.footer();
}

}  // namespace rota::fiber::detail

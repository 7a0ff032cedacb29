// Events to Chrome's JSON, which Perfetto reads: https://perfetto.dev/docs/getting-started/other-formats
//
// Slices nest by track. A stack that parks takes all its slices off its track (the task that blocked, the scopes that
// it has open, the tasks below it that joined it) and puts them on another when it goes on; so the writer keeps, for
// each stack, which slices it has open.
#include <charconv>
#include <string_view>
#include <unordered_map>

#include "fiber/trace.h"

namespace rota::fiber::detail {

namespace {

constexpr std::uint64_t kOutside = 0xffff;  // The upper part of the id of a task from outside.

// A task's name: the worker that spawned it and the how manieth of that worker it is.
std::string task_name(std::uint64_t id) {
  const std::uint64_t worker = id >> 48;
  const std::string number = std::to_string(id & 0xffffffffffff);
  return worker == kOutside ? "out." + number : std::to_string(worker) + "." + number;
}

class JsonWriter {
 public:
  explicit JsonWriter(std::ostream& out) : out_(out) {}

  void header(const Trace::Snapshot& snapshot, std::uint32_t tracks) {
    out_ << "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"events\":" << snapshot.events.size()
         << ",\"dropped\":" << snapshot.dropped << "},\"traceEvents\":[\n"
         << R"({"ph":"M","pid":1,"tid":0,"name":"process_name","args":{"name":"rota"}})";
    for (std::uint32_t track = 0; track < tracks; ++track) {
      const std::string name = track + 1 == tracks ? "outside" : "worker " + std::to_string(track);
      out_ << ",\n{\"ph\":\"M\",\"pid\":1,\"tid\":" << track << R"(,"name":"thread_name","args":{"name":")" << name
           << "\"}}";
    }
  }
  void footer() { out_ << "\n]}\n"; }

  // `phase` B, E or i, with one argument if `key` is not empty.
  void event(char phase, const TraceEvent& at, std::string_view name, std::string_view key = {},
             std::string_view value = {}) {
    begin(phase, at);
    if (!name.empty()) string(",\"name\":", name);
    if (phase == 'i') out_ << R"(,"s":"t")";
    if (!key.empty()) {
      out_ << ",\"args\":{";
      string("", key);
      string(":", value);
      out_ << '}';
    }
    out_ << '}';
  }
  // An arrow from where it is `s`(tarted) to where it is `f`(inished).
  void arrow(char phase, const TraceEvent& at, std::uint64_t id, std::string_view name) {
    begin(phase, at);
    string(",\"cat\":\"cause\",\"name\":", name);
    if (phase == 'f') out_ << R"(,"bp":"e")";
    out_ << ",\"id\":" << id << '}';
  }

 private:
  void begin(char phase, const TraceEvent& at) {
    char digits[32];
    out_ << ",\n{\"ph\":\"" << phase << "\",\"pid\":1,\"tid\":" << at.track << ",\"ts\":";
    // Microseconds, with the nanoseconds as decimals: exact, unlike a double.
    const auto end = std::to_chars(digits, digits + sizeof digits, at.at / 1000).ptr;
    out_.write(digits, end - digits);
    const auto rest = static_cast<unsigned>(at.at % 1000);
    const char decimals[4] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                              static_cast<char>('0' + rest % 10)};
    out_.write(decimals, 4);
  }
  void string(std::string_view before, std::string_view text) {
    out_ << before << '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        out_ << '\\' << c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out_ << ' ';
      } else {
        out_ << c;
      }
    }
    out_ << '"';
  }

  std::ostream& out_;
};

// What stands open on one stack, outermost first.
struct OpenStack {
  struct Slice {
    bool is_scope;
    std::uint64_t id;
  };
  std::vector<Slice> slices;
  bool parked = false;
  std::uint32_t track = 0;  // Where its slices are open, unless parked.
};

class Slices {
 public:
  explicit Slices(JsonWriter& json) : json_(json) {}

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
  // False if the task has no slice: it never ran, or its start is older than the trace.
  bool complete(const TraceEvent& event, std::string_view outcome) {
    return close(event, {false, event.id}, "outcome", outcome);
  }
  // `event` will cause the start of its task.
  void cause(const TraceEvent& event, std::string_view name) {
    json_.arrow('s', event, event.sequence, name);
    causes_[event.id] = {event.sequence, name};
  }
  // Closes what is still open, at the last event's time.
  void finish(TraceEvent last) {
    // By track, not by address: the same trace gives the same file.
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
  // Closes `slice` and whatever is still open inside it (a scope that an exception left).
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

  JsonWriter& json_;
  std::unordered_map<const Fiber*, OpenStack> stacks_;
  std::unordered_map<std::uint64_t, Cause> causes_;
};

}  // namespace

void write_json(const Trace::Snapshot& snapshot, std::uint32_t tracks, std::ostream& out) {
  JsonWriter json(out);
  Slices slices(json);
  json.header(snapshot, tracks);
  for (const TraceEvent& event : snapshot.events) {
    switch (event.what) {
      case Event::kSpawn:
        json.event('i', event, "spawn", "task", task_name(event.id));
        slices.cause(event, "spawn");
        break;
      case Event::kWake:
        json.event('i', event, "wake", "task", task_name(event.id));
        slices.cause(event, "wake");
        break;
      case Event::kStart:
        slices.start(event);
        break;
      case Event::kBlock:
        slices.block(event);
        break;
      case Event::kComplete: {
        const std::string_view outcome = to_string(static_cast<TaskState>(event.detail));
        if (!slices.complete(event, outcome)) {
          json.event('i', event, "end of " + task_name(event.id), "outcome", outcome);
        }
        break;
      }
      case Event::kScope:
        slices.open_scope(event);
        break;
      case Event::kScopeEnd:
        slices.close_scope(event);
        break;
      case Event::kSteal:
        json.event('i', event, "steal", "task", task_name(event.id));
        break;
      case Event::kCancel:
        json.event('i', event, "cancel", "reason", to_string(static_cast<CancelReason>(event.detail)));
        break;
      case Event::kDeadline:
        json.event('i', event, "deadline", "scope of", task_name(event.id));
        break;
      case Event::kTimer:
        json.event('i', event, "clock");
        break;
      case Event::kPanic:
        json.event('i', event, "worker panic");
        break;
    }
  }
  if (!snapshot.events.empty()) slices.finish(snapshot.events.back());
  json.footer();
}

}  // namespace rota::fiber::detail

// Finding and resolving references. See fleet/reference.h.
#include "model/reference.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/json_text.h"
#include "base/nearest.h"
#include "model/json.h"

namespace rota::model {
namespace {

constexpr std::size_t kMostIndexDigits = 9;
constexpr std::size_t kMostNamesShown = 8;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

Error no_reference(std::string_view text, std::string_view what) {
  // Enough of the text to find it again.
  const std::size_t close = text.find('}');
  const std::string_view shown = text.substr(0, close == std::string_view::npos ? text.size() : close + 1);
  return Error{ErrorCode::kParseError, "the reference '" + printable(shown, 60) + "' " + std::string(what)};
}

// What is known about a root before any value is.
Result<void> check_start(const Reference& reference) {
  static const std::array<std::string, 4> kTask = {"name", "attempt", "index", "checkpoint"};
  static const std::array<std::string, 3> kWorkflow = {"name", "id", "state"};
  static const std::array<std::string, 3> kStage = {"result", "state", "error"};
  const ReferenceStep& first = reference.path.front();
  const auto one_of = [&](std::span<const std::string> names, std::string_view list) -> Result<void> {
    if (!first.is_index && std::find(names.begin(), names.end(), first.name) != names.end()) return {};
    return no_reference(reference.text, "must continue with one of " + std::string(list));
  };
  if (reference.root == "task") return one_of(kTask, ".name, .attempt, .index, .checkpoint");
  if (reference.root == "workflow") return one_of(kWorkflow, ".name, .id, .state");
  if (reference.root == "matrix") {
    if (!first.is_index) return {};
    return no_reference(reference.text, "must name one of the matrix's lists, like ${matrix.seed}");
  }
  if (reference.root == "params") {  // Replaced when a file is read.
    if (!first.is_index) return {};
    return no_reference(reference.text, "must name a parameter, like ${params.size}");
  }
  if (!first.is_index && std::find(kStage.begin(), kStage.end(), first.name) != kStage.end()) {
    if (first.name == "result" || reference.path.size() == 1) return {};
    return no_reference(reference.text, "must end after ." + first.name + ", which is a text");
  }
  return no_reference(reference.text,
                      "must continue with .result, .state or .error, like ${" + reference.root + ".result}");
}

class ReferenceParser {
 public:
  explicit ReferenceParser(std::string_view text) : text_(text) {}

  Result<Reference> run() {
    out_.root = name();
    if (out_.root.empty() && peek() == '}') return wrong("is empty; write it like ${stage.result}");
    if (out_.root.empty()) return bad_char();
    while (peek() != '}') {
      if (out_.path.size() == kReferenceMostSteps) return wrong("has more than 64 steps");
      ROTA_TRY(step());
    }
    if (out_.path.empty()) {
      return wrong("has no path; write it like ${" + out_.root + ".result}, or $${" + out_.root + "} for that text");
    }
    out_.text = std::string(text_.substr(0, at_ + 1));
    ROTA_TRY(check_start(out_));
    return std::move(out_);
  }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] Error wrong(std::string_view what) const { return no_reference(text_, what); }
  [[nodiscard]] Error bad_char() const {
    if (at_ >= text_.size()) return wrong("is not closed; a '}' is missing, or write $${ for that text");
    const std::size_t length = std::max<std::size_t>(utf8_length(text_.substr(at_)), 1);
    return wrong("has '" + printable(text_.substr(at_, length)) +
                 "' in it; it is made of names, dots and [indices], like ${stage.result.files[0]}");
  }
  std::string name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }
  Result<void> step() {
    if (peek() == '.') {
      ++at_;
      std::string member = name();
      if (member.empty() && at_ < text_.size()) {
        return wrong("has no name after a '.'; another than of letters, digits, _ and - is written ['like this']");
      }
      if (member.empty()) return bad_char();
      out_.path.push_back({.name = std::move(member)});
      return {};
    }
    if (peek() == '[') {
      ++at_;
      if (peek() == '\'' || peek() == '"') return quoted();
      return index();
    }
    return bad_char();
  }
  Result<void> quoted() {
    const char quote = text_[at_++];
    const std::size_t close = text_.find(quote, at_);
    if (close == std::string_view::npos) return wrong("has a quote that is not closed");
    out_.path.push_back({.name = std::string(text_.substr(at_, close - at_))});
    at_ = close + 1;
    return bracket();
  }
  Result<void> index() {
    const std::size_t start = at_;
    std::size_t value = 0;
    while (peek() >= '0' && peek() <= '9') {
      if (at_ - start == kMostIndexDigits) return wrong("has an index of more than 9 digits");
      value = value * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    }
    if (at_ == start && at_ < text_.size())
      return wrong("has a bad index; write it like [0], or ['name'] for a member");
    out_.path.push_back({.index = value, .is_index = true});
    return bracket();
  }
  Result<void> bracket() {
    if (at_ >= text_.size()) return bad_char();
    if (peek() != ']') return wrong("has a '[' without its ']' after the index");
    ++at_;
    return {};
  }

  std::string_view text_;
  std::size_t at_ = 2;  // After "${".
  Reference out_{};
};

// The pieces of a string: text, then a reference, then text... REQUIRES: `sink` has text() and reference().
template <class Sink>
Result<void> split(std::string_view text, Sink& sink) {
  while (!text.empty()) {
    const std::size_t dollar = text.find("${");
    if (dollar == std::string_view::npos) {
      sink.text(text);
      return {};
    }
    if (dollar > 0 && text[dollar - 1] == '$') {
      sink.text(text.substr(0, dollar - 1));
      sink.text("${");
      text.remove_prefix(dollar + 2);
      continue;
    }
    sink.text(text.substr(0, dollar));
    ROTA_TRY_ASSIGN(Reference found, parse_reference(text.substr(dollar)));
    text.remove_prefix(dollar + found.text.size());
    ROTA_TRY(sink.reference(std::move(found)));
  }
  return {};
}

// Knows at which members and elements a walk is.
class Place {
 public:
  void token(JsonToken token, std::string_view raw) {
    if (token == JsonToken::kKey) {
      levels_.back().key = json_unescape(raw);
    } else if (token == JsonToken::kMark) {
      if (raw == "{" || raw == "[") levels_.push_back({.is_array = raw == "["});
      if (raw == "}" || raw == "]") levels_.pop_back();
      if (raw == "," && levels_.back().is_array) ++levels_.back().index;
    }
  }
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const Level& level : levels_) {
      if (level.is_array) {
        out.append("[").append(std::to_string(level.index)).append("]");
      } else {
        if (!out.empty()) out.push_back('.');
        out.append(level.key);
      }
    }
    return out;
  }

 private:
  struct Level {
    bool is_array = false;
    std::size_t index = 0;
    std::string key{};
  };
  std::vector<Level> levels_{};
};

Error too_many_references() {
  return Error{ErrorCode::kTooLarge, "a task has at most " + std::to_string(kReferencesMost) + " references"};
}

Result<void> require_object(JsonToken token, std::string_view raw, std::size_t at, bool first) {
  if (first && !(token == JsonToken::kMark && raw == "{")) {
    return Error{ErrorCode::kParseError, "byte " + std::to_string(at) + ": this must be a JSON object"};
  }
  return {};
}

class Finder final : public JsonVisitor {
 public:
  Result<void> token(JsonToken token, std::string_view raw, std::size_t at) override {
    ROTA_TRY(require_object(token, raw, at, std::exchange(first_, false)));
    place_.token(token, raw);
    // A dollar or a brace that is written as an escape is one all the same.
    if (token != JsonToken::kString || raw.find_first_of("$\\") == std::string_view::npos) return {};
    at_ = at;
    Result<void> done = split(json_unescape(raw), *this);
    if (done.ok()) return {};
    return std::move(done).take_error().in("byte " + std::to_string(at) + ", in " + printable(place_.text()));
  }
  void text(std::string_view) {}
  Result<void> reference(Reference found) {
    if (uses.size() == kReferencesMost) return too_many_references();
    uses.push_back({.reference = std::move(found), .under = place_.text(), .at = at_});
    return {};
  }
  std::vector<ReferenceUse> uses{};

 private:
  Place place_{};
  bool first_ = true;
  std::size_t at_ = 0;
};

// A string, put together. Whether it was one reference and nothing else decides what becomes of it.
struct StringMaker {
  explicit StringMaker(ReferenceScope& values, std::size_t most) : scope(values), most_bytes(most) {}
  void text(std::string_view more) {
    out.append(more);
    if (!more.empty()) exact = false;
  }
  Result<void> reference(const Reference& found) {
    ROTA_TRY_ASSIGN(std::string value, resolve_reference(found, scope));
    exact = pieces++ == 0 && out.empty();
    if (out.size() + value.size() > most_bytes) {
      return Error{ErrorCode::kTooLarge, "with " + found.text + " in its place, a string comes to more than " +
                                             std::to_string(most_bytes) + " bytes"};
    }
    if (exact) only = value;
    out.append(json_kind(value) == JsonKind::kString ? json_unescape(value) : value);
    return {};
  }
  ReferenceScope& scope;
  std::size_t most_bytes;
  std::string out{};
  std::string only{};
  std::size_t pieces = 0;
  bool exact = false;
};

class Resolver final : public JsonVisitor {
 public:
  Resolver(ReferenceScope& scope, std::size_t most_bytes) : scope_(scope), most_bytes_(most_bytes) {}
  Result<void> token(JsonToken token, std::string_view raw, std::size_t at) override {
    ROTA_TRY(require_object(token, raw, at, std::exchange(first_, false)));
    place_.token(token, raw);
    if (token == JsonToken::kKey) {
      append_json_string(out, json_unescape(raw));
    } else if (token == JsonToken::kString) {
      ROTA_TRY(string(json_unescape(raw)));
    } else {
      out.append(raw);
    }
    if (out.size() > most_bytes_) return too_large();
    return {};
  }
  std::string out{};

 private:
  [[nodiscard]] Error too_large() const {
    return Error{ErrorCode::kTooLarge, "with its references resolved, this has more than " +
                                           std::to_string(most_bytes_) + " bytes (at " + printable(place_.text()) +
                                           ")"};
  }
  Result<void> string(const std::string& text) {
    StringMaker maker(scope_, most_bytes_);
    ROTA_TRY(split(text, maker));
    if (maker.exact) {
      out.append(maker.only);
    } else {
      append_json_string(out, maker.out);
    }
    return {};
  }

  ReferenceScope& scope_;
  std::size_t most_bytes_;
  Place place_{};
  bool first_ = true;
};

// What is there instead of the member that is missing.
std::string describe(std::string_view value) {
  const JsonKind kind = json_kind(value);
  if (kind == JsonKind::kArray) return "is an array of " + std::to_string(json_elements(value).size());
  if (kind != JsonKind::kObject) return "is " + std::string(to_string(kind));
  const auto members = json_members(value);
  if (members.empty()) return "is an object without members";
  std::string out = "has ";
  for (std::size_t i = 0; i < members.size() && i < kMostNamesShown; ++i) {
    out.append(i == 0 ? "'" : ", '").append(printable(members[i].first, 40)).append("'");
  }
  if (members.size() > kMostNamesShown) {
    out.append(" and ").append(std::to_string(members.size() - kMostNamesShown)).append(" more");
  }
  return out;
}

std::string step_text(const ReferenceStep& step) {
  if (step.is_index) return "[" + std::to_string(step.index) + "]";
  return is_reference_name(step.name) ? "." + step.name : "['" + step.name + "']";
}

Error leads_nowhere(const Reference& reference, std::size_t missing, std::string_view value) {
  std::string there = reference.root;
  for (std::size_t i = 0; i < missing; ++i) there.append(step_text(reference.path[i]));
  const ReferenceStep& step = reference.path[missing];
  const std::string what =
      step.is_index ? "element [" + std::to_string(step.index) + "]" : "member '" + step.name + "'";
  return Error{ErrorCode::kNotFound, printable(reference.text, 200) + " leads nowhere: " + printable(there, 200) +
                                         " has no " + printable(what, 100) + "; it " + describe(value)}
      .with("reference", reference.text);
}

}  // namespace

bool is_reserved_root(std::string_view name) { return name == "matrix" || name == "task" || name == "workflow"; }

bool is_about_end(const Reference& reference) {
  if (reference.root == "matrix" || reference.root == "task" || reference.path.empty()) return false;
  return reference.path.front().name == "state" || reference.path.front().name == "error";
}

bool is_reference_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), is_name_char);
}

bool hands_on_weights(const ReferenceUse& use) {
  const auto named = [](std::string_view text) {
    return text.find("checkpoint") != std::string_view::npos || text.find("adapter") != std::string_view::npos;
  };
  if (is_reserved_root(use.reference.root)) return false;  // Only a parent has a worker to go to.
  return named(use.under) || std::any_of(use.reference.path.begin(), use.reference.path.end(),
                                         [&](const ReferenceStep& step) { return named(step.name); });
}

Result<Reference> parse_reference(std::string_view text) {
  ROTA_ASSERT(text.starts_with("${"), "no reference starts here");
  return ReferenceParser(text).run();
}

Result<std::vector<ReferenceUse>> find_references(std::string_view payload) {
  Finder finder;
  ROTA_TRY(json_walk(payload, finder));
  return std::move(finder.uses);
}

Result<std::string_view> find_value(const Reference& reference, ReferenceScope& scope) {
  const bool whole = reference.root == "matrix";  // Its first step is looked up here like any other.
  const std::string_view member = whole ? std::string_view{} : std::string_view(reference.path.front().name);
  ROTA_TRY_ASSIGN(std::string_view value, scope.value(reference.root, member));
  for (std::size_t i = whole ? 0 : 1; i < reference.path.size(); ++i) {
    const ReferenceStep& step = reference.path[i];
    std::string_view next;
    if (step.is_index && json_kind(value) == JsonKind::kArray) next = json_element(value, step.index);
    if (!step.is_index && json_kind(value) == JsonKind::kObject) next = json_member(value, step.name);
    if (next.data() == nullptr) return leads_nowhere(reference, i, value);
    value = next;
  }
  return value;
}

Result<std::string> resolve_reference(const Reference& reference, ReferenceScope& scope) {
  ROTA_TRY_ASSIGN(const std::string_view value, find_value(reference, scope));
  return json_minify(value);
}

Result<std::string> resolve_references(std::string_view payload, ReferenceScope& scope, std::size_t most_bytes) {
  Resolver resolver(scope, most_bytes);
  ROTA_TRY(json_walk(payload, resolver));
  return std::move(resolver.out);
}

// --------------------------------------------------------------------------------------------- whole specifications

namespace {

// Calls f(text, place) for each text of a specification but `inputs`, until one call fails. `place` is as in the file.
template <class Spec, class F>
Result<void> each_text(Spec& spec, F&& f) {
  const auto indexed = [&](auto& list, const std::string& name) -> Result<void> {
    for (std::size_t i = 0; i < list.size(); ++i) ROTA_TRY(f(list[i], name + "[" + std::to_string(i) + "]"));
    return {};
  };
  if (spec.program) {
    ROTA_TRY(f(spec.program->shell, std::string("run")));
    ROTA_TRY(indexed(spec.program->arguments, "run"));
    for (auto& variable : spec.program->environment) ROTA_TRY(f(variable.value, "env." + variable.name));
    ROTA_TRY(f(spec.program->directory, std::string("dir")));
  }
  if (spec.cache) {
    ROTA_TRY(indexed(spec.cache->files, "cache.files"));
    ROTA_TRY(indexed(spec.cache->outputs, "cache.outputs"));
    ROTA_TRY(f(spec.cache->directory, std::string("cache.dir")));
  }
  if (spec.files) {
    ROTA_TRY(indexed(spec.files->outputs, "outputs"));
    ROTA_TRY(f(spec.files->directory, std::string("dir")));
  }
  return {};
}

struct TextFinder {
  std::vector<ReferenceUse>& uses;
  const std::string& under;
  void text(std::string_view) {}
  Result<void> reference(Reference found) {
    if (uses.size() == kReferencesMost) return too_many_references();
    uses.push_back({.reference = std::move(found), .under = under});
    return {};
  }
};

}  // namespace

Result<std::vector<ReferenceUse>> find_references(const TaskSpec& spec) {
  std::vector<ReferenceUse> uses;
  ROTA_TRY(each_text(spec, [&](const std::string& text, const std::string& under) -> Result<void> {
    TextFinder finder{uses, under};
    Result<void> done = split(text, finder);
    if (!done.ok()) return std::move(done).take_error().in(printable(under));
    return {};
  }));
  Result<std::vector<ReferenceUse>> more = find_references(spec.inputs);
  if (!more.ok()) return std::move(more).take_error().in("inputs");
  for (ReferenceUse& use : *more) {
    if (uses.size() == kReferencesMost) return too_many_references();
    use.under.insert(0, use.under.starts_with('[') ? "inputs" : "inputs.");
    uses.push_back(std::move(use));
  }
  return uses;
}

Result<TaskSpec> resolve_references(const TaskSpec& spec, ReferenceScope& scope, std::size_t most_bytes) {
  TaskSpec resolved = spec;
  std::size_t total = 0;
  ROTA_TRY(each_text(resolved, [&](std::string& text, const std::string& under) -> Result<void> {
    if (text.find("${") != std::string::npos) {
      StringMaker maker(scope, most_bytes);
      ROTA_TRY(split(text, maker));
      text = std::move(maker.out);
    }
    total += text.size();
    if (total > most_bytes) {
      return Error{ErrorCode::kTooLarge, "with its references resolved, the task has more than " +
                                             std::to_string(most_bytes) + " bytes (at " + printable(under) + ")"};
    }
    return {};
  }));
  if (spec.inputs.find('$') != std::string::npos || spec.inputs.find('\\') != std::string::npos) {
    ROTA_TRY_ASSIGN(resolved.inputs, resolve_references(spec.inputs, scope, most_bytes));
  }
  return resolved;
}

}  // namespace rota::model

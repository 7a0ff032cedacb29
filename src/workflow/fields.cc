// Taking typed values out of a mapping. See workflow/fields.h.
#include "workflow/fields.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/json_text.h"
#include "base/nearest.h"
#include "base/units.h"

namespace rota::workflow {
namespace {

constexpr std::size_t kMostItems = 10'000;

std::string list_of(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out.append(out.empty() ? "" : ", ").append(name);
  return out;
}

std::string decimal_text(std::int64_t value, int digits) {
  std::string text = std::to_string(value);
  if (digits == 0) return text;
  const auto width = static_cast<std::size_t>(digits);
  const bool negative = text.starts_with('-');
  if (negative) text.erase(0, 1);
  if (text.size() <= width) text.insert(0, width + 1 - text.size(), '0');
  text.insert(text.size() - width, ".");
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return (negative ? "-" : "") + text;
}

}  // namespace

std::string did_you_mean(std::string_view found, const std::vector<std::string>& names) {
  const std::string_view near = nearest(found, names);
  return near.empty() ? "" : "; did you mean '" + printable(near) + "'?";
}

namespace {

// Keys of other tools, and what Rota has instead. `instead` must be a key of the mapping for the hint to be given.
struct Foreign {
  std::string_view key;
  std::string_view instead;
  std::string_view hint;
};
constexpr std::array kForeign = {
    Foreign{"command", "run", "write run: the text for a shell, or a list of a program and its arguments"},
    Foreign{"cmd", "run", "write run: the text for a shell, or a list of a program and its arguments"},
    Foreign{"script", "run", "write run"},
    Foreign{"shell", "run", "write run: its text is run by a shell"},
    Foreign{"args", "run", "write run as a list: the program and its arguments"},
    Foreign{"depends_on", "needs", "write needs"},
    Foreign{"dependencies", "needs", "write needs"},
    Foreign{"depends", "needs", "write needs"},
    Foreign{"requires", "needs", "write needs"},
    Foreign{"after", "needs", "write needs"},
    Foreign{"retries", "max_attempts",
            "write max_attempts, which counts the first attempt: retries: 2 is max_attempts: 3"},
    Foreign{"attempts", "max_attempts", "write max_attempts"},
    Foreign{"if", "condition", "write condition"},
    Foreign{"onExit", "finally", "write finally: stages that run when all others have ended"},
    Foreign{"on_exit", "finally", "write finally: stages that run when all others have ended"},
    Foreign{"image", "run", "Rota starts programs, not containers; write run: docker run IMAGE ..."},
    Foreign{"container", "run", "Rota starts programs, not containers; write run: docker run IMAGE ..."},
    Foreign{"environment", "env", "write env"},
    Foreign{"workdir", "dir", "write dir"},
    Foreign{"working_directory", "dir", "write dir"},
    Foreign{"working-directory", "dir", "write dir"},
    Foreign{"cwd", "dir", "write dir"},
    Foreign{"strategy", "matrix", "write matrix"},
    Foreign{"foreach", "matrix", "write matrix"},
    Foreign{"withItems", "matrix", "write matrix: {item: [...]} and ${matrix.item}"},
    Foreign{"withParam", "matrix", "write matrix: {item: [...]} and ${matrix.item}"},
    Foreign{"input", "cache", "write cache: {files: [...]}: what the task reads"},
    Foreign{"output", "outputs", "write outputs: [...]: the files that other stages fetch; or cache: {outputs: [...]}"},
    Foreign{"threads", "resources", "write resources: {hardware: {cpu: N}}"},
    Foreign{"steps", "stages", "write stages (a list, in order)"},
    Foreign{"jobs", "graph", "write graph (a mapping of names)"},
    Foreign{"tasks", "graph", "write graph (a mapping of names)"},
    Foreign{"rules", "graph", "write graph (a mapping of names)"},
    Foreign{"parameters", "params", "write params"},
    Foreign{"arguments", "params", "write params"},
};

std::string_view foreign_hint(std::string_view found, const std::vector<std::string>& names) {
  for (const Foreign& each : kForeign) {
    if (each.key == found && std::find(names.begin(), names.end(), each.instead) != names.end()) return each.hint;
  }
  return {};
}

}  // namespace

std::string unknown(std::string_view found, std::string_view what, const std::vector<std::string>& names) {
  const std::string_view foreign = foreign_hint(found, names);
  std::string hint = foreign.empty() ? did_you_mean(found, names) : "; " + std::string(foreign) + ".";
  if (hint.empty()) {
    for (const KeySet* other : all_key_sets()) {  // A key that belongs elsewhere.
      if (std::find(other->names.begin(), other->names.end(), found) == other->names.end()) continue;
      hint = "; it is a key of " + std::string(other->what);
      break;
    }
    hint.push_back('.');
  }
  return "unknown key '" + printable(found, 40) + "' in " + std::string(what) + hint + " Allowed: " + list_of(names);
}

std::optional<std::int64_t> parse_decimal(std::string_view text, int digits) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 10 - 1;
  std::int64_t value = 0;
  int after = -1;  // Digits after the point; -1 before it.
  bool any = false;
  for (const char c : text) {
    if (c == '.' && after < 0 && any) {
      after = 0;
      any = false;  // A digit must follow.
      continue;
    }
    if (c < '0' || c > '9' || value > kMost) return std::nullopt;
    any = true;
    if (after == digits) {  // Zeros there do no harm.
      if (c != '0') return std::nullopt;
      continue;
    }
    value = value * 10 + (c - '0');
    if (after >= 0) ++after;
  }
  if (!any) return std::nullopt;
  for (int i = std::max(after, 0); i < digits; ++i) {
    if (value > kMost) return std::nullopt;
    value *= 10;
  }
  return negative ? -value : value;
}

std::string Reading::found(const Node& node) const {
  if (node.kind == Node::Kind::kList) return "a list";
  if (node.kind == Node::Kind::kMap) return "a mapping";
  if (document.is_null(node)) return "nothing";
  return "'" + printable(text(node), 40) + "'";
}

Fields::Fields(Reading& reading, const Node& node, const KeySet& keys) : reading_(reading), node_(node) {
  if (node.kind != Node::Kind::kMap) {
    reading_.wrong(node, std::string(keys.what) + " must be a mapping with the keys " + list_of(keys.names) +
                             "; found " + reading_.found(node));
    return;
  }
  for (std::size_t i = 0; i < Document::size(node); ++i) {
    const Node& key = reading_.document.key(node, i);
    const std::string_view name = reading_.text(key);
    if (std::find(keys.names.begin(), keys.names.end(), name) == keys.names.end()) {
      reading_.wrong(key, reading_.problems.full() ? "" : unknown(name, keys.what, keys.names));
    }
  }
}

void Fields::wrong(std::string_view key, const Node& node, std::string_view must_be) const {
  reading_.wrong(node, std::string(key) + " is " + reading_.found(node) + "; it must be " + std::string(must_be));
}

const Node* Fields::find(std::string_view key) const {
  const Node* value = reading_.document.find(node_, key);
  if (value == nullptr || !reading_.document.is_null(*value)) return value;
  reading_.wrong(*value, std::string(key) + " has no value; give it one or remove the line");
  return nullptr;
}

bool Fields::text(std::string_view key, std::string& out, std::size_t most_bytes) const {
  const Node* node = find(key);
  if (node == nullptr) return false;
  if (node->kind != Node::Kind::kScalar) {
    wrong(key, *node, "a text");
    return false;
  }
  const std::string_view text = reading_.text(*node);
  if (text.empty() || text.size() > most_bytes || text.find('\0') != std::string_view::npos) {
    wrong(key, *node, "a text of 1 to " + std::to_string(most_bytes) + " bytes");
    return false;
  }
  out = std::string(text);
  return true;
}

bool Fields::integer(std::string_view key, std::int64_t least, std::int64_t most, std::int64_t& out) const {
  return decimal(key, 0, least, most, out);
}

bool Fields::decimal(std::string_view key, int digits, std::int64_t least, std::int64_t most, std::int64_t& out) const {
  const Node* node = find(key);
  if (node == nullptr) return false;
  std::optional<std::int64_t> value;
  if (node->kind == Node::Kind::kScalar) value = parse_decimal(reading_.text(*node), digits);
  if (!value || *value < least || *value > most) {
    wrong(key, *node,
          (digits == 0 ? "a whole number from " : "a number from ") + decimal_text(least, digits) + " to " +
              decimal_text(most, digits) +
              (digits == 0 ? "" : " with at most " + std::to_string(digits) + " digits after the point"));
    return false;
  }
  out = *value;
  return true;
}

bool Fields::boolean(std::string_view key, bool& out) const {
  const Node* node = find(key);
  if (node == nullptr) return false;
  const std::string_view text = node->kind == Node::Kind::kScalar ? reading_.text(*node) : std::string_view{};
  if (text != "true" && text != "false") {
    wrong(key, *node, "true or false");
    return false;
  }
  out = text == "true";
  return true;
}

bool Fields::duration_ms(std::string_view key, std::int64_t& out, std::int64_t most_ms) const {
  const Node* node = find(key);
  if (node == nullptr) return false;
  if (node->kind != Node::Kind::kScalar) {
    wrong(key, *node, "a duration like 10s or 1m30s");
    return false;
  }
  const Result<Duration> duration = parse_duration(reading_.text(*node));
  if (!duration.ok()) {
    reading_.wrong(*node,
                   std::string(key) + ": '" + printable(reading_.text(*node), 40) + "' " + duration.error().message);
    return false;
  }
  constexpr std::int64_t kNanosPerMilli = 1'000'000;
  if (duration->count() <= 0 || duration->count() > most_ms * kNanosPerMilli) {
    wrong(key, *node,
          "greater than 0 and at most " + format_duration(Duration(most_ms * kNanosPerMilli)) + ", like 10s");
    return false;
  }
  out = (duration->count() - 1) / kNanosPerMilli + 1;
  return true;
}

bool Fields::bytes(std::string_view key, std::int64_t& out) const {
  const Node* node = find(key);
  if (node == nullptr) return false;
  if (node->kind != Node::Kind::kScalar) {
    wrong(key, *node, "a size like 512MiB or 2GB");
    return false;
  }
  const Result<ByteSize> size = parse_bytes(reading_.text(*node));
  if (!size.ok()) {
    reading_.wrong(*node, std::string(key) + ": '" + printable(reading_.text(*node), 40) + "' " + size.error().message);
    return false;
  }
  if (size->count > static_cast<std::uint64_t>(kMostSize)) {
    wrong(key, *node, "at most " + format_bytes(ByteSize{static_cast<std::uint64_t>(kMostSize)}));
    return false;
  }
  out = static_cast<std::int64_t>(size->count);
  return true;
}

bool Fields::cpu_millis(std::string_view key, std::int64_t& out) const {
  const Node* node = find(key);
  if (node == nullptr) return false;
  std::optional<std::int64_t> value;
  if (node->kind == Node::Kind::kScalar) {
    const std::string_view text = reading_.text(*node);
    value = text.ends_with('m') ? parse_decimal(text.substr(0, text.size() - 1), 0) : parse_decimal(text, 3);
  }
  constexpr std::int64_t kMost = 1'000'000'000;
  if (!value || *value < 0 || *value > kMost) {
    wrong(key, *node, "a number of cores like 2, 0.5 or 500m");
    return false;
  }
  out = *value;
  return true;
}

bool Fields::texts(std::string_view key, std::vector<std::string>& out) const {
  const Node* node = find(key);
  if (node == nullptr) return false;
  std::vector<const Node*> nodes;
  if (node->kind == Node::Kind::kScalar) {
    nodes.push_back(node);
  } else if (node->kind == Node::Kind::kList && Document::size(*node) <= kMostItems) {
    for (std::size_t i = 0; i < Document::size(*node); ++i) nodes.push_back(&reading_.document.item(*node, i));
  } else {
    wrong(key, *node, "a text or a list of at most 10000 texts");
    return false;
  }
  std::vector<std::string> result;
  bool right = true;
  for (const Node* item : nodes) {
    if (item->kind != Node::Kind::kScalar || reading_.text(*item).empty()) {
      reading_.wrong(*item, "an item of " + std::string(key) + " is " + reading_.found(*item) + "; it must be a text");
      right = false;
    } else {
      result.emplace_back(reading_.text(*item));
    }
  }
  if (right) out = std::move(result);
  return right;
}

bool Fields::pairs(std::string_view key, std::vector<std::pair<std::string, std::string>>& out) const {
  const Node* node = map(key);
  if (node == nullptr) return false;
  std::vector<std::pair<std::string, std::string>> result;
  bool right = true;
  for (std::size_t i = 0; i < Document::size(*node); ++i) {
    const Node& name = reading_.document.key(*node, i);
    const Node& value = reading_.document.value(*node, i);
    if (value.kind != Node::Kind::kScalar || reading_.document.is_null(value)) {
      reading_.wrong(value, printable(reading_.text(name), 40) + " of " + std::string(key) + " is " +
                                reading_.found(value) + "; it must be a text");
      right = false;
    } else {
      result.emplace_back(reading_.text(name), reading_.text(value));
    }
  }
  if (right) out = std::move(result);
  return right;
}

const Node* Fields::map(std::string_view key) const {
  const Node* node = find(key);
  if (node == nullptr || node->kind == Node::Kind::kMap) return node;
  wrong(key, *node, "a mapping");
  return nullptr;
}

}  // namespace rota::workflow

// Reading YAML with libyaml's event parser, and putting documents together. See workflow/document.h.
#include "workflow/document.h"

#include <yaml.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/json_text.h"
#include "rota/assert.h"
#include "workflow/document_builder.h"

namespace rota::workflow {
namespace {

Position position(const yaml_mark_t& mark) {
  return {static_cast<std::uint32_t>(mark.line + 1), static_cast<std::uint32_t>(mark.column + 1)};
}

std::string_view view(const unsigned char* text) {
  return text == nullptr ? std::string_view{} : std::string_view(reinterpret_cast<const char*>(text));
}

class YamlReader {
 public:
  YamlReader(std::string_view text, Problems& problems, std::uint32_t file)
      : problems_(problems), file_(file), builder_(text, problems, file) {
    ROTA_ASSERT(yaml_parser_initialize(&parser_) == 1, "no memory for the YAML parser");
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;
  ~YamlReader() { yaml_parser_delete(&parser_); }

  std::optional<Document> run() {
    while (true) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) {
        report_syntax();
        return std::nullopt;
      }
      const std::unique_ptr<yaml_event_t, void (*)(yaml_event_t*)> owner(&event, yaml_event_delete);
      if (event.type == YAML_STREAM_END_EVENT) break;
      if (!handle(event)) return std::nullopt;
    }
    if (builder_.has_root()) return builder_.finish();
    problems_.add(placed({1, 1}), "the file is empty");
    return std::nullopt;
  }

 private:
  void report_syntax() {
    std::string text = parser_.problem != nullptr ? parser_.problem : "cannot be read as YAML";
    if (parser_.context != nullptr) text.append(" ").append(parser_.context);
    if (parser_.error == YAML_READER_ERROR) {
      problems_.add(placed({}), "byte " + std::to_string(parser_.problem_offset) + ": " + text);
    } else {
      problems_.add(placed(position(parser_.problem_mark)), text);
    }
  }
  void check_tag(const unsigned char* tag, Position at) {
    if (tag != nullptr) problems_.add(at, "the tag " + printable(view(tag), 40) + " is not allowed; leave it out");
  }
  bool handle(const yaml_event_t& event) {
    const Position at = placed(position(event.start_mark));
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        if (++documents_ == 2) problems_.add(at, "a second document begins here; a file has one");
        return documents_ < 2;
      case YAML_ALIAS_EVENT:
        return builder_.alias(view(event.data.alias.anchor), at);
      case YAML_SCALAR_EVENT: {
        const auto& scalar = event.data.scalar;
        check_tag(scalar.tag, at);
        return builder_.scalar({reinterpret_cast<const char*>(scalar.value), scalar.length},
                               scalar.style == YAML_PLAIN_SCALAR_STYLE, at, view(scalar.anchor));
      }
      case YAML_SEQUENCE_START_EVENT:
        check_tag(event.data.sequence_start.tag, at);
        return builder_.open(Node::Kind::kList, at, view(event.data.sequence_start.anchor));
      case YAML_MAPPING_START_EVENT:
        check_tag(event.data.mapping_start.tag, at);
        return builder_.open(Node::Kind::kMap, at, view(event.data.mapping_start.anchor));
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        return builder_.close();
      default:
        return true;
    }
  }

  [[nodiscard]] Position placed(Position at) const {
    at.file = file_;
    return at;
  }

  Problems& problems_;
  const std::uint32_t file_;
  DocumentBuilder builder_;
  yaml_parser_t parser_{};
  int documents_ = 0;
};

// A plain text cannot contain braces inside of {...} or [...], so that `matrix: {item: ${list.result}}` is not YAML.
// The text with quotes around each reference that is a whole value there; the same text if there is none.
std::string quote_references(std::string_view text) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find("${"); at != std::string_view::npos; at = text.find("${", at + 2)) {
    const std::size_t line = text.rfind('\n', at) + 1;  // npos + 1 is 0.
    const std::string_view before = text.substr(line, at - line);
    const std::size_t last = before.find_last_not_of(' ');
    const std::size_t end = text.find_first_of("}\n", at);
    if (end == std::string_view::npos || text[end] != '}' || last == std::string_view::npos) continue;
    const std::size_t next = std::min(text.find_first_not_of(' ', end + 1), text.size());
    const bool whole = std::string_view(":,[{").find(before[last]) != std::string_view::npos &&
                       (next == text.size() || std::string_view(",]}\n").find(text[next]) != std::string_view::npos);
    const bool quoted = std::count(before.begin(), before.end(), '"') % 2 != 0 ||
                        std::count(before.begin(), before.end(), '\'') % 2 != 0;
    const std::string_view reference = text.substr(at, end + 1 - at);
    if (!whole || quoted || at < done || reference.find('"') != std::string_view::npos) continue;
    out.append(text.substr(done, at - done)).append("\"").append(reference).append("\"");
    done = end + 1;
  }
  return out.append(text.substr(done));
}

}  // namespace

DocumentBuilder::DocumentBuilder(std::string_view text, Problems& problems, std::uint32_t file)
    : problems_(problems), file_(file) {
  // A node has seldom less text than this; growing would copy all of them several times.
  constexpr std::size_t kBytesPerNode = 6;
  document_.nodes_.reserve(text.size() / kBytesPerNode);
  document_.children_.reserve(text.size() / kBytesPerNode);
  document_.text_.reserve(text.size());
}

std::uint32_t DocumentBuilder::add(Node node) {
  document_.nodes_.push_back(node);
  return static_cast<std::uint32_t>(document_.nodes_.size() - 1);
}

// A node is complete: it goes to the container that is open.
bool DocumentBuilder::done(std::uint32_t node) {
  if (open_.empty()) {
    document_.root_ = node;
    has_root_ = true;
  } else {
    pending_.push_back(node);
  }
  if (document_.nodes_.size() <= kMostNodes) return true;
  problems_.add(document_.nodes_[node].at, "the file has more than 4000000 values");
  return false;
}

bool DocumentBuilder::scalar(std::string_view text, bool plain, Position at, std::string_view anchor) {
  const auto first = static_cast<std::uint32_t>(document_.text_.size());
  document_.text_.append(text);
  const std::uint32_t node =
      add({.plain = plain, .first = first, .count = static_cast<std::uint32_t>(text.size()), .at = placed(at)});
  if (!anchor.empty()) anchors_.insert_or_assign(std::string(anchor), node);
  return done(node);
}

bool DocumentBuilder::open(Node::Kind kind, Position at, std::string_view anchor) {
  // libyaml's work for a token grows with the nesting, so that reading on would not be bounded by the file's size.
  if (open_.size() == kMostDepth) {
    problems_.add(placed(at), "nested deeper than 32 levels");
    return false;
  }
  const std::uint32_t node = add({.kind = kind, .at = placed(at)});
  open_.push_back({.node = node, .first = pending_.size(), .anchor = std::string(anchor)});
  return true;
}

bool DocumentBuilder::close() {
  Open closed = std::move(open_.back());
  open_.pop_back();
  Node& node = document_.nodes_[closed.node];
  if (node.kind == Node::Kind::kMap && !keys_are_fine(closed.first)) check_keys(closed.first);
  std::uint64_t weight = 1;
  for (std::size_t i = closed.first; i < pending_.size(); ++i) {
    const Node& child = document_.nodes_[pending_[i]];
    weight += child.weight;
    node.depth = std::max(node.depth, static_cast<std::uint8_t>(child.depth + 1));
  }
  if (weight > kMostNodes) {
    problems_.add(node.at, "with its aliases written out, this has more than 4000000 values");
    return false;
  }
  if (node.depth + open_.size() > kMostDepth) {
    problems_.add(node.at, "with its aliases written out, this is nested deeper than 32 levels");
    return false;
  }
  node.weight = static_cast<std::uint32_t>(weight);
  node.first = static_cast<std::uint32_t>(document_.children_.size());
  node.count = static_cast<std::uint32_t>(pending_.size() - closed.first);
  document_.children_.insert(document_.children_.end(), pending_.begin() + static_cast<std::ptrdiff_t>(closed.first),
                             pending_.end());
  pending_.resize(closed.first);
  if (!closed.anchor.empty()) anchors_.insert_or_assign(std::move(closed.anchor), closed.node);
  return done(closed.node);
}

// The usual case, without a search: few keys, all of them texts, no two the same.
bool DocumentBuilder::keys_are_fine(std::size_t first) const {
  constexpr std::size_t kFew = 2 * 12;
  if (pending_.size() - first > kFew) return false;
  for (std::size_t i = first; i < pending_.size(); i += 2) {
    const Node& key = document_.nodes_[pending_[i]];
    if (key.kind != Node::Kind::kScalar) return false;
    for (std::size_t j = first; j < i; j += 2) {
      const Node& other = document_.nodes_[pending_[j]];
      if (other.count == key.count && document_.text(other) == document_.text(key)) return false;
    }
  }
  return true;
}

// Takes out entries whose key is no text or is there already, and reports them.
void DocumentBuilder::check_keys(std::size_t first) {
  const auto key_of = [&](std::size_t i) -> const Node& { return document_.nodes_[pending_[first + 2 * i]]; };
  std::vector<std::pair<std::string_view, std::size_t>> keys;  // Sorted: twins are neighbours, the first one first.
  std::vector<bool> bad((pending_.size() - first) / 2);
  for (std::size_t i = 0; i < bad.size(); ++i) {
    if (key_of(i).kind != Node::Kind::kScalar) {
      problems_.add(key_of(i).at, "a key must be plain text");
      bad[i] = true;
    } else {
      keys.emplace_back(document_.text(key_of(i)), i);
    }
  }
  std::sort(keys.begin(), keys.end());
  for (std::size_t i = 1, twin = 0; i < keys.size(); ++i) {
    if (keys[i].first != keys[twin].first) {
      twin = i;
      continue;
    }
    problems_.add(key_of(keys[i].second).at, "the key '" + printable(keys[i].first) +
                                                 "' is here twice; the first is in line " +
                                                 std::to_string(key_of(keys[twin].second).at.line));
    bad[keys[i].second] = true;
  }
  std::size_t kept = first;
  for (std::size_t i = 0; i < bad.size(); ++i) {
    if (bad[i]) continue;
    pending_[kept++] = pending_[first + 2 * i];
    pending_[kept++] = pending_[first + 2 * i + 1];
  }
  pending_.resize(kept);
}

bool DocumentBuilder::alias(std::string_view name, Position at) {
  const auto found = anchors_.find(name);
  if (found != anchors_.end()) return done(found->second);
  const bool inside = std::any_of(open_.begin(), open_.end(), [&](const Open& open) { return open.anchor == name; });
  problems_.add(
      at, inside ? "the alias *" + printable(name) + " is inside what it stands for"
                 : "the alias *" + printable(name) + " is not defined; there is no &" + printable(name) + " before it");
  return scalar("", true, at);  // Something must stand here.
}

Document DocumentBuilder::finish() {
  ROTA_ASSERT(has_root_ && open_.empty(), "an unfinished document");
  return std::move(document_);
}

const Node* Document::find(const Node& map, std::string_view key) const {
  if (map.kind != Node::Kind::kMap) return nullptr;
  for (std::size_t i = 0; i < size(map); ++i) {
    if (text(this->key(map, i)) == key) return &value(map, i);
  }
  return nullptr;
}

bool Document::is_null(const Node& node) const {
  if (node.kind != Node::Kind::kScalar || !node.plain) return false;
  const std::string_view text = this->text(node);
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::optional<Document> Document::read(std::string_view text, Problems& problems, std::uint32_t file) {
  if (text.size() > kMostBytes) {
    problems.add({0, 0, file}, "has " + std::to_string(text.size()) + " bytes; at most 16 MiB are allowed");
    return std::nullopt;
  }
  if (std::optional<Document> json = read_json_document(text, problems, file)) return json;
  Problems found = problems;
  std::optional<Document> document = YamlReader(text, found, file).run();
  if (!document && text.find("${") != std::string_view::npos) {
    Problems again = problems;
    if (const std::string quoted = quote_references(text); quoted != text) {
      document = YamlReader(quoted, again, file).run();
    }
    if (document) found = std::move(again);
  }
  problems = std::move(found);
  return document;
}

}  // namespace rota::workflow

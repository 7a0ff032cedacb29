// Values without a type of ours, and references in texts. See workflow/values.h.
#include "workflow/values.h"

#include <algorithm>
#include <cstdint>

#include "base/json_text.h"
#include "model/json.h"

namespace rota::workflow {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Would another reader of YAML take this plain text for a number? Then we ask what is meant.
bool looks_like_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text == ".inf" || text == ".Inf" || text == ".INF" || text == ".nan" || text == ".NaN" || text == ".NAN") {
    return true;
  }
  if (text.starts_with("0x") || text.starts_with("0o")) {
    return text.size() > 2 && text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
  }
  std::size_t at = 0;
  std::size_t digits = 0;
  while (at < text.size() && is_digit(text[at])) ++at, ++digits;
  if (at < text.size() && text[at] == '.') ++at;
  while (at < text.size() && is_digit(text[at])) ++at, ++digits;
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (at == text.size()) return false;
    while (at < text.size() && is_digit(text[at])) ++at;
  }
  return at == text.size();
}

bool append_scalar(Reading& reading, const Node& node, const OnText& on_text, std::string& out) {
  const std::string_view text = reading.text(node);
  if (node.plain) {
    if (reading.document.is_null(node)) {
      out.append("null");
      return true;
    }
    if (text == "true" || text == "True" || text == "TRUE" || text == "false" || text == "False" || text == "FALSE") {
      out.append(text.front() == 't' || text.front() == 'T' ? "true" : "false");
      return true;
    }
    if ((is_digit(text.front()) || text.front() == '-') && model::json_validate(text).ok()) {
      out.append(text);
      return true;
    }
    if (looks_like_number(text)) {
      reading.wrong(node, "'" + printable(text, 40) +
                              "' is not a valid number; write it as a plain decimal, or in quotes if it is text");
      return false;
    }
  }
  on_text(node, text);
  append_json_string(out, text);
  return true;
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' || c == '-';
}

// Does a reference begin here, after "${"?
bool begins_reference(std::string_view text, const std::function<bool(std::string_view)>& is_stage) {
  std::size_t end = 0;
  while (end < text.size() && is_name_char(text[end])) ++end;
  if (end == 0 || end == text.size() || text[end] != '.') return false;
  const std::string_view name = text.substr(0, end);
  if (name.find('-') == std::string_view::npos) return true;
  return is_stage(name) || text.substr(end).starts_with(".result");
}

}  // namespace

// As deep as the document, so at most kMostDepth.
bool append_json(Reading& reading, const Node& node, const OnText& on_text, std::string& out) {
  if (node.kind == Node::Kind::kScalar) return append_scalar(reading, node, on_text, out);
  bool right = true;
  const bool map = node.kind == Node::Kind::kMap;
  out.push_back(map ? '{' : '[');
  for (std::size_t i = 0; i < Document::size(node); ++i) {
    if (i > 0) out.push_back(',');
    if (map) {
      append_json_string(out, reading.text(reading.document.key(node, i)));
      out.push_back(':');
    }
    const Node& value = map ? reading.document.value(node, i) : reading.document.item(node, i);
    if (!append_json(reading, value, on_text, out)) right = false;
  }
  out.push_back(map ? '}' : ']');
  return right;
}

void collect_references(Reading& reading, const Node& node, std::string_view text, std::vector<PlacedReference>& out) {
  while (true) {
    const std::size_t dollar = text.find("${");
    if (dollar == std::string_view::npos) return;
    const bool literal = dollar > 0 && text[dollar - 1] == '$';
    std::size_t used = 2;
    if (!literal) {
      Result<model::Reference> parsed = model::parse_reference(text.substr(dollar));
      if (parsed.ok()) {
        used = parsed->text.size();
        out.push_back({std::move(*parsed), node.at});
      } else {
        reading.wrong(node, parsed.error().message);
      }
    }
    text.remove_prefix(dollar + used);
  }
}

namespace {

// Follows the quotes of a shell text. A text with a here-document is not followed: quotes mean nothing in it.
class QuoteTracker {
 public:
  explicit QuoteTracker(std::string_view text) : off_(text.find("<<") != std::string_view::npos) {}
  void pass(std::string_view piece) {
    for (const char c : piece) step(c);
  }
  [[nodiscard]] bool in_single() const { return !off_ && state_ == State::kSingle; }

 private:
  enum class State : std::uint8_t { kPlain, kSingle, kDouble, kComment };
  void step(char c) {
    if (escaped_) {
      escaped_ = false;
    } else if (state_ == State::kSingle) {
      if (c == '\'') state_ = State::kPlain;
    } else if (state_ == State::kComment) {
      if (c == '\n') state_ = State::kPlain;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      state_ = state_ == State::kDouble ? State::kPlain : State::kDouble;
    } else if (c == '\'' && state_ == State::kPlain) {
      state_ = State::kSingle;
    } else if (c == '#' && state_ == State::kPlain &&
               (last_ == '\0' || last_ == ' ' || last_ == '\t' || last_ == '\n' || last_ == ';')) {
      state_ = State::kComment;
    }
    last_ = c;
  }

  const bool off_;
  State state_ = State::kPlain;
  bool escaped_ = false;
  char last_ = '\0';
};

}  // namespace

ShellText read_shell_text(std::string_view text, const std::function<bool(std::string_view)>& is_stage) {
  ShellText out;
  QuoteTracker quotes(text);
  while (true) {
    const std::size_t dollar = text.find("${");
    quotes.pass(text.substr(0, dollar == std::string_view::npos ? text.size() : dollar));
    if (dollar == std::string_view::npos) {
      out.text.append(text);
      return out;
    }
    if (dollar > 0 && text[dollar - 1] == '$') {  // Already as the payload has it.
      out.text.append(text, 0, dollar + 2);
      text.remove_prefix(dollar + 2);
      continue;
    }
    out.text.append(text, 0, dollar).append("$${");
    text.remove_prefix(dollar);
    std::size_t used = 2;
    if (begins_reference(text.substr(2), is_stage)) {
      Result<model::Reference> parsed = model::parse_reference(text);
      if (parsed.ok()) {
        used = parsed->text.size();
        if (quotes.in_single()) {
          out.problems.push_back("'" + printable(parsed->text, 60) +
                                 "' is in single quotes, where a shell replaces nothing; use double quotes");
        }
        if (out.variables.size() == model::kReferencesMost) {
          out.problems.push_back("a command has at most 1000 references");
          return out;
        }
        auto found = std::find(out.variables.begin(), out.variables.end(), *parsed);
        const auto number = found - out.variables.begin() + 1;
        if (found == out.variables.end()) out.variables.push_back(std::move(*parsed));
        out.text.append("ROTA_REF_").append(std::to_string(number)).append("}");
      } else {
        out.problems.push_back(parsed.error().message);
      }
    }
    text.remove_prefix(used);
  }
}

}  // namespace rota::workflow

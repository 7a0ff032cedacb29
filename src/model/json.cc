// JSON as text. See fleet/json.h.
#include "model/json.h"

#include <algorithm>

#include "base/json_text.h"
#include "rota/assert.h"

namespace rota::model {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
// May stand in a string without further ado.
bool is_plain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\';
}
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}
bool is_high_surrogate(std::uint32_t unit) { return unit >= 0xd800 && unit <= 0xdbff; }
bool is_low_surrogate(std::uint32_t unit) { return unit >= 0xdc00 && unit <= 0xdfff; }

// The four digits after "\u". REQUIRES: they are there.
std::uint32_t hex4(std::string_view digits) {
  std::uint32_t unit = 0;
  for (const char c : digits.substr(0, 4)) unit = unit << 4 | static_cast<std::uint32_t>(hex_digit(c));
  return unit;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

// One pass over text that may be anything. The recursion is as deep as the text is nested, so at most kJsonMostDepth.
class Walk {
 public:
  Walk(std::string_view text, JsonVisitor& visitor) : text_(text), visitor_(visitor) {}

  Result<void> run() {
    ROTA_TRY(value(0));
    space();
    if (at_ != text_.size()) return wrong("expected the end after the value");
    return {};
  }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  void space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  [[nodiscard]] Error error_at(std::size_t at, std::string_view what) const {
    return Error{ErrorCode::kParseError, "byte " + std::to_string(at) + ": " + std::string(what)};
  }
  [[nodiscard]] Error wrong(std::string_view expected) const {
    std::string what(expected);
    if (at_end()) {
      what.append(", found the end");
    } else {
      const std::size_t length = utf8_length(text_.substr(at_));
      what.append(", found '").append(printable(text_.substr(at_, length == 0 ? 1 : length))).append("'");
    }
    return error_at(at_, what);
  }
  Result<void> show(JsonToken token, std::size_t start) {
    return visitor_.token(token, text_.substr(start, at_ - start), start);
  }
  Result<void> mark() {
    ++at_;
    return show(JsonToken::kMark, at_ - 1);
  }

  Result<void> value(std::size_t depth) {
    space();
    switch (peek()) {
      case '{':
        return container(depth, '}');
      case '[':
        return container(depth, ']');
      case '"':
        return string(JsonToken::kString);
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        if (peek() == '-' || is_digit(peek())) return number();
        return wrong("expected a JSON value");
    }
  }

  Result<void> container(std::size_t depth, char close) {
    if (depth == kJsonMostDepth) {
      return error_at(at_, "nested deeper than " + std::to_string(kJsonMostDepth) + " levels");
    }
    ROTA_TRY(mark());
    space();
    if (peek() == close) return mark();
    while (true) {
      if (close == '}') ROTA_TRY(key());
      ROTA_TRY(value(depth + 1));
      space();
      if (peek() == close) return mark();
      if (peek() != ',') return wrong(close == '}' ? "expected ',' or '}'" : "expected ',' or ']'");
      ROTA_TRY(mark());
    }
  }

  Result<void> key() {
    space();
    if (peek() != '"') return wrong("expected a member's name in quotes");
    ROTA_TRY(string(JsonToken::kKey));
    space();
    if (peek() != ':') return wrong("expected ':' after a member's name");
    return mark();
  }

  Result<void> word(std::string_view all) {
    const std::size_t start = at_;
    if (text_.substr(at_, all.size()) != all) return wrong("expected a JSON value");
    at_ += all.size();
    return show(JsonToken::kScalar, start);
  }

  Result<void> digits() {
    if (!is_digit(peek())) return wrong("expected a digit");
    while (is_digit(peek())) ++at_;
    return {};
  }
  Result<void> number() {
    const std::size_t start = at_;
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
      if (is_digit(peek())) return error_at(start, "a number does not start with 0 and another digit");
    } else {
      ROTA_TRY(digits());
    }
    if (peek() == '.') {
      ++at_;
      ROTA_TRY(digits());
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      ROTA_TRY(digits());
    }
    return show(JsonToken::kScalar, start);
  }

  Result<void> string(JsonToken token) {
    const std::size_t start = at_++;
    while (true) {
      while (at_ < text_.size() && is_plain(text_[at_])) ++at_;
      if (at_end()) return error_at(start, "a string is not closed");
      if (peek() == '"') {
        ++at_;
        return show(token, start);
      }
      if (peek() == '\\') {
        ROTA_TRY(escape());
      } else if (static_cast<unsigned char>(peek()) < 0x20) {
        return error_at(at_, "a control character in a string must be written as \\u00..");
      } else {
        const std::size_t length = utf8_length(text_.substr(at_));
        if (length == 0) return error_at(at_, "a string is not UTF-8");
        at_ += length;
      }
    }
  }
  Result<void> escape() {
    const std::size_t start = at_++;
    if (peek() != 'u') {
      constexpr std::string_view kSimple = "\"\\/bfnrt";
      if (at_end() || kSimple.find(peek()) == std::string_view::npos) return wrong("expected an escape like \\n");
      ++at_;
      return {};
    }
    ROTA_TRY_ASSIGN(const std::uint32_t unit, unicode_escape());
    if (is_low_surrogate(unit)) return error_at(start, "half of a surrogate pair");
    if (is_high_surrogate(unit)) {
      if (text_.substr(at_, 2) != "\\u") return error_at(start, "half of a surrogate pair");
      ++at_;
      ROTA_TRY_ASSIGN(const std::uint32_t low, unicode_escape());
      if (!is_low_surrogate(low)) return error_at(start, "half of a surrogate pair");
    }
    return {};
  }
  // At the 'u'.
  Result<std::uint32_t> unicode_escape() {
    ++at_;
    for (int i = 0; i < 4; ++i, ++at_) {
      if (hex_digit(peek()) < 0) return wrong("expected four hexadecimal digits after \\u");
    }
    return hex4(text_.substr(at_ - 4));
  }

  std::string_view text_;
  JsonVisitor& visitor_;
  std::size_t at_ = 0;
};

class Nobody final : public JsonVisitor {
 public:
  Result<void> token(JsonToken, std::string_view, std::size_t) override { return {}; }
};

class Minifier final : public JsonVisitor {
 public:
  Result<void> token(JsonToken token, std::string_view raw, std::size_t) override {
    if (token == JsonToken::kKey || token == JsonToken::kString) {
      append_json_string(out, json_unescape(raw));
    } else {
      out.append(raw);
    }
    return {};
  }
  std::string out{};
};

// Goes through the items of a container that is known to be valid. On text that is not, what comes out means nothing,
// but no byte outside it is read and it ends: past the end stands a closing bracket.
class Items {
 public:
  explicit Items(std::string_view container) : text_(container) {
    space();
    ++at_;
  }
  // Goes to the next item; false at the end.
  bool next() {
    space();
    if (peek() == ',') ++at_;
    space();
    return peek() != '}' && peek() != ']';
  }
  // The item's name, with its quotes. REQUIRES: an object.
  std::string_view key() {
    const std::string_view name = skip();
    space();
    ++at_;  // The colon.
    space();
    return name;
  }
  std::string_view value() { return skip(); }

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : ']'; }
  void space() {
    while (is_space(peek())) ++at_;
  }
  void skip_string() {
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
    ++at_;
  }
  std::string_view skip() {
    const std::size_t start = std::min(at_, text_.size());
    std::size_t depth = 0;
    do {
      const char c = peek();
      if (c == '"') {
        skip_string();
      } else if (c == '{' || c == '[') {
        ++depth;
        ++at_;
      } else if (c == '}' || c == ']') {
        depth -= std::min<std::size_t>(depth, 1);
        ++at_;
      } else if (depth > 0) {
        ++at_;
      } else {  // A scalar ends where something else begins.
        while (!is_space(peek()) && peek() != ',' && peek() != '}' && peek() != ']') ++at_;
      }
    } while (depth > 0);
    return text_.substr(start, at_ - start);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

char first_of(std::string_view value) {
  const std::size_t start = value.find_first_not_of(" \t\n\r");
  ROTA_ASSERT(start != std::string_view::npos, "looked into text that is no JSON");
  return value[start];
}

}  // namespace

std::string_view to_string(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "a truth value";
    case JsonKind::kNumber:
      return "a number";
    case JsonKind::kString:
      return "a string";
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
  }
  return "?";
}

Result<void> json_walk(std::string_view text, JsonVisitor& visitor) { return Walk(text, visitor).run(); }

Result<void> json_validate(std::string_view text) {
  Nobody nobody;
  return json_walk(text, nobody);
}

Result<std::string> json_minify(std::string_view text) {
  Minifier minifier;
  minifier.out.reserve(text.size());
  ROTA_TRY(json_walk(text, minifier));
  return std::move(minifier.out);
}

JsonKind json_kind(std::string_view value) {
  switch (first_of(value)) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
    case 'f':
      return JsonKind::kBool;
    case 'n':
      return JsonKind::kNull;
    default:
      return JsonKind::kNumber;
  }
}

std::string json_unescape(std::string_view string) {
  const std::size_t open = string.find('"'), close = string.rfind('"');
  ROTA_ASSERT(open != std::string_view::npos && close > open, "a string was expected");
  std::string_view text = string.substr(open + 1, close - open - 1);
  std::string out;
  out.reserve(text.size());
  while (true) {
    const std::size_t plain = text.find('\\');
    out.append(text, 0, plain);
    if (plain == std::string_view::npos) return out;
    const char c = text[plain + 1];
    text.remove_prefix(plain + 2);
    switch (c) {
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'u': {
        std::uint32_t code = hex4(text);
        text.remove_prefix(4);
        if (is_high_surrogate(code)) {  // Its other half follows.
          code = 0x10000 + ((code - 0xd800) << 10) + (hex4(text.substr(2)) - 0xdc00);
          text.remove_prefix(6);
        }
        append_utf8(out, code);
        break;
      }
      default:  // A quote, a backslash or a slash.
        out.push_back(c);
    }
  }
}

std::string_view json_member(std::string_view object, std::string_view name) {
  ROTA_ASSERT(json_kind(object) == JsonKind::kObject, "a member was asked for", object.substr(0, 20));
  std::string_view found;
  Items items(object);
  while (items.next()) {
    const std::string_view key = items.key();
    const std::string_view value = items.value();
    const std::string_view inner = key.substr(1, key.size() - 2);
    if (inner.find('\\') == std::string_view::npos ? inner == name : json_unescape(key) == name) found = value;
  }
  return found;
}

std::string_view json_element(std::string_view array, std::size_t index) {
  ROTA_ASSERT(json_kind(array) == JsonKind::kArray, "an element was asked for", array.substr(0, 20));
  Items items(array);
  while (items.next()) {
    const std::string_view value = items.value();
    if (index-- == 0) return value;
  }
  return {};
}

std::vector<std::pair<std::string, std::string_view>> json_members(std::string_view object) {
  ROTA_ASSERT(json_kind(object) == JsonKind::kObject, "members were asked for", object.substr(0, 20));
  std::vector<std::pair<std::string, std::string_view>> members;
  Items items(object);
  while (items.next()) {
    std::string name = json_unescape(items.key());
    members.emplace_back(std::move(name), items.value());
  }
  return members;
}

std::vector<std::string_view> json_elements(std::string_view array) {
  ROTA_ASSERT(json_kind(array) == JsonKind::kArray, "elements were asked for", array.substr(0, 20));
  std::vector<std::string_view> elements;
  Items items(array);
  while (items.next()) elements.push_back(items.value());
  return elements;
}

}  // namespace rota::model

// Reads the text of fleet/text.h. Nothing is nested deeper than the types are.
#include <charconv>
#include <concepts>
#include <span>
#include <type_traits>
#include <vector>

#include "base/json_text.h"
#include "base/nearest.h"
#include "fleet/codec.h"
#include "fleet/text.h"

namespace rota::fleet {

namespace {

// "; did you mean 'x'?", if one is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string_view near = nearest(word, known);
  return near.empty() ? "" : "; did you mean '" + std::string(near) + "'?";
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text.empty() ? "nothing" : text;
}

template <class E>
std::vector<std::string> name_list() {
  std::vector<std::string> names;
  for (unsigned i = 0; i <= static_cast<unsigned>(last_enumerator<E>); ++i) {
    names.emplace_back(to_string(static_cast<E>(i)));
  }
  return names;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class TextParser {
 public:
  explicit TextParser(std::string_view text) : text_(text) {}

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }
  void skip_spaces() {
    while (!at_end() && text_[at_] == ' ') ++at_;
  }
  // Everything up to a space or one of = { } [ ] ". May be empty.
  std::string_view word() {
    const std::size_t end = std::min(text_.find_first_of(" ={}[]\"", at_), text_.size());
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end;
    return found;
  }

  // Each of these returns false after fail().
  template <class T>
  bool value(T& value);
  // Fields up to the end of the text or a '}', which is left. `of` names the struct in messages.
  template <class T>
  bool fields(T& value, std::string_view of);

  bool fail(std::size_t at, std::string what) {
    error_ = Error{ErrorCode::kParseError, "column " + std::to_string(at + 1) + ": " + std::move(what)}.with(
        "column", std::to_string(at + 1));
    return false;
  }
  [[nodiscard]] Error take_error() { return std::move(error_); }

 private:
  bool expect(char c, std::string_view what) {
    if (!at_end() && text_[at_] == c) {
      ++at_;
      return true;
    }
    const std::string there = at_end() ? "the end" : "'" + printable(text_.substr(at_, 1)) + "'";
    return fail(at_, "here should be " + std::string(what) + ", not " + there);
  }
  bool text_value(std::string& value);
  bool quoted(std::string& value);
  template <class T>
  bool number(T& value);

  std::string_view text_;
  std::size_t at_ = 0;
  Error error_{};
};

bool TextParser::text_value(std::string& value) {
  if (!at_end() && text_[at_] == '"') return quoted(value);
  const std::size_t start = at_;
  const std::string_view found = word();
  if (found.empty()) return expect('"', "a text, in quotes if it is empty");
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] < ' ' || found[i] == 0x7f || found[i] == '\\') {
      return fail(start + i, "a text with '" + printable(found.substr(i, 1)) + "' in it must be in quotes");
    }
  }
  value = found;
  return true;
}

bool TextParser::quoted(std::string& value) {
  const std::size_t start = at_++;
  value.clear();
  while (!at_end()) {
    const char c = text_[at_++];
    if (c == '"') return true;
    if (c != '\\') {
      value.push_back(c);
      continue;
    }
    const char escape = at_end() ? '\0' : text_[at_++];
    if (escape == '"' || escape == '\\') {
      value.push_back(escape);
    } else if (escape == 'n') {
      value.push_back('\n');
    } else if (escape == 'x' && text_.size() - at_ >= 2 && hex_digit(text_[at_]) >= 0 &&
               hex_digit(text_[at_ + 1]) >= 0) {
      value.push_back(static_cast<char>(hex_digit(text_[at_]) << 4 | hex_digit(text_[at_ + 1])));
      at_ += 2;
    } else {
      return fail(at_ - 1, "after a backslash comes \", \\, n or x and two hexadecimal digits");
    }
  }
  return fail(start, "this quote is never closed");
}

template <class T>
bool TextParser::number(T& value) {
  const std::size_t start = at_;
  const std::string_view digits = word();
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (status == std::errc::result_out_of_range) {
    return fail(start, printable(digits) + " is not between " + std::to_string(std::numeric_limits<T>::min()) +
                           " and " + std::to_string(std::numeric_limits<T>::max()));
  }
  if (status != std::errc() || end != digits.data() + digits.size()) {
    return fail(start, "'" + printable(digits) + "' is not a whole number");
  }
  return true;
}

template <class T>
bool TextParser::value(T& value) {
  const std::size_t start = at_;
  if constexpr (std::is_same_v<T, bool>) {
    const std::string_view found = word();
    if (found != "true" && found != "false") return fail(start, "here should be true or false");
    value = found == "true";
  } else if constexpr (std::is_enum_v<T>) {
    const std::string_view found = word();
    const std::optional<T> parsed = parse_name<T>(found);
    if (!parsed) {
      const std::vector<std::string> names = name_list<T>();
      return fail(start, "'" + printable(found) + "' is none of " + joined(names) + did_you_mean(found, names));
    }
    value = *parsed;
  } else if constexpr (std::integral<T>) {
    return number(value);
  } else if constexpr (detail::is_id<T>) {
    const std::string_view found = word();
    const std::optional<T> parsed = T::parse(found);
    if (!parsed) return fail(start, "'" + printable(found) + "' is not an id; write it like " + T(1).to_string());
    value = *parsed;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text_value(value);
  } else if constexpr (detail::is_vector<T>) {
    if (!expect('[', "a list in []")) return false;
    value.clear();
    for (skip_spaces(); !at_end() && text_[at_] != ']'; skip_spaces()) {
      if (!this->value(value.emplace_back())) return false;
      if (!at_end() && text_[at_] != ' ' && text_[at_] != ']') return expect(']', "a space or the list's ]");
    }
    return expect(']', "the list's ]");
  } else {
    if (!expect('{', "fields in {}")) return false;
    if (!fields(value, "this")) return false;
    return expect('}', "another field or }");
  }
  return true;
}

template <class T>
bool TextParser::fields(T& value, std::string_view of) {
  std::uint64_t seen = 0;  // Bit i: field i was there.
  for (skip_spaces(); !at_end() && text_[at_] != '}'; skip_spaces()) {
    const std::size_t start = at_;
    const std::string_view name = word();
    bool found = false;
    bool fine = true;
    unsigned number = 0;
    std::vector<std::string> known;
    T::fields(value, [&](std::string_view field, auto& member) {
      const std::uint64_t bit = std::uint64_t{1} << number++;
      known.emplace_back(field);
      if (found || field != name) return;
      found = true;
      if ((seen & bit) != 0) {
        fine = fail(start, "'" + std::string(name) + "' is given twice");
        return;
      }
      seen |= bit;
      fine = expect('=', "= and a value") && this->value(member);
    });
    if (!found) {
      return fail(start, "'" + printable(name) + "' is not a field of " + std::string(of) + ", which has " +
                             joined(known) + did_you_mean(name, known));
    }
    if (!fine) return false;
    if (!at_end() && text_[at_] != ' ' && text_[at_] != '}') return expect(' ', "a space before the next field");
  }
  return true;
}

template <class T>
bool read_all(TextParser& parser, T& value, std::string_view of) {
  if (!parser.fields(value, of)) return false;
  if (!parser.at_end()) return parser.fail(parser.position(), "this } closes nothing");
  return true;
}

}  // namespace

template <class T>
Result<void> parse_fields(std::string_view text, T& value) {
  TextParser parser(text);
  if (!read_all(parser, value, "this")) return parser.take_error();
  return {};
}

template Result<void> parse_fields(std::string_view, Policy&);
template Result<void> parse_fields(std::string_view, WorkerSpec&);
template Result<void> parse_fields(std::string_view, TaskTemplate&);
template Result<void> parse_fields(std::string_view, WorkflowSpec&);
template Result<void> parse_fields(std::string_view, SetQuota&);

namespace {
template <class... T>
Result<Command> parse_one_of(std::string_view text, std::type_identity<std::variant<T...>>) {
  TextParser parser(text);
  parser.skip_spaces();
  const std::size_t start = parser.position();
  const std::string_view name = parser.word();
  Command command;
  bool fine = false;
  const auto try_one = [&]<class One>(std::type_identity<One>) {
    if (name != One::kName) return false;
    fine = read_all(parser, command.template emplace<One>(), One::kName);
    return true;
  };
  if (!(try_one(std::type_identity<T>()) || ...)) {
    const std::vector<std::string> names = {std::string(T::kName)...};
    parser.fail(start,
                (name.empty() ? "here should be a command: " : "'" + printable(name) + "' is no command; there are ") +
                    joined(names) + did_you_mean(name, names));
  }
  if (!fine) return parser.take_error();
  return command;
}
}  // namespace

Result<Command> parse_command(std::string_view text) { return parse_one_of(text, std::type_identity<Command>()); }

}  // namespace rota::fleet

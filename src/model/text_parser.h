// Reads the text that model/text_writer.h writes. Nothing is nested deeper than the types are.
//
// Thread safety: none; one owner.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/json_text.h"
#include "model/codec.h"
#include "rota/result.h"

namespace rota::model {

namespace detail {
// "; did you mean 'x'?" if one of `known` is near, else empty.
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);
// "a, b, c", or "nothing".
[[nodiscard]] std::string joined(const std::vector<std::string>& names);
template <class E>
std::vector<std::string> name_list() {
  constexpr auto names = enum_names(E{});
  return {names.begin(), names.end()};
}
}  // namespace detail

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
      const std::vector<std::string> names = detail::name_list<T>();
      return fail(
          start, "'" + printable(found) + "' is none of " + detail::joined(names) + detail::did_you_mean(found, names));
    }
    value = *parsed;
  } else if constexpr (std::integral<T>) {
    return number(value);
  } else if constexpr (detail::is_id<T> && !detail::HasPrefix<T>) {
    typename T::rep rep{};
    if (!number(rep)) return false;
    value = T(rep);
  } else if constexpr (detail::is_id<T>) {
    const std::string_view found = word();
    const std::optional<T> parsed = T::parse(found);
    if (!parsed) return fail(start, "'" + printable(found) + "' is not an id; write it like " + T(1).to_string());
    value = *parsed;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text_value(value);
  } else if constexpr (detail::is_optional<T>) {
    if (text_.substr(at_) == "none" || text_.substr(at_).starts_with("none ") ||
        text_.substr(at_).starts_with("none}")) {
      at_ += 4;
      value.reset();
      return true;
    }
    return this->value(value.emplace());
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
                             detail::joined(known) + detail::did_you_mean(name, known));
    }
    if (!fine) return false;
    if (!at_end() && text_[at_] != ' ' && text_[at_] != '}') return expect(' ', "a space before the next field");
  }
  return true;
}

// Reads fields to the end of the text.
template <class T>
bool read_all(TextParser& parser, T& value, std::string_view of) {
  if (!parser.fields(value, of)) return false;
  if (!parser.at_end()) return parser.fail(parser.position(), "this } closes nothing");
  return true;
}

}  // namespace rota::model

// JSON as text: checked, put into one spelling, looked into. No tree is built, and a number stays the text it was
// written as, so that nothing of a value is ever lost or decided by floating point.
//
// RFC 8259 in UTF-8, with three bounds or choices of ours: at most kJsonMostDepth levels; half a surrogate pair is
// refused, since it is no text; of members with the same name the last one counts, as nearly everywhere.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/result.h"

namespace rota::model {

inline constexpr std::size_t kJsonMostDepth = 64;

enum class JsonKind : std::uint8_t { kNull, kBool, kNumber, kString, kArray, kObject };
// "a number", "an array": as in "it is a number".
[[nodiscard]] std::string_view to_string(JsonKind kind);

// What a visitor is shown, in the order of the text. kMark is one of { } [ ] , and the colon.
enum class JsonToken : std::uint8_t { kMark, kKey, kString, kScalar };

class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  // `raw` is the token as it is written, a string with its quotes, at byte `at`. An error ends the walk with it.
  virtual Result<void> token(JsonToken token, std::string_view raw, std::size_t at) = 0;
};

// Checks `text` to its end and shows its tokens; what was shown before an error was found is right as far as it goes.
// kParseError: "byte 12: expected ',' or '}', found 'x'", bytes counted from 0.
Result<void> json_walk(std::string_view text, JsonVisitor& visitor);
// Is it one JSON value?
Result<void> json_validate(std::string_view text);
// The same value without white space and with each string in one spelling. Members keep their order.
Result<std::string> json_minify(std::string_view text);

// All of these look into text that is known to be valid. REQUIRES: json_validate(value).ok().
[[nodiscard]] JsonKind json_kind(std::string_view value);
// The text of a string, escapes undone. REQUIRES: it is a string.
[[nodiscard]] std::string json_unescape(std::string_view string);
// The value of a member, as it is written; null data if there is none. REQUIRES: it is an object.
[[nodiscard]] std::string_view json_member(std::string_view object, std::string_view name);
// Null data past the end. REQUIRES: it is an array.
[[nodiscard]] std::string_view json_element(std::string_view array, std::size_t index);
// Names and values in order; of equal names all. REQUIRES: it is an object.
[[nodiscard]] std::vector<std::pair<std::string, std::string_view>> json_members(std::string_view object);
// REQUIRES: it is an array.
[[nodiscard]] std::vector<std::string_view> json_elements(std::string_view array);

}  // namespace rota::model

// Writes one JSON value, compact and always well-formed, to the end of a string.
//
//   std::string out;
//   JsonWriter json(out);
//   json.begin_object().field("name", "train").field("attempt", 2);
//   json.key("needs").begin_array().value("load").value("split").end_array();
//   json.end_object();             // {"name":"train","attempt":2,"needs":["load","split"]}
//
// The writer adds quotes, commas and colons, escapes strings (base/json_text.h) and asserts that the calls form one
// value: a member of an object has a key, an element of an array has none, every container is closed by the matching
// call, and nothing follows the end of the value. The destructor asserts that the value is complete, except when an
// exception passes through the writer's scope.
//
// Keys are not checked for duplicates.
//
// Thread safety: none. Nothing else may append to the string between the first and the last call.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include "rota/assert.h"

namespace rota {

class JsonWriter {
 public:
  // Appends to `out`, which must outlive the writer.
  explicit JsonWriter(std::string& out);
  ~JsonWriter();
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();

  // Starts a member of the innermost object; its value comes next.
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) {
    ROTA_ASSERT(text != nullptr, "a null pointer is not a JSON string; null() writes null");
    return value(std::string_view(text));
  }
  JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
  JsonWriter& value(std::integral auto number) {
    static_assert(!std::same_as<decltype(number), char>, "a char is neither a number nor a string; convert it");
    char digits[24];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, number);
    return raw({digits, static_cast<std::size_t>(end.ptr - digits)});
  }
  JsonWriter& null() { return raw("null"); }
  // Writes `json`, which must be one complete JSON value, without checking it.
  JsonWriter& raw(std::string_view json);

  // Writes a member of the innermost object: key(name).value(value).
  template <class T>
  JsonWriter& field(std::string_view name, const T& value) {
    return key(name).value(value);
  }
  // Writes a member whose value is already JSON: key(name).raw(json).
  JsonWriter& raw_field(std::string_view name, std::string_view json) { return key(name).raw(json); }

 private:
  // What the next call must write. A comma comes before every key and element but the first of its container.
  enum class Next : unsigned char {
    kValue,         // The value itself, or the value of a member whose key is written.
    kFirstKey,      // The first key of an object, or its end.
    kKey,           // A further key of an object, or its end.
    kFirstElement,  // The first element of an array, or its end.
    kElement,       // A further element of an array, or its end.
    kNothing,       // The value is complete.
  };

  void before_value();
  void after_value();
  JsonWriter& open(char bracket, Next next);
  void close(char bracket);

  std::string& out_;
  Next next_ = Next::kValue;
  std::string open_;  // The closing brackets of the open containers, innermost last.
};

}  // namespace rota

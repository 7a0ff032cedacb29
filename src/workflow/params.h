// Parameters of a workflow (Y-1): `spec.params` declares them, and `${params.x}` stands for their values.
//
//   params:
//     size: 3                                        # a default; the type is that of the default
//     mode: {type: text, choices: [fast, exact]}     # without a default, a value must be given
//
// A value comes from the user (`--set size=5`, a parameter file) or is the default. Parameters are replaced when the
// file is read, so the workflow that is submitted contains only their values.
//
// Thread safety: none.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workflow/fields.h"
#include "workflow/values.h"

namespace rota::workflow {

// A value that the user gave.
struct GivenParam {
  std::string name{};
  std::string text{};  // As it is written: YAML of one value.
  std::string from{};  // For messages: "--set size=5" or "night.yaml:3:7".
};

class Params {
 public:
  // Reads the declarations, a mapping, and the values that were given.
  void declare(Reading& reading, const Node& declarations);
  void give(Problems& problems, const std::vector<GivenParam>& given);

  [[nodiscard]] bool empty() const { return all_.empty(); }
  // The value of `${params.x...}` as JSON; empty if there is none, which is reported.
  [[nodiscard]] std::string value(Problems& problems, const PlacedReference& reference) const;
  // In a text: a string as it is, anything else as JSON.
  [[nodiscard]] static std::string text_of(const std::string& json);

 private:
  enum class Type { kText, kInteger, kNumber, kBoolean, kList, kMap, kAny };
  struct Param {
    std::string name{};
    Position at{};
    Type type = Type::kAny;
    std::vector<std::string> choices{};  // JSON.
    std::string value{};                 // JSON; empty: none yet.
  };
  void declare_one(Reading& reading, const Node& key, const Node& value);
  // `json` as the type of the parameter wants it; an empty text if it is not of that type or not a choice, and then
  // `message` says what is wrong.
  [[nodiscard]] static std::string fit(const Param& param, const std::string& json, std::string* message);
  // A value for a parameter without a valid one, which is reported once and not wherever it is used.
  [[nodiscard]] static std::string stand_in(Type type);
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] Param* find(std::string_view name);
  [[nodiscard]] const Param* find(std::string_view name) const;

  std::vector<Param> all_{};
};

// The values in a file: a mapping of names to values. ParseError with all problems.
[[nodiscard]] Result<std::vector<GivenParam>> read_params(const std::string& path, const std::string& text);

// One value, written as YAML, as JSON. Empty if it is not one, and then `message` says why.
[[nodiscard]] std::string value_as_json(const std::string& text, std::string* message);

}  // namespace rota::workflow

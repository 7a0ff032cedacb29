// One row of the settings table: the facts about a setting, and how its values are parsed, checked and formatted.
//
// Thread safety: rows are values; functions have no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"
#include "rota/clock.h"
#include "rota/result.h"

namespace rota {

// The order is that of SettingValue's alternatives.
enum class SettingType : std::uint8_t { kBool, kInt, kFloat, kString, kDuration, kBytes, kEnum, kList };

// "bool", "int", ...
[[nodiscard]] std::string_view to_string(SettingType type) noexcept;

using StringList = std::vector<std::string>;
// An enum's value as its number; Setting<E> turns it back into E.
struct EnumNumber {
  std::int64_t value = 0;
  friend constexpr auto operator<=>(const EnumNumber&, const EnumNumber&) noexcept = default;
};
using SettingValue = std::variant<bool, std::int64_t, double, std::string, Duration, ByteSize, EnumNumber, StringList>;

struct EnumName {
  std::string name;
  std::int64_t number = 0;
};

struct SettingRow {
  std::string name;  // "worker.grace": groups and words of [a-z0-9_], joined by dots.
  std::string meaning;
  std::string unit;                      // What a bare number counts ("threads"); empty where the type says it.
  std::string flag;                      // "worker-grace", given as --worker-grace.
  std::vector<std::string> environment;  // The first one that is set counts.
  bool lenient_environment = false;      // A bad value in the environment causes a warning and is ignored.
  bool secret = false;                   // Never printed.

  SettingValue default_value;
  // For int, float, duration and bytes: the inclusive range. For string and list: the maximum length.
  std::optional<SettingValue> least;
  std::optional<SettingValue> most;
  std::vector<EnumName> names;  // For enum.

  [[nodiscard]] SettingType type() const noexcept { return static_cast<SettingType>(default_value.index()); }
};

// Parses `text` and checks it against the row. The error's message continues the text: "is not a number".
[[nodiscard]] Result<SettingValue> parse_setting(const SettingRow& row, std::string_view text);
// The same check for a value set by the program.
[[nodiscard]] Result<void> check_setting(const SettingRow& row, const SettingValue& value);
// Text that parse_setting() converts back to the same value (for a list: unless an item has a comma or outer spaces).
[[nodiscard]] std::string format_setting(const SettingRow& row, const SettingValue& value);
// The allowed values, for people: "1 to 256", "one of simple, threadpool".
[[nodiscard]] std::string allowed_text(const SettingRow& row);

}  // namespace rota

// Parsing, checking and formatting the values of one setting. See base/setting_row.h.
#include "base/setting_row.h"

#include <array>
#include <charconv>
#include <cmath>
#include <type_traits>

namespace rota {
namespace {

static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(SettingType::kBool), SettingValue>, bool>);
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(SettingType::kList), SettingValue>, StringList>);
static_assert(std::variant_size_v<SettingValue> == 8);

Error bad(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message), {}}; }

bool equals_lower(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
    if (c != lower[i]) return false;
  }
  return true;
}

Result<SettingValue> parse_bool(std::string_view text) {
  for (const std::string_view word : {"true", "yes", "on", "1"}) {
    if (equals_lower(text, word)) return SettingValue(true);
  }
  for (const std::string_view word : {"false", "no", "off", "0"}) {
    if (equals_lower(text, word)) return SettingValue(false);
  }
  return bad("is neither true nor false");
}

template <class T>
Result<SettingValue> parse_number(std::string_view text, const char* complaint) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  if (status == std::errc::result_out_of_range && stop == end) return bad("is out of range");
  if (status != std::errc() || stop != end) return bad(complaint);
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return bad(complaint);
  }
  return SettingValue(value);
}

Result<SettingValue> parse_enum(const SettingRow& row, std::string_view text) {
  for (const EnumName& name : row.names) {
    if (name.name == text) return SettingValue(EnumNumber{name.number});
  }
  return bad("is not one of the names");
}

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

Result<SettingValue> parse_list(std::string_view text) {
  StringList list;
  if (trim(text).empty()) return SettingValue(std::move(list));
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trim(text.substr(0, comma));
    if (item.empty()) return bad("has an empty item");
    list.emplace_back(item);
    if (comma == std::string_view::npos) return SettingValue(std::move(list));
    text.remove_prefix(comma + 1);
  }
}

Result<SettingValue> parse_plain(const SettingRow& row, std::string_view text) {
  switch (row.type()) {
    case SettingType::kBool:
      return parse_bool(text);
    case SettingType::kInt:
      return parse_number<std::int64_t>(text, "is not a whole number");
    case SettingType::kFloat:
      return parse_number<double>(text, "is not a number");
    case SettingType::kString:
      return SettingValue(std::string(text));
    case SettingType::kDuration: {
      ROTA_TRY_ASSIGN(const Duration value, parse_duration(text));
      return SettingValue(value);
    }
    case SettingType::kBytes: {
      ROTA_TRY_ASSIGN(const ByteSize value, parse_bytes(text));
      return SettingValue(value);
    }
    case SettingType::kEnum:
      return parse_enum(row, text);
    case SettingType::kList:
      return parse_list(text);
  }
  ROTA_PANIC("setting type ", row.type());
}

std::string format_float(double value) {
  std::array<char, 32> digits{};
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), result.ptr};
}

std::string with_unit(std::string text, const SettingRow& row) {
  if (!row.unit.empty()) text.append(" ").append(row.unit);
  return text;
}

}  // namespace

std::string_view to_string(SettingType type) noexcept {
  static constexpr std::array<std::string_view, 8> kNames = {"bool",     "int",   "float", "string",
                                                             "duration", "bytes", "enum",  "list"};
  return kNames[static_cast<std::size_t>(type)];
}

Result<void> check_setting(const SettingRow& row, const SettingValue& value) {
  ROTA_ASSERT(value.index() == row.default_value.index(), row.name, " given a value of another type");
  switch (row.type()) {
    case SettingType::kBool:
      return {};
    case SettingType::kEnum: {
      for (const EnumName& name : row.names) {
        if (name.number == std::get<EnumNumber>(value).value) return {};
      }
      return bad("is not one of the names");
    }
    case SettingType::kString:
      if (row.most && std::get<std::string>(value).size() > std::get<ByteSize>(*row.most).count) {
        return bad("is too long");
      }
      return {};
    case SettingType::kList:
      if (row.most && std::get<StringList>(value).size() > std::get<ByteSize>(*row.most).count) {
        return bad("has too many items");
      }
      return {};
    default:
      break;
  }
  if (row.type() == SettingType::kFloat && !std::isfinite(std::get<double>(value))) return bad("is not a number");
  if (row.least && value < *row.least) return bad("is too small");
  if (row.most && value > *row.most) return bad("is too large");
  return {};
}

Result<SettingValue> parse_setting(const SettingRow& row, std::string_view text) {
  ROTA_TRY_ASSIGN(SettingValue value, parse_plain(row, text));
  ROTA_TRY(check_setting(row, value));
  return value;
}

std::string format_setting(const SettingRow& row, const SettingValue& value) {
  switch (static_cast<SettingType>(value.index())) {
    case SettingType::kBool:
      return std::get<bool>(value) ? "true" : "false";
    case SettingType::kInt:
      return std::to_string(std::get<std::int64_t>(value));
    case SettingType::kFloat:
      return format_float(std::get<double>(value));
    case SettingType::kString:
      return std::get<std::string>(value);
    case SettingType::kDuration:
      return format_duration(std::get<Duration>(value));
    case SettingType::kBytes:
      return format_bytes(std::get<ByteSize>(value));
    case SettingType::kEnum:
      for (const EnumName& name : row.names) {
        if (name.number == std::get<EnumNumber>(value).value) return name.name;
      }
      return std::to_string(std::get<EnumNumber>(value).value);
    case SettingType::kList: {
      std::string text;
      for (const std::string& item : std::get<StringList>(value)) {
        if (!text.empty()) text.push_back(',');
        text.append(item);
      }
      return text;
    }
  }
  ROTA_PANIC("setting value ", value.index());
}

std::string allowed_text(const SettingRow& row) {
  const auto most_count = [&] { return std::to_string(std::get<ByteSize>(*row.most).count); };
  switch (row.type()) {
    case SettingType::kBool:
      return "true or false";
    case SettingType::kString:
      return row.most ? "text of at most " + most_count() + " bytes" : "any text";
    case SettingType::kList:
      return row.most ? "at most " + most_count() + " items, separated by commas" : "items separated by commas";
    case SettingType::kEnum: {
      std::string text = "one of ";
      for (std::size_t i = 0; i < row.names.size(); ++i) text.append(i == 0 ? "" : ", ").append(row.names[i].name);
      return text;
    }
    default:
      break;
  }
  const bool from_least = row.least.has_value();
  const bool to_most = row.most.has_value();
  if (from_least && to_most) {
    return with_unit(format_setting(row, *row.least) + " to " + format_setting(row, *row.most), row);
  }
  if (from_least) return with_unit("at least " + format_setting(row, *row.least), row);
  if (to_most) return with_unit("at most " + format_setting(row, *row.most), row);
  return with_unit("any " + std::string(to_string(row.type())), row);
}

}  // namespace rota

// The table and the values. Loading is in settings_load.cc, printing in settings_print.cc. See base/settings.h.
#include "base/settings.h"

#include <algorithm>

namespace rota {
namespace {

bool is_word(std::string_view text, std::string_view also) {
  const auto allowed = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || also.find(c) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

std::string flag_of(std::string_view name) {
  std::string flag(name);
  std::replace_if(flag.begin(), flag.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return flag;
}

std::string environment_of(std::string_view name) {
  std::string variable = "ROTA_";
  for (const char c : name) {
    variable.push_back(c == '.' ? '_' : (c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c));
  }
  return variable;
}

bool is_name(std::string_view name) {
  return is_word(name, "._") && name.front() != '.' && name.back() != '.' && name.find("..") == std::string_view::npos;
}

// Refuses two rows that one name, flag or variable could refer to.
void check_distinct(const SettingRow& a, const SettingRow& b) {
  ROTA_ASSERT(a.name != b.name, "the setting ", a.name, " is there twice");
  ROTA_ASSERT(a.flag != b.flag, "the flag --", a.flag, " is there twice");
  ROTA_ASSERT("no-" + a.flag != b.flag && "no-" + b.flag != a.flag, "the flags --", a.flag, " and --", b.flag,
              " can be mistaken for each other");
  for (const std::string& variable : a.environment) {
    ROTA_ASSERT(std::find(b.environment.begin(), b.environment.end(), variable) == b.environment.end(), "the variable ",
                variable, " is there twice");
  }
  const auto is_group_of = [](const std::string& group, const std::string& name) {
    return name.size() > group.size() && name.starts_with(group) && name[group.size()] == '.';
  };
  ROTA_ASSERT(!is_group_of(a.name, b.name) && !is_group_of(b.name, a.name), "one of ", a.name, " and ", b.name,
              " is a group and a setting at once");
}

}  // namespace

std::size_t SettingsTable::add_row(SettingSpec spec, SettingValue value, std::optional<SettingValue> least,
                                   std::optional<SettingValue> most, std::vector<EnumName> names) {
  ROTA_ASSERT(is_name(spec.name), "'", spec.name, "' is no name for a setting");
  ROTA_ASSERT(!spec.meaning.empty(), "the setting ", spec.name, " has no meaning");
  SettingRow row;
  row.flag = spec.flag.empty() ? flag_of(spec.name) : std::move(spec.flag);
  ROTA_ASSERT(is_word(row.flag, "-"), "'", row.flag, "' is no name for a flag");
  row.environment = std::move(spec.environment);
  if (row.environment.empty()) row.environment.push_back(environment_of(spec.name));
  row.name = std::move(spec.name);
  row.meaning = std::move(spec.meaning);
  row.unit = std::move(spec.unit);
  row.lenient_environment = spec.lenient_environment;
  row.secret = spec.secret;
  row.default_value = std::move(value);
  row.least = std::move(least);
  row.most = std::move(most);
  row.names = std::move(names);
  const Result<void> check = check_setting(row, row.default_value);
  ROTA_ASSERT(check.ok(), "the default of ", row.name, " ", check.ok() ? "" : check.error().message);
  for (const SettingRow& other : rows_) check_distinct(row, other);
  rows_.push_back(std::move(row));
  return rows_.size() - 1;
}

Setting<bool> SettingsTable::add_bool(SettingSpec spec, bool value) {
  return {this, add_row(std::move(spec), value, std::nullopt, std::nullopt)};
}

Setting<std::int64_t> SettingsTable::add_int(SettingSpec spec, std::int64_t value, std::int64_t least,
                                             std::int64_t most) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::optional<SettingValue> low, high;
  if (least != Limits::min()) low = least;
  if (most != Limits::max()) high = most;
  return {this, add_row(std::move(spec), value, std::move(low), std::move(high))};
}

Setting<double> SettingsTable::add_float(SettingSpec spec, double value, double least, double most) {
  return {this, add_row(std::move(spec), value, least, most)};
}

Setting<std::string> SettingsTable::add_string(SettingSpec spec, std::string value, std::size_t most_bytes) {
  return {this, add_row(std::move(spec), std::move(value), std::nullopt, ByteSize{most_bytes})};
}

Setting<Duration> SettingsTable::add_duration(SettingSpec spec, Duration value, Duration least, Duration most) {
  return {this, add_row(std::move(spec), value, least, most)};
}

Setting<ByteSize> SettingsTable::add_bytes(SettingSpec spec, ByteSize value, ByteSize least, ByteSize most) {
  return {this, add_row(std::move(spec), value, least, most)};
}

Setting<StringList> SettingsTable::add_list(SettingSpec spec, StringList value, std::size_t most_items) {
  return {this, add_row(std::move(spec), std::move(value), std::nullopt, ByteSize{most_items})};
}

std::size_t SettingsTable::add_enum_row(SettingSpec spec, std::int64_t value, std::vector<EnumName> names) {
  return add_row(std::move(spec), EnumNumber{value}, std::nullopt, std::nullopt, std::move(names));
}

std::string SettingOrigin::to_string() const {
  switch (kind) {
    case Kind::kDefault:
      return "default";
    case Kind::kFile:
      return "file " + where;
    case Kind::kEnvironment:
      return "environment " + where;
    case Kind::kFlag:
      return "flag " + where;
    case Kind::kProgram:
      return "program";
  }
  ROTA_PANIC("origin ", kind);
}

Settings::Settings(const SettingsTable& table) : table_(&table) {
  entries_.reserve(table.rows().size());
  for (const SettingRow& row : table.rows()) entries_.push_back({row.default_value, {}});
}

std::string Settings::text_at(std::size_t index) const {
  const SettingRow& row = table_->rows()[index];
  const SettingValue& value = value_at(index);
  if (row.secret && value != row.default_value) return "(secret)";
  return format_setting(row, value);
}

void Settings::assign(std::size_t index, SettingValue value, SettingOrigin origin) {
  ROTA_DASSERT(check_setting(table_->rows()[index], value).ok());
  entries_[index] = {std::move(value), std::move(origin)};
}

Result<void> Settings::set_value(std::size_t index, SettingValue value) {
  const SettingRow& row = table_->rows()[index];
  if (Result<void> check = check_setting(row, value); !check.ok()) {
    const std::string shown = row.secret ? "(secret)" : "\"" + format_setting(row, value) + "\"";
    return Error{ErrorCode::kInvalidArgument, "program: " + row.name + ": " + shown + " " + check.error().message +
                                                  "; allowed: " + allowed_text(row)}
        .with("setting", row.name);
  }
  assign(index, std::move(value), {SettingOrigin::Kind::kProgram, ""});
  return {};
}

}  // namespace rota

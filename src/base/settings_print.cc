// The printed forms of settings: help, markdown, and the table of `rota config`. See base/settings.h.
#include <algorithm>

#include "base/json_text.h"
#include "base/json_writer.h"
#include "base/settings.h"

namespace rota {
namespace {

std::string_view group_of(std::string_view name) { return name.substr(0, name.find('.')); }

// Rows in groups, in the order in which the groups first appear; rows of a group in the order in which they were added.
std::vector<std::pair<std::string_view, std::vector<const SettingRow*>>> grouped(const std::vector<SettingRow>& rows) {
  std::vector<std::pair<std::string_view, std::vector<const SettingRow*>>> groups;
  for (const SettingRow& row : rows) {
    const std::string_view group = group_of(row.name);
    auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == group; });
    if (found == groups.end()) found = groups.insert(groups.end(), {group, {}});
    found->second.push_back(&row);
  }
  return groups;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string flag_text(const SettingRow& row) {
  if (row.type() == SettingType::kBool) return "--[no-]" + row.flag;
  return "--" + row.flag + " " + upper(to_string(row.type()));
}

std::string default_text(const SettingRow& row) {
  const std::string text = format_setting(row, row.default_value);
  return text.empty() ? "none" : text;
}

std::string joined(const std::vector<std::string>& parts, std::string_view between) {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : between).append(part);
  return text;
}

// Appends words, breaking lines at `width`, each line indented.
void append_wrapped(std::string& out, std::string_view text, std::size_t indent, std::size_t width) {
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (column != 0 && column + 1 + word.size() > width) {
      out.push_back('\n');
      column = 0;
    }
    out.append(column == 0 ? indent : 1, ' ').append(word);
    column += (column == 0 ? indent : 1) + word.size();
  }
  out.push_back('\n');
}

std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out.push_back('\\');
    out.push_back(c == '\n' ? ' ' : c);
  }
  return out;
}

void write_list(JsonWriter& json, const StringList& items) {
  json.begin_array();
  for (const std::string& item : items) json.value(item);
  json.end_array();
}

void write_value(JsonWriter& json, const SettingRow& row, const SettingValue& value) {
  switch (row.type()) {
    case SettingType::kBool:
    case SettingType::kInt:
    case SettingType::kFloat:
      json.raw(format_setting(row, value));
      return;
    case SettingType::kList:
      write_list(json, std::get<StringList>(value));
      return;
    default:
      json.value(format_setting(row, value));
  }
}

std::string_view kind_name(SettingOrigin::Kind kind) {
  static constexpr std::string_view kNames[] = {"default", "file", "environment", "flag", "program"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string SettingsTable::help(std::size_t width) const {
  std::string out;
  for (const auto& [group, members] : grouped(rows_)) {
    if (!out.empty()) out.push_back('\n');
    out.append(group).append(":\n");
    for (const SettingRow* row : members) {
      out.append("  ").append(flag_text(*row)).append("\n");
      append_wrapped(out,
                     row->meaning + " (" + allowed_text(*row) + "; default " + default_text(*row) + "; " +
                         joined(row->environment, " or ") + ")",
                     6, width);
    }
  }
  return out;
}

std::string SettingsTable::markdown() const {
  std::string out;
  for (const auto& [group, members] : grouped(rows_)) {
    out.append(out.empty() ? "" : "\n").append("## ").append(group).append("\n\n");
    out.append(
        "| setting | type | default | allowed | flag | environment | meaning |\n|---|---|---|---|---|---|---|\n");
    for (const SettingRow* row : members) {
      out.append("| `").append(row->name).append("` | ").append(to_string(row->type()));
      out.append(" | ").append(cell(default_text(*row))).append(" | ").append(cell(allowed_text(*row)));
      out.append(" | `").append(flag_text(*row)).append("` | `").append(joined(row->environment, "`, `"));
      out.append("` | ").append(cell(row->meaning));
      if (row->lenient_environment) out.append(" (a bad value in the environment warns and is ignored)");
      out.append(" |\n");
    }
  }
  return out;
}

std::string Settings::to_text() const {
  const auto& rows = table_->rows();
  std::size_t name_width = 7;
  std::size_t value_width = 5;
  std::vector<std::string> values;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    values.push_back(printable(text_at(i), 1000));
    if (values.back().empty()) values.back() = "\"\"";
    name_width = std::max(name_width, rows[i].name.size());
    value_width = std::max(value_width, std::min<std::size_t>(values.back().size(), 40));
  }
  std::string out;
  const auto line = [&](std::string_view name, std::string_view value, std::string_view origin) {
    out.append(name).append(name_width - name.size() + 2, ' ').append(value);
    out.append(value.size() < value_width ? value_width - value.size() + 2 : 2, ' ').append(origin).append("\n");
  };
  line("SETTING", "VALUE", "ORIGIN");
  for (std::size_t i = 0; i < rows.size(); ++i)
    line(rows[i].name, values[i], printable(origin_at(i).to_string(), 1000));
  return out;
}

std::string Settings::to_json() const {
  const auto& rows = table_->rows();
  std::string out = "[";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SettingRow& row = rows[i];
    const SettingValue& value = value_at(i);
    out.append(i == 0 ? "\n" : ",\n");  // One setting per line.
    JsonWriter json(out);
    json.begin_object().field("name", row.name).field("type", to_string(row.type())).key("value");
    if (row.secret && value != row.default_value) {
      json.value(text_at(i));
    } else {
      write_value(json, row, value);
      // Durations and sizes are text for people; programs also get the number.
      if (const auto* duration = std::get_if<Duration>(&value)) json.field("nanoseconds", duration->count());
      if (const auto* size = std::get_if<ByteSize>(&value)) json.field("bytes", size->count);
    }
    json.field("origin", kind_name(origin_at(i).kind));
    if (!origin_at(i).where.empty()) json.field("where", origin_at(i).where);
    json.key("default");
    write_value(json, row, row.default_value);
    json.field("allowed", allowed_text(row));
    if (!row.unit.empty()) json.field("unit", row.unit);
    json.field("flag", "--" + row.flag).key("environment");
    write_list(json, row.environment);
    json.field("meaning", row.meaning).end_object();
  }
  out.append("\n]\n");
  return out;
}

}  // namespace rota

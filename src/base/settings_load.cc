// Loads settings from files, environment and flags. See base/settings.h for the rules.
#include <unistd.h>

#include <map>

#include "base/json_text.h"
#include "base/nearest.h"
#include "base/settings.h"

namespace rota {
namespace {

using Kind = SettingOrigin::Kind;
constexpr std::string_view kVariablePrefix = "ROTA_";

// "; did you mean X?" or nothing.
std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string_view match = nearest(word, known);
  return match.empty() ? std::string() : "; did you mean " + std::string(match) + "?";
}

class Loader {
 public:
  Loader(const SettingsTable& table, const SettingSources& sources)
      : table_(table), sources_(sources), load_{Settings(table), {}, {}, {}} {}

  SettingsLoad run() {
    for (const SettingsFile& file : sources_.files) apply_file(file);
    apply_environment();
    apply_flags();
    return std::move(load_);
  }

 private:
  using Index = std::size_t;

  [[nodiscard]] const SettingRow& row(Index index) const { return table_.rows()[index]; }

  [[nodiscard]] static std::string problem(const SettingRow& row, const SettingOrigin& origin, std::string_view text,
                                           std::string_view why) {
    const std::string shown = row.secret ? "the value" : "\"" + printable(text) + "\"";
    return origin.to_string() + ": " + row.name + ": " + shown + " " + std::string(why) +
           "; allowed: " + allowed_text(row);
  }

  // Parses a value of the row and sets it, or reports what is wrong.
  void apply(Index index, std::string_view text, SettingOrigin origin) {
    Result<SettingValue> value = parse_setting(row(index), text);
    if (value.ok()) {
      load_.settings.assign(index, std::move(value).value(), std::move(origin));
      return;
    }
    const bool lenient = origin.kind == Kind::kEnvironment && row(index).lenient_environment;
    std::string message = problem(row(index), origin, text, value.error().message);
    if (lenient) {
      load_.warnings.push_back(message + "; ignored, the value is " + load_.settings.text_at(index));
    } else {
      load_.errors.push_back(std::move(message));
    }
  }

  void apply_list(Index index, StringList items, SettingOrigin origin) {
    SettingValue value = std::move(items);
    if (const Result<void> check = check_setting(row(index), value); !check.ok()) {
      load_.errors.push_back(problem(row(index), origin, format_setting(row(index), value), check.error().message));
      return;
    }
    load_.settings.assign(index, std::move(value), std::move(origin));
  }

  void apply_file(const SettingsFile& file) {
    load_.errors.insert(load_.errors.end(), file.errors.begin(), file.errors.end());
    std::map<std::string, Index, std::less<>> by_name;
    for (Index i = 0; i < table_.rows().size(); ++i) by_name.emplace(row(i).name, i);
    std::map<std::string, std::string> seen;
    for (const SettingsFileEntry& entry : file.entries) {
      const auto [first, is_new] = seen.emplace(entry.key, entry.where);
      if (!is_new) {
        load_.errors.push_back(entry.where + ": " + printable(entry.key) + " was given already at " + first->second);
        continue;
      }
      const auto found = by_name.find(entry.key);
      if (found == by_name.end()) {
        unknown_key(entry);
        continue;
      }
      const Index index = found->second;
      SettingOrigin origin{Kind::kFile, entry.where};
      if (!entry.is_list) {
        apply(index, entry.text, std::move(origin));
      } else if (row(index).type() == SettingType::kList) {
        apply_list(index, entry.items, std::move(origin));
      } else {
        load_.errors.push_back(origin.to_string() + ": " + row(index).name +
                               ": a list was given; allowed: " + allowed_text(row(index)));
      }
    }
  }

  void unknown_key(const SettingsFileEntry& entry) {
    std::vector<std::string> names;
    const std::string group = entry.key + ".";
    for (const SettingRow& r : table_.rows()) {
      if (r.name.starts_with(group)) {
        load_.errors.push_back(entry.where + ": " + printable(entry.key) +
                               " is a group of settings and has no value of its own");
        return;
      }
      names.push_back(r.name);
    }
    load_.errors.push_back(entry.where + ": " + printable(entry.key) + ": no such setting" +
                           suggestion(entry.key, names));
  }

  void apply_environment() {
    std::map<std::string_view, std::string_view> variables;
    for (const auto& [name, value] : sources_.environment) {
      if (!value.empty()) variables.emplace(name, value);
    }
    std::vector<std::string> known;
    for (Index i = 0; i < table_.rows().size(); ++i) {
      bool found = false;
      for (const std::string& name : row(i).environment) {
        if (name.starts_with(kVariablePrefix)) known.push_back(name.substr(kVariablePrefix.size()));
        const auto variable = variables.find(name);
        if (variable == variables.end()) continue;
        if (!found) apply(i, variable->second, {Kind::kEnvironment, name});
        found = true;
        variables.erase(variable);
      }
    }
    // Other programs have variables, too; only a probable typing error causes a warning.
    for (const auto& [name, value] : variables) {
      if (!name.starts_with(kVariablePrefix)) continue;
      const std::string_view match = nearest(name.substr(kVariablePrefix.size()), known);
      if (match.empty()) continue;
      load_.warnings.push_back("environment " + printable(name) + ": no such setting; did you mean " +
                               std::string(kVariablePrefix) + std::string(match) + "?");
    }
  }

  void apply_flags() {
    std::map<std::string, Index, std::less<>> by_flag;
    for (Index i = 0; i < table_.rows().size(); ++i) by_flag.emplace(row(i).flag, i);
    const std::vector<std::string>& arguments = sources_.arguments;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
      const std::string& argument = arguments[at];
      if (argument == "--") {
        // Another parser still needs the separator.
        at += sources_.keep_unknown_flags ? 0 : 1;
        load_.rest.insert(load_.rest.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at), arguments.end());
        return;
      }
      if (!argument.starts_with("--")) {
        load_.rest.push_back(argument);
        continue;
      }
      const std::size_t equals = argument.find('=');
      const std::string flag = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
      std::optional<std::string> value;
      if (equals != std::string::npos) value = argument.substr(equals + 1);

      if (const auto found = by_flag.find(flag); found != by_flag.end()) {
        const bool is_bool = row(found->second).type() == SettingType::kBool;
        if (!value && is_bool) value = "true";
        if (!value && at + 1 < arguments.size() && !arguments[at + 1].starts_with("--")) value = arguments[++at];
        apply_flag(found->second, "--" + flag, value);
      } else if (const auto negated = negated_flag(by_flag, flag); negated != by_flag.end()) {
        if (value) {
          load_.errors.push_back("flag --" + flag + ": takes no value; write --" + negated->first + "=" +
                                 printable(*value));
        } else {
          apply_flag(negated->second, "--" + flag, "false");
        }
      } else if (sources_.keep_unknown_flags) {
        load_.rest.push_back(argument);
      } else {
        unknown_flag(flag);
      }
    }
  }

  using FlagMap = std::map<std::string, Index, std::less<>>;
  [[nodiscard]] FlagMap::const_iterator negated_flag(const FlagMap& flags, std::string_view flag) const {
    if (!flag.starts_with("no-")) return flags.end();
    const auto found = flags.find(flag.substr(3));
    if (found == flags.end() || row(found->second).type() != SettingType::kBool) return flags.end();
    return found;
  }

  void apply_flag(Index index, const std::string& flag, const std::optional<std::string>& value) {
    SettingOrigin origin{Kind::kFlag, flag};
    if (!value) {
      load_.errors.push_back("flag " + flag + ": needs a value; allowed: " + allowed_text(row(index)));
      return;
    }
    // A repeated list flag adds to the items of the earlier flags.
    const bool again = row(index).type() == SettingType::kList && load_.settings.origin_at(index).kind == Kind::kFlag;
    if (!again) {
      apply(index, *value, std::move(origin));
      return;
    }
    StringList items = std::get<StringList>(load_.settings.value_at(index));
    const Result<SettingValue> more = parse_setting(row(index), *value);
    if (!more.ok()) {
      load_.errors.push_back(problem(row(index), origin, *value, more.error().message));
      return;
    }
    const StringList& added = std::get<StringList>(*more);
    items.insert(items.end(), added.begin(), added.end());
    apply_list(index, std::move(items), std::move(origin));
  }

  void unknown_flag(const std::string& flag) {
    std::vector<std::string> names;
    for (const SettingRow& r : table_.rows()) {
      names.push_back("--" + r.flag);
      if (r.type() == SettingType::kBool) names.push_back("--no-" + r.flag);
    }
    load_.errors.push_back("flag --" + printable(flag) + ": no such flag" + suggestion("--" + flag, names));
  }

  const SettingsTable& table_;
  const SettingSources& sources_;
  SettingsLoad load_;
};

}  // namespace

Environment current_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

Result<void> SettingsLoad::status() const {
  if (ok()) return {};
  Error error{ErrorCode::kInvalidArgument, ""};
  for (const std::string& line : errors) {
    if (!error.message.empty()) error.message.push_back('\n');
    error.message.append(line);
    error.details.push_back({"problem", line});
  }
  return error;
}

SettingsLoad load_settings(const SettingsTable& table, const SettingSources& sources) {
  return Loader(table, sources).run();
}

}  // namespace rota

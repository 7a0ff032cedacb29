// A settings file flattened: YAML mappings become dotted names with a line and column for each value.
//
// Strict: one document, a mapping of mappings, scalars and lists of scalars; no aliases, no tags, no complex keys.
// Bounds: 1 MiB of text, 16 levels. What is wrong is reported and the rest is read on, as far as the syntax allows.
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"

namespace rota {

inline constexpr std::size_t kSettingsFileMaxBytes = std::size_t{1} << 20;
inline constexpr std::size_t kSettingsFileMaxDepth = 16;

struct SettingsFileEntry {
  std::string key;    // "fiber.workers"
  std::string where;  // "rota.yaml:3:12", where the value starts.
  bool is_list = false;
  std::string text{};  // The value, if it is no list.
  StringList items{};
};

struct SettingsFileEntries {
  std::vector<SettingsFileEntry> entries;
  std::vector<std::string> errors;  // Each starts with "rota.yaml:3:12: ".
};

[[nodiscard]] SettingsFileEntries flatten_settings_file(const SettingsFile& file);

}  // namespace rota

// Parses a settings file: YAML mappings become dotted names with a position for each value.
//
//   ROTA_TRY_ASSIGN(SettingsFile file, workflow::read_settings_file("rota.yaml"));
//   SettingsLoad load = load_settings(table, {.files = {std::move(file)}});
//
// The parser is strict: one document, a mapping of mappings, scalars and lists of scalars; no aliases, tags or complex
// keys. Bounds: 1 MiB of text, 16 levels. An error is reported in SettingsFile::errors, and parsing continues as far as
// the syntax allows.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/settings.h"
#include "rota/result.h"

namespace rota::workflow {

inline constexpr std::size_t kSettingsFileMaxBytes = std::size_t{1} << 20;
inline constexpr std::size_t kSettingsFileMaxDepth = 16;

// `path` is only used in positions.
[[nodiscard]] SettingsFile parse_settings_file(const std::string& path, std::string_view text);
// Reads and parses a file. Errors: NotFound, IoError, TooLarge.
[[nodiscard]] Result<SettingsFile> read_settings_file(const std::string& path);

}  // namespace rota::workflow

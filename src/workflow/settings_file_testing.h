// Shared by the test and the fuzzer of settings files.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/settings_example.h"
#include "workflow/settings_file.h"

namespace rota::workflow {

// Loads settings from arbitrary bytes: a zero byte separates the file, the environment values and the arguments.
inline std::string load_bytes(std::string_view bytes) {
  static const testing_support::ExampleSettings example;
  SettingSources sources;
  const auto take = [&] {
    const std::string_view part = bytes.substr(0, bytes.find('\0'));
    bytes.remove_prefix(std::min(bytes.size(), part.size() + 1));
    return std::string(part);
  };
  sources.files.push_back(parse_settings_file("fuzz.yaml", take()));
  for (const SettingRow& row : example.table.rows()) sources.environment.emplace_back(row.environment.back(), take());
  sources.keep_unknown_flags = !bytes.empty() && (static_cast<unsigned char>(bytes.front()) & 1U) != 0;
  while (!bytes.empty() && sources.arguments.size() < 64) sources.arguments.push_back(take());
  return testing_support::violation(load_settings(example.table, sources));
}

}  // namespace rota::workflow

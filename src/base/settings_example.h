// A table with a row of every type, and a check that must hold after any load; for the tests and the fuzzer of
// settings.
#pragma once

#include <string>
#include <string_view>

#include "base/settings.h"

namespace rota::testing_support {

enum class Mode { kSimple = 0, kThreadpool = 3 };

struct ExampleSettings {
  SettingsTable table;
  Setting<bool> color = table.add_bool({.name = "cli.color", .meaning = "colours on a terminal"}, true);
  Setting<std::int64_t> workers =
      table.add_int({.name = "fiber.workers", .meaning = "threads that run fibers", .unit = "threads"}, 4, 1, 256);
  Setting<std::int64_t> offset = table.add_int({.name = "fiber.offset", .meaning = "any whole number"}, 0);
  Setting<double> ratio = table.add_float({.name = "fleet.ratio", .meaning = "share of reuse | waste"}, 0.5, 0.0, 1.0);
  Setting<std::string> name = table.add_string({.name = "host.name", .meaning = "what others call it"}, "rota", 16);
  Setting<std::string> token =
      table.add_string({.name = "host.token", .meaning = "who may talk to it", .secret = true}, "");
  Setting<Duration> grace = table.add_duration({.name = "worker.grace", .meaning = "from TERM to KILL"},
                                               std::chrono::seconds(10), Duration::zero(), std::chrono::hours(1));
  Setting<ByteSize> stack = table.add_bytes(
      {.name = "fiber.stack_bytes", .meaning = "stack of a fiber", .flag = "stack"}, {8192}, {4096}, {1U << 20});
  Setting<Mode> mode =
      table.add_enum<Mode>({.name = "flow.mode",
                            .meaning = "which scheduler",
                            .environment = {"ROTA_FLOW_MODE", "STV_SCHEDULER"},
                            .lenient_environment = true},
                           Mode::kSimple, {{"simple", Mode::kSimple}, {"threadpool", Mode::kThreadpool}});
  Setting<StringList> hosts = table.add_list({.name = "bus.hosts", .meaning = "where the bus is"}, {"localhost"}, 4);
};

// After any load every value is allowed, and parsing its text gives the value again. Returns what is wrong, or nothing.
inline std::string violation(const SettingsLoad& load) {
  const auto& rows = load.settings.table().rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SettingValue& value = load.settings.value_at(i);
    if (!check_setting(rows[i], value).ok()) return rows[i].name + " holds a value that is not allowed";
    if (rows[i].type() == SettingType::kList) continue;  // An item from YAML may hold a comma.
    const auto again = parse_setting(rows[i], format_setting(rows[i], value));
    if (!again.ok() || *again != value) return rows[i].name + " does not read back from its own text";
  }
  for (const auto* lines : {&load.errors, &load.warnings}) {
    for (const std::string& line : *lines) {
      if (line.find('\n') != std::string::npos) return "a message has more than one line";
    }
  }
  if (load.settings.to_text().empty() || load.settings.to_json().empty()) return "nothing was printed";
  return {};
}

// A settings file with one value per (name, position, text).
struct FileValue {
  std::string key, where, text;
};
inline SettingsFile file_with(const std::vector<FileValue>& values) {
  SettingsFile file;
  for (const FileValue& value : values) {
    file.entries.push_back({.key = value.key, .where = value.where, .text = value.text});
  }
  return file;
}

}  // namespace rota::testing_support

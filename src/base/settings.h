// The settings table: one row per setting, from which everything else is derived.
//
//   SettingsTable table;
//   const auto workers = table.add_int({.name = "fiber.workers", .meaning = "threads that run fibers"}, 4, 1, 256);
//   const auto grace = table.add_duration({.name = "worker.grace", .meaning = "from TERM to KILL"}, 10s, 0s, 1h);
//   SettingsLoad load = load_settings(table, {.arguments = args, .environment = current_environment()});
//   if (!load.ok()) ... load.errors ...
//   load.settings.get(workers)                 // a typed value, without a lookup by name
//
// Precedence: a flag overrides the environment, which overrides files (later ones override earlier ones), which
// override the default. Every value records its origin. All errors are reported, not only the first.
//
//   flags         --fiber-workers 8, --fiber-workers=8; bools: --x, --no-x, --x=false; lists: repeat or use commas
//   environment   ROTA_FIBER_WORKERS=8; an empty value counts as not set
//   file          YAML: `fiber: {workers: 8}` in groups, or `fiber.workers: 8`
//
// Thread safety: the table is built by one thread and read by all; Settings may be read by all while nobody changes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/setting_row.h"
#include "rota/clock.h"
#include "rota/result.h"

namespace rota {

class SettingsTable;
class Settings;

// The typed handle of a setting: returned by add_...(), taken by get().
template <class T>
class Setting {
 public:
  [[nodiscard]] std::size_t index() const noexcept { return index_; }

 private:
  friend class SettingsTable;
  friend class Settings;
  Setting(const SettingsTable* table, std::size_t index) noexcept : table_(table), index_(index) {}
  const SettingsTable* table_;
  std::size_t index_;
};

// The common part of all rows. If flag and environment are empty, they are derived from the name: "fiber.workers"
// becomes
// --fiber-workers and ROTA_FIBER_WORKERS.
struct SettingSpec {
  std::string name;
  std::string meaning;
  std::string unit{};
  std::string flag{};
  std::vector<std::string> environment{};
  bool lenient_environment = false;
  bool secret = false;
};

// A wrong row (a duplicate name, a default out of range) is a bug and aborts.
class SettingsTable {
 public:
  SettingsTable() = default;
  SettingsTable(const SettingsTable&) = delete;  // Handles point to their table.
  SettingsTable& operator=(const SettingsTable&) = delete;

  Setting<bool> add_bool(SettingSpec spec, bool value);
  Setting<std::int64_t> add_int(SettingSpec spec, std::int64_t value,
                                std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                                std::int64_t most = std::numeric_limits<std::int64_t>::max());
  Setting<double> add_float(SettingSpec spec, double value, double least, double most);
  Setting<std::string> add_string(SettingSpec spec, std::string value, std::size_t most_bytes = 4096);
  Setting<Duration> add_duration(SettingSpec spec, Duration value, Duration least, Duration most);
  Setting<ByteSize> add_bytes(SettingSpec spec, ByteSize value, ByteSize least, ByteSize most);
  Setting<StringList> add_list(SettingSpec spec, StringList value, std::size_t most_items = 1024);
  // `names`: pairs of a name and an enumerator.
  template <class E, class Names = std::initializer_list<std::pair<std::string_view, E>>>
    requires std::is_enum_v<E>
  Setting<E> add_enum(SettingSpec spec, E value, const Names& names) {
    std::vector<EnumName> list;
    for (const auto& [name, number] : names) list.push_back({std::string(name), static_cast<std::int64_t>(number)});
    return {this, add_enum_row(std::move(spec), static_cast<std::int64_t>(value), std::move(list))};
  }

  [[nodiscard]] const std::vector<SettingRow>& rows() const noexcept { return rows_; }

  // The text for `--help`, wrapped to `width`, and a markdown page.
  [[nodiscard]] std::string help(std::size_t width = 100) const;
  [[nodiscard]] std::string markdown() const;

 private:
  std::size_t add_enum_row(SettingSpec spec, std::int64_t value, std::vector<EnumName> names);
  std::size_t add_row(SettingSpec spec, SettingValue value, std::optional<SettingValue> least,
                      std::optional<SettingValue> most, std::vector<EnumName> names = {});

  std::vector<SettingRow> rows_;
};

// The origin of a value.
struct SettingOrigin {
  enum class Kind : std::uint8_t { kDefault, kFile, kEnvironment, kFlag, kProgram };
  Kind kind = Kind::kDefault;
  std::string where{};  // "rota.yaml:3:5", "ROTA_FIBER_WORKERS", "--fiber-workers".

  // "default", "file rota.yaml:3:5", "environment ROTA_X", "flag --x", "program".
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const SettingOrigin&, const SettingOrigin&) = default;
};

// A value and an origin for every row of a table, which must outlive it.
class Settings {
 public:
  explicit Settings(const SettingsTable& table);  // All defaults.

  template <class T>
  [[nodiscard]] decltype(auto) get(Setting<T> setting) const {
    const SettingValue& value = at(setting.table_, setting.index_).value;
    if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(std::get<EnumNumber>(value).value);
    } else {
      return std::get<T>(value);
    }
  }
  template <class T>
  [[nodiscard]] const SettingOrigin& origin(Setting<T> setting) const {
    return at(setting.table_, setting.index_).origin;
  }
  // Sets a value from the program, checked like any other.
  template <class T>
  Result<void> set(Setting<T> setting, std::type_identity_t<T> value) {
    ROTA_ASSERT(setting.table_ == table_, "a handle of another table");
    if constexpr (std::is_enum_v<T>) {
      return set_value(setting.index_, EnumNumber{static_cast<std::int64_t>(value)});
    } else {
      return set_value(setting.index_, std::move(value));
    }
  }

  [[nodiscard]] const SettingsTable& table() const noexcept { return *table_; }
  // By position, for code that iterates over all rows.
  [[nodiscard]] const SettingValue& value_at(std::size_t index) const { return at(table_, index).value; }
  [[nodiscard]] const SettingOrigin& origin_at(std::size_t index) const { return at(table_, index).origin; }
  // As text; "(secret)" for a secret that is set.
  [[nodiscard]] std::string text_at(std::size_t index) const;

  // The output of `rota config`: every setting with its value and origin.
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] std::string to_json() const;

  // For loaders. REQUIRES: the value passes the row's check.
  void assign(std::size_t index, SettingValue value, SettingOrigin origin);

 private:
  struct Entry {
    SettingValue value;
    SettingOrigin origin;
  };
  [[nodiscard]] const Entry& at(const SettingsTable* table, std::size_t index) const {
    ROTA_ASSERT(table == table_, "a handle of another table");
    return entries_[index];
  }
  Result<void> set_value(std::size_t index, SettingValue value);

  const SettingsTable* table_;
  std::vector<Entry> entries_;
};

// The contents of a settings file after parsing. workflow/settings_file.h makes them from YAML; this room does not need
// a YAML library.
struct SettingsFileEntry {
  std::string key;    // "fiber.workers"
  std::string where;  // "rota.yaml:3:12", the position of the value.
  bool is_list = false;
  std::string text{};  // The value, unless it is a list.
  StringList items{};
};
struct SettingsFile {
  std::vector<SettingsFileEntry> entries{};
  std::vector<std::string> errors{};  // Each starts with a position: "rota.yaml:3:12: ".
};

using Environment = std::vector<std::pair<std::string, std::string>>;
// A copy of the process's environment. Must not be called while another thread changes it.
[[nodiscard]] Environment current_environment();

struct SettingSources {
  std::vector<std::string> arguments{};  // Without the program's name.
  Environment environment{};
  std::vector<SettingsFile> files{};  // Lowest precedence first.
  // What to do with a flag that is in no row: report it with the nearest match, or leave it in `rest` for another
  // parser.
  bool keep_unknown_flags = false;
};

struct SettingsLoad {
  Settings settings;              // A row with a bad value keeps the value of the next source.
  std::vector<std::string> rest;  // Arguments that are not flags of the table, in order.
  std::vector<std::string> errors;
  std::vector<std::string> warnings;

  [[nodiscard]] bool ok() const noexcept { return errors.empty(); }
  // All errors as one, one per line; or success.
  [[nodiscard]] Result<void> status() const;
};

[[nodiscard]] SettingsLoad load_settings(const SettingsTable& table, const SettingSources& sources);

}  // namespace rota

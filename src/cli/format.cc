#include "cli/format.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "base/json_text.h"
#include "model/json.h"

namespace rota::cli {

namespace {

std::string utc(std::int64_t wall_ns, const char* format) {
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), format, &parts);
  return text.data();
}

}  // namespace

std::string short_time(std::int64_t ns) {
  char text[64];
  const double seconds = static_cast<double>(ns) / 1e9;
  if (ns <= 0) return "-";
  if (seconds < 0.9995) {
    std::snprintf(text, sizeof text, "%.0fms", std::max(seconds * 1e3, 1.0));
  } else if (seconds < 60) {
    std::snprintf(text, sizeof text, "%.2fs", seconds);
  } else {
    const auto whole = static_cast<long long>(seconds);
    if (whole < 3600) {
      std::snprintf(text, sizeof text, "%lldm%02llds", whole / 60, whole % 60);
    } else {
      std::snprintf(text, sizeof text, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
    }
  }
  return text;
}

std::string utc_date_time(std::int64_t wall_ns) { return utc(wall_ns, "%Y-%m-%d %H:%M:%SZ"); }

std::string utc_time(std::int64_t wall_ns) { return utc(wall_ns, "%H:%M:%SZ"); }

std::string dollars(std::int64_t microdollars) {
  char text[64];
  std::snprintf(text, sizeof text, "%.4f", static_cast<double>(microdollars) / 1e6);
  return text;
}

std::string percent(std::int64_t millionths) {
  char text[64];
  std::snprintf(text, sizeof text, "%.1f %%", static_cast<double>(millionths) / 1e4);
  return text;
}

std::string counted(std::size_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string values_text(std::string_view item) {
  std::string text;
  if (item.empty()) return text;
  for (const auto& [name, value] : model::json_members(item)) {
    text += (text.empty() ? "" : " ") + name + "=" +
            (model::json_kind(value) == model::JsonKind::kString ? model::json_unescape(value) : std::string(value));
  }
  return text;
}

std::string for_a_terminal(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  if (const std::size_t again = line.rfind('\r'); again != std::string_view::npos) line.remove_prefix(again + 1);
  std::string shown(line);
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  for (std::size_t i = 0; i + 1 < shown.size(); ++i) {  // U+0080 to U+009F are control characters as well.
    const auto second = static_cast<unsigned char>(shown[i + 1]);
    if (shown[i] == '\xc2' && second >= 0x80 && second < 0xa0) shown.replace(i, 2, "?");
  }
  return printable(shown, shown.size());
}

}  // namespace rota::cli

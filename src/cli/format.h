// Times, money and foreign text as the tables and messages of `rota` show them.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rota::cli {

// A duration that is short enough for a table: "1.24s", "35ms", "2m05s", "3h07m"; "-" for 0 and less. A duration above
// 0 and below one millisecond is "1ms".
[[nodiscard]] std::string short_time(std::int64_t ns);
// A wall time: "2026-11-16 06:30:00Z", and "06:30:00Z".
[[nodiscard]] std::string utc_date_time(std::int64_t wall_ns);
[[nodiscard]] std::string utc_time(std::int64_t wall_ns);
// "0.0125": four decimals.
[[nodiscard]] std::string dollars(std::int64_t microdollars);
// "42.5 %"
[[nodiscard]] std::string percent(std::int64_t millionths);
// "1 task", "3 tasks".
[[nodiscard]] std::string counted(std::size_t count, std::string_view noun);

// The values of a task's matrix, from its item as JSON: "lr=0.1 seed=2"; empty for none.
[[nodiscard]] std::string values_text(std::string_view item);

// A line that a program wrote, without anything that a terminal would obey: control characters are escaped, a tab
// becomes a space, and of text that was overwritten after a carriage return only the last version is kept.
[[nodiscard]] std::string for_a_terminal(std::string_view line);

}  // namespace rota::cli

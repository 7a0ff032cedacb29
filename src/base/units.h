// Durations and sizes as people write them: `10ms`, `1m30s`, `8KiB`, `64MB`.
//
// Exact: no floating point is involved, and values that cannot be represented to the nanosecond or byte are refused.
// parse_...() converts the output of format_...() back to the same value.
//
//   duration = [ "-" ] ( part { part } | "0" )      parts in descending order of unit, each unit at most once
//   part     = number unit                          unit: d h m s ms us ns
//   size     = number [ " " ] [ unit ]              unit: B, kB MB GB TB PB (1000), KiB MiB GiB TiB PiB (1024)
//   number   = digits [ "." digits ]                the units of a size may have any case
//
// Thread safety: functions without state.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "rota/clock.h"
#include "rota/result.h"

namespace rota {

// A number of bytes, as its own type.
struct ByteSize {
  std::uint64_t count = 0;
  friend constexpr auto operator<=>(const ByteSize&, const ByteSize&) noexcept = default;
};

// The error's message continues "<text> ...": "is not a duration; write it like 10ms, 2s or 1m30s".
[[nodiscard]] Result<Duration> parse_duration(std::string_view text);
[[nodiscard]] Result<ByteSize> parse_bytes(std::string_view text);

// "1m30s", "250ms", "0s".
[[nodiscard]] std::string format_duration(Duration duration);
// The unit that gives the smallest whole number: "8KiB", "64MB", "1001B".
[[nodiscard]] std::string format_bytes(ByteSize size);

}  // namespace rota

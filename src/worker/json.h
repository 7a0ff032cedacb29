// Reading JSON: the one place of this room that knows simdjson, whose header is large.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rota/result.h"

namespace rota::worker {

// Is it one JSON value and nothing else? ParseError says what is wrong.
[[nodiscard]] Result<void> check_json(std::string_view text);
[[nodiscard]] bool is_utf8(std::string_view text);
// The values of a JSON array, each as JSON.
[[nodiscard]] Result<std::vector<std::string>> split_array(std::string_view text);
// `text` as a JSON string.
[[nodiscard]] std::string json_string(std::string_view text);

// The resolved specification of a task, as the brain sends it:
//   {"kind": ..., (for others)
//    "run": "shell text" | ["program", "argument"...],
//    "env": {"NAME": "value"...}, "dir": "/path", "inputs": {...}, "checkpoint": ...,
//    "timeout_ms": n, "grace_ms": n,
//    "cache": {"files": ["pattern"...], "outputs": ["pattern"...], "dir": "/path"},
//    "limits": {"cpu_time_ms": n, "memory_bytes": n, "open_files": n, "processes": n, "output_bytes": n}}
// All but "run" may be missing, and for a handler that, too. An argument or a variable that is no text is its JSON. A
// member that is none of these is an error.
struct CacheSpec {
  std::vector<std::string> files{};    // Patterns of what it reads, and
  std::vector<std::string> outputs{};  // of what it makes: fingerprint.h.
  std::string directory{};             // Where they are looked for; empty: where the command runs.
};

struct TaskSpec {
  std::string shell{};                   // Of "run" as text.
  std::vector<std::string> arguments{};  // Of "run" as a list.
  std::map<std::string, std::string> environment{};
  std::string directory{};
  std::string inputs = "{}";  // JSON.
  std::string checkpoint{};   // JSON of an earlier attempt's last checkpoint; empty: none.
  std::optional<std::uint64_t> timeout_ms{};
  std::optional<std::uint64_t> grace_ms{};
  std::uint64_t cpu_time_ms = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t processes = 0;
  std::optional<std::uint64_t> output_bytes{};
  std::optional<CacheSpec> cache{};  // It need not run again while what it comes from is unchanged.
};
// ParseError, with the member's path: "limits.memory_bytes must be a whole number from 0 on".
[[nodiscard]] Result<TaskSpec> parse_task_spec(std::string_view text);

}  // namespace rota::worker

// The line protocol: what a program may report while it runs, on the descriptor $ROTA_FD (docs/worker.md).
//
//   line       = ( progress | checkpoint | log | cache ) "\n"
//   progress   = "progress " percent [ " " text ]          percent: 0 to 100, at most one digit after the point
//   checkpoint = "checkpoint " ( json | path )             a path begins with "/"
//   log        = "log " text
//   cache      = "cache " kind " " name                    kind: letters, digits, "-" and "_"; a name has no blank
//
// Text is UTF-8 without control characters. A line has at most kLineMost bytes. Any other line is skipped with an error
// that says what is wrong, and reading continues with the next line. Empty lines are ignored.
//
// Thread safety: none; one task owns a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rota/result.h"

namespace rota::worker {

inline constexpr std::size_t kLineMost = 64 * 1024;

struct Line {
  enum class Kind : std::uint8_t { kProgress, kCheckpoint, kCheckpointFile, kLog, kCache };
  Kind kind = Kind::kLog;
  std::uint32_t permille = 0;  // kProgress.
  std::string text{};          // The message, the JSON, the path, the text, or the kind of the cache.
  std::string name{};          // kCache.
  bool operator==(const Line&) const = default;
};

// Reads one line, given without its line end. ParseError.
[[nodiscard]] Result<Line> parse_line(std::string_view text);

// Splits a stream into lines.
class LineReader {
 public:
  // Calls `take` for each line that the bytes complete, in order, with the line or an error.
  void feed(std::string_view bytes, const std::function<void(Result<Line>)>& take);
  // The stream has ended: the rest counts as a line even without a line end.
  void finish(const std::function<void(Result<Line>)>& take);

 private:
  void complete(const std::function<void(Result<Line>)>& take);

  std::string current_;
  bool too_long_ = false;
};

}  // namespace rota::worker

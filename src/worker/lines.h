// The line protocol: what a command may tell while it runs, on the descriptor $ROTA_FD (docs/worker.md).
//
//   line       = ( progress | checkpoint | log | cache ) "\n"
//   progress   = "progress " percent [ " " text ]          percent: 0 to 100, at most one digit behind the point
//   checkpoint = "checkpoint " ( json | path )             a path begins with "/"
//   log        = "log " text
//   cache      = "cache " kind " " name                    kind: letters, digits, "-" and "_"; a name has no blank
//
// Text is UTF-8 without control characters. A line is at most kLineMost bytes. What is not such a line is refused with
// a sentence and skipped; the lines after it are read. An empty line means nothing.
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
  std::string text{};          // The message, JSON, path, text or kind of cache.
  std::string name{};          // kCache.
  bool operator==(const Line&) const = default;
};

// One line, without its end. ParseError.
[[nodiscard]] Result<Line> parse_line(std::string_view text);

// Cuts a stream into lines.
class LineReader {
 public:
  // Calls `take` for each line that the bytes complete, in order, with the line or what is wrong with it.
  void feed(std::string_view bytes, const std::function<void(Result<Line>)>& take);
  // The stream has ended: what has no end is a line, too.
  void finish(const std::function<void(Result<Line>)>& take);

 private:
  void complete(const std::function<void(Result<Line>)>& take);

  std::string current_;
  bool too_long_ = false;
};

}  // namespace rota::worker

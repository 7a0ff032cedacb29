// One log line as text or JSON.
//
//   text   2024-01-01T00:00:00.000000Z info  worker registered worker=worker-7 name="a b" (host.cc:12)
//   json   {"time":"2024-01-01T00:00:00.000000Z","level":"info","message":"worker registered","worker":"worker-7",...}
//
// The output is one line: control characters are escaped. It has at most kLogLineMaxBytes; a longer one is cut and
// marked.
//
// Thread safety: functions without state.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/log.h"

namespace rota {

inline constexpr std::size_t kLogLineMaxBytes = std::size_t{16} << 10;

struct LogRecord {
  LogLevel level;
  WallTime time;
  std::string_view file;
  int line;
  std::string_view message;
  std::span<const LogField> fields;
};

// Appends the record and a newline.
void format_log(LogFormat format, const LogRecord& record, std::string& out);

// "2024-01-01T00:00:00.000000Z".
void append_time(std::string& out, WallTime time);

}  // namespace rota

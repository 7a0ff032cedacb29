// Formatting of log lines. See base/log_format.h.
#include "base/log_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/json_text.h"
#include "base/units.h"

namespace rota {
namespace {

constexpr std::string_view kCut = "...(cut)";

template <class T>
void append_number(std::string& out, T value) {
  std::array<char, 32> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), result.ptr);
}

void append_padded(std::string& out, std::int64_t value, int width) {
  std::array<char, 20> digits;
  for (int i = width; i-- > 0; value /= 10) digits[static_cast<std::size_t>(i)] = static_cast<char>('0' + value % 10);
  out.append(digits.data(), static_cast<std::size_t>(width));
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Text that needs no quotes in a text line.
bool is_bare(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](char c) { return c > 0x20 && c < 0x7f && c != '"' && c != '=' && c != '\\'; });
}

void append_escaped(std::string& out, std::string_view text) {
  // A message is shown as it is, unless that would break the line.
  std::string quoted;
  append_json_string(quoted, text);
  out.append(quoted, 1, quoted.size() - 2);
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c < 0x7f; });
}

// The value as in a text line; numbers and ids are the same in JSON.
void append_value(std::string& out, const LogField& field, LogFormat format) {
  const bool json = format == LogFormat::kJson;
  switch (field.kind()) {
    case LogField::Kind::kText:
      if (!json && is_bare(field.text())) {
        out.append(field.text());
      } else {
        append_json_string(out, field.text().substr(0, kLogLineMaxBytes));
      }
      return;
    case LogField::Kind::kSigned:
      return append_number(out, field.as_signed());
    case LogField::Kind::kUnsigned:
      return append_number(out, field.as_unsigned());
    case LogField::Kind::kBool:
      out.append(field.as_unsigned() != 0 ? "true" : "false");
      return;
    case LogField::Kind::kFloat:
      // JSON has no infinities.
      if (json && !std::isfinite(field.as_float())) {
        out.append("null");
      } else {
        append_number(out, field.as_float());
      }
      return;
    case LogField::Kind::kDuration:
      if (json) {
        append_json_string(out, format_duration(Duration(field.as_signed())));
      } else {
        out.append(format_duration(Duration(field.as_signed())));
      }
      return;
    case LogField::Kind::kId: {
      const bool prefixed = !field.text().empty();
      if (json && prefixed) out.push_back('"');
      if (prefixed) out.append(field.text()).push_back('-');
      append_number(out, field.as_unsigned());
      if (json && prefixed) out.push_back('"');
      return;
    }
  }
}

// Appends a field if the line stays within its limit; otherwise removes it and returns false.
template <class Append>
bool append_within(std::string& out, std::size_t limit, Append append) {
  const std::size_t before = out.size();
  append();
  if (out.size() <= limit) return true;
  out.resize(before);
  return false;
}

void format_text(const LogRecord& record, std::string& out) {
  const std::size_t limit = out.size() + kLogLineMaxBytes - 100;
  append_time(out, record.time);
  const std::string_view level = to_string(record.level);
  out.append(" ").append(level).append(6 - level.size(), ' ');
  const std::string_view message = record.message.substr(0, kLogLineMaxBytes / 8);
  if (is_plain(message)) {
    out.append(message);
  } else {
    append_escaped(out, message);
  }
  if (message.size() < record.message.size()) out.append(kCut);
  for (const LogField& field : record.fields) {
    const bool fits = append_within(out, limit, [&] {
      out.append(" ").append(field.key()).append("=");
      append_value(out, field, LogFormat::kText);
    });
    if (!fits) {
      out.append(" ").append(kCut);
      break;
    }
  }
  out.append(" (").append(base_name(record.file)).append(":");
  append_number(out, record.line);
  out.append(")\n");
}

void format_json(const LogRecord& record, std::string& out) {
  const std::size_t limit = out.size() + kLogLineMaxBytes - 200;
  out.append("{\"time\":\"");
  append_time(out, record.time);
  out.append("\",\"level\":\"").append(to_string(record.level)).append("\",\"message\":");
  // An escaped byte needs up to six.
  append_json_string(out, record.message.substr(0, kLogLineMaxBytes / 8));
  bool cut = record.message.size() > kLogLineMaxBytes / 8;
  for (const LogField& field : record.fields) {
    const bool fits = append_within(out, limit, [&] {
      out.push_back(',');
      append_json_string(out, field.key());
      // A field must not replace one of the log's own keys.
      for (const std::string_view own : {"time", "level", "message", "at", "cut"}) {
        if (field.key() == own) out.insert(out.size() - 1, 1, '_');
      }
      out.push_back(':');
      append_value(out, field, LogFormat::kJson);
    });
    if (!fits) {
      cut = true;
      break;
    }
  }
  out.append(",\"at\":\"").append(base_name(record.file)).append(":");
  append_number(out, record.line);
  out.append(cut ? "\",\"cut\":true}\n" : "\"}\n");
}

}  // namespace

std::string_view to_string(LogLevel level) noexcept {
  static constexpr std::array<std::string_view, 7> kNames = {"trace", "debug", "info", "warn", "error", "fatal", "off"};
  return kNames[static_cast<std::size_t>(level)];
}

void append_time(std::string& out, WallTime time) {
  using std::chrono::days;
  using std::chrono::floor;
  const auto day = floor<days>(time);
  const std::chrono::year_month_day date(day);
  const std::int64_t micros = std::chrono::duration_cast<std::chrono::microseconds>(time - day).count();
  append_padded(out, static_cast<int>(date.year()), 4);
  out.push_back('-');
  append_padded(out, static_cast<unsigned>(date.month()), 2);
  out.push_back('-');
  append_padded(out, static_cast<unsigned>(date.day()), 2);
  out.push_back('T');
  append_padded(out, micros / 3'600'000'000, 2);
  out.push_back(':');
  append_padded(out, micros / 60'000'000 % 60, 2);
  out.push_back(':');
  append_padded(out, micros / 1'000'000 % 60, 2);
  out.push_back('.');
  append_padded(out, micros % 1'000'000, 6);
  out.push_back('Z');
}

void format_log(LogFormat format, const LogRecord& record, std::string& out) {
  if (format == LogFormat::kJson) {
    format_json(record, out);
  } else {
    format_text(record, out);
  }
}

}  // namespace rota

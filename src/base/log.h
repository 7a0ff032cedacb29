// The process's log: lines of text or JSON with key-value fields, written off the hot path.
//
//   ROTA_LOG(kInfo, "worker registered", {"worker", id}, {"cpus", 8});
//
// A call below the level costs one relaxed load and a branch, and evaluates nothing. A call at or above it formats the
// line in the caller, copies it into a queue and returns; the log's thread writes the queue out in large pieces.
//
// The queue is bounded (LogOptions::queue_bytes). At the bound a line below kError is dropped and counted, and the next
// line that fits is preceded by a line with the number of lost ones; a line of kError or above writes the queue out
// itself and is never dropped. kFatal returns only after everything before it is written, as does a failed ROTA_ASSERT.
//
// Until start_log() the level is kWarn and lines go to stderr at once, so a program that only embeds the library sees
// problems and nothing else.
//
// Thread safety: everything may be called from any thread, except that LogCapture objects nest like scopes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rota/clock.h"
#include "rota/id.h"
#include "rota/result.h"

namespace rota {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kFatal, kOff };
enum class LogFormat : std::uint8_t { kText, kJson };

// "trace", "debug", "info", "warn", "error", "fatal", "off".
[[nodiscard]] std::string_view to_string(LogLevel level) noexcept;

// A key and a value. It refers to text that must live until the call returns, as temporaries of the call do.
class LogField {
 public:
  enum class Kind : std::uint8_t { kText, kSigned, kUnsigned, kBool, kFloat, kDuration, kId };

  template <class T>
  LogField(std::string_view key, const T& value) noexcept : key_(key) {
    if constexpr (std::is_same_v<T, bool>) {
      kind_ = Kind::kBool;
      unsigned_ = value ? 1 : 0;
    } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      kind_ = Kind::kSigned;
      signed_ = value;
    } else if constexpr (std::is_integral_v<T>) {
      kind_ = Kind::kUnsigned;
      unsigned_ = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      kind_ = Kind::kFloat;
      float_ = static_cast<double>(value);
    } else if constexpr (std::is_convertible_v<const T&, Duration>) {
      kind_ = Kind::kDuration;
      signed_ = Duration(value).count();
    } else {
      static_assert(std::is_convertible_v<const T&, std::string_view>,
                    "a log field is a number, a time, an id or text");
      text_ = value;
    }
  }
  LogField(std::string_view key, ErrorCode code) noexcept : key_(key), text_(rota::to_string(code)) {}
  template <class Tag, class Rep>
  LogField(std::string_view key, Id<Tag, Rep> id) noexcept : key_(key), kind_(Kind::kId), unsigned_(id.value()) {
    if constexpr (detail::HasIdPrefix<Tag>) text_ = Tag::kPrefix;
  }
  template <class Tag>
  LogField(std::string_view key, const StringId<Tag>& id) noexcept : key_(key), text_(id.view()) {}

  [[nodiscard]] std::string_view key() const noexcept { return key_; }
  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] std::string_view text() const noexcept { return text_; }  // kText; kId: the prefix.
  [[nodiscard]] std::int64_t as_signed() const noexcept { return signed_; }
  [[nodiscard]] std::uint64_t as_unsigned() const noexcept { return unsigned_; }
  [[nodiscard]] double as_float() const noexcept { return float_; }

 private:
  std::string_view key_;
  Kind kind_ = Kind::kText;
  std::string_view text_;
  union {
    std::int64_t signed_ = 0;
    std::uint64_t unsigned_;
    double float_;
  };
};

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
  std::string file{};                              // Appended to; empty is stderr.
  std::size_t queue_bytes = std::size_t{1} << 20;  // At least 64 KiB.
  bool synchronous = false;                        // No thread: every line is written before the call returns.
  const Clock* clock = nullptr;                    // For the time in a line; null: the machine's. Must outlive its use.
};

// Uses the options from now on; earlier lines are written as before. Calls stop_log() at exit.
Result<void> start_log(LogOptions options);
// Writes everything out and ends the log's thread; later lines are written at once.
void stop_log();
// Returns after every line logged before the call has been written.
void flush_log();
// Reopens the file, after another program has renamed it.
Result<void> reopen_log();

struct LogStats {
  std::uint64_t lines = 0;         // Accepted.
  std::uint64_t lost = 0;          // Dropped because the queue was full.
  std::uint64_t write_errors = 0;  // Failed writes; their lines are lost.
};
[[nodiscard]] LogStats log_stats();

void set_log_level(LogLevel level) noexcept;
[[nodiscard]] LogLevel log_level() noexcept;

namespace detail {
// Not through the shim: it is a flag without a protocol, and checking it would only multiply the schedules.
inline std::atomic<std::uint8_t> g_log_level{static_cast<std::uint8_t>(LogLevel::kWarn)};
void write_log(LogLevel level, const char* file, int line, std::string_view message,
               std::initializer_list<LogField> fields);
}  // namespace detail

// Relaxed: the level orders nothing; a change is seen soon.
[[nodiscard]] inline bool log_enabled(LogLevel level) noexcept {
  return static_cast<std::uint8_t>(level) >= detail::g_log_level.load(std::memory_order_relaxed);
}

// While it lives, lines of `level` and above go into it at once, and nowhere else. For tests.
class LogCapture {
 public:
  explicit LogCapture(LogLevel level = LogLevel::kTrace, LogFormat format = LogFormat::kText,
                      const Clock* clock = nullptr);
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  // All lines so far, without the newlines.
  [[nodiscard]] std::vector<std::string> lines() const;
  [[nodiscard]] bool contains(std::string_view text) const;

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

}  // namespace rota

// ROTA_LOG(kWarn, "message", {"key", value}...); the arguments are evaluated only if the level is on.
#define ROTA_LOG(level_name, message, ...)                                                                   \
  (::rota::log_enabled(::rota::LogLevel::level_name)                                                         \
       ? ::rota::detail::write_log(::rota::LogLevel::level_name, __FILE__, __LINE__, message, {__VA_ARGS__}) \
       : static_cast<void>(0))

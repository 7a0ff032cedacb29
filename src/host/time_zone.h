// TimeZone: the local time of a place, from the system's time zone database (TZif files, RFC 8536).
//
//   Result<TimeZone> zone = TimeZone::load("Europe/Berlin");
//   zone->offset_at(utc_s);                                     // 7200 in summer
//   zone->to_utc({2026, 3, 29, 2, 30});                         // kGap: this time does not exist
//
// The database is read by hand: libc knows a single zone for the whole process (TZ, tzset()), and the compiler's
// library has no time zones (docs/decisions/0091-schedules.md). Times after the last transition in the file follow the
// rule in its footer. Leap seconds are ignored, as POSIX does.
//
// Thread safety: immutable; load() blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rota/result.h"

namespace rota::host {

// A moment of a calendar and a clock on the wall, without a zone.
struct CivilTime {
  std::int64_t year = 1970;
  int month = 1;  // From 1.
  int day = 1;    // From 1.
  int hour = 0;
  int minute = 0;
  friend auto operator<=>(const CivilTime&, const CivilTime&) = default;
};

// Days since 1970-01-01, and back; of the proleptic Gregorian calendar.
[[nodiscard]] std::int64_t days_of(std::int64_t year, int month, int day);
[[nodiscard]] CivilTime civil_of_days(std::int64_t days);
// As if the civil time were UTC.
[[nodiscard]] std::int64_t seconds_of(const CivilTime& time);
[[nodiscard]] CivilTime civil_of_seconds(std::int64_t seconds);
// 0: Sunday.
[[nodiscard]] int weekday_of_days(std::int64_t days);

class TimeZone {
 public:
  enum class Kind : std::uint8_t {
    kOnce,
    kTwice,  // Clocks were set back: it comes twice.
    kGap,    // Clocks were set forward: it does not come.
  };
  struct Moment {
    Kind kind = Kind::kOnce;
    std::int64_t utc_s = 0;  // kTwice: the first one. kGap: the moment at which clocks were set forward.
  };

  static TimeZone utc() { return TimeZone(); }
  // "UTC", or the name of a file below the database's folder ($TZDIR, or /usr/share/zoneinfo). InvalidArgument if there
  // is no such zone; Corrupt.
  static Result<TimeZone> load(const std::string& name);
  // The content of a file. Corrupt.
  static Result<TimeZone> parse(std::string_view file);

  // How far local time is ahead of UTC, in seconds.
  [[nodiscard]] std::int64_t offset_at(std::int64_t utc_s) const;
  [[nodiscard]] CivilTime local(std::int64_t utc_s) const { return civil_of_seconds(utc_s + offset_at(utc_s)); }
  [[nodiscard]] Moment to_utc(const CivilTime& time) const;

 private:
  // "M3.5.0/2": the last Sunday of March at 2:00; or a day of the year.
  struct RuleDate {
    char form = 'M';  // 'M', 'J' (1 to 365, never February 29) or 'D' (0 to 365).
    int month = 0, week = 0, weekday = 0, day = 0;
    std::int64_t time_s = 7200;
    [[nodiscard]] std::int64_t seconds_in(std::int64_t year) const;  // Of local time.
  };
  struct Rule {
    std::int64_t standard_s = 0;
    std::int64_t summer_s = 0;
    bool has_summer = false;
    RuleDate begin{};
    RuleDate end{};
    [[nodiscard]] std::int64_t offset_at(std::int64_t utc_s) const;
  };
  friend class RuleReader;

  std::vector<std::int64_t> transitions_{};  // Ascending.
  std::vector<std::int64_t> offsets_{};      // Each from its transition on.
  std::int64_t first_offset_s_ = 0;          // Before the first transition.
  bool has_rule_ = false;
  Rule rule_{};
};

}  // namespace rota::host

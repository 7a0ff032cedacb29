// Cron: when a schedule is due (H-7). Five fields: minute hour day-of-month month day-of-week.
//
//   field = "*" | item { "," item }        item = ( "*" | value [ "-" value ] ) [ "/" step ]
//   @hourly @daily @midnight @weekly @monthly @yearly @annually
//
// Months and weekdays have English names of three letters; Sunday is 0 or 7. As in every cron, if both kinds of days
// are given, a day that matches one of them matches.
//
// When clocks are set (docs/operations.md): if the hour begins with "*", the schedule follows the clock on the wall: it
// is not due at times that do not come, and due twice at times that come twice. Otherwise it is due once on each day
// that matches: a time that does not come is due when the clocks are set forward, and of a time that comes twice the
// first counts.
//
// Thread safety: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "host/time_zone.h"
#include "rota/result.h"

namespace rota::host {

class Cron {
 public:
  // InvalidArgument, with the field and what is allowed there; also for a date that never comes.
  static Result<Cron> parse(std::string_view text);

  // The first moment after `utc_s` at which it is due. None within the next nine years.
  [[nodiscard]] std::optional<std::int64_t> next(std::int64_t utc_s, const TimeZone& zone) const;

  // All moments in (after_s, until_s], the latest `most` of them, in order.
  [[nodiscard]] std::vector<std::int64_t> between(std::int64_t after_s, std::int64_t until_s, const TimeZone& zone,
                                                  std::size_t most) const;

 private:
  [[nodiscard]] bool day_matches(std::int64_t days) const;
  [[nodiscard]] std::optional<std::int64_t> next_on_wall(std::int64_t utc_s, const TimeZone& zone) const;
  [[nodiscard]] std::optional<std::int64_t> next_on_day(std::int64_t utc_s, const TimeZone& zone) const;

  // Bit i: value i matches.
  std::uint64_t minutes_ = 0;
  std::uint64_t hours_ = 0;
  std::uint64_t days_ = 0;
  std::uint64_t months_ = 0;
  std::uint64_t weekdays_ = 0;
  bool any_hour_ = false;
  bool any_day_ = false;
  bool any_weekday_ = false;
};

}  // namespace rota::host

#include "host/cron.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/json_text.h"

namespace rota::host {

namespace {

constexpr std::int64_t kDaySeconds = 86'400;
constexpr std::int64_t kMostDays = 9 * 366;  // February 29 may be eight years away.

struct Field {
  std::string_view name;
  int least;
  int most;
  std::string_view names;  // Of three letters each, in the order of the numbers from `least` on.
};
constexpr std::array<Field, 5> kFields{{{"minute", 0, 59, ""},
                                        {"hour", 0, 23, ""},
                                        {"day of month", 1, 31, ""},
                                        {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
                                        {"day of week", 0, 7, "sunmontuewedthufrisat"}}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kMacros{{{"@hourly", "0 * * * *"},
                                                                                {"@daily", "0 0 * * *"},
                                                                                {"@midnight", "0 0 * * *"},
                                                                                {"@weekly", "0 0 * * 0"},
                                                                                {"@monthly", "0 0 1 * *"},
                                                                                {"@yearly", "0 0 1 1 *"},
                                                                                {"@annually", "0 0 1 1 *"}}};

bool has(std::uint64_t bits, int value) { return (bits >> static_cast<unsigned>(value) & 1U) != 0; }

std::optional<int> value_of(std::string_view text, const Field& field) {
  if (text.size() == 3) {
    std::string lower(text);
    for (char& c : lower) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    }
    const std::size_t at = field.names.find(lower);
    if (at != std::string_view::npos && at % 3 == 0) return field.least + static_cast<int>(at / 3);
  }
  if (text.empty() || text.size() > 2) return std::nullopt;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

std::optional<std::uint64_t> read_item(std::string_view item, const Field& field) {
  int step = 1;
  bool stepped = false;
  if (const std::size_t slash = item.find('/'); slash != std::string_view::npos) {
    const std::string_view text = item.substr(slash + 1);
    const std::optional<int> given = text.empty() || text[0] > '9' ? std::nullopt : value_of(text, field);
    if (!given || *given < 1) return std::nullopt;
    step = *given;
    stepped = true;
    item = item.substr(0, slash);
  }
  int first = field.least, last = field.most;
  if (item == "*") {
    if (field.names.starts_with("sun")) last = 6;  // 7 is Sunday again.
  } else {
    const std::size_t dash = item.find('-');
    const std::optional<int> begin = value_of(item.substr(0, dash), field);
    const std::optional<int> end = dash == std::string_view::npos ? begin : value_of(item.substr(dash + 1), field);
    if (!begin || !end || *begin < field.least || *end > field.most || *begin > *end) return std::nullopt;
    first = *begin;
    if (dash != std::string_view::npos || !stepped) last = *end;  // "5/10" means 5, 15, 25, ...
  }
  std::uint64_t bits = 0;
  for (int value = first; value <= last; value += step) bits |= std::uint64_t{1} << static_cast<unsigned>(value);
  return bits;
}

Result<std::uint64_t> read_field(std::string_view text, const Field& field) {
  std::uint64_t bits = 0;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::optional<std::uint64_t> item = read_item(rest.substr(0, comma), field);
    if (!item) {
      return Error{ErrorCode::kInvalidArgument, "the " + std::string(field.name) + " of the schedule is '" +
                                                    printable(text, 40) + "'; write *, or numbers from " +
                                                    std::to_string(field.least) + " to " + std::to_string(field.most) +
                                                    ", like 5, 1-5, */10 or 0,30"};
    }
    bits |= *item;
    if (comma == std::string_view::npos) return bits;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<Cron> Cron::parse(std::string_view text) {
  for (const auto& [macro, meaning] : kMacros) {
    if (text == macro) return parse(meaning);
  }
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(" \t", at);
    if (begin == std::string_view::npos) break;
    at = std::min(text.find_first_of(" \t", begin), text.size());
    words.push_back(text.substr(begin, at - begin));
  }
  if (words.size() != kFields.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the schedule is '" + printable(text) +
                     "'; write five fields, minute, hour, day of month, month and day of week, like '0 3 * * *', or "
                     "@daily"};
  }
  std::array<std::uint64_t, 5> bits{};
  for (std::size_t i = 0; i < bits.size(); ++i) {
    ROTA_TRY_ASSIGN(bits[i], read_field(words[i], kFields[i]));
  }
  Cron cron;
  cron.minutes_ = bits[0];
  cron.hours_ = bits[1];
  cron.days_ = bits[2];
  cron.months_ = bits[3];
  cron.weekdays_ = has(bits[4], 7) ? bits[4] | 1U : bits[4];
  cron.any_hour_ = words[1].starts_with('*');
  cron.any_day_ = words[2].starts_with('*');
  cron.any_weekday_ = words[4].starts_with('*');
  if (!cron.next(0, TimeZone::utc())) {
    return Error{ErrorCode::kInvalidArgument, "the date of the schedule '" + printable(text) + "' never comes"};
  }
  return cron;
}

bool Cron::day_matches(std::int64_t days) const {
  const CivilTime date = civil_of_days(days);
  if (!has(months_, date.month)) return false;
  const bool day = has(days_, date.day), weekday = has(weekdays_, weekday_of_days(days));
  return any_day_ || any_weekday_ ? day && weekday : day || weekday;
}

std::optional<std::int64_t> Cron::next(std::int64_t utc_s, const TimeZone& zone) const {
  return any_hour_ ? next_on_wall(utc_s, zone) : next_on_day(utc_s, zone);
}

// Walks along UTC, by minutes within an hour that matches and by hours otherwise.
std::optional<std::int64_t> Cron::next_on_wall(std::int64_t utc_s, const TimeZone& zone) const {
  std::int64_t at = utc_s - ((utc_s % 60) + 60) % 60 + 60;
  const std::int64_t until = utc_s + kMostDays * kDaySeconds;
  while (at <= until) {
    const CivilTime local = zone.local(at);
    if (!has(hours_, local.hour) || !day_matches(days_of(local.year, local.month, local.day))) {
      // To the next full hour of the wall, unless clocks are set in between.
      const std::int64_t full = at + (60 - local.minute) * std::int64_t{60};
      at = zone.offset_at(full) == zone.offset_at(at) ? full : at + 60;
    } else if (!has(minutes_, local.minute)) {
      at += 60;
    } else {
      return at;
    }
  }
  return std::nullopt;
}

// Walks along the calendar. Of a time that comes twice the first counts, so the moments are in order.
std::optional<std::int64_t> Cron::next_on_day(std::int64_t utc_s, const TimeZone& zone) const {
  const CivilTime now = zone.local(utc_s);
  const std::int64_t first = days_of(now.year, now.month, now.day) - 1;
  for (std::int64_t days = first; days <= first + kMostDays; ++days) {
    if (!day_matches(days)) continue;
    CivilTime time = civil_of_days(days);
    for (time.hour = 0; time.hour < 24; ++time.hour) {
      if (!has(hours_, time.hour)) continue;
      for (time.minute = 0; time.minute < 60; ++time.minute) {
        if (!has(minutes_, time.minute)) continue;
        const std::int64_t moment = zone.to_utc(time).utc_s;
        if (moment > utc_s) return moment;
      }
    }
  }
  return std::nullopt;
}

std::vector<std::int64_t> Cron::between(std::int64_t after_s, std::int64_t until_s, const TimeZone& zone,
                                        std::size_t most) const {
  std::vector<std::int64_t> moments;
  for (std::optional<std::int64_t> at = next(after_s, zone); at && *at <= until_s; at = next(*at, zone)) {
    moments.push_back(*at);
    if (moments.size() > most * 2) {  // Only the latest are wanted.
      moments.erase(moments.begin(), moments.end() - static_cast<std::ptrdiff_t>(most));
    }
  }
  if (moments.size() > most) moments.erase(moments.begin(), moments.end() - static_cast<std::ptrdiff_t>(most));
  return moments;
}

}  // namespace rota::host

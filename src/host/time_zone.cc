#include "host/time_zone.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/json_text.h"

namespace rota::host {

namespace {

constexpr std::int64_t kDay = 86'400;
constexpr std::size_t kMostFileBytes = 1 << 20;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

bool is_leap(std::int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

Error corrupt(std::string_view what) {
  return Error{ErrorCode::kCorrupt, "the time zone file is damaged: " + std::string(what)};
}

// Numbers of a TZif file: the highest byte first.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}
  [[nodiscard]] std::size_t size() const { return rest_.size(); }
  std::string_view take(std::size_t count) {
    const std::string_view taken = rest_.substr(0, std::min(count, rest_.size()));
    good_ = good_ && taken.size() == count;
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::int64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    const std::string_view text = take(bytes);
    for (const char c : text) value = value << 8U | static_cast<unsigned char>(c);
    if (bytes == 4) return static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
    return static_cast<std::int64_t>(value);
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

struct Header {
  char version = 0;
  std::int64_t isut = 0, isstd = 0, leap = 0, times = 0, types = 0, chars = 0;
  [[nodiscard]] std::size_t data_bytes(std::size_t time_bytes) const {
    return static_cast<std::size_t>(times) * (time_bytes + 1) + static_cast<std::size_t>(types) * 6 +
           static_cast<std::size_t>(chars) + static_cast<std::size_t>(leap) * (time_bytes + 4) +
           static_cast<std::size_t>(isstd) + static_cast<std::size_t>(isut);
  }
};

std::optional<Header> read_header(Bytes& in) {
  if (in.take(4) != "TZif") return std::nullopt;
  Header header;
  const std::string_view version = in.take(1);
  header.version = version.empty() ? '\0' : version.front();
  in.take(15);
  for (std::int64_t* count : {&header.isut, &header.isstd, &header.leap, &header.times, &header.types, &header.chars}) {
    *count = in.number(4);
    if (*count < 0 || *count > 100'000) return std::nullopt;
  }
  return in.good() ? std::optional(header) : std::nullopt;
}

}  // namespace

std::int64_t days_of(std::int64_t year, int month, int day) {
  // The year begins in March, so that the day that may be missing is its last.
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = floor_div(year, 400);
  const std::int64_t year_of_era = year - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146'097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719'468;
}

CivilTime civil_of_days(std::int64_t days) {
  days += 719'468;
  const std::int64_t era = floor_div(days, 146'097);
  const std::int64_t day_of_era = days - era * 146'097;
  const std::int64_t year_of_era = (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t shifted = (5 * day_of_year + 2) / 153;
  CivilTime time;
  time.day = static_cast<int>(day_of_year - (153 * shifted + 2) / 5 + 1);
  time.month = static_cast<int>(shifted < 10 ? shifted + 3 : shifted - 9);
  time.year = year_of_era + era * 400 + (time.month <= 2 ? 1 : 0);
  return time;
}

std::int64_t seconds_of(const CivilTime& time) {
  return days_of(time.year, time.month, time.day) * kDay + std::int64_t{time.hour} * 3'600 + time.minute * 60;
}

CivilTime civil_of_seconds(std::int64_t seconds) {
  const std::int64_t days = floor_div(seconds, kDay);
  CivilTime time = civil_of_days(days);
  const std::int64_t rest = seconds - days * kDay;
  time.hour = static_cast<int>(rest / 3'600);
  time.minute = static_cast<int>(rest % 3'600 / 60);
  return time;
}

int weekday_of_days(std::int64_t days) { return static_cast<int>(((days % 7) + 11) % 7); }  // 1970-01-01: Thursday.

// --- The rule in the footer: "CET-1CEST,M3.5.0,M10.5.0/3" ---

class RuleReader {
 public:
  explicit RuleReader(std::string_view text) : rest_(text) {}

  bool read(TimeZone::Rule& rule) {
    if (!name() || !offset(rule.standard_s)) return false;
    rule.standard_s = -rule.standard_s;  // POSIX counts to the west.
    if (rest_.empty()) return true;
    if (!name()) return false;
    rule.has_summer = true;
    rule.summer_s = rule.standard_s + 3'600;
    if (!rest_.empty() && rest_.front() != ',') {
      if (!offset(rule.summer_s)) return false;
      rule.summer_s = -rule.summer_s;
    }
    return take(',') && date(rule.begin) && take(',') && date(rule.end) && rest_.empty();
  }

 private:
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool name() {
    std::size_t length = 0;
    if (rest_.starts_with('<')) {
      length = rest_.find('>');
      if (length == std::string_view::npos) return false;
      ++length;
    } else {
      const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
      while (length < rest_.size() && letter(rest_[length])) ++length;
    }
    rest_.remove_prefix(length);
    return length >= 3;
  }
  bool number(std::int64_t& out) {
    std::size_t length = 0;
    out = 0;
    while (length < rest_.size() && length < 4 && rest_[length] >= '0' && rest_[length] <= '9') {
      out = out * 10 + (rest_[length++] - '0');
    }
    rest_.remove_prefix(length);
    return length > 0;
  }
  bool offset(std::int64_t& out) {
    std::int64_t sign = 1;
    if (take('-')) {
      sign = -1;
    } else {
      (void)take('+');
    }
    std::int64_t hours = 0, minutes = 0, seconds = 0;
    if (!number(hours)) return false;
    if (take(':') && !number(minutes)) return false;
    if (take(':') && !number(seconds)) return false;
    out = sign * (hours * 3'600 + minutes * 60 + seconds);
    return true;
  }
  bool date(TimeZone::RuleDate& out) {
    std::int64_t a = 0, b = 0, c = 0;
    if (take('M')) {
      if (!number(a) || !take('.') || !number(b) || !take('.') || !number(c)) return false;
      if (a < 1 || a > 12 || b < 1 || b > 5 || c > 6) return false;
      out.form = 'M';
      out.month = static_cast<int>(a);
      out.week = static_cast<int>(b);
      out.weekday = static_cast<int>(c);
    } else {
      out.form = take('J') ? 'J' : 'D';
      if (!number(a) || a > 365) return false;
      out.day = static_cast<int>(a);
    }
    return !take('/') || offset(out.time_s);
  }

  std::string_view rest_;
};

std::int64_t TimeZone::RuleDate::seconds_in(std::int64_t year) const {
  const std::int64_t january = days_of(year, 1, 1);
  if (form == 'J') return (january + day - 1 + (is_leap(year) && day >= 60 ? 1 : 0)) * kDay + time_s;
  if (form == 'D') return (january + day) * kDay + time_s;
  const std::int64_t first = days_of(year, month, 1);
  const std::int64_t after = month == 12 ? days_of(year + 1, 1, 1) : days_of(year, month + 1, 1);
  std::int64_t found = first + (weekday - weekday_of_days(first) + 7) % 7 + std::int64_t{week - 1} * 7;
  while (found >= after) found -= 7;  // Week 5 is the last one.
  return found * kDay + time_s;
}

std::int64_t TimeZone::Rule::offset_at(std::int64_t utc_s) const {
  if (!has_summer) return standard_s;
  const std::int64_t year = civil_of_seconds(utc_s + standard_s).year;
  const std::int64_t summer = begin.seconds_in(year) - standard_s;
  const std::int64_t winter = end.seconds_in(year) - summer_s;
  const bool is_summer = summer < winter ? utc_s >= summer && utc_s < winter : utc_s >= summer || utc_s < winter;
  return is_summer ? summer_s : standard_s;
}

// --- Files ---

Result<TimeZone> TimeZone::parse(std::string_view file) {
  Bytes in(file);
  std::optional<Header> header = read_header(in);
  if (!header) return corrupt("it has no header");
  std::size_t time_bytes = 4;
  if (header->version >= '2') {  // The data with 32-bit times comes first, for old programs.
    in.take(header->data_bytes(4));
    header = read_header(in);
    if (!header) return corrupt("it has no second header");
    time_bytes = 8;
  }
  if (header->types == 0) return corrupt("it has no types of time");
  TimeZone zone;
  for (std::int64_t i = 0; i < header->times; ++i) zone.transitions_.push_back(in.number(time_bytes));
  const std::string_view indices = in.take(static_cast<std::size_t>(header->times));
  std::vector<std::int64_t> types;
  for (std::int64_t i = 0; i < header->types; ++i) {
    types.push_back(in.number(4));
    in.take(2);
    if (types.back() < -kDay || types.back() > kDay * 2) return corrupt("an offset is too large");
  }
  in.take(static_cast<std::size_t>(header->chars) + static_cast<std::size_t>(header->leap) * (time_bytes + 4) +
          static_cast<std::size_t>(header->isstd) + static_cast<std::size_t>(header->isut));
  if (!in.good()) return corrupt("it ends too early");
  if (!std::is_sorted(zone.transitions_.begin(), zone.transitions_.end())) return corrupt("its times are not in order");
  for (const char index : indices) {
    const auto type = static_cast<unsigned char>(index);
    if (type >= types.size()) return corrupt("a type of time is missing");
    zone.offsets_.push_back(types[type]);
  }
  zone.first_offset_s_ = types.front();
  std::string_view footer = in.rest();
  if (header->version >= '2' && footer.starts_with('\n')) {
    footer = footer.substr(1, footer.find('\n', 1) - 1);
    if (!footer.empty()) {
      if (!RuleReader(footer).read(zone.rule_)) return corrupt("the rule in its footer cannot be read");
      zone.has_rule_ = true;
    }
  }
  return zone;
}

Result<TimeZone> TimeZone::load(const std::string& name) {
  if (name == "UTC") return utc();
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '/' || c == '_' ||
           c == '-' || c == '+';
  };
  const Error unknown{ErrorCode::kInvalidArgument,
                      "there is no time zone '" + printable(name) + "'; write one like Europe/Berlin, or UTC"};
  // Neither '.' nor a '/' at the front: the file is below the folder.
  if (name.empty() || name.size() > 100 || name.front() == '/' || !std::all_of(name.begin(), name.end(), plain)) {
    return unknown;
  }
  const char* given = std::getenv("TZDIR");  // NOLINT(concurrency-mt-unsafe): nobody changes the environment.
  const std::string folder = given != nullptr && *given != '\0' ? given : "/usr/share/zoneinfo";
  std::ifstream file(folder + "/" + name, std::ios::binary);
  std::string text(kMostFileBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() <= 0) {
    Error missing = unknown;
    if (!std::ifstream(folder + "/Europe/Berlin")) {
      missing.message += ". The time zone database is not installed in " + folder + " (package tzdata)";
    }
    return missing;
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (!text.starts_with("TZif")) return unknown;
  return parse(text);
}

std::int64_t TimeZone::offset_at(std::int64_t utc_s) const {
  const auto after = std::upper_bound(transitions_.begin(), transitions_.end(), utc_s);
  if (after == transitions_.end() && has_rule_) return rule_.offset_at(utc_s);
  if (after == transitions_.begin()) return first_offset_s_;
  return offsets_[static_cast<std::size_t>(after - transitions_.begin()) - 1];
}

TimeZone::Moment TimeZone::to_utc(const CivilTime& time) const {
  const std::int64_t local = seconds_of(time);
  // The offsets a day before and a day after: clocks are set at most once in between.
  const std::int64_t before = offset_at(local - kDay), after = offset_at(local + kDay);
  const std::int64_t early = local - std::max(before, after), late = local - std::min(before, after);
  const bool early_is = early + offset_at(early) == local, late_is = late + offset_at(late) == local;
  if (early_is && late_is) return {early == late ? Kind::kOnce : Kind::kTwice, early};
  if (early_is) return {Kind::kOnce, early};
  if (late_is) return {Kind::kOnce, late};
  // In a gap: the moment lies between the two. The offset changes once there.
  std::int64_t low = early, high = late;
  const std::int64_t offset = offset_at(low);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (offset_at(middle) == offset ? low : high) = middle;
  }
  return {Kind::kGap, high};
}

}  // namespace rota::host

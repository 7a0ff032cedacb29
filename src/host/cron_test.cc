// Contract: H-7. When schedules are due, also when clocks are set forward and back.
#include "host/cron.h"

#include <gmock/gmock.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/prng.h"

namespace rota::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::int64_t utc(std::int64_t year, int month, int day, int hour = 0, int minute = 0) {
  return seconds_of({year, month, day, hour, minute});
}

// "2026-03-29 01:00": in UTC.
std::string text(std::int64_t utc_s) {
  const CivilTime time = civil_of_seconds(utc_s);
  char buffer[64];
  (void)std::snprintf(buffer, sizeof buffer, "%04d-%02d-%02d %02d:%02d", static_cast<int>(time.year), time.month,
                      time.day, time.hour, time.minute);
  return buffer;
}

std::vector<std::string> firings(const char* cron, const TimeZone& zone, std::int64_t from, std::size_t count) {
  std::vector<std::string> out;
  const Cron parsed = Cron::parse(cron).value();
  for (std::int64_t at = from; out.size() < count;) {
    at = parsed.next(at, zone).value();
    out.push_back(text(at));
  }
  return out;
}

TimeZone zone(const char* name) { return TimeZone::load(name).value(); }

TEST(CronTest, FieldsMeanWhatTheySay) {
  const TimeZone utc_zone = TimeZone::utc();
  const std::int64_t from = utc(2026, 1, 1);
  EXPECT_THAT(firings("0 3 * * *", utc_zone, from, 2), ElementsAre("2026-01-01 03:00", "2026-01-02 03:00"));
  EXPECT_THAT(firings("*/20 * * * *", utc_zone, from, 3),
              ElementsAre("2026-01-01 00:20", "2026-01-01 00:40", "2026-01-01 01:00"));
  EXPECT_THAT(firings("5/25 0,12 1 */6 *", utc_zone, from, 4),
              ElementsAre("2026-01-01 00:05", "2026-01-01 00:30", "2026-01-01 00:55", "2026-01-01 12:05"));
  EXPECT_THAT(firings("0 9 * * mon-FRI", utc_zone, utc(2026, 1, 2, 10), 2),
              ElementsAre("2026-01-05 09:00", "2026-01-06 09:00"));
  EXPECT_THAT(firings("0 0 * * 7", utc_zone, from, 1), ElementsAre("2026-01-04 00:00"));
  // Both kinds of days: either.
  EXPECT_THAT(firings("0 0 13 * fri", utc_zone, from, 3),
              ElementsAre("2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00"));
  EXPECT_THAT(firings("0 0 29 feb *", utc_zone, from, 2), ElementsAre("2028-02-29 00:00", "2032-02-29 00:00"));
  EXPECT_THAT(firings("@monthly", utc_zone, from, 1), ElementsAre("2026-02-01 00:00"));
  EXPECT_EQ(text(*Cron::parse("* * * * *")->next(utc(2026, 1, 1) + 30, utc_zone)), "2026-01-01 00:01");
}

TEST(CronTest, MistakesAreNamed) {
  const auto message = [](const char* cron) { return Cron::parse(cron).error().message; };
  EXPECT_THAT(message("0 3 * *"), HasSubstr("write five fields"));
  EXPECT_THAT(message("60 3 * * *"), HasSubstr("the minute of the schedule is '60'"));
  EXPECT_THAT(message("0 24 * * *"), HasSubstr("the hour"));
  EXPECT_THAT(message("0 0 0 * *"), HasSubstr("the day of month"));
  EXPECT_THAT(message("0 0 * 13 *"), HasSubstr("the month"));
  EXPECT_THAT(message("0 0 * * 8"), HasSubstr("the day of week"));
  EXPECT_THAT(message("*/0 * * * *"), HasSubstr("the minute"));
  EXPECT_THAT(message("5-1 * * * *"), HasSubstr("the minute"));
  EXPECT_THAT(message("1,,2 * * * *"), HasSubstr("the minute"));
  EXPECT_THAT(message("0 0 30 2 *"), HasSubstr("never comes"));
  EXPECT_THAT(message("@sometimes"), HasSubstr("write five fields"));
}

// Berlin, 2026-03-29: at 02:00 (01:00 UTC) clocks are set forward to 03:00. 02:30 does not come.
TEST(CronTest, ClocksSetForward) {
  const TimeZone berlin = zone("Europe/Berlin");
  EXPECT_THAT(firings("30 2 * * *", berlin, utc(2026, 3, 27, 12), 3),
              ElementsAre("2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"));
  EXPECT_THAT(firings("0 3 * * *", berlin, utc(2026, 3, 28, 12), 2),
              ElementsAre("2026-03-29 01:00", "2026-03-30 01:00"));
  // Two times in the gap are one firing.
  EXPECT_THAT(firings("15,45 2 * * *", berlin, utc(2026, 3, 28, 12), 2),
              ElementsAre("2026-03-29 01:00", "2026-03-30 00:15"));
  // By the wall: every half hour that comes.
  EXPECT_THAT(firings("*/30 * * * *", berlin, utc(2026, 3, 29, 0, 15), 3),
              ElementsAre("2026-03-29 00:30", "2026-03-29 01:00", "2026-03-29 01:30"));
}

// Berlin, 2026-10-25: at 03:00 (01:00 UTC) clocks are set back to 02:00. 02:30 comes twice.
TEST(CronTest, ClocksSetBack) {
  const TimeZone berlin = zone("Europe/Berlin");
  EXPECT_THAT(firings("30 2 * * *", berlin, utc(2026, 10, 23, 12), 3),
              ElementsAre("2026-10-24 00:30", "2026-10-25 00:30", "2026-10-26 01:30"));
  EXPECT_THAT(firings("30 * * * *", berlin, utc(2026, 10, 24, 23, 45), 3),
              ElementsAre("2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 02:30"));
  // A host that starts between the two does not fire again.
  EXPECT_EQ(text(*Cron::parse("30 2 * * *")->next(utc(2026, 10, 25, 1, 0), berlin)), "2026-10-26 01:30");
}

TEST(CronTest, ZonesWithOddOffsetsAndTheSouth) {
  EXPECT_THAT(firings("0 3 * * *", zone("Asia/Kathmandu"), utc(2026, 1, 1), 1), ElementsAre("2026-01-01 21:15"));
  EXPECT_THAT(firings("0 * * * *", zone("Asia/Kathmandu"), utc(2026, 1, 1), 2),
              ElementsAre("2026-01-01 00:15", "2026-01-01 01:15"));
  // Lord Howe sets its clocks by half an hour: 2026-04-05 02:00 becomes 01:30.
  EXPECT_THAT(firings("45 1 * * *", zone("Australia/Lord_Howe"), utc(2026, 4, 4), 1), ElementsAre("2026-04-04 14:45"));
  EXPECT_THAT(firings("30 2 * * *", zone("America/New_York"), utc(2026, 3, 8), 1), ElementsAre("2026-03-08 07:00"));
}

TEST(CronTest, BetweenIsBoundedToTheLatest) {
  const Cron hourly = Cron::parse("@hourly").value();
  EXPECT_THAT(hourly.between(utc(2026, 1, 1), utc(2026, 1, 1, 3), TimeZone::utc(), 10),
              ElementsAre(utc(2026, 1, 1, 1), utc(2026, 1, 1, 2), utc(2026, 1, 1, 3)));
  EXPECT_THAT(hourly.between(utc(2025, 1, 1), utc(2026, 1, 1), TimeZone::utc(), 2),
              ElementsAre(utc(2025, 12, 31, 23), utc(2026, 1, 1)));
}

TEST(TimeZoneTest, RulesApplyBeyondTheFile) {
  // The footer of the file, which lists transitions to 2037 at most.
  const TimeZone berlin = zone("Europe/Berlin");
  EXPECT_EQ(berlin.offset_at(utc(2060, 7, 1)), 7200);
  EXPECT_EQ(berlin.offset_at(utc(2060, 1, 1)), 3600);
  EXPECT_EQ(berlin.offset_at(utc(2060, 3, 28, 0, 59)), 3600);
  EXPECT_EQ(berlin.offset_at(utc(2060, 3, 28, 1, 0)), 7200);
  EXPECT_EQ(zone("Australia/Sydney").offset_at(utc(2060, 1, 1)), 11 * 3600);
  EXPECT_EQ(zone("Asia/Tokyo").offset_at(utc(2060, 1, 1)), 9 * 3600);
}

TEST(TimeZoneTest, UnknownZonesAreRefused) {
  for (const char* name : {"", "Europe/Nowhere", "../../etc/passwd", "/etc/localtime", "Europe"}) {
    EXPECT_EQ(TimeZone::load(name).code(), ErrorCode::kInvalidArgument) << name;
  }
}

TEST(TimeZoneTest, DamagedFilesAreRefused) {
  Prng prng(5);
  std::string file(200, '\0');
  for (int i = 0; i < 20'000; ++i) {
    for (char& c : file) c = static_cast<char>(prng.below(256));
    file.replace(0, 5, "TZif2");
    if (prng.chance(1, 2)) file.replace(5, 39, std::string(39, '\0'));
    (void)TimeZone::parse(std::string_view(file).substr(0, prng.below(file.size())));
  }
  EXPECT_EQ(TimeZone::parse("").code(), ErrorCode::kCorrupt);
}

// Days and dates are inverse to each other, and agree with the calendar of libc.
TEST(TimeZoneTest, Calendar) {
  for (std::int64_t days = -200'000; days < 200'000; days += 17) {
    const CivilTime date = civil_of_days(days);
    ASSERT_EQ(days_of(date.year, date.month, date.day), days);
    const std::time_t seconds = days * 86'400;
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    ASSERT_EQ(date.day, parts.tm_mday);
    ASSERT_EQ(date.month, parts.tm_mon + 1);
    ASSERT_EQ(weekday_of_days(days), parts.tm_wday);
  }
}

}  // namespace
}  // namespace rota::host

// Durations and sizes: what is read, what is refused, and that writing and reading agree.
#include "base/units.h"

#include <gtest/gtest.h>

#include <string>

#include "base/prng.h"

namespace rota {
namespace {

using namespace std::chrono_literals;

TEST(UnitsTest, DurationsAreRead) {
  const std::pair<const char*, Duration> cases[] = {
      {"0", 0s},
      {"0s", 0s},
      {"10ms", 10ms},
      {"2s", 2s},
      {"1m30s", 90s},
      {"1.5s", 1500ms},
      {"2d", 48h},
      {"1h2m3s4ms5us6ns", 3723004005006ns},
      {"-5s", -5s},
      {"0.5m", 30s},
      {"1.000000001s", 1'000'000'001ns},
      {"007s", 7s},
      {"1.50s", 1500ms},
      {"9223372036854775807ns", Duration::max()},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(parse_duration(text).value(), expected) << text;
}

TEST(UnitsTest, OtherDurationsAreRefusedWithAReason) {
  for (const char* text : {"", "-", "5", "s", "5 s", "s5", "5x", "5S", "1s1m", "1s1s", "1.s", ".5s", "1..5s", "--5s",
                           "+5s", "1e3s", "5s ", "5sec"}) {
    EXPECT_EQ(parse_duration(text).error().message, "is not a duration; write it like 10ms, 2s or 1m30s") << text;
  }
  EXPECT_EQ(parse_duration("0.5ns").error().message, "is finer than a nanosecond");
  EXPECT_EQ(parse_duration("1.0000000001s").error().message, "is finer than a nanosecond");
  for (const char* text : {"9223372036854775808ns", "300y", "106752d", "99999999999999999999s", "2562047h60m"}) {
    const auto result = parse_duration(text);
    EXPECT_FALSE(result.ok()) << text;
  }
  EXPECT_EQ(parse_duration("106752d").error().message, "is too long; the most is 2562047h47m16s854ms775us807ns");
}

TEST(UnitsTest, DurationsAreWritten) {
  EXPECT_EQ(format_duration(0s), "0s");
  EXPECT_EQ(format_duration(90s), "1m30s");
  EXPECT_EQ(format_duration(1500ms), "1s500ms");
  EXPECT_EQ(format_duration(48h), "48h");
  EXPECT_EQ(format_duration(-250ms), "-250ms");
  EXPECT_EQ(format_duration(Duration::min()), "-2562047h47m16s854ms775us808ns");
}

TEST(UnitsTest, SizesAreRead) {
  const std::pair<const char*, std::uint64_t> cases[] = {
      {"0", 0},
      {"512", 512},
      {"512B", 512},
      {"8KiB", 8192},
      {"8kib", 8192},
      {"64MB", 64'000'000},
      {"1 GiB", 1U << 30},
      {"1.5KiB", 1536},
      {"0.001kB", 1},
      {"16PiB", 1UL << 54},
      {"18446744073709551615", ~std::uint64_t{0}},
  };
  for (const auto& [text, expected] : cases) {
    const auto result = parse_bytes(text);
    ASSERT_TRUE(result.ok()) << text << " " << result.error().message;
    EXPECT_EQ(result->count, expected) << text;
  }
}

TEST(UnitsTest, OtherSizesAreRefusedWithAReason) {
  for (const char* text : {"", "KiB", "-1", "8K", "8  KiB", "8KiB ", "1e3", "0x10", "8 ", "8KiBB"}) {
    EXPECT_EQ(parse_bytes(text).error().message, "is not a size; write it like 512, 8KiB or 64MB") << text;
  }
  EXPECT_EQ(parse_bytes("1.5").error().message, "is not a whole number of bytes");
  EXPECT_EQ(parse_bytes("18446744073709551616").error().message, "is too large; the most is 18446744073709551615B");
  EXPECT_EQ(parse_bytes("16384PiB").error().message, "is too large; the most is 18446744073709551615B");
}

TEST(UnitsTest, SizesAreWrittenInTheirShortestUnit) {
  EXPECT_EQ(format_bytes({0}), "0B");
  EXPECT_EQ(format_bytes({8192}), "8KiB");
  EXPECT_EQ(format_bytes({64'000'000}), "64MB");
  EXPECT_EQ(format_bytes({1001}), "1001B");
  EXPECT_EQ(format_bytes({1UL << 40}), "1TiB");
}

TEST(UnitsTest, WhatIsWrittenIsReadBack) {
  EXPECT_EQ(parse_duration(format_duration(Duration::min())).value(), Duration::min());
  EXPECT_EQ(parse_duration(format_duration(Duration::max())).value(), Duration::max());
  Prng prng(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto bits = static_cast<int>(prng.below(64));
    const Duration duration(static_cast<std::int64_t>(prng.next() >> bits));
    ASSERT_EQ(parse_duration(format_duration(duration)).value(), duration);
    const ByteSize size{(prng.next() >> bits) << prng.below(20)};
    ASSERT_EQ(parse_bytes(format_bytes(size)).value(), size) << size.count;
  }
}

}  // namespace
}  // namespace rota

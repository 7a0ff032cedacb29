// Columns, not bytes (C-3).
#include "cli/terminal.h"

#include <gtest/gtest.h>

#include <string>

namespace rota::cli {
namespace {

TEST(DisplayWidth, WideAndCombiningCharacters) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("数据"), 4U);
  EXPECT_EQ(display_width("a\xcc\x81"), 1U);         // a with an accent.
  EXPECT_EQ(display_width("\xf0\x9f\x9a\x80"), 2U);  // A rocket.
  EXPECT_EQ(display_width("한글 x"), 6U);
}

// C-3: names are truncated in the middle, and never wider than asked for.
TEST(FitMiddle, KeepsBothEnds) {
  EXPECT_EQ(fit_middle("train[12]", 20), "train[12]");
  EXPECT_EQ(fit_middle("abcdefghijkl[12]", 10), "abcd..[12]");
  EXPECT_EQ(fit_middle("abcdef", 2), "ab");
  const std::string wide = "数据处理与分析任务[12]";
  for (std::size_t width = 0; width < 30; ++width) {
    EXPECT_LE(display_width(fit_middle(wide, width)), width);
    EXPECT_LE(display_width(fit_end(wide, width)), width);
  }
}

TEST(Padded, CountsColumns) {
  EXPECT_EQ(padded("数", 4), "数  ");
  EXPECT_EQ(padded_front("数", 4), "  数");
  EXPECT_EQ(padded("abcd", 2), "abcd");
}

TEST(Coloured, OnlyIfEscapesAreWelcome) {
  EXPECT_EQ(coloured("x", Colour::kRed, false), "x");
  EXPECT_EQ(coloured("x", Colour::kRed, true), "\x1b[31mx\x1b[0m");
}

}  // namespace
}  // namespace rota::cli

// The comparison of an example's output with its page's.
#include "run_example.h"

namespace {

using docs::matches;

TEST(RunExample, TheSameTextMatches) {
  EXPECT_TRUE(matches("", ""));
  EXPECT_TRUE(matches("a\nb\n", "a\nb\n"));
}

TEST(RunExample, AnotherTextDoesNot) {
  EXPECT_FALSE(matches("a\n", ""));
  EXPECT_FALSE(matches("", "a\n"));
  EXPECT_FALSE(matches("a", "a\n"));
  EXPECT_FALSE(matches("a\nb\n", "a\n"));
  EXPECT_FALSE(matches("a\n", "a\nb\n"));
  EXPECT_FALSE(matches("ab\n", "a\n"));
}

TEST(RunExample, DotsStandForAnythingWithinTheirLine) {
  EXPECT_TRUE(matches("hash 1f3a\n", "hash …\n"));
  EXPECT_TRUE(matches("from 1 to 2\n", "from … to …\n"));
  EXPECT_TRUE(matches("hash \n", "hash …\n"));
  EXPECT_FALSE(matches("from 1 till 2\n", "from … to …\n"));
  EXPECT_FALSE(matches("hash 1\nmore\n", "hash …\n"));
}

}  // namespace
